"""Loops as one operation beside loops in Python: what is staged, what is not, and the first call.

Four loops, each written once for all libraries and once by hand in NumPy: a recurrent net, a Kalman
filter, steps of Runge and Kutta, and a recurrence on a few numbers. Times are of the processor, on
one core, the least of several, taken in turns. JAX is measured where it is installed. A second
table has gradients of loops of as many steps as they take, staged, over these loops::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.control
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp

ROUNDS: Final = 15


class Case(NamedTuple):
    """A loop.

    Attributes
    ----------
    name : str
    function : callable
        ``(xp, scan, *args) -> number``.
    hand : callable
        ``(*args) -> number``, in NumPy.
    args : tuple of arrays
        The derivative is in the first.
    """

    name: str
    function: Callable[..., Any]
    hand: Callable[..., Any]
    args: tuple[Any, ...]


def python_scan(f: Callable[..., Any], carry: Any, xs: Any, length: int | None = None) -> Any:
    """A scan as a loop in Python, for bodies without a result at each step."""
    for x in range(length or 0) if xs is None else xs:
        carry, _ = f(carry, x)
    return carry, None


# ------------------------------------------------------------------------------------ the loops


def _net(xp: Any, scan: Any, weights: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        return xp.tanh(x + h @ weights), None

    return xp.sum(scan(step, h, xs)[0] ** 2)


def _net_by_hand(weights: Any, h: Any, xs: Any) -> Any:
    h, z = h.copy(), np.empty_like(h)
    for x in xs:
        np.matmul(h, weights, out=z)
        z += x
        np.tanh(z, out=h)
    return np.vdot(h, h)


_N: Final = 4
_RNG: Final = np.random.default_rng(3)
_FORTH: Final = np.eye(_N) + 0.1 * _RNG.standard_normal((_N, _N))
_SEEN: Final = _RNG.standard_normal((2, _N))
_NOISE: Final = 0.1 * np.eye(_N)
_ERROR: Final = 0.5 * np.eye(2)


def _filter(xp: Any, scan: Any, scale: Any, ys: Any) -> Any:
    def step(carry: Any, y: Any) -> Any:
        mean, cov, total = carry
        mean = _FORTH @ mean
        cov = _FORTH @ cov @ _FORTH.T + scale * _NOISE
        cross = _SEEN @ cov
        spread = cross @ _SEEN.T + _ERROR
        gain = xp.linalg.solve(spread, cross).T
        off = y - _SEEN @ mean
        total = total - 0.5 * (off @ xp.linalg.solve(spread, off) + xp.linalg.slogdet(spread)[1])
        return (mean + gain @ off, cov - gain @ cross, total), None

    start = (xp.zeros(_N), xp.eye(_N), xp.asarray(0.0))
    return scan(step, start, ys)[0][2]


def _filter_by_hand(scale: Any, ys: Any) -> Any:
    noise = scale * _NOISE
    mean, cov, total = np.zeros(_N), np.eye(_N), 0.0
    for y in ys:
        mean = _FORTH @ mean
        cov = _FORTH @ cov @ _FORTH.T
        cov += noise
        cross = _SEEN @ cov
        spread = cross @ _SEEN.T
        spread += _ERROR
        off = y - _SEEN @ mean
        gain = np.linalg.solve(spread, cross).T
        total -= 0.5 * (off @ np.linalg.solve(spread, off) + np.linalg.slogdet(spread)[1])
        mean += gain @ off
        cov -= gain @ cross
    return total


_H: Final = 0.01


def _slope(xp: Any, y: Any, t: Any) -> Any:
    return xp.sin(t) * y * 0.1 - 0.5 * y


def _runge_kutta(xp: Any, y: Any, t: Any) -> Any:
    first = _slope(xp, y, t)
    second = _slope(xp, y + 0.5 * _H * first, t + 0.5 * _H)
    third = _slope(xp, y + 0.5 * _H * second, t + 0.5 * _H)
    fourth = _slope(xp, y + _H * third, t + _H)
    return y + _H / 6 * (first + 2 * second + 2 * third + fourth)


def _ode(steps: int) -> Callable[..., Any]:
    def solved(xp: Any, scan: Any, y: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            y, t = carry
            return (_runge_kutta(xp, y, t), t + _H), None

        return scan(step, (y, xp.asarray(0.0)), None, length=steps)[0][0]

    return solved


def _ode_by_hand(y: Any) -> Any:
    y, t = float(y), 0.0
    for _ in range(500):
        y = _runge_kutta(np, y, t)
        t += _H
    return y


def _recurrence(steps: int) -> Callable[..., Any]:
    def repeated(xp: Any, scan: Any, c: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return 0.99 * xp.tanh(c) + 0.01 * c, None

        return xp.sum(scan(step, c, None, length=steps)[0])

    return repeated


def _recurrence_by_hand(c: Any) -> Any:
    c, a = c.copy(), np.empty_like(c)
    for _ in range(10_000):
        np.tanh(c, out=a)
        a *= 0.99
        c *= 0.01
        c += a
    return c.sum()


def cases() -> list[Case]:
    """All loops."""
    rng = np.random.default_rng(0)
    net = (0.1 * rng.standard_normal((64, 64)), np.zeros((32, 64)))
    return [
        Case("net, 100", _net, _net_by_hand, (*net, rng.standard_normal((100, 32, 64)))),
        Case(
            "filter, 200",
            _filter,
            _filter_by_hand,
            (np.float64(1.0), rng.standard_normal((200, 2))),
        ),
        Case("ode, 500", _ode(500), _ode_by_hand, (np.float64(1.3),)),
        Case(
            "recurrence, 10,000",
            _recurrence(10_000),
            _recurrence_by_hand,
            (rng.standard_normal(8),),
        ),
    ]


# ------------------------------------------------------------------- loops that end by a condition


def _root(x: Any) -> Any:
    """Newton's method: five steps."""
    return fg.while_loop(lambda y: abs(y * y - x) > 1e-12 * x, lambda y: (y + x / y) / 2.0, x)


