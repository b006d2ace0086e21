"""Derivatives, callbacks, bounds and options that users pass as they do to SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from funcgrad.errors import ArgumentError, DtypeError, ShapeError

scipy_optimize = pytest.importorskip("scipy.optimize")


def circle(x: Any, r: Any = 1.0) -> Any:
    return fnp.stack([x[0] ** 2 + x[1] ** 2 - 2.0 * r, x[0] - x[1]])


def slopes(x: Any, r: Any = 1.0) -> Any:
    return fnp.stack([2.0 * x, fnp.stack([1.0, -1.0])])


def valley(x: Any, a: Any = 1.0) -> Any:
    return 100.0 * (x[1] - x[0] ** 2) ** 2 + (a - x[0]) ** 2


GRADIENT, HESSIAN = fg.grad(valley), fg.hessian(valley)


def steep(x: Any, a: Any = 1.0) -> Any:
    bend = x[1] - x[0] ** 2
    return fnp.stack([-400.0 * x[0] * bend - 2.0 * (a - x[0]), 200.0 * bend])


SLOW = pytest.mark.slow


@pytest.mark.parametrize("method", ["lm", *[pytest.param(m, marks=SLOW) for m in ("dogbox", "gn")]])
@pytest.mark.parametrize(
    "form", ["dense", pytest.param("sparse", marks=SLOW), pytest.param("scipy", marks=SLOW)]
)
def test_fits_take_a_jacobian(method: str, form: str) -> None:
    def jac(x: Any, r: Any) -> Any:
        matrix = slopes(x, r)
        if form == "sparse":
            return fg.sparse.array(fnp.ravel(matrix), [0, 1, 0, 1], [0, 2, 4], (2, 2))
        if form == "scipy":
            return pytest.importorskip("scipy.sparse").csr_array(np.asarray(matrix))
        return matrix

    def radius(r: Any) -> Any:
        return optimize.least_squares(
            circle, [2.0, 0.5], args=(r,), jac=jac, method=method, xtol=1e-12
        ).x[0]

    assert [float(radius(4.0)) for _ in range(3)] == pytest.approx([2.0] * 3)
    assert float(fg.grad(radius)(4.0)) == pytest.approx(0.25)
    if form == "dense":
        np.testing.assert_allclose(fg.vmap(radius)(np.array([1.0, 4.0])), [1.0, 2.0])
        assert float(fg.jit(radius)(4.0)) == pytest.approx(2.0)
        wrong = optimize.least_squares(
            circle, [2.0, 0.5], jac=lambda x: 1e6 * slopes(x), max_nfev=5, failed="keep"
        )
        assert not wrong.success  # the matrix is really used


@pytest.mark.parametrize(
    "method", ["hybr", *[pytest.param(m, marks=SLOW) for m in ("newton", "broyden1")]]
)
def test_roots_take_a_jacobian(method: str) -> None:
    def radius(r: Any) -> Any:
        return optimize.root(circle, [2.0, 0.5], (r,), method, slopes, tol=1e-12).x[0]

    assert float(radius(4.0)) == pytest.approx(2.0)
    assert float(fg.grad(radius)(4.0)) == pytest.approx(0.25)
    np.testing.assert_allclose(fg.jit(fg.vmap(radius))(np.array([1.0, 4.0])), [1.0, 2.0])


DERIVATIVES: dict[str, dict[str, Any]] = {
    "jac": {"jac": steep},
    "jac and hess": {"jac": steep, "hess": lambda x, a: HESSIAN(x, a)},
    "jac and hessp": {"jac": steep, "hessp": lambda x, p, a: HESSIAN(x, a) @ p},
    "hess": {"hess": lambda x, a: np.array(HESSIAN(x, a)) if type(x) is float else HESSIAN(x, a)},
}


@pytest.mark.parametrize(
    "name", [n if n == "jac and hessp" else pytest.param(n, marks=SLOW) for n in DERIVATIVES]
)
@pytest.mark.parametrize(
    "method", ["newton-cg", *[pytest.param(m, marks=SLOW) for m in ("bfgs", "trust-exact")]]
)
def test_minima_take_derivatives(name: str, method: str) -> None:
    def place(a: Any, **options: Any) -> Any:
        options = DERIVATIVES[name] | options
        return optimize.minimize(valley, [-1.2, 1.0], (a,), method, tol=1e-9, **options).x[1]

    assert float(place(1.5)) == pytest.approx(2.25)
    assert float(fg.grad(place)(1.5)) == pytest.approx(3.0)
    assert float(fg.jit(place)(1.5)) == pytest.approx(2.25)
    line = {"type": "eq", "fun": lambda x: x[0] + x[1] - 1.0}
    found = float(place(1.5, constraints=line))
    assert found == pytest.approx(float(_plain(line)), abs=1e-6)


def _plain(line: Any) -> Any:
    return optimize.minimize(valley, [-1.2, 1.0], (1.5,), tol=1e-9, constraints=line).x[1]


def test_jac_may_be_returned_with_the_value() -> None:
    def both(x: Any) -> Any:
        return valley(x), steep(x)

    found = optimize.minimize(both, [-1.2, 1.0], jac=True)
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)
    tree = optimize.minimize(
        lambda p: (p["u"] - 1.0) ** 2, {"u": 0.0}, jac=lambda p: {"u": 2.0 * (p["u"] - 1.0)}
    )
    assert float(tree.x["u"]) == pytest.approx(1.0)


def test_derivatives_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match="a row for each result"):
        optimize.least_squares(circle, [2.0, 0.5], jac=lambda x: np.ones((3, 2)))
    with pytest.raises(ShapeError, match="a row for each result"):
        optimize.root(circle, [2.0, 0.5], jac=lambda x: np.ones((2, 1)))
    with pytest.raises(ShapeError, match="a tree like x"):
        optimize.minimize(valley, [2.0, 0.5], jac=lambda x: np.ones(3))


SOLVES: dict[str, Callable[..., Any]] = {
    "lm": lambda **o: optimize.least_squares(circle, [2.0, 0.5], **o),
    "dogbox": lambda **o: optimize.least_squares(circle, [2.0, 0.5], method="dogbox", **o),
    "root": lambda **o: optimize.root(circle, [2.0, 0.5], **o),
    **{
        method: lambda method=method, **o: optimize.minimize(valley, [-1.2, 1.0], (), method, **o)
        for method in ("bfgs", "l-bfgs", "newton-cg", "trust-exact", "nelder-mead")
    },
}


@pytest.mark.parametrize(
    "name", [n if n in ("lm", "root") else pytest.param(n, marks=SLOW) for n in SOLVES]
)
def test_callbacks_see_each_step_and_may_stop(name: str) -> None:
    solve, seen = SOLVES[name], list[Any]()

    def callback(intermediate_result: Any) -> None:
        seen.append(intermediate_result)

    whole = solve(callback=callback)
    assert len(seen) == int(whole.nit)
    np.testing.assert_array_equal(seen[-1].x, whole.x)
    np.testing.assert_array_equal(solve().x, whole.x)  # the same steps as without it

    def stopping(x: Any, *others: Any) -> None:
        assert len(others) == (1 if name == "root" else 0)
        raise StopIteration

    first = solve(callback=stopping)
    assert int(first.nit) == 1
    assert first.message == "The callback stopped the solver."


def test_callbacks_in_programs() -> None:
    seen = list[Any]()

    def solve(a: Any) -> Any:
        f = lambda x: x**2 - a  # noqa: E731
        return optimize.root(f, 1.0, callback=lambda x, _: seen.append(x)).x

    assert float(fg.jit(solve)(4.0)) == pytest.approx(2.0)
    assert float(seen[-1]) == pytest.approx(2.0)
    np.testing.assert_allclose(fg.vmap(solve)(np.array([4.0, 9.0])), [2.0, 3.0])
    assert float(seen[-1]) == pytest.approx(3.0)
    assert float(fg.grad(solve)(4.0)) == pytest.approx(0.25)
    with pytest.raises(ArgumentError, match="outside of jit"):
        fg.jit(
            lambda a: (
                optimize.root(
                    lambda x: x**2 - a, 1.0, callback=lambda x, _: None, derivative="steps"
                ).x
            )
        )(4.0)


def test_bounds_have_scipys_forms() -> None:
    def far(x: Any) -> Any:
        return (x[0] - 3.0) ** 2 + (x[1] + 3.0) ** 2

    expected = [2.0, -1.0]
    for bounds in (
        ([-1.0, -1.0], [2.0, 2.0]),
        (-1.0, 2.0),
        [(-1.0, 2.0), (-1.0, None)],
        ((None, 2.0), (-1.0, None)),
        scipy_optimize.Bounds([-1.0, -1.0], [2.0, 2.0]),
        scipy_optimize.Bounds(-1.0, 2.0),
    ):
        np.testing.assert_array_equal(optimize.minimize(far, [0.0, 0.0], bounds=bounds).x, expected)
    tree = {"u": 0.0, "v": np.zeros(2)}
    found = optimize.minimize(
        lambda p: (p["u"] - 3.0) ** 2 + fnp.sum((p["v"] - 5.0) ** 2),
        tree,
        bounds=(None, {"u": 1.0, "v": np.array([2.0, 9.0])}),
    )
    np.testing.assert_allclose(found.x["v"], [2.0, 5.0])
    fit = optimize.least_squares(
        lambda x: x - 3.0, [0.0, 0.0], bounds=scipy_optimize.Bounds([-1, -1], [2, 9])
    )
    np.testing.assert_allclose(fit.x, [2.0, 3.0])
    with pytest.raises(ArgumentError, match="x0 is infeasible: its element 1, 5, lies outside"):
        optimize.least_squares(lambda x: x, [0.0, 5.0], bounds=(-1.0, 1.0))


def test_options_have_scipys_names() -> None:
    few = optimize.minimize(valley, [-1.2, 1.0], options={"maxiter": 2}, failed="keep")
    assert int(few.nit) == 2
    loose = optimize.minimize(valley, [-1.2, 1.0], options={"gtol": 1.0, "disp": False})
    assert int(loose.nit) < int(optimize.minimize(valley, [-1.2, 1.0]).nit)
    few = optimize.root(circle, [2.0, 0.5], options={"maxfev": 1, "xtol": 1e-3}, failed="keep")
    assert int(few.nit) == 1
    with pytest.raises(ArgumentError, match="no option 'maxit'"):
        optimize.minimize(valley, [-1.2, 1.0], options={"maxit": 2})
    with pytest.raises(ArgumentError, match="passed twice"):
        optimize.minimize(valley, [-1.2, 1.0], tol=1.0, options={"gtol": 2.0})


@pytest.mark.parametrize(
    "method", ["newton", *[pytest.param(m, marks=SLOW) for m in ("broyden1", "anderson")]]
)
def test_complex_roots(method: str) -> None:
    def solve(c: Any) -> Any:
        if method == "anderson":
            return optimize.fixed_point(lambda z: fnp.cos(z) * c, 0.7 + 0.1j, xtol=1e-13).x
        start = np.array([1.0 + 1.0j, 0.5j])
        f = lambda z: fnp.stack([z[0] ** 2 + c, z[1] - z[0]])  # noqa: E731
        return optimize.root(f, start, method=method, tol=1e-13).x[1]

    c = 0.9 + 0.2j
    z = complex(solve(c))
    residual = np.cos(z) * c - z if method == "anderson" else z**2 + c
    assert abs(residual) < 1e-10
    step = 1e-6
    difference = (complex(solve(c + step)) - complex(solve(c - step))) / (2.0 * step)
    assert complex(fg.jvp(solve, (c,), (1.0 + 0.0j,))[1]) == pytest.approx(difference, rel=1e-5)
    batch = fg.vmap(solve)(np.array([c, 0.5 + 0.1j]))
    assert complex(batch[0]) == pytest.approx(z)
    for other in ("hybr", "krylov"):
        with pytest.raises(DtypeError, match="real and the imaginary"):
            optimize.root(lambda z: z**2 + c, 1.0j, method=other)


def test_the_jacobian_of_a_fitted_model_is_scipys() -> None:
    t = np.linspace(0.0, 2.0, 9)
    y = 2.0 * np.exp(-1.3 * t) + 0.05 * np.sin(9.0 * t)
    sigma = np.linspace(1.0, 2.0, 9)

    def model(t: Any, a: Any, k: Any) -> Any:
        return a * fnp.exp(-k * t)

    def jac(t: Any, a: Any, k: Any) -> Any:
        return fnp.stack([fnp.exp(-k * t), -a * t * fnp.exp(-k * t)], 1)

    plain = fg.optimize.curve_fit(model, t, y, sigma=sigma)
    for got, want in zip(
        fg.optimize.curve_fit(model, t, y, sigma=sigma, jac=jac), plain, strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    with pytest.raises(ShapeError, match=r"curve_fit: jac .* \(9, 2\), but returned shape"):
        fg.optimize.curve_fit(model, t, y, jac=lambda t, a, k: jac(t, a, k).T)


def test_a_start_of_value_zero_does_not_hide_the_rounding() -> None:
    matrix, b = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([1.0, -2.0])

    def f(x: Any, b: Any) -> Any:
        return 0.5 * x @ matrix @ x - b @ x + 0.1 * fnp.sum(x**4)

    def least(b: Any, method: str) -> Any:
        return fg.optimize.minimize(f, np.zeros(2), (b,), method).x

    for method in ("trust-exact", "newton-cg"):
        x = fg.jit(lambda b, method=method: least(b, method))(b)
        np.testing.assert_allclose(x, least(b, method), rtol=1e-7)
