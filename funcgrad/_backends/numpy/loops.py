"""Write a loop as a Python loop around the lines of its body, and a choice as ``if`` and ``else``.

``Block`` is the interface to the writer, which writes the lines of the programs inside. The carry
of a loop has its own names. A number that the body uses as a Python number stays one from the first
step to the last. Slices and stacks of such numbers are read and written through memoryviews, which
give and take Python numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Final, Protocol

from funcgrad._backends.numpy.plan import Plan, plan_of_steps
from funcgrad._backends.numpy.scalars import Scalars, boxed, is_number
from funcgrad._backends.numpy.scope import Scope
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Choice, Loop
from funcgrad._forms.source_text import tuple_text
from funcgrad._passes.costs import bytes_of
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

DEEPEST: Final = 8
"""The deepest nesting of loops and branches that is written out; Python allows 20 loops."""


_FEWEST, _MOST, _BYTES = 4, 1024, 2**16
"""The fewest and the most rows of a stack whose length is unknown, and about how many bytes it
starts with. NumPy gets that much memory without a page fault. A full stack grows by half."""

_LARGE: Final = 2**17
"""The bytes from which the name of a row is deleted after the loop, as it keeps the whole array."""


@dataclass(slots=True)
class Module:
    """State that all programs in one module's text share.

    Attributes
    ----------
    scope : Scope
    commented, floats
        The options ``lines`` and ``floats`` of ``numpy_source``.
    lines : list of str
        The lines of the function so far.
    depth : int
        The indentation of the next line, in units of four spaces.
    uses_floats : bool
        Whether any of the programs computes with Python's floats.
    """

    scope: Scope
    commented: bool
    floats: bool
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    uses_floats: bool = False


class Block(Protocol):
    """The writer of one program's lines. See `_Writer` for its attributes."""

    module: Module
    program: Program
    plan: Plan
    scalars: Scalars
    texts: dict[int, str]
    numbers: dict[int, str]
    made: dict[int, str]
    values: dict[int, Any]

    def text(self, variable: int) -> str: ...
    def number(self, variable: int) -> str: ...
    def either(self, variable: int) -> str: ...
    def output(self, variable: int) -> str: ...
    def line(self, text: str, source: str = "") -> None: ...
    def begin(self) -> None: ...
    def steps(self) -> None: ...
    def receive(self, variable: int, number: str, box: str) -> None: ...
    def indented(self) -> AbstractContextManager[None]: ...
    def inside(self, program: Program) -> Block: ...


def python_number(block: Block, variable: int) -> str:
    """An expression for a variable as a Python number."""
    text = block.number(variable)
    if variable in block.numbers or variable in block.values:
        return text
    return f"bool({text})" if block.plan.specs[variable].dtype.kind == "b" else f"float({text})"


# ---------------------------------------------------------------------------------------- loops


def write_loop(block: Block, equation: Equation, loop: Loop, first: int) -> None:
    """Write the lines of a loop. Its results are the variables from ``first`` on."""
    _LoopLines(block, equation, loop, first).write()


