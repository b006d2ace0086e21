"""Transformations of gradients that remember nothing: clip, scale, decay, centralize, freeze.

Put them before a rule by ``chain``. They work in float32 at least, and leave rounding to what comes
after.

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
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.norms import length
from funcgrad.errors import ArgumentError, TreeError
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    check_number,
    check_numbers,
    flatten_params,
    making,
    scalar,
    widened,
    zeros,
)
from funcgrad.optim.rule import Mask, chosen
from funcgrad.tensor.tensor import Tensor, apply
from funcgrad.tree import norm

Change: TypeAlias = Callable[[list[Tensor], list[Tensor]], list[Tensor]]
"""From gradients and their parameters to other gradients."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientChange:
    """A function of gradients, from which an optimizer without a state is made.

    Attributes
    ----------
    name : str
        The function that users call, for errors.
    change : callable
    where : pattern, pytree of bool, or function from params to one, optional
        Which parameters it is for.
    """

    name: str
    change: Change
    where: Mask = None

    def optimizer(self) -> Optimizer[None]:
        """Make the optimizer."""

        def init(params: Pytree) -> None:
            _, structure = flatten_params(params, f"{self.name}.init")
            chosen(f"{self.name}.init", self.where, params, structure)

        def update(grads: Pytree, state: None, params: Pytree) -> tuple[Pytree, None]:
            operation = f"{self.name}.update"
            if state is not None:
                raise TreeError(
                    f"{operation}: the state is None, got {type(state).__name__}. The order is"
                    " update(grads, state, params)."
                )
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            flags = chosen(operation, self.where, params, structure)
            pairs = [
                (g, widened(leaf, leaf.dtype))
                for g, leaf, flag in zip(gs, leaves, flags, strict=True)
                if flag
            ]
            changed = iter(self.change([g for g, _ in pairs], [p for _, p in pairs]))
            mixed = [next(changed) if flag else g for g, flag in zip(gs, flags, strict=True)]
            return unflatten(structure, mixed), None

        return Optimizer(init, answering(update, f"{self.name}.update"), (), self)


@making
def clip(max_delta: ArrayLike) -> Optimizer[None]:
    """Clip each number of the gradients; a complex one keeps its direction.

    Parameters
    ----------
    max_delta : float or 0-d tensor
        The greatest magnitude.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        The number is negative.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> clip(1.0).update(tensor([3.0, -0.5, -2.0]), None, tensor([0.0, 0.0, 0.0]))[0]
    Tensor([ 1. , -0.5, -1. ])
    """
    check_number("clip", "max_delta", max_delta)
    return GradientChange("clip", partial(_clipped, max_delta)).optimizer()


