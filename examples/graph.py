"""Divide a club by its friendships
===================================

A graph network learns from two labeled nodes, by messages along the edges.

Zachary (1977) recorded the friendships in a karate club shortly before it split, after a quarrel of
its instructor (member 1) with its president (member 34). The network knows the sides of these two
only. In each layer a member averages the features of its friends, weighted by attention:
``fg.nn.segment_softmax`` makes the weights at each member sum to 1, and ``fg.nn.segment_sum`` adds
up the messages that arrive. The graph is two vectors of integers, with no matrix of 34 by 34.

Run it with ``python examples/graph.py``. It prints how many members it divides as history did, and
draws the graph to ``graph.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, random
from funcgrad.scipy import optimize

# %%
# The club
# --------
#
# Each member with the friends of a higher number.

FRIENDS = {
    1: "2 3 4 5 6 7 8 9 11 12 13 14 18 20 22 32",
    2: "3 4 8 14 18 20 22 31",
    3: "4 8 9 10 14 28 29 33",
    4: "8 13 14",
    5: "7 11",
    6: "7 11 17",
    7: "17",
    9: "31 33 34",
    10: "34",
    14: "34",
    15: "33 34",
    16: "33 34",
    19: "33 34",
    20: "34",
    21: "33 34",
    23: "33 34",
    24: "26 28 30 33 34",
    25: "26 28 32",
    26: "32",
    27: "30 34",
    28: "34",
    29: "32 34",
    30: "33 34",
    31: "33 34",
    32: "33 34",
    33: "34",
}
"""For each member those friends who have a greater number."""
INSTRUCTORS = {*range(1, 10), 11, 12, 13, 14, 17, 18, 20, 22}
"""Those who left with the instructor, member 1."""
MEMBERS = 34
LABELED = [0, MEMBERS - 1]
WIDTH = 8

Params = dict[str, fg.Tensor]


def edges() -> tuple[np.ndarray, np.ndarray]:
    """From whom and to whom messages go: along each friendship both ways, and to oneself."""
    pairs = [(a - 1, int(b) - 1) for a, names in FRIENDS.items() for b in names.split()]
    one, other = np.array(pairs).T
    own = np.arange(MEMBERS)
    return np.concatenate([one, other, own]), np.concatenate([other, one, own])


SENDERS, RECEIVERS = edges()


# %%
# The network
# -----------
#
# Messages go along the edges, and meet at the members.


def layer(features: fg.Tensor, weights: fg.Tensor, attention: fg.Tensor) -> fg.Tensor:
    """The mean of the friends' features, by attention (Velickovic et al., 2018)."""
    sent = features @ weights
    scores = nn.leaky_relu(sent[SENDERS] @ attention[0] + sent[RECEIVERS] @ attention[1], 0.2)
    shares = nn.segment_softmax(scores, RECEIVERS, MEMBERS)
    return nn.segment_sum(shares[:, None] * sent[SENDERS], RECEIVERS, MEMBERS)


def sides(params: Params) -> fg.Tensor:
    """For each member a number: negative for the instructor's side."""
    hidden = fnp.tanh(layer(params["features"], params["first"], params["first_attention"]))
    return layer(hidden, params["second"], params["second_attention"])[:, 0]


def loss(params: Params) -> fg.Tensor:
    margins = sides(params)[np.array(LABELED)] * np.array([-1.0, 1.0])
    size = sum(fnp.sum(leaf**2) for leaf in fg.tree.leaves(params))
    return fnp.sum(nn.softplus(-margins)) + 1e-3 * size


# %%
# The training
# ------------
#
# The loss knows two of the 34 members.


class Divided(NamedTuple):
    """The club as the network divides it.

    Attributes
    ----------
    sides : numpy.ndarray, shape (34,)
    right : int
        The number of members on the side that they really took.
    losses : list of float
    """

    sides: np.ndarray
    right: int
    losses: list[float]


def divided(seed: int, steps: int) -> Divided:
    keys = random.split(random.key(seed), 5)
    params: Any = {
        "features": random.normal(keys[0], (MEMBERS, WIDTH)) * 0.1,
        "first": random.normal(keys[1], (WIDTH, WIDTH)) / WIDTH**0.5,
        "first_attention": random.normal(keys[2], (2, WIDTH)) * 0.1,
        "second": random.normal(keys[3], (WIDTH, 1)) / WIDTH**0.5,
        "second_attention": random.normal(keys[4], (2, 1)) * 0.1,
    }
    optimizer = optim.adam(0.02)
    state = optimizer.init(params)
    slope = fg.jit(fg.value_and_grad(loss))
    losses = []
    for _ in range(steps):
        value, gradient = slope(params)
        params, state = optimizer.step(gradient, state, params)
        losses.append(float(value))
    numbers = np.asarray(sides(params))
    history = np.array([k + 1 not in INSTRUCTORS for k in range(MEMBERS)])
    return Divided(numbers, int(np.sum((numbers > 0) == history)), losses)


# %%
# The result
# ----------


def places() -> np.ndarray:
    """Where to draw each member: friends attract each other, and all repel each other."""

    def energy(at: fg.Tensor) -> fg.Tensor:
        ways = at[:, None] - at
        distances = fnp.sqrt(fnp.sum(ways**2, axis=-1) + 0.01)
        return fnp.sum((at[SENDERS] - at[RECEIVERS]) ** 2) / 4 + fnp.sum(1 / distances)

    start = random.normal(random.key(1), (MEMBERS, 2))
    return np.asarray(optimize.minimize(energy, start, method="BFGS").x)


def plot(result: Divided, path: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    x, y = places().T
    left.plot(x[np.stack([SENDERS, RECEIVERS])], y[np.stack([SENDERS, RECEIVERS])], "0.8", zorder=0)
    left.scatter(x, y, c=result.sides, cmap="coolwarm", vmin=-3, vmax=3, edgecolors="0.3")
    left.set(title="The club; only two sides were known", xticks=[], yticks=[])
    right.semilogy(result.losses)
    right.set(title="Loss", xlabel="step")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Divided:
    parser = argparse.ArgumentParser(description="Divide a club by its friendships.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = divided(options.seed, options.steps)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "graph.png")
    print(f"{result.right} of {MEMBERS} members are on the side that they took")
    return result


if __name__ == "__main__":
    main()
