"""Products with an identity matrix, computed as a copy where that gives the same.

Derivatives in many directions at once start from such products: the tangents that ``jacfwd``
pushes through ``x @ w`` are the rows of an identity matrix.

>>> identity_product(np.array([[1.0, 2.0], [-0.0, 3.0]]), axis=-2)
array([[1., 2.],
       [0., 3.]])
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS, WRITES_INTO, Opaque
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.logic import isfinite, logical_not
from funcgrad._primitives.reduction import count_nonzero
from funcgrad._primitives.selection import where


def _evaluate(x: Raw, axis: int, out: Raw = None) -> Raw:
    """The sum of a product starts from 0.0, so -0.0 becomes 0.0.

    Where something is not finite the product itself is computed: infinities and NaN spread along
    the axis, where they are multiplied by 0.
    """
    if np.isfinite(x).all():
        return np.add(x, 0.0, out, order="C")
    matrix = np.eye(x.shape[axis], dtype=x.dtype)
    return np.matmul(matrix, x, out) if axis == -2 else np.matmul(x, matrix, out)


def _body(x: Value, axis: int) -> Value:
    """A copy; NaN where another element of the axis is not finite (0 · inf)."""
    dtype = dtype_of(x)
    if dtype.kind != "f":
        matrix = np.eye(shape_of(x)[axis], dtype=dtype)
        return matmul(matrix, x) if axis == -2 else matmul(x, matrix)
    absent = logical_not(isfinite(x))
    place = len(shape_of(x)) + axis
    others = count_nonzero(absent, axis=(place,), keepdims=True) - absent
    return where(others > 0, dtype.type(np.nan), x + 0.0)


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(37)
    for shape in ((2, 3), (3, 2), (1, 1), (9, 4), (2, 3, 4), (0, 2), (2, 0), (0, 2, 3)):
        for axis in (-2, -1):
            yield Sample((rng.standard_normal(shape),), {"axis": axis})
    wide = rng.standard_normal((6, 8))
    yield Sample((wide[::-2, ::2],), {"axis": -2})
    yield Sample((wide.T,), {"axis": -2})
    yield Sample((wide + 1j * wide[:, ::-1],), {"axis": -1})
    for number in (-0.0, np.inf, -np.inf, np.nan):
        x = wide.copy()
        x[2, 3] = number
        for axis in (-2, -1):
            yield Sample((x,), {"axis": axis}, smooth=bool(np.isfinite(number)))


identity_product: Primitive = Primitive(
    "identity_product",
    _evaluate,
    lambda x, axis: x,
    Linear((lambda ct, x, axis: identity_product(ct, axis=axis),)),
    lambda primitive, size, args, batched, params: primitive(*args, **params),
    _samples,
    structure=Opaque(counted=0, cores=(2,)),
    traits=WRITES_INTO | OWNS,
    body=_body,
)
"""``eye(n) @ x`` for the ``axis`` -2 and ``x @ eye(n)`` for -1, of matrices or stacks of them.

The result has memory of its own, in C order; ``evaluate`` can be told where to put it.
"""