def _clipped(most: ArrayLike, gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [
        fnp.where(abs(g) > most, fnp.sign(g) * scalar(most, g), g)
        if g.dtype.kind == "c"
        else fnp.clip(g, -scalar(most, g), scalar(most, g))
        for g in gs
    ]


@making
def clip_by_norm(max_norm: ArrayLike, per: str = "tree", eps: ArrayLike = 1e-3) -> Optimizer[None]:
    """Shorten gradients that are too long, without a change of their direction.

    An infinite gradient becomes the direction of its infinite numbers, and a zero gradient stays
    as it is: neither becomes NaN.

    Parameters
    ----------
    max_norm : float or 0-d tensor
        The greatest norm.
    per : {"tree", "leaf", "unit"}
        Whether the norm is that of all gradients together, of each leaf, or of each unit of a leaf,
        where it is counted in norms of the same unit of the parameter (adaptive clipping). A unit
        is a column of a matrix, and all but the last axis of a kernel with 4 axes or more.
    eps : float or 0-d tensor
        The least norm of a unit of a parameter that is counted in.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``per`` is another word.

    Notes
    -----
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
    check_numbers("clip_by_norm", max_norm=max_norm, eps=eps)
    changes = {"tree": _shorter_tree, "leaf": _shorter_leaves}
    if isinstance(per, str) and per == "unit":
        return GradientChange("clip_by_norm", partial(_shorter_units, max_norm, eps)).optimizer()
    if not isinstance(per, str) or per not in changes:
        raise ArgumentError(f"clip_by_norm: per is 'tree', 'leaf' or 'unit', got {per!r}.")
    return GradientChange("clip_by_norm", partial(changes[per], max_norm)).optimizer()


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


def _shorter_tree(most: ArrayLike, gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    if not gs:
        return []
    size = norm(gs)
    top = fnp.max(fnp.stack([fnp.max(abs(g), initial=0.0) for g in gs]))
    tamed = [_tamed(g, top, fnp.isinf(size)) for g in gs]
    factor = _factor(size, most, norm(tamed))
    return [g * scalar(factor, g) for g in tamed]


def _shorter_leaves(most: ArrayLike, gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [_shorter_tree(most, [g], [])[0] for g in gs]


def _axes_of_units(x: Tensor) -> tuple[int, ...]:
    if sum(size != 1 for size in x.shape) <= 1:
        return tuple(range(x.ndim))
    return (0,) if x.ndim <= 3 else tuple(range(x.ndim - 1))


def _unit_norm(x: Tensor) -> Tensor:
    axes = _axes_of_units(x)
    return apply(length, x, axis=axes, keepdims=True) if axes else abs(x)


def _shorter_units(
    most: ArrayLike, eps: ArrayLike, gs: list[Tensor], ps: list[Tensor]
) -> list[Tensor]:
    shorter = []
    for g, p in zip(gs, ps, strict=True):
        bound = scalar(most, p) * fnp.maximum(_unit_norm(p), scalar(eps, p))
        size = _unit_norm(g)
        top = fnp.max(abs(g), axis=_axes_of_units(g), keepdims=True, initial=0.0)
        tamed = _tamed(g, top, fnp.isinf(size))
        shorter.append(tamed * _factor(size, bound, _unit_norm(tamed)))
    return shorter


@making
def scale(factor: ArrayLike) -> Optimizer[None]:
    """Multiply gradients by a number.

    Parameters
    ----------
    factor : float or 0-d tensor
        With a negative one, updates descend.

    Returns
    -------
    Optimizer

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> scale(-0.5).update(tensor(4.0), None, tensor(0.0))[0]
    Tensor(-2.0)
    """
    check_number("scale", "factor", abs(factor) if isinstance(factor, (int, float)) else factor)
    return GradientChange("scale", partial(_scaled, factor)).optimizer()


def _scaled(factor: ArrayLike, gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [g * scalar(factor, g) for g in gs]


@making
def add_weight_decay(weight_decay: ArrayLike, mask: Mask = None) -> Optimizer[None]:
    """Add a fraction of the parameters to their gradients: a penalty of squares in the loss.

    Parameters
    ----------
    weight_decay : float or 0-d tensor
    mask : pattern, pytree of bool, or function from params to one, optional
        Which parameters decay, all by default; a pattern is one of ``fg.tree.partition``.

    Returns
    -------
    Optimizer

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
    check_number("add_weight_decay", "weight_decay", weight_decay)
    change = partial(_decayed, weight_decay)
    return GradientChange("add_weight_decay", change, mask).optimizer()


def _decayed(decay: ArrayLike, gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [g + scalar(decay, p) * p for g, p in zip(gs, ps, strict=True)]


@making
def centralize() -> Optimizer[None]:
    """Subtract its mean over all axes but the last from each gradient with two axes or more.

    Returns
    -------
    Optimizer

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
    return GradientChange("centralize", _centralized).optimizer()


def _centralized(gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [
        g - fnp.mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True) if _has_units(g) else g
        for g in gs
    ]


def _has_units(g: Tensor) -> bool:
    return g.ndim > 1 and prod(g.shape) > 0


@making
def freeze(where: Mask) -> Optimizer[None]:
    """Set the gradients, or the updates, of some parameters to zero.

    Put it last in a chain. ``fg.tree.partition`` before ``grad`` spares their computation too.

    Parameters
    ----------
    where : pattern, pytree of bool, or function from params to one
        Which parameters stay as they are; a pattern is one of ``fg.tree.partition``.

    Returns
    -------
    Optimizer

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
    return GradientChange("freeze", _frozen, where).optimizer()


def _frozen(gs: list[Tensor], ps: list[Tensor]) -> list[Tensor]:
    return [zeros(g) for g in gs]
