"""Functions from lists of values to lists of values, such as calls have.

Here they are batched, differentiated, and made operations of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.primitive import Linearized, Primitive
from funcgrad._core.specs import Spec, dtype_of, shape_of, spec_of
from funcgrad._core.structure.structures import OPAQUE, Structure, Trait
from funcgrad._core.trace import Trace, Value, begin_level
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.indexing import gather
from funcgrad._transforms.active_examples import examples_at
from funcgrad._transforms.answers import Rows
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.batcher import DIVIDES, Batcher
from funcgrad._transforms.forward import Pusher
from funcgrad._transforms.masked import Cotangent, fitted_present
from funcgrad._transforms.paths import Group, Part, explored, joined
from funcgrad._transforms.record import Recorder
from funcgrad.tensor.tensor import wrap

FlatFunction: TypeAlias = Callable[[Sequence[Value]], Sequence[Value]]


class CallSignature:
    """The trees of the arguments and of the result of a call, whose values are flat lists."""

    __slots__ = ("arguments", "name", "result", "specs")

    def __init__(self, name: str, arguments: pytrees.Structure, values: Sequence[Value]) -> None:
        self.name = name
        self.arguments = arguments
        self.specs = [spec_of(value) for value in values]
        self.result: pytrees.Structure | None = None

    def args(self, values: Sequence[Value]) -> tuple[Any, ...]:
        """Put values together to the trees of the arguments."""
        return pytrees.unflatten(self.arguments, [wrap(x) for x in values])

    def out(self, tree: Any) -> list[Value]:
        """Flatten a result to values, and keep its structure."""
        leaves, structure = pytrees.flatten(tree)
        self.result = structure
        return values_of(self.name, leaves, structure, lambda: "the function's result")


def run_batched(
    function: FlatFunction,
    size: int,
    args: Sequence[Value],
    flags: Sequence[bool],
    around: Trace | None = None,
    whole: int = -1,
    chosen: Rows | None = None,
) -> tuple[list[Value], list[bool]]:
    """Run a function on a batch, which flagged arguments carry on axis 0; also flag such results.

    ``around`` is a trace of this batch whose tracers the function may close over, also when it has
    ended; the batch consists of the ``chosen`` ones of its ``whole`` examples. Results and
    arguments may be None, and stay so.
    """
    whole = size if whole < 0 else whole
    batcher, outs = _run_flat(function, size, args, flags, around, whole, chosen)
    if batcher.runs_once:
        parts = [(None, False) if out is None else batcher.parts(out) for out in outs]
    elif not size:  # no example answers: of the results for one of ones, no row
        ones = [
            np.ones((1, *shape_of(arg)[1:]), dtype_of(arg)) if flag and arg is not None else arg
            for arg, flag in zip(args, flags, strict=True)
        ]
        outs, out_flags = run_batched(function, 1, ones, flags, around, 0)
        none = np.arange(0)
        pairs = zip(outs, out_flags, strict=True)
        parts = [(examples_at(out, none) if flag else out, flag) for out, flag in pairs]
    else:

        def run(rows: Rows) -> tuple[Batcher, list[Part]]:
            some = [
                examples_at(arg, rows) if flag and arg is not None else arg
                for arg, flag in zip(args, flags, strict=True)
            ]
            around_rows = rows if chosen is None else chosen[rows]
            inner, outs = _run_flat(function, len(rows), some, flags, around, whole, around_rows)
            return inner, [(None, False) if out is None else inner.parts(out) for out in outs]

        parts = joined(explored(Group(np.arange(size)), batcher, None, run), size)
    return [value for value, _ in parts], [flag for _, flag in parts]


def run_for_few(
    function: FlatFunction, batcher: Batcher, rows: Rows, args: Sequence[Value]
) -> list[Value]:
    """Run a function for some examples of a running batch; the results stand for all of them.

    An example that is not among the rows gets the results of another one.
    """
    parts = [batcher.parts(arg) for arg in args]
    values = [examples_at(value, rows) if flag else value for value, flag in parts]
    flags = [flag for _, flag in parts]
    outs, out_flags = run_batched(function, len(rows), values, flags, batcher, batcher.size, rows)
    places = np.zeros(batcher.size, np.intp)
    places[rows] = np.arange(len(rows))
    return [
        batcher.follow(gather(out, places, axis=0, unique=False)) if flag else out
        for out, flag in zip(outs, out_flags, strict=True)
    ]


def _run_flat(
    function: FlatFunction,
    size: int,
    args: Sequence[Value],
    flags: Sequence[bool],
    around: Trace | None,
    whole: int = -1,
    rows: Rows | None = None,
) -> tuple[Batcher, Sequence[Value]]:
    """Run a function on some examples; it is abandoned where their answers differ."""
    with begin_level() as level:
        batcher = Batcher(level, size, DIVIDES, around, whole, rows)
        outs: Sequence[Value] = ()
        error = None
        try:
            with batcher.standing_in():
                outs = function(
                    [
                        batcher.follow(arg) if flag and arg is not None else arg
                        for arg, flag in zip(args, flags, strict=True)
                    ]
                )
        except BaseException as raised:
            if batcher.division is None:
                raise
            error = raised
        finally:
            batcher.close()
    if batcher.division is not None:
        batcher.division.check_arrival(error)
    return batcher, outs


def batched_flat(
    function: FlatFunction, size: int, flags: Sequence[bool], around: Trace | None = None
) -> FlatFunction:
    """The function on a batch, with the batch on axis 0 of every result; see ``run_batched``."""

    def batched(args: Sequence[Value]) -> list[Value]:
        outs, out_flags = run_batched(function, size, args, flags, around)
        return [
            out if flag else broadcast_to(out, shape=(size, *shape_of(out)))
            for out, flag in zip(outs, out_flags, strict=True)
        ]

    return batched


def run_pushed(
    function: FlatFunction, args: Sequence[Value], tangents: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """A function's results and their tangents, given its arguments' tangents; None is a zero."""
    with begin_level() as level:
        pusher = Pusher(level)
        try:
            outs = function([pusher.dual(x, t) for x, t in zip(args, tangents, strict=True)])
        finally:
            pusher.close()
    parts = [pusher.parts(out) for out in outs]
    return [primal for primal, _ in parts], [tangent for _, tangent in parts]


def push_values(
    function: FlatFunction, args: Sequence[Value], tangents: Sequence[Value]
) -> list[Value]:
    """The tangents of a function's results, as from ``run_pushed``."""
    return run_pushed(function, args, tangents)[1]


