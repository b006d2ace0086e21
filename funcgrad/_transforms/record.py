"""Record the operations of a function on the values that derivatives follow.

A ``Recorder`` follows its tracers and appends one entry for each operation on them. At the end it
leaves a ``Record``: a value that holds arrays and tracers of outer transformations, never a tracer
of its own, so that reference counting frees it. A pullback is a function of it.

An entry is appended after the entries of its operands, whichever thread runs the operation, and
variables are numbered by an atomic counter: a function may use threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.context import delegate, holds_linear, within_linear
from funcgrad._core.primitive import Linearized, Primitive
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import (
    RAW,
    STRONG,
    TracedValue,
    Value,
    begin_level,
    bind,
    bind1,
    bind2,
    concrete,
)
from funcgrad._transforms.absent_examples import pulled_by_example
from funcgrad._transforms.accumulation import Variables
from funcgrad._transforms.active_examples import refuses_numbers, with_stand_ins
from funcgrad._transforms.composite import (
    Composite,
    CompositeEntry,
    Recording,
    ResultEntry,
    bind_composite,
    where_present,
)
from funcgrad._transforms.entries import (
    CarriedEntry,
    ElementwiseEntry,
    Entry,
    LinearEntry,
    OperationEntry,
    PatchEntry,
    PushedEntry,
    ReductionEntry,
    TransposedEntry,
)
from funcgrad._transforms.factors import fit_tangent, has_route, outlined, zeros_like
from funcgrad._transforms.large_entries import LARGE, LargeEntry, residuals_of
from funcgrad._transforms.masked import SPARING, Cotangent, fit, fitted_present, values_there
from funcgrad._transforms.quick_entries import ProductEntry, QuickEntry
from funcgrad._transforms.recorded import Readable, Record, Recorded
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.tensor import Tensor

T = TypeVar("T")

_NO_PARAMS: Final[Mapping[str, Any]] = MappingProxyType({})
_FLOAT64: Final = np.dtype(np.float64)
_new: Final[Any] = object.__new__
_array: Final = np.ndarray


class Recorder(Readable):
    """The trace of reverse mode.

    Where it ``is_plain``, operations go to its own list without a look at the context. Where it
    ``keeps_numbers``, those inside its tracers cannot be taken out, which would lose derivatives.
    """

    title = "reverse mode"
    has_numbers = True
    keeps_numbers = True
    runs_again: ClassVar[bool] = True  # whether checkpoints may run their functions again for it
    __slots__ = ("_append", "_count", "_inputs", "is_plain")

    def __init__(self, level: int) -> None:
        super().__init__(level)
        entries: list[Entry] = []
        self.tape.entries = entries
        self._append: Callable[[Entry], Any] = entries.append  # True where an entry goes nowhere
        self._count = count().__next__
        self._inputs: list[int] = []
        self.is_plain = True

    @classmethod
    def run(
        cls,
        function: Callable[[list[Value]], T],
        values: Sequence[Value],
        followed: Sequence[bool] | None = None,
    ) -> tuple[Self, Record, T]:
        """Record a function, following all values or the ``followed`` ones; also its result."""
        with begin_level() as level:
            recorder = cls(level)
            try:
                pairs = zip(values, followed or [True] * len(values), strict=True)
                out = function([recorder.follow(x) if flag else x for x, flag in pairs])
            finally:
                record = recorder.close()
        return recorder, record, out

    def follow(self, data: Value) -> Recorded:
        """A tracer for an input."""
        return self._tracer(data, self.slot())

    def close(self) -> Record:
        """End recording; tracers raise from now on."""
        entries, self.tape.entries = self.tape.entries, None
        # An entry may hold a rule that reads tracers of this trace, which must not hold the entry.
        self._append = self.tape.append
        return Record(entries or (), tuple(self._inputs), self._count())

    def check(self) -> None:
        self.tape.current()

    @property
    def has_ended(self) -> bool:
        """Whether only rules and checkpoints that run later may use its tracers."""
        return self.tape.entries is None

    def aside(self) -> AbstractContextManager[list[Entry]]:
        """Within this context, collect entries in a list of their own; also after ``close``."""
        self._append = self.tape.append
        return self.tape.aside()

    def index_of(self, value: Value) -> int:
        """The number of a value's variable; -1 for a value that is not followed here."""
        return value._index if type(value) is Recorded and value._trace is self else -1

    def inner(self, value: Value) -> Value:
        """A value as the transformations around this one see it."""
        if type(value) is Recorded and value._trace is self:
            return value._value
        return concrete(value)

    def rebuild(self, tracer: TracedValue, change: Callable[[Value], Value]) -> Value:
        return self._tracer(change(tracer._value), self.index_of(tracer))

    def slot(self) -> int:
        """The number of a new input."""
        slot = self._count()
        self._inputs.append(slot)
        return slot

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole record itself."""
        interpreter = None if self.is_plain else delegate(self, call.is_linear)
        if interpreter is not None:
            return list(interpreter.process_call(call, args))
        if self.tape.current() is None:
            return bind_composite(call, [self.inner(arg) for arg in args])
        if not self.is_plain and holds_linear(self):
            with within_linear():
                return call.record_in(self, args)
        return call.record_in(self, args)

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """The fast path of ``process`` for elementwise operations of one argument."""
        if not primitive.quick:
            return self.process(primitive, (x,), {})
        interpreter = None if self.is_plain else delegate(self)
        if interpreter is not None:
            return interpreter.process1(primitive, x)
        data = x._value
        if type(data) is _array:
            out = primitive.evaluate(data)
            if data.nbytes >= LARGE:
                return self._recorded(primitive, (x._index,), (data,), out, _NO_PARAMS)
        else:
            out = primitive.evaluate(data) if type(data) in STRONG else bind1(primitive, data)
        entry = QuickEntry()
        entry.index = index = self._count()
        entry.primitive = primitive
        entry.first = x._index
        entry.second = -1
        entry.x = data
        entry.y = None
        entry.out = out
        if self._append(entry):
            return out
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """The fast path of ``process`` for operations of two arguments without parameters."""
        interpreter = None if self.is_plain else delegate(self)
        if interpreter is not None:
            return interpreter.process2(primitive, x, y)
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
        return self.record2(primitive, first, second, x, y)

    def record2(self, primitive: Primitive, first: int, second: int, x: Value, y: Value) -> Value:
        """Record an operation on two values, whose variables are -1 if they are not followed."""
        left, right = type(x), type(y)
        if (left in STRONG and right in RAW) or (right in STRONG and left in RAW):
            out = primitive.evaluate(x, y)
            if (
                (left is _array and x.nbytes >= LARGE) or (right is _array and y.nbytes >= LARGE)
            ) and primitive.quick:
                return self._recorded(primitive, (first, second), (x, y), out, _NO_PARAMS)
        else:
            out = bind2(primitive, x, y)
        keeps = out
        if primitive.quick:
            kind = QuickEntry
            if primitive.additive and type(out) is _array and out.size >= SPARING:
                x, y, keeps = outlined(x), outlined(y), outlined(out)
        elif primitive.bilinear:
            kind = ProductEntry
            if type(out) is _array and out.size >= SPARING:
                keeps = outlined(out)
        else:
            return self._recorded(primitive, (first, second), (x, y), out, _NO_PARAMS)
        entry = kind()
        entry.index = index = self._count()
        entry.primitive = primitive
        entry.first = first
        entry.second = second
        entry.x = x
        entry.y = y
        entry.out = keeps
        if self._append(entry):
            return out
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate further out, and append an entry if a derivative can flow."""
        interpreter = None if self.is_plain else delegate(self)
        if interpreter is not None:
            return interpreter.process(primitive, args, params)
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
        if type(out) is tuple:
            if ENTRY_CLASSES[primitive.form] is None:
                return out
            several = MultiResult(primitive, with_stand_ins(primals), out, params)
            recording = Recording(out, where_present(several.pull), several.push)
            return tuple(self.append_whole(recording, operands))
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
        kind = ENTRY_CLASSES[primitive.form]
        if (
            kind is None
            or (
                (dtype := out.dtype if type(out) in STRONG else dtype_of(out)) is not _FLOAT64
                and dtype.kind not in "fc"
            )
            or (len(operands) > 1 and not has_route(primitive, operands))
        ):
            self.check()
            return out
        if refuses_numbers(primitive):
            primals = with_stand_ins(primals)
        keeps, entry = out, _new(kind)
        large = primals[0] if primitive.form == "reducing" else out
        if type(large) is _array and large.nbytes >= LARGE and primitive.factors:
            keeps, primals = residuals_of(primitive, operands, out, primals)
            if primitive.form == "elementwise":
                entry = _new(LargeEntry)
        entry.index = index = self._count()
        entry.primitive = primitive
        entry.operands = operands
        entry.primals = primals
        entry.out = keeps
        entry.params = params
        if self._append(entry):
            return out
        tracer: Recorded = _new(Recorded)
        tracer._value = out
        tracer._index = index
        tracer._trace = self
        return tracer

    def append_whole(self, recording: Recording, operands: Sequence[int]) -> list[Value]:
        """Append the entry of an operation that was recorded as a whole; see ``append_call``."""
        outs, connected = recording.outs, recording.connected
        if connected is not None and not connected:
            return list(outs)
        entry = CompositeEntry(operands, recording.pull, recording.push, len(outs))
        return self.append_call(entry, outs, connected)

    def append_call(
        self, entry: Entry, outs: Sequence[Value], connected: Sequence[int] | None = None
    ) -> list[Value]:
        """Append an entry with such results, and return tracers of the connected ones."""
        entry.index = call = self._count()
        if self._append(entry):
            return [self.inner(out) for out in outs]
        results = list(outs)
        for position in range(len(outs)) if connected is None else connected:
            out = outs[position]
            if is_inexact(dtype_of(out)):
                # A result may depend on a value followed here that the function closes over.
                result_entry = ResultEntry(call, position, len(outs), self.index_of(out))
                results[position] = self.append_entry(result_entry, self.inner(out))
        return results

    def append_entry(self, entry: Entry, data: Value) -> Value:
        """Append an entry, and return a tracer of the variable that it defines."""
        entry.index = index = self._count()
        return data if self._append(entry) else self._tracer(data, index)

    def _tracer(self, data: Value, index: int) -> Recorded:
        tracer: Recorded = _new(Recorded)
        tracer._value = data
        tracer._index = index
        tracer._trace = self
        return tracer