class _LoopLines:
    """Writes the lines of one loop."""

    def __init__(self, block: Block, equation: Equation, loop: Loop, first: int) -> None:
        self.block, self.equation, self.first = block, equation, first
        self.scope = block.module.scope
        self.loop = loop
        self.inner = block.inside(loop.body)
        self.body = self.inner.program
        self.inner.plan = plan_of_steps(self.body, loop.shared, loop.carried)
        self.condition = None if loop.condition is None else block.inside(loop.condition)
        self.names = [self.scope.letter() for _ in self.body.inputs]
        self.number = ""  # the name of the step's number, if the loop has stacks
        self.buffers: dict[int, str] = {}  # memoryviews of stacks, which take Python numbers
        self.views: list[str] = []  # names of arrays to delete after the loop
        self.boxes: dict[int, str] = {}  # shared Python numbers as NumPy's scalars
        self.python = self._python()

    def _python(self) -> set[int]:
        """The inputs of the body that are Python numbers in the text but NumPy's in the program."""
        loop, body, scalars = self.loop, self.body, self.inner.scalars
        wanted = set(scalars.entering)
        if self.condition is not None:
            wanted |= self.condition.scalars.entering
        for k in range(loop.carried):
            maker = body.index.makers[body.outputs[k]]
            if maker in scalars.members:
                wanted.add(loop.shared + k)
        numbers = {v for v in wanted if v < len(body.inputs) and is_number(body.inputs[v])}
        slices = range(loop.shared + loop.carried, len(body.inputs))
        return numbers - scalars.as_numpy.intersection(slices)

    def _is_boxed(self, v: int) -> bool:
        """Whether a Python number is also read as NumPy's scalar."""
        is_read = v in self.inner.scalars.as_numpy
        return is_read or (self.condition is not None and v in self.condition.scalars.as_numpy)

    # Lines.

    def write(self) -> None:
        """Write all lines."""
        loop, body = self.loop, self.body
        if loop.length == 0:
            self._nothing()
            return
        self._before()
        reused = [self.inner.text(variable) for variable in self.inner.plan.reused]
        stacks = [self._stack(k) for k in range(loop.carried, len(body.outputs))]
        self._give(self.inner)
        rows = self._rows(stacks)
        unnamed = reused if loop.length is not None else [*reused, *self.views]
        if unnamed:  # without a step the names of the views are unbound
            self.block.line(f"{' = '.join(unnamed)} = None")
        self.views += reused
        self.block.line(self._head(rows), self.equation.source)
        with self.block.indented():
            if self.condition is not None:
                self._test(self.condition)
                self._grow(stacks)
            self._box(self.inner)
            self.inner.begin()
            self.inner.steps()
            self._put(stacks)
            self._hand_on()
            if self.condition is not None and stacks:
                self.block.line(f"{self.number} += 1")
        self._after(stacks)

    def _nothing(self) -> None:
        """Write a loop without steps: the carry stays unchanged, and the stacks are empty."""
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
        """The number of steps, if it is known before the loop."""
        if self.loop.length is not None:
            return str(self.loop.length)
        return f"len({self.block.text(self.equation.operands[-1])})"

    def _empty(self, spec: Spec, *rows: str) -> str:
        sizes = [*rows, *map(str, spec.shape)]
        shape = tuple_text(sizes) if sizes else "()"
        return f"{self.scope.numpy_name('empty')}({shape}, {self.scope.dtype(spec.dtype)})"

    def _before(self) -> None:
        """Write the lines before the loop, which prepare the shared operands and the carry."""
        block, shared, plan = self.block, self.loop.shared, self.inner.plan
        for v, operand in enumerate(self.equation.operands[: shared + self.loop.carried]):
            is_shared, text = v < shared, block.output(operand)
            if v in self.python:
                if is_shared and self._is_boxed(v):
                    self.boxes[v] = text
                    if operand in block.made:
                        self.boxes[v] = self.scope.fresh(f"{self.names[v]}_")
                        block.line(f"{self.boxes[v]} = {text}")
                text = python_number(block, operand)
            elif is_shared and operand not in block.made:
                self.names[v] = text
                continue
            elif v in plan.takes.values() or v in plan.turns:
                text = f"{text}.copy('K')"
            block.line(f"{self.names[v]} = {text}")

    def _stack(self, k: int) -> str:
        """Write the line that makes the array for an output of all steps, and return its name."""
        spec, name = self._spec(k), self.block.text(self.first + k)
        if self.loop.length is None:
            row = Spec(spec.shape[1:], spec.dtype)
            count = min(max(_FEWEST, _BYTES // max(bytes_of(row), 1)), _MOST)
            rows = self._steps() if self.condition is None else str(count)
            self.block.line(f"{name} = {self._empty(row, rows)}")
        else:
            self.block.line(f"{name} = {self._empty(spec)}")
        return name

    def _give(self, inner: Block) -> None:
        """Give a program the names of its inputs."""
        inner.texts.update(enumerate(self.names))
        for v in self.python:
            if v < len(inner.plan.specs):
                inner.numbers[v] = self.names[v]
                if v in self.boxes and v in inner.scalars.as_numpy:
                    inner.texts[v] = self.boxes[v]

    def _box(self, inner: Block) -> None:
        """Write lines that convert Python numbers to NumPy's scalars if a program needs both."""
        for v in sorted(self.python & inner.scalars.as_numpy):
            if v >= self.loop.shared:
                inner.texts[v] = self.scope.fresh(f"{self.names[v]}_")
                box = self.scope.named(f"np.{self.body.inputs[v].dtype.type.__name__}")
                self.block.line(f"{inner.texts[v]} = {box}({self.names[v]})")

    def _rows(self, stacks: Sequence[str]) -> list[tuple[str, str]]:
        """The names that a step gives to slices, each with the expression to iterate over."""
        loop, bindings = self.loop, []
        turn = "[::-1]" if loop.reverse else ""
        start = loop.shared + loop.carried
        for v, operand in enumerate(self.equation.operands[start:], start):
            text = f"{self.block.text(operand)}{turn}"
            bindings.append((self.names[v], f"memoryview({text})" if v in self.python else text))
            if self.body.inputs[v].shape and bytes_of(self.block.plan.specs[operand]) >= _LARGE:
                self.views.append(self.names[v])
        if stacks:
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
        is_python = self.body.index.makers[variable] in self.inner.scalars.members
        is_python = is_python or variable in self.inner.scalars.entering
        return k >= self.loop.carried and is_python and is_number(self.inner.plan.specs[variable])

    def _head(self, rows: Sequence[tuple[str, str]]) -> str:
        if self.condition is not None:
            return "while True:"
        if not rows:
            return f"for {self.scope.fresh('step')} in range({self.loop.length}):"
        names, texts = zip(*rows, strict=True)
        through = texts[0] if len(texts) == 1 else f"zip({', '.join(texts)})"
        return f"for {', '.join(names)} in {through}:"

    def _test(self, condition: Block) -> None:
        """Write lines that leave the loop if its condition does not hold."""
        self._give(condition)
        self._box(condition)
        condition.begin()
        condition.steps()
        goes_on = condition.program.outputs[0]
        is_python = goes_on in condition.numbers
        text = condition.number(goes_on) if is_python else condition.output(goes_on)
        self.block.line(f"if not {text}:")
        self.block.line("    break")

    def _grow(self, stacks: Sequence[str]) -> None:
        """Write lines that make room for another row if a stack is full."""
        for k, name in enumerate(stacks, self.loop.carried):
            shape = tuple_text([f"len({name}) * 3 // 2", *map(str, self._spec(k).shape[1:])])
            self.block.line(f"if {self.number} == len({name}):")
            if k in self.buffers:
                self.block.line(f"    {self.buffers[k]}.release()")
            self.block.line(f"    {name}.resize({shape}, refcheck=False)")
            if k in self.buffers:
                self.block.line(f"    {self.buffers[k]} = memoryview({name})")

    def _put(self, stacks: Sequence[str]) -> None:
        """Write lines that put the results of a step into the stacks."""
        for k, name in enumerate(stacks, self.loop.carried):
            variable = self.body.outputs[k]
            if k in self.buffers:
                self.block.line(f"{self.buffers[k]}[{self.number}] = {self.inner.number(variable)}")
            else:
                self.block.line(f"{name}[{self.number}] = {self.inner.output(variable)}")

    def _hand_on(self) -> None:
        """Write the line that gives the names of the carry to the results of the step."""
        loop, inner = self.loop, self.inner
        targets, sources = [], []
        for k in range(loop.carried):
            v, variable = loop.shared + k, self.body.outputs[k]
            is_python = v in self.python
            targets.append(self.names[v])
            sources.append(python_number(inner, variable) if is_python else inner.output(variable))
        for v, variable in inner.plan.turns.items():
            targets.append(inner.text(variable))
            sources.append(self.names[v])
        pairs = [pair for pair in zip(targets, sources, strict=True) if pair[0] != pair[1]]
        if pairs:
            self.block.line(
                f"{', '.join([t for t, _ in pairs])} = {', '.join([s for _, s in pairs])}"
            )

    def _after(self, stacks: Sequence[str]) -> None:
        """Write the lines after the loop, and name its results."""
        loop, outputs = self.loop, self.body.outputs
        for name in stacks if self.condition is not None else ():
            self.block.line(f"{name} = {name}[:{self.number}]")
        for k in range(loop.carried):
            v = loop.shared + k
            name, spec = self.names[v], self._spec(k)
            if outputs[k] == v:
                self._result(k, self.block.output(self.equation.operands[v]))
            elif v in self.python:
                maker = self.body.index.makers[outputs[k]]
                box = f"np.{spec.dtype.type.__name__}({name})"
                if maker in self.inner.scalars.members:
                    box = boxed(self.body.equations[maker], name)
                self.block.receive(self.first + k, name, box)
            else:
                self.block.texts[self.first + k] = name
        views = [*self.buffers.values(), *self.views]
        if views:
            self.block.line(f"del {', '.join(views)}")


# -------------------------------------------------------------------------------------- choices


def write_choice(block: Block, equation: Equation, choice: Choice, first: int) -> None:
    """Write the lines of a choice. Its first result is the variable ``first``."""
    module, operands = block.module, equation.operands
    branches = [block.inside(program) for program in choice.branches]
    names: list[str] = []
    boxes: dict[int, str] = {}
    for place, spec in enumerate(equation.results):
        name = module.scope.letter()
        number_boxes = {_box(branch, place, name) for branch in branches} - {""}
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


def _box(branch: Block, place: int, name: str) -> str:
    """An expression that converts an output from a Python number to NumPy's scalar, or empty."""
    maker = branch.program.index.makers[branch.program.outputs[place]]
    if maker not in branch.scalars.members:
        return ""
    return boxed(branch.program.equations[maker], name)


def _heads(block: Block, equation: Equation, count: int) -> list[str]:
    """The lines with ``if``, ``elif`` and ``else`` that begin the branches."""
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
    inner: Block,
    operands: Sequence[int],
    names: Sequence[str],
    numbers: Collection[int],
) -> None:
    """Write the lines of one branch, which assign its results to these names."""
    scope, program = block.module.scope, inner.program
    inputs = [
        block.either(operand) if is_number(spec) else block.output(operand)
        for operand, spec in zip(operands, program.inputs, strict=True)
    ]
    inner.texts.update(enumerate(inputs))
    for v, operand in enumerate(operands):
        if not is_number(program.inputs[v]):
            continue
        if operand in block.values:
            inner.numbers[v] = block.number(operand)
        elif operand in block.numbers:
            inner.numbers[v] = inputs[v]
            if operand in block.texts:
                inner.texts[v] = block.texts[operand]
            elif v in inner.scalars.as_numpy or v in program.outputs:
                like = f"{inputs[v]}_" if inputs[v].isidentifier() else "number"
                inner.texts[v] = scope.fresh(like)
                block.line(f"{inner.texts[v]} = {block.output(operand)}")
    inner.begin()
    inner.steps()
    texts = [
        python_number(inner, variable) if place in numbers else inner.output(variable)
        for place, variable in enumerate(program.outputs)
    ]
    if names:
        block.line(f"{', '.join(names)} = {', '.join(texts)}")
