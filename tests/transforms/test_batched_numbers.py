"""In a batch, Python numbers out of loops and branches take the dtype of arrays, as elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

NUMBERS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: fg.cond(x > 0, lambda: 1.5, lambda: 2.5),
    "cond of integers": lambda x: fg.cond(x > 0, lambda: (1, 2), lambda: (3, 4))[1],
    "cond with an operand": lambda x: fg.cond(x > 0, lambda y: 1.5, lambda y: 2.5, x),
    "switch": lambda x: fg.switch(fnp.astype(x, int), [lambda: 1.0, lambda: 2.5, lambda: 3]),
    "while_loop": lambda x: fg.while_loop(lambda c: c < x, lambda c: c + 0.5, 0.0),
    "a loop beside an array": lambda x: fg.while_loop(
        lambda c: c[0] < x, lambda c: (c[0] + 0.5, c[1] * c[0] + x), (1.0, x)
    )[0],
    "an array beside a number": lambda x: fg.while_loop(
        lambda c: c[0] < x, lambda c: (c[0] + 0.5, c[1] * c[0] + x), (1.0, x)
    )[1],
    "fori_loop": lambda x: fg.fori_loop(0, 3, lambda k, c: c + 0.5, 0.0),
    "scan": lambda x: fg.scan(lambda c, _: (c + 0.5, None), 0.0, None, length=3)[0],
}

USES: dict[str, Callable[[Any, Any], Any]] = {
    "factor": lambda number, x: number * x,
    "sum, then factor": lambda number, x: -(number + 2) * x,
    "function": lambda number, x: fnp.maximum(number, x) + fnp.where(x > 0, x, number),
    "power": lambda number, x: fnp.abs(x) ** (number / 2),
    "with itself": lambda number, x: fnp.sin(number),
    "in a stack": lambda number, x: fnp.stack([number, x])[1],
}

XS = np.array([0.25, 2.0, -1.0, 1.25], np.float32)


@together("number", NUMBERS.values(), ids=NUMBERS)
@together("use", USES.values(), ids=USES)
@pytest.mark.parametrize("staged", [False, True])
def test_a_batch_is_a_loop_in_dtype_too(number: Any, use: Any, staged: bool) -> None:
    def f(x: Any) -> Any:
        return use(number(x), x)

    expected = fnp.stack([f(x) for x in fg.tensor(XS)])
    install: Any = fg.jit if staged else lambda f: f
    square = np.stack([XS, XS[::-1]])
    for batched, found in (
        (install(fg.vmap(f))(XS), expected),
        (fg.vmap(install(f))(XS), expected),
        (install(fg.vmap(fg.vmap(f)))(square), fnp.stack([expected, expected[::-1]])),
    ):
        assert batched.dtype == found.dtype
        np.testing.assert_allclose(batched, found, 1e-6)


@together("number", NUMBERS.values(), ids=NUMBERS)
def test_derivatives_go_through_them(number: Any) -> None:
    def f(x: Any) -> Any:
        return number(x) * x**2

    expected = fnp.stack([fg.grad(f)(x) for x in fg.tensor(XS)])
    for found in (
        fg.vmap(fg.grad(f))(XS),
        fg.jit(fg.vmap(fg.grad(f)))(XS),
        fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(XS),
    ):
        assert found.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(found, expected, 1e-6)


def test_python_sees_the_number_of_an_example() -> None:
    def f(x: Any) -> Any:
        number = fg.cond(x > 0, lambda: 1.0, lambda: 2.0)
        return x * 10 if number > 1.5 else x * number

    np.testing.assert_array_equal(fg.vmap(f)(XS), [0.25, 2.0, -10.0, 1.25])
    assert fg.vmap(f)(XS).dtype == np.float32


def test_numbers_out_of_branches_in_branches() -> None:
    def f(x: Any) -> Any:
        return x * fg.cond(x > 0, lambda: fg.cond(x > 1, lambda: 1.5, lambda: 2.5), lambda: 0.5)

    batched = fg.vmap(f)(XS)
    assert batched.dtype == np.float32
    np.testing.assert_array_equal(batched, [f(x) for x in fg.tensor(XS)])
