"""Shrink a program that fails to a smallest one that still fails in the same way.

Candidates are smaller programs: with fewer outputs, a statement replaced by its constant value or
by another variable of its kind, a body in place of its nest, or simpler numbers. The first that
still fails is taken, until none does. The result is a local minimum: no single thing can be
removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

import funcgrad as fg
from tests.tools.fuzz.generate import SCOPE
from tests.tools.fuzz.subject import quietly
from tests.tools.fuzz.syntax import (
    CALLS,
    Body,
    Nest,
    Program,
    Statement,
    Step,
    every_statement,
    lines_of,
    live,
    reads_of,
)


def shrunk(program: Program, fails: Callable[[Program], bool], seconds: float = 20.0) -> Program:
    """The smallest program found in that time for which ``fails`` holds."""
    deadline = time.monotonic() + seconds
    smallest, again = program, True
    while again and time.monotonic() < deadline:
        again = False
        for candidate in _candidates(smallest):
            if time.monotonic() > deadline:
                break
            if size_of(candidate) < size_of(smallest) and fails(candidate):
                smallest, again = candidate, True
                break
    return smallest


def size_of(program: Program) -> tuple[int, ...]:
    """What is made smaller, the most important first."""
    statements = list(every_statement(program.statements))
    numbers = [value for _, value in program.inputs] + list(program.constants.values())
    return (
        sum(4 if isinstance(each, Nest) else 2 for each in statements)
        + len(program.constants)
        + len(program.inputs)
        + len(program.outputs),
        sum(np.size(number) for number in numbers),
        sum(len(repr(np.asarray(number).tolist())) for number in numbers),
        sum(len(reads_of(each)) for each in statements),
    )


def tidy(program: Program) -> Program:
    """Without what no output needs, inside of bodies too."""
    statements = tuple([_tidied(each) for each in live(program.statements, program.outputs)])
    needed = set(program.outputs).union(*[reads_of(each) for each in statements])
    inputs = tuple([each for each in program.inputs if each[0] in needed])
    return _fewer_constants(
        replace(program, statements=statements, inputs=inputs or program.inputs[:1])
    )


def _fewer_constants(program: Program) -> Program:
    read = set(program.outputs).union(*[reads_of(each) for each in program.statements])
    constants = {name: value for name, value in program.constants.items() if name in read}
    return replace(program, constants=constants)


def _tidied(statement: Statement) -> Statement:
    if not isinstance(statement, Nest):
        return statement
    bodies = []
    for body in statement.bodies:
        wanted = {body.result, *statement.tests}
        kept = live(body.statements, wanted)
        bodies.append(Body(tuple([_tidied(each) for each in kept]), body.result))
    return replace(statement, bodies=tuple(bodies))


def _candidates(program: Program) -> Iterator[Program]:
    """Smaller programs; first without what nothing needs, which seldom matters."""
    yield tidy(program)
    for candidate in _changed(program):
        yield tidy(candidate)
        yield _fewer_constants(candidate)


def _changed(program: Program) -> Iterator[Program]:
    for output in program.outputs:
        if len(program.outputs) > 1:
            yield replace(program, outputs=(output,))
    values = _values(program)
    yield from _earlier_outputs(program)
    for k in range(len(program.statements)):
        yield _with(program, k)
        yield from _without(program, k, values)
    for k, statement in enumerate(program.statements):
        for smaller in _inside(statement):
            yield _with(program, k, smaller)
        if isinstance(statement, Nest):
            yield from _unnested(program, k, statement)
    yield from _fewer_inputs(program)
    yield from _plainer_numbers(program)


def _values(program: Program) -> dict[str, Any]:
    """The values of the variables at the top, as far as the program runs."""
    namespace = {**SCOPE, **program.constants, **dict(program.inputs)}
    for name, value in program.inputs:
        if isinstance(value, np.ndarray):
            namespace[name] = fg.tensor(value)
    with quietly(), suppress(Exception):
        for statement in program.statements:
            exec("\n".join(lines_of(statement)), namespace)
    return namespace


def _earlier_outputs(program: Program) -> Iterator[Program]:
    """What an output was made of, in its place."""
    makers = {each.target: each for each in program.statements}
    for k, output in enumerate(program.outputs):
        if output in makers:
            for read in sorted(reads_of(makers[output])):
                outputs = (*program.outputs[:k], read, *program.outputs[k + 1 :])
                yield replace(program, outputs=tuple(dict.fromkeys(outputs)))


def _with(program: Program, k: int, *statements: Statement) -> Program:
    changed = (*program.statements[:k], *statements, *program.statements[k + 1 :])
    return replace(program, statements=changed)


def _without(program: Program, k: int, values: dict[str, Any]) -> Iterator[Program]:
    """The program in which the value of a statement is an argument, a constant, or another's."""
    target = program.statements[k].target
    if target not in values or not isinstance(values[target], fg.Tensor):
        return
    value = np.array(values[target])
    fewer = replace(program, statements=(*program.statements[:k], *program.statements[k + 1 :]))
    earlier = [name for name, _ in program.inputs]
    earlier += [each.target for each in program.statements[:k]]
    for name in earlier:
        other = values.get(name)
        same = isinstance(other, fg.Tensor) and other.shape == value.shape
        if same and other is not None and other.dtype == value.dtype:
            yield _renamed(fewer, {target: name})
    yield replace(fewer, constants={**program.constants, target: value[()]})
    yield replace(fewer, inputs=(*program.inputs, (target, value)))


