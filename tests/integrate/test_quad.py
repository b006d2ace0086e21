"""``quad`` and its kind: closed forms, SciPy's values, derivatives, batches, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate as theirs

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import integrate
from funcgrad.errors import ArgumentError, ConvergenceError, DtypeError, ShapeError
from tests.integrate.integrals import HARD, INFINITE, SMOOTH, Case
from tests.together import together

ALL = {
    f"{name} ({kind})": case
    for kind, table in (("smooth", SMOOTH), ("infinite", INFINITE), ("hard", HARD))
    for name, case in table.items()
}


@together("case", ALL.values(), ids=ALL)
def test_closed_forms(case: Case) -> None:
    f, a, b, expected = case
    value, error = integrate.quad(f, a, b)
    assert abs(float(value) - expected) <= float(error) + 1e-12
    assert abs(float(value) - expected) < 1e-9 * max(1.0, abs(expected))


def test_compiled_integrals_are_eager_ones() -> None:
    for f, a, b, expected in [SMOOTH["Runge"], INFINITE["Cauchy"], HARD["log"], HARD["peak"]]:
        value, _ = fg.jit(lambda f=f, a=a, b=b: integrate.quad(f, a, b))()
        np.testing.assert_allclose(value, expected, rtol=1e-10)


def wave(p: Any, a: Any, b: Any) -> Any:
    return integrate.quad(lambda x: fnp.exp(-p * x) * fnp.sin(x), a, b)[0]


def exact_wave(p: Any, a: Any, b: Any) -> Any:
    def primitive(x: Any) -> Any:
        return -fnp.exp(-p * x) * (p * fnp.sin(x) + fnp.cos(x)) / (1.0 + p * p)

    return primitive(b) - primitive(a)


V = np.array([0.7, 0.2, 1.5])


@pytest.mark.parametrize(
    "derivative",
    [
        fg.jacrev,
        fg.jacfwd,
        fg.hessian,
        pytest.param(lambda f: fg.jacrev(fg.jacrev(f)), marks=pytest.mark.slow),
        pytest.param(lambda f: fg.jacrev(fg.hessian(f)), marks=pytest.mark.slow),
        lambda f: fg.jit(fg.hessian(f)),
        pytest.param(lambda f: fg.hessian(fg.jit(f)), marks=pytest.mark.slow),
        lambda f: lambda v: fg.vmap(fg.hessian(f))(v[None])[0],
    ],
)
def test_derivatives_in_parameters_and_limits(derivative: Callable[[Any], Any]) -> None:
    got = derivative(lambda v: wave(*v))(V)
    expected = derivative(lambda v: exact_wave(*v))(V)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_derivatives_in_limits_see_no_jump_inside() -> None:
    def up_to(b: Any) -> Any:
        return integrate.quad(lambda x: fnp.where(x > 0.3, 1.0, 0.0), 0.0, b, points=[0.3])[0]

    np.testing.assert_allclose(fg.value_and_grad(up_to)(1.0), (0.7, 1.0))


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_limit_where_the_integrand_is_infinite() -> None:
    def f(a: Any, p: Any) -> Any:
        return integrate.quad(lambda x: p / fnp.sqrt(x), a, 1.0)[0]

    for transform in (lambda f: f, fg.jit):
        at_a, at_p = transform(fg.grad(f, argnums=(0, 1)))(0.0, 3.0)
        assert at_a == -np.inf
        np.testing.assert_allclose(at_p, 2.0)
        for change, expected in ((0.0, 2.0), (1.0, -np.inf)):  # the limit stays, or moves
            _, tangent = fg.jvp(transform(f), (0.0, 3.0), (change, 1.0))
            np.testing.assert_allclose(tangent, expected)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_limit_where_the_integrand_is_nan() -> None:
    def f(a: Any) -> Any:
        return integrate.quad(lambda x: fnp.sin(x) / x, a, 1.0)[0]

    for transform in (lambda f: f, fg.jit):
        assert fnp.isnan(transform(fg.grad(f))(0.0))
        assert fg.jvp(transform(f), (0.0,), (0.0,))[1] == 0.0


@pytest.mark.parametrize("transform", [lambda f: f, fg.jit])
def test_a_batch_is_a_loop(transform: Callable[[Any], Any]) -> None:
    p, b = np.array([0.1, 0.7, 50.0]), np.array([1.0, 0.2, 3.0])
    for f in (wave, fg.grad(wave, argnums=(0, 2))):
        batch = transform(fg.vmap(f, in_axes=(0, None, 0)))(p, 0.2, b)
        loop = [f(*row) for row in zip(p, [0.2] * 3, b, strict=True)]
        together = fg.tree.map(lambda *rows: fnp.stack(rows), *loop)
        fg.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-13), batch, together)


def test_trees_arrays_and_complex_numbers() -> None:
    k = np.arange(3.0)
    value, error = integrate.quad(
        lambda x, w: {"powers": x**k, "turn": fnp.exp(1j * w * x)}, 0.0, 1.0, args=2.0
    )
    np.testing.assert_allclose(value["powers"], 1.0 / (k + 1.0))
    np.testing.assert_allclose(value["turn"], (np.exp(2j) - 1.0) / 2j)
    assert error < 1e-12
    empty, none = integrate.quad(lambda x: fnp.zeros((0,)) * x, 0.0, 1.0)
    assert empty.shape == (0,)
    assert none == 0.0


def test_single_precision() -> None:
    value, error = integrate.quad(fnp.exp, np.float32(0.0), np.float32(1.0))
    assert value.dtype == error.dtype == np.float32
    np.testing.assert_allclose(value, np.e - 1.0, rtol=3e-7)


def test_branches_in_the_integrand() -> None:
    value, _ = integrate.quad(lambda x: x if x < 0.25 else 0.0 * x, 0.0, 1.0, points=[0.25])
    np.testing.assert_allclose(value, 1.0 / 32.0)


def test_failures() -> None:
    def pole(x: Any) -> Any:
        return 1.0 / (x - 0.3) ** 2

    with pytest.raises(ConvergenceError, match=r"as narrow as its dtype allows.*points"):
        integrate.quad(pole, 0.0, 1.0)
    with pytest.raises(ConvergenceError, match="limit=20"):
        integrate.quad(pole, 0.0, 1.0, limit=20)
    value, error, info = integrate.quad(pole, 0.0, 1.0, limit=20, failed="keep", full_output=True)
    assert np.isfinite(float(value))
    assert error > 1.0
    assert info["status"] == 0
    assert info["last"] == 20
    assert info["neval"] == 39 * 21
    assert np.isnan(float(integrate.quad(pole, 0.0, 1.0, failed="nan")[0]))
    starts = np.array([0.0, 0.5])
    batch = fg.vmap(lambda a: integrate.quad(pole, a, 1.0)[0])(starts)
    assert np.isnan(np.asarray(batch)).tolist() == [True, False]
    with pytest.raises(ConvergenceError, match="not finite"):
        integrate.quad(lambda x: x * np.nan, 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones(2), 1.0), ShapeError, "a has to be a single number"),
        ((0.0, 1j), DtypeError, "limits are real"),
        ((np.nan, 1.0), ArgumentError, "a is NaN"),
        ((np.inf, np.inf), ArgumentError, "both limits are inf"),
        ((0.0, np.inf, (), {"points": [1.0]}), ArgumentError, "points need finite limits"),
        ((0.0, 1.0, (), {"points": [2.0]}), ArgumentError, "outside of the limits"),
        ((0.0, 1.0, (), {"failed": "ignore"}), ArgumentError, "failed has to be"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    a, b, *more = arguments
    options = more[1] if more else {}
    with pytest.raises(error, match=message):
        integrate.quad(fnp.exp, a, b, **options)


def test_several_variables() -> None:
    def volume(p: Any) -> Any:
        return integrate.dblquad(lambda y, x: fnp.exp(-p * x * y), 0.0, 1.0, lambda x: p * x, 2.0)[
            0
        ]

    def reference(p: float) -> float:
        return float(
            theirs.dblquad(
                lambda y, x: np.exp(-p * x * y), 0.0, 1.0, lambda x: p * x, 2.0, epsabs=1e-12
            )[0]
        )

    step = 1e-4
    slope = (reference(0.5 + step) - reference(0.5 - step)) / (2.0 * step)
    for transform in (lambda f: f, fg.jit):
        value, gradient = transform(fg.value_and_grad(volume))(0.5)
        np.testing.assert_allclose(value, reference(0.5), rtol=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7)
    cube = integrate.nquad(lambda x, y, z, c: c * x * y * z, [(0, 1)] * 3, args=(8.0,))[0]
    np.testing.assert_allclose(cube, 1.0)
    with pytest.raises(ArgumentError, match=r"ranges\[1\]"):
        integrate.nquad(lambda x, y: x, [(0, 1), 3.0])
    with pytest.raises(ArgumentError, match="2 opts for 1 ranges"):
        integrate.nquad(lambda x: x, [(0, 1)], opts=[{}, {}])


def test_fixed_nodes() -> None:
    for n in (1, 4, 7):
        mine, none = integrate.fixed_quad(lambda x: x**6 + 1.0, -0.5, 2.0, n=n)
        np.testing.assert_allclose(mine, theirs.fixed_quad(lambda x: x**6 + 1.0, -0.5, 2.0, n=n)[0])
        assert none is None
    np.testing.assert_allclose(
        fg.hessian(lambda v: integrate.fixed_quad(lambda x: x**3 * v[0], 0.0, v[1])[0])(V[1:]),
        fg.hessian(lambda v: v[0] * v[1] ** 4 / 4.0)(V[1:]),
        atol=1e-12,
    )
    with pytest.raises(ShapeError, match=r"fg\.vmap"):
        integrate.fixed_quad(lambda x: 2.0, 0.0, 1.0)
    with pytest.raises(ArgumentError, match="finite"):
        integrate.fixed_quad(fnp.exp, 0.0, np.inf)


RNG = np.random.default_rng(0)


@together("count", range(1, 9))
@together("name", ["simpson", "cumulative_simpson", "cumulative_trapezoid", "romb"])
def test_samples_as_in_scipy(name: str, count: int) -> None:
    y = RNG.normal(size=(2, count, 3))
    ways: list[dict[str, Any]] = [{}, {"dx": 0.3}]
    if name == "romb":
        if count not in (2, 3, 5):
            with pytest.raises(ShapeError, match=r"2\*\*k \+ 1"):
                integrate.romb(y, axis=1)
            return
    else:
        ways += [
            {"x": np.sort(RNG.normal(size=y.shape), 1)},
            {"x": np.sort(RNG.normal(size=count))},
        ]
    for options in ways:
        extra = [{}, {"initial": 0.0}] if "cumulative" in name else [{}]
        for more in extra:
            mine = getattr(integrate, name)(y, axis=1, **options, **more)
            reference = getattr(theirs, name)(y, axis=1, **options, **more)
            np.testing.assert_allclose(mine, reference, rtol=1e-11, atol=1e-13)


def test_samples_are_differentiated_in_values_and_places() -> None:
    x, y = np.sort(RNG.normal(size=6)), RNG.normal(size=6)
    for name in ("simpson", "cumulative_simpson", "cumulative_trapezoid"):
        function = getattr(integrate, name)
        fg.testing.check_grads(lambda y, x, f=function: f(y, x=x), (y, x))
    fg.testing.check_grads(lambda y: integrate.romb(y[:5], dx=0.2), (y,))


def test_refusals_of_samples() -> None:
    with pytest.raises(ShapeError, match="no samples"):
        integrate.simpson(np.zeros(0))
    with pytest.raises(ShapeError, match=r"x has to have shape \(3,\)"):
        integrate.cumulative_simpson(np.zeros(3), x=np.zeros(2))
    with pytest.raises(ArgumentError, match="scalar"):
        integrate.cumulative_trapezoid(np.zeros(3), initial=np.zeros(2))
