"""Bad input gets a result or an error in words for users, whatever is changed in a call that works.

The test tries a share of all changes, the same each time; ``python -m
tests.tools.refusals`` tries all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.test_names import MODULES
from tests.tools.refusals.modes import MODES
from tests.tools.refusals.sweep import ELSEWHERE, IN_OTHER_WORDS, functions, swept, swept_function
from tests.tools.refusals.sweep import working_call as call_of
from tests.tools.refusals.working_calls import WorkingCall

SHARES = {"eager": 8, "grad": 90, "vmap": 90, "jit": 600}
"""By mode, of how many changes one is tried: staging takes a hundred times as long as a call."""


@pytest.mark.slow  # all examples run once more, with each call looked at
def test_every_function_has_a_call_that_works() -> None:
    assert [path for path in functions() if call_of(path) is None] == []
    assert len(functions()) > 650
    assert set(ELSEWHERE) <= set(MODULES)
    assert set(IN_OTHER_WORDS) <= set(functions())


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_bad_input_meets_words_for_users(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a changed path is a file
    raw = [line for path in functions() for line in swept(path, mode, SHARES[mode])]
    assert not raw, f"{len(raw)} raw errors:\n" + "\n".join(raw[:40])


# ------------------------------------------------------------------- mistakes that the sweep finds


def _of_a_method(x: Any, mode: Any = "fast") -> Any:
    return fnp.sum(x) * len(mode.lower())


def _of_pairs(x: Any, ends: Any = (0, 1)) -> Any:
    low, high = ends
    return fnp.sum(x) * (high - low)


def _of_a_key(x: Any, mode: Any = "a") -> Any:
    return fnp.sum(x) * {"a": 1.0}[mode]


def _of_words(x: Any, mode: Any = "a") -> Any:
    if not isinstance(mode, str):
        raise fg.errors.ArgumentError("mode has to be a text.")
    return fnp.sum(x)


CALL = WorkingCall((np.ones(3),), {})


def as_of_funcgrad(function: Any) -> Any:
    """A function whose file counts as one of funcgrad."""
    code = function.__code__.replace(co_filename=fg.__file__)
    return type(function)(code, globals(), function.__name__, function.__defaults__)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_of_a_method, "AttributeError: 'int' object has no attribute 'lower'"),
        (_of_pairs, "unpack"),
        (_of_a_key, "KeyError"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_the_sweep_sees_raw_errors(function: Any, words: str, mode: str) -> None:
    raw = list(swept_function("planted", as_of_funcgrad(function), CALL, mode, 3))
    assert any(words in line for line in raw), raw
    assert all(line.startswith(f"planted, {mode}, ") for line in raw)


@pytest.mark.parametrize("mode", MODES)
def test_the_sweep_lets_words_pass(mode: str) -> None:
    assert list(swept_function("planted", as_of_funcgrad(_of_words), CALL, mode, 3)) == []
    assert list(swept_function("planted", _of_pairs, CALL, mode, 3)) == []  # the user's own
