"""Eigenvalues and eigenvectors of Hermitian matrices.

With A v = w v and D = V^H dA V the tangents are dw = diag(D) and dV = V (D / gaps), where the
gap at i, j is ``w[j] - w[i]`` (Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation", 2008, section 3.1). The phase of a complex eigenvector is
arbitrary: its tangent has no component along the eigenvector itself.

Eigenvectors of equal eigenvalues are an arbitrary basis of a space. A result that depends on the
choice has no derivative, which is an error. A result that does not, such as the projection on that
space, has the right derivative. Only values distinguish the two cases, so operations decide at run
time.

>>> eigh(np.array([[2.0, 0.0], [0.0, 3.0]]), lower=True)[0]
array([2., 3.])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Linear, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.failures import failing
from funcgrad._primitives.kinks import differences
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    checked,
    conjugate,
    diagonal_matrix,
    diagonal_of,
    from_triangle,
    hermitian_of,
    linalg_dtype,
    of_stacks,
    real_dtype,
    real_part,
    to_triangle,
)
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import reshape
from funcgrad.errors import DegenerateError

_EQUAL: Final = 32
"""Eigenvalues count as equal if they differ by at most this multiple of the precision times the
size of the matrix, relative to the largest: LAPACK's accuracy."""

_NOTHING: Final = 1024
"""A number counts as zero up to this multiple of the precision, times the size of the matrix,
relative to the largest element."""


def gaps(w: Value) -> Value:
    """The matrix of differences: ``w[j] - w[i]`` at i, j."""
    lead, n = shape_of(w)[:-1], shape_of(w)[-1]
    return reshape(w, shape=(*lead, 1, n)) - reshape(w, shape=(*lead, n, 1))


def equal_bound(w: Array, m: ModuleType = np) -> Any:
    """The greatest difference of eigenvalues that count as equal."""
    return equal_share(w) * m.max(m.abs(w), -1, initial=0)


def equal_share(w: Array) -> float:
    """The bound as a share of the greatest eigenvalue."""
    size: int = w.shape[-1]
    return _EQUAL * size * float(np.finfo(w.dtype).eps)


def near(w: Array, m: ModuleType = np) -> Any:
    """Whether eigenvalues are equal up to rounding; each equals itself.

    Real eigenvalues are in order: two are also equal if each one is equal to the next between them.
    ``m`` has the functions: NumPy, or ``jax.numpy``.
    """
    if w.dtype.kind == "c":
        return m.abs(w[..., None, :] - w[..., :, None]) <= equal_bound(w, m)[..., None, None]
    jumps = m.cumsum(~(m.abs(m.diff(w)) <= equal_bound(w, m)[..., None]), -1)
    run = m.concatenate([m.zeros_like(w[..., :1], jumps.dtype), jumps], -1)
    return (run[..., None, :] == run[..., :, None]) & ~m.isnan(w)[..., None]


def nothing_bound(x: Array) -> Any:
    """The share of the largest element up to which others count as zero."""
    return _NOTHING * x.shape[-1] * np.finfo(x.dtype).eps


def is_something(x: Array, whole: Array, m: ModuleType = np) -> Any:
    """Which elements exceed rounding error, relative to the largest element of the whole matrix."""
    size = m.max(m.abs(whole), (-1, -2), initial=0)[..., None, None]
    return m.abs(x) > nothing_bound(x) * size


_REMEDY: Final = (
    " Results that do not depend on the choice have derivatives: for eigenvalues use eigvalsh (or"
    " svdvals); for a function of the matrix call that function, such as fnp.linalg.matrix_power,"
    " inv, pinv, or funcgrad.scipy.linalg's expm, logm and sqrtm; or perturb the matrix so that"
    " its eigenvalues differ."
)


def _refuse(w: Array, wrong: Array, why: str) -> None:
    """Raise the error for pairs of eigenvalues, if there is one for which a flag is set."""
    if not np.any(wrong):
        return
    *stack, i, j = [int(k) for k in np.argwhere(wrong)[0]]
    i, j = sorted((i, j))
    where = f" in the matrix {stack[0] if len(stack) == 1 else tuple(stack)}" if stack else ""
    first, second = w[(*stack, i)], w[(*stack, j)]
    raise DegenerateError(
        f"The eigenvalues (or singular values) {first:.6g} and {second:.6g}, positions {i}"
        f" and {j}{where}, are equal up to rounding, so their vectors are an arbitrary basis of a"
        f" space. {why}" + _REMEDY
    )


