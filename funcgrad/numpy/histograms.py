"""Count by bins; differentiable in the weights, in the bounds of bins, and in densities.

Counts are piecewise constant functions of the elements, without a derivative. Bounds that are
computed from the elements have a derivative.

>>> histogram([1.0, 2.0, 1.5, 4.0], bins=[0.0, 2.0, 4.0])
(Tensor([2, 2]), Tensor([0., 2., 4.]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value, beside, concrete
from funcgrad._core.users_values import operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TracerError
from funcgrad.numpy.creation import asarray, astype, ones, zeros
from funcgrad.numpy.indexing import as_integers, revealed
from funcgrad.numpy.joining import concatenate, stack
from funcgrad.numpy.logic import isnan
from funcgrad.numpy.options import common_dtype, integer, is_integer, natural, sequence
from funcgrad.numpy.reductions import max, min, sum
from funcgrad.numpy.running import diff
from funcgrad.numpy.selection import where
from funcgrad.numpy.sorting import searchsorted
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: SupportsIndex = 0
) -> Tensor:
    """Count how often each integer occurs, or sum the weights of its occurrences.

    Parameters
    ----------
    x : array_like of integers, shape (n,)
        Not negative, and concrete, since the length of the result depends on them.
    weights : array_like, shape (n,), optional
        Real; the result is linear in them.
    minlength : int
        The least length of the result.

    Returns
    -------
    Tensor, shape (max(max(x) + 1, minlength),)
        Counts of int64; with weights sums of float64.

    Raises
    ------
    DtypeError
        ``x`` does not have an integer dtype, or the weights are complex.
    ShapeError
        ``x`` has several axes or a negative element, or the weights have another shape.

    Examples
    --------
    >>> bincount([0, 1, 1, 3]), bincount([0, 1, 1], weights=[0.5, 1.0, 2.0])
    (Tensor([1, 2, 0, 1]), Tensor([0.5, 3. ]))
    """
    value = operand(x, "bincount")
    numbers = revealed(value, "bincount")
    if numbers.dtype.kind == "b" and numbers.size:
        numbers = numbers.astype(np.intp)
    places = revealed(as_integers(x if not numbers.size else numbers, "bincount", "x"), "bincount")
    if places.dtype == np.uint64:
        raise DtypeError("bincount: x of dtype uint64 may not fit into int64; cast it.")
    if places.ndim != 1:
        raise ShapeError(f"bincount: x has to be 1-d, not of the shape {places.shape}.")
    if np.any(places < 0):
        raise ArgumentError("bincount: the elements of x must not be negative.")
    length = natural(minlength, "bincount", "minlength")
    places = places.astype(np.intp)
    if weights is None or not places.size:
        return wrap(beside(np.bincount(places, minlength=length), value))
    amounts = asarray(operand(weights, "bincount"))
    if amounts.dtype.kind == "c":
        raise DtypeError(
            "bincount: weights have to be real, not complex: sum the real and imaginary parts"
            " separately."
        )
    if amounts.shape != places.shape:
        raise ShapeError(
            f"bincount: weights of the shape {amounts.shape} do not fit x, of {places.shape}."
        )
    size = int(np.max(places, initial=length - 1)) + 1
    return zeros(size).at[places].add(astype(amounts, np.float64))


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The bounds of bins, as ``histogram`` takes them.

    Examples
    --------
    >>> histogram_bin_edges([1.0, 3.0, 2.0], bins=4)
    Tensor([1. , 1.5, 2. , 2.5, 3. ])
    """
    _amounts(a, weights, "histogram_bin_edges")
    return _edges(_elements(a, "histogram_bin_edges"), bins, range, weights, "histogram_bin_edges")


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]:
    """Count the elements in each bin, or sum their weights.

    Parameters
    ----------
    a : array_like
        Real numbers; those outside of all bins, and NaN, do not count.
    bins : int, array_like or str
        The number of bins of equal width; or their bounds, ascending; or, for concrete elements,
        NumPy's name of a rule for the number. A bin includes its lower bound; the last bin includes
        both.
    range : (number, number), optional
        The outermost bounds, unless ``bins`` is an array; by default the extrema of the elements.
    density : bool, optional
        Whether to divide by the widths of the bins and by the sum, so that the integral is 1.
    weights : array_like, optional
        Of the shape of ``a``.

    Returns
    -------
    counts, edges : Tensor
        Counts have the dtype int64, or the dtype of the weights; a density has float64.

    Raises
    ------
    ArgumentError
        Bounds do not ascend, a range is not finite, or bins are missing.
    ShapeError
        The shape of the weights differs from the shape of the elements.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jacrev(lambda w: histogram([1.0, 2.0, 1.5], bins=2, weights=w)[0])(fg.tensor([1.0] * 3))
    Tensor([[1., 0., 0.],
            [0., 1., 1.]])
    """
    elements = _elements(a, "histogram")
    edges = _edges(elements, bins, range, weights, "histogram")
    amounts = _amounts(a, weights, "histogram")
    counts = _counted(_places(elements, edges), amounts, edges.size - 1)
    if density:
        return counts / astype(diff(edges), np.float64) / sum(counts), edges
    return counts, edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Count the points of a plane in each cell; see ``histogramdd``.

    Parameters
    ----------
    x, y : array_like, shape (n,)
    bins : int, array_like, or two of these
        For both axes, or for each.
    range, density, weights
        See ``histogram``; a range is a pair of pairs.

    Returns
    -------
    counts, x_edges, y_edges : Tensor

    Examples
    --------
    >>> histogram2d([0.0, 1.0, 1.0], [0.0, 1.0, 1.0], bins=2)[0]
    Tensor([[1., 0.],
            [0., 2.]])
    """
    parts = [asarray(operand(coordinates, "histogram2d")) for coordinates in (x, y)]
    if parts[0].shape != parts[1].shape or parts[0].ndim != 1:
        raise ShapeError(
            f"histogram2d: x and y have to be 1-d, of one length; their shapes are {parts[0].shape}"
            f" and {parts[1].shape}."
        )
    if not is_integer(bins):
        entries = sequence(bins, "histogram2d", "bins")
        bins = entries if len(entries) in (1, 2) else [bins, bins]  # the bounds for both
    counts, (first, second) = histogramdd(stack(parts, axis=1), bins, range, density, weights)
    return counts, first, second


def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Count the points in each cell, or sum their weights.

    Parameters
    ----------
    sample : array_like, shape (n, d), or sequence of d array_like, shape (n,)
        The points.
    bins : int, or sequence of d int or array_like
        For each dimension the number of bins, or their bounds, ascending.
    range : sequence of d pairs or None, optional
    density : bool, optional
        Whether to divide by the volumes of cells and by the sum.
    weights : array_like, shape (n,), optional
        Real.

    Returns
    -------
    counts : Tensor
        Of float64, with an axis for each dimension.
    edges : tuple of d Tensor

    Raises
    ------
    ShapeError
        The numbers of dimensions or of points differ.
    ArgumentError
        Bounds do not ascend, a range is not finite, or bins are missing.

    Examples
    --------
    >>> histogramdd([[0.0, 1.0, 1.0]], bins=2)
    (Tensor([1., 2.]), (Tensor([0. , 0.5, 1. ]),))
    """
    points = _points(sample)
    count, rank = points.shape
    axes = tuple(points.swapaxes(0, 1))
    bins_by_axis = [bins] * rank if is_integer(bins) else sequence(bins, "histogramdd", "bins")
    limits = [None] * rank if range is None else sequence(range, "histogramdd", "range")
    if len(bins_by_axis) != rank or len(limits) != rank:
        raise ShapeError(
            f"histogramdd: points of {rank} dimensions need as many bins and ranges, not"
            f" {len(bins_by_axis)} and {len(limits)}."
        )
    edges = tuple(
        [_bounds(*arguments) for arguments in zip(axes, bins_by_axis, limits, strict=True)]
    )
    amounts = ones(count) if weights is None else asarray(operand(weights, "histogramdd"))
    if amounts.shape != (count,) or amounts.dtype.kind == "c":
        raise ShapeError(
            f"histogramdd: weights have to be real, one for each of {count} points, not of"
            f" {amounts.dtype} {amounts.shape}."
        )
    sizes = [edge.size for edge in edges]  # one more than bins, for elements outside
    place = zeros(count, np.intp)
    for coordinates, edge in zip(axes, edges, strict=True):
        place = place * edge.size + _places(coordinates, edge)
    total = zeros(int(np.prod(sizes))).at[place].add(astype(amounts, np.float64)).reshape(sizes)
    counts = total[tuple([slice(size - 1) for size in sizes])]
    if density:
        whole = sum(counts)
        for axis, edge in enumerate(edges):
            counts = counts / diff(edge).reshape((-1,) + (1,) * (rank - axis - 1))
        counts = counts / whole
    return counts, edges


