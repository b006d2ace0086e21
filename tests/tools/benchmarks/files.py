"""How long saving and loading 100 MB take, to writing and reading the same bytes.

Both write a new file and flush it to the disk. The rounds are interleaved, and the least wall
times are compared: the disk is waited for, and digests are computed by another thread meanwhile::

    python -m tests.tools.benchmarks.files
    python -m tests.tools.benchmarks.files --folder /dev/shm     # memory: all that is not the disk
"""

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

import funcgrad as fg
from funcgrad import io


def plain_write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def measured(folder: Path, megabytes: int, rounds: int) -> Mapping[str, float]:
    """The least seconds of each of the works."""
    numbers = np.random.default_rng(0).random(megabytes * 125_000)
    trees = {
        "one tensor": fg.tensor(numbers),
        "100 tensors": list(map(fg.tensor, np.split(numbers, 100))),
    }
    data = numbers.tobytes()
    works: dict[str, Callable[[], object]] = {"write": lambda: plain_write(folder / "w", data)}
    for name, tree in trees.items():
        works[f"save {name}"] = partial(io.save, folder / "s", tree)
    works["read"] = lambda: (folder / "w").read_bytes()
    works["load"] = lambda: io.load(folder / "s")
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return {name: min(measures) for name, measures in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="where to write; a temporary folder if not given")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        times = measured(Path(folder), options.megabytes, options.rounds)
    for name, time in times.items():
        base = times["write" if name == "write" or name.startswith("save") else "read"]
        print(f"{name:20} {1e3 * time:8.1f} ms  {time / base:5.2f}")


if __name__ == "__main__":
    main()
