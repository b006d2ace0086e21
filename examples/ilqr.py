"""Swing up a pole on a cart by iterative LQR
===========================================

A cart of 1 kg carries a pole that can turn around its lower end, with a mass of 0.3 kg at a
distance of 0.5 m. The pole hangs down. Which force on the cart, at each of 80 times, swings it up
within four seconds, and stops both?

The iterative linear-quadratic regulator (Li and Todorov, "Iterative linear quadratic regulator
design for nonlinear biological movement systems", 2004; with the regularization of Tassa, Erez and
Todorov, "Synthesis and stabilization of complex behaviors through online trajectory optimization",
2012) linearizes the motion along a path and takes the cost as quadratic there. That problem has an
exact solution, by one sweep backwards in time. A sweep forwards then takes a step towards it.
``fg.vmap`` of ``fg.jacfwd`` gives all linear models of a path at once, ``fg.scan`` goes backwards
and forwards, and ``fg.vmap`` tries all lengths of the step together.

Where the motion is linear and the cost quadratic, one iteration is the solution: the same method
balances the pole that already stands, and its first gain is the one of the algebraic Riccati
equation, which SciPy solves.

Run it with ``python examples/ilqr.py``. It prints costs and gains, and draws the motion to
``ilqr.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg
from matplotlib.figure import Figure
from tqdm import tqdm

import funcgrad as fg
import funcgrad.numpy as fnp

CART, POLE = 1.0, 0.3  # kg
# %%
# The motion, and its cost
# ------------------------

LENGTH = 0.5  # m
GRAVITY = 9.81  # m/s²
STEP = 0.05  # s
STEPS = 80

HANGING = np.array([0.0, math.pi, 0.0, 0.0])  # m, rad, m/s, rad/s
STATE_WEIGHTS = np.array([1.0, 1.0, 0.1, 0.1])
FORCE_WEIGHT = 0.01
LENGTHS = 0.5 ** np.arange(8)  # of steps, that are tried
LONG_HORIZON = 400

Motion = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]
Cost = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]


def slope(state: fg.Tensor, force: fg.Tensor) -> fg.Tensor:
    """The derivative of place, angle (0 is upright), speed and turning with respect to time."""
    _, angle, speed, turning = state
    sin, cos = fnp.sin(angle), fnp.cos(angle)
    pull = POLE * sin * (LENGTH * turning**2 - GRAVITY * cos)
    acceleration = (force[0] + pull) / (CART + POLE * sin**2)
    return fnp.stack([speed, turning, acceleration, (GRAVITY * sin - acceleration * cos) / LENGTH])


def move(state: fg.Tensor, force: fg.Tensor) -> fg.Tensor:
    """The state after a step, by the method of Runge and Kutta."""
    first = slope(state, force)
    second = slope(state + STEP / 2 * first, force)
    third = slope(state + STEP / 2 * second, force)
    fourth = slope(state + STEP * third, force)
    return state + STEP / 6 * (first + 2 * second + 2 * third + fourth)


def cost(state: fg.Tensor, force: fg.Tensor) -> fg.Tensor:
    """The cost of a step: far from upright in the middle, or moving, or pushed hard."""
    place, angle, speed, turning = state
    away = fnp.stack([place, 2 * fnp.sin(angle / 2), speed, turning])  # the same after a full turn
    return STEP * (fnp.sum(STATE_WEIGHTS * away**2) + FORCE_WEIGHT * fnp.sum(force**2))


def end_cost(state: fg.Tensor) -> fg.Tensor:
    return 200 * cost(state, fnp.zeros(1))


# %%
# The sweeps
# ----------
#
# One goes backward in time, the other forward.


class Track(NamedTuple):
    """States before each step and after the last one, and the forces."""

    states: fg.Tensor
    forces: fg.Tensor


class Problem(NamedTuple):
    """The motion and its cost."""

    move: Motion
    cost: Cost
    end_cost: Callable[[fg.Tensor], fg.Tensor]

    def total(self, track: Track) -> fg.Tensor:
        costs = fg.vmap(self.cost)(track.states[:-1], track.forces)
        return fnp.sum(costs) + self.end_cost(track.states[-1])

    def roll(self, start: fg.Tensor, forces: fg.Tensor) -> Track:
        """The motion under some forces."""

        def step(state: fg.Tensor, force: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
            return self.move(state, force), state

        end, states = fg.scan(step, start, forces)
        return Track(fnp.concatenate([states, end[None]]), forces)


def backward(
    problem: Problem, track: Track, regularization: fg.Tensor
) -> tuple[fg.Tensor, fg.Tensor]:
    """Gains and changes of the forces that solve the linear-quadratic problem along a track."""
    states, forces = track.states[:-1], track.forces
    moves = fg.vmap(fg.jacfwd(problem.move, argnums=(0, 1)))(states, forces)
    slopes = fg.vmap(fg.grad(problem.cost, argnums=(0, 1)))(states, forces)
    curvatures = fg.vmap(fg.hessian(problem.cost, argnums=(0, 1)))(states, forces)

    def step(
        value: tuple[fg.Tensor, fg.Tensor], local: tuple[tuple[fg.Tensor, ...], ...]
    ) -> tuple[tuple[fg.Tensor, fg.Tensor], tuple[fg.Tensor, fg.Tensor]]:
        v, vv = value  # the slope and the curvature of the cost to go
        (a, b), (x, u), ((xx, _), (ux, uu)) = local
        x, u = x + a.T @ v, u + b.T @ v
        xx, ux, uu = xx + a.T @ vv @ a, ux + b.T @ vv @ a, uu + b.T @ vv @ b
        regular = uu + regularization * fnp.eye(len(u))
        gain, change = -fnp.linalg.solve(regular, ux), -fnp.linalg.solve(regular, u)
        v = x + gain.T @ (u + uu @ change) + ux.T @ change
        vv = xx + gain.T @ (ux + uu @ gain) + ux.T @ gain
        return (v, (vv + vv.T) / 2), (gain, change)

    end = track.states[-1]
    last = fg.grad(problem.end_cost)(end), fg.hessian(problem.end_cost)(end)
    return fg.scan(step, last, (moves, slopes, curvatures), reverse=True)[1]


def forward(
    problem: Problem, track: Track, gains: fg.Tensor, changes: fg.Tensor, length: fg.Tensor
) -> Track:
    """The motion with changed forces, which also react to the change of the state."""

    def step(
        state: fg.Tensor, local: tuple[fg.Tensor, ...]
    ) -> tuple[fg.Tensor, tuple[fg.Tensor, ...]]:
        old, force, gain, change = local
        force = force + length * change + gain @ (state - old)
        return problem.move(state, force), (state, force)

    along = track.states[:-1], track.forces, gains, changes
    end, (states, forces) = fg.scan(step, track.states[0], along)
    return Track(fnp.concatenate([states, end[None]]), forces)


def improve(
    problem: Problem, track: Track, regularization: fg.Tensor
) -> tuple[Track, fg.Tensor, fg.Tensor]:
    """One iteration: the best of the tried tracks, its cost, and the gains."""
    gains, changes = backward(problem, track, regularization)
    tracks = fg.vmap(lambda length: forward(problem, track, gains, changes, length))(LENGTHS)
    totals = fg.vmap(problem.total)(tracks)
    best = fnp.argmin(fnp.where(fnp.isfinite(totals), totals, fnp.inf))
    return Track(tracks.states[best], tracks.forces[best]), totals[best], gains


# %%
# Swinging up, and balancing
# --------------------------
#
# The gain of the balanced pole solves Riccati's equation.


class Result(NamedTuple):
    """The swing-up, and the pole that is balanced.

    Attributes
    ----------
    track : Track
    costs : list of float
        Before, and after each iteration.
    slope : float
        The largest derivative of the total cost with respect to a force.
    gain, riccati_gain : numpy.ndarray
        For balancing: the first gain of one iteration, and of the algebraic Riccati equation.
    """

    track: Track
    costs: list[float]
    slope: float
    gain: np.ndarray
    riccati_gain: np.ndarray


def swing_up(iterations: int, seed: int) -> tuple[Track, list[float], float]:
    problem = Problem(move, cost, end_cost)
    forces = fg.tensor(np.random.default_rng(seed).normal(size=(STEPS, 1)))  # leaves the symmetry
    track = problem.roll(fg.tensor(HANGING), forces)
    costs = [float(problem.total(track))]
    regularization = 1.0
    better = fg.jit(lambda track, number: improve(problem, track, number))
    progress = tqdm(range(iterations), desc="improving")
    for _ in progress:
        proposal, total, _ = better(track, fg.tensor(regularization))
        if total < costs[-1]:
            track, regularization = proposal, max(regularization / 2, 1e-8)
            costs.append(float(total))
        else:
            regularization = 4 * regularization
        progress.set_postfix(cost=f"{costs[-1]:.5f}")
    derivative = fg.grad(lambda forces: problem.total(problem.roll(fg.tensor(HANGING), forces)))(
        track.forces
    )
    return track, costs, float(fnp.max(fnp.abs(derivative)))


def balance() -> tuple[np.ndarray, np.ndarray]:
    """The gain for a pole that nearly stands, by iterative LQR and by the Riccati equation."""
    upright, no_force = fnp.zeros(4), fnp.zeros(1)
    a, b = fg.jacfwd(move, argnums=(0, 1))(upright, no_force)
    (xx, _), (_, uu) = fg.hessian(cost, argnums=(0, 1))(upright, no_force)

    def quadratic(state: fg.Tensor, force: fg.Tensor) -> fg.Tensor:
        total: fg.Tensor = state @ xx @ state + force @ uu @ force
        return total / 2

    problem = Problem(
        lambda state, force: a @ state + b @ force,
        quadratic,
        lambda state: quadratic(state, no_force),
    )
    track = problem.roll(fg.tensor([0.1, 0.1, 0.0, 0.0]), fnp.zeros((LONG_HORIZON, 1)))
    gains, _ = backward(problem, track, fg.tensor(0.0))
    a, b, xx, uu = map(np.asarray, (a, b, xx, uu))
    value = scipy.linalg.solve_discrete_are(a, b, xx, uu)
    return np.asarray(gains[0]), -np.linalg.solve(uu + b.T @ value @ b, b.T @ value @ a)


# %%
# The result
# ----------


def plot(result: Result, path: Path) -> None:
    times = STEP * np.arange(STEPS + 1)
    states, forces = map(np.asarray, result.track)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = np.linspace(0.85, 0.0, len(times))
    for (place, angle, *_), color in zip(states[::2], colors[::2], strict=True):
        tip = place + LENGTH * math.sin(angle), LENGTH * math.cos(angle)
        left.plot([place, tip[0]], [0.0, tip[1]], color=str(color), linewidth=1)
        left.plot(*tip, ".", color=str(color))
    left.set(
        aspect="equal",
        xlabel="place (m)",
        ylabel="height (m)",
        title="Light is early, dark is late",
    )
    right.step(times[:-1], forces[:, 0], where="post", label="force (N)")
    right.plot(times, states[:, 1], label="angle (rad)")
    right.plot(times, states[:, 0], label="place (m)")
    right.set(xlabel="time (s)")
    right.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Swing up a pole on a cart by iterative LQR.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = Result(*swing_up(options.iterations, options.seed), *balance())
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "ilqr.png")
    place, angle, *_ = (float(number) for number in result.track.states[-1])
    turns = round(angle / (2 * math.pi))
    print(f"cost {result.costs[0]:.3f} -> {result.costs[-1]:.3f}", end=", ")
    print(f"where its derivative with respect to a force is at most {result.slope:.0e}")
    print(
        f"at the end {1000 * place:.1f} mm and {angle - 2 * math.pi * turns:.4f} rad from upright"
    )
    difference = float(np.max(np.abs(result.gain - result.riccati_gain)))
    print(
        f"gains for balancing {np.round(result.gain[0], 3)}, Riccati's differ by {difference:.0e}"
    )
    assert difference < 1e-6
    assert abs(angle - 2 * math.pi * turns) < 0.01
    return result


if __name__ == "__main__":
    main()
