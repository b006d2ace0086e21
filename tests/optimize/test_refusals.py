"""Wrong calls of solvers, and solvers that do not succeed: what the errors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from funcgrad.errors import (
    ArgumentError,
    ConvergenceError,
    DifferentiationError,
    DtypeError,
    FunctionError,
    ShapeError,
    TracerError,
    TreeError,
)
from tests.together import refused


def cube(x: Any) -> Any:
    return x**3 - 2.0


def growing(x: Any) -> Any:
    parts = [x[0] - 3.0, x[1]] if x[0] < 0.5 else [x[0] - 3.0, x[1], x[0]]
    return fnp.stack(parts)


NOTHING: Any = None

WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: optimize.root_scalar(cube), ArgumentError, "needs a starting point x0"),
    (lambda: optimize.root_scalar(cube, method="itp", x0=1.0), ArgumentError, "needs a bracket"),
    (lambda: optimize.root_scalar(cube, bracket=1.0), ArgumentError, "a pair of scalars"),
    (lambda: optimize.root_scalar(cube, bracket=(0.0, [1.0])), ShapeError, "fg.vmap"),
    (lambda: optimize.root_scalar(cube, bracket=(0.0, 1.0j)), DtypeError, "real"),
    (lambda: optimize.root_scalar(cube, x0=[1.0, 2.0]), ShapeError, "single number"),
    (lambda: optimize.root_scalar(cube, x0=1.0, method="muller"), ArgumentError, "'brentq'"),
    (lambda: optimize.root_scalar(lambda x: fnp.stack([x, x]), x0=1.0), ShapeError, "systems"),
    (lambda: optimize.root_scalar(3.0, x0=1.0), FunctionError, "root_scalar"),  # type: ignore[arg-type]
    (lambda: optimize.root_scalar(cube, x0=1.0, failed="no"), ArgumentError, "'keep'"),
    (lambda: optimize.root_scalar(cube, x0=1.0, derivative="no"), ArgumentError, "'steps'"),
    (lambda: optimize.root_scalar(cube, x0=1.0, xtol=-1.0), ArgumentError, "xtol"),
    (lambda: optimize.root_scalar(cube, x0=1.0, maxiter=0), ArgumentError, "maxiter"),
    (lambda: optimize.root(lambda x: x[:1], [1.0, 2.0]), ShapeError, "shape"),
    (lambda: optimize.root(lambda x: (x, x), 1.0), TreeError, "root"),
    (lambda: optimize.root(cube, 1), DtypeError, "floating-point"),
    (lambda: optimize.root(cube, 1.0, tangent_solve=NOTHING), FunctionError, "tangent_solve"),
    (lambda: optimize.root(cube, 1.0j), DtypeError, "real and the imaginary"),
    (lambda: optimize.minimize(lambda x: x, [1.0, 2.0]), DifferentiationError, "one number"),
    (lambda: optimize.minimize(lambda x: x @ x, [1.0], bounds=(0.0,)), ArgumentError, "pair"),
    (
        lambda: optimize.minimize(lambda x: x @ x, [1.0], bounds=(2.0, 1.0)),
        ArgumentError,
        "greater",
    ),
    (
        lambda: optimize.minimize(lambda x: x @ x, [1.0], bounds=([1.0, 2.0], None)),
        ShapeError,
        "do not fit",
    ),
    (
        lambda: optimize.minimize(lambda x: x @ x, [1.0], constraints={"type": "eq"}),
        ArgumentError,
        "NonlinearConstraint",
    ),
    (
        lambda: optimize.minimize(lambda x: x @ x, [1.0], constraints={"type": "le", "fun": cube}),
        ArgumentError,
        "'ineq'",
    ),
    (lambda: optimize.least_squares(cube, 1.0, loss="l1"), ArgumentError, "'huber'"),
    (lambda: optimize.least_squares(cube, 1.0, method="trf"), ArgumentError, "'lm'"),
    (
        lambda: optimize.least_squares(lambda x: np.array([1, 2]), 1.0),
        DtypeError,
        "floating-point residuals",
    ),
    (lambda: optimize.curve_fit(lambda *p: p[0], [0.0], [1.0]), ArgumentError, "p0"),
    (
        lambda: optimize.curve_fit(lambda x, a: a * x, [0.0, 1.0], [1.0, 2.0], sigma=np.ones(3)),
        ShapeError,
        "sigma",
    ),
    (lambda: optimize.minimize_scalar(cube, (0.0, 1.0, 2.0)), ArgumentError, "pair"),
    (lambda: optimize.least_squares(growing, [0.0, 1.0]), ShapeError, "2 residuals at the start"),
    (
        lambda: optimize.least_squares(growing, [0.0, 1.0], method="dogbox"),
        ShapeError,
        "2 residuals at the start, and 3",
    ),
]


test_wrong_calls_are_refused = refused(WRONG)


FAILING: list[tuple[Callable[..., Any], int]] = [
    (lambda z, **o: optimize.root_scalar(lambda x: x**2 + 1.0 + z, bracket=(0.0, 1.0), **o), -3),
    (lambda z, **o: optimize.root_scalar(lambda x: x**2 + 1.0 + z, x0=0.0, **o), -4),
    (lambda z, **o: optimize.root_scalar(lambda x: cube(x) + z, x0=1.0, maxiter=1, **o), 0),
    (lambda z, **o: optimize.root(lambda x: x**2 + 1.0 + z, 1.0, maxiter=3, **o), -4),
    (lambda z, **o: optimize.root(lambda x: x**2 + 1.0 + z, 0.0, method="newton", **o), -4),
    (lambda z, **o: optimize.root(lambda x: np.nan * (x + z), -1.0, **o), -1),
    (lambda z, **o: optimize.minimize(lambda x: x @ x + z, [1.0, 2.0], maxiter=1, **o), 0),
    (lambda z, **o: optimize.minimize(lambda x: np.nan * (x[0] + z), [-1.0], **o), -1),
    (
        lambda z, **o: optimize.minimize(
            lambda x: x @ x,
            [1.0],
            constraints={"type": "eq", "fun": lambda x: x @ x + 1.0 + z},
            **o,
        ),
        -5,
    ),
    (lambda z, **o: optimize.least_squares(lambda x: cube(x) + z, 9.0, max_nfev=2, **o), 0),
    (lambda z, **o: optimize.least_squares(lambda x: np.nan * (x + z), -1.0, **o), -1),
]


@pytest.mark.parametrize("place", range(len(FAILING)))
def test_failures_raise_or_are_nan_or_are_kept(place: int) -> None:
    solve, status = FAILING[place]
    with pytest.raises(ConvergenceError, match=r"test_refusals\.py"):
        solve(0.0)
    found = solve(0.0, failed="nan")
    assert np.isnan(np.asarray(found.x)).all()
    assert int(found.status) == status
    assert not found.success
    kept = solve(0.0, failed="keep")
    assert not np.isnan(np.asarray(kept.x)).any()
    assert kept.message.endswith(".")
    staged = fg.jit(solve)(0.0)
    assert np.isnan(np.asarray(staged.x)).all()
    assert int(staged.status) == status


def test_messages_of_traced_solutions_are_refused() -> None:
    with pytest.raises(TracerError, match="outside"):
        fg.jit(lambda a: optimize.root_scalar(lambda x: x - a, x0=0.0).message)(1.0)


def test_overflow_on_the_way_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    optimize.minimize(lambda x: fnp.sum(fnp.log(fnp.cosh(x - 30.0))), [0.0], method="newton-cg")
    optimize.root_scalar(lambda x: fnp.exp(x) - 5.0, x0=-20.0, failed="keep")
    assert not recwarn.list
