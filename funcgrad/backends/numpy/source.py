r"""The text of a module as the writer made it, and the pieces in which it is compiled.

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
"""The text's function that takes the objects without a literal and returns the program's."""

_MAKER_HEAD: Final = f'''def {MAKER}(constants):
    """Returns the program's function, given what this text has no words for: the tuple
    program.numpy_constants()."""'''


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text, and the objects that it needs besides.

    Attributes
    ----------
    imports : str
    globals : str
        Lines that make objects once.
    functions : tuple of str
        The last one is the program's; the others are those that it calls.
    name : str
        Of the function.
    constants : tuple
        Objects without a literal, above all large arrays. If there are any, the text defines
        ``with_constants``, which makes the function from them.
    floats : bool
        Whether it computes with Python's floats, of which NumPy's ``errstate`` knows nothing.
    """

    imports: str
    globals: str
    functions: tuple[str, ...]
    name: str
    constants: tuple[Any, ...]
    floats: bool

    @property
    def text(self) -> str:
        """The module."""
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
        """Texts that do the same as the whole, if each is compiled and run in turn.

        The first one makes the globals from ``constants``. Then come the functions, each of which
        defines one more name, on the lines where the whole text has them.
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
