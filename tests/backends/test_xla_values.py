"""Values at which XLA's operations differ from NumPy's, and where the backend returns NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, sparse
from funcgrad.scipy import linalg
from tests.backends.xla_calls import on_xla
from tests.together import together

pytest.importorskip("jax")

LEAST = np.iinfo(np.int64).min
WHOLE = np.array([LEAST, LEAST, -3, 0, 7, LEAST]), np.array([3, 0, 0, 0, -2, LEAST])
SIDES = np.array([complex(a, b) for a in (-2, -0.0, 0.0, 2) for b in (-2, -0.0, 0.0, 2)])
MISSING = np.array([2j, complex(np.nan, 1), 3, complex(1, np.nan)])
CUT = "arccos arccosh arcsin arcsinh arctan sqrt log2 log10".split()

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "divisors of the least integers": (fnp.gcd, WHOLE),
    "quotients by zero": (lambda x, y: (x // y, x % y, fnp.divmod(x, y)), WHOLE),
    "powers that overflow": (
        lambda x, y: (x**y, x.astype(np.uint8) ** y.astype(np.uint8), x**3),
        (np.array([0, -1, 3, 2, 7, 0]), np.array([64, 65, 100, 64, 3, 0])),
    ),
    "factors and divisors out of range together": (
        lambda x, y: (x * 1e200 * 1e200, x / y / y, x / 1e200 / y, x / (x / y), (x / y) / (y / x)),
        (np.array([0.0, 1e300]), np.array([1e200, 1e200])),
    ),
    "lengths of vectors of one number": (
        lambda x: fg.vmap(fg.grad(fnp.linalg.norm))(x[:, None]),
        (np.array([1.0, 0.0, -1e200]),),
    ),
    "sides of branch cuts": (lambda z: [getattr(fnp, name)(z) for name in CUT], (SIDES,)),
    "extrema of complex numbers that are missing": (
        lambda z: (fnp.max(z), fnp.min(z), fnp.maximum(z, z[::-1]), fnp.minimum(z[::-1], 2)),
        (MISSING,),
    ),
    "absolute values beside what is missing": (
        fnp.abs,
        (np.array([complex(np.nan, -np.inf), complex(np.inf, np.nan), 3 - 4j, np.nan]),),
    ),
    "exponentials beside what is missing": (
        lambda z: (fnp.exp(z), fnp.exp2(z)),
        (np.array([complex(a, b) for a in (-np.inf, 2) for b in (np.inf, np.nan, 2)]),),
    ),
    "powers of zero": (lambda z: fnp.zeros(3) ** z, (np.array([1 + 1j, 2, 0.5 - 3j]),)),
}


@np.errstate(all="ignore")
def test_results_are_those_of_numpy() -> None:
    arrays = {name: args for name, (_, args) in FUNCTIONS.items()}

    def every(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: f(*arrays[name]) for name, (f, _) in FUNCTIONS.items()}

    _, found = on_xla(every, arrays)
    for name, (f, args) in FUNCTIONS.items():
        expected = fg.tree.leaves(f(*map(fg.tensor, args)))
        for one, other in zip(fg.tree.leaves(found[name]), expected, strict=True):
            np.testing.assert_allclose(one, other, 1e-12, 1e-15, err_msg=name)


def test_powers_with_negative_integers_are_refused() -> None:
    power, found = on_xla(lambda x, y: x**y, np.array([2, 3]), np.array([0, 4]))
    assert_array_equal(found, [1, 81])
    with pytest.raises(errors.ArgumentError, match="negative integer powers"):
        power(np.array([2, 3]), np.array([0, -4]))
    total, found = on_xla(
        lambda y: fg.scan(lambda c, k: (c + 2**k, None), 0, y)[0], np.array([1, 2])
    )
    assert found == 6
    with pytest.raises(errors.ArgumentError, match="negative integer powers"):
        total(np.array([1, -2]))


def test_shapes_that_do_not_fit_are_refused_on_a_device() -> None:
    x, rows = fg.put((np.arange(4.0), np.ones((1, 3))), "xla:cpu:0")
    for f in (fnp.insert, fg.jit(fnp.insert, static_argnums=1)):
        with pytest.raises(errors.ShapeError, match=r"insert.*broadcast"):
            f(x, 0, rows)


def test_booleans_of_python_are_counted() -> None:
    _, found = on_xla(lambda n: ((n > 1) + (n > 2), -(n > 1), (n > 1) & (n > 2)), 3.0)
    assert [x.tolist() for x in found] == [2, -1, True]


def test_products_of_sparse_booleans_are_booleans() -> None:
    csr_array = pytest.importorskip("scipy.sparse").csr_array
    matrix = np.array([[True, True, False], [False, False, False], [True, False, True]])
    for x in (np.ones(3, bool), np.ones(3, np.int32)):
        _, found = on_xla(lambda a, x: a @ x, sparse.from_scipy(csr_array(matrix)), x)
        assert found.dtype == (matrix @ x).dtype
        assert_array_equal(found, matrix @ x)


def test_pullbacks_of_compiled_functions_are_staged() -> None:
    large = fg.tensor(np.linspace(0, 1, 2000))  # an argument of the compiled code
    _, pullback = fg.vjp(fg.jit(lambda x: fnp.sum(fnp.sin(large * x)), backend="xla"), 0.5)
    staged = fg.jit(pullback, backend="xla")
    for ct in (1.0, 2.0):
        assert np.allclose(staged(ct)[0], ct * np.sum(np.cos(large * 0.5) * large))
    assert staged.stagings == 1


FACTORED: dict[str, Callable[[Any], Any]] = {
    "inverses": lambda a: fnp.linalg.inv(a, failed="nan"),
    "complex inverses": lambda a: fnp.linalg.inv(a + 0j, failed="nan"),
    "solutions": lambda a: fnp.linalg.solve(a, a[0, :, :1], failed="nan"),
    "square roots": lambda a: fnp.linalg.cholesky(a, failed="nan"),
    "triangles": lambda a: linalg.solve_triangular(a, a[0, :, :1], failed="nan"),
    "bands": lambda a: linalg.solve_banded((1, 1), a[:, [0, 1, 0]], a[..., :1], failed="nan"),
    "determinants": lambda a: (fnp.linalg.det(a), *fnp.linalg.slogdet(a)),
    "complex determinants": lambda a: fnp.linalg.slogdet(a + 0j),
}


@np.errstate(all="ignore")
def test_matrices_without_factors_have_the_results_of_the_host_on_a_device() -> None:
    stack = np.array([[[2.0, 1], [1, 3]], [[1, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 2], [2, 1]]])

    def every(a: Any) -> dict[str, Any]:
        return {name: f(a) for name, f in FACTORED.items()}

    found = fg.get(fg.jit(every)(fg.put(stack, "xla:cpu:0")))
    for name, expected in every(fg.tensor(stack)).items():
        for one, other in zip(fg.tree.leaves(found[name]), fg.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, 1e-12, 1e-15, err_msg=name)


@together(
    "row",
    [
        [2.0, 0.0, 3.0, 0.0, 5.0],
        [0.0, 0.0, 1e200, 1e200, 2.0],
        [1e-200, 1.0, 1e200, 1e200, 1e-300],
        [1e200, 1e200, 1e-300, 1e-200, 3.0],
    ],
)
def test_gradients_of_running_products_stay_there(row: list[float]) -> None:
    x, weights = np.array(row), np.arange(1.0, 6.0)
    f = fg.grad(lambda x: fnp.sum((fnp.cumprod(x) * weights)[2:]))
    there = fg.jit(f, backend="xla")
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(there(x), f(x), 1e-13)
    assert "called back: nothing" in there.lower(x).source
