"""``python -m tests.processors``: run tests as on processors with fewer instructions.

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


def main(arguments: Sequence[str]) -> int:
    """Run tests, those given or the usual ones, at each step; the exit status is 1 if any fail."""
    umath: Any = import_module("numpy._core._multiarray_umath")  # NumPy's stubs do not know it
    status = 0
    for names in steps(umath.__cpu_dispatch__, umath.__cpu_features__):
        print(f"without {' '.join(names)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(names)}
        done = subprocess.run([*command, *(arguments or TESTS)], env=environment, check=False)
        status = status or done.returncode
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
