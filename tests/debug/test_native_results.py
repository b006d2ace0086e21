"""Results of machine code are looked at: numbers of every width, at every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug, extend
from funcgrad.errors import NonFiniteError

pytest.importorskip("llvmlite")

DTYPES = (np.float16, np.float32, np.float64, np.complex64, np.complex128)


def inverse(x: Any) -> Any:
    return {"y": 1 / x, "count": fnp.count_nonzero(x), "truth": x.real > 0, "sum": fnp.sum(x)}


def called_natively(f: Any, *args: Any) -> Any:
    for _ in range(3):
        f(*args)
    return f


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_numbers_of_every_width_and_place_are_looked_at(dtype: Any) -> None:
    for size in (1, 31, 32, 33, 70):
        x = np.arange(1, size + 1).astype(dtype)
        f = called_natively(fg.jit(inverse, backend="native"), x)
        with debug.raise_nans():
            f(x)
            for place in {0, size // 2, size - 1}:
                bad = x.copy()
                bad[place] = 0
                with pytest.raises(NonFiniteError, match=rf"\['y'\]\[{place}\]"):
                    f(bad)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, complex(1, np.nan)])
def test_every_number_that_is_not_finite_is_seen(number: complex) -> None:
    f = called_natively(fg.jit(lambda x: x * 1.0, backend="native"), number)
    with debug.raise_nans(), pytest.raises(NonFiniteError):
        f(number)


@pytest.mark.parametrize("number", [0.0, -0.0, 5e-324, np.finfo(float).max, -np.finfo(float).max])
def test_numbers_at_the_ends_are_finite(number: float) -> None:
    f = called_natively(fg.jit(lambda x: (x * 1.0, x > 0, 3), backend="native"), number)
    with debug.raise_nans():
        f(number)


def test_nans_looks_at_calls_of_machine_code() -> None:
    f = called_natively(fg.jit(lambda x: fnp.log(x) + 1, backend="native"), 2.0)
    g = debug.nans(f)
    assert g(2.0) == f(2.0)
    with pytest.raises(NonFiniteError, match=r"nans: jit of <lambda>: the result is -inf"):
        g(0.0)
    assert f(0.0) == -np.inf  # afterwards nobody looks
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError):
        g(0.0)


def test_calls_of_python_inside_of_machine_code_are_not_looked_at() -> None:
    inner = called_natively(fg.jit(lambda x: 1 / x, backend="native"), 2.0)

    def evaluate(x: Any) -> Any:
        return np.minimum(np.asarray(inner(x)), 5.0)

    operation = extend.elementwise("capped_inverse", evaluate, partials=None)
    f = called_natively(fg.jit(lambda x: extend.apply(operation, x) + 1.0, backend="native"), 2.0)
    with debug.raise_nans():
        assert f(0.0) == 6.0
