"""Calls that work for the functions of ``fg.parallel``, on two threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import funcgrad as fg
from tests.differential.working_sample import Sample

_EXECUTOR = ThreadPoolExecutor(2)
CHUNKS = [np.arange(3.0), np.ones(3)]


def workers() -> dict[str, Sample]:
    """Functions of chunks."""
    parallel, summing = fg.parallel, {"reduce": "sum"}
    made = {
        "grad": Sample(parallel.grad, (_loss, _EXECUTOR), summing, _at_chunks),
        "value_and_grad": Sample(parallel.value_and_grad, (_loss, _EXECUTOR), summing, _at_chunks),
        "hvp": Sample(
            parallel.hvp, (_loss, _EXECUTOR), summing, lambda made: made(2.0, 1.0, CHUNKS)
        ),
        "jacobian": Sample(parallel.jacobian, (_rows, _EXECUTOR), {}, _at_chunks),
        "map": Sample(
            parallel.map,
            (_square, _EXECUTOR),
            {"batch_size": 2},
            lambda made: list(made(CHUNKS[0])),
        ),
        "reduce": Sample(
            parallel.reduce, (_square, _added, _EXECUTOR), {}, lambda made: made(CHUNKS)
        ),
        "slices": Sample(parallel.slices, ({"x": np.arange(6.0).reshape(3, 2)}, 2)),
    }
    return {f"fg.parallel.{name}": sample for name, sample in made.items()}


def _at_chunks(made: Any) -> Any:
    return made(2.0, CHUNKS)


def _loss(w: Any, chunk: Any) -> Any:
    return (w**2 * chunk).sum()


def _rows(w: Any, chunk: Any) -> Any:
    return w**2 * chunk


def _square(x: Any) -> Any:
    return x * x


def _added(a: Any, b: Any) -> Any:
    return a + b
