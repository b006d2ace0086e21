"""Structural primitives: they move elements and compute nothing.

Each is linear, and its transpose moves the cotangent's elements back.

>>> reshape(np.arange(6.0), shape=(2, 3)).shape
(2, 3)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import (
    DISCRETE,
    SAME,
    Differential,
    Kinks,
    OperandText,
    Partials,
    Patch,
    Primitive,
    Sample,
    linear_in_all,
)
from funcgrad._core.specs import Shape, Spec, dtype_of, is_inexact, shape_of
from funcgrad._core.structure.structures import CONVERTS, OWNS, ROUNDED_ONCE, Elementwise, Movement
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.index_keys import Key, index_text, part_at
from funcgrad._primitives.kinks import from_cut_off
from funcgrad._primitives.movement import arrays, axes_before, behind, keys_behind, movement
from funcgrad.errors import ShapeError


def _as_array(x: Raw) -> np.ndarray[Any, Any]:
    return x if type(x) is np.ndarray else np.asarray(x)


# Shapes and the order of axes.

reshape: Primitive = movement(
    "reshape",
    lambda x, shape: _as_array(x).reshape(shape),
    shape=lambda _, shape: shape,
    transpose=lambda ct, x, shape: reshape(ct, shape=shape_of(x)),
    batch=lambda _, size, shape: {"shape": (size, *shape)},
    is_view=True,
    samples=arrays(
        split=((6,), {"shape": (2, 3)}),
        merge=((2, 3), {"shape": (6,)}),
        scalar=((), {"shape": (1, 1)}),
        empty=((0, 3), {"shape": (3, 0)}),
        rows=((2, 3), {"shape": (2, 1, 3)}),
    ),
    rows_last=lambda x, shape: {"shape": behind(shape)} if x[:1] == shape[:1] else None,
    source=lambda x, shape: f"{x.array}.reshape({', '.join(map(str, shape)) or shape})",
)


def flat(x: Value) -> Value:
    """All elements on one axis."""
    return reshape(x, shape=(prod(shape_of(x)),))


def inverse_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation of axes."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _transpose_source(x: OperandText, axes: tuple[int, ...]) -> str:
    if axes == tuple(reversed(range(len(axes)))):
        return f"{x.array}.T"
    return f"{x.array}.transpose({', '.join(map(str, axes))})"


transpose: Primitive = movement(
    "transpose",
    lambda x, axes: _as_array(x).transpose(axes),
    shape=lambda shape, axes: tuple([shape[a] for a in axes]),
    transpose=lambda ct, x, axes: transpose(ct, axes=inverse_axes(axes)),
    batch=lambda shape, size, axes: {"axes": (0, *[a + 1 for a in axes])},
    is_view=True,
    samples=arrays(
        matrix=((2, 3), {"axes": (1, 0)}),
        cycle=((2, 3, 4), {"axes": (1, 2, 0)}),
        scalar=((), {"axes": ()}),
        empty=((0, 2), {"axes": (1, 0)}),
        rows=((2, 3, 4), {"axes": (0, 2, 1)}),
    ),
    rows_last=lambda x, axes: (
        {"axes": behind([(axis - 1) % len(axes) for axis in axes])} if axes[:1] == (0,) else None
    ),
    source=_transpose_source,
)


def reverse_axes(x: Value) -> Value:
    """The axes in reverse order."""
    return transpose(x, axes=tuple(reversed(range(len(shape_of(x))))))


def swap_last_axes(x: Value) -> Value:
    """The matrices of a stack, transposed.

    Raises
    ------
    ShapeError
        The array has fewer than two axes.
    """
    rank = len(shape_of(x))
    if rank < 2:
        raise ShapeError(f"mT needs at least two axes; the shape is {shape_of(x)}.")
    return transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def move_axis(x: Value, source: int, destination: int) -> Value:
    """Move one axis; the others keep their order. Axes are not negative."""
    if source == destination:
        return x
    axes = [a for a in range(len(shape_of(x))) if a != source]
    axes.insert(destination, source)
    return transpose(x, axes=tuple(axes))


def _reversed(rank: int, axis: tuple[int, ...]) -> Key:
    return Key([slice(None, None, -1) if i in axis else slice(None) for i in range(rank)])


flip: Primitive = movement(
    "flip",
    lambda x, axis: np.flip(x, axis),
    shape=lambda shape, axis: shape,
    transpose=lambda ct, x, axis: flip(ct, axis=axis),
    batch=lambda shape, size, axis: {"axis": tuple([a + 1 for a in axis])},
    is_view=True,
    samples=arrays(
        one=((2, 3), {"axis": (1,)}),
        both=((2, 3), {"axis": (0, 1)}),
        scalar=((), {"axis": ()}),
        empty=((0, 2), {"axis": (0,)}),
    ),
    windows=lambda result, x, axis: [(result, part_at(x, _reversed(x.ndim, axis)))],
    rows_last=lambda x, axis: axes_before(x, axis),
    source=lambda x, axis: f"{x.array}[{index_text(_reversed(len(x.spec.shape), axis))}]",
)


def _roll_source(x: OperandText, shift: tuple[int, ...], axis: tuple[int, ...]) -> str:
    if len(axis) != 1 or not x.spec.shape[axis[0]]:
        return f"np.roll({x}, {shift}, {axis})" if axis else f"{x.array}"
    size = x.spec.shape[axis[0]]
    first, cut = ":, " * axis[0], size - shift[0] % size
    return f"np.concatenate([{x}[{first}{cut}:], {x}[{first}:{cut}]], {axis[0]})"


def _roll_windows(
    result: Raw, x: Raw, shift: tuple[int, ...], axis: tuple[int, ...]
) -> list[tuple[Any, Any]]:
    """The index map of ``roll``: along each axis, the first elements move behind the others."""
    pairs = [(result, x)]
    for along, size in enumerate(x.shape):
        total = sum([n for n, rolled_axis in zip(shift, axis, strict=True) if rolled_axis == along])
        front = (slice(None),) * along
        if size and total % size:
            cut = size - total % size
            moves = (slice(size - cut), slice(cut, None)), (slice(size - cut, None), slice(cut))
            pairs = [
                (to[(*front, there)], source[(*front, here)])
                for to, source in pairs
                for there, here in moves
            ]
    return pairs


roll: Primitive = movement(
    "roll",
    lambda x, shift, axis: np.roll(x, shift, axis) if axis else _as_array(x).copy(),
    shape=lambda shape, shift, axis: shape,
    transpose=lambda ct, x, shift, axis: roll(ct, shift=tuple([-s for s in shift]), axis=axis),
    batch=lambda shape, size, shift, axis: {"shift": shift, "axis": tuple([a + 1 for a in axis])},
    windows=_roll_windows,
    rows_last=lambda x, shift, axis: axes_before(x, axis, shift=shift),
    samples=arrays(
        one=((2, 5), {"shift": (2,), "axis": (1,)}),
        backward=((2, 5), {"shift": (-7, 1), "axis": (1, 0)}),
        twice=((5,), {"shift": (1, 1), "axis": (0, 0)}),
        scalar=((), {"shift": (), "axis": ()}),
        empty=((0, 2), {"shift": (3,), "axis": (0,)}),
    ),
    source=_roll_source,
    traits=OWNS,
)


# Basic indexing.


def _view(x: Raw, key: Key) -> Raw:
    return x[key] if type(x) is np.ndarray else np.asarray(x)[key]


def _viewed(shape: Shape, key: Key) -> Shape:
    return np.broadcast_to(np.False_, shape)[key].shape


def _view_rows_last(x: Shape, key: Key) -> Mapping[str, Any] | None:
    keys = keys_behind((key,), x)
    return None if keys is None else {"key": keys[0]}


def _place_rows_last(x: Shape, key: Key, shape: Shape) -> Mapping[str, Any] | None:
    keys = keys_behind((key,), shape)
    return None if keys is None else {"key": keys[0], "shape": behind(shape)}


def _assemble_rows_last(
    *parts: Shape, keys: tuple[Key, ...], shape: Shape
) -> Mapping[str, Any] | None:
    moved = keys_behind(keys, shape)
    return None if moved is None else {"keys": moved, "shape": behind(shape)}


def _place(x: Raw, key: Key, shape: Shape) -> np.ndarray[Any, Any]:
    out = np.zeros(shape, dtype_of(x))
    out[key] = x
    return out


def _patch(buffer: np.ndarray[Any, Any], ct: Raw, fresh: bool, key: Key) -> None:
    if fresh:
        buffer[key] = ct
        return
    region = buffer[key]
    if type(region) is np.ndarray:
        region += ct  # `buffer[key] += ct` would copy the sum onto itself
    else:
        buffer[key] = region + ct


def _back(ct: Value, key: Key, shape: Shape) -> Value:
    """The cotangent of an indexed array; an index that only adds axes selects all of it."""
    if all(entry is None or entry is ... or entry == slice(None) for entry in key):
        return reshape(ct, shape=shape)
    return place(ct, key=key, shape=shape)


def _assembled_patches(patches: Sequence[Patch], shape: Shape) -> Value:
    cts, _, params = zip(*patches, strict=True)
    if len(cts) == 1:
        return _back(cts[0], Key(params[0]["key"]), shape)
    return assemble(
        *cts, keys=tuple([Key(patch_params["key"]) for patch_params in params]), shape=shape
    )


_EVERY_OTHER = Key((slice(None, None, 2), slice(None, None, -1)))
_TAIL = Key((slice(1, None),))
_CORNER = Key((..., None, -1))

view: Primitive = movement(
    "view",
    _view,
    shape=_viewed,
    transpose=lambda ct, x, key: _back(ct, key, shape_of(x)),
    batch=lambda shape, size, key: {"key": Key((slice(None), *key))},
    is_view=True,
    samples=arrays(
        steps=((3, 4), {"key": _EVERY_OTHER}),
        tail=((5,), {"key": _TAIL}),
        element=((2, 3), {"key": Key((1, -1))}),
        corner=((2, 3), {"key": _CORNER}),
        scalar=((), {"key": Key(())}),
        nothing=((3, 2), {"key": Key((slice(2, 1),))}),
        empty=((0, 2), {"key": _TAIL}),
    ),
    gaps=True,
    patch=_patch,
    join=_assembled_patches,
    windows=lambda result, x, key: [(result, part_at(x, key))],
    rows_last=_view_rows_last,
    source=lambda x, key: f"{x.array}[{index_text(key)}]",
)
"""``x[key]`` for a basic index: a view."""

place: Primitive = movement(
    "place",
    _place,
    shape=lambda _, key, shape: shape,
    transpose=lambda ct, x, key, shape: view(ct, key=key),
    batch=lambda _, size, key, shape: {"key": Key((slice(None), *key)), "shape": (size, *shape)},
    windows=lambda result, x, key, shape: [(part_at(result, key), x)],
    rows_last=_place_rows_last,
    samples=arrays(
        steps=((2, 4), {"key": _EVERY_OTHER, "shape": (3, 4)}),
        tail=((4,), {"key": _TAIL, "shape": (5,)}),
        element=((), {"key": Key((1, -1)), "shape": (2, 3)}),
        corner=((2, 1), {"key": _CORNER, "shape": (2, 3)}),
        nothing=((0, 2), {"key": Key((slice(2, 1),)), "shape": (3, 2)}),
    ),
    source=lambda x, key, shape: f"np.zeros({shape}, {x.dtype})\n{{out}}[{index_text(key)}] = {x}",
    traits=OWNS,
)
"""Zeros of a shape, with ``x`` at a basic index: the transpose of ``view``."""


def _assemble(*arrays: Raw, keys: tuple[Key, ...], shape: Shape) -> np.ndarray[Any, Any]:
    out = np.zeros(shape, np.result_type(*map(dtype_of, arrays)))
    for position, (array, key) in enumerate(zip(arrays, keys, strict=True)):
        _patch(out, array, not position, key)
    return out


def _batch_assemble(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """The batching rule: parts shared by all examples are assembled once."""
    keys, shape = params["keys"], params["shape"]
    unshared = [k for k, flag in enumerate(batched) if flag]
    shared = [k for k, flag in enumerate(batched) if not flag]
    out = primitive(
        *[args[k] for k in unshared],
        keys=tuple([Key((slice(None), *keys[k])) for k in unshared]),
        shape=(size, *shape),
    )
    if not shared:
        return out
    common = primitive(
        *[args[k] for k in shared], keys=tuple([keys[k] for k in shared]), shape=shape
    )
    return out + common


def _assemble_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(29)
    for shape, *keys in (
        ((3, 4), Key((0,)), Key((2,)), Key((0,))),
        ((5,), _TAIL, Key((slice(None, -1),)), Key((2,))),
        ((3, 4), _EVERY_OTHER, _CORNER, Key((1, -1)), Key(())),
        ((2, 3), Key((slice(2, 1),)), Key((..., 1))),
        ((0, 2), _TAIL, Key((..., 0))),
        ((2,), Key((1,))),
    ):
        parts = tuple([rng.standard_normal(_viewed(shape, key)) for key in keys])
        params = {"keys": tuple(keys), "shape": shape}
        yield Sample(parts, params)
        yield Sample((parts[0] * 1j, *parts[1:]), params)


def _assemble_source(*operands: OperandText, keys: tuple[Key, ...], shape: Shape) -> str:
    dtype = np.result_type(*(operand.spec.dtype for operand in operands))
    lines = [f"np.zeros({shape}, np.{dtype.type.__name__})"]
    for position, (operand, key) in enumerate(zip(operands, keys, strict=True)):
        target = f"{{out}}[{index_text(key)}]"
        if not position:
            lines.append(f"{target} = {operand}")
        elif _is_view(shape, key):
            lines.append(f"{target}.__iadd__({operand})")  # `+=` would copy the sum onto itself
        else:
            lines.append(f"{target} += {operand}")
    return "\n".join(lines)


def _is_view(shape: Shape, key: Key) -> bool:
    """Whether NumPy returns a view for an index, rather than a scalar."""
    return ... in key or None in key or bool(_viewed(shape, key))


assemble: Primitive = Primitive(
    "assemble",
    _assemble,
    lambda *specs, keys, shape: Spec(shape, np.result_type(*(spec.dtype for spec in specs))),
    linear_in_all(lambda ct, *arrays, keys, shape: [view(ct, key=key) for key in keys]),
    _batch_assemble,
    _assemble_samples,
    _assemble_source,
    structure=Movement(
        lambda result, *arrays, keys, shape: [
            (part_at(result, key), array) for array, key in zip(arrays, keys, strict=True)
        ],
        adds=True,
        rows_last=_assemble_rows_last,
    ),
    traits=OWNS,
)
"""Zeros of a shape, plus parts at basic indices: the cotangent of many views."""


# Dtypes.


def cast(x: Value, *, dtype: np.dtype[Any]) -> Value:
    """Convert ``x`` to another dtype; a complex number is converted to its real part."""
    return (cast_inexact if is_inexact(dtype) else cast_discrete)(x, dtype=dtype)


def _jumps_of_cast(x: Value, dtype: np.dtype[Any]) -> Value:
    return x if dtype.kind == "b" else from_cut_off(x.real)


def _cast_primitive(name: str, differential: Differential, *targets: str) -> Primitive:
    def samples() -> Iterator[Sample]:
        for target in targets:
            for source in (np.arange(3.0) - 1, np.float32(2), np.arange(2) * 1j, np.zeros((0, 2))):
                yield Sample((source,), {"dtype": np.dtype(target)}, smooth=target != "e")

    return Primitive(
        name,
        intrinsics.astype,
        lambda x, dtype: Spec(x.shape, dtype),
        differential,
        lambda primitive, size, args, batched, params: primitive(*args, **params),
        samples,
        structure=Elementwise(lambda m, x, dtype: m.astype(x, dtype), basic=True),
        traits=ROUNDED_ONCE | CONVERTS | OWNS,
        kinks=Kinks(_jumps_of_cast) if differential is DISCRETE else None,
    )


# The transformations cast tangents to the output's dtype and cotangents to the argument's, so a
# cast needs no further differential.
cast_inexact: Primitive = _cast_primitive("cast", Partials((SAME,)), "e", "f", "d", "D")
cast_discrete: Primitive = _cast_primitive("cast_discrete", DISCRETE, "i", "?")


# Identities.


def _itself(x: Any) -> Any:
    return x


unfollowed: Primitive = Primitive(
    "stop_gradient",
    _itself,
    _itself,
    DISCRETE,
    lambda primitive, size, args, batched, params: primitive(*args),
    source=str,
    structure=Elementwise(lambda _, x: x, is_view=True),
)
"""A value that counts as constant in every derivative."""
