"""A program taken apart for reverse mode: one program to run at once, and one for the pullback.

The inputs are a program and flags of the arguments that are followed. The outputs are a program of
its results and *residuals*, the intermediate values that its derivative reads; and programs of the
derivative, of arguments, residuals and cotangents (or tangents).

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> product = fg.program(lambda w, x: fnp.sin(w * x))(2.0, 3.0)
>>> taken = Linearization(product, [False, True], [2.0, 3.0])
>>> len(taken.forward.outputs), taken.pullback([2.0, 3.0], [1.0]).reads  # the cosine, and w
(2, (0, 2))
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate as running_sums

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec, is_inexact
from funcgrad._core.trace import Value
from funcgrad._programs.equation import Guard, exact_key
from funcgrad._programs.extract import Numbers, defined, extract, needed, value_numbers
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied
from funcgrad._transforms.flat_functions import FlatFunction
from funcgrad._transforms.layout import Layout, Presence, flat, restored, stand_ins
from funcgrad._transforms.masked import Cotangent
from funcgrad._transforms.with_derivative import WithDerivative, with_pullback, with_pushforward


@dataclass(frozen=True, slots=True)
class LinearPart:
    """A linear map of cotangents or tangents, as a program of these and of saved values.

    Attributes
    ----------
    program : Program
    reads : tuple of int
        Which of the arguments and residuals are its first inputs.
    layout : Layout
        Which cotangents or tangents it returns, and how.
    """

    program: Program
    reads: tuple[int, ...]
    layout: Layout

    def apply(
        self,
        saved: Sequence[Value] | Mapping[int, Value],
        cts: Sequence[Cotangent],
        run: FlatFunction | None = None,
    ) -> list[Cotangent]:
        """The cotangents or tangents that it returns, where ``run`` runs the program."""
        values = [*[saved[k] for k in self.reads], *flat(cts)]
        outs = applied(self.program, values) if run is None else run(values)
        return restored(self.layout, outs)


class Linearization:
    """How a program is recorded when some of its arguments are followed.

    Parameters
    ----------
    program : Program
    followed : sequence of bool
    args : sequence of values
        Arguments to stage with; stand-ins without ``numbers``.
    numbers : bool

    Attributes
    ----------
    forward : Program
        ``(arguments) -> results + residuals``. Residuals are the intermediate values of the results
        that the pullback reads; values that only the pullback needs it computes itself.
    connected : tuple of int
        The places of the results that depend on the arguments that are followed.
    first : LinearPart
        The pullback of whole cotangents of all connected results.
    """

    def __init__(
        self,
        program: Program,
        followed: Sequence[bool],
        args: Sequence[Value],
        numbers: bool = True,
    ) -> None:
        self._program = program
        self._followed = followed
        self._has_numbers = numbers
        self._by_presences: dict[tuple[Presence, ...], LinearPart] = {}
        specs = program.specs()
        cts = [whole_cotangent(specs[variable]) for variable in program.outputs]
        both = with_pullback(program, followed, args, cts, numbers)
        self.connected = both.connected
        whole, inputs = both.program, range(len(args))
        self._numbers: Numbers = {}
        values = value_numbers(whole, len(args), self._numbers)
        guards = [guard for guard in whole.guards if values[guard.variable] is not None]
        later = [guard.variable for guard in whole.guards if values[guard.variable] is None]
        outs, pulled = whole.outputs[: len(cts)], whole.outputs[len(cts) :]
        known = defined(whole, [*outs, *[guard.variable for guard in guards]], inputs)
        _, read = needed(whole, [*pulled, *later], known)
        residuals = sorted(known & read)
        self.forward = extract(whole, inputs, [*outs, *residuals], guards)
        self._slots = {values[variable]: k for k, variable in enumerate([*inputs, *residuals])}
        self._checked = frozenset([_fact(guard, values) for guard in guards])
        places = [0, *running_sums([len(flat([ct])) for ct in cts])]
        self.first = self._linear_part(both, [len(args) + places[k] for k in self.connected])

    def pullback(self, args: Sequence[Value], cts: Sequence[Cotangent]) -> LinearPart:
        """The pullback of such cotangents, one for each result."""
        return self._linear_part(
            with_pullback(self._program, self._followed, args, cts, self._has_numbers)
        )

    def pullback_for(
        self, args: Sequence[Value], presences: Sequence[Presence], specs: Sequence[Spec]
    ) -> LinearPart:
        """The pullback of cotangents with these presences and specs, one for each result."""
        if all(presences[k] is Presence.WHOLE for k in self.connected):
            return self.first
        key = tuple(presences)
        if key not in self._by_presences:
            cts = stand_ins(presences, specs)
            connected_cts = [ct if k in self.connected else None for k, ct in enumerate(cts)]
            self._by_presences[key] = self.pullback(args, connected_cts)
        return self._by_presences[key]

    def pushforward(self, args: Sequence[Value], tangents: Sequence[Value]) -> LinearPart:
        """The pushforward of such tangents, one for each argument."""
        return self._linear_part(with_pushforward(self._program, args, tangents, self._has_numbers))

    def _linear_part(self, both: WithDerivative, inputs: Sequence[int] | None = None) -> LinearPart:
        """The part of a program with its derivative that is left once the results are known.

        ``inputs`` are those that are cotangents or tangents, when those are not all inputs
        after the arguments. Other values that it needs are computed again.
        """
        whole = both.program
        if inputs is None:
            inputs = range(len(self._followed), len(whole.inputs))
        values = value_numbers(whole, len(self._followed), dict(self._numbers))
        slots = {v: self._slots[n] for v, n in enumerate(values) if n in self._slots}
        guards = [guard for guard in whole.guards if _fact(guard, values) not in self._checked]
        derivatives = whole.outputs[len(self._program.outputs) :]
        _, read = needed(whole, [*derivatives, *[guard.variable for guard in guards]], slots)
        residuals = [variable for variable in slots if variable in read]
        linear_program = extract(whole, [*residuals, *inputs], derivatives, guards)
        return LinearPart(
            linear_program, tuple([slots[variable] for variable in residuals]), both.layout
        )


def whole_cotangent(spec: Spec) -> Value:
    """A cotangent of a result without gaps; None for a result without derivative."""
    return np.ones(spec.shape, spec.dtype)[()] if is_inexact(spec.dtype) else None


def _fact(guard: Guard, numbers: Sequence[int | None]) -> Hashable:
    """A guard in terms of value numbers, which do not depend on the program it stands in."""
    return numbers[guard.variable], guard.use, exact_key(guard.value)
