"""Write kernels as loops over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final, TypeAlias

from funcgrad.backends.numpy.expressions import Expressions, Text
from funcgrad.backends.numpy.fusion import (
    Kernel,
    blocked_operands,
    combined_by,
    fits_blocks,
    is_dot,
    is_total,
)
from funcgrad.backends.numpy.plan import Plan, is_plain_ufunc
from funcgrad.primitives.structural import reshape
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Spec
from funcgrad.structure import Movement

_FOR_THREADS: Final = 2**23
"""The work of a kernel, in elements over all members, from which on two threads pay. Starting a
thread takes as long as computing some 100,000 elements."""

Line: TypeAlias = tuple[str, str]
"""A line of the text, and the user's line that it comes from."""


def kernel_lines(
    program: Program,
    plan: Plan,
    kernel: Kernel,
    expressions: Expressions,
    name: Callable[[int], str],
) -> list[Line]:
    """Write the lines of a kernel.

    Parameters
    ----------
    program : Program
    plan : Plan
        The program's plan.
    kernel : Kernel
        A step of the plan.
    expressions : Expressions
    name : callable
        From a variable to its name in the text.
    """
    loop = _KernelLoop(program, plan, kernel, expressions, name)
    for position in kernel.members:
        loop.member(position)
    return loop.lines()


