"""Turn closed-over traced values of a function into arguments.

A solution has derivatives with respect to everything that its equation reads. So while a
transformation runs, the equation is staged (without values), and the traced values that it reads
become arguments.

>>> import numpy as np
>>> import funcgrad as fg
>>> def f(x):
...     spec = Spec((), np.dtype(float))
...     product = with_closed_values("product", lambda args: [args[0] * x], [spec], [1.0])
...     return product.run([2.0], [10.0])[0] if product.values[0] is x else x
>>> fg.jvp(f, (3.0,), (1.0,))
(Tensor(20.0), Tensor(0.0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from funcgrad._control.carry import placed
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value, begin_level, running_traces
from funcgrad._transforms.abstract_stager import running_stager, staged_body
from funcgrad._transforms.flat_functions import FlatFunction
from funcgrad._transforms.stager import Stager
from funcgrad.errors import TracerError


class ClosedFunction(NamedTuple):
    """A function of its arguments and its closed-over values, and these values."""

    run: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
    values: list[Value]


def with_closed_values(
    operation: str, function: FlatFunction, specs: Sequence[Spec], examples: Sequence[Value]
) -> ClosedFunction:
    """Return a function with its closed-over traced values as further arguments.

    ``specs`` are the specs of its arguments, ``examples`` are such arguments. Raises
    ``TracerError`` if the function cannot be staged, or if it branches on values (so that its
    program depends on the arguments) and closes over traced values.
    """
    if not running_traces():
        return ClosedFunction(lambda args, _: function(args), [])
    try:
        with begin_level() as level:
            host = _host(level, operation, numbers=False)
            program, closed = staged_body(
                host, f"fg.{operation}", lambda args: list(function(args)), specs, operation
            )
    except TracerError as error:
        if _closes_over(operation, function, examples, error):
            raise _refused(operation) from error
        return ClosedFunction(lambda args, _: function(args), [])
    return ClosedFunction(lambda args, values: program.evaluate([*args, *values]), closed)


def _host(level: int, title: str, numbers: bool) -> Stager:
    """Return the stager for a function: the one that is running, or a new one."""
    return running_stager() or Stager(level, numbers, title=title)


def _closes_over(
    operation: str, function: FlatFunction, examples: Sequence[Value], error: TracerError
) -> bool:
    """Whether a function that branches on values closes over traced values, for some arguments."""
    try:
        with begin_level() as level:
            host = _host(level, operation, numbers=True)
            _, closed, _ = host.nested(lambda args: list(function(args)), operation, examples)
    except TracerError:
        raise error from None
    return bool(closed)


def _refused(operation: str) -> TracerError:
    return placed(
        TracerError,
        f"{operation}: the function branches on values, as with if or float(t), and closes over a"
        " traced value, so the derivative with respect to that value is unknown. Choose with"
        " fg.cond or fnp.where, or pass the value as a parameter of fg.implicit.root.",
    )
