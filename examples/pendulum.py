"""Find out what damps a pendulum
==============================

A differential equation is fitted to noisy angles.

The angle θ of a pendulum of length 1 obeys ``θ'' = -g sin(θ) - c θ' - d θ' abs(θ')``: a part of the
friction grows with the speed, as in a bearing, another with its square, as in air. The data are
simulated: angles at 81 times, with noise. Least squares determine the two coefficients, gravity,
and the start of the pendulum. ``fg.odeint`` solves the equation, and the residuals are
differentiated through its steps for SciPy's method of Levenberg and Marquardt. The adjoint equation
gives the same gradient at the end.

Run it with ``python examples/pendulum.py``. It prints the fitted values with their standard
deviations, and draws the data and the fit to ``pendulum.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The pendulum
# ------------

NOISE = 0.03
TIMES = np.linspace(0.0, 8.0, 81)


@fg.pytree
class Pendulum:
    """The unknowns; all except the start are known to be positive."""

    gravity: fg.Tensor
    linear: fg.Tensor
    quadratic: fg.Tensor
    angle: fg.Tensor
    speed: fg.Tensor


TRUTH = Pendulum(*map(fg.tensor, (9.81, 0.05, 0.12, 1.5, -0.5)))
GUESS = Pendulum(*map(fg.tensor, (9.0, 0.1, 0.0, 1.2, 0.0)))


def slope(state: tuple[fg.Tensor, fg.Tensor], _: fg.Tensor, own: Pendulum) -> tuple[fg.Tensor, ...]:
    """The right-hand side of the equation, as one of first order."""
    angle, speed = state
    friction = own.linear * speed + own.quadratic * speed * abs(speed)
    return speed, -own.gravity * fnp.sin(angle) - friction


def angles(own: Pendulum, times: np.ndarray, derivative: str = "steps") -> fg.Tensor:
    """The angles at some times."""
    start = own.angle, own.speed
    return fg.odeint(slope, start, times, own, rtol=1e-6, atol=1e-8, derivative=derivative)[0]


# %%
# The fit
# -------
#
# The Jacobian of the residuals goes through the steps of the solver.


class Fit(NamedTuple):
    """The result of the fit.

    Attributes
    ----------
    found, deviation : Pendulum
        The estimate, and its standard deviation.
    noise : float
        The root of the mean square of the residuals.
    slope, slope_by_adjoint : numpy.ndarray
        The gradient of half the sum of squares there, in all unknowns.
    data : numpy.ndarray
    """

    found: Pendulum
    deviation: Pendulum
    noise: float
    slope: np.ndarray
    slope_by_adjoint: np.ndarray
    data: np.ndarray


def simulated(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(scale=NOISE, size=TIMES.shape)
    return np.asarray(angles(TRUTH, TIMES)) + noise


def fit(data: np.ndarray) -> Fit:
    vector, unravel = fg.tree.ravel(GUESS)

    def residuals(values: fg.Tensor, how: str = "steps") -> fg.Tensor:
        return angles(unravel(values), TIMES, how) - data

    def half_of_squares(values: fg.Tensor) -> fg.Tensor:
        return fnp.sum(residuals(values, "adjoint") ** 2) / 2

    jacobian: Any = fg.jit(fg.jacfwd(residuals))  # which SciPy expects to be a text
    solution = scipy.optimize.least_squares(
        fg.jit(residuals), np.asarray(vector), jac=jacobian, method="lm", x_scale="jac"
    )
    noise = float(np.sqrt(2 * solution.cost / (len(data) - len(vector))))
    covariance = noise**2 * np.linalg.inv(solution.jac.T @ solution.jac)
    return Fit(
        unravel(solution.x),
        unravel(np.sqrt(np.diag(covariance))),
        noise,
        solution.jac.T @ solution.fun,
        np.asarray(fg.grad(half_of_squares)(solution.x)),
        data,
    )


# %%
# The result
# ----------


def plot(result: Fit, path: Path) -> None:
    fine = np.linspace(TIMES[0], TIMES[-1], 600)
    figure = Figure(figsize=(9, 4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot(TIMES, result.data, ".", color="0.5", label="data")
    upper.plot(fine, angles(result.found, fine), label="fit")
    upper.plot(fine, angles(GUESS, fine), ":", linewidth=0.8, label="first guess")
    upper.set(ylabel="angle")
    upper.legend()
    lower.plot(TIMES, result.data - np.asarray(angles(result.found, TIMES)), ".")
    lower.axhline(0.0, color="0.5", linewidth=0.8)
    lower.set(xlabel="time", ylabel="residual")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Fit:
    parser = argparse.ArgumentParser(description="Find out what damps a pendulum.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = fit(simulated(options.seed))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "pendulum.png")
    for name in ("gravity", "linear", "quadratic", "angle", "speed"):
        found, deviation = (float(getattr(x, name)) for x in (result.found, result.deviation))
        print(f"{name:>9} {found:7.4f} ± {deviation:.4f}, truly {float(getattr(TRUTH, name)):.4f}")
    print(f"noise {result.noise:.4f}, truly {NOISE:.4f}")
    return result


if __name__ == "__main__":
    main()