def _refuse_phase(wrong: Array) -> None:
    if np.any(wrong):
        raise DegenerateError(
            "The result depends on the phases of complex eigenvectors (or singular vectors), which"
            " are arbitrary: v and exp(i t) v are both valid. Use results that do not depend on"
            " them, such as abs(v) ** 2 or v @ v.mT.conj()."
        )


# ------------------------------------------------------------------------------ division by gaps


def _gaps(x: Value, lower: bool, **_: Hashable) -> Value:
    return differences(eigh(x, lower=lower)[0])


def _divide_by_gaps(w: Array, x: Array, strict: bool) -> Any:
    out, wrong = _over_gaps(np, w, x, strict)
    if strict:
        _refuse(w, wrong, "Along this direction they have no derivative.")
    return out.astype(np.result_type(w, x), copy=False)


def _over_gaps(m: ModuleType, w: Array, x: Array, strict: bool) -> tuple[Any, Any]:
    close = near(w, m)
    wrong = close & is_something(x, x, m) & ~np.eye(w.shape[-1], dtype=bool) if strict else None
    apart = m.where(close, 1, w[..., None, :] - w[..., :, None])
    return m.where(close & ~m.isnan(x), 0, x / apart), wrong


def _push_gaps(
    tangents: tuple[Value, ...], out: Value, w: Value, x: Value, strict: bool, failed: str = "raise"
) -> Value:
    dw, change = tangents
    if dw is not None:
        moved = gaps(dw) * out
        change = -moved if change is None else change - moved
    return divide_by_gaps(w, change, strict=strict, failed=failed)


def _pull_gaps(
    ct: Value, out: Value, w: Value, x: Value, strict: bool, failed: str = "raise"
) -> tuple[Callable[[], Value], Value]:
    pulled = divide_by_gaps(conjugate(w), ct, strict=False, failed=failed)

    def of_w() -> Value:
        shares = pulled * conjugate(out)
        rank = len(shape_of(shares))
        rows = reduce_sum(shares, axis=(rank - 1,), keepdims=False)
        return rows - reduce_sum(shares, axis=(rank - 2,), keepdims=False)

    return of_w, pulled


def _spectra(seed: int) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    for shape in ((3,), (2, 2), (1,), (0,), (0, 2)):
        w = np.sort(rng.uniform(-1, 1, shape)) + 2 * np.arange(shape[-1])
        x = rng.standard_normal((*shape, shape[-1]))
        yield w, x
        if shape in ((3,), (2, 2)):
            yield w, x + 1j * rng.standard_normal(x.shape)


def _gap_samples() -> Iterator[Sample]:
    for number, (w, x) in enumerate(_spectra(71)):
        x = x * (1 - np.eye(x.shape[-1]))
        yield Sample((w, x), {"strict": number % 2 == 0})
        if number < 2:
            yield Sample((w + 1j * w[::-1] ** 2, x), {"strict": False})
    yield Sample(
        (np.array([1.0, 1.0, 2.0]), np.arange(9.0).reshape(3, 3)), {"strict": False}, smooth=False
    )


divide_by_gaps: Primitive = failing(
    Primitive(
        "divide_by_gaps",
        _divide_by_gaps,
        lambda w, x, strict: Spec(x.shape, np.result_type(w.dtype, x.dtype)),
        Linearized(_push_gaps, _pull_gaps, linear_in=(1,)),
        batch_matrices,
        _gap_samples,
        structure=of_stacks(1, 2, arrays=_over_gaps),
        traits=OWNS,
        kinks=Kinks(lambda w, x, strict: differences(w)),
    )
)
"""Matrices over differences of eigenvalues, 0 where these are equal; if strict, it has to be."""


# ---------------------------------------------------------------- messages about eigenvectors


def _skew(w: Array, n: Array, m: ModuleType = np) -> Any:
    out = (n - m.conj(m.swapaxes(n, -1, -2))) / 2
    nothing = near(w, m) & ~is_something(out, n, m) & ~m.isnan(out)
    return m.where(nothing, 0, out).astype(n.dtype, copy=False)


def _skew_samples() -> Iterator[Sample]:
    for w, n in _spectra(72):
        yield Sample((w, n))


