"""The subjects of the tests of primitives.

Subjects are found by importing every module of the package and looking for primitives, so a new one
is tested the moment it exists. The checks themselves are in ``funcgrad.testing.operations``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import pytest

import funcgrad
import tests.strangers
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._forms.json_text import declared_primitives
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad._transforms.flat_functions import CallPrimitive
from funcgrad.testing.operations import agreement
from funcgrad.testing.operations.agreement import (
    batch_of,
    coarsest,
    differences,
    direction,
    directions,
    inner,
    inner_all,
    require_all_near,
)
from funcgrad.testing.operations.cases import Case, cases_of, representatives, subsets
from funcgrad.testing.operations.conformance import raise_failures
from funcgrad.testing.operations.properties import AtSamples, Property
from tests.together import together

Way = TypeVar("Way")

__all__ = [
    "Case",
    "assert_near",
    "assert_properties",
    "at_all",
    "batch_of",
    "by_primitive",
    "by_properties",
    "by_quick_properties",
    "coarsest",
    "differences",
    "direction",
    "directions",
    "every_case",
    "every_primitive",
    "in_turn",
    "inner",
    "inner_all",
    "loop",
    "representatives",
    "special_functions",
    "strangers",
    "subsets",
    "telling",
]


def every_primitive(several: bool = False) -> list[Primitive]:
    """The primitives that stand in modules of the package, each once, in order of name: those with
    one result, or those with several. Those of calls, whose parameters are programs, are tried in
    ``tests/transforms/test_call_primitives``, and those of other libraries' functions in
    ``tests/foreign``."""
    return [primitive for primitive in _discovered() if has_several(primitive) == several]


@cache
def _discovered() -> list[Primitive]:
    modules = pkgutil.walk_packages(funcgrad.__path__, "funcgrad.")
    values = [value for each in modules for value in vars(import_module(each.name)).values()]
    primitives = {id(value): value for value in values if isinstance(value, Primitive)}
    ordinary = [
        each
        for each in primitives.values()
        if not isinstance(each, CallPrimitive) and (not each.is_foreign or [*each.samples()])
    ]
    return sorted(ordinary, key=lambda primitive: primitive.name)


def special_functions() -> list[Primitive]:
    """The primitives behind ``funcgrad.scipy.special``, which are tested by themselves too."""
    home = import_module("funcgrad._primitives.special_functions")
    modules = pkgutil.iter_modules(home.__path__, f"{home.__name__}.")
    declared = [declared_primitives(import_module(each.name)) for each in modules]
    return [primitive for primitives in declared for primitive in primitives.values()]


def strangers(several: bool = False) -> list[Primitive]:
    """The operations that are declared outside of the package, with one result or with several;
    see ``tests/strangers``."""
    modules = pkgutil.walk_packages(tests.strangers.__path__, "tests.strangers.")
    values = [value for each in modules for value in vars(import_module(each.name)).values()]
    found = [value for value in values if isinstance(value, Primitive)]
    return [each for each in found if has_several(each) == several]


@cache
def has_several(primitive: Primitive) -> bool:
    """Whether an operation has several results."""
    sample = next(iter(primitive.samples()), Sample((1.0,)))
    return isinstance(primitive.evaluate(*sample.args, **sample.params), tuple)


# ------------------------------------------------------------------------------ properties


SLOW = frozenset(
    (
        "batch and derivatives",
        "batch of batches",
        "compiled",
        "compiled pullbacks",
        "cotangents of every form",
        "derivatives in single precision",
        "saved",
        "second order",
        "special numbers",
        "staged",
    )
)
"""Properties that take some 50 milliseconds for an operation, or that quick tests of backends ask
for as well, as they stage and compile every operation."""

COMBINED = (SLOW - {"special numbers", "staged"}) | {"pushes are transposed"}
"""Properties that combine what others try at all samples; they are tried at two ``telling`` ones.

Elementwise operations, which share one rule of batches and one way to apply factors, have these at
one.
``tests/backends/numpy/test_backend`` compiles every operation at the other samples, too.
"""

INTEGRATED = frozenset(
    """beta_density beta_tail betainc betainc_in_shapes betaincc betainccinv betaincinv
    gammainc_in_shape iv_in_order ive_derivative jv_in_order kve_derivative yv_in_order""".split()
)
"""Operations whose values, or derivatives, are integrals that are computed at each sample.

