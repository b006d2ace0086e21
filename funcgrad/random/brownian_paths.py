"""Brownian motion whose path is a function of the key: the same at any times, in any order.

>>> from funcgrad.random.keys import key
>>> brownian(key(0), [0.0, 0.5, 1.0])
Tensor([ 0.        , -0.49220052,  0.31407284])

The path is a binary tree of intervals. An interval of length l has an increment w of the path, and
h, the mean distance of the path from the line between its ends; they are independent, with
variances l and l / 12. Both halves of the interval follow from w, h and two normal samples, which
are the encrypted index of the interval. So each interval is found without the others, and the whole
tree is never stored.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._control.whiles import fori_loop
from funcgrad._core.specs import ShapeLike, dtype_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import SPLIT, bits_to_normal, fold_key
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError
from funcgrad.random.keys import named
from funcgrad.random.philox import as_dtype, as_key, as_shape, random_words
from funcgrad.tensor.tensor import Tensor, apply, wrap

DEPTH: Final = 16
"""The levels of the tree: its smallest intervals have the length 2**-16 of the whole."""

_DOUBLE: Final = np.dtype(np.float64)


class PathPiece(NamedTuple):
    """The path over intervals: arrays of intervals and elements.

    Attributes
    ----------
    width : Tensor
        The increment of the path.
    bulge : Tensor
        The mean distance of the path from the line between its ends.
    """

    width: Tensor
    bulge: Tensor


class PathValues(NamedTuple):
    """The path at some times: arrays of times and elements.

    Attributes
    ----------
    value : Tensor
        The path, which starts at 0.
    area : Tensor
        The integral of the path from the start to the time.
    """

    value: Tensor
    area: Tensor


@answering
def brownian(
    key: ArrayLike,
    t: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    *,
    t0: ArrayLike = 0.0,
    t1: ArrayLike = 1.0,
    integral: bool = False,
) -> Any:
    """Compute a path of Brownian motion at any times: a function of the key and the interval.

    The path is the same however it is evaluated: at one time or many, inside ``jit`` or a loop. So
    finer steps see the same path, and ``fg.integrate.solve_sde`` with this key uses it.

    Parameters
    ----------
    key : key
        Determines the path. Evaluating the path again does not count as a second use in
        ``check_keys``.
    t : array_like of float
        Times from ``t0`` to ``t1``.
    shape : int or tuple of int
        The shape of the motion: its elements are independent.
    dtype : dtype
        A real dtype. A lower precision has the same path, rounded.
    t0, t1 : array_like of float, shape ()
        The ends of the interval. Paths of one key over other intervals are scaled copies.
    integral : bool
        Whether to return the integral of the path from ``t0`` to ``t``, too.

    Returns
    -------
    Tensor of shape (*t.shape, *shape)
        The path, 0 at ``t0``, with variance ``t - t0``; with ``integral`` a pair of it and its
        integral. NaN at traced times outside of the interval.

    Raises
    ------
    ArgumentError
        A time is outside of the interval, or the interval is empty.
    DtypeError
        A time is not real.

    See Also
    --------
    funcgrad.integrate.solve_sde : Stochastic differential equations.

    Notes
    -----
    A path has no derivative with respect to the time: it is 0 here. With respect to ``t0`` and
    ``t1`` the path is a scaled one, ``sqrt(t1 - t0)`` times the path over [0, 1].

    The interval is halved 16 times, and within one of the 65,536 pieces the path is drawn once
    more: the values at any times have exactly the distribution of Brownian motion if no piece
    contains two of them. Times that are multiples of ``(t1 - t0) / 2**k`` with k ≤ 16 are always
    exact. The halves of an interval follow from its increment and its space-time area: Foster,
    Lyons, Oberhauser, "An optimal polynomial approximation of Brownian motion", SIAM J. Numerical
    Analysis 58, 2020. A tree by a cipher: Salmon and others (see the README); virtual trees: Gaines
    and Lyons, "Variable step size control in the numerical solution of stochastic differential
    equations", SIAM J. Appl. Math. 57, 1997.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> coarse = brownian(key(0), [0.0, 0.5, 1.0])
    >>> fine = brownian(key(0), [0.0, 0.25, 0.5, 0.75, 1.0])
    >>> coarse == fine[::2]
    Tensor([ True,  True,  True])
    """
    wanted, elements = as_dtype(dtype, "f", "brownian", key), as_shape(shape, "brownian")
    times = operand(t, "brownian")
    if dtype_of(times).kind not in "biuf":
        raise DtypeError(f"brownian: t has to be real, got {dtype_of(times)}.")
    start, end = [wrap(operand(x, "brownian")).astype(_DOUBLE) for x in (t0, t1)]
    length = end - start
    raw = concrete(length)
    if type(raw) in RAW and not np.all(np.asarray(raw) > 0):
        raise ArgumentError(f"brownian: t0 has to be less than t1, got {t0!r} and {t1!r}.")
    places = stop_gradient((wrap(times).astype(_DOUBLE) - start) / length)
    inside = (places >= 0) & (places <= 1)
    raw = concrete(inside)
    if type(raw) in RAW and not np.all(raw):
        raise ArgumentError(
            f"brownian: t has to be from t0={t0!r} to t1={t1!r}. The path depends on both ends;"
            " choose t1 as the last time that will be needed."
        )
    path = path_at(path_keys(key, prod(elements), "brownian"), fnp.ravel(places))
    known = fnp.where(inside, 1.0, np.nan)[(..., *[None] * len(elements))]
    size = fnp.sqrt(length)

    def shaped(x: Tensor, scale: Tensor) -> Tensor:
        full = fnp.reshape(x, (*places.shape, *elements))
        return (full * scale * known).astype(wanted)

    value = shaped(path.value, size)
    return (value, shaped(path.area, size * length)) if integral else value


def path_keys(key: ArrayLike, count: int, operation: str) -> Tensor:
    """Make a key for each element of a Brownian motion: a row each."""
    base = named(wrap(as_key(key, operation)), "brownian")
    return random_words(base, (count, 2), operation, SPLIT, repeats=True)


def path_on_grid(keys: Tensor, steps: int) -> PathValues:
    """The path over [0, 1] after 0, 1, …, ``steps`` equal steps.

    If ``steps`` is a power of two, each step costs one word of the cipher; otherwise each costs one
    for each level of the tree that is finer than the steps.
    """
    if steps & (steps - 1) == 0 and steps <= 2**DEPTH:
        starts, _, end = _cells(keys, steps.bit_length() - 1)
        return PathValues(*[fnp.concatenate([x, y]) for x, y in zip(starts, end, strict=True)])
    return path_at(keys, fnp.asarray(np.arange(steps + 1) / steps))


def path_at(keys: Tensor, places: Tensor) -> PathValues:
    """The path at places in [0, 1], a vector."""
    level = max(min(places.size.bit_length() - 1, DEPTH), 0)
    starts, cells, end = _cells(keys, level)
    scaled = fnp.clip(fnp.nan_to_num(places), 0.0, 1.0) * float(2**DEPTH)
    leaf = fnp.minimum(fnp.floor(scaled), 2**DEPTH - 1).astype(np.int64)
    index = leaf >> (DEPTH - level)

    def descend(depth: ArrayLike, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        depth = fnp.asarray(depth, np.int64)
        length = fnp.exp2(-depth.astype(_DOUBLE))
        nodes = (np.int64(1) << depth) + (leaf >> (DEPTH - depth))
        start, whole = PathValues(*state[:2]), PathPiece(*state[2:])
        first, second = _halves(_normals(keys, nodes), length, whole)
        right = (((leaf >> (DEPTH - 1 - depth)) & 1) == 1)[:, None]
        pairs = zip((*_passed(start, first, 0.5 * length), *second), (*start, *first), strict=True)
        return tuple([fnp.where(right, x, y) for x, y in pairs])

    picked = tuple([x[index] for x in (*starts, *cells)])
    value, area, width, bulge = fori_loop(level, DEPTH, descend, picked)
    fraction = (scaled - leaf)[:, None]
    numbers, length = _normals(keys, leaf + 2**DEPTH), 2.0**-DEPTH
    piece = _beginning(numbers, length, fraction, PathPiece(width, bulge))
    path = _passed(PathValues(value, area), piece, fraction * length)
    # The end by the whole interval, so that it has the same bits as on a grid.
    is_end = (places >= 1.0)[:, None]
    return PathValues(*[fnp.where(is_end, x, y) for x, y in zip(end, path, strict=True)])


def _normals(keys: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Two normal samples of each node of the tree, for each element."""
    words: Tensor = apply(fold_key, keys, nodes[:, None].astype(np.uint64))
    numbers: Tensor = apply(bits_to_normal, words, dtype=_DOUBLE)
    return numbers[..., 0], numbers[..., 1]


