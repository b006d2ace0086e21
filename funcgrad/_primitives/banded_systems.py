"""Linear equations with banded matrices: SciPy solves them, or NumPy as dense ones without it.

Such a matrix is stored by its diagonals: ``bands[upper + i - j, j]`` is the element (i, j). The
tangent solves ``A dx = db - dA x``, and the cotangent of b solves the adjoint equation. Both
systems are banded, too, so derivatives need only the diagonals.

>>> banded_solve(np.array([[4.0, 4.0]]), np.array([[2.0], [8.0]]), lower=0, upper=0)
array([[0.5],
       [2. ]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import OWNS, Factored
from funcgrad._core.trace import Value
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.matrices import (
    Array,
    batch_matrices,
    conjugate,
    linalg_dtype,
    position_of,
)
from funcgrad._primitives.matrix_equations import scipy_linalg
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import swap_last_axes, view
from funcgrad._primitives.values_alone import least_singular_value
from funcgrad.errors import MatrixError, MissingPackageError


def shifted(x: Value, by: int) -> Value:
    """Elements moved along the last axis, with zeros behind them."""
    shape, count = shape_of(x), abs(by)
    if not by:
        return x
    if count >= shape[-1]:
        return x * 0
    zeros = np.zeros((*shape[:-1], count), dtype_of(x))
    axis = len(shape) - 1
    if by > 0:
        return concatenate(zeros, view(x, key=Key((..., slice(shape[-1] - count)))), axis=axis)
    return concatenate(view(x, key=Key((..., slice(count, None)))), zeros, axis=axis)


def _row(bands: Value, number: int) -> Value:
    """A diagonal, as a row of one more axis."""
    return view(bands, key=Key((..., slice(number, number + 1), slice(None))))


def _product(bands: Value, x: Value, upper: int) -> Value:
    """The matrix times columns."""
    across, total = swap_last_axes(x), None
    for number in range(shape_of(bands)[-2]):
        term = shifted(_row(bands, number) * across, number - upper)
        total = term if total is None else total + term
    return swap_last_axes(total)


def _adjoint(bands: Value, upper: int) -> Value:
    rows = [
        shifted(conjugate(_row(bands, number)), number - upper)
        for number in reversed(range(shape_of(bands)[-2]))
    ]
    return concatenate(*rows, axis=len(shape_of(bands)) - 2)


_MOST_DENSE: Final = 2000
"""The greatest matrix, 32 MB, that is solved as a dense one if SciPy is not installed."""


def _solver(size: int) -> Callable[..., Array]:
    """SciPy's ``solve_banded``, or a dense solution if SciPy is not installed."""
    try:
        solve: Callable[..., Array] = scipy_linalg("solve_banded").solve_banded
    except MissingPackageError:
        if size > _MOST_DENSE:
            raise
        return _dense_solution
    return solve


def _dense_solution(
    counts: tuple[int, int], bands: Array, b: Array, check_finite: bool = False
) -> Array:
    """Solve as ``solve_banded`` does, by the whole matrix."""
    size, upper = bands.shape[-1], counts[1]
    matrix = np.zeros((size, size), bands.dtype)
    for row, band in enumerate(bands):
        k = upper - row
        if abs(k) < size:
            matrix += np.diag(band[k:] if k > 0 else band[: size + k], k)
    return np.linalg.solve(matrix, b)


def _solve(bands: Array, b: Array, lower: int, upper: int) -> Any:
    dtype = linalg_dtype("solve_banded", bands.dtype, b.dtype)
    bands, b = np.asarray(bands, dtype), np.asarray(b, dtype)
    if not b.size:
        return np.zeros(b.shape, dtype)
    solve = _solver(bands.shape[-1])
    count = prod(b.shape[:-2])
    solutions = np.zeros((count, *b.shape[-2:]), dtype)
    flat = zip(
        bands.reshape(count, *bands.shape[-2:]), b.reshape(count, *b.shape[-2:]), strict=True
    )
    for number, (one, right) in enumerate(flat):
        try:
            solutions[number] = solve((lower, upper), one, right, check_finite=False)
        except np.linalg.LinAlgError:
            which = np.arange(count).reshape(b.shape[:-2]) == number
            raise MatrixError(
                f"solve_banded: the matrix{position_of(which)} is singular."
            ) from None
    return solutions.reshape(b.shape)


def _push(
    tangents: tuple[Value, ...],
    x: Value,
    bands: Value,
    b: Value,
    lower: int,
    upper: int,
    failed: str = "raise",
) -> Value:
    change, right = tangents
    if change is not None:
        moved = -_product(change, x, upper)
        right = moved if right is None else right + moved
    return banded_solve(bands, right, lower=lower, upper=upper, failed=failed)


def _pull(
    ct: Value, x: Value, bands: Value, b: Value, lower: int, upper: int, failed: str = "raise"
) -> tuple[Any, Value]:
    y = banded_solve(_adjoint(bands, upper), ct, lower=upper, upper=lower, failed=failed)

    def of_bands() -> Value:
        back, along = swap_last_axes(y), conjugate(swap_last_axes(x))
        axis = len(shape_of(x)) - 2
        rows = [
            reduce_sum(shifted(back, upper - number) * along, axis=(axis,), keepdims=True)
            for number in range(lower + upper + 1)
        ]
        return -concatenate(*rows, axis=axis)

    return of_bands, y


def _least_singular_value(bands: Value, b: Value, lower: int, upper: int, **_: Hashable) -> Value:
    unit = np.eye(shape_of(bands)[-1], dtype=dtype_of(bands))
    return least_singular_value(_product(bands, unit, upper))


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(171)
    for lead, n, k, lower, upper in (
        ((), 4, 2, 1, 1),
        ((), 4, 1, 0, 2),
        ((2,), 3, 2, 2, 0),
        ((), 1, 1, 0, 0),
        ((0,), 2, 1, 1, 0),
        ((), 2, 1, 3, 0),
    ):
        bands = rng.standard_normal((*lead, lower + upper + 1, n))
        bands[..., upper, :] += 4
        b = rng.standard_normal((*lead, n, k))
        params = {"lower": lower, "upper": upper}
        yield Sample((bands, b), params)
        if (lower, upper) == (1, 1):
            yield Sample((bands + 1j * rng.standard_normal(bands.shape), b[:, ::-1]), params)


banded_solve: Primitive = failing(
    Primitive(
        "banded_solve",
        _solve,
        lambda bands, b, lower, upper: Spec(
            b.shape, linalg_dtype("solve_banded", bands.dtype, b.dtype)
        ),
        Linearized(_push, _pull, linear_in=(1,)),
        batch_matrices,
        _samples,
        structure=Factored(
            lambda lower, upper, failed="raise": Factorization(
                Factors.ELIMINATION,
                FromFactors.SOLUTIONS,
                bands=(lower, upper),
                raises=failed == "raise",
            ),
            (2, 2),
        ),
        kinks=Kinks(_least_singular_value),
        traits=OWNS,
    )
)
"""The x with A x = b, of stacks of one shape."""
