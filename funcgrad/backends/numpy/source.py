r"""The generated text of a module, and the pieces in which it is compiled.

>>> source = Source("import math", "two = 2", ("def f(x):\n    return two * x",), "f", (), True)
>>> print(source.text)
import math
<BLANKLINE>
two = 2
<BLANKLINE>
<BLANKLINE>
def f(x):
    return two * x
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from funcgrad.quick_dataclasses import dataclass

MAKER: Final = "with_constants"
"""The function in the text that takes the objects without a literal and returns the program's."""

_MAKER_HEAD: Final = f'''def {MAKER}(constants):
    """Returns the program's function, given what this text has no words for: the tuple
    program.numpy_constants()."""'''


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text, and the objects in it that have no literal.

    Attributes
    ----------
    imports : str
    globals : str
        Lines that make objects once.
    functions : tuple of str
        The program's function is the last; it may call the others.
    name : str
        The name of the program's function.
    constants : tuple
        Objects without a literal, above all large arrays. If there are any, the text defines
        ``with_constants``, which makes the function from them.
    floats : bool
        Whether it computes with Python's floats, which ignore NumPy's ``errstate``.
    """

    imports: str
    globals: str
    functions: tuple[str, ...]
    name: str
    constants: tuple[Any, ...]
    floats: bool

    @property
    def text(self) -> str:
        """The whole text of the module."""
        if not self.constants:
            return "\n\n\n".join([self._head(), *self.functions, ""])[:-2]
        end = f"    return {self.name}\n"
        return "\n\n".join([self._head(), *map(_indented, self.functions), end])

    def _head(self) -> str:
        """The text before the functions."""
        if not self.constants:
            return f"{self.imports}\n\n{self.globals}" if self.globals else self.imports
        head = f"{self.imports}\n\n\n{_MAKER_HEAD}"
        return f"{head}\n{_indented(self.globals)}" if self.globals else head

    def pieces(self) -> Iterator[str]:
        """Yield pieces of the text to be compiled and run one after the other.

        The first piece defines the globals. Each of the others defines one function, on the lines
        that it has in the whole text.
        """
        yield f"{self.imports}\n{self.globals}"
        between = 2 if self.constants else 3
        line = self._head().count("\n") + between
        for function in self.functions:
            lines = "\n" * line
            if self.constants:  # to the right, as the text has it
                yield f"{lines[1:]}if constants:\n{_indented(function)}"
            else:
                yield f"{lines}{function}"
            line += function.count("\n") + between


def _indented(text: str) -> str:
    return "\n".join([f"    {line}" if line else "" for line in text.split("\n")])
