"""Loops and choices of programs as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from funcgrad._backends.native.carries import Carries, GrowingStacks
from funcgrad._backends.native.function_site import PATIENCE, UNINTERRUPTED, FunctionSite
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.native_module import Function
from funcgrad._backends.native.plan_steps import Run
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Choice, Loop
from funcgrad._programs.program import Program

_SOONER: Final = 8
"""So much sooner is the first look in a loop of unknown length, from which on other threads run: in
a few milliseconds. Short loops keep the interpreter's lock, which others may not give back soon."""


_MUCH: Final = 1 << 17
"""So many scalar operations take from ten microseconds on: loops of fewer are never shared."""


def write_run(site: FunctionSite, step: Run) -> None:
    """Write a loop or a choice."""
    functions = [site.module.function(program) for program in step.programs]
    if isinstance(step.form, Loop) and _comes_apart(step.form, functions[0]):
        _share(site, step, step.form, functions[0])
        return
    arena = site.scratch(max([function.size for function in functions]))
    results = [
        "" if v in step.growing else site.pointer(v)
        for v in range(step.variable, step.variable + len(step.equation.results))
    ]
    if isinstance(step.form, Loop) and step.form.length is None:
        _run_on(site, step, step.form, functions, results, arena)
        return
    operands = [site.at(operand) for operand in step.equation.operands]
    if isinstance(step.form, Choice):
        _choose(site, step, functions, operands, results, arena)
    else:
        _repeat(site, step, step.form, functions[0], operands, results, arena)


def _choose(
    site: FunctionSite,
    step: Run,
    functions: Sequence[Function],
    operands: Sequence[str],
    results: Sequence[str],
    arena: str,
) -> None:
    lines, dtype = site.lines, site.plan.specs[step.equation.operands[0]].dtype
    lanes = Lanes(lines, 1)
    number = lanes.astype(lanes.load(operands[0], dtype), np.dtype(np.int64))
    chosen = lanes.where(number < 0, 0, number).text
    labels = [lines.fresh_label("branch") for _ in functions]
    after = lines.fresh_label("chosen")
    cases = " ".join([f"i64 {k}, label %{name}" for k, name in enumerate(labels[:-1])])
    lines.emit(f"switch i64 {chosen}, label %{labels[-1]} [ {cases} ]")
    for label, function in zip(labels, functions, strict=True):
        lines.begin_block(label)
        site.called(function, [*operands[1:], *results], arena)
        lines.jump(after)
    lines.begin_block(after)


def _comes_apart(form: Loop, body: Function) -> bool:
    """Whether threads share a loop: its steps do not depend on each other, and may take long."""
    length = form.length or 0
    return length > 1 and not form.carried and not body.needs_caller and length * body.work >= _MUCH


def _share(site: FunctionSite, step: Run, form: Loop, body: Function) -> None:
    """A loop over examples, which threads share if it takes long."""
    written = range(step.variable, step.variable + len(step.equation.results))

    def write() -> None:
        arena = site.shared_scratch(body.size)
        operands = [site.at(operand) for operand in step.equation.operands]
        results = [site.pointer(variable) for variable in written]
        _repeat(site, step, form, body, operands, results, arena, ("%begin", "%end"))

    site.share(step, form.length or 0, write, scratch=body.size, patience=PATIENCE)


def _repeat(
    site: FunctionSite,
    step: Run,
    form: Loop,
    body: Function,
    operands: Sequence[str],
    results: Sequence[str],
    arena: str,
    span: tuple[str, str] | None = None,
) -> None:
    """A loop whose length is known, or some of its steps."""
    specs, lines = _carries(step, form), site.lines
    shared, first = operands[: form.shared], operands[form.shared :][: form.carried]
    length, count = form.length, form.carried
    if not length:
        for target, source, spec in zip(results, first, specs, strict=False):
            site.copy(target, source, spec)
        return
    arrays = operands[form.shared + count :]
    slices = [site.plan.specs[v] for v in step.equation.operands[form.shared + count :]]
    stacks = step.equation.results[count:]
    carries = Carries(site, specs, first, results[:count], _in_place(form, body), length)

    def one(index: str, turns: Sequence[str]) -> Sequence[str]:
        place = lines.op(f"sub i64 {length - 1}, {index}") if form.reverse else index
        rows = [_row(site, p, s, place) for p, s in zip(arrays, slices, strict=True)]
        outs = [_row(site, p, s, place) for p, s in zip(results[count:], stacks, strict=True)]
        now, here = carries.now(turns), carries.here(turns)
        places = [*shared, *now, *rows, *here, *outs]
        site.called(body, places, arena, carries.may_inline)
        steps = _steps_between_looks(body.work)
        place = lines.op(f"and i64 {index}, {steps - 1}")
        lines.when(lines.op(f"icmp eq i64 {place}, {steps - 1}"), site.look)
        return carries.after(turns)

    site.count(body, length)
    start, stop = span or (0, length)
    turns = [("ptr", pointer) for pointer in carries.turns]
    carries.end(lines.counted(stop, one, turns, start=start))


