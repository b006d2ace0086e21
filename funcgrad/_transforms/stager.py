"""The trace of staging, which keeps the operations of a function as the equations of a ``Program``.

It computes values as well, so control flow may depend on them: each conversion to a Python number
becomes a ``Guard`` of the program, which holds for inputs with the same outcome. Loops may take
long, so their values may be left out: their results, and all that depends on them, are stand-ins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from operator import itemgetter
from typing import Any, ClassVar, Final

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core import pytrees
from funcgrad._core.context import current, delegate, delegated, holds_linear, within_linear
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import stand_in
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import (
    RAW,
    Raw,
    Trace,
    TracedValue,
    Value,
    begin_level,
    bind,
    concrete,
    escaped,
    running_traces,
)
from funcgrad._programs.equation import Constant, Equation, Guard, Params, read_number, spec_inside
from funcgrad._programs.names import variable_names
from funcgrad._programs.origins import line_around
from funcgrad._programs.program import Program
from funcgrad._transforms.answers import OF_VALUES
from funcgrad._transforms.call import Call
from funcgrad._transforms.call_values import (
    CUSTOM_CALL,
    FOREIGN_CALL,
    OpenCall,
    OpenCalls,
    StagedCalls,
    foreign_params,
    key_of,
    staged_call,
)
from funcgrad._transforms.calls import RuleCall
from funcgrad._transforms.composite import Composite, bind_composite, check_closure
from funcgrad._transforms.constant_pool import ConstantPool
from funcgrad._transforms.staging_notes import (
    CaughtErrors,
    EqualValues,
    hashable_params,
    waiting_place,
)
from funcgrad.errors import TracerError
from funcgrad.tensor.tensor import Tensor

_new: Final[Any] = object.__new__


class Staged(Tensor):
    """A value with its variable in the unfinished program."""

    __slots__ = ("_index", "_trace")
    _index: int

    def _reveal(self, use: str, exact: bool) -> Raw:
        self._trace.check(self)
        return self._trace.reveal(self, use, exact)


class NumbersNeeded(BaseException):
    """Raised by staging on abstract values where the function uses one in Python."""


class Stager(Trace):
    """The trace of staging.

    With ``numbers`` it evaluates as it goes. Without, values are stand-ins that take neither time
    nor memory, until the function looks at a number; and so are the results of loops, and values
    computed with them, where it ``runs_loops`` not.

    A call has a stager of its own, which runs within the stager ``around``.
    A compiled program is one equation where ``keeps_compiled`` says so, and else its equations.
    """

    keeps_compiled: ClassVar[bool] = False

    def __init__(
        self,
        level: int,
        numbers: bool = True,
        around: Stager | None = None,
        title: str = "program",
        runs_loops: bool = True,
    ) -> None:
        super().__init__(level)
        self.title = title if around is None else around.title
        self._has_numbers = numbers
        self._around = around
        self._is_nested = around is not None
        self.open_calls: OpenCalls = {}
        self.calls: StagedCalls | None = None if around is None else around.calls
        self._inputs: list[Any] = []
        self._pool = ConstantPool()
        self._equations: dict[int, Equation] = {}  # by the first variable of their results
        self._effects: list[tuple[Primitive, tuple[Value, ...], Params]] = []
        self._guards: list[Guard] = []
        self._reruns: dict[object, int] = {} if around is None else around._reruns
        self._epochs: count[int] = count(1) if around is None else around._epochs
        self.errors: CaughtErrors = CaughtErrors() if around is None else around.errors
        self._runs_loops: bool = runs_loops if around is None else around._runs_loops
        # The variables, with the levels of their stagers, that are stand-ins though others are not.
        self._unknown: set[tuple[int, int]] = set() if around is None else around._unknown
        self._equal, self._libraries = EqualValues(), dict[str, bool]()
        self._variables = 0  # at least so many are taken
        self._open = True

    def close(self) -> None:
        """End staging; tracers used from now on raise."""
        self._open = False

    def check(self, *used: Value) -> None:
        """Raise if staging has ended, and say where a value that is used now was made."""
        if not self._open:
            made = [self._line(value) for value in used if type(value) is Staged]
            line = next((f", made at {line}," for line in made if line), "")
            raise escaped(f"A traced value{line} was used after its transformation had ended.")

    def _line(self, tracer: Staged) -> str:
        """The user's line that a value comes from; empty for an argument."""
        is_followed_here = tracer._trace is self
        if is_followed_here:
            for first, equation in list(self._equations.items()):
                if first <= tracer._index < first + len(equation.results):
                    return equation.source
        return ""

    def follow(self, value: Value) -> Staged:
        """A tracer for an input; all inputs come before the first operation."""
        spec = spec_inside(value)
        self._inputs.append(spec)
        self._variables = len(self._inputs)
        return self._tracer(value if self._has_numbers else stand_in(spec), self._variables - 1)

    def need_numbers(self, *used: Staged) -> None:
        """Give up staging on abstract values, if these values, or all values, are stand-ins."""
        if not self._has_numbers or (self._unknown and self._lacks(used)):
            self.check()
            if self._around is not None:
                self._around.need_numbers()
            raise NumbersNeeded

    def _lacks(self, values: Sequence[Value]) -> bool:
        """Whether some value is a stand-in."""
        for value in values:
            if type(value) is Staged and (value._trace.level, value._index) in self._unknown:
                return True
        return False

    def _leave_out(self, variables: Iterable[int]) -> None:
        """Note that variables are stand-ins."""
        self._unknown.update([(self.level, variable) for variable in variables])

    def _stands_in(self, primitive: Primitive, args: Sequence[Value]) -> bool:
        """Whether the results of an operation are stand-ins."""
        if not self._has_numbers or (self._unknown and self._lacks(args)):
            return True
        return not self._runs_loops and _loops(primitive)

    def inner(self, value: Value) -> Value:
        """The raw value."""
        if type(value) is Staged and value._trace is self:
            return value._value
        return concrete(value) if self._around is None else self._around.inner(value)

    def rebuild(self, tracer: Any, change: Callable[[Value], Value]) -> Value:
        """A tracer with the values inside it changed."""
        return self._tracer(change(tracer._value), tracer._index)

    def origin(self, tracer: TracedValue) -> tuple[Primitive, tuple[Value, ...], Params] | None:
        """The operation that made a tracer, its arguments, and its parameters."""
        equation = self._equations.get(tracer._index) if isinstance(tracer, Staged) else None
        if equation is None or len(equation.results) != 1:
            return None
        known = self._pool.constants
        args = [
            self._tracer(None, operand) if operand >= 0 else known[-1 - operand].value
            for operand in equation.operands
        ]
        return equation.operation, tuple(args), equation.params

    def is_same(self, tracer: TracedValue, other: TracedValue) -> bool:
        """Whether two tracers have one variable."""
        if isinstance(tracer, Staged) and isinstance(other, Staged):
            return tracer._index == other._index
        return False

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate, and append an equation."""
        interpreter = delegate(self)
        if interpreter is not None:
            return interpreter.process(primitive, args, params)
        if not self._open:
            self.check(*args)
        has_effect = primitive.has_effect and type(args[0]) in RAW
        if has_effect and primitive.is_foreign:
            return self._run_later(primitive, args, hashable_params(params))
        values = tuple([self.inner(arg) for arg in args])
        if is_known := not self._stands_in(primitive, args):
            # A loop asks the transformations around it to interpret it as a whole.
            loops = _loops(primitive)
            try:
                out = primitive(*values, **params) if loops else bind(primitive, values, params)
            except OF_VALUES as error:
                self.errors.add(error, primitive, map(spec_inside, values), params)
                raise
        else:
            said = primitive.checked_result(*map(spec_inside, values), **params)
            out = tuple(map(stand_in, said)) if isinstance(said, tuple) else stand_in(said)
        hashable, several = hashable_params(params) if params else (), type(out) is tuple
        if has_effect:
            self._effects.append((primitive, args[1:], hashable))
            return out
        results = self._define(primitive, args, hashable, out if several else [out])
        if self._has_numbers and not is_known:
            self._leave_out([result._index for result in results])
        return tuple(results) if several else results[0]

    def _run_later(self, primitive: Primitive, args: Sequence[Value], params: Params) -> Value:
        """Append an operation that shall not run now, in its order among those with effects."""
        first, outs = args[0], [args[0]]
        if self._effects:  # it waits for the last one
            (first,) = self._define(primitive, (first, True, self._effects[-1][1][1]), params, outs)
        (done,) = self._define(primitive, (first, *args[1:]), params, outs)
        self._effects.append((primitive, (True, done), params))
        return args[0]

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Evaluate, and append a call as one equation, which keeps its rules."""
        interpreter = delegate(self, call.is_linear)
        if interpreter is not None:
            return interpreter.process_call(call, args)
        if holds_linear(self):
            with within_linear():
                return self.process_call(call, args)
        self.check(*args)
        if not isinstance(call, Call):
            return call.interpret(self, args)
        values = [self.inner(arg) for arg in args]
        if isinstance(call, RuleCall):
            # Stand-ins are nothing to run it with: they make singular matrices, for one.
            is_known = self._has_numbers and not self._lacks(args)
            open_call = self.open_calls.get(key_of(call, values)) if self.open_calls else None
            if open_call is not None:
                return self._recursive(open_call, call, args, is_known)
            staged = None
            with suppress(Exception):  # as where it hands its arrays to another library
                staged = staged_call(self, call, values, is_known)
            if staged is not None:
                frozen, body, closed = staged
                if closed:  # which may belong to a transformation inside of this one
                    return bind_composite(frozen.bound(), [*args, *closed])
                call_params = ("body", body.program), ("call", frozen)
                outs = self._called(call, values, body.results)
                return self._define(CUSTOM_CALL, args, call_params, outs)
        specs = None if self._has_numbers else call.result_specs
        if specs is None:
            self.need_numbers(*args)
            outs = bind_composite(call, values)
        else:
            outs = [stand_in(spec) for spec in specs]
        check_closure(self.level - 1, outs)
        known = [value._trace for value in values if type(value) not in RAW]
        more = [out for out in outs if type(out) not in RAW and out._trace not in known]
        params = foreign_params(call, outs, len(more))
        return self._define(FOREIGN_CALL, [*args, *more], params, outs)

    def _called(
        self, call: Call, values: Sequence[Value], results: Sequence[Value]
    ) -> Sequence[Value]:
        """The results of a call, given those that its function had while it was staged."""
        return results

    def _recursive(
        self, open_call: OpenCall, call: RuleCall, args: Sequence[Value], is_known: bool
    ) -> list[Value]:
        """The results of a call within its own rule."""
        call.adopt(open_call.call)
        if self.calls is not None:
            self.calls.ties.append(open_call.level)
        results = open_call.body.results
        if is_known:
            results = open_call.run([self.inner(arg) for arg in args])
        outs = [self.inner(out) for out in results]
        return self._define(FOREIGN_CALL, args, foreign_params(open_call.inside, outs), outs)

    def process_segment(self, segment: Any, args: Sequence[Value]) -> list[Value] | None:
        """Evaluate, and append the segment as one equation.

        The traced values that it closes over become arguments.
        """
        self.check()
        values = [self.inner(arg) for arg in args]
        body, closed, outs = self.nested(segment, segment.primitive.name, values)
        return self._define(segment.primitive, [*args, *closed], segment.params(body), outs)

    def nested(
        self,
        run: Callable[[Sequence[Value]], list[Value]],
        name: str,
        values: Sequence[Value],
        open_calls: OpenCalls | None = None,
    ) -> tuple[Program, list[Value], list[Value]]:
        """Stage a function as ``body`` does, by a stager within this one."""
        is_next = running_traces()[0] is self
        with begin_level() as level:
            stager = Stager(level, self._has_numbers and not self._unknown, self)
            stager.open_calls = self.open_calls if open_calls is None else open_calls
            with delegated(self, stager if is_next else None):
                return stager.body(run, name, values)

    def body(
        self, run: Callable[[Sequence[Value]], list[Value]], name: str, values: Sequence[Value]
    ) -> tuple[Program, list[Value], list[Value]]:
        """Stage a function of values: a program, the traced values it closes over, the results.

        The values that it closes over are the program's last inputs.
        """
        try:
            outs = run([self.follow(value) for value in values])
            result = pytrees.of_leaves(len(outs))
            body = self.finish(outs, name=name, names=(), arguments=result, result=result)
            names = tuple(variable_names((), len(body.inputs)))
            body = replace(body, names=names, arguments=pytrees.of_arguments(len(names)))
            closed = [constant.value for constant in self._closed()]
            return body, closed, [self.inner(out) for out in outs]
        finally:
            self.close()

    def _closed(self) -> list[Constant]:
        """The traced values that a nested function closes over, in the order of their variables."""
        return [
            constant for constant in self._pool.constants if self._is_nested and not constant.is_raw
        ]

    def reveal(self, tracer: Staged, use: str, exact: bool) -> Raw:
        """The raw value of a tracer that the function looks at."""
        self.need_numbers(tracer)
        value = tracer._value
        raw = value if type(value) in RAW else value._reveal(use, exact)
        self.look(tracer, use, exact, raw)
        return raw

    def look(self, tracer: Staged, use: str, exact: bool, raw: Value) -> None:
        """Keep the result of a conversion to a Python number as a guard."""
        if np.size(raw) != 1:
            raise TracerError(
                f"{use}: this array is being staged, so Python can read single numbers of it, as in"
                " `if x[0] > 0`, but not the whole array. Use the functions of funcgrad.numpy for"
                " arrays."
            )
        word = next((word for start, word in _LOOKS if use.startswith(start)), "number")
        number = read_number(raw, word)
        self._guards.append(Guard(tracer._index, word, number, users_line()))

    def finish(self, outs: Sequence[Value], **fields: Any) -> Program:
        """The program with these results.

        Values around that the function closes over are inputs as well, the last ones.
        """
        outputs = [self._variable(out) for out in self.after_effects(outs)]
        known, closed = self._pool.constants, self._closed()
        inputs, constants = len(self._inputs), len(known)
        order = sorted(range(constants), key=lambda place: known[place] not in closed)
        # While staging, results follow the inputs at once, and constants count down from -1.
        staged = [equation for _, equation in sorted(self._equations.items(), key=itemgetter(0))]
        final, next_one = [*range(inputs)], inputs + constants
        for equation in staged:
            width = len(equation.results)  # one without results takes a place, too, until now
            final += range(next_one, next_one + (width or 1))
            next_one += width
        final += sorted(range(inputs, inputs + constants), key=lambda at: -order[at - inputs])
        equations = [
            equation.on(tuple(map(final.__getitem__, equation.operands))) for equation in staged
        ]
        guards = [replace(guard, variable=final[guard.variable]) for guard in self._guards]
        return Program(
            inputs=(*self._inputs, *[constant.spec for constant in closed]),
            constants=tuple([known[place] for place in order[len(closed) :]]),
            equations=tuple(equations),
            outputs=tuple([final[variable] for variable in outputs]),
            guards=tuple(dict.fromkeys(guards)),
            **fields,
        )

    def identity(self, tracer: Staged) -> Hashable:
        """A key that values share if the same operations have made them of the same values."""
        place = self._equal.first_equal(tracer._index, self._equations, self._variables)
        return id(self), place

    def effects(self) -> int:
        """How many operations were run for their effects, for which a result has to wait."""
        return len(self._effects)

    def after_effects(self, outs: Sequence[Value], since: int = 0) -> Sequence[Value]:
        """The results; one waits for the operations that run for their effects."""
        effects = self._effects[since:]
        del self._effects[since:]
        if not effects or not outs:
            return outs
        place = waiting_place(outs)
        waiting = list(outs)
        for primitive, args, params in effects:
            operands = waiting[place], *args
            (waiting[place],) = self._define(primitive, operands, params, [self.inner(outs[place])])
        return waiting

    def _define(
        self, operation: Primitive, args: Sequence[Value], params: Params, outs: Sequence[Value]
    ) -> list[Value]:
        operands = tuple([self._variable(arg) for arg in args])
        specs = [self._pool.spec(out) for out in outs]
        results = specs[0] if len(specs) == 1 else tuple([spec for (spec,) in specs])
        equation = Equation(operation, operands, params, results, self._source(), self._epoch())
        first = self._append(equation)
        runs = operation.is_foreign or isinstance(operation.structure, Control)
        if runs and self._unknown and self._has_numbers:  # a loop may have run in it
            self._leave_out(range(first, first + len(outs)))
        tracers = [self._tracer(out, first + k) for k, out in enumerate(outs)]
        if tracers and isinstance(operation.structure, Control):
            self._wait_for(operation, params, tracers)
        return tracers

    def _append(self, equation: Equation) -> int:
        """Append an equation, by one step; return the first variable of its results.

        A function may use threads of its own, and one of them may have taken that variable.
        """
        first = self._variables
        while (taken := self._equations.setdefault(first, equation)) is not equation:
            first += len(taken.results) or 1
        self._variables = first + (len(equation.results) or 1)
        return first

    def _wait_for(self, operation: Primitive, params: Params, results: Sequence[Value]) -> None:
        """Let the results wait for a loop or a call, if something in it is run for its effect."""
        structure: Any = operation.structure
        for program, _ in structure.runs(**dict(params)):
            for effect in program.index.effects[:1]:
                read = results[waiting_place(results)]
                self._effects.append((effect.operation, (True, read), effect.params))
                return

    def _source(self) -> str:
        """The user's line that an equation comes from."""
        return line_around(sys._getframe(1), self._libraries)

    def _epoch(self) -> int:
        """The number of the running second run of a checkpointed function; 0 in first runs."""
        rerun = current().rerun
        if rerun is None:
            return 0
        return self._reruns.get(rerun) or self._reruns.setdefault(rerun, next(self._epochs))

    def _variable(self, value: Value) -> int:
        if type(value) is Staged and value._trace is self:
            return value._index
        return -1 - self._pool.constant(concrete(value))

    def _tracer(self, data: Value, index: int) -> Staged:
        tracer: Staged = _new(Staged)
        tracer._value = data
        tracer._index = index
        tracer._trace = self
        return tracer


def _loops(primitive: Primitive) -> bool:
    """Whether an operation is a loop or a branch."""
    structure = primitive.structure
    return isinstance(structure, Control) and not structure.inlines


_LOOKS: Final = (("bool(t)", "bool"), ("int(t)", "int"), ("t as an index", "index"))
