"""Blocks: elements side by side along some axes, from starts that may be traced.

The shape of a block is fixed, so one program serves all starts. The result of ``take_block`` is a
block of an array; ``put_block`` replaces one; ``spread_block`` is the transpose of ``take_block``,
and adds blocks to zeros.

Starts are integers, or arrays of one shape: a *stack*, with a block for each. Then the first axes
of the array are axes of the stack, too, of size 1 where all blocks come from the same array.

>>> take_block(np.arange(6.0), 2, axes=(0,), sizes=(3,), mode="clip")
array([2., 3., 4.])
>>> put_block(np.zeros(4), np.ones(2), 9, axes=(0,), mode="clip")
array([0., 0., 1., 1.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample, Transposes
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.folds import SUM
from funcgrad._core.structure.index_maps import IndexArray, Places, dense_strides
from funcgrad._core.structure.structures import OWNS, Gather, Scatter
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.structural import reshape

Axes = tuple[int, ...]
Mode = Literal["clip", "raise"]
"""A block that would reach beyond the end is moved inside, or is an error."""


def _block_places(
    x: Shape, starts: Sequence[Shape], axes: Axes, sizes: Shape, mode: Mode
) -> Places:
    """The places of blocks in an array; the starts are its operands from the second on."""
    stack = starts[0]
    depth, steps = len(stack), dense_strides(x)
    shape = [*stack, *x[depth:]]
    numbers = (*dense_strides(stack), *(0,) * (len(x) - depth))
    indices = []
    for number, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        shape[axis] = size
        count = x[axis] - size + 1
        indices.append(IndexArray(number, numbers, count, steps[axis], mode))
    strides = tuple([0 if n == 1 else step for n, step in zip(shape, steps, strict=True)])
    unique = x[:depth] == stack
    return Places(tuple(shape), 0, strides, tuple(indices), unique)


def _with_operands(places: Places, first: int) -> Places:
    """The places, with the starts from another operand on."""
    indices = [index._replace(operand=first + index.operand) for index in places.indices]
    return places._replace(indices=tuple(indices))


# ------------------------------------------------------------------------------------- evaluation


def _first_places(
    x: Shape, starts: Sequence[Raw], axes: Axes, sizes: Shape, mode: Mode
) -> list[Any]:
    """The first place of each block along its axes."""
    firsts = []
    for start, axis, size in zip(starts, axes, sizes, strict=True):
        most, first = x[axis] - size, np.asarray(start).astype(np.int64)
        if mode == "clip":
            firsts.append(np.clip(first, 0, most))
            continue
        if np.any((first < -most - 1) | (first > most)):
            raise IndexError(
                f"a block of {size} elements does not lie within axis {axis}, of size {x[axis]}:"
                " the bounds of a slice are out of range, and its shape may not change"
            )
        firsts.append(np.where(first < 0, first + most + 1, first))
    return firsts


def _key(
    x: Shape, starts: Sequence[Raw], axes: Axes, sizes: Shape, mode: Mode
) -> tuple[slice, ...]:
    """NumPy's index of one block."""
    key = [slice(None)] * len(x)
    firsts = _first_places(x, starts, axes, sizes, mode)
    for axis, first, size in zip(axes, firsts, sizes, strict=True):
        key[axis] = slice(int(first), int(first) + size)
    return tuple(key)


def _indices(x: Shape, starts: Sequence[Raw], axes: Axes, sizes: Shape, mode: Mode) -> Any:
    """NumPy's index of the blocks of a stack."""
    stack = np.shape(starts[0])
    shape = [*stack, *x[len(stack) :]]
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    index = list(np.ogrid[tuple([slice(n) for n in shape])])
    for axis, n in enumerate(x[: len(stack)]):
        if n == 1:
            index[axis] = index[axis] * 0
    for axis, first in zip(axes, _first_places(x, starts, axes, sizes, mode), strict=True):
        index[axis] = index[axis] + first.reshape(*stack, *(1,) * (len(x) - len(stack)))
    return tuple(index)


