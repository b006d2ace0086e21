"""Formulas against NumPy's functions, at extreme numbers of every dtype.

The subjects are discovered: whatever a ufunc evaluates. At samples a formula is tried by
``tests/test_intrinsics.py``; here it meets overflow, wrapped integers, NaN, infinities, subnormal
numbers and zeros of both signs, and all pairs of them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import UNEVEN, Elementwise
from funcgrad.errors import CheckError
from funcgrad.testing.operations.agreement import require_bits, require_ulps
from tests.conformance import every_primitive
from tests.together import together

pytestmark = pytest.mark.usefixtures("quiet")

# From call to call the bits of NumPy 2.0's absolute values and squares of complex numbers differ.
OLD = np.__version__.startswith("2.0.")

REALS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 90.0, 180.0, 65504.0, 1e16, 3e38, 1.7e308, np.inf)
SMALL = (0.1, 6e-8, 1e-45, 2.2e-308, 1e-300, 5e-324)


def formula_of(primitive: Primitive) -> Any:
    structure = primitive.structure
    return structure.formula if isinstance(structure, Elementwise) else None


SUBJECTS = [
    each
    for each in every_primitive()
    if isinstance(each.evaluate, np.ufunc) and isinstance(each.structure, Elementwise)
]


def numbers(char: str) -> Any:
    """Extreme numbers of a dtype, and some at random."""
    dtype, rng = np.dtype(char), np.random.default_rng(7)
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        drawn = rng.integers(limits.min, limits.max, 20, dtype=dtype)
        edges = [0, 1, 2, 3, 7, 12, 18, limits.min, limits.min + 1, limits.max, limits.max - 1]
        few = np.arange(-4 if dtype.kind == "i" else 0, 9)
        return np.concatenate([np.array(edges, dtype), drawn, few.astype(dtype)])
    line = np.array([*REALS, *SMALL])
    line = np.concatenate([line, -line, [np.nan], 3 * rng.standard_normal(20)])
    if dtype.kind == "f":
        return line.astype(dtype)
    plane = np.empty((len(line), len(line)), dtype)
    plane.real, plane.imag = line[:, None], line
    return plane.ravel()[::3]


def arguments(primitive: Primitive, x: Any) -> tuple[Any, ...]:
    """The numbers, or all pairs of them."""
    if primitive.name == "ldexp":
        return x[:, None], np.arange(-40, 40, 7)
    if len(next(iter(primitive.samples())).args) == 1:
        return (x,)
    few = x[:: 8 if len(x) > 99 else 1]
    return few[:, None], few[None]


def tried(primitive: Primitive) -> int:
    """Compare the formula with the ufunc; return in how many dtypes there was something."""
    structure, ufunc = primitive.structure, primitive.evaluate
    assert isinstance(structure, Elementwise)
    count = 0
    for char in "?bBhHiIqQefdFD":
        args = arguments(primitive, numbers(char))
        if primitive.name in ("absolute", "square") and char in "FD" and OLD:
            continue
        try:
            expected = ufunc(*args)
        except (TypeError, ValueError):
            continue
        made = formula_of(primitive)(intrinsics, *args)
        name = f"{primitive.name} in {np.dtype(char)}"
        if UNEVEN in primitive.traits:  # of two zeros it may be either
            made, expected = made + 0, expected + 0
        if structure.ulps and len(args) == 2:
            sizes = [np.where(np.isfinite(arg), abs(arg), 0.0) for arg in args]
            require_ulps(made, expected, structure.ulps, name, np.maximum(*sizes))
        else:
            require_ulps(made, expected, structure.ulps, name)
        count += 1
    return count


@together("primitive", SUBJECTS, ids=str)
def test_a_formula_says_what_the_ufunc_does(primitive: Primitive) -> None:
    assert formula_of(primitive) is not None, f"{primitive.name} is known by NumPy's name alone"
    assert tried(primitive)


def test_ufuncs_of_all_kinds_are_tried() -> None:
    assert len(SUBJECTS) >= 80
    assert {"logaddexp", "remainder", "gcd", "phase", "less", "exp"} <= {p.name for p in SUBJECTS}


WRONG: dict[str, Callable[..., Any]] = {
    "ceil": lambda m, x: m.floor(x) + 1,
    "signbit": lambda m, x: x < 0,
    "fmax": lambda m, x, y: m.maximum(x, y),
    "remainder": lambda m, x, y: m.fmod(x, y),
    "sign": lambda m, x: m.where(x == 0, x, x // m.absolute(x)),  # -128 of int8
    "lcm": lambda m, x, y: m.absolute(x * y) // m.gcd(x, y),
    "logaddexp": lambda m, x, y: m.log(m.exp(x) + m.exp(y)),
    "logical_and": lambda m, x, y: (x > 0) & (y > 0),
    "rad2deg": lambda m, x: x * 57.29577951308,
    "spacing": lambda m, x: m.nextafter(x, np.inf) - x,
    "floor_divide": lambda m, x, y: m.floor(m.divide(x, y)),
}


@together("name", WRONG)
def test_a_wrong_formula_is_seen(name: str) -> None:
    (right,) = [each for each in SUBJECTS if each.name == name]
    wrong = replace(right, structure=Elementwise(WRONG[name]))
    with pytest.raises((CheckError, TypeError)):
        tried(wrong)


def test_units_in_the_last_place_are_counted() -> None:
    one = np.array([1.0, np.inf, np.nan, -0.0])
    near = np.array([1.0 + 2.0**-51, np.inf, np.nan, -0.0])
    require_ulps(near, one, 2, "near")
    for wrong in (near[[0, 0, 2, 3]], near[[0, 1, 1, 3]], -near, near + 2.0**-51):
        with pytest.raises(CheckError, match="wrong"):
            require_ulps(wrong, one, 2, "wrong")
    with pytest.raises(CheckError, match="bits"):
        require_bits(near, one, "bits")
