"""Results of triangular factors in ``jax.lax.linalg``, see ``Factorization``.

Each function returns the results, and whether all matrices have the factors: where they do not,
only the operation itself knows the result, or the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors

_WIDER: Final = np.dtype(np.float32)


def from_factors(
    writer: XlaWriter, form: Factorization, operands: Sequence[Array], results: Sequence[Spec]
) -> tuple[list[Array], Array]:
    """The results of factors of the first operand."""
    lax, dtype = writer.lax, np.result_type(*[spec.dtype for spec in results], operands[0].dtype)
    dtype = _WIDER if dtype.char not in "fdFD" else dtype
    a, *others = [writer.cast_to(x, dtype) for x in operands]
    if 0 in (*a.shape, *[n for x in others for n in x.shape]):
        raise UntranslatableError("it has no elements")
    if form.bands == (1, 1) and form.makes is FromFactors.SOLUTIONS:
        out = _tridiagonal(writer, a, others[0])
        return _or_nan(writer, form, [out], _finite(writer, out, 2))  # singular matrices give NaN
    if form.bands is not None:
        a = _dense(writer, a, *form.bands)
    solve, diagonal, factor, sign = _factors(writer, form, a)
    good = lax.reduce_and(lax.ne(diagonal, dtype.type(0)), [diagonal.ndim - 1])
    if form.factors is Factors.SQUARE_ROOT:
        good = lax.bitwise_and(good, _finite(writer, diagonal, 1))
    n = a.shape[-1]
    match form.makes:
        case FromFactors.SOLUTIONS:
            outs = [solve(others[0])]
        case FromFactors.INVERSE:
            outs = [solve(writer.expanded(np.eye(n, dtype=dtype), a.shape))]
        case FromFactors.FACTOR:
            outs = [factor()]
        case FromFactors.DETERMINANT:
            outs = [lax.mul(sign, lax.reduce_prod(diagonal, [diagonal.ndim - 1]))]
        case _:
            last = [diagonal.ndim - 1]
            outs = [
                lax.mul(sign, lax.reduce_prod(lax.sign(diagonal), last)),
                lax.reduce_sum(lax.log(lax.abs(diagonal)), last),
            ]
    return _or_nan(writer, form, outs, good)


def _or_nan(
    writer: XlaWriter, form: Factorization, outs: Sequence[Array], good: Array
) -> tuple[list[Array], Array]:
    """The results, NaN for matrices without factors if these raise no error; and whether all
    matrices have factors."""
    lax = writer.lax
    if not form.raises:
        outs = [
            lax.select(
                writer.expanded(lax.expand_dims(good, [good.ndim, good.ndim + 1]), out.shape),
                out,
                lax.full_like(out, complex(np.nan, np.nan) if out.dtype.kind == "c" else np.nan),
            )
            for out in outs
        ]
    return [*outs], lax.reduce_and(good, _axes(good))


def _axes(x: Array) -> list[int]:
    return [*range(len(x.shape))]


def _finite(writer: XlaWriter, x: Array, core: int) -> Array:
    """Whether all numbers are finite, over the last axes."""
    real = writer.lax.real(x) if x.dtype.kind == "c" else x
    return writer.lax.reduce_and(writer.lax.is_finite(real), _axes(x)[-core:])


def _factors(writer: XlaWriter, form: Factorization, a: Array) -> tuple[Any, Array, Any, Array]:
    """The solver, the pivots, the factor, and the sign of the exchanges of rows."""
    linalg, lax = writer.lax.linalg, writer.lax

    def solved(triangle: Array, b: Array, **options: Any) -> Array:
        stack = np.broadcast_shapes(triangle.shape[:-2], b.shape[:-2])
        triangle, b = [writer.expanded(x, (*stack, *x.shape[-2:])) for x in (triangle, b)]
        return linalg.triangular_solve(triangle, b, left_side=True, **options)

    if form.factors is Factors.TRIANGLE:
        options = {"lower": form.lower, "unit_diagonal": form.unit_diagonal}
        pivots = lax.full(a.shape[:-1], 1, a.dtype) if form.unit_diagonal else _diagonal(writer, a)
        return (lambda b: solved(a, b, **options)), pivots, None, a.dtype.type(1)
    if form.factors is Factors.SQUARE_ROOT:
        if not form.lower:
            a = _adjoint(writer, a)
        root = linalg.cholesky(a, symmetrize_input=False)

        def by_root(b: Array) -> Array:
            half = solved(root, b, lower=True)
            return solved(root, half, lower=True, transpose_a=True, conjugate_a=True)

        def factor() -> Array:
            return root if form.lower else _adjoint(writer, root)

        pivots = _diagonal(writer, root)
        return by_root, lax.mul(pivots, pivots), factor, a.dtype.type(1)
    both, exchanged, order = linalg.lu(a)

    def by_elimination(b: Array) -> Array:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        b = writer.expanded(b, (*stack, *b.shape[-2:]))
        rows = writer.expanded(lax.expand_dims(order, [order.ndim]), b.shape)
        moved = writer.jax.numpy.take_along_axis(b, rows, axis=-2, mode="promise_in_bounds")
        half = solved(both, moved, lower=True, unit_diagonal=True)
        return solved(both, half, lower=False)

    still = np.arange(exchanged.shape[-1], dtype=np.int32)
    swaps = lax.reduce_sum(
        lax.convert_element_type(
            lax.ne(exchanged, writer.expanded(still, exchanged.shape)), np.int32
        ),
        [exchanged.ndim - 1],
    )
    odd = lax.convert_element_type(lax.rem(swaps, swaps.dtype.type(2)), a.dtype)
    sign = lax.sub(a.dtype.type(1), lax.add(odd, odd))

    def lower_or_upper() -> Array:
        raise UntranslatableError("it returns factors of an elimination")

    return by_elimination, _diagonal(writer, both), lower_or_upper, sign


def _diagonal(writer: XlaWriter, a: Array) -> Array:
    n = a.shape[-1]
    flat = writer.reshaped(a, (*a.shape[:-2], n * n))
    return writer.sliced(flat, len(a.shape) - 2, 0, n, n + 1)


def _adjoint(writer: XlaWriter, a: Array) -> Array:
    axes = _axes(a)
    turned = writer.permuted(a, [*axes[:-2], axes[-1], axes[-2]])
    return writer.lax.conj(turned) if a.dtype.kind == "c" else turned


def _tridiagonal(writer: XlaWriter, bands: Array, b: Array) -> Array:
    """The solution for a matrix of three diagonals, by elimination that exchanges rows."""
    lax, last = writer.lax, len(bands.shape) - 2
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    b = writer.expanded(b, (*stack, *b.shape[-2:]))
    rows = [
        writer.reshaped(writer.sliced(bands, last, k, 1), (*bands.shape[:-2], bands.shape[-1]))
        for k in range(3)
    ]
    upper, diagonal, lower = [writer.expanded(row, (*stack, bands.shape[-1])) for row in rows]
    none = [(0, 0, 0)] * len(stack)
    zero = bands.dtype.type(0)
    before = lax.pad(lower, zero, [*none, (1, -1, 0)])  # by the row in which an element is
    behind = lax.pad(upper, zero, [*none, (-1, 1, 0)])
    return lax.linalg.tridiagonal_solve(before, diagonal, behind, b)


def _dense(writer: XlaWriter, bands: Array, lower: int, upper: int) -> Array:
    """The matrix whose diagonals are the rows of ``bands``, see ``Factorization``."""
    n, stack = bands.shape[-1], bands.shape[:-2]
    rows, columns = np.indices((n, n))
    places = upper + rows - columns
    inside = (places >= 0) & (places <= lower + upper)
    flat = writer.reshaped(bands, (*stack, bands.shape[-2] * n))
    numbers = np.where(inside, places * n + columns, 0).reshape(n * n)
    entries = writer.lax.GatherDimensionNumbers(
        offset_dims=tuple(range(len(stack))),
        collapsed_slice_dims=(len(stack),),
        start_index_map=(len(stack),),
    )
    out = writer.lax.gather(flat, numbers[:, None], entries, (*stack, 1), mode="promise_in_bounds")
    out = writer.reshaped(out, (*stack, n, n))
    return writer.lax.select(writer.expanded(inside, out.shape), out, writer.lax.full_like(out, 0))
