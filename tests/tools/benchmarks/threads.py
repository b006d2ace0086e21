"""Two threads beside one: the wall time and the processor time of jitted functions, as ratios.

In each round either runs for some milliseconds in turn. Printed are the milliseconds of one thread,
the ratio of the least wall times and the median of the rounds' ratios, the same of processor
time, and the processor time of the thread that calls, over that of one thread. The wall times need
two processors that do nothing else::

    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.threads
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.threads chain product --threads 4
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.threads --limits

``--limits`` measures steps of growing size, all of which are shared, to see from where on that
pays.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn

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


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (fnp.sqrt(v) + 1e-8), m, v


def rows(x: Any) -> Any:
    return fnp.sum(fnp.exp(x - fnp.max(x, 1, keepdims=True)), 1)


def columns(x: Any) -> Any:
    return fnp.sum(x * x, 0)


def convolution(x: Any, k: Any) -> Any:
    return fg.grad(lambda x, k: fnp.sum(nn.conv(x, k, padding="same") ** 2), argnums=(0, 1))(x, k)


def orbit(x: Any) -> Any:
    """Steps until an angle is reached: some examples take longer."""

    def step(c: Any) -> Any:
        return c[0] + 1e-2 * c[1], c[1] - 1e-2 * fnp.sin(c[0]), c[2] + 1.0

    return fg.while_loop(lambda c: c[2] < 500.0 * x, step, (x, 0.0 * x, 0.0 * x))[0]


def fit(x: Any) -> Any:
    """An iteration for each example by itself."""
    a = fnp.outer(x, x) + 2.0 * fnp.eye(len(x))

    def step(c: Any) -> Any:
        y = fnp.tanh(a @ c[0])
        return y / fnp.sum(y * y), c[1] + 1.0

    return fg.while_loop(lambda c: c[1] < 20.0 + 0.0 * x[0], step, (x, 0.0))[0]


def further_works(rng: np.random.Generator) -> Iterator[Work]:
    """Functions in double precision."""
    x = [rng.normal(size=10_000_000) for _ in range(4)]
    yield "adam 1e7", adam, (x[0], x[1], x[2] ** 2, x[3])
    matrix = x[0][:4_000_000].reshape(2000, 2000)
    yield "sums of rows", rows, (matrix,)
    yield "sums of columns", columns, (matrix,)
    kernels = rng.normal(size=(32, 16, 3, 3))
    yield "convolution, gradient", convolution, (rng.normal(size=(16, 16, 32, 32)), kernels)
    yield "batched orbits", fg.vmap(orbit), (rng.uniform(1.0, 2.0, 4_000),)
    yield "batched iterations", fg.vmap(fit), (rng.uniform(1.0, 2.0, (400, 30)),)


def works() -> Iterator[Work]:
    """The functions that are measured, with their names and arguments."""
    rng = np.random.default_rng(0)
    yield from further_works(rng)
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


def growing_works() -> Iterator[Work]:
    """Functions of more and more elements."""
    rng = np.random.default_rng(0)
    for k in range(13, 21):
        x = rng.normal(size=1 << k)
        for f in (chain, line, total):
            yield f"{f.__name__} {1 << k}", f, (x,)
    for size in (64, 96, 128, 192, 256):
        x = rng.normal(size=(size, size))
        yield f"product {size}", product, (x, x)


def share_everything() -> None:
    """Have threads share steps of any size."""
    from funcgrad._backends.native import function_site, nest_ranges

    os.environ["FUNCGRAD_CACHE"] = "0"
    setattr(function_site, "_WORTH_SHARING", 0)  # noqa: B010 - it is final for others
    setattr(nest_ranges, "_FEW", 0)  # noqa: B010


def timed(work: Callable[[], Any], calls: int) -> tuple[float, float, float]:
    """The wall time, the processor time and the caller's processor time of a call, in seconds."""
    begin = perf_counter(), process_time(), thread_time()
    for _ in range(calls):
        work()
    end = perf_counter(), process_time(), thread_time()
    wall, processor, caller = [(b - a) / calls for a, b in zip(begin, end, strict=True)]
    return wall, processor, caller


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
    walls, processors, _, shared_walls, shared_processors, callers = zip(*samples, strict=True)
    texts = [f"{1e3 * min(walls):9.3f} ms"]
    for before, after in ((walls, shared_walls), (processors, shared_processors)):
        ratios = [y / x for x, y in zip(before, after, strict=True)]
        texts.append(f"{min(after) / min(before):.2f}, median {median(ratios):.2f}")
    texts.append(f"{min(callers) / min(processors):.2f}")
    return "  wall {1}  processor {2}  caller {3}  ({0})".format(*texts)


def main() -> None:
    """Measure the functions whose names have one of the words that the command line names."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limits", action="store_true")
    options = parser.parse_args()
    if options.limits:
        share_everything()
    for name, f, args in growing_works() if options.limits else works():
        if not options.words or any(word in name for word in options.words):
            text = compared(f, args, options.threads, options.rounds)
            print(f"{name:24s}{text}", flush=True)


if __name__ == "__main__":
    main()
