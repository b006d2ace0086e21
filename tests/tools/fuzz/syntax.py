"""Generated programs as values: statements, nested bodies, and the Python text of them.

A program is a tuple of statements over named variables. A ``Step`` is one assignment; a ``Nest`` is
a statement with bodies inside: a branch, a loop, or a function that is called in some way. Text is
the only meaning a program has: what runs is ``source``, and a finding prints the same text.

>>> step = Step("v0", "fnp.sin({})", ("x0",), ("fnp.sin",))
>>> print(source(Program((("x0", 1.0),), {}, (step,), ("v0",))))
def f(x0):
    v0 = fnp.sin(x0)
    return (v0,)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Step:
    """``target = text``, the braces in it filled with the variables read."""

    target: str
    text: str
    reads: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """Statements inside of another, and the variable that is their result."""

    statements: tuple[Statement, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Nest:
    """A statement around bodies.

    Attributes
    ----------
    kind : str
        ``if``, ``for``, ``while``, ``rows``, or one of ``CALLS``.
    arguments : tuple of str
        What the body's parameters stand for at first.
    parameters : tuple of str
    bodies : tuple of Body
        One, or two for a branch.
    test : str
        The condition of ``if`` and ``while``, the number of turns of ``for``; ``{}`` is the first
        argument of the test.
    """

    target: str
    kind: str
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]
    bodies: tuple[Body, ...]
    test: str = ""
    tests: tuple[str, ...] = ()


Statement: TypeAlias = Step | Nest

CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "closure": "{h}({a})",
        "checkpoint": "fg.checkpoint({h})({a})",
        "custom_jvp": "with_jvp({h})({a})",
        "custom_vjp": "with_vjp({h})({a})",
        "linear_rule": "with_linear_jvp({h})({a})",
        "jit": "fg.jit({h})({a})",
        "program": "fg.program({h})({a})({a})",
        "vmap": "fg.vmap({h})({a})",
        "vmap_last": "fg.vmap({h}, in_axes=-1, out_axes=-1)({a})",
        "grad": "fg.grad(lambda *p: total({h}(*p)))({a})",
        "jvp": "fg.jvp({h}, ({a},), ({a},))[1]",
        "vjp": "fg.vjp({h}, {a})[1]({h}({a}))[0]",
        "linearize": "fg.linearize({h}, {a})[1]({a})",
        "hvp": "fg.hvp(lambda *p: total({h}(*p)), ({a},), ({a},))",
        "jit_grad": "fg.jit(fg.grad(lambda *p: total({h}(*p))))({a})",
        "halved": "with_halved_vjp({h})({a})",
        "clipped": "with_clipped_vjp({h})({a})",
        "branch": "branched({h}, {a})",
        "branch_of_numbers": "numbered({h}, {a})",
        "switch": "switched({h}, {a})",
        "fori_loop": "repeated({h}, {a})",
        "while_loop": "until({h}, {a})",
        "scan": "scanned({h}, {a})",
        "map": "fg.map({h}, {a})",
        "stacked_rows": "fnp.stack([{h}(row) for row in {a}])",
    }
)
"""Ways to call a function ``h`` on arguments ``a``."""


@dataclass(frozen=True, slots=True)
class Program:
    """A whole function, with the values of its arguments and of its constants."""

    inputs: tuple[tuple[str, Any], ...]
    constants: Mapping[str, Any]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    tags: frozenset[str] = field(default=frozenset())

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The values of the arguments."""
        return tuple(value for _, value in self.inputs)


def bodies_of(statement: Statement) -> tuple[Body, ...]:
    """The bodies inside a statement."""
    return statement.bodies if isinstance(statement, Nest) else ()