def _take(x: Raw, *starts: Raw, axes: Axes, sizes: Shape, mode: Mode) -> Raw:
    x = np.asarray(x)
    find = _indices if np.ndim(starts[0]) else _key
    out = x[find(x.shape, starts, axes, sizes, mode)]
    return out if np.ndim(starts[0]) else out.copy()


def _spread(ct: Raw, *starts: Raw, axes: Axes, mode: Mode, shape: Shape) -> Raw:
    ct = np.asarray(ct)
    out, sizes = np.zeros(shape, ct.dtype), tuple([ct.shape[axis] for axis in axes])
    if not np.ndim(starts[0]):
        out[_key(shape, starts, axes, sizes, mode)] = ct
    else:
        np.add.at(out, _indices(shape, starts, axes, sizes, mode), ct)
    return out


def _put(x: Raw, u: Raw, *starts: Raw, axes: Axes, mode: Mode) -> Raw:
    out = np.array(x)
    sizes = tuple([np.shape(u)[axis] for axis in axes])
    find = _indices if np.ndim(starts[0]) else _key
    out[find(out.shape, starts, axes, sizes, mode)] = u
    return out


# --------------------------------------------------------------------------------------- batching


def _with_batch(x: Value, size: int, flag: bool) -> Value:
    return x if flag else broadcast_to(x, shape=(size, *shape_of(x)))


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """The batch is one more axis of a stack; or of arrays, if one start serves all."""
    count = len(args) - len(params["axes"])
    arrays, starts = args[:count], args[count:]
    changed = {**params, "axes": tuple([axis + 1 for axis in params["axes"]])}
    moves = any(batched[count:])
    if moves or shape_of(starts[0]):
        starts = tuple(
            [_with_batch(x, size, flag) for x, flag in zip(starts, batched[count:], strict=True)]
        )
    is_shared = primitive is take_block and moves and not batched[0]
    if is_shared:
        arrays = (reshape(arrays[0], shape=(1, *shape_of(arrays[0]))),)
    else:
        arrays = tuple(
            [_with_batch(x, size, flag) for x, flag in zip(arrays, batched[:count], strict=True)]
        )
    if "shape" in params:
        changed["shape"] = (size, *params["shape"])
    return primitive(*arrays, *starts, **changed)


# ---------------------------------------------------------------------------------------- samples


def _block_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(83)
    x, one = rng.standard_normal((5, 4)), {"axes": (0,), "sizes": (2,), "mode": "clip"}
    yield Sample((rng.standard_normal(6), np.intp(2)), {**one, "sizes": (3,)})
    yield Sample((x, np.int32(3)), one)
    yield Sample((x + 1j * x[::-1], np.int64(9)), one)
    yield Sample((x[::-1, ::2], np.int64(1)), one)
    both = {"axes": (0, 1), "sizes": (3, 2), "mode": "clip"}
    yield Sample((x, np.int64(-1), np.int64(1)), both)
    yield Sample((x, np.int64(2), np.int64(1)), {**both, "mode": "raise"})
    yield Sample((x, np.int64(-1), np.int64(-3)), {**both, "mode": "raise"})
    yield Sample((x, np.int64(1)), {"axes": (1,), "sizes": (4,), "mode": "clip"})
    yield Sample((x, np.int64(1)), {"axes": (1,), "sizes": (0,), "mode": "clip"})
    yield Sample((np.zeros((0, 3)), np.int64(0)), {"axes": (0,), "sizes": (0,), "mode": "clip"})
    stack = {"axes": (1,), "sizes": (2,), "mode": "clip"}
    yield Sample((x, np.array([0, 2, 1, 7, 2])), stack)
    yield Sample((x[:1], np.array([1, 2, 2])), stack)
    deep = {"axes": (3, 2), "sizes": (1, 2), "mode": "raise"}
    y = rng.standard_normal((2, 1, 3, 2))
    yield Sample((y, np.array([[0, 1, -1], [1, 0, 0]]), np.zeros((2, 3), np.int8)), deep)


