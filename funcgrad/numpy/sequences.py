"""Convolution and correlation of sequences.

>>> convolve([1.0, 2.0, 3.0], [1.0, 10.0])
Tensor([ 1., 12., 23., 30.])
"""

from __future__ import annotations

from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.recurrence import conjugate
from funcgrad._primitives.sequences import convolve_rows
from funcgrad._primitives.structural import flip, reshape, view
from funcgrad.errors import ShapeError
from funcgrad.numpy.options import choice, strong
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_MODES = ("full", "same", "valid")


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Tensor:
    """The convolution of two sequences: at ``k``, the sum of ``a[j] * v[k - j]`` over all ``j``.

    It is linear in each argument.

    Parameters
    ----------
    a, v : array_like, shapes (n,) and (m,)
        Not empty.
    mode : {"full", "same", "valid"}
        All n + m - 1 sums; the middle max(n, m) of them; or the max(n, m) - min(n, m) + 1 sums
        where the sequences overlap completely.

    Returns
    -------
    Tensor, shape (k,)

    Raises
    ------
    ShapeError
        A sequence is empty, or has more axes than one.

    Examples
    --------
    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same")
    Tensor([1. , 2.5, 4. ])
    """
    choice(mode, _MODES, "convolve", "mode")
    x, y = (_sequence(array, "convolve") for array in (a, v))
    return _middle(x, y, mode, (min(_length(x), _length(y)) - 1) // 2)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Tensor:
    """The correlation of two sequences: sums of ``a[j + k] * conj(v[j])`` over all ``j``.

    It is linear in ``a``, and in the conjugate of ``v``.

    Parameters
    ----------
    a, v : array_like, shapes (n,) and (m,)
        Not empty.
    mode : {"valid", "same", "full"}
        See ``convolve``.

    Returns
    -------
    Tensor, shape (k,)

    Raises
    ------
    ShapeError
        A sequence is empty, or has more axes than one.

    Examples
    --------
    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same")
    Tensor([2. , 3.5, 3. ])
    """
    choice(mode, _MODES, "correlate", "mode")
    x, y = (_sequence(array, "correlate") for array in (a, v))
    n, m = _length(x), _length(y)
    start = (m - 1) // 2 if m <= n else n // 2
    return _middle(x, flip(conjugate(y), axis=(0,)), mode, start)


def _sequence(x: ArrayLike, operation: str) -> Value:
    value = strong(operand(x, operation))
    shape = shape_of(value)
    if len(shape) > 1 or 0 in shape or (not shape and operation == "correlate"):
        raise ShapeError(f"{operation}: a sequence that is not empty is needed, not {shape}.")
    return value if shape else reshape(value, shape=(1,))


def _length(x: Value) -> int:
    return shape_of(x)[0]


def _middle(x: Value, y: Value, mode: str, start: int) -> Tensor:
    """The full convolution, or its middle, which begins at ``start``."""
    longer, shorter = (x, y) if _length(x) >= _length(y) else (y, x)
    result = convolve_rows(longer, shorter, full=mode != "valid")
    if mode == "same":
        result = view(result, key=Key((slice(start, start + _length(longer)),)))
    return wrap(result)