def transpose_linear(
    function: Callable[..., Sequence[Value]], specs: Sequence[Spec], cts: Sequence[Value]
) -> list[Value]:
    """Pull cotangents back through a linear function, by recording it at zero.

    The specs describe its arguments. Results and cotangents may be None, for a structural zero.
    """
    seeds = values_there(cts)
    zeros = [zeros_like(spec, seeds) for spec in specs]
    recorder, record, outs = Recorder.run(lambda args: function(*args), zeros)
    pairs = [
        (recorder.index_of(out), fit(ct, recorder.inner(out), shape_of(out)))
        for out, ct in zip(outs, cts, strict=True)
        if out is not None and ct is not None
    ]
    pulled = record.pull([index for index, _ in pairs], [ct for _, ct in pairs])
    by_spec = zip(pulled, specs, strict=True)
    return [None if ct is None else fit(ct, spec, spec.shape) for ct, spec in by_spec]


def transpose_map(
    push: Callable[[list[Value]], Sequence[Value]],
    primals: Sequence[Value],
    followed: Sequence[int],
    cts: Sequence[Any],
) -> list[Value]:
    """The cotangents of all arguments, by transposing a pushforward in the followed ones."""

    def pushed(*tangents: Value) -> Sequence[Value]:
        directions: list[Value] = [None] * len(primals)
        for position, tangent in zip(followed, tangents, strict=True):
            directions[position] = tangent
        return push(directions)

    pulled: list[Value] = [None] * len(primals)
    specs = [spec_of(primals[position]) for position in followed]
    for position, ct in zip(followed, transpose_linear(pushed, specs, cts), strict=True):
        pulled[position] = ct
    return pulled