def _counted(step: Callable[[Any, Any], Any], steps: int) -> Callable[[Any], Any]:
    def repeated(x: Any) -> Any:
        def body(own: Any) -> Any:
            return own[0] + 1, step(x, own[1])

        return fnp.sum(fg.while_loop(lambda own: own[0] < steps, body, (0, 0.3 * x))[1])

    return repeated


def _either(x: Any, c: Any) -> Any:
    return fg.cond(c > 0.5, lambda y: 0.6 * x * y, lambda y: y + 0.3, c)


def whiles() -> dict[str, tuple[Callable[[Any], Any], Any]]:
    """Loops that end by a condition, and the points at which their gradients are taken."""
    rng = np.random.default_rng(1)
    numbers, matrix = rng.uniform(0.5, 1.5, 10_000), rng.standard_normal((10, 10)) / 4
    return {
        "root": (_root, np.float64(2.0)),
        "numbers, 100": (_counted(lambda x, c: x * c * (1 - c), 100), np.float64(3.2)),
        "numbers, 1,000": (_counted(lambda x, c: x * c * (1 - c), 1_000), np.float64(3.2)),
        "choices, 300": (_counted(_either, 300), np.float64(1.0)),
        "arrays of 8, 200": (_counted(lambda x, c: fnp.tanh(x * c + 0.1), 200), numbers[:8]),
        "arrays of 10,000, 200": (_counted(lambda x, c: fnp.tanh(x * c + 0.1), 200), numbers),
        "matrices, 200": (_counted(lambda x, c: fnp.tanh(x @ c), 200), matrix),
    }


def report_while(name: str, f: Callable[[Any], Any], x: Any) -> list[str]:
    """The line of a loop that ends by a condition."""
    x = fg.tensor(x)
    ways = {"loop": f, "gradient": fg.grad(f), "both": fg.value_and_grad(f)}
    staged = {way: fg.jit(own) for way, own in ways.items()}
    runs: dict[str, Callable[[], Any]] = {way: partial(own, x) for way, own in staged.items()}
    firsts = {way: seconds(run) for way, run in runs.items()}
    eagerly = np.asarray(ways["gradient"](x))
    np.testing.assert_allclose(np.asarray(runs["gradient"]()), eagerly, rtol=1e-9)
    times = least(runs)
    cells = [f"{times['loop'] * 1e3:.3f}"]
    cells += [f"{times[way] / times['loop']:.1f}" for way in ("gradient", "both")]
    return [name, *cells, *[f"{firsts[way] * 1e3:.0f}" for way in ("loop", "gradient")]]


WHILE_HEADS: Final = (
    "loop that ends by a condition",
    "value ms",
    "gradient/value",
    "both/value",
    "first ms",
    "first gradient ms",
)


