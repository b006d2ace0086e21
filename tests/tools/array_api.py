"""``python -m tests.tools.array_api FOLDER``: run the array API's own tests of ``funcgrad.numpy``.

``FOLDER`` is a clone of https://github.com/data-apis/array-api-tests with its submodule, whose
requirements are installed. The outcome is recorded for the page of proofs. More examples for each
test find more, and take longer; a sample has some files only::

    python -m tests.tools.array_api ../array-api-tests 100
    python -m tests.tools.array_api ../array-api-tests 5 has_names signatures

>>> counted("2 failed, 1094 passed, 5 skipped in 3.21s")
{'failed': 2, 'passed': 1094}
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.tools import proofs

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = 20


def counted(text: str) -> dict[str, int]:
    """The counts in the last line that pytest prints."""
    last = text.strip().splitlines()[-1] if text.strip() else ""
    found = {word: int(number) for number, word in re.findall(r"(\d+) (failed|passed)", last)}
    return {"failed": 0, "passed": 0, **found}


def main(arguments: Sequence[str]) -> int:
    """Run the tests, record the outcome, and return pytest's status."""
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
    proofs.record("standard", **counted(done.stdout), examples=examples, files=names)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
