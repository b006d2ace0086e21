"""Train a convolutional network on handwritten digits
===================================================

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn (from the UCI repository);
a fifth of them is held out for the test. Each step is one compiled function, which takes the
network and the state of the optimizer as values and returns the next ones. The images are moved by
a pixel now and then, so that the network learns shapes rather than places.

Run it with ``python examples/convnet.py``. It prints the test accuracy, and draws the kernels of
the first layer and the misread digits to ``convnet.png``.
"""

# sphinx_gallery_thumbnail_number = 18

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    # NumPy's OpenBLAS reads this once, when it is loaded; products as small as these wait for a
    # second thread longer than they compute.
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
LEARNING_RATE = 4e-3


# %%
# The network
# -----------
#
# ``nn.sequential`` composes layers and functions.


def halved(x: fg.Tensor) -> fg.Tensor:
    """The greatest of each 2 x 2 pixels."""
    return nn.max_pool(x, 2)


def flat(x: fg.Tensor) -> fg.Tensor:
    return x.reshape(len(x), -1)


def convolution(filters: int) -> Any:
    """A convolution with windows of 3 x 3 that keeps the size of the image."""
    return nn.recipe(nn.Conv, filters, (3, 3), padding="same")


NETWORK = nn.sequential(
    nn.sequential(convolution(16), nn.relu),
    nn.sequential(convolution(32), nn.relu, halved),
    nn.sequential(convolution(64), nn.relu, halved),
    flat,
    nn.dense(10, initializer=nn.he_normal),
)


def loss(network: nn.Sequential, images: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
    return nn.cross_entropy(network(images), labels).mean()


# %%
# The data
# --------
#
# ``moved`` makes new images from those at hand.


class Data(NamedTuple):
    """Images of shape (1, 8, 8), with values from 0 to 1, and the digits that they show."""

    images: fg.Tensor
    labels: fg.Tensor


def load(seed: int) -> tuple[Data, Data]:
    """The training data and the test data."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images.reshape(-1, 1, 8, 8).astype(np.float32) / 16,
        labels,
        test_size=0.2,
        random_state=seed,
        stratify=labels,
    )
    train_x, test_x, train_y, test_y = map(fg.tensor, parts)
    return Data(train_x, train_y), Data(test_x, test_y)


def moved(key: fg.Tensor, images: fg.Tensor) -> fg.Tensor:
    """The images, each moved by up to one pixel in either direction."""
    steps = np.asarray(random.randint(key, (len(images), 2), 0, 3))
    wide = np.pad(np.asarray(images), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (8, 8), (2, 3))
    return fg.tensor(windows[np.arange(len(images)), :, steps[:, 0], steps[:, 1]])


# %%
# The training
# ------------
#
# A step is one compiled function.


class Result(NamedTuple):
    """The result of training."""

    network: nn.Sequential
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
    network = nn.build(NETWORK, network_key, train_data.images)
    batches = len(train_data.labels) // BATCH
    rate = optim.schedules.cosine(LEARNING_RATE, 0.0, steps=epochs * batches)
    optimizer = optim.adamw(rate, weight_decay=1e-2)
    state = optimizer.init(network)

    @fg.jit
    def step(
        network: nn.Sequential, state: Any, images: fg.Tensor, labels: fg.Tensor
    ) -> tuple[fg.Tensor, nn.Sequential, Any]:
        value, gradient = fg.value_and_grad(loss)(network, images, labels)
        return value, *optimizer.step(gradient, state, network)

    losses: list[float] = []
    progress = tqdm(range(epochs), desc="training", unit="epoch")
    for epoch in progress:
        order_key, move_key = random.split(random.fold_in(data_key, epoch))
        order = random.permutation(order_key, len(train_data.labels))
        images = moved(move_key, train_data.images)
        for start in range(0, batches * BATCH, BATCH):
            chosen = order[start : start + BATCH]
            value, network, state = step(network, state, images[chosen], train_data.labels[chosen])
            losses.append(float(value))
        progress.set_postfix(loss=f"{np.mean(losses[-batches:]):.4f}")
    predictions = fnp.argmax(network(test_data.images), axis=-1)
    return Result(network, tuple(losses), test_data, predictions)


# %%
# The result
# ----------


def plot(result: Result, path: Path) -> None:
    """The kernels of the first layer, and the test images that were taken for another digit."""
    kernels = np.asarray(result.network.layers[0].layers[0].kernel)[:, 0]
    wrong = np.flatnonzero(np.asarray(result.predictions != result.test.labels))
    rows = 2 + max(1, -(-len(wrong) // 8))
    figure = Figure(figsize=(8, 1.3 * rows), layout="constrained")
    grid = figure.subplots(rows, 8, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, kernel in zip(grid[:2].flat, kernels, strict=True):
        axes.imshow(kernel, cmap="RdBu", vmin=-1, vmax=1)
    for axes, k in zip(grid[2:].flat, wrong, strict=False):
        axes.imshow(np.asarray(result.test.images[k, 0]), cmap="gray_r")
        axes.set_title(f"{result.test.labels[k]} read as {result.predictions[k]}", fontsize=7)
    figure.suptitle(f"Kernels of the first layer, and {len(wrong)} digits misread")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Train a convolutional network on digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = train(options.seed, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "convnet.png")
    print(f"test accuracy {result.accuracy:.2%} on {len(result.predictions)} digits")
    return result


if __name__ == "__main__":
    main()
