"""Programs written for HIPS autograd return what they return there: numbers in ``golden.json``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.compat.golden import FILE, encoded
from tests.compat.programs import PROGRAMS, library
from tests.together import together

EXPECTED = json.loads(FILE.read_text("utf-8"))


def assert_equal(actual: Any, expected: Any, path: str) -> None:
    if isinstance(expected, dict) and "numbers" not in expected:
        assert actual.keys() == expected.keys(), path
        for key, item in expected.items():
            assert_equal(actual[key], item, f"{path}[{key!r}]")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), path
        for k, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(one, other, f"{path}[{k}]")
    else:
        assert actual["shape"] == expected["shape"], path
        np.testing.assert_allclose(
            actual["numbers"], expected["numbers"], rtol=1e-8, atol=1e-9, err_msg=path
        )


def test_every_program_has_its_numbers() -> None:
    assert EXPECTED.keys() == PROGRAMS.keys()


@together("name", PROGRAMS)
def test_a_program_returns_what_it_returned(name: str) -> None:
    result = PROGRAMS[name](library("funcgrad.compat.autograd"))
    assert_equal(encoded(result), EXPECTED[name], name)


def test_other_numbers_are_seen() -> None:
    expected = EXPECTED["primitive"]
    changed = json.loads(json.dumps(expected))
    changed[2]["numbers"][0][1] += 1e-6
    with pytest.raises(AssertionError, match=r"primitive\[2\]"):
        assert_equal(changed, expected, "primitive")
