"""Functions with complex results where real ones would be NaN: NumPy's ``emath``.

Values decide whether a result is complex. So ``vmap`` follows them as it follows ``if``, and its
result is complex if one example's is; in loops that are compiled, cast the argument to a complex
dtype. Derivatives are as for the complex function.

>>> sqrt(4.0), sqrt(-4.0)
(Tensor(2.0), Tensor(2j))
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.trace import reason
from funcgrad._core.users_values import operand
from funcgrad.errors import TracerError
from funcgrad.numpy import arithmetic, exponential, trigonometry
from funcgrad.numpy.creation import asarray, astype
from funcgrad.numpy.reductions import any
from funcgrad.tensor.conversion import TRUTH
from funcgrad.tensor.tensor import ArrayLike, Tensor

__all__ = ["arccos", "arcsin", "arctanh", "log", "log2", "log10", "logn", "power", "sqrt"]

__dir__ = __all__.copy  # completion shows the public names, without the modules


def sqrt(x: ArrayLike) -> Tensor:
    """The square root; complex where an element is negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> sqrt([1.0, -4.0])
    Tensor([1.+0.j, 0.+2.j])
    >>> fg.grad(lambda x: abs(sqrt(x)))(-4.0)
    Tensor(-0.25)
    """
    return exponential.sqrt(_wide_below_zero(x, "sqrt"))


def log(x: ArrayLike) -> Tensor:
    """The natural logarithm; complex where an element is negative.

    Examples
    --------
    >>> log(-1.0)
    Tensor(3.141592653589793j)
    """
    return exponential.log(_wide_below_zero(x, "log"))


def log2(x: ArrayLike) -> Tensor:
    """The logarithm to base 2; complex where an element is negative.

    Examples
    --------
    >>> log2(8.0)
    Tensor(3.0)
    """
    return exponential.log2(_wide_below_zero(x, "log2"))


def log10(x: ArrayLike) -> Tensor:
    """The logarithm to base 10; complex where an element is negative.

    Examples
    --------
    >>> log10(100.0)
    Tensor(2.0)
    """
    return exponential.log10(_wide_below_zero(x, "log10"))


def logn(n: ArrayLike, x: ArrayLike) -> Tensor:
    """The logarithm to base n; complex if an element of x or n is negative.

    Examples
    --------
    >>> logn(2.0, [4.0, 8.0])
    Tensor([2., 3.])
    """
    wide, base = _wide_below_zero(x, "logn"), _wide_below_zero(n, "logn")
    return exponential.log(wide) / exponential.log(base)


def power(x: ArrayLike, p: ArrayLike) -> Tensor:
    """Raise x to the power p; complex where an element of x is negative.

    Integer exponents are converted to floats if one is negative.

    Examples
    --------
    >>> power([2, 4], -2), power(-4.0, 0.5).imag
    (Tensor([0.25  , 0.0625]), Tensor(2.0))
    """
    exponent = asarray(operand(p, "power"))
    if exponent.dtype.kind in "iu" and _holds(exponent < 0, "power"):
        exponent = astype(exponent, np.float64)
    return arithmetic.power(_wide_below_zero(x, "power"), exponent)


def arccos(x: ArrayLike) -> Tensor:
    """The inverse cosine; complex where an element exceeds 1 in magnitude.

    Examples
    --------
    >>> arccos(1.0)
    Tensor(0.0)
    """
    return trigonometry.arccos(_wide_beyond_one(x, "arccos"))


def arcsin(x: ArrayLike) -> Tensor:
    """The inverse sine; complex where an element exceeds 1 in magnitude.

    Examples
    --------
    >>> arcsin(0.0)
    Tensor(0.0)
    """
    return trigonometry.arcsin(_wide_beyond_one(x, "arcsin"))


def arctanh(x: ArrayLike) -> Tensor:
    """The inverse hyperbolic tangent; complex where an element exceeds 1 in magnitude.

    Examples
    --------
    >>> arctanh(0.0)
    Tensor(0.0)
    """
    return trigonometry.arctanh(_wide_beyond_one(x, "arctanh"))


def _wide_below_zero(x: ArrayLike, name: str) -> Tensor:
    value = asarray(operand(x, name))
    return _complex(value) if value.dtype.kind in "if" and _holds(value < 0, name) else value


def _wide_beyond_one(x: ArrayLike, name: str) -> Tensor:
    value = asarray(operand(x, name))
    if value.dtype.kind in "iuf" and _holds(abs(value) > 1, name):
        return _complex(value)
    return value


def _complex(x: Tensor) -> Tensor:
    """Convert to complex numbers, in single precision for small dtypes, as NumPy does."""
    return astype(x, np.complex64 if x.dtype.char in "fbhBH" else np.complex128)


def _holds(condition: Tensor, name: str) -> bool:
    """Whether a condition holds for any element.

    Raises
    ------
    TracerError
        The values are not known.
    """
    try:
        return bool(any(condition))
    except TracerError as error:
        raise TracerError(
            f"np.emath.{name}: whether the result is complex depends on the values; cast the"
            f" argument, with x.astype(complex), and call fnp.{name}. {reason(error, TRUTH)}"
        ) from None
