"""Traits: claims of an operation about all operands hold at extreme values, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Trait
from funcgrad._core.trace import Raw
from funcgrad.errors import CheckError
from funcgrad.testing.operations.agreement import require, require_bits
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.linear_rules import require_superposition
from funcgrad.testing.operations.properties import AtOnce, AtSamples, Property

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
