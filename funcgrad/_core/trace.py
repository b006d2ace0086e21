"""The dispatch of operations to the transformation that has to interpret them.

The input is a primitive and its arguments, the output a value. A *value* is one of

- a *raw* value, with which NumPy computes: an ``ndarray``, a NumPy scalar or a Python number;
- a concrete tensor, which wraps a raw value for the user;
- a *tracer*: a value that a running transformation follows. It knows its ``Trace``, which
  interprets operations on it: records them, pushes tangents through them, or batches them.

``bind`` calls the innermost trace among its arguments. That trace works on the values inside its
tracers, with ``bind`` again, until only raw values remain, which the primitive evaluates. So rules
of primitives compute with raw values and tracers alike, without wrappers; only the functions that
users call wrap results.

Levels need no global counter: a trace's level is the time at which its transformation began (made
strictly increasing within a context). So a nested transformation is later than the enclosing one,
also in a thread that the outer function started.

>>> from funcgrad._primitives.elementwise import add
>>> bind(add, (np.float64(1.0), 2.0), {})
np.float64(3.0)

Python's operators on Python numbers return Python numbers, which are weak (they take an array's
dtype). Their primitives do the same, so it makes no difference whether a number is traced:

>>> bind(add, (1.0, 2.0), {})
3.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from operator import pos
from time import perf_counter_ns
from types import MappingProxyType, TracebackType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad.errors import EscapedTracerError, TracerError

Raw: TypeAlias = "np.ndarray[Any, Any] | Any"
"""A raw value, with which NumPy computes: an array, a NumPy scalar or a Python number.

Type checkers see an array whose operators accept anything, since NumPy's stubs type few operators
of scalars.
"""

Value: TypeAlias = Any
"""A raw value or a tracer, with which rules compute. Both have NumPy's operators.

Type checkers see ``Any``: they do not narrow types by ``type(x) in RAW``, which tells raw values
from tracers, and NumPy's stubs accept no tracers. A protocol of operators would need 200 casts.
"""

RAW: Final = frozenset(
    {np.ndarray, bool, int, float, complex}
    | {np.dtype(char).type for char in "?bhilqBHILQefdFD"}
    | {np.longlong, np.ulonglong, np.intc, np.uintc}
)
"""The exact types of raw values."""

NUMBERS: Final = frozenset({bool, int, float, complex})
"""Python numbers: raw values that take an array's dtype."""

STRONG: Final = RAW - NUMBERS
"""The other raw values, which are not weak."""

BITWISE: Final = frozenset("&|^~")
"""The operators that return booleans for booleans.

(Python's own ``~True`` is -2, with a warning; traced values never have that meaning.)
"""

Operation: TypeAlias = Any
"""A ``Primitive``, whose class is a layer above; only ``evaluate`` and ``operator`` are used."""

_RUNNING: Final[ContextVar[begin_level | None]] = ContextVar("funcgrad_running", default=None)


_COVER: Final = "setting an array element with a sequence."
"""NumPy's message for ``out[i] = t``, which hides the error with the reason."""


class TracedValue:
    """The attributes of a tensor that ``bind`` reads: its trace, and the value inside it.

    The trace of a concrete tensor is None.

    The value is not called ``_data``: ``numpy.ma`` reads an array from this attribute of any
    object, and would lose a tracer's derivative.
    """

    __slots__ = ()
    _trace: Any  # a Trace; None for a concrete tensor
    _value: Value


