"""Calls with rules that close over values of inner transformations.

>>> import funcgrad as fg
>>> def scaled(x, w):  # the derivative follows x, the batch w, which only the rule reads
...     f = fg.custom_jvp(lambda x: x)
...     f.defjvps(lambda tangent, out, x: tangent * w)
...     return f(x)
>>> fg.grad(lambda x: fg.vmap(lambda w: scaled(x, w))(fg.tensor([2.0, 3.0])).sum())(1.0)
Tensor(5.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from funcgrad._core.trace import RAW, Trace, Value, begin_level, running_traces
from funcgrad._transforms.call_values import frozen_call, staged_part
from funcgrad._transforms.calls import RuleCall
from funcgrad._transforms.composite import ClosureError, bind_composite
from funcgrad._transforms.forward import Dual
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.recorded import Readable
from funcgrad._transforms.stager import NumbersNeeded, Stager
from funcgrad.errors import TracerError


def bind_closure(
    call: RuleCall,
    args: Sequence[Value],
    bind: Callable[[RuleCall, Sequence[Value]], list[Value]] = bind_composite,
) -> list[Value]:
    """Bind a call, with the values of inner transformations that it closes over as arguments.

    Such a value belongs to a transformation inside the transformations of the arguments. Reverse
    mode runs a rule after the inner transformation has ended. If the function closes over such a
    value, its results show it: ``bind`` raises ``ClosureError``. If only a rule does, nothing shows
    it. So the rule is staged to find out where the inner transformation is a batch; elsewhere it
    reads the raw value.

    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def scaled(x, w):
    ...     identity = fg.custom_vjp(lambda x: x)
    ...     identity.defvjp(lambda x: (x, None), lambda _, ct: (ct * w,))
    ...     return identity(x)
    >>> weights = fg.tensor([2.0, 3.0])
    >>> fg.grad(lambda x: fnp.sum(fg.vmap(lambda w: scaled(x, w))(weights)))(1.0)
    Tensor(5.0)
    """
    if _may_be_read_by_rules(args):
        explicit_call, closed = call, ()
        with suppress(Exception):  # as where it hands its arrays to another library
            explicit_call, closed = _explicit_call(call, args)
        if closed:
            return bind_composite(explicit_call, [*args, *closed])
    try:
        return bind(call, args)
    except ClosureError as error:
        try:
            explicit_call, closed = _explicit_call(call, args)
        except TracerError:
            raise error from None
        if not closed:
            raise error.__cause__ or error from None
        return bind_composite(explicit_call, [*args, *closed])


def _may_be_read_by_rules(args: Sequence[Value]) -> bool:
    """Whether some tracers may have no raw value when a pullback runs the rule."""
    running = running_traces()
    traces = [trace for arg in args for trace in _traces(arg)] if running else []
    levels = [trace.level for trace in traces if isinstance(trace, Recorder)]
    if not levels:
        return False
    inside = [trace for trace in running if trace.level > min(levels)]
    follows_all = all(trace in traces for trace in inside)
    return not follows_all and not all(isinstance(trace, Readable) for trace in inside)


def _traces(value: Value) -> Iterator[Trace]:
    """The traces of a tracer and of those inside it."""
    if type(value) in RAW or value._trace is None:
        return
    yield value._trace
    yield from _traces(value._value)
    if isinstance(value, Dual):
        yield from _traces(value._trace.parts(value)[1])


def _explicit_call(
    call: RuleCall, args: Sequence[Value], has_numbers: bool = False
) -> tuple[RuleCall, tuple[Value, ...]]:
    """A call as a value, and its further arguments, for the values that it closed over."""
    values = [_inside(arg) for arg in args]  # rules are called with these
    try:
        with begin_level() as level:
            host = Stager(level, has_numbers)
            body = staged_part(host, call.run, call.name, values)
            frozen, closed = frozen_call(host, call, values, body)
        return frozen.bound(), closed
    except NumbersNeeded:
        return _explicit_call(call, args, has_numbers=True)


def _inside(value: Value) -> Value:
    """The primal inside a value that a derivative follows."""
    while type(value) not in RAW and isinstance(value._trace, Readable):
        value = value._value
    return value
