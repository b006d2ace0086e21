"""Solvers of ``fg.optimize`` and ``solve_ivp``: processor time, beside other libraries'.

Each row is the least of several runs. Times of other libraries are measured in the same round::

    python -m tests.tools.benchmarks.solvers

Where JAX, optimistix and diffrax are installed (``pip install jax optimistix diffrax``), their
times are shown, too, on one core.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import integrate, optimize
from tests.tools.benchmarks.measured import seconds

TIMES = np.linspace(0.0, 4.0, 20)


def shown(name: str, time: float, **others: float) -> None:
    ratios = [f"{time / other:9.4f} of {word}'s" for word, other in others.items()]
    print(f"{name:44s} {1e6 * time:10.2f} µs {'  '.join(ratios)}", flush=True)


def steady(work: Callable[[], Any], times: int = 5) -> float:
    """The time of a call after the first ones, when code has been improved."""
    for _ in range(times):
        work()
    return seconds(work, 20, 1.0)


def measurements(count: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    heights, rates, floors = rng.uniform([[1.0], [0.3], [-1.0]], [[3.0], [2.0], [1.0]], (3, count))
    curves = heights[:, None] * np.exp(-rates[:, None] * TIMES) + floors[:, None]
    noise: np.ndarray[Any, Any] = 0.01 * rng.normal(size=(count, 20))
    return curves + noise


def decay(p: Any, y: Any, xp: Any = fnp) -> Any:
    return p[0] * xp.exp(-p[1] * TIMES) + p[2] - y


def fits(count: int, jax: Any, optimistix: Any) -> None:
    data, start = measurements(count), np.array([1.0, 1.0, 0.0])

    def fit(y: Any) -> Any:
        return optimize.least_squares(decay, start, args=(y,), failed="keep").x

    compiled = fg.jit(fit)
    one = fg.tensor(data[0])
    jacobian = fg.jit(fg.jacfwd(decay))

    def by_scipy() -> Any:
        return scipy.optimize.least_squares(
            lambda p: decay(p, data[0], np), start, lambda p: np.asarray(jacobian(p, data[0]))
        )

    shown(
        "one fit of 3 parameters to 20 points",
        steady(lambda: compiled(one)),
        scipy=seconds(by_scipy),
    )
    batched, many = fg.jit(fg.vmap(fit)), fg.tensor(data)
    others = {}
    if jax is not None:
        solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8)

        def theirs(y: Any) -> Any:
            return optimistix.least_squares(
                lambda p, y: decay(p, y, jax.numpy), solver, start, y, max_steps=100, throw=False
            ).value

        peer, values = jax.jit(jax.vmap(theirs)), jax.numpy.asarray(data)
        others["optimistix"] = steady(lambda: peer(values).block_until_ready(), 2) / count
    time = steady(lambda: batched(many), 2) / count
    shown(f"{count:,} of them, each", time, **others)


def roots(count: int, jax: Any, optimistix: Any) -> None:
    levels = np.linspace(0.1, 50.0, count)

    def root(a: Any, method: str = "brentq") -> Any:
        cubic = lambda x: x**3 + x - a  # noqa: E731
        return optimize.root_scalar(cubic, bracket=(0.0, 5.0), method=method, failed="keep").x

    def by_scipy() -> Any:
        return [
            scipy.optimize.brentq(lambda x, a=a: x**3 + x - a, 0.0, 5.0) for a in levels.tolist()
        ]

    base = seconds(by_scipy) / count
    others = {}
    if jax is not None:
        solver = optimistix.Bisection(rtol=1e-12, atol=1e-12)

        def theirs(a: Any) -> Any:
            bounds = {"lower": 0.0, "upper": 5.0}
            cubic = lambda x, a: x**3 + x - a  # noqa: E731
            return optimistix.root_find(
                cubic, solver, 2.5, a, options=bounds, max_steps=100, throw=False
            ).value

        peer, values = jax.jit(jax.vmap(theirs)), jax.numpy.asarray(levels)
        others["optimistix"] = steady(lambda: peer(values).block_until_ready(), 2) / count
    many = fg.tensor(levels)
    for method in ("brentq", "itp", "bisect"):
        batched = fg.jit(fg.vmap(lambda a, method=method: root(a, method)))
        time = steady(partial(batched, many), 2) / count
        shown(f"{count:,} roots by {method}, each", time, scipy=base, **others)


def minima() -> None:
    def valley(x: Any) -> Any:
        return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    slope = fg.jit(fg.grad(valley))
    for size in (2, 20):
        start = np.tile([-1.2, 1.0], size // 2)

        def by_scipy(start: Any = start) -> Any:
            return scipy.optimize.minimize(
                lambda x: float(
                    ((x[1:] - x[:-1] ** 2) ** 2).sum() * 100 + ((1 - x[:-1]) ** 2).sum()
                ),
                start,
                jac=lambda x: np.asarray(slope(x)),
                method="BFGS",
                tol=1e-8,
            )

        base = seconds(by_scipy)
        for method in ("bfgs", "l-bfgs", "newton-cg", "trust-exact"):
            run = fg.jit(
                lambda x, m=method: optimize.minimize(valley, x, method=m, failed="keep").x
            )
            point = fg.tensor(start)
            time = steady(partial(run, point))
            shown(f"Rosenbrock, {size} unknowns, {method}", time, SciPy=base)


def _lorenz(y: Any, stack: Any) -> Any:
    return stack(
        [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]]
    )


def _waited(function: Any, data: Any) -> Any:
    return function(data).block_until_ready()


def equations(count: int, jax: Any, diffrax: Any) -> None:
    """Lorenz' equations from one start, and from many at once."""
    span, tolerance = (0.0, 20.0), 1e-6
    start = np.ones(3)
    many = 1.0 + np.random.default_rng(0).uniform(-1.0, 1.0, (count, 3))

    def by_scipy() -> Any:
        return scipy.integrate.solve_ivp(
            lambda t, y: _lorenz(y, np.array), span, start, rtol=tolerance, atol=tolerance
        )

    base = seconds(by_scipy)
    for method, peer_name in (("Tsit5", "Tsit5"), ("RK45", "Dopri5"), ("DOP853", "Dopri8")):

        def end(y: Any, last: float, method: str = method) -> Any:
            return integrate.solve_ivp(
                lambda t, y: _lorenz(y, fnp.stack),
                (0.0, last),
                y,
                method,
                [last],
                rtol=tolerance,
                atol=tolerance,
            ).y

        def theirs(y: Any, last: float, solver: str = peer_name) -> Any:
            return diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, args: _lorenz(y, jax.numpy.stack)),
                getattr(diffrax, solver)(),
                *(0.0, last, None, y),
                stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
                max_steps=10_000,
            ).ys

        for name, values, last in (("one start", start, 20.0), (f"{count:,} starts", many, 2.0)):
            one, peer = partial(end, last=last), partial(theirs, last=last)
            run = fg.jit(one if values is start else fg.vmap(one))
            others = {"SciPy": base} if values is start else {}
            if diffrax is not None:
                other = jax.jit(peer if values is start else jax.vmap(peer))
                data = jax.numpy.asarray(values)
                others["diffrax"] = steady(partial(_waited, other, data), 2)
            shown(f"Lorenz, {name}, {method}", steady(partial(run, fg.tensor(values))), **others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many fits and roots")
    count = parser.parse_args().count
    jax = optimistix = diffrax = None
    if find_spec("jax") and find_spec("optimistix"):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        jax, optimistix = import_module("jax"), import_module("optimistix")
        jax.config.update("jax_enable_x64", True)
        diffrax = import_module("diffrax") if find_spec("diffrax") else None
    equations(1_000, jax, diffrax)
    fits(count, jax, optimistix)
    roots(count, jax, optimistix)
    minima()


if __name__ == "__main__":
    main()
