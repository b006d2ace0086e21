"""Rules for operations on elements, along axes, and for products of elements.

Each takes a ``PatternSite`` and returns the rows of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Partials, Selection
from funcgrad._core.specs import Shape
from funcgrad._core.structure.structures import (
    PRODUCT,
    AlongAxis,
    Opaque,
    RowProducts,
    WindowProducts,
)
from funcgrad._primitives.convolving import window_numbers
from funcgrad.sparse.element_rows import (
    Indices,
    Rows,
    broadcast_rows,
    from_pairs,
    numbered,
    selected,
    united,
    united_axes,
    without,
)
from funcgrad.sparse.sites import UNDECLARED, UNKNOWN, PatternSite, Undeclared, UnknownValue

_MOST_TERMS: Final = 10_000_000
"""Longer lists of products take more memory than patterns are worth."""


def _zeros_of_factor(site: PatternSite, k: int, out: object = UNKNOWN) -> Any:
    """Where the derivative with respect to operand ``k`` is zero, as far as values are known."""
    primitive, params = site.equation.operation, site.params
    args = [site.known.get(place, UNKNOWN) for place in range(len(site.specs))]
    if PRODUCT in primitive.traits:
        other = args[1 - k] if len(args) == 2 else UNKNOWN
        return other is not UNKNOWN and np.asarray(other) == 0
    differential = primitive.differential
    if not (isinstance(differential, Partials) and differential.selects):
        return False
    factor = differential.factors[k]
    if not callable(factor):
        return False
    try:
        value = factor(out, *args, **params)
    except (AttributeError, TypeError):  # it reads a value that is not known
        return False
    mask = value.mask if isinstance(value, Selection) else value
    return False if isinstance(mask, UnknownValue) else ~np.asarray(mask, np.bool_)


def elementwise_rows(site: PatternSite) -> Rows | None:
    (shape,) = site.results
    routes = site.equation.operation.routes(len(site.specs))
    out = UNKNOWN if site.out is None else site.out[0]
    parts = []
    for k, rows in site.dependent:
        if routes[k] is not None:
            is_zero = np.broadcast_to(_zeros_of_factor(site, k, out), shape)
            parts.append(without(broadcast_rows(rows, site.shapes[k], shape), is_zero))
    return united(parts)


def reduction_rows(site: PatternSite) -> Rows | None:
    params, parts = site.params, []
    for k, rows in site.dependent:
        shape, axes = site.shapes[k], params["axis"]
        out: Any = UNKNOWN
        if site.out is not None:
            reduced = [1 if axis in axes else n for axis, n in enumerate(shape)]
            out = np.reshape(site.out[0], reduced)
        is_zero = np.broadcast_to(_zeros_of_factor(site, k, out), shape)
        parts.append(united_axes(without(rows, is_zero), shape, axes))
    return united(parts)


def scan_rows(site: PatternSite) -> Rows | None:
    """Unite each row with the rows before it: with the nearest 1, 2, 4, ... of them."""
    params, shape = site.params, site.shapes[0]
    rows, axis = united(rows for _, rows in site.dependent), params["axis"]
    places, distance = numbered(shape), 1
    while distance < shape[axis]:
        moved = np.full(shape, -1, np.int64)
        near = (slice(None),) * axis + (slice(None, -distance),)
        far = (slice(None),) * axis + (slice(distance, None),)
        if params.get("reverse"):
            near, far = far, near
        moved[far] = places[near]
        rows = rows + selected(rows, moved.reshape(-1))
        distance *= 2
    return rows


def along_rows(
    site: PatternSite, along: Callable[..., AlongAxis | None]
) -> Rows | Undeclared | None:
    """An operation on each line along an axis, such as a Fourier transform."""
    spec, (result, *others) = site.specs[0], site.results
    how = along(spec.shape, spec.dtype, **site.params)
    if how is None or others or len(site.specs) > 1:
        return UNDECLARED
    lines = united_axes(site.rows[0], spec.shape, (how.axis,))
    reduced = [1 if axis == how.axis else n for axis, n in enumerate(result)]
    return broadcast_rows(lines, tuple(reduced), result)


def contraction_rows(site: PatternSite) -> Rows | Undeclared | None:
    structure: Any = site.equation.operation.structure
    *operands, result = structure.letters(*site.specs, **site.params)
    named = list(zip((*operands, result), (*site.shapes, *site.results), strict=True))
    if any(len({*letters}) < len(letters) for letters, _ in named):
        return UNDECLARED
    sizes: dict[str, int] = {}
    for letters, shape in named:  # an axis of size 1 broadcasts; the result has the full size
        for letter, size in zip(letters, shape, strict=True):
            if letter in result or sizes.get(letter, 1) == 1:
                sizes[letter] = size
    parts = []
    for k, rows in site.dependent:
        letters, shape = operands[k], site.shapes[k]
        other = np.asarray(site.known.get(1 - k, 1))
        nonzeros = np.nonzero(other) if other.ndim else ()
        if nonzeros and len(nonzeros[0]) < other.size:
            axes = dict(zip(operands[1 - k], nonzeros, strict=True))
            parts.append(_through_nonzeros(rows, letters, shape, result, axes, sizes))
        else:
            parts.append(_through_letters(rows, letters, shape, result, sizes))
    return united(parts)


def term_rows(site: PatternSite, structure: Opaque) -> Rows | Undeclared | None:
    """A sum of products; factors that are known to be zero drop their terms."""
    if structure.windows is not None:
        listed = _window_terms(site, structure.windows(**site.params))
    elif structure.rows is not None:
        listed = _row_terms(site, structure.rows(**site.params))
    elif structure.terms is not None:
        listed = structure.terms(*site.shapes, **site.params)
    else:
        listed = None
    if listed is None:
        return UNDECLARED
    (to, *places), parts = listed, []
    for k, rows in site.dependent:
        is_term = np.ones(len(to), np.bool_)
        for other, value in site.known.items():
            if other != k:
                is_term &= np.asarray(value).reshape(-1)[places[other]] != 0
        parts.append(from_pairs(to[is_term], places[k][is_term], prod(site.results[0]), rows))
    return united(parts)


def _window_terms(site: PatternSite, form: WindowProducts) -> Sequence[Indices] | None:
    """The flat indices of the elements in each product: of the result, and of each operand.

    None if there are too many products to list them.
    """
    shapes = dict(zip(form.arrays, [*site.shapes, site.results[0]], strict=True))
    (count, *_), (filters, channels, *sizes), (_, _, *places) = [shapes[name] for name in "xky"]
    if prod((count, filters, channels, *sizes, *places)) > _MOST_TERMS:
        return None
    windows = window_numbers(shapes["x"], tuple(sizes), form.strides, form.dilations)
    few, one = filters // form.groups, (1,) * len(sizes)
    every = np.broadcast_arrays(
        windows.reshape(count, form.groups, 1, channels, *sizes, *places),
        numbered(shapes["k"]).reshape(1, form.groups, few, channels, *sizes, *one),
        numbered(shapes["y"]).reshape(count, form.groups, few, 1, *one, *places),
    )
    numbers = dict(zip("xky", [array.reshape(-1) for array in every], strict=True))
    first, second, result = [numbers[name] for name in form.arrays]
    return result, first, second


def _row_terms(site: PatternSite, form: RowProducts) -> Sequence[Indices]:
    """The flat indices of the elements in each product with a nonzero."""
    shapes = dict(zip(form.arrays, [*site.shapes, site.results[0]], strict=True))
    (*stack, width, count), height = shapes["x"], shapes["y"][-2]
    row = np.repeat(np.arange(height), np.diff(form.indptr))
    number, column = np.arange(prod(stack)).reshape(-1, 1, 1), np.arange(count)
    nonzeros = np.broadcast_to(numbered(shapes["d"]), (*stack, len(row)))
    every = np.broadcast_arrays(
        nonzeros.reshape(-1, len(row), 1),
        (number * width + form.indices[:, None]) * count + column,
        (number * height + row[:, None]) * count + column,
    )
    numbers = dict(zip("dxy", [array.reshape(-1) for array in every], strict=True))
    first, second, result = [numbers[name] for name in form.arrays]
    return result, first, second


def lettered_rows(site: PatternSite, operands: Sequence[str], result: str) -> Rows | None:
    sizes = dict(zip(result, site.results[0], strict=True))
    parts = []
    for k, rows in site.dependent:
        parts.append(_through_letters(rows, operands[k], site.shapes[k], result, sizes))
    return united(parts)


def _through_letters(
    rows: Rows, letters: str, shape: Shape, result: str, sizes: Mapping[str, int]
) -> Rows:
    """Unite along the letters that the result lacks, and repeat along those it has in addition."""
    gone = [axis for axis, letter in enumerate(letters) if letter not in result]
    rows = united_axes(rows, shape, gone)
    reduced = [1 if axis in gone else n for axis, n in enumerate(shape)]
    places, axes = numbered(reduced), {}
    for axis, letter in enumerate(letters):
        if letter in result:
            axes[letter] = axis
    order = [axes[letter] for letter in result if letter in axes]
    moved = places.transpose([*order, *gone]).reshape([reduced[axis] for axis in order])
    for position, letter in enumerate(result):
        if letter not in axes:
            moved = np.expand_dims(moved, position)
    full = [sizes[letter] for letter in result]
    return selected(rows, np.broadcast_to(moved, full).reshape(-1))


def _through_nonzeros(
    rows: Rows,
    letters: str,
    shape: Shape,
    result: str,
    nonzeros: Mapping[str, Indices],
    sizes: Mapping[str, int],
) -> Rows:
    """A product with known elements: only those that are not zero contribute."""
    free = [letter for letter in dict.fromkeys(letters + result) if letter not in nonzeros]
    freely = [sizes[letter] for letter in free]
    count, repeats = len(next(iter(nonzeros.values()))), prod(freely)
    grid = np.indices(freely).reshape(len(free), repeats)
    index = {letter: np.repeat(places, repeats) for letter, places in nonzeros.items()}
    index |= {letter: np.tile(places, count) for letter, places in zip(free, grid, strict=True)}

    def flat(names: str, sizes_of: Sequence[int]) -> Indices:
        where = np.zeros(count * repeats, np.int64)
        for letter, size in zip(names, sizes_of, strict=True):
            where = where * size + (index[letter] if size != 1 else 0)
        return where

    full = [sizes[letter] for letter in result]
    return from_pairs(flat(result, full), flat(letters, shape), prod(full), rows)
