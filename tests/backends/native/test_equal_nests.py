"""Nests that differ in their arrays alone are one function."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native.plan_steps import BoundFormula
from funcgrad._backends.native.sharing import LARGE
from tests.together import together

X = np.random.default_rng(0).standard_normal((8, 16))
W = X.T @ X / 16.0


def natively(f: Any) -> Any:
    return fg.jit(f, backend="native")


def functions_of_nests(f: Any) -> int:
    return len(re.findall(r"define internal void @nest\d", natively(f).lower(X).source))


@together(
    ("step", "functions"),
    [
        (lambda x, k: fnp.tanh(x) * 0.5 + 1.0, 1),
        (lambda x, k: fnp.tanh(x) * (0.5 + k), 0),
        (lambda x, k: x - fnp.max(x, axis=k % 2, keepdims=True), 2),
        (lambda x, k: fnp.arctan2((0.0, -0.0, 0.0)[k], x), 1),
        (lambda x, k: (fnp.sinh, fnp.cosh, fnp.sinh)[k](x), 1),
        (lambda x, k: fnp.tanh(x[:, :: (1, -1, 1)[k]]), 1),
        (lambda x, k: fnp.astype(x * 99.0, (np.int32, np.int64, np.int8)[k]) * 0.5, 0),
        (lambda x, k: fnp.cumsum(x, axis=k % 2) * x[:, ::-1], 1),
    ],
)
def test_equal_nests_are_one_function(step: Any, functions: int) -> None:
    def steps(x: Any) -> Any:
        for k in range(3):  # with products between them, which are steps of their own
            x = step(x, k) @ W
        return x

    assert functions_of_nests(steps) == functions
    expected: Any = X
    for k in range(3):
        alone = natively(lambda x, k=k: step(x, k))
        expected = natively(lambda x: x @ W)(alone(expected))
    assert_array_equal(natively(steps)(X), expected)


def test_nests_inside_of_loops_and_around_them_are_one_function() -> None:
    def f(x: Any) -> Any:
        ends = fg.scan(lambda c, _: (fnp.tanh(c) * 0.5 + 1.0, None), x, None, length=3)[0]
        return fnp.tanh(ends @ W) * 0.5 + 1.0

    assert functions_of_nests(f) == 1
    expected: Any = X
    for _ in range(3):
        expected = natively(lambda x: fnp.tanh(x) * 0.5 + 1.0)(expected)
    expected = natively(lambda x: fnp.tanh(x @ W) * 0.5 + 1.0)(expected)
    assert_array_equal(natively(f)(X), expected)


def test_operands_are_read_before_they_are_overwritten() -> None:
    """The first result of the later nests lies on an operand that their second member reads.

    In the first nest nothing is overwritten, so its lines would not do for the others.
    """
    x = np.random.default_rng(2).standard_normal((64, 64))
    w = np.random.default_rng(1).standard_normal((64, 64)) / 32.0

    def steps(x: Any) -> Any:
        p, q = x, x
        for k in range(4):
            p, q = p @ w, w @ q
            first, second = q * 2.0 + 1.0, p * 3.0 + 1.0
            p, q = first, second @ (q if k else q @ p)
        return p, q

    assert x.nbytes >= LARGE
    assert natively(steps).lower(x).source.count("call void @nest0(") == 3
    for result, expected in zip(natively(steps)(x), steps(x), strict=True):
        assert_allclose(result, expected, rtol=1e-9)


def test_formulas_are_told_apart_by_their_settings() -> None:
    def settled(value: Any) -> BoundFormula:
        return BoundFormula(max, (("base", value),))

    assert settled(2) == settled(2)
    for first, second in ((2, 2.0), (0.0, -0.0), (1, True), (np.float32(1.0), 1.0)):
        assert settled(first) != settled(second)
