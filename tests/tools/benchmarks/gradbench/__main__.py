"""Measure the evaluations, and print a table of processor times on one core.

Every way runs in turn in each round, after its results were compared; medians over the rounds are
printed, and of the ratios within a round.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import numpy as np

import funcgrad as fg
from tests.tools.benchmarks.gradbench import adbench, elementary, nested_descent
from tests.tools.benchmarks.gradbench.by_hand import COMMAND, bound, built, has_compiler
from tests.tools.benchmarks.gradbench.evaluation import Evaluation
from tests.tools.benchmarks.native import settled
from tests.tools.practice.libraries import funcgrad, has_jax, jax

EVALUATIONS: Final = (*elementary.EVALUATIONS, *adbench.EVALUATIONS, *nested_descent.EVALUATIONS)
PAGE: Final = Path(__file__).resolve().parents[4] / "examples" / "docs" / "gradbench.md"
BEGIN: Final = "<!-- Written by python -m tests.tools.benchmarks.gradbench --page from here on. -->"
ALLOWED: Final = 1e-8
SAMPLE: Final = 5e-3

Calls = Callable[[int], Any]
"""Call as often as that; returns the last results."""


def flat(results: Any) -> Any:
    """All numbers of the results, one after another."""
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in fg.tree.leaves(results)])


def repeated(work: Callable[[], Any]) -> Calls:
    """A function of how often to call."""

    def call(calls: int) -> Any:
        for _ in range(calls - 1):
            work()
        return work()

    return call


def ways(evaluation: Evaluation, size: Any, compiled: Any, peer: bool) -> dict[str, Calls]:
    """The ways to run an evaluation, the first of which is funcgrad."""
    arguments = evaluation.arguments(size)
    ours, tensors = fg.jit(evaluation.program(funcgrad())), [fg.tensor(a) for a in arguments]
    calls = {"funcgrad": repeated(lambda: ours(*tensors))}
    if peer and not evaluation.backward_loop:
        library, lib = import_module("jax"), jax()
        theirs = library.jit(evaluation.program(lib))
        arrays = [lib.np.asarray(a) for a in arguments]
        calls["JAX"] = repeated(lambda: library.block_until_ready(theirs(*arrays)))
    if compiled is not None and evaluation.by_hand:
        size_of_results = len(flat(calls["funcgrad"](1)))
        calls["C++"] = bound(compiled, evaluation.name, arguments, size_of_results)
    return calls


def check(calls: Mapping[str, Calls]) -> None:
    """Raise where results differ by more than 1e-8 of the largest."""
    expected = flat(calls["funcgrad"](1))
    for name, call in calls.items():
        scale = np.max(np.abs(expected)) or 1.0  # ode's gradient is 0 while steps are few
        off = np.max(np.abs(flat(call(1)) - expected)) / scale
        if not off <= ALLOWED:
            raise AssertionError(f"{name} is off by {off:.1e}")


def samples(calls: Mapping[str, Calls], rounds: int) -> dict[str, list[float]]:
    """Seconds of a call of each way, in each round."""
    counts = {}
    for name, call in calls.items():
        settled(partial(call, 1), 0.1)
        start = process_time()
        call(3)
        rate = (process_time() - start) / 3
        counts[name] = min(100_000, max(1, round(SAMPLE / max(rate, 1e-9))))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
            start = process_time()
            calls[name](counts[name])
            taken[name].append((process_time() - start) / counts[name])
    return taken


def line(title: str, taken: Mapping[str, list[float]]) -> str:
    """A row: median microseconds of a call, and the peers' times over funcgrad's."""
    ours = taken["funcgrad"]
    cells = [title, f"{1e6 * median(ours):.3g}"]
    for name in ("JAX", "C++"):
        pairs = zip(taken.get(name, []), ours, strict=False)
        ratios = [theirs / mine for theirs, mine in pairs]
        cells.append(f"{median(ratios):.2f}" if ratios else "–")
    return "| " + " | ".join(cells) + " |"


def measured(words: str, rounds: int) -> list[str]:
    """Measure, and print and return the rows of the table and in how many funcgrad is ahead."""
    compiled, ahead = (
        built() if has_compiler() else None,
        {"JAX": list[bool](), "C++": list[bool]()},
    )
    lines = ["| evaluation | funcgrad, µs | JAX / funcgrad | C++ / funcgrad |", "|---|--:|--:|--:|"]
    print(*lines, sep="\n")
    for evaluation in EVALUATIONS:
        if not any(word in evaluation.name for word in words.split(",")):
            continue
        for size in evaluation.sizes[1:] or evaluation.sizes:
            calls = ways(evaluation, size, compiled, has_jax())
            check(calls)
            taken = samples(calls, rounds)
            lines.append(line(f"{evaluation.name}, {_shown(size)}", taken))
            print(lines[-1], flush=True)
            for name in taken.keys() - {"funcgrad"}:
                pairs = zip(taken[name], taken["funcgrad"], strict=True)
                ahead[name].append(median([a / b for a, b in pairs]) > 1.0)
    lines.append("")
    for name, cells in ahead.items():
        lines.append(f"Ahead of {name} in {sum(cells)} of {len(cells)} rows.")
        print(lines[-1])
    return lines


def about() -> str:
    """When and where the table was measured."""
    command = "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.gradbench"
    packages = ["numpy", "llvmlite", *(["jax"] if has_jax() else [])]
    versions = [f"{name} {version(name)}" for name in packages]
    python = f"Python {platform.python_version()}"
    return (
        f"Measured on {date.today():%d %B %Y} by `{command}`, on one core of an {_processor()},\n"
        f"with {python}, {', '.join(versions)}, and `{' '.join(COMMAND)}`.\n"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.machine()
    names = re.findall(r"model name\s*: (.*)", text)
    widest = "AVX-512" if "avx512f" in text else "AVX2" if "avx2" in text else platform.machine()
    return f"{names[0] if names else platform.machine()} ({widest})"


def main() -> None:
    """Measure and print, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words in the names, by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--core", type=int, help="the core to run on")
    parser.add_argument("--page", action="store_true", help="write examples/docs/gradbench.md")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[0] if options.core is None else options.core})
    with suppress(ImportError):  # code is improved after its first call
        vars(import_module("funcgrad._backends.native.native_code"))["_PATIENCE"] = 1
    lines = measured(options.only, options.rounds)
    if options.page:
        text = PAGE.read_text("utf-8").partition(BEGIN)[0]
        PAGE.write_text("\n".join([text + BEGIN, "", about(), *lines, ""]), "utf-8")


def _shown(size: Any) -> str:
    return " × ".join(map(str, size)) if isinstance(size, tuple) else str(size)


if __name__ == "__main__":
    main()
