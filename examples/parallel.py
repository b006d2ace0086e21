"""Train on more data than a worker may hold
=========================================

A cluster fits a logistic regression and a small net.

The data are generated in the workers, chunk by chunk, and a step goes through all of them. Without
an address a cluster of processes is started on this machine; with one, that cluster is used, as one
of the commands ``dask scheduler`` and ``dask worker``::

    python -m pip install "funcgrad[dask,native]"
    python examples/parallel.py
    python examples/parallel.py --address tcp://127.0.0.1:8786 --chunks 4000

Any executor will do as well: ``fit(..., ThreadPoolExecutor(2), ...)`` ends with the same bits.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, parallel, random

FEATURES: Final = 20
Chunk = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


# %%
# The data and the models
# -----------------------
#
# A worker makes its chunks, and keeps them.


@dataclass(frozen=True)
class Result:
    """Losses of both models at each step, and how often they are right about new data."""

    losses: dict[str, tuple[float, ...]]
    accuracies: dict[str, float]
    models: dict[str, Any]
    megabytes: float
    workers_megabytes: float


def generate(number: int, rows: int) -> Chunk:
    """Generate a chunk; the same one for the same number, in whichever worker."""
    generator = np.random.default_rng((2026, number))
    x = generator.normal(size=(rows, FEATURES))
    inside = x[:, 0] + 0.5 * x[:, 1] + np.where(np.abs(x[:, 2]) > 1.0, 1.5, -1.5)
    return {"x": x, "y": (inside + 0.3 * generator.normal(size=rows) > 0).astype(float)}


def linear(params: Any, x: Any) -> Any:
    """Score rows by logistic regression."""
    return x @ params["w"] + params["b"]


def net(model: Any, x: Any) -> Any:
    """Score rows by a small net."""
    return model(x)[:, 0]


def loss(score: Callable[[Any, Any], Any], params: Any, chunk: Any) -> Any:
    """Negative log-likelihood of the labels, the mean over a chunk."""
    scores = score(params, chunk["x"])
    return fnp.mean(nn.softplus(scores) - chunk["y"] * scores)


# %%
# The descent
# -----------
#
# ``parallel.value_and_grad`` adds the gradients of all chunks.


def fit(
    score: Callable[[Any, Any], Any],
    params: Any,
    chunks: Sequence[Callable[[], Chunk]],
    executor: Any,
    steps: int,
) -> tuple[Any, tuple[float, ...]]:
    """Descend along the gradient of all data; return the parameters and the losses."""
    optimizer = optim.adam(0.05)
    value_and_gradient = parallel.value_and_grad(partial(loss, score), executor)
    step = fg.jit(optimizer.step)
    state, losses = optimizer.init(params), []
    for _ in range(steps):
        value, gradient = value_and_gradient(params, chunks)
        params, state = step(gradient, state, params)
        losses.append(float(value))
    return params, tuple(losses)


@contextmanager
def cluster(address: str | None, memory: int) -> Iterator[Any]:
    """A client of the cluster at an address, or of two processes on this machine."""
    from distributed import Client, LocalCluster

    if address is not None:
        with Client(address) as client:
            yield client
        return
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        yield client


# %%
# The result
# ----------


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Train on a cluster.")
    parser.add_argument("--address", help="of the scheduler of a cluster of Dask's")
    parser.add_argument("--chunks", type=int, default=75)
    parser.add_argument("--rows", type=int, default=40_000, help="of a chunk")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=500, help="limit of a worker's memory")
    options = parser.parse_args(arguments)

    chunks = [partial(generate, number, options.rows) for number in range(options.chunks)]
    models = {
        "regression": (linear, {"w": np.zeros(FEATURES), "b": 0.0}),
        "net": (net, nn.MLP.init(random.key(0), (FEATURES, 16, 1), dtype=np.float64)),
    }
    new = generate(-1 % 2**31, 20_000)
    losses, accuracies, found = {}, {}, {}
    with cluster(options.address, options.megabytes * 10**6) as client:
        for name, (score, params) in models.items():
            found[name], losses[name] = fit(score, params, chunks, client, options.steps)
            right = (np.asarray(score(found[name], new["x"])) > 0) == (new["y"] > 0.5)
            accuracies[name] = float(np.mean(right))
    megabytes = options.chunks * options.rows * (FEATURES + 1) * 8 / 1e6
    print(
        f"{megabytes:.0f} MB of data, {options.megabytes} MB a worker: regression"
        f" {100 * accuracies['regression']:.1f}%, net {100 * accuracies['net']:.1f}% right"
    )
    return Result(losses, accuracies, found, megabytes, options.megabytes)


if __name__ == "__main__":
    main()
