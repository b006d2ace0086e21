r"""Aim a bouncing ball
===================

A ball is thrown, and bounces. At which angle does it land in a hole after three bounces? The air
slows the ball down by a force that grows with the square of its speed, and each bounce takes a
part of its speed, so the place has no formula.

``fg.integrate.solve_ivp`` finds each landing as an event, which ends the flight. The next flight
begins there. Time and place of an event have derivatives, so ``fg.grad`` differentiates the place
of the last landing with respect to the angle of the throw, through all flights. Newton's method
takes this derivative to aim.

Without air the speed upwards is :math:`w` at first, and each bounce keeps a part :math:`e` of it.
The flights take :math:`2w/g, 2we/g, 2we^2/g, \dots`, and the speed forwards :math:`u` stays:

.. math:: x_n = \frac{2uw}{g} \, \frac{1 - e^n}{1 - e}

Run it with ``python examples/bouncing_ball.py``. It compares the place and its derivative with this
formula, aims with air, and draws the throws to ``bouncing-ball.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The flight
# ----------
#
# An event is a function whose sign changes: here the height of the ball.

GRAVITY = 9.81
SPEED = 12.0  # m/s, of the throw
BOUNCE = 0.75  # the part of the speed upwards that a bounce keeps
AIR = 0.02  # 1/m: the force for the square of the speed, divided by the mass
FLIGHTS = 4
HOLE = 20.0  # m

GROUND = fg.integrate.Event(lambda t, y, air: y[1], terminal=True, direction=-1)


def fall(t: fg.Tensor, y: fg.Tensor, air: float) -> fg.Tensor:
    """The slope of (x, height, and the speeds in both directions)."""
    velocity = y[2:]
    drag = air * fnp.sqrt(velocity @ velocity) * velocity
    return fnp.concatenate([velocity, -drag - fnp.stack([0.0, GRAVITY])])


def flights(angle: Any, air: float, **options: Any) -> list[Any]:
    """The solutions from landing to landing."""
    y = fnp.stack([0.0, 0.0, SPEED * fnp.cos(angle), SPEED * fnp.sin(angle)])
    solutions = []
    for _ in range(FLIGHTS):
        solution = fg.integrate.solve_ivp(
            fall, (0.0, 10.0), y, "DOP853", events=GROUND, args=(air,), rtol=1e-10, **options
        )
        solutions.append(solution)
        x, _, forwards, downwards = solution.y_events[0][0]
        y = fnp.stack([x, 0.0, forwards, -BOUNCE * downwards])
    return solutions


# %%
# The place of the last landing
# -----------------------------
#
# Without air it has a closed form.


def landing(angle: Any, air: float) -> fg.Tensor:
    """The place at which the last flight ends."""
    return flights(angle, air)[-1].y_events[0][0][0]


def without_air(angle: Any) -> fg.Tensor:
    steps = (1 - BOUNCE**FLIGHTS) / (1 - BOUNCE)
    return SPEED**2 * fnp.sin(2 * angle) / GRAVITY * steps


# %%
# Aiming
# ------
#
# Newton's method needs the derivative of the place, which ``fg.value_and_grad`` returns.


class Throw(NamedTuple):
    """The throw that hits the hole.

    Attributes
    ----------
    angles : list of float
        Newton's method, from the first guess on.
    missed : list of float
        How far from the hole the ball landed.
    """

    angles: list[float]
    missed: list[float]


def aim(hole: float, angle: float) -> Throw:
    angles, missed = [angle], []
    while True:
        place, slope = fg.value_and_grad(landing)(angles[-1], AIR)
        missed.append(float(place) - hole)
        if abs(missed[-1]) < 1e-8 or len(missed) > 20:
            return Throw(angles, missed)
        angles.append(angles[-1] - missed[-1] / float(slope))


# %%
# The result
# ----------


def plot(throw: Throw, path: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for angle in throw.angles:
        is_last = angle == throw.angles[-1]
        color = "C0" if is_last else "0.8"
        for number, flight in enumerate(flights(angle, AIR, dense_output=True)):
            label = f"at {np.degrees(angle):.1f}°" if is_last and not number else None
            x, height, *_ = flight.sol(np.linspace(0.0, float(flight.t_events[0][0]), 60))
            axes.plot(x, height, color=color, label=label)
    axes.plot(HOLE, 0.0, "v", color="C3", label="the hole")
    axes.set(xlabel="distance (m)", ylabel="height (m)", title="Newton's method aims a throw")
    axes.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Throw:
    parser = argparse.ArgumentParser(description="Aim a bouncing ball.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    computed = fg.value_and_grad(landing)(0.5, 0.0)
    exact = fg.value_and_grad(without_air)(0.5)
    print("without air at 0.5 rad: {:.6f} m, {:.6f} m/rad".format(*map(float, computed)))
    print("by the formula:         {:.6f} m, {:.6f} m/rad".format(*map(float, exact)))
    assert np.allclose(computed, exact, rtol=1e-8)
    throw = aim(HOLE, 0.3)
    for angle, missed in zip(throw.angles, throw.missed, strict=True):
        print(f"thrown at {np.degrees(angle):9.6f}°, the ball misses the hole by {missed:12.9f} m")
    options.out.mkdir(parents=True, exist_ok=True)
    plot(throw, options.out / "bouncing-ball.png")
    return throw


if __name__ == "__main__":
    main()
