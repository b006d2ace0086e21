"""Stiff methods of ``solve_ivp``: processor time, beside SciPy's and diffrax's.

Times are the least of several runs, on one core; the digits are correct digits at the end::

    python -m tests.tools.benchmarks.stiff_solvers

Where JAX and diffrax are installed (``pip install jax diffrax``), diffrax's Kvaerno5 with the same
tolerances is measured, too.
"""

import argparse
import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np
import scipy.integrate
import scipy.sparse

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.integrate import solve_ivp
from tests.tools.benchmarks.measured import seconds

HIRES_START = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057])
HIRES_END = np.array(
    [
        *(0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4),
        *(0.1175651343283149e-2, 0.2386356198831331e-2, 0.6238968252742796e-2),
        *(0.2849998395185769e-2, 0.2850001604814231e-2),
    ]
)
ROBER_END = np.array([0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050])


def rober(y: Any, xp: Any) -> Any:
    first, second = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return xp.stack([-first, first - second, second])


def hires(y: Any, xp: Any) -> Any:
    binding = 280.0 * y[5] * y[7]
    return xp.stack(
        [
            -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
            1.71 * y[0] - 8.75 * y[1],
            -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
            8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
            -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
            -binding + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
            binding - 1.81 * y[6],
            -binding + 1.81 * y[6],
        ]
    )


PROBLEMS = {
    "ROBER": (rober, np.array([1.0, 0.0, 0.0]), 1e11, ROBER_END, 1e-9),
    "HIRES": (hires, HIRES_START, 321.8122, HIRES_END, 1e-4),
}


def shown(name: str, time: float, digits: float, **others: float) -> None:
    ratios = [f"{time / other:8.4f} of {word}'s" for word, other in others.items()]
    print(f"{name:34s} {1e3 * time:9.3f} ms {digits:5.1f} digits {'  '.join(ratios)}", flush=True)


def digits(y: Any, known: Any) -> float:
    return float(-np.log10(np.max(abs(np.asarray(y) / known - 1.0))))


def least(work: Callable[[], Any]) -> float:
    for _ in range(3):
        work()
    return seconds(work, 10, 1.0)


def by_diffrax(name: str, rtol: float, modules: tuple[Any, Any]) -> tuple[float, float]:
    """The time and the digits of diffrax's Kvaerno5."""
    jax, diffrax = modules
    f, start, end, known, smallest = PROBLEMS[name]

    def solve(y: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, _: f(y, jax.numpy)),
            diffrax.Kvaerno5(),
            *(0.0, end, None, y),
            stepsize_controller=diffrax.PIDController(rtol, rtol * smallest),
            saveat=diffrax.SaveAt(t1=True),
            max_steps=100_000,
        ).ys[0]

    compiled, y = jax.jit(solve), jax.numpy.asarray(start)
    return least(lambda: compiled(y).block_until_ready()), digits(compiled(y), known)


def small(name: str, rtol: float, modules: tuple[Any, Any] | None) -> None:
    """Problems of 3 and 8 unknowns."""
    f, start, end, known, smallest = PROBLEMS[name]
    begin = process_time()
    theirs = scipy.integrate.solve_ivp(
        *(lambda t, y: f(y, np), (0.0, end), start, "Radau"), rtol=rtol, atol=rtol * smallest
    )
    others = {"SciPy": process_time() - begin}
    shown(f"{name} {rtol:g}, SciPy's Radau", others["SciPy"], digits(theirs.y[:, -1], known))
    if modules is not None:
        others["diffrax"], correct = by_diffrax(name, rtol, modules)
        shown(f"{name} {rtol:g}, diffrax's Kvaerno5", others["diffrax"], correct)
    for method in ("Kvaerno5", "Rodas5P", "Radau", "BDF"):

        def solve(y: Any, method: str = method) -> Any:
            return solve_ivp(
                lambda t, y: f(y, fnp),
                *((0.0, end), y, method, [end]),
                rtol=rtol,
                atol=rtol * smallest,
                max_steps=100_000,
            ).y[:, -1]

        compiled, y = fg.jit(solve), fg.tensor(start)
        correct = digits(compiled(y), known)
        shown(
            f"{name} {rtol:g}, {method}",
            least(lambda run=compiled, y=y: run(y)),  # type: ignore[misc]
            correct,
            **others,
        )


def brusselator(size: int, end: float) -> None:
    """A reaction in a square of ``size`` by ``size`` points, with two unknowns at each."""
    factor, places = 0.1 * size**2, np.arange(size) / size
    x, y = np.meshgrid(places, places, indexing="ij")
    start = np.stack([22 * y * (1 - y) ** 1.5, 27 * x * (1 - x) ** 1.5])
    source = 5.0 * ((x - 0.3) ** 2 + (y - 0.6) ** 2 <= 0.01)

    def slopes(t: Any, w: Any, xp: Any) -> Any:
        u, v = w
        spread = factor * (
            sum([xp.roll(w, shift, axis) for axis in (1, 2) for shift in (1, -1)]) - 4.0 * w
        )
        reaction = u * u * v
        return spread + xp.stack(
            [1.0 + reaction - 4.4 * u + source * (t >= 1.1), 3.4 * u - reaction]
        )

    ones = np.ones(size)
    ring = scipy.sparse.diags([ones] * 5, [0, 1, -1, size - 1, 1 - size], shape=(size, size))
    grid = scipy.sparse.kron(scipy.sparse.eye(size), ring) + scipy.sparse.kron(
        ring, scipy.sparse.eye(size)
    )
    both = scipy.sparse.eye(size * size)
    pattern = scipy.sparse.bmat([[grid, both], [both, grid]]).tocsr()

    def by_scipy() -> Any:
        return scipy.integrate.solve_ivp(
            lambda t, w: slopes(t, w.reshape(start.shape), np).ravel(),
            *((0.0, end), start.ravel(), "BDF"),
            *(None, False, None, False, ()),
            jac_sparsity=pattern,
            rtol=1e-4,
            atol=1e-6,
        )

    def solve(w: Any) -> Any:
        return solve_ivp(
            lambda t, w: slopes(t, w, fnp),
            *((0.0, end), w, "BDF", [end]),
            jac="sparse",
            rtol=1e-4,
            atol=1e-6,
        ).y[..., -1]

    compiled, w = fg.jit(solve), fg.tensor(start)
    ours = compiled(w)
    theirs = by_scipy().y[:, -1].reshape(start.shape)
    times = [(seconds(lambda: compiled(w), 1, 0.0), seconds(by_scipy, 1, 0.0)) for _ in range(3)]
    mine, other = np.min(times, 0)
    shown(
        f"Brusselator of {2 * size * size} unknowns, BDF", mine, digits(ours, theirs), SciPy=other
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=71, help="points along a side of the square")
    options = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    modules = None
    if find_spec("jax") is not None and find_spec("diffrax") is not None:
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        modules = jax, import_module("diffrax")
    for name in PROBLEMS:
        for rtol in (1e-4, 1e-6, 1e-8):
            small(name, rtol, modules)
    brusselator(options.size, 0.5)


if __name__ == "__main__":
    main()