# ------------------------------------------------------------------------------------- elements


def _elements(a: ArrayLike, operation: str) -> Tensor:
    value = asarray(operand(a, operation)).reshape(-1)
    if value.dtype.kind == "c":
        raise DtypeError(f"{operation}: complex numbers have no order.")
    return astype(value, np.uint8) if value.dtype.kind == "b" else value


def _amounts(a: ArrayLike, weights: ArrayLike | None, operation: str) -> Tensor | None:
    """The weights of elements."""
    if weights is None:
        return None
    amounts, shape = asarray(operand(weights, operation)), shape_of(operand(a, operation))
    if amounts.shape != shape:
        raise ShapeError(
            f"{operation}: weights of the shape {amounts.shape} do not fit elements of the shape"
            f" {shape}."
        )
    return amounts


def _points(sample: ArrayLike) -> Tensor:
    """The points in rows."""
    if isinstance(sample, (list, tuple)):
        coordinates = [asarray(operand(coordinate, "histogramdd")) for coordinate in sample]
        table = stack(coordinates, axis=-1) if coordinates else zeros((0, 0))
    else:
        table = asarray(operand(sample, "histogramdd"))
        table = table.reshape(-1, 1) if table.ndim < 2 else table
    if table.ndim != 2 or table.dtype.kind == "c":
        raise ShapeError(
            "histogramdd: the sample has to be real, with points in rows or a sequence of"
            f" coordinates, not of {table.dtype} {table.shape}."
        )
    return table