def run_pulled(
    function: FlatFunction,
    args: Sequence[Value],
    followed: Sequence[bool],
    cts: Sequence[Cotangent],
) -> tuple[list[Value], list[Cotangent], list[int]]:
    """Run a function and pull cotangents back through it.

    Returns the results; the cotangents of all arguments, which are None where nothing reaches a
    followed one; and the positions of the results that depend on the followed arguments. The
    cotangents of the other results are not read.
    """
    recorder, record, outs = Recorder.run(function, args, followed)
    indices = [recorder.index_of(out) for out in outs]
    pulled = iter(record.pull(indices, cts))
    return (
        [recorder.inner(out) for out in outs],
        [next(pulled) if flag else None for flag in followed],
        [k for k, index in enumerate(indices) if index >= 0],
    )


def pull_values(function: FlatFunction, args: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
    """The cotangents of a function's arguments, given its results' cotangents; None is a zero."""
    _, pulled, _ = run_pulled(function, args, [True] * len(args), cts)
    return fitted_present(pulled, args)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallPrimitive(Primitive):
    """An operation that transformations meet as a whole, by ``bind_composite``.

    Attributes
    ----------
    meet : callable
        ``(values, **params)`` to the results, under whatever transformations follow the values.
    """

    bind_composite: Callable[..., Sequence[Value]] = field(kw_only=True)

    def __call__(self, *args: Value, **params: Hashable) -> Value:
        return tuple(self.bind_composite(args, **params))


def call_primitive(
    name: str,
    run: Callable[..., Sequence[Value]],
    result: Callable[..., tuple[Spec, ...]],
    structure: Structure = OPAQUE,
    traits: Trait = Trait.NONE,
    label: Callable[..., str] | None = None,
    bind_composite: Callable[..., Sequence[Value]] | None = None,
) -> CallPrimitive:
    """Declare the primitive of a kind of calls; ``run(values, **params)`` returns the results.

    ``bind_composite`` is by default ``run``; see ``CallPrimitive``. If the primitive is bound like
    any other, its derivative is the derivative of ``run`` by forward mode.
    """

    def evaluate(*args: Value, **params: Hashable) -> tuple[Value, ...]:
        return tuple(run(args, **params))

    def push(
        tangents: Sequence[Value], outs: Sequence[Value], *args: Value, **params: Hashable
    ) -> tuple[Value, ...]:
        return tuple(push_values(partial(run, **params), args, tangents))

    def batch(
        primitive: Primitive,
        size: int,
        args: Sequence[Value],
        batched: Sequence[bool],
        params: Mapping[str, Any],
    ) -> tuple[Value, ...]:
        return tuple(batched_flat(partial(run, **params), size, batched)(args))

    return CallPrimitive(
        name,
        evaluate,
        result,
        Linearized(push),
        batch,
        structure=structure,
        traits=traits,
        label=label,
        bind_composite=bind_composite or run,
    )
