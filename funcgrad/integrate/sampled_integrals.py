"""Integrals of samples: Simpson's rule, Romberg's, and running integrals.

>>> import numpy as np
>>> x = np.linspace(0.0, 1.0, 5)
>>> simpson(x**3, x), cumulative_trapezoid(x, x, initial=0.0)
(Tensor(0.25), Tensor([0.     , 0.03125, 0.125  , 0.28125, 0.5    ]))
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.specs import is_inexact, normalize_axis
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.tensor.tensor import Tensor


def cumulative_trapezoid(
    y: ArrayLike,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Tensor:
    """Integrate samples cumulatively with the trapezoidal rule.

    Parameters
    ----------
    y : array_like, shape (..., n, ...)
        The samples, at least one.
    x : array_like, optional
        The points of the samples: 1-d for all rows, or of the shape of ``y``.
    dx : array_like
        The distance between samples, if ``x`` is not given.
    axis : int
    initial : scalar, optional
        The value that is put before the results, as 0.

    Returns
    -------
    Tensor
        The integrals up to the second, the third, …, the last sample: of length n - 1 along the
        axis, or n with ``initial``.

    Raises
    ------
    ShapeError
        ``y`` has no samples, or ``x`` does not fit it.

    See Also
    --------
    cumulative_simpson : Exact for quadratic functions.

    Examples
    --------
    >>> cumulative_trapezoid([1.0, 2.0, 4.0], dx=0.5)
    Tensor([0.75, 2.25])
    """
    name = "cumulative_trapezoid"
    rows, widths = _rows(name, y, x, dx, axis)
    areas = widths * (rows[..., 1:] + rows[..., :-1]) / 2.0
    return _running(name, areas, initial, axis)


def simpson(
    y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1
) -> Tensor:
    """Integrate samples with Simpson's rule.

    Parameters
    ----------
    y : array_like, shape (..., n, ...)
        The samples, at least one.
    x : array_like, optional
        The points of the samples: 1-d for all rows, or of the shape of ``y``.
    dx : array_like
        The distance between samples, if ``x`` is not given.
    axis : int

    Returns
    -------
    Tensor
        The integrals, without that axis.

    Raises
    ------
    ShapeError
        ``y`` has no samples, or ``x`` does not fit it.

    See Also
    --------
    romb : More exact, for 2ᵏ + 1 samples at equal distances.
    fixed_quad, quad : Integrals of functions.

    Notes
    -----
    A parabola goes through each three samples. For an even number of samples the last interval gets
    the parabola through the last three samples, as in SciPy. Source: Cartwright, "Simpson's rule
    cumulative integration with MS Excel and irregularly-spaced data", 2017.

    Examples
    --------
    >>> simpson([0.0, 1.0, 4.0], dx=1.0), simpson([0.0, 1.0, 9.0], x=[0.0, 1.0, 3.0])
    (Tensor(2.666...), Tensor(9.0))
    """
    rows, widths = _rows("simpson", y, x, dx, axis)
    count = rows.shape[-1]
    if count == 2:
        return fnp.sum(widths * (rows[..., 1:] + rows[..., :-1]) / 2.0, -1)
    first, last = _parabolas(rows, widths)
    pairs = count - 1 - (count - 1) % 2
    total = fnp.sum(first[..., :pairs:2], -1) + fnp.sum(last[..., :pairs:2], -1)
    return total if pairs == count - 1 else total + last[..., -1]


def cumulative_simpson(
    y: ArrayLike,
    *,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Tensor:
    """Integrate samples cumulatively with Simpson's rule.

    Parameters
    ----------
    y : array_like, shape (..., n, ...)
        The samples, at least one.
    x : array_like, optional
        The points of the samples: 1-d for all rows, or of the shape of ``y``.
    dx : array_like
        The distance between samples, if ``x`` is not given.
    axis : int
    initial : array_like, optional
        The value that is put before the results and added to them, as 0. It has length 1
        along the axis, or is a scalar.

    Returns
    -------
    Tensor
        The integrals up to the second, the third, …, the last sample: of length n - 1 along the
        axis, or n with ``initial``.

    Raises
    ------
    ShapeError
        ``y`` has no samples, or ``x`` does not fit it.

    See Also
    --------
    simpson

    Notes
    -----
    A parabola through an interval's samples and the next one gives the integral over every second
    interval; for the others, and for the last one, the parabola goes through the sample before. Two
    samples get the trapezoidal rule, as in SciPy.

    Examples
    --------
    >>> cumulative_simpson([0.0, 1.0, 4.0, 9.0], initial=0.0)  # x³ / 3
    Tensor([0.        , 0.33333333, 2.66666667, 9.        ])
    """
    name = "cumulative_simpson"
    rows, widths = _rows(name, y, x, dx, axis)
    count = rows.shape[-1]
    if count < 3:
        return _running(name, widths * (rows[..., 1:] + rows[..., :-1]) / 2.0, initial, axis)
    first, last = _parabolas(rows, widths)
    areas = [first[..., k] if k % 2 == 0 else last[..., k - 1] for k in range(count - 2)]
    return _running(name, fnp.stack([*areas, last[..., -1]], -1), initial, axis)


@answering
def romb(y: ArrayLike, dx: ArrayLike = 1.0, axis: int = -1) -> Tensor:
    """Integrate equally spaced samples with Romberg's rule.

    Parameters
    ----------
    y : array_like, shape (..., 2ᵏ + 1, ...)
        The samples.
    dx : array_like
        The distance between samples.
    axis : int

    Returns
    -------
    Tensor
        The integrals, without that axis.

    Raises
    ------
    ShapeError
        The number of samples is not 2ᵏ + 1.

    See Also
    --------
    simpson : Any number of samples.

    Notes
    -----
    Richardson's extrapolation of the trapezoidal rule: exact for polynomials of degree up to
    2 k + 1.

    Examples
    --------
    >>> import numpy as np
    >>> romb(np.linspace(0.0, 1.0, 9) ** 7, dx=0.125)
    Tensor(0.125)
    """
    rows, _ = _rows("romb", y, None, dx, axis)
    intervals = rows.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise placed(
            ShapeError,
            f"romb: the number of samples has to be 2**k + 1, as 5 or 9, got {intervals + 1}."
            " simpson takes any number.",
        )
    width = fnp.asarray(operand(dx, "romb: dx"))
    width = width if is_inexact(width.dtype) else width.astype(float)
    steps = [2**level for level in range(intervals.bit_length() - 1, -1, -1)]
    sums = [
        width * step * (fnp.sum(rows[..., ::step], -1) - 0.5 * (rows[..., 0] + rows[..., -1]))
        for step in steps
    ]
    for order in range(1, len(sums)):
        factor = 1.0 / (4.0**order - 1.0)
        sums = [fine + factor * (fine - coarse) for coarse, fine in itertools.pairwise(sums)]
    return sums[0]


def _rows(name: str, y: Any, x: Any, dx: Any, axis: int) -> tuple[Tensor, Tensor]:
    """The samples, with their axis last, and the distances between them."""
    samples = fnp.asarray(operand(y, f"{name}: y"))
    samples = samples if is_inexact(samples.dtype) else samples.astype(float)
    along = normalize_axis(axis, samples.ndim, name)
    rows = fnp.moveaxis(samples, along, -1)
    count = rows.shape[-1]
    if not count:
        raise placed(ShapeError, f"{name}: y of shape {samples.shape} has no samples on its axis.")
    if x is None:
        width = fnp.asarray(operand(dx, f"{name}: dx"))
        width = width if is_inexact(width.dtype) else width.astype(float)
        return rows, fnp.broadcast_to(width, (count - 1,))
    points = fnp.asarray(operand(x, f"{name}: x"))
    if points.shape not in ((count,), samples.shape):
        raise placed(
            ShapeError,
            f"{name}: x has to have shape ({count},) or the shape {samples.shape} of y, got"
            f" {points.shape}.",
        )
    points = points if points.shape == (count,) else fnp.moveaxis(points, along, -1)
    points = points if is_inexact(points.dtype) else points.astype(float)
    return rows, fnp.diff(points, axis=-1)


def _parabolas(rows: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """For each three samples, the integrals of their parabola over the two intervals."""
    a, b, c = rows[..., :-2], rows[..., 1:-1], rows[..., 2:]
    g, h = widths[..., :-1], widths[..., 1:]
    bent = ((c - b) / h - (b - a) / g) / (6.0 * (g + h))
    return g * ((a + b) / 2.0 - bent * g * g), h * ((b + c) / 2.0 - bent * h * h)


def _running(name: str, areas: Tensor, initial: Any, axis: int) -> Tensor:
    """The running sums along the last axis, which is put back."""
    sums = fnp.cumsum(areas, -1)
    if initial is not None:
        value = fnp.asarray(operand(initial, f"{name}: initial"))
        value = value.astype(np.result_type(value.dtype, sums.dtype))
        if name == "cumulative_simpson":
            value = fnp.moveaxis(value, axis, -1) if value.ndim else value
            sums = sums + value
        elif value.shape:
            raise placed(ArgumentError, f"{name}: initial has to be a scalar, got {value.shape}.")
        front = fnp.broadcast_to(value, (*sums.shape[:-1], 1))
        sums = fnp.concatenate([front, sums], -1)
    return fnp.moveaxis(sums, -1, axis)
