"""Calls whose rules close over values of transformations further in than their arguments'.

Such a value is made an argument of the call, since reverse mode runs a rule when the inner
transformation has ended. If the function closes over such a value, its results belong to the inner
transformation, which shows it. If only a rule does, nothing shows it; so the rule is staged to find
out, where the inner transformation is a batch. Under others, the rule reads the raw value.

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

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from funcgrad._core.trace import RAW, Trace, Value, begin_level, running_traces
from funcgrad._transforms.call import Call
from funcgrad._transforms.composite import ClosureError, bind_composite
from funcgrad._transforms.forward import Dual
from funcgrad._transforms.frozen_calls import frozen_call, staged_part
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.stager import NumbersNeeded, Stager
from funcgrad._transforms.tape import Readable
from funcgrad.errors import TracerError


def bind_closure(
    call: Call, args: Sequence[Value], bind: Callable[[Call, Sequence[Value]], list[Value]]
) -> list[Value]:
    """Bind a call, with the values of inner transformations that it closes over as arguments.

    ``bind`` raises ``ClosureError`` where the results say that it closes over such a value.
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
    traces = [trace for arg in args for trace in _traces(arg)]
    levels = [trace.level for trace in traces if isinstance(trace, Recorder)]
    if not levels:
        return False
    inside = [trace for trace in running_traces() if trace.level > min(levels)]
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


def _explicit_call(call: Call, args: Sequence[Value]) -> tuple[Call, tuple[Value, ...]]:
    """A call as a value, and its further arguments, for the values that it closed over."""
    numbers = [_inside(arg) for arg in args]  # rules are called with these
    try:
        return _staged(call, numbers, has_numbers=False)
    except NumbersNeeded:
        return _staged(call, numbers, has_numbers=True)


def _inside(value: Value) -> Value:
    """The primal inside a value that a derivative follows."""
    while type(value) not in RAW and isinstance(value._trace, Readable):
        value = value._value
    return value


def _staged(call: Call, args: Sequence[Value], has_numbers: bool) -> tuple[Call, tuple[Value, ...]]:
    with begin_level() as level:
        host = Stager(level, has_numbers)
        frozen, closed = frozen_call(host, call, args, staged_part(host, call.run, call.name, args))
    return frozen.bound(), closed