class Trace:
    """One running transformation, which interprets operations on its tracers.

    A transformation of your own is a subclass with a method ``process``; the other methods are
    optional. ``inner`` returns the value inside a tracer, ``bind`` computes with such values one
    level further out, and a ``Tracer`` wraps the result.

    Attributes
    ----------
    level : int
    title : str
        The transformation's name in the text of its tracers.
    has_numbers : bool
        Whether the value inside a tracer is the one that the user's function would have without the
        transformation; false if it stands for many. If true, the text of a tracer shows it, and
        control flow may depend on it.
    is_batch : bool
        Whether the value inside a tracer holds all examples of a batch along axis 0.
    is_remote : bool
        Whether its tensors are kept outside of main memory, so that staging leaves them out. It
        then has the methods ``constant``, from a raw value to a tensor, and ``refuse_arguments``.
    """

    __slots__ = ("level",)
    level: int
    title: str = "a transformation"
    has_numbers: bool = False
    is_batch: bool = False
    is_remote: bool = False
    constant: Callable[[Raw], Value]
    refuse_arguments: Callable[[str], None]

    def __init__(self, level: int) -> None:
        self.level = level
        running = _RUNNING.get()
        if running is not None and running.level == level:
            running.traces = (self,)

    def check(self) -> None:
        """Raise ``EscapedTracerError`` if the transformation has ended; by default do nothing."""

    def inner(self, value: Value) -> Value:
        """Return the value inside a tracer of this trace, and any other value unchanged."""
        if type(value) not in RAW and value._trace is self:
            return value._value
        return concrete(value)

    def process(
        self, primitive: Operation, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Interpret an operation that has at least one tracer of this trace as an argument.

        Parameters
        ----------
        primitive : Primitive
        args : tuple of values
            Tracers of this trace and of enclosing traces, and raw values.
        params : mapping

        Returns
        -------
        value, or a tuple of values
            The result as ``bind`` returns it: a tuple if the operation has several results.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method process(self, primitive, args, params)."
        )

    def process_call(self, call: Any, args: Sequence[Value]) -> list[Value]:
        """Interpret a call that has its own rules, such as a call of a ``custom_vjp`` function.

        By default the function runs, and its operations are interpreted one by one. Transformations
        that differentiate or batch use the rules.
        """
        return call.interpret(self, args)

    def process_segment(
        self, segment: Callable[[Sequence[Value]], list[Value]], args: Sequence[Value]
    ) -> list[Value] | None:
        """Interpret a checkpointed part of a function; return None if this trace cannot."""
        return None

    def rebuild(self, tracer: TracedValue, change: Callable[[Value], Value]) -> Value:
        """Make a copy of a tracer with the values inside it changed; checkpoints use this."""
        self.check()
        changed: Any = object.__new__(type(tracer))
        changed._trace, changed._value = self, change(tracer._value)
        return changed

    def origin(self, tracer: TracedValue) -> tuple[Operation, tuple[Value, ...], object] | None:
        """Return the operation that made a tracer, its arguments and parameters, if known.

        The arguments may be read by ``origin`` and ``is_same`` only.
        """
        return None

    def is_same(self, tracer: TracedValue, other: TracedValue) -> bool:
        """Return whether two tracers of this trace are known to stand for the same value."""
        return tracer is other

    def process1(self, primitive: Operation, x: Value) -> Value:
        """Interpret an operation of one argument without parameters; a faster ``process``."""
        return self.process(primitive, (x,), {})

    def process2(self, primitive: Operation, x: Value, y: Value) -> Value:
        """Interpret an operation of two arguments without parameters; a faster ``process``."""
        return self.process(primitive, (x, y), {})


class begin_level:  # noqa: N801 - used as a function: `with begin_level() as level`
    """Enter a transformation: a context manager that yields a level above all enclosing levels.

    NumPy's default warnings about infinities and NaN are off inside: they would point at lines of
    this library, and masked branches produce such values legitimately. A user's ``np.errstate``,
    around the transformation or inside its function, is respected.
    """

    __slots__ = ("_quiet", "_token", "level", "outer", "traces")
    level: int

    def __enter__(self) -> int:
        self.outer = outer = _RUNNING.get()
        # The level below stays free for a trace that a transformation puts around its own.
        self.level = perf_counter_ns() if outer is None else max(perf_counter_ns(), outer.level + 2)
        self.traces: tuple[Trace, ...] = ()
        # Inside another transformation the warnings are already off.
        self._quiet = quiet() if outer is None else None
        try:
            self._token = _RUNNING.set(self)
            if self._quiet is not None:
                self._quiet.__enter__()
        except BaseException:  # an interrupt: Python would not call __exit__
            _RUNNING.set(outer)
            raise
        return self.level

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._quiet is not None:
                self._quiet.__exit__(kind, error, traceback)
        finally:
            _RUNNING.reset(self._token)
        if isinstance(error, ValueError) and str(error) == _COVER and error.__cause__ is not None:
            raise held_by_an_array(error.__cause__).with_traceback(traceback) from None


def running_traces() -> list[Trace]:
    """The traces whose functions are running in this context, the innermost first."""
    traces: list[Trace] = []
    running = _RUNNING.get()
    while running is not None:
        traces += running.traces
        running = running.outer
    return traces


def resume(traces: tuple[Trace, ...]) -> None:
    """Mark traces, the innermost first, as running again within the latest level."""
    running = _RUNNING.get()
    if running is not None:
        running.traces = traces


def bind(primitive: Operation, args: tuple[Value, ...], params: Mapping[str, Any]) -> Value:
    """Apply a primitive to values, under the transformation of the innermost tracer.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    args : tuple of values
        Raw values, tensors and tracers in any mixture.
    params : mapping
        Static parameters, such as axes.

    Returns
    -------
    value
        A raw value if no argument was a tracer, else the result of the trace.

    Examples
    --------
    >>> from funcgrad import extend
    >>> cube = extend.elementwise("cube", lambda x: x**3, partials=(lambda _, x: 3 * x**2,))
    >>> extend.bind(cube, (2.0,), {})
    8.0
    """
    trace = None
    wrapped = False
    for arg in args:
        if type(arg) not in RAW:
            other = arg._trace
            if other is None:
                wrapped = True
            elif other is not trace:
                trace = other if trace is None else innermost(trace, other)
    if trace is not None:
        return trace.process(primitive, args, params)
    if wrapped:
        args = tuple([concrete(arg) for arg in args])
    if primitive.operator and NUMBERS.issuperset(map(type, args)):
        return number_of(primitive.evaluate, primitive.operator, *args, **params)
    return primitive.evaluate(*args, **params)