def _row(site: FunctionSite, pointer: str, spec: Spec, place: str) -> str:
    """The address of a slice along axis 0."""
    size = prod(spec.shape[1:]) * spec.dtype.itemsize
    return site.lines.address(pointer, site.lines.op(f"mul i64 {place}, {size}"))


def _run_on(
    site: FunctionSite,
    step: Run,
    form: Loop,
    functions: Sequence[Function],
    results: Sequence[str],
    arena: str,
) -> None:
    """A loop as long as a condition holds, or along stacks that such a loop has left."""
    lines, specs, body = site.lines, _carries(step, form), functions[0]
    fixed = [site.at(operand) for operand in step.equation.operands[: form.shared + form.carried]]
    shared, first, _ = form.parts(fixed)
    read = [site.stacks[operand] for operand in step.equation.operands[len(fixed) :]]
    length = lines.op(f"load i64, ptr {read[0].count}") if read else None
    sources = [(stack, lines.op(f"load ptr, ptr {stack.memory}")) for stack in read]
    stacks = GrowingStacks(site, _rows(body.program, form), length)
    site.work += UNINTERRUPTED // _SOONER  # nobody knows: until it looks for signals itself
    site.unknown += UNINTERRUPTED // _SOONER
    site.calls += sum([function.calls for function in functions])
    carries = Carries(site, specs, first, results, _in_place(form, body))
    truth = lines.room("i8")
    steps = _steps_between_looks(body.work)
    looks_at = lines.room("i64", str(max(1, steps // _SOONER) - 1))
    before, head = lines.block, lines.fresh_label("while")
    again, after = lines.fresh_label("again"), lines.fresh_label("ended")
    lines.jump(head)
    lines.begin_block(head)
    turns = [lines.name() for _ in carries.turns]
    now, here = carries.now(turns), carries.here(turns)
    count, following = lines.name(), lines.name()
    place = lines.mark()
    if length is not None:
        lines.branch(lines.op(f"icmp slt i64 {count}, {length}"), again, after)
    else:
        site.called(functions[1], [*shared, *now, truth], arena)
        answer = lines.op(f"load i8, ptr {truth}")
        lines.branch(lines.op(f"icmp ne i8 {answer}, 0"), again, after)
    lines.begin_block(again)
    row = count
    if form.reverse:
        row = lines.op(f"sub i64 {lines.op(f'sub i64 {length}, 1')}, {count}")
    rows = [stack.row(lines, memory, row) for stack, memory in sources]
    places = [*shared, *now, *rows, *here, *stacks.rows(row)]
    site.called(body, places, arena, carries.may_inline)
    _look_at(site, looks_at, count, steps)
    lines.emit(f"{following} = add i64 {count}, 1")
    nexts, end = carries.after(turns), lines.block
    lines.jump(head)
    phis = [f"{count} = phi i64 [0, %{before}], [{following}, %{end}]"]
    for name, start, then in zip(turns, carries.turns, nexts, strict=True):
        phis.append(f"{name} = phi ptr [{start}, %{before}], [{then}, %{end}]")
    lines.insert_phis(place, phis)
    lines.begin_block(after)
    stacks.end(count, step.growing)
    carries.end(turns)


def _steps_between_looks(work: int) -> int:
    """After how many steps of a loop one looks for signals, such as an interrupt: a power of 2."""
    steps = 1
    while steps * max(work, 1) < UNINTERRUPTED:
        steps *= 2
    return steps


def _look_at(site: FunctionSite, place: str, count: str, steps: int) -> None:
    """Look for signals at the step whose number is in memory, and write there the next one."""
    lines = site.lines

    def look() -> None:
        site.look()
        lines.emit(f"store i64 {lines.op(f'add i64 {count}, {steps}')}, ptr {place}")

    now = lines.op(f"load i64, ptr {place}")
    lines.when(lines.op(f"icmp eq i64 {count}, {now}"), look)


def _rows(body: Program, form: Loop) -> list[Spec]:
    """The specs of the rows that a step stacks."""
    specs = body.specs()
    return [specs[variable] for variable in body.outputs[form.carried :]]


def _carries(step: Run, form: Loop) -> list[Spec]:
    return list(step.equation.results[: form.carried])


def _in_place(form: Loop, body: Function) -> list[int]:
    """The carries that a step changes in place."""
    carries = range(form.carried)
    return [k for k in carries if body.in_place.get(k) == form.shared + k]
