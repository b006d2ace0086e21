"""Sylvester's equation a x + x b = q, which SciPy solves.

Its tangent solves ``a dx + dx b = dq - da x - x db``, and the cotangent of q the adjoint equation.

>>> sylvester(np.eye(2), np.eye(2), np.ones((2, 2)))
array([[0.5, 0.5],
       [0.5, 0.5]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen_general import eigvals
from funcgrad._primitives.failures import failing
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    check_finite,
    linalg_dtype,
    of_stacks,
    position_of,
    stacks,
)
from funcgrad.errors import MatrixError, MissingPackageError


def scipy_linalg(name: str) -> ModuleType:
    """SciPy's module, loaded when it is used.

    Raises
    ------
    MissingPackageError
        SciPy is not installed.
    """
    try:
        import scipy.linalg
    except ImportError as error:
        raise MissingPackageError(
            f"{name}: SciPy evaluates this function, and it is not installed. Install it with `pip"
            " install scipy`."
        ) from error
    return scipy.linalg


def one_by_one(evaluate: Callable[..., Any], *stack: Array) -> Any:
    """Evaluate a function of matrices for stacks of them, one matrix of each at a time.

    The stacks are of one dtype. The result is like the last of them.
    """
    *_, last = stack
    if last.ndim == 2:
        return np.asarray(evaluate(*stack), last.dtype) if last.size else np.zeros_like(last)
    count = prod(last.shape[:-2])
    flat = [x.reshape(count, *x.shape[-2:]) for x in stack]
    evaluated = [
        evaluate(*matrices) if last.size else matrices[-1] for matrices in zip(*flat, strict=True)
    ]
    return np.asarray(evaluated, last.dtype).reshape(last.shape)


def _size(x: Array) -> Any:
    return np.max(np.abs(x), (-1, -2), initial=0)


def _is_real(x: Array) -> bool:
    return x.dtype.kind != "c" or not np.any(x.imag)


def _solved(a: Array, b: Array, q: Array) -> Any:
    """By triangular forms of both matrices (Bartels and Stewart, "Solution of the matrix equation
    AX + XB = C", 1972): one, where b is a itself or its adjoint, and real ones of real matrices."""
    linalg = scipy_linalg("solve_sylvester")
    if _is_real(a) and _is_real(b):
        a, b, q = a.real, b.real, q.real if _is_real(q) else q
    kind = "complex" if a.dtype.kind == "c" else "real"
    back = np.conj(b.T)
    form, u = linalg.schur(a, output=kind)
    other, v, turn = form, u, "C"
    if np.array_equal(b, a):
        turn = "N"
    elif not np.array_equal(back, a):
        other, v = linalg.schur(back, output=kind)
    inner = np.conj(u.T) @ q @ v
    parts = [inner] if kind == "complex" or inner.dtype.kind != "c" else [inner.real, inner.imag]
    solve = linalg.get_lapack_funcs("trsyl", (form, other, parts[0]))
    solutions = []
    for right in parts:
        x, scale, _ = solve(form, other, right, tranb=turn)
        solutions.append(scale * x)
    y = solutions[0] if len(solutions) == 1 else solutions[0] + 1j * solutions[1]
    return u @ y @ np.conj(v.T)


def _sylvester(a: Array, b: Array, q: Array) -> Any:
    dtype = linalg_dtype("solve_sylvester", a.dtype, b.dtype, q.dtype)
    a, b, q = (np.asarray(x, dtype) for x in (a, b, q))
    for coefficient in (a, b):
        check_finite("solve_sylvester", coefficient)
    x = one_by_one(_solved, a, b, q)
    with np.errstate(all="ignore"):
        # LAPACK moves eigenvalues that meet apart by rounding, and then the solution is huge.
        both = _size(a) + _size(b)
        bound = _size(q) / (both * np.finfo(dtype).eps)
        failed = (~(_size(x) * 10 <= bound) | (both == 0)) & (_size(q) > 0)
    if np.any(failed):
        raise MatrixError(
            f"solve_sylvester: the equation{position_of(failed)} has no solution, or many: a and -b"
            " have an eigenvalue in common, or nearly so."
        )
    return x


def _push(
    tangents: tuple[Value, ...], out: Value, a: Value, b: Value, q: Value, failed: str = "raise"
) -> Value:
    da, db, change = tangents
    if da is not None:
        moved = -matmul(da, out)
        change = moved if change is None else change + moved
    if db is not None:
        moved = -matmul(out, db)
        change = moved if change is None else change + moved
    return sylvester(a, b, change, failed=failed)


def _pull(
    ct: Value, out: Value, a: Value, b: Value, q: Value, failed: str = "raise"
) -> tuple[Any, ...]:
    y, back = sylvester(adjoint(a), adjoint(b), ct, failed=failed), adjoint(out)
    return (lambda: -matmul(y, back)), (lambda: -matmul(back, y)), y


def _sums(a: Value, b: Value, q: Value, **_: Hashable) -> Value:
    """The sums of an eigenvalue of a and an eigenvalue of b, which must not be 0."""
    return eigvals(a)[..., :, None] + eigvals(b)[..., None, :]


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(131)
    for number, q in enumerate(stacks((3, 2), (2, 2, 2), (1, 1), (0, 2), (0, 2, 2), seed=132)):
        *lead, m, n = q.shape
        a = rng.standard_normal((*lead, m, m)) + 4 * np.eye(m)
        b = rng.standard_normal((*lead, n, n)) + 4 * np.eye(n)
        if q.dtype.kind == "c":
            yield Sample((a + 1j * rng.standard_normal(a.shape), b * (1 + 1j), q))
        else:
            yield Sample((a, b, q))
        if number == 0:
            yield Sample((a, b * 1j, q))


sylvester: Primitive = failing(
    Primitive(
        "sylvester",
        _sylvester,
        lambda a, b, q: Spec(q.shape, linalg_dtype("solve_sylvester", a.dtype, b.dtype, q.dtype)),
        Linearized(_push, _pull, linear_in=(2,)),
        batch_matrices,
        _samples,
        structure=of_stacks(2, 2, 2),
        traits=OWNS,
        kinks=Kinks(_sums),
    )
)
"""The x with a x + x b = q."""
