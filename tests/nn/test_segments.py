"""Reductions of rows by segment, against NumPy's reduction of each group."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from tests.together import together

DRAWS = np.random.default_rng(3)
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "sum": (nn.segment_sum, np.sum, 0.0),
    "prod": (nn.segment_prod, np.prod, 1.0),
    "max": (nn.segment_max, np.max, -np.inf),
    "min": (nn.segment_min, np.min, np.inf),
    "mean": (nn.segment_mean, np.mean, 0.0),
}
IDS = {
    "in any order": np.array([2, 0, 2, 3, 0, 2]),
    "sorted": np.array([0, 0, 1, 1, 3, 4]),
    "dropped": np.array([-1, 0, 7, 5, 4, 4]),
    "none": np.zeros(0, int),
    "short": np.array([1, 1, 0], np.int8),
}


@together("name", REDUCTIONS)
@together("kind", IDS)
@together("tail", [(), (2, 2), (3,), (0,)], quick=2)
def test_each_segment_is_reduced(name: str, kind: str, tail: tuple[int, ...]) -> None:
    (ours, theirs, empty), ids = REDUCTIONS[name], IDS[kind]
    data = DRAWS.normal(size=(len(ids), *tail))
    groups = [data[ids == k] for k in range(5)]
    expected = [theirs(g, axis=0) if len(g) else np.full(tail, empty) for g in groups]
    for f in (ours, fg.jit(ours, static_argnums=2)):
        assert_allclose(np.asarray(f(data, ids, 5)), np.reshape(expected, (5, *tail)), rtol=1e-13)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_derivatives(name: str) -> None:
    reduce, ids = REDUCTIONS[name][0], IDS["in any order"]
    x = fg.tensor(DRAWS.normal(size=(6, 2)))
    fg.testing.check_grads(lambda x: reduce(x, ids, 4)[np.array([0, 2, 3])], (x,))


def test_softmax() -> None:
    ids = np.array([1, 0, 1, 1, 9])
    logits = np.array([1.0, 1e4, 2.0, -np.inf, 3.0])
    weights = np.array([1.0, 0.0, np.exp(1.0), 0.0, 0.0])
    expected = weights / (1 + np.exp(1.0)) + np.array([0, 1, 0, 0, 0])
    assert_allclose(np.asarray(nn.segment_softmax(logits, ids, 2)), expected, rtol=1e-15)
    x = fg.tensor(DRAWS.normal(size=3))
    fg.testing.check_grads(lambda x: nn.segment_softmax(x, ids[:3], 2), (x,))


def test_equal_rows_share_the_derivative_of_an_extremum() -> None:
    slope = fg.grad(lambda x: nn.segment_max(x, [0, 0, 1])[0])(fg.tensor([2.0, 2.0, 1.0]))
    assert slope.tolist() == [0.5, 0.5, 0.0]


def test_ids_of_a_batch() -> None:
    data, ids = DRAWS.normal(size=(4, 6)), DRAWS.integers(0, 3, (4, 6))
    batched = fg.vmap(lambda x, ids: nn.segment_sum(x, ids, 3))(data, ids)
    alone = [np.bincount(i, x, 3) for x, i in zip(data, ids, strict=True)]
    assert_allclose(np.asarray(batched), alone, rtol=1e-14)


LONG = {
    "sorted": np.repeat(np.arange(50), 200),
    "runs": np.repeat(np.array([3, 1, 3, 0, 2, 3]), 2000),
    "one": np.zeros(9000, int),
    "short runs": np.repeat(np.arange(2500), 4),
    "long, then short": np.concatenate([np.zeros(5000, int), np.tile([1, 2], 2500)]),
}


@together("dtype", ["f8", "f4", "c16", "i4", "i1", "?"])
@together("kind", LONG)
def test_long_runs_are_folded_first(kind: str, dtype: str) -> None:
    """The eager sum takes another order for them; values and derivatives are as without it."""
    ids = LONG[kind]
    data = (4 * DRAWS.normal(size=len(ids))).astype(dtype)
    count, start = int(ids.max()) + 1, fnp.zeros(int(ids.max()) + 1, dtype)
    expected = np.zeros(count, dtype)
    np.add.at(expected, ids, data)
    precision = {"f4": 1e-5, "f8": 1e-13, "c16": 1e-13}.get(dtype, 0)
    added = np.asarray(start.at[ids].add(data))
    assert added.dtype == dtype
    assert_allclose(added, expected, rtol=precision, atol=200 * precision)
    if dtype != "c16":
        greatest = np.asarray(start.at[ids].max(data))
        np.maximum.at(expected := np.zeros(count, dtype), ids, data)
        assert (greatest == expected).all()
    if dtype == "f8":
        slope = fg.grad(lambda x: fnp.sum(nn.segment_sum(x, ids, count) ** 2))(data)
        assert_allclose(np.asarray(slope), 2 * np.asarray(nn.segment_sum(data, ids, count))[ids])
        spread = fg.vjp(lambda t: t[ids], fnp.ones(count))[1](data)[0]
        assert_allclose(np.asarray(spread), np.bincount(ids, data, count), rtol=1e-12, atol=1e-11)


WRONG = {
    "ids have to be integers, got float64": lambda: nn.segment_sum([1.0], [0.0]),
    r"ids has to be a vector .* \(2,\) and \(3,\)": lambda: nn.segment_max(np.ones(3), [0, 1]),
    "num_segments has to be an integer, got -1": lambda: nn.segment_sum([1.0], [0], -1),
    "segment_softmax: num_segments": lambda: nn.segment_softmax([1.0], [0], 1.5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_say_so(message: str) -> None:
    with pytest.raises(fg.errors.FuncgradError, match=message):
        WRONG[message]()


def test_the_number_of_segments_is_static() -> None:
    with pytest.raises(fg.errors.FuncgradError):
        fg.jit(lambda x, ids: nn.segment_sum(x, ids))(np.ones(2), np.array([0, 1]))
