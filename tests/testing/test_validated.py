"""`validated` names a wrong pass, its rule, and the smallest program; right ones pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy import prepare
from funcgrad._hooks.requested_checks import is_validated
from funcgrad._passes import pipeline
from funcgrad._passes.trials_of_passes import difference, tried
from funcgrad._passes.workbench import joined
from funcgrad._primitives.elementwise import multiply, subtract
from funcgrad._programs.builder import Draft, rewrite
from funcgrad.errors import CheckError
from tests.subjects import SUBJECTS
from tests.together import together

X = np.linspace(0.5, 2.0, 6)


def associated(bench: Any, equation: Any) -> int | None:
    """``(a * b) - c`` as ``a * (b - c)``: wrong."""
    x, y = equation.operands
    maker = bench.is_made_by(x, multiply)
    if maker is None:
        return None
    difference = bench.put(equation, subtract, (maker.operands[1], y))
    return int(bench.put(equation, multiply, (maker.operands[0], difference)))


@pytest.fixture
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = joined(pipeline._ALL, {subtract: (associated,)})
    monkeypatch.setattr(pipeline, "_ALL", rules)


def deep(x: Any) -> Any:
    y = fnp.exp(fnp.sin(x) + 1.0)
    return fnp.sum(fnp.cos(y * x - fnp.tanh(x)) / (1.0 + x))


@pytest.mark.usefixtures("_planted")
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_wrong_rule_is_named_with_the_smallest_program(backend: str) -> None:
    with fg.testing.validated(), pytest.raises(CheckError) as caught:
        fg.jit(deep, backend=backend)(X)
    text = str(caught.value)
    assert "the pass workbench.improve changes a result of deep" in text
    assert f"The rule: {associated.__module__}.associated." in text
    smallest = text.partition("The smallest program")[2].partition("becomes")[0]
    assert smallest.count(" = ") == 2
    assert "multiply" in smallest
    assert "subtract" in smallest
    assert "test_validated.py:" in smallest


@pytest.mark.usefixtures("_planted")
def test_the_environment_asks_for_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUNCGRAD_VALIDATE", raising=False)
    fg.jit(deep)(X)  # nobody asks: the wrong rule is applied
    assert not is_validated()
    monkeypatch.setenv("FUNCGRAD_VALIDATE", "1")
    with pytest.raises(CheckError, match="changes a result"):
        fg.jit(deep)(X)
    with pytest.raises(CheckError, match="changes a result"):
        fg.jit(lambda x: fg.scan(lambda c, a: (c + deep(a), c), 0.0, x)[0])(X[None])


def test_a_wrong_pass_of_a_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(program: fg.Program) -> fg.Program:
        def step(draft: Draft, equation: Any) -> Any:
            if equation.operation is subtract:
                equation = equation.on(equation.operands[::-1])
            return draft.append(equation)

        return rewrite(program, step)

    monkeypatch.setattr(prepare, "put_rows_last", swapped)
    with fg.testing.validated(), pytest.raises(CheckError, match=r"swapped changes a result"):
        fg.jit(lambda x: fnp.sin(x) - x, backend="numpy")(X)


def test_bits_and_edges_are_compared() -> None:
    def program(f: Any) -> fg.Program:
        return fg.program(f)(X)

    assert difference(program(lambda x: x + 0.0), program(lambda x: x))  # of -0.0
    assert difference(program(lambda x: x * 0.0), program(lambda x: x - x + 0.0))
    assert difference(program(lambda x: (x + 1.0) - 1.0), program(lambda x: x + 0.0))
    assert not difference(program(lambda x: x + x), program(lambda x: 2.0 * x))
    total = program(lambda x: fnp.sum(x * 3.0))
    assert not difference(total, program(lambda x: 3.0 * fnp.sum(x)), is_exact=False)
    assert difference(total, program(lambda x: 3.0000001 * fnp.sum(x)), is_exact=False)


@together("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_right_passes_are_silent(subject: Any) -> None:
    with fg.testing.validated():
        fg.jit(subject.f)(*subject.args)


def test_a_pass_that_raises_wrong_shapes_is_a_difference() -> None:
    before = fg.program(lambda x: x + 1.0)(X)
    after = fg.program(lambda x: (x + 1.0)[:2])(X)
    assert "instead of" in difference(before, after).text  # type: ignore[union-attr]
    assert tried(lambda program: program, before) is before


def test_a_pass_that_changes_trees_is_named() -> None:
    def in_a_tuple(program: Any) -> Any:
        return fg.program(lambda x: (program(x),))(X)

    with fg.testing.validated(), pytest.raises(CheckError, match="in_a_tuple changes the trees of"):
        tried(in_a_tuple, fg.program(deep)(X))


def test_programs_that_act_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        fg.debug.print("x is", x[0])
        return x * 1.0

    with fg.testing.validated():
        fg.jit(f)(X)
    assert capsys.readouterr().out.count("x is") == 1
