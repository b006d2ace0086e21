"""The comparison with the plain loop sees mistakes that are planted in paths of a batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._transforms import answers, batch_runs, batcher, paths
from tests.transforms.support import assert_same

X = np.array([3.0, -2.0, 0.5, 40.0, -1.0, 7.0, 2.5], "f4")  # the last goes with the first


def f(x: Any) -> Any:
    if x > 0:
        while x > 1.0:
            x = x / 2
        return fnp.log(x + 1)
    return x * x if x < -1.5 else 2


def check() -> None:
    """Values, dtypes, and derivatives on both sides of `vmap`, beside the loop."""
    singles = [fg.tensor(x) for x in X]
    out = fg.vmap(f)(X)
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.asarray(out), [float(f(x)) for x in singles], rtol=1e-6)
    slopes = np.array([float(fg.grad(lambda x: f(x) * x)(x)) for x in singles], "f4")
    assert_same(fg.vmap(fg.grad(lambda x: f(x) * x))(X), slopes, rtol=1e-5)
    assert_same(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs) * xs))(X), slopes, rtol=1e-5)
    assert_same(fg.jit(fg.vmap(lambda x: x if x > 0 else -x))(-X), np.abs(X))


def swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda data, rows: function(data, rows[::-1])


def lost(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda groups, size: function(groups[:-1], size)


def unjoined(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda parts, groups: [
        (np.float64(value) if flag is False else value, flag) for value, flag in parts
    ]


def unnarrowed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, data, size: data[-size:]


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda raw, use: function(np.ones_like(raw), use)


def unselected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mask, new, old: new


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (paths, "examples_at", swapped),
        (batch_runs, "examples_at", swapped),
        (batch_runs, "joined", lost),
        (paths, "alike", unjoined),
        (batcher.Batcher, "_narrowed", unnarrowed),
        (batcher, "answers_of", by_value),
        (paths, "chosen_examples", unselected),
    ],
)
def test_a_mistake_is_seen(
    module: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(module, name, mistake(getattr(module, name)))
    with pytest.raises((AssertionError, ValueError, IndexError, TypeError)):
        check()


def test_answers_are_grouped_by_the_look() -> None:
    numbers = np.array([0.5, -0.5, 1.5, np.nan, -0.0, 0.0])
    groups = lambda use: [  # noqa: E731
        rows.tolist() for rows in answers.rows_by_answer(answers.answers_of(numbers, use))
    ]
    assert groups("bool(t)") == [[0, 1, 2, 3], [4, 5]]
    assert groups("int(t)") == [[0, 1, 4, 5], [2], [3]]
    assert groups("round(t)") == [[0, 1, 4, 5], [2], [3]]
    assert groups("float(t)") == [[0], [1], [2], [3], [4], [5]]
