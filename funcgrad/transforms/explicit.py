"""Calls as values: of which everything that goes in is an argument.

A function with rules of its own, and the rules, may read names and close over traced values. A
program is called later, so what it holds of such a call are programs: the function and its rules
are staged with it, and what they do is fixed. The traced values that they close over become
arguments. Eagerly a call is made such a value where it closes over values of a transformation
inside of those that its arguments belong to. The rules say what the derivative in the arguments
is; in what is closed over it is that of the function's own operations.

>>> import funcgrad as fg
>>> def f(x):
...     scaled = fg.custom_jvp(lambda y: x * y)
...     scaled.defjvp(lambda primals, tangents: (scaled(*primals), 10.0 * x * tangents[0]))
...     return scaled(x + 1.0)
>>> [len(equation.operands) for equation in fg.program(f)(2.0).equations], fg.grad(f)(2.0)
([2, 2], Tensor(23.0))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from funcgrad.errors import TracerError
from funcgrad.passes.dead_code import remove_dead_code
from funcgrad.primitive import Primitive
from funcgrad.programs.equation import body_of, spec_inside
from funcgrad.programs.inline import inlined
from funcgrad.programs.program import Program
from funcgrad.trace import Value, concrete
from funcgrad.transforms.call import Call, ClosureError, Part, Sizes, bind_call

__all__ = [
    "Frames",
    "FrozenCall",
    "Knot",
    "Knots",
    "StagedCall",
    "explicit",
    "key_of",
    "part",
    "runs_python",
    "staged_call",
    "within",
]

Knots: TypeAlias = Mapping[Hashable, "Knot"]
"""The calls whose rules are being staged, by what ``key_of`` says of them; the outermost first."""


Frames: TypeAlias = "Sequence[Frame | None]"
"""The calls in whose rules something stands, the outermost first; None for one not known yet."""


@dataclass(frozen=True, slots=True, eq=False)
class StagedCall:
    """A call with rules of its own as an operation of a program.

    Attributes
    ----------
    call : Call
    program : Program, optional
        What it computes, unless it looks at all the numbers of an array.
    arity : int, optional
        How many of its operands it is put on; any others are what it closes over.
    closed : tuple of values
        What it is put on besides.
    """

    call: Call
    program: Program | None
    arity: int | None = None
    closed: tuple[Value, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operation in the text of a program."""
        return self.call.name

    def bind(self, values: Sequence[Value]) -> list[Value]:
        """Apply it under whatever transformations follow the values."""
        try:
            return bind_call(self.call.bound(), [*values[: self.arity], *self.closed])
        except ClosureError as error:  # all it closes over are arguments
            raise error.__cause__ or error from None

    def within(self, frames: Frames) -> StagedCall:
        """The operation in the rules of these calls."""
        call, closed = self.call.within(frames)
        return self if call is self.call else replace(self, call=call, closed=closed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StagedCall):
            return NotImplemented
        same = self.program is not None and self.program == other.program
        return self.call == other.call or (same and self.call.origin == other.call.origin)

    def __hash__(self) -> int:
        return hash((self.program, self.call.origin))


def within(program: Program, frames: Frames) -> Program:
    """A program in the rules of these calls: where one of them is meant, it is there."""
    changed = False
    equations = []
    for equation in program.equations:
        if not isinstance(equation.operation, Primitive):
            operation = equation.operation.within(frames)
            if operation is not equation.operation:
                equation, changed = replace(equation, operation=operation), True
        equations.append(equation)
    return replace(program, equations=tuple(equations)) if changed else program


def runs_python(program: Program) -> bool:
    """Whether derivatives of a program run Python rules of its calls."""
    for equation in program.equations:
        call = equation.operation.call if isinstance(equation.operation, StagedCall) else None
        if call is not None and not (isinstance(call, FrozenCall) and call.kept is None):
            return True
        body = body_of(equation)
        if body is not None and runs_python(body):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Rule:
    """A function of values as a program.

    Attributes
    ----------
    program : Program
    places : tuple of int
        Which of the values that its call closes over are the program's last inputs.
    present : tuple of bool
        Which of its results are there; the others are None.
    """

    program: Program
    places: tuple[int, ...]
    present: tuple[bool, ...]

    def run(self, frames: Frames, own: Sequence[Value], closed: Sequence[Value]) -> list[Value]:
        """Its results, in the rules of these calls."""
        values = [*map(concrete, own), *[closed[place] for place in self.places]]
        results = iter(within(self.program, frames).evaluate(values))
        return [next(results) if flag else None for flag in self.present]


