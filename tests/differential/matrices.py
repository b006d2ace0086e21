"""Arguments of linear algebra: stacks of matrices, square ones, singular and positive ones."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, call
from tests.differential.products import PRODUCTS
from tests.differential.shapes import SHAPES

_STACKS: Final = ((), (), (2,), (2, 1), (0,))


def _matrices(d: Draw, rows: int, columns: int, kinds: str = "biufc") -> Any:
    d.finite = True
    return d.ndarray(kinds, (*d.pick(*_STACKS), rows, columns))


def _size(d: Draw) -> int:
    return int(d.pick(0, 1, 2, 3, 3, 4))


def _square(d: Draw, kinds: str = "biufc") -> Any:
    """Sometimes not square, sometimes no matrix."""
    n = _size(d)
    if d.chance(0.05):
        return d.array(kinds, (n,))
    return _matrices(d, n, n + d.chance(0.05), kinds)


def _invertible(d: Draw) -> Any:
    """Most often far from singular, so that last bits are not all that there is."""
    n = _size(d)
    x = _matrices(d, n, n, d.pick("iu", "f", "c", "f"))
    if d.chance(0.05) or x.dtype == np.float16:
        return x
    return (x + np.eye(n, dtype=x.dtype) * x.dtype.type(20)).astype(x.dtype)


def _positive(d: Draw) -> Any:
    """Hermitian, and most often positive definite."""
    x = _invertible(d)
    if x.dtype.kind in "iu":
        x = x.astype(np.float64)
    x = x @ np.conj(np.swapaxes(x, -1, -2))
    return -x if d.chance(0.05) else x


def _tall_or_wide(d: Draw) -> Any:
    if d.chance(0.05):
        return d.array("f", (3,))
    return _matrices(d, _size(d), _size(d), d.pick("iu", "f", "c", "f"))


_MODES: Final = ("reduced", "complete", "r", "reduced", "complete", "r", "other")


def _decomposed(d: Draw) -> Call:
    x = _positive(d) if d.chance(0.2) else _tall_or_wide(d)
    options = d.options(0.4, full_matrices=d.flag, compute_uv=d.flag, hermitian=d.flag)
    if options.get("hermitian"):
        x = _positive(d)
    return call(x, **options)


def _pseudoinverse(d: Draw) -> Call:
    options = d.options(0.2, hermitian=lambda: True)
    d.finite = True
    x = d.ndarray(d.pick("f", "c"), (*d.pick(*_STACKS[:-1]), d.integer(1, 4), d.integer(1, 4)))
    if options:
        x = x @ np.conj(np.swapaxes(x, -1, -2))
    tolerance = d.pick("rcond", "rtol", "neither")
    if tolerance != "neither":
        options[tolerance] = d.pick(1e-3, 1e-12, None)
    return call(x, **options)


def _least_squares(d: Draw) -> Call:
    d.finite = True
    m, n = d.integer(1, 4), d.integer(1, 4)
    a, b = d.ndarray("iufc", (m, n)), d.ndarray("iufc", d.pick((m,), (m, 2), (m, 1), (m + 1,)))
    return call(a, b, **d.options(0.5, rcond=lambda: d.pick(None, 1e-10)))


def _chain(d: Draw) -> Call:
    d.finite = True
    sizes = [d.integer(1, 4) for _ in range(d.integer(3, 6))]
    kinds = d.pick("f", "iu", "fc")
    shapes = list(pairwise(sizes))
    parts = [d.ndarray(kinds, shape) for shape in shapes]
    if d.chance(0.3):
        parts[0] = parts[0][0]
    if d.chance(0.3) and len(parts) > 1:
        parts[-1] = parts[-1][:, 0]
    return call(parts[: 1 if d.chance(0.05) else None])


_NORMS: Final = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, 3, "other")


def _norm(d: Draw) -> Call:
    d.finite = True
    x = d.array("iufc", empty=False, low=1)
    rank = len(np.shape(x))
    if d.chance(0.3):
        return call(x, **d.options(0.5, keepdims=d.flag))
    if d.chance(0.5) and rank >= 2:
        axes = tuple(int(k) for k in d.rng.permutation(rank)[:2])
        return call(x, **d.options(0.7, ord=lambda: d.pick(*_NORMS)), axis=axes)
    ord = d.pick(None, 1, 2, 3, 0.5, 0, -1, -2.5, np.inf, -np.inf, "fro")
    return call(x, ord, d.axis(x, False), **d.options(0.4, keepdims=d.flag))


def _vector_norm(d: Draw) -> Call:
    d.finite = True
    x = d.array("iufc", empty=False, low=1)
    orders = (1, 2, 3, 0.5, 0, -1, np.inf, -np.inf)
    return call(
        x, **d.options(0.6, axis=lambda: d.axes(x), ord=lambda: d.pick(*orders), keepdims=d.flag)
    )


def _rank(d: Draw) -> Call:
    options = d.options(0.2, hermitian=lambda: True)
    x = _positive(d) if options else d.pick(_tall_or_wide(d), d.array("f", (3,)), 0.0, 2.0)
    tolerance = d.pick("tol", "rtol", "neither", "neither")
    if tolerance != "neither":
        options[tolerance] = d.pick(1e-3, 1e-12, None)
    return call(x, **options)


def _equations(d: Draw) -> Call:
    a = _invertible(d)
    n = a.shape[-1] + d.chance(0.05)
    if d.chance(0.4):
        return call(a, d.array("iufc", (n,)))
    lead = d.pick((), a.shape[:-2])
    return call(a, d.array("iufc", (*lead, n, d.pick(0, 1, 2))))


def _cross(d: Draw) -> Call:
    d.finite = True
    shape, other = d.pick(((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2,), (3,)))
    return call(d.array("iufc", shape), d.array("iufc", other))


def _outer(d: Draw) -> Call:
    d.finite = True
    return call(d.array(shape=d.pick((2,), (0,), (3,), (2, 2))), d.array(shape=d.pick((2,), (1,))))


def _tensordot(d: Draw) -> Call:
    (a, b, axes), _ = PRODUCTS["tensordot"](d)
    return call(a, b, axes=axes)


def _offset(d: Draw) -> Call:
    x = d.array(low=1, empty=False)
    return call(x, **d.options(0.5, offset=lambda: d.integer(-2, 2)))


def _tensor(d: Draw) -> Call:
    d.finite = True
    shape = d.pick((2, 3, 6), (4, 2, 2), (2, 2, 4), (6, 3, 2), (3, 3))
    made = d.ndarray("f", shape) + np.float32(0)
    return call(made, **d.options(0.7, ind=lambda: d.pick(1, 2, 2, 0)))


def _tensor_equations(d: Draw) -> Call:
    d.finite = True
    shape, right, axes = d.pick(
        ((2, 3, 6), (2, 3), None), ((2, 2, 4), (4,), (0, 1)), ((4, 2, 2), (4,), None)
    )
    a = np.random.default_rng(d.integer(0, 99)).normal(size=shape)
    options = {} if axes is None else {"axes": axes}
    return call(a, d.array("iuf", right), **options)


MATRICES: Final[Family] = MappingProxyType(
    {
        **{f"linalg.{name}": PRODUCTS[name] for name in ("matmul", "vecdot")},
        "linalg.tensordot": _tensordot,
        "linalg.cross": _cross,
        "linalg.outer": _outer,
        **dict.fromkeys(("linalg.diagonal", "linalg.trace"), _offset),
        "linalg.matrix_transpose": SHAPES["matrix_transpose"],
        **dict.fromkeys(("linalg.det", "linalg.slogdet"), lambda d: call(_square(d))),
        "linalg.inv": lambda d: call(_invertible(d)),
        "linalg.solve": _equations,
        "linalg.cholesky": lambda d: call(_positive(d), **d.options(0.5, upper=d.flag)),
        "linalg.eigvalsh": lambda d: call(
            _positive(d), **d.options(0.5, UPLO=lambda: d.pick(*"LUlux"))
        ),
        "linalg.eigh": lambda d: call(
            _positive(d), **d.options(0.5, UPLO=lambda: d.pick(*"LUlux"))
        ),
        "linalg.qr": lambda d: call(
            _tall_or_wide(d), **d.options(0.6, mode=lambda: d.pick(*_MODES))
        ),
        "linalg.svd": _decomposed,
        "linalg.svdvals": lambda d: call(_tall_or_wide(d)),
        "linalg.eig": lambda d: call(_positive(d)),
        "linalg.eigvals": lambda d: call(_positive(d)),
        "linalg.pinv": _pseudoinverse,
        "linalg.lstsq": _least_squares,
        "linalg.matrix_power": lambda d: call(_invertible(d), d.pick(0, 1, 2, 3, 5, -1, -2)),
        "linalg.multi_dot": _chain,
        "linalg.norm": _norm,
        "linalg.vector_norm": _vector_norm,
        "linalg.matrix_norm": lambda d: call(
            _tall_or_wide(d), **d.options(0.6, ord=lambda: d.pick(*_NORMS), keepdims=d.flag)
        ),
        "linalg.cond": lambda d: call(_invertible(d), **d.options(0.7, p=lambda: d.pick(*_NORMS))),
        "linalg.matrix_rank": _rank,
        "linalg.tensorinv": _tensor,
        "linalg.tensorsolve": _tensor_equations,
    }
)
