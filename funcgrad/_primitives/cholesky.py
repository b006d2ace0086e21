"""The triangular factors of positive definite matrices.

With A = L L^H the tangent is dL = L P(L^-1 dA L^-H), where P takes the lower triangle and half of
the diagonal (Smith, "Differentiation of the Cholesky algorithm", 1995; Murray, "Differentiation of
the Cholesky decomposition", 2016, eq. 8 to 10). Inverses are applied by substitution.

>>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]), upper=False)
array([[2., 0.],
       [1., 2.]])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import OWNS, Factored
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.failures import failing
from funcgrad._primitives.linear_systems import triangular_inverses, triangular_solve
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    checked,
    from_triangle,
    linalg_dtype,
    of_stacks,
    real_dtype,
    to_triangle,
    triangle,
    unit,
)
from funcgrad._primitives.values_alone import eigvalsh


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
        " by rounding. For a covariance matrix add a little to the diagonal, such as 1e-10 times"
        " its largest element. failed='nan' gives NaN, from which a minimizer steps back.",
    )


def _half(x: Value) -> Value:
    return triangle(x, lower=True, diagonal=0.5)


def _push(
    tangents: tuple[Value, ...], out: Value, x: Value, upper: bool, failed: str = "raise"
) -> Value:
    factor = adjoint(out) if upper else out
    change = from_triangle(tangents[0], lower=not upper)
    inner = triangular_solve(factor, change, lower=True, unit_diagonal=False)
    inner = triangular_solve(factor, adjoint(inner), lower=True, unit_diagonal=False)
    pushed = matmul(factor, _half(adjoint(inner)))
    return adjoint(pushed) if upper else pushed


def _pull(ct: Value, out: Value, x: Value, upper: bool, failed: str = "raise") -> tuple[Value]:
    """Pull the cotangent back. Only the triangle of the result depends on the argument."""
    if not upper:
        return (cholesky_pullback(out, ct),)
    return (adjoint(cholesky_pullback(adjoint(out), adjoint(ct))),)


def _least_eigenvalue(x: Value, upper: bool, **_: Hashable) -> Value:
    return eigvalsh(x, lower=not upper)[..., :1]


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


cholesky: Primitive = failing(
    Primitive(
        "cholesky",
        _cholesky,
        lambda x, upper: Spec(x.shape, linalg_dtype("cholesky", x.dtype)),
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=Factored(
            lambda upper, failed="raise": Factorization(
                Factors.SQUARE_ROOT, FromFactors.FACTOR, not upper, raises=failed == "raise"
            ),
            (2,),
        ),
        kinks=Kinks(domain=_least_eigenvalue),
        traits=OWNS,
    )
)
"""The lower triangular L with L L^H = x; or L^H, from the upper triangle of x."""


# ------------------------------------------------------------------------------------ cotangents

_BLOCK: Final = 40
"""The columns that are processed together: the fastest choice between 32 and 48."""


def _over(x: Array, factor: Array, inverse: Array) -> Any:
    """x times the inverse of a small factor, with one step of refinement."""
    y = x @ inverse
    residual = y @ factor
    np.subtract(x, residual, out=residual)
    y += residual @ inverse
    return y


def _blocks(factor: Array) -> tuple[list[Any], list[Any]]:
    """The diagonal blocks and their inverses; blocks of one size are processed together."""
    whole = factor.shape[-1] // _BLOCK * _BLOCK
    diagonal_blocks = [factor[..., k : k + _BLOCK, k : k + _BLOCK] for k in range(0, whole, _BLOCK)]
    blocks: list[Any] = []
    inverses: list[Any] = []
    if diagonal_blocks:
        stacked = np.tril(np.stack(diagonal_blocks))
        blocks, inverses = list(stacked), list(triangular_inverses(stacked))
    if whole < factor.shape[-1] or not diagonal_blocks:
        blocks.append(np.tril(factor[..., whole:, whole:]))
        inverses.append(triangular_inverses(blocks[-1]))
    return blocks, inverses


def _pulled_block(block: Array, inverse: Array, ct: Array, weights: Array) -> Any:
    """Twice the Hermitian cotangent of a small matrix, from its factor's cotangent."""
    inner = _weighted(_adjoint(block) @ ct, weights)
    half = _over(inner + _adjoint(inner), block, inverse)
    return _over(_adjoint(half), block, inverse)


