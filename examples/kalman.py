"""Track an oscillation by a Kalman filter
=======================================

The filter's parameters maximize the likelihood.

The state, two numbers, turns by an angle ω at each step, shrinks by a factor r, and is pushed by
noise of standard deviation q; observed is its first part, with noise of standard deviation s. The
filter (Kalman, "A new approach to linear filtering and prediction problems", Journal of Basic
Engineering 82, 1960) goes through the observations by ``fg.scan`` and predicts each from the
earlier ones. The errors of its predictions give the likelihood, which is maximized along its
gradient. The Hessian at the maximum gives the standard deviations of the parameters.

All observations together are Gaussian, too, with the covariance
q² / (1 - r²) r^k cos(ω k) at a distance of k, and s² more on the diagonal: the same likelihood
without a filter, in a time that grows with the cube of their number. The example compares the two.

Run it with ``python examples/kalman.py``. It prints the result, and draws the data and the filtered
signal to ``kalman.png``.
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

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The oscillation
# ---------------

NAMES = ("shrinking", "turn", "push", "noise")


@fg.pytree
class Oscillation:
    """The parameters, each as any real number: r is 1 / (1 + exp(-shrinking)), others exp."""

    shrinking: fg.Tensor
    turn: fg.Tensor
    push: fg.Tensor
    noise: fg.Tensor

    def values(self) -> tuple[fg.Tensor, ...]:
        """r, ω, q and s."""
        others = (self.turn, self.push, self.noise)
        return (1 / (1 + fnp.exp(-self.shrinking)), *map(fnp.exp, others))

    def step(self) -> fg.Tensor:
        """The matrix by which the state goes on."""
        factor, turn, _, _ = self.values()
        cos, sin = fnp.cos(turn), fnp.sin(turn)
        return factor * fnp.stack([fnp.stack([cos, -sin]), fnp.stack([sin, cos])])


TRUTH = Oscillation(*map(fg.tensor, (math.log(0.98 / 0.02), *map(math.log, (0.2, 0.3, 0.8)))))
GUESS = Oscillation(*map(fg.tensor, (2.0, *map(math.log, (0.3, 0.5, 0.5)))))


# %%
# The filter
# ----------
#
# Each step of the scan predicts an observation, and then sees it.


class Filtered(NamedTuple):
    """The filtered observations.

    Attributes
    ----------
    surprise : fg.Tensor
        Minus the logarithm of their density, for each of them.
    means, deviations : fg.Tensor
        The mean and deviation of the signal without noise, given the observations so far.
    """

    surprise: fg.Tensor
    means: fg.Tensor
    deviations: fg.Tensor


def filtered(model: Oscillation, observations: fg.Tensor) -> Filtered:
    factor, _, push, noise = model.values()
    go_on = model.step()
    pushes = push**2 * fnp.eye(2)

    def step(
        carry: tuple[fg.Tensor, fg.Tensor], y: fg.Tensor
    ) -> tuple[tuple[fg.Tensor, fg.Tensor], tuple[fg.Tensor, ...]]:
        mean, covariance = carry  # of the state, before it is observed
        variance = covariance[0, 0] + noise**2
        error = y - mean[0]
        surprise = (error**2 / variance + fnp.log(2 * math.pi * variance)) / 2
        gain = covariance[:, 0] / variance
        mean = mean + gain * error
        covariance = covariance - fnp.outer(gain, covariance[0])
        known = mean[0], fnp.sqrt(covariance[0, 0])
        return (go_on @ mean, go_on @ covariance @ go_on.T + pushes), (surprise, *known)

    start = fnp.zeros(2), pushes / (1 - factor**2)  # the stationary state
    _, (surprises, means, deviations) = fg.scan(step, start, observations)
    return Filtered(fnp.mean(surprises), means, deviations)


def surprise_of_all(model: Oscillation, observations: fg.Tensor) -> fg.Tensor:
    """The same surprise, of all observations at once: the closed form."""
    factor, turn, push, noise = model.values()
    count = len(observations)
    apart = fnp.abs(fnp.arange(count)[:, None] - fnp.arange(count)).astype(float)
    covariance = push**2 / (1 - factor**2) * factor**apart * fnp.cos(turn * apart)
    triangle = fnp.linalg.cholesky(covariance + noise**2 * fnp.eye(count))
    whitened = fnp.linalg.solve(triangle, observations)
    total = fnp.sum(whitened**2) / 2 + fnp.sum(fnp.log(fnp.diagonal(triangle)))
    return total / count + math.log(2 * math.pi) / 2


# %%
# The fit
# -------


class Data(NamedTuple):
    """A simulated oscillation, and noisy observations of it."""

    signal: np.ndarray
    observations: np.ndarray


def simulated(count: int, seed: int) -> Data:
    draw = np.random.default_rng(seed)
    factor, _, push, noise = (float(value) for value in TRUTH.values())
    go_on = np.asarray(TRUTH.step())
    state = draw.normal(scale=push / math.sqrt(1 - factor**2), size=2)
    signal = np.empty(count)
    for k in range(count):
        signal[k] = state[0]
        state = go_on @ state + draw.normal(scale=push, size=2)
    return Data(signal, signal + draw.normal(scale=noise, size=count))


class Fit(NamedTuple):
    """The result of the fit.

    Attributes
    ----------
    found : Oscillation
    deviations : tuple of float
        Of its parameters, from the curvature of the likelihood.
    surprises : tuple of float
        At the first guess, and after each step of the optimizer.
    slope : float
        The largest part of the gradient at the end.
    filtered : Filtered
    """

    found: Oscillation
    deviations: tuple[float, ...]
    surprises: tuple[float, ...]
    slope: float
    filtered: Filtered


def fit(observations: fg.Tensor) -> Fit:
    vector, unravel = fg.tree.ravel(GUESS)

    def surprise(values: fg.Tensor) -> fg.Tensor:
        return filtered(unravel(values), observations).surprise

    objective = fg.jit(fg.value_and_grad(surprise))
    surprises = [float(surprise(vector))]
    solution = scipy.optimize.minimize(
        objective,
        np.asarray(vector),
        jac=True,
        method="BFGS",
        callback=lambda values: surprises.append(float(objective(values)[0])),
    )
    curvature = len(observations) * np.asarray(fg.jacfwd(fg.grad(surprise))(solution.x))
    return Fit(
        unravel(solution.x),
        tuple(float(x) for x in np.sqrt(np.diag(np.linalg.inv(curvature)))),
        tuple(surprises),
        float(np.max(np.abs(solution.jac))),
        filtered(unravel(solution.x), observations),
    )


# %%
# The result
# ----------


def plot(data: Data, result: Fit, path: Path) -> None:
    means, deviations = map(np.asarray, result.filtered[1:])
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(data.observations, ".", color="0.6", label="observed")
    axes.plot(data.signal, color="0.2", linewidth=0.8, label="signal")
    axes.plot(means, label="filter")
    steps = np.arange(len(means))
    axes.fill_between(steps, means - 2 * deviations, means + 2 * deviations, alpha=0.3)
    axes.set(xlabel="step")
    axes.legend()
    figure.savefig(path)


class Result(NamedTuple):
    """The fit, and how it compares.

    Attributes
    ----------
    data : Data
    fit : Fit
    difference : float
        Between the surprise by the filter and the closed form.
    covered : float
        The part of the signal within two standard deviations of the filter's mean.
    """

    data: Data
    fit: Fit
    difference: float
    covered: float


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Track a noisy oscillation by a Kalman filter.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300, help="how many observations")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    data = simulated(options.count, options.seed)
    observations = fg.tensor(data.observations)
    found = fit(observations)
    difference = float(found.filtered.surprise - surprise_of_all(found.found, observations))
    errors = np.abs(data.signal - np.asarray(found.filtered.means))
    covered = float(np.mean(errors < 2 * np.asarray(found.filtered.deviations)))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(data, found, options.out / "kalman.png")
    for name, deviation in zip(NAMES, found.deviations, strict=True):
        value, truth = (float(getattr(x, name)) for x in (found.found, TRUTH))
        print(f"{name:>9} {value:7.3f} ± {deviation:.3f}, truly {truth:.3f}")
    print(f"surprise {found.surprises[0]:.4f} -> {found.surprises[-1]:.4f} an observation")
    print(f"closed form differs by {abs(difference):.0e}; {covered:.0%} within 2 sigma")
    return Result(data, found, difference, covered)


if __name__ == "__main__":
    main()