def _places(x: Tensor, edges: Tensor) -> Tensor:
    """The bin of each element; the number of bins for elements in none."""
    count = edges.size - 1
    place = searchsorted(edges, x, "right") - 1
    place = where(x == edges[-1], count - 1, place)
    return where((place < 0) | (place >= count) | isnan(x), count, place)


def _counted(places: Tensor, amounts: Tensor | None, count: int) -> Tensor:
    """The sums of amounts, or the counts, in bins; for booleans whether any is true."""
    weights = ones(places.shape, np.intp) if amounts is None else amounts.reshape(-1)
    dtype = np.dtype(np.intp) if weights.dtype.kind == "b" else weights.dtype
    total = zeros(count + 1, dtype).at[places].add(astype(weights, dtype))
    return astype(total[:count], weights.dtype)


# ----------------------------------------------------------------------------------------- bounds


def _known(x: Value, operation: str) -> np.ndarray[Any, Any] | None:
    """The values of a tensor, for checks; None inside ``vmap``."""
    try:
        return revealed(x, operation)
    except TracerError:
        return None


def _edges(
    x: Tensor, bins: ArrayLike, limits: ArrayLike, weights: ArrayLike | None, operation: str
) -> Tensor:
    if isinstance(bins, str):
        if weights is not None:
            raise DtypeError(
                f"{operation}: how many bins a rule finds is not defined with weights; give bins as"
                " an integer."
            )
        rule: Any = np.histogram_bin_edges
        plain = None if limits is None else tuple([float(limit) for limit in limits])
        try:
            bins = len(rule(revealed(x, operation), bins, plain)) - 1
        except ValueError as error:
            raise ArgumentError(f"{operation}: {error}") from None
    if shape_of(operand(bins, operation)):
        return _ascending(bins, x, operation)
    count = integer(bins, operation, "bins")
    first, last = _outermost(x, limits, operation)
    dtype = common_dtype(first, last, x)
    dtype = dtype if dtype.kind == "f" else np.result_type(dtype, np.float64)
    edges = astype(_evenly(first, last, count, operation), dtype)
    known = _known(edges, operation)
    if known is not None and np.any(known[:-1] >= known[1:]):
        raise ArgumentError(
            f"{operation}: {count} bins are too many for the range of the elements."
        )
    return _beside(edges, x)


