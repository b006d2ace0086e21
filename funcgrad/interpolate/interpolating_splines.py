"""Splines of any degree through samples, as B-splines.

>>> make_interp_spline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], k=2)(1.5)
Tensor(2.25)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad.errors import ArgumentError, MatrixError, ShapeError
from funcgrad.interpolate.b_splines import BSpline, basis_values, interval_of
from funcgrad.interpolate.checked_samples import (
    Samples,
    all_hold,
    array_of,
    in_one_precision,
    read_samples,
    real_array_of,
    require,
    where_valid,
)
from funcgrad.interpolate.cubic_splines import same_ends
from funcgrad.interpolate.cyclic_bands import solve_bands, solve_cyclic
from funcgrad.numpy.options import integer, natural
from funcgrad.tensor.tensor import ArrayLike, Tensor

Derivatives: TypeAlias = Sequence[tuple[int, ArrayLike]]
"""Derivatives at an end: orders and values."""

_NAME = "make_interp_spline"


def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: ArrayLike | None = None,
    bc_type: str | tuple[str | Derivatives | None, str | Derivatives | None] | None = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """The spline of degree ``k`` through samples.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, ascending.
    y : array_like, shape (..., n, ...)
        The samples; real or complex.
    k : int
        The degree.
    t : array_like, shape (n + k + 1 + number of derivatives,), optional
        The knots. By default each interval between them belongs to about one point.
    bc_type : str or pair, optional
        "not-a-knot" (also None), "periodic", "natural" or "clamped" (with the degree 3, or as
        many derivatives as ``k - 1`` asks for), or a pair of conditions for the start and the
        end: None, a word, or a sequence of pairs ``(order, value)`` of derivatives.
    axis : int
        The axis of ``y`` along which the points lie.
    check_finite : bool
        Whether ``y`` is checked to be finite.

    Returns
    -------
    BSpline
        Differentiable in ``x``, ``y``, ``t`` and the derivatives at the ends.

    Raises
    ------
    ShapeError
        There are too few points, or the arrays or the number of derivatives do not fit.
    ArgumentError
        Points do not ascend, samples are not finite, or a condition is unknown.
    MatrixError
        No spline with these knots goes through all samples.

    See Also
    --------
    CubicSpline : The degree 3, as polynomials.

    Notes
    -----
    The coefficients solve equations with ``2 k + 1`` diagonals, in O(n). Source: C. de Boor, "A
    practical guide to splines", 1978, chapter XIII.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x, y = fg.tensor([0.0, 1.0, 2.0, 3.0]), fg.tensor([0.0, 1.0, 0.0, 1.0])
    >>> make_interp_spline(x, y, bc_type="natural")(0.5)
    Tensor(0.75)
    >>> fg.grad(lambda y: make_interp_spline(x, y)(0.5))(y)
    Tensor([ 0.3125,  0.9375, -0.3125,  0.0625])
    """
    degree = natural(k, _NAME, "k")
    sides = _sides(bc_type)
    y, axis = array_of(_NAME, "y", y), integer(axis, _NAME, "axis")
    conditions = [_derivatives(side, y, axis) for side in sides]
    beside = [value for pairs in conditions for _, value in pairs]
    samples = read_samples(_NAME, x, y, axis, *beside, least=1, finite=check_finite)
    is_periodic = sides[0] == "periodic"
    if is_periodic:
        fits = same_ends(_NAME, samples.y)
        samples = samples._replace(valid=all_hold(samples.valid, fits))
    has_conditions = any(side not in (None, "not-a-knot", "periodic") for side in sides)
    least = 2 if is_periodic or has_conditions else degree + 1
    if samples.x.shape[0] < least:
        raise placed(
            ShapeError,
            f"{_NAME}: the degree {degree} needs at least {least} points, not"
            f" {samples.x.shape[0]}.",
        )
    if degree < 2 and t is None:
        return _without_equations(samples, degree, has_conditions, is_periodic)
    if is_periodic:
        return _periodic_spline(samples, degree, t)
    if t is not None:
        knots, _ = in_one_precision(real_array_of(_NAME, "t", t), samples.x)
        samples = samples._replace(valid=all_hold(samples.valid, _fitting(knots, samples, degree)))
        return _solved_spline(samples, degree, knots, conditions, None)
    knots_of = _with_all_knots if has_conditions else _without_second_points
    # The places of points among knots depend on their order, which is known.
    order = fnp.arange(float(samples.x.shape[0]))
    places = np.asarray(
        interval_of(knots_of(fnp.asarray(order), degree), fnp.asarray(order), degree)
    )
    return _solved_spline(samples, degree, knots_of(samples.x, degree), conditions, places)


def _sides(bc_type: object) -> list[Any]:
    """The conditions at both ends."""
    if bc_type is None or isinstance(bc_type, str):
        sides: list[Any] = [bc_type, bc_type]
    elif isinstance(bc_type, tuple | list) and len(bc_type) == 2:
        sides = [*bc_type]
        if "periodic" in [side for side in sides if isinstance(side, str)]:
            raise placed(ArgumentError, f"{_NAME}: 'periodic' is a condition of both ends.")
    else:
        raise placed(
            ArgumentError,
            f"{_NAME}: bc_type is a word, or a pair of conditions for the start and the end, not"
            f" {bc_type!r}.",
        )
    for side in sides:
        words = ("not-a-knot", "periodic", "natural", "clamped")
        if isinstance(side, str) and side not in words:
            raise placed(
                ArgumentError, f"{_NAME}: bc_type has the words {', '.join(words)}, not {side!r}."
            )
    return sides


def _derivatives(side: object, y: Tensor, axis: int) -> list[tuple[int, Tensor]]:
    """Derivatives at an end, with values in the shape of a sample."""
    if side is None or (isinstance(side, str) and side in ("not-a-knot", "periodic")):
        return []
    shape = [*y.shape]
    if shape:
        del shape[axis % len(shape)]
    if isinstance(side, str):
        return [(1 if side == "clamped" else 2, fnp.zeros(tuple(shape)))]
    pairs = []
    for pair in side if isinstance(side, list | tuple) else [side]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise placed(
                ArgumentError,
                f"{_NAME}: derivatives at an end are a sequence of pairs (order, value), not"
                f" {side!r}.",
            )
        value = array_of(_NAME, "a derivative at an end", pair[1])
        if value.shape != tuple(shape):
            raise placed(
                ShapeError,
                f"{_NAME}: a derivative at an end has the shape {value.shape}, and a sample"
                f" {tuple(shape)}.",
            )
        pairs.append((natural(pair[0], _NAME, "the order of a derivative"), value))
    return pairs


def _without_equations(
    samples: Samples, degree: int, has_conditions: bool, is_periodic: bool
) -> BSpline:
    """A step function or a line from sample to sample, whose coefficients are the samples."""
    if has_conditions:
        raise placed(
            ArgumentError, f"{_NAME}: degree {degree} has no derivatives that could be given."
        )
    x = samples.x
    ends = [x[:1]] * degree, [x[-1:]] * (degree or 1)
    knots = fnp.concatenate([*ends[0], x, *ends[1]])
    rows = where_valid(samples.valid, samples.y)
    return BSpline._made(knots, rows, degree, "periodic" if is_periodic else True, samples.axis)


def _without_second_points(x: Tensor, degree: int) -> Tensor:
    """Knots at the points or between them, without the ones next to the ends."""
    inner = x if degree % 2 else (x[1:] + x[:-1]) / 2.0
    cut = (degree + 1) // 2
    ends = fnp.repeat(x[:1], degree + 1), fnp.repeat(x[-1:], degree + 1)
    return fnp.concatenate([ends[0], inner[cut : inner.shape[0] - cut], ends[1]])


def _with_all_knots(x: Tensor, degree: int) -> Tensor:
    """Knots at all points."""
    return fnp.concatenate([fnp.repeat(x[:1], degree), x, fnp.repeat(x[-1:], degree)])


def _fitting(knots: Tensor, samples: Samples, degree: int) -> Tensor | None:
    """Check knots of users."""
    if knots.ndim != 1 or knots.shape[0] < 2 * degree + 2:
        raise placed(
            ShapeError,
            f"{_NAME}: t is 1-d, and has at least {2 * degree + 2} knots for the degree {degree};"
            f" its shape is {knots.shape}.",
        )
    x, last = samples.x, knots.shape[0] - degree - 1
    covers = (x[0] >= knots[degree]) & (x[-1] <= knots[last])
    return require(
        fnp.all(knots[1:] >= knots[:-1]) & covers,
        ArgumentError,
        f"{_NAME}: t has to ascend, and all x to lie between t[k] and t[-k-1].",
    )


def _solved_spline(
    samples: Samples,
    degree: int,
    knots: Tensor,
    conditions: list[list[tuple[int, Tensor]]],
    places: np.ndarray[Any, np.dtype[np.int64]] | None,
) -> BSpline:
    """Solve for the coefficients: one equation a sample, and one for each derivative."""
    x, y = samples.x, samples.y
    count, more = knots.shape[0] - degree - 1, [len(pairs) for pairs in conditions]
    if count != x.shape[0] + sum(more):
        raise placed(
            ShapeError,
            f"{_NAME}: {knots.shape[0]} knots and the degree {degree} take {count} conditions, but"
            f" {x.shape[0]} samples and {sum(more)} derivatives are given.",
        )
    for order, _ in (*conditions[0], *conditions[1]):
        if order > degree:
            raise placed(
                ArgumentError,
                f"{_NAME}: the derivative of order {order} of a spline of degree {degree} is 0.",
            )
    where = interval_of(knots, x, degree) if places is None else fnp.asarray(places)
    ends = [
        [
            basis_values(knots, at, fnp.asarray(np.array([place])), degree, order)
            for order, _ in pairs
        ]
        for at, place, pairs in zip((x[:1], x[-1:]), (degree, count - 1), conditions, strict=True)
    ]
    inner = basis_values(knots, x, where, degree)
    elements = fnp.stack(
        [
            fnp.concatenate([*[e[d] for e in ends[0]], inner[d], *[e[d] for e in ends[1]]])
            for d in range(degree + 1)
        ]
    )
    first, last = np.full(more[0], degree), np.full(more[1], count - 1)
    if places is None:
        column: Any = fnp.concatenate([fnp.asarray(first), where, fnp.asarray(last)])
    else:
        column = np.concatenate([first, places, last])
    steps = np.arange(-degree, 1)[:, None]
    column = column + steps
    line = np.arange(count)
    empty = fnp.zeros((2 * degree + 1, count), elements.dtype)
    bands = empty.at[degree + line - column, column].add(elements)
    sides = [[value.astype(y.dtype)[None] for _, value in pairs] for pairs in conditions]
    right = fnp.concatenate([*sides[0], y, *sides[1]])
    columns = fnp.reshape(right, (count, int(np.prod(y.shape[1:]))))
    rows = fnp.reshape(solve_bands(bands, degree, degree, columns), right.shape)
    if places is None:
        finite = require(
            fnp.all(fnp.isfinite(rows)) | ~fnp.all(fnp.isfinite(y)),
            MatrixError,
            f"{_NAME}: no spline with these knots goes through all samples: between t[i] and"
            " t[i+k+1] there has to be a point for each i (Schoenberg and Whitney).",
        )
        rows = where_valid(finite, rows)
    return BSpline._made(knots, where_valid(samples.valid, rows), degree, True, samples.axis)


def _periodic_spline(samples: Samples, degree: int, t: ArrayLike | None) -> BSpline:
    """A periodic spline: the knots and the coefficients go on at the other end."""
    if t is not None:
        raise placed(ArgumentError, f"{_NAME}: a periodic spline chooses its knots; leave out t.")
    x, y = samples.x, samples.y
    count = x.shape[0] - 1
    inner = x
    if degree % 2 == 0:
        inner = fnp.concatenate([x[:1], (x[1:-1] + x[:-2]) / 2.0, x[-1:]])
    width = inner[1:] - inner[:-1]
    turn = np.arange(degree) % count
    before = inner[0] - fnp.cumsum(fnp.take(width, count - 1 - turn))
    after = inner[-1] + fnp.cumsum(fnp.take(width, turn))
    knots = fnp.concatenate([before[::-1], inner, after])
    place = fnp.asarray(np.arange(count) + degree)
    # At a knot the last basis function is 0; then the matrix has as many diagonals on both sides.
    values = basis_values(knots, x[:-1], place, degree)[: degree + 1 - degree % 2]
    middle = degree // 2
    columns = fnp.reshape(y[:-1], (count, int(np.prod(y.shape[1:]))))
    solved = solve_cyclic(fnp.stack(values), middle, columns)
    order = (np.arange(count + degree) - middle) % count
    rows = fnp.reshape(fnp.take(solved, order, axis=0), (count + degree, *y.shape[1:]))
    return BSpline._made(knots, where_valid(samples.valid, rows), degree, "periodic", samples.axis)
