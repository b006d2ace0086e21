"""Models of ONNX's, run by its reference evaluator and by onnxruntime, beside our programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcgrad as fg

TOLERANCES = {2: 2e-2, 4: 1e-6, 8: 1e-12}
"""Relative to the greatest number of an array, by the bytes of a number."""


def reference(model: Any, feed: dict[str, Any]) -> list[Any]:
    """The outputs that ONNX's reference evaluator gives."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of what the model computes
        return list(ReferenceEvaluator(model).run(None, feed))


def runtime(model: Any, feed: dict[str, Any]) -> list[Any]:
    """The outputs that onnxruntime gives."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, feed))


def feed_of(model: Any, staged: fg.Program, args: Sequence[Any]) -> dict[str, Any]:
    """The inputs of a program's model by their names."""
    leaves = zip(staged.names, fg.tree.leaves(args), staged.inputs, strict=True)
    arrays = {name: np.asarray(leaf, spec.dtype) for name, leaf, spec in leaves}
    return {each.name: arrays[each.name] for each in model.graph.input}


def difference(actual: Any, expected: Any) -> float:
    """How far two arrays are apart, in tolerances; 0 where infinities and NaN are the same."""
    a, b = np.asarray(actual), np.asarray(expected)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if b.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else np.inf
    plain = np.isfinite(b)
    if not np.array_equal(a[~plain], b[~plain], equal_nan=True):
        return np.inf
    scale = np.max(np.abs(b[plain]), initial=0.0) or 1.0
    off = np.subtract(a[plain], b[plain], dtype=np.float64)
    far = float(np.max(np.abs(off), initial=0.0) / scale)
    return far / TOLERANCES[b.dtype.itemsize] if np.isfinite(far) else np.inf


def checked(f: Callable[..., Any], *args: Any, by_runtime: bool = True, **options: Any) -> Any:
    """The model of a function's program, with values that were compared by both."""
    import onnx

    staged = fg.program(f)(*args)
    model = staged.to_onnx(**options)
    onnx.checker.check_model(model, full_check=True)
    expected = fg.tree.leaves(staged(*args))
    for run in (reference, runtime)[: 1 + by_runtime]:
        outs = run(model, feed_of(model, staged, args))
        worst = max([difference(a, b) for a, b in zip(outs, expected, strict=True)])
        assert worst <= 1, (run.__name__, worst)
    return model
