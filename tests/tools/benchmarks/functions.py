"""The functions of the benchmarks, and their arguments."""

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp


def chain(x):
    """A hundred operations on a number."""
    for _ in range(50):
        x = fnp.sin(x) * 1.01
    return x


def mlp(params, x):
    """A perceptron of three layers, and its loss."""
    for layer in params:
        x = fnp.tanh(x @ layer["weight"] + layer["bias"])
    return fnp.mean(x**2)


def loop(steps):
    """An unrolled recurrence, as in a simulation step by step."""

    def f(x):
        for _ in range(steps):
            x = fnp.sin(x) * 0.9 + 0.1
        return fnp.sum(x)

    return f


def layers(width=8, depth=3, seed=0):
    """Parameters of a perceptron."""
    rng = np.random.default_rng(seed)
    return [
        {
            "weight": fg.tensor(rng.standard_normal((width, width))),
            "bias": fg.tensor(rng.standard_normal(width)),
        }
        for _ in range(depth)
    ]


def rows(count=16, width=8):
    """A batch for a perceptron."""
    return fg.tensor(np.random.default_rng(1).standard_normal((count, width)))
