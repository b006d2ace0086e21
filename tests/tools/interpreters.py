"""``python -m tests.tools.interpreters``: run all tests under every CPython.

Each run has an environment of its own; one more has the lowest versions that ``pyproject.toml``
names, on the lowest CPython. The table of outcomes goes into ``examples/docs/stability.md``. It
takes some ten minutes a run; name versions to run some of them only::

    python -m tests.tools.interpreters 3.11 lowest 3.15

``tests/tools/interpreter.sh`` makes the newer CPythons, and needs root.

>>> lowest()["numpy"], outcome("1 failed, 2 passed in 3.21s (0:00:03)")
('2.0', '1 failed, 2 passed')
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "examples" / "docs" / "stability.md"
HEAD: Final = "| Python | NumPy, SciPy, llvmlite | `python -m pytest --all` |\n|---|---|---|\n"
WITHOUT: Final = ("dev", "docs", "all", "torch", "jax", "ipopt", "nutpie")
"""Extras for developers have no lowest version worth a test; bridges have tests of their own."""

VERSIONS: Final = (
    "import importlib.metadata as m, platform;"
    "print('versions', platform.python_version(), *map(m.version, ('numpy','scipy','llvmlite')))"
)


def lowest() -> dict[str, str]:
    """The lowest versions that users may have, by package."""
    project: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [line for extra in extras if extra not in WITHOUT for line in extras[extra]]
    needed = [Requirement(line) for line in [*project["dependencies"], *lines]]
    return {
        one.name: spec.version
        for one in needed
        for spec in one.specifier
        if spec.operator == ">=" and one.name != "funcgrad"
    }


def command() -> str:
    """The README's second command, with the slow tests."""
    readme = (ROOT / "README.md").read_text()
    commands: list[str] = re.findall(r"^ {4}(python -m pip .*)$", readme, re.MULTILINE)
    return commands[1] + " --all"


def arguments(row: str, folder: str) -> list[str]:
    """The command of a row: a fresh environment, the tests, and what was installed."""
    line = command()
    if row == "lowest":
        pins = " ".join(f'"{name}=={version}"' for name, version in lowest().items())
        line = line.replace('".[dev]"', f'".[dev]" {pins}')
    line = f'{line}; python -c "{VERSIONS}"'
    if row in ("lowest", "3.11"):
        made = f"python3.11 -m venv {folder} && . {folder}/bin/activate && cd {ROOT} && {line}"
        return ["bash", "-c", made]
    return [str(ROOT / "tests" / "tools" / "interpreter.sh"), row, line]


def outcome(text: str) -> str:
    """The counts in the last line that pytest prints."""
    last = [line for line in text.splitlines() if re.search(r" in \d+\.\d+s", line)][-1:]
    counts = re.findall(r"\d+ (?:failed|passed|errors?)\b", "".join(last))
    return ", ".join(counts) or "ended early"


def tried(row: str) -> str:
    """Run a row, and return its line of the table; pytest's text is kept in a file."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            arguments(row, folder), check=False, text=True, stdout=subprocess.PIPE
        )
    log = Path(tempfile.gettempdir()) / f"funcgrad-{row}.log"
    log.write_text(done.stdout)
    installed = re.findall(r"^versions (\S+) (.*)$", done.stdout, re.MULTILINE)
    python, packages = installed[-1] if installed else (row, "")
    note = ", all at their lowest" if row == "lowest" else ""
    return f"| {python} | {packages.replace(' ', ', ')}{note} | {outcome(done.stdout)} |"


def main(rows: Sequence[str]) -> int:
    """Run rows, all of them unless some are named; all make a new table. 1 if anything failed."""
    lines = []
    for row in rows or ("lowest", "3.11", "3.13", "3.14", "3.15"):
        lines.append(tried(row))
        print(lines[-1], flush=True)
    if not rows:
        before, _, after = PAGE.read_text().partition(HEAD)
        PAGE.write_text(before + HEAD + "\n".join(lines) + "\n\n" + after.partition("\n\n")[2])
    return int(any(re.search("failed|error|early", line) for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
