"""Functions as text that needs nothing of funcgrad: with all functions and numbers that they use.

A name of the text stands for one object. Where a function has another name for an object, or closes
over it, its text gets the object's name.

>>> from funcgrad._forms.source_text import identifier
>>> carried = Carried({"np": np})
>>> carried.expression(identifier)
'identifier'
>>> print(carried.definitions[-1].strip().splitlines()[0])
def identifier(name):
"""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import inspect
import math
import symtable
import sys
import textwrap
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from funcgrad._base import fast_dataclass
from funcgrad._base.floating_errors import ignoring
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import TracedValue
from funcgrad._core.users_values import runs_apart
from funcgrad._forms.source_text import array_text, plain_text, tuple_text
from funcgrad.errors import ProgramError

IMPORTED: Final = frozenset({"numpy", "scipy", *sys.stdlib_module_names} - {"builtins"})
"""Packages that the text may import."""

_REPLACED: Final[Mapping[Any, str]] = types.MappingProxyType(
    {
        ignoring: "def {}():\n    return np.errstate(all='ignore')",
        TracedValue: "class {}:\n    pass  # of a transformation: there is none here",
        fast_dataclass.dataclass: "from dataclasses import dataclass as {}",
    }
)
"""Objects that do more than the text needs, each with its replacement."""

_CHECKS: Final = runs_apart.__code__.co_filename
"""Here are funcgrad's checks of users' functions, which the text leaves out."""

_COLUMNS: Final = 88


class NotCarriedError(ProgramError):
    """An object that no text makes."""


class Carried:
    """Definitions in the order in which they are executed.

    Parameters
    ----------
    names : mapping
        From names that are in use already to their objects; to None where these do not matter.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.imports: list[str] = []
        self.definitions: list[str] = []
        self._taken = {*names, *dir(builtins)}
        self._names = {id(value): name for name, value in names.items() if value is not None}
        self._held = [*names.values()]  # so that no other object gets the `id` of one

    def define(self, name: str, value: object) -> None:
        """Define an object under a name that is in use.

        Raises
        ------
        NotCarriedError
            No text makes it.
        """
        if id(value) in self._names:
            self.definitions.append(f"{name} = {self._names[id(value)]}\n")
        else:
            self._define(value, name)

    def fresh(self, name: str, other: Iterable[str] = ()) -> str:
        """A name that stands for nothing yet, here and among the other names."""
        taken, number, fresh_name = {*self._taken, *other}, 1, name
        while fresh_name in taken:
            number += 1
            fresh_name = f"{name}_{number}"
        self._taken.add(fresh_name)
        return fresh_name

    def named(self, value: object, name: str) -> str:
        """The name of an object, which is defined when it is first asked for."""
        if id(value) not in self._names:
            self._define(value, self.fresh(name))
        return self._names[id(value)]

    def _define(self, value: Any, name: str) -> None:
        self._held.append(value)
        self._names[id(value)] = name
        if isinstance(value, types.FunctionType) and value.__code__.co_filename == _CHECKS:
            value = getattr(value, "__wrapped__", value)
        is_code = isinstance(value, types.FunctionType | type)
        place = _place(value)
        if is_code and value in _REPLACED:
            self.definitions.append(f"\n{_REPLACED[value].format(name)}\n\n")
        elif place:
            module, attribute = place
            renamed = "" if name == (attribute or module) else f" as {name}"
            line = f"from {module} import {attribute}" if attribute else f"import {module}"
            self.imports.append(line + renamed)
        elif is_code and isinstance(value, type) and issubclass(value, Exception):
            base = next(b for b in value.__mro__ if not b.__module__.startswith("funcgrad"))
            self.definitions.append(f"\nclass {name}({self.expression(base)}):\n    pass\n\n")
        elif is_code:
            self.definitions.append(self._copy(value, name))
        else:
            self.definitions.append(f"{name} = {self.expression(value)}\n")

    def expression(self, value: Any) -> str:
        """An expression for an object.

        Raises
        ------
        NotCarriedError
            There is none.
        """
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            return array_text(value) or self.stored(value)
        if kind in (tuple, frozenset):
            texts = [self.expression(entry) for entry in value]
            return tuple_text(texts) if kind is tuple else f"frozenset([{', '.join(texts)}])"
        if kind in (dict, types.MappingProxyType):
            entries = [f"{self.expression(k)}: {self.expression(v)}" for k, v in value.items()]
            return f"{{{', '.join(entries)}}}"
        if kind is functools.partial:
            words = [f"{name}={self.expression(v)}" for name, v in value.keywords.items()]
            inner = ", ".join([*map(self.expression, (value.func, *value.args)), *words])
            return f"{self.named(functools.partial, 'partial')}({inner})"
        if kind is np.ufunc and value.__name__.endswith(" (vectorized)"):  # of math's functions
            inner = self.expression(getattr(math, value.__name__.partition(" ")[0]))
            return f"np.frompyfunc({inner}, {value.nin}, {value.nout})"
        if kind is types.GenericAlias:  # of a conversion that is none: cast(Array, x)
            return self.expression(value.__origin__)
        if kind is types.BuiltinMethodType and isinstance(value.__self__, np.ufunc):
            return f"{self.expression(value.__self__)}.{value.__name__}"
        if isinstance(value, Primitive):
            if runs_apart(value.evaluate):
                return self._namespace(evaluate=types.SimpleNamespace(apart=value.evaluate.apart))  # type: ignore[attr-defined]
            return self._namespace(evaluate=value.evaluate)
        if kind is types.SimpleNamespace:
            return self._namespace(**vars(value))
        if kind is types.ModuleType and hasattr(value, "__all__") and not _place(value):
            return self._namespace(**{name: getattr(value, name) for name in value.__all__})
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.expression(kind)}({', '.join(map(self.expression, value))})"
        if kind is types.FunctionType or isinstance(value, type) or _place(value):
            name = _name(value)
            return name if getattr(builtins, name, None) is value else self.named(value, name)
        text = plain_text(value)
        if text is None:
            raise NotCarriedError(f"it uses {_name(value)}, an object of {kind.__qualname__}")
        return text

    def stored(self, value: Any) -> str:
        """An expression for a large array, of bytes as text; its order in memory stays."""
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise NotCarriedError("it uses an array of Python objects")
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        data = base64.b64encode(np.ascontiguousarray(array.transpose(axes)).tobytes()).decode()
        lines = [f'    "{data[k : k + _COLUMNS]}"' for k in range(0, len(data), _COLUMNS)]
        moved = "" if axes == sorted(axes) else f", {axes}"
        text = "\n".join(lines)
        return f"_stored(\n{text},\n    {array.dtype.str!r}, {array.shape}{moved})"

    def _namespace(self, **objects: Any) -> str:
        entries = [f"{name}={self.expression(value)}" for name, value in objects.items()]
        return f"{self.named(types.SimpleNamespace, 'SimpleNamespace')}({', '.join(entries)})"

    def _copy(self, value: Any, chosen: str) -> str:
        """The text of a function or class, after the definitions that it uses."""
        node = _node(value)
        if isinstance(value, types.FunctionType):
            node.args.defaults = [_parsed(self.expression(v)) for v in value.__defaults__ or ()]
            named = value.__kwdefaults__ or {}
            node.args.kw_defaults = [
                _parsed(self.expression(named[parameter.arg])) if parameter.arg in named else None
                for parameter in node.args.kwonlyargs
            ]
        elif issubclass(value, Primitive):
            raise NotCarriedError(f"it uses {value.__module__}.{value.__qualname__}")
        used, local = _words(node)
        names = {}
        meanings = _meanings(value)
        for word in sorted(used & meanings.keys()):
            inner = meanings[word]
            text = self.named(inner, word)
            if text in local:  # there it is something else
                text = self.fresh(word, local)
                self.definitions.append(f"{text} = {self.named(inner, word)}\n")
            if text != word and word in local:
                raise NotCarriedError(f"it uses {chosen}, where {word} has two meanings")
            names[word] = text
        node = _Renamed(names).visit(node)
        if isinstance(node, ast.Lambda):
            return f"{chosen} = {ast.unparse(node)}\n"
        node.name = chosen
        return f"\n{ast.unparse(node)}\n\n"


class _Renamed(ast.NodeTransformer):
    """Gives words other names, and takes away annotations."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node


