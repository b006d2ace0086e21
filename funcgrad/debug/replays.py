"""Run a pure function again, and record every operation whose result is not finite.

The replay is the outermost trace. It gets every operation of all inner transformations, with
values, in the order in which they run. Jitted functions run operation by operation, loops step by
step.

>>> import funcgrad as fg
>>> run = replay(lambda x: fg.numpy.sqrt(x) - 1.0, (-1.0,), {})
>>> [node.primitive.name for node in run.nodes]
['sqrt', 'subtract']

An operation with finite results leaves only its name and line; other operations also keep their
operands. So memory grows with the number of non-finite results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any, Final

import numpy as np

from funcgrad._backends.devices.resident import Resident
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import arguments_of
from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import NUMBERS, RAW, Raw, Trace, Value, begin_level, bind, bind1, bind2
from funcgrad._core.users_values import ArrayLike
from funcgrad._hooks.key_uses import repetition
from funcgrad._hooks.result_watch import ResultWatch, watched_by
from funcgrad._transforms.arguments import leaf_names
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.tracer import Tracer
from funcgrad.debug.contexts import Location, context
from funcgrad.tensor.tensor import Tensor, apply1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplayEvent:
    """An operation that ran, or an argument of the function.

    Attributes
    ----------
    number : int
        Operations that run later have greater numbers.
    primitive : Primitive or None
        None for an argument of the function.
    context : Location
    forward : ResultPlace or None
        The result of the differentiated operation, if this operation belongs to a derivative.
    path : str
        The path of an argument.
    outs : tuple of raw values
        The results; empty if all are finite. Then the next three are empty, too.
    operands : tuple of raw values
    places : tuple of ResultPlace or None
        For each operand, the operation and the result that it comes from.
    params : mapping
    """

    number: int
    primitive: Primitive | None
    context: Location
    forward: ResultPlace | None = None
    path: str = ""
    outs: tuple[Raw, ...] = ()
    operands: tuple[Raw, ...] = ()
    places: tuple[ResultPlace | None, ...] = ()
    params: Mapping[str, Any] | None = None

    @property
    def line(self) -> str:
        """The user's line; for a derivative, the line of the differentiated operation."""
        node = self
        while node.context.derivative and node.forward is not None:
            node = node.forward.node
        return node.context.line


@dataclass(frozen=True, slots=True, repr=False)
class ResultPlace:
    """A result of an operation."""

    node: ReplayEvent
    position: int = 0


class Followed(Tracer):
    """A followed value, with the operation that made it."""

    __slots__ = ("_place",)
    _place: ResultPlace

    @classmethod
    def made_at(cls, trace: Trace, value: Value, place: ResultPlace) -> Followed:
        """Follow a value that was made at a place."""
        followed: Followed = cls.around(trace, value)
        followed._place = place
        return followed


class Replay(Trace):
    """The trace of a replay.

    Attributes
    ----------
    nodes : list of ReplayEvent
        The operations with non-finite results.
    outs : list of triples
        The leaves of the result: path, raw value, and place.
    operations : tuple of str
        The transformations that made the function, the outermost first.
    """

    title = "a replay"
    has_numbers = True
    __slots__ = ("_constants", "_numbers", "nodes", "operations", "outs")

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.nodes: list[ReplayEvent] = []
        self.outs: list[tuple[str, Raw, ResultPlace | None]] = []
        self.operations: tuple[str, ...] = ()
        self._numbers = count()
        self._constants: dict[int, tuple[Raw, ResultPlace]] = {}

    def argument(self, value: ArrayLike, path: str) -> Followed:
        """Follow an argument."""
        raw = value._value if type(value) is Tensor else value
        known = self._constant(raw)
        if known is not None:
            return Followed.made_at(self, value, known)
        outs = () if _is_finite(raw) else (on_host(raw),)
        node = ReplayEvent(next(self._numbers), None, Location(""), path=path, outs=outs)
        if outs:
            self.nodes.append(node)
        return Followed.made_at(self, value, ResultPlace(node))

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate an operation, and record it."""
        inner = tuple([self.inner(arg) for arg in args])
        out = bind(primitive, inner, params)
        places = [arg._place if type(arg) is Followed else None for arg in args]
        outs = out if type(out) is tuple else (out,)
        node = self.note(primitive, inner, places, params, outs, sys._getframe(1))
        followed = [
            Followed.made_at(self, value, ResultPlace(node, k)) for k, value in enumerate(outs)
        ]
        return tuple(followed) if type(out) is tuple else followed[0]

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Run a loop, a jitted program or a call with rules operation by operation."""
        return call.run(args)

    def note(
        self,
        primitive: Primitive,
        operands: Sequence[Raw],
        places: Sequence[ResultPlace | None],
        params: Mapping[str, Any],
        outs: Sequence[Raw],
        frame: FrameType | None,
    ) -> ReplayEvent:
        """Record an operation."""
        where = context(frame, _BASE)
        forward = None
        if where.entry is not None:
            behind = innermost_value(where.entry[1], Followed)
            forward = None if behind is None else behind._place
            where = where._replace(entry=(where.entry[0], None))
        number = next(self._numbers)
        if all(map(_is_finite, outs)):
            return ReplayEvent(number, primitive, where, forward)
        known = [
            self._constant(operand) if place is None else place
            for operand, place in zip(operands, places, strict=True)
        ]
        node = ReplayEvent(
            number,
            primitive,
            where,
            forward,
            "",
            tuple(map(on_host, outs)),
            tuple(map(on_host, operands)),
            tuple(known),
            params,
        )
        self.nodes.append(node)
        return node

    def note_constant(
        self, primitive: Primitive, operands: Sequence[Raw], out: Raw, frame: FrameType
    ) -> None:
        """Record an operation on values that are not followed; its result is found by identity."""
        if type(out) not in RAW or _is_finite(out):
            return
        node = self.note(primitive, operands, [None] * len(operands), {}, (out,), frame)
        self._constants[id(out)] = out, ResultPlace(node)

    def _constant(self, value: Raw) -> ResultPlace | None:
        known = self._constants.get(id(value))
        return None if known is None else known[1]

    def finish(self, result: object) -> None:
        """Store the leaves of the result."""
        for path, leaf in pytrees.leaves_with_path(result):
            place = leaf._place if type(leaf) is Followed else None
            raw = on_host(self.inner(leaf) if isinstance(leaf, Tensor) else leaf)
            if type(raw) in RAW:
                self.outs.append((pytrees.key_path_text(path), raw, place or self._constant(raw)))


