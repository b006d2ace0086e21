"""Tests of `jitting.py`: what a second run on another backend leaves out."""

import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
import pytest
import funcgrad as fg

@fg.jit
def shared(x):
    return x + 1.0
"""
TESTS = """
import pytest
import funcgrad as fg
{import_line}

@pytest.fixture(scope="module")
def jitted():
    return fg.jit(lambda x: 2.0 * x)

def test_independent():
    assert fg.grad(lambda x: x * x)(3.0) == 6.0

def test_jits():
    assert fg.jit(lambda x: x * x)(3.0) == 9.0

def test_jits_in_setup(jitted):
    assert True

def test_names_its_backend():
    assert fg.jit(lambda x: x * x, backend="numpy")(3.0) == 9.0

@pytest.mark.skipif({skipped}, reason="on the first run")
def test_skipped_first():
    assert True
"""


def passed(folder: Path, *options: str) -> set[str]:
    """The names of the tests that run and pass."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n0", "-v", "--rootdir=."]
    command += ["-c", "pytest.ini", "--backend", "numpy", *options, "test_these.py"]
    (folder / "pytest.ini").write_text("[pytest]\n")
    root = str(Path(__file__).parents[1])
    env = {"PYTHONPATH": f"{root}:{folder}", "PATH": "", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if " PASSED " in line]
    return {line.split("::")[1].split()[0].removeprefix("test_") for line in lines}


@pytest.mark.slow
def test_what_depends_on_the_backend_runs_again(tmp_path: Path) -> None:
    these = tmp_path / "test_these.py"
    these.write_text(TESTS.format(import_line="", skipped=True))
    every = {"independent", "jits", "jits_in_setup", "names_its_backend"}
    assert passed(tmp_path, "--jitting") == every
    these.write_text(TESTS.format(import_line="", skipped=False))
    assert passed(tmp_path, "--jitting") == {"jits", "jits_in_setup", "skipped_first"}


@pytest.mark.slow
def test_files_that_hold_jitted_functions_run_again(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(FILE)
    these = tmp_path / "test_these.py"
    these.write_text(TESTS.format(import_line="from helper import shared", skipped=False))
    assert passed(tmp_path) == passed(tmp_path, "--jitting")
