"""Values that are computed when somebody reads them, as in the second run of a checkpoint.

While a run is late its operations give ``Late`` values, which know shape and dtype. The first
operation after the run that reads one computes it, and those that it depends on. A value that
nobody reads is never computed, nor a value that only filled-in values depend on.

>>> from funcgrad._core.context import repeated
>>> from funcgrad._primitives.transcendental import sin
>>> with repeated(object()):
...     late = LateTrace(level=1)
...     inside = bind(sin, (late.of(0.0),), {})
...     late.end()
>>> type(inside).__name__, inside.dtype
('Late', dtype('float64'))
>>> bind(sin, (inside,), {})
np.float64(0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from funcgrad._core.context import current, entered
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import stand_in
from funcgrad._core.trace import RAW, Raw, Trace, TracedValue, Value, bind, concrete
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.composite import Composite, bind_composite
from funcgrad._transforms.entries import ElementwiseEntry, Entry, LinearEntry
from funcgrad._transforms.factors import Outline
from funcgrad._transforms.quick_entries import ProductEntry, QuickEntry
from funcgrad.tensor.tensor import Tensor

_new: Final[Any] = object.__new__


class _LateStep:
    """An operation to run; ``results`` are None until it has."""

    __slots__ = ("args", "params", "primitive", "results")

    def __init__(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> None:
        self.primitive, self.args, self.params = primitive, args, params
        self.results: tuple[Value, ...] | None = None


class Late(Tensor):
    """A value with the step that gives it; None once the value is known, and no stand-in."""

    __slots__ = ("_place", "_step", "_trace")
    _step: _LateStep | None
    _place: int  # among the results of the step

    def _reveal(self, use: str, exact: bool) -> Raw:
        value = computed(self)
        return value if type(value) in RAW else value._reveal(use, exact)


_INNERMOST: Final = 2**63
"""A level above those of all transformations, which count nanoseconds."""


class LateTrace(Trace):
    """The trace of late values, which puts operations off in the second run that it is made in.

    Once that run has ended it is the innermost trace: it computes values, in the context of the
    run, before another transformation sees them.
    """

    title = "checkpoint"
    has_numbers = True
    __slots__ = ("_context",)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._context = current()

    def end(self) -> None:
        """End the second run: from now on operations on late values compute them."""
        self.level += _INNERMOST

    def rebuild(self, tracer: TracedValue, change: Callable[[Value], Value]) -> Value:
        return change(self.inner(tracer))

    def of(self, value: Value) -> Late:
        """A late value that is known."""
        late: Late = _new(Late)
        late._trace, late._value, late._step = self, value, None
        return late

    def inner(self, value: Value) -> Value:
        """The value, which is computed where it was late."""
        if not self._owns(value):
            return concrete(value)
        if value._step is not None:
            with entered(self._context):
                self._compute(value)
        return value._value

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        if self.level >= _INNERMOST:
            return bind(primitive, tuple(map(self.inner, args)), params)
        said = primitive.checked_result(*map(spec_inside, args), **params)
        step, several = _LateStep(primitive, args, params), isinstance(said, tuple)
        results = []
        for place, spec in enumerate(said if isinstance(said, tuple) else (said,)):
            late = self.of(stand_in(spec))
            late._step, late._place = step, place
            results.append(late)
        return tuple(results) if several else results[0]

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Run a call at once."""
        return list(bind_composite(call, [self.inner(arg) for arg in args]))

    def _owns(self, value: Value) -> bool:
        return type(value) is Late and value._trace is self

    def _compute(self, value: Late) -> None:
        """Run the steps that a value depends on, and not one of them twice."""
        waiting = [value]
        while waiting:
            step = waiting[-1]._step
            if step is not None and step.results is None:
                before = [arg for arg in step.args if self._owns(arg) and arg._step is not None]
                if before:
                    waiting += before
                    continue
                values = tuple([arg._value if self._owns(arg) else arg for arg in step.args])
                out = bind(step.primitive, values, step.params)
                step.results, step.args = out if type(out) is tuple else (out,), ()
            late = waiting.pop()
            if step is not None and step.results is not None:
                fill(late, step.results[late._place])


def fill(late: Value, value: Value) -> None:
    """Make a value known that may be late, so that its step need not run for it."""
    if type(late) is Late:
        late._value, late._step = value, None


def forget_unread(any_entry: Entry) -> None:
    """Let the entry of an operation hold outlines of late values that its linear map reads not."""
    entry: Any = any_entry
    kind = type(entry)
    if kind is ProductEntry or (kind is LinearEntry and not entry.primitive.cores):
        entry.out = _outlined(entry.out)
    elif kind is QuickEntry:
        primitive = entry.primitive
        operands = (entry.first,) if entry.y is None else (entry.first, entry.second)
        reads_out, reads_x, *reads_y = primitive.read(operands)
        entry.out = entry.out if reads_out else _outlined(entry.out)
        entry.x = entry.x if reads_x else _outlined(entry.x)
        if reads_y:
            entry.y = entry.y if reads_y[0] else _outlined(entry.y)
    elif kind is ElementwiseEntry:
        reads_out, *reads = entry.primitive.read(entry.operands)
        entry.out = entry.out if reads_out else _outlined(entry.out)
        pairs = zip(entry.primals, reads, strict=True)
        entry.primals = tuple([x if is_read else _outlined(x) for x, is_read in pairs])


def _outlined(value: Value) -> Any:
    """The shape and the dtype of a late value; any other value as it is."""
    return Outline(value.shape, value.dtype) if type(value) is Late else value


def computed(value: Value) -> Value:
    """A value that is not late: computed, if it was."""
    return value._trace.inner(value) if type(value) is Late else concrete(value)
