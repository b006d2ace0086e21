"""Batching: ``vmap`` and the tracer behind it.

To the function a batched tracer is one example; inside the tracer, the batch is on axis 0.

>>> import funcgrad as fg
>>> fg.vmap(lambda x, y: x * y, in_axes=(0, None))(fg.tensor([1.0, 2.0]), 10.0)
Tensor([10., 20.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import index
from typing import Any, Final, ParamSpec

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.context import delegate, delegated, holds_linear, within_linear
from funcgrad._core.primitive import Primitive
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Shape, shape_of
from funcgrad._core.trace import (
    Raw,
    Trace,
    Value,
    begin_level,
    bind1,
    bind2,
    concrete,
    escaped,
    running_traces,
)
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.structural import move_axis
from funcgrad._transforms.active_examples import refuses_numbers, with_stand_ins
from funcgrad._transforms.arguments import (
    call_values,
    check_function,
    forgotten,
    is_whole,
    leaf_name,
    values_of,
)
from funcgrad._transforms.callables import Axes
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.transformed import Watched
from funcgrad.errors import BatchError, FuncgradError, TracerError
from funcgrad.tensor.tensor import Tensor, wrap

P = ParamSpec("P")  # named once only: so mypy knows the type of a lambda handed through
_new: Final[Any] = object.__new__


class Batched(Tensor):
    """One example of a batch, standing for all of them."""

    __slots__ = ("_trace",)

    @property
    def shape(self) -> Shape:
        """The sizes of the axes of one example."""
        return shape_of(self._value)[1:]

    def _reveal(self, use: str, exact: bool) -> Raw:
        self._trace.check()
        raise TracerError(
            f"{use}: inside vmap this stands for one example of a batch, so it has no single"
            " value to use in Python. To choose for each example, write fnp.where(condition, a, b)."
            " Pass values that do not depend on the batch with in_axes=None."
        )


class Batcher(Trace):
    """The trace of ``vmap``."""

    is_batch = True
    __slots__ = ("_around", "_open", "size", "title")

    def __init__(self, level: int, size: int, around: Trace | None = None) -> None:
        super().__init__(level)
        self.title = f"vmap over {size}"
        self.size = size
        self._open = True
        self._around: tuple[Trace, ...] = ()
        if isinstance(around, Batcher):
            self._around = (around, *around._around)

    def close(self) -> None:
        """End the transformation; tracers used from now on raise."""
        self._open = False

    def check(self) -> None:
        if not self._open and self not in running_traces():
            raise escaped()

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """Within this context, interpret operations on tracers of the traces around that ended."""
        with ExitStack() as stack:
            for trace in self._around:
                stack.enter_context(delegated(trace, self))
            yield

    def _successor(self, *args: Value) -> Batcher | None:
        """Find the trace that interprets an operation on tracers of batches that have ended.

        A rule of a call may run later, as in a pullback, and may close over tracers of the batches
        that the call belongs to. Others stand in for their traces, in the same order.
        """
        if not self._open:
            interpreter: Batcher | None = delegate(self)
            if interpreter is None:
                self.check()
            return interpreter
        for value in args:
            if type(value) is Batched and value._trace is not self:
                inside: Batcher | None = delegate(value._trace)
                if inside is not None and inside.level > self.level:
                    return inside
        return None

    def follow(self, data: Value) -> Batched:
        """A tracer for a value with the batch on axis 0."""
        tracer: Batched = _new(Batched)
        tracer._value = data
        tracer._trace = self
        return tracer

    def parts(self, value: Value) -> tuple[Value, bool]:
        """A value as the transformations around this one see it, and whether it has the batch."""
        if type(value) is Batched and (value._trace is self or value._trace in self._around):
            return value._value, True
        return concrete(value), False

    def rebuild(self, tracer: Any, change: Callable[[Value], Value]) -> Value:
        return self.follow(change(tracer._value))

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """The fast path of ``process`` for elementwise operations of one argument."""
        if not primitive.quick:
            return self.process(primitive, (x,), {})
        if not self._open and (interpreter := self._successor()):
            return interpreter.process1(primitive, x)
        return self.follow(bind1(primitive, x._value))

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """The fast path of ``process`` for elementwise operations whose axes line up already."""
        if not primitive.quick:
            return self.process(primitive, (x, y), {})
        if (self._around or not self._open) and (interpreter := self._successor(x, y)):
            return interpreter.process2(primitive, x, y)
        first, batched = self.parts(x)
        second, batched_too = self.parts(y)
        rank, other = len(shape_of(first)) - batched, len(shape_of(second)) - batched_too
        if (rank >= other or not batched) and (other >= rank or not batched_too):
            return self.follow(bind2(primitive, first, second))
        return self.process(primitive, (x, y), {})

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Apply the primitive's batching rule."""
        if (self._around or not self._open) and (interpreter := self._successor(*args)):
            return interpreter.process(primitive, args, params)
        if refuses_numbers(primitive):
            args = with_stand_ins(args)
        parts = [self.parts(arg) for arg in args]
        values = tuple([value for value, _ in parts])
        flags = tuple([flag for _, flag in parts])
        out = primitive.batch(primitive, self.size, values, flags, params)
        return tuple(map(self.follow, out)) if type(out) is tuple else self.follow(out)

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole run on the batch."""
        if holds_linear(self):
            if not call.is_linear:
                return list(delegate(self, is_linear=False).process_call(call, args))
            with within_linear():
                return self.process_call(call, args)
        if (self._around or not self._open) and (interpreter := self._successor(*args)):
            return interpreter.process_call(call, args)
        return call.batch_in(self, args)

    def batch_of(self, value: Value) -> Value:
        """A value with the batch on axis 0, repeated for each example if it has none."""
        data, flag = self.parts(value)
        return data if flag else broadcast_to(data, shape=(self.size, *shape_of(data)))


# What a lambda returns follows from its arguments' types, which are said where the batched function
# is called. A signature can only guess them: of tensors, pyright refuses `lambda line: line.slope`,
# and mypy finds the overloads ambiguous, which is Any and in strict code an error.
@answering
def vmap(
    f: Callable[P, Any], in_axes: Axes = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """Map a function over an axis of its arguments, without a loop.

    Write ``f`` for one example; ``vmap(f)`` runs each operation once for the whole batch.

    Parameters
    ----------
    f : callable
        Takes and returns pytrees of arrays.
    in_axes : int, None, or pytree prefix of them
        Which axis of each argument to map over; None for an argument that all examples share. A
        tuple has an entry for each positional argument. An entry may be a tree with the argument's
        structure, or a prefix of such a tree. Negative axes count from the back. Arguments passed
        by keyword are mapped over axis 0.
    out_axes : int, None, or pytree prefix of them
        The axis of each result that holds the batch; None for a result that does not depend on the
        batch.
    axis_size : int, optional
        The size of the batch; needed only if no argument is mapped.

    Returns
    -------
    callable
        A function with the signature of ``f``.

    Raises
    ------
    BatchError
        Batch sizes differ, an axis is out of bounds, or nothing is mapped.
    TracerError
        ``f`` needs the value of a single example, for instance in an ``if``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> rows = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fg.vmap(lambda row: row[0] * row[1])(rows)
    Tensor([ 2., 12.])
    >>> fg.vmap(fg.grad(lambda w, x: (w * x) ** 2), in_axes=(None, 0))(2.0, rows[0])
    Tensor([ 4., 16.])
    """
    check_function("vmap", f)
    _check_in_axes(in_axes)

    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytrees.flatten((args, kwargs))
        axes = _in_axes(in_axes, args, kwargs)
        name = partial(leaf_name, f)
        values = call_values("vmap", f, leaves, structure)
        axes = [
            _normal(axis, value, structure, k, name)
            for k, (axis, value) in enumerate(zip(axes, values, strict=True))
        ]
        size = _size(values, axes, axis_size, structure, name)
        with begin_level() as level:
            batcher = Batcher(level, size)
            try:
                followed = [
                    value if axis is None else batcher.follow(move_axis(value, axis, 0))
                    for value, axis in zip(values, axes, strict=True)
                ]
                inner_args, inner_kwargs = pytrees.unflatten(
                    structure, [wrap(value) for value in followed]
                )
                call: Callable[..., Any] = f
                out = call(*inner_args, **inner_kwargs)
            finally:
                batcher.close()
            return _results(batcher, out, out_axes)

    return Watched(batched, "vmap", (vmap, (f, in_axes, out_axes, axis_size)))


def _check_in_axes(in_axes: object) -> None:
    """Check that ``in_axes`` consists of axes."""
    for axis in pytrees.leaves(in_axes):
        if not is_whole(axis):
            what = "in_axes has to be an integer, None, or a tree of them"
            raise BatchError(forgotten("vmap", what, axis))


def _in_axes(in_axes: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """One axis for each leaf of the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise BatchError(
            f"vmap: in_axes has {len(in_axes)} entries, but the function was called with"
            f" {len(args)} positional argument(s); there has to be one for each."
        )
    try:
        axes = pytrees.broadcast_prefix(in_axes, tuple(args), "in_axes")
    except FuncgradError as error:
        raise BatchError(f"vmap: in_axes does not fit the arguments: {error}") from None
    return axes + [0] * len(pytrees.leaves(dict(kwargs))) if kwargs else axes


