r"""Split a long function into several, which pass on the variables that later ones read.

Python needs 2 kB of memory per line while it compiles a function, and frees it only after the last
line. So the lines of a long program are split into functions, the *parts*, which are compiled one
by one. For each pair of parts, one tuple carries the variables that the first makes and the second
reads; it is dropped when unpacked, so no variable lives longer than in one long function.

>>> parts = Parts("f", "x", longest=1)
>>> parts.makes([0])
>>> parts.line("a = x + x")
>>> parts.makes([1])
>>> parts.begins(reads=[1, 0])
>>> parts.line("b = a * x")
>>> for function in parts.functions(lambda variable: "xab"[variable], "b"):
...     print("\n".join(function))
def f_1(live, x):
    a = x + x
    live[1, 2] = (a, x,)
    return live
def f_2(live):
    a, x, = live.pop((1, 2))
    b = a * x
    return b
def f(x):
    live = {}
    if f_1(live, x) is None:
        return None
    return f_2(live)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

LONGEST: Final = 2**12
"""Lines of a part. Passing a variable on takes 15 ns, a twentieth of an operation on arrays."""


class Parts:
    """The lines of an unfinished function, and which variables its parts make and read.

    Parameters
    ----------
    name, inputs : str
        The function's name and its parameters.
    longest : int
        The number of lines after which the next step begins a new part.
    """

    def __init__(self, name: str, inputs: str, longest: int = LONGEST) -> None:
        self.name = name
        self.inputs = inputs
        self.longest = longest
        self.lines: list[list[str]] = [[]]
        self.reads: list[dict[int, None]] = [{}]
        self.makers: dict[int, int] = {}
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines[-1].append(f"{'    ' * self.depth}{text}")

    def begins(self, reads: Iterable[int]) -> None:
        """Note that a step with these operands begins; it may begin a new part."""
        if len(self.lines[-1]) >= self.longest:
            self.lines.append([])
            self.reads.append({})
        if len(self.lines) > 1:
            self.reads[-1].update(dict.fromkeys(reads))

    def makes(self, variables: Iterable[int]) -> None:
        """Note that the current part makes these variables, unless an earlier part did."""
        for variable in variables:
            self.makers.setdefault(variable, len(self.lines) - 1)

    def functions(self, names: Callable[[int], Sequence[str]], result: str) -> list[list[str]]:
        """The lines of the parts and, last, of the function that calls them.

        Parameters
        ----------
        names : callable
            From a variable to its names in the text.
        result : str
            The expression that the function returns.
        """
        count, result = len(self.lines), f"    return {result}"
        if count == 1:
            return [[f"def {self.name}({self.inputs}):", *self.lines[0], result]]
        functions = []
        handed = self._handed(names)
        for number, lines in enumerate(self.lines):
            first = f", {self.inputs}" if self.inputs and not number else ""
            before, after = [], []
            for (maker, reader), pair_names in handed.items():
                text = ", ".join(pair_names)
                if reader == number:
                    before.append(f"    {text}, = live.pop(({maker + 1}, {reader + 1}))")
                elif maker == number:
                    after.append(f"    live[{maker + 1}, {reader + 1}] = ({text},)")
            after.append(result if number == count - 1 else "    return live")
            functions.append(
                [f"def {self.name}_{number + 1}(live{first}):", *before, *lines, *after]
            )
        functions.append(self._driver())
        return functions

    def _handed(self, names: Callable[[int], Sequence[str]]) -> dict[tuple[int, int], list[str]]:
        """For each pair of parts, the names that the first makes and the second reads."""
        handed: dict[tuple[int, int], dict[str, None]] = {}
        for reader, variables in enumerate(self.reads):
            for variable in variables:
                maker = self.makers.get(variable, reader)
                if maker < reader:
                    pair_names = handed.setdefault((maker, reader), {})
                    pair_names.update(dict.fromkeys(names(variable)))
        return {pair: list(pair_names) for pair, pair_names in handed.items()}

    def _driver(self) -> list[str]:
        """The lines of the function that calls the parts, one after the other."""
        count = len(self.lines)
        lines = [f"def {self.name}({self.inputs}):", "    live = {}"]
        for number in range(1, count):
            arguments = f"live, {self.inputs}" if self.inputs and number == 1 else "live"
            lines.append(f"    if {self.name}_{number}({arguments}) is None:")
            lines.append("        return None")
        return [*lines, f"    return {self.name}_{count}(live)"]
