"""Tangent systems of many unknowns: sparse matrices give what dense ones give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.implicit import dense_solve, direct, direct_solve

SIDE, HALF = 7, 3
LOAD = np.linspace(0.5, 1.5, SIDE * SIDE).reshape(SIDE, SIDE)
START = np.ones((SIDE, SIDE))


def laplacian(u: Any) -> Any:
    wide = fnp.pad(u, 1)
    return wide[1:-1, 2:] + wide[1:-1, :-2] + wide[2:, 1:-1] + wide[:-2, 1:-1] - 4 * u


def residual(u: Any, load: Any) -> Any:
    return u + u**3 - laplacian(u) - load


def drifting(u: Any, load: Any) -> Any:
    """An equation whose matrix is not symmetric."""
    return residual(u, load) + 0.5 * u * fnp.pad(u, 1)[1:-1, :-2]


def newton(f: Callable[[Any], Any], u: Any, equation: Any = residual) -> Any:
    matrix = fg.sparse.jacobian(lambda u: equation(u, 0.0))
    for _ in range(5):
        step = fg.scipy.sparse.linalg.spsolve(matrix(u), np.asarray(f(u)).reshape(-1))
        u = u - np.asarray(step).reshape(u.shape)
    return u


def energy(u: Any, load: Any) -> Any:
    stretched = fnp.sum((u[1:] - u[:-1]) ** 2) + fnp.sum((u[:, 1:] - u[:, :-1]) ** 2)
    ends = fnp.sum(u[0] ** 2 + u[-1] ** 2 + u[:, 0] ** 2 + u[:, -1] ** 2)
    return fnp.sum(u**2 / 2 + u**4 / 4 - load * u) + (stretched + ends) / 2


def by_steps(f: Callable[[Any], Any], u: Any) -> Any:
    return fg.fori_loop(0, 200, lambda _, u: u - 0.1 * f(u), u)


def rooted(solve: Any) -> Callable[[Any], Any]:
    def solver(f: Callable[[Any], Any], u: Any) -> Any:
        return newton(f, u, drifting)

    return lambda p: fg.implicit.root(drifting, solver, solve)(START, p * LOAD)


def custom(solve: Any) -> Callable[[Any], Any]:
    return lambda p: fg.custom_root(lambda u: residual(u, p * LOAD), START, by_steps, solve)


def minimized(solve: Any) -> Callable[[Any], Any]:
    """The least energy; its gradient is the residual."""
    return lambda p: fg.implicit.minimize(energy, lambda f, u: newton(fg.grad(f), u), solve)(
        START, p * LOAD
    )


def fitted(solve: Any) -> Callable[[Any], Any]:
    def solver(f: Callable[[Any], Any], u: Any) -> Any:
        return newton(f, u)

    return lambda p: fg.implicit.least_squares(residual, solver, solve)(START, p * LOAD)


def fixed(solve: Any) -> Callable[[Any], Any]:
    def step(u: Any, p: Any) -> Any:
        return u - 0.1 * residual(u, p * LOAD)

    return lambda p: fg.fixed_point(step, START, p, tangent_solve=solve)


def of_tree(solve: Any) -> Callable[[Any], Any]:
    def halves(u: Any, load: Any) -> Any:
        whole = residual(fnp.concatenate([u["top"], u["below"][0]]), load)
        return {"top": whole[:HALF], "below": (whole[HALF:],)}

    def solver(_: Any, u: Any) -> Any:
        root = newton(lambda u: residual(u, LOAD), np.ones((SIDE, SIDE)))
        return {"top": root[:HALF], "below": (root[HALF:],)}

    def solution(p: Any) -> Any:
        start = {"top": START[:HALF], "below": (START[HALF:],)}
        parts = fg.implicit.root(halves, solver, solve)(start, p * LOAD)
        return fnp.concatenate([parts["top"], parts["below"][0]])

    return solution


SOLUTIONS = {
    "root": rooted,
    "custom_root": custom,
    "minimize": minimized,
    "least_squares": fitted,
    "fixed_point": fixed,
    "a tree": of_tree,
}
TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "forward": lambda f: fg.jvp(f, (1.0,), (1.0,))[1],
    "reverse": lambda f: fg.grad(lambda p: fnp.sum(fnp.sin(f(p))))(1.0),
    "second": lambda f: fg.grad(lambda p: fnp.sum(fg.jvp(f, (p,), (1.0,))[1] ** 2))(1.0),
    "under jit": lambda f: fg.jit(fg.grad(lambda p: fnp.sum(fnp.sin(f(p)))))(1.0),
    "a batch": lambda f: fg.vmap(fg.grad(lambda p: fnp.sum(fnp.sin(f(p)))))(np.ones(2)),
}


PAIRS = [
    pytest.param(kind, transform, marks=[pytest.mark.slow] * (not is_fast))
    for kind in SOLUTIONS
    for transform in TRANSFORMS
    for is_fast in [kind == "root" or transform == "reverse"]
]
"""Roots in every way, and the reverse mode of every solution; the others are slow."""


@pytest.mark.parametrize(("kind", "transform"), PAIRS)
def test_the_derivative_is_that_of_a_dense_matrix(
    kind: str, transform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    derivative = TRANSFORMS[transform]
    expected = derivative(SOLUTIONS[kind](dense_solve))

    def refused(*_: Any, **_options: Any) -> Any:
        raise AssertionError("a dense matrix was made")

    monkeypatch.setattr(direct, "dense_solve", refused)
    monkeypatch.setattr(direct, "FEWEST_SPARSE", SIDE**2)
    monkeypatch.setattr(direct, "_SPARSE", 4)
    ours = derivative(SOLUTIONS[kind](direct_solve))
    assert_allclose(np.asarray(ours), np.asarray(expected), rtol=1e-8)


def shifted(x: Any) -> Any:
    return 3.0 * x - fnp.roll(x, 1)


@pytest.mark.parametrize(
    ("matvec", "b"),
    [
        (shifted, np.ones(199)),
        (lambda x: x + fnp.mean(x), np.ones(250)),
        (lambda x: 2.0 * x.conj(), np.ones(250) * 1j),
        (shifted, {"u": np.ones(150, np.float32), "v": np.ones((2, 40))}),
    ],
    ids=["few", "a full matrix", "linear over the reals", "a tree of two dtypes"],
)
def test_others_are_dense(matvec: Callable[[Any], Any], b: Any) -> None:
    if isinstance(b, dict):
        x = direct_solve(lambda t: fg.tree.map(shifted, t), b)
        assert x["u"].dtype == np.float32
        assert_allclose(np.asarray(shifted(x["v"])), b["v"], rtol=1e-12)
        assert_allclose(np.asarray(shifted(x["u"])), b["u"], rtol=1e-6)
    else:
        assert_allclose(np.asarray(matvec(direct_solve(matvec, b))), b, rtol=1e-12)


def test_an_equation_that_looks_at_numbers_has_a_dense_matrix() -> None:
    def looks(x: Any) -> Any:
        return x * (2.0 if np.asarray(x)[..., 0] > 5 else 3.0)

    assert_allclose(np.asarray(direct_solve(lambda x: 3.0 * x, np.ones(300))), 1 / 3)
    with pytest.raises(fg.errors.FuncgradError):
        direct_solve(looks, np.ones(300))


def test_singular_systems() -> None:
    weights = np.ones(250)
    weights[3] = 0.0
    with pytest.raises(fg.errors.MatrixError, match="direct_solve: the linear system is singular"):
        direct_solve(lambda x: weights * x, np.ones(250))
    lost = direct_solve(lambda x: weights * x, np.ones(250), failed="nan")
    assert np.isnan(np.asarray(lost)).all()

    def both(scale: Any) -> Any:
        return direct_solve(lambda x: scale * x, np.ones(250), failed="nan")

    of_batch = np.asarray(fg.vmap(both)(np.array([0.0, 2.0, np.nan])))
    assert np.isnan(of_batch).all(axis=1).tolist() == [True, False, True]
    assert (of_batch[1] == 0.5).all()
    slopes = fg.vmap(fg.grad(lambda scale: fnp.sum(both(scale))))(np.array([0.0, 2.0]))
    assert np.isnan(np.asarray(slopes)).tolist() == [True, False]
    assert slopes[1] == -250 / 4


def test_nan_stays_nan_as_in_a_dense_matrix() -> None:
    for scale in (np.nan, np.inf):
        for solve in (dense_solve, direct_solve):
            solved = fg.jit(lambda s, solve=solve: solve(lambda y: s * y, np.ones(250)))
            x = np.asarray(solved(scale))
            assert not x.any() or np.isnan(x).all()
