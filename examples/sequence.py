"""Read handwritten digits row by row
==================================

A recurrent network guesses after each row.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn (from the UCI repository);
a fifth of them is held out for the test. A recurrent cell sees one row at a time, from the top to
the bottom. An epoch is one compiled function: a scan over its batches, each of which is a scan over
rows, with its gradient.

Run it with ``python examples/sequence.py``. It prints how many digits it knows after half of the
rows and after all of them, and draws its accuracy after each row to ``sequence.png``.
"""

# sphinx_gallery_thumbnail_number = 2

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

# %%
# The network
# -----------
#
# A scan over the rows of an image.

ROWS = 8
UNITS = 64
BATCH = 32
LEARNING_RATE = 1e-2


@fg.pytree
class Reader:
    """Reads images row by row; gives logits of the ten digits after each row."""

    cell: nn.GRUCell
    output: nn.Linear

    @classmethod
    def init(cls, key: fg.Tensor) -> "Reader":
        cell_key, output_key = random.split(key)
        return cls(nn.GRUCell.init(cell_key, ROWS, UNITS), nn.Linear.init(output_key, UNITS, 10))

    def __call__(self, images: fg.Tensor) -> fg.Tensor:
        _, memories = nn.run(self.cell, images)
        return self.output(memories)


def loss(reader: Reader, images: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
    """The cross-entropy of the guesses, averaged over images and rows."""
    after_each_row = fnp.broadcast_to(labels[:, None], (len(labels), ROWS))
    return nn.cross_entropy(reader(images), after_each_row).mean()


# %%
# The data
# --------


class Data(NamedTuple):
    """Images with values from 0 to 1, and the digits that they show."""

    images: fg.Tensor
    labels: fg.Tensor


def load(seed: int) -> tuple[Data, Data]:
    """The training data and the test data."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images.reshape(-1, ROWS, ROWS) / 16,
        labels,
        test_size=0.2,
        random_state=seed,
        stratify=labels,
    )
    train_x, test_x, train_y, test_y = map(fg.tensor, parts)
    return Data(train_x, train_y), Data(test_x, test_y)


# %%
# The training
# ------------
#
# An epoch is one compiled function.


class Result(NamedTuple):
    """The result of training: the fraction of test digits known after each row."""

    reader: Reader
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]


def train(seed: int, epochs: int) -> Result:
    """Minimize the loss on the training data; the test data are looked at once, at the end."""
    train_data, test_data = load(seed)
    reader_key, data_key = random.split(random.key(seed))
    batches = len(train_data.labels) // BATCH
    rate = optim.schedules.cosine(LEARNING_RATE, 0.0, steps=epochs * batches, warmup=batches)
    optimizer = optim.chain(clip=optim.clip_by_norm(1.0), adam=optim.adamw(rate, weight_decay=0.1))

    @fg.jit
    def epoch(reader: Reader, state: Any, data: Data, key: fg.Tensor) -> tuple[Any, fg.Tensor]:
        """One step for each batch of the data, in a random order."""

        def step(carry: tuple[Reader, Any], chosen: fg.Tensor) -> tuple[Any, fg.Tensor]:
            reader, state = carry
            value, gradient = fg.value_and_grad(loss)(
                reader, data.images[chosen], data.labels[chosen]
            )
            return optimizer.step(gradient, state, reader), value

        order = random.permutation(key, len(data.labels))[: batches * BATCH]
        return fg.scan(step, (reader, state), order.reshape(batches, BATCH))

    reader = Reader.init(reader_key)
    state = optimizer.init(reader)
    losses: list[float] = []
    progress = tqdm(range(epochs), desc="training", unit="epoch")
    for number in progress:
        key = random.fold_in(data_key, number)
        (reader, state), values = epoch(reader, state, train_data, key)
        losses.extend(values.tolist())
        progress.set_postfix(loss=f"{values.mean():.4f}")
    is_right = fnp.argmax(reader(test_data.images), axis=-1) == test_data.labels[:, None]
    return Result(reader, tuple(losses), tuple(fnp.mean(is_right, axis=0).tolist()))


# %%
# The result
# ----------


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, ROWS + 1), 100 * np.array(result.accuracies), "o-")
    axes.set(xlabel="rows read", ylabel="test accuracy, %", ylim=(0, 102))
    axes.set_title("How much of a digit has to be seen")
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Train a network to read digits row by row.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = train(options.seed, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "sequence.png")
    half, full = result.accuracies[ROWS // 2 - 1], result.accuracies[-1]
    print(f"test accuracy {half:.2%} after half of the rows, {full:.2%} after all of them")
    return result


if __name__ == "__main__":
    main()
