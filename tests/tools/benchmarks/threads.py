"""Two threads beside one: the wall time and the processor time of jitted functions, as ratios.

In each round either runs for some milliseconds in turn. Printed are the milliseconds of one thread,
the ratio of the least wall times and the median of the rounds' ratios, and the same of processor
time. The wall times need two processors that do nothing else::

    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.threads
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.threads chain product --threads 4
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp

SAMPLE: Final = 2e-2
"""Seconds of a sample, which is one call at least."""

WARM: Final = 0.4
"""Seconds after which code is at its best."""

Work = tuple[str, Callable[..., Any], tuple[Any, ...]]


def chain(x: Any) -> Any:
    return fnp.sin(x) * fnp.exp(-x * x) + fnp.tanh(x)


def line(x: Any) -> Any:
    return 2.0 * x + 1.0


def total(x: Any) -> Any:
    return fnp.sum(fnp.tanh(x) * x)


def product(x: Any, y: Any) -> Any:
    return x @ y


def loss(params: Any, x: Any, y: Any) -> Any:
    scores = fnp.tanh(x @ params[0] + params[1]) @ params[2] + params[3]
    scores = scores - fnp.max(scores, 1, keepdims=True)
    return -fnp.mean(fnp.sum(y * scores, 1) - fnp.log(fnp.sum(fnp.exp(scores), 1)))


def works() -> Iterator[Work]:
    """The functions that are measured, with their names and arguments."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        for size in (500_000, 1_000_000, 10_000_000):
            x = rng.normal(size=size).astype(dtype)
            for f in (chain, line, total):
                yield f"{f.__name__} {size:.0e} {dtype.__name__}", f, (x,)
        for size in (300, 700, 1000):
            x = rng.normal(size=(size, size)).astype(dtype)
            yield f"product {size} {dtype.__name__}", product, (x, x)
        shapes = (784, 512), (512,), (512, 10), (10,)
        params = [rng.normal(scale=0.05, size=shape).astype(dtype) for shape in shapes]
        x = rng.normal(size=(1024, 784)).astype(dtype)
        y = np.eye(10, dtype=dtype)[rng.integers(0, 10, 1024)]
        yield f"net gradient {dtype.__name__}", fg.grad(loss), (params, x, y)


def timed(work: Callable[[], Any], calls: int) -> tuple[float, float]:
    """The wall time and the processor time of a call, in seconds."""
    wall, processor = perf_counter(), process_time()
    for _ in range(calls):
        work()
    return (perf_counter() - wall) / calls, (process_time() - processor) / calls


def compared(f: Callable[..., Any], args: tuple[Any, ...], threads: int, rounds: int) -> str:
    """The ratios of some threads to one, as text."""

    def ready(count: int) -> Callable[[], Any]:
        jitted = fg.jit(f, backend="native", threads=count)
        begin = perf_counter()
        while perf_counter() < begin + WARM:
            jitted(*args)
        return lambda: jitted(*args)

    one, several = ready(1), ready(threads)
    for x, y in zip(fg.tree.leaves(one()), fg.tree.leaves(several()), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    calls = max(1, int(SAMPLE / timed(one, 1)[0]))
    samples = [(*timed(one, calls), *timed(several, calls)) for _ in range(rounds)]
    walls, processors, shared_walls, shared_processors = zip(*samples, strict=True)
    texts = [f"{1e3 * min(walls):9.3f} ms"]
    for before, after in ((walls, shared_walls), (processors, shared_processors)):
        ratios = [y / x for x, y in zip(before, after, strict=True)]
        texts.append(f"{min(after) / min(before):.2f}, median {median(ratios):.2f}")
    return "  wall {1}  processor {2}  ({0})".format(*texts)


def main() -> None:
    """Measure the functions whose names have one of the words that the command line names."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for name, f, args in works():
        if not options.words or any(word in name for word in options.words):
            text = compared(f, args, options.threads, options.rounds)
            print(f"{name:24s}{text}", flush=True)


if __name__ == "__main__":
    main()