@dataclass(frozen=True, slots=True, eq=False)
class FrozenCall(Call):
    """A call as a value: the programs of the function and of its rules.

    Attributes
    ----------
    kind : type
        Of call.
    signature : CallSignature
    function : _Rule
    rules : tuple of _Rule
    sizes : Sizes
    kept : Call, optional
        The call as the user made it, if its rules are no programs.
    around : tuple of FrozenCall or None
        The calls in whose rules it was made, the outermost first; None until that one is known.
        What they close over are further arguments of it.
    """

    kind: Any
    signature: Any
    function: _Rule
    rules: tuple[_Rule, ...]
    sizes: Sizes
    kept: Call | None
    around: tuple[FrozenCall | None, ...]

    @property
    def name(self) -> str:
        name: str = self.signature.name
        return name

    @property
    def origin(self) -> Hashable:
        kept = None if self.kept is None else self.kept.origin
        return self.kind, self.function, self.rules, self.sizes, kept, self.around

    def bound(self) -> Call:
        function = partial(self._run, self.function)
        if self.kept is None:
            rules = [partial(self._run, rule, is_rule=True) for rule in self.rules]
            closed = sum([call.sizes.closed for call in (self, *self.around) if call])
            sizes = self.sizes._replace(closed=closed)
            own: Call = self.kind.opened(self.signature, self.origin, function, rules, sizes)
        else:
            own = self.kept.over(lambda values: function(values, ()))
        own.frozen = self
        return own

    def _run(
        self, rule: _Rule, own: Sequence[Value], closed: Sequence[Value], is_rule: bool = False
    ) -> list[Value]:
        """The function or a rule, where it stands."""
        rest = iter(closed)
        mine, *others = [
            None if call is None else Frame(call, tuple(islice(rest, call.sizes.closed)))
            for call in (self, *self.around)
        ]
        assert mine is not None
        return rule.run([*others, mine] if is_rule else others, own, mine.closed)

    def within(self, frames: Frames) -> tuple[Call, tuple[Value, ...]]:
        known = [frame for frame in frames[: len(self.around)] if frame is not None]
        if None not in self.around or len(known) < len(self.around):
            return self, ()
        around = tuple([frame.call for frame in known])
        return replace(self, around=around), _closed(known)

    def __eq__(self, other: object) -> bool:
        return self.origin == other.origin if isinstance(other, FrozenCall) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.origin)


class Frame(NamedTuple):
    """A call one of whose rules runs, and what it is put on there besides its arguments."""

    call: FrozenCall
    closed: tuple[Value, ...]


def _closed(frames: Frames) -> tuple[Value, ...]:
    return tuple([value for frame in frames if frame is not None for value in frame.closed])


