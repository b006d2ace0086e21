"""Calls as values: everything that goes into such a call is an argument of it.

A function with rules of its own, and the rules, may read names and close over traced values. A
program is called later, so it holds programs of such a function and its rules, which are staged
with it. The traced values that they close over become arguments. Eagerly, a call becomes such a
value where it closes over values of a transformation inside of those that its arguments belong to.

Rules are staged together with the function, not when a derivative is first asked for: then the
traces whose values they close over may have ended, and only a rule that runs tells which values
these are (``tests/transforms/test_nested_calls.py``, "grad of jit"). Outside values that rules read
have to be fixed for good, also where a rule calls its function again, for which it has a stand-in
(``test_a_rule_may_close_over_a_name_that_is_bound_anew`` in ``tests/programs/test_calls.py``).

>>> import funcgrad as fg
>>> def f(x):
...     scaled = fg.custom_jvp(lambda y: x * y)
...     scaled.defjvp(lambda primals, tangents: (scaled(*primals), 10.0 * x * tangents[0]))
...     return scaled(x + 1.0)
>>> [len(equation.operands) for equation in fg.program(f)(2.0).equations], fg.grad(f)(2.0)
([2, 2], Tensor(23.0))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.structures import FOREIGN, Control
from funcgrad._core.trace import Value, concrete
from funcgrad._passes.dead_code import remove_dead_code
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Constant, Equation, Params, spec_inside
from funcgrad._programs.inline import inlined, with_changed_programs
from funcgrad._programs.program import Program
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.call import Call, Values
from funcgrad._transforms.calls import Part, RuleCall, with_closed
from funcgrad._transforms.composite import ClosureError, bind_composite
from funcgrad._transforms.flat_functions import FlatFunction, call_primitive
from funcgrad.errors import TracerError


def _meet(values: Values, *, call: Call, **settings: Any) -> list[Value]:
    try:
        return bind_composite(call.bound(), values)
    except ClosureError as error:  # all it closes over are arguments
        raise error.__cause__ or error from None


CUSTOM_CALL: Final = call_primitive(
    "custom_call",
    _meet,
    lambda *specs, body, call: body.results(*specs),
    Control(lambda *, body, call: [(body, 1)], inlines=True),
    label=lambda *, body, call: call.name,
)
"""A call with rules: ``body`` is the program of its function, ``call`` holds the rules."""


FOREIGN_CALL: Final = call_primitive(
    "foreign_call",
    lambda values, *, call, results, seen: _meet(values[: len(values) - seen], call=call),
    lambda *specs, call, results, seen: results,
    traits=FOREIGN,
    label=lambda *, call, results, seen: call.name,
)
"""A call that runs Python, as where a function hands a whole array to another library.

