"""Zeros, infinities, NaN, empty and 0-d arrays instead of a sample's arguments, if allowed.

Traits, which are claims of an operation about all operands, hold at extreme values, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import is_inexact
from funcgrad._core.structure.structures import Trait
from funcgrad._core.trace import Raw, Value
from funcgrad._staging.jit import JitWarning, jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import CheckError
from funcgrad.testing.operations.agreement import (
    ROUNDING,
    batch_of,
    loop,
    require,
    require_bits,
    require_near,
    require_specs,
)
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.declarations import (
    is_elementwise,
    require_said,
    takes_other_dtypes,
)
from funcgrad.testing.operations.linear_rules import require_superposition
from funcgrad.testing.operations.properties import AtOnce, AtSamples, Property

_SPECIAL: Final = (0.0, -0.0, np.inf, -np.inf, np.nan)


def _first_smooth(primitive: Primitive) -> Iterator[Case]:
    """Yield the first smooth sample of each dtype."""
    seen = set()
    for case in cases_of(primitive):
        dtypes = tuple([np.asarray(arg).dtype for arg in case.args])
        if case.sample.smooth and dtypes not in seen and all(map(np.size, case.args)):
            seen.add(dtypes)
            yield case


def _specials(primitive: Primitive) -> Iterator[Case]:
    """Replace all elements of one argument of a sample by a special value, in turn."""
    for case in _first_smooth(primitive):
        for k, arg in enumerate(case.sample.args):
            array = np.asarray(arg)
            if is_inexact(array.dtype):
                for number in _SPECIAL:
                    whole = np.full_like(array, number)
                    changed = [whole if j == k else x for j, x in enumerate(case.sample.args)]
                    yield case.at(Sample(tuple(changed), case.sample.params, False))


def _shapes(primitive: Primitive) -> Iterator[Case]:
    """Cut the arguments of an element-wise operation to one element, and to none."""
    for case in _first_smooth(primitive):
        columns = [column.ravel() for column in np.broadcast_arrays(*case.sample.args)]
        for args in (tuple([x[0] for x in columns]), tuple([x[:0] for x in columns])):
            yield case.at(Sample(args, case.sample.params))


def _at_all(cases: Callable[[Primitive], Iterator[Case]], check: Callable[[Case], None]) -> AtOnce:
    """Make a check of cases that are made of samples; failures name the sample."""

    def tried(primitive: Primitive) -> None:
        failures = []
        for case in cases(primitive):
            try:
                check(case)
            except CheckError as error:
                numbers = ", ".join(_shown(arg) for arg in case.sample.args)
                failures.append(f"at {numbers}, made of sample {case.number}: {error}")
        if failures:
            raise CheckError("; ".join(failures[:3]) + _and_more(len(failures) - 3))

    return AtOnce(tried)


def _and_more(count: int) -> str:
    return f"; and {count} more" if count > 0 else ""


def _shown(arg: Value) -> str:
    array = np.asarray(arg)
    if array.size and np.all((array == array.flat[0]) | (array != array)):
        return f"{array.flat[0]} everywhere"
    return f"an array of {array.shape}" if array.ndim else str(array)


def _one_value_at(cases: Callable[[Primitive], Iterator[Case]]) -> AtOnce:
    """Make a check of values; the cases made of one sample share one compiled function."""

    def check(primitive: Primitive) -> None:
        compiled: dict[int, Callable[..., Value]] = {}
        with warnings.catch_warnings():
            # An operation may count its calls.
            warnings.filterwarnings("ignore", ".*staged anew", JitWarning)
            _at_all(cases, lambda case: _is_one_value(case, compiled)).check(primitive)

    return AtOnce(check)


def _is_one_value(case: Case, compiled: dict[int, Callable[..., Value]]) -> None:
    """Compare declared, batched and compiled results with evaluation, if it succeeds."""
    try:
        values = case.values()
    except (ValueError, ArithmeticError, TypeError, IndexError, Warning):
        return  # the operation refuses these arguments
    if case.number not in compiled:
        compiled[case.number] = jit(case.function(), backend="numpy")
    require_said(case)
    outs = compiled[case.number](*case.args)
    if case.args:
        args = [batch_of(x, 1) for x in case.args]
        expected = loop(case, args, (True,) * len(args), 1)
        batched = vmap(case.function())(*args)
        for out, value in zip(_listed(batched), expected, strict=True):
            require_specs([out], [value], "in a batch")
            require_near(out, value, ROUNDING[8], "in a batch")  # complex products round unevenly
    for one, value in zip(_listed(outs), values, strict=True):
        require_bits(one, value, "compiled")


def _listed(outs: Value) -> tuple[Value, ...]:
    return outs if isinstance(outs, tuple) else (outs,)


def _derivative_is_a_number(case: Case) -> None:
    """Check that a derivative is not NaN if arguments and values are numbers."""
    with suppress(ValueError, ArithmeticError, TypeError, Warning):  # refused arguments
        values = case.values()
        _require_numbers(case, values)


def _require_numbers(case: Case, values: Sequence[Value]) -> None:
    finite = all(np.all(np.isfinite(x)) for x in (*case.args, *values))
    for k in case.differentiable:
        f, (x,) = case.followed_function((k,)), case.point((k,))
        if np.iscomplexobj(x):
            continue  # limits differ between directions
        tangents = [np.asarray(t) for t in jvp(f, (x,), (np.ones_like(x),))[1]]
        cts = tuple([np.ones_like(values[j]) for j in case.followed])
        pulled = np.asarray(vjp(f, x)[1](cts)[0])
        if finite:
            for name, slopes in (("forward", tangents), ("reverse", [pulled])):
                if any(np.any(slope != slope) for slope in slopes):
                    raise CheckError(f"NaN in {name} mode along argument {k}, of a finite value")


SPECIAL_NUMBERS: Final = (
    Property(
        "special numbers",
        "Zeros, infinities and NaN have one value: evaluated, batched and compiled.",
        "See formula, source and body, and batch.",
        _one_value_at(_specials),
        takes_other_dtypes,
    ),
    Property(
        "empty and 0-d",
        "An elementwise operation takes 0-d and empty arrays.",
        "See evaluate, and samples.",
        _one_value_at(_shapes),
        is_elementwise,
    ),
    Property(
        "derivatives at zero",
        "A derivative is a number if arguments and value are: 0 where any subgradient is allowed.",
        "See differential: for example x / fnp.where(y == 0, 1.0, y) instead of x / y.",
        _at_all(_specials, _derivative_is_a_number),
        lambda primitive: is_elementwise(primitive) or primitive.form == "reducing",
    ),
)


_EXTREME: Final = (0.0, -0.0, 1.0, -1.5, 0.1, 3e38, -3e38, 1e-45, np.inf, -np.inf, np.nan)


def _pairs() -> Iterator[tuple[Raw, Raw]]:
    for dtype in (np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_):
        numbers = np.array(_EXTREME).astype(dtype)
        yield numbers[:, None], numbers
        yield np.repeat(numbers, 3), np.resize(numbers[::-1], 33)


def _of_pairs(law: Callable[[Primitive, Raw, Raw], None]) -> Callable[[Primitive], None]:
    """Make a check of a law at all pairs whose dtypes the operation takes."""

    def check(primitive: Primitive) -> None:
        count = 0
        for x, y in _pairs():
            try:
                law(primitive, x, y)
            except CheckError as error:
                raise CheckError(f"{x.dtype}: {error}") from None
            except TypeError:  # bitwise operations do not take floats
                continue
            count += 1
        require(count, "it takes no dtype")

    return check


def _commutes(primitive: Primitive, x: Raw, y: Raw) -> None:
    require_bits(primitive.evaluate(x, y), primitive.evaluate(y, x), "f(x, y), against f(y, x)")


def _is_product(primitive: Primitive, x: Raw, y: Raw) -> None:
    args = (x, y)[: len(next(iter(primitive.samples())).args)]
    if x.dtype != np.bool_ or len(args) == 2:
        product = np.multiply(args[0], args[-1])
        require_bits(primitive.evaluate(*args), product, "against the product")


def _converts(case: Case) -> None:
    for x, _ in _pairs():
        out = np.asarray(case.evaluate(x))
        if out.dtype == x.dtype:
            require_bits(out, x, f"of {x.dtype}, against its argument")


def _is_rounded_once(primitive: Primitive) -> None:
    """Check float32 against float64 rounded: 53 bits are enough to round only once."""
    rng = np.random.default_rng(2)
    tails = rng.standard_normal(500), 10.0 ** rng.uniform(-44, 38, 500)
    x = np.concatenate([np.array(_EXTREME), *tails]).astype(np.float32)
    case = next(cases_of(primitive))
    turns: list[Any] = [np.roll(x, 7 * k) for k in range(len(case.args))]
    args = [
        turn > 0 if np.asarray(arg).dtype == np.bool_ else turn
        for turn, arg in zip(turns, case.args, strict=True)
    ]
    try:
        out = np.asarray(case.evaluate(*args))
    except TypeError:  # bitwise operations do not take floats, and are exact for integers
        args = [np.abs(arg).astype(np.int32) % 31 for arg in args]
        out = np.asarray(case.evaluate(*args))
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in args]
    expected = np.asarray(case.evaluate(*wide)).astype(out.dtype)
    require_bits(out, expected, "in float32, against float64 rounded")


def _jumps(primitive: Primitive) -> None:
    """Check that the operation is not linear, although its factors read no argument."""
    for case in cases_of(primitive):
        for k in case.differentiable:
            arg = np.asarray(case.args[k])
            if arg.dtype != np.float64 or not arg.size:
                continue
            x, y = 2 * np.random.default_rng(8).standard_normal((2, *arg.shape))
            f = case.function((k,))
            try:
                require_superposition(lambda x, f=f: (np.asarray(f(x)),), x, y, "")
            except CheckError:
                return
    raise CheckError("it is linear at all samples")


def _writes_into(case: Case) -> None:
    whole = case.value()
    if not whole.ndim:
        return
    place = np.full_like(whole, 7)
    out = case.primitive.evaluate(*case.args, **case.sample.params, out=place)
    require(out is place, "evaluate(..., out=array) returns another array")
    require_bits(place, whole, "the array that evaluate writes")


def _with(trait: Trait) -> Callable[[Primitive], bool]:
    return lambda primitive: trait in primitive.traits


TRAIT_LAWS: Final = (
    Property(
        "trait: COMMUTATIVE",
        "f(x, y) has the bits of f(y, x).",
        "Do not declare COMMUTATIVE.",
        AtOnce(_of_pairs(_commutes)),
        _with(Trait.COMMUTATIVE),
    ),
    Property(
        "trait: PRODUCT",
        "The operation is the product of its operands.",
        "Do not declare PRODUCT.",
        AtOnce(_of_pairs(_is_product)),
        _with(Trait.PRODUCT),
    ),
    Property(
        "trait: CONVERTS",
        "f(x) is x in another dtype.",
        "Do not declare CONVERTS.",
        AtSamples(_converts),
        _with(Trait.CONVERTS),
    ),
    Property(
        "trait: ROUNDED_ONCE",
        "Each element is the true result, rounded.",
        "Do not declare ROUNDED_ONCE.",
        AtOnce(_is_rounded_once),
        _with(Trait.ROUNDED_ONCE),
    ),
    Property(
        "trait: JUMPS",
        "The operation is not linear, although its factors read no argument.",
        "Do not declare JUMPS.",
        AtOnce(_jumps),
        _with(Trait.JUMPS),
    ),
    Property(
        "trait: WRITES_INTO",
        "`evaluate` takes an array for the result, as `out`.",
        "Do not declare WRITES_INTO, or see evaluate.",
        AtSamples(_writes_into),
        _with(Trait.WRITES_INTO),
    ),
)
