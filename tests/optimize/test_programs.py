"""Solvers run as programs outside of ``jit``: the same bits, and derivatives by the equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from funcgrad._backends import improving_runs
from funcgrad._staging import loop_programs
from funcgrad.errors import ConvergenceError
from funcgrad.optimize import solver_tasks
from tests.optimize.test_laws import SOLVES, number


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether solvers could be staged, one after the other."""
    programs, make = list[bool](), loop_programs._made

    def noted(*args: Any) -> Any:
        program = make(*args)
        programs.append(program is not None)
        return program

    monkeypatch.setattr(loop_programs, "_made", noted)
    monkeypatch.setattr(solver_tasks, "_PROGRAMS", loop_programs.LoopPrograms())
    return programs


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(tree)]


QUICK = ("fit", "scalar root by brentq", "minimum by bfgs")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SOLVES]


@pytest.mark.parametrize("name", EACH)
def test_values_and_derivatives_keep_every_bit(
    name: str, made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improving_runs, "_LONG", -1.0)  # machine code from the third call on
    solve = SOLVES[name]
    plain, *others = [bits(solve(1.1)) for _ in range(4)]
    assert others == [plain, plain, plain]
    assert made == [True]
    slope = fg.grad(number(solve))
    first, second = float(slope(1.1)), float(slope(1.1))  # by a program: `a` is a tensor here
    assert first == second
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_programs.LoopPrograms, "results", lambda *_: None)
        assert float(slope(1.1)) == pytest.approx(first, rel=1e-9)


def test_equal_constants_that_lie_otherwise_keep_their_bits(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A linear model's Jacobian is the model's matrix, but in Fortran's order."""
    monkeypatch.setattr(improving_runs, "_LONG", -1.0)
    rng = np.random.default_rng(0)
    matrix, data = rng.standard_normal((30, 2)), rng.standard_normal(30)

    def fit() -> list[bytes]:
        return bits(optimize.least_squares(lambda p: matrix @ p - data, np.zeros(2)))

    plain, *others = [fit() for _ in range(4)]
    assert others == [plain, plain, plain]
    assert made == [True]


def test_failures_are_told_by_programs_too(made: list[bool]) -> None:
    for _ in range(3):
        with pytest.raises(ConvergenceError, match="same sign"):
            optimize.root_scalar(lambda x: x**2 + 1.0, bracket=(0.0, 1.0))
        assert np.isnan(
            float(optimize.root_scalar(lambda x: x**2 + 1.0, bracket=(0, 1), failed="nan").x)
        )
    assert made == [True, True]  # two functions


def test_fits_with_their_residuals_and_covariances(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improving_runs, "_LONG", -1.0)
    t = np.linspace(0.0, 2.0, 9)

    def model(t: Any, height: Any, rate: Any) -> Any:
        return height * fnp.exp(-rate * t)

    def fit(**options: Any) -> Any:
        return optimize.least_squares(lambda p: {"r": p[0] - fnp.exp(p[1] * t)}, [1, 1], **options)

    plain, *others = [bits(optimize.curve_fit(model, t, np.cos(t))) for _ in range(4)]
    assert others == [plain, plain, plain]
    first, *later = [fit() for _ in range(4)]
    assert [bits(one) for one in later] == [bits(first)] * 3
    assert made == [True, True, True]
    assert fnp.allclose(first.fun["r"], first.x[0] - fnp.exp(first.x[1] * t))
    for _ in range(3):
        assert np.isnan(np.asarray(fit(max_nfev=1, failed="nan").fun["r"])).all()


def test_a_change_outside_is_seen() -> None:
    for _ in range(3):
        found = optimize.root_scalar(lambda x: x**3 - SHIFT["by"], bracket=(0.0, 5.0))
        assert float(found.x) == pytest.approx(2.0)
    SHIFT["by"] = 27.0
    try:
        found = optimize.root_scalar(lambda x: x**3 - SHIFT["by"], bracket=(0.0, 5.0))
        assert float(found.x) == pytest.approx(3.0)
    finally:
        SHIFT["by"] = 8.0


SHIFT = {"by": 8.0}


def test_functions_that_branch_on_values_run_from_python(made: list[bool]) -> None:
    def kinked(x: Any) -> Any:
        return x - 1.0 if x > 0.0 else 2.0 * x - 1.0

    for _ in range(3):
        assert float(optimize.root_scalar(kinked, bracket=(-2.0, 5.0)).x) == pytest.approx(1.0)
    assert made == [False]


def test_constraints_and_pytrees_are_parts_of_the_program(made: list[bool]) -> None:
    def price(limit: Any, weight: float) -> Any:
        budget = {"type": "ineq", "fun": lambda x, b: b - x["u"] - x["v"], "args": (limit,)}
        return optimize.minimize(
            lambda x: weight * (x["u"] - 2.0) ** 2 + (x["v"] - 1.0) ** 2,
            {"u": 0.0, "v": 0.0},
            method="trust-exact",
            constraints=budget,
        ).x["u"]

    first, second = price(1.0, 1.0), price(1.0, 1.0)
    assert bits(first) == bits(second)
    assert float(price(2.0, 1.0)) == pytest.approx(1.5)
    assert float(price(1.0, 3.0)) == pytest.approx(1.5)  # another constant of the function
    assert made == [True]
    assert float(fg.grad(lambda b: price(b, 1.0))(1.0)) == pytest.approx(0.5)
    assert fnp.allclose(fg.vmap(lambda b: price(b, 1.0))(np.array([1.0, 2.0])), [1.0, 1.5])