def _renamed(program: Program, names: dict[str, str]) -> Program:
    statements = tuple([_rename(each, names) for each in program.statements])
    outputs = tuple(dict.fromkeys(names.get(name, name) for name in program.outputs))
    return replace(program, statements=statements, outputs=outputs)


def _rename(statement: Statement, names: dict[str, str]) -> Statement:
    def renamed(each: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([names.get(name, name) for name in each])

    if isinstance(statement, Step):
        return replace(statement, reads=renamed(statement.reads))
    bodies = [
        Body(
            tuple([_rename(each, names) for each in body.statements]),
            names.get(body.result, body.result),
        )
        for body in statement.bodies
    ]
    return replace(
        statement,
        arguments=renamed(statement.arguments),
        tests=renamed(statement.tests),
        bodies=tuple(bodies),
    )


def _inside(statement: Statement) -> Iterator[Statement]:
    """Statements with a smaller body."""
    if not isinstance(statement, Nest):
        return
    for b, body in enumerate(statement.bodies):

        def within(changed: Body, b: int = b) -> Nest:
            bodies = (*statement.bodies[:b], changed, *statement.bodies[b + 1 :])
            return replace(statement, bodies=bodies)

        for result in [*statement.parameters, *[each.target for each in body.statements[:-1]]]:
            if result != body.result:
                yield within(replace(body, result=result))
        for k, each in enumerate(body.statements):
            rest = (body.statements[:k], body.statements[k + 1 :])
            for read in sorted(reads_of(each)):
                renamed = [_rename(other, {each.target: read}) for other in rest[1]]
                result = read if body.result == each.target else body.result
                yield within(Body((*rest[0], *renamed), result))
            for smaller in _inside(each):
                yield within(Body((*rest[0], smaller, *rest[1]), body.result))
            if isinstance(each, Nest) and each.kind in CALLS:
                inner = [_step(p, a) for p, a in zip(each.parameters, each.arguments, strict=True)]
                (only,) = each.bodies
                moved = (*inner, *only.statements, _step(each.target, only.result))
                yield within(Body((*rest[0], *moved, *rest[1]), body.result))
                if each.kind != "closure":
                    plain = replace(each, kind="closure")
                    yield within(Body((*rest[0], plain, *rest[1]), body.result))


def _step(target: str, name: str) -> Step:
    return Step(target, "{}", (name,))


def _unnested(program: Program, k: int, nest: Nest) -> Iterator[Program]:
    """What is inside of a nest in its place."""
    for body in nest.bodies:
        start = [_step(p, a) for p, a in zip(nest.parameters, nest.arguments, strict=False)]
        yield _with(program, k, *start, *body.statements, _step(nest.target, body.result))
    if nest.kind in CALLS and nest.kind != "closure":
        yield _with(program, k, replace(nest, kind="closure"))
    if nest.kind == "for" and nest.test != "1":
        yield _with(program, k, replace(nest, test="1"))


def _fewer_inputs(program: Program) -> Iterator[Program]:
    for k, (name, value) in enumerate(program.inputs):
        if len(program.inputs) > 1 and not isinstance(value, (bool, int, float)):
            inputs = (*program.inputs[:k], *program.inputs[k + 1 :])
            constants = {**program.constants, name: np.asarray(value)[()]}
            yield replace(program, inputs=inputs, constants=constants)


def _plainer_numbers(program: Program) -> Iterator[Program]:
    for k, (name, value) in enumerate(program.inputs):
        for plainer in _plainer(value):
            inputs = (*program.inputs[:k], (name, plainer), *program.inputs[k + 1 :])
            yield replace(program, inputs=inputs)
    for name, value in program.constants.items():
        for plainer in _plainer(value):
            yield replace(program, constants={**program.constants, name: plainer[()]})


def _plainer(value: Any) -> Iterator[Any]:
    array = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) or array.dtype.kind not in "fc":
        return
    yield np.ones_like(array)
    for decimals in (0, 1, 2):
        with np.errstate(all="ignore"):
            rounded = np.round(array, decimals)
        if rounded.tobytes() != array.tobytes():
            yield rounded
