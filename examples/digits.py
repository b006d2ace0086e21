"""Train a small neural network to read handwritten digits, with every step a pure function.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn (from the UCI repository);
a fifth of them is held out for the test. The network is a frozen dataclass, the optimizer's state a
value, randomness an explicit key: the same seed gives the same network.

Run it with ``python examples/digits.py``. It prints the test accuracy, and writes the curve of the
loss and the digits that it got wrong to ``digits-loss.png`` and ``digits-errors.png``.
"""

import argparse
import math
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

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

# ------------------------------------------------------------------------------------ the network


@fg.pytree
class Layer:
    """An affine map."""

    weight: fg.Tensor
    bias: fg.Tensor

    def __call__(self, x: fg.Tensor) -> fg.Tensor:
        return x @ self.weight + self.bias


@fg.pytree
class Network:
    """Affine maps with relu between them; returns logits."""

    layers: tuple[Layer, ...]

    def __call__(self, x: fg.Tensor) -> fg.Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = nn.relu(layer(x))
        return last(x)


def initialized(key: fg.Tensor, widths: Sequence[int]) -> Network:
    keys = random.split(key, len(widths) - 1)
    return Network(
        tuple(
            Layer(nn.he_normal(key, shape), fnp.zeros(shape[1]))
            for key, shape in zip(keys, pairwise(widths), strict=True)
        )
    )


def loss(network: Network, images: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
    return fnp.mean(nn.cross_entropy(network(images), labels))


# --------------------------------------------------------------------------------------- the data


class Data(NamedTuple):
    """Images as rows of 64 numbers from 0 to 1, and the digits that they show."""

    images: fg.Tensor
    labels: fg.Tensor


def load(seed: int) -> tuple[Data, Data]:
    """The training data and the test data."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16, labels, test_size=0.2, random_state=seed, stratify=labels
    )
    return Data(fg.tensor(train_x), fg.tensor(train_y)), Data(fg.tensor(test_x), fg.tensor(test_y))


def thinned(key: fg.Tensor, images: fg.Tensor) -> fg.Tensor:
    """The images without some of their pixels, so that no single pixel decides (dropout).

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", Journal
    of Machine Learning Research 15, 2014. The rest is scaled so that the mean stays.
    """
    kept = random.bernoulli(key, 1 - DROPPED, images.shape)
    return images * kept / (1 - DROPPED)


def batches(key: fg.Tensor, data: Data) -> Iterator[Data]:
    """The data in random order, a batch at a time; a rest that fills no batch is left out."""
    order_key, thin_key = random.split(key)
    order = random.permutation(order_key, len(data.labels))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield Data(
            thinned(random.fold_in(thin_key, start), data.images[chosen]), data.labels[chosen]
        )


# --------------------------------------------------------------------------------------- training


class Result(NamedTuple):
    """What training led to."""

    network: Network
    losses: tuple[float, ...]
    test: Data
    predictions: fg.Tensor

    @property
    def accuracy(self) -> float:
        return float(fnp.mean(self.predictions == self.test.labels))


def train(seed: int, epochs: int) -> Result:
    """Minimize the loss on the training data; the test data are looked at once, at the end."""
    train_data, test_data = load(seed)
    network_key, data_key = random.split(random.key(seed))
    network = initialized(network_key, WIDTHS)

    steps = epochs * (len(train_data.labels) // BATCH)

    def learning_rate(count: fg.Tensor) -> fg.Tensor:
        """Half a cosine, from ``LEARNING_RATE`` down to 0."""
        return LEARNING_RATE * (1 + fnp.cos(math.pi * count / steps)) / 2

    optimizer = optim.adamw(learning_rate, weight_decay=1e-2)
    state = optimizer.init(network)
    loss_and_gradient = fg.value_and_grad(loss)

    losses: list[float] = []
    progress = tqdm(range(epochs), desc="training", unit="epoch")
    for epoch in progress:
        for images, labels in batches(random.fold_in(data_key, epoch), train_data):
            value, gradient = loss_and_gradient(network, images, labels)
            updates, state = optimizer.update(gradient, state, network)
            network = optim.apply_updates(network, updates)
            losses.append(float(value))
        progress.set_postfix(loss=f"{np.mean(losses[-20:]):.4f}")

    predictions = fnp.argmax(network(test_data.images), axis=-1)
    return Result(network, tuple(losses), test_data, predictions)


# --------------------------------------------------------------------------------------- pictures


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