def _cells(keys: Tensor, level: int) -> tuple[PathValues, PathPiece, PathValues]:
    """The intervals of one level: the path at their starts, the intervals, the path at the end."""
    numbers = _normals(keys, fnp.asarray(np.arange(2**level)))
    width, bulge = numbers[0][:1], numbers[1][:1] * sqrt(1 / 12)
    zero = fnp.zeros_like(width)
    starts, cells = PathValues(zero, zero), PathPiece(width, bulge)
    end = _passed(starts, cells, 1.0)
    for depth in range(level):
        of_depth = slice(2**depth, 2 ** (depth + 1))
        first, second = _halves((numbers[0][of_depth], numbers[1][of_depth]), 2.0**-depth, cells)
        middles = _passed(starts, first, 2.0 ** -(depth + 1))
        starts = PathValues(*[_alternating(*pair) for pair in zip(starts, middles, strict=True)])
        cells = PathPiece(*[_alternating(*pair) for pair in zip(first, second, strict=True)])
    return starts, cells, end


def _alternating(first: Tensor, second: Tensor) -> Tensor:
    return fnp.reshape(fnp.stack([first, second], 1), (2 * first.shape[0], *first.shape[1:]))


def _passed(start: PathValues, piece: PathPiece, length: Tensor | float) -> PathValues:
    """The path after an interval of a length."""
    area = start.area + length * (start.value + (0.5 * piece.width + piece.bulge))
    return PathValues(start.value + piece.width, area)


