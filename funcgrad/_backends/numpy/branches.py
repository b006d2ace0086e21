"""Write choices (``cond``, ``switch``) as text: ``if`` and the lines of each branch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from funcgrad._backends.numpy.blocks import Block, python_number, scalars_in
from funcgrad._backends.numpy.formulas import written_out
from funcgrad._backends.numpy.plan import Plan, plan_of
from funcgrad._backends.numpy.scalars import Scalars, boxed, is_number
from funcgrad._core.structure.structures import Choice
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


class _Branch(NamedTuple):
    program: Program
    plan: Plan
    scalars: Scalars

    def box(self, place: int, name: str) -> str:
        """An expression that converts an output from a Python number to NumPy's; else empty."""
        maker = self.program.index.makers[self.program.outputs[place]]
        if maker not in self.scalars.members:
            return ""
        return boxed(self.program.equations[maker], name)


def write_choice(block: Block, equation: Equation, choice: Choice, first: int) -> None:
    """Write the lines of a choice, whose first result is the variable ``first``."""
    module, operands = block.module, equation.operands
    branches = []
    for program in map(written_out, choice.branches):
        plan = plan_of(program, module.block)
        branches.append(_Branch(program, plan, scalars_in(program, plan, module)))
    names: list[str] = []
    boxes: dict[int, str] = {}
    for place, spec in enumerate(equation.results):
        name = module.scope.letter()
        number_boxes = {branch.box(place, name) for branch in branches} - {""}
        if is_number(spec) and len(number_boxes) == 1:
            boxes[place] = number_boxes.pop()
        names.append(name)
    for branch, head in zip(branches, _heads(block, equation, len(branches)), strict=True):
        block.line(head, equation.source)
        with block.indented():
            _write_branch(block, branch, operands[1:], names, boxes.keys())
    for place, name in enumerate(names):
        if place in boxes:
            block.receive(first + place, name, boxes[place])
        else:
            block.texts[first + place] = name


def _heads(block: Block, equation: Equation, count: int) -> list[str]:
    """The ``if``, ``elif`` and ``else`` of the branches."""
    index = equation.operands[0]
    is_bool = block.plan.specs[index].dtype.kind == "b"
    text = block.either(index) if is_bool else block.output(index)
    if is_bool and count == 2:
        return [f"if not {text}:", "else:"]
    if count == 1:
        return ["if True:"]
    number = block.module.scope.fresh("branch")
    block.line(f"{number} = int({text})")
    middle = [f"elif {number} == {k}:" for k in range(1, count - 1)]
    return [f"if {number} <= 0:", *middle, "else:"]


def _write_branch(
    block: Block,
    branch: _Branch,
    operands: Sequence[int],
    names: Sequence[str],
    numbers: Collection[int],
) -> None:
    """Write the lines of one branch, which assign its results to these names."""
    scope, program = block.module.scope, branch.program
    inputs = [
        block.either(operand) if is_number(spec) else block.output(operand)
        for operand, spec in zip(operands, program.inputs, strict=True)
    ]
    inner = block.inside(program, branch.plan, branch.scalars, inputs)
    for v, operand in enumerate(operands):
        if not is_number(program.inputs[v]):
            continue
        if operand in block.values:
            inner.numbers[v] = block.number(operand)
        elif operand in block.numbers:
            inner.numbers[v] = inputs[v]
            if operand in block.texts:
                inner.texts[v] = block.texts[operand]
            elif v in branch.scalars.as_numpy or v in program.outputs:
                like = f"{inputs[v]}_" if inputs[v].isidentifier() else "number"
                inner.texts[v] = scope.fresh(like)
                block.line(f"{inner.texts[v]} = {block.output(operand)}")
    inner.begin()
    inner.steps(frozenset())
    texts = [
        python_number(inner, variable) if place in numbers else inner.output(variable)
        for place, variable in enumerate(program.outputs)
    ]
    if names:
        block.line(f"{', '.join(names)} = {', '.join(texts)}")
