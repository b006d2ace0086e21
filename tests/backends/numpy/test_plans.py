"""Plans of programs that use every feature of plans, with blocks small enough for that.

The programs are those of ``tests/passes``: operations on results of their own kind, with shared
operands, views, calls and outputs anywhere. The arrays themselves show which memory is shared; the
tests do not rely on the plan for that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.fusion import Kernel
from funcgrad._backends.numpy.plan import Plan, plan_of
from funcgrad._passes.pipeline import optimize
from funcgrad._primitives.identity_product import identity_product
from funcgrad._programs.inline import inlined
from funcgrad._programs.liveness import aliases
from funcgrad._programs.program import Program
from tests.backends.numpy.test_kernels import run_blocks
from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import FORMS, Pick, every_rule, staged

TABLE = every_rule()
ALL_FORMS = sorted(
    {form for ground in GROUNDS.values() for form in ground.forms}, key=lambda form: form.__name__
)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def subject(seed: int) -> tuple[Program, list[Any]]:
    """A program without calls, and its arguments as arrays."""
    pick = Pick(seed)
    forms: list[Any] = []
    for _ in range(1 + seed % 5):
        name = pick(*[name for name in FORMS if name != "axes._placed_twice"])
        operation = pick(*map(_Held, TABLE[name]))
        forms.append(
            pick((operation.value, FORMS[name]), (None, pick(*map(_Held, ALL_FORMS)).value))
        )
    program, args = staged(forms, seed, "d", tame=True)
    return inlined(program), [arg if np.ndim(arg) else float(arg) for arg in args]


class _Held:
    """A holder of an operation as a value, since the operation itself is callable."""

    def __init__(self, value: Any) -> None:
        self.value = value


def values_of(program: Program, args: list[Any]) -> list[Any]:
    """The array of every variable, from evaluating the equations one by one."""
    values = [*args, *[constant.value for constant in program.constants]]
    for equation in program.equations:
        operands = [values[variable] for variable in equation.operands]
        found = equation.operation.evaluate(*operands, **dict(equation.params))
        values += found if isinstance(found, list | tuple) else [found]
    return values


SEEDS = range(240)


@pytest.mark.parametrize("start", range(0, len(SEEDS), 60))
def test_programs_run_as_planned(start: int) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS[start : start + 60]:
        program, args = subject(seed)
        block = (16, 24, 40, 64)[seed % 4]
        plan = plan_of(program, block)
        happened["kernels"] += any(isinstance(step, Kernel) for step in plan.steps)
        happened["taken"] += bool(plan.takes)
        expected = program.evaluate(args)
        for own, other in zip(run_blocks(program, args, block), expected, strict=True):
            own, other = np.asarray(own), np.asarray(other)
            assert (own.shape, own.dtype) == (other.shape, other.dtype)
            scale = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
            np.testing.assert_allclose(own, other, rtol=0, atol=1e-10 * scale)
        assert_order(program, plan)
    for name in ("kernels", "taken"):
        assert happened[name] >= 3, (name, happened)


def assert_order(program: Program, plan: Plan) -> None:
    """Check that every equation runs once, after those whose results it reads."""
    order = [p for step in plan.steps for p in ((step,) if isinstance(step, int) else step.members)]
    assert sorted(order) == list(range(len(program.equations)))
    made = {*range(len(program.inputs) + len(program.constants))}
    for position in order:
        equation = program.equations[position]
        assert made.issuperset(equation.operands)
        made.update(range(plan.firsts[position], plan.firsts[position] + len(equation.results)))


@pytest.mark.parametrize("start", range(0, len(SEEDS), 60))
def test_lives_of_memory(start: int) -> None:
    """The plan knows which values share memory; memory that is reused is neither read later, nor an
    argument, nor returned."""
    for seed in SEEDS[start : start + 60]:
        program, args = subject(seed)
        shared, plan = aliases(program), plan_of(program, 1 << 40)
        arrays = [
            value if isinstance(value, np.ndarray) else np.empty(0)
            for value in values_of(program, args)
        ]
        for one, own in enumerate(arrays):
            for other in range(one):
                assert {*shared[one]} & {*shared[other]} or not np.shares_memory(own, arrays[other])
        when = {position: moment for moment, position in enumerate(plan.steps)}
        for position, taken in plan.takes.items():
            for variable, array in enumerate(arrays):
                if variable < plan.firsts[position] and np.shares_memory(array, arrays[taken]):
                    assert variable >= len(program.inputs) + len(program.constants)
                    assert variable not in program.outputs
                    readers = [k for k, e in enumerate(program.equations) if variable in e.operands]
                    assert all(when[k] <= when[position] for k in readers)


def test_a_program_without_calls_is_inlined_already() -> None:
    x = np.ones(3)
    program = fg.program(lambda x: fnp.sin(x) * x)(x)
    assert inlined(program) is program
    nested = fg.program(fg.checkpoint(lambda x: fnp.sin(x) * x))(x)
    assert [e.operation for e in inlined(nested).equations] == [
        e.operation for e in program.equations
    ]


def test_a_product_with_an_identity_matrix_is_written_over() -> None:
    x = np.linspace(0.0, 1.0, 40_000).reshape(200, 200)
    program = optimize(fg.program(lambda x: fnp.sin(x @ np.eye(200)) * 2.0)(x))
    assert program.equations[0].operation is identity_product
    assert plan_of(program).takes.keys() == {1, 2}
    np.testing.assert_array_equal(compile_program(program)(x)[0], program(x))


@pytest.mark.parametrize("key", [(), ..., (...,), slice(None), (slice(None), ...)], ids=repr)
def test_a_view_of_all_of_an_array_is_planned(key: Any) -> None:
    x = np.linspace(0.0, 1.0, 200_000).reshape(50_000, 4)
    program = fg.program(lambda x: fnp.sin(fnp.cos(x)[key]) * 2.0 + x)(x)
    np.testing.assert_array_equal(compile_program(program)(x)[0], program(x))
