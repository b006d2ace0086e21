"""Write kernels as loops over blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeAlias

from funcgrad._backends.numpy.expressions import Expressions, Text
from funcgrad._backends.numpy.fusion import Kernel, combined_by, is_dot, is_total
from funcgrad._backends.numpy.plan import Plan, is_plain_ufunc
from funcgrad._core.specs import Spec
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

Line: TypeAlias = tuple[str, str]
"""A line of the text, and the user's line that it comes from."""


def kernel_lines(
    program: Program,
    plan: Plan,
    kernel: Kernel,
    expressions: Expressions,
    name: Callable[[int], str],
) -> list[Line]:
    """Write the lines of a kernel, which is a step of the plan; ``name`` names variables."""
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
        block, step = self._word("block"), self.kernel.step
        start = f"{step} * {block}"
        body = [(f"{self._word('rows')} = slice({start}, {start} + {step})", ""), *self.body]
        indented = [(f"    {text}", source) for text, source in body]
        head = f"for {block} in range({self.kernel.blocks}):"
        return [*self.before, (head, ""), *indented, *self.after]

    def member(self, position: int) -> None:
        """Write the lines of one equation."""
        equation = self.program.equations[position]
        variable = self.plan.firsts[position]
        texts: list[Text] = []
        specs: list[Spec] = []
        for operand in equation.operands:
            spec = self.plan.specs[operand]
            if prod(spec.shape) == self.kernel.size:
                texts.append(partial(str, self._block(operand)))
                specs.append(replace(spec, shape=(self.kernel.step,)))
            else:
                texts.append(partial(self._whole, operand))
                specs.append(spec)
        if is_total(equation):
            self._total(equation, variable, texts, specs)
        elif variable in self.plan.outside:
            self._result(equation, position, texts, specs)
        elif position in self.plan.takes:
            self.blocks[variable] = self.blocks.pop(self.plan.takes[position])
            place = self.blocks[variable]
            self._line(self.expressions.into(equation, texts, place), equation)
        else:
            self.blocks[variable] = self.name(variable)
            expression = self.expressions.expression(equation, texts, specs)
            self._line(f"{self.name(variable)} = {expression}", equation)
        ended = [v for v, end in self.last.items() if end == position]
        dropped = [self.blocks.pop(v) for v in ended if v in self.blocks]
        if dropped:
            self.body.append((f"del {', '.join(dropped)}", ""))

    def _total(
        self, equation: Equation, variable: int, texts: Sequence[Text], specs: Sequence[Spec]
    ) -> None:
        """Write a reduction: reduce each block, then the results of the blocks."""
        name, block = self.name(variable), self._word("block")
        self.before.append(self._room(variable, self.kernel.blocks))
        if is_dot(equation, self.plan.specs):
            expression = " @ ".join([text() for text in texts])
        else:
            params = {**dict(equation.params), "axis": (0,)}
            flat = replace(equation, params=tuple(params.items()))
            expression = self.expressions.expression(flat, texts, specs)
        self._line(f"{name}[{block}] = {expression}", equation)
        reduce = self.expressions.scope.method(combined_by(equation, self.plan.specs), "reduce")
        self.after.append((f"{name} = {reduce}({name}, 0)", equation.source))

    def _result(
        self, equation: Equation, position: int, texts: Sequence[Text], specs: Sequence[Spec]
    ) -> None:
        """Write the equation of a result that is read after the kernel, as a whole array."""
        variable = self.plan.firsts[position]
        place, start = self._place(variable), ""
        if self.last[variable] != position:
            self.blocks[variable] = self._block_name(variable)
            start = f"{self.blocks[variable]} = "
        if is_plain_ufunc(equation.operation):
            self._line(start + self.expressions.into(equation, texts, place), equation)
        else:
            expression = self.expressions.expression(equation, texts, specs)
            self._line(f"{start}{place} = {expression}", equation)

    # Texts.

    def _place(self, variable: int) -> str:
        """The slice ``name[rows]`` of a result that is read after the kernel, as a whole array."""
        name, shape = self.name(variable), self.plan.specs[variable].shape
        self.before.append(self._room(variable, self.kernel.size))
        if len(shape) > 1:
            self.after.append((f"{name} = {name}.reshape({shape})", ""))
        return f"{name}[{self._word('rows')}]"

    def _block(self, variable: int) -> str:
        """The name of a variable's block; the first call writes the line that slices it."""
        if variable not in self.blocks:
            name, block_name = self.name(variable), self._block_name(variable)
            if len(self.plan.specs[variable].shape) > 1:
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
        """The text of a variable of one element, with at most one axis."""
        name = self.name(variable)
        return f"{name}.reshape(1)" if len(self.plan.specs[variable].shape) > 1 else name

    def _room(self, variable: int, size: int) -> Line:
        """The line that allocates an array for the results of all blocks."""
        scope, name = self.expressions.scope, self.name(variable)
        dtype = self.plan.specs[variable].dtype
        return f"{name} = {scope.numpy_name('empty')}({size}, {scope.dtype(dtype)})", ""

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
