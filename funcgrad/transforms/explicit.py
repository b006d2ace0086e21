"""Calls of which everything that goes in is an argument.

A function with rules of its own, and the rules, may close over traced values. In a program, which
is called later, and where such a value belongs to a transformation inside of those that the
arguments belong to, the call is put on the values that it closes over as well: they are found by
staging the function and its rules, and what was staged takes the functions' place. The rules say
what the derivative in the arguments is; in what is closed over it is that of the function's own
operations.

>>> import funcgrad as fg
>>> def f(x):
...     scaled = fg.custom_jvp(lambda y: x * y)
...     scaled.defjvp(lambda primals, tangents: (scaled(*primals), 10.0 * x * tangents[0]))
...     return scaled(x + 1.0)
>>> [len(equation.operands) for equation in fg.program(f)(2.0).equations], fg.grad(f)(2.0)
([2, 2], Tensor(23.0))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from weakref import ref

from funcgrad.errors import TracerError
from funcgrad.programs.equation import spec_inside
from funcgrad.programs.inline import inlined
from funcgrad.programs.program import Program
from funcgrad.trace import Value, running_traces
from funcgrad.transforms.call import Call, ClosureError, Part, Sizes, bind_call

__all__ = ["Knot", "Knots", "StagedCall", "explicit", "key_of", "part", "staged_call"]

Knots: TypeAlias = Mapping[Hashable, "Knot"]
"""The calls whose rules are being staged, by what ``key_of`` says of them."""

_CLOSED: Final[ContextVar[Any]] = ContextVar("funcgrad_closed", default=None)
"""In this context: (a knot whose rule runs, what its call is put on besides, the next such)."""


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
    """

    call: Call
    program: Program | None
    arity: int | None = None

    @property
    def name(self) -> str:
        """What it is called in print."""
        return self.call.name

    def bind(self, values: Sequence[Value]) -> list[Value]:
        """Apply it under whatever transformations follow the values."""
        try:
            return bind_call(*self.call.bound(values[: self.arity]))
        except ClosureError as error:  # all it closes over are arguments
            raise error.__cause__ or error from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StagedCall):
            return NotImplemented
        same = self.program is not None and self.program == other.program
        return self.call is other.call or (same and self.call.origin == other.call.origin)

    def __hash__(self) -> int:
        return hash((self.program, self.call.origin))


class Knot(Call):
    """A call inside its own rule: on what the call is put on besides while that rule runs.

    It must not keep that call, which holds the rule, alive.

    Attributes
    ----------
    origin_call : Call
        The call as the user made it.
    """

    __slots__ = ("_body", "_call", "origin_call")
    is_explicit = True

    def __init__(self, call: Call, body: Part) -> None:
        self.origin_call = call
        self._body = body.over(())
        self._call: Callable[[], Call | None] = lambda: None

    @property
    def name(self) -> str:
        return self.origin_call.name

    def run(self, args: Sequence[Value]) -> list[Value]:
        return self._body(args, ())

    def tie(self, call: Call) -> None:
        """Say which call this is."""
        self._call = ref(call)

    def around(self, rule: Callable[..., list[Value]]) -> Callable[..., list[Value]]:
        """The call's rule, within which this may be called."""

        def run(values: Sequence[Value], closed: Sequence[Value]) -> list[Value]:
            token = _CLOSED.set((self, closed, _CLOSED.get()))
            try:
                return rule(values, closed)
            finally:
                _CLOSED.reset(token)

        return run

    def bound(self, values: Sequence[Value]) -> tuple[Call, list[Value]]:
        call, running = self._call(), _CLOSED.get()
        while running is not None and running[0] is not self:
            running = running[2]
        if call is None or running is None:
            raise TracerError(
                f"{self.name}: the function's own rule calls it where the rule has ended, as in a"
                " checkpoint."
            )
        return call, [*values, *running[1]]


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
    """A function of values, some of whose results may be None, as a program."""
    present: list[bool] = []

    def there(own: Sequence[Value]) -> list[Value]:
        results = run(own)
        present[:] = [result is not None for result in results]
        return [result for result in results if result is not None]

    before = _variables()
    program, closed, outs = stager.nested(there, name, values, knots)
    reaches = bool(closed) or _variables() > before
    return Part(program, tuple(closed), tuple(present), tuple(outs), reaches)


def _variables() -> int:
    """How many variables the programs around have: more after work on their values alone."""
    return sum([trace.variables for trace in running_traces()])


def staged_call(
    stager: Any, call: Call, values: Sequence[Value]
) -> tuple[StagedCall | None, Sequence[Value], Call, Sequence[Value]]:
    """A call as an operation, and its results; or None, and the call to make in its place.

    The last is what that call is put on besides.

    Raises
    ------
    Exception
        The function cannot be staged, as where it leaves its numbers to another library.
    """
    body = part(stager, call.run, call.name, values)
    if any(guard.use == "number" for guard in inlined(body.program).guards):
        # Then its results are no constants of a program that holds for these numbers only.
        raise TracerError(f"{call.name}: the function takes numbers out of its arguments.")
    if not call.is_explicit:
        own, closed = explicit(stager, call, values, body)
        if own is not call:
            return None, (), own, closed
    return StagedCall(call, body.program), body.results, call, ()


def explicit(
    stager: Any, call: Call, values: Sequence[Value], body: Part
) -> tuple[Call, tuple[Value, ...]]:
    """A call that closes over nothing traced, and what it is to be put on besides its arguments.

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
    knot = Knot(call, body)
    knots = {**stager.knots, key_of(call, values): knot}

    def stage(run: Any, own: Sequence[Value]) -> Part:
        return part(stager, run, call.name, own, knots)

    rules: Sequence[Part] = ()
    failure: Exception | None = None
    try:
        rules = call.stage_rules(stage, values, body.results)
    except Exception as error:  # it may be one that nobody will need
        failure = error
    closed = tuple({id(each): each for own in (body, *rules) for each in own.closed}.values())
    if failure is not None and closed:
        raise failure
    reaches = stager.freezes or any(each.reaches for each in (body, *rules))
    if not closed and not (reaches and rules):
        return call, ()
    over = [knot.around(rule.over(closed)) for rule in rules]
    own = call.opened(body.over(closed), over, Sizes(len(values), len(closed), len(body.results)))
    knot.tie(own)
    return own, closed
