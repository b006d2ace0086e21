"""The plugin for pytest and the entry point for hypothesis, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import printed

REPOSITORY = Path(__file__).resolve().parents[2]

TESTS = """
import funcgrad as fg
import pytest

@fg.jit
def double(x):
    return 2 * x

def test_key(key):
    print("KEY", *key.tolist())

@pytest.mark.parametrize("n", [1, 2])
def test_other_keys(key, n):
    print("KEY", *key.tolist())

def test_reuse(key):
    fg.random.normal(key)
    fg.random.normal(key)

def test_stagings():
    assert isinstance(double(3.0), fg.Tensor)
    print("STAGINGS", double.stagings)
"""


def run(folder: Path, *options: str, text: str = TESTS, is_alone: bool = False) -> str:
    (folder / "test_sample.py").write_text(text)
    # Named here, since the metadata of an editable installation may be older than the entry point.
    loaded = [] if is_alone or is_registered("pytest11") else ["-p", "pytest_funcgrad"]
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *loaded, *options]
    plugin = REPOSITORY / "funcgrad" / "testing" / "plugin"
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{plugin}"}
    if is_alone:  # other plugins load NumPy
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command += ["-p", "pytest_funcgrad"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    return done.stdout + done.stderr


def is_registered(group: str) -> bool:
    return any(entry.name == "funcgrad" for entry in entry_points(group=group))


def keys_in(output: str) -> list[str]:
    return [line.strip(".") for line in output.splitlines() if "KEY" in line]


@pytest.mark.slow
def test_a_key_is_made_of_the_name_of_the_test(tmp_path):
    first, second = run(tmp_path), run(tmp_path, "-k", "key")
    assert "4 passed" in first or "5 passed" in first, first
    assert len(set(keys_in(first))) == 3
    assert {key.split("KEY")[1] for key in keys_in(first)} == {
        key.split("KEY")[1] for key in keys_in(second)
    }
    assert "STAGINGS 1" in first


def test_keys_are_checked_and_functions_run_eagerly_if_asked(tmp_path):
    output = run(tmp_path, "--funcgrad-keys", "--funcgrad-eager")
    assert "1 failed, 4 passed" in output
    assert "KeyReuseError" in output
    assert "STAGINGS 0" in output


@pytest.mark.slow
def test_nans_need_the_part_that_raises_them(tmp_path):
    import funcgrad

    output = run(tmp_path, "--funcgrad-nans")
    if hasattr(getattr(funcgrad, "debug", None), "raise_nans"):
        assert "5 passed" in output
    else:
        assert "--funcgrad-nans: funcgrad 0.1.0 has no debug.raise_nans." in output


def test_nothing_is_loaded_before_it_is_used(tmp_path):
    text = "import sys\ndef test_it():\n    assert not {'funcgrad', 'numpy'} & set(sys.modules)\n"
    output = run(tmp_path, text=text, is_alone=True)
    assert "1 passed" in output, output


def test_the_entry_points_exist():
    project: Any = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    for entry in project["entry-points"].values():
        module, _, name = entry["funcgrad"].partition(":")
        assert not name or callable(getattr(import_module(module), name))


RESOLVED = """
import hypothesis
from hypothesis import given, settings, find, strategies as hst
{register}
import dataclasses
import funcgrad as fg

@dataclasses.dataclass(frozen=True)
class Model:
    weight: fg.Tensor
    shift: fg.Tensor | None

@fg.pytree
class Layer:
    model: Model
    scale: fg.Tensor

@settings(max_examples=20, deadline=None, database=None)
@given(...)
def test(x: fg.Tensor, layer: Layer):
    assert isinstance(x, fg.Tensor) and isinstance(layer.model.weight, fg.Tensor)
    assert x.dtype == "float64"

test()
print(find(hst.builds(Model), lambda m: m.shift is not None))
"""


@pytest.mark.slow
@pytest.mark.parametrize("by_entry_point", [True, False])
def test_hypothesis_resolves_tensors_and_dataclasses_of_them(by_entry_point):
    if by_entry_point and not is_registered("hypothesis"):
        pytest.skip("the metadata of this installation are older than the entry point")
    register = "from funcgrad.testing.registration import register; register()"
    code = RESOLVED.format(register="" if by_entry_point else register)
    assert printed(code).strip() == "Model(weight=Tensor(0.5), shift=Tensor(0.5))"
