"""Determinants, with cofactors as derivatives, also at singular matrices.

The derivative of a determinant with respect to an element is its cofactor, a polynomial, which
exists for singular matrices, too. If a matrix is far from singular, its cofactors are ``det(A)
A^-T``. Otherwise they come from the singular value decomposition A = U S V^H: the cofactors of S
are products of all singular values but one, and the cofactors of A are ``det(U V^H)`` times
``conj(U) cof(S) V^T``. Their derivative consists of products of all singular values but two. Rows
and columns are first divided by powers of two near their greatest elements, since singular values
are inaccurate for small elements beside large ones.

>>> cofactors(np.array([[1.0, 2.0], [2.0, 4.0]]), np.float64(0.0))
array([[ 4., -2.],
       [-2.,  1.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import OWNS, Factored
from funcgrad._core.trace import Value
from funcgrad._primitives.complexes import imag, join_parts
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.failures import failing
from funcgrad._primitives.linear_systems import inv
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    conjugate,
    linalg_dtype,
    of_stacks,
    real_dtype,
    real_part,
    stacks,
    unit,
)
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import reshape, swap_last_axes, unfollowed
from funcgrad._primitives.values_alone import least_singular_value

_FAR: Final = 0.5
"""The power of the precision from which on a matrix counts as nearly singular."""


def total(x: Value) -> Value:
    """The sums of the elements of matrices."""
    rank = len(shape_of(x))
    return reduce_sum(x, axis=(rank - 2, rank - 1), keepdims=False)


def as_matrices(x: Value) -> Value:
    """Scalars as 1 by 1 matrices, which multiply other matrices."""
    return reshape(x, shape=(*shape_of(x), 1, 1))


# ------------------------------------------------------------------------------------- evaluation


def _scaled(x: Array, exponent: Array) -> Any:
    """Matrices times powers of two of any size; zeros stay zeros."""
    if not np.any(np.abs(exponent) > 100):  # the usual case, faster
        return x * np.exp2(exponent).astype(x.real.dtype)[..., None, None]
    return _shifted(x, exponent[..., None, None])


def _inverses_and_determinants(x: Array) -> tuple[Any, Any, Any, Any]:
    """Which matrices are nearly singular, inverses, and determinants as factors of powers of two.

    A matrix also counts as nearly singular if products of elements of its inverse overflow.
    Singular matrices get the inverse of the unit matrix.
    """
    phase, logarithm = np.linalg.slogdet(x)
    singular = phase == 0
    if np.any(singular):
        x = np.where(singular[..., None, None], unit(x.shape[-1], x.dtype), x)
        logarithm = np.where(singular, 0, logarithm)
    inverse = np.linalg.inv(x)
    with np.errstate(all="ignore"):
        size, reach = [np.max(np.sum(np.abs(y), -1), -1) for y in (x, inverse)]
        condition = size * reach
    info = np.finfo(x.dtype)
    near = singular | ~((condition < info.eps**-_FAR) & (reach < float(info.max) ** _FAR / 4))
    exponent = np.where(np.isfinite(logarithm), np.rint(logarithm / np.log(2.0)), 0)
    factor = phase * np.exp(logarithm - exponent * np.log(2.0))
    return near, inverse, factor.astype(x.dtype)[..., None, None], exponent


def _exponents(x: Array, axis: int) -> Any:
    """The exponents of powers of two near the largest elements along an axis; 0 for zeros."""
    exponent = np.frexp(np.abs(x))[1]
    greatest = np.max(np.where(x == 0, -(1 << 20), exponent), axis, keepdims=True)
    return np.where(greatest == -(1 << 20), 0, greatest)


def _balanced(x: Array) -> tuple[Any, Any, Any]:
    """``x / 2**(a + b)`` with elements up to 1, and the exponents a of rows and b of columns."""
    rows = _exponents(x, -1)
    half = _shifted(x, -rows)
    columns = _exponents(half, -2)
    return _shifted(half, -columns), rows, columns


def _shifted(x: Array, exponent: Array) -> Any:
    """Elements times individual powers of two."""
    exponent = np.clip(exponent, -10_000, 10_000).astype(np.int32)
    if x.dtype.kind != "c":
        return np.ldexp(x, exponent)
    out = np.empty(np.broadcast_shapes(x.shape, exponent.shape), x.dtype)
    out.real, out.imag = np.ldexp(x.real, exponent), np.ldexp(x.imag, exponent)
    return out


def _restored(x: Array, exponent: Array, rows: Array, columns: Array) -> Any:
    """The cofactors of a matrix, or their change, from the balanced matrix's."""
    others = np.sum(rows, -2, keepdims=True) - rows + np.sum(columns, -1, keepdims=True) - columns
    with np.errstate(all="ignore"):
        return _shifted(x, exponent[..., None, None] + others)


