"""Parts that losses share: pairs of arrays, labels, numeric options, and masks.

>>> counted = mask_of("squared_error", [True, False], (2,))
>>> masked(wrap(np.array([1.0, np.nan])), counted)
Tensor([1., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, concrete, device_below
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap


def pair_of(operation: str, names: tuple[str, str], x: ArrayLike, y: ArrayLike) -> list[Tensor]:
    """Convert two real arrays of one shape to their common precision.

    Raises
    ------
    ShapeError
        The shapes differ.
    """
    first, second = real_numbers(operation, x, y)
    check_equal_shapes(operation, names, first, second)
    return [first, second]


def scores_and_labels(
    operation: str, names: tuple[str, str], scores: ArrayLike, labels: ArrayLike
) -> list[Tensor]:
    """Convert scores and labels of one shape; integer labels take the precision of the scores.

    Raises
    ------
    ShapeError
        The shapes differ.
    """
    value = operand(labels, operation)
    if dtype_of(value).kind not in "iub":
        return pair_of(operation, names, scores, value)
    (first,) = real_numbers(operation, scores)
    second = wrap(cast(value, dtype=first.dtype))
    check_equal_shapes(operation, names, first, second)
    return [first, second]


def check_equal_shapes(operation: str, names: tuple[str, str], x: Tensor, y: Tensor) -> None:
    """Check that two shapes are equal.

    Raises
    ------
    ShapeError
        The shapes differ.
    """
    if x.shape != y.shape:
        raise ShapeError(
            f"{operation}: the {names[0]}' shape {x.shape} and the {names[1]}' shape {y.shape}"
            " differ; reshape one of them, or stretch it with fnp.broadcast_to."
        )


def class_labels(operation: str, labels: ArrayLike) -> Tensor:
    """Convert labels that are indices of classes.

    Raises
    ------
    DtypeError
        The labels are not integers.
    """
    value = operand(labels, operation)
    if dtype_of(value).kind not in "iu":
        raise DtypeError(
            f"{operation}: labels have to be integers, the indices of the right classes, got"
            f" {dtype_of(value)}. Convert them by .astype(int), or one-hot rows by"
            " fnp.argmax(labels, axis=-1)."
        )
    return wrap(value)


def check_classes(operation: str, labels: Tensor, classes: int, hint: str = "") -> Tensor:
    """Check labels, inside ``jit`` and ``vmap`` when the program runs; return them.

    Raises
    ------
    ArgumentError, ConditionError
        A label is out of range.
    """
    raw = concrete(labels)
    bounds = f"{operation}: labels have to be from 0 to {classes - 1}"
    if device_below(raw) is not None:
        return labels
    if type(raw) not in RAW:
        is_class = (labels >= 0) & (labels < classes)
        more = f";{hint[:2].lower()}{hint[2:].rstrip('.')}" if hint else ""
        check_when_run(is_class, bounds + more, label=labels)
        return masked(labels, is_class)  # so that no earlier operation refuses them
    if np.size(raw) and not 0 <= np.min(raw) <= np.max(raw) < classes:
        raise ArgumentError(f"{bounds}, got labels from {np.min(raw)} to {np.max(raw)}.{hint}")
    return labels


def check_when_run(condition: Tensor, message: str, **values: Tensor) -> None:
    """Check arguments whose values are not known yet, by ``fg.debug.check``; not on a device, since
    each call would wait for it."""
    from funcgrad.debug.checks import check_argument  # loaded for traced arguments only

    if device_below(condition) is None:
        check_argument(condition, message, **values)


def parameter(
    operation: str,
    name: str,
    value: ArrayLike,
    like: Tensor,
    least: float = 0.0,
    most: float = np.inf,
    *,
    open_below: bool = False,
) -> Tensor:
    """Convert an option that is one real number, in the precision of a tensor; it may be traced.

    Raises
    ------
    DtypeError
        The option is not a real number.
    ArgumentError
        The number is out of bounds.
    """
    number = operand(value, operation)
    if shape_of(number) or dtype_of(number).kind not in "fiu":
        raise DtypeError(f"{operation}: {name} has to be one real number, got {value!r}.")
    raw = concrete(number)
    if type(raw) in RAW and not (least < raw if open_below else least <= raw) & (raw <= most):
        bound = f"greater than {least:g}" if open_below else f"at least {least:g}"
        bound += f" and at most {most:g}" if most < np.inf else ""
        raise ArgumentError(f"{operation}: {name} has to be {bound}, got {raw!r}.")
    return wrap(cast(number, dtype=like.dtype))


def mask_of(operation: str, where: ArrayLike | None, shape: Shape) -> Tensor | None:
    """Check a mask of the losses that count; None if all count.

    Raises
    ------
    DtypeError
        The mask is not boolean.
    ShapeError
        The mask does not broadcast to the shape of the losses.
    """
    if where is None:
        return None
    mask = operand(where, operation)
    if dtype_of(mask).kind != "b":
        raise DtypeError(
            f"{operation}: where has to be boolean, got {dtype_of(mask)}. Write mask > 0,"
            " or multiply the losses by weights."
        )
    try:
        fits = np.broadcast_shapes(shape_of(mask), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{operation}: the mask where= of shape {shape_of(mask)} does not broadcast to {shape},"
            " the shape of the result."
        )
    return fnp.broadcast_to(mask, shape)


def masked(x: Tensor, counted: Tensor | None) -> Tensor:
    """Put 0 where an element does not count: in the arguments of a loss, and in its result.

    In the arguments it keeps masked NaN and infinities out of the loss; in the result it makes the
    masked losses 0. Both have the derivative 0 there.
    """
    if counted is None:
        return x
    return fnp.where(counted, x, np.zeros((), x.dtype))


def widened_mask(counted: Tensor | None, axis: int | tuple[int, ...]) -> Any:
    """Give a mask of examples an axis of size 1 for each further axis of the examples."""
    return None if counted is None else fnp.expand_dims(counted, axis)
