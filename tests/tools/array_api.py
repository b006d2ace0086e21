r"""``python -m tests.tools.array_api FOLDER``: run the array API's own tests of ``funcgrad.numpy``.

``FOLDER`` is a clone of https://github.com/data-apis/array-api-tests with its submodule, whose
requirements are installed. The outcome is recorded for the page of proofs. More examples for each
test find more, and take longer; a sample has some files only::

    python -m tests.tools.array_api ../array-api-tests 100
    python -m tests.tools.array_api ../array-api-tests 5 has_names signatures

Tests that ``DEVIATIONS`` names fail on purpose; the exit status is 1 if others fail.

>>> text = "FAILED array_api_tests/test_array_object.py::test_setitem - funcgrad.errors.I...\n"
>>> text += "FAILED array_api_tests/test_fft.py::test_fft - AssertionError\n"
>>> text += "2 failed, 1094 passed, 5 skipped in 3.21s"
>>> counted(text)
{'passed': 1094, 'different': 1, 'failed': 1}
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.tools import proofs

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = 20

DEVIATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        r"test_setitem(_masking)?|test_asarray_arrays": "tensors never change",
        r"test_dunder_dlpack": "no copy=False before DLPack 1.0",
        r"test_finfo\[(float32|complex64)\]": "the fields of finfo have the dtype",
        r"test_(unary\[expm1|unary\[tanh\(real\(x_i\) is \+infinity)": "NumPy's complex numbers",
        r"test_(binary|iop)\[(__i?)?floor_?div(ide|__)\(.*infinity": "as in Python",
    }
)
"""Names of tests that fail, and why; ``funcgrad/numpy/README.md`` has the same table."""


def counted(text: str) -> dict[str, int]:
    """The tests that passed, that fail on purpose and that fail, from the text of pytest."""
    failing = re.findall(r"^(?:FAILED|ERROR) \S+?::(.*)$", text, re.MULTILINE)
    different = [name for name in failing if any(re.match(way, name) for way in DEVIATIONS)]
    passed = sum(map(int, re.findall(r"(\d+) passed", text.strip().rpartition("\n")[2])))
    return {"passed": passed, "different": len(different), "failed": len(failing) - len(different)}


def main(arguments: Sequence[str]) -> int:
    """Run the tests and record the outcome; return 1 if some fail that should not."""
    folder, *others = arguments
    examples = int(others[0]) if others else EXAMPLES
    files = [f"array_api_tests/test_{name}.py" for name in others[1:]] or ["array_api_tests"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--disable-deadline"]
    command = [sys.executable, "-m", "pytest", *options, f"--max-examples={examples}"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "ARRAY_API_TESTS_MODULE": "funcgrad.numpy",
        "ARRAY_API_TESTS_VERSION": "2025.12",
    }
    done = subprocess.run(
        [*command, *files],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    print(done.stdout)
    names = ", ".join(f"`{name}`" for name in others[1:]) or "all files"
    counts = counted(done.stdout)
    proofs.record("standard", **counts, examples=examples, files=names)
    return int(counts["failed"] > 0 or not counts["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
