"""Every rule and every pass on programs made for it, with a count of its applications.

The programs are random, of forms in which the rule applies: nested in itself, sharing operands with
itself, reading its own results, beside others (``generator.py``). A rule without a form fails its
test, and so does a rule that is never applied to its forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from funcgrad._core import pytrees
from funcgrad._passes.workbench import Rules, improve, joined
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program
from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import (
    DTYPES,
    FORMS,
    counting,
    every_rule,
    forms_around,
    is_exact,
    staged,
)
from tests.passes.test_passes import every_pass
from tests.subjects import assert_bits

TABLE = every_rule()
OF_IDENTITY = "identity._product"  # which is for large arrays, and has grounds as a pass

LEAST = 3
"""How often a rule has to have been applied to each of its operations."""

PROGRAMS = 60
"""On how many a pass is tried; of these it has to change every eighth."""


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def assert_near(own: Any, other: Any) -> None:
    """Check results that are sums in another order; all their terms are of moderate size."""
    for found, wanted in zip(pytrees.leaves(own), pytrees.leaves(other), strict=True):
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        scale = np.max(np.abs(wanted), initial=1.0)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * scale)


EXACT: Rules = MappingProxyType(
    joined(
        *[
            {operation: (rule,)}
            for name, own in TABLE.items()
            if is_exact(name) and name != OF_IDENTITY
            for operation, rule in own.items()
        ]
    )
)

# ----------------------------------------------------------------------------------------- rules


def test_every_rule_has_a_form() -> None:
    without = {*TABLE} - {*FORMS} - {OF_IDENTITY}
    assert not without, f"{without}: add an expression that it applies to in forms_of_*.py"
    needless = {*FORMS} - {*TABLE}
    assert not needless, f"{needless}: there is no such rule"


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_rules_keep_what_programs_mean(name: str) -> None:
    counts: Counter[Hashable] = Counter()
    own = counting({operation: (rule,) for operation, rule in TABLE[name].items()}, counts)
    per_operation = 8 if len(own) > 12 else 20
    for number, operation in enumerate(own):
        for seed in range(100 * number, 100 * number + per_operation):
            dtype = DTYPES[seed % len(DTYPES)] if is_exact(name) else "d"
            forms = forms_around(name, operation, TABLE, seed)
            program, args = staged(forms, seed, dtype, tame=not is_exact(name))
            check = assert_bits if is_exact(name) else assert_near
            expected = program(*args)
            check(improve(program, own).verify()(*args), expected)
            if is_exact(name):
                assert_bits(improve(program, EXACT).verify()(*args), expected)
    for operation in own:
        assert counts[name, operation] >= LEAST, f"{name} is hardly tried: {operation}"


# ---------------------------------------------------------------------------------------- passes


def passes_with_rules() -> set[str]:
    """The names of passes that only apply rules; their rules are tested one by one.

    Contractions are mostly for large arrays, and are tested as a pass, too.
    """
    modules = {rule.partition(".")[0] for rule in FORMS} - {"contractions"}
    return {
        name
        for name, change in every_pass().items()
        if change.__module__.rpartition(".")[2] in modules
    }


PASSES: dict[str, Callable[[Program], Program]] = {**every_pass(), "inlined": inlined}


def test_every_pass_has_grounds() -> None:
    without = {*PASSES} - passes_with_rules() - {*GROUNDS}
    assert not without, f"{without}: add programs that it applies to in GROUNDS, or rules"
    needless = {*GROUNDS} - ({*PASSES} - passes_with_rules())
    assert not needless, f"{needless}: there is no such pass without rules"


@pytest.fixture
def grounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The ``Ground`` of a pass, without the limits by which the pass ignores small programs."""
    own = GROUNDS[request.param]
    for name, value in own.free.items():
        monkeypatch.setattr(f"{PASSES[request.param].__module__}.{name}", value)
    return request.param, own


@pytest.mark.slow
@pytest.mark.parametrize("grounds", GROUNDS, indirect=True)
def test_passes_keep_what_programs_mean(grounds: Any) -> None:
    name, own = grounds
    change, changed = PASSES[name], 0
    for seed in range(PROGRAMS):
        rng = np.random.default_rng(seed)
        forms = [(None, own.forms[k]) for k in rng.integers(len(own.forms), size=1 + seed % 4)]
        dtype = "fd"[seed % 2] if own.exact else "d"
        program, args = staged(forms, seed, dtype, tame=not own.exact or seed % 3 == 0)
        found = change(program).verify()
        changed += found != program
        check = assert_bits if own.exact else assert_near
        check(found(*args), program(*args))
    assert changed >= PROGRAMS // 8, f"{name} changes {changed} of {PROGRAMS} programs"


@pytest.mark.parametrize(
    "grounds", [name for name, own in GROUNDS.items() if not own.exact], indirect=True
)
def test_sums_in_another_order_keep_nan_and_infinities(grounds: Any) -> None:
    name, own = grounds
    changed = 0
    for seed in range(PROGRAMS):
        rng = np.random.default_rng(seed)
        program, args = staged([(None, own.forms[seed % len(own.forms)])], seed, "d", tame=True)
        found = PASSES[name](program)
        changed += found != program
        for _ in range(6):
            special = tuple([_with_infinities(rng, arg) for arg in args])
            results = zip(
                pytrees.leaves(found(*special)), pytrees.leaves(program(*special)), strict=True
            )
            for pair in results:
                own_kept, kept = [np.where(np.isfinite(each), 0.0, each) for each in pair]
                np.testing.assert_array_equal(own_kept, kept)
    assert changed >= PROGRAMS // 8


def _with_infinities(rng: np.random.Generator, value: Any) -> Any:
    """Whole numbers, for which sums in any order are exact, and infinities of either sign."""
    whole = np.array([-2.0, -1.0, 1.0, 2.0, 3.0])
    if not np.ndim(value):
        return value
    drawn = rng.choice([*whole, np.inf, -np.inf], np.shape(value), p=[0.18] * 5 + [0.05] * 2)
    return drawn.astype(value.dtype)