The last ``seen`` operands are traced values that it closes over.
"""


def foreign_params(call: Call, outs: Values, seen: int = 0) -> Params:
    """The parameters of a ``FOREIGN_CALL`` with these results."""
    specs = tuple([spec_inside(out) for out in outs])
    return ("call", call), ("results", specs), ("seen", seen)


def calls_in(equations: Iterable[Equation]) -> Iterator[Call]:
    """The calls with rules of their own among equations, and in the programs that these run."""
    for equation in equations:
        params, structure = dict(equation.params), equation.operation.structure
        call = params.get("call")
        if isinstance(call, Call):
            yield call
        if isinstance(structure, Control):
            for body, _ in structure.runs(**params):
                yield from calls_in(body.equations)


def has_rules(program: Program) -> bool:
    """Whether a program calls functions with rules of their own."""
    return program.derived("has rules", lambda: any(True for _ in calls_in(program.equations)))


def runs_python(program: Program) -> bool:
    """Whether derivatives of a program run Python rules of its calls."""
    return any(
        not isinstance(call, FrozenCall) or not call.rules for call in calls_in(program.equations)
    )


def has_linear_rules(program: Program) -> bool:
    """Whether the pullbacks of all calls in a program are linear for certain."""
    return program.derived(
        "has linear rules", lambda: all(call.is_linear for call in calls_in(program.equations))
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrozenCall(Call):
    """A call as a value: the programs of the function and of its rules.

    Attributes
    ----------
    kind : type
        The class of calls that it belongs to.
    signature : CallSignature
    function : Part
    rules : tuple of Part
        Each takes all values that the call closes over as its last inputs.
    closed : int
        How many values the call closes over.
    known : int
        So many of the last arguments stand for values that it closed over before.
    users_call : RuleCall, optional
        The call as the user made it, if its rules are not programs.
    around : tuple of FrozenCall or None
        The calls in whose rules it was made, the outermost first; None until that one is known.
        The values that these close over are further arguments.
    """

    kind: type[RuleCall]
    signature: Any
    function: Part
    rules: tuple[Part, ...] = ()
    closed: int = 0
    known: int = 0
    users_call: RuleCall | None = None
    around: tuple[FrozenCall | None, ...] = ()

    @property
    def is_linear(self) -> bool:
        if self.users_call is not None:
            return self.users_call.is_linear
        linear = [has_linear_rules(rule.program) for rule in self.rules]
        return self.kind.has_linear_pullback and all(linear)

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def origin(self) -> Hashable:
        users_origin = None if self.users_call is None else self.users_call.origin
        programs = self.function, self.rules
        return self.kind, programs, self.closed, self.known, users_origin, self.around

    def bound(self) -> RuleCall:
        function = partial(self._run, self.function, False)
        if self.users_call is not None:
            call = copy(self.users_call)
            call.function, call.frozen = (lambda values: function(values, ())), self
            return call
        closed = sum([call.closed for call in (self, *self.around) if call])
        args = len(self.function.program.inputs) - self.closed
        programs = [partial(self._run, rule, True) for rule in self.rules]
        outs = len(self.function.present)
        rules = self.kind.rules_with_closed(self.signature, function, programs, args, outs)

        def run(values: Values) -> list[Value]:
            return function(values[:args], values[args:])

        return self.kind(run, self.signature, self.origin, rules, closed + self.known, self)

    def _run(self, staged: Part, is_rule: bool, args: Values, closed: Values) -> list[Value]:
        """Run the function or a rule; ``closed`` includes values of the calls around."""
        values = iter(closed)
        mine, *others = [
            None if call is None else Frame(call, tuple(islice(values, call.closed)))
            for call in (self, *self.around)
        ]
        assert mine is not None
        program = within(staged.program, [*others, mine] if is_rule else others)
        results = iter(program.evaluate([*map(concrete, args), *mine.closed]))
        return [next(results) if flag else None for flag in staged.present]

    def within(self, frames: Frames) -> tuple[Call, tuple[Value, ...]]:
        count = len(self.around)
        outer = [*frames[:count], *[None] * (count - len(frames))]
        if any(self.around) or not any(outer):
            return self, ()
        # A call that was staged within others, and needs none of them, may run within fewer.
        around = tuple([None if frame is None else frame.call for frame in outer])
        return replace(self, around=around), _closed(outer)

    def __eq__(self, other: object) -> bool:
        return self.origin == other.origin if isinstance(other, FrozenCall) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.kind, self.closed))  # programs beside it are hashed


class Frame(NamedTuple):
    """A call while one of its rules runs, and the values that the call closes over."""

    call: FrozenCall
    closed: tuple[Value, ...]


Frames: TypeAlias = Sequence[Frame | None]
"""The calls whose rules run around a program, the outermost first; None for one not known yet."""


def _closed(frames: Frames) -> tuple[Value, ...]:
    return tuple([value for frame in frames if frame is not None for value in frame.closed])


def within(program: Program, frames: Frames) -> Program:
    """Fit a program to run in the rules of these calls.

    Where it calls one of them again, a stand-in is replaced by that call, with the values that the
    call closes over as constants.
    """
    if not frames or not has_rules(program):
        return program
    changes = [_equation_within(equation, frames) for equation in program.equations]
    if not any(closed for _, closed in changes):
        equations = tuple([fitted for fitted, _ in changes])
        unchanged = all(map(is_, equations, program.equations))
        return program if unchanged else replace(program, equations=equations)
    remaining = iter(changes)

    def step(draft: Draft, equation: Equation) -> list[int]:
        fitted, closed = next(remaining)
        more = [draft.constant(Constant(value)) for value in closed]
        return draft.append(fitted.on((*equation.operands, *more)))

    return rewrite(program, step)


def _equation_within(equation: Equation, frames: Frames) -> tuple[Equation, tuple[Value, ...]]:
    """Fit an equation to run in the rules of these calls; also its further operands there."""
    params = dict(equation.params)
    call = params.get("call")
    if not isinstance(call, Call):
        return with_changed_programs(equation, lambda body: within(body, frames)), ()
    params["call"], closed = call.within(frames)
    fitted = equation if params["call"] is call else replace(equation, params=tuple(params.items()))
    return fitted, closed


@dataclass(frozen=True, slots=True, repr=False)
class _Recursion(Call):
    """Stands for a call within its own rule, which calls the function again.

    Attributes
    ----------
    title : str
        The call's name.
    level : int
        The number of other calls in whose rules that one was made.
    """

    title: str
    level: int

    @property
    def name(self) -> str:
        return self.title

    def bound(self) -> Call:
        raise TracerError(f"{self.name}: the function's own rule calls it while that is staged.")

    def within(self, frames: Frames) -> tuple[Call, tuple[Value, ...]]:
        frame = frames[self.level]
        if frame is None:
            return self, ()
        return frame.call, (*frame.closed, *_closed(frames[: self.level]))


class OpenCall(NamedTuple):
    """A call whose rules are being staged, and its function as staged.

    ``level`` is the number of other calls in whose rules it was made.
    """

    call: RuleCall
    body: Part
    level: int

    @property
    def inside(self) -> Call:
        """Its stand-in within its own rules."""
        return _Recursion(self.call.name, self.level)

    def run(self, args: Values) -> list[Value]:
        """The results for arguments given within its own rules."""
        return self.body.program.evaluate([*map(concrete, args), *self.body.closed])


OpenCalls: TypeAlias = Mapping[Hashable, OpenCall]
"""The calls whose rules are being staged, the outermost first, under their ``key_of``."""


def key_of(call: RuleCall, values: Values) -> Hashable:
    """A key that is equal for calls with the same rules and arguments of the same kinds."""
    return call.origin, tuple([spec_inside(value) for value in values])


def staged_part(
    stager: Any, run: FlatFunction, name: str, values: Values, open_calls: OpenCalls | None = None
) -> Part:
    """Stage a function of values as a program; some of its results may be None.

    Equations whose results nothing reads are left out: they need not be linear, as a rule has to.
    """

    def of_present(inputs: Values) -> tuple[list[Value], tuple[bool, ...]]:
        results = run(inputs)
        present = tuple([result is not None for result in results])
        return [result for result in results if result is not None], present

    function = WithAux(of_present)
    program, closed, outs = stager.nested(function, name, values, open_calls)
    for equation in inlined(program).equations:
        if equation.operation is FOREIGN_CALL and dict(equation.params)["seen"]:
            raise TracerError(
                f"{equation.name}: the function closes over a traced value and cannot be staged,"
                " so the derivative with respect to that value is unknown. Pass it as an argument."
            )
    return Part(remove_dead_code(program), closed, outs, function.aux)


def frozen_call(
    stager: Any, call: RuleCall, values: Values, body: Part
) -> tuple[FrozenCall, tuple[Value, ...]]:
    """Make a call a value; also return the values that it closes over, which become operands.

    ``values`` are arguments to stage its rules with, ``body`` is its function as staged. Raises the
    error of a rule that cannot be staged where the call closes over traced values.
    """
    level = len(stager.open_calls)
    open_calls = {**stager.open_calls, key_of(call, values): OpenCall(call, body, level)}
    looks: list[bool] = []

    def stage(run: FlatFunction, inputs: Values, linear: int = 0, within: Any = stager) -> Part:
        rule = staged_part(within, run, call.name, inputs, open_calls)
        looks.append(_looks(rule.program, range(len(inputs) - linear, len(inputs))))
        return rule

    parts, failure = [body], None
    try:
        parts += call.staged_rules(stage, values, body.results)
    except Exception as error:  # it may be one that nobody will need
        failure = error
    closed = tuple({id(value): value for staged in parts for value in staged.closed}.values())
    if failure is not None and closed:
        raise failure
    function, *rules = [
        Part(with_closed(staged.program, staged.closed, closed), present=staged.present)
        for staged in parts
    ]
    # A rule that uses values of tangents or cotangents in Python holds for those values only.
    users_call = call if failure is not None or (any(looks) and not closed) else None
    frozen_rules = () if users_call else tuple(rules)
    around, count = (None,) * level, len(closed)
    return FrozenCall(
        type(call), call.signature, function, frozen_rules, count, call.closed, users_call, around
    ), closed


def _looks(program: Program, inputs: Iterable[int]) -> bool:
    """Whether a program uses values that depend on some of its inputs in Python."""
    flat = inlined(program)
    if not flat.guards:
        return False
    reached = {*inputs}
    for equation, results in zip(flat.equations, flat.index.results, strict=True):
        if not reached.isdisjoint(equation.operands):
            reached.update(results)
    return not reached.isdisjoint(flat.index.guarded)


class StagedCalls(NamedTuple):
    """The calls that were staged within one call, so that each is staged once.

    The function of a call and its rules may call the same other functions, and these again others.
    Only calls are kept that depend on nothing but the kinds of their arguments.

    Attributes
    ----------
    known : dict
        Of each call: the call as it was met first, its value and its function as staged.
    ties : list of int
        The levels of the calls that were met again within their own rules.
    """

    known: dict[Hashable, tuple[RuleCall, FrozenCall, Part]]
    ties: list[int]


def staged_call(
    stager: Any, call: RuleCall, values: Values, is_known: bool
) -> tuple[FrozenCall, Part, tuple[Value, ...]]:
    """A call as a value, the program of its function, and its operands besides its arguments.

    ``is_known`` says whether the values of the arguments are known.

    Raises
    ------
    Exception
        The function cannot be staged, as where it hands its arrays to another library.
    """
    if stager.calls is None:
        stager.calls = StagedCalls({}, [])
        try:
            return _staged_call(stager, call, values)
        finally:
            stager.calls = None
    calls: StagedCalls = stager.calls
    key = key_of(call, values)
    if key in calls.known:
        first, frozen, body = calls.known[key]
        call.adopt(first)
        if is_known:
            body = body._replace(results=body.program.evaluate([*map(concrete, values)]))
        return frozen, body, ()
    before, level = len(calls.ties), len(stager.open_calls)
    frozen, body, closed = _staged_call(stager, call, values)
    if closed or any(tie < level for tie in calls.ties[before:]) or frozen.users_call is not None:
        return frozen, body, closed  # it depends on values, or on calls in whose rules it is
    programs = [body.program, *[rule.program for rule in frozen.rules]]
    if not any(inlined(program).guards for program in programs):
        calls.known[key] = call, frozen, body
    return frozen, body, closed


def _staged_call(
    stager: Any, call: RuleCall, values: Values
) -> tuple[FrozenCall, Part, tuple[Value, ...]]:
    body = staged_part(stager, call.run, call.name, values)
    if any(guard.use == "number" for guard in inlined(body.program).guards):
        # Then its results are not constants, as in a program that holds for these values only.
        raise TracerError(f"{call.name}: the function uses values of its arguments in Python.")
    frozen, closed = (call.frozen, ()) if call.frozen else frozen_call(stager, call, values, body)
    return frozen, body, closed