class LinearizedEntry(PushedEntry):
    """An operation whose pushforward is recorded, at zero, in order to be transposed."""

    __slots__ = ()

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        followed = [
            position
            for position, operand in enumerate(self.operands)
            if operand >= 0 and is_inexact(dtype_of(self.primals[position]))
        ]

        def transposed(
            cts: Sequence[Cotangent | None], outs: Sequence[Value], xs: Sequence[Value]
        ) -> list[Cotangent | None]:
            entry = replace(self, primals=xs, out=outs[0])
            return transpose_map(lambda tangents: [entry._tangent(tangents)], xs, followed, cts)

        cores = self.primitive.cores
        pulled = pulled_by_example(transposed, cores, [ct], [self.out], self.primals)
        self._hand_on(cotangents, pulled)


@dataclass(frozen=True, slots=True)
class MultiResult:
    """The linear maps of an operation with several results, given by its pushforward."""

    primitive: Any
    primals: Sequence[Value]
    outs: Sequence[Value]
    params: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Refuse a differential that knows of one result only."""
        form = type(self.primitive.differential)
        if form is not Linearized:
            raise DifferentiationError(
                f"{self.primitive.name}: an operation with several results has the differential"
                f" Linearized or DISCRETE; this one is {form.__name__}."
            )

    def push(self, tangents: Sequence[Value]) -> list[Value]:
        """The results' tangents, from the arguments'; None is a zero."""
        return [t() if callable(t) else t for t in self.late(tangents)]

    def late(self, tangents: Sequence[Value]) -> list[Any]:
        """The tangents, or functions that make them, for where they may not be needed."""
        directions = tuple(
            tangent if is_inexact(dtype_of(x)) else None
            for x, tangent in zip(self.primals, tangents, strict=True)
        )
        if all(tangent is None for tangent in directions):
            return [None] * len(self.outs)
        pushed = self.primitive.differential.push(
            directions, self.outs, *self.primals, **self.params
        )
        return [
            fit_tangent(tangent, out) if is_inexact(dtype_of(out)) else None
            for tangent, out in zip(pushed, self.outs, strict=True)
        ]

    def pull(self, cts: Sequence[Any]) -> list[Value]:
        """The arguments' cotangents, from the results'."""
        cores = self.primitive.cores
        pulled = pulled_by_example(self._transposed, cores, cts, self.outs, self.primals)
        made = [g() if callable(g) else g for g in pulled]
        return [
            None if g is None or not is_inexact(dtype_of(x)) else fit(g, x, shape_of(x))
            for g, x in zip(made, self.primals, strict=True)
        ]

    def _transposed(
        self, cts: Sequence[Any], outs: Sequence[Value], primals: Sequence[Value]
    ) -> Sequence[Any]:
        """The arguments' cotangents from the results', at given results and arguments."""
        pull = self.primitive.differential.pull
        if pull is not None:
            full = tuple(fitted_present(cts, outs))
            return pull(full, tuple(outs), *primals, **self.params)
        followed = [k for k, x in enumerate(primals) if is_inexact(dtype_of(x))]
        return transpose_map(replace(self, primals=primals, outs=outs).push, primals, followed, cts)


ENTRY_CLASSES: Final[Mapping[str, type[OperationEntry] | None]] = MappingProxyType(
    {
        "elementwise": ElementwiseEntry,
        "selecting": ElementwiseEntry,
        "reducing": ReductionEntry,
        "linear": LinearEntry,
        "patching": PatchEntry,
        "linearized": LinearizedEntry,
        "transposed": TransposedEntry,
        "carried": CarriedEntry,
        "discrete": None,
    }
)
"""The kinds of entries, by the forms of differentials; None where no derivative flows."""