def every_statement(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Statements and those inside of them."""
    for statement in statements:
        yield statement
        for body in bodies_of(statement):
            yield from every_statement(body.statements)


def names_of(program: Program) -> frozenset[str]:
    """The operations and the kinds of statements in a program."""
    found: set[str] = set()
    for statement in every_statement(program.statements):
        found |= {statement.kind} if isinstance(statement, Nest) else set(statement.names)
    return frozenset(found)


def reads_of(statement: Statement) -> frozenset[str]:
    """The variables from outside that a statement reads, also inside of its bodies."""
    if isinstance(statement, Step):
        return frozenset(statement.reads)
    read = {*statement.arguments, *statement.tests}
    for body in statement.bodies:
        inside = {body.result}.union(*[reads_of(each) for each in body.statements])
        made = {each.target for each in body.statements}
        read |= inside - made - set(statement.parameters) - {"row"}
    if statement.kind in ("if", "while"):
        read -= set(statement.parameters)
    return frozenset(read)


def live(statements: tuple[Statement, ...], wanted: Iterable[str]) -> tuple[Statement, ...]:
    """The statements that lead to what is wanted."""
    needed, kept = set(wanted), []
    for statement in reversed(statements):
        if statement.target in needed:
            kept.append(statement)
            needed |= reads_of(statement)
    return tuple(reversed(kept))


def source(program: Program, name: str = "f") -> str:
    """The program as a function in Python."""
    lines = [f"def {name}({', '.join(each for each, _ in program.inputs)}):"]
    lines += ["    " + line for each in program.statements for line in lines_of(each)]
    lines.append(f"    return ({', '.join(program.outputs)},)")
    return "\n".join(lines)


def function_of(program: Program, scope: Mapping[str, Any]) -> Any:
    """The function that the text defines, among some globals."""
    namespace = {**scope, **program.constants}
    exec(compile(source(program), "<fuzz>", "exec"), namespace)
    return namespace["f"]


def lines_of(statement: Statement) -> list[str]:
    """A statement as lines of Python."""
    if isinstance(statement, Step):
        return [f"{statement.target} = {statement.text.format(*statement.reads)}"]
    start = [f"{p} = {a}" for p, a in zip(statement.parameters, statement.arguments, strict=False)]
    target, test = statement.target, statement.test.format(*statement.tests)
    first = statement.bodies[0]
    if statement.kind == "if":
        return [
            f"if {test}:",
            *_indented(first, f"{target} = {first.result}"),
            "else:",
            *_indented(statement.bodies[1], f"{target} = {statement.bodies[1].result}"),
        ]
    again = f"{statement.parameters[0]} = {first.result}"
    if statement.kind in ("for", "rows"):
        head = (
            f"for _ in range({test}):"
            if statement.kind == "for"
            else f"for {statement.parameters[1]} in {statement.arguments[1]}:"
        )
        return [start[0], head, *_indented(first, again), f"{target} = {statement.parameters[0]}"]
    if statement.kind == "while":
        turn = f"{target}_turn"
        return [
            *start,
            f"{turn} = 0",
            f"while {turn} < 4 and {test}:",
            *_indented(first, again),
            f"    {turn} += 1",
            f"{target} = {statement.parameters[0]}",
        ]
    call = CALLS[statement.kind].format(h=f"{target}_of", a=", ".join(statement.arguments))
    return [
        f"def {target}_of({', '.join(statement.parameters)}):",
        *_indented(first, f"return {first.result}"),
        f"{target} = {call}",
    ]


def _indented(body: Body, last: str) -> list[str]:
    lines = [line for each in body.statements for line in lines_of(each)]
    return ["    " + line for line in [*lines, last]]


def constant_text(value: Any) -> str:
    """A value as Python text, to the last bit."""
    if isinstance(value, (np.ndarray, np.generic)):
        data = repr(np.asarray(value).tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        made = f"np.array({data}, dtype=np.{value.dtype.name})"
        shape = np.shape(value)
        return f"{made}.reshape({shape})" if 0 in shape else made + ("" if shape else "[()]")
    return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")
