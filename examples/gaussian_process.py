"""Fit a Gaussian process to medical data
======================================

SciPy looks for the hyper-parameters, along gradients of funcgrad.

The data describe 442 diabetes patients and come with scikit-learn: ten measurements, and the
progress of the disease after a year (Efron et al., "Least angle regression", Annals of Statistics
32, 2004). The kernel has a length for each measurement: a long length means that the measurement
does not matter. The hyper-parameters maximize the marginal likelihood (Rasmussen and Williams,
"Gaussian processes for machine learning", 2006, equation 2.30).

Run it with ``python examples/gaussian_process.py``. It prints the result, and draws predictions
with their uncertainty and the lengths to ``gaussian-process.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.optimize
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The model
# ---------


@fg.pytree
class Kernel:
    """The logarithms of the hyper-parameters of a squared exponential kernel."""

    scale: fg.Tensor
    lengths: fg.Tensor
    noise: fg.Tensor

    def __call__(self, x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        """The covariance of the process at all pairs of points."""
        x, y = x / fnp.exp(self.lengths), y / fnp.exp(self.lengths)
        squares = fnp.sum(x**2, axis=1)[:, None] + fnp.sum(y**2, axis=1) - 2 * x @ y.T
        return fnp.exp(2 * self.scale - squares / 2)

    def observed(self, x: fg.Tensor) -> fg.Tensor:
        """The covariance of noisy observations."""
        return self(x, x) + fnp.exp(2 * self.noise) * fnp.eye(len(x))


def surprise(kernel: Kernel, x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    """Minus the logarithm of the marginal likelihood, for each observation."""
    factor = fnp.linalg.cholesky(kernel.observed(x))
    whitened = fnp.linalg.solve(factor, y)
    determinant = fnp.sum(fnp.log(fnp.diagonal(factor)))
    return fnp.sum(whitened**2) / (2 * len(y)) + determinant / len(y) + math.log(2 * math.pi) / 2


# %%
# The fit
# -------
#
# SciPy's L-BFGS-B follows the gradient of the marginal likelihood.


class Fit(NamedTuple):
    """The result of the fit.

    Attributes
    ----------
    kernel : Kernel
    surprises : tuple of float
        After each step of the optimizer.
    slope : float
        The largest part of the gradient at the end, but for lengths at the border.
    """

    kernel: Kernel
    surprises: tuple[float, ...]
    slope: float


def fit(x: fg.Tensor, y: fg.Tensor) -> Fit:
    start = Kernel(fnp.zeros(()), fnp.full(x.shape[1], math.log(3.0)), fnp.full((), -0.3))
    vector, unravel = fg.tree.ravel(start)
    objective = fg.jit(fg.value_and_grad(lambda v: surprise(unravel(v), x, y)))
    surprises: list[float] = []
    found = scipy.optimize.minimize(
        objective,
        np.asarray(vector),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-5.0, 5.0)] * len(vector),
        callback=lambda v: surprises.append(float(objective(v)[0])),
    )
    inside = np.abs(found.x) < 5.0
    return Fit(unravel(found.x), tuple(surprises), float(np.max(np.abs(found.jac[inside]))))


def predict(
    kernel: Kernel, x: fg.Tensor, y: fg.Tensor, new: fg.Tensor
) -> tuple[fg.Tensor, fg.Tensor]:
    """The mean and the standard deviation of observations at new points."""
    across = kernel(x, new)
    weights = fnp.linalg.solve(kernel.observed(x), across)
    variance = fnp.exp(2 * kernel.scale) + fnp.exp(2 * kernel.noise)
    return weights.T @ y, fnp.sqrt(variance - fnp.sum(weights * across, axis=0))


# %%
# The data
# --------


class Data(NamedTuple):
    """Measurements and outcomes, each with mean 0 and standard deviation 1 in the training part."""

    names: Sequence[str]
    x: fg.Tensor
    y: fg.Tensor
    new_x: fg.Tensor
    new_y: fg.Tensor


def load(seed: int) -> Data:
    bunch = load_diabetes()
    x, new_x, y, new_y = train_test_split(
        bunch.data, bunch.target, test_size=0.2, random_state=seed
    )
    middle, width, mean, deviation = x.mean(0), x.std(0), y.mean(), y.std()
    parts = ((x - middle) / width, (y - mean) / deviation)
    others = ((new_x - middle) / width, (new_y - mean) / deviation)
    return Data(bunch.feature_names, *map(fg.tensor, (*parts, *others)))


# %%
# The result
# ----------


class Result(NamedTuple):
    """The fit, and its predictions for unseen patients."""

    found: Fit
    data: Data
    means: fg.Tensor
    deviations: fg.Tensor

    @property
    def explained(self) -> float:
        """The part of the variance of the outcomes that the predictions explain."""
        rest = self.data.new_y - self.means
        return float(1 - fnp.var(rest) / fnp.var(self.data.new_y))

    @property
    def covered(self) -> float:
        """The fraction of the outcomes within two standard deviations."""
        return float(fnp.mean(fnp.abs(self.data.new_y - self.means) < 2 * self.deviations))


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(
        result.data.new_y, result.means, yerr=2 * result.deviations, fmt=".", elinewidth=0.5
    )
    left.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
    left.set(xlabel="outcome", ylabel="prediction", title="Patients not seen before")
    relevance = np.asarray(fnp.exp(-result.found.kernel.lengths))
    right.barh(result.data.names, relevance)
    right.set(xlabel="1 / length", title="How much a measurement matters")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Fit a Gaussian process to medical data.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    data = load(options.seed)
    found = fit(data.x, data.y)
    result = Result(found, data, *predict(found.kernel, data.x, data.y, data.new_x))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "gaussian-process.png")
    print(f"surprise {found.surprises[0]:.4f} -> {found.surprises[-1]:.4f} an observation")
    print(f"explained {result.explained:.2f} of the variance, {result.covered:.0%} within 2 sigma")
    return result


if __name__ == "__main__":
    main()
