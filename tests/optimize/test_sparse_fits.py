"""Fits with a sparse Jacobian: as with a dense one, in linear memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, FuncgradError, ShapeError
from funcgrad.optimize import curve_fit, least_squares
from tests.together import together

pytest.importorskip("scipy.sparse")

SIZE = 30
DATA = np.sin(np.arange(SIZE) / 5.0)
TIGHT: dict[str, Any] = {"xtol": 1e-13, "ftol": 1e-13, "gtol": 1e-13}


def chain(x: Any, weight: Any) -> Any:
    """Values close to data, whose squares change slowly."""
    return x - DATA, weight * fnp.diff(x**2 + x)


def fitted(weight: Any, **options: Any) -> Any:
    return least_squares(chain, fnp.zeros(SIZE), args=(weight,), **{**TIGHT, **options})


@together(
    "options",
    [
        {},
        {"method": "gn"},
        {"bounds": (-0.5, 0.5)},
        {"loss": "soft_l1", "f_scale": 0.1},
        {"x_scale": 0.1},
    ],
)
def test_a_sparse_fit_is_a_dense_one(options: dict[str, Any]) -> None:
    dense, sparse = [fitted(2.0, jac=jac, **options) for jac in (None, "sparse")]
    np.testing.assert_allclose(sparse.x, dense.x, rtol=1e-8, atol=1e-10)
    assert isinstance(sparse.jac, fg.sparse.SparseArray)
    assert sparse.jac.nnz == SIZE + 2 * (SIZE - 1)
    np.testing.assert_allclose(sparse.jac.toarray(), dense.jac, rtol=1e-7, atol=1e-9)
    given = fitted(2.0, jac_sparsity=sparse.jac.pattern, **options)
    np.testing.assert_array_equal(given.x, sparse.x)


def test_derivatives_batches_and_programs() -> None:
    def total(weight: Any, jac: Any = "sparse") -> Any:
        return fnp.sum(fitted(weight, jac=jac).x ** 3)

    slope = fg.grad(total)(2.0, None)
    np.testing.assert_allclose(fg.grad(total)(2.0), slope, rtol=1e-9)
    np.testing.assert_allclose(fg.jit(fg.grad(total))(2.0), slope, rtol=1e-9)
    np.testing.assert_allclose(fg.jacfwd(total)(2.0), slope, rtol=1e-9)
    twice = fg.jacfwd(fg.grad(total))
    np.testing.assert_allclose(twice(2.0), twice(2.0, None), rtol=1e-7)
    step = 1e-4
    difference = (total(2.0 + step) - total(2.0 - step)) / (2.0 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-5)
    weights = np.array([0.5, 2.0])
    batch = fg.jit(fg.vmap(total))(weights)
    np.testing.assert_allclose(batch, [total(0.5), total(2.0)], rtol=1e-11)


def test_ten_thousand_unknowns() -> None:
    size = 10_000

    def long(x: Any) -> Any:
        return x - 1.0, 3.0 * fnp.diff(x) ** 2 + fnp.diff(x)

    fit = least_squares(long, fnp.zeros(size), jac="sparse")
    np.testing.assert_allclose(fit.x, 1.0, atol=1e-7)
    assert fit.jac.nnz == size + 2 * (size - 1)


def test_curve_fit_returns_a_dense_covariance() -> None:
    x = np.linspace(0.0, 1.0, 9)
    both = [
        curve_fit(
            lambda x, a, b: a + b * x**2, x, x**2 + 0.1 * np.cos(9.0 * x), [0.0, 0.0], jac=jac
        )
        for jac in (None, "sparse")
    ]
    np.testing.assert_allclose(both[0][1], both[1][1], rtol=1e-9)


REFUSED: dict[str, tuple[dict[str, Any], type[FuncgradError], str]] = {
    "method": ({"jac": "sparse", "method": "dogbox"}, ArgumentError, "method='dogbox'"),
    "function": ({"jac": chain, "jac_sparsity": np.eye(3)}, ArgumentError, "a function jac"),
    "columns": ({"jac_sparsity": np.ones((59, 3))}, ShapeError, "3 columns, but x0 has 30"),
    "rows": ({"jac_sparsity": np.ones((3, SIZE))}, ShapeError, "pattern has 3 rows"),
}


@together("name", REFUSED)
def test_bad_input(name: str) -> None:
    options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        fitted(2.0, **options)