@dataclass(frozen=True, slots=True)
class _Recursion(Call):
    """The call that a rule belongs to, as it stands within that rule.

    Attributes
    ----------
    title : str
        The call's name.
    level : int
        In the rules of how many other calls that one was made.
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


class Knot:
    """A call whose rules are being staged.

    Attributes
    ----------
    call : Call
        The call as the user made it.
    operation : StagedCall
        What stands for it in its rules.
    """

    __slots__ = ("_body", "call", "operation")

    def __init__(self, call: Call, body: Part, level: int) -> None:
        self.call = call
        self.operation = StagedCall(_Recursion(call.name, level), None)
        self._body = body

    def run(self, args: Sequence[Value]) -> list[Value]:
        """The results that it has there."""
        values = [*map(concrete, args), *self._body.closed]
        results: list[Value] = self._body.program.evaluate(values)
        return results


def key_of(call: Call, values: Sequence[Value]) -> Hashable:
    """Two calls with the same have the same rules, for arguments of the same kinds."""
    return call.origin, tuple([spec_inside(value) for value in values])


def part(
    stager: Any,
    run: Callable[[Sequence[Value]], Sequence[Value]],
    name: str,
    values: Sequence[Value],
    knots: Knots | None = None,
) -> Part:
    """A function of values, some of whose results may be None, as a program.

    What it does for nothing is no part of that: a rule may do what is not linear for nothing.
    """
    present: list[bool] = []

    def there(own: Sequence[Value]) -> list[Value]:
        results = run(own)
        present[:] = [result is not None for result in results]
        return [result for result in results if result is not None]

    program, closed, outs = stager.nested(there, name, values, knots)
    for equation in inlined(program).equations:
        operation = equation.operation
        if isinstance(operation, StagedCall) and operation.arity not in (
            None,
            len(equation.operands),
        ):
            raise TracerError(
                f"{operation.name}: the function closes over a traced value and cannot be staged,"
                " so nobody knows the derivative in that value. Pass it as an argument."
            )
    return Part(remove_dead_code(program), tuple(closed), tuple(present), tuple(outs))


def staged_call(
    stager: Any, call: Call, values: Sequence[Value]
) -> tuple[StagedCall, Sequence[Value], tuple[Value, ...]]:
    """A call as an operation, its results, and what it is to be put on besides its arguments.

    Raises
    ------
    Exception
        The function cannot be staged, as where it leaves its numbers to another library.
    """
    body = part(stager, call.run, call.name, values)
    if any(guard.use == "number" for guard in inlined(body.program).guards):
        # Then its results are no constants of a program that holds for these numbers only.
        raise TracerError(f"{call.name}: the function takes numbers out of its arguments.")
    own, closed = (call.frozen, ()) if call.frozen else explicit(stager, call, values, body)
    return StagedCall(own, body.program), body.results, closed


def explicit(
    stager: Any, call: Any, values: Sequence[Value], body: Part
) -> tuple[FrozenCall, tuple[Value, ...]]:
    """A call as a value, and what it is to be put on besides its arguments.

    Parameters
    ----------
    stager : Stager
        Stages the rules.
    call : Call
    values : sequence of values
        Arguments to stage with.
    body : Part
        What the function does.

    Raises
    ------
    Exception
        Something is closed over, and the rules cannot be staged.
    """
    level = len(stager.knots)
    knots = {**stager.knots, key_of(call, values): Knot(call, body, level)}
    looks: list[bool] = []

    def stage(run: Any, own: Sequence[Value], linear: int = 0) -> Part:
        found = part(stager, run, call.name, own, knots)
        looks.append(_looks(found.program, range(len(own) - linear, len(own))))
        return found

    rules: Sequence[Part] = ()
    failure: Exception | None = None
    try:
        rules = call.stage_rules(stage, values, body.results)
    except Exception as error:  # it may be one that nobody will need
        failure = error
    closed = tuple({id(each): each for own in (body, *rules) for each in own.closed}.values())
    if failure is not None and closed:
        raise failure
    places = {id(value): place for place, value in enumerate(closed)}

    def rule(own: Part) -> _Rule:
        return _Rule(own.program, tuple([places[id(value)] for value in own.closed]), own.present)

    # Of what a cotangent's numbers will be nobody knows.
    kept = call if failure is not None or (any(looks) and not closed) else None
    sizes = Sizes(len(values), len(closed), len(body.results))
    own_rules = () if kept else tuple(map(rule, rules))
    signature, around = call.signature, (None,) * level
    return FrozenCall(type(call), signature, rule(body), own_rules, sizes, kept, around), closed


def _looks(program: Program, inputs: Iterable[int]) -> bool:
    """Whether a program looks at numbers that depend on some of its inputs."""
    flat = inlined(program)
    if not flat.guards:
        return False
    reached = {*inputs}
    number = len(flat.inputs) + len(flat.constants)
    for equation in flat.equations:
        if not reached.isdisjoint(equation.operands):
            reached.update(range(number, number + len(equation.results)))
        number += len(equation.results)
    return any(guard.variable in reached for guard in flat.guards)
