"""Whatever is passed to any public function beside the array functions: an error is one of ours.

Functions and parameters are found by discovery. Each call begins as one that works, and one of its
arguments is replaced by an odd value; what transformations make is called with odd arguments too.
What the user's own function raises is the user's. Where an integer is needed, nothing else does.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import funcgrad as fg
from funcgrad.errors import FuncgradError
from tests.differential.compare import called
from tests.differential.odd import odd_values
from tests.differential.samples import samples
from tests.differential.test_odd_arguments import NO_INTEGERS, replaced
from tests.differential.working_sample import Sample
from tests.together import together

HERE = str(Path(__file__).parent)
FUNCGRAD = str(Path(fg.__file__).parent)
# Values rather than functions: they have tests of their own.
CLASSES = frozenset(
    "Program Tensor Optimizer Differences FileDescription StoredTensor Cause Loss LostDigits"
    " BatchPath BatchPaths Mistake Notice Flat Pattern SparseArray Solution"
    " OdeResult OdeSolution StiffnessWarning TanhSinhResult OptimizerRun".split()
)
INTEGERS = frozenset("argnums axis_size num_classes order seed num".split())

SAMPLES = samples()


def is_class(name: str) -> bool:
    return name in CLASSES or name.endswith("State")


def public_functions() -> Iterator[str]:
    """By the names that users write."""
    modules = [("fg", fg)] + [
        (f"fg.{name}", value)
        for name in fg.__all__
        if isinstance(value := getattr(fg, name), ModuleType)
        and name not in ("numpy", "errors", "extend")
    ]
    for path, module in modules:
        for name in module.__all__:
            if not isinstance(getattr(module, name), ModuleType) and not is_class(name):
                yield f"{path}.{name}"


def called_in_full(sample: Sample, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outcome of a call and of what is done with its result."""
    return called(lambda: sample.then(sample.function(*args, **kwargs)), (), {})


def is_the_users(error: Exception) -> bool:
    """Whether what was raised came out of the user's function, or out of a call that it refuses."""
    if re.search(r"\b(Plain|cube)\b.* argument", str(error)):
        return True  # which it does not take
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    known = [name for name in files if name.startswith((FUNCGRAD, HERE))]
    return known[-1].startswith(HERE) and known[-1] != __file__


def judged(parameter: str, key: str, error: Exception | None) -> str | None:
    """What is wrong with an outcome; None where nothing is."""
    if error is None:
        wrong = parameter in INTEGERS and key in NO_INTEGERS
        return f"accepts {key}, which is no integer" if wrong else None
    if isinstance(error, (FuncgradError, MemoryError)) or is_the_users(error):
        return None
    if str(error).startswith("The truth value of"):
        return None  # an array as a flag
    return f"{type(error).__name__}: {error}"


def test_every_public_function_has_a_sample() -> None:
    found = set(public_functions())
    assert len(found) > 70
    assert found <= {name.split(" (")[0] for name in SAMPLES}


@together("name", SAMPLES)
def test_samples_work(name: str) -> None:
    sample = SAMPLES[name]
    outcome = called_in_full(sample, sample.args, sample.kwargs)
    assert outcome.error is None, outcome.error


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_odd_options_meet_meant_errors(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some odd values are paths
    sample = SAMPLES[name]
    wrong = []
    # A parameter has one of three odd values; its neighbour, and the next function, the others.
    for turn, (key, value) in enumerate(odd_values().items(), [*SAMPLES].index(name)):
        calls = [*replaced((sample.args, sample.kwargs), sample.function, value)]
        for parameter, (args, kwargs) in calls[turn % 3 :: 3]:
            found = judged(parameter, key, called_in_full(sample, args, kwargs).error)
            if found:
                wrong.append(f"{name}, {parameter} = {key}: {found}")
    assert not wrong, "\n".join(wrong[:5])
