"""Train a small network on handwritten digits
===========================================

Every step is a pure function.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn (from the UCI repository);
a fifth of them is held out for the test. The network is a frozen dataclass, the optimizer's state a
value, randomness an explicit key: the same seed gives the same network. A step is compiled once.

Run it with ``python examples/digits.py``. It prints the test accuracy, and writes the curve of the
loss and the digits that it got wrong to ``digits-loss.png`` and ``digits-errors.png``.
"""

# sphinx_gallery_thumbnail_number = -1

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    # NumPy's OpenBLAS reads this once, when it is loaded. A batch of 64 makes matrix products of a
    # fraction of a millisecond. With two threads each of them waits for the slower one: on a
    # machine that has other things to do, the whole run took ten times as long as with one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, random

BATCH = 64
DROPPED = 0.2
WIDTHS = (64, 256, 128, 10)
LEARNING_RATE = 3e-3


# %%
# The data
# --------


class Data(NamedTuple):
    """Images as rows of 64 values from 0 to 1, and the digits that they show."""

    images: fg.Tensor
    labels: fg.Tensor


def load(seed: int) -> tuple[Data, Data]:
    """The training data and the test data."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = map(
        fg.tensor,
        train_test_split(images / 16, labels, test_size=0.2, random_state=seed, stratify=labels),
    )
    return Data(train_x, train_y), Data(test_x, test_y)


# %%
# The training
# ------------
#
# The key decides which pixels are dropped.


def loss(network: nn.MLP, images: fg.Tensor, labels: fg.Tensor, key: fg.Tensor) -> fg.Tensor:
    """The cross-entropy on images with dropped pixels, so that no single pixel decides."""
    thinned = nn.dropout(images, DROPPED, key)
    return nn.cross_entropy(network(thinned), labels).mean()


class Result(NamedTuple):
    """The result of training."""

    network: nn.MLP
    losses: tuple[float, ...]
    test: Data
    predictions: fg.Tensor

    @property
    def accuracy(self) -> float:
        return float(fnp.mean(self.predictions == self.test.labels))


def train(seed: int, epochs: int) -> Result:
    """Minimize the loss on the training data; the test data are used once, at the end."""
    train_data, test_data = load(seed)
    network_key, data_key = random.split(random.key(seed))
    network = nn.MLP.init(network_key, WIDTHS, initializer=nn.he_normal)

    batches = len(train_data.labels) // BATCH
    rate = optim.schedules.cosine(LEARNING_RATE, 0.0, steps=epochs * batches)
    optimizer = optim.adamw(rate, weight_decay=1e-2)
    state = optimizer.init(network)

    @fg.jit
    def step(
        network: nn.MLP, state: Any, images: fg.Tensor, labels: fg.Tensor, key: fg.Tensor
    ) -> tuple[fg.Tensor, nn.MLP, Any]:
        value, gradient = fg.value_and_grad(loss)(network, images, labels, key)
        return value, *optimizer.step(gradient, state, network)

    losses: list[float] = []
    progress = tqdm(range(epochs), desc="training", unit="epoch")
    for epoch in progress:
        order_key, thin_key = random.split(random.fold_in(data_key, epoch))
        order = random.permutation(order_key, len(train_data.labels))
        for start in range(0, batches * BATCH, BATCH):
            images, labels = (part[order[start : start + BATCH]] for part in train_data)
            key = random.fold_in(thin_key, start)
            value, network, state = step(network, state, images, labels, key)
            losses.append(float(value))
        progress.set_postfix(loss=f"{np.mean(losses[-20:]):.4f}")

    predictions = fnp.argmax(network(test_data.images), axis=-1)
    return Result(network, tuple(losses), test_data, predictions)


# %%
# The result
# ----------


def plot_losses(losses: Sequence[float], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(losses, color="0.8", label="batch")
    window = min(20, len(losses))
    smooth = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    axes.semilogy(np.arange(window - 1, len(losses)), smooth, label=f"mean of {window}")
    axes.set(xlabel="step", ylabel="cross-entropy", title="Training loss")
    axes.legend()
    figure.savefig(path)


def plot_errors(result: Result, path: Path) -> None:
    """The test images that the network took for another digit."""
    wrong = np.flatnonzero(np.asarray(result.predictions != result.test.labels))
    columns = 6
    rows = max(1, -(-len(wrong) // columns))
    figure = Figure(figsize=(columns * 1.3, rows * 1.6 + 0.4), layout="constrained")
    figure.suptitle(f"{len(wrong)} of {len(result.predictions)} test digits misread")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, k in zip(grid.flat, wrong, strict=False):
        axes.imshow(np.asarray(result.test.images[k]).reshape(8, 8), cmap="gray_r")
        axes.set_title(f"{result.test.labels[k]} read as {result.predictions[k]}", fontsize=8)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the pictures")
    options = parser.parse_args(arguments)

    result = train(options.seed, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    plot_losses(result.losses, options.out / "digits-loss.png")
    plot_errors(result, options.out / "digits-errors.png")
    print(f"test accuracy {result.accuracy:.2%} on {len(result.predictions)} digits")
    return result


if __name__ == "__main__":
    main()