def _pull_cholesky(factor: Array, ct: Array) -> Any:
    """Go backwards through the factorization, by columns of blocks (Murray 2016, section 4).

    Forwards there are n ** 3 / 3 operations, backwards twice as many, besides the work on diagonal
    blocks.
    """
    n, dtype = factor.shape[-1], np.result_type(factor, ct)
    bar = np.tril(ct).astype(dtype, copy=False)
    blocks, inverses = _blocks(factor)
    weights = _weights(min(n, _BLOCK), real_dtype(dtype))
    for number in reversed(range(len(blocks))):
        block, inverse = blocks[number], inverses[number]
        start, size = number * _BLOCK, block.shape[-1]
        span, after = slice(start, start + size), slice(start + size, n)
        column, weight = bar[..., start:, span], weights[:size, :size]
        below = column[..., size:, :]
        below[...] = _over(below, block, inverse)
        told = column[..., :size, :] - _adjoint(below) @ factor[..., after, span]
        twice = _pulled_block(block, inverse, told, weight)
        if start:
            column[..., :size, :] = twice
            bar[..., after, :start] -= below @ factor[..., span, :start]
            bar[..., span, :start] -= _adjoint(column) @ factor[..., start:, :start]
        column[..., :size, :] = _weighted(twice, weight)
    return _with_real_diagonal(bar)


def _weights(size: int, dtype: np.dtype[Any]) -> Array:
    """Ones in the lower triangle, and halves on the diagonal."""
    return np.tri(size, dtype=dtype) - unit(size, dtype) / 2


def _weighted(x: Array, weights: Array) -> Array:
    """x times weights; 0 above the diagonal, also where x is not finite."""
    return np.where(weights, x * weights, 0)


def _adjoint(x: Array) -> Array:
    other = x.swapaxes(-1, -2)
    return other.conj() if x.dtype.kind == "c" else other


def _with_real_diagonal(x: Array) -> Array:
    """Elements below the diagonal represent their mirror images; diagonal elements are real."""
    if x.dtype.kind == "c":
        diagonal = np.arange(x.shape[-1])
        x.imag[..., diagonal, diagonal] = 0
    return x


def _pullback_body(factor: Value, ct: Value) -> Value:
    """The result by whole matrices: G of the docstring below is ``L^-H (M + M^H) L^-1`` halved."""
    back = adjoint(triangle(factor, lower=True, diagonal=1.0))
    inner = from_triangle(matmul(back, triangle(ct, lower=True, diagonal=1.0)), lower=True)
    half = triangular_solve(back, inner, lower=False, unit_diagonal=False)
    twice = triangular_solve(back, adjoint(half), lower=False, unit_diagonal=False)
    return triangle(twice, lower=True, diagonal=0.5)


def _push_pulled(tangents: tuple[Value, ...], out: Value, factor: Value, ct: Value) -> Value:
    """With M = L^H ct and G the Hermitian matrix that the result stands for, L^H G L is half of the
    Hermitian matrix that has the lower triangle of M."""
    d_factor, d_ct = tangents
    factor = triangle(factor, lower=True, diagonal=1.0)
    back = adjoint(factor)
    change = None if d_ct is None else matmul(back, triangle(d_ct, lower=True, diagonal=1.0))
    moved = None
    if d_factor is not None:
        d_back = adjoint(triangle(d_factor, lower=True, diagonal=1.0))
        of_factor = matmul(d_back, triangle(ct, lower=True, diagonal=1.0))
        change = of_factor if change is None else change + of_factor
        whole = from_triangle(triangle(out, lower=True, diagonal=2.0), lower=True) * 0.5
        turned = matmul(d_back, matmul(whole, factor))
        moved = turned + adjoint(turned)
    inner = from_triangle(change, lower=True) * 0.5
    inner = inner if moved is None else inner - moved
    half = triangular_solve(back, inner, lower=False, unit_diagonal=False)
    pushed = triangular_solve(back, adjoint(half), lower=False, unit_diagonal=False)
    return to_triangle(pushed, lower=True)


def _pull_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(54)
    for number, shape in enumerate(((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))):
        ct, x = rng.standard_normal((2, *shape))
        factor = np.tril(x) + 3 * np.eye(shape[-1])
        yield Sample((factor, ct))
        if number < 2:
            strict = np.tril(rng.standard_normal(shape), -1)
            yield Sample((factor + 1j * strict, ct + 1j * ct[..., ::-1]))
    large = np.tril(rng.standard_normal((70, 70)) / 70) + np.eye(70)
    yield Sample((large, rng.standard_normal((70, 70))))
    yield Sample((1 + 3 * np.eye(3), rng.standard_normal((3, 3))))  # one triangle is read


cholesky_pullback: Primitive = Primitive(
    "cholesky_pullback",
    _pull_cholesky,
    lambda factor, ct: Spec(factor.shape, np.result_type(factor.dtype, ct.dtype)),
    Linearized(_push_pulled, linear_in=(1,)),
    batch_matrices,
    _pull_samples,
    structure=of_stacks(2, 2),
    traits=OWNS,
    body=_pullback_body,
)
"""The cotangent of a matrix's lower triangle, from the cotangent of its triangular factor."""
