"""Functions generated as Python source, and the objects that they name.

Loops over trees take ten times as long as the same steps written out for one structure.

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

    def begun_anew(self) -> Body:
        """A new empty function that refers to objects by the same names."""
        made = Body()
        made._names, made._known = self._names, self._known
        return made

    def line(self, text: str, depth: int = 1) -> None:
        """Append a line, indented by ``depth`` steps."""
        self._lines.append("    " * depth + text)

    def name(self, value: object) -> str:
        """The global name by which the function refers to an object."""
        if value is None or value is True or value is False:
            return repr(value)
        known = self._known.get(id(value))  # `_names` holds the object, so no other gets its id
        if known is None:
            known = self._known[id(value)] = f"_{len(self._names)}"
            self._names[known] = value
        return known

    def literal(self, value: object) -> str:
        """An object's literal if only its value matters, as for ``2``; else its global name."""
        return repr(value) if type(value) in (str, int) else self.name(value)

    def value(self, text: str) -> Any:
        """Evaluate an expression that uses these global names."""
        return eval(text, {"__name__": __name__, **self._names})

    def function(self, name: str, parameters: str) -> Callable[..., Any]:
        """Compile the lines to a function."""
        text = "\n".join([f"def {name}({parameters}):", *self._lines, ""])
        namespace = {"__name__": __name__, **self._names}
        exec(compile(text, f"funcgrad {name}", "exec"), namespace)
        # Popped: otherwise only the garbage collector could free the function.
        return namespace.pop(name)
