"""Reverse mode of scans whose last carry is read in part: the first steps backwards run alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

LENGTHS = [0, 1, 2, 3, 5]


def _chain(count: int) -> Any:
    """A loop whose last result depends on an input some steps before."""

    def chained(scan: Any, w: Any, start: Any, xs: Any, reverse: bool = False) -> Any:
        def step(carry: Any, x: Any) -> Any:
            moved = [fnp.sin(w * carry[0]) + x]
            for before, own in pairwise(carry):
                moved.append(own * 0.9 + fnp.cos(before) * w * x)
            return tuple(moved), None

        carry = (*[start * (k + 1) for k in range(count)], fnp.asarray(0.0))
        return scan(step, carry, xs, reverse=reverse)[0][-1]

    return chained


def _last_alone(scan: Any, w: Any, start: Any, xs: Any, reverse: bool = False) -> Any:
    """The slice and the shared value of the last step do not count; those before do in part."""

    def step(carry: Any, x: Any) -> Any:
        state, total = carry
        return (w * fnp.where(x > 0, x, state), total + fnp.exp(state)), None

    return scan(step, (start, fnp.asarray(0.0)), xs, reverse=reverse)[0][1]


def _with_rows(scan: Any, w: Any, start: Any, xs: Any, reverse: bool = False) -> Any:
    """What each step gives is read in part, too."""

    def step(carry: Any, x: Any) -> Any:
        state, total = carry
        return (fnp.tanh(w * state + x), total + state * x), (total * w, state)

    (_, total), ys = scan(step, (start, fnp.asarray(0.0)), xs, reverse=reverse)
    return total + fnp.sum(ys[0][::2])


def _overwritten(scan: Any, w: Any, start: Any, xs: Any, reverse: bool = False) -> Any:
    """What the last step alone shares with the result."""

    def step(carry: Any, x: Any) -> Any:
        state, _ = carry
        return (fnp.sin(state) + x, w * state), None

    return scan(step, (start, fnp.asarray(0.0)), xs, reverse=reverse)[0][1]


def _of_vectors(scan: Any, w: Any, start: Any, xs: Any, reverse: bool = False) -> Any:
    """Of what all steps share, the last reads all, those before it what their masks let through."""
    shared, odd = w * fnp.arange(1.0, 4.0), np.array([False, True, False])

    def step(carry: Any, x: Any) -> Any:
        state, _ = carry
        return (fnp.where(odd, shared, state * x), fnp.sum(fnp.sin(shared) * state)), None

    begun = (start * fnp.ones(3), fnp.asarray(0.0))
    return scan(step, begun, xs, reverse=reverse)[0][1]


FUNCTIONS = {
    "chain of 1": _chain(1),
    "chain of 2": _chain(2),
    "chain of 4": _chain(4),
    "last alone": _last_alone,
    "with rows": _with_rows,
    "overwritten": _overwritten,
    "of vectors": _of_vectors,
}


def _args(length: int) -> tuple[Any, Any, Any]:
    xs = np.random.default_rng(length).standard_normal(length)
    return fnp.asarray(0.7), fnp.asarray(0.3), fg.tensor(xs)


def _scan(f: Any, carry: Any, xs: Any, reverse: bool) -> Any:
    return fg.scan(f, carry, xs, reverse=reverse)


def _same(found: Any, expected: Any) -> None:
    for own, other in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@together("reverse", [False, True])
@together("length", LENGTHS)
@together("name", FUNCTIONS)
def test_gradients_are_those_of_a_python_loop(name: str, length: int, reverse: bool) -> None:
    def own(w: Any, start: Any, xs: Any) -> Any:
        return FUNCTIONS[name](_scan, w, start, xs, reverse)

    gradient, args = fg.grad(own, (0, 1, 2)), _args(length)
    expected = gradient(*args)
    _same(fg.jit(gradient)(*args), expected)
    numbers = fg.jit(gradient)(*map(float, args[:2]), args[2])  # Python's
    np.testing.assert_allclose([float(x) for x in numbers[:2]], [float(x) for x in expected[:2]])


@together("length", [1, 3, 4], quick=2)
@together("name", ["chain of 2", "last alone", "with rows"])
def test_so_are_those_of_gradients_and_of_batches(name: str, length: int) -> None:
    def own(w: Any, start: Any, xs: Any) -> Any:
        return FUNCTIONS[name](_scan, w, start, xs)

    def first(w: Any, start: Any, xs: Any) -> Any:
        parts = fg.grad(own, (0, 1, 2))(w, start, xs)
        return sum([fnp.sum(part * part) for part in parts])

    args = _args(length)
    _same(fg.jit(fg.grad(first, (0, 1, 2)))(*args), fg.grad(first, (0, 1, 2))(*args))
    tangents = (fnp.asarray(1.0), fnp.asarray(0.5), fnp.ones(length))
    _same(fg.jit(lambda *xs: fg.jvp(first, xs, tangents))(*args), fg.jvp(first, args, tangents))
    batch = fg.tensor([0.2, 0.7])
    gradients = fg.vmap(fg.grad(own, (0, 1, 2)), in_axes=(0, None, None))
    found = fg.jit(gradients)(batch, *args[1:])
    for k, w in enumerate(batch):
        _same([part[k] for part in found], fg.grad(own, (0, 1, 2))(w, *args[1:]))


def test_what_is_not_read_stays_absent_at_the_last_step() -> None:
    def own(scale: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            state, total = carry
            return (fnp.sqrt(x * scale), total + state * x), None

        return fg.scan(step, (fnp.asarray(1.0), fnp.asarray(0.0)), xs)[0][1]

    xs = fg.tensor([1.0, 4.0, 0.0])  # the root's derivative is infinite at the last
    for gradient in (fg.grad(own, (0, 1)), fg.jit(fg.grad(own, (0, 1)))):
        by_scale, by_xs = gradient(fnp.asarray(2.0), xs)
        assert float(by_scale) == pytest.approx(2 / 2**0.5)
        np.testing.assert_allclose(by_xs, [1 + 2 * 2**0.5, 2**0.5, 8**0.5])


@pytest.mark.parametrize(("count", "is_free"), [(1, True), (2, True), (3, False)])
def test_the_loop_backwards_carries_no_masks(count: int, is_free: bool) -> None:
    def own(w: Any, start: Any, xs: Any) -> Any:
        return _chain(count)(_scan, w, start, xs)

    text = fg.program(fg.grad(own, (0, 1, 2)))(*_args(6)).to_text(sources=False)
    assert (" bool[" not in text) == is_free
    assert (f"length={6 - count} " in text) == is_free
    short = fg.program(fg.grad(own))(*_args(count)).to_text(sources=False)
    assert " bool[" in short
