"""Selections: each element of the result is an element of one of the arguments.

Their factors are masks: the cotangent of an element that was not selected is absent. Where two
arguments tie, both are selected and share the cotangent equally.

>>> where(True, 1.0, 2.0)
array(1.)
>>> maximum(1.0, 2.0)
np.float64(2.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import SAME, Kinks, Primitive, Sample, Selection
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, ROUNDED_ONCE, UNEVEN, Algebra, Trait
from funcgrad._core.trace import RAW, Raw, Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, reals
from funcgrad._primitives.kinks import ORDER
from funcgrad._primitives.logic import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    less_equal,
    logical_not,
    logical_or,
    not_equal,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def _where_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(17)
    condition = np.array([True, False, True])
    x, y = rng.standard_normal((2, 3))
    yield Sample((condition, x, y))
    yield Sample((condition[:, None], x, 2.0))
    yield Sample((True, 1.5, y))
    yield Sample((False, np.asarray(1.5), -0.5))
    yield Sample((condition[::-2], x[::-2], y[::2]))
    yield Sample((np.zeros((0, 3), np.bool_), x, y))
    yield Sample((condition, x + 1j, y * 1j))
    yield Sample((condition, x, 1j))
    yield Sample((condition, np.array([np.inf, 1.0, np.nan]), y), smooth=False)
    yield Sample((np.array([1, 0, -1]), x, y))
    yield Sample((np.array([1.0, -1.0, 0.0]), x, y), smooth=False)


def _true(condition: Value) -> Value:
    """A mask of nonzero elements. Masks have to be booleans: 1 and -1 would add up to 0."""
    return condition if dtype_of(condition).kind == "b" else bind2(not_equal, condition, 0)


def _unless(condition: Value) -> Value | Selection:
    mask = bind1(logical_not, condition)
    return mask if type(condition) in RAW else Selection(mask, SAME, condition)


_MANY: Final = 4096
_INTEGERS: Final = MappingProxyType({np.dtype(kind).itemsize: np.dtype(kind) for kind in "bhiq"})


def _chosen(condition: Raw, x: Raw, y: Raw) -> Any:
    """``np.where``, with bit operations if they are faster: NumPy branches at every element.

    For signs of activations NumPy takes 4 to 10 times as long as bit operations, and for a
    condition for each row twice as long if the others are zeros. The test takes a twentieth.
    """
    if type(condition) is not np.ndarray or condition.dtype.char != "?":
        return np.where(condition, x, y)
    size = max([getattr(value, "size", 1) for value in (condition, x, y)])
    if size < _MANY:
        return np.where(condition, x, y)
    dtype = np.result_type(x, y)
    integer = _INTEGERS.get(dtype.itemsize)
    if integer is None:
        return np.where(condition, x, y)
    first, second = [np.asarray(value, dtype).view(integer) for value in (x, y)]
    is_mask = not (second.ndim or second) or not (first.ndim or first)
    if not (is_mask and 8 * condition.size <= size) and not _is_restless(condition):
        return np.where(condition, x, y)
    return _chosen_bits(condition, first, second).view(dtype)


def _is_restless(condition: Array) -> bool:
    """Whether a condition changes so often between elements that branches are unpredictable."""
    changes = np.count_nonzero(condition[..., 1:] != condition[..., :-1])
    return bool(16 * changes > condition.size)


def _chosen_bits(condition: Array, x: Array, y: Array) -> Array:
    mask = np.negative(condition.view(np.int8)).astype(x.dtype)  # all bits, or none
    if not y.ndim and not y:
        return mask & x
    if not x.ndim and not x:
        return ~mask & y
    # In place: allocating two results of some megabytes would take longer than the work.
    shape = np.broadcast_shapes(mask.shape, x.shape, y.shape)
    bits = np.bitwise_xor(x, y, out=np.empty(shape, x.dtype))
    bits &= mask
    bits ^= y
    return bits


_chosen.around = np.where  # type: ignore[attr-defined]  # what small arrays may call

where: Primitive = elementwise(
    "where",
    _chosen,
    partials=(None, lambda _, c, x, y: _true(c), lambda _, c, x, y: _unless(c)),
    selects=True,
    samples=_where_samples,
    traits=ROUNDED_ONCE | OWNS,
    kinks=Kinks(lambda condition, x, y: abs(condition) + (x == y)),
)

Chooses = Callable[[Value, Value], Value]
"""Whether an extremum of two arguments selects the first; the second may be equal."""


def _extremum(
    name: str,
    ufunc: np.ufunc,
    takes_first: Chooses,
    takes_second: Chooses,
    rounding: Trait,
    formula: Callable[..., Value] | None = None,
) -> Primitive:
    """The greater or the lesser of two arguments; a tie gives half the cotangent to each."""
    samples = combined(
        reals(-3, 3, 2),
        complexes(arity=2),
        edges((1.0, 1.0), (0.0, -0.0), (np.inf, np.inf), (-np.inf, 1.0)),
        edges((np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan)),
    )
    return elementwise(
        name,
        ufunc,
        formula=formula,
        partials=(
            lambda out, x, y: _shared(takes_first(x, y), out, x, y),
            lambda out, x, y: _shared(takes_second(x, y), out, x, y),
        ),
        selects=True,
        samples=samples,
        traits=rounding,
        kinks=ORDER,
    )


def _shared(chosen: Value, out: Value, x: Value, y: Value) -> Value | Selection:
    tie = bind2(equal, x, y)
    if type(tie) in RAW and not np.any(tie):
        return chosen  # the most common case, in which a mask is cheaper
    kind = dtype_of(out).type
    return Selection(chosen, where(tie, kind(0.5), kind(1)))


def _either(first: Value, second: Value) -> Value:
    return bind2(logical_or, first, second)


def _neither(first: Value, second: Value) -> Value:
    return bind1(logical_not, bind2(logical_or, first, second))


def _a_number(m: Algebra, x: Value, y: Value, extremum: Value) -> Value:
    return m.where(m.isnan(y), x, m.where(m.isnan(x), y, extremum))


# maximum and minimum take the first NaN, fmax and fmin a number rather than NaN.
maximum: Primitive = _extremum(
    "maximum",
    np.maximum,
    lambda x, y: _either(bind2(greater_equal, x, y), bind1(isnan, x)),
    lambda x, y: _neither(bind2(greater, x, y), bind1(isnan, x)),
    ROUNDED_ONCE,
)
minimum: Primitive = _extremum(
    "minimum",
    np.minimum,
    lambda x, y: _either(bind2(less_equal, x, y), bind1(isnan, x)),
    lambda x, y: _neither(bind2(less, x, y), bind1(isnan, x)),
    ROUNDED_ONCE,
)
fmax: Primitive = _extremum(
    "fmax",
    np.fmax,
    lambda x, y: _either(bind2(greater_equal, x, y), bind1(isnan, y)),
    lambda x, y: _neither(bind2(greater, x, y), bind1(isnan, y)),
    UNEVEN,
    lambda m, x, y: _a_number(m, x, y, m.maximum(x, y)),
)
fmin: Primitive = _extremum(
    "fmin",
    np.fmin,
    lambda x, y: _either(bind2(less_equal, x, y), bind1(isnan, y)),
    lambda x, y: _neither(bind2(less, x, y), bind1(isnan, y)),
    UNEVEN,
    lambda m, x, y: _a_number(m, x, y, m.minimum(x, y)),
)


def _nan_to_num(
    m: Algebra, x: Value, nan: float, posinf: float | None, neginf: float | None
) -> Value:
    if dtype_of(x).kind == "c":
        real = _nan_to_num(m, m.real(x), nan, posinf, neginf)
        return m.join_parts(real, _nan_to_num(m, m.imag(x), nan, posinf, neginf))
    if dtype_of(x).kind != "f":
        return x
    most = float(np.finfo(dtype_of(x)).max)
    result = m.where(m.isnan(x), nan, x)  # infinities may stay
    result = m.where(m.equal(x, np.inf), most if posinf is None else posinf, result)
    return m.where(m.equal(x, -np.inf), -most if neginf is None else neginf, result)


_UNLIMITED = edges(np.nan, np.inf, -np.inf, 0.0)

nan_to_num: Primitive = elementwise(  # of real numbers
    "nan_to_num",
    np.nan_to_num,
    formula=_nan_to_num,
    partials=(lambda _, x, nan, posinf, neginf: bind1(isfinite, x),),
    selects=True,
    samples=combined(
        combined(reals(-3, 3), _UNLIMITED, nan=0.5, posinf=None, neginf=-1.0),
        combined(_UNLIMITED, nan=np.inf, posinf=-np.inf, neginf=None),
    ),
    traits=OWNS,
)
