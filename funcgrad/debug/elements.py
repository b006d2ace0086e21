"""Which elements of a result depend on which elements of the operands, as maps of masks.

A ``Relation`` turns a mask of a result into masks of the operand elements on which it depends, and
back. It is read from the declared structure of an operation, never from its name. Without a
declared structure, every element depends on every element.

>>> from funcgrad._primitives.reduction import reduce_sum
>>> params = {"axis": (1,), "keepdims": False}
>>> rows = relation(reduce_sum, [np.ones((2, 3))], params, (2,))
>>> rows.backward(np.array([True, False]))[0].tolist()
[[True, True, True], [False, False, False]]
>>> rows.forward([np.array([[False, False, False], [False, True, False]])]).tolist()
[False, True]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, reduced_shape, shape_of, spec_of
from funcgrad._core.structure.index_maps import Piece, Places
from funcgrad._core.structure.structures import (
    Contraction,
    Elementwise,
    Factored,
    Gather,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._core.trace import Raw
from funcgrad._primitives.recurrence import batch_along_axis
from funcgrad._primitives.reduction import batch_reduction

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Link(NamedTuple):
    """How the elements of a result depend on the elements of one operand: two maps of masks."""

    backward: Callable[[Mask], Mask]
    forward: Callable[[Mask], Mask]


class Relation(NamedTuple):
    """How the elements of a result depend on the elements of all operands.

    Attributes
    ----------
    links : tuple of Link or None
        For each operand; None if no element of the result depends on it.
    shape : tuple of int
        The shape of the result.
    shapes : tuple of tuples
        The shapes of the operands.
    """

    links: tuple[Link | None, ...]
    shape: Shape
    shapes: tuple[Shape, ...]

    def backward(self, mask: Mask) -> list[Mask]:
        """Return the elements of the operands on which some elements of the result depend."""
        return [
            np.zeros(shape, np.bool_) if link is None else link.backward(mask)
            for link, shape in zip(self.links, self.shapes, strict=True)
        ]

    def forward(self, masks: Sequence[Mask]) -> Mask:
        """Return the elements of the result that depend on some elements of the operands."""
        reached = np.zeros(self.shape, np.bool_)
        for link, mask in zip(self.links, masks, strict=True):
            if link is not None and mask.any():
                reached = reached | link.forward(mask)
        return reached


def relation(
    primitive: Primitive, operands: Sequence[Raw], params: Mapping[str, Any], shape: Shape
) -> Relation:
    """Read the relation between operands and a result of this shape from the declaration."""
    shapes = tuple(map(shape_of, operands))
    try:
        links = _links(primitive, operands, params, shape, shapes)
    except (TypeError, ValueError, IndexError, KeyError, NotImplementedError):
        links = None  # the declared structure does not hold for these parameters
    if links is None:
        links = tuple([_coarse(x, shape) for x in shapes])
    return Relation(links, shape, shapes)


def _links(
    primitive: Primitive,
    operands: Sequence[Raw],
    params: Mapping[str, Any],
    shape: Shape,
    shapes: tuple[Shape, ...],
) -> tuple[Link | None, ...] | None:
    structure = primitive.structure
    if isinstance(structure, Elementwise):
        return tuple([_broadcast(x, shape) for x in shapes])
    if isinstance(structure, Scan):
        return tuple([_running(params["axis"], bool(params.get("reverse"))) for _ in shapes])
    if isinstance(structure, Movement):
        pieces = structure.pieces(shape, *shapes, **params)
        return None if pieces is None else _moved(pieces, shape, shapes)
    if isinstance(structure, Gather):
        places = structure.places(*shapes, **params)
        others = (None,) * (len(shapes) - 1)
        return (_chosen(places, operands, shapes[0], shape, gathers=True), *others)
    if isinstance(structure, Scatter):
        return _scattered(structure, operands, params, shape, shapes)
    if isinstance(structure, Contraction):
        specs = map(spec_of, operands)
        first, second, result = structure.letters(*specs, **params)
        return tuple(
            [
                _projected(letters, x, result, shape)
                for letters, x in zip((first, second), shapes, strict=True)
            ]
        )
    if isinstance(structure, Random):
        return (None,) * len(shapes)
    if isinstance(structure, Opaque | Factored) and structure.cores:
        cores = zip(shapes, structure.cores, strict=True)
        return tuple([_stacked(x, core, shape) for x, core in cores])
    if isinstance(structure, Reduction) or primitive.batch is batch_reduction:
        return tuple([_reduced(x, params["axis"], shape) for x in shapes])
    if primitive.batch is batch_along_axis and {*shapes} == {shape}:
        return tuple([_along(params["axis"]) for _ in shapes])
    return None


# ------------------------------------------------------------------------------- kinds of links


def _coarse(x: Shape, shape: Shape) -> Link:
    return Link(
        lambda mask: np.full(x, bool(mask.any())), lambda mask: np.full(shape, bool(mask.any()))
    )


def _summed_to(mask: Mask, shape: Shape) -> Mask:
    """Return, for each element, whether any of its broadcast copies is marked."""
    extra = mask.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        [extra + k for k, size in enumerate(shape) if size == 1 and mask.shape[extra + k] != 1]
    )
    return np.any(mask, axis=axes, keepdims=True).reshape(shape) if axes else mask.reshape(shape)


def _broadcast(x: Shape, shape: Shape) -> Link:
    return Link(lambda mask: _summed_to(mask, x), lambda mask: np.broadcast_to(mask, shape))


def _reduced(x: Shape, axis: tuple[int, ...], shape: Shape) -> Link:
    wide = reduced_shape(x, axis, keepdims=True)
    return Link(
        lambda mask: np.broadcast_to(mask.reshape(wide), x),
        lambda mask: np.any(mask, axis=tuple(axis), keepdims=True).reshape(shape),
    )


def _along(axis: int) -> Link:
    def spread(mask: Mask) -> Mask:
        return np.broadcast_to(np.any(mask, axis=axis, keepdims=True), mask.shape)

    return Link(spread, spread)


def _running(axis: int, reverse: bool) -> Link:
    def run(mask: Mask, backwards: bool) -> Mask:
        line = np.flip(mask, axis) if backwards else mask
        line = np.logical_or.accumulate(line, axis=axis)
        return np.flip(line, axis) if backwards else line

    return Link(lambda mask: run(mask, not reverse), lambda mask: run(mask, reverse))


def _projected(letters: str, x: Shape, result: str, shape: Shape) -> Link:
    """A contraction: an element of the result depends on elements that agree in common letters."""

    def project(mask: Mask, have: str, want: str, sizes: Shape) -> Mask:
        axes = tuple([k for k, letter in enumerate(have) if letter not in want])
        left = [letter for letter in have if letter in want]
        reduced = np.any(mask, axis=axes) if axes else mask
        order = sorted(range(len(left)), key=lambda k: want.index(left[k]))
        turned = np.transpose(reduced, order)
        places = [size if letter in left else 1 for letter, size in zip(want, sizes, strict=True)]
        return np.broadcast_to(turned.reshape(places), sizes)

    return Link(
        lambda mask: project(mask, result, letters, x),
        lambda mask: project(mask, letters, result, shape),
    )


def _stacked(x: Shape, core: int, shape: Shape) -> Link:
    """A stack: an element depends on the operand's example at the same position of the stack."""
    rank = len(x) - core
    stack = x[:rank]

    def backward(mask: Mask) -> Mask:
        whole = np.any(mask, axis=tuple(range(rank, mask.ndim)))
        fitted = _summed_to(whole, stack)
        return np.broadcast_to(fitted.reshape(stack + (1,) * core), x)

    def forward(mask: Mask) -> Mask:
        whole = np.any(mask, axis=tuple(range(rank, mask.ndim)))
        widest = np.broadcast_to(whole, shape[: max(rank, 0)]) if rank else whole
        return np.broadcast_to(widest.reshape(widest.shape + (1,) * (len(shape) - rank)), shape)

    return Link(backward, forward)


