"""Derivatives of eigenvalues and singular values without vectors, and their own derivatives.

``weighted`` is the gradient U g V^H of a function of the values, and ``slopes`` the derivatives of
the values in a direction. They compute vectors internally, so that vectors are not differentiated:
the rules here avoid the quotients 0/0, which ``ties`` handles.

Both have two arguments that only carry information: ``told``, zeros in the shape of the matrix, and
``count``, a zero. In reverse over another mode the derivatives of g are known when the values are
pulled back, and the direction when ``weighted`` or ``slopes`` is pulled back. So the cotangent of
``told`` is the direction, or a multiple, and the cotangent of ``count`` tells how many were added
up: with several, the derivatives of g cannot be assigned to directions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import divide_by_gaps, eigh, gaps, hermitian_matrices
from funcgrad._primitives.failures import failing
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    conjugate,
    from_triangle,
    linalg_dtype,
    of_stacks,
    real_dtype,
    real_part,
    to_triangle,
)
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.singular_values import divide_by_sums, is_zero, matrices_of, positive, svd
from funcgrad._primitives.structural import cast, reshape
from funcgrad._primitives.ties import (
    Frame,
    at_ties,
    frame_of,
    turned,
    turned_eigh,
    turned_eigh_arrays,
    turned_svd,
    turned_svd_arrays,
)

# ------------------------------------------------------------------------- derivatives of gradients


def _row(s: Value) -> Value:
    return reshape(s, shape=(*shape_of(s)[:-1], 1, shape_of(s)[-1]))


def _column(s: Value) -> Value:
    return reshape(s, shape=(*shape_of(s), 1))


def _parts(inner: Value) -> tuple[Value, Value]:
    return (inner + adjoint(inner)) * 0.5, (inner - adjoint(inner)) * 0.5


def _counted(s: Value, g: Value, x: Value) -> Value:
    """Derivatives with respect to singular values; 0 at zeros, where the values have a kink."""
    return g * positive(s, size=max(shape_of(x)[-2:]))


def _turn(frame: Frame, g: Value, d: Value, hermitian: bool, failed: str) -> Value:
    """The change of U g V^H in a direction while g stays, without quotients of 0 by 0."""
    u, s, vh = frame
    if not hermitian:
        g = _counted(s, g, d)
    moved = matmul(d, adjoint(vh))
    inner = matmul(adjoint(u), moved)
    straight, skew = _parts(inner)
    changed = straight * divide_by_gaps(s, gaps(g), strict=False, failed=failed)
    if hermitian:
        return matmul(u, matmul(changed, vh))
    sums = _row(g) + _column(g)
    changed = changed + skew * divide_by_sums(s, sums, rows=False, failed=failed)
    out = matmul(matmul(u, changed), vh)
    shares = reshape(divide_by_sums(s, _column(g), rows=True, failed=failed), shape=shape_of(g))
    if shape_of(u)[-2] > shape_of(u)[-1]:
        out = out + matmul((moved - matmul(u, inner)) * _row(shares), vh)
    if shape_of(vh)[-1] > shape_of(vh)[-2]:
        out = out + matmul(u * _row(shares), matmul(adjoint(u), d) - matmul(inner, vh))
    return out


def _bends(frame: Frame, d: Value, e: Value, hermitian: bool, failed: str) -> Value:
    """The second derivatives of the values in two directions, the transpose of ``_turn`` in g.

    Raises
    ------
    DegenerateError
        They depend on the function of equal values, which is unknown here.
    """
    u, s, vh = frame
    inners = [matmul(matmul(adjoint(u), x), adjoint(vh)) for x in (d, e)]
    (straight, skew), (other, askew) = map(_parts, inners)
    shares = divide_by_gaps(s, real_part(conjugate(straight) * other), strict=True, failed=failed)
    axis = len(shape_of(s))
    out = reduce_sum(shares, axis=(axis - 1,), keepdims=False)
    if hermitian:
        return 2 * out
    shares = divide_by_sums(s, real_part(conjugate(skew) * askew), rows=False, failed=failed)
    out = 2 * (out + reduce_sum(shares, axis=(axis,), keepdims=False))
    if shape_of(u)[-2] > shape_of(u)[-1]:
        x, y = [matmul(z, adjoint(vh)) - matmul(u, i) for z, i in zip((d, e), inners, strict=True)]
        out = out + _beside(s, x, y, axis - 1, failed)
    if shape_of(vh)[-1] > shape_of(vh)[-2]:
        x, y = [matmul(adjoint(u), z) - matmul(i, vh) for z, i in zip((d, e), inners, strict=True)]
        out = out + _beside(s, x, y, axis, failed)
    return _counted(s, out, d)


def _beside(s: Value, x: Value, y: Value, axis: int, failed: str) -> Value:
    product = reduce_sum(real_part(conjugate(x) * y), axis=(axis,), keepdims=False)
    return reshape(divide_by_sums(s, _column(product), rows=True, failed=failed), shape=shape_of(s))


def in_told_direction(
    x: Value, told: Value, g: Value, count: Value, hermitian: bool, lower: bool, failed: str
) -> Value:
    """The change of U g V^H by quotients of 0 by 0 in the direction that a cotangent tells."""
    frame = frame_of(x, hermitian, lower, failed)
    return at_ties(*frame, frame[1] * 0, told, g, count, hermitian=hermitian, failed=failed)


def _moved(
    x: Value, g: Value, d: Value, dg: Value, hermitian: bool, lower: bool, failed: str
) -> Value:
    """The change of U g V^H in a direction, without the change by dg itself."""
    frame = frame_of(x, hermitian, lower, failed)
    change = _turn(frame, g, d, hermitian, failed)
    nothing = g * 0
    count = reduce_sum(nothing, axis=(len(shape_of(nothing)) - 1,), keepdims=False)
    dg = nothing if dg is None else dg
    return change + at_ties(*frame, g, d, dg, count, hermitian=hermitian, failed=failed)


def directed(x: Value, hermitian: bool, lower: bool) -> Value:
    return from_triangle(x, lower=lower) if hermitian else x


def taken(x: Value, hermitian: bool, lower: bool) -> Value:
    return to_triangle(x, lower=lower) if hermitian else x


def _untold(told: Value, count: Value) -> tuple[Value, Value]:
    """Zeros instead of arguments that are to carry nothing."""
    return np.zeros(shape_of(told), dtype_of(told)), np.zeros(shape_of(count), dtype_of(count))


def _of_values(
    x: Array, told: Array, count: Array, g: Array, least: bool, hermitian: bool, lower: bool
) -> Any:
    if hermitian:
        s, u = eigh.evaluate(x, lower=lower)
        return by_vectors(u, s, np.conj(np.swapaxes(u, -1, -2)), g, False, hermitian) + told
    u, s, vh = svd.evaluate(x, full_matrices=False)
    return by_vectors(u, s, vh, g, least, hermitian) + told


def _weighted_arrays(
    m: ModuleType,
    x: Array,
    told: Array,
    count: Array,
    g: Array,
    least: bool,
    hermitian: bool,
    lower: bool,
) -> tuple[Any, Any]:
    if hermitian:
        (_, u), wrong = turned_eigh_arrays(m, x, lower)
        return m.matmul(u * g[..., None, :], m.conj(m.swapaxes(u, -1, -2))) + told, wrong
    (u, s, vh), wrong = turned_svd_arrays(m, x)
    if least:
        g = m.where(is_zero(s, max(x.shape[-2:]), m), 0, g)
    return m.matmul(u * g[..., None, :], vh) + told, wrong


def by_vectors(u: Array, s: Array, vh: Array, g: Array, least: bool, hermitian: bool) -> Any:
    """U g V^H, by vectors of equal values that are turned where it depends on them."""
    if least:
        g = np.where(is_zero(s, max(u.shape[-2], vh.shape[-1])), 0, g)
    u, vh = turned(u, s, vh, hermitian, g)
    return (u * g[..., None, :]) @ vh


def _push_weighted(
    tangents: tuple[Value, ...],
    out: Value,
    x: Value,
    told: Value,
    count: Value,
    g: Value,
    least: bool,
    hermitian: bool,
    lower: bool,
    failed: str = "raise",
) -> Value:
    dx, change, _, dg = tangents
    if dg is not None:
        kind = {"hermitian": hermitian, "lower": lower, "failed": failed}
        moved = weighted(x, *_untold(told, count), dg, least=False, **kind)
        change = moved if change is None else change + moved
    if dx is not None:
        d = directed(dx, hermitian, lower)
        moved = _moved(x, g, d, dg, hermitian, lower, failed)
        change = moved if change is None else change + moved
    return change


def _pull_weighted(
    ct: Value,
    out: Value,
    x: Value,
    told: Value,
    count: Value,
    g: Value,
    least: bool,
    hermitian: bool,
    lower: bool,
    failed: str = "raise",
) -> tuple[Any, ...]:
    how: dict[str, Any] = {"hermitian": hermitian, "lower": lower, "failed": failed}
    return (
        lambda: taken(_moved(x, g, ct, None, **how), hermitian, lower),
        lambda: ct,
        lambda: count * 0 + 1.0,
        lambda: slopes(x, *_untold(told, count), ct, **how),
    )


def _slopes(x: Array, told: Array, count: Array, d: Array, hermitian: bool, lower: bool) -> Any:
    if hermitian:
        u = v = turned_eigh.evaluate(x, lower=lower)[1]
    else:
        u, _, vh = turned_svd.evaluate(x, full_matrices=False)
        v = np.conj(np.swapaxes(vh, -1, -2))
    out = np.sum(np.conj(u) * (d @ v), -2).real
    return out + np.sum(np.conj(told) * d, (-2, -1)).real[..., None] * _shares(out)


def _slopes_arrays(
    m: ModuleType, x: Array, told: Array, count: Array, d: Array, hermitian: bool, lower: bool
) -> tuple[Any, Any]:
    if hermitian:
        (_, u), wrong = turned_eigh_arrays(m, x, lower)
        v = u
    else:
        (u, _, vh), wrong = turned_svd_arrays(m, x)
        v = m.conj(m.swapaxes(vh, -1, -2))
    out = m.real(m.sum(m.conj(u) * m.matmul(d, v), -2))
    along = m.real(m.sum(m.conj(told) * d, (-2, -1)))
    return out + along[..., None] * _shares(out), wrong


def _shares(values: Value) -> Any:
    """Arbitrary factors by which ``slopes`` depend on ``told``."""
    return np.cos(np.arange(1.0, 1 + shape_of(values)[-1])).astype(dtype_of(values))


def _push_slopes(
    tangents: tuple[Value, ...],
    out: Value,
    x: Value,
    told: Value,
    count: Value,
    d: Value,
    hermitian: bool,
    lower: bool,
    failed: str = "raise",
) -> Value:
    dx, dtold, _, dd = tangents
    how: dict[str, Any] = {"hermitian": hermitian, "lower": lower, "failed": failed}
    change = None if dd is None else slopes(x, told, count, dd, **how)
    if dtold is not None:
        axis = len(shape_of(out))
        product = real_part(conjugate(dtold) * d)
        total = reduce_sum(product, axis=(axis - 1, axis), keepdims=False)
        moved = _column(total) * _shares(out)
        change = moved if change is None else change + moved
    if dx is not None:
        e = directed(dx, hermitian, lower)
        bends = _bends(frame_of(x, **how), d, e, hermitian, failed)
        change = bends if change is None else change + bends
    return change


def _pull_slopes(
    ct: Value,
    out: Value,
    x: Value,
    told: Value,
    count: Value,
    d: Value,
    hermitian: bool,
    lower: bool,
    failed: str = "raise",
) -> tuple[Any, ...]:
    how: dict[str, Any] = {"hermitian": hermitian, "lower": lower, "failed": failed}
    axis = len(shape_of(out)) - 1

    def share() -> Value:
        return reduce_sum(ct * _shares(out), axis=(axis,), keepdims=False)

    def repeated(x: Value) -> Value:
        return _column(_column(x))

    return (
        lambda: taken(_moved(x, ct, d, None, **how), hermitian, lower),
        lambda: d * repeated(share()),
        lambda: cast(share() != 0, dtype=dtype_of(count)),
        lambda: (
            weighted(x, *_untold(told, count), ct, least=False, **how) + told * repeated(share())
        ),
    )


def _weighted_spec(x: Spec, told: Spec, count: Spec, g: Spec, **_: Hashable) -> Spec:
    return Spec(x.shape, np.result_type(linalg_dtype("svd", x.dtype), told.dtype, g.dtype))


def _slopes_spec(x: Spec, told: Spec, count: Spec, d: Spec, **_: Hashable) -> Spec:
    dtype = np.result_type(linalg_dtype("svd", x.dtype), told.dtype, d.dtype)
    return Spec((*x.shape[:-2], min(x.shape[-2:])), real_dtype(dtype))


def _subjects(of_slopes: bool) -> Iterator[Sample]:
    rng = np.random.default_rng(86)
    kinds = ((False, matrices_of(87)), (True, hermitian_matrices(88)))
    for hermitian, subjects in kinds:
        for number, x in enumerate(subjects):
            last = rng.standard_normal(x.shape if of_slopes else (*x.shape[:-2], min(x.shape[-2:])))
            last = last + np.swapaxes(last, -1, -2) if of_slopes and hermitian else last
            params = {"hermitian": hermitian, "lower": number % 2 == 0}
            params = params if of_slopes else {"least": False, **params}
            # The count is an integer here, since its cotangents are not derivatives.
            yield Sample((x, x * 0, np.zeros(x.shape[:-2], int), last), params)


weighted: Primitive = failing(
    Primitive(
        "with_values",
        _of_values,
        _weighted_spec,
        Linearized(_push_weighted, _pull_weighted, linear_in=(1, 3)),
        batch_matrices,
        lambda: _subjects(False),
        structure=of_stacks(2, 2, 0, 1, arrays=_weighted_arrays),
        traits=OWNS,
    )
)
"""The gradient U g V^H of a function of the values, whose derivatives are g. ``least`` omits zeros,
where a value has the subgradient 0."""

slopes: Primitive = failing(
    Primitive(
        "value_slopes",
        _slopes,
        _slopes_spec,
        Linearized(_push_slopes, _pull_slopes, linear_in=(3,)),
        batch_matrices,
        lambda: _subjects(True),
        structure=of_stacks(2, 2, 0, 2, arrays=_slopes_arrays),
        traits=OWNS,
    )
)
"""The derivatives of the values in a direction, by vectors of equal ones that are turned at random;
zero singular values may become negative."""
