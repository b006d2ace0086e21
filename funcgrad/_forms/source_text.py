r"""Python's text: values and names, exact to the last bit, and the whole text of a module.

>>> number_text(-0.0), element_text(np.float32(0.1)), plain_text((1, None, "ij"))
('(-0.0)', '0.1', "(1, None, 'ij')")
>>> print(Source("import math", "two = 2", "def f(x):\n    return two * x", "f", (), True).text)
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

import re
from collections.abc import Sequence
from math import copysign
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import Raw

_SPELLED_OUT: Final = 8
"""The largest size of an array that is written out as a literal."""


def number_text(value: Raw) -> str:
    """A Python number as text, in parentheses if it is negative."""
    if type(value) is complex:
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    if type(value) is not float:
        return repr(value) if value >= 0 else f"({value!r})"
    if value != value:
        return "np.nan" if copysign(1, value) > 0 else "(-np.nan)"
    text = "np.inf" if abs(value) == np.inf else repr(abs(value))
    return text if copysign(1, value) > 0 else f"(-{text})"


def number_name(text: str) -> str:
    """A name that reads as the number: 2.0 is _2 and -0.5 is _minus_0_5."""
    return "_" + re.sub(r"\W+", "_", text.removesuffix(".0").replace("-", "minus_"))


def dtype_text(dtype: np.dtype[Any]) -> str:
    return f"np.{dtype.type.__name__}"


def element_text(value: Raw) -> str:
    """A NumPy scalar as the text of a Python number, as short as the dtype allows."""
    number = value.item()
    if type(number) is float and number == number and abs(number) != np.inf:
        short = str(abs(value))
        if value.dtype.type(float(short)) == abs(value):
            return short if copysign(1, number) > 0 else f"-{short}"
    text = number_text(number)
    return text[1:-1] if text.startswith("(") else text


def array_text(value: Raw) -> str | None:
    """A NumPy scalar or a small array as text; None for an array that is too long."""
    dtype = dtype_text(value.dtype)
    if isinstance(value, np.generic):
        return f"{dtype}({element_text(value)})"
    if not value.flags.c_contiguous:
        return None  # the order in memory affects how sums are rounded
    if not value.size:
        return f"np.empty({value.shape}, {dtype})"
    if value.size <= _SPELLED_OUT:
        return f"np.array({_nested(value)}, {dtype})"
    first = value.reshape(-1)[0]
    if value.tobytes() == first.tobytes() * value.size:
        return f"np.full({value.shape}, {element_text(first)}, {dtype})"
    return None


def _nested(array: Raw) -> str:
    if not array.ndim:
        return element_text(array[()])
    return f"[{', '.join([_nested(row) for row in array])}]"


def plain_text(value: Raw) -> str | None:
    """A static parameter as text; None if it has no literal."""
    if isinstance(value, np.dtype):
        return f"np.dtype({dtype_text(value)})"
    if type(value) in (bool, int, float, complex):
        return number_text(value)
    if value is None or type(value) is str:
        return repr(value)
    if isinstance(value, tuple):
        texts = [plain_text(entry) for entry in value]
        return None if None in texts else tuple_text([text for text in texts if text])
    return None


def tuple_text(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


# Names.


def identifier(name: str) -> str:
    """A name without the characters that Python does not allow; empty if nothing remains."""
    text = re.sub(r"\W+", "_", name).strip("_")
    return text if text.isidentifier() and text != "lambda" else ""


# Modules.

MAKER: Final = "with_constants"
"""The function in the text that takes the objects without a literal and returns the program's."""

_MAKER_HEAD: Final = f'''def {MAKER}(constants):
    """Returns the program's function, given the objects that have no literal: the tuple
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
