"""Jitted programs of practice, by backends, on devices, and by JAX, side by side.

Times are of the processor, on one core. In each round every way runs for some milliseconds in turn,
and what is compared is the least time of each, and the median over the rounds of the ratios. JAX is
measured where it is installed; results are compared before. The first call stages, compiles and
runs; where code is made in steps, what is timed later is the last of them::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.native
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.native net --called
    python -m tests.tools.benchmarks.native --ways xla:cpu:0 jax

The last way is the one that others are compared with.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from statistics import geometric_mean, median
from threading import enumerate as enumerate_threads
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad, has_jax, jax
from tests.tools.practice.physics import DRAWING
from tests.tools.practice.task import Task

SAMPLE: Final = 5e-3
"""Seconds of processor time of a sample, which is one call at least."""

Run = Callable[[], Any]


class Measured(NamedTuple):
    """A way to run a program.

    Attributes
    ----------
    first : float
        Seconds of the first call.
    samples : list of float
        Seconds of a call, in each round.
    """

    first: float
    samples: list[float]


def seconds(work: Run, calls: int = 1) -> float:
    """The processor time of a call."""
    start = process_time()
    for _ in range(calls):
        work()
    return (process_time() - start) / calls


def ours(task: Task, way: str) -> Run:
    """A call of funcgrad with tensors, by a backend or on a device, whose name has a colon."""
    place = way if ":" in way else "cpu"
    staged = fg.jit(task.function(funcgrad()), backend=None if place == way else way)
    arguments = _as_arrays(task, lambda x: fg.put(x, place))
    return lambda: staged(*arguments)


def theirs(task: Task) -> Run:
    """A call of JAX with arrays of its kind."""
    library, lib = import_module("jax"), jax()
    staged, arguments = library.jit(task.function(lib)), _as_arrays(task, lib.np.asarray)
    return lambda: library.block_until_ready(staged(*arguments))


def _as_arrays(task: Task, convert: Callable[[Any], Any]) -> Any:
    arguments = task.arguments(small=False)
    return fg.tree.map(lambda x: x if isinstance(x, int) else convert(x), arguments)


def measured(task: Task, names: Sequence[str], rounds: int, warm: float) -> dict[str, Measured]:
    """Time the ways to run a program, in turns, after their results have been compared."""
    runs = {name: theirs(task) if name == "jax" else ours(task, name) for name in names}
    firsts = {name: seconds(run) for name, run in runs.items()}
    compare(task, {name: fg.get(run()) for name, run in runs.items()})
    counts = {name: settled(run, warm) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
            samples[name].append(seconds(runs[name], counts[name]))
    return {name: Measured(firsts[name], samples[name]) for name in names}


def settled(run: Run, warm: float) -> int:
    """Run until code is as good as it gets, and return how many calls are a sample."""
    warmed(run, warm)
    for thread in enumerate_threads():
        if thread.name.startswith("funcgrad"):  # which compiles what has run for a while
            thread.join()
    return max(1, round(SAMPLE / max(warmed(run, warm), 1e-7)))


def warmed(run: Run, warm: float) -> float:
    """Run for a while; returns the least seconds of a call."""
    taken = [seconds(run) for _ in range(3)]
    least, total = min(taken), sum(taken)
    while total < warm:
        taken = [seconds(run) for _ in range(10)]
        least, total = min(least, *taken), total + max(sum(taken), 1e-5)
    return least


def compare(task: Task, results: dict[str, Any]) -> None:
    """Print a line for each way whose results differ from the last way's, or NumPy's."""
    base = "numpy" if "numpy" in results else [*results][-1]
    expected = [np.asarray(leaf) for leaf in fg.tree.leaves(results[base])]
    for name, result in results.items():
        if "jax" in (name, base) and task is DRAWING:
            continue  # its generator draws other numbers
        off = 0.0
        for a, b in zip(map(np.asarray, fg.tree.leaves(result)), expected, strict=True):
            missing = np.isnan(a) & np.isnan(b)
            scale = np.max(np.abs(b), initial=0.0, where=~missing) or 1.0
            off = max(off, float(np.max(np.abs(a - b), initial=0.0, where=~missing) / scale))
        if not off <= 100 * task.tolerance:  # of few numbers it is 1
            print(f"WRONG: {task.name}: {name} is off by {off:.1e}", flush=True)


def ratios(above: Measured, below: Measured) -> tuple[float, float]:
    """The ratio of the least times, and the median of the rounds' ratios."""
    pairs = zip(above.samples, below.samples, strict=True)
    return min(above.samples) / min(below.samples), median([a / b for a, b in pairs])


def line(task: Task, ways: dict[str, Measured]) -> str:
    """A row of the table: least times in microseconds, ratios, and first calls in milliseconds."""
    *_, base = ways.values()
    cells = [task.name]
    cells += [f"{1e6 * min(way.samples):.1f}" for way in ways.values()]
    for name, way in ways.items():
        if way is not base:
            cells.append("{:.2f} ({:.2f})".format(*ratios(ways[name], base)))
    cells.append(" / ".join([f"{1e3 * way.first:.0f}" for way in ways.values()]))
    return "| " + " | ".join(cells) + " |"


def called_back(task: Task) -> str:
    """The operations that machine code leaves to NumPy, with their numbers, as its text says."""
    lowered = fg.jit(task.function(funcgrad()), backend="native").lower(*task.arguments(False))
    return lowered.source.splitlines()[0].removeprefix("; ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words in the names of programs")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warm", type=float, default=0.1, help="seconds of calls before")
    parser.add_argument("--called", action="store_true", help="say what is called back")
    parser.add_argument("--ways", nargs="+", default=["jax", "numpy", "native"])
    parser.add_argument("--core", type=int, help="the core to run on")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[0] if options.core is None else options.core})
    with suppress(ImportError):  # code is improved after its first call
        vars(import_module("funcgrad._backends.native.native_code"))["_PATIENCE"] = 1
    names = [name for name in options.ways if name != "jax" or has_jax()]
    base = names[-1]
    if has_jax():
        jax()  # its options are chosen before a device of its is used
    heads = ["program", *[f"{name} µs" for name in names]]
    heads += [*[f"{name}/{base}" for name in names[:-1]], f"first ms: {' / '.join(names)}"]
    warm_up = Task("", lambda lib: lambda x: lib.np.sum(x), lambda draws, small: (np.ones(2),))
    measured(warm_up, names, 1, 0.0)
    print("| " + " | ".join(heads) + " |\n|---" + "|--:" * (len(heads) - 1) + "|", flush=True)
    table: list[tuple[Task, dict[str, Measured]]] = []
    for task in (*TASKS, DRAWING):
        if not options.words or any(word in task.name for word in options.words):
            table.append((task, measured(task, names, options.rounds, options.warm)))
            print(line(*table[-1]), flush=True)
            if options.called:
                print(called_back(task), flush=True)
    for name in names[:-1]:
        times = {task.name: ratios(ways[name], ways[base])[1] for task, ways in table}
        behind = ", ".join([f"{task} {ratio:.2f}" for task, ratio in times.items() if ratio < 1])
        mean = geometric_mean(times.values())
        first = geometric_mean([ways[name].first / ways[base].first for _, ways in table])
        print(f"\n{name}/{base}: geometric mean {mean:.2f}; below 1: {behind or 'none'}")
        print(f"first calls: {first:.2f}")


if __name__ == "__main__":
    main()
