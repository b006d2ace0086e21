"""Functions as text that needs nothing of funcgrad: with all functions and numbers that they use.

A name of the text stands for one object. A function whose names stand for others there is written
inside of a function that has those names as parameters; so are closures.

>>> from funcgrad._backends.numpy.growing_rows import lengthen
>>> texts = Carried({"np": np})
>>> texts.named(lengthen, "lengthen")
'lengthen'
>>> print(texts.text.strip().splitlines()[0])
def lengthen(stack):
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from funcgrad._backends.numpy.literals import array_text, plain_text
from funcgrad._base import fast_dataclass
from funcgrad._base.floating_errors import ignoring
from funcgrad._base.interpreters import names_read
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import TracedValue
from funcgrad._core.users_values import runs_apart
from funcgrad.errors import ProgramError

IMPORTED: Final = frozenset({"numpy", "scipy", *sys.stdlib_module_names} - {"builtins"})
"""Packages that the text may import."""

_REPLACED: Final[Mapping[Any, str]] = types.MappingProxyType(
    {
        ignoring: "def ignoring():\n    return np.errstate(all='ignore')",
        TracedValue: "class TracedValue:\n    pass  # of a transformation: there is none here",
    }
)
"""Objects that do more than the text needs, and what is written instead."""


class NotCarriedError(ProgramError):
    """An object that no text makes."""


class Carried:
    """Definitions in the order in which they are executed.

    Parameters
    ----------
    names : mapping
        From names that are in use already to their objects.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.objects: dict[str, Any] = dict(names)  # held, so that no other gets its `id`
        self.imports: list[str] = []
        self.definitions: list[str] = []
        self._known = {id(value): name for name, value in names.items() if value is not None}
        self._trees: dict[str, list[ast.AST]] = {}

    @property
    def text(self) -> str:
        """The definitions, without the imports."""
        return "\n".join(self.definitions)

    def named(self, value: object, name: str) -> str:
        """The name of an object, which is defined when it is first asked for.

        Raises
        ------
        NotCarriedError
            No text makes it.
        """
        if id(value) in self._known:
            return self._known[id(value)]
        chosen = self.fresh(name)
        self.objects[chosen] = value
        self._known[id(value)] = chosen
        self._define(value, chosen)
        return chosen

    def reserve(self, names: Mapping[str, Any]) -> None:
        """Keep names for objects that ``define`` will define."""
        self.objects.update(names)

    def define(self, name: str, value: object) -> None:
        """Define an object under a name that was reserved.

        Raises
        ------
        NotCarriedError
            No text makes it.
        """
        if id(value) in self._known:
            self.definitions.append(f"{name} = {self._known[id(value)]}\n")
            return
        self._known[id(value)] = name
        self._define(value, name)

    def fresh(self, name: str) -> str:
        """A name that stands for nothing yet."""
        names = (name, *[f"{name}_{number}" for number in range(2, len(self.objects) + 3)])
        return next(name for name in names if name not in self.objects)

    def _define(self, value: object, chosen: str) -> None:
        place = _place(value)
        if isinstance(value, types.FunctionType | type) and value in _REPLACED:
            text = _REPLACED[value].replace(f" {value.__name__}", f" {chosen}", 1)
            self.definitions.append(f"\n{text}\n\n")
        elif place:
            module, attribute = place
            renamed = "" if chosen == (attribute or module) else f" as {chosen}"
            line = f"from {module} import {attribute}" if attribute else f"import {module}"
            self.imports.append(line + renamed)
        elif isinstance(value, types.FunctionType):
            self._function(value, chosen)
        elif isinstance(value, type):
            self._class(value, chosen)
        else:
            self.definitions.append(f"{chosen} = {self.expression(value)}\n")

    def expression(self, value: Any) -> str:
        """An expression for an object.

        Raises
        ------
        NotCarriedError
            There is none.
        """
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            text = array_text(value)
            return text if text is not None else self._array(value)
        if kind in (tuple, list, set, frozenset):
            inner = ", ".join([self.expression(entry) for entry in value])
            if kind is tuple:
                return f"({inner},)" if len(value) == 1 else f"({inner})"
            return f"[{inner}]" if kind is list else f"{kind.__name__}([{inner}])"
        if kind in (dict, types.MappingProxyType):
            entries = [f"{self.expression(k)}: {self.expression(v)}" for k, v in value.items()]
            return f"{{{', '.join(entries)}}}"
        if kind is slice:
            return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
        if kind is functools.partial:
            words = [f"{name}={self.expression(v)}" for name, v in value.keywords.items()]
            inner = ", ".join([self.expression(x) for x in (value.func, *value.args)] + words)
            return f"{self.named(functools.partial, 'partial')}({inner})"
        if kind is functools._lru_cache_wrapper:
            return f"{self.named(functools.cache, 'cache')}({self.expression(value.__wrapped__)})"
        if kind is np.ufunc and value.__name__.endswith(" (vectorized)"):  # of math's functions
            name = value.__name__.partition(" ")[0]
            inner = self.named(getattr(math, name), f"math_{name}")
            return f"{self.named(np.frompyfunc, 'frompyfunc')}({inner}, {value.nin}, {value.nout})"
        if kind is types.GenericAlias:  # of a conversion that is none: cast(Array, x)
            return self.expression(value.__origin__)
        if kind is types.ModuleType:
            return self._module(value)
        if kind is types.MethodType or (
            kind is types.BuiltinMethodType and not isinstance(value.__self__, types.ModuleType)
        ):
            return f"{self.expression(value.__self__)}.{value.__name__}"
        if isinstance(value, Primitive):
            space = self.named(types.SimpleNamespace, "SimpleNamespace")
            if runs_apart(value.evaluate):
                apart = self.expression(value.evaluate.apart)  # type: ignore[attr-defined]
                return f"{space}(evaluate={space}(apart={apart}))"
            return f"{space}(evaluate={self.expression(value.evaluate)})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.expression(kind)}({', '.join(map(self.expression, value))})"
        if kind in (types.FunctionType, type) or isinstance(value, type) or _place(value):
            if getattr(builtins, _name(value), None) is value:
                return _name(value)
            return self.named(value, _name(value))
        text = plain_text(value)
        if text is None:
            raise NotCarriedError(f"it uses {_name(value)}, an object of {kind.__qualname__}")
        return text

    def _module(self, module: types.ModuleType) -> str:
        """A module of functions, as an object with those that its public names stand for."""
        space = self.named(types.SimpleNamespace, "SimpleNamespace")
        public = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        entries = [f"{name}={self.named(getattr(module, name), name)}" for name in public]
        return f"{space}({', '.join(entries)})"

    def _array(self, array: np.ndarray[Any, Any] | np.generic) -> str:
        if array.dtype.hasobject:
            raise NotCarriedError("it uses an array of Python objects")
        data = np.ascontiguousarray(array).tobytes().hex()
        make = f"np.frombuffer(bytes.fromhex('{data}'), {array.dtype.str!r})"
        return f"{make}.reshape({array.shape})"

    def _function(self, function: types.FunctionType, chosen: str) -> None:
        """Write a function, after the definitions of what it uses."""
        checked = getattr(function, "__wrapped__", None)
        if function.__qualname__ != function.__code__.co_qualname and checked is not None:
            function = _unchecked(function, checked)
        node = self._node(function)
        others = {}
        for word, value in _needs(function):
            if value is function and word == function.__name__:
                continue  # it calls itself, by the name of its definition
            text = self._need(value, word)
            if text != word:
                others[word] = text
        node.args.defaults = [_parsed(self.expression(v)) for v in function.__defaults__ or ()]
        named = function.__kwdefaults__ or {}
        node.args.kw_defaults = [
            _parsed(self.expression(named[parameter.arg])) if parameter.arg in named else None
            for parameter in node.args.kwonlyargs
        ]
        if isinstance(node, ast.Lambda):
            local, body = ast.unparse(node), ""
        else:
            local, body = node.name, ast.unparse(_plain(node)) + "\n"
        if not others and local == chosen:
            self.definitions.append(f"\n{body}\n")
        elif not others and not body:
            self.definitions.append(f"{chosen} = {local}\n")
        else:
            maker = self.fresh(f"make_{chosen}")
            self.objects[maker] = None
            self.definitions.append(
                f"\ndef {maker}({', '.join(others)}):\n{textwrap.indent(body, '    ')}"
                f"    return {local}\n\n\n{chosen} = {maker}({', '.join(others.values())})\n"
            )

    def _need(self, value: object, word: str) -> str:
        """The text of what a word of a function stands for."""
        if isinstance(value, bool | int | float | str | None) and word in self.objects:
            return self.expression(value)
        return self.named(value, word)

    def _class(self, cls: type[Any], chosen: str) -> None:
        node = next(
            (
                n
                for n in self._nodes(sys.modules[cls.__module__].__file__ or "")
                if isinstance(n, ast.ClassDef) and n.name == cls.__qualname__
            ),
            None,
        )
        if node is None or issubclass(cls, Primitive) or len(node.body) > 12:
            raise NotCarriedError(f"it uses {cls.__module__}.{cls.__qualname__}")
        names = vars(sys.modules[cls.__module__])
        words = {n.id for n in ast.walk(_plain(node)) if isinstance(n, ast.Name)}
        others = {}
        for word in sorted(words):
            if word in names and word != cls.__name__ and not hasattr(builtins, word):
                if names[word] is fast_dataclass.dataclass:
                    self.imports.append("from dataclasses import dataclass")
                    continue
                text = self._need(names[word], word)
                if text != word:
                    others[word] = text
        if others or chosen != cls.__name__:
            raise NotCarriedError(f"it uses {cls.__qualname__}, whose names mean something else")
        self.definitions.append(f"\n{ast.unparse(node)}\n\n")

    def _nodes(self, file: str) -> list[ast.AST]:
        if file not in self._trees:
            try:
                with open(file, encoding="utf-8") as source:
                    self._trees[file] = list(ast.walk(ast.parse(source.read())))
            except (OSError, SyntaxError) as error:
                raise NotCarriedError(
                    f"the source of {file or 'a function'} is not there"
                ) from error
        return self._trees[file]

    def _node(self, function: types.FunctionType) -> Any:
        """A new syntax tree of a function, without decorators."""
        code = function.__code__
        matching: list[Any] = []
        for node in self._nodes(code.co_filename):
            if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
                arguments = [arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
                fits = sorted(arguments) == sorted(code.co_varnames[: len(arguments)])
                if node.lineno == code.co_firstlineno and fits and _covers(node, code):
                    matching.append(node)
            elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                lines = [node.lineno, *[d.lineno for d in node.decorator_list]]
                if min(lines) == code.co_firstlineno:
                    matching.append(node)
        if not matching:
            raise NotCarriedError(f"the source of {function.__qualname__} is not there")
        node = min(matching, key=lambda node: node.end_col_offset - node.col_offset)
        copy: Any = ast.parse(ast.unparse(node)).body[0]
        return copy.value if isinstance(node, ast.Lambda) else copy


def _unchecked(function: types.FunctionType, inner: object) -> types.FunctionType:
    """The user's function, where funcgrad has wrapped it in a check of its results."""
    is_check = function.__code__.co_filename.endswith("users_values.py")
    return inner if is_check and isinstance(inner, types.FunctionType) else function


def _covers(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether a function's code comes from within a syntax tree."""
    columns = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(start <= place <= end for place in columns)


def _plain(node: Any) -> Any:
    """A function or class without annotations, and a function without decorators."""
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef):
            child.returns = None
        if isinstance(child, ast.arg):
            child.annotation = None
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    return node


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _needs(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The names that a function uses and that are not its own, with their objects."""
    code = function.__code__
    cells = function.__closure__ or ()
    for word, cell in zip(code.co_freevars, cells, strict=True):
        yield word, cell.cell_contents
    for word in sorted(_global_words(code)):
        if word in function.__globals__:
            yield word, function.__globals__[word]


def _global_words(code: types.CodeType) -> set[str]:
    words = {name for kind, name in names_read(code) if kind == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            words |= _global_words(constant)
    return words


def _name(value: object) -> str:
    name = str(getattr(value, "__name__", None) or getattr(value, "name", "value"))
    return name if name.isidentifier() else "function"


def _place(value: object) -> tuple[str, str] | None:
    """The module and the name from which the text may import an object; None if there is none."""
    if isinstance(value, types.ModuleType):
        return (value.__name__, "") if value.__name__.partition(".")[0] in IMPORTED else None
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    if not isinstance(name, str):
        return None
    for module in (getattr(value, "__module__", None), "numpy", "math"):
        is_there = isinstance(module, str) and module.partition(".")[0] in IMPORTED
        if is_there and getattr(sys.modules.get(str(module)), name, None) is value:
            return str(module), name
    return None