def _phase(u: Array, vh: Array) -> Any:
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return (phase / np.abs(phase))[..., None, None]


def _all_but_one(s: Array) -> tuple[Any, Any]:
    """For each element on the last axis the product of the others, over a power of two.

    Mantissas and exponents are multiplied separately, so nothing overflows. The exponent of the
    greatest product is the second result.
    """
    n = s.shape[-1]
    mantissa, exponent = np.frexp(s)
    out, power = np.ones_like(s), np.zeros(s.shape, np.int64)
    for k in range(n):
        others = np.arange(n) != k
        product, more = np.frexp(out[..., others] * mantissa[..., k : k + 1])
        out[..., others] = product
        power[..., others] += more + exponent[..., k : k + 1]
    greatest = np.max(np.where(out == 0, -(1 << 40), power), -1)
    apart = np.clip(power - greatest[..., None], -10_000, 0).astype(np.int32)
    return np.ldexp(out, apart), greatest


def _far_cofactors(x: Array, d: Array) -> Any:
    """Cofactors as determinants times inverses; None if a matrix is, or may be, nearly singular.

    So is one with a determinant that has overflowed, or that has few digits.
    """
    info = np.finfo(x.dtype)
    sizes = np.abs(d)
    if not np.all((sizes > info.tiny / info.eps) & (sizes < np.inf)):
        return None
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:  # rounding of a determinant that is 0
        return None
    with np.errstate(all="ignore"):
        condition = _squares(x) * _squares(inverse)
        if np.all(condition < info.eps ** (-2 * _FAR)):
            return np.swapaxes(inverse * np.asarray(d, x.dtype)[..., None, None], -1, -2)
    return None


def _squares(x: Array) -> Any:
    """The sums of the squares of the absolute values of the elements of matrices."""
    rows = x.reshape(*x.shape[:-2], -1)
    return np.vecdot(rows, rows).real


def _finite_ones(x: Array, near: Array, out: Array) -> Any:
    """Which of the matrices that are nearly singular are finite; results of others become NaN.

    With infinities the singular value decomposition may never end.
    """
    finite = np.all(np.isfinite(x), (-2, -1))
    out[near & ~finite] = np.nan
    return near & finite


def _cofactors(x: Array, d: Array) -> Any:
    x = np.asarray(x, linalg_dtype("det", x.dtype))
    if not x.size or x.shape[-1] == 1:
        return np.ones_like(x)
    out = _far_cofactors(x, d)
    if out is not None:
        return out
    near, inverse, factor, exponent = _inverses_and_determinants(x)
    with np.errstate(all="ignore"):
        out = _scaled(np.swapaxes(inverse, -1, -2) * factor, exponent)
    near = _finite_ones(x, near, out)
    if np.any(near):
        balanced, rows, columns = _balanced(x[near])
        u, s, vh = np.linalg.svd(balanced)
        products, exponent = _all_but_one(s)
        inner = np.conj((u * products[..., None, :]) @ vh)
        out[near] = _restored(_phase(u, vh) * inner, exponent, rows, columns)
    return out


def _cofactors_along(x: Array, e: Array) -> Any:
    """The derivative of cofactors in the direction e."""
    dtype = linalg_dtype("det", x.dtype, e.dtype)
    x, e = np.asarray(x, dtype), np.asarray(e, dtype)
    if not x.size or x.shape[-1] == 1:
        return np.zeros_like(x)
    near, inverse, factor, exponent = _inverses_and_determinants(x)
    first = inverse @ e
    trace = np.trace(first, 0, -2, -1)[..., None, None]
    with np.errstate(all="ignore"):
        inner = np.swapaxes(trace * inverse - first @ inverse, -1, -2)
        out = _scaled(inner * factor, exponent)
    near = _finite_ones(x, near, out)
    if np.any(near):
        out[near] = _along_by_values(x[near], e[near])
    return out


