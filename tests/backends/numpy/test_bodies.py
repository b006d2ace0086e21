"""Programs inside a compiled program are compiled too, and results do not change."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._backends.numpy.backend import compile_program, with_compiled_bodies
from funcgrad._backends.numpy.prepare import prepared
from funcgrad.errors import GuardError
from tests.strangers.iteration import iterate, iterated
from tests.subjects import assert_bits, wrong_cube

# Where nobody knows of an operation what it does with its programs, it runs them itself.
assert isinstance(iterate.structure, extend.Control)
called = replace(iterate, structure=replace(iterate.structure, form=None))
X, Y = np.linspace(0.1, 1.0, 4), np.linspace(1.0, 2.0, 4)


def turned(x: Any, y: Any) -> Any:
    return fnp.sin(y) * 0.9 + 0.0 * 3.0, x * y - 0.1 * fnp.sum(x)


def repeated(body: fg.Program, times: int, *values: Any) -> Any:
    return extend.apply_several(called, *values, body=body, times=times)


def test_a_loop_runs_the_compiled_body() -> None:
    runs: list[fg.Program] = []

    def compile(body: fg.Program) -> Any:
        def run(*values: Any) -> Any:
            runs.append(body)
            return body.evaluate(values)

        return run

    own = fg.program(turned)(X, Y)
    staged = fg.program(lambda x, y: repeated(own, 3, x, y))(X, Y)
    compiled = with_compiled_bodies(staged, compile)
    assert_bits(compiled(X, Y), staged(X, Y))
    (equation,) = staged.equations
    assert runs == [dict(equation.params)["body"]] * 3
    assert compiled.verify().to_text() == staged.to_text()
    plain = fg.program(turned)(X, Y)
    assert with_compiled_bodies(plain, compile) is plain


def test_results_have_the_bits_of_a_loop_in_python() -> None:
    def f(x: Any, y: Any) -> Any:
        return iterated(lambda x, y: iterated(turned, 2, y, x), 3, x, y)  # a loop in a loop

    expected = f(X, Y)
    assert_bits(fg.jit(f)(X, Y), expected)
    assert_bits(compile_program(fg.program(f)(X, Y))(X, Y), expected)
    gradient = fg.grad(lambda x, y: fnp.sum(f(x, y)[0]))
    np.testing.assert_allclose(fg.jit(gradient)(X, Y), gradient(X, Y), rtol=1e-13)


def test_bodies_are_prepared() -> None:
    def f(x: Any) -> Any:
        return iterated(lambda x: (wrong_cube(x) * 1.0 + x * 0.0,), 2, x)[0]

    (equation,) = prepared(fg.program(f)(X)).equations
    body = dict(equation.params)["body"]
    assert "custom_jvp" not in body.to_text()
    assert [each.name for each in body.equations] == ["multiply", "multiply", "multiply", "add"]
    assert_bits(fg.jit(f)(X), f(X))
    assert_bits(fg.jit(fg.grad(lambda x: fnp.sum(f(x))))(X), fg.grad(lambda x: fnp.sum(f(x)))(X))


@pytest.mark.parametrize(
    "value",
    [np.float32(0.3), 0.3, np.array([0.1, 0.2], np.float32), np.array(0.3), np.array([1, 2])],
    ids=lambda value: f"{type(value).__name__} {np.shape(value)} {np.asarray(value).dtype}",
)
def test_values_that_a_body_is_not_for_are_computed_as_ever(value: Any) -> None:
    body = fg.program(lambda x: (fnp.sin(x) * np.float64(2.0) + 1,))(np.ones(3))
    expected = repeated(body, 2, value)
    staged = fg.program(lambda x: repeated(body, 2, x))(value)
    assert_bits(compile_program(staged)(value)[0], expected[0])


def test_a_guard_in_a_body_holds_or_raises() -> None:
    def step(x: Any) -> Any:
        return (x * 0.5 if x > 1.0 else x * 2.0,)

    body = fg.program(step)(np.float64(3.0))
    run = compile_program(fg.program(lambda x: repeated(body, 1, x))(np.float64(3.0)))
    assert_bits(run(np.float64(5.0))[0], np.float64(2.5))
    with pytest.raises(GuardError, match="would take another path"):
        run(np.float64(0.5))


def test_errors_are_treated_as_numpy_is_told() -> None:
    f = fg.jit(lambda x: iterated(lambda x: (1.0 / x,), 2, x)[0])
    assert_bits(f(np.zeros(2)), np.zeros(2))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(np.zeros(2))
    with np.errstate(all="ignore"):
        assert_bits(f(np.zeros(2)), np.zeros(2))
