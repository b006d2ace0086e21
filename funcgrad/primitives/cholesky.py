"""The triangular factors of positive definite matrices.

With A = L L^H the tangent is dL = L P(L^-1 dA L^-H), where P takes the lower triangle and half of
the diagonal (Smith, "Differentiation of the Cholesky algorithm", 1995; Murray, "Differentiation of
the Cholesky decomposition", 2016, eq. 8 to 10). Inverses are applied by substitution.

>>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]), upper=False)
array([[2., 0.],
       [1., 2.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funcgrad.primitive import Linearized, Primitive, Sample
from funcgrad.primitives.contraction import matmul
from funcgrad.primitives.linear_systems import triangular_solve
from funcgrad.primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    checked,
    from_triangle,
    linalg_dtype,
    to_triangle,
    triangle,
)
from funcgrad.shape import Spec
from funcgrad.trace import Value

__all__ = ["cholesky"]


def _fails(upper: bool) -> Any:
    def fails(x: Array) -> Any:
        stack = x.reshape(-1, *x.shape[-2:])
        return np.reshape([_fails_alone(one, upper) for one in stack], x.shape[:-2])

    return fails


def _fails_alone(x: Array, upper: bool) -> bool:
    try:
        np.linalg.cholesky(x, upper=upper)
    except np.linalg.LinAlgError:
        return True
    return False


def _cholesky(x: Array, upper: bool) -> Any:
    return checked(
        lambda x: np.linalg.cholesky(x, upper=upper),
        x,
        _fails(upper),
        "cholesky: the matrix{} is not positive definite: an eigenvalue is not positive, perhaps"
        " by rounding. Of a covariance matrix add a little to the diagonal, as 1e-10 times its"
        " largest element.",
    )


def _half(x: Value) -> Value:
    return triangle(x, lower=True, diagonal=0.5)


def _push(tangents: tuple[Value, ...], out: Value, x: Value, upper: bool) -> Value:
    factor = adjoint(out) if upper else out
    change = from_triangle(tangents[0], lower=not upper)
    inner = triangular_solve(factor, change, lower=True, unit_diagonal=False)
    inner = triangular_solve(factor, adjoint(inner), lower=True, unit_diagonal=False)
    pushed = matmul(factor, _half(adjoint(inner)))
    return adjoint(pushed) if upper else pushed


def _pull(ct: Value, out: Value, x: Value, upper: bool) -> tuple[Value]:
    """Of the result only its triangle depends on the argument."""
    factor, ct = (adjoint(out), adjoint(ct)) if upper else (out, ct)
    back = adjoint(factor)
    inner = from_triangle(matmul(back, triangle(ct, lower=True, diagonal=1.0)), lower=True)
    inner = triangular_solve(back, inner, lower=False, unit_diagonal=False)
    pulled = triangular_solve(back, adjoint(inner), lower=False, unit_diagonal=False)
    return (to_triangle(pulled * 0.5, lower=not upper),)


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(53)
    for number, shape in enumerate(((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0, 0))):
        x = rng.standard_normal(shape)
        for turned in (x, x + 1j * rng.standard_normal(shape)) if number < 2 else (x,):
            square = turned @ np.conj(np.swapaxes(turned, -1, -2)) + np.eye(shape[-1])
            for upper in (False, True):
                yield Sample((square,), {"upper": upper})
    other = np.array([[4.0, np.nan], [1.0, 3.0]])
    yield Sample((other,), {"upper": False}, smooth=False)  # one triangle is read
    wide = np.eye(6, 9) + 0.1 * rng.standard_normal((6, 9))
    yield Sample((wide[:3, :3][::-1, ::-1] + 2 * np.eye(3),), {"upper": False})


cholesky: Primitive = Primitive(
    "cholesky",
    _cholesky,
    lambda x, upper: Spec(x.shape, linalg_dtype("cholesky", x.dtype)),
    Linearized(_push, _pull, mixes=True),
    batch_matrices,
    _samples,
    structure=MATRICES,
)
"""L with L L^H = x, lower triangular; or L^H, of which the upper triangle of x is read."""
