"""Systems of linear equations, substitution for triangular ones, and inverse matrices.

The tangent of x with A x = B solves A dx = dB - dA x, and the cotangent of B solves the adjoint
system, so no inverse is needed (Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation", 2008, section 2.3).

Each system is factorized anew, also in the reverse pass, since NumPy does not return factors. With
SciPy, one factorization and two substitutions take 0.24, 0.4, 0.5 and 0.5 of the time of two NumPy
solves for single matrices of 4, 32, 128 and 512 rows. But SciPy may be absent, and bits must not
depend on that. It also takes 6 times as long for a stack of 1000 matrices of 4 rows, since only
NumPy loops over stacks. The substitutions here use NumPy's solve up to `_BLOCK` rows.

Compilation does not join systems with the same matrix. Joined, two right-hand sides take 0.7 of the
time of separate ones (2 to 10 rows; 0.6 for 100), and the gradient of a Kalman filter 0.88. But
NumPy rounds differently for several columns: half of the pairs of 2 rows, and all from 10 on, would
have other last bits, and a compiled program has to agree with the function.

>>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([[2.0], [2.0]]))
array([[1. ],
       [0.5]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, shape_of
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import OWNS, Factored
from funcgrad._core.trace import Value
from funcgrad._primitives.broadcasting import sum_to
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.failures import failing, failures, or_nan
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    blamed,
    checked,
    conjugate,
    diagonal_of,
    linalg_dtype,
    position_of,
    triangle,
    unit,
)
from funcgrad._primitives.structural import reshape
from funcgrad._primitives.values_alone import least_singular_value
from funcgrad.errors import MatrixError


def is_singular(x: Array) -> Any:
    """Flags of the matrices of a stack for which elimination meets an exactly zero pivot."""
    return np.linalg.slogdet(x)[0] == 0


# -------------------------------------------------------------------------------- stacks of systems


def _with_columns(evaluate: Callable[[Any, Any], Any], a: Array, b: Array) -> Any:
    """Solve stacks of systems that broadcast; right sides with one matrix become its columns."""
    lead = max(a.ndim, b.ndim) - 2
    if not lead:
        return evaluate(a, b)
    a_shape = (1,) * (lead + 2 - a.ndim) + a.shape
    b_shape = (1,) * (lead + 2 - b.ndim) + b.shape
    shared = [k for k in range(lead) if a_shape[k] == 1 and b_shape[k] != 1]
    if not shared:
        return evaluate(a, b)
    unshared = [k for k in range(lead) if k not in shared]
    rows, columns = b_shape[-2:]
    order = (*unshared, lead, *shared, lead + 1)
    moved = b.reshape(b_shape).transpose(order)
    sizes = tuple([b_shape[k] for k in shared])
    flat = moved.reshape(*[b_shape[k] for k in unshared], rows, prod(sizes) * columns)
    x = evaluate(a.reshape(*[a_shape[k] for k in unshared], *a_shape[-2:]), flat)
    x = x.reshape(*x.shape[:-1], *sizes, columns)
    return np.ascontiguousarray(x.transpose(np.argsort(order)))


def _solution(name: str) -> Callable[..., Spec]:
    def result(a: Spec, b: Spec, **params: object) -> Spec:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return Spec((*stack, *b.shape[-2:]), linalg_dtype(name, a.dtype, b.dtype))

    return result


def _batch_systems(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """Stacks broadcast, so arguments without a batch are unchanged."""
    rank = max(len(shape_of(arg)) - flag for arg, flag in zip(args, batched, strict=True))

    def aligned(x: Value) -> Value:
        example_shape: Shape = shape_of(x)[1:]
        shape = (size,) + (1,) * (rank - len(example_shape)) + example_shape
        return x if shape_of(x) == shape else reshape(x, shape=shape)

    operands = [aligned(arg) if flag else arg for arg, flag in zip(args, batched, strict=True)]
    return primitive(*operands, **params)


def _cotangent_of_matrix(ct: Value, a: Value, x: Value) -> Value:
    """The cotangent of a in the product a x; where stacks broadcast it is summed on the way."""
    return matmul.differential.transposes[0](ct, a, conjugate(x))  # type: ignore[union-attr,index,misc]  # a product's


# ------------------------------------------------------------------------------------ any matrix


_NO_SOLUTION: Final = (
    "solve: the matrix{} is singular: it has no solution, or many. fnp.linalg.lstsq finds the"
    " best, and the shortest, one."
)


def _solve(a: Array, b: Array, failed: str = "raise") -> Any:
    try:
        return _with_columns(np.linalg.solve, a, b)
    except np.linalg.LinAlgError:
        if failed == "raise":
            raise blamed(a, is_singular, _NO_SOLUTION) from None
    flags = failures(np.linalg.inv, a)
    return _solved_or_nan(np.linalg.solve, a, b, flags)


def _solved_or_nan(evaluate: Callable[[Any, Any], Any], a: Array, b: Array, flags: Array) -> Any:
    """Solve with the matrices that are not flagged, at their places in the stack."""
    sound = np.where(flags[..., None, None], unit(a.shape[-1], a.dtype), a)
    out = _with_columns(evaluate, sound, b)
    return or_nan(out, np.broadcast_to(flags, out.shape[:-2]))


def _push_solve(
    tangents: tuple[Value, ...], out: Value, a: Value, b: Value, failed: str = "raise"
) -> Value:
    change, da = tangents[1], tangents[0]
    if da is not None:
        moved = matmul(da, out)
        change = -moved if change is None else change - moved
    return solve(a, change, failed=failed)


def _pull_solve(
    ct: Value, out: Value, a: Value, b: Value, failed: str = "raise"
) -> tuple[Value, Value]:
    y = solve(adjoint(a), ct, failed=failed)
    return partial(_cotangent_of_matrix, -y, a, out), sum_to(y, shape_of(b))


def _systems(seed: int) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    for number, (a_shape, b_shape) in enumerate(
        (
            ((3, 3), (3, 2)),
            ((2, 2), (2, 1)),
            ((2, 2, 2), (2, 2, 1)),
            ((2, 2), (3, 2, 1)),
            ((2, 2, 2), (2, 1)),
            ((2, 1, 2, 2), (3, 2, 2)),
            ((0, 0), (0, 2)),
            ((2, 2), (2, 0)),
            ((0, 2, 2), (2, 1)),
            ((2, 2), (0, 2, 1)),
        )
    ):
        a = rng.standard_normal(a_shape) + 3 * np.eye(a_shape[-1])
        b = rng.standard_normal(b_shape)
        yield a, b
        if number in (0, 3):
            yield a + 0.5j * rng.standard_normal(a_shape), b - 1j * b[..., ::-1]
            yield a, b * (1 + 1j)
            yield a * (1 - 1j), b
    wide = rng.standard_normal((6, 9)) + np.eye(6, 9) + np.tri(6, 9)
    yield wide[::-2, ::3] + 4 * np.eye(3), wide[:3, ::-4]


def _solve_samples() -> Iterator[Sample]:
    for a, b in _systems(41):
        yield Sample((a, b))
    a, b = np.array([[0.0, 2.0], [3.0, 0.0]]), np.array([[1.0], [2.0]])
    yield from (Sample((a, b)), Sample((a, b), {"failed": "nan"}))


solve: Primitive = Primitive(
    "solve",
    _solve,
    _solution("solve"),
    Linearized(_push_solve, _pull_solve, linear_in=(1,)),
    _batch_systems,
    _solve_samples,
    structure=Factored(
        lambda failed="raise": Factorization(
            Factors.ELIMINATION, FromFactors.SOLUTIONS, raises=failed == "raise"
        ),
        (2, 2),
    ),
    kinks=Kinks(lambda a, b, **_: least_singular_value(a)),
    traits=OWNS,
)
"""The solutions x of a x = b; b is a stack of matrices, too. Stacks broadcast."""


# ---------------------------------------------------------------------------- triangular matrices

_BLOCK: Final = 24
"""The rows that are solved for together: the fastest choice between 16 and 32."""


def _triangular_solve(
    a: Array, b: Array, lower: bool, unit_diagonal: bool, failed: str = "raise"
) -> Any:
    a, b = [np.asarray(x, linalg_dtype("solve_triangular", a.dtype, b.dtype)) for x in (a, b)]
    diagonal = np.diagonal(a, 0, -2, -1)

    def substituted(a: Array, b: Array) -> Any:
        return _substituted(a, b, lower, unit_diagonal)

    if unit_diagonal or np.all(diagonal):
        return _with_columns(substituted, a, b)
    flags = np.any(diagonal == 0, -1)
    if failed == "raise":
        raise MatrixError(
            f"solve_triangular: the matrix{position_of(flags)} has a zero on its diagonal, so it is"
            " singular."
        )
    return _solved_or_nan(substituted, a, b, flags)


def _substituted(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Any:
    """Substitute block by block; the contribution of earlier blocks is one product each.

    Diagonal blocks are inverted, all at once. This loses digits if they are nearly singular, and
    one step of refinement restores them (Du Croz and Higham, "Stability of methods for matrix
    inversion", 1992; Higham, "Accuracy and stability of numerical algorithms", chapter 12). Both
    take half of the time of a substitution within blocks.
    """
    n = a.shape[-1]
    if n <= _BLOCK:
        return np.linalg.solve(_triangle(a, lower, unit_diagonal), b)
    starts = range(0, n, _BLOCK)
    diagonal_blocks = [a[..., k : k + _BLOCK, k : k + _BLOCK] for k in starts]
    whole = n // _BLOCK
    blocks = list(_triangle(np.stack(diagonal_blocks[:whole]), lower, unit_diagonal))
    inverses = list(_inverses(np.stack(blocks), lower))
    if n > whole * _BLOCK:
        blocks.append(_triangle(diagonal_blocks[-1], lower, unit_diagonal))
        inverses.append(_inverses(blocks[-1], lower))
    out = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    for start in starts if lower else reversed(starts):
        rows = slice(start, min(start + _BLOCK, n))
        done = slice(0, start) if lower else slice(rows.stop, n)
        block, inverse = blocks[start // _BLOCK], inverses[start // _BLOCK]
        right = b[..., rows, :]
        if done.start < done.stop:
            right = right - a[..., rows, done] @ out[..., done, :]
        x = inverse @ right
        residual = block @ x
        np.subtract(right, residual, out=residual)
        np.add(x, inverse @ residual, out=out[..., rows, :])
    return out


def _triangle(a: Array, lower: bool, unit_diagonal: bool) -> Any:
    block = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        diagonal = np.arange(a.shape[-1])
        block[..., diagonal, diagonal] = 1
    return block


def _inverses(blocks: Array, lower: bool) -> Any:
    if lower:
        return triangular_inverses(blocks)
    return triangular_inverses(blocks.swapaxes(-1, -2)).swapaxes(-1, -2)


_SMALL: Final = 16
"""The number of rows up to which a triangular matrix is inverted like any other."""


def triangular_inverses(x: Array) -> Any:
    """The inverses of small lower triangular matrices, by recursive halving."""
    n = x.shape[-1]
    if n <= _SMALL:
        return np.linalg.inv(x)
    half = n // 2
    head, tail = slice(half), slice(half, n)
    if n % 2:
        first = triangular_inverses(x[..., head, head])
        last = triangular_inverses(x[..., tail, tail])
    else:
        first, last = triangular_inverses(np.stack([x[..., k, k] for k in (head, tail)]))
    out = np.zeros_like(x)
    out[..., head, head], out[..., tail, tail] = first, last
    np.negative(last @ (x[..., tail, head] @ first), out=out[..., tail, head])
    return out


def _triangle_in_use(x: Value, lower: bool, unit_diagonal: bool) -> Value:
    return triangle(x, lower=lower, diagonal=0.0 if unit_diagonal else 1.0)


def _push_triangular(
    tangents: tuple[Value, ...],
    out: Value,
    a: Value,
    b: Value,
    lower: bool,
    unit_diagonal: bool,
    failed: str = "raise",
) -> Value:
    da, change = tangents
    if da is not None:
        moved = matmul(_triangle_in_use(da, lower, unit_diagonal), out)
        change = -moved if change is None else change - moved
    return triangular_solve(a, change, lower=lower, unit_diagonal=unit_diagonal, failed=failed)


def _pull_triangular(
    ct: Value,
    out: Value,
    a: Value,
    b: Value,
    lower: bool,
    unit_diagonal: bool,
    failed: str = "raise",
) -> tuple[Value, Value]:
    y = triangular_solve(
        adjoint(a), ct, lower=not lower, unit_diagonal=unit_diagonal, failed=failed
    )

    def of_a() -> Value:
        return _triangle_in_use(_cotangent_of_matrix(-y, a, out), lower, unit_diagonal)

    return of_a, sum_to(y, shape_of(b))


def _diagonal_in_use(a: Value, b: Value, unit_diagonal: bool, **_: Hashable) -> Value:
    return () if unit_diagonal else diagonal_of(a)


def _triangular_samples() -> Iterator[Sample]:
    for number, (a, b) in enumerate(_systems(43)):
        yield Sample((a, b), {"lower": number % 2 == 0, "unit_diagonal": number % 3 == 1})
    large = np.random.default_rng(5).standard_normal((130, 130)) / 130 + np.eye(130)
    for lower in (True, False):
        yield Sample((large, large[:, :2]), {"lower": lower, "unit_diagonal": False})
    params = {"lower": True, "unit_diagonal": False, "failed": "nan"}
    yield Sample((large[:3, :3], large[:3, :2]), params)


def _triangular_factors(lower: bool, unit_diagonal: bool, failed: str = "raise") -> Factorization:
    raises = failed == "raise"
    return Factorization(
        Factors.TRIANGLE, FromFactors.SOLUTIONS, lower, unit_diagonal, raises=raises
    )


triangular_solve: Primitive = Primitive(
    "triangular_solve",
    _triangular_solve,
    _solution("solve_triangular"),
    Linearized(_push_triangular, _pull_triangular, linear_in=(1,)),
    _batch_systems,
    _triangular_samples,
    structure=Factored(_triangular_factors, (2, 2)),
    kinks=Kinks(_diagonal_in_use),
    traits=OWNS,
)
"""The solutions x of a x = b for a triangular a: one triangle is read. Stacks broadcast."""


# -------------------------------------------------------------------------------------- inverses


_WITHOUT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "inv": "it has no inverse. fnp.linalg.pinv returns the pseudoinverse.",
        "det": "there determinants have two derivatives here, and no third.",
        "slogdet": "the logarithm of its determinant is -inf, which has no derivative.",
    }
)
"""The reason of the error for a singular matrix, by the operation that needs its inverse."""


def _inv(x: Array, purpose: str) -> Any:
    message = f"{purpose}: the matrix{{}} is singular: {_WITHOUT[purpose]}"
    return checked(np.linalg.inv, x, is_singular, message)


def _push_inv(
    tangents: tuple[Value, ...], out: Value, x: Value, purpose: str, failed: str = "raise"
) -> Value:
    return -matmul(matmul(out, tangents[0]), out)


def _pull_inv(ct: Value, out: Value, x: Value, purpose: str, failed: str = "raise") -> tuple[Value]:
    back = adjoint(out)
    return (-matmul(matmul(back, ct), back),)


def _inv_samples() -> Iterator[Sample]:
    for a, _ in _systems(47):
        yield Sample((a,), {"purpose": "inv"})


inv: Primitive = failing(
    Primitive(
        "inv",
        _inv,
        lambda x, purpose: Spec(x.shape, linalg_dtype(purpose, x.dtype)),
        Linearized(_push_inv, _pull_inv),
        batch_matrices,
        _inv_samples,
        structure=Factored(
            lambda purpose, failed="raise": Factorization(
                Factors.ELIMINATION, FromFactors.INVERSE, raises=failed == "raise"
            ),
            (2,),
        ),
        kinks=Kinks(least_singular_value),
        traits=OWNS,
    )
)
"""Inverse matrices: dX^-1 = -X^-1 dX X^-1. ``purpose`` names their use in messages."""
