"""Powers: of any base and exponent, and with exponents that are constants.

>>> power(2.0, 3.0), power_derivative(np.array([0.0]), 1.0, orders=(1, 0))
(8.0, array([1.]))

All derivatives of ``x**y`` have one form, so they are one operation. Written as products of powers
and logarithms they would be NaN where one factor is 0 and another infinite: at bases of 0, and at
exponents of 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.structure.structures import TRANSCENDENTAL, Algebra
from funcgrad._core.trace import RAW, Raw, Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, log, reals
from funcgrad._primitives.kinks import distance_to_cut, is_complex, is_whole, unless
from funcgrad._primitives.precision import through_single
from funcgrad._primitives.structural import cast

Orders = tuple[int, int]

_DOUBLE = np.dtype(np.float64)


def _base_at_zero(x: Value, y: Value = 1, exponent: Value = None, **_: Hashable) -> Value:
    """The base, but of whole exponents that are constant, which make products, not negative."""
    y = y if exponent is None else exponent
    whole = is_whole(y)
    smooth = False if whole is False else whole & (y >= 0)
    if is_complex(x):
        return unless(whole, distance_to_cut(x)), unless(smooth, abs(x))
    return unless(smooth, x)


def _base_inside(x: Value, y: Value = 1, exponent: Value = None, **_: Hashable) -> Value:
    """The base, except where the exponent is constant and whole."""
    return () if is_complex(x) else unless(is_whole(y if exponent is None else exponent), x)


def _falling(y: Value, count: int, order: int) -> Value:
    """The derivative of some order of ``y (y - 1) ...``, a product of ``count`` factors."""
    if order > count:
        return 0.0
    if order:
        total, *lower_coefficients = np.polyder(np.poly(np.arange(count)), order).tolist()
        for coefficient in lower_coefficients:
            total = total * y + coefficient
        return total
    product: Value = 1.0
    for k in range(count):
        product = product * (y - k) if k else y
    return product


def _inexact(m: Algebra, x: Value, beside: Value) -> Value:
    """Integers in the precision in which NumPy computes with them beside another operand."""
    if is_inexact(dtype_of(x)):
        return x
    if type(x) in (int, bool):
        return float(x)  # which stays a number without a dtype of its own
    known = is_inexact(dtype_of(beside)) and type(beside) is not float
    return m.astype(x, np.result_type(dtype_of(x), dtype_of(beside)) if known else _DOUBLE)


def _power_derivative(m: Algebra, x: Value, y: Value, orders: Orders) -> Value:
    """``x**(y - n)`` times a polynomial in ``log(x)``, for the orders n in x and k in y.

    The coefficients are derivatives of ``y (y - 1) ... (y - n + 1)``, by Leibniz. Where one factor
    is 0, so is the product, whatever the other: as close by.
    """
    count, order = orders
    x, y = _inexact(m, x, y), _inexact(m, y, x)
    power = m.power(x, y - count if count else y)
    if not order:
        factor = _falling(y, count, 0)
        return m.where((factor == 0) | (power == 0), 0, power * factor)
    logarithm = m.log(x)
    terms = [math.comb(order, k) * _falling(y, count, k) for k in range(order + 1)]
    total = terms[0]
    for term in terms[1:]:
        total = total * logarithm + term
    product = m.where((power == 0) & (x >= 0), 0, power * total)
    product = _with_zeros(m, x, power, total, product, terms) if count else product
    return m.astype(product, dtype_of(power))  # which the logarithm of a Python number may exceed


def _with_zeros(
    m: Algebra, x: Value, power: Value, total: Value, product: Value, terms: list[Value]
) -> Value:
    """Replace a product where a factor is 0, and where x is.

    At x = 0 the highest power of the logarithm decides between the infinities: its coefficient is
    the first of the terms that is not 0.
    """
    lead, order = terms[0], len(terms) - 1
    for k, term in enumerate(terms[1:], start=1):
        lead = m.where(m.equal(lead, 0), (-1.0) ** k * term, lead)
    at_zero = m.where(m.equal(power, 0), 0, power * ((-1.0) ** order * lead) * np.inf)
    return m.where(m.equal(x, 0), at_zero, m.where(m.equal(total, 0), 0, product))


def _derivative_samples() -> Iterator[Sample]:
    for orders in ((1, 0), (0, 1), (1, 1)):
        yield from combined(
            reals(0.5, 3, 2),
            edges((0.0, 2.5), (0.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.0, 0.5), (-2.0, 3.0)),
            edges((np.inf, -1.0), (np.inf, 1.0), (1e-200, 0.0), (1.0, np.inf), (np.nan, 1.0)),
            orders=orders,
        )()


power_derivative: Primitive = elementwise(
    "power_derivative",
    formula=through_single(_power_derivative),
    partials=(
        lambda _, x, y, orders: power_derivative(x, y, orders=(orders[0] + 1, orders[1])),
        lambda _, x, y, orders: power_derivative(x, y, orders=(orders[0], orders[1] + 1)),
    ),
    samples=_derivative_samples,
    traits=TRANSCENDENTAL,
    kinks=Kinks(_base_at_zero, _base_inside),
)
"""The derivative of ``x**y`` of some order in x and some order in y, of real numbers."""


def _power_to_base(out: Value, x: Value, y: Value) -> Value:
    if not is_complex(out):
        return power_derivative(x, y, orders=(1, 0))
    hole = (x == 0) & (y == 0)
    return y * bind2(power, x, y - 1 + hole)


def _power_to_exponent(out: Value, x: Value, y: Value) -> Value:
    if not is_complex(out):
        raw = type(out) in RAW and type(x) in RAW
        return _times_log(out, x) if raw else power_derivative(x, y, orders=(0, 1))
    if not is_complex(x):
        x = cast(x, dtype=dtype_of(out))  # a negative base has a complex logarithm
    real = cast(y, dtype=np.dtype(dtype_of(y).char.lower())) if is_complex(y) else y
    return out * bind1(log, x + ((x == 0) & (real > 0)))


def _times_log(out: Raw, x: Raw) -> Raw:
    """The derivative with respect to y from the known ``x**y``, without further derivatives."""
    vanishes = np.equal(out, 0) & np.greater_equal(x, 0)
    return np.where(vanishes, 0, out * np.log(x)).astype(dtype_of(out))[()]


_REMEDY = "keep the base away from 0, or choose inside: where(x > 0, x, 1) ** y"

power: Primitive = elementwise(
    "power",
    np.power,
    remedy=_REMEDY,
    operator="**",
    partials=(_power_to_base, _power_to_exponent),
    samples=combined(
        reals(0.5, 3, 2),
        complexes(arity=2),
        edges((0.0, 2.5), (0.0, 1.5), (-2.0, 3.0), (0.0, 0.0), (0.0, -1.0), (0.0, 0.5)),
        lambda: [
            Sample((np.array([-2.0, 0.0, 1.5, 0.0]), np.array([3, 0, -2, 1]))),
            Sample((np.array([-2.0, 0.0, 1.5]), np.array([3, 0, 0], np.uint8))),
            Sample((np.array([2, 0, 3]), np.array([1.5, 2.0, -1.0]))),
        ],
    ),
    traits=TRANSCENDENTAL,
    kinks=Kinks(_base_at_zero, _base_inside),
)


def _constant_power(m: Algebra, x: Value, exponent: float) -> Value:
    if type(exponent) is int and exponent == 2 and is_inexact(dtype_of(x)):
        return m.square(x)  # six times as fast
    return m.power(x, exponent)


def _power_samples() -> Iterator[Sample]:
    smooth = combined(reals(-2, 2), complexes(), edges(0.0, 0j, -1.0, smooth=True))
    for whole in (0, 1, 2, 3, 5):
        yield from combined(smooth, exponent=whole)()
    for exponent in (-1, -2, 0.5, 2.0, 2.5):
        yield from combined(reals(0.5, 3), complexes(), exponent=exponent)()
        yield from combined(edges(0.0, np.inf, np.nan), exponent=exponent)()


# Exact at every order, negative bases and 0 included, since the exponent is known to be constant.
constant_power: Primitive = elementwise(
    "constant_power",
    remedy=_REMEDY,
    formula=_constant_power,
    operator="**",
    partials=(
        lambda _, x, exponent: (
            exponent * constant_power(x, exponent=exponent - 1 if exponent else 0)
        ),
    ),
    samples=_power_samples,
    traits=TRANSCENDENTAL,
    kinks=Kinks(_base_at_zero, _base_inside),
)
