"""Loops with tangents, on a batch, without unread results, and without work that repeats itself.

``pushed`` and ``batched`` take a loop with the sweeps after it and a flag for each operand. They
return sweeps whose operands have another layout, together with a description of that layout.

>>> import funcgrad as fg
>>> body = fg.program(lambda w, c: w * c)(2.0, 3.0)
>>> (loop, _, _), operands, results = pushed(Sweeps(Loop(body, 1, 1, 5)), [True, False])
>>> operands.joined("wc", "pq"), loop.shared, loop.carried  # tangents stand behind their part
(['w', 'p', 'c', 'q'], 2, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from funcgrad._control.spread import dependent_carry, spread
from funcgrad._control.sweeps import Sweeps
from funcgrad._control.values import (
    batched_program,
    inputs_read,
    may_refuse,
    part_of,
    specs_inside,
    strong,
    taking_part,
    tangent_in,
    tangent_stand_ins,
    with_batch,
)
from funcgrad._core.specs import stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.logic import logical_and
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.stand_in_examples import chosen_examples
from funcgrad._primitives.structural import move_axis
from funcgrad._programs.extract import extract, rewired
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied, flat_program
from funcgrad._transforms.call_values import calls_in
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import present, restored
from funcgrad._transforms.with_derivative import WithDerivative, with_pushforward

T = TypeVar("T")


# -------------------------------------------------------------------------------------- tangents


class Tangents(NamedTuple):
    """Which values of a loop have tangents; these stand behind the values of the same part.

    Attributes
    ----------
    parts : tuple of tuple of bool
        A flag for each value, by part. The parts of operands are the shared values, then the carry
        and the arrays of a loop, or the carries of sweeps; the parts of results are the carry and
        the stacks, or carries.
    """

    parts: tuple[tuple[bool, ...], ...]

    def joined(self, primals: Sequence[T], tangents: Sequence[T | None]) -> list[T]:
        """Join values and their tangents to the values of the loop with tangents."""
        values: list[T] = []
        start = 0
        for flags in self.parts:
            stop = start + len(flags)
            values += primals[start:stop]
            values += [t for t in tangents[start:stop] if t is not None]
            start = stop
        return values

    def taken_apart(self, values: Sequence[T]) -> tuple[list[T], list[T | None]]:
        """Split the values of the loop with tangents into values and their tangents."""
        entries = iter(values)
        primals: list[T] = []
        tangents: list[T | None] = []
        for flags in self.parts:
            primals += [next(entries) for _ in flags]
            tangents += [next(entries) if flag else None for flag in flags]
        return primals, tangents

    def filled(self, primals: Sequence[Value], tangents: Sequence[Value]) -> list[Value]:
        """Replace absent tangents by zeros where the loop has tangents."""
        return [
            zeros_like(x) if flag and t is None else t
            for x, t, flag in zip(primals, tangents, chain(*self.parts), strict=True)
        ]


def pushed_step(
    program: Program, parts: Sequence[Sequence[bool]], carry: int
) -> tuple[Program, Tangents, Tangents]:
    """Stage a step with tangents; also return which of its operands and results have some.

    The program returns the next carry, and rows of stacks. ``parts`` flags the inputs that have
    tangents; the part number ``carry`` is the carry, whose other leaves may get some from the step.
    """
    inputs = [strong(spec) for spec in program.inputs]
    args = [stand_in(spec) for spec in program.inputs]
    before, after = parts[:carry], parts[carry + 1 :]

    def step(state: list[bool]) -> tuple[WithDerivative, list[bool]]:
        tangents = tangent_stand_ins(program.inputs, [*chain(*before, state, *after)])
        both = with_pushforward(program, args, tangents, numbers=False)
        return both, present(both.layout)

    start, _ = dependent_carry(
        program, [*chain(*before)], parts[carry], [*chain(*after)], forward=True
    )
    state, both = spread(start, step)
    operands = Tangents((*map(tuple, before), tuple(state), *map(tuple, after)))
    stacked = tuple(present(both.layout)[len(state) :])
    results = Tangents((tuple(state), stacked))
    first, count = sum(map(len, before)), len(program.outputs)

    def pushed_values(values: Sequence[Value]) -> list[Value]:
        primals, tangents = operands.taken_apart(values)
        outs = applied(both.program, [*primals, *[t for t in tangents if t is not None]])
        moved = restored(both.layout, outs[count:])
        for k, (spec, flag) in enumerate(zip(inputs[first:], state, strict=False)):
            if flag:
                moved[k] = tangent_in(moved[k], spec)
        return results.joined(outs[:count], moved)

    pairs = zip(inputs, chain(*operands.parts), strict=True)
    specs = operands.joined(program.inputs, [spec if flag else None for spec, flag in pairs])
    return flat_program(f"{program.name}_push", pushed_values, specs), operands, results


def pushed(sweeps: Sweeps, flags: Sequence[bool]) -> tuple[Sweeps, Tangents, Tangents]:
    """Add the tangents of flagged operands, and of all carried values that depend on them.

    Also returns which operands and which results have tangents.
    """
    loop = sweeps.loop
    parts_of_loop = loop.parts(flags[: len(loop.body.inputs)])
    body, operands, results = pushed_step(loop.body, parts_of_loop, 1)
    shared, carry, _ = operands.parts
    loop = loop._replace(
        body=body, shared=loop.shared + sum(shared), carried=loop.carried + sum(carry)
    )
    if loop.condition is None:
        return Sweeps(loop), operands, results

    reads, _ = operands.taken_apart(range(len(body.inputs)))
    loop = loop._replace(condition=rewired(loop.condition, body.inputs, reads))
    parts, later = operands.parts[:2], []
    for one, flagged in zip(sweeps.later, sweeps.parts(flags)[2:], strict=True):
        program, operands, _ = pushed_step(one, [*parts, flagged], len(parts))
        parts = operands.parts
        later.append(program)
    return Sweeps(loop, tuple(later), sweeps.first), operands, Tangents(parts[1 + sweeps.first :])


# ---------------------------------------------------------------------------------------- a batch


class BatchedSweeps(NamedTuple):
    """A loop on a batch, and the sweeps after it.

    Attributes
    ----------
    one, sweeps : Sweeps
        The sweeps of one example, and of the batch.
    condition : Program or None
        Computes for each example whether it has another step, which is then the first leaf of the
        loop's carry; None where that does not depend on the example.
    parts : list of list of bool
        Which shared values have the batch, and which leaves of each sweep's carry.
    stacks : list of bool
        Which stacks of the loop have the batch, on axis 1.
    size : int
    """

    one: Sweeps
    sweeps: Sweeps
    condition: Program | None
    parts: list[list[bool]]
    stacks: list[bool]
    size: int

    def operands(self, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
        """Return the operands of the batched sweeps."""
        loop, (_, carry_parts, *later_parts) = self.one.loop, self.parts
        count = len(loop.body.inputs)
        shared, carry, xs = loop.parts(values[:count])
        _, carry_flags, x_flags = loop.parts(flags[:count])
        carry = with_batch(carry, carry_flags, carry_parts, self.size)
        active = [] if self.condition is None else self.condition.evaluate([*shared, *carry])
        xs = [move_axis(x, 1, 0) if flag else x for x, flag in zip(xs, x_flags, strict=True)]
        later = with_batch(values[count:], flags[count:], [*chain(*later_parts)], self.size)
        return [*shared, *active, *carry, *xs, *later]

    def results(self, outs: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        """Return the results on each example, and which have the batch, on axis 0."""
        if self.one.later:
            return list(outs), [*chain(*self.parts[1 + self.one.first :])]
        carried, flags = self.sweeps.loop.carried, self.parts[1]
        pairs = zip(outs[carried:], self.stacks, strict=True)
        stacks = [move_axis(y, 1, 0) if flag else y for y, flag in pairs]
        return [*outs[carried - len(flags) : carried], *stacks], [*flags, *self.stacks]


def batched(sweeps: Sweeps, size: int, flags: Sequence[bool]) -> BatchedSweeps:
    """Batch sweeps: flagged operands, and all values that depend on them, have the batch.

    Where the condition depends on the example, the loop goes on until it holds for none, and
    examples that have ended keep their values.
    """
    loop = sweeps.loop
    shared, carry, xs = loop.parts(flags[: len(loop.body.inputs)])

    def step(state: list[bool]) -> tuple[tuple[Program, list[bool], Program | None], list[bool]]:
        every = [*shared, *state, *xs]
        body, out_flags = batched_program(loop.body, size, every, state)
        if loop.condition is None:
            return (body, out_flags, None), out_flags
        condition, (is_masked,) = batched_program(loop.condition, size, every, ())
        ends = [True] * len(state) if is_masked else out_flags
        return (body, out_flags, condition), ends

    state, (body, out_flags, condition) = spread(carry, step)
    batched_loop = loop._replace(body=body, condition=condition)
    is_masked = condition is not None and bool(condition.output_specs[0].shape)
    if is_masked:
        batched_loop = _masked(batched_loop, [*shared, *state])
    parts, later = [list(shared), state], []
    for one, flagged in zip(sweeps.later, sweeps.parts(flags)[2:], strict=True):

        def later_step(carried: list[bool], one: Program = one) -> tuple[Program, list[bool]]:
            return batched_program(one, size, [*chain(*parts), *carried], carried)

        state, program = spread([flag or is_masked for flag in flagged], later_step)
        parts.append(state)
        if is_masked:
            program = _masked_later(program, [*chain(*parts)], batched_loop)
        later.append(program)
    return BatchedSweeps(
        sweeps,
        Sweeps(batched_loop, tuple(later), sweeps.first),
        condition if is_masked else None,
        parts,
        out_flags[loop.carried :],
        size,
    )


def _for_active(program: Program, flags: Sequence[bool]) -> Callable[..., list[Value]]:
    """Return a step of a program on a batch in which some examples keep their carry.

    It takes the truth values of the examples, the operands, and the carry before the step; flagged
    operands have the batch.
    """
    refuses = may_refuse(program)

    def step(active: Value, operands: Sequence[Value], carry: Sequence[Value]) -> list[Value]:
        read = taking_part(active, operands, flags) if refuses else operands
        pairs = zip(applied(program, read), carry, strict=True)
        return [chosen_examples(active, new, old) for new, old in pairs]

    return step


def _masked(loop: Loop, flags: Sequence[bool]) -> Loop:
    """Let a loop go on until all examples have ended; those that have ended keep their values."""
    condition, body, count = loop.condition, loop.body, loop.shared
    (mask,) = condition.output_specs
    specs = [*body.inputs[:count], mask, *body.inputs[count:]]
    active_step = _for_active(body, flags)

    def goes_on(values: Sequence[Value]) -> list[Value]:
        return [reduce_any(values[count], axis=(0,), keepdims=False)]

    def step(values: Sequence[Value]) -> list[Value]:
        shared, active, state = values[:count], values[count], values[count + 1 :]
        next_state = active_step(active, [*shared, *state], state)
        (more,) = applied(condition, [*shared, *next_state])
        return [logical_and(active, more), *next_state]

    return loop._replace(
        body=flat_program(body.name, step, specs),
        condition=flat_program(condition.name, goes_on, specs),
        carried=loop.carried + 1,
    )


def _masked_later(program: Program, flags: Sequence[bool], loop: Loop) -> Program:
    """Mask a sweep after a masked loop: an example skips the steps that it did not take."""
    shared, count = loop.shared, len(program.outputs)
    active_step = _for_active(program, flags)

    def step(values: Sequence[Value]) -> list[Value]:
        operands = [*values[:shared], *values[shared + 1 :]]
        return active_step(values[shared], operands, operands[-count:] if count else ())

    mask = loop.body.inputs[shared]
    specs = [*program.inputs[:shared], mask, *program.inputs[shared:]]
    return flat_program(program.name, step, specs)


# ------------------------------------------------------------------------------ unread results


def leaner(loop: Loop, read: Sequence[bool]) -> tuple[Loop, list[int], list[int]] | None:
    """Drop the operands and the results that nothing needs; return None where all are needed.

    Needed are the results that are read, and the leaves of the carry that these results or the
    condition depend on. Also returns the positions of the remaining operands and results.
    """
    condition = loop.condition

    def step(flags: list[bool]) -> tuple[set[int], list[bool]]:
        inputs = inputs_read(loop.body, [k for k, flag in enumerate(flags) if flag])
        if condition is not None:
            inputs |= inputs_read(condition, [0])
        carry = [loop.shared + k in inputs for k in range(loop.carried)]
        return inputs, [*carry, *[False] * (len(flags) - loop.carried)]

    flags, inputs = spread(read, step)
    results = [k for k, flag in enumerate(flags) if flag]
    carry = [k for k in results if k < loop.carried]
    operands = sorted(inputs | {loop.shared + k for k in carry})
    if len(results) == len(flags) and len(operands) == len(loop.body.inputs):
        return None
    lean = loop._replace(
        body=part_of(loop.body, operands, results),
        shared=len([k for k in operands if k < loop.shared]),
        carried=len(carry),
    )
    if condition is not None:
        lean = lean._replace(condition=part_of(condition, operands, [0]))
    return lean, operands, results


# ------------------------------------------------------------------ the same value at every step


def hoisted(loop: Loop, shared: Sequence[Value]) -> tuple[Loop, list[Value]]:
    """Run the equations with the same value at every step, and take them out of the loop.

    Returns the changed loop and its shared operands. Nothing runs or changes where such an equation
    might refuse its operands, unless the loop surely has a step.
    """
    before, body, read = split_invariants(loop.body, loop.shared)
    if before is not None and not loop.length and may_refuse(before):
        return loop, list(shared)
    more = [] if before is None else before.evaluate(shared)
    if loop.condition is None:
        operands = [*[shared[k] for k in read], *more]
        return loop._replace(body=body, shared=len(operands)), operands
    start, stop = loop.shared, loop.shared + len(more)
    specs = [*loop.body.inputs[:start], *specs_inside(more), *loop.body.inputs[start:]]

    behind = range(stop, len(specs))
    changed = loop._replace(
        body=rewired(body, specs, [*read, *range(start, stop), *behind]),
        condition=rewired(loop.condition, specs, [*range(start), *behind]),
        shared=stop,
    )
    return changed, [*shared, *more]


def invariant_variables(program: Program, consts: int) -> set[int]:
    """Return the variables that depend only on constants and the first ``consts`` inputs.

    Excluded are results of operations that run foreign Python, which may print, and of calls whose
    pullback may be nonlinear, since it is applied to the cotangents of each step.
    """
    invariant = {*range(consts), *range(len(program.inputs), program.index.first_result)}
    for equation, results in zip(program.equations, program.index.results, strict=True):
        is_settled = not equation.operation.is_foreign and invariant.issuperset(equation.operands)
        if is_settled and all(call.is_linear for call in calls_in([equation])):
            invariant.update(results)
    return invariant


def split_invariants(body: Program, consts: int) -> tuple[Program | None, Program, list[int]]:
    """Split a body into a program that runs before the loop, and one that runs at each step.

    The first program takes the first ``consts`` inputs, which are the same at every step; it is
    None where nothing moves in front of the loop. The second takes the inputs among these that it
    reads, the results of the first, and the other inputs. Also returns the positions that it reads.

    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> body = fg.program(lambda w, c: fnp.sin(w) * c)(2.0, 3.0)
    >>> before, step_body, shared = split_invariants(body, 1)
    >>> print(before.to_text(sources=False))
    program <lambda>(w: float64[]) -> float64[]
      a: float64[] = sin w
      return a
    >>> print(step_body.to_text(sources=False), shared)
    program <lambda>(a: float64[], c: float64[]) -> float64[]
      b: float64[] = multiply a c
      return b []
    """
    invariant = invariant_variables(body, consts)
    read = {*body.outputs}
    moved: set[int] = set()
    for equation, results in zip(body.equations, body.index.results, strict=True):
        if results and invariant.issuperset(results):
            moved.update(results)
        else:
            read.update(equation.operands)
    wanted = sorted(moved & read)
    before = extract(body, range(consts), wanted) if wanted else None
    shared = [variable for variable in range(consts) if variable in read]
    if not wanted and len(shared) == consts:
        return None, body, shared
    others = range(consts, len(body.inputs))
    return before, extract(body, [*shared, *wanted, *others], body.outputs), shared
