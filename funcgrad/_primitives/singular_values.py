"""Singular values and singular vectors.

With A = U S V^H and P = U^H dA V the tangents of singular values are the real parts of the diagonal
of P. The tangents of vectors are dU = U (X + Y) and dV = V (X - Y), where X is the Hermitian part
of P over differences of singular values, and Y its skew part over their sums; vectors also leave
the space of A, by ``(1 - U U^H) dA V / S`` (Townsend, "Differentiating the singular value
decomposition", 2016, in another form). Equal singular values are treated like equal eigenvalues in
``eigh``. So are sums that are zero: two zero singular values, or one if the matrix is not square.

>>> svd(np.array([[3.0, 0.0], [0.0, -2.0]]), full_matrices=False)[1]
array([3., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import (
    complement,
    converged,
    divide_by_gaps,
    is_something,
    spectral_cotangent,
)
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.kinks import differences
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    conjugate,
    diagonal_matrix,
    diagonal_of,
    linalg_dtype,
    of_stacks,
    real_dtype,
    real_part,
    stacks,
)
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import reshape, view
from funcgrad.errors import DegenerateError


def is_zero(s: Array, size: int, m: ModuleType = np) -> Any:
    """Singular values that are zero up to rounding."""
    return s <= size * np.finfo(s.dtype).eps * m.max(s, -1, initial=0)[..., None]


# ---------------------------------------------------------------------------- division by sums


def _divide(s: Array, x: Array, rows: bool) -> Any:
    """Divide by sums of two singular values, or each row by one value."""
    out, wrong = _over_sums(np, s, x, rows)
    if np.any(wrong):
        raise DegenerateError(
            "svd: the vectors of singular values that are zero are not unique, and the derivative"
            " depends on them. Use svdvals for singular values only, fnp.linalg.pinv for the"
            " inverse, or only the vectors of nonzero singular values."
        )
    return out.astype(np.result_type(s, x), copy=False)


def _over_sums(m: ModuleType, s: Array, x: Array, rows: bool) -> tuple[Any, Any]:
    zero = is_zero(s, s.shape[-1], m)
    sums, none = s[..., :, None], zero[..., :, None]
    if not rows:
        sums, none = sums + s[..., None, :], none & zero[..., None, :]
    out = m.where(none & ~m.isnan(x), 0, x / m.where(none, 1, sums))
    return out, none & is_something(x, x, m)


def _push_divide(
    tangents: tuple[Value, ...], out: Value, s: Value, x: Value, rows: bool, failed: str = "raise"
) -> Value:
    ds, change = tangents
    if ds is not None:
        n = shape_of(ds)
        sums = reshape(ds, shape=(*n, 1))
        if not rows:
            sums = sums + reshape(ds, shape=(*n[:-1], 1, n[-1]))
        change = -(sums * out) if change is None else change - sums * out
    return divide_by_sums(s, change, rows=rows, failed=failed)


def _pull_divide(
    ct: Value, out: Value, s: Value, x: Value, rows: bool, failed: str = "raise"
) -> tuple[Callable[[], Value], Value]:
    pulled = divide_by_sums(s, ct, rows=rows, failed=failed)

    def of_s() -> Value:
        shares = -(pulled * conjugate(out))
        rank = len(shape_of(shares))
        first = reduce_sum(shares, axis=(rank - 1,), keepdims=False)
        return first if rows else first + reduce_sum(shares, axis=(rank - 2,), keepdims=False)

    return of_s, pulled


def _divide_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(81)
    for number, shape in enumerate(((3,), (2, 2), (1,), (0,), (0, 2))):
        s = rng.uniform(1, 2, shape)
        for rows in (False, True):
            x = rng.standard_normal((*shape, 4 if rows else shape[-1]))
            yield Sample((s, x), {"rows": rows})
            if number == 0:
                yield Sample((s, x + 1j * x[::-1]), {"rows": rows})
                yield Sample((s, (x + 1j * x[::-1]).astype(np.complex64)), {"rows": rows})


divide_by_sums: Primitive = failing(
    Primitive(
        "divide_by_sums",
        _divide,
        lambda s, x, rows: Spec(x.shape, np.result_type(s.dtype, x.dtype)),
        Linearized(_push_divide, _pull_divide, linear_in=(1,)),
        batch_matrices,
        _divide_samples,
        structure=of_stacks(1, 2, arrays=_over_sums),
        traits=OWNS,
        kinks=Kinks(domain=lambda s, *_, **__: s),
    )
)
"""Divide matrices by sums of two singular values, or with ``rows`` by the row's value: 0 / 0 is 0,
and other divisions by 0 are errors."""


# -------------------------------------------------------------------------------- decompositions


def _gaps(x: Value, **_: Hashable) -> Value:
    values = svd(x, full_matrices=False)[1]
    return differences(values), values[..., -1:]


def _svd(x: Array, full_matrices: bool, apart: bool = False) -> Any:
    return tuple(converged("svd", lambda x: np.linalg.svd(x, full_matrices), x))


def svd_arrays(
    m: ModuleType, x: Array, full_matrices: bool, apart: bool = False
) -> tuple[tuple[Any, ...], Any]:
    u, s, vh = m.linalg.svd(x, full_matrices=full_matrices)
    return (u, s, vh), ~m.isfinite(s)


def _svd_result(x: Spec, full_matrices: bool, apart: bool = False) -> tuple[Spec, Spec, Spec]:
    dtype = linalg_dtype("svd", x.dtype)
    *lead, m, n = x.shape
    k = min(m, n)
    return (
        Spec((*lead, m, m if full_matrices else k), dtype),
        Spec((*lead, k), real_dtype(dtype)),
        Spec((*lead, n if full_matrices else k, n), dtype),
    )


def _columns(x: Value, start: int, stop: int) -> Value:
    return view(x, key=Key((..., slice(start, stop))))


def _hermitian(x: Value) -> Value:
    return (x + adjoint(x)) * 0.5


def _skew(x: Value) -> Value:
    return (x - adjoint(x)) * 0.5


def _push_svd(
    tangents: tuple[Value, ...],
    outs: tuple[Value, ...],
    x: Value,
    full_matrices: bool,
    apart: bool = False,
    failed: str = "raise",
) -> tuple[Value, ...]:
    (u, s, vh), dx = outs, tangents[0]
    k = shape_of(s)[-1]
    v, moved = adjoint(vh), matmul(dx, adjoint(vh))
    turned = matmul(adjoint(u), moved)  # of all columns of U by all of V
    inner = view(turned, key=Key((..., slice(k), slice(k))))
    both = divide_by_gaps(s, _hermitian(inner), strict=True, failed=failed)
    beside = divide_by_sums(s, _skew(inner), rows=False, failed=failed)
    back = matmul(adjoint(dx), _columns(u, 0, k))
    du = _moved(u, s, both + beside, _columns(moved, 0, k), failed)
    dv = _moved(v, s, both - beside, back, failed)
    return du, real_part(diagonal_of(inner)), adjoint(dv)


def _moved(u: Value, s: Value, inner: Value, image: Value, failed: str) -> Value:
    """The tangent of all vectors on one side; the ones beside the first k only rotate with them."""
    k, rows = shape_of(s)[-1], shape_of(u)[-2]
    first = _columns(u, 0, k)
    moved = matmul(first, inner)
    if rows > k:
        outside = image - matmul(first, matmul(adjoint(first), image))
        outside = adjoint(divide_by_sums(s, adjoint(outside), rows=True, failed=failed))
        moved = moved + outside
        if shape_of(u)[-1] > k:
            beside = _columns(u, k, shape_of(u)[-1])
            turned = -matmul(first, matmul(adjoint(outside), beside))
            moved = concatenate(moved, turned, axis=len(shape_of(u)) - 1)
    return moved


def _pull_svd(
    cts: tuple[Value, ...],
    outs: tuple[Value, ...],
    x: Value,
    full_matrices: bool,
    apart: bool = False,
    failed: str = "raise",
) -> tuple[Value]:
    (ubar, sbar, vhbar), (u, s, vh) = cts, outs
    if ubar is None and vhbar is None:
        return (matmul(_columns(u, 0, shape_of(s)[-1]) * _row(sbar), _rows(vh, shape_of(s)[-1])),)
    v = adjoint(vh)
    ubar = u * 0 if ubar is None else ubar
    vbar = v * 0 if vhbar is None else adjoint(vhbar)
    k = shape_of(s)[-1]
    first, second = _columns(u, 0, k), _columns(v, 0, k)
    of_u, from_u = _split_cotangent(u, s, ubar, failed)
    of_v, from_v = _split_cotangent(v, s, vbar, failed)
    inner = spectral_cotangent(s, of_u + of_v, sbar, apart, failed)
    inner = inner + divide_by_sums(s, _skew(of_u - of_v), rows=False, failed=failed)
    if sbar is not None:
        inner = inner + diagonal_matrix(sbar)
    pulled = matmul(matmul(first, inner), adjoint(second))
    if from_u is not None:
        pulled = pulled + matmul(from_u, adjoint(second))
    if from_v is not None:
        pulled = pulled + matmul(first, adjoint(from_v))
    return (pulled,)


def _rows(x: Value, stop: int) -> Value:
    return view(x, key=Key((..., slice(stop), slice(None))))


def _split_cotangent(u: Value, s: Value, ubar: Value, failed: str) -> tuple[Value, Value]:
    """Split the cotangent of singular vectors into its component in the span of the first k, and
    the component outside (or None), divided by the singular values.

    The result may depend on the columns after the first k only through their span.
    """
    k, n = shape_of(s)[-1], shape_of(u)[-1]
    first, first_bar = _columns(u, 0, k), _columns(ubar, 0, k)
    inside = matmul(adjoint(first), first_bar)
    if shape_of(u)[-2] == k:
        return inside, None
    if n == k:
        outside = first_bar - matmul(first, inside)
    else:
        beside, beside_bar = _columns(u, k, n), _columns(ubar, k, n)
        told = matmul(adjoint(beside), first_bar)
        none = complement(matmul(adjoint(beside), beside_bar), failed=failed)
        told = told + matmul(none, told)
        outside = matmul(beside, told - matmul(adjoint(beside_bar), first))
    return inside, adjoint(divide_by_sums(s, adjoint(outside), rows=True, failed=failed))


def _row(s: Value) -> Value:
    return reshape(s, shape=(*shape_of(s)[:-1], 1, shape_of(s)[-1]))


def matrices_of(seed: int) -> Iterator[Any]:
    shapes = ((3, 3), (4, 2), (2, 3), (2, 3, 2), (1, 1), (3, 1), (0, 0), (0, 2, 2))
    for x in stacks(*shapes, seed=seed, turn=False):
        if x.shape[-2:] != (3, 3) or x.flags.c_contiguous:
            yield x


def _svd_samples() -> Iterator[Sample]:
    for x in matrices_of(82):
        yield Sample((x,), {"full_matrices": False})
        if x.shape[-1] == x.shape[-2]:
            yield Sample((x,), {"full_matrices": True})
    x = np.random.default_rng(83).standard_normal((2, 3, 2))
    yield Sample((x,), {"full_matrices": True}, smooth=False)  # any vectors complete the basis
    yield Sample((x + 1j * x[::-1],), {"full_matrices": False}, smooth=False)
    yield Sample((np.zeros((2, 2)),), {"full_matrices": False}, smooth=False)
    yield Sample((np.zeros((3, 0)),), {"full_matrices": True}, smooth=False)


svd: Primitive = failing(
    Primitive(
        "svd_factors",
        _svd,
        _svd_result,
        Linearized(_push_svd, _pull_svd),
        batch_matrices,
        _svd_samples,
        structure=of_stacks(2, arrays=svd_arrays),
        traits=OWNS,
        kinks=Kinks(_gaps),
    )
)
"""U, the descending singular values, and V^H; all columns or the first k; ``apart`` as in eigh."""


# ------------------------------------------------------------------------------ singular values


def _positive(s: Array, size: int, m: ModuleType = np) -> Any:
    return (~is_zero(s, size, m)).astype(s.dtype)


def _positive_samples() -> Iterator[Sample]:
    for s in ([3.0, 1.0], [1.0, 1e-17], [[0.0, 0.0], [2.0, 0.0]], []):
        yield Sample((np.array(s),), {"size": 2}, smooth=False)


positive: Primitive = Primitive(
    "positive_singular_values",
    _positive,
    lambda s, size: s,
    DISCRETE,
    batch_matrices,
    _positive_samples,
    structure=of_stacks(1, arrays=lambda m, s, size: (_positive(s, size, m), None)),
    traits=OWNS,
    kinks=Kinks(lambda s, **_: s),
)
"""1 for singular values that are more than rounding, else 0."""
