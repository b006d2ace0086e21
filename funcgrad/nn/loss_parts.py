"""Parts that losses share: pairs of arrays, labels, options that are numbers, and masks.

>>> counted = mask_of("squared_error", [True, False], (2,))
>>> masked(wrap(np.array([1.0, np.nan])), counted)
Tensor([1., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap


def pair_of(operation: str, names: tuple[str, str], x: ArrayLike, y: ArrayLike) -> list[Tensor]:
    """Two real arrays of one shape, in their common precision.

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
    """Scores and labels of one shape; labels that are integers take the precision of the scores.

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
        They differ.
    """
    if x.shape != y.shape:
        raise ShapeError(
            f"{operation}: the {names[0]}' shape {x.shape} and the {names[1]}' shape {y.shape}"
            " differ; reshape one of them, or stretch it by fnp.broadcast_to."
        )


def class_labels(operation: str, labels: ArrayLike) -> Tensor:
    """Labels that are numbers of classes.

    Raises
    ------
    DtypeError
        They are no integers.
    """
    value = operand(labels, operation)
    if dtype_of(value).kind not in "iu":
        raise DtypeError(
            f"{operation}: labels have to be integers, the numbers of the right classes, got"
            f" {dtype_of(value)}. Convert them by .astype(int), or one-hot rows by"
            " fnp.argmax(labels, axis=-1)."
        )
    return wrap(value)


def check_classes(operation: str, labels: Tensor, classes: int, hint: str = "") -> Tensor:
    """Check labels; those of a program or a batch as it runs. Return them.

    Raises
    ------
    ArgumentError, ConditionError
        A label names no class.
    """
    raw = concrete(labels)
    bounds = f"{operation}: labels have to be from 0 to {classes - 1}"
    if type(raw) not in RAW:
        is_class = (labels >= 0) & (labels < classes)
        more = f";{hint[:2].lower()}{hint[2:].rstrip('.')}" if hint else ""
        check_when_run(is_class, bounds + more, label=labels)
        return masked(labels, is_class)  # so that no operation refuses them earlier
    if np.size(raw) and not 0 <= np.min(raw) <= np.max(raw) < classes:
        raise ArgumentError(f"{bounds}, got labels from {np.min(raw)} to {np.max(raw)}.{hint}")
    return labels


def check_when_run(condition: Tensor, message: str, **values: Tensor) -> None:
    """Check arguments whose values are not known yet, as ``fg.debug.check`` does."""
    from funcgrad.debug.checks import check  # loaded by what is traced only

    check(condition, message, **values)


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
    """An option that is one real number, in the precision of a tensor; it may be traced.

    Raises
    ------
    DtypeError
        The option is no real number.
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
    """A mask of the numbers of a shape that count, or None if all do.

    Raises
    ------
    DtypeError
        The mask is not of truth values.
    ShapeError
        It does not broadcast to the shape.
    """
    if where is None:
        return None
    mask = operand(where, operation)
    if dtype_of(mask).kind != "b":
        raise DtypeError(
            f"{operation}: where has to be of truth values, got {dtype_of(mask)}. Write mask > 0,"
            " or multiply the losses by weights."
        )
    try:
        fits = np.broadcast_shapes(shape_of(mask), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{operation}: the mask where= of shape {shape_of(mask)} does not broadcast to {shape},"
            " the shape of the numbers of which it says whether they count."
        )
    return fnp.broadcast_to(mask, shape)


def masked(x: Tensor, counted: Tensor | None) -> Tensor:
    """Put 0 where a number does not count: before a loss for its arguments, and behind it.

    The first of the two keeps what is masked, NaN or infinite, out of the loss, and the second has
    its value be 0. Neither has a derivative there.
    """
    if counted is None:
        return x
    return fnp.where(counted, x, np.zeros((), x.dtype))


def widened_mask(counted: Tensor | None, axis: int | tuple[int, ...]) -> Any:
    """A mask of examples, with an axis of size 1 where the examples have further axes."""
    return None if counted is None else fnp.expand_dims(counted, axis)