def _paired(there: Numbers, here: Numbers, x: Shape, shape: Shape) -> Link:
    """Link elements of the operand and the result, given as pairs of flat indices."""

    def marked(mask: Mask, source: Numbers, target: Numbers, sizes: Shape) -> Mask:
        out = np.zeros(int(np.prod(sizes)), np.bool_)
        out[target[mask.ravel()[source]]] = True
        return out.reshape(sizes)

    return Link(
        lambda mask: marked(mask, here, there, x), lambda mask: marked(mask, there, here, shape)
    )


def _grid(shape: Shape, start: int, strides: Sequence[int]) -> Numbers:
    """Return the flat indices ``start + sum(strides * k)`` for all indices k."""
    numbers = np.full(shape, start, np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        if step:
            line = step * np.arange(size)
            numbers += line.reshape((size,) + (1,) * (len(shape) - axis - 1))
    return numbers.ravel()


def _moved(
    pieces: Sequence[Piece], shape: Shape, shapes: tuple[Shape, ...]
) -> tuple[Link | None, ...]:
    links: list[Link | None] = []
    for operand, x in enumerate(shapes):
        mine = [piece for piece in pieces if piece.operand == operand]
        if not mine:
            links.append(None)
            continue
        there = np.concatenate([_grid(p.shape, p.start, p.strides) for p in mine])
        here = np.concatenate([_grid(p.shape, p.to, p.to_strides) for p in mine])
        links.append(_paired(there, here, x, shape))
    return tuple(links)


def _numbers_of(places: Places, operands: Sequence[Raw]) -> tuple[Numbers, Mask]:
    """Return the flat indices of the chosen elements, and whether each exists."""
    numbers = _grid(places.shape, places.start, places.strides)
    exists = np.ones(numbers.shape, np.bool_)
    for index in places.indices:
        integers = np.asarray(operands[index.operand]).ravel()
        chosen = integers[_grid(places.shape, 0, index.strides)].astype(np.int64)
        if index.mode == "clip":
            chosen = np.clip(chosen, 0, index.size - 1)
        elif index.mode == "fill":
            exists &= (-index.size <= chosen) & (chosen < index.size)
        numbers = numbers + index.step * (chosen % max(index.size, 1))
    return numbers, exists


def _chosen(places: Places, operands: Sequence[Raw], x: Shape, shape: Shape, gathers: bool) -> Link:
    """Link elements at chosen positions of an operand, or of the result."""
    numbers, exists = _numbers_of(places, operands)
    others = np.arange(numbers.size)[exists]
    numbers = numbers[exists]
    return _paired(*((numbers, others) if gathers else (others, numbers)), x, shape)


def _scattered(
    structure: Scatter,
    operands: Sequence[Raw],
    params: Mapping[str, Any],
    shape: Shape,
    shapes: tuple[Shape, ...],
) -> tuple[Link | None, ...]:
    places = structure.places(*shapes, **params)
    links: list[Link | None] = [None] * len(shapes)
    at = structure.updates
    if shapes[at] == places.shape:
        links[at] = _chosen(places, operands, shapes[at], shape, gathers=False)
    else:
        wide = _chosen(places, operands, places.shape, shape, gathers=False)
        fit = _broadcast(shapes[at], places.shape)
        links[at] = Link(
            lambda mask: fit.backward(wide.backward(mask)),
            lambda mask: wide.forward(fit.forward(mask)),
        )
    if at != 0:
        numbers, exists = _numbers_of(places, operands)
        stays = np.ones(int(np.prod(shape)), np.bool_)
        if structure.fold is None:  # the old elements are overwritten
            stays[numbers[exists]] = False
        unchanged = stays.reshape(shape)
        links[0] = Link(lambda mask: mask & unchanged, lambda mask: mask & unchanged)
    return tuple(links)
