"""Calls as values: everything that goes into such a call is an argument of it.

A function with rules of its own, and the rules, may read names and close over traced values. A
program is called later, so it holds programs of such a function and its rules, which are staged
with it. The traced values that they close over become arguments. Eagerly, a call becomes such a
value where it closes over values of a transformation inside of those that its arguments belong to.
The rules give derivatives with respect to the arguments. Derivatives with respect to closed-over
values come from the function's own operations.

Why rules are staged together with the function, and not when a derivative is first asked for: then
the traces whose values they close over may have ended, so these have to be operands by now, and
only a rule that runs tells which (``tests/transforms/test_nested_calls.py``, the modes "grad of
jit" and "grad of program"). Outside values that they read have to be fixed for good, also where a
rule calls its function again, which takes a stand-in for the call in its own rules
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

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
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
from funcgrad._transforms.call import Call, Part, Sizes
from funcgrad._transforms.composite import ClosureError, bind_composite
from funcgrad._transforms.flat_functions import call_primitive
from funcgrad.errors import TracerError

OpenCalls: TypeAlias = Mapping[Hashable, "OpenCall"]
"""The calls whose rules are being staged, the outermost first, under their ``key_of``."""


Frames: TypeAlias = "Sequence[Frame | None]"
"""The calls whose rules run around a program, the outermost first; None for one not known yet."""


def _meet(values: Sequence[Value], *, call: Call, **settings: Any) -> list[Value]:
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


def foreign_params(call: Call, outs: Sequence[Value], seen: int = 0) -> Params:
    """The parameters of a ``FOREIGN_CALL`` with these results."""
    specs = tuple([spec_inside(out) for out in outs])
    return ("call", call), ("results", specs), ("seen", seen)


def within(program: Program, frames: Frames) -> Program:
    """Fit a program to run in the rules of these calls.

    Where it calls one of them again, a stand-in is replaced by that call, with the values that the
    call closes over as constants.
    """
    if not frames:
        return program
    changes = [_equation_within(equation, frames) for equation in program.equations]
    if any(closed for _, closed in changes):
        changed = iter(changes)

        def step(draft: Draft, equation: Equation) -> list[int]:
            fitted, closed = next(changed)
            more = [draft.constant(Constant(value)) for value in closed]
            return draft.append(fitted.on((*equation.operands, *more)))

        return rewrite(program, step)
    if all(
        fitted is equation for (fitted, _), equation in zip(changes, program.equations, strict=True)
    ):
        return program
    return replace(program, equations=tuple([fitted for fitted, _ in changes]))


def _equation_within(equation: Equation, frames: Frames) -> tuple[Equation, tuple[Value, ...]]:
    """Fit an equation to run in the rules of these calls; also its further operands there."""
    if not equation.params:
        return equation, ()
    params = dict(equation.params)
    call = params.get("call")
    if not isinstance(call, Call):
        return with_changed_programs(equation, lambda body: within(body, frames)), ()
    params["call"], closed = call.within(frames)
    fitted = equation if params["call"] is call else replace(equation, params=tuple(params.items()))
    return fitted, closed


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
    return any(True for _ in calls_in(program.equations))


def runs_python(program: Program) -> bool:
    """Whether derivatives of a program run Python rules of its calls."""
    return any(
        not isinstance(call, FrozenCall) or call.users_call is not None
        for call in calls_in(program.equations)
    )


def has_linear_rules(program: Program) -> bool:
    """Whether the pullbacks of all calls in a program are linear for certain."""
    return program.derived(
        "has linear rules", lambda: all(call.is_linear for call in calls_in(program.equations))
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """The function of a call, or one of its rules, as a program.

    Attributes
    ----------
    program : Program
    places : tuple of int
        Which of the values that the call closes over are the program's last inputs.
    present : tuple of bool
        Which results are values; the others are None.
    """

    program: Program
    places: tuple[int, ...]
    present: tuple[bool, ...]

    def run(self, frames: Frames, args: Sequence[Value], closed: Sequence[Value]) -> list[Value]:
        """The results, in the rules of these calls."""
        values = [*map(concrete, args), *[closed[place] for place in self.places]]
        results = iter(within(self.program, frames).evaluate(values))
        return [next(results) if flag else None for flag in self.present]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrozenCall(Call):
    """A call as a value: the programs of the function and of its rules.

    Attributes
    ----------
    kind : type
        The class of calls that it belongs to.
    signature : CallSignature
    function : _Rule
    rules : tuple of _Rule
    sizes : Sizes
    users_call : Call, optional
        The call as the user made it, if its rules are not programs.
    around : tuple of FrozenCall or None
        The calls in whose rules it was made, the outermost first; None until that one is known.
        The values that these close over are further arguments.
    """

    kind: Any
    signature: Any
    function: _Rule
    rules: tuple[_Rule, ...]
    sizes: Sizes
    users_call: Call | None
    around: tuple[FrozenCall | None, ...]

    @property
    def is_linear(self) -> bool:
        if self.users_call is not None:
            return self.users_call.is_linear
        rules = [rule.program for rule in self.rules]
        return self.kind.has_linear_pullback and all(map(has_linear_rules, rules))

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def origin(self) -> Hashable:
        users_origin = None if self.users_call is None else self.users_call.origin
        return self.kind, self.function, self.rules, self.sizes, users_origin, self.around

    def bound(self) -> Call:
        function = partial(self._run_rule, self.function)
        if self.users_call is None:
            rules = [partial(self._run_rule, rule, is_rule=True) for rule in self.rules]
            sizes = self.sizes
            if self.around:
                closed = sum([call.sizes.closed for call in (self, *self.around) if call])
                sizes = sizes._replace(closed=closed)
            bound_call: Call = self.kind.opened(self.signature, self.origin, function, rules, sizes)
        else:
            bound_call = self.users_call.over(lambda values: function(values, ()))
        bound_call.frozen = self
        return bound_call

    def _run_rule(
        self, rule: _Rule, args: Sequence[Value], closed: Sequence[Value], is_rule: bool = False
    ) -> list[Value]:
        """Run the function or a rule; ``closed`` includes values of the calls around."""
        values = iter(closed)
        mine, *others = [
            None if call is None else Frame(call, tuple(islice(values, call.sizes.closed)))
            for call in (self, *self.around)
        ]
        assert mine is not None
        return rule.run([*others, mine] if is_rule else others, args, mine.closed)

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
        return hash((self.kind, self.sizes))  # programs beside it are hashed


class Frame(NamedTuple):
    """A call while one of its rules runs, and the values that the call closes over."""

    call: FrozenCall
    closed: tuple[Value, ...]


def _closed(frames: Frames) -> tuple[Value, ...]:
    return tuple([value for frame in frames if frame is not None for value in frame.closed])


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

    @property
    def origin(self) -> Hashable:
        return self

    def bound(self) -> Call:
        raise TracerError(f"{self.name}: the function's own rule calls it while that is staged.")

    def within(self, frames: Frames) -> tuple[Call, tuple[Value, ...]]:
        frame = frames[self.level]
        if frame is None:
            return self, ()
        return frame.call, (*frame.closed, *_closed(frames[: self.level]))


class OpenCall:
    """A call whose rules are being staged.

    Attributes
    ----------
    call : Call
        The call as the user made it.
    inside : Call
        Its stand-in within its own rules.
    level : int
        The number of other calls in whose rules it was made.
    """

    __slots__ = ("_body", "call", "inside", "level")

    def __init__(self, call: Call, body: Part, level: int) -> None:
        self.call = call
        self.inside = _Recursion(call.name, level)
        self.level = level
        self._body = body

    @property
    def results(self) -> Sequence[Value]:
        """The results for the arguments that the call was staged with."""
        return self._body.results

    def run(self, args: Sequence[Value]) -> list[Value]:
        """The results for arguments given within its own rules."""
        values = [*map(concrete, args), *self._body.closed]
        return self._body.program.evaluate(values)


def key_of(call: Call, values: Sequence[Value]) -> Hashable:
    """A key that is equal for calls with the same rules and arguments of the same kinds."""
    return call.origin, tuple([spec_inside(value) for value in values])


def staged_part(
    stager: Any,
    run: Callable[[Sequence[Value]], Sequence[Value]],
    name: str,
    values: Sequence[Value],
    open_calls: OpenCalls | None = None,
) -> Part:
    """Stage a function of values as a program; some of its results may be None.

    Equations whose results nothing reads are left out: they need not be linear, as a rule has to.
    """

    def there(inputs: Sequence[Value]) -> tuple[list[Value], tuple[bool, ...]]:
        results = run(inputs)
        present = tuple([result is not None for result in results])
        return [result for result in results if result is not None], present

    with_present = WithAux(there)
    program, closed, outs = stager.nested(with_present, name, values, open_calls)
    for equation in inlined(program).equations:
        if equation.operation is FOREIGN_CALL and dict(equation.params)["seen"]:
            raise TracerError(
                f"{equation.name}: the function closes over a traced value and cannot be staged,"
                " so the derivative with respect to that value is unknown. Pass it as an argument."
            )
    return Part(remove_dead_code(program), tuple(closed), with_present.aux, tuple(outs))


def frozen_call(
    stager: Any, call: Any, values: Sequence[Value], body: Part
) -> tuple[FrozenCall, tuple[Value, ...]]:
    """Make a call a value; also return the values that it closes over, which become operands.

    ``values`` are arguments to stage its rules with, ``body`` is its function as staged. Raises the
    error of a rule that cannot be staged where the call closes over traced values.
    """
    level = len(stager.open_calls)
    open_calls = {**stager.open_calls, key_of(call, values): OpenCall(call, body, level)}
    looks: list[bool] = []

    def stage(run: Any, inputs: Sequence[Value], linear: int = 0) -> Part:
        rule_part = staged_part(stager, run, call.name, inputs, open_calls)
        looks.append(_looks(rule_part.program, range(len(inputs) - linear, len(inputs))))
        return rule_part

    rules: Sequence[Part] = ()
    failure: Exception | None = None
    try:
        rules = call.stage_rules(stage, values, body.results)
    except Exception as error:  # it may be one that nobody will need
        failure = error
    closed = tuple(
        {id(value): value for staged in (body, *rules) for value in staged.closed}.values()
    )
    if failure is not None and closed:
        raise failure
    places = {id(value): place for place, value in enumerate(closed)}

    def rule(staged: Part) -> _Rule:
        return _Rule(
            staged.program, tuple([places[id(value)] for value in staged.closed]), staged.present
        )

    # A rule that uses values of tangents or cotangents in Python holds for those values only.
    users_call = call if failure is not None or (any(looks) and not closed) else None
    sizes = Sizes(len(values), len(closed), len(body.results), call.closed)
    frozen_rules = () if users_call else tuple(map(rule, rules))
    signature, around = call.signature, (None,) * level
    return FrozenCall(
        type(call), signature, rule(body), frozen_rules, sizes, users_call, around
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
