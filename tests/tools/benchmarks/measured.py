"""Measure the processor time and memory of work, and how they grow.

The garbage collector is off meanwhile, since it would examine other objects. The least of some runs
counts, since other work on the machine only adds time.
"""

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np


def seconds(work: Callable[[], Any], repeats: int = 7, most: float = 0.2) -> float:
    """The least processor time of some runs; there are fewer if they take long."""
    taken: list[float] = []
    gc.collect(0)
    gc.disable()
    try:
        while not taken or (len(taken) < repeats and sum(taken) < most):
            start = process_time()
            work()
            taken.append(process_time() - start)
    finally:
        gc.enable()
    return min(taken)


def peak(work: Callable[[], Any]) -> int:
    """The greatest number of bytes that were held at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """The exponent of a power of the length, by least squares; short lengths count less."""
    weights = np.arange(1, len(lengths) + 1)
    return float(np.polyfit(np.log(lengths), np.log(amounts), 1, w=weights)[0])


def least_exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """The least exponent from one length to the next.

    Work that changes its method, or leaves a cache, at some length has a step between two lengths;
    work that grows faster does so between all of them.
    """
    return float(np.min(np.diff(np.log(amounts)) / np.diff(np.log(lengths))))
