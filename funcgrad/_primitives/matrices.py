"""Helpers for the operations of linear algebra: stacks of matrices, adjoints, triangles, batches.

Matrices are on the last two axes; all axes before them are a stack, as for ``numpy.linalg``.

>>> adjoint(np.array([[1.0, 2.0j], [3.0, 4.0]]))
array([[1.-0.j, 3.-0.j],
       [0.-2.j, 4.-0.j]])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS, Opaque
from funcgrad._core.trace import Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.complexes import conj, real
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape, swap_last_axes, view
from funcgrad.errors import DtypeError, MatrixError

Array: TypeAlias = np.ndarray[Any, Any]
"""A raw value with axes."""


def of_stacks(*cores: int, arrays: Callable[..., tuple[Any, Any]] | None = None) -> Opaque:
    """The structure of an operation on stacks, with the number of axes of one example of each."""
    return Opaque(cores=cores, arrays=arrays)


MATRICES: Final = of_stacks(2)
"""The structure of operations on stacks of matrices."""

_BY_ELEMENTS: Final = Opaque(cores=(2,), exact_body=True)


_DOUBLE: Final = np.dtype(np.float64)


def linalg_dtype(name: str, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which NumPy's linear algebra computes: single only if all are.

    Raises
    ------
    DtypeError
        A dtype is float16, for which NumPy lacks linear algebra.
    """
    if dtypes.count(_DOUBLE) == len(dtypes):  # the usual case, faster
        return _DOUBLE
    if any(dtype.char == "e" for dtype in dtypes):
        raise DtypeError(
            f"{name}: linear algebra does not support float16, as in NumPy. Convert with"
            " x.astype(fnp.float32)."
        )
    is_single = all(dtype.char in "fF" for dtype in dtypes)
    is_complex = any(dtype.kind == "c" for dtype in dtypes)
    return np.dtype(("F" if is_complex else "f") if is_single else "D" if is_complex else "d")


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of real and imaginary parts; the dtype itself if it is real."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


# ------------------------------------------------------------------------------ parts of matrices


def conjugate(x: Value) -> Value:
    """The conjugate of complex numbers; others are unchanged."""
    return conj(x) if dtype_of(x).kind == "c" else x


def adjoint(x: Value) -> Value:
    """The conjugate transposes of matrices."""
    return swap_last_axes(conjugate(x))


