"""Random numbers from keys, shared by ``funcgrad.random`` and ``funcgrad.nn``.

The input is a key, a uint64 tensor of shape (2,), and a shape. The output is random words, or
samples of standard distributions. Keys and shapes are checked here; errors name the function that
was called.

>>> from funcgrad.tensor.tensor import tensor
>>> key = tensor([1, 2], dtype="uint64")
>>> standard_uniform(key, (2,), np.dtype("float64"), "uniform")
Tensor([0.27731247, 0.28875498])
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import DTYPES, Shape, ShapeLike, dtype_of, shape_of
from funcgrad._core.trace import RAW, Value, concrete, running_traces
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hooks.key_uses import KEY_USES, current_uses, testify
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.logic import bitwise_or
from funcgrad._primitives.random_bits import (
    BITS,
    SPLIT,
    bits_to_normal,
    bits_to_uniform,
    fold_key,
    random_bits,
)
from funcgrad._primitives.structural import cast, reshape
from funcgrad._transforms.active_examples import active_mask, batches_of
from funcgrad._transforms.stager import Stager
from funcgrad.errors import DtypeError, LeafError, ShapeError
from funcgrad.numpy.options import shape_argument
from funcgrad.tensor.tensor import Tensor, apply

_MOST_ELEMENTS: Final = 2**48


def as_key(key: ArrayLike, operation: str) -> Value:
    """Check a key, and return its value.

    Raises
    ------
    DtypeError
        The key is not a uint64 array.
    ShapeError
        The key is an array of several keys.
    """
    remedy = "Make a key with fg.random.key(seed)."
    try:
        value = operand(key, operation)
    except LeafError:
        raise DtypeError(f"{operation}: {key!r} is not a key. {remedy}") from None
    if dtype_of(value) != np.uint64:
        raise DtypeError(
            f"{operation}: the key, the first argument, has to be a uint64 tensor of shape (2,),"
            f" got {type(key).__name__} {dtype_of(value)}{list(shape_of(value))}. {remedy}"
        )
    if shape_of(value) == (2,):
        return value
    many = len(shape_of(value)) > 1 and shape_of(value)[-1] == 2
    raise ShapeError(
        f"{operation}: the key has to be of shape (2,), got {shape_of(value)}. "
        + ("For one result for each of several keys, use fg.vmap." if many else remedy)
    )


def as_shape(shape: ShapeLike, operation: str) -> Shape:
    """Convert a shape to a tuple; an integer means one axis.

    Raises
    ------
    ShapeError
        The shape is neither an integer nor a sequence of integers, or a size is negative, or the
        elements would exceed the address space.
    """
    sizes = shape_argument(shape, operation)
    if math.prod(size or 1 for size in sizes) > _MOST_ELEMENTS:
        raise ShapeError(f"{operation}: an array of shape {sizes} exceeds the address space.")
    return sizes


def as_dtype(dtype: DTypeLike, kinds: str, operation: str, key: ArrayLike) -> np.dtype[Any]:
    """Check that a dtype has one of NumPy's kinds: ``"f"`` real, ``"c"`` complex, ``"iu"``.

    Raises
    ------
    DtypeError
        The dtype is of another kind; or the key was forgotten, so that arguments have shifted.
    """
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        as_key(key, operation)
        raise DtypeError(f"{operation}: {dtype!r} is not a dtype.") from None
    if wanted.kind not in kinds or wanted not in DTYPES:
        names = {
            "f": "float16, float32 or float64",
            "c": "complex64 or complex128",
            "i": "an integer",
        }
        choices = ", or ".join(names[kind] for kind in kinds if kind in names)
        raise DtypeError(f"{operation}: the dtype has to be {choices}, got {wanted}.")
    return wanted


def random_words(
    key: ArrayLike, shape: Shape, operation: str, stream: int = BITS, repeats: bool = False
) -> Tensor:
    """Uniformly distributed uint64 words: the first of a stream of the key, in any shape.

    ``random.check_keys`` counts this as a use of the key, unless it ``repeats`` on purpose, as in
    ``sobol``.
    """
    value = as_key(key, operation)
    if repeats:
        value = apart(value)
    words: Tensor = apply(random_bits, value, shape=shape, stream=stream)
    if KEY_USES.get() is not None and words.size and not repeats:
        _note(operation, value, words, stream)
    return words


def folded_key(key: ArrayLike, number: Value, operation: str) -> Tensor:
    """Make a key from a key and an integer."""
    value = as_key(key, operation)
    folded: Tensor = apply(fold_key, value, number)
    if KEY_USES.get() is not None:
        _note(operation, value, folded)
    return folded


def apart(key: Value) -> Value:
    """Copy a key: in a program the copy is another variable, whose draws are counted anew."""
    return bitwise_or(key, np.uint64(0))


def numbers_of(value: Value) -> np.ndarray[Any, Any] | None:
    """The values of a vector, a row for each active example of a batch.

    None while staging, or in a batch where some examples skip the draw.
    """
    if any(isinstance(trace, Stager) and not trace.has_numbers for trace in running_traces()):
        return None
    width, mask = shape_of(value)[0], active_mask(True)
    if mask is not True:
        if not set(batches_of(mask)) <= set(batches_of(value)):
            return None
        flag = reshape(cast(mask, dtype=np.dtype(np.uint64)), shape=(1,))
        value = concatenate(value, flag, axis=0)
    while type(value) not in RAW:
        value = value._value
    rows: np.ndarray[Any, Any] = value.reshape(-1, shape_of(value)[-1])
    return rows if mask is True else rows[rows[:, width] != 0, :width]


def _note(operation: str, key: Value, made: Tensor, stream: int | None = None) -> None:
    """Record the use of a key in a stream, and the keys made from it."""
    uses = current_uses()
    if uses is None:
        testify()
        return
    if stream is not None:
        rows = numbers_of(key)
        if rows is not None:
            uses.draw(operation, stream, [row.tobytes() for row in rows])
    if stream in (None, SPLIT):
        flat = reshape(concrete(made), shape=(made.size,))
        rows = numbers_of(concatenate(key, flat, axis=0))
        for row in () if rows is None else rows:
            children = row[2:].reshape(-1, 2)
            uses.derive(row[:2].tobytes(), [child.tobytes() for child in children])


def draw(
    quantile: Primitive, key: ArrayLike, shape: Shape, dtype: np.dtype[Any], operation: str
) -> Tensor:
    """Draw from a distribution by its quantile function, a ``bits_to_...`` primitive."""
    return apply(quantile, random_words(key, shape, operation), dtype=dtype)


def standard_uniform(key: ArrayLike, shape: Shape, dtype: np.dtype[Any], operation: str) -> Tensor:
    """Draw from the uniform distribution over [0, 1)."""
    return draw(bits_to_uniform, key, shape, dtype, operation)


def standard_normal(key: ArrayLike, shape: Shape, dtype: np.dtype[Any], operation: str) -> Tensor:
    """Draw from the normal distribution with mean 0 and variance 1 (E|z|² of complex numbers)."""
    if dtype.kind == "c":
        component_dtype = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        parts = draw(bits_to_normal, key, (*shape, 2), component_dtype, operation) * math.sqrt(0.5)
        return parts[..., 0] + 1j * parts[..., 1]
    return draw(bits_to_normal, key, shape, dtype, operation)
