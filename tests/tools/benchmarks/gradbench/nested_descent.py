"""The evaluations that minimize within what they minimize: saddle and particle.

Each in four mixes of modes: the mode of the outer derivative, and the mode of the inner one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.tools.benchmarks.gradbench.evaluation import Draws, Evaluation

Function = Callable[..., Any]


def descend(lib: Any, f: Function, slope: Function, x: Any) -> Any:
    """Minimize by GradBench's rule: steps grow after ten good ones, and halve after a bad one."""
    xp = lib.np

    def length(v: Any) -> Any:
        return xp.sqrt(xp.sum(v * v))

    def go_on(state: Any) -> Any:
        return ~state[-1]

    def step(state: Any) -> Any:
        x, value, now, count, rate, _ = state
        double = count == 10
        ahead = x - rate * now
        near = length(ahead - x) <= 1e-5
        after = f(ahead)
        ends = (length(now) <= 1e-5) | (~double & near)
        good = ~ends & ~double & (after < value)
        bad = ~ends & ~double & ~(after < value)
        x, value = xp.where(good, ahead, x), xp.where(good, after, value)
        now = lib.cond(good, slope, lambda _: now, x)
        count = xp.where(double | bad, 0, xp.where(good, count + 1, count))
        rate = xp.where(~ends & double, rate * 2.0, xp.where(bad, rate / 2.0, rate))
        return x, value, now, count, rate, ends

    start = (x, f(x), slope(x), xp.asarray(0), xp.asarray(1e-5), xp.asarray(False))
    return lib.while_loop(go_on, step, start)[0]


def _modes(lib: Any, modes: str) -> list[Any]:
    return [{"r": lib.grad, "f": lib.jacfwd}[mode] for mode in modes]


def saddle(modes: str, lib: Any) -> Function:
    """The saddle of a square less a square: least in one pair where the other is greatest."""
    outer, inner = _modes(lib, modes)

    def f(x: Any, y: Any) -> Any:
        return x[0] ** 2 + x[1] ** 2 - y[0] ** 2 - y[1] ** 2

    def run(start: Any) -> Any:
        def best(x: Any) -> Any:
            return descend(lib, lambda y: -f(x, y), inner(lambda y: -f(x, y)), start)

        def value(x: Any) -> Any:
            return f(x, best(x))

        x = descend(lib, value, outer(value), start)
        return lib.np.concatenate([x, best(x)])

    return run


def particle(modes: str, lib: Any) -> Function:
    """Where to put a charge that a particle ends up in the middle, after Euler's steps."""
    xp, (outer, inner) = lib.np, _modes(lib, modes)

    def cost(w: Any) -> Any:
        charges = xp.asarray([10.0, 0.0]), xp.stack([xp.asarray(10.0), 10.0 - w[0]])

        def potential(x: Any) -> Any:
            return sum([1.0 / xp.sqrt(xp.sum((x - charge) ** 2)) for charge in charges])

        def step(state: Any) -> Any:
            x, v, _ = state
            return x + 0.1 * v, v - 0.1 * inner(potential)(x), v

        start, speed = xp.asarray([0.0, 8.0]), xp.asarray([0.75, 0.0])
        x, _, v = lib.while_loop(lambda state: state[0][1] > 0.0, step, (start, speed, speed))
        end = x - x[1] / v[1] * v
        return end[0] ** 2

    return lambda w: descend(lib, cost, outer(cost), w)


def _start(draws: Draws, size: int) -> tuple[Any, ...]:
    return (np.ones(2),)


def _nowhere(draws: Draws, size: int) -> tuple[Any, ...]:
    return (np.zeros(1),)


EVALUATIONS = tuple(
    [
        Evaluation(f"{name} {modes}", (1,), partial(program, modes), inputs, False, modes[0] == "r")
        for name, program, inputs in (("saddle", saddle, _start), ("particle", particle, _nowhere))
        for modes in ("rr", "rf", "fr", "ff")
    ]
)