def unit(size: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The unit matrix."""
    return np.eye(size, dtype=dtype)


def diagonal_matrix(x: Value) -> Value:
    """Matrices with given diagonals, which are on the last axis, and zeros elsewhere."""
    return reshape(x, shape=(*shape_of(x), 1)) * unit(shape_of(x)[-1], real_dtype(dtype_of(x)))


def real_part(x: Value) -> Value:
    """The real part of complex numbers; others are unchanged."""
    return real(x) if dtype_of(x).kind == "c" else x


# -------------------------------------------------------------------------------------- batches


def batch_matrices(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """Batch arguments whose stacks have one shape: the batch is one more axis of the stack."""
    args = tuple(
        [
            arg if flag else broadcast_to(arg, shape=(size, *shape_of(arg)))
            for arg, flag in zip(args, batched, strict=True)
        ]
    )
    return primitive(*args, **params)


# ---------------------------------------------------------------------------------------- errors


def position_of(failed: Array) -> str:
    """The position, for messages, of the first matrix of a stack whose flag is set."""
    if not np.ndim(failed):
        return ""
    where = [int(k) for k in np.argwhere(failed)[0]]
    return f" {where[0] if len(where) == 1 else tuple(where)} of the stack"


def checked(
    evaluate: Callable[[Any], Any], x: Array, fails: Callable[[Any], Any], message: str
) -> Any:
    """NumPy's result for a stack of matrices, or an error that names the failing matrix.

    Parameters
    ----------
    evaluate : callable
        Raises ``numpy.linalg.LinAlgError``.
    x : ndarray
    fails : callable
        Flags of the failing matrices of the stack; only called after an error.
    message : str
        With ``{}`` for the position in the stack.

    Raises
    ------
    MatrixError
        NumPy raised an error.
    """
    try:
        return evaluate(x)
    except np.linalg.LinAlgError:
        raise blamed(x, fails, message) from None


def blamed(x: Array, fails: Callable[[Any], Any], message: str) -> MatrixError:
    """The error that names the failing matrix of a stack; arguments are as for ``checked``."""
    failed = np.asarray(fails(x))
    return MatrixError(message.format(position_of(failed) if np.any(failed) else ""))


def check_finite(operation: str, x: Array, what: str = "matrix") -> None:
    """Raise an error for infinities and NaN, which some SciPy functions report badly.

    Raises
    ------
    MatrixError
        A matrix has infinities or NaN.
    """
    flags = ~np.all(np.isfinite(x), (-1, -2))
    if np.any(flags):
        raise MatrixError(
            f"{operation}: the {what}{position_of(flags)} has infinities or NaN in it, so the"
            " result is undefined."
        )


# ----------------------------------------------------------------------------------- declarations


def _hermitian(x: Array) -> Any:
    other = _adjoint(x)
    if np.array_equal(x, other):
        return x
    half = x * 0.5
    return np.where(x == other, x, half + _adjoint(half))


def _adjoint(x: Array) -> Array:
    other = np.swapaxes(x, -1, -2)
    return np.conj(other) if x.dtype.kind == "c" else other


def stacks(*sizes: tuple[int, ...], seed: int, turn: bool = True) -> Iterator[np.ndarray[Any, Any]]:
    """Arrays of given shapes with entries around 0; the first also complex, and strided."""
    rng = np.random.default_rng(seed)
    for number, shape in enumerate(sizes):
        x = rng.standard_normal(shape)
        yield x
        if turn and number < 2:
            yield x + 1j * rng.standard_normal(shape)
        if not number:
            wide = rng.standard_normal((*shape[:-2], 2 * shape[-2], 3 * shape[-1]))
            yield wide[..., ::-2, ::3]


def _hermitian_body(x: Value) -> Value:
    dtype = np.result_type(dtype_of(x), np.float16) if dtype_of(x).kind in "fc" else np.dtype(float)
    x = cast(x, dtype=dtype)
    half, other = x * 0.5, adjoint(x)
    return where(x == other, x, half + other * 0.5)


def _hermitian_samples() -> Iterator[Sample]:
    for x in stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), (1, 1), seed=3):
        yield Sample((x,))
    yield Sample((np.array([[1.0, 2.0], [2.0, 3.0]]),))
    yield Sample((np.array([[1e308, 1.5e308], [1.7e308, 1.0]]),), smooth=False)


hermitian: Primitive = Primitive(
    "hermitian",
    _hermitian,
    lambda x: Spec(
        x.shape, np.result_type(x.dtype, np.float16) if x.dtype.kind in "fc" else np.dtype(float)
    ),
    Linear((lambda ct, x: hermitian(ct),)),
    batch_matrices,
    _hermitian_samples,
    structure=_BY_ELEMENTS,
    body=_hermitian_body,
)
"""The Hermitian parts of square matrices; of Hermitian matrices themselves, to the last bit."""


def _diagonal(x: Array) -> Any:
    return np.diagonal(x, 0, -2, -1).copy()


def _diagonal_body(x: Value) -> Value:
    *lead, size, _ = shape_of(x)
    numbers = reshape(x, shape=(*lead, size * size))
    return view(numbers, key=Key((..., slice(None, None, size + 1))))


def _diagonal_samples() -> Iterator[Sample]:
    for x in stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), seed=4):
        yield Sample((x,))


diagonal_of: Primitive = Primitive(
    "matrix_diagonal",
    _diagonal,
    lambda x: Spec(x.shape[:-1], x.dtype),
    Linear((lambda ct, x: diagonal_matrix(ct),)),
    batch_matrices,
    _diagonal_samples,
    structure=_BY_ELEMENTS,
    traits=OWNS,
    body=_diagonal_body,
)
"""The diagonals of square matrices, on the last axis."""


def _triangle(x: Array, lower: bool, diagonal: float) -> Any:
    out = np.tril(x) if lower else np.triu(x)
    if diagonal != 1:
        positions = np.arange(x.shape[-1])
        out[..., positions, positions] *= x.dtype.type(diagonal)
    return out


def _triangle_body(x: Value, lower: bool, diagonal: float) -> Value:
    size, dtype = shape_of(x)[-1], dtype_of(x)
    mask = np.tri(size, dtype=bool)
    out = where(mask if lower else mask.T, x, dtype.type(0))
    if diagonal == 1:
        return out
    weights = np.ones((size, size), real_dtype(dtype))
    np.fill_diagonal(weights, diagonal)
    return out * weights


def _triangle_samples() -> Iterator[Sample]:
    for number, x in enumerate(stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), seed=5)):
        yield Sample((x,), {"lower": number % 2 == 0, "diagonal": (1.0, 0.5, 0.0)[number % 3]})


triangle: Primitive = Primitive(
    "triangle",
    _triangle,
    lambda x, lower, diagonal: x,
    Linear(
        (lambda ct, x, lower, diagonal: triangle(ct, lower=lower, diagonal=diagonal),),
        structural=True,
    ),
    batch_matrices,
    _triangle_samples,
    structure=_BY_ELEMENTS,
    traits=OWNS,
    body=_triangle_body,
)
"""The triangles of square matrices, with the diagonal times a factor."""


def hermitian_of(m: ModuleType, x: Array, lower: bool) -> Any:
    """Make Hermitian matrices from one triangle of ``x``; the other triangle is not read."""
    half = m.tril(x, -1) if lower else m.triu(x, 1)
    return m.where(
        np.eye(x.shape[-1], dtype=bool), m.real(x), half + m.conj(m.swapaxes(half, -1, -2))
    )


def _mirrored(x: Array, lower: bool) -> Any:
    half = _triangle(x, lower, 0.5)
    return half + _adjoint(half)


def _folded(x: Array, lower: bool) -> Any:
    return _triangle(x + _adjoint(x), lower, 0.5)


def _mirrored_body(x: Value, lower: bool) -> Value:
    half = triangle(x, lower=lower, diagonal=0.5)
    return half + adjoint(half)


def _folded_body(x: Value, lower: bool) -> Value:
    return triangle(x + adjoint(x), lower=lower, diagonal=0.5)


def _sides() -> Iterator[Sample]:
    for number, x in enumerate(stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), seed=6)):
        yield Sample((x,), {"lower": number % 2 == 0})


from_triangle: Primitive = Primitive(
    "from_triangle",
    _mirrored,
    lambda x, lower: x,
    Linear((lambda ct, x, lower: to_triangle(ct, lower=lower),), structural=True),
    batch_matrices,
    _sides,
    structure=_BY_ELEMENTS,
    traits=OWNS,
    body=_mirrored_body,
)
"""Hermitian matrices from one triangle of others, and the real part of their diagonal."""

to_triangle: Primitive = Primitive(
    "to_triangle",
    _folded,
    lambda x, lower: x,
    Linear((lambda ct, x, lower: from_triangle(ct, lower=lower),), structural=True),
    batch_matrices,
    _sides,
    structure=_BY_ELEMENTS,
    traits=OWNS,
    body=_folded_body,
)
"""One triangle of ``x + x^H``, and half of its diagonal: the transpose of ``from_triangle``."""