def _normal(
    axis: Any, value: Value, structure: Structure, leaf: int, name: Callable[[Structure, int], str]
) -> int | None:
    if axis is None:
        return None
    rank = len(shape_of(value))
    number = index(axis)
    if not -rank <= number < rank:
        raise BatchError(
            f"vmap: in_axes says axis {number} for {name(structure, leaf)}, whose shape is"
            f" {shape_of(value)}. Use None for an argument that is not mapped."
        )
    return number % rank


def _size(
    values: Sequence[Value],
    axes: Sequence[int | None],
    axis_size: int | None,
    structure: Structure,
    name: Callable[[Structure, int], str],
) -> int:
    size, origin = axis_size, -1
    if size is not None and (not isinstance(size, (int, np.integer)) or size < 0):
        raise BatchError(f"vmap: axis_size is {size!r}; it has to be an integer from 0 upwards.")
    for leaf, (value, axis) in enumerate(zip(values, axes, strict=True)):
        if axis is None:
            continue
        length = shape_of(value)[axis]
        if size is None:
            size, origin = length, leaf
        elif length != size:
            first = name(structure, origin) if origin >= 0 else "axis_size"
            raise BatchError(
                f"vmap: the batch sizes differ: {first} has {size}, but {name(structure, leaf)} of"
                f" shape {shape_of(value)} has {length} on axis {axis}."
            )
    if size is None:
        raise BatchError(
            "vmap: nothing is mapped: every in_axes is None, or there is no argument. Map an"
            " argument, or say how large the batch is with axis_size."
        )
    return size


