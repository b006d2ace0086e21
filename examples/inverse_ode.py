"""Find the parameters of a differential equation from data
=========================================================

Trappers of the Hudson's Bay Company delivered more furs of hares in some years and more of lynxes
in others. In the equations of Lotka (1925) and Volterra (1926), u thousand hares and v thousand
lynxes live according to u' = (α - β v) u and v' = (δ u - γ) v.

The data are the furs of 1900 to 1920, in thousands (Hewitt, 1921; Howard, "Modeling basics", 2009).
Carpenter, "Predator-prey population dynamics: the Lotka-Volterra model in Stan" (2018), draws from
the posterior of the four coefficients, the two populations in 1900, and the relative errors of the
two counts. This example takes that model and its priors, finds the maximum of the posterior, and
compares with the published means and standard deviations. The errors of the counts are smaller at
the maximum than on average, because all other unknowns fit best there.

``fg.odeint`` solves the equations. Its derivatives give the gradient for the minimization; the
Hessian at the maximum gives standard deviations (Laplace's approximation), and the derivatives of
the populations with respect to the parameters carry them over to the bands in the picture.

Run it with ``python examples/inverse_ode.py``. It prints the parameters beside Stan's, and draws
the populations to ``inverse-ode.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The furs, and Stan's answer
# ---------------------------

YEARS = np.arange(1900.0, 1921.0)
HARES = """30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6
    14.6 16.2 24.7"""
LYNXES = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
FURS = np.array([HARES.split(), LYNXES.split()], float)  # thousands

NAMES = ("α", "β", "γ", "δ", "hares in 1900", "lynxes in 1900", "error of hares", "error of lynxes")
STAN_MEANS = np.array([0.545, 0.028, 0.803, 0.024, 33.956, 5.933, 0.250, 0.252])
STAN_DEVIATIONS = np.array([0.064, 0.004, 0.092, 0.004, 2.856, 0.535, 0.045, 0.044])


# %%
# The model
# ---------
#
# The solution of the equations, and the density of its parameters.


@fg.pytree
class Model:
    """The logarithms of all unknowns, which are positive.

    Attributes
    ----------
    rates : Tensor, shape (4,)
        Of α (1/year), β (1/year/thousand lynxes), γ (1/year) and δ (1/year/thousand hares).
    start, errors : Tensor, shape (2,)
        Of the populations in 1900 (thousands), and of the relative errors of the counts.
    """

    rates: fg.Tensor
    start: fg.Tensor
    errors: fg.Tensor


GUESS = Model(*map(fnp.log, ([0.6, 0.03, 0.8, 0.03], [30.0, 6.0], [0.3, 0.3])))


def growth(populations: fg.Tensor, _: fg.Tensor, rates: fg.Tensor) -> fg.Tensor:
    """The right-hand side of the equations."""
    hares, lynxes = populations
    alpha, beta, gamma, delta = rates
    return fnp.stack([(alpha - beta * lynxes) * hares, (delta * hares - gamma) * lynxes])


def populations(model: Model, years: np.ndarray) -> fg.Tensor:
    """Hares and lynxes in some years, starting with 1900."""
    start, rates = fnp.exp(model.start), fnp.exp(model.rates)
    return fg.odeint(growth, start, years, rates, rtol=1e-6, atol=1e-6).T


def surprise(model: Model) -> fg.Tensor:
    """Minus the logarithm of the posterior density of the unknowns' logarithms."""
    errors = fnp.exp(model.errors)[:, None]
    residuals = (fnp.log(FURS) - fnp.log(populations(model, YEARS))) / errors
    likelihood = fnp.sum(residuals**2) / 2 + len(YEARS) * fnp.sum(model.errors)
    rates = fnp.exp(model.rates)
    # The priors of Stan's model: the rates are normal, the others log-normal.
    middle, width = np.array([1.0, 0.05, 1.0, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    prior = fnp.sum(((rates - middle) / width) ** 2) / 2 - fnp.sum(model.rates)
    prior += fnp.sum((model.start - math.log(10)) ** 2) / 2 + fnp.sum((model.errors + 1) ** 2) / 2
    return likelihood + prior


# %%
# The fit
# -------
#
# The Hessian gives standard deviations; ``fg.jacfwd`` gives the band.


class Fit(NamedTuple):
    """The most likely model.

    Attributes
    ----------
    model : Model
    covariance : numpy.ndarray, shape (8, 8)
        Of the logarithms.
    slope : float
        The largest part of the gradient at the maximum.
    """

    model: Model
    covariance: np.ndarray
    slope: float

    @property
    def values(self) -> np.ndarray:
        return np.asarray(fnp.exp(fg.tree.ravel(self.model)[0]))

    @property
    def deviations(self) -> np.ndarray:
        return np.asarray(self.values * np.sqrt(np.diag(self.covariance)))

    @property
    def period(self) -> float:
        """The time in years of a small cycle, 2π / sqrt(α γ)."""
        return float(2 * math.pi / np.sqrt(self.values[0] * self.values[2]))

    def band(self, years: np.ndarray) -> np.ndarray:
        """The standard deviations of the logarithms of the populations."""
        vector, unravel = fg.tree.ravel(self.model)
        slopes = np.asarray(fg.jacfwd(lambda v: fnp.log(populations(unravel(v), years)))(vector))
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j", slopes, self.covariance, slopes)))


def fit(start: Model) -> Fit:
    solution = fg.scipy.optimize.minimize(fg.jit(surprise), start, method="BFGS")
    vector, unravel = fg.tree.ravel(solution.x)
    curvature = fg.jacfwd(fg.grad(lambda v: surprise(unravel(v))))(vector)
    slope = float(fnp.max(fnp.abs(fg.tree.ravel(solution.jac)[0])))
    return Fit(solution.x, np.linalg.inv(np.asarray(curvature)), slope)


# %%
# The result
# ----------


def plot(result: Fit, path: Path) -> None:
    years = np.linspace(YEARS[0], YEARS[-1], 201)
    curves, bands = np.asarray(populations(result.model, years)), result.band(years)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for name, furs, curve, band in zip(("hares", "lynxes"), FURS, curves, bands, strict=True):
        (line,) = left.plot(years, curve, label=name)
        left.fill_between(
            years, curve * np.exp(-2 * band), curve * np.exp(2 * band), alpha=0.2, linewidth=0
        )
        left.plot(YEARS, furs, "o", color=line.get_color(), markersize=4)
    left.set(xlabel="year", ylabel="thousands of furs", xticks=YEARS[::5])
    left.legend()
    right.plot(*curves)
    right.plot(*FURS, ".:", color="0.5", linewidth=0.8)
    right.set(xlabel="thousands of hares", ylabel="thousands of lynxes")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Fit:
    parser = argparse.ArgumentParser(description="Find the parameters of a predator and its prey.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = fit(GUESS)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "inverse-ode.png")
    rows = zip(NAMES, result.values, result.deviations, STAN_MEANS, STAN_DEVIATIONS, strict=True)
    for name, value, deviation, mean, its_deviation in rows:
        print(
            f"{name:>15} {value:6.3f} ± {deviation:.3f}, by Stan {mean:6.3f} ± {its_deviation:.3f}"
        )
    print(f"a cycle takes {result.period:.1f} years")
    distances = np.abs(result.values - STAN_MEANS) / STAN_DEVIATIONS
    assert np.all(distances < [0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 1.0, 1.0])
    return result


if __name__ == "__main__":
    main()