def _halves(
    numbers: tuple[Tensor, Tensor], length: Tensor | float, whole: PathPiece
) -> tuple[PathPiece, PathPiece]:
    """Both halves of intervals of a length, from two normal samples."""
    size = fnp.sqrt(length)
    first, second = numbers
    shift, twist = (0.25 * size) * first, (sqrt(1 / 48) * size) * second
    left = 0.5 * whole.width + 1.5 * whole.bulge + shift
    middle = 0.25 * whole.bulge - 0.5 * shift
    return PathPiece(left, middle + twist), PathPiece(whole.width - left, middle - twist)


def _beginning(
    numbers: tuple[Tensor, Tensor], length: float, fraction: Tensor, whole: PathPiece
) -> PathPiece:
    """The beginning of an interval, up to a fraction r of its length.

    Given w and h of the whole, with q = 1 - 3 r (1 - r) and l = 1, the increment has the mean
    r w + 6 r (1 - r) h and the variance r (1 - r) q; the bulge has the mean r² h, the regression
    -r² / (2 q) on the rest of the increment, and beyond it the variance r (1 - r)³ / (12 q). It is
    the normal distribution under the conditions of w and h; r = 1/2 is the first of `_halves`.
    """
    first, second = numbers
    size, remaining = sqrt(length), 1.0 - fraction
    narrow = 1.0 - 3.0 * fraction * remaining
    shift = size * fnp.sqrt(fraction * remaining * narrow) * first
    width = fraction * whole.width + 6.0 * fraction * remaining * whole.bulge + shift
    twist = size * fnp.sqrt(fraction * remaining**3 / (12.0 * narrow)) * second
    square = fraction * fraction
    return PathPiece(width, square * whole.bulge - square / (2.0 * narrow) * shift + twist)
