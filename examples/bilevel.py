"""Learn penalties through the optimum of training
===============================================

A classifier of tumours has a penalty for each of its weights. How strong should it be?

The data describe 569 breast tumours and come with scikit-learn: thirty measurements each, and
whether the tumour is malignant (Street, Wolberg and Mangasarian, 1993). A logistic regression with
a penalty for each weight is trained on one part of them, and the logarithms of the penalties are
chosen for the least loss on another part. That loss depends on the penalties only through the
trained weights. The implicit function theorem differentiates these weights, whatever the training
did to find them.

Run it with ``python examples/bilevel.py``. It prints the result, and draws the losses and the
penalties to ``bilevel.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The training
# ------------
#
# Its result depends on the penalties, which are not trained.


@fg.pytree
class Part:
    """Measurements with a column of ones, and outcomes: 1 for malignant, -1 for benign."""

    x: fg.Tensor
    y: fg.Tensor


def loss(weights: fg.Tensor, part: Part) -> fg.Tensor:
    """The mean logistic loss."""
    return fnp.mean(fnp.logaddexp(0.0, -part.y * (part.x @ weights)))


def penalized(weights: fg.Tensor, penalties: fg.Tensor, part: Part) -> fg.Tensor:
    """The objective of the training: all weights except the last, the constant, have a penalty."""
    return loss(weights, part) + fnp.sum(fnp.exp(penalties) * weights[:-1] ** 2)


def by_scipy(objective: Callable[[Any], Any], start: Any) -> Any:
    """The minimum by Newton's method with a trust region."""
    derivatives = {"jac": fg.grad(objective), "hess": fg.hessian(objective)}
    return scipy.optimize.minimize(objective, start, method="trust-exact", tol=1e-7, **derivatives)


train = fg.implicit.minimize(penalized, by_scipy)
"""The trained weights for some first weights, penalties and a part of the data."""


# %%
# The penalties
# -------------
#
# ``fg.implicit.minimize`` makes the trained weights a function of the penalties, so the loss on
# other data has a gradient with respect to them.


class Fit(NamedTuple):
    """The result of the fit.

    Attributes
    ----------
    penalties : Tensor
        The logarithms.
    losses : tuple of float
        Of the data that choose them, after each step.
    """

    penalties: fg.Tensor
    losses: tuple[float, ...]


def learn(training: Part, choosing: Part, first: float, steps: int) -> Fit:
    """Find the penalties with the least loss on other data than the training data."""
    count = training.x.shape[1]
    zeros = fnp.zeros(count)

    def objective(penalties: fg.Tensor) -> fg.Tensor:
        return loss(train(zeros, penalties, training), choosing)

    losses: list[float] = []
    found = scipy.optimize.minimize(
        fg.value_and_grad(objective),
        np.full(count - 1, first),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-12.0, 3.0)] * (count - 1),
        options={"maxiter": steps},
        callback=lambda intermediate_result: losses.append(float(intermediate_result.fun)),
    )
    return Fit(fg.tensor(found.x), tuple(losses))


# %%
# The data
# --------
#
# A part for the training, one for the choice of penalties, and one for the test.


class Data(NamedTuple):
    names: Sequence[str]
    training: Part
    choosing: Part
    testing: Part


def load(seed: int) -> Data:
    bunch = load_breast_cancer()
    outcomes = 1.0 - 2.0 * bunch.target
    x, test_x, y, test_y = train_test_split(
        bunch.data, outcomes, test_size=0.3, random_state=seed, stratify=outcomes
    )
    x, more_x, y, more_y = train_test_split(x, y, test_size=0.5, random_state=seed, stratify=y)
    middle, width = x.mean(0), x.std(0)

    def part(x: Any, y: Any) -> Part:
        return Part(fnp.column_stack([(x - middle) / width, np.ones(len(x))]), fg.tensor(y))

    return Data(bunch.feature_names, part(x, y), part(more_x, more_y), part(test_x, test_y))


# %%
# The result
# ----------


class Result(NamedTuple):
    """The fit, the best that one penalty for all weights can do, and data that neither has seen."""

    found: Fit
    data: Data
    shared: float
    weights: fg.Tensor

    @property
    def accuracy(self) -> float:
        """The fraction of unseen tumours that are classified correctly."""
        test = self.data.testing
        return float(fnp.mean(fnp.sign(test.x @ self.weights) == test.y))


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(9, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(result.found.losses, marker=".", label="a penalty for each")
    left.axhline(result.shared, color="0.5", linewidth=0.8, label="the best for all")
    left.set(xlabel="step", ylabel="loss", title="Tumours that choose the penalties")
    left.legend()
    right.barh(result.data.names, np.asarray(result.found.penalties))
    right.set(xlabel="logarithm of the penalty")
    right.tick_params(axis="y", labelsize="x-small")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Learn penalties through the optimum of training.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    data = load(options.seed)
    zeros = fnp.zeros(data.training.x.shape[1])

    def trained(penalties: fg.Tensor) -> fg.Tensor:
        weights: fg.Tensor = train(zeros, penalties, data.training)
        return weights

    grid = [fnp.full(len(zeros) - 1, value) for value in np.linspace(-10.0, 0.0, 11)]
    losses = [float(loss(trained(each), data.choosing)) for each in grid]
    best = int(np.argmin(losses))
    found = learn(data.training, data.choosing, float(grid[best][0]), options.steps)
    result = Result(found, data, losses[best], trained(found.penalties))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "bilevel.png")
    print(f"loss {result.shared:.4f} -> {found.losses[-1]:.4f} with a penalty for each weight")
    print(f"accuracy {result.accuracy:.1%} on {len(data.testing.y)} tumours not seen before")
    return result


if __name__ == "__main__":
    main()
