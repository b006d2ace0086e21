"""Comparison, logic and bits: elementwise primitives through which no derivative flows.

>>> less(np.float64(1.0), 2.0)
np.True_
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import COMMUTATIVE, ROUNDED_ONCE, Trait
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import elementwise
from funcgrad._primitives.kinks import AT_ARGUMENTS, AT_ZERO, ORDER, TIES, greater_of
from funcgrad._primitives.precision import floating


def _numbers(arity: int) -> Callable[[], Iterator[Sample]]:
    """Ties, signed zeros, infinities and NaN; 0-d, empty and broadcast; bool and integer."""

    def samples() -> Iterator[Sample]:
        x = np.array([-np.inf, -1.5, -0.0, 0.0, 1.5, np.inf, np.nan])
        for first in (x, x.astype(np.float32), np.arange(-3, 4), x > 0, 0.0, np.zeros((0, 7))):
            yield Sample((first, np.roll(x, 1))[:arity])
        yield Sample((x[:, None], x)[:arity])
        yield Sample((np.asarray(-0.0), 0.0)[:arity])

    return samples


def _integers(arity: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = np.arange(5)
        for first in (x, x.astype(np.uint8), x[:, None], 3, np.zeros((0, 5), np.int16)):
            yield Sample((first, x[::-1])[:arity])
        yield Sample((np.asarray(6), 3)[:arity])

    return samples


Formula: TypeAlias = Callable[..., Value]


def _compare(
    name: str,
    ufunc: np.ufunc,
    operator: str = "",
    traits: Trait = Trait.NONE,
    formula: Formula | None = None,
    kinks: Kinks | None = None,
) -> Primitive:
    return _exact(name, ufunc, operator, _numbers(ufunc.nin), traits, formula, kinks)


def _bits(name: str, ufunc: np.ufunc, operator: str = "", traits: Trait = Trait.NONE) -> Primitive:
    return _exact(name, ufunc, operator, _integers(ufunc.nin), traits, None)


def _exact(
    name: str,
    ufunc: np.ufunc,
    operator: str,
    samples: Callable[[], Iterator[Sample]],
    traits: Trait,
    formula: Formula | None,
    kinks: Kinks | None = None,
) -> Primitive:
    return elementwise(
        name,
        ufunc,
        formula=formula,
        operator=operator,
        partials=None,
        samples=samples,
        traits=ROUNDED_ONCE | traits,
        kinks=kinks,
    )


equal: Primitive = _compare("equal", np.equal, "==", COMMUTATIVE, kinks=TIES)
not_equal: Primitive = _compare("not_equal", np.not_equal, "!=", COMMUTATIVE, kinks=TIES)
less: Primitive = _compare("less", np.less, "<", kinks=ORDER)
less_equal: Primitive = _compare("less_equal", np.less_equal, "<=", kinks=ORDER)
greater: Primitive = _compare("greater", np.greater, ">", kinks=ORDER)
greater_equal: Primitive = _compare("greater_equal", np.greater_equal, ">=", kinks=ORDER)


def _truth(x: Value) -> Value:
    """Whether a number counts as true: NaN does."""
    return x if dtype_of(x).kind == "b" else x != 0


logical_and: Primitive = _compare(
    "logical_and",
    np.logical_and,
    traits=COMMUTATIVE,
    formula=lambda m, x, y: _truth(x) & _truth(y),
    kinks=AT_ARGUMENTS,
)
logical_or: Primitive = _compare(
    "logical_or",
    np.logical_or,
    traits=COMMUTATIVE,
    formula=lambda m, x, y: _truth(x) | _truth(y),
    kinks=Kinks(lambda x, y: greater_of(abs(x), abs(y))),
)
logical_xor: Primitive = _compare(
    "logical_xor",
    np.logical_xor,
    traits=COMMUTATIVE,
    formula=lambda m, x, y: _truth(x) != _truth(y),
    kinks=AT_ARGUMENTS,
)
logical_not: Primitive = _compare(
    "logical_not", np.logical_not, formula=lambda m, x: m.equal(x, 0), kinks=AT_ZERO
)

isfinite: Primitive = _compare("isfinite", np.isfinite)
isinf: Primitive = _compare("isinf", np.isinf)
isnan: Primitive = _compare("isnan", np.isnan)
signbit: Primitive = _compare(
    "signbit", np.signbit, formula=lambda m, x: m.copysign(1, floating(m, x)) < 0, kinks=AT_ZERO
)

bitwise_and: Primitive = _bits("bitwise_and", np.bitwise_and, "&", COMMUTATIVE)
bitwise_or: Primitive = _bits("bitwise_or", np.bitwise_or, "|", COMMUTATIVE)
bitwise_xor: Primitive = _bits("bitwise_xor", np.bitwise_xor, "^", COMMUTATIVE)
bitwise_count: Primitive = _bits("bitwise_count", np.bitwise_count)
bitwise_invert: Primitive = _bits("bitwise_invert", np.bitwise_not, "~")
bitwise_left_shift: Primitive = _bits("bitwise_left_shift", np.left_shift, "<<")
bitwise_right_shift: Primitive = _bits("bitwise_right_shift", np.right_shift, ">>")
