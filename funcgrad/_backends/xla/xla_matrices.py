"""Linear algebra: triangular factors by ``jax.lax.linalg``, other factors by ``jax.numpy``.

Each function returns the results, and whether all matrices have the factors: where they do not,
only the operation itself knows the result, or the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import Opaque

_WIDER: Final = np.dtype(np.float32)


def from_factors(
    writer: XlaWriter, form: Factorization, operands: Sequence[Array], results: Sequence[Spec]
) -> tuple[list[Array], Array]:
    """The results of factors of the first operand."""
    jnp, dtype = writer.jax.numpy, np.result_type(*[r.dtype for r in results], operands[0].dtype)
    dtype = _WIDER if dtype.char not in "fdFD" else dtype
    a, *others = [writer.cast_to(x, dtype) for x in operands]
    if 0 in (*a.shape, *[n for x in others for n in x.shape]):
        raise UntranslatableError("it has no elements")
    if form.bands == (1, 1) and form.makes is FromFactors.SOLUTIONS:
        out = _tridiagonal(writer, a, others[0])
        ok = jnp.isfinite(out).all((-2, -1))  # singular matrices give NaN
        return _or_nan(writer, [out], ok, not form.raises)
    if form.bands is not None:
        a = _dense(writer, a, *form.bands)
    solve, diagonal, factor, sign = _factors(writer, form, a)
    ok = (diagonal != 0).all(-1)
    if form.factors is Factors.SQUARE_ROOT:
        ok &= jnp.isfinite(diagonal).all(-1)
    n = a.shape[-1]
    match form.makes:
        case FromFactors.SOLUTIONS:
            outs = [solve(others[0])]
        case FromFactors.INVERSE:
            outs = [solve(writer.expanded(np.eye(n, dtype=dtype), a.shape))]
        case FromFactors.FACTOR:
            outs = [factor()]
        case FromFactors.DETERMINANT:
            outs = [sign * jnp.prod(diagonal, axis=-1)]
        case _:
            size = jnp.sum(jnp.log(jnp.abs(diagonal)), axis=-1)
            outs = [sign * jnp.prod(jnp.sign(diagonal), axis=-1), size]
    return _or_nan(writer, outs, ok, not form.raises)


def in_arrays(
    writer: XlaWriter,
    structure: Opaque,
    operands: Sequence[Array],
    results: Sequence[Spec],
    params: Mapping[str, Any],
) -> tuple[list[Array], Array | None]:
    """The results of an operation that functions of NumPy's names compute, see ``Opaque``; NaN
    where it raises an error."""
    assert structure.arrays is not None
    jnp, stack = writer.jax.numpy, operands[0].ndim - structure.cores[0]
    if any(0 in x.shape for x in operands):
        raise UntranslatableError("it has no elements")
    dtype = np.result_type(*[spec.dtype for spec in results])
    operands = [x if x.dtype.kind in "fc" else writer.cast_to(x, dtype) for x in operands]
    params = {name: value for name, value in params.items() if name != "failed"}
    outs, flags = structure.arrays(jnp, *operands, **params)
    outs = [*outs] if isinstance(outs, tuple) else [outs]
    if flags is None:
        return outs, None
    return _or_nan(writer, outs, ~jnp.any(flags, range(stack, flags.ndim)), True)


def _or_nan(
    writer: XlaWriter, outs: list[Array], ok: Array, fills: bool
) -> tuple[list[Array], Array]:
    """The results, perhaps NaN for matrices that have none; and whether all matrices have them."""
    jnp = writer.jax.numpy
    if fills:
        nans = [complex(np.nan, np.nan) if out.dtype.kind == "c" else np.nan for out in outs]
        outs = [
            jnp.where(jnp.expand_dims(ok, [*range(ok.ndim, out.ndim)]), out, out.dtype.type(nan))
            for out, nan in zip(outs, nans, strict=True)
        ]
    return outs, jnp.all(ok)


def _factors(writer: XlaWriter, form: Factorization, a: Array) -> tuple[Any, Array, Any, Array]:
    """The solver, the pivots, the factor, and the sign of the exchanges of rows."""
    linalg, jnp = writer.lax.linalg, writer.jax.numpy

    def solved(triangle: Array, b: Array, **options: Any) -> Array:
        stack = np.broadcast_shapes(triangle.shape[:-2], b.shape[:-2])
        triangle, b = [writer.expanded(x, (*stack, *x.shape[-2:])) for x in (triangle, b)]
        return linalg.triangular_solve(triangle, b, left_side=True, **options)

    if form.factors is Factors.TRIANGLE:
        options = {"lower": form.lower, "unit_diagonal": form.unit_diagonal}
        pivots = jnp.ones(a.shape[:-1], a.dtype) if form.unit_diagonal else _diagonal(writer, a)
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
        return by_root, pivots * pivots, factor, a.dtype.type(1)
    both, exchanged, order = linalg.lu(a)

    def by_elimination(b: Array) -> Array:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        b = writer.expanded(b, (*stack, *b.shape[-2:]))
        rows = writer.expanded(order[..., None], b.shape)
        moved = jnp.take_along_axis(b, rows, axis=-2, mode="promise_in_bounds")
        half = solved(both, moved, lower=True, unit_diagonal=True)
        return solved(both, half, lower=False)

    swaps = jnp.sum(exchanged != np.arange(exchanged.shape[-1]), axis=-1)
    sign = (1 - 2 * (swaps % 2)).astype(a.dtype)

    def lower_or_upper() -> Array:
        raise UntranslatableError("it returns factors of an elimination")

    return by_elimination, _diagonal(writer, both), lower_or_upper, sign


def _diagonal(writer: XlaWriter, a: Array) -> Array:
    return writer.jax.numpy.diagonal(a, axis1=-2, axis2=-1)


def _adjoint(writer: XlaWriter, a: Array) -> Array:
    return writer.jax.numpy.conj(writer.jax.numpy.matrix_transpose(a))


def _tridiagonal(writer: XlaWriter, bands: Array, b: Array) -> Array:
    """The solution for a matrix of three diagonals, by elimination that exchanges rows."""
    jnp = writer.jax.numpy
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    b, bands = [jnp.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (b, bands)]
    upper, diagonal, lower = [bands[..., k, :] for k in range(3)]
    before, behind = jnp.roll(lower, 1, -1), jnp.roll(upper, -1, -1)  # by an element's row
    return writer.lax.linalg.tridiagonal_solve(
        before.at[..., 0].set(0), diagonal, behind.at[..., -1].set(0), b
    )


def _dense(writer: XlaWriter, bands: Array, lower: int, upper: int) -> Array:
    """The matrix whose diagonals are the rows of ``bands``, see ``Factorization``."""
    jnp, n = writer.jax.numpy, bands.shape[-1]
    rows, columns = np.indices((n, n))
    places = upper + rows - columns
    inside = (places >= 0) & (places <= lower + upper)
    at = (..., np.where(inside, places, 0), columns)
    return jnp.where(inside, jnp.asarray(bands).at[at].get(mode="promise_in_bounds"), 0)
