"""``python -m tests.tools.validated_sample``: run a sample of the tests while passes are tried.

With ``FUNCGRAD_VALIDATE=1`` every pass of a compiled program is tried on values
(``funcgrad/_passes/trials_of_passes.py``). The whole suite would take an hour, so each commit has a
sample of test files of its own, the same at every run. Name a number of files, or another commit::

    python -m tests.tools.validated_sample 12 4a5b6c

>>> sample("a", 3) == sample("a", 3) != sample("b", 3)
True
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = (
    "control implicit integrate interpolate nn numpy optim optimize random scipy sparse"
)
FILES: Final = 4
SLOW: Final = "\npytestmark = pytest.mark.slow\n"
WITHOUT: Final = "not calls and not staging and not memory and not loaded and not once"
"""Tests that count calls, or look at memory, count the trials as well."""


def sample(commit: str, count: int) -> list[str]:
    """Some test files of a commit that compile functions, and have quick tests."""
    files = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS.split()
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
        if "jit(" in (text := path.read_text("utf-8")) and SLOW not in text
    ]
    return sorted(random.Random(commit).sample(files, count))


def commit() -> str:
    """The commit of this tree; empty where there is none."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main(arguments: Sequence[str]) -> int:
    """Run the sample; return pytest's status."""
    count = int(arguments[0]) if arguments else FILES
    files = sample(arguments[1] if len(arguments) > 1 else commit(), count)
    print("FUNCGRAD_VALIDATE=1 python -m pytest", *files, flush=True)
    options = ["-q", "-m", "not slow", "-k", WITHOUT]
    command = [sys.executable, "-m", "pytest", *options, *files]
    environment = {**os.environ, "FUNCGRAD_VALIDATE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
