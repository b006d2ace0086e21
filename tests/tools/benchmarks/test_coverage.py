"""The page that compares funcgrad with other libraries is up to date in funcgrad's columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.benchmarks.coverage import Family, differences, families, members

PAGE = (Path(__file__).parents[3] / "funcgrad" / "COVERAGE.md").read_text("utf-8")


def listed(heading: str, title: str) -> set[str]:
    """The functions of a module that a part of the page names."""
    assert f"## {heading}\n" in PAGE
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    line = re.search(rf"^- `{re.escape(title)}`: (.*)$", part, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", line[1])) if line else set()


@pytest.mark.parametrize("family", list(families()), ids=lambda family: family.title)
def test_the_page_is_in_step(family: Family) -> None:
    own = members(family.names, family.ours)
    remedy = "python -m tests.tools.benchmarks.coverage > funcgrad/COVERAGE.md"
    assert not own & listed("Only in other libraries", family.title), remedy
    assert listed("Only in funcgrad", family.title) <= own, remedy
    row = re.search(rf"^\| `{re.escape(family.title)}` \| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert row is not None, remedy
    assert (int(row[1]), int(row[2])) == (len(family.names), len(own)), remedy


def test_the_page_says_where_versions_differ() -> None:
    assert PAGE.endswith(differences())