Their numbers are compared with those of mpmath in ``tests/scipy/special/test_digits``, to second
derivatives; the properties are tried at one sample of each kind."""


SUMMED = frozenset(
    """gamma_density gamma_tail kv_in_order log_betainc_factor log_gammainc log_gammaincc logm
    logm_along riemann_zeta_derivative stdtr stdtrit zeta_derivative""".split()
)
"""Operations whose values are long series, which are tried at one sample of each kind, too."""


def by_properties(primitives: Iterable[Primitive], properties: Sequence[Property]) -> Any:
    """A test for each operation, with the properties that apply to it.

    Those that take half of the total time are a test of their own, marked as slow: they seldom
    fail where the others pass.
    """
    subjects = []
    for primitive, chosen in _with_properties(primitives, properties):
        slow = [tried for tried in chosen if tried.name in SLOW]
        groups = {"": [tried for tried in chosen if tried not in slow], "-slow": slow}
        for kind, some in groups.items():
            marks = [pytest.mark.slow] * (kind == "-slow" or primitive.name in INTEGRATED)
            name = f"{primitive.name}{kind}"
            subjects += [pytest.param(primitive, some, id=name, marks=marks)] * bool(some)
    assert subjects
    return pytest.mark.parametrize(("primitive", "properties"), subjects)


def by_quick_properties(primitives: Iterable[Primitive], properties: Sequence[Property]) -> Any:
    """One test of all operations, each with the properties that apply to it."""
    subjects = _with_properties(primitives, properties)
    return together(("primitive", "properties"), subjects, ids=[str(one) for one, _ in subjects])


def _with_properties(
    primitives: Iterable[Primitive], properties: Sequence[Property]
) -> list[tuple[Primitive, list[Property]]]:
    pairs = [(one, [tried for tried in properties if tried.applies(one)]) for one in primitives]
    return [(one, chosen) for one, chosen in pairs if chosen]


def assert_properties(primitive: Primitive, properties: Sequence[Property]) -> None:
    """Check an operation at all of its samples, or at those that a property needs."""
    cases = list(every_case([primitive]))
    if primitive.name in INTEGRATED | SUMMED:
        cases = representatives(cases)
    failures = [tried.of_kinds(primitive, _enough(tried, cases)) for tried in properties]
    raise_failures(primitive, list(zip(properties, failures, strict=True)))


def _enough(tried: Property, cases: list[Case]) -> list[Case]:
    if tried.name in COMBINED and isinstance(tried.tries, AtSamples):
        chosen = telling(filter(tried.tries.wants, cases))
        return chosen[: 1 if any(map(_shares_its_rules, chosen[:1])) else 2]
    return cases


def _shares_its_rules(case: Case) -> bool:
    return case.primitive.batch is batch_elementwise


# ------------------------------------------------------------------------------ cases


def every_case(primitives: Sequence[Primitive]) -> Iterator[Case]:
    """Every primitive at every sample."""
    for primitive in primitives:
        yield from _cases(primitive)


@cache
def _cases(primitive: Primitive) -> list[Case]:
    return list(cases_of(primitive))


def telling(cases: Iterable[Case]) -> list[Case]:
    """The representatives with a parameter, a dtype or a form of an argument that those of the same
    operation before them lack."""
    seen: set[tuple[object, ...]] = set()
    chosen = []
    for case in representatives(cases):
        news = {(case.primitive.name, *each) for each in _features(case)} - seen
        if news:
            seen |= news
            chosen.append(case)
    return chosen


def _features(case: Case) -> Iterator[tuple[object, ...]]:
    yield from ((key, repr(value)) for key, value in case.sample.params.items())
    yield ("smooth", case.sample.smooth)
    yield ("broadcast", len({np.shape(arg) for arg in case.args}))
    for k, arg in enumerate(map(np.asarray, case.args)):
        yield k, "dtype", arg.dtype.char
        yield k, "axes", arg.ndim
        yield k, "empty", arg.size == 0
        yield k, "of one", 1 in arg.shape
        yield k, "contiguous", arg.flags.c_contiguous
        if arg.ndim > 1:
            yield k, "rows and columns", np.sign(arg.shape[-2] - arg.shape[-1])


def assert_near(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Check two arrays, or lists of them, relative to the greatest finite number in each."""
    if not isinstance(actual, (list, tuple)):
        actual, expected = [actual], [expected]
    require_all_near(actual, expected, tolerance, what)


def loop(case: Case, args: Sequence[Any], flags: Sequence[bool], size: int) -> Any:
    """An operation with one result on one example after the other."""
    (out,) = agreement.loop(case, args, flags, size)
    return out


def by_primitive(cases: Iterable[Case]) -> Any:
    """One test of all operations, in two pieces; each operation comes with all of its cases."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.primitive.name, []).append(case)
    return together("cases", grouped.values(), ids=grouped, pieces=2)


def in_turn(ways: Sequence[Way], turn: int, count: int) -> list[Way]:
    """Some of the ways, in the next turn the next ones: each is tried, but not with everything."""
    return [ways[(turn * count + k) % len(ways)] for k in range(count)]


def at_all(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Make a check at all cases, and report all that fail."""
    failures = []
    for case in cases:
        with np.errstate(all="ignore"):
            try:
                check(case)
            except Exception as error:  # whatever it is, the other cases count too
                failures.append(f"{case}, {case.described()}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} cases fail\n" + "\n".join(failures)
