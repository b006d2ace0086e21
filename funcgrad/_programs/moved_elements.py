"""The movement of elements by equations, from the structures of their operations.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.broadcast_to(x[::-1].T, (4, 3, 2)))(fnp.ones((2, 3)))
>>> shape = (2, 3)
>>> for equation in staged.equations:
...     piece = rearranged(equation, staged.specs())
...     print(piece.start, piece.strides, axes_along(piece, shape))
...     shape = piece.shape
3 (-3, 1) None
0 (1, 3) (1, 0)
0 (0, 2, 1) (None, 0, 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.index_maps import Piece, dense_strides
from funcgrad._core.structure.structures import Contraction, Movement
from funcgrad._programs.equation import Equation

Specs: TypeAlias = "Sequence[Spec] | Mapping[int, Spec]"


def pieces_of(equation: Equation, specs: Specs) -> tuple[Piece, ...] | None:
    """The index map of a movement, given the specs of variables; None for other operations."""
    structure = equation.operation.structure
    if not isinstance(structure, Movement):
        return None
    shapes = [specs[operand].shape for operand in equation.operands]
    return structure.pieces(equation.results[0].shape, *shapes, **dict(equation.params))


def rearranged(equation: Equation, specs: Specs) -> Piece | None:
    """The start and strides by which a movement takes its result from its only operand.

    None for other equations, and for empty arrays.
    """
    if len(equation.operands) != 1:
        return None
    pieces = pieces_of(equation, specs)
    shape = equation.results[0].shape
    if pieces is None or len(pieces) != 1 or pieces[0].shape != shape:
        return None
    return pieces[0] if pieces[0].to_strides == dense_strides(shape) else None


def keeps_order(piece: Piece, shape: Shape) -> bool:
    """Whether a movement keeps all elements of the array in the same order."""
    is_whole = prod(piece.shape) == prod(shape) and not piece.start
    return is_whole and piece.strides == dense_strides(piece.shape)


def axes_along(piece: Piece, shape: Shape) -> tuple[int | None, ...] | None:
    """For each axis of a movement's result, the axis of the array, or None for a new axis.

    The result is None if the movement slices, reverses or merges axes of the array of this shape.
    Otherwise each axis of the array occurs once, except for some axes of size 1.
    """
    strides = dense_strides(shape)
    places = {step: axis for axis, step in enumerate(strides) if step}
    ones = iter([axis for axis, size in enumerate(shape) if size == 1])
    axes: list[int | None] = []
    for size, step in zip(piece.shape, piece.strides, strict=True):
        axis = next(ones, None) if size == 1 else places.pop(step, None)
        if step and (axis is None or shape[axis] != size):
            return None
        axes.append(axis)
    return None if places or piece.start else tuple(axes)


def letters_of(equation: Equation, specs: Specs) -> tuple[str, str, str] | None:
    """The subscripts of the factors and of the result of a contraction, as for ``einsum``.

    None for other operations, and if an axis of size 1 is broadcast along another factor's axis.
    """
    structure = equation.operation.structure
    if not isinstance(structure, Contraction):
        return None
    x, y = [specs[operand] for operand in equation.operands]
    first, second, out = structure.letters(x, y, **dict(equation.params))
    sizes: dict[str, int] = {}
    for letter, size in zip(first + second, x.shape + y.shape, strict=True):
        if sizes.setdefault(letter, size) != size:
            return None
    return first, second, out


def is_matrix_product(first: str, second: str, out: str) -> bool:
    """Whether subscripts mean ``first @ second`` for matrices or vectors.

    >>> is_matrix_product("ij", "jk", "ik"), is_matrix_product("ji", "jk", "ik")
    (True, False)
    """
    return (
        0 < len(first) < 3
        and 0 < len(second) < 3
        and first[-1] == second[0] not in out
        and out == first[:-1] + second[1:]
    )
