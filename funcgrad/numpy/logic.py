"""Comparison, logic, tests of elements, and bits.

Results are of bool or integer dtypes, which have no derivatives.
"""

from __future__ import annotations

from funcgrad._core.specs import shape_of
from funcgrad._core.users_values import operand
from funcgrad._primitives import logic as _p
from funcgrad.errors import ShapeError
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2, tensor, wrap


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether the arguments are equal: ``x1 == x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.equal([1, 2], [1, 3])
    Tensor([ True, False])
    """
    return apply2(_p.equal, x1, x2)


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether the arguments differ: ``x1 != x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.not_equal([1, 2], [1, 3])
    Tensor([False,  True])
    """
    return apply2(_p.not_equal, x1, x2)


def less(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether x1 is less than x2: ``x1 < x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.less([1, 2], 2)
    Tensor([ True, False])
    """
    return apply2(_p.less, x1, x2)


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether x1 is at most x2: ``x1 <= x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.less_equal([1, 3], 2)
    Tensor([ True, False])
    """
    return apply2(_p.less_equal, x1, x2)


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether x1 is greater than x2: ``x1 > x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.greater([2, 3], 2)
    Tensor([False,  True])
    """
    return apply2(_p.greater, x1, x2)


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Test whether x1 is at least x2: ``x1 >= x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.greater_equal([1, 2], 2)
    Tensor([False,  True])
    """
    return apply2(_p.greater_equal, x1, x2)


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Logical and: true where both arguments are nonzero.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logical_and([True, False], True)
    Tensor([ True, False])
    """
    return apply2(_p.logical_and, x1, x2)


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Logical or: true where at least one argument is nonzero.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logical_or([True, False], False)
    Tensor([ True, False])
    """
    return apply2(_p.logical_or, x1, x2)


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Logical exclusive or: true where exactly one argument is nonzero.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logical_xor([True, False], True)
    Tensor([False,  True])
    """
    return apply2(_p.logical_xor, x1, x2)


def logical_not(x: ArrayLike, /) -> Tensor:
    """Logical not: true where the argument is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logical_not([1.0, 0.0])
    Tensor([False,  True])
    """
    return apply1(_p.logical_not, x)


def isfinite(x: ArrayLike, /) -> Tensor:
    """Test whether elements are finite: neither infinite nor NaN.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isfinite([1.0, float("inf")])
    Tensor([ True, False])
    """
    return apply1(_p.isfinite, x)


def isinf(x: ArrayLike, /) -> Tensor:
    """Test whether elements are infinite.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isinf([1.0, float("inf")])
    Tensor([False,  True])
    """
    return apply1(_p.isinf, x)


def isnan(x: ArrayLike, /) -> Tensor:
    """Test whether elements are NaN.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isnan([1.0, float("nan")])
    Tensor([False,  True])
    """
    return apply1(_p.isnan, x)


def isposinf(x: ArrayLike) -> Tensor:
    """Test whether real elements are plus infinity.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isposinf([1.0, float("inf"), -float("inf")])
    Tensor([False,  True, False])
    """
    value = operand(x, "isposinf")
    return isinf(value) & ~apply1(_p.signbit, value)


def isneginf(x: ArrayLike) -> Tensor:
    """Test whether real elements are minus infinity.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isneginf([1.0, float("inf"), -float("inf")])
    Tensor([False, False,  True])
    """
    value = operand(x, "isneginf")
    return isinf(value) & apply1(_p.signbit, value)


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether abs(a - b) <= atol + rtol * abs(b), elementwise; equal infinities are close.

    Parameters
    ----------
    a, b : array_like
    rtol, atol : float, optional
        The relative tolerance, in units of ``abs(b)``, and the absolute tolerance.
    equal_nan : bool, optional
        Whether two NaN are close.

    Returns
    -------
    Tensor of bool
        In the shape to which ``a`` and ``b`` broadcast.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isclose([1.0, 2.0], [1.0 + 1e-9, 2.1])
    Tensor([ True, False])
    """
    x, y = tensor(a), tensor(b)
    relative, absolute = wrap(operand(rtol, "isclose")), wrap(operand(atol, "isclose"))
    if y.dtype.kind not in "fc":  # bools and unsigned integers cannot be subtracted
        y = y + 0.0
    near = (abs(x - y) <= absolute + relative * abs(y)) & isfinite(y)
    close = near | (x == y)
    return close | (isnan(x) & isnan(y)) if equal_nan else close


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close, see ``isclose``: a tensor of one bool.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> bool(fnp.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9]))
    True
    """
    return isclose(a, b, rtol, atol, equal_nan).all()


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Tensor:
    """Whether two arrays have the same shape and equal elements: a tensor of one bool.

    Parameters
    ----------
    a1, a2 : array_like
    equal_nan : bool, optional
        Whether two NaN are equal.

    Returns
    -------
    Tensor of bool, shape ()

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> bool(fnp.array_equal([1, 2], [1.0, 2.0]))
    True
    """
    x, y = operand(a1, "array_equal"), operand(a2, "array_equal")
    if shape_of(x) != shape_of(y):
        return tensor(False)
    same = equal(x, y)
    return (same | (isnan(x) & isnan(y)) if equal_nan else same).all()


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """Whether two arrays are equal after broadcasting: a tensor of one bool.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> bool(fnp.array_equiv([1, 1], 1))
    True
    """
    try:
        return equal(a1, a2).all()
    except ShapeError:
        return tensor(False)


def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Bitwise and of integers: ``x1 & x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_and(6, 3)
    Tensor(2)
    """
    return apply2(_p.bitwise_and, x1, x2)


def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Bitwise or of integers: ``x1 | x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_or(6, 3)
    Tensor(7)
    """
    return apply2(_p.bitwise_or, x1, x2)


def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Bitwise exclusive or of integers: ``x1 ^ x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_xor(6, 3)
    Tensor(5)
    """
    return apply2(_p.bitwise_xor, x1, x2)


def bitwise_invert(x: ArrayLike, /) -> Tensor:
    """Invert the bits of integers: ``~x``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_invert(6)
    Tensor(-7)
    """
    return apply1(_p.bitwise_invert, x)


bitwise_not = bitwise_invert
invert = bitwise_invert


def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Shift the bits of x1 to the left by x2 places: ``x1 << x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_left_shift(3, 2)
    Tensor(12)
    """
    return apply2(_p.bitwise_left_shift, x1, x2)


left_shift = bitwise_left_shift


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Shift the bits of x1 to the right by x2 places: ``x1 >> x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_right_shift(12, 2)
    Tensor(3)
    """
    return apply2(_p.bitwise_right_shift, x1, x2)


right_shift = bitwise_right_shift


def bitwise_count(x: ArrayLike, /) -> Tensor:
    """Count the bits that are set in the absolute value of an integer.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.bitwise_count([1, 6, 7])
    Tensor([1, 2, 3], dtype=uint8)
    """
    return apply1(_p.bitwise_count, x)
