"""Products with logarithms, and the entropies that are sums of them; NumPy evaluates them.

>>> xlogy(0.0, 0.0)
np.float64(0.0)

Where a product is 0 because of its first factor, it stays 0 whatever the second does, and so do
its derivatives with respect to that one: ``ratio_or_zero`` is their factor, of logarithms, and so
NaN for negative divisors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Selection
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, Algebra
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._primitives.elementwise import (
    combined,
    complexes,
    divide,
    edges,
    elementwise,
    log,
    reals,
)
from funcgrad._primitives.kinks import POSITIVE, if_real, to_cut
from funcgrad._primitives.logic import logical_not
from funcgrad._primitives.selection import where
from funcgrad._primitives.special import DOUBLE, real_operand
from funcgrad._primitives.special_functions.scipys import evaluated_quietly
from funcgrad._primitives.transcendental import log1p


def _common(m: Algebra, x: Value, y: Value) -> tuple[Value, Value]:
    """Arguments in the floating-point dtype that they have in common; integers are float64."""
    if dtype_of(x) == dtype_of(y) and dtype_of(x).kind == "f":
        return x, y
    dtype = dtype_of(x + y)  # as a number of Python's gives way
    dtype = dtype if is_inexact(dtype) else DOUBLE
    return m.astype(x, dtype), m.astype(y, dtype)


def _reals(m: Algebra, name: str, x: Value, y: Value) -> tuple[Value, Value]:
    x, y = _common(m, x, y)
    return real_operand(m, x, name), real_operand(m, y, name)


_ABOVE: Final = Kinks(lambda x, y: to_cut(y), lambda x, y: if_real(y))


def _ratio_or_zero(m: Algebra, x: Value, y: Value) -> Value:
    x, y = _common(m, x, y)
    ratio = m.where((x == 0) & (y == 0), x, m.divide(x, y))
    return ratio if dtype_of(ratio).kind == "c" else m.where(y < 0, np.nan, ratio)


ratio_or_zero: Primitive = elementwise(
    "ratio_or_zero",
    evaluated_quietly(_ratio_or_zero),
    formula=_ratio_or_zero,
    partials=(
        lambda _, _x, y: bind2(divide, 1, y),
        lambda out, _x, y: -bind2(ratio_or_zero, out, y),
    ),
    samples=combined(
        reals(0.5, 3, 2),
        complexes(arity=2),
        edges((0.0, 0.0), (1.0, 0.0), (0.0, np.nan), (np.inf, 1.0), (1.0, np.inf)),
    ),
    kinks=_ABOVE,
    traits=OWNS,
)


def _relative_excess(m: Algebra, x: Value, y: Value) -> Value:
    x, y = _common(m, x, y)
    return m.where((x == 0) & (y == 0), 1, m.divide(y - x, y))


# 1 - x / y, without loss of digits where they are nearly equal, or far from it
relative_excess: Primitive = elementwise(
    "relative_excess",
    evaluated_quietly(_relative_excess),
    formula=_relative_excess,
    partials=(
        lambda _, _x, y: bind2(divide, -1, y),
        lambda _, x, y: bind2(ratio_or_zero, bind2(ratio_or_zero, x, y), y),
    ),
    samples=combined(
        reals(0.5, 3, 2),
        edges((1.0, 1.0), (1e-9, 1.0), smooth=True),
        edges((0.0, 0.0), (1.0, 0.0), (np.nan, 1.0), (1.0, np.inf)),
    ),
    kinks=_ABOVE,
    traits=OWNS,
)


def _times(m: Algebra, x: Value, y: Value, log_of_y: Value) -> Value:
    """``x * log(y)``, which is 0 where x is, whatever y is, unless that is NaN."""
    return m.where((x == 0) & ~m.isnan(y), x, x * log_of_y)


def _xlogy(m: Algebra, x: Value, y: Value) -> Value:
    x, y = _common(m, x, y)
    return _times(m, x, y, m.log(y))


def _xlog1py(m: Algebra, x: Value, y: Value) -> Value:
    x, y = _common(m, x, y)
    return _times(m, x, y, m.log1p(y))


_PRODUCTS = combined(
    reals(0.5, 3, 2),
    complexes(arity=2),
    edges((0.0, 2.0), (-1.0, 0.5), smooth=True),
    edges((0.0, 0.0), (1.0, 0.0), (0.0, np.inf), (0.0, np.nan), (np.inf, 2.0), (1.0, -2.0)),
)
xlogy: Primitive = elementwise(
    "xlogy",
    evaluated_quietly(_xlogy),
    formula=_xlogy,
    partials=(lambda _, _x, y: bind1(log, y), lambda _, x, y: bind2(ratio_or_zero, x, y)),
    samples=_PRODUCTS,
    traits=TRANSCENDENTAL | OWNS,
    kinks=_ABOVE,
)
xlog1py: Primitive = elementwise(
    "xlog1py",
    evaluated_quietly(_xlog1py),
    formula=_xlog1py,
    partials=(lambda _, _x, y: bind1(log1p, y), lambda _, x, y: bind2(ratio_or_zero, x, 1 + y)),
    samples=combined(_PRODUCTS, edges((0.0, -1.0), (1.0, -1.0), (1.0, -2.0))),
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x, y: to_cut(1 + y), lambda x, y: if_real(1 + y)),
)


def _log_of_usual(m: Algebra, x: Value, y: Value) -> tuple[Value, Value]:
    """``log(x / y)`` also where the quotient is near 1, and where that is in range."""
    ratio = m.divide(x, y)
    near = (ratio > 0.5) & (ratio < 2)
    result = m.where(near, m.log1p(m.divide(x - y, y)), m.log(ratio))
    return result, (ratio >= float(np.finfo(dtype_of(ratio)).tiny)) & (ratio < np.inf)


def _log_of_all(m: Algebra, x: Value, y: Value, result: Value, usual: Value) -> Value:
    result = m.where(usual, result, m.log(x) - m.log(y))
    return m.where((x == 0) & (y == 0), np.inf, result)


def _log_of_quotient(m: Algebra, x: Value, y: Value) -> Value:
    return _log_of_all(m, x, y, *_log_of_usual(m, x, y))


def _quick_log_of_quotient(m: Algebra, x: Raw, y: Raw) -> Raw:
    """Compute it for raw values, whose quotients are nearly always all in range."""
    result, usual = _log_of_usual(m, x, y)
    if np.count_nonzero(usual) == np.size(usual):
        return result
    return _log_of_all(m, x, y, result, usual)


def _log_ratio(logarithm: Callable[..., Value]) -> Callable[..., Value]:
    return lambda m, x, y: logarithm(m, *_reals(m, "log_ratio", x, y))


# At 0 / 0 it is inf, the value of x log(x / y) for every x > 0.
log_ratio: Primitive = elementwise(
    "log_ratio",
    evaluated_quietly(_log_ratio(_quick_log_of_quotient)),
    formula=_log_ratio(_log_of_quotient),
    partials=(lambda _, x, _y: bind2(divide, 1, x), lambda _, _x, y: -bind2(divide, 1, y)),
    samples=combined(
        reals(0.5, 3, 2),
        edges((1.0, 1.0), (1e-200, 1e200), (1.0, 1 + 1e-9), smooth=True),
        edges((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (np.inf, 1.0), (np.nan, 1.0)),
    ),
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda x, y: (x, y)),
)


def _entr(m: Algebra, x: Value) -> Value:
    x = real_operand(m, x, "entr")
    outside = m.where(x == 0, 0, m.where(x < 0, -np.inf, x))
    return m.where(x > 0, -x * m.log(x), outside)


entr: Primitive = elementwise(
    "entr",
    evaluated_quietly(_entr),
    formula=_entr,
    # Below 0 it is constant: the derivative is absent there, not 0 times the logarithm's NaN.
    partials=(lambda _, x: Selection(logical_not(x < 0), -1 - bind1(log, where(x < 0, 1.0, x))),),
    selects=True,
    samples=combined(reals(0.2, 3), edges(-np.inf, -1.0, 0.0, np.inf, np.nan)),
    traits=TRANSCENDENTAL | OWNS,
    kinks=POSITIVE,
)


def _inside(x: Value, y: Value) -> Value:
    """Whether a relative entropy is finite nearby, or at an end of where it is."""
    return logical_not((x < 0) | (y < 0))


def _relative(
    name: str, of_both: Callable[..., Value], at_zero: Callable[..., Value]
) -> Callable[..., Callable[..., Value]]:
    """A relative entropy, by a function for the logarithm of a quotient."""

    def by(logarithm: Callable[..., Value]) -> Callable[..., Value]:
        def formula(m: Algebra, x: Value, y: Value) -> Value:
            x, y = _reals(m, name, x, y)
            result = m.where((x > 0) & (y > 0), of_both(x, y, logarithm(m, x, y)), np.inf)
            result = m.where((x == 0) & (y >= 0), at_zero(y), result)
            return m.where(m.isnan(x) | m.isnan(y), np.nan, result)

        return formula

    return by


_rel_entr: Final = _relative("rel_entr", lambda x, y, log: x * log, lambda y: 0)
_kl_div: Final = _relative("kl_div", lambda x, y, log: x * log - x + y, lambda y: y)


_PAIRS = combined(
    reals(0.5, 3, 2),
    edges((1.0, 1.0), (1.0, 1 + 1e-9), (1e-200, 1e200), smooth=True),
    edges((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0), (np.nan, 1.0)),
    edges((np.inf, 1.0), (1.0, np.inf)),
)
rel_entr: Primitive = elementwise(
    "rel_entr",
    evaluated_quietly(_rel_entr(_quick_log_of_quotient)),
    formula=_rel_entr(_log_of_quotient),
    partials=(
        lambda _, x, y: Selection(_inside(x, y), 1 + bind2(log_ratio, *_with_ones_outside(x, y))),
        lambda _, x, y: Selection(_inside(x, y), -bind2(ratio_or_zero, *_with_ones_outside(x, y))),
    ),
    selects=True,
    samples=_PAIRS,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda x, y: (x, y)),
)
kl_div: Primitive = elementwise(
    "kl_div",
    evaluated_quietly(_kl_div(_quick_log_of_quotient)),
    formula=_kl_div(_log_of_quotient),
    partials=(
        lambda _, x, y: Selection(_inside(x, y), bind2(log_ratio, *_with_ones_outside(x, y))),
        lambda _, x, y: Selection(_inside(x, y), bind2(relative_excess, *_with_ones_outside(x, y))),
    ),
    selects=True,
    samples=_PAIRS,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda x, y: (x, y)),
)


def _with_ones_outside(x: Value, y: Value) -> tuple[Value, Value]:
    inside = _inside(x, y)
    return where(inside, x, 1.0), where(inside, y, 1.0)
