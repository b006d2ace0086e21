"""Operations of control flow, which transformations treat as a whole, by rules of their own.

A loop or a choice runs programs, which are its parameters. It computes its results together with
their tangents, or with the residuals of its pullback, so a transformation does not look inside it,
but asks it, as it asks every ``Composite``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from funcgrad._control.values import strong, strong_program
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, dtype_of, is_inexact
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._programs.equation import as_spec, spec_inside
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.call_values import has_linear_rules
from funcgrad._transforms.composite import Composite, Interpreter, Recording, bind_composite
from funcgrad._transforms.factors import fit_tangent
from funcgrad._transforms.flat_functions import CallPrimitive, call_primitive
from funcgrad._transforms.linear import LinearRecorder
from funcgrad.errors import DifferentiationError

Params: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Sequence[Value]


class ControlCall(Composite):
    """An operation of control flow with its parameters, among them programs.

    Attributes
    ----------
    primitive : Primitive
    params : mapping
    first : int
        The position of the first operand that the programs take.
    """

    __slots__ = ("params", "primitive")
    first: ClassVar[int] = 0

    def __init__(self, primitive: Primitive, params: Params) -> None:
        self.primitive = primitive
        self.params = params

    @abstractmethod
    def results(self, *specs: Spec) -> tuple[Spec, ...]:
        """The specs of the results, for operands of these specs."""

    @abstractmethod
    def runs(self) -> Sequence[tuple[Program, int | None]]:
        """The programs, and how often each runs; see ``Control``."""

    @abstractmethod
    def form(self) -> Loop | Choice | Program | None:
        """The operation as compilers write it; see ``Control``."""

    def leaner(self, read: Sequence[bool]) -> tuple[Params, list[int], list[int]] | None:
        """The operation without the work for unread results; see ``Control``."""
        return None

    def replayed(self) -> Params:
        """The parameters of the operation where it will run again; see ``Control``."""
        return self.params

    def label(self) -> str:
        """The name in the text of programs."""
        return self.primitive.name

    @abstractmethod
    def require_linear(self, followed: Sequence[bool]) -> None:
        """Raise unless the operation is linear in the followed operands."""

    @abstractmethod
    def record_flagged(self, args: Values, flags: Sequence[bool]) -> Recording:
        """Record as ``record`` does; flagged operands have derivatives."""

    @abstractmethod
    def push_fitted(self, args: Values, tangents: Values) -> tuple[list[Value], Values]:
        """Push as ``push`` does; the tangents have the shapes and dtypes of the arguments."""

    @property
    def is_raw(self) -> bool:
        """Whether no program closes over traced values."""
        return False not in [program.is_raw for program, _ in self.runs()]

    @property
    def is_linear(self) -> bool:
        return False not in [has_linear_rules(program) for program, _ in self.runs()]

    def evaluate(self, args: Values) -> list[Value]:
        return self.run([concrete(arg) for arg in args])

    def record(self, args: Values, followed: Sequence[bool]) -> Recording:
        pairs = zip(args, followed, strict=True)
        return self.record_flagged(
            args, [flag and is_inexact(dtype_of(arg)) for arg, flag in pairs]
        )

    def record_linearly(self, recorder: Interpreter, args: Values) -> list[Value]:
        if all(type(recorder.inner(arg)) in RAW for arg in args):
            return self.run(args)  # raw values tell which operations are affine
        self.require_linear([recorder.index_of(arg) >= 0 for arg in args])
        return self.record_in(recorder, args)

    def push(self, args: Values, tangents: list[Value]) -> tuple[list[Value], Values]:
        fitted_tangents = [
            fit_tangent(tangent, arg) if is_inexact(dtype_of(arg)) else None
            for arg, tangent in zip(args, tangents, strict=True)
        ]
        return self.push_fitted(args, fitted_tangents)

    def interpret(self, trace: Interpreter, args: Values) -> list[Value]:
        values, params = _of_arrays(args, self.params, self.first)
        return list(trace.process(self.primitive, values, params))


def control_primitive(
    name: str,
    call_class: type[ControlCall],
    begins: Callable[..., tuple[Primitive, Params, int]] | None = None,
    together: Callable[..., Program] | None = None,
) -> CallPrimitive:
    """Make the primitive for a class of calls; ``begins`` and ``together`` as for ``Control``."""

    def run(values: Values, **params: Any) -> list[Value]:
        control = call_class(primitive, params)
        if not control.is_raw:
            return control.run(values)  # the programs close over traced values
        return bind_composite(control, values)

    primitive: Final = call_primitive(
        name,
        run,
        lambda *specs, **params: call_class(primitive, params).results(*specs),
        Control(
            lambda **params: call_class(primitive, params).runs(),
            form=lambda **params: call_class(primitive, params).form(),
            leaner=lambda read, **params: call_class(primitive, params).leaner(read),
            begins=begins,
            together=together,
            replayed=lambda **params: call_class(primitive, params).replayed(),
        ),
        label=lambda **params: call_class(primitive, params).label(),
    )
    return primitive


def _of_arrays(values: Values, params: Params, first: int) -> tuple[tuple[Value, ...], Params]:
    """Fit an operation's operands and its programs to each other.

    A Python number that a loop carries becomes an element of an array where its values at all steps
    are stacked. Programs that took the number are then converted to take an array.
    """
    programs = {name: param for name, param in params.items() if isinstance(param, Program)}
    most = max([program.inputs for program in programs.values()], key=len)
    pairs = [*zip(values[first:], most, strict=False)]
    specs = [(spec_inside(value), spec) for value, spec in pairs]
    if False not in [one.dtype == spec.dtype and one.weak == spec.weak for one, spec in specs]:
        return tuple(values), params
    fitted = [as_spec(value, strong(spec)) for value, spec in pairs]
    strong_programs = {name: strong_program(program) for name, program in programs.items()}
    return (*values[:first], *fitted), {**params, **strong_programs}


def check_linear(name: str, program: Program, followed: Sequence[bool]) -> list[bool]:
    """Check that a program is linear in the followed inputs; return which results depend on them.

    Raises
    ------
    DifferentiationError
        The program is not linear.
    """

    def checked(values: Values) -> tuple[list[Value], list[bool]]:
        try:
            recorder, _, outs = LinearRecorder.run(program.evaluate, values, followed)
        except DifferentiationError as error:
            raise DifferentiationError(f"{error} (In the function that {name} runs.)") from error
        flags = [recorder.index_of(out) >= 0 for out in outs]
        return [recorder.inner(out) for out in outs], flags

    with_flags = WithAux(checked)
    flat_program(name, with_flags, program.inputs)
    return with_flags.aux