def _node(value: Any) -> Any:
    """The syntax tree of a function or class, without annotations."""
    try:
        if isinstance(value, types.FunctionType) and value.__code__.co_name == "<lambda>":
            node: Any = _lambda(value.__code__)
        else:
            code = getattr(value, "__code__", value)  # of this function, not one that it wraps
            node = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except (OSError, SyntaxError, TypeError, ValueError) as error:
        raise NotCarriedError(f"the source of {value.__qualname__} is not there") from error
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef):
            child.returns = None
        elif isinstance(child, ast.arg):
            child.annotation = None
        elif isinstance(child, ast.AnnAssign):
            child.annotation = ast.Name("object", ast.Load())
    return node


def _lambda(code: types.CodeType) -> ast.Lambda:
    """The smallest syntax tree of a lambda that contains all places of its code.

    Code that makes another lambda has the place where that one begins.
    """
    with open(code.co_filename, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    places = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and all((node.lineno, node.col_offset) < place for place in places)
        and all(place <= (node.end_lineno or 0, node.end_col_offset or 0) for place in places)
    ]
    return min(nodes, key=lambda node: (node.end_col_offset or 0) - node.col_offset)


def _words(node: ast.AST) -> tuple[set[str], set[str]]:
    """The global words that a syntax tree reads, and its local words."""
    used: set[str] = set()
    inner: set[str] = set()
    whole = symtable.symtable(ast.unparse(node), "carried", "exec")
    tables = [whole]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table is not whole and (symbol.is_local() or symbol.is_parameter()):
                inner.add(symbol.get_name())
            elif symbol.is_referenced() and symbol.is_global():
                used.add(symbol.get_name())
    return used, inner


def _meanings(value: Any) -> dict[str, Any]:
    """The objects of the words of a function or class."""
    if isinstance(value, type):
        return dict(vars(sys.modules[value.__module__]))
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    return value.__globals__ | {word: cell.cell_contents for word, cell in cells}


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


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
