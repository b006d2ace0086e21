"""The orthonormal factor of polar decompositions, A = U P with a positive definite P.

With P = U^H A the change of U within its space is U W, where W is skew-Hermitian and solves
Sylvester's equation ``P W + W P = U^H dA - dA^H U``; dA outside of that space is divided by P.
(Kenney and Laub, "Polar decomposition and matrix sign function condition estimates", 1991.)

>>> polar_factor(np.array([[0.0, -2.0], [3.0, 0.0]]))
array([[ 0., -1.],
       [ 1.,  0.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import converged
from funcgrad._primitives.failures import failing
from funcgrad._primitives.linear_systems import solve
from funcgrad._primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    hermitian,
    linalg_dtype,
    stacks,
)
from funcgrad._primitives.matrix_equations import sylvester
from funcgrad._primitives.values_alone import svdvals


def _factor(x: Array) -> Any:
    u, _, vh = converged("polar", lambda x: np.linalg.svd(x, full_matrices=False), x)
    return u @ vh


def _leaving(u: Value, p: Value, x: Value, failed: str) -> Value:
    """Project x onto the complement of the columns of u, and divide by p: (1 - U U^H) X P^-1."""
    if shape_of(u)[-1] == shape_of(u)[-2]:
        return 0.0
    across = x - matmul(u, matmul(adjoint(u), x))
    return adjoint(solve(p, adjoint(across), failed=failed))


def _push(tangents: tuple[Value, ...], u: Value, x: Value, failed: str = "raise") -> Value:
    dx = tangents[0]
    p, inner = hermitian(matmul(adjoint(u), x)), matmul(adjoint(u), dx)
    turn = sylvester(p, p, inner - adjoint(inner), failed=failed)
    return matmul(u, turn) + _leaving(u, p, dx, failed)


def _pull(ct: Value, u: Value, x: Value, failed: str = "raise") -> tuple[Value]:
    p = hermitian(matmul(adjoint(u), x))
    y = sylvester(p, p, matmul(adjoint(u), ct), failed=failed)
    return (matmul(u, y - adjoint(y)) + _leaving(u, p, ct, failed),)


def _samples() -> Iterator[Sample]:
    for x in stacks((3, 3), (4, 2), (2, 3, 2), (1, 1), (0, 0), (0, 2, 2), (3, 0), seed=161):
        yield Sample((x + 2 * np.eye(*x.shape[-2:]),))


polar_factor: Primitive = failing(
    Primitive(
        "polar_factor",
        _factor,
        lambda x: Spec(x.shape, linalg_dtype("polar", x.dtype)),
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(lambda x, **_: svdvals(x)),
    )
)
"""The unitary polar factor of matrices with at least as many rows as columns."""
