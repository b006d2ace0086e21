"""Memory of a call of the programs of practice, by machine code and by the NumPy backend.

For machine code it is the arena, and the most that Python and NumPy hold at once beside it:
results, and what operations that are called back take. For the NumPy backend it is the most that is
held at once. Stacks of loops that end by a condition are counted for the NumPy backend alone::

    python -m tests.tools.benchmarks.memory
    python -m tests.tools.benchmarks.memory Kalman net
"""

from __future__ import annotations

import argparse
from statistics import median

import funcgrad as fg
from funcgrad._backends.native.native_backend import NATIVE
from tests.tools.benchmarks.measured import peak
from tests.tools.benchmarks.native import ours, settled
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad
from tests.tools.practice.physics import DRAWING
from tests.tools.practice.task import Task


def call_bytes(task: Task, backend: str) -> int:
    """The most bytes that Python and NumPy hold at once in a call that is not the first."""
    run = ours(task, backend)
    settled(run, 0.02)
    return peak(run)


def arena_bytes(task: Task) -> int:
    """The bytes of the arena of machine code."""
    lowered = fg.jit(task.function(funcgrad()), backend="native").lower(*task.arguments(False))
    _, function = NATIVE._written(lowered.optimized)
    return function.size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words in the names of programs")
    words = parser.parse_args().words
    print("| program | native KiB | arena | numpy KiB | native/numpy |\n|---|--:|--:|--:|--:|")
    ratios: dict[str, float] = {}
    for task in (*TASKS, DRAWING):
        if words and not any(word in task.name for word in words):
            continue
        arena, numpy = arena_bytes(task), call_bytes(task, "numpy")
        native = arena + call_bytes(task, "native")
        ratios[task.name] = native / numpy
        cells = [native / 1024, arena / 1024, numpy / 1024]
        print(f"| {task.name} | {' | '.join([f'{x:.1f}' for x in cells])} | {native / numpy:.2f} |")
    above = ", ".join([f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > 1])
    print(f"\nnative/numpy: median {median(ratios.values()):.2f}; above 1: {above or 'none'}")


if __name__ == "__main__":
    main()
