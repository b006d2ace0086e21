"""A program as one operation under every transformation, and the programs derived from it.

Reverse mode records the operation as one entry, whose pullback is a program as well; likewise for
tangents and batches. Derived programs are cached with the program that they come from, so that a
jitted function is staged once and differentiated once:

    record   (arguments) -> results + residuals, and (residuals, cotangents) -> cotangents
    push     (arguments, tangents) -> results + tangents
    batch    (arguments) -> results, with a batch on axis 0 of some

Each of these is a program as one operation again, so higher derivatives need no extra code.
A derived program may not hold for all values that the program holds for, as when the rule of a
custom derivative branches on a value. Then the program is evaluated operation by operation, under
the transformation. The same is done under transformations that are not known here, such as staging.

>>> import funcgrad as fg
>>> from funcgrad._backends.numpy.backend import compile_program
>>> square = ProgramCall(fg.program(lambda x: x * x)(2.0), compile_program)
>>> fg.grad(lambda x: square.apply([x])[0])(3.0)
Tensor(6.0)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from funcgrad._backends.choice import numpy_backend
from funcgrad._backends.devices.device import Device
from funcgrad._backends.interface import Compiled
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import Trace, Value
from funcgrad._core.users_values import REFUSALS
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from funcgrad._staging.entry import told_by_operation
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batcher import Batcher
from funcgrad._transforms.call_values import has_linear_rules, runs_python
from funcgrad._transforms.composite import Composite, Interpreter, Recording, bind_composite
from funcgrad._transforms.flat_functions import call_primitive, push_values, run_batched, run_pulled
from funcgrad._transforms.forward import Pusher
from funcgrad._transforms.layout import Layout, flat, restored
from funcgrad._transforms.linearization import Linearization, LinearPart, whole_cotangent
from funcgrad._transforms.masked import Cotangent
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.stage import program as stage
from funcgrad._transforms.stager import Stager
from funcgrad._transforms.with_derivative import example, kinds, with_pushforward
from funcgrad.errors import FuncgradError, GuardError, TracerError

T = TypeVar("T")
Run: TypeAlias = Callable[..., Sequence[Value] | None]
"""A function of raw values, see ``Compiled``."""

Compile: TypeAlias = Callable[[Program], Run]

_MOST: Final = 32
"""The most derived programs of one kind that are kept, such as one for each batch size."""


class _Memo:
    """A thread-safe cache of the latest few objects, by key."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached object for the key, or a new one."""
        known: T | None = self._made.get(key)
        if known is not None:
            return known
        stored: T = self._made.setdefault(key, make())  # two threads may make it at once
        for oldest in list(self._made)[:-_MOST]:
            self._made.pop(oldest, None)
        return stored


