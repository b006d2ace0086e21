"""The global names of the module being written: imports, constants, other objects made once."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterator
from itertools import chain, count
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import spec_of
from funcgrad._core.trace import RAW, Raw
from funcgrad._core.users_values import runs_apart
from funcgrad._forms.source_text import (
    array_text,
    dtype_text,
    element_text,
    identifier,
    number_name,
    number_text,
    plain_text,
)
from funcgrad._primitives.index_keys import index_text
from funcgrad._programs.names import letters

_RESERVED: Final = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, "np", "constants", "with_constants", "GuardError"}
    | set(
        "abs bool complex float int memoryview range repr slice zip".split()
    )  # builtins that the text may use
)
_DOTTED: Final = re.compile(r"\b(np|math)\.(\w+)(?:\.(reduceat|reduce|accumulate))?")


class Scope:
    """The global names of one module, and the names that are in use."""

    def __init__(self) -> None:
        self.imports: dict[str, list[str]] = {}
        self.globals: list[str] = []
        self.constants: list[Any] = []
        self.known: dict[Any, str] = {}  # names of imports and of objects made once, by key
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
        """A name that is not in use yet: the name itself, or the name with a number behind it."""
        fresh_name = name
        # The number is remembered: counting from 1 each time would take quadratic time.
        while fresh_name in self.taken:
            self.repeats[name] = number = self.repeats.get(name, 0) + 1
            fresh_name = f"{name}_{number if number > 1 else ''}"
        self.taken.add(fresh_name)
        return fresh_name

    def once(self, value: str, name: str) -> str:
        """The global name of an expression that is evaluated once, when the module is made."""
        if value not in self.known:
            self.known[value] = self.fresh(name)
            self.globals.append(f"{self.known[value]} = {value}")
        return self.known[value]

    def letter(self) -> str:
        return self.fresh(next(name for name in self.letters if name not in self.taken))

    def beside(self, value: Raw, dtype: np.dtype[Any]) -> str | None:
        """The global name of a number as a 0-d array; None if its dtype cannot hold the number."""
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
        """Replace ``np.sin``, ``np.add.reduce`` and ``math.sqrt`` in an expression by global names.

        Looking up an attribute at each call takes a tenth of the time of a small operation.
        """
        return _DOTTED.sub(self._global, text)

    def _global(self, match: re.Match[str]) -> str:
        module, name, method = match.groups()
        if module == "math":
            return self.support(module, name, f"{module}_{name}")
        return self.method(name, method) if method else self.numpy_name(name)

    def method(self, name: str, method: str) -> str:
        """The global name of a ufunc's method."""
        return self.once(f"{self.numpy_name(name)}.{method}", f"{name}_{method}")

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """The global name of a dtype."""
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
        """The global name of another module's attribute, made from ``name`` if that is given."""
        if (module, attribute) not in self.known:
            global_name = self.fresh(name or attribute)
            self.known[module, attribute] = self.imported(module, attribute, global_name)
        return self.known[module, attribute]

    def function(self, primitive: Primitive) -> str:
        """An expression for the function that evaluates a primitive, imported if it can be."""
        if primitive not in self.known:
            evaluate: Any = primitive.evaluate
            called = ".evaluate.apart" if runs_apart(evaluate) else ".evaluate"
            home, attribute = _home(evaluate, "", evaluate)
            method = "" if home else called
            if not home:
                home, attribute = _home(primitive, "funcgrad._primitives.", evaluate)
            if home:
                name = self.imported(home, attribute, self.fresh(attribute))
            else:
                name = self.object(primitive, identifier(primitive.name))
            self.known[primitive] = name + method
        return self.known[primitive]

    def object(self, value: Any, name: str) -> str:
        """The global name of an object that is passed to the module as a constant."""
        key = ("object", id(value))
        if key not in self.known:
            self.known[key] = self.from_constants(value, self.fresh(name or "given"))
        return self.known[key]

    def from_constants(self, value: Raw, name: str, comment: str = "") -> str:
        self.globals.append(f"{name} = constants[{len(self.constants)}]{comment}")
        self.constants.append(value)
        return name

    def constant(self, value: Raw) -> str:
        """The text of a constant: a number's literal, or the name of an array made once."""
        if type(value) in (bool, int, float, complex):
            return number_text(value)
        text = array_text(value) if type(value) in RAW else None
        if text is None:
            return self.from_constants(value, self.letter(), f"  # {spec_of(value)}")
        name = self.letter()
        self.globals.append(f"{name} = {text}")
        return name

    def parameter(self, value: Any) -> str:
        """The text of a static parameter; an index with slices is a name, made once."""
        if isinstance(value, tuple) and any(type(entry) is slice for entry in value):
            return self.once(f"np.s_[{index_text(value)}{',' * (len(value) == 1)}]", "key")
        return plain_text(value) or self.object(value, "parameter")


def _home(value: Any, prefix: str, function: Any) -> tuple[str, str]:
    """The module of funcgrad that has a value under a public name, and the name; else empty."""
    origin = getattr(function, "__module__", None) or ""  # None without a module, as by `exec`
    for module in chain((origin,), _loaded(prefix)):
        if not module.startswith("funcgrad."):
            continue
        for name, candidate in vars(sys.modules[module]).items():
            if candidate is value and not name.startswith("_"):
                return module, name
    return "", ""


def _loaded(prefix: str) -> Iterator[str]:
    """Iterate over the loaded modules whose names begin with a prefix; there may be thousands."""
    if prefix:
        yield from [name for name in sys.modules if name.startswith(prefix)]
