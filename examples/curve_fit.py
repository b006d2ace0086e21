r"""Fit a curve by nonlinear least squares
======================================

How fast electrons move in a semiconductor depends on the density of the charge carriers. The
National Institute of Standards and Technology publishes 37 measurements by Robert Thurber (1979) as
one of its harder tests of software for curve fitting, with all digits of the answer certified
(Statistical Reference Datasets, "Thurber"). The curve is a quotient of two cubic polynomials:

.. math:: y(x) = \frac{b_1 + b_2 x + b_3 x^2 + b_4 x^3}{1 + b_5 x + b_6 x^2 + b_7 x^3}

``fg.optimize.least_squares`` fits the parameters, and returns the Jacobian J of the residuals. The
covariance of the parameters is s² (JᵀJ)⁻¹, where s² is the sum of squares divided by the 30 degrees
of freedom. The derivative of the curve with respect to the parameters carries the covariance over
to the curve: within the band the curve lies with 95 percent confidence.

Run it with ``python examples/curve_fit.py``. It compares the fit with the certified values, and
draws it to ``curve-fit.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg

# %%
# The data, and the certified answer
# ----------------------------------

LOG_DENSITY = np.array(
    """-3.067 -2.981 -2.921 -2.912 -2.840 -2.797 -2.702 -2.699 -2.633 -2.481 -2.363 -2.322 -1.501
    -1.460 -1.274 -1.212 -1.100 -1.046 -0.915 -0.714 -0.566 -0.545 -0.400 -0.309 -0.109 -0.103
    0.010 0.119 0.377 0.790 0.963 1.006 1.115 1.572 1.841 2.047 2.200""".split(),
    float,
)
MOBILITY = np.array(
    """80.574 84.248 87.264 87.195 89.076 89.608 89.868 90.101 92.405 95.854 100.696 101.060
    401.672 390.724 567.534 635.316 733.054 759.087 894.206 990.785 1090.109 1080.914 1122.643
    1178.351 1260.531 1273.514 1288.339 1327.543 1353.863 1414.509 1425.208 1421.384 1442.962
    1464.350 1468.705 1447.894 1457.628""".split(),
    float,
)
CERTIFIED = np.array(
    [  # value and standard deviation
        [1288.1396800, 4.6647963344],
        [1491.0792535, 39.571156086],
        [583.23836877, 28.698696102],
        [75.416644291, 5.5675370270],
        [0.96629502864, 0.031333340687],
        [0.39797285797, 0.014984928198],
        [0.049727297349, 0.0065842344623],
    ]
)


# %%
# The curve
# ---------
#
# A model is a frozen dataclass: a fit returns another one.


@fg.pytree
class Curve:
    """A quotient of polynomials with the parameters b1 to b4 and b5 to b7."""

    numerator: fg.Tensor
    denominator: fg.Tensor

    def __call__(self, x: np.ndarray) -> fg.Tensor:
        powers = np.stack([x**0, x, x**2, x**3])
        return (self.numerator @ powers) / (1 + self.denominator @ powers[1:])


START = Curve(fg.tensor([1000.0, 1000.0, 400.0, 40.0]), fg.tensor([0.7, 0.3, 0.03]))


# %%
# The fit
# -------
#
# ``fg.jacfwd`` gives the slopes of the curve, from which the band follows.


class Fit(NamedTuple):
    """The fitted curve.

    Attributes
    ----------
    curve : Curve
    covariance : numpy.ndarray, shape (7, 7)
        Of b1 to b7.
    """

    curve: Curve
    covariance: np.ndarray

    @property
    def parameters(self) -> np.ndarray:
        return np.asarray(fg.tree.ravel(self.curve)[0])

    @property
    def deviations(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))

    def band(self, x: np.ndarray) -> np.ndarray:
        """How far from the fit the curve may lie at some places, with a confidence of 95 %."""
        vector, unravel = fg.tree.ravel(self.curve)
        slopes = np.asarray(fg.jacfwd(lambda v: unravel(v)(x))(vector))
        deviations = np.sqrt(np.sum((slopes @ self.covariance) * slopes, axis=1))
        freedom = len(MOBILITY) - len(self.covariance)
        return np.asarray(fg.scipy.stats.t.ppf(0.975, freedom) * deviations)


def fit(x: np.ndarray, y: np.ndarray, start: Curve) -> Fit:
    def residuals(curve: Curve) -> fg.Tensor:
        return curve(x) - y

    solution = fg.optimize.least_squares(residuals, start, xtol=1e-10, ftol=0.0)
    jacobian = np.asarray(solution.jac)
    freedom = len(y) - jacobian.shape[1]
    covariance = 2 * float(solution.cost) / freedom * np.linalg.inv(jacobian.T @ jacobian)
    return Fit(solution.x, covariance)


def digits(values: np.ndarray, certified: np.ndarray) -> float:
    """How many digits of the worst of the values are right."""
    return float(-np.log10(np.max(np.abs(values / certified - 1))))


# %%
# The result
# ----------


def plot(result: Fit, path: Path) -> None:
    fine = np.linspace(LOG_DENSITY[0], LOG_DENSITY[-1], 300)
    figure = Figure(figsize=(8, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot(LOG_DENSITY, MOBILITY, ".", color="0.3", label="measured")
    curve, width = np.asarray(result.curve(fine)), result.band(fine)
    upper.plot(fine, curve, label="fit")
    upper.fill_between(fine, curve - width, curve + width, alpha=0.3, label="95 % confidence")
    upper.set(ylabel="electron mobility", title="Thurber's data")
    upper.legend()
    lower.fill_between(fine, -width, width, alpha=0.3, label="95 % confidence")
    lower.plot(LOG_DENSITY, MOBILITY - np.asarray(result.curve(LOG_DENSITY)), ".", color="0.3")
    lower.set(xlabel="logarithm of the density", ylabel="residual")
    lower.legend(fontsize="small")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Fit:
    parser = argparse.ArgumentParser(description="Fit a curve by nonlinear least squares.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = fit(LOG_DENSITY, MOBILITY, START)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "curve-fit.png")
    fitted = np.column_stack([result.parameters, result.deviations])
    for k in range(7):
        (value, deviation), (certified, its_deviation) = fitted[k], CERTIFIED[k]
        print(f"b{k + 1} = {value:11.6f} ± {deviation:9.6f}", end=", ")
        print(f"certified {certified:11.6f} ± {its_deviation:9.6f}")
    right = digits(fitted, CERTIFIED)
    print(f"at least {right:.1f} digits are right")
    assert right > 7
    return result


if __name__ == "__main__":
    main()