class ProgramCall(Composite):
    """A program as one operation.

    Parameters
    ----------
    program : Program
        Its constants are raw.
    compile : callable
        Compiles the program, and derived programs.
    compiled : callable, optional
        The program compiled, if it is already.
    """

    __slots__ = ("_compile", "_compiled", "_derived", "program")

    def __init__(self, program: Program, compile: Compile, compiled: Run | None = None) -> None:
        self.program = program
        self._compile = compile
        self._compiled = compiled
        self._derived = _Memo()

    @property
    def is_linear(self) -> bool:
        return has_linear_rules(self.program)

    def apply(self, args: Sequence[Value]) -> list[Value]:
        """The results, under all transformations that follow the arguments.

        The arguments must have the shapes and dtypes that the program was staged with; this is not
        checked. Raises ``GuardError`` if the program does not hold for them.
        """
        return bind_composite(self, args)

    def run(self, args: Sequence[Value]) -> list[Value]:
        return self.program.evaluate(args)

    def evaluate(self, args: Sequence[Value]) -> list[Value]:
        if self._compiled is None:
            self._compiled = self._compile(self.program)
        try:
            outs = self._compiled(*args)
        except REFUSALS as error:
            raise told_by_operation(self.program, args, error) from error
        # If a guard does not hold, evaluation raises an error that names it.
        return self.program.evaluate(args) if outs is None else list(outs)

    def record_in(self, recorder: Recorder, args: Sequence[Value]) -> list[Value]:
        return self._unless_refused(Composite.record_in, recorder, args)

    def push_in(self, pusher: Pusher, args: Sequence[Value]) -> list[Value]:
        return self._unless_refused(Composite.push_in, pusher, args)

    def batch_in(self, batcher: Batcher, args: Sequence[Value]) -> list[Value]:
        return self._unless_refused(Composite.batch_in, batcher, args)

    def interpret(self, trace: Interpreter, args: Sequence[Value]) -> list[Value]:
        if isinstance(trace, Device):
            return trace.run_program(self.program, args)
        if isinstance(trace, Stager) and trace.keeps_compiled:
            return self._unless_refused(ProgramCall._as_equation, trace, args)
        return self.run(args)

    def _as_equation(self, stager: Stager, args: Sequence[Value]) -> list[Value]:
        return list(stager.process(COMPILED_CALL, tuple(args), {"compiled": self}))

    def _unless_refused(
        self,
        interpretation: Callable[[Any, Any, Sequence[Value]], list[Value]],
        trace: Trace,
        args: Sequence[Value],
    ) -> list[Value]:
        """Interpret the program as a whole, or operation by operation if that is refused."""
        try:
            return interpretation(self, trace, args)
        except GuardError:
            # A rule that is a program would refuse the values again in the reverse pass, too late
            # for another variant.
            if not runs_python(self.program):
                raise
        except FuncgradError:
            pass  # if it was not a derived program, the next line raises it again
        return self.run(args)

    def record(self, args: Sequence[Value], followed: Sequence[bool]) -> Recording:
        flags = tuple(followed)

        def make() -> _Derivative:
            return _Derivative(self.program, self._compile, flags, args)

        derivative = self._derived.get(("record", flags), make)
        results = derivative.forward.apply(args)
        count = len(self.program.outputs)
        saved = [*args, *results[count:]]
        pull, push = partial(derivative.pull, saved), partial(derivative.push, saved)
        return Recording(results[:count], pull, push, derivative.connected)

    def push(self, args: Sequence[Value], tangents: list[Value]) -> tuple[list[Value], list[Value]]:
        def make() -> tuple[ProgramCall, Layout]:
            both = with_pushforward(self.program, args, tangents)
            return self._call("push", both.program), both.layout

        call, layout = self._derived.get(("push", kinds(tangents)), make)
        results = call.apply([*args, *flat(tangents)])
        count = len(self.program.outputs)
        return results[:count], restored(layout, results[count:])

    def batch(
        self, size: int, args: Sequence[Value], flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[list[Value], tuple[bool, ...]]:
        def make() -> tuple[ProgramCall, tuple[bool, ...]]:
            batched = WithAux(
                lambda *values: run_batched(self.program.evaluate, size, values, flags)
            )
            staged = stage(batched)(*map(example, args))
            return self._call("batch", staged), tuple(batched.aux)

        call, out_flags = self._derived.get(("batch", size, tuple(flags)), make)
        return call.apply(args), out_flags

    def _call(self, kind: str, program: Program) -> ProgramCall:
        return _derived_call(self.program, kind, program, self._compile)


COMPILED_CALL: Final = call_primitive(
    "compiled_call",
    lambda values, *, compiled: compiled.apply(values),
    lambda *specs, compiled: compiled.program.results(*specs),
    Control(lambda *, compiled: [(compiled.program, 1)], inlines=True),
    label=lambda *, compiled: compiled.program.name,
)
"""A compiled program as an operation of a program."""


_Map: TypeAlias = tuple[LinearPart, ProgramCall]
"""A linear map of cotangents or tangents, and its program compiled."""


class _Derivative:
    """The programs by which a program is recorded when some of its arguments are followed.

    Attributes
    ----------
    forward : ProgramCall
        ``(arguments) -> results + residuals``. Residuals are the intermediate values of the results
        that the pullback reads; the pullback computes values that only it needs.
    connected : tuple of int
        The results that depend on the arguments that are followed.
    """

    __slots__ = ("_compile", "_followed", "_maps", "_program", "_taken", "connected", "forward")

    def __init__(
        self, program: Program, compile: Compile, followed: tuple[bool, ...], args: Sequence[Value]
    ) -> None:
        self._program = program
        self._compile = compile
        self._followed = followed
        self._maps = _Memo()
        self._taken = taken = Linearization(program, followed, args)
        self.connected = taken.connected
        self.forward = _derived_call(program, "forward", taken.forward, compile)
        specs = program.specs()
        cts = [whole_cotangent(specs[program.outputs[k]]) for k in self.connected]
        self._maps.get(("pull", kinds(cts)), lambda: self._compiled("pull", taken.first))

    def pull(self, saved: Sequence[Value], cts: Sequence[Cotangent]) -> list[Cotangent]:
        """The cotangents of the arguments, from the cotangents of the results."""
        args, connected_cts = saved[: len(self._followed)], [cts[k] for k in self.connected]

        def make() -> _Map:
            return self._compiled("pull", self._taken.pullback(args, cts))

        try:
            linear, call = self._maps.get(("pull", kinds(connected_cts)), make)
            return linear.apply(saved, connected_cts, call.apply)
        except FuncgradError:  # as when a rule branches on a cotangent
            return run_pulled(self._program.evaluate, args, self._followed, cts)[1]

    def push(self, saved: Sequence[Value], tangents: Sequence[Value]) -> list[Cotangent]:
        """The tangents of the results, from the tangents of the arguments; see ``pull``."""
        args = saved[: len(self._followed)]

        def make() -> _Map:
            return self._compiled("tangent", self._taken.pushforward(args, tangents))

        try:
            linear, call = self._maps.get(("push", kinds(tangents)), make)
            return linear.apply(saved, tangents, call.apply)
        except FuncgradError:
            return push_values(self._program.evaluate, args, tangents)

    def _compiled(self, kind: str, linear: LinearPart) -> _Map:
        return linear, _derived_call(self._program, kind, linear.program, self._compile)


def _derived_call(origin: Program, kind: str, program: Program, compile: Compile) -> ProgramCall:
    if not program.is_raw:
        raise TracerError(f"{origin.name}: a rule closes over a value that is being traced.")
    return ProgramCall(replace(optimize(program), name=f"{origin.name}_{kind}"), compile)


def by_numpy(optimized: Program, relaxed: bool) -> tuple[Program, Compiled]:
    """Prepare and compile with the NumPy backend, for programs that outlive their function."""
    prepared = numpy_backend().prepare(optimized, relaxed)
    return prepared, numpy_backend().compile(prepared)