def _spread_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(84)
    for sample in _block_samples():
        x, *starts = sample.args
        out = take_block(x, *starts, **sample.params)
        arrived = rng.standard_normal(out.shape) + (1j * out if out.dtype.kind == "c" else 0)
        params = {name: sample.params[name] for name in ("axes", "mode")}
        yield Sample((arrived, *starts), {**params, "shape": x.shape})


def _put_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(85)
    for sample in _block_samples():
        x, *starts = sample.args
        if x.shape[: np.ndim(starts[0])] != np.shape(starts[0]):
            continue
        u = rng.standard_normal(take_block(x, *starts, **sample.params).shape).astype(x.dtype)
        params = {name: sample.params[name] for name in ("axes", "mode")}
        yield Sample((x, u, *starts), params)


# ------------------------------------------------------------------------------------- operations


def _taken(x: Spec, *starts: Spec, axes: Axes, sizes: Shape, mode: Mode) -> Spec:
    return Spec(_block_places(x.shape, [s.shape for s in starts], axes, sizes, mode).shape, x.dtype)


def _of_arrays(*rules: Callable[..., Value]) -> Callable[[int], Transposes]:
    """Only the first arguments have transposes; the starts have none."""
    return lambda arity: rules + (None,) * (arity - len(rules))


def _sizes_of(x: Value, axes: Axes) -> Shape:
    return tuple([shape_of(x)[axis] for axis in axes])


def _pull_take(ct: Value, x: Value, *starts: Value, axes: Axes, sizes: Shape, mode: Mode) -> Value:
    return spread_block(ct, *starts, axes=axes, mode=mode, shape=shape_of(x))


take_block: Final[Primitive] = Primitive(
    "take_block",
    _take,
    _taken,
    Linear(_of_arrays(_pull_take), structural=True, gaps=True),
    _batch,
    _block_samples,
    structure=Gather(
        lambda x, *starts, axes, sizes, mode: _with_operands(
            _block_places(x, starts, axes, sizes, mode), 1
        )
    ),
    traits=OWNS,
)
"""Blocks of some sizes along axes. Each start counts along an axis of ``axes``."""


def _pull_spread(
    ct: Value, u: Value, *starts: Value, axes: Axes, mode: Mode, shape: Shape
) -> Value:
    return take_block(ct, *starts, axes=axes, sizes=_sizes_of(u, axes), mode=mode)


spread_block: Final[Primitive] = Primitive(
    "spread_block",
    _spread,
    lambda u, *starts, axes, mode, shape: Spec(shape, u.dtype),
    Linear(_of_arrays(_pull_spread), structural=True),
    _batch,
    _spread_samples,
    structure=Scatter(
        lambda u, *starts, axes, mode, shape: _with_operands(
            _block_places(shape, starts, axes, tuple([u[axis] for axis in axes]), mode), 1
        ),
        updates=0,
        fold=SUM,
    ),
    traits=OWNS,
)
"""Zeros of a shape, to which blocks are added: the transpose of ``take_block``."""


def _pull_array(ct: Value, x: Value, u: Value, *starts: Value, axes: Axes, mode: Mode) -> Value:
    zeros = np.zeros(shape_of(u), dtype_of(ct))
    return put_block(ct, zeros, *starts, axes=axes, mode=mode)


def _pull_block(ct: Value, x: Value, u: Value, *starts: Value, axes: Axes, mode: Mode) -> Value:
    return take_block(ct, *starts, axes=axes, sizes=_sizes_of(u, axes), mode=mode)


put_block: Final[Primitive] = Primitive(
    "put_block",
    _put,
    lambda x, u, *starts, axes, mode: x,
    Linear(_of_arrays(_pull_array, _pull_block), jointly=True, structural=True, gaps=True),
    _batch,
    _put_samples,
    structure=Scatter(
        lambda x, u, *starts, axes, mode: _with_operands(
            _block_places(x, starts, axes, tuple([u[axis] for axis in axes]), mode), 2
        )
    ),
    traits=OWNS,
)
"""An array with blocks replaced by others, which have its dtype."""
