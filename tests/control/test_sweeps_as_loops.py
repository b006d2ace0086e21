"""Compiled, the way back through a loop is loops along stacks, and is what steps are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._control.loop_operation import ROWS
from tests.control.nests import held_back
from tests.together import together
from tests.tools.benchmarks.measured import peak

COUNTS = [0, 1, 2, 50]


def loop(step: Callable[[Any, Any], Any], **options: Any) -> Callable[..., Any]:
    """A loop of a number of steps that is an argument."""

    def f(x: Any, count: Any) -> Any:
        return fnp.sum(
            fg.while_loop(
                lambda c: c[0] < count, lambda c: (c[0] + 1, step(c[1], x)), (0, x), **options
            )[1]
        )

    return f


LOOPS = {
    "numbers": (loop(lambda c, x: fnp.sin(c) * x + 0.1), 0.9),
    "Python's numbers": (loop(lambda c, x: 0.9 * c * x + 0.1), 0.9),
    "arrays": (loop(lambda c, x: fnp.tanh(c) * x[::-1] + 0.1 * c), fg.tensor([0.9, 0.4])),
    "single precision": (
        loop(lambda c, x: fnp.sin(c) * x + 0.1),
        fnp.asarray(0.9, dtype="float32"),
    ),
    "complex": (loop(lambda c, x: abs(fnp.sin(c * 1j)) * x), 0.9),
    "a loop inside": (
        loop(lambda c, x: fg.while_loop(lambda y: y < 2.0, lambda y: 1.3 * y + abs(c), x)),
        fg.tensor(0.9),
    ),
    "a rule": (loop(lambda c, x: held_back(c) * x + 0.1), fg.tensor([0.9, 0.4])),
    "few states": (loop(lambda c, x: fnp.sin(c) * x + 0.1, checkpoints=3), 0.9),
}

ORDERS: dict[str, Callable[[Any], Any]] = {
    "reverse": fg.jacrev,
    "forward over reverse": lambda f: fg.jacfwd(fg.jacrev(f)),
    "reverse over reverse": lambda f: fg.jacrev(fg.jacrev(f)),
}


@pytest.mark.slow
@together("order", ORDERS)
@together("name", LOOPS)
def test_loops_written_out_are_what_sweeps_are(name: str, order: str) -> None:
    f, x = LOOPS[name]
    transformed = ORDERS[order](f)
    staged = fg.jit(transformed)
    precision = 1e-4 if name == "single precision" else 1e-9
    for count in COUNTS:
        expected, found = transformed(x, count), staged(x, count)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=precision, atol=1e-12, err_msg=str(count))


def test_a_batch_is_written_out() -> None:
    f, _ = LOOPS["numbers"]
    xs, counts = fnp.linspace(0.5, 0.9, 4), fg.tensor([0, 3, 18, 32])
    expected = [float(fg.grad(f)(x, count)) for x, count in zip(xs, counts, strict=True)]
    np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(xs, counts), expected, rtol=1e-10)


def test_a_compiler_is_given_loops() -> None:
    def loops(name: str) -> list[str]:
        f, x = LOOPS[name]
        program = prepared(fg.program(fg.grad(f))(x, 3))
        names = {"while_reverse", "stacking_while", "stacking_scan"}
        return [equation.name for equation in program.equations if equation.name in names]

    assert loops("numbers") == loops("Python's numbers") == ["stacking_while", "stacking_scan"]
    assert loops("few states") == ["while_reverse"]
    f, x = LOOPS["arrays"]
    text = prepared(fg.program(fg.grad(f))(x, 3)).to_numpy_source()
    assert "stacking" not in text
    assert "while_reverse" not in text


def test_a_loop_runs_once_for_its_value_and_for_the_way_back() -> None:
    for name in ("numbers", "Python's numbers", "arrays", "single precision", "a rule"):
        f, x = LOOPS[name]
        both = fg.value_and_grad(lambda x, count, f=f: f(x, count) ** 2)
        names = [equation.name for equation in prepared(fg.program(both)(x, 3)).equations]
        assert names.count("stacking_while") == 1, name
        assert "while_loop" not in names, name
        for count in COUNTS:
            value, gradient = fg.jit(both)(x, count)
            assert float(value) == float(fg.jit(lambda *args, f=f: f(*args) ** 2)(x, count))
            np.testing.assert_array_equal(
                gradient, fg.jit(lambda *args, g=both: g(*args)[1])(x, count)
            )


@together("order", ORDERS)
@together("name", LOOPS)
def test_evaluated_loops_are_those_that_are_written(name: str, order: str) -> None:
    f, x = LOOPS[name]
    transformed = ORDERS[order](f)
    loops = prepared(fg.program(transformed)(x, 3))
    for count in (0, 3):
        with np.errstate(all="ignore"):
            found = loops.evaluate([np.asarray(x)[()], count])[0]
        expected = transformed(x, count)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12, err_msg=str(count))


def test_stacks_have_as_many_rows_as_there_are_steps() -> None:
    def f(c: Any, x: Any, count: Any) -> Any:
        return fg.while_loop(
            lambda s: s[0] < count, lambda s: (s[0] + 1, s[1] - 0.001 * s[1] * s[1] * x), (0, c)
        )[1]

    numbers = (np.float64(0.3), np.float64(0.999))
    arrays = (np.linspace(0.0, 1.0, 900), np.linspace(0.5, 1.0, 900))
    for (c, x), counts in ((numbers, [ROWS - 1, ROWS, 2 * ROWS + 1]), (arrays, [8, 9, 40])):
        staged = fg.jit(fg.grad(lambda *args: fnp.sum(f(*args)), (0, 1)))
        for count in counts:
            own = fg.grad(lambda *args: fnp.sum(f(*args)), (0, 1))(c, x, count)
            np.testing.assert_allclose(staged(c, x, count)[0], own[0], rtol=1e-9, atol=1e-300)
            np.testing.assert_allclose(staged(c, x, count)[1], own[1], rtol=1e-9)


def test_states_take_little_more_memory_than_they_have() -> None:
    f, x = LOOPS["arrays"][0], np.linspace(0.1, 0.9, 10_000)
    gradient = fg.jit(fg.grad(f))
    for count in (92, 93):  # before an array of states gets longer, and after
        gradient(x, count)
        # With NumPy from 2.5 on, there are the shorter array and the longer one for a moment.
        assert peak(partial(gradient, x, count)) < 1.75 * count * x.nbytes + 20 * x.nbytes


def test_a_way_back_that_reads_no_state_takes_as_many_steps() -> None:
    def f(c: Any, x: Any) -> Any:
        return fg.while_loop(lambda s: s[0] < 7.5, lambda s: (s[0] + 1.0, s[1] * x), (0.0, c))[1]

    assert float(fg.jit(fg.grad(f))(1.0, 2.0)) == 256.0


@fg.custom_vjp
def _preconditioned(a: Any, x: Any) -> Any:
    return x


_preconditioned.defvjp(
    lambda a, x: (x, a), lambda a, ct: (fnp.zeros((2, 2)), fnp.linalg.inv(a) @ ct)
)


def test_what_might_refuse_does_not_run_where_there_is_no_step() -> None:
    def f(x: Any, a: Any, count: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, fnp.sin(_preconditioned(a, state[1]))

        return fnp.sum(fg.while_loop(lambda state: state[0] < count, step, (0, x))[1])

    gradient, x = fg.jit(fg.grad(f)), np.ones(2)
    np.testing.assert_array_equal(gradient(x, np.zeros((2, 2)), 0), [1.0, 1.0])
    expected = fg.grad(f)(x, 2 * np.eye(2), 3)
    np.testing.assert_allclose(gradient(x, 2 * np.eye(2), 3), expected, rtol=1e-12)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_there_may_be_no_step_over_large_rows(steps: int) -> None:
    def f(x: Any) -> Any:
        def step(state: Any) -> Any:
            return fnp.sin(state[0]), state[1] + 1

        x, count = fg.while_loop(lambda state: state[1] < 3 - 10 * state[0][0, 0], step, (x, 0))
        return fnp.sum(x * (count + 1.0))

    x = np.full((8, 8), 0.3 - 0.1 * steps)
    for transform in (fg.grad, lambda f: lambda x: fg.hvp(f, (x,), (x,))):
        expected = transform(f)(x)
        np.testing.assert_allclose(transform(fg.jit(f))(x), expected, rtol=1e-12)


def test_a_loop_from_another_start_is_not_stacked() -> None:
    f, x = LOOPS["numbers"]
    both = fg.value_and_grad(lambda x, y: f(x, 3) * f(y, 3))
    names = [equation.name for equation in prepared(fg.program(both)(x, 0.4)).equations]
    assert names.count("stacking_while") == names.count("while_loop") == 1
    np.testing.assert_allclose(fg.jit(both)(x, 0.4), both(x, 0.4), rtol=1e-12)
