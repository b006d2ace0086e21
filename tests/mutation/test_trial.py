"""Mistakes are planted where they are said to be, and tests see those that they can see."""

from pathlib import Path

import pytest

from tests.mutation.mutants import KINDS, mutants_of
from tests.mutation.trial import Workshop

SOURCE = """
def clipped(x, low, high):
    if x < low and low < high:
        return low
    return min(x, high) - 0
"""

TEST = """
from clipping import clipped


def test_clipped():
    assert [clipped(x, 1, 3) for x in (0, 2, 5)] == [1, 2, 3]
"""


def test_what_tests_see_and_what_they_miss(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "clipping.py").write_text(SOURCE)
    (tmp_path / "test_clipping.py").write_text(TEST)
    shop = Workshop(tmp_path)
    planted = {mutant.new: mutant for mutant in mutants_of(SOURCE)}

    def verdict(new: str) -> str:
        return shop.tried("clipping.py", planted[new], ["test_clipping.py"], 60.0).verdict

    assert verdict("False") == "killed"
    assert verdict("(x < low)") == "survived"
    assert (tmp_path / "clipping.py").read_text() == SOURCE
    with pytest.raises(ValueError, match="no tests were found"):
        shop.passes(["test_clipping.py", "-k=nothing"], 60.0)


def test_what_is_only_said_is_left_alone() -> None:
    source = """
def first(x: tuple[int, int] = (1, 2)) -> bool:
    \"\"\"Of 1 and 2.\"\"\"
    if x in (3, 4):
        raise ValueError(f"{x[0]} is not {1 + 1}")
    return x[0] == 5
"""
    found = mutants_of(source)
    assert {mutant.kind for mutant in found} <= {*KINDS}
    assert [mutant.old for mutant in found] == ["x in (3, 4)", "x in (3, 4)", "x[0] == 5", "0", "5"]
