"""How long the first calls of a process take in sum: what users feel, not the last step.

Each way to run a program has a process of its own, which loads its library, makes the arguments,
and then jits and calls. The processor time of all its threads counts, from ``jit`` to the call of
that number. Machine code is measured with an empty folder for code on disk, and again with what
that process left there. Byte code is on disk, as of an installed package::

    python -m tests.tools.benchmarks.sums
    python -m tests.tools.benchmarks.sums "small net, Adam" "RNN, unrolled" --counts 1 100 1000
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from tests.tools.practice.libraries import has_jax

REPOSITORY: Final = Path(__file__).resolve().parents[3]
WAYS: Final = ("empty", "warm", "jax", "numpy")
COUNTS: Final = (1, 10, 100, 1_000, 10_000)


def run(name: str, way: str, counts: Sequence[int], most: float) -> None:
    """Call a program in this process; print the seconds after some calls, and megabytes taken."""
    begin = process_time(), _peak()
    from tests.tools.benchmarks.native import ours, theirs
    from tests.tools.practice.all_tasks import TASKS

    loaded = process_time() - begin[0]
    task = next(task for task in TASKS if task.name == name)
    if way == "jax":
        import jax

        jax.block_until_ready(jax.numpy.ones(2))  # its own start does not count
    start, taken = process_time(), list[float]()
    call = theirs(task) if way == "jax" else ours(task, "numpy" if way == "numpy" else "native")
    for number in range(1, max(counts) + 1):
        call()
        if number in counts:
            taken.append(process_time() - start)
        elif process_time() - start > most:
            break
    print(loaded, _peak() - begin[1], *taken)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_processes(
    name: str, ways: Sequence[str], counts: Sequence[int], most: float, environment: dict[str, str]
) -> dict[str, list[float]]:
    """Run a program in a process for each way."""
    results: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder:
        for way in ways:
            arguments = ["--way", way, "--most", str(most), "--counts", *map(str, counts)]
            done = subprocess.run(
                [sys.executable, "-m", "tests.tools.benchmarks.sums", name, *arguments],
                env={**environment, "XDG_CACHE_HOME": folder},
                check=True,
                capture_output=True,
                text=True,
            )
            results[way] = [float(number) for number in done.stdout.split()]
    return results


def line(name: str, counts: Sequence[int], ways: Mapping[str, list[float]]) -> str:
    """A row of the table: the sums of each way, in seconds."""
    cells = [name]
    for place in range(len(counts)):
        numbers = [taken[place + 2 : place + 3] for taken in ways.values()]
        cells.append(" / ".join([f"{number[0]:.3f}" if number else "–" for number in numbers]))
    cells.append(" / ".join([f"{taken[1]:.0f}" for taken in ways.values()]))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure, and print a line for each program and the medians of the ratios to JAX."""
    from tests.tools.practice.all_tasks import TASKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words in the names of programs")
    parser.add_argument("--counts", nargs="*", type=int, default=COUNTS)
    parser.add_argument("--most", type=float, default=10.0, help="seconds after which to stop")
    parser.add_argument("--way", choices=WAYS, help="one way, in this process")
    options = parser.parse_args()
    if options.way:
        run(options.words[0], options.way, options.counts, options.most)
        return
    ways = [way for way in WAYS if way != "jax" or has_jax()]
    print(f"| program: {' / '.join(ways)} | {' | '.join(map(str, options.counts))} | MB |")
    print("|---" + "|--:" * (len(options.counts) + 1) + "|", flush=True)
    table: list[dict[str, list[float]]] = []
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        in_processes("scalar chain", ways, [1], 1.0, environment)
        for task in TASKS:
            if not options.words or any(word in task.name for word in options.words):
                table.append(
                    in_processes(task.name, ways, options.counts, options.most, environment)
                )
                print(line(task.name, options.counts, table[-1]), flush=True)
    if "jax" in ways:
        for place, count in enumerate(options.counts, 2):
            compare(table, count, place)


def compare(table: Sequence[Mapping[str, list[float]]], count: int, place: int) -> None:
    """Print the ratios to JAX after so many calls, over the programs that came as far."""
    for way in ("empty", "warm", "numpy"):
        rows = [row for row in table if min(len(row[way]), len(row["jax"])) > place]
        ratios = [row[way][place] / row["jax"][place] for row in rows]
        if ratios:
            above = f"median {median(ratios):.2f}, most {max(ratios):.2f}"
            print(f"{way}, {count} calls, over JAX: {above}, {len(ratios)} programs")


if __name__ == "__main__":
    main()
