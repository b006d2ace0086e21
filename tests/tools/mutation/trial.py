"""Planting mistakes into a copy of the package and running tests there.

The copy has the package, the tests and the settings; the original files are never changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.tools.mutation.mutants import Mutant

__all__ = ["ROOT", "Outcome", "Workshop", "workshop"]

ROOT: Final = Path(__file__).parents[3]
_COPIED: Final = ("funcgrad", "tests", "typings", "examples")
_FILES: Final = ("pyproject.toml", "README.md", "CHANGELOG.md")
_NO_TESTS: Final = 5
"""Pytest's exit status if it has collected no tests."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a mutant.

    Attributes
    ----------
    path : str
        The file, relative to the repository.
    mutant : Mutant
    verdict : str
        ``killed`` by a quick test or an import that fails, ``slowly`` if only slow tests fail,
        ``late`` if tests took too long, which counts as killed; or ``survived``.
    """

    path: str
    mutant: Mutant
    verdict: str

    def __str__(self) -> str:
        return f"{self.verdict:8} {self.path}:{self.mutant.line}:{self.what}"

    @property
    def what(self) -> str:
        """The mistake and its column, on one line."""
        old, new = [" ".join(text.split()) for text in (self.mutant.old, self.mutant.new)]
        return f"{self.mutant.column} {self.mutant.kind}: {old} -> {new}"

    def is_told_in(self, line: str) -> bool:
        """Whether a line of a report has this verdict on this mutant, at any line number."""
        place = re.escape(f"{self.verdict:8} {self.path}:")
        return re.fullmatch(place + r"\d+:" + re.escape(self.what), line) is not None


class Workshop:
    """A copy of the repository in which mistakes are planted, one at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def passes(self, tests: Sequence[str], seconds: float) -> str:
        """Run tests until one fails: ``killed``, ``late`` or ``survived``.

        With ``-m`` among the tests there may be none that it chooses.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--no-header"]
        command += ["-p", "no:cacheprovider", "-c", str(self.root / "pyproject.toml")]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                [*command, *tests],
                cwd=self.root,
                env=environment,
                timeout=seconds,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "late"
        if done.returncode == _NO_TESTS:
            if "-m" in tests:
                return "survived"
            raise ValueError(f"mutation: no tests were found in {list(tests)}")
        return "killed" if done.returncode else "survived"

    def tried(self, path: str, mutant: Mutant, tests: Sequence[str], seconds: float) -> Outcome:
        """Plant a mistake, run tests, and take it out again."""
        file = self.root / path
        source = file.read_text()
        file.write_text(mutant.planted(source))
        try:
            return Outcome(path, mutant, self.passes(tests, seconds))
        finally:
            file.write_text(source)


@contextmanager
def workshop() -> Iterator[Workshop]:
    """Make a copy of the repository, which is removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder)
        for name in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        for name in _FILES:
            shutil.copy(ROOT / name, root / name)
        yield Workshop(root)