def _along_by_values(x: Array, e: Array) -> Any:
    """The derivative of the cofactor matrix along e, by the singular values of x.

    Every element is a product of all singular values but two. With E = U^H e V, the element i, j of
    the derivative of cof(S) is -E[j, i] times the product of all but the values i and j; on the
    diagonal it is the sum of E[j, j] times that product over all j other than i.
    """
    balanced, rows, columns = _balanced(x)
    # The direction is divided likewise, and by its own power of two, since it may have any size.
    size = np.where(e == 0, -(1 << 20), np.frexp(np.abs(e))[1] - rows - columns)
    greatest = np.max(size, (-2, -1), keepdims=True)
    greatest = np.where(greatest == -(1 << 20), 0, greatest)
    e = _shifted(e, -rows - columns - greatest)
    u, s, vh = np.linalg.svd(balanced)
    diagonal = np.eye(s.shape[-1], dtype=bool)
    products, exponents = _all_but_one(np.where(diagonal, 1, s[..., None, :]))
    exponent = np.max(exponents, -1)
    apart = np.clip(exponents - exponent[..., None], -10_000, 0).astype(np.int32)
    others = np.where(diagonal, 0, np.ldexp(products, apart[..., None]))
    turned = np.conj(np.swapaxes(u, -1, -2)) @ e @ np.conj(np.swapaxes(vh, -1, -2))
    sums = others @ np.diagonal(turned, 0, -2, -1)[..., None]
    inner = np.where(diagonal, sums, -np.swapaxes(turned, -1, -2) * others)
    inner = _phase(u, vh) * (np.conj(u) @ inner @ np.conj(vh))
    return _restored(inner, exponent + greatest[..., 0, 0], rows, columns)


# -------------------------------------------------------------------------------------- derivatives


def _second(x: Value, e: Value, out: Value, other: Value, failed: str) -> Value:
    """The derivative of ``out = cofactors_along(x, e)`` in another direction, with the inverse.

    It is symmetric in both directions and in the factor.
    """
    inverse = inv(x, purpose="det", failed=failed)
    first, second = matmul(inverse, e), matmul(inverse, other)
    mixed = matmul(second, first)

    def trace(y: Value) -> Value:
        return as_matrices(total(y * unit(shape_of(x)[-1], real_dtype(dtype_of(out)))))

    inner = (
        matmul(mixed + matmul(first, second), inverse)
        - trace(mixed) * inverse
        - trace(first) * matmul(second, inverse)
    )
    return trace(second) * out + as_matrices(det(x)) * swap_last_axes(inner)


def _push_along(
    tangents: tuple[Value, ...], out: Value, x: Value, e: Value, failed: str = "raise"
) -> Value:
    dx, de = tangents
    if dx is None:
        return cofactors_along(x, de, failed=failed)
    change = _second(x, e, out, dx, failed)
    return change if de is None else change + cofactors_along(x, de, failed=failed)


def _pull_along(
    ct: Value, out: Value, x: Value, e: Value, failed: str = "raise"
) -> tuple[Value, Value]:
    """The derivatives of determinants are symmetric."""
    other = conjugate(ct)
    return (
        lambda: conjugate(_second(x, e, out, other, failed)),
        conjugate(cofactors_along(x, other, failed=failed)),
    )


def _pairs(seed: int) -> Iterator[Any]:
    yield from stacks((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0, 0), seed=seed)


