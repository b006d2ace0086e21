"""Find a conductivity inside a rod from temperatures
==================================================

A rod of steel has a flaw inside, where it conducts heat badly. One end is heated by a known flux q,
the other is kept at the temperature of the surroundings, and a few thermometers along the rod are
read for an hour. What is the conductivity k(x)? The temperature u, relative to the surroundings,
obeys ρ c ∂u/∂t = ∂(k ∂u/∂x)/∂x, with -k ∂u/∂x = q at the hot end and u = 0 at the cold one.

The rod is divided into cells, and time into steps of Crank and Nicolson ("A practical method for
numerical evaluation of solutions of partial differential equations of the heat-conduction type",
Mathematical Proceedings of the Cambridge Philosophical Society 43, 1947). A step solves a system of
three diagonals by ``fg.scipy.linalg.solve_banded``, whose derivatives are solutions of such systems
again. A smooth conductivity is preferred: neighbouring cells differ by a few percent (Tikhonov's
regularization, or a Gaussian prior). The data are simulated, with noise, from a known conductivity.

In the end the temperature stands still, and then u(x) is q times the integral of 1/k from x to L.

Run it with ``python examples/heat.py``. It prints how well the conductivity is recovered, and draws
it to ``heat.png``.
"""

# sphinx_gallery_thumbnail_number = 3

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy.linalg import solve_banded

# %%
# The rod
# -------

LENGTH = 0.2  # m
CELLS = 40
WIDTH = LENGTH / CELLS
PLACES = (np.arange(CELLS) + 0.5) * WIDTH
THERMOMETERS = np.arange(1, CELLS, 4)  # numbers of cells
FLUX = 2e4  # W/m²
CAPACITY = 3.6e6  # ρ c, in J/(m³ K)
NOISE = 0.1  # K
STEP = 60.0  # s
STEPS = 60
SMOOTHNESS = 0.1  # the standard deviation of log k from a cell to the next

CONDUCTIVITY = 45.0 * (1 - 0.6 * np.exp(-(((PLACES - 0.12) / 0.02) ** 2)))  # W/(m K), the truth


# %%
# The temperatures
# ----------------
#
# ``fg.scan`` makes the steps in time.


def conductances(conductivity: fg.Tensor) -> fg.Tensor:
    """From each cell to the next, and from the last to the cold end, in W/(m² K)."""
    half = WIDTH / 2 / conductivity  # the resistance of half of a cell
    return 1 / (half + fnp.concatenate([half[1:], fnp.zeros(1)]))


def temperatures(conductivity: fg.Tensor, step: float = STEP, steps: int = STEPS) -> fg.Tensor:
    """The temperatures of all cells after each step, shape (steps, CELLS), in K."""
    right = conductances(conductivity)
    left = fnp.concatenate([fnp.zeros(1), right[:-1]])
    stored = CAPACITY * WIDTH / step
    matrix = fnp.stack([-left, 2 * stored + left + right, -right])  # rows of the equations
    diagonals = fnp.stack([fnp.roll(matrix[2], 1), matrix[1], fnp.roll(matrix[0], -1)])
    heating = 2 * FLUX * fnp.where(np.arange(CELLS) == 0, 1.0, 0.0)

    def advance(u: fg.Tensor, _: None) -> tuple[fg.Tensor, fg.Tensor]:
        flows = right * (u - fnp.concatenate([u[1:], fnp.zeros(1)]))
        gained = fnp.concatenate([fnp.zeros(1), flows[:-1]]) - flows
        u = solve_banded((1, 1), diagonals, 2 * stored * u + gained + heating)
        return u, u

    return fg.scan(advance, fnp.zeros(CELLS), length=steps)[1]


# %%
# The fit
# -------
#
# The Jacobian at the solution gives the standard deviations.


class Fit(NamedTuple):
    """The conductivity that was found.

    Attributes
    ----------
    conductivity : numpy.ndarray, shape (CELLS,)
    deviation : numpy.ndarray, shape (CELLS,)
        The standard deviation of its logarithm.
    data : numpy.ndarray, shape (STEPS, thermometers)
    """

    conductivity: np.ndarray
    deviation: np.ndarray
    data: np.ndarray

    @property
    def error(self) -> float:
        """The root mean square of the relative error."""
        return float(np.sqrt(np.mean((self.conductivity / CONDUCTIVITY - 1) ** 2)))

    @property
    def covered(self) -> float:
        """The part of the rod where the truth lies within two standard deviations."""
        distance = np.abs(np.log(self.conductivity / CONDUCTIVITY))
        return float(np.mean(distance < 2 * self.deviation))


def simulated(seed: int) -> np.ndarray:
    exact = np.asarray(temperatures(fg.tensor(CONDUCTIVITY)))[:, THERMOMETERS]
    return exact + np.random.default_rng(seed).normal(scale=NOISE, size=exact.shape)


def fit(data: np.ndarray) -> Fit:
    @fg.jit
    def residuals(logs: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        misfit = (temperatures(fnp.exp(logs))[:, THERMOMETERS] - data) / NOISE
        return misfit, fnp.diff(logs) / SMOOTHNESS

    start = np.full(CELLS, np.log(30.0))
    solution = fg.scipy.optimize.least_squares(residuals, start, progress=True)
    covariance = np.linalg.inv(solution.jac.T @ solution.jac)
    return Fit(np.exp(np.asarray(solution.x)), np.sqrt(np.diag(covariance)), data)


# %%
# The result
# ----------


def plot(result: Fit, path: Path) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    minutes = STEP / 60 * np.arange(1, STEPS + 1)
    left.plot(minutes, result.data, ".", color="0.6", markersize=3)
    left.plot(minutes, temperatures(fg.tensor(result.conductivity))[:, THERMOMETERS], linewidth=1)
    left.set(xlabel="time (min)", ylabel="temperature (K)", title="Thermometers")
    spread = np.exp(2 * result.deviation)
    right.plot(100 * PLACES, CONDUCTIVITY, color="0.2", linewidth=1, label="true")
    right.plot(100 * PLACES, result.conductivity, label="found")
    right.fill_between(
        100 * PLACES, result.conductivity / spread, result.conductivity * spread, alpha=0.3
    )
    right.set(xlabel="place (cm)", ylabel="conductivity (W/(m K))", title="Inside the rod")
    right.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Fit:
    parser = argparse.ArgumentParser(description="Find a conductivity from temperatures.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = fit(simulated(options.seed))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "heat.png")
    flaw = int(np.argmin(result.conductivity))
    print(f"the flaw lies at {100 * PLACES[flaw]:.1f} cm, truly at 12.0 cm")
    print(f"there k is {result.conductivity[flaw]:.1f} W/(m K), truly {min(CONDUCTIVITY):.1f}")
    print(f"error {result.error:.1%}; {result.covered:.0%} of the rod within 2 sigma")
    assert result.error < 0.1
    return result


if __name__ == "__main__":
    main()
