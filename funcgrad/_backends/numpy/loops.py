"""Loops as text: a Python loop around the lines of the body.

The carry has names of its own. Its arrays lie where ``step_memory.py`` says. Numbers that the body
computes with as Python's are Python's from the first step to the last; slices and stacks of such
numbers are read and written through buffers, which give and take Python numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from funcgrad._backends.numpy.blocks import Block, python_number, scalars_in
from funcgrad._backends.numpy.formulas import written_out
from funcgrad._backends.numpy.growing_rows import first_rows
from funcgrad._backends.numpy.literals import tuple_text
from funcgrad._backends.numpy.plan import plan_of
from funcgrad._backends.numpy.scalars import Scalars, boxed, is_number
from funcgrad._backends.numpy.step_memory import StepMemory, memory_of
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Contraction, Loop
from funcgrad._programs.equation import Equation
from funcgrad._programs.liveness import makes_its_own


def write_loop(block: Block, equation: Equation, loop: Loop, first: int) -> None:
    """Write the lines of a loop, whose results are the variables from ``first`` on."""
    _LoopLines(block, equation, loop, first).write()


class _LoopLines:
    """An unfinished loop."""

    def __init__(self, block: Block, equation: Equation, loop: Loop, first: int) -> None:
        self.block, self.equation, self.first = block, equation, first
        self.scope = block.module.scope
        self.loop = loop
        self.body = body = written_out(loop.body)
        self.memory: StepMemory = memory_of(body, loop.shared, loop.carried, block.module.block)
        self.scalars = scalars_in(body, self.memory.plan, block.module)
        self.condition = loop.condition and written_out(loop.condition)
        if self.condition is not None:
            self.memory = replace(self.memory, rows={})  # nobody knows how many there are
            self.condition_plan = plan_of(self.condition, block.module.block)
            self.condition_scalars = scalars_in(self.condition, self.condition_plan, block.module)
        self.names = [self.scope.letter() for _ in body.inputs]
        self.number = ""  # the name of the number of a step, where something is stacked
        self.buffers: dict[int, str] = {}  # of stacks, what takes Python's numbers
        self.views: list[str] = []  # names of parts of large arrays, which would keep these
        self.boxes: dict[int, str] = {}  # of shared Python numbers what NumPy has
        self.python = self._python()
        self.as_numpy = {v for v in self.python if v in self.scalars.as_numpy}
        if self.condition is not None:
            self.as_numpy |= self.python & self.condition_scalars.as_numpy

    def _python(self) -> set[int]:
        """The inputs of the body that are Python numbers, where NumPy has them stronger."""
        loop, body, wanted = self.loop, self.body, set(self.scalars.entering)
        if self.condition is not None:
            wanted |= self.condition_scalars.entering
        for k in range(loop.carried):
            maker = body.index.makers[body.outputs[k]]
            if maker in self.scalars.members:
                wanted.add(loop.shared + k)
        numbers = {v for v in wanted if v < len(body.inputs) and is_number(body.inputs[v])}
        slices = range(loop.shared + loop.carried, len(body.inputs))
        return numbers - {v for v in slices if v in self.scalars.as_numpy}

    # Lines.

    def write(self) -> None:
        """Write all lines."""
        loop, body = self.loop, self.body
        if loop.length == 0:
            self._nothing()
            return
        self._before()
        stacks = [self._stack(k) for k in range(loop.carried, len(body.outputs))]
        inner = self.block.inside(body, self.memory.plan, self.scalars, self.names)
        self._give(inner, self.scalars)
        self._room(inner)
        rows = self._rows(stacks, inner)
        if self.views and loop.length is None:  # then there may be no step, which names them
            self.block.line(f"{' = '.join(self.views)} = None")
        self.block.line(self._head(rows), self.equation.source)
        with self.block.indented():
            if self.condition is not None:
                self._test()
                self._grow(stacks)
            self._box(inner, self.scalars)
            inner.begin()
            inner.steps(self._lasting())
            self._put(inner, stacks)
            self._hand_on(inner)
            if self.condition is not None and stacks:
                self.block.line(f"{self.number} += 1")
        self._after(stacks)

    def _nothing(self) -> None:
        """Write a loop without steps: the carry stays as it is, and nothing is stacked."""
        block, loop = self.block, self.loop
        for k, operand in enumerate(self._carried()):
            self._result(k, block.output(operand))
        for k in range(loop.carried, len(self.body.outputs)):
            self._result(k, self._empty(self._spec(k)))

    def _result(self, k: int, text: str) -> None:
        self.block.line(f"{self.block.text(self.first + k)} = {text}", self.equation.source)

    def _carried(self) -> Sequence[int]:
        loop = self.loop
        return self.equation.operands[loop.shared : loop.shared + loop.carried]

    def _spec(self, k: int) -> Spec:
        return self.equation.results[k]

    def _steps(self) -> str:
        """How many steps there are, where that is known before."""
        if self.loop.length is not None:
            return str(self.loop.length)
        return f"len({self.block.text(self.equation.operands[-1])})"

    def _empty(self, spec: Spec, *rows: str) -> str:
        sizes = [*rows, *map(str, spec.shape)]
        shape = tuple_text(sizes) if sizes else "()"
        return f"{self.scope.numpy_name('empty')}({shape}, {self.scope.dtype(spec.dtype)})"

    def _before(self) -> None:
        """Write the lines before the loop, which prepare the shared operands and the carry."""
        block, shared = self.block, self.loop.shared
        for v, operand in enumerate(self.equation.operands[: shared + self.loop.carried]):
            is_shared, text = v < shared, block.output(operand)
            if v in self.python:
                if is_shared and v in self.as_numpy:
                    self.boxes[v] = text
                    if operand in block.made:
                        self.boxes[v] = self.scope.fresh(f"{self.names[v]}_")
                        block.line(f"{self.boxes[v]} = {text}")
                text = python_number(block, operand)
            elif is_shared and self._may_be_turned(v, operand):
                text = f"{self.scope.numpy_name('ascontiguousarray')}({text})"
            elif is_shared and operand not in block.made:
                self.names[v] = text
                continue
            elif v - shared in self.memory.owned:
                text = f"{text}.copy('K')"
            block.line(f"{self.names[v]} = {text}")

    def _may_be_turned(self, v: int, operand: int) -> bool:
        """Whether a product of each step reads a shared input that may be a transposed matrix.

        Small products with a matrix in C order take half the time: recurrent nets 0.9 of it.
        """
        maker = self.block.program.index.makers[operand]
        return (
            maker >= 0
            and not makes_its_own(self.block.program.equations[maker].operation)
            and any(
                isinstance(equation.operation.structure, Contraction) and v in equation.operands
                for equation in self.body.equations
            )
        )

    def _stack(self, k: int) -> str:
        """Write the line that makes the array for an output of all steps, and return its name."""
        spec, name = self._spec(k), self.block.text(self.first + k)
        if self.loop.length is None:
            row = Spec(spec.shape[1:], spec.dtype)
            count = self._steps() if self.condition is None else str(first_rows(row))
            self.block.line(f"{name} = {self._empty(row, count)}")
        else:
            self.block.line(f"{name} = {self._empty(spec)}")
        return name

    def _is_large(self, spec: Spec) -> bool:
        """Whether an array is so large that to get memory for it takes long."""
        return prod(spec.shape) * spec.dtype.itemsize >= self.block.module.block

    def _give(self, inner: Block, scalars: Scalars) -> None:
        """Give a program the names of its inputs."""
        for v in self.python:
            if v < len(inner.plan.specs):
                inner.numbers[v] = self.names[v]
                if v in self.boxes and v in scalars.as_numpy:
                    inner.texts[v] = self.boxes[v]

    def _box(self, inner: Block, scalars: Scalars) -> None:
        """Convert Python numbers to NumPy's where a program needs both."""
        for v in sorted(self.python & scalars.as_numpy):
            if v >= self.loop.shared:
                inner.texts[v] = self.scope.fresh(f"{self.names[v]}_")
                box = self.scope.named(f"np.{self.body.inputs[v].dtype.type.__name__}")
                self.block.line(f"{inner.texts[v]} = {box}({self.names[v]})")

    def _room(self, inner: Block) -> None:
        """Name the places where steps put their results; the first step gets the memory."""
        names = []
        for variable in sorted({*self.memory.reused, *self.memory.spares.values()}):
            name = inner.places[variable] = inner.text(variable)
            equation = self.body.equations[self.body.index.makers[variable]]
            if isinstance(equation.operation.evaluate, np.ufunc):
                names.append(name)
            else:
                self.block.line(f"{name} = {self._empty(equation.results[0])}")
        if names:
            self.block.line(f"{' = '.join(names)} = None")

    def _rows(self, stacks: Sequence[str], inner: Block) -> list[tuple[str, str]]:
        """The names that a step binds to slices and rows, each with the expression to iterate."""
        loop, bindings = self.loop, []
        turn = "[::-1]" if loop.reverse else ""
        start = loop.shared + loop.carried
        for v, operand in enumerate(self.equation.operands[start:], start):
            text = f"{self.block.text(operand)}{turn}"
            bindings.append((self.names[v], f"memoryview({text})" if v in self.python else text))
            if self.body.inputs[v].shape and self._is_large(self.block.plan.specs[operand]):
                self.views.append(self.names[v])
        for k, variable in self.memory.rows.items():
            row = inner.places[variable] = self.scope.letter()
            bindings.append((row, f"{stacks[k - loop.carried]}{turn}"))
            if self._is_large(self._spec(k)):
                self.views.append(row)
        if len(self.memory.rows) < len(stacks):
            steps = f"range({self._steps()})" if self.condition is None else ""
            self.number = self.scope.fresh("step")
            bindings.append((self.number, f"reversed({steps})" if loop.reverse else steps))
            if self.condition is not None:
                self.block.line(f"{self.number} = 0")
            for k in range(loop.carried, len(self.body.outputs)):
                if self._is_python(k):
                    name = stacks[k - loop.carried]
                    self.buffers[k] = self.scope.fresh(f"{name}_")
                    self.block.line(f"{self.buffers[k]} = memoryview({name})")
        return bindings

    def _is_python(self, k: int) -> bool:
        """Whether an output is a Python number that is stacked."""
        variable = self.body.outputs[k]
        is_python = self.body.index.makers[variable] in self.scalars.members
        is_python = is_python or variable in self.scalars.entering
        return k >= self.loop.carried and is_python and is_number(self.memory.plan.specs[variable])

    def _head(self, rows: Sequence[tuple[str, str]]) -> str:
        if self.condition is not None:
            return "while True:"
        if not rows:
            return f"for {self.scope.fresh('step')} in range({self.loop.length}):"
        names, texts = zip(*rows, strict=True)
        through = texts[0] if len(texts) == 1 else f"zip({', '.join(texts)})"
        return f"for {', '.join(names)} in {through}:"

    def _test(self) -> None:
        """Leave the loop where its condition does not hold."""
        inner = self.block.inside(
            self.condition, self.condition_plan, self.condition_scalars, self.names
        )
        self._give(inner, self.condition_scalars)
        self._box(inner, self.condition_scalars)
        inner.begin()
        inner.steps(frozenset())
        goes_on = self.condition.outputs[0]
        text = inner.number(goes_on) if goes_on in inner.numbers else inner.output(goes_on)
        self.block.line(f"if not {text}:")
        self.block.line("    break")

    def _grow(self, stacks: Sequence[str]) -> None:
        """Make room for another row, where a stack is full."""
        for k, name in enumerate(stacks, self.loop.carried):
            lengthen = self.scope.support("funcgrad._backends.numpy.growing_rows", "lengthen")
            self.block.line(f"if {self.number} == len({name}):")
            if k in self.buffers:
                self.block.line(f"    {self.buffers[k]}.release()")
            self.block.line(f"    {lengthen}({name})")
            if k in self.buffers:
                self.block.line(f"    {self.buffers[k]} = memoryview({name})")

    def _lasting(self) -> frozenset[int]:
        """The variables whose names last from step to step."""
        plan = self.memory.plan
        held = {*self.memory.reused, *self.memory.spares.values(), *self.memory.rows.values()}
        held.update(range(self.body.index.first_result))
        for position, operand in plan.takes.items():  # in the order in which they run
            if operand in held:
                held.add(plan.firsts[position])
        return frozenset(held)

    def _put(self, inner: Block, stacks: Sequence[str]) -> None:
        """Put the results of a step into the stacks."""
        for k, name in enumerate(stacks, self.loop.carried):
            if k in self.memory.rows:
                continue
            variable = self.body.outputs[k]
            if k in self.buffers:
                self.block.line(f"{self.buffers[k]}[{self.number}] = {inner.number(variable)}")
            else:
                self.block.line(f"{name}[{self.number}] = {inner.output(variable)}")

    def _hand_on(self, inner: Block) -> None:
        """Make the carry that the body returned that of the next step."""
        loop, memory = self.loop, self.memory
        targets, sources = [], []
        for k in range(loop.carried):
            v, variable = loop.shared + k, self.body.outputs[k]
            is_python = v in self.python
            targets.append(self.names[v])
            sources.append(python_number(inner, variable) if is_python else inner.output(variable))
        for k, other in memory.turns().items():
            targets.append(inner.text(memory.spares[k]))
            sources.append(self.names[loop.shared + other])
        pairs = [pair for pair in zip(targets, sources, strict=True) if pair[0] != pair[1]]
        if pairs:
            self.block.line(
                f"{', '.join([t for t, _ in pairs])} = {', '.join([s for _, s in pairs])}"
            )

    def _after(self, stacks: Sequence[str]) -> None:
        """Name the results of the loop."""
        loop, outputs = self.loop, self.body.outputs
        for name in stacks if self.condition is not None else ():
            self.block.line(f"{name} = {name}[:{self.number}]")
        in_rows = {outputs[k] for k in self.memory.rows}
        for k in range(loop.carried):
            v = loop.shared + k
            name, spec = self.names[v], self._spec(k)
            if outputs[k] == v:
                self._result(k, self.block.output(self.equation.operands[v]))
            elif v in self.python:
                maker = self.body.index.makers[outputs[k]]
                box = f"np.{spec.dtype.type.__name__}({name})"
                if maker in self.scalars.members:
                    box = boxed(self.body.equations[maker], name)
                self.block.receive(self.first + k, name, box)
            elif outputs[k] in in_rows:
                self._result(k, f"{name}.copy('K')")
            else:
                self.block.texts[self.first + k] = name
        views = [*self.buffers.values(), *self.views]
        if views:
            self.block.line(f"del {', '.join(views)}")
