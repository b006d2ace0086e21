"""What work on many workers costs beside the plain loop, and how much a chunk.

The efficiency is the time of the plain loop on one core, over the number of workers times the time
of a step; rounds of both are interleaved, and the best compared. A chunk of the first work takes
about 50 ms of one core; one of the second nothing, so that its time is the overhead. Each worker
needs a core of its own: on a machine that others use as well the efficiency is a lower bound. So it
is told by processor time too, which others change less::

    python -m tests.benchmarks.parallel
    python -m tests.benchmarks.parallel --executor threads
"""

import argparse
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import parallel
from funcgrad.parallel.blas_threads import one_thread
from tests.parallel.losses import cluster

WIDTH = 256


def loss(w: Any, chunk: Any) -> Any:
    hidden = chunk
    for _ in range(3):
        hidden = fnp.tanh(hidden @ w)
    return fnp.mean(hidden * hidden)


def rows(number: int, count: int) -> Any:
    return np.random.default_rng(number).normal(size=(count, WIDTH))


def calibrated(milliseconds: float) -> int:
    """How many rows a chunk has that takes so long."""
    f, w, count = fg.jit(fg.value_and_grad(loss)), np.eye(WIDTH), 256
    f(w, rows(0, count))
    with one_thread():
        chunk = rows(0, count)
        times = [seconds(lambda: f(w, chunk))[1] for _ in range(9)]
    return max(1, int(count * milliseconds / 1e3 / min(times)))


def processor_time(client: Any) -> float:
    """Seconds that this process and the workers have computed."""
    others = client.run(process_time).values() if client is not None else ()
    return process_time() + sum(others)


def seconds(work: Callable[[], object], client: Any = None) -> tuple[float, float]:
    """Wall time and processor time of a work."""
    before, start = processor_time(client), perf_counter()
    work()
    wall = perf_counter() - start
    return wall, processor_time(client) - before


@contextmanager
def executors(kind: str, workers: int) -> Iterator[tuple[Any, Any]]:
    """An executor, and a client that measures its workers if it is Dask's."""
    if kind == "dask":
        with cluster(workers) as client:
            yield client, client
    elif kind == "threads":
        with ThreadPoolExecutor(workers) as threads:
            yield threads, None
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as processes:
            yield processes, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", choices=("dask", "threads", "processes"), default="dask")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    count, w = calibrated(options.milliseconds), np.eye(WIDTH)
    chunks = [fg.tensor(rows(number, count)) for number in range(options.chunks)]
    plain = fg.jit(fg.value_and_grad(loss))

    def loop() -> Any:
        total = None
        with one_thread():
            for chunk in chunks:
                part = plain(w, chunk)
                total = part if total is None else fg.tree.map(np.add, total, part)
        return total

    with executors(options.executor, options.workers) as (executor, client):
        step = parallel.value_and_grad(loss, executor)
        small = parallel.value_and_grad(lambda w, x: w * x, executor)
        numbers = [np.float64(k) for k in range(200)]
        step(w, chunks), loop(), small(1.0, numbers)
        loops, steps, overheads = [], [], []
        for _ in range(options.rounds):
            loops.append(seconds(loop))
            steps.append(seconds(lambda: step(w, chunks), client))
            overheads.append(seconds(lambda: small(1.0, numbers), client))
    (wall, own), (step_wall, step_own) = (
        [min(times) for times in zip(*measures, strict=True)] for measures in (loops, steps)
    )
    print(
        f"{options.executor}, {options.workers} workers, {options.chunks} chunks of"
        f" {1e3 * own / options.chunks:.0f} ms, {os.cpu_count()} cores, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(f"efficiency by the clock      {wall / step_wall / options.workers:6.2f}")
    if options.executor != "processes":
        print(f"efficiency by processor time {own / step_own:6.2f}")
    clock, own = [1e3 * min(times) / len(numbers) for times in zip(*overheads, strict=True)]
    print(f"overhead a chunk             {clock:6.2f} ms, {own:.2f} ms of processors")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the caller         {peak:6.0f} MB")


if __name__ == "__main__":
    main()