skew_part: Primitive = Primitive(
    "skew_part",
    _skew,
    lambda w, n: n,
    Linear((None, lambda ct, w, n: (ct - adjoint(ct)) * 0.5)),
    batch_matrices,
    _skew_samples,
    structure=of_stacks(1, 2, arrays=lambda m, w, n: (_skew(w, n, m), None)),
    traits=OWNS,
)
"""Skew-Hermitian parts; between equal eigenvalues, rounding errors are set to 0."""


def _determined(w: Array, n: Array, wbar: Array) -> Any:
    """``n`` is V^H times the cotangent of V; see the docstring of the module.

    Between equal eigenvalues its Hermitian part is not divided. For a sum over the space that is
    right: the sum does not change along these directions. For V g(w) V^H the derivative of g would
    be needed, which is unknown here.
    """
    phases, unknown = _undetermined(np, w, n, wbar)
    _refuse_phase(phases)
    _refuse(w, unknown, "The result depends on more than the space.")
    return n


def _undetermined(m: ModuleType, w: Array, n: Array, wbar: Array) -> tuple[Any, Any]:
    """Flag derivatives that depend on the choice of phases, or of vectors of equal eigenvalues."""
    close, n_something = near(w, m), is_something(n, n, m)
    size = w.shape[-1]
    diagonal = np.eye(size, dtype=bool)
    phases = is_something(m.imag(n), n, m) & diagonal
    inside = close & ~diagonal & n_something
    weights = m.max(m.abs(wbar), -1, initial=0)[..., None]
    moves = m.abs(wbar) > _NOTHING * size * np.finfo(w.dtype).eps * weights
    still = ~m.any(close & n_something & diagonal, -1)
    unclear = moves | (still & m.any(inside, -1))
    return phases, inside & (unclear[..., :, None] | unclear[..., None, :])


def _determined_arrays(m: ModuleType, w: Array, n: Array, wbar: Array) -> tuple[Any, Any]:
    phases, unknown = _undetermined(m, w, n, wbar)
    return n, phases | unknown


def _determined_samples() -> Iterator[Sample]:
    for w, n in _spectra(73):
        if n.dtype.kind != "c":  # no phases
            yield Sample((w, n, w[..., ::-1].copy()))


determined: Primitive = failing(
    Primitive(
        "determined",
        lambda w, n, wbar: _determined(w, n, wbar).copy(),
        lambda w, n, wbar: n,
        Linearized(lambda tangents, out, w, n, wbar, failed="raise": tangents[1], linear_in=(1, 2)),
        batch_matrices,
        _determined_samples,
        structure=of_stacks(1, 2, 1, arrays=_determined_arrays),
        traits=OWNS,
    )
)
"""The cotangent of eigenvectors, unchanged; an error if it does not determine a derivative."""


def spectral_cotangent(
    w: Value, n: Value, wbar: Value, apart: bool, failed: str = "raise"
) -> Value:
    """The cotangent of D = V^H dA V off its diagonal.

    Parameters
    ----------
    w : value
        Eigenvalues, real.
    n : value
        V^H times the cotangent of the eigenvectors.
    wbar : value
        The cotangent of the eigenvalues, or None.
    apart : bool
        Whether the eigenvalues were computed separately, so that their cotangent is unknown here:
        then all of them may change.
    failed : str
        With "nan" it is NaN where it depends on the choice of eigenvectors.

    Raises
    ------
    DegenerateError
        It depends on the choice of eigenvectors.
    """
    unknown = w * 0 + 1.0 if apart else w * 0
    told = determined(w, n, unknown if wbar is None else wbar, failed=failed)
    return divide_by_gaps(w, skew_part(w, told), strict=True, failed=failed)


# ------------------------------------------------------------------------- vectors of a complement


def _complement_arrays(m: ModuleType, n: Array) -> tuple[Any, Any]:
    skew = (n - m.conj(m.swapaxes(n, -1, -2))) / 2
    return m.zeros_like(n), is_something(skew, n, m)


def _complement(n: Array) -> Any:
    zeros, wrong = _complement_arrays(np, n)
    if np.any(wrong):
        raise DegenerateError(
            "The result depends on the choice of the vectors that complete an orthogonal basis,"
            " which are arbitrary. Use the reduced decomposition (full_matrices=False,"
            " mode='reduced'), or only results that do not depend on the choice, such as"
            " q2 @ q2.mT.conj()."
        )
    return zeros