class _KernelLoop:
    """An unfinished loop over blocks: the lines before it, in its body and after it."""

    def __init__(
        self,
        program: Program,
        plan: Plan,
        kernel: Kernel,
        expressions: Expressions,
        name: Callable[[int], str],
    ) -> None:
        self.program = program
        self.plan = plan
        self.kernel = kernel
        self.expressions = expressions
        self.name = name
        self.before: list[Line] = []
        self.body: list[Line] = []
        self.after: list[Line] = []
        self.blocks: dict[int, str] = {}  # the names of variables' blocks
        self.last = self._last_uses()

    def _last_uses(self) -> dict[int, int]:
        """For each variable, the last member that reads or makes it."""
        last: dict[int, int] = {}
        for position in self.kernel.members:
            last[self.plan.firsts[position]] = position
            for operand in self.program.equations[position].operands:
                last[operand] = position
        return last

    def lines(self) -> list[Line]:
        """All lines, those of the body indented."""
        block, blocks = self._word("block"), self.kernel.blocks
        equations = [self.program.equations[position] for position in self.kernel.members]
        work = sum([prod(self.plan.specs[equation.operands[0]].shape) for equation in equations])
        start = f"{self.kernel.step} * {block}"
        body = [(f"{self._word('rows')} = slice({start}, {start} + {self.kernel.step})", "")]
        body += self.body
        if work < _FOR_THREADS:
            loop = [(f"for {block} in range({blocks}):", ""), *_indented(body)]
        else:
            threads = self.expressions.scope.support(
                "funcgrad.backends.numpy.threads", "on_two_threads"
            )
            run = self._word("run")
            loop = [
                (f"def {run}({block}):", ""),
                *_indented(body),
                (f"{threads}({run}, {blocks})", ""),
            ]
        return [*self.before, *loop, *self.after]

    def member(self, position: int) -> None:
        """Write the lines of one equation."""
        equation = self.program.equations[position]
        variable = self.plan.firsts[position]
        texts: list[Text] = []
        specs: list[Spec] = []
        for operand, blocked in zip(equation.operands, self._flags(equation), strict=True):
            texts.append(
                partial(str, self._block(operand)) if blocked else partial(self._whole, operand)
            )
            specs.append(self._spec(operand, blocked))
        if is_total(equation, self.kernel):
            self._total(equation, variable, texts, specs)
        elif variable in self.plan.outside:
            self._result(equation, position, texts, specs)
        elif position in self.plan.takes:
            self.blocks[variable] = self.blocks.pop(self.plan.takes[position])
            place = self.blocks[variable]
            self._line(self.expressions.into(equation, texts, place), equation)
        elif variable in self.plan.homes:
            home = self.plan.homes[variable]
            block_name = self.blocks[variable] = self._block_name(home)
            into = self.expressions.into(equation, texts, self._place(home))
            self._line(f"{block_name} = {into}", equation)
        else:
            self.blocks[variable] = self.name(variable)
            self._line(
                f"{self.name(variable)} = {self._expression(equation, texts, specs)}", equation
            )
        ended = [v for v, end in self.last.items() if end == position]
        dropped = [self.blocks.pop(v) for v in ended if v in self.blocks]
        if dropped:
            self.body.append((f"del {', '.join(dropped)}", ""))

    def _total(
        self, equation: Equation, variable: int, texts: Sequence[Text], specs: Sequence[Spec]
    ) -> None:
        """Write a reduction over the rows: reduce each block, then the results of the blocks."""
        name, block = self.name(variable), self._word("block")
        self.before.append(self._room(variable, (self.kernel.blocks, *equation.results[0].shape)))
        self._line(f"{name}[{block}] = {self._expression(equation, texts, specs)}", equation)
        combine = combined_by(equation, self.plan.specs)
        reduce = self.expressions.scope.method(combine, "reduce")
        self.after.append((f"{name} = {reduce}({name}, 0)", equation.source))

    def _result(
        self, equation: Equation, position: int, texts: Sequence[Text], specs: Sequence[Spec]
    ) -> None:
        """Write the equation of a result that is read after the kernel, as a whole array."""
        variable = self.plan.firsts[position]
        block_name = self._block_name(variable)
        in_place = [v for v in equation.operands if self.blocks.get(v) == block_name]
        if in_place:  # an operand was made in the result's memory
            del self.blocks[in_place[0]]
            self.blocks[variable] = block_name
            self._line(self.expressions.into(equation, texts, block_name), equation)
            return
        place = self._place(variable)
        needed = self.last[variable] != position
        if needed:
            self.blocks[variable] = block_name
        start = f"{block_name} = " if needed else ""
        if is_plain_ufunc(equation.operation):
            self._line(start + self.expressions.into(equation, texts, place), equation)
        else:
            self._line(f"{start}{place} = {self._expression(equation, texts, specs)}", equation)

    # Texts.

    def _place(self, variable: int) -> str:
        """The slice ``name[rows]`` of a result that is read after the kernel, as a whole array."""
        name, shape = self.name(variable), self.plan.specs[variable].shape
        flat = self.kernel.flat and len(shape) > 1
        if variable in self.plan.slots:
            return f"{self._flat(variable) if flat else name}[{self._word('rows')}]"
        self.before.append(self._room(variable, (self.kernel.rows,) if flat else shape))
        if flat:
            self.after.append((f"{name} = {name}.reshape({shape})", ""))
        return f"{name}[{self._word('rows')}]"

    def _flags(self, equation: Equation) -> list[bool]:
        """For each operand, whether a block of rows reads a block of it."""
        if not self.kernel.flat:
            return blocked_operands(equation, self.plan.specs, self.kernel.rows)
        shapes = [self.plan.specs[operand].shape for operand in equation.operands]
        return [prod(shape) == self.kernel.rows for shape in shapes]

    def _expression(self, equation: Equation, texts: Sequence[Text], specs: Sequence[Spec]) -> str:
        """An expression for a block of a result."""
        if is_dot(equation, self.plan.specs):
            return " @ ".join(map(_as_vector, texts, specs))
        is_movement = isinstance(equation.operation.structure, Movement)
        if is_movement and not fits_blocks(equation, self.plan.specs):
            # This movement keeps the order of all elements, so it is a reshape.
            shape = (-1, *equation.results[0].shape[1:])
            equation = replace(equation, operation=reshape, params=(("shape", shape),))
        elif self.kernel.flat and "axis" in dict(equation.params):
            params = {**dict(equation.params), "axis": (0,)}
            equation = replace(equation, params=tuple(params.items()))
        return self.expressions.expression(equation, texts, specs)

    def _spec(self, variable: int, blocked: bool) -> Spec:
        spec = self.plan.specs[variable]
        if not blocked:
            return spec
        row_shape = () if self.kernel.flat else spec.shape[1:]
        return replace(spec, shape=(self.kernel.step, *row_shape))

    def _block(self, variable: int) -> str:
        """The name of a variable's block; the first call writes the line that slices it."""
        if variable not in self.blocks:
            name, block_name = self.name(variable), self._block_name(variable)
            if self.kernel.flat and len(self.plan.specs[variable].shape) > 1:
                name = self._flat(variable)
            self.body.append((f"{block_name} = {name}[{self._word('rows')}]", ""))
            self.blocks[variable] = block_name
        return self.blocks[variable]

    def _flat(self, variable: int) -> str:
        """The name of a variable's array, reshaped to one axis."""
        flat = self._derived_name("flat", variable)
        self.before.append((f"{flat} = {self.name(variable)}.reshape(-1)", ""))
        self.after.append((f"del {flat}", ""))
        return flat

    def _whole(self, variable: int) -> str:
        """The text of a whole variable; in a flat kernel it has one element, and gets one axis."""
        name = self.name(variable)
        if self.kernel.flat and len(self.plan.specs[variable].shape) > 1:
            return f"{name}.reshape(1)"
        return name

    def _room(self, variable: int, shape: tuple[int, ...]) -> Line:
        """The line that allocates an array for the results of all blocks."""
        scope, name = self.expressions.scope, self.name(variable)
        dtype = self.plan.specs[variable].dtype
        if variable in self.plan.leaving:
            take, keep = scope.result_memory(name, shape, dtype)
            self.after.insert(0, (keep, ""))
            return take, ""
        return f"{name} = {scope.numpy_name('empty')}({shape}, {scope.dtype(dtype)})", ""

    def _block_name(self, variable: int) -> str:
        return self._derived_name("block", variable)

    def _derived_name(self, kind: str, variable: int) -> str:
        known, key = self.expressions.scope.known, (kind, self.name(variable))
        if key not in known:
            known[key] = self.expressions.scope.fresh(f"{self.name(variable)}_")
        return known[key]

    def _word(self, word: str) -> str:
        """A name that all kernels of a program share, such as ``rows``."""
        known = self.expressions.scope.known
        if ("kernel", word) not in known:
            known["kernel", word] = self.expressions.scope.fresh(word)
        return known["kernel", word]

    def _line(self, text: str, equation: Equation) -> None:
        self.body.append((text, equation.source))


def _as_vector(text: Text, spec: Spec) -> str:
    return text() if len(spec.shape) == 1 else f"{text()}.reshape(-1)"


def _indented(lines: Sequence[Line]) -> list[Line]:
    return [(f"    {text}", source) for text, source in lines]
