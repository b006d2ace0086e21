"""Recording: what a function did to the values that it is differentiated in.

A ``Recorder`` follows its tracers and appends one entry for each operation on them. What it leaves
behind is a ``Record``: a value that holds arrays and tracers of outer transformations, never a
tracer of its own, so that reference counting alone frees it. A pullback is a function of it.

Entries are appended after those of their operands, whichever thread runs the operation, and
variables are numbered by an atomic counter: a function may use threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.border import FREE, explained
from funcgrad.conversion import reveal_primal
from funcgrad.primitive import Linearized, Primitive
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives.contraction import matmul
from funcgrad.shape import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad.tensor import Tensor, operate_generally
from funcgrad.trace import RAW, STRONG, Trace, Value, begin_level, bind, bind1, bind2, concrete
from funcgrad.transforms.call import Call, Map, bind_call, check_closure
from funcgrad.transforms.collage import finished
from funcgrad.transforms.ledger import Ledger, reading
from funcgrad.transforms.masked import LARGE, broadcast, plain
from funcgrad.transforms.pull import (
    Cotangents,
    Entry,
    accumulate,
    fit,
    outlined,
    pull_back,
    pull_bilinear,
    pull_binary,
    pull_bundle,
    pull_carried,
    pull_linear,
    pull_mark,
    pull_partials,
    pull_patch,
    pull_projection,
    pull_reduction,
    pull_transposed,
    pull_unary,
)

__all__ = ["Record", "Recorded", "Recorder", "settled", "transpose_linear"]

_NO_PARAMS: Final[Mapping[str, Any]] = MappingProxyType({})
_new: Final[Any] = object.__new__


def _operators(primitive: Primitive) -> tuple[Any, Any]:
    """An operator of recorded values and its reflection, in one call rather than five.

    The calls on the way to ``process2`` are half of what recording a small operation costs; they
    are left out where the other operand is a number, a concrete tensor or recorded likewise.
    """

    def operate(self: Recorded, other: Any) -> Any:
        kind = type(other)
        if (kind is Recorded and other._trace is self._trace) or kind is Tensor or kind in FREE:
            try:
                return self._trace.process2(primitive, self, other)
            except (ValueError, TypeError, OverflowError) as error:
                raise explained(error, primitive.name, self, other) from error
        return operate_generally(primitive, self, other)

    def reflected(self: Recorded, other: Any) -> Any:
        if type(other) in FREE:
            return self._trace.process2(primitive, other, self)
        return operate_generally(primitive, other, self)

    return operate, reflected


class Recorded(Tensor):
    """A value whose history is being recorded."""

    __slots__ = ("_index", "_trace")
    _index: int

    __add__, __radd__ = _operators(ew.add)
    __sub__, __rsub__ = _operators(ew.subtract)
    __mul__, __rmul__ = _operators(ew.multiply)
    __truediv__, __rtruediv__ = _operators(ew.divide)
    __matmul__, __rmatmul__ = _operators(matmul)

    def _reveal(self, use: str, exact: bool) -> Any:
        self._trace.check()
        return reveal_primal(self._value, use, exact)


class Record:
    """What was recorded, as a value: pulls cotangents back, any number of times.

    Attributes
    ----------
    entries : tuple of Entry
        In the order of execution.
    size : int
        One more than the greatest number of a variable.
    inputs : tuple of int
        The variables that were recorded from.
    """

    __slots__ = ("entries", "inputs", "size")

    def __init__(self, entries: Sequence[Entry], inputs: tuple[int, ...], size: int) -> None:
        self.entries = entries
        self.inputs = inputs
        self.size = size

    def pull(self, outputs: Sequence[int], cts: Sequence[Value]) -> list[Value]:
        """The inputs' cotangents for those of outputs; None where nothing reaches an input.

        Parameters
        ----------
        outputs : sequence of int
            Variables; negative for an output that does not depend on the inputs.
        cts : sequence of values
        """
        return self._pull(reversed(self.entries), outputs, cts)

    def pull_once(self, output: int, ct: Value) -> list[Value]:
        """As ``pull``, using the record up: an entry is freed when it has been pulled through."""
        entries: list[Any] = [None, *self.entries]  # None is where `iter` stops
        self.entries = ()
        return self._pull(iter(entries.pop, None), [output], [ct])

    def _pull(
        self, backwards: Iterable[Entry], outputs: Sequence[int], cts: Sequence[Value]
    ) -> list[Value]:
        seeds = [
            (index, ct)
            for index, ct in zip(outputs, cts, strict=True)
            if index >= 0 and ct is not None
        ]
        cotangents: list[Value] = [None] * self.size
        pull_back(backwards, cotangents, seeds)
        return [finished(cotangents[index]) for index in self.inputs]


class Recorder(Trace):
    """The trace of reverse mode."""

    title = "reverse mode"
    has_numbers = True
    __slots__ = ("_append", "_count", "_inputs", "_ledger")

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._ledger = Ledger()
        entries: list[Entry] = []
        self._ledger.entries = entries
        self._append = entries.append
        self._count = count().__next__
        self._inputs: list[int] = []

    def follow(self, data: Value) -> Recorded:
        """A tracer for an input."""
        tracer = self._tracer(data, self._count())
        self._inputs.append(tracer._index)
        return tracer

    def close(self) -> Record:
        """End recording; tracers used from now on raise."""
        entries, self._ledger.entries = self._ledger.entries, None
        # An entry may hold a rule that reads tracers of this trace, which must not hold the entry.
        self._append = self._ledger.append
        # So the hot paths of a running recorder need no test whether it has ended.
        self.__class__ = _Ended  # pyright: ignore[reportAttributeAccessIssue]
        return Record(entries or (), tuple(self._inputs), self._count())

    def check(self) -> None:
        """Nothing is wrong as long as this has not ended."""

    def aside(self) -> AbstractContextManager[list[Entry]]:
        """Within this context, collect entries in a list of their own; also after ``close``."""
        self._append = self._ledger.append
        return self._ledger.aside()

    def index_of(self, value: Value) -> int:
        """The number of a value's variable; -1 for a value that is not followed here."""
        return value._index if type(value) is Recorded and value._trace is self else -1

    def inner(self, value: Value) -> Value:
        """A value as the transformations around this one see it."""
        if type(value) is Recorded and value._trace is self:
            return value._value
        return concrete(value)

    def slot(self) -> int:
        """A new input that has no tracer, for ``mark``."""
        slot = self._count()
        self._inputs.append(slot)
        return slot

    def mark(self, data: Value, value: Value, slot: int) -> Recorded:
        """A copy of a variable, whose cotangent goes to an input as well.

        Parameters
        ----------
        data : value
            The value, as the transformations around this one see it.
        value : value
            The same as it is followed here, if it is.
        slot : int
            The input.
        """
        index = self._count()
        self._append((pull_mark, index, self.index_of(value), slot))
        return self._tracer(data, index)

    def process_call(self, call: Call, args: Sequence[Value]) -> list[Value]:
        """Record a call as one entry, or let it record itself."""
        return call.record_in(self, args)

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """The fast path of ``process`` for elementwise operations of one argument."""
        if not primitive.quick:
            return self.process(primitive, (x,), {})
        data = x._value
        out = primitive.evaluate(data) if type(data) in STRONG else bind1(primitive, data)
        index = self._count()
        self._append((pull_unary, index, primitive, x._index, data, out))
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """The fast path of ``process`` for operations of two arguments without parameters."""
        first = second = -1
        if type(x) is Recorded and x._trace is self:
            first = x._index
            x = x._value
        elif type(x) is Tensor:
            x = x._value
        if type(y) is Recorded and y._trace is self:
            second = y._index
            y = y._value
        elif type(y) is Tensor:
            y = y._value
        if (type(x) in STRONG and type(y) in RAW) or (type(y) in STRONG and type(x) in RAW):
            out = primitive.evaluate(x, y)
        else:
            out = bind2(primitive, x, y)
        kept = out
        if primitive.quick:
            pull = pull_binary
            if primitive.additive and type(out) is np.ndarray and out.size >= LARGE:
                x, y, kept = outlined(x), outlined(y), outlined(out)
        elif primitive.bilinear:
            pull = pull_bilinear
            if type(out) is np.ndarray and out.size >= LARGE:
                kept = outlined(out)
        else:
            return self._recorded(primitive, (first, second), (x, y), out, _NO_PARAMS)
        index = self._count()
        self._append((pull, index, primitive, first, second, x, y, kept))
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate further out, and append an entry if a derivative can flow."""
        operands: tuple[int, ...]
        if len(args) == 1:  # which then is followed here
            data = args[0]._value
            operands, primals = (args[0]._index,), (data,)
            if type(data) in STRONG:
                out = primitive.evaluate(data, **params)
            else:
                out = bind(primitive, primals, params)
        else:
            operands = tuple([self.index_of(arg) for arg in args])
            primals = tuple([self.inner(arg) for arg in args])
            out = bind(primitive, primals, params)
        return self._recorded(primitive, operands, primals, out, params)

    def _recorded(
        self,
        primitive: Primitive,
        operands: tuple[int, ...],
        primals: tuple[Value, ...],
        out: Value,
        params: Mapping[str, Any],
    ) -> Value:
        """Append an entry for an operation, if a derivative can flow through it."""
        pull = _PULLS[primitive.form]
        if pull is None or dtype_of(out).kind not in "fc":
            return out
        if len(operands) > 1 and not _reached(primitive, operands):
            return out
        index = self._count()
        self._append((pull, index, primitive, operands, primals, out, params))
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def call(
        self,
        args: Sequence[Value],
        outs: Sequence[Value],
        pull: Map,
        push: Map,
    ) -> list[Value]:
        """Record a whole call by its pullback and its pushforward.

        Parameters
        ----------
        args : sequence of values
            The arguments, tracers of this trace among them.
        outs : sequence of values
            The results, computed further out.
        pull : callable
            From the results' cotangents (None where none) to the arguments' (likewise).
        push : callable
            From the arguments' tangents to the results', likewise.
        """
        check_closure(self.level, outs)
        bundle = self._count()
        operands = tuple([self.index_of(arg) for arg in args])
        # A rule runs later, when tracers of this trace that it closes over can only be read.
        back, forth = [reading(self._ledger, Recorded, rule) for rule in (pull, push)]
        self._append((pull_bundle, bundle, operands, back, forth))
        return self.results(bundle, outs)

    def segment(self, pull: Any, segment: Any, outs: Sequence[Value]) -> list[Value]:
        """Record a call that will run again in order to be pulled back."""
        bundle = self._count()
        self._append((pull, bundle, (), segment))
        return self.results(bundle, outs)

    def results(self, bundle: int, outs: Sequence[Value]) -> list[Value]:
        """Tracers for the results of a call that has been recorded as a bundle."""
        results: list[Value] = []
        for position, out in enumerate(outs):
            if not is_inexact(dtype_of(out)):
                results.append(out)
                continue
            index = self._count()
            # A result may depend on a value followed here that the function closes over.
            closed_over = self.index_of(out)
            self._append((pull_projection, index, bundle, position, len(outs), closed_over))
            results.append(self._tracer(self.inner(out), index))
        return results

    def _tracer(self, data: Value, index: int) -> Recorded:
        tracer: Recorded = _new(Recorded)
        tracer._value = data
        tracer._index = index
        tracer._trace = self
        return tracer


class _Ended(Recorder):
    """A recorder after its end, when only rules and checkpoints that run later use its tracers."""

    __slots__ = ()

    def check(self) -> None:
        self._ledger.current()

    def process1(self, primitive: Primitive, x: Value) -> Value:
        if self._ledger.current() is None:
            return bind1(primitive, self.inner(x))
        return super().process1(primitive, x)

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        if self._ledger.current() is None:
            return bind2(primitive, self.inner(x), self.inner(y))
        return super().process2(primitive, x, y)

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        if self._ledger.current() is None:
            return bind(primitive, tuple([self.inner(arg) for arg in args]), params)
        return super().process(primitive, args, params)

    def process_call(self, call: Call, args: Sequence[Value]) -> list[Value]:
        if self._ledger.current() is None:
            return bind_call(call, [self.inner(arg) for arg in args])
        return super().process_call(call, args)


def _reached(primitive: Primitive, operands: Sequence[int]) -> bool:
    """Whether a derivative reaches an operand that is followed."""
    for operand, route in zip(operands, primitive.routes(len(operands)), strict=True):
        if operand >= 0 and route is not None:
            return True
    return False


def settled(ct: Value, x: Value) -> Value:
    """A cotangent in the shape and dtype of its primal: zeros where nothing reached it."""
    if ct is None:
        return np.zeros(shape_of(x), dtype_of(x))[()]
    if type(ct) is type(x) in FREE:  # numbers
        return ct
    if type(ct) is np.ndarray and type(x) is np.ndarray and ct.shape == x.shape:
        return ct if ct.dtype is x.dtype else fit(ct, x, x.shape)
    shape = shape_of(x)
    return plain(broadcast(fit(ct, x, shape), shape))


def transpose_linear(
    function: Callable[..., Sequence[Value]], specs: Sequence[Spec], cts: Sequence[Value]
) -> list[Value]:
    """Pull cotangents back through a linear function, by recording it at zero.

    Parameters
    ----------
    function : callable
        Of values, returning a sequence of values (None where a result is zero by structure).
    specs : sequence of Spec
        The arguments' shapes and dtypes.
    cts : sequence of values
        The results' cotangents; None where there is none.

    Returns
    -------
    list of values
        The arguments' cotangents; None where nothing reaches an argument.
    """
    with begin_level() as level:
        recorder = Recorder(level)
        zeros = [recorder.follow(np.zeros(spec.shape, spec.dtype)) for spec in specs]
        outs = function(*zeros)
        record = recorder.close()
    pairs = [
        (recorder.index_of(out), fit(ct, recorder.inner(out), shape_of(out)))
        for out, ct in zip(outs, cts, strict=True)
        if out is not None and ct is not None
    ]
    pulled = record.pull([index for index, _ in pairs], [ct for _, ct in pairs])
    return [
        None if ct is None else fit(ct, zero._value, zero.shape)
        for ct, zero in zip(pulled, zeros, strict=True)
    ]


def _pull_linearized(cotangents: Cotangents, ct: Value, entry: Entry) -> None:
    """Through an operation that gives its pushforward: transpose that."""
    _, _, primitive, operands, primals, out, params = entry
    linearized: Linearized = primitive.differential
    followed = [
        position
        for position, operand in enumerate(operands)
        if operand >= 0 and is_inexact(dtype_of(primals[position]))
    ]

    def push(*tangents: Value) -> list[Value]:
        given: list[Value] = [None] * len(primals)
        for position, tangent in zip(followed, tangents, strict=True):
            given[position] = tangent
        return [linearized.push(tuple(given), out, *primals, **params)]

    specs = [spec_of(primals[position]) for position in followed]
    for position, pulled in zip(followed, transpose_linear(push, specs, [ct]), strict=True):
        if pulled is not None:
            accumulate(cotangents, operands[position], pulled)


_PULLS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "elementwise": pull_partials,
        "selecting": pull_partials,
        "reducing": pull_reduction,
        "linear": pull_linear,
        "patching": pull_patch,
        "linearized": _pull_linearized,
        "transposed": pull_transposed,
        "carried": pull_carried,
        "discrete": None,
    }
)