def bind1(primitive: Operation, x: Value) -> Value:
    """``bind`` for one argument and no parameter."""
    if type(x) not in RAW:
        trace = x._trace
        if trace is not None:
            return trace.process1(primitive, x)
        x = x._value
    if type(x) in NUMBERS and primitive.operator:
        return number_of(primitive.evaluate, primitive.operator, x)
    return primitive.evaluate(x)


def bind2(primitive: Operation, x: Value, y: Value) -> Value:
    """``bind`` for two arguments and no parameter."""
    if type(x) not in RAW or type(y) not in RAW:
        trace = None if type(x) in RAW else x._trace
        other = None if type(y) in RAW else y._trace
        if trace is not other:
            if trace is None:
                trace = other
            elif other is not None:
                trace = innermost(trace, other)
        if trace is not None:
            return trace.process2(primitive, x, y)
        x, y = concrete(x), concrete(y)
    if type(x) in NUMBERS and type(y) in NUMBERS and primitive.operator:
        if primitive.operator not in BITWISE:
            x, y = +x, +y
        return primitive.evaluate(x, y).item()  # number_of, in fewer calls
    return primitive.evaluate(x, y)


def number_of(evaluate: Callable[..., Any], operator: str, *args: Raw, **params: Any) -> Any:
    """Apply an operator to Python numbers in NumPy's arithmetic; return a Python number.

    Booleans count as 0 and 1, as in Python's arithmetic; bitwise operators return booleans.
    """
    if operator not in BITWISE:
        args = tuple(map(pos, args))
    return evaluate(*args, **params).item()


def concrete(x: Value) -> Value:
    """The raw value inside a concrete tensor; any other value is returned unchanged.

    >>> concrete(2.0)
    2.0
    """
    return x if type(x) in RAW or x._trace is not None else x._value


def is_followed(x: Value) -> bool:
    """Whether a transformation follows a value; none follows a tensor on a device.

    >>> is_followed(2.0)
    False
    """
    value = concrete(x)
    return type(value) not in RAW and not value._trace.is_remote


def beside(constant: Value, value: Value) -> Value:
    """Copy a constant to the device of another value, if that value is on a device.

    Tracers, and tensors on a device, stay as they are.

    >>> beside(2.0, np.ones(3))
    2.0
    """
    device = device_below(value) if type(constant) in RAW else None
    return constant if device is None else device.constant(constant)


def device_below(value: Value) -> Trace | None:
    """The device of a tensor, or of the values that a tracer follows; None if it is the host."""
    while type(value) not in RAW:
        trace = value._trace
        if trace is not None and trace.is_remote:
            return trace
        value = value._value
    return None


def device_among(values: Iterable[Value]) -> Trace | None:
    """The device of the first value that is on one; None if all are on the host."""
    return next(filter(None, map(device_below, values)), None)


def on_one_device(values: Sequence[Value], operation: str) -> Sequence[Value]:
    """Values that no operation brings together, all on the device of the first that is on one.

    Raises
    ------
    DeviceError
        The user passed an array of the host beside it.
    """
    device = device_among(values)
    if device is None:
        return values
    device.refuse_arguments(operation)
    return [device.constant(value) if type(value) in RAW else value for value in values]


def innermost(first: Trace, second: Trace) -> Trace:
    """Return the trace that began later, which runs inside the other."""
    if first.level == second.level:
        raise escaped("Two traced values of unrelated transformations met in one operation.")
    return first if first.level > second.level else second


def reason(error: TracerError, use: str) -> str:
    """The message of an error without the use that it names first, as a sentence of its own."""
    text = str(error).removeprefix(f"{use}: ")
    return text[:1].upper() + text[1:]


def held_by_an_array(error: BaseException) -> BaseException:
    """The error for storing a traced value in a NumPy array, with an explanation."""
    if type(error) is TracerError and not error.remedy:
        head = f"{error.args[0]} A NumPy array cannot hold a traced value."
        rows = [f"\n  instead of {old:33} write {new}" for old, new in _INSTEAD.items()]
        error.args = (head + "".join(rows),)
    return error


_INSTEAD: Final = MappingProxyType(
    {
        "np.array([t, u]), np.mean([t, u])": "fnp.stack([t, u]), fnp.mean([t, u])",
        "np.r_[t, u], np.full(shape, t)": "fnp.r_[t, u], fnp.full(shape, t)",
        "table[t], with a NumPy array": "fnp.asarray(table)[t]",
        "out = np.zeros(n); out[i] = t": "out = fnp.zeros(n).at[i].set(t)",
        "a SciPy function, if not a ufunc": "the function of fg.scipy with this name",
    }
)


def escaped(what: str = "A traced value was used after its transformation had ended.") -> Exception:
    """The error for a tracer that outlived its transformation."""
    return EscapedTracerError(
        f"{what} A traced value has a meaning only inside the function that is being transformed:"
        " do not store it in a global, an attribute, a list or a generator for later. Return"
        " it from the function instead (with has_aux=True beside the result), or store"
        " fg.stop_gradient(x), which inside grad, vjp and jvp is an ordinary tensor."
    )