def _results(batcher: Batcher, out: Any, out_axes: Any) -> Any:
    leaves, structure = pytrees.flatten(out)
    values = values_of("vmap", leaves, structure, lambda: "the function's result")
    try:
        axes = pytrees.broadcast_prefix(out_axes, structure, "out_axes")
    except FuncgradError as error:
        raise BatchError(f"vmap: out_axes does not fit the function's result: {error}") from None
    placed = [
        wrap(_placed(batcher, value, axis, structure, leaf))
        for leaf, (value, axis) in enumerate(zip(values, axes, strict=True))
    ]
    return pytrees.unflatten(structure, placed)


def _placed(batcher: Batcher, value: Value, axis: object, structure: Structure, leaf: int) -> Value:
    if axis is None:
        data, flag = batcher.parts(value)
        if flag:
            raise BatchError(
                f"vmap: out_axes is None for the result{structure.paths()[leaf]}, but it depends on"
                " the batch; give the axis that the batch shall have."
            )
        return data
    data = batcher.batch_of(value)
    rank = len(shape_of(data))
    if not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
        raise BatchError(
            f"vmap: out_axes is {axis!r} for the result{structure.paths()[leaf]}, which with the"
            f" batch has {rank} axes."
        )
    return move_axis(data, 0, int(axis) % rank)
