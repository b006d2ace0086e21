"""``python -m tests.tools.processors``: run tests as on processors with fewer instructions.

NumPy chooses its loops by the processor's instructions: an unstable sort, the last bit of a sine or
the order of a sum depends on that choice. Each step switches off more instructions, down to those
that NumPy is built for, and runs tests that compare bits. To run another test in this way, set the
variable ``NPY_DISABLE_CPU_FEATURES``.

>>> features = {"X86_V2": True, "X86_V3": True, "X86_V4": True, "AVX512_SPR": False}
>>> steps(["X86_V3", "X86_V4", "AVX512_SPR"], features)
[['X86_V4'], ['X86_V3', 'X86_V4']]
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

TESTS = (
    "tests/differential/test_values.py",
    "tests/numpy/test_sorting.py",
    "tests/numpy/test_reductions.py",
    "tests/test_intrinsics.py",
)


def steps(dispatched: Sequence[str], features: Mapping[str, bool]) -> list[list[str]]:
    """What is switched off: the last of the features that there are, the last two, ..., all."""
    there = [name for name in dispatched if features.get(name)]
    return [there[count:] for count in reversed(range(len(there)))]


def run_without(names: Sequence[str], tests: Sequence[str]) -> tuple[str, int]:
    """Run tests in one process without some features; return what it prints, and its status."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(names)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


def main(arguments: Sequence[str]) -> int:
    """Run tests, those given or the usual ones, at each step, two steps at a time; the exit status
    is 1 if any fail."""
    umath: Any = import_module("numpy._core._multiarray_umath")  # NumPy's stubs do not know it
    chosen, status = steps(umath.__cpu_dispatch__, umath.__cpu_features__), 0
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda names: run_without(names, arguments or TESTS), chosen)
        for names, (text, code) in zip(chosen, outcomes, strict=True):
            print(f"without {' '.join(names)}\n{text}", flush=True)
            status = status or code
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
