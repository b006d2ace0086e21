"""Mistakes are planted where they are said to be, and tests see those that they can see."""

import ast
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.mutation.__main__ import main
from tests.tools.mutation.mutants import KINDS, Mutant, mutants_of
from tests.tools.mutation.project import ONLY_SPEED, rounds_of, sampled, subjects
from tests.tools.mutation.trial import ROOT, Outcome, Workshop

pytestmark = pytest.mark.slow

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


SLOW_TEST = """
import pytest
from clipping import clipped


@pytest.mark.slow
def test_clipped_below():
    assert clipped(0, 1, 3) == 1


def test_clipped_above():
    assert clipped(5, 1, 3) == 3
"""


def test_what_only_slow_tests_see_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    markers = "[tool.pytest.ini_options]\nmarkers = ['slow']\n"
    (tmp_path / "pyproject.toml").write_text(markers)
    (tmp_path / "clipping.py").write_text(SOURCE)
    (tmp_path / "test_clipping.py").write_text(SLOW_TEST)
    monkeypatch.setattr("tests.tools.mutation.__main__.ROOT", tmp_path)
    monkeypatch.setattr(
        "tests.tools.mutation.__main__.workshop", lambda: nullcontext(Workshop(tmp_path))
    )
    command = [str(tmp_path / "clipping.py"), "--tests", "test_clipping.py", "--quick"]
    assert main([*command, "--seconds", "60"]) == 1
    out = capsys.readouterr().out
    planted = {
        mutant.new: Outcome("clipping.py", mutant, "slowly") for mutant in mutants_of(SOURCE)
    }
    assert str(planted["False"]) in out
    assert str(replace(planted["(x < low)"], verdict="survived")) in out
    assert "only by slow tests" in out


def test_what_is_only_said_is_left_alone() -> None:
    source = """
Pair: TypeAlias = "tuple[int, int]" | list[Callable[[int, str], int]]

def first(x: tuple[int, int] = (1, 2)) -> bool:
    \"\"\"Of 1 and 2.\"\"\"
    if x in (3, 4):
        kept: dict[str, int] = cast(Callable[[int, int], int], dict[str, int]())
        raise ValueError(f"{x[0]} is not {1 + 1}")
    return x[0] == 5
"""
    found = mutants_of(source)
    assert {mutant.kind for mutant in found} <= {*KINDS}
    assert [mutant.old for mutant in found] == ["x in (3, 4)", "x in (3, 4)", "x[0] == 5", "0", "5"]


def test_samples_and_what_is_left_out_by_name_are_left_alone() -> None:
    source = """
def _samples() -> Iterator[Sample]:
    yield Sample((1 - 2,))


def estimate(x):
    return x - 1


absolute = elementwise("absolute", samples=edges(0.0, 1))
scaled = rows(x.shape[0], edges(2))
"""
    found = [(each.kind, each.old, each.new) for each in mutants_of(source, ["estimate"])]
    assert found == [("wrong axis", "0", "-1"), ("off by one", "0", "1")]


def test_what_stands_before_a_decorated_class_is_mistaken_too() -> None:
    source = "x = y < 1\n\n\n@final\n@dataclass(slots=a < b)\nclass C:\n    z = x < 2\n"
    assert {each.line for each in mutants_of(source)} == {1, 5, 7}


def test_signs_are_turned() -> None:
    source = "y = negative(x) - -z"
    signs = [each.planted(source) for each in mutants_of(source) if each.kind == "wrong sign"]
    assert signs == ["y = negative(x) + (-z)", "y = (x) - -z", "y = negative(x) - (z)"]


def test_a_run_that_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (ROOT / "tests/counts.py").read_text()
    planned = [Outcome("tests/counts.py", each, "killed") for each in mutants_of(source)]
    report = tmp_path / "report.txt"
    report.write_text(f"{planned[0]}\n")
    tried: list[Mutant] = []

    def passes(shop: Workshop, tests: Sequence[str], seconds: float) -> str:
        changed = (shop.root / "tests/counts.py").read_text()
        tried.extend(each.mutant for each in planned if each.mutant.planted(source) == changed)
        return "survived"

    monkeypatch.setattr(Workshop, "passes", passes)
    command = ["tests/counts.py", "--tests", "tests/test_growth.py", "--report", str(report)]
    assert main(command) == 1
    assert tried == [each.mutant for each in planned[1:]]
    assert f"all: 1 of {len(planned)} killed" in capsys.readouterr().out
    assert main(command) == 1
    assert tried == [each.mutant for each in planned[1:]]  # no more
    capsys.readouterr()
    assert main([*command, "--again", str(report), "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(planned) - 1


def test_a_sample_is_spread_over_folders_files_and_kinds() -> None:
    """Of folders with one, four and nine files, which have one, four or six kinds of mistakes."""
    planned = [
        (f"{folder}/{number}.py", Mutant(kind, line, 1, line, line, "x", "y"))
        for folder, count in (("a", 1), ("b", 4), ("b/c", 9))
        for number in range(count)
        for kind in KINDS[: (1, 4, 6)[number % 3]]
        for line in range(20 + 10 * number)
    ]
    chosen = sampled(planned, 27, seed=1)
    assert len({*chosen}) == 27
    assert chosen == sampled(planned, 27, seed=1) != sampled(planned, 27, seed=2)
    assert {path for path, _ in chosen} == {path for path, _ in planned}
    assert set(Counter(str(Path(path).parent) for path, _ in chosen).values()) == {9}
    kinds = Counter(mutant.kind for path, mutant in chosen if path != "a/0.py")
    assert {*kinds} == {*KINDS}
    assert min(kinds.values()) >= 2
    assert chosen[:10] == sampled(planned, 10, seed=1)


def test_the_project_has_mistakes_of_every_kind_outside_of_estimates() -> None:
    path = "funcgrad/_primitives/banded_systems.py"
    assert path in subjects(ROOT)
    assert "funcgrad/_passes/costs.py" not in subjects(ROOT)
    assert {each.kind for each in mutants_of((ROOT / path).read_text())} == {*KINDS}


def test_every_subject_has_tests_and_every_name_of_the_table_is_there() -> None:
    packages = {str(Path(path).parent) for path in subjects(ROOT)}
    assert packages > {"funcgrad", "funcgrad/optim", "funcgrad/io", "funcgrad/_hints"}
    for path in subjects(ROOT):
        rounds = rounds_of(path)
        assert rounds
        assert ("tests",) not in rounds
        assert all(">>> " in (ROOT / own[0]).read_text() for own in rounds if own == (path,))
        assert all((ROOT / each).exists() for own in rounds for each in own if "/" in each)
    for path, names in ONLY_SPEED.items():
        tree = ast.parse((ROOT / path).read_text())
        assert {*names} <= {getattr(node, "name", None) for node in ast.walk(tree)}
