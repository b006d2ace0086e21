"""Functions that close over traced values, as functions of those as well.

The derivative of a solution flows into all that its equation reads. So while a transformation runs
the equation is staged, without numbers, and what it reads becomes an argument.

>>> import numpy as np
>>> import funcgrad as fg
>>> def f(x):
...     product = opened("product", lambda own: [own[0] * x], [Spec((), np.dtype(float))])
...     return product.run([2.0], [10.0])[0] if product.values[0] is x else x
>>> fg.jvp(f, (3.0,), (1.0,))
(Tensor(20.0), Tensor(0.0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from funcgrad.errors import TracerError
from funcgrad.shape import Spec
from funcgrad.trace import Value, begin_level, running_traces
from funcgrad.transforms.flat_functions import FlatFunction
from funcgrad.transforms.numberless import running_stager, staged_body
from funcgrad.transforms.stager import Stager

__all__ = ["Opened", "opened"]


class Opened(NamedTuple):
    """A function of its own arguments and of what it closed over, and the latter."""

    run: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
    values: list[Value]


def opened(operation: str, function: FlatFunction, specs: Sequence[Spec]) -> Opened:
    """A function together with the traced values that it closes over.

    One that cannot be staged, as where it looks at numbers, is left as it is.
    """
    if running_traces():
        around = running_stager()
        with begin_level() as level:
            host = Stager(level, numbers=False, title=operation) if around is None else around
            try:
                program, closed = staged_body(
                    host, f"fg.{operation}", lambda own: list(function(own)), specs, operation
                )
            except TracerError:
                pass
            else:
                return Opened(lambda own, values: program.evaluate([*own, *values]), closed)
    return Opened(lambda own, _: function(own), [])
