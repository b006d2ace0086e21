"""What work on many workers costs beside the plain loop, and how much a chunk.

The efficiency is the time of the plain loop on one core, over the number of workers times the time
of a step; rounds of both are interleaved, and the best compared. A chunk of the first work takes
about 50 ms of one core; one of the second nothing, so that its time is the overhead. Each worker
needs a core of its own: on a machine that others use as well the efficiency is a lower bound. So it
is told by processor time too, which others change less. Dask is left out where it is missing::

    python -m tests.tools.benchmarks.parallel
    python -m tests.tools.benchmarks.parallel --executor threads --workers 8
"""

import argparse
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
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
        times = [seconds(lambda: f(w, chunk), nobody)[1] for _ in range(9)]
    return max(1, int(count * milliseconds / 1e3 / min(times)))


def processor_time(workers: Callable[[], float]) -> float:
    """Seconds that this process and the workers have computed."""
    return process_time() + workers()


def seconds(work: Callable[[], object], workers: Callable[[], float]) -> tuple[float, float]:
    """Wall time and processor time of a work."""
    before, start = processor_time(workers), perf_counter()
    work()
    wall = perf_counter() - start
    return wall, processor_time(workers) - before


def nobody() -> float:
    """The time of workers that are threads of this process."""
    return 0.0


def time_of_processes(pids: list[int]) -> float:
    """Seconds that processes have computed, as Linux tells; elsewhere nothing is known."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


@contextmanager
def executors(kind: str, workers: int) -> Iterator[tuple[Any, Callable[[], float]]]:
    """An executor, and the processor time of its workers."""
    if kind == "dask":
        with cluster(workers) as client:
            yield client, lambda: sum(client.run(process_time).values())
    elif kind == "threads":
        with ThreadPoolExecutor(workers) as threads:
            yield threads, nobody
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as processes:
            yield processes, lambda: time_of_processes(list(processes._processes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = [kind for kind in ("dask", "processes", "threads") if kind != "dask" or has_dask()]
    parser.add_argument("--executor", choices=kinds, action="append")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for kind in options.executor or kinds:
        measure(kind, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the caller         {peak:6.0f} MB")


def has_dask() -> bool:
    """Whether Dask's clusters are installed."""
    return find_spec("distributed") is not None


def measure(kind: str, options: argparse.Namespace) -> None:
    """Measure the steps of one kind of executor, and print what they cost."""
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

    with executors(kind, options.workers) as (executor, workers):
        step = parallel.value_and_grad(loss, executor)
        small = parallel.value_and_grad(lambda w, x: w * x, executor)
        numbers = [np.float64(k) for k in range(200)]
        step(w, chunks), loop(), small(1.0, numbers)
        loops, steps, overheads = [], [], []
        for _ in range(options.rounds):
            loops.append(seconds(loop, nobody))
            steps.append(seconds(lambda: step(w, chunks), workers))
            overheads.append(seconds(lambda: small(1.0, numbers), workers))
    (wall, own), (step_wall, step_own) = (
        [min(times) for times in zip(*measures, strict=True)] for measures in (loops, steps)
    )
    print(
        f"{kind}, {options.workers} workers, {options.chunks} chunks of"
        f" {1e3 * own / options.chunks:.0f} ms, {os.cpu_count()} cores, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(f"efficiency by the clock      {wall / step_wall / options.workers:6.2f}")
    print(f"efficiency by processor time {own / step_own:6.2f}")
    clock, own = [1e3 * min(times) / len(numbers) for times in zip(*overheads, strict=True)]
    print(f"overhead a chunk             {clock:6.2f} ms, {own:.2f} ms of processors", flush=True)


if __name__ == "__main__":
    main()
