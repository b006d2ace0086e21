"""Functions generated as text: lines of Python, and the objects that they name.

A call that goes through loops over trees costs ten times what the same steps cost when they are
written out, one after the other, for the tree at hand.

>>> body = Body()
>>> body.line(f"return x is {body.name(Ellipsis)}")
>>> body.function("is_dots", "x")(...)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Body:
    """The lines of an unfinished function."""

    __slots__ = ("_known", "_lines", "_names")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def line(self, text: str, depth: int = 1) -> None:
        """Append a line, indented by ``depth`` steps."""
        self._lines.append("    " * depth + text)

    def name(self, value: object) -> str:
        """The global name that an object has in the function."""
        if value is None or value is True or value is False:
            return repr(value)
        known = self._known.get(id(value))  # the names below keep it, so the number stays its own
        if known is None:
            known = self._known[id(value)] = f"_{len(self._names)}"
            self._names[known] = value
        return known

    def literal(self, value: object) -> str:
        """A literal for an object of which only the value matters, or else its global name."""
        return repr(value) if type(value) in (str, int) else self.name(value)

    def value(self, text: str) -> Any:
        """The value of an expression in these names."""
        return eval(text, {"__name__": __name__, **self._names})

    def function(self, name: str, parameters: str) -> Callable[..., Any]:
        """The function of these lines."""
        text = "\n".join([f"def {name}({parameters}):", *self._lines, ""])
        namespace = {"__name__": __name__, **self._names}
        exec(compile(text, f"funcgrad {name}", "exec"), namespace)
        # A function whose globals hold it would be a cycle, and stay until the collector comes.
        made: Callable[..., Any] = namespace.pop(name)
        return made