def _bounds(x: Tensor, bins: ArrayLike, limits: ArrayLike) -> Tensor:
    """The bounds along one dimension."""
    if shape_of(operand(bins, "histogramdd")):
        return _ascending(bins, x, "histogramdd")
    count = integer(bins, "histogramdd", "bins")
    first, last = _outermost(x, limits, "histogramdd")
    return _beside(_evenly(first, last, count, "histogramdd"), x)


def _beside(edges: Tensor, x: Tensor) -> Tensor:
    """Bounds that were computed on the host, on the device of the elements."""
    return wrap(beside(concrete(edges), x))


def _ascending(bins: ArrayLike, x: Tensor, operation: str) -> Tensor:
    edges = asarray(operand(bins, operation))
    if edges.ndim != 1 or not edges.size:
        raise ShapeError(f"{operation}: bounds stand on one axis, not in the shape {edges.shape}.")
    known = _known(edges, operation)
    if known is not None and np.any(known[:-1] > known[1:]):
        raise ArgumentError(f"{operation}: the bounds of bins have to ascend.")
    return _beside(edges, x) if isinstance(bins, (list, tuple)) else edges


def _outermost(
    x: Tensor, limits: Sequence[ArrayLike] | None, operation: str
) -> tuple[Value, Value]:
    """The first and the last bound."""
    if limits is not None:
        ends = [operand(end, operation) for end in sequence(limits, operation, "range")]
    elif x.size:
        ends = [min(x), max(x)]
    else:
        ends = [zeros((), x.dtype), ones((), x.dtype)]
    if len(ends) != 2 or shape_of(ends[0]) or shape_of(ends[1]):
        raise ShapeError(f"{operation}: a range is a pair: the least and the greatest bound.")
    least, most = (_known(end, operation) for end in ends)
    if least is not None and most is not None:
        reach = f"the range from {least} to {most}"
        if not (np.isfinite(least) and np.isfinite(most)):
            raise ArgumentError(f"{operation}: {reach} is not finite.")
        if least > most:
            raise ArgumentError(f"{operation}: {reach} is empty.")
        if least < most:
            return ends[0], ends[1]
    alike = ends[0] == ends[1]
    return where(alike, ends[0] - 0.5, ends[0]), where(alike, ends[1] + 0.5, ends[1])


def _evenly(first: Value, last: Value, count: int, operation: str) -> Tensor:
    """Evenly spaced bounds, rounded as in NumPy, since counts depend on the rounding."""
    if count < 1:
        raise ArgumentError(f"{operation}: there has to be a bin at least, not {count}.")
    dtype = common_dtype(first, last, 1.0)
    start, stop = astype(first, dtype), astype(last, dtype)
    inner = start + np.arange(count, dtype=dtype) * ((stop - start) / count)
    return concatenate((inner, stop.reshape(1)))
