"""Plans of memory: results that overwrite their operands give the results of new arrays.

Most programs are those of ``tests/passes``: operations on results of their own kind, with shared
operands, views, calls and outputs anywhere. The arrays themselves show which memory is shared; the
tests do not rely on the plan for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.plan import aliases, plan_of
from funcgrad._core.primitive import Primitive
from funcgrad._passes.pipeline import optimize
from funcgrad._primitives.identity_product import identity_product
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program
from tests.conformance import every_primitive
from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import FORMS, Pick, every_rule, staged
from tests.subjects import assert_bits
from tests.together import together

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


def assert_runs_as_planned(program: Program, args: list[Any]) -> bool:
    """Check the text against the equations one by one; whether a result overwrites an operand."""
    run = compile_program(program)
    before = [np.array(arg) for arg in args]
    found = [*run(*args)]
    assert_bits(found, program.evaluate(args))
    held = [np.array(out) for out in found]
    run(*args)
    assert_bits([np.array(out) for out in found], held)
    assert_bits([np.array(arg) for arg in args], before)
    return bool(plan_of(program).takes)


@pytest.mark.parametrize("start", range(0, len(SEEDS), 60))
def test_programs_run_as_planned(start: int) -> None:
    taken = [assert_runs_as_planned(*subject(seed)) for seed in SEEDS[start : start + 60]]
    assert sum(taken) >= 3


@pytest.mark.parametrize("start", range(0, len(SEEDS), 60))
def test_lives_of_memory(start: int) -> None:
    """The plan knows which values share memory; memory that is reused is neither read later, nor an
    argument, nor returned."""
    for seed in SEEDS[start : start + 60]:
        program, args = subject(seed)
        shared, plan = aliases(program), plan_of(program)
        arrays = [
            value if isinstance(value, np.ndarray) else np.empty(0)
            for value in values_of(program, args)
        ]
        for one, own in enumerate(arrays):
            for other in range(one):
                assert {*shared[one]} & {*shared[other]} or not np.shares_memory(own, arrays[other])
        for position, taken in plan.takes.items():
            start = program.index.results[position].start
            for variable, array in enumerate(arrays[:start]):
                if np.shares_memory(array, arrays[taken]):
                    assert variable >= len(program.inputs) + len(program.constants)
                    assert variable not in program.outputs
                    readers = [k for k, e in enumerate(program.equations) if variable in e.operands]
                    assert max(readers, default=-1) <= position


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


# Straight-line programs over every kind of operation.


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


UNARY = ("negative", "square", "exp", "sin", "absolute", "sign", "isnan", "floor")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "less", "arctan2")
MOVES: tuple[Callable[[Any], Any], ...] = (
    lambda x: fnp.sum(x, axis=0),
    lambda x: fnp.sum(x, axis=-1),
    lambda x: fnp.sum(x, axis=-1, keepdims=True),
    lambda x: fnp.sum(x),
    lambda x: fnp.sum(x, axis=0, keepdims=True),
    lambda x: fnp.max(x, axis=0),
    lambda x: fnp.min(x, axis=-1, keepdims=True),
    lambda x: fnp.mean(x),
    lambda x: fnp.sum(x * fnp.exp(x)),
    lambda x: fnp.sum(x * x[..., ::-1]) if x.ndim else x,
    lambda x: x[:, :1] if x.ndim > 1 else x[..., None],
    lambda x: x[:, ::-1] if x.ndim > 1 else x[::-1],
    lambda x: x[..., :] if x.ndim else x,
    lambda x: x.T,
    lambda x: fnp.reshape(x, (x.shape[0], -1)) if x.ndim else x,
    lambda x: fnp.reshape(x, (-1,)),
    lambda x: x.astype(np.float32),
    lambda x: fnp.where(x > 0, x, -1.0),
    lambda x: fnp.broadcast_to(x, (24, 4)) if x.shape in ((4,), (24, 1), ()) else x,
    lambda x: fnp.cumsum(x, axis=0) if x.ndim else x,
    fg.nn.relu,
    fg.nn.sigmoid,
)
GIVEN = (
    numbers(24, 4),
    numbers(24, 1, seed=1),
    numbers(4, seed=2),
    numbers(24, seed=3),
    1.5,
    numbers(24, 4, seed=4),
)
step = st.one_of(
    st.tuples(st.sampled_from(UNARY), st.integers(0, 7), st.just(0)),
    st.tuples(st.sampled_from(BINARY), st.integers(0, 7), st.integers(0, 7)),
    st.tuples(st.sampled_from(range(len(MOVES))), st.integers(0, 7), st.just(0)),
)


def run_steps(chosen: list[Any], outs: int, *values: Any) -> list[Any]:
    """A straight-line function that returns its last results and some of the others."""
    known = list(values)
    for what, i, j in chosen:
        x, y = fnp.asarray(known[-1 - i % len(known)]), fnp.asarray(known[-1 - j % len(known)])
        try:
            if isinstance(what, int):
                known.append(MOVES[what](x))
            elif what in UNARY:
                known.append(getattr(fnp, what)(x))
            else:
                known.append(getattr(fnp, what)(x, y))
        except (fg.errors.ShapeError, fg.errors.DtypeError):
            continue
    return [known[-1], *[x for k, x in enumerate(known[len(values) :]) if outs >> k & 1]]


@settings(max_examples=150, deadline=None)
@given(chosen=st.lists(step, min_size=6, max_size=14), outs=st.integers(0, 2**14 - 1))
def test_random_programs(chosen: list[Any], outs: int) -> None:
    program = optimize(fg.program(lambda *xs: run_steps(chosen, outs, *xs))(*GIVEN))
    assert_runs_as_planned(program, [*GIVEN])


# What the plan relies on.


@together("primitive", [p for p in every_primitive() if p.owns], ids=str)
def test_results_have_memory_of_their_own_where_the_plan_says_so(primitive: Primitive) -> None:
    with np.errstate(all="ignore"):
        for sample in primitive.samples():
            out = primitive.evaluate(*sample.args, **sample.params)
            assert not any(
                isinstance(arg, np.ndarray) and np.may_share_memory(arg, out) for arg in sample.args
            )


def test_results_take_the_memory_of_what_is_not_needed_any_more() -> None:
    program = fg.program(lambda x: fnp.exp(fnp.sin(x) + 1.0))(numbers(10))
    assert program.to_numpy_source().count(" = ") == 2  # the sine, and a number made once
    kept = fg.program(lambda x: (y := fnp.sin(x), fnp.exp(y)))(numbers(10))
    assert "exp(a, a)" not in kept.to_numpy_source()
    viewed = fg.program(lambda x: ((y := fnp.sin(x))[1:], fnp.exp(y)))(numbers(10))
    assert "exp(a, a)" not in viewed.to_numpy_source()
