"""Loops and branches: ``lax.scan``, ``lax.while_loop`` and ``lax.switch``.

A body that may fail, such as one that reads at an index, tells at each step whether all went well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.control_forms import in_form
from funcgrad._backends.xla.xla_algebra import raises_integers
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Choice, Control, Factored, Gather, Loop, Scatter
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

Outcome: TypeAlias = tuple[list[Array], Array | None]
"""The outputs of a program, and whether all went well; None if nothing could fail."""

RunProgram: TypeAlias = Callable[[Program, Sequence[Array]], Outcome]


def _inside(form: object) -> Sequence[Program]:
    return (form,) if isinstance(form, Program) else in_form(form)


def _forms(program: Program) -> Iterator[tuple[object, int]]:
    """The forms of loops and branches in a program, with the numbers of their results."""
    for equation in program.equations:
        structure = equation.operation.structure
        if isinstance(structure, Control) and structure.form is not None:
            yield structure.form(**dict(equation.params)), len(equation.results)


def may_fail(program: Program) -> bool:
    """Whether an equation may have no result, so that only the operation knows what to do."""
    specs = program.specs()
    for equation in program.equations:
        structure, params = equation.operation.structure, dict(equation.params)
        if isinstance(structure, Factored):
            return True
        if raises_integers(equation, [specs[variable] for variable in equation.operands]):
            return True
        if isinstance(structure, Gather | Scatter):
            shapes = [specs[variable].shape for variable in equation.operands]
            places = structure.places(*shapes, **params)
            if any(index.mode == "raise" for index in places.indices):
                return True
    return any(may_fail(inner) for form, _ in _forms(program) for inner in _inside(form))


def is_guarded(form: object) -> bool:
    """Whether control flow inside depends on numbers, which only Python reads."""
    return any(
        program.guards or any(is_guarded(inner) for inner, _ in _forms(program))
        for program in _inside(form)
    )


def chosen(
    writer: XlaWriter,
    form: Choice,
    operands: Sequence[Array],
    specs: Sequence[Spec],
    run: RunProgram,
) -> Outcome:
    """The results of the branch that the first operand selects."""
    lax, last = writer.lax, len(form.branches) - 1
    number = writer.reshaped(operands[0], ())
    if number.dtype.kind == "b":
        number = writer.cast_to(number, np.dtype(np.int32))
    limit = min(last, np.iinfo(number.dtype).max)
    number = lax.clamp(number.dtype.type(0), number, number.dtype.type(limit))
    fails = any(map(may_fail, form.branches))

    def branch(program: Program) -> Callable[..., Any]:
        def outputs(*values: Array) -> list[Array]:
            outs, ok = run(program, values)
            flags = [np.True_ if ok is None else ok] if fails else []
            return [*_fitted(writer, outs, specs), *flags]

        return outputs

    outs = lax.switch(number, [*map(branch, form.branches)], *operands[1:])
    return (outs[:-1], outs[-1]) if fails else (outs, None)


def _fitted(writer: XlaWriter, outs: Sequence[Array], specs: Sequence[Spec]) -> list[Array]:
    return [
        writer.expanded(writer.cast_to(out, spec.dtype), spec.shape)
        for out, spec in zip(outs, specs, strict=True)
    ]


def looped(
    writer: XlaWriter, loop: Loop, operands: Sequence[Array], specs: Sequence[Spec], run: RunProgram
) -> Outcome:
    """The last carry and the stacks."""
    shared, carry, arrays = loop.parts(operands)
    lax, count = writer.lax, loop.carried
    carry_specs = [Spec(x.shape, x.dtype) for x in carry]
    body = loop.body.specs()
    rows = [body[variable] for variable in loop.body.outputs[count:]]
    asks = loop.condition is not None and may_fail(loop.condition)
    fails = asks or may_fail(loop.body)
    first = [*carry, *([np.True_] if fails else [])]
    length = arrays[0].shape[0] if arrays and loop.length is None else loop.length or 0
    cut = [writer.rows.get(id(x)) for x in arrays]  # arrays that are rows of longer ones
    if any(cut):
        first.append(np.int64(length - 1 if loop.reverse else 0))

    def step(values: Any, slices: Any) -> Any:
        whole = iter(slices)
        slices = [
            next(whole)
            if place is None
            else lax.dynamic_index_in_dim(
                place[1],
                lax.add(values[-1], np.int64(place[2])),
                keepdims=False,
                allow_negative_indices=False,
            )
            for place in cut
        ]
        outs, ok = run(loop.body, [*shared, *values[:count], *slices])
        outs = _fitted(writer, outs, [*carry_specs, *rows])
        ends = []
        if fails:
            ends.append(values[count] if ok is None else lax.bitwise_and(values[count], ok))
        if any(cut):
            ends.append(lax.add(values[-1], np.int64(-1 if loop.reverse else 1)))
        return [*outs[:count], *ends], outs[count:]

    if loop.condition is not None:
        ends = lax.while_loop(
            lambda values: _goes_on(writer, loop, shared, values, run),
            lambda values: step(values, ())[0],
            first,
        )
        if asks:
            _, ok = run(loop.condition, [*shared, *ends[:count]])
            ends[count] = ends[count] if ok is None else lax.bitwise_and(ends[count], ok)
        stacks: Sequence[Array] = ()
    else:
        if not length:
            return [*carry, *[np.zeros((0, *s.shape), s.dtype) for s in rows]], None
        ends, stacks = lax.scan(
            step,
            first,
            [x for x, place in zip(arrays, cut, strict=True) if place is None],
            length=length,
            reverse=loop.reverse,
            unroll=loop.unroll,
        )
    return [*ends[:count], *stacks], ends[count] if fails else None


def _goes_on(
    writer: XlaWriter, loop: Loop, shared: Sequence[Array], values: Sequence[Array], run: RunProgram
) -> Array:
    outs, ok = run(loop.condition, [*shared, *values[: loop.carried]])
    goes_on = writer.cast_to(writer.reshaped(outs[0], ()), np.dtype(np.bool_))
    if writer.checks:  # a step that failed is the last one; its numbers might not end the loop
        for flag in (*values[loop.carried :], *([] if ok is None else [ok])):
            goes_on = writer.lax.bitwise_and(goes_on, flag)
    return goes_on


def stays_on_host(equation: Equation) -> bool:
    """Whether control flow stays on the host: it runs Python, grows, or runs once more later.

    Reverse mode of a loop with a condition runs the loop again. XLA rounds a step differently in
    two programs, so the second run might take other steps there.
    """
    structure = equation.operation.structure
    if not isinstance(structure, Control) or equation.called is not None:
        return False
    form = None if structure.form is None else structure.form(**dict(equation.params))
    if form is None or grows(form, len(equation.results)):
        return True
    return isinstance(form, Loop) and form.replayed


def grows(form: object, results: int) -> bool:
    """Whether a form stacks as many rows as it takes steps, which no shape tells before.

    XLA has no such arrays.
    """
    if isinstance(form, Program):
        return any(grows(*inner) for inner in _forms(form))
    if isinstance(form, Loop) and form.condition is not None and results > form.carried:
        return True
    return any(grows(program, len(program.outputs)) for program in in_form(form))
