"""Mistakes are planted where they are said to be, and tests see those that they can see."""

import ast
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.tools.mutation.__main__ import main
from tests.tools.mutation.mutants import KINDS, Mutant, mutants_of
from tests.tools.mutation.project import ONLY_SPEED, sampled, subjects
from tests.tools.mutation.reach import Reach, block_at, instrumented
from tests.tools.mutation.trial import ROOT, Outcome, forked, planted

pytestmark = pytest.mark.slow

SOURCE = """
def clipped(x, low, high):
    if x < low and low < high:
        return low
    return min(x, high) - 0


def shifted(x):
    return x - SHIFT


SHIFT = 2 - 1
unseen = lambda x: x - 5
"""

TEST = """
import pytest
from funcgrad.clipping import clipped, shifted


def test_clipped():
    assert [clipped(x, 1, 3) for x in (2, 5)] == [2, 3]


@pytest.mark.slow
def test_clipped_below():
    assert clipped(0, 1, 3) == 1


def test_shifted():
    assert shifted(5) == 4
"""

CONFTEST = """
import funcgrad.clipping
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")
"""


def test_what_quick_and_slow_tests_see_and_what_they_miss(tmp_path: Path) -> None:
    """The tool tries a small project: with code exchanged, and with the module imported anew."""
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\npythonpath = ['.']\n"
        "testpaths = ['tests/test_clipping.py']\naddopts = ['--import-mode=importlib']\n",
        "tests/__init__.py": "",  # else an installed project's folder of tests comes first
        "tests/tools/__init__.py": "",
        "tests/conftest.py": CONFTEST,
        "funcgrad/__init__.py": "",
        "funcgrad/clipping.py": SOURCE,
        "tests/test_clipping.py": TEST,
        "README.md": "",
        "CHANGELOG.md": "",
        "examples/empty.py": "",
        "typings/empty.pyi": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / "tests/tools/mutation", tmp_path / "tests/tools/mutation")
    (tmp_path / "tests/tools/mutation/test_trial.py").unlink()
    shutil.copy(ROOT / "tests/tools/proofs.py", tmp_path / "tests/tools")
    report = tmp_path / "report.txt"
    command = [sys.executable, "-m", "tests.tools.mutation", "funcgrad/clipping.py", "--slow"]
    command += ["--report", str(report), "--reach", str(tmp_path / "reach.npz")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HYPOTHESIS_NO_PLUGINS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert report.exists(), done.stdout + done.stderr
    assert done.returncode == 1
    verdicts = {
        mutant.new: next(
            word
            for word in ("killed", "slowly", "survived", "unreached")
            if any(map(Outcome("funcgrad/clipping.py", mutant, word).is_told_in, lines))
        )
        for lines in [report.read_text().splitlines()]
        for mutant in mutants_of(SOURCE)
    }
    assert verdicts["min(x, high) + 0"] == "survived"
    assert verdicts["(x >= low)"] == "killed"  # x < low
    assert verdicts["False"] == "slowly"
    assert verdicts["(x < low)"] == "survived"
    assert verdicts["x + SHIFT"] == "killed"
    assert verdicts["2 + 1"] == "killed"  # at import
    assert verdicts["x - 5" if "x - 5" in verdicts else "x + 5"] == "unreached"
    assert (tmp_path / "funcgrad/clipping.py").read_text() == SOURCE


def test_works_end_in_time_or_are_ended() -> None:
    assert forked(lambda: 3, 60.0, "late", "died") == 3
    assert forked(lambda: time.sleep(60), 0.1, "late", "died") == "late"
    assert forked(lambda: os._exit(1), 60.0, "late", "died") == "died"


def test_mistakes_are_taken_out_again(tmp_path: Path) -> None:
    file = tmp_path / "clipping.py"
    file.write_text(SOURCE)
    before = file.stat().st_mtime_ns
    mutant = mutants_of(SOURCE)[0]
    with planted(file, mutant) as sources:
        assert sources == (SOURCE, mutant.planted(SOURCE))
        assert file.read_text() == sources[1]
    assert file.read_text() == SOURCE
    assert file.stat().st_mtime_ns == before


def test_every_statement_of_a_function_has_a_block() -> None:
    for path in ("funcgrad/_passes/simplify.py", "tests/tools/mutation/reach.py"):
        source = (ROOT / path).read_text()
        tree, spans = instrumented(source, 7)
        compile(tree, path, "exec")
        assert {*range(7, 1 + max(span[4] for span in spans))} == {span[4] for span in spans}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                for inside in node.body[1:]:
                    assert block_at(spans, inside.lineno, inside.col_offset) is not None


def test_the_reach_of_tests_is_kept(tmp_path: Path) -> None:
    executed = np.packbits([[1, 0, 0] + [0] * 7, [1, 1, 0] + [0] * 7], axis=1)
    tests = {"a": (False, 2.0), "b": (True, 0.5)}
    places = {"f.py": [(1, 0, 4, 0, 0), (2, 4, 3, 0, 1)]}
    Reach(places, tests, executed, executed[0]).saved(tmp_path / "reach.npz")
    reach = Reach.loaded(tmp_path / "reach.npz")
    assert [reach.block("f.py", *place) for place in ((1, 1), (2, 5), (4, 1))] == [0, 1, None]
    assert [reach.of([block]) for block in (0, 1, 2)] == [["b", "a"], ["b"], []]
    assert [reach.is_imported(block) for block in (0, 1)] == [True, False]


def test_what_is_only_said_is_left_alone() -> None:
    source = """
Pair: TypeAlias = "tuple[int, int]" | list[Callable[[int, str], int]]

def first(x: tuple[int, int] = (1, 2)) -> bool:
    \"\"\"Of 1 and 2.\"\"\"
    if not TYPE_CHECKING:
        return x @ x, isinstance(x, (int, float)), 0
    if x in (3, 4):
        kept: dict[str, int] = cast(Callable[[int, int], int], dict[str, int]())
        raise ValueError(f"{x[0]} is not {1 + 1}")
    return x[0] == 5
"""
    found = mutants_of(source)
    assert {mutant.kind for mutant in found} <= {*KINDS}
    olds = [mutant.old for mutant in found]
    assert olds == ["0", "x in (3, 4)", "x in (3, 4)", "x[0] == 5", "0", "5"]


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


def test_mistakes_are_python() -> None:
    for path in ("funcgrad/_primitives/lu.py", "funcgrad/_primitives/banded_systems.py"):
        source = (ROOT / path).read_text()
        for mutant in mutants_of(source):
            ast.parse(mutant.planted(source))
    assert [each.new for each in mutants_of("x[1:, k]")] == ["2"]


def test_a_run_that_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (ROOT / "tests/counts.py").read_text()
    planned = [Outcome("tests/counts.py", each, "killed") for each in mutants_of(source)]
    report = tmp_path / "report.txt"
    report.write_text(f"{planned[0]}  by tests/test_counts.py::test\n")
    tried: list[Mutant] = []

    class Trials:
        def __init__(self, *options: object) -> None:
            self.suite = SimpleNamespace(seconds=0.0, close=list)
            self.needs_import = lambda path, mutant: False

        def outcome(self, path: str, mutant: Mutant) -> Outcome:
            tried.append(mutant)
            return Outcome(path, mutant, "survived")

    monkeypatch.setattr("tests.tools.mutation.__main__._Trials", Trials)
    monkeypatch.setattr("tests.tools.mutation.__main__._reach", vars)
    command = ["tests/counts.py", "--here", "--report", str(report)]
    assert main(command) == 1
    assert tried == [each.mutant for each in planned[1:]]
    assert f"all {len(planned)}: 1 killed" in capsys.readouterr().out
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


def test_every_name_of_the_table_is_there() -> None:
    packages = {str(Path(path).parent) for path in subjects(ROOT)}
    assert packages > {"funcgrad", "funcgrad/optim", "funcgrad/io", "funcgrad/_hints"}
    for path, names in ONLY_SPEED.items():
        tree = ast.parse((ROOT / path).read_text())
        assert {*names} <= {getattr(node, "name", None) for node in ast.walk(tree)}
