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
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import ref

from funcgrad.equations import spec_inside
from funcgrad.errors import TracerError
from funcgrad.planning.inline import inlined
from funcgrad.programs import Program
from funcgrad.trace import Value
from funcgrad.transforms.call import Call, Part, Sizes, bind_call

__all__ = ["Knots", "StagedCall", "explicit", "key_of", "part", "staged_call"]

Knots: TypeAlias = Mapping[Hashable, Any]
"""By call, while its rules are being staged: the explicit call, and what it is put on besides; None
while that is being found out."""


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
        return bind_call(self.call.strong(), list(values[: self.arity]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StagedCall):
            return NotImplemented
        same = self.program is not None and self.program == other.program
        return self.call is other.call or (same and self.call.origin == other.call.origin)

    def __hash__(self) -> int:
        return hash((self.program, self.call.origin))


class _Weak(Call):
    """A call inside its own rule, which must not keep it alive."""

    __slots__ = ("_call", "_name", "_origin")
    is_explicit = True

    def __init__(self, call: Call) -> None:
        self._call = ref(call)
        self._name = call.name
        self._origin = call.origin

    @property
    def name(self) -> str:
        return self._name

    @property
    def origin(self) -> Hashable:
        return self._origin

    def strong(self) -> Call:
        call = self._call()
        assert call is not None  # whose rule runs
        return call

    def run(self, args: Sequence[Value]) -> list[Value]:
        return self.strong().run(args)


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

    program, closed, outs = stager.nested(there, name, values, knots)
    return Part(program, tuple(closed), tuple(present), tuple(outs))


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
    key = key_of(call, values)

    def rules(knot: Any) -> Sequence[Part]:
        def stage(run: Any, own: Sequence[Value]) -> Part:
            return part(stager, run, call.name, own, {**stager.knots, key: knot})

        return call.stage_rules(stage, values, body.results)

    found: Sequence[Part] = ()
    failure: Exception | None = None
    try:
        found = rules(None)
    except Exception as error:  # it may be one that nobody will need
        failure = error
    closed = tuple({id(each): each for own in (body, *found) for each in own.closed}.values())
    if not closed and not (stager.freezes and found):
        return call, ()
    if failure is not None:
        raise failure
    later: list[Any] = []
    sizes = Sizes(len(values), len(closed), len(body.results))
    own = call.opened(body.over(closed), later, sizes)
    later += [rule.over(closed) for rule in rules((_Weak(own), closed))]
    return own, closed