# ------------------------------------------------------------------------------------ the times


def seconds(run: Callable[[], Any]) -> float:
    """The time of one call."""
    start = process_time()
    run()
    return process_time() - start


def least(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of each, taken in turns."""
    for run in runs.values():
        run()
    found = dict.fromkeys(runs, np.inf)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name] = min(found[name], seconds(run))
    return found


def _jax() -> Any:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    if find_spec("jax") is None:
        return None
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.jit(lambda x: jax.lax.scan(lambda c, _: (c + 1.0, None), x, None, length=2))(1.0)
    return jax


def _calls(case: Case, jax: Any, derivative: bool) -> dict[str, Callable[[], Any]]:
    """The ways to run a case staged."""
    changed = [fg.value_and_grad] if derivative else []

    def own(*args: Any) -> Any:
        return case.function(fnp, fg.scan, *args)

    staged = fg.jit(changed[0](own) if changed else own)
    args = case.args
    found: dict[str, Callable[[], Any]] = {"jit": lambda: staged(*args)}
    if jax is not None:

        def other(*args: Any) -> Any:
            return case.function(jax.numpy, jax.lax.scan, *args)

        compiled = jax.jit(jax.value_and_grad(other) if derivative else other)
        given = [jax.numpy.asarray(np.asarray(arg)) for arg in case.args]
        found["jax"] = lambda: jax.block_until_ready(compiled(*given))
    return found


def report(case: Case, jax: Any) -> list[str]:
    """The line of a case."""
    # Both work on the same memory: where arrays lie makes differences of a tenth.
    case = case._replace(args=tuple([fg.tensor(arg) for arg in case.args]))
    given = [np.asarray(arg) for arg in case.args]
    expected = case.hand(*given)
    cells: list[str] = []
    firsts: dict[bool, dict[str, float]] = {}
    for derivative in (False, True):
        runs = _calls(case, jax, derivative)
        firsts[derivative] = {name: seconds(run) for name, run in runs.items()}
        value = runs["jit"]()
        np.testing.assert_allclose(np.asarray(value[0] if derivative else value), expected)
        times = least({"hand": lambda: case.hand(*given), **runs})
        cells.append(f"{times['jit'] * 1e3:.2f}")
        cells.append(f"{times['jit'] / times['hand']:.2f}")
        cells.append(f"{times['jit'] / times['jax']:.2f}" if jax else "-")
    args = case.args
    eager = least(
        {
            "scan": lambda: case.function(fnp, fg.scan, *args),
            "python": lambda: case.function(fnp, python_scan, *args),
        }
    )
    cells.append(f"{eager['scan'] / eager['python']:.2f}")
    for own in firsts.values():
        cells.append(f"{own['jit'] * 1e3:.0f}")
        cells.append(f"{own['jit'] / own['jax']:.2f}" if jax else "-")
    return [case.name, *cells]


HEADS: Final = (
    "loop",
    "value ms",
    "/hand",
    "/jax",
    "gradient ms",
    "/hand's value",
    "/jax",
    "eager/Python",
    "first ms",
    "/jax",
    "first gradient ms",
    "/jax",
)


def main() -> None:
    """Print the table, and the first calls of loops of other lengths."""
    jax = _jax()
    fg.jit(lambda x: fg.scan(lambda c, _: (c + 1.0, None), x, None, length=2)[0])(1.0)
    print("| " + " | ".join(HEADS) + " |")
    print("|---" * len(HEADS) + "|")
    for case in cases():
        print("| " + " | ".join(report(case, jax)) + " |", flush=True)
    print()
    print("| " + " | ".join(WHILE_HEADS) + " |")
    print("|---" * len(WHILE_HEADS) + "|")
    for name, (f, x) in whiles().items():
        print("| " + " | ".join(report_while(name, f, x)) + " |", flush=True)
    print()
    for steps in (10, 1_000, 100_000):
        print(f"first gradient of {steps} steps: {seconds(partial(_first, steps)) * 1e3:.1f} ms")


def _first(steps: int) -> str:
    """Stage a recurrence of a number of steps and its gradient, and write it."""
    f = _recurrence(steps)
    return fg.program(fg.value_and_grad(lambda c: f(fnp, fg.scan, c)))(np.ones(8)).to_numpy_source()


if __name__ == "__main__":
    main()
