"""Stein's equation x - p pᴴ x b bᴴ = q, for singular values of p and b with products below 1.

It couples the singular values of a matrix that a pseudoinverse inverts, p having the inverses, with
those that it cuts off, which b has. In the bases of singular vectors it is a division by
``1 - (s[i] t[j])**2``. Its tangent solves the equation with the same p and b.

>>> stein(np.array([[0.5]]), np.array([[1.0]]), np.array([[3.0]]))
array([[4.]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import is_something
from funcgrad._primitives.failures import failing
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    linalg_dtype,
    of_stacks,
    stacks,
)
from funcgrad._primitives.values_alone import svdvals
from funcgrad.errors import DegenerateError

_EQUAL: Final = 32
"""Singular values count as equal that differ by no more than this multiple of the precision, times
the size of the matrix: LAPACK computes them no better."""


def _adjoint(x: Array, m: ModuleType = np) -> Any:
    return m.conj(m.swapaxes(x, -1, -2))


def _stein(p: Array, b: Array, q: Array) -> Any:
    dtype = linalg_dtype("pinv", p.dtype, b.dtype, q.dtype)
    if not np.any(b):  # as without a cut
        return np.array(q, dtype)
    out, wrong, s, t = _solved(np, p, b, q)
    _refuse(s, t, wrong)
    return np.asarray(out, dtype)


def _solved(m: ModuleType, p: Array, b: Array, q: Array) -> tuple[Any, Any, Array, Array]:
    u, s, _ = m.linalg.svd(p, full_matrices=False)
    v, t, _ = m.linalg.svd(b, full_matrices=False)
    product = s[..., :, None] * t[..., None, :]
    inner = m.matmul(m.matmul(_adjoint(u, m), q), v)
    size = max(*p.shape[-2:], *b.shape[-2:])
    equal = ~(product < 1 - _EQUAL * size * np.finfo(product.dtype).eps)
    # Only the ranges of p and b change: x = q + u (y - uᴴ q v) vᴴ.
    squares = m.where(equal, 0, product * product)
    moved = m.matmul(m.matmul(u, inner * (squares / (1 - squares))), _adjoint(v, m))
    return q + moved, equal & is_something(inner, q, m), s, t


def _refuse(s: Array, t: Array, wrong: Array) -> None:
    if not np.any(wrong):
        return
    *stack, i, j = [int(k) for k in np.argwhere(wrong)[0]]
    where = f" of matrix {stack[0] if len(stack) == 1 else tuple(stack)}" if stack else ""
    raise DegenerateError(
        f"pinv (and lstsq): a singular value{where} that counts, {1 / s[(*stack, i)]:.6g}, and one"
        f" that is cut off, {t[(*stack, j)]:.6g}, are equal up to rounding, so that the result has"
        " no derivative. Choose a tolerance (rcond, rtol) between values that differ."
    )


def _push(
    tangents: tuple[Value, ...], out: Value, p: Value, b: Value, q: Value, failed: str = "raise"
) -> Value:
    dp, db, change = tangents
    right, back = matmul(out, b), adjoint(b)
    inner = matmul(adjoint(p), right)  # products in this order neither overflow nor underflow
    if dp is not None:
        moved = matmul(matmul(dp, inner) + matmul(p, matmul(adjoint(dp), right)), back)
        change = moved if change is None else change + moved
    if db is not None:
        turned = matmul(inner, adjoint(db))
        turned = turned + matmul(matmul(matmul(adjoint(p), out), db), back)
        moved = matmul(p, turned)
        change = moved if change is None else change + moved
    return stein(p, b, change, failed=failed)


def _pull(
    ct: Value, out: Value, p: Value, b: Value, q: Value, failed: str = "raise"
) -> tuple[Callable[[], Value], Callable[[], Value], Value]:
    y = stein(p, b, ct, failed=failed)

    def of_p() -> Value:
        first, second = matmul(out, b), matmul(y, b)
        return _crossed(first, second, p)

    def of_b() -> Value:
        first, second = matmul(adjoint(out), p), matmul(adjoint(y), p)
        return _crossed(first, second, b)

    return of_p, of_b, y


def _crossed(first: Value, second: Value, x: Value) -> Value:
    one, other = matmul(adjoint(first), x), matmul(adjoint(second), x)
    return matmul(second, one) + matmul(first, other)


def _below_one(p: Value, b: Value, q: Value, **_: Hashable) -> Value:
    """How far the greatest product of singular values is below 1."""
    if 0 in (*shape_of(p), *shape_of(b)):
        return ()
    return 1 - svdvals(p)[..., 0] * svdvals(b)[..., 0]


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(141)
    for number, q in enumerate(stacks((3, 2), (2, 2, 2), (1, 1), (0, 2), (0, 2, 2), seed=142)):
        *lead, m, n = q.shape
        p = rng.uniform(0.1, 0.3, (*lead, m, 2))
        b = rng.uniform(0.1, 0.3, (*lead, n, 3))
        if q.dtype.kind == "c":
            yield Sample((p * (1 + 1j), b * (1 - 0.5j), q))
        else:
            yield Sample((p, b, q))
        if number == 0:
            yield Sample((p, b * 0, q))


stein: Primitive = failing(
    Primitive(
        "stein",
        _stein,
        lambda p, b, q: Spec(q.shape, linalg_dtype("pinv", p.dtype, b.dtype, q.dtype)),
        Linearized(_push, _pull, linear_in=(2,)),
        batch_matrices,
        _samples,
        structure=of_stacks(2, 2, 2, arrays=lambda m, p, b, q: _solved(m, p, b, q)[:2]),
        traits=OWNS,
        kinks=Kinks(domain=_below_one),
    )
)
"""The x with x - p pᴴ x b bᴴ = q."""
