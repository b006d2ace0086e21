"""Wrong rules of every kind are found by two laws within a hundred draws.

Every other operation gets a wrong rule; right rules of the others raise no false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Control
from funcgrad.errors import CheckError
from funcgrad.tensor.tensor import tensor
from funcgrad.testing import laws
from funcgrad.testing.laws.derivative_laws import grad_is_numerical, modes_agree
from funcgrad.testing.operations.cases import cases_of
from funcgrad.testing.planted_mistakes import _derivatives, _kinds_of_mistakes, _mistaken
from funcgrad.testing.subject import subject_of
from tests.conformance import Case, every_primitive

DRAWS = 100


def smooth_case(primitive: Primitive) -> Case | None:
    """A sample with several numbers, away from kinks, in double precision."""
    for case in cases_of(primitive):
        args = [np.asarray(arg) for arg in case.sample.args]
        wide = all(arg.dtype.kind not in "fc" or arg.dtype.itemsize >= 8 for arg in args)
        if case.is_moderate and wide and any(arg.size > 1 for arg in args):
            return case
    return None


def function_of(case: Case, operation: Primitive) -> Any:
    return Case(operation, case.number, case.sample).followed_function(case.differentiable)


def planted() -> Iterator[tuple[str, Case, Primitive]]:
    """The kinds of mistakes in turn, one for each operation, if it changes a derivative."""
    turn = 0
    for primitive in every_primitive()[::2]:
        case = None if isinstance(primitive.structure, Control) else smooth_case(primitive)
        if case is None:
            continue
        kinds = _kinds_of_mistakes(len(case.sample.args))
        point = case.point(case.differentiable)
        right = _derivatives(subject_of("test", function_of(case, primitive), point, None))
        for step in range(len(kinds)):
            kind = kinds[(turn + step) % len(kinds)]
            wrong = _mistaken(primitive, kind)
            try:
                values = _derivatives(subject_of("test", function_of(case, wrong), point, None))
            except Exception:
                continue
            if not all(map(np.allclose, values, right)):
                yield f"{primitive.name}: {kind}", case, wrong
                break
        turn += 1


def draws(case: Case) -> Iterator[tuple[Any, ...]]:
    """Points near a sample, in its domain."""
    rng = np.random.default_rng(0)
    point = [np.asarray(x) for x in case.point(case.differentiable)]
    yield tuple(map(tensor, point))
    for _ in range(DRAWS - 1):
        yield tuple(
            [tensor(np.asarray(x * (1 + rng.uniform(-1, 1, x.shape) / 256))) for x in point]
        )


def is_found(case: Case, wrong: Primitive) -> bool:
    function = function_of(case, wrong)
    for seed, point in enumerate(draws(case)):
        for law in (modes_agree, grad_is_numerical):
            try:
                law(function, point, seed=seed)
            except CheckError:
                return True
    return False


@pytest.mark.slow
def test_wrong_rules_of_every_kind_are_found():
    tried = list(planted())
    kinds = {name.partition(": ")[2] for name, _, _ in tried}
    assert len(tried) >= 60
    assert {"sign", "factor", "wrong axis", "missing factor", "swapped arguments"} <= kinds
    assert [name for name, case, wrong in tried if not is_found(case, wrong)] == []


@pytest.mark.slow
def test_right_rules_break_no_law():
    """At the same samples, so that what finds mistakes raises no false alarm."""
    broken = []
    always, others = (laws.modes_agree, laws.grad_is_numerical), (laws.taylor, laws.vmap_is_loop)
    for turn, primitive in enumerate(every_primitive()[1::2]):
        case = None if isinstance(primitive.structure, Control) else smooth_case(primitive)
        if case is None:
            continue
        function, point = function_of(case, primitive), case.point(case.differentiable)
        for law in (*always, others[turn % 2]):
            try:
                law(function, point)
            except CheckError as error:
                broken.append(f"{primitive.name}: {error}")
    assert broken == []
