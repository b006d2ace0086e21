"""KinksMet: where the operations of a function are, and how far that is from their kinks.

The function runs once, operation by operation, also inside of jitted functions, loops and branches.
Each operation with kinks whose arguments depend on those of the function is an ``KinkMet``. The
run is recorded, so the derivatives of the distances can be had without another run. The distances
are values of the transformations further out, so these can differentiate them, too:

>>> import funcgrad as fg
>>> def distance(x):
...     return kinks_met(lambda x: abs(2 * x - 3), (x,)).met[0].zeros[0]
>>> distance(2.0), fg.grad(lambda x: fg.tensor(distance(x)))(2.0)
(1.0, Tensor(2.0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.context import delegate
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.trace import NUMBERS, RAW, Value, concrete
from funcgrad._core.users_values import operand
from funcgrad._programs.origins import operations_line
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.recorded import Record
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class KinkMet:
    """An operation of a function, at the values that it met.

    Attributes
    ----------
    operation : Primitive
    line : str
        The user's line.
    args : tuple of values
    params : mapping
    zeros, domain : tuple of values
        What its ``Kinks`` say there, as far as that depends on the arguments of the function.
    variables : tuple of int
        Those of the zeros in the record of the run, then those of the ends of the domain.
    followed : tuple of int
        The arguments that depend on the function's.
    """

    operation: Primitive
    line: str
    args: tuple[Value, ...]
    params: Mapping[str, Any]
    zeros: tuple[Value, ...]
    domain: tuple[Value, ...]
    variables: tuple[int, ...]
    followed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KinksMet:
    """The operations with kinks that a function met.

    Attributes
    ----------
    met : list of KinkMet
        In the order of the run.
    outs : list of values or None
        The leaves of the function's result; None where it raised an error.
    error : Exception or None
        What it raised.
    record : Record
        Of what was met, from the inexact leaves of the function's arguments.
    """

    met: list[KinkMet]
    outs: list[Value] | None
    error: Exception | None
    record: Record


def kinks_met(f: Callable[..., Any], args: Sequence[Any]) -> KinksMet:
    """Run a function, and note its operations that have kinks.

    Parameters
    ----------
    f : callable
        Of pytrees.
    args : sequence of pytrees
        Inexact leaves are followed. Values that depend on them by a discrete operation are
        constants, such as truth values and rounded numbers.
    """
    leaves, structure = pytrees.flatten(tuple(args))
    followed = [is_inexact(_dtype(leaf)) for leaf in leaves]
    values = [
        concrete(operand(leaf, "kinks")) if flag else leaf
        for leaf, flag in zip(leaves, followed, strict=True)
    ]

    def function(leaves: list[Any]) -> tuple[list[Any] | None, Exception | None]:
        try:
            return pytrees.flatten(f(*pytrees.unflatten(structure, leaves)))[0], None
        except Exception as error:  # whatever it is, the operations before it may be the reason
            return None, error

    trace, record, (outs, error) = KinkTrace.run(function, values, followed)
    inner = outs and [trace.inner(out) if _is_value(out) else out for out in outs]
    return KinksMet(trace.met, inner, error, record)


def _dtype(leaf: Any) -> np.dtype[Any]:
    return leaf.dtype if isinstance(leaf, Tensor) else np.asarray(leaf).dtype


def _is_value(x: object) -> bool:
    return type(x) in RAW or isinstance(x, Tensor)


class KinkTrace(Recorder):
    """Records operations, and notes those with kinks at the values that they meet.

    Attributes
    ----------
    met : list of KinkMet
    """

    __slots__ = ("_quiet", "met")
    title = "kinks"
    keeps_numbers = False
    runs_again = False

    def __init__(self, level: int) -> None:
        """Note nothing yet."""
        super().__init__(level)
        self.is_plain = False
        self.met: list[KinkMet] = []
        self._quiet = False

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """Note and record an operation of one argument."""
        if primitive.quick:  # others come to ``process``
            self._note(primitive, (x,), {})
        return super().process1(primitive, x)

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """Note and record an operation of two arguments."""
        self._note(primitive, (x, y), {})
        return super().process2(primitive, x, y)

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Note and record an operation."""
        self._note(primitive, args, params)
        return super().process(primitive, args, params)

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Run a loop, a choice or a call with rules operation by operation."""
        return call.run(args)

    def _note(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> None:
        if primitive.kinks is None or self._quiet or delegate(self) is not None:
            return
        arrays = [np.asarray(x) if type(x) in NUMBERS else x for x in args]
        self._quiet = True
        try:
            zeros, domain = _distances(primitive, arrays, params)
        except Exception:  # of an infinite matrix, say, there are no eigenvalues
            return
        finally:
            self._quiet = False
        zeros = tuple([x for x in zeros if self.index_of(x) >= 0])
        domain = tuple([x for x in domain if self.index_of(x) >= 0])
        if zeros or domain:
            inside = tuple(map(self.inner, args))
            followed = tuple([k for k, x in enumerate(args) if self.index_of(x) >= 0])
            variables = tuple(map(self.index_of, zeros + domain))
            zeros, domain = tuple(map(self.inner, zeros)), tuple(map(self.inner, domain))
            line = operations_line()
            met = KinkMet(primitive, line, inside, params, zeros, domain, variables, followed)
            self.met.append(met)


def _distances(
    primitive: Primitive, args: Sequence[Value], params: Mapping[str, Any]
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Evaluate the kinks of an operation at arguments: the zeros, and the ends of the domain.

    Values of integers are left out: they are no distances, since they do not move.
    """
    kinks = primitive.kinks
    functions = (None, None) if kinks is None else (kinks.zeros, kinks.domain)
    values = [() if f is None else f(*args, **params) for f in functions]
    tuples = [value if isinstance(value, tuple) else (value,) for value in values]
    zeros, domain = [tuple([x for x in xs if is_inexact(dtype_of(x))]) for xs in tuples]
    return zeros, domain
