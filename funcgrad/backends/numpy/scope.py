"""The global names of an unfinished module: imports, objects made once, and given objects."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from itertools import count
from typing import Any, Final

import numpy as np

from funcgrad.backends.numpy.literals import (
    array_text,
    dtype_text,
    element_text,
    identifier,
    number_name,
    number_text,
    plain_text,
)
from funcgrad.primitive import Primitive
from funcgrad.primitives.index_keys import index_text
from funcgrad.programs.names import letters
from funcgrad.shape import spec_of
from funcgrad.trace import RAW, Raw

_RESERVED: Final = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, "np", "constants", "with_constants", "GuardError"}
    | set(
        "abs bool complex float int memoryview range repr slice zip".split()
    )  # what the text has of Python's
)
_DOTTED: Final = re.compile(r"\b(np|math)\.(\w+)(?:\.(reduce|accumulate))?")


class Scope:
    """The global names of one module, and the names that are taken."""

    def __init__(self) -> None:
        self.imports: dict[str, list[str]] = {}
        self.globals: list[str] = []
        self.constants: list[Any] = []
        self.known: dict[Any, str] = {}  # names of what is imported or made once, by what it is
        self.taken: set[str] = set(_RESERVED)
        self.repeats: dict[str, int] = {}
        self.letters = map(letters, count())

    def import_lines(self) -> list[str]:
        """The module's first lines."""
        lines = ["import numpy as np"]
        for module in sorted(self.imports, key=lambda name: (name != "numpy", name)):
            lines.append(f"from {module} import {', '.join(sorted(self.imports[module]))}")
        return lines

    def fresh(self, name: str) -> str:
        """A new name, like the one wanted."""
        fresh_name = name
        # Names that grew with their number would take its square in all.
        while fresh_name in self.taken:
            self.repeats[name] = number = self.repeats.get(name, 0) + 1
            fresh_name = f"{name}_{number if number > 1 else ''}"
        self.taken.add(fresh_name)
        return fresh_name

    def once(self, value: str, name: str) -> str:
        """A global name for an expression."""
        if value not in self.known:
            self.known[value] = self.fresh(name)
            self.globals.append(f"{self.known[value]} = {value}")
        return self.known[value]

    def letter(self) -> str:
        return self.fresh(next(name for name in self.letters if name not in self.taken))

    def beside(self, value: Raw, dtype: np.dtype[Any]) -> str | None:
        """A number as a 0-d array; None where an array of that dtype would change a result."""
        if not isinstance(value, (int, float, np.floating)) or dtype.kind != "f":
            return None
        with np.errstate(over="ignore"):
            number = dtype.type(value)
        if np.isfinite(number) != np.isfinite(float(value)) or (
            isinstance(value, int) and number != value
        ):
            return None
        text = element_text(number)
        return self.once(f"np.array({text}, {dtype_text(dtype)})", number_name(text))

    def named(self, text: str) -> str:
        """Replace the names of NumPy, of methods of ufuncs and of ``math`` in an expression by
        global names.

        To look them up in the module at each call takes a tenth of a small operation.
        """
        return _DOTTED.sub(self._global, text)

    def _global(self, match: re.Match[str]) -> str:
        module, name, method = match.groups()
        if module == "math":
            return self.support(module, name, f"{module}_{name}")
        return self.method(name, method) if method else self.numpy_name(name)

    def method(self, name: str, method: str) -> str:
        """A method of a ufunc as a global name."""
        return self.once(f"{self.numpy_name(name)}.{method}", f"{name}_{method}")

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """A dtype as a global name."""
        return self.numpy_name(dtype_text(dtype).removeprefix("np."))

    def numpy_name(self, name: str) -> str:
        path = f"np.{name}"
        if path not in self.known:
            global_name = self.fresh(f"{name}_" if hasattr(builtins, name) else name)
            self.known[path] = self.imported("numpy", name, global_name)
        return self.known[path]

    def imported(self, module: str, attribute: str, name: str) -> str:
        renamed = f" as {name}" if name != attribute else ""
        self.imports.setdefault(module, []).append(attribute + renamed)
        return name

    def support(self, module: str, attribute: str, name: str = "") -> str:
        """A global name, like the one wanted, for an attribute of another module of the backend."""
        if (module, attribute) not in self.known:
            global_name = self.fresh(name or attribute)
            self.known[module, attribute] = self.imported(module, attribute, global_name)
        return self.known[module, attribute]

    def made(self, module: str, kind: str, name: str, arguments: str = "") -> str:
        """A global name for an object of one of its classes."""
        global_name = self.fresh(name)
        self.globals.append(f"{global_name} = {self.support(module, kind)}({arguments})")
        return global_name

    def result_memory(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> tuple[str, str]:
        """Statements that take memory for a result that is returned, and that remember it."""
        memory = self.made(
            "funcgrad.backends.numpy.result_memory", "ResultMemory", f"{name}_memory"
        )
        return f"{name} = {memory}.take({shape}, {self.dtype(dtype)})", f"{memory}.keep({name})"

    def function(self, primitive: Primitive) -> str:
        """An expression for the function that evaluates a primitive, imported from its home."""
        if primitive not in self.known:
            evaluate: Any = primitive.evaluate
            home, attribute = _home(evaluate, "", evaluate)
            method = ""
            if not home:
                home, attribute = _home(primitive, "funcgrad.primitives.", evaluate)
                method = ".evaluate"
            if home:
                name = self.imported(home, attribute, self.fresh(attribute))
            else:
                name = self.object(primitive, identifier(primitive.name))
                method = ".evaluate"
            self.known[primitive] = name + method
        return self.known[primitive]

    def object(self, value: Any, name: str) -> str:
        """A name for an object that the module is given."""
        key = ("object", id(value))
        if key not in self.known:
            self.known[key] = self.from_constants(value, self.fresh(name or "given"))
        return self.known[key]

    def from_constants(self, value: Raw, name: str, comment: str = "") -> str:
        self.globals.append(f"{name} = constants[{len(self.constants)}]{comment}")
        self.constants.append(value)
        return name

    def constant(self, value: Raw) -> str:
        """The text of a constant: that of a number, or the name of an array that is made once."""
        if type(value) in (bool, int, float, complex):
            return number_text(value)
        text = array_text(value) if type(value) in RAW else None
        if text is None:
            return self.from_constants(value, self.letter(), f"  # {spec_of(value)}")
        name = self.letter()
        self.globals.append(f"{name} = {text}")
        return name

    def parameter(self, value: Any) -> str:
        """A static parameter; an index with slices is made once."""
        if isinstance(value, tuple) and any(type(entry) is slice for entry in value):
            return self.once(f"np.s_[{index_text(value)}{',' * (len(value) == 1)}]", "key")
        return plain_text(value) or self.object(value, "parameter")


def _home(value: Any, prefix: str, function: Any) -> tuple[str, str]:
    """The module and the public name that a value is imported from, if it is."""
    origin = getattr(function, "__module__", "")
    for module in (origin, *[name for name in sys.modules if prefix and name.startswith(prefix)]):
        if not module.startswith("funcgrad."):
            continue
        for name, candidate in vars(sys.modules[module]).items():
            if candidate is value and not name.startswith("_"):
                return module, name
    return "", ""
