"""How time and memory grow with the length of a loop, its depth, and the number of leaves.

For every loop of ``loops`` and every way to run it, the exponent of growth is fitted to doubled
lengths: 1 is linear. What grows faster than its own work does is marked::

    python -m tests.benchmarks.growth                        # all; some minutes
    python -m tests.benchmarks.growth rows windows --to 800  # these loops, up to a length
"""

import argparse
import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np

import funcgrad as fg
from tests.benchmarks.loops import DEPTHS, LOOPS, WAYS, of_length

SLACK = 0.35
"""What caches and the noise of a machine add to an exponent."""


def works(name: str, way: str, length: int) -> dict[str, Callable[[], Any]]:
    """What is done with a loop: at once, staged, and jitted, the first time and later."""
    f, x = of_length(name, length)
    run = WAYS[way](f)
    jitted = fg.jit(run)
    return {
        "": lambda: run(x),
        "program": lambda: fg.program(run)(x),
        "jit, first call": lambda: fg.jit(run)(x),
        "jit, later calls": lambda: (jitted(x), jitted)[0],
    }


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The least processor time of some runs."""
    taken = []
    for _ in range(repeats):
        start = process_time()
        work()
        taken.append(process_time() - start)
    return min(taken)


def peak(work: Callable[[], Any]) -> int:
    """The most bytes that were held at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """Of the power of the length that fits, by least squares; the shortest counts least."""
    weights = np.arange(1, len(lengths) + 1)
    return float(np.polyfit(np.log(lengths), np.log(amounts), 1, w=weights)[0])


def table(name: str, way: str, lengths: Sequence[int]) -> Iterator[str]:
    """A line for each thing that is done."""
    expected = LOOPS[name].exponent if name in LOOPS else 1
    longest = works(name, way, lengths[-1])
    found = [works(name, way, length) for length in lengths]
    for kind in longest:
        for work in found:
            work[kind]()  # the first time of all
        times = [seconds(work[kind], 3) for work in found]
        bytes_held = [peak(work[kind]) for work in found]
        time, memory = exponent(lengths, times), exponent(lengths, bytes_held)
        mark = "  <-" if max(time, memory) > expected + SLACK else ""
        label = f"{name}: {way}{', ' if kind else ''}{kind}"
        yield (
            f"{label:55} time {time:5.2f} memory {memory:5.2f}"
            f"   {times[-1] * 1e3:9.1f} ms {bytes_held[-1] / 1e6:8.2f} MB{mark}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loops", nargs="*", help="names of loops; all of them if there is none")
    parser.add_argument("--to", type=int, default=400, help="the longest length")
    options = parser.parse_args()
    lengths = [options.to // 4, options.to // 2, options.to]
    for name in options.loops or [*LOOPS, *DEPTHS]:
        for way in WAYS:
            for line in table(name, way, lengths):
                print(line, flush=True)


if __name__ == "__main__":
    main()
