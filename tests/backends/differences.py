"""Tests that differ on a device or a backend: a page lists them, and pytest reads it.

A line of ``on_devices.md`` that begins with ``- `` and a name in backquotes is a test, a file or a
folder, below a heading that names the option of pytest and a heading that says why. Under "Not run"
it is skipped; elsewhere it has to fail.

>>> reason, is_run = listed("--device fake")["tests/backends/native"]
>>> is_run, reason.partition(":")[0]
(False, 'About the host')
"""

from __future__ import annotations

from pathlib import Path

import pytest

_PAGE = Path(__file__).with_name("on_devices.md")


def listed(option: str) -> dict[str, tuple[str, bool]]:
    """The tests that differ, each with the reason, and with whether it is run."""
    tests, chapter, section = {}, "", ""
    for line in _PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            chapter = line[3:]
        elif line.startswith("### "):
            section = line[4:]
        elif line.startswith("- `") and f"`{option}`" in chapter:
            tests[line.split("`")[1]] = section, "not run" not in chapter
    return tests


def mark(items: list[pytest.Item], option: str) -> None:
    """Skip the tests that are not run, and expect the others of the list to fail."""
    tests = listed(option)
    for item in items:
        for name in _names(item.nodeid):
            if name in tests:
                reason, is_run = tests[name]
                item.add_marker((pytest.mark.xfail if is_run else pytest.mark.skip)(reason=reason))
                break


def _names(test: str) -> list[str]:
    """The test with its parameters, without them, its file, and its folders."""
    plain, _, _ = test.partition("[")
    path = Path(plain.partition("::")[0])
    return [test, plain, *[str(folder) for folder in (path, *path.parents)]]
