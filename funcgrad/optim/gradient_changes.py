"""Transformations of gradients that remember nothing: clip, scale, decay, centralize, freeze.

Put them before a rule by ``chain``. They work in float32 at least; the rule rounds.

>>> from funcgrad.tensor.tensor import tensor
>>> update = clip(1.0).update
>>> update([tensor([4.0, -0.5])], None, [tensor([0.0, 0.0])])[0]
[Tensor([ 1. , -0.5])]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TypeAlias

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.norms import length
from funcgrad.errors import ArgumentError, TreeError
from funcgrad.optim.base import Optimizer, Pytree, flattened, scalar, widened, zeros
from funcgrad.optim.option_types import Size, check_number, making
from funcgrad.optim.rule import Mask, chosen
from funcgrad.tensor.tensor import Tensor, apply
from funcgrad.tree import norm

Change: TypeAlias = Callable[[list[Tensor], list[Tensor]], list[Tensor]]
"""From gradients and their parameters to other gradients."""


def _changing(name: str, change: Change, where: Mask = None) -> Optimizer[None]:
    """Make an optimizer without a state that changes the gradients of some parameters.

    Parameters
    ----------
    name : str
        The function that users call, for errors.
    change : callable
    where : pattern, pytree of bool, or function from params to one, optional
        Which parameters it is for.
    """

    def init(params: Pytree) -> None:
        structure, _ = flattened(f"{name}.init", params)
        chosen(f"{name}.init", where, params, structure)

    def update(grads: Pytree, state: None, params: Pytree) -> tuple[Pytree, None]:
        operation = f"{name}.update"
        if state is not None:
            raise TreeError(
                f"{operation}: the state is None, got {type(state).__name__}. The order is"
                " update(grads, state, params)."
            )
        structure, leaves, gs = flattened(operation, params, {"grads": grads})
        flags = chosen(operation, where, params, structure)
        trios = zip(gs, leaves, flags, strict=True)
        pairs = [(g, widened(leaf)) for g, leaf, flag in trios if flag]
        changed = iter(change([g for g, _ in pairs], [p for _, p in pairs]))
        mixed = [next(changed) if flag else g for g, flag in zip(gs, flags, strict=True)]
        return unflatten(structure, mixed), None

    return Optimizer(init, update)


@making
def clip(max_delta: Size) -> Optimizer[None]:
    """Clip the magnitude of each element of the gradients.

    Single large elements, for example from a rare outlier, lose their weight; the direction of the
    gradient changes. ``clip_by_norm`` preserves the direction. A complex element keeps its phase.

    Parameters
    ----------
    max_delta : float or 0-d tensor
        The greatest magnitude, not negative.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> clip(1.0).update(tensor([3.0, -0.5, -2.0]), None, tensor([0.0, 0.0, 0.0]))[0]
    Tensor([ 1. , -0.5, -1. ])
    """

    def clipped(g: Tensor) -> Tensor:
        most = scalar(max_delta, g)
        if g.dtype.kind == "c":
            return fnp.where(abs(g) > max_delta, fnp.sign(g) * most, g)
        return fnp.clip(g, -most, most)

    return _changing("clip", lambda gs, ps: [clipped(g) for g in gs])


@making
def clip_by_norm(max_norm: Size, per: str = "tree", eps: Size = 1e-3) -> Optimizer[None]:
    """Clip the norm of the gradients, and preserve their direction.

    A single steep point of the objective can throw parameters far away. Recurrent networks and
    transformers are trained with a maximum norm, often 1. An infinite gradient becomes the
    direction of its infinite numbers, and a zero gradient stays zero: neither becomes NaN.

    Parameters
    ----------
    max_norm : float or 0-d tensor
        The maximum norm.
    per : {"tree", "leaf", "unit"}
        Take the norm of all gradients together, of each leaf, or of each unit of a leaf. The norm
        of a unit is counted in norms of the same unit of the parameter (adaptive clipping). A unit
        is a column of a matrix, and all but the last axis of a kernel with 4 axes or more.
    eps : float or 0-d tensor
        The least norm of a unit of a parameter to count in.

    Raises
    ------
    ArgumentError
        ``per`` is not one of these words.

    Notes
    -----
    A gradient g with the norm n becomes ``g min(1, max_norm / n)``.
    Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013;
    Brock, De, Smith, Simonyan, "High-performance large-scale image recognition without
    normalization", ICML 2021, section 4. As ``clip_by_global_norm``, ``clip_by_block_norm`` and
    ``adaptive_grad_clip`` in optax.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> grads, params = (tensor([6.0]), tensor([8.0])), (tensor([1.0]), tensor([1.0]))
    >>> clip_by_norm(5.0).update(grads, None, params)[0]
    (Tensor([3.]), Tensor([4.]))
    """
    changes: dict[str, Change] = {
        "tree": lambda gs, ps: _shorter_tree(max_norm, gs),
        "leaf": lambda gs, ps: [_shorter_tree(max_norm, [g])[0] for g in gs],
        "unit": lambda gs, ps: list(map(partial(_shorter_units, max_norm, eps), gs, ps)),
    }
    if not isinstance(per, str) or per not in changes:
        raise ArgumentError(f"clip_by_norm: per is 'tree', 'leaf' or 'unit', got {per!r}.")
    return _changing("clip_by_norm", changes[per])


def _tamed(g: Tensor, top: Tensor, is_infinite: Tensor) -> Tensor:
    """A gradient of finite norm, in the direction of one whose norm is infinite.

    The greatest magnitude, ``top``, is infinite too, or only the norm is.
    """
    signs = fnp.where(fnp.isinf(g), fnp.sign(g), 0.0)
    small = g / scalar(fnp.where(is_infinite & fnp.isfinite(top), top, 1.0), g)
    return fnp.where(is_infinite, fnp.where(fnp.isinf(top), signs, small), g)


def _factor(size: Tensor, bound: ArrayLike, tamed_size: Tensor) -> Tensor:
    is_long = size > bound
    return fnp.where(is_long, bound / fnp.where(is_long, tamed_size, 1.0), 1.0)


def _shorter_tree(most: ArrayLike, gs: list[Tensor]) -> list[Tensor]:
    if not gs:
        return []
    size = norm(gs)
    top = fnp.max(fnp.stack([fnp.max(abs(g), initial=0.0) for g in gs]))
    tamed = [_tamed(g, top, fnp.isinf(size)) for g in gs]
    factor = _factor(size, most, norm(tamed))
    return [g * scalar(factor, g) for g in tamed]


def _axes_of_units(x: Tensor) -> tuple[int, ...]:
    if sum(size != 1 for size in x.shape) <= 1:
        return tuple(range(x.ndim))
    return (0,) if x.ndim <= 3 else tuple(range(x.ndim - 1))


def _unit_norm(x: Tensor) -> Tensor:
    axes = _axes_of_units(x)
    return apply(length, x, axis=axes, keepdims=True) if axes else abs(x)


def _shorter_units(most: ArrayLike, eps: ArrayLike, g: Tensor, p: Tensor) -> Tensor:
    bound = scalar(most, p) * fnp.maximum(_unit_norm(p), scalar(eps, p))
    size = _unit_norm(g)
    top = fnp.max(abs(g), axis=_axes_of_units(g), keepdims=True, initial=0.0)
    tamed = _tamed(g, top, fnp.isinf(size))
    return tamed * _factor(size, bound, _unit_norm(tamed))


@making
def scale(factor: ArrayLike) -> Optimizer[None]:
    """Multiply gradients by a number.

    ``scale(-rate)`` after ``trace`` or ``ema`` turns them into an optimizer that descends.

    Parameters
    ----------
    factor : float or 0-d tensor
        A negative factor makes updates that descend.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> scale(-0.5).update(tensor(4.0), None, tensor(0.0))[0]
    Tensor(-2.0)
    """
    check_number("scale", "factor", abs(factor) if isinstance(factor, (int, float)) else factor)
    return _changing("scale", lambda gs, ps: [g * scalar(factor, g) for g in gs])


@making
def add_weight_decay(weight_decay: Size, mask: Mask = None) -> Optimizer[None]:
    """Add a fraction of the parameters to their gradients.

    Before an optimizer this is the gradient of a penalty in the loss: half of ``weight_decay``
    times the sum of squares. Adam divides such a penalty by its root; the decay of ``adamw`` is not
    divided.

    Parameters
    ----------
    weight_decay : float or 0-d tensor
        The fraction.
    mask : pattern, pytree of bool, or function from params to one, optional
        Which parameters decay, all by default; a pattern is one of ``fg.tree.partition``.

    Raises
    ------
    ArgumentError
        The number is negative.
    TreeError
        The pattern matches no parameter.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"w": tensor(2.0), "b": tensor(2.0)}
    >>> add_weight_decay(0.5, mask="w").update(params, None, params)[0]
    {'b': Tensor(2.0), 'w': Tensor(3.0)}
    """

    def decayed(g: Tensor, p: Tensor) -> Tensor:
        return g + scalar(weight_decay, p) * p

    return _changing("add_weight_decay", lambda gs, ps: list(map(decayed, gs, ps)), mask)


@making
def centralize() -> Optimizer[None]:
    """Subtract the mean from each gradient that has two or more axes.

    The mean is over all axes but the last. Centralized gradients regularize a network's weights,
    and often speed training up.

    Notes
    -----
    Yong, Huang, Hua, Zhang, "Gradient centralization", ECCV 2020. Weights here have their outputs
    on the last axis; ``optax.centralize`` takes the mean over all axes but the first.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> grads = tensor([[1.0, 2.0], [3.0, 6.0]])
    >>> centralize().update(grads, None, grads)[0]
    Tensor([[-1., -2.],
            [ 1.,  2.]])
    """

    def centralized(g: Tensor) -> Tensor:
        if g.ndim < 2 or prod(g.shape) == 0:
            return g
        return g - fnp.mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True)

    return _changing("centralize", lambda gs, ps: [centralized(g) for g in gs])


@making
def freeze(where: Mask) -> Optimizer[None]:
    """Set the gradients, or the updates, of some parameters to zero.

    So a part of a pretrained model stays as it is. Put ``freeze`` last in a chain.
    ``fg.tree.partition`` before ``grad`` spares the computation of the gradients, too.

    Parameters
    ----------
    where : pattern, pytree of bool, or function from params to one
        Which parameters stay unchanged; a pattern is one of ``fg.tree.partition``.

    Raises
    ------
    ArgumentError
        Nothing is chosen.
    TreeError
        The pattern matches no parameter.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"body": tensor(2.0), "head": tensor(2.0)}
    >>> freeze("body").update(params, None, params)[0]
    {'body': Tensor(0.0), 'head': Tensor(2.0)}
    """
    if where is None:
        raise ArgumentError("freeze: expected a pattern or a mask, as freeze('encoder.*').")
    return _changing("freeze", lambda gs, ps: [zeros(g) for g in gs], where)
