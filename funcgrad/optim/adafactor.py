"""Adafactor: a matrix of mean squares is kept as the means of its rows and of its columns.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adafactor(0.1, min_dim_size_to_factor=2)
>>> params = {"matrix": tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), "vector": tensor([1.0, 2.0])}
>>> state = optimizer.init(params)
>>> state.v_row["matrix"].shape, state.v_col["matrix"].shape, state.v["matrix"]
((2,), (3,), None)
>>> state.v_row["vector"], state.v["vector"].shape
(None, (2,))
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad._core.specs import Shape
from funcgrad._primitives.norms import length
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import LearningRate, Optimizer, Pytree, mean, scalar, square, zeros
from funcgrad.optim.option_types import Count, Share, Size, making
from funcgrad.optim.rule import LeafRule, Leafwise, Mask, Memory, Step
from funcgrad.tensor.tensor import Tensor, apply


@pytree(slots=True)
class AdafactorState:
    """The state of ``adafactor``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    v_row, v_col : pytrees of tensors
        The decaying means of squares along the longest axis and along the second longest; None
        where a parameter is not factored, and None for a tree without any tensor.
    v : pytree of tensors
        The decaying means of squares of the other parameters; None where a parameter is factored.
    mu : pytree of tensors, or None
        With ``momentum`` the decaying mean of the steps.
    """

    count: Tensor
    v_row: Pytree
    v_col: Pytree
    v: Pytree
    mu: Pytree
    rate: Tensor


@making
def adafactor(
    learning_rate: LearningRate = 1.0,
    min_dim_size_to_factor: Count = 128,
    decay_rate: Size = 0.8,
    decay_offset: Size = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: Size | None = 1.0,
    momentum: Share | None = None,
    weight_decay_rate: Size = 0.0,
    eps: Size = 1e-30,
    factored: bool = True,
    weight_decay_mask: Mask = None,
) -> Optimizer[AdafactorState]:
    """Adafactor: scale steps as RMSProp does, with little memory for matrices.

    For a matrix of m rows and n columns the state holds m + n means of squares, and not m n. So it
    suits models that hardly fit into memory. The defaults need no learning rate: a step has about
    the size of its parameter.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        See ``sgd``. With ``multiply_by_parameter_scale`` it is counted in sizes of parameters.
    min_dim_size_to_factor : int
        A parameter is factored along its two longest axes if both are at least as long.
    decay_rate : float or 0-d tensor
        The mean of squares decays by ``1 - n ** -decay_rate`` in step n.
    decay_offset : int or 0-d tensor
        The number of steps to count n from, for a fine-tuning that goes on with a state.
    multiply_by_parameter_scale : bool
        Whether a step is multiplied by the root mean square of its parameter, or by 0.001 if that
        is greater.
    clipping_threshold : float or 0-d tensor, optional
        The greatest root mean square of a direction; None for no bound.
    momentum : float or 0-d tensor, optional
        The decay rate of the mean of steps, below 1; None for no such mean.
    weight_decay_rate : float or 0-d tensor
        The fraction of each parameter that a step subtracts, whatever the learning rate.
    eps : float or 0-d tensor
        A number that is added to each square.
    factored : bool
        Whether any parameter is factored.
    weight_decay_mask : pytree of bool, pattern, or function from params to one, optional
        Which parameters decay, all by default.

    Notes
    -----
    With gradient g, step n and the means R and C of a matrix's rows and columns::

        b = 1 - n ** -decay_rate              S = |g|² + eps
        R' = b R + (1 - b) mean of rows(S)    C' = b C + (1 - b) mean of columns(S)
        u = g / sqrt(R' C' / mean(R'))        u = u / max(1, rms(u) / clipping_threshold)
        update = -(rate max(rms(p), 0.001) u + weight_decay_rate p)

    Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018, as
    in optax. Each matrix of a stack has its own means. PyTorch's ``Adafactor`` factors the last two
    axes of any length, multiplies the decay by the rate, and bounds the rate by one over the root
    of n, which a schedule does here. Complex parameters count by their magnitudes; PyTorch refuses
    them. A square that overflows makes the update zero.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = adafactor(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 0.05
    Tensor(True)
    """
    if not isinstance(clipping_threshold, Tensor) and clipping_threshold == 0:
        raise ArgumentError(
            "adafactor: clipping_threshold has to be above 0, or None for no bound, got 0."
        )
    least = min_dim_size_to_factor if factored else None

    def start(p: Tensor) -> tuple[Memory, ...]:
        return (*_first_means(p, least), zeros(p) if momentum is not None else None)

    def direction(step: Step) -> Leafwise:
        n = fnp.maximum(step.count - decay_offset, 1)
        decay = 1 - (1.0 * n) ** -decay_rate

        def of_leaf(
            g: Tensor, p: Tensor, v_row: Memory, v_col: Memory, v: Memory, mu: Memory
        ) -> tuple[Memory, ...]:
            squares = square(g)
            squares = squares + scalar(eps, squares)
            axes = _factored_axes(g.shape, least)
            if axes is not None and v_row is not None and v_col is not None:
                u, v_row, v_col = _factored(decay, g, squares, v_row, v_col, axes)
            else:
                v = mean(decay, v, squares)  # type: ignore[arg-type]  # the one that there is
                u = g / fnp.sqrt(v)
            if clipping_threshold is not None:
                size = _root_mean_square(u)
                u = u / scalar(fnp.maximum(1.0, size / clipping_threshold), u)
            u = u * scalar(step.rate, u)
            if multiply_by_parameter_scale:
                u = u * fnp.maximum(_root_mean_square(p), 1e-3)
            if mu is not None and momentum is not None:
                u = mu = mean(momentum, mu, u)
            return u, v_row, v_col, v, mu

        return of_leaf

    return LeafRule(
        "adafactor",
        AdafactorState,
        learning_rate,
        start,
        direction,
        weight_decay_rate,
        weight_decay_mask,
        like_params=False,
        has_rate=True,
    ).optimizer()


def _factored_axes(shape: Shape, least: int | None) -> tuple[int, int] | None:
    """The second longest and the longest axis; None if a parameter is not factored.

    >>> _factored_axes((3, 128, 200), 128), _factored_axes((3, 100, 200), 128)
    ((1, 2), None)
    """
    if least is None or len(shape) < 2:
        return None
    *_, second, longest = sorted(range(len(shape)), key=shape.__getitem__)
    return (second, longest) if shape[second] >= least else None


def _first_means(p: Tensor, least: int | None) -> tuple[Memory, Memory, Memory]:
    axes = _factored_axes(p.shape, least)
    if axes is None:
        return None, None, zeros(p, real=True)
    second, longest = (_zeros_without(p, axis) for axis in axes)
    return longest, second, None


def _zeros_without(p: Tensor, axis: int) -> Tensor:
    shape = p.shape[:axis] + p.shape[axis + 1 :]
    return fnp.zeros_like(p, p.real.dtype, shape=shape)


def _factored(
    decay: Tensor, g: Tensor, squares: Tensor, v_row: Tensor, v_col: Tensor, axes: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The direction of a factored parameter, and the next means of rows and columns."""
    second, longest = axes
    v_row = mean(decay, v_row, fnp.mean(squares, axis=longest))
    v_col = mean(decay, v_col, fnp.mean(squares, axis=second))
    rows, columns = fnp.expand_dims(v_row, longest), fnp.expand_dims(v_col, second)
    total = fnp.mean(rows, axis=second, keepdims=True)
    is_finite = fnp.isfinite(total)  # an infinite one over an infinite one is NaN
    safe = fnp.where(is_finite, rows, 1.0) / fnp.where(is_finite, total, 1.0)
    factor = fnp.where(is_finite, 1 / fnp.sqrt(safe), 0.0)
    return g * factor / fnp.sqrt(columns), v_row, v_col


def _root_mean_square(x: Tensor) -> Tensor:
    size = apply(length, x, axis=tuple(range(x.ndim)), keepdims=False) if x.ndim else abs(x)
    return size / max(x.size, 1) ** 0.5
