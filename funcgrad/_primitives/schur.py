"""Schur's form of square matrices, A = Z T Z^H with a unitary Z, which SciPy computes.

T is upper triangular. The real form of real matrices has blocks of two rows on the diagonal for
pairs of conjugate eigenvalues, and LAPACK turns each block until its diagonal elements are equal.

Let M = Z^H dA Z. Then dZ = Z X and dT = M + T X - X T with a skew-Hermitian X. What T lacks, dT
lacks, too: its elements below the blocks are 0, and the diagonal elements of a block stay equal.
These are linear equations for the part of X below the diagonal. Its lower left quarter solves
Sylvester's equation; then the two quarters on the diagonal have equations of the same kind, so X is
solved by halves. (Jonsson and Kågström, "Recursive blocked algorithms for solving triangular
systems", 2002, solve Sylvester's equation like this.) The diagonal of X is 0: the phases of complex
columns of Z are arbitrary.

>>> t, z = schur(np.array([[2.0, 0.0], [1.0, 3.0]]), order="")
>>> abs(z @ t @ z.T).round(6)
array([[2., 0.],
       [1., 3.]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import equal_share, is_something, near
from funcgrad._primitives.eigen_general import eigvals
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.kinks import pairs
from funcgrad._primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    check_finite,
    diagonal_of,
    linalg_dtype,
    of_stacks,
    stacks,
    triangle,
)
from funcgrad._primitives.matrix_equations import scipy_linalg
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import view
from funcgrad.errors import DegenerateError, MatrixError


def _over_stacks(evaluate: Callable[..., Any], count: int, *stacks: Array) -> tuple[Array, ...]:
    """Evaluate a function of matrices, with ``count`` results of their shape, for stacks."""
    shape, dtype = stacks[0].shape, np.result_type(*stacks)
    outs = [np.zeros((prod(shape[:-2]), *shape[-2:]), dtype) for _ in range(count)]
    flat = [np.ascontiguousarray(x, dtype).reshape(outs[0].shape) for x in stacks]
    for number in range(len(outs[0]) if shape[-1] else 0):
        for out, value in zip(outs, evaluate(*[x[number] for x in flat]), strict=True):
            out[number] = value
    return tuple([out.reshape(shape) for out in outs])


# ------------------------------------------------------------------------- the turn of the vectors


def _eigenvalues(t: Array) -> Array:
    """The eigenvalues of a form, in its order."""
    w = np.diagonal(t).astype(np.result_type(t, np.complex64))
    below = np.diagonal(t, -1)
    if np.any(below):
        half = np.sqrt(np.abs(below * np.diagonal(t, 1)))
        w[:-1] += np.where(below != 0, 1j * half, 0)
        w[1:] -= np.where(below != 0, 1j * half, 0)
    return w


def _middle(t: Array, start: int, stop: int) -> int:
    """The row between two halves of a form that divides no block; ``start`` if it is one block."""
    if stop - start == 1 or (stop - start == 2 and t[start + 1, start] != 0):
        return start
    middle = (start + stop) // 2
    return middle + 1 if t[middle, middle - 1] != 0 else middle


def _solve_quarter(t: Array, start: int, k: int, stop: int, right: Array, back: bool) -> Array:
    """The x with ``x T11 - T22 x = right``, or with ``back`` of the adjoints of both blocks."""
    solve = scipy_linalg("schur").get_lapack_funcs("trsyl", (t,))
    turn = "C" if back else "N"
    low, high = t[k:stop, k:stop], t[start:k, start:k]
    x, scale, _ = solve(low, high, -right, trana=turn, tranb=turn, isgn=-1)
    return x * scale


def _turn_down(t: Array, m: Array, out: Array, start: int, stop: int) -> None:
    """Solve for the part of X below the diagonal, in rows from ``start``; ``m`` is overwritten."""
    k = _middle(t, start, stop)
    if k == start:
        if stop - start == 2:
            twice = 2 * (t[start, start + 1] + t[start + 1, start])
            out[start + 1, start] = (m[start + 1, start + 1] - m[start, start]) / (twice or 1)
        return
    low = _solve_quarter(t, start, k, stop, m[k:stop, start:k], False)
    out[k:stop, start:k] = low
    m[start:k, start:k] += t[start:k, k:stop] @ low
    m[k:stop, k:stop] -= low @ t[start:k, k:stop]
    _turn_down(t, m, out, start, k)
    _turn_down(t, m, out, k, stop)


def _turn_back(t: Array, n: Array, out: Array, start: int, stop: int) -> None:
    """The adjoint of ``_turn_down``, which goes through its steps in the opposite order."""
    k = _middle(t, start, stop)
    if k == start:
        if stop - start == 2:
            twice = 2 * (t[start, start + 1] + t[start + 1, start])
            out[start + 1, start + 1] = n[start + 1, start] / (twice or 1)
            out[start, start] = -out[start + 1, start + 1]
        return
    _turn_back(t, n, out, start, k)
    _turn_back(t, n, out, k, stop)
    beside = np.conj(t[start:k, k:stop].T)
    right = n[k:stop, start:k] + beside @ out[start:k, start:k] - out[k:stop, k:stop] @ beside
    out[k:stop, start:k] = _solve_quarter(t, start, k, stop, right, True)


def _turn_one(t: Array, m: Array, back: bool) -> tuple[Array]:
    t = np.triu(t) if t.dtype.kind == "c" else t
    out = np.zeros_like(m)
    if back:
        _turn_back(t, np.tril(m - np.conj(m.T), -1), out, 0, len(t))
        return (out,)
    _turn_down(t, m.copy(), out, 0, len(t))
    return (out - np.conj(out.T),)


def _turn(t: Array, m: Array, back: bool) -> Array:
    return _over_stacks(lambda t, m: _turn_one(t, m, back), 1, t, m)[0]


def _commutator(x: Value, y: Value) -> Value:
    return matmul(x, y) - matmul(y, x)


def _in_form(x: Value, t: Value) -> Value:
    """The elements of a matrix where a form has elements: on and above the blocks."""
    if dtype_of(t).kind == "c":
        return triangle(x, lower=False, diagonal=1.0)
    return where((t != 0) | np.tri(shape_of(t)[-1], dtype=bool).T, x, dtype_of(x).type(0))


def _push_turn(
    tangents: tuple[Value, ...], out: Value, t: Value, m: Value, back: bool, failed: str = "raise"
) -> Value:
    dt, change = tangents
    if dt is not None:
        dt = _in_form(dt, t)
        moved = _commutator(adjoint(dt) if back else dt, out)
        change = moved if change is None else change + moved
    return schur_turn(t, change, back=back, failed=failed)


def _pull_turn(
    ct: Value, out: Value, t: Value, m: Value, back: bool, failed: str = "raise"
) -> tuple[Callable[[], Value], Value]:
    pulled = schur_turn(t, ct, back=not back, failed=failed)
    turned, other = (pulled, out) if back else (out, pulled)
    return (lambda: _in_form(_commutator(turned, other), t)), pulled


def _forms() -> Iterator[Array]:
    linalg = scipy_linalg("schur")
    for x in _matrices(171):
        if not x.size:
            yield x
        else:
            yield _over_stacks(lambda x: (linalg.schur(x)[0],), 1, x)[0]


def _turn_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(172)
    for number, t in enumerate(_forms()):
        m = np.asarray(rng.standard_normal(t.shape))
        m = m * (1 + 1j) if t.dtype.kind == "c" else m
        for back in (False, True) if number < 2 else (number % 2 == 1,):
            yield Sample((t, m), {"back": back}, smooth=bool(_edges(t).all()))


def _edges(t: Value) -> Value:
    """The elements below the diagonal of a real form: 0 between blocks, by which they are found."""
    size = shape_of(t)[-1]
    below = view(t, key=Key((..., slice(1, None), slice(size - 1))))
    return diagonal_of(below) if dtype_of(t).kind != "c" else diagonal_of(below) * 0.0 + 1.0


schur_turn: Primitive = failing(
    Primitive(
        "schur_turn",
        _turn,
        lambda t, m, back: Spec(m.shape, np.result_type(t.dtype, m.dtype)),
        Linearized(_push_turn, _pull_turn, linear_in=(1,)),
        batch_matrices,
        _turn_samples,
        structure=of_stacks(2, 2),
        traits=OWNS,
        kinks=Kinks(lambda t, m, **_: (*pairs(eigvals(t)), _edges(t))),
    )
)
"""The X of the module's docstring for a regular form T and M; with ``back`` the adjoint of the map
from M to X."""


# --------------------------------------------------------------------- forms without a derivative


def _regular_one(t: Array) -> tuple[Array]:
    w = _eigenvalues(t)
    close = near(w) & ~np.eye(len(w), dtype=bool)
    below, above = np.diagonal(t, -1), np.diagonal(t, 1)
    sizes = np.abs(below) + np.abs(above)
    turns = (below != 0) & (np.abs(below + above) <= equal_share(t) * sizes)
    if t.dtype.kind != "c" and np.any(turns):
        k = int(np.argmax(turns))
        why, remedy = f"the block at {k} is a multiple of a rotation", 'pass output="complex"'
    elif np.any(close):
        i, j = [int(k) for k in np.argwhere(close)[0]]
        why = f"the eigenvalues {w[i]:.6g} and {w[j]:.6g} are equal up to rounding"
        remedy = "perturb the matrix so that they differ"
    else:
        return (t,)
    raise DegenerateError(
        f"schur: {why}, so Schur's vectors are an arbitrary basis of a space, and the form has no"
        f" derivative. If the form is needed, {remedy}. A function of the whole matrix has a"
        " derivative here: det, matrix_power, or funcgrad.scipy.linalg's expm, logm and sqrtm."
    )


def _regular_samples() -> Iterator[Sample]:
    for t in _forms():
        yield Sample((t,), smooth=bool(_edges(t).all()))


regular_form: Primitive = failing(
    Primitive(
        "regular_form",
        lambda t: _over_stacks(_regular_one, 1, t)[0],
        lambda t: t,
        Linearized(lambda tangents, out, t, failed="raise": tangents[0]),
        batch_matrices,
        _regular_samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(lambda t, **_: _edges(t)),
    )
)
"""A form that has a derivative; otherwise an error."""


# --------------------------------------------------------------------------------------- phases


def _independent(one: Array, other: Array) -> Any:
    total = one + other
    phases = np.diagonal(np.imag(total), 0, -2, -1)
    size = np.maximum(np.abs(one), np.abs(other))
    if np.any(is_something(phases[..., None, :], size)):
        raise DegenerateError(
            "schur: the result depends on the phases of Schur's vectors, which are arbitrary: with"
            " a vector d of numbers of length 1, z * d and fnp.conj(d)[:, None] * t * d are as"
            " valid. Use results that do not depend on them, such as abs(z) ** 2, abs(t), the"
            " diagonal of t, or z @ t @ fnp.conj(z.mT)."
        )
    return total


def _independent_samples() -> Iterator[Sample]:
    for x in stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), seed=173):
        if x.dtype.kind != "c":  # no phases
            yield Sample((x, x[..., ::-1, :] * 2))


independent_of_phases: Primitive = failing(
    Primitive(
        "independent_of_phases",
        _independent,
        lambda one, other: Spec(one.shape, np.result_type(one.dtype, other.dtype)),
        Linearized(
            lambda tangents, out, one, other, failed="raise": (
                tangents[0]
                if tangents[1] is None
                else tangents[1]
                if tangents[0] is None
                else tangents[0] + tangents[1]
            ),
            linear_in=(0, 1),
        ),
        batch_matrices,
        _independent_samples,
        structure=of_stacks(2, 2),
        traits=OWNS,
    )
)
"""The sum of the two parts of the cotangent of X; an error if phases change the result."""


# ---------------------------------------------------------------------------------------- the form


def _schur(x: Array, order: str) -> Any:
    x = np.asarray(x, linalg_dtype("schur", x.dtype))
    check_finite("schur", x)
    linalg = scipy_linalg("schur")

    def evaluate(x: Array) -> Any:
        kind = "complex" if x.dtype.kind == "c" else "real"
        try:
            return linalg.schur(x, kind, sort=order or None)[:2]
        except np.linalg.LinAlgError as error:
            raise MatrixError(f"schur: LAPACK found no form: {error}") from None

    return _over_stacks(evaluate, 2, x)


def _push(
    tangents: tuple[Value, ...],
    outs: tuple[Value, Value],
    x: Value,
    order: str,
    failed: str = "raise",
) -> tuple[Value, Value]:
    t, z = regular_form(outs[0], failed=failed), outs[1]
    inner = matmul(adjoint(z), matmul(tangents[0], z))
    turn = schur_turn(t, inner, back=False, failed=failed)
    return _in_form(inner + _commutator(t, turn), t), matmul(z, turn)


def _pull(
    cts: tuple[Value, Value], outs: tuple[Value, Value], x: Value, order: str, failed: str = "raise"
) -> tuple[Value]:
    (tbar, zbar), z = cts, outs[1]
    t = regular_form(outs[0], failed=failed)
    zeros = np.zeros(shape_of(t), dtype_of(t))
    to_form = zeros if tbar is None else _in_form(tbar, t)
    by_form = zeros if tbar is None else _commutator(adjoint(t), to_form)
    by_vectors = zeros if zbar is None else matmul(adjoint(z), zbar)
    if dtype_of(t).kind == "c":
        both = independent_of_phases(by_vectors, by_form, failed=failed)
    else:
        both = by_vectors + by_form
    inner = to_form + schur_turn(t, both, back=True, failed=failed)
    return (matmul(z, matmul(inner, adjoint(z))),)


def _matrices(seed: int) -> Iterator[Array]:
    """Matrices with different eigenvalues; real ones with pairs of conjugate ones, too.

    With the seed 478 LAPACK chooses the same signs in single and in double precision.
    """
    for x in stacks((4, 4), (2, 3, 3), (2, 2), (1, 1), (0, 0), (0, 2, 2), seed=seed):
        yield x + np.diag(2.0 * (np.arange(x.shape[-1]) // 2))


def _samples() -> Iterator[Sample]:
    for x in _matrices(478):
        yield Sample((x,), {"order": ""}, smooth=x.dtype.kind != "c")
    yield Sample((np.array([[0.5, 2.0], [-1.0, 0.3]]),), {"order": ""})
    yield Sample((np.array([[2.0, 1.0], [0.0, -3.0]]),), {"order": "lhp"})
    yield Sample((np.eye(2),), {"order": ""}, smooth=False)


def _gaps(x: Value, **_: Hashable) -> Value:
    """Gaps between eigenvalues; 0 for complex matrices, since the phases of Z are arbitrary."""
    w = eigvals(x)
    return (*pairs(w), abs(w) * 0.0) if dtype_of(x).kind == "c" else pairs(w)


schur: Primitive = failing(
    Primitive(
        "schur",
        _schur,
        lambda x, order: (Spec(x.shape, linalg_dtype("schur", x.dtype)),) * 2,
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(_gaps),
    )
)
"""Schur's form T and vectors Z; ``order`` is one of SciPy's words for eigenvalues that come first,
or empty."""
