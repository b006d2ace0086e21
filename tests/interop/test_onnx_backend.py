"""ONNX's own tests of its operators, run against ``interop.onnx.load``."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from funcgrad import errors, interop

onnx = pytest.importorskip("onnx")

PASSED = 1400
"""At least so many pass, with onnx 1.23 as many as 1479; later versions have more of them."""


def nodes_tests() -> list[Any]:
    """The cases that ONNX's package makes, a model and its results each."""
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of infinities that the cases are about
        return list(load_model_tests(kind="node"))


def array_of(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value if value is None else np.asarray(value)


def outcome(case: Any) -> str:
    """What becomes of a case: it passes, or there is no such operator or dtype."""
    try:
        f, params = interop.onnx.load(case.model)
        for inputs, expected in case.data_sets:
            outs = f(params, *map(array_of, inputs))
            for out, wanted in zip(
                outs if isinstance(outs, tuple) else (outs,), expected, strict=True
            ):
                actual, wanted = np.asarray(out), array_of(wanted)
                assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype), case.name
                np.testing.assert_allclose(
                    actual, wanted, rtol=case.rtol, atol=case.atol, err_msg=case.name
                )
    except errors.DtypeError:
        return "other dtypes"
    except errors.ProgramError:
        return "other operators"
    return "passed"


def outcomes() -> Counter[str]:
    """How many cases have which outcome."""
    with np.errstate(all="ignore"):
        return Counter(map(outcome, nodes_tests()))


@pytest.mark.slow
def test_no_test_of_onnx_fails() -> None:
    counts = outcomes()
    assert counts["passed"] >= PASSED, counts
    assert sum(counts.values()) - counts["passed"] <= 0.25 * sum(counts.values()), counts
