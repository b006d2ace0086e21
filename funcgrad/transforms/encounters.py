"""Encounters: where the operations of a function are, and how far that is from their kinks.

The function runs once, operation by operation, also inside of jitted functions, loops and branches.
Each operation with kinks whose arguments depend on those of the function is an ``Encounter``. The
distances are values of the transformations further out, so they can be differentiated:

>>> import funcgrad as fg
>>> def distance(x):
...     return encounters(lambda x: abs(2 * x - 3), (x,)).met[0].zeros[0]
>>> distance(2.0), fg.grad(lambda x: fg.tensor(distance(x)))(2.0)
(1.0, Tensor(2.0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from funcgrad import trees
from funcgrad.primitive import DISCRETE, Primitive
from funcgrad.primitives.joining import stack
from funcgrad.programs.equation import spec_inside
from funcgrad.programs.origins import operations_line
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import dtype_of, is_inexact, shape_of
from funcgrad.structure import Choice, Control, Loop
from funcgrad.tensor import Tensor
from funcgrad.trace import NUMBERS, RAW, Trace, Value, begin_level, bind
from funcgrad.transforms.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Encounter:
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
    followed : tuple of int
        The arguments that depend on the function's.
    """

    operation: Primitive
    line: str
    args: tuple[Value, ...]
    params: Mapping[str, Any]
    zeros: tuple[Value, ...]
    domain: tuple[Value, ...]
    followed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Encounters:
    """The operations with kinks that a function met.

    Attributes
    ----------
    met : list of Encounter
        In the order of the run.
    outs : list of values or None
        The leaves of the function's result; None where it raised an error.
    error : Exception or None
        What it raised.
    """

    met: list[Encounter]
    outs: list[Value] | None
    error: Exception | None


def encounters(f: Callable[..., Any], args: Sequence[Any]) -> Encounters:
    """Run a function, and note its operations that have kinks.

    Parameters
    ----------
    f : callable
        Of pytrees.
    args : sequence of pytrees
        Inexact leaves are followed. Values that depend on them by a discrete operation are
        constants, such as truth values and rounded numbers.
    """
    leaves, structure = trees.flatten(tuple(args))
    with begin_level() as level:
        trace = KinkTrace(level)
        followed = [
            Tracer.around(trace, leaf) if is_inexact(_dtype(leaf)) else leaf for leaf in leaves
        ]
        try:
            outs = trees.flatten(f(*trees.unflatten(structure, followed)))[0]
        except Exception as error:  # whatever it is, the operations before it may be the reason
            return Encounters(trace.met, None, error)
        return Encounters(
            trace.met, [trace.inner(out) if _is_value(out) else out for out in outs], None
        )


def _dtype(leaf: Any) -> np.dtype[Any]:
    return leaf.dtype if isinstance(leaf, Tensor) else np.asarray(leaf).dtype


def _is_value(x: object) -> bool:
    return type(x) in RAW or isinstance(x, Tensor)


class KinkTrace(Trace):
    """Notes operations at the values that they meet.

    Attributes
    ----------
    met : list of Encounter
    """

    __slots__ = ("_quiet", "met")
    title = "kinks"
    has_numbers = True

    def __init__(self, level: int) -> None:
        """Note nothing yet."""
        super().__init__(level)
        self.met: list[Encounter] = []
        self._quiet = False

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Note an operation and apply it; run programs inside of one operation by operation."""
        if isinstance(primitive.structure, Control) and primitive.structure.form is not None:
            form = primitive.structure.form(**params)
            if form is not None:
                outs = _run_form(form, args)
                count = len(primitive.results(*map(spec_inside, args), **params))
                return tuple(outs[len(outs) - count :])
        if primitive.kinks is not None and not self._quiet:
            self._note(primitive, args, params)
        out = bind(primitive, tuple(map(self.inner, args)), params)
        return out if primitive.differential is DISCRETE else Tracer.around(self, out)

    def _note(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> None:
        followed = tuple([k for k, x in enumerate(args) if self._follows(x)])
        arrays = [np.asarray(x) if type(x) in NUMBERS else x for x in args]
        self._quiet = True
        try:
            zeros, domain = distances(primitive, arrays, params)
        except Exception:  # of an infinite matrix, say, there are no eigenvalues
            zeros, domain = (), ()
        finally:
            self._quiet = False
        inside = tuple(map(self.inner, args))
        zeros, domain = self._followed(zeros), self._followed(domain)
        if zeros or domain:
            line = operations_line()
            self.met.append(Encounter(primitive, line, inside, params, zeros, domain, followed))

    def _followed(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple([self.inner(x) for x in values if self._follows(x)])

    def _follows(self, x: Value) -> bool:
        return type(x) not in RAW and x._trace is self and is_inexact(dtype_of(x))


def distances(
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


# ------------------------------------------------------------------- programs inside of operations


def _run_form(form: Any, args: Sequence[Value]) -> list[Value]:
    """Run a loop, a choice or a program of them on traced values."""
    if isinstance(form, Loop):
        return _run_loop(form, args)
    if isinstance(form, Choice):
        number = int(_number(args[0]))
        branch = form.branches[min(max(number, 0), len(form.branches) - 1)]
        return list(branch.evaluate(args[1:]))
    return list(form.evaluate(args))


def _number(x: Value) -> Any:
    return np.asarray(x)


def _run_loop(loop: Loop, args: Sequence[Value]) -> list[Value]:
    shared, carry, arrays = loop.parts(list(args))
    length = loop.length
    if length is None:
        length = shape_of(arrays[0])[0] if loop.condition is None else 0
    rows: list[list[Value]] = []
    step = 0
    while step < length if loop.condition is None else _goes_on(loop, shared, carry):
        place = length - 1 - step if loop.reverse else step
        outs = loop.body.evaluate([*shared, *carry, *[x[place] for x in arrays]])
        carry, row = outs[: loop.carried], outs[loop.carried :]
        rows.append(row)
        step += 1
    if loop.reverse:
        rows.reverse()
    columns = [stack(*column, axis=0) for column in zip(*rows, strict=True)]
    if not rows:
        specs = loop.body.results(*map(spec_inside, [*shared, *carry, *arrays]))[loop.carried :]
        columns = [np.zeros((0, *spec.shape), spec.dtype) for spec in specs]
    return [*carry, *columns]


def _goes_on(loop: Loop, shared: Sequence[Value], carry: Sequence[Value]) -> bool:
    (going,) = loop.condition.evaluate([*shared, *carry])
    return bool(_number(going))
