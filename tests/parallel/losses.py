"""Functions and data that tests of ``fg.parallel`` share, and the plain loop to compare with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp


def loss(params: Any, chunk: Any, *args: Any) -> Any:
    hidden = fnp.tanh(chunk["x"] @ params["w"] + params["b"])
    return fnp.mean((hidden - chunk["y"]) ** 2)


def data(rows: int = 200, columns: int = 7, dtype: Any = np.float64) -> Any:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(rows, columns)), generator.normal(size=rows)
    return {"x": x.astype(dtype), "y": y.astype(dtype)}


def params(columns: int = 7, dtype: Any = np.float64) -> Any:
    w = np.random.default_rng(1).normal(size=columns).astype(dtype)
    return {"w": w, "b": dtype(0.25)}


def tree_sum(values: list[Any]) -> Any:
    """Sum by halves, written apart from the package: the left half has a power of two."""
    if len(values) == 1:
        return values[0]
    half = 1 << ((len(values) - 1).bit_length() - 1)
    return fg.tree.map(
        lambda x, y: np.add(np.asarray(x), np.asarray(y)),
        tree_sum(values[:half]),
        tree_sum(values[half:]),
    )


def plain(f: Callable[..., Any], chunks: list[Any], *args: Any) -> Any:
    """The mean over chunks by the plain loop: each chunk by `jit`, the sum by the tree."""
    jitted = fg.jit(f)
    total = tree_sum([jitted(args[0], chunk, *args[1:]) for chunk in chunks])
    return fg.tree.map(lambda x: np.asarray(x) / np.asarray(x).dtype.type(len(chunks)), total)


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(tree)]


def rows_of(number: int, size: int = 40) -> Any:
    """A chunk that is made where it is loaded."""
    generator = np.random.default_rng(number)
    return {"x": generator.normal(size=(size, 7)), "y": generator.normal(size=size)}


def loaders(count: int) -> list[Callable[[], Any]]:
    return [partial(rows_of, number) for number in range(count)]


def logged_rows(folder: str, number: int) -> Any:
    """Load a chunk, and leave a file for each time that this happened."""
    Path(folder, f"{number}-{time.monotonic_ns()}").touch()
    return rows_of(number)


def failing_rows(number: int) -> Any:
    if number == 3:
        raise KeyError("no such measurement")
    return rows_of(number)


def deadly_rows(number: int) -> Any:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows_of(number)


def slow_rows(seconds: float, number: int) -> Any:
    time.sleep(seconds)
    return rows_of(number)


@contextmanager
def cluster(workers: int, **options: Any) -> Iterator[Any]:
    """A Dask cluster of processes on this machine; yields a client of it."""
    import logging

    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", **options}
    with (
        LocalCluster(n_workers=workers, silence_logs=logging.CRITICAL, **settings) as local,
        Client(local) as client,
    ):
        yield client
