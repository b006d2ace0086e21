r"""The generated text of a module.

>>> source = Source("import math", "two = 2", "def f(x):\n    return two * x", "f", (), True)
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

from typing import Any, Final

from funcgrad._base.fast_dataclass import dataclass

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
    function : str
    name : str
        The name of the function.
    constants : tuple
        Objects without a literal, above all large arrays. If there are any, the text defines
        ``with_constants``, which makes the function from them.
    floats : bool
        Whether it computes with Python's floats, which ignore NumPy's ``errstate``.
    """

    imports: str
    globals: str
    function: str
    name: str
    constants: tuple[Any, ...]
    floats: bool

    @property
    def text(self) -> str:
        """The whole text of the module."""
        if not self.constants:
            head = f"{self.imports}\n\n{self.globals}" if self.globals else self.imports
            return f"{head}\n\n\n{self.function}\n"
        head = f"{self.imports}\n\n\n{_MAKER_HEAD}"
        head = f"{head}\n{_indented(self.globals)}" if self.globals else head
        return f"{head}\n\n{_indented(self.function)}\n\n    return {self.name}\n"


def _indented(text: str) -> str:
    return "\n".join([f"    {line}" if line else "" for line in text.split("\n")])