def _complement_samples() -> Iterator[Sample]:
    yield Sample((np.array([[0.7]]),))  # no result next to others
    for _, n in _spectra(76):
        yield Sample((n + np.conj(np.swapaxes(n, -1, -2)),), smooth=False)


complement: Primitive = failing(
    Primitive(
        "complement",
        _complement,
        lambda n: n,
        DISCRETE,
        batch_matrices,
        _complement_samples,
        structure=of_stacks(2, arrays=_complement_arrays),
        traits=OWNS,
    )
)
"""Zeros, if the cotangent of an arbitrary basis of a space depends only on the space."""


# ------------------------------------------------------------------------------- decompositions


def converged(name: str, evaluate: Callable[[Array], Any], x: Array) -> Any:
    message = f"{name}: LAPACK found no decomposition of the matrix{{}}: it has infinities or NaN."
    return checked(evaluate, x, lambda x: ~np.all(np.isfinite(x), (-1, -2)), message)


def _eigh(x: Array, lower: bool, apart: bool = False) -> Any:
    return tuple(converged("eigh", lambda x: np.linalg.eigh(x, "L" if lower else "U"), x))


def eigh_arrays(m: ModuleType, x: Array, lower: bool, apart: bool = False) -> tuple[Any, Any]:
    w, v = m.linalg.eigh(hermitian_of(m, x, lower))
    return (w, v), ~m.isfinite(w)


def _push_eigh(
    tangents: tuple[Value, ...],
    outs: tuple[Value, Value],
    x: Value,
    lower: bool,
    apart: bool = False,
    failed: str = "raise",
) -> tuple[Value, Value]:
    w, v = outs
    turned = matmul(adjoint(v), matmul(from_triangle(tangents[0], lower=lower), v))
    moved = divide_by_gaps(w, turned, strict=True, failed=failed)
    return real_part(diagonal_of(turned)), matmul(v, moved)


def _pull_eigh(
    cts: tuple[Value, Value],
    outs: tuple[Value, Value],
    x: Value,
    lower: bool,
    apart: bool = False,
    failed: str = "raise",
) -> tuple[Value]:
    (wbar, vbar), (w, v) = cts, outs
    if vbar is None:
        inner = v * reshape(wbar, shape=(*shape_of(wbar)[:-1], 1, shape_of(wbar)[-1]))
    else:
        turned = spectral_cotangent(w, matmul(adjoint(v), vbar), wbar, apart, failed)
        inner = matmul(v, turned if wbar is None else turned + diagonal_matrix(wbar))
    return (to_triangle(matmul(inner, adjoint(v)), lower=lower),)


def _eigh_result(x: Spec, lower: bool, apart: bool = False) -> tuple[Spec, Spec]:
    dtype = linalg_dtype("eigh", x.dtype)
    return Spec(x.shape[:-1], real_dtype(dtype)), Spec(x.shape, dtype)


def hermitian_matrices(seed: int) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
        x = rng.standard_normal(shape)
        yield x + np.swapaxes(x, -1, -2) + np.diag(3.0 * np.arange(shape[-1]))


def _eigh_samples() -> Iterator[Sample]:
    for number, x in enumerate(hermitian_matrices(74)):
        yield Sample((x,), {"lower": number % 2 == 0})
        if number < 2:  # whose eigenvectors have arbitrary phases
            turned = x + 0.5j * (np.tri(x.shape[-1]) - np.tri(x.shape[-1]).T)
            yield Sample((turned,), {"lower": True}, smooth=False)
    yield Sample((np.eye(2),), {"lower": True}, smooth=False)
    yield Sample((np.array([[1.0, 0.5], [0.5, 2.0]]),), {"lower": True, "apart": True})


eigh: Primitive = failing(
    Primitive(
        "eigh_factors",
        _eigh,
        _eigh_result,
        Linearized(_push_eigh, _pull_eigh),
        batch_matrices,
        _eigh_samples,
        structure=of_stacks(2, arrays=eigh_arrays),
        traits=OWNS,
        kinks=Kinks(_gaps),
    )
)
"""The eigenvalues, in order, and the eigenvectors of Hermitian matrices; one triangle is read.
``apart`` means that the eigenvalues in use were computed by another operation."""