_SINGULAR: Final = (
    ((1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (1.0, 0.0, 1.0)),  # of rank 2
    ((1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (3.0, 6.0, 9.0)),  # of rank 1
    ((0.0, 0.0), (0.0, 0.0)),
)


def _singular() -> Iterator[Any]:
    for rows in _SINGULAR:
        yield np.array(rows)
    yield np.stack([np.zeros((2, 2)), np.eye(2)])


def _along_samples() -> Iterator[Sample]:
    for number, (x, e) in enumerate(zip(_pairs(61), _pairs(62), strict=True)):
        yield Sample((x + np.eye(x.shape[-1]), e))
        if number == 1:
            yield Sample((x, e.real if np.iscomplexobj(e) else e * 1j))


cofactors_along: Primitive = failing(
    Primitive(
        "cofactors_along",
        _cofactors_along,
        lambda x, e: Spec(x.shape, linalg_dtype("det", x.dtype, e.dtype)),
        Linearized(_push_along, _pull_along, linear_in=(1,)),
        batch_matrices,
        _along_samples,
        structure=of_stacks(2, 2),
        traits=OWNS,
    )
)
"""The derivative of ``cofactors`` at a matrix in a direction, in which it is linear."""


def _cofactor_samples() -> Iterator[Sample]:
    # Finite differences, which samples of determinants check twice, would separate matrix and
    # determinant. Singular matrices, where determinants have two derivatives, are among their
    # samples.
    large = np.array([[1e200, 0.0], [0.0, 1e-200]])
    for x in (*_pairs(63), large):
        yield Sample((x, np.asarray(np.linalg.det(x))), smooth=x.shape[-1] < 2)


cofactors: Primitive = failing(
    Primitive(
        "cofactors",
        _cofactors,
        lambda x, d: Spec(x.shape, linalg_dtype("det", x.dtype)),
        Linearized(
            lambda tangents, out, x, d, failed="raise": (
                None if tangents[0] is None else cofactors_along(x, tangents[0], failed=failed)
            ),
            # The second derivative of a determinant is symmetric.
            lambda ct, out, x, d, failed="raise": (
                conjugate(cofactors_along(x, conjugate(ct), failed=failed)),
                d * 0,
            ),
        ),
        batch_matrices,
        _cofactor_samples,
        structure=of_stacks(2, 0),
        traits=OWNS,
    )
)
"""The matrices of cofactors: the derivatives of determinants with respect to the elements.

The determinants, which whoever asks has already, come along; nothing else depends on them.
"""


def _det_samples() -> Iterator[Sample]:
    for x in (*_pairs(64), *_singular()):
        yield Sample((x,))


def _from_elimination(makes: FromFactors) -> Factored:
    return Factored(lambda failed="raise": Factorization(Factors.ELIMINATION, makes), (2,))


det: Primitive = failing(
    Primitive(
        "det",
        np.linalg.det,
        lambda x: Spec(x.shape[:-2], linalg_dtype("det", x.dtype)),
        Linearized(
            lambda tangents, out, x, failed="raise": total(
                cofactors(x, unfollowed(out), failed=failed) * tangents[0]
            ),
            lambda ct, out, x, failed="raise": (
                conjugate(cofactors(x, unfollowed(out), failed=failed)) * as_matrices(ct),
            ),
        ),
        batch_matrices,
        _det_samples,
        structure=_from_elimination(FromFactors.DETERMINANT),
        traits=OWNS,
    )
)
"""Determinants."""


# ----------------------------------------------------------------------------- their logarithms


def _push_slogdet(
    tangents: tuple[Value, ...], outs: tuple[Value, Value], x: Value, failed: str = "raise"
) -> tuple[Value, Value]:
    change = total(swap_last_axes(inv(x, purpose="slogdet", failed=failed)) * tangents[0])
    if dtype_of(x).kind != "c":
        return None, change
    turn = join_parts(0.0, imag(change))
    return outs[0] * turn, real_part(change)


def _pull_slogdet(
    cts: tuple[Value, Value], outs: tuple[Value, Value], x: Value, failed: str = "raise"
) -> tuple[Value]:
    """The cotangent of the trace of X^-1 dX: its real part is the logarithm's change, i times its
    imaginary part is the sign's, relative to the sign."""
    sign, logarithm = cts
    if dtype_of(x).kind == "c" and sign is not None:
        turn = join_parts(0.0, imag(sign * conjugate(outs[0])))
        logarithm = turn if logarithm is None else logarithm + turn
    elif logarithm is None:
        return (None,)
    return (adjoint(inv(x, purpose="slogdet", failed=failed)) * as_matrices(logarithm),)


def _slogdet_samples() -> Iterator[Sample]:
    for x in _pairs(65):
        yield Sample((x,))


def _slogdet_result(x: Spec) -> tuple[Spec, Spec]:
    dtype = linalg_dtype("slogdet", x.dtype)
    return Spec(x.shape[:-2], dtype), Spec(x.shape[:-2], real_dtype(dtype))


slogdet: Primitive = failing(
    Primitive(
        "slogdet",
        lambda x: tuple(np.linalg.slogdet(x)),
        _slogdet_result,
        Linearized(_push_slogdet, _pull_slogdet),
        batch_matrices,
        _slogdet_samples,
        structure=_from_elimination(FromFactors.LOGARITHM),
        traits=OWNS,
        kinks=Kinks(least_singular_value),
    )
)
"""The signs of determinants, and the logarithms of their absolute values."""