def on_host(value: object) -> Any:
    """Copy the elements of a tensor on a device; any other object is returned unchanged."""
    return value._value._value if type(value) is Resident else value


def _is_finite(value: Raw) -> bool:
    value = on_host(value)
    if type(value) in NUMBERS:
        return bool(np.isfinite(value))
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())


def innermost_value(value: object, kind: type[Any]) -> Any:
    """Return the innermost value of a class below other tracers; None if there is none."""
    if type(value) is tuple:
        value = value[0]
    while value is not None and type(value) is not kind:
        value = None if type(value) in RAW else getattr(value, "_value", None)
    return value


# ------------------------------------------------------------------------- closed-over values


_BINDING: Final = frozenset([function.__code__ for function in (bind, bind1, bind2, apply1)])
"""The functions that evaluate operations: they are given the primitive and its operands."""


@contextmanager
def _seeing_constants(trace: Replay) -> Iterator[None]:
    """Within this context, record operations on values that the function closes over.

    No trace gets these operations. A profiling hook of the interpreter sees them return. If another
    profiler runs, it stays, and such operations are not recorded.
    """
    if sys.getprofile() is not None:
        yield
        return

    def returned(frame: FrameType, event: str, result: object) -> None:
        if event == "return" and frame.f_code in _BINDING and result is not None:
            if frame.f_back is not None and frame.f_back.f_code is _PROCESS:
                return  # the trace records it
            out = result._value if type(result) is Tensor else result
            if type(out) in RAW and not _is_finite(out):
                primitive, *operands = arguments_of(frame)
                if frame.f_code is bind.__code__:
                    operands = [*operands[0]]
                raw = [x if type(x) in RAW else x._value for x in operands]
                trace.note_constant(primitive, raw, out, frame)

    sys.setprofile(returned)
    try:
        yield
    finally:
        sys.setprofile(None)


class JitOpener(ResultWatch):
    """Runs jitted functions operation by operation, and follows their arguments.

    Attributes
    ----------
    follow : callable
        ``(leaf, path) -> tracer``, for a leaf that is not followed yet.
    last : pair
        The transformations of the call that returned last, the outermost first, and its result.
    """

    __slots__ = ("follow", "last")

    def __init__(self, follow: Callable[[Any, str], Any]) -> None:
        self.follow = follow
        self.last: tuple[tuple[str, ...], Any] = ((), None)

    def called(
        self,
        operation: str,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        args, kwargs = follow_leaves(call, args, kwargs, self.follow)
        result = call(*args, **kwargs)
        inner, returned = self.last
        self.last = (operation, *(inner if returned is result else ())), result
        return result

    def called_jitted(
        self,
        function: Callable[..., Any],
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return self.called("jit", function, args, kwargs)

    def steps(self) -> tuple[tuple[str, int], ...]:
        return context(sys._getframe(), _BASE).steps


def follow_leaves(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    follow: Callable[[Any, str], Any],
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Follow the leaves of arguments, except integers, which may be static."""
    leaves, structure = pytrees.flatten((tuple(args), dict(kwargs)))
    followed = [
        follow(leaf, path) if type(leaf) is Tensor or isinstance(leaf, FOLLOWED) else leaf
        for leaf, path in zip(leaves, leaf_names(function, structure), strict=True)
    ]
    dynamic, named = pytrees.unflatten(structure, followed)
    return dynamic, named


def replay(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Replay:
    """Call a function again, and follow every operation."""
    with begin_level() as level, repetition():
        trace = Replay(level)
        dynamic, named = follow_leaves(function, args, kwargs, trace.argument)
        opening = JitOpener(trace.argument)
        with watched_by(opening), _seeing_constants(trace):
            result = _called(function, dynamic, named)
        trace.finish(result)
    operations, last = opening.last
    trace.operations = operations if last is result else ()
    return trace


FOLLOWED: Final = (Resident, np.ndarray, np.generic, float, complex)
"""The types that are followed besides tensors; integers and booleans may be static."""


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return function(*args, **kwargs)


_BASE: Final = _called.__code__
_PROCESS: Final = Replay.process.__code__
