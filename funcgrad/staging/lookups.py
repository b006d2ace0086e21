"""What code looks up by name, and whose code it is.

The names tell what of a module, of an object or of a class a function may read, which is mostly
little of it: a trainer's ``step`` reads its ``rate`` and not its ``history``.

>>> def step(trainer, x):
...     trainer.seen = x
...     return trainer.rate * x * SCALE
>>> found = lookups(step.__code__)
>>> sorted(found.globals), sorted(found.attributes), found.inspects
(['SCALE'], ['SCALE', 'rate'], False)
"""

from __future__ import annotations

import dis
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

__all__ = [
    "Lookups",
    "imported",
    "inspects",
    "is_foreign",
    "is_library",
    "is_library_code",
    "lookups",
]

_LIBRARIES: Final = frozenset({*sys.stdlib_module_names, "builtins", "funcgrad", "numpy"})
# The standard library and what is installed beside NumPy do not change under a running program.
_OWN: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_HOMES: Final = (
    _OWN,
    str(Path(np.__file__).resolve().parents[1]) + os.sep,
    str(Path(os.__file__).resolve().parent) + os.sep,
)
_REFLECTIVE: Final = frozenset(
    "__dict__ __getattribute__ attrgetter dir eval exec getattr getmembers hasattr vars".split()
)
"""Who uses one of these may read attributes of any name, of modules as well."""
_INSPECTING: Final = _REFLECTIVE | frozenset(
    "__getstate__ __reduce__ __reduce_ex__ asdict astuple copy deepcopy dump dumps evolve fields"
    " format format_map methodcaller pprint replace".split()
)
"""Who uses one of these may read attributes of any name, of objects."""
_IMPORTING: Final = frozenset({"__import__", "import_module", "modules"})
"""Who uses one of these may import modules whose names stand in strings."""
_SPACES: Final = frozenset({"eval", "exec", "globals", "vars", "locals"})
"""Who uses one of these may read globals whose names stand in strings."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_HEAP_TYPE: Final = 1 << 9
_SHIFTS: Final[Mapping[int, int]] = MappingProxyType(
    {
        dis.opmap[name]: shift
        for name, shift in (
            ("LOAD_GLOBAL", 1),
            ("LOAD_ATTR", 1 if sys.version_info >= (3, 12) else 0),
            ("LOAD_SUPER_ATTR", 2),
        )
        if name in dis.opmap
    }
)
"""How far the argument of an instruction has to be shifted to be the number of a name."""
_NAMED: Final = frozenset(dis.hasname)
_EXTENDED: Final = dis.opmap["EXTENDED_ARG"]
_WRITES: Final = frozenset(
    [code for name, code in dis.opmap.items() if name.startswith(("STORE_", "DELETE_"))]
)
_GLOBALS: Final = frozenset(
    [
        dis.opmap[name]
        for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
        if name in dis.opmap
    ]
)
_IMPORT: Final = dis.opmap["IMPORT_NAME"]
_MATCH: Final = dis.opmap["MATCH_CLASS"]


@dataclass(frozen=True, slots=True)
class Lookups:
    """The names that code looks up, with those of the functions inside it.

    Attributes
    ----------
    globals : frozenset of str
        Read as global names.
    attributes : frozenset of str
        Read in any way, as those of attributes are.
    imports : frozenset of str
        Modules that it imports, with those names that may be one.
    random : frozenset of str
        The global names of what it reads an attribute ``random`` of.
    inspects : bool
        It may read attributes of objects whose names are not to be found in it.
    reflects : bool
        It may so read those of modules, too.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]
    random: frozenset[str]
    inspects: bool
    reflects: bool


def lookups(code: CodeType) -> Lookups:
    """What a function's code looks up."""
    globals_, attributes, imports = set[str](), set[str](), set[str]()
    strings, random = set[str](), set[str]()
    matches = False
    waiting = [code]
    while waiting:
        inner = waiting.pop()
        importing, before = False, ""
        for operation, argument in _instructions(inner.co_code):
            if operation == _MATCH:
                matches = True
            elif operation in _NAMED and operation not in _WRITES:
                name = inner.co_names[argument >> _SHIFTS.get(operation, 0)]
                attributes.add(name)
                if operation in _GLOBALS:
                    globals_.add(name)
                elif name == "random" and before:
                    random.add(before)
                before = name if operation in _GLOBALS else ""
                importing = importing or operation == _IMPORT
        if importing:
            imports.update(inner.co_names)
        for constant in _flat(inner.co_consts):
            if isinstance(constant, CodeType):
                waiting.append(constant)
            elif isinstance(constant, str):
                strings.add(constant)
    if not attributes.isdisjoint(_SPACES):
        globals_.update([word for text in strings for word in _WORD.findall(text)])
    if not attributes.isdisjoint(_IMPORTING):
        imports |= strings
    return Lookups(
        globals=frozenset(globals_),
        attributes=frozenset(attributes),
        imports=frozenset(imports),
        random=frozenset(random),
        inspects=matches or not attributes.isdisjoint(_INSPECTING),
        reflects=not attributes.isdisjoint(_REFLECTIVE),
    )


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """The operations with their arguments."""
    extended = 0
    for operation, argument in zip(code[::2], code[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == _EXTENDED else 0
        yield operation, argument


def _flat(constants: Sequence[Any]) -> Iterator[Any]:
    for constant in constants:
        if isinstance(constant, (tuple, frozenset)):
            yield from _flat(tuple(constant))
        else:
            yield constant


def imported(names: frozenset[str], package: str | None) -> Iterator[str]:
    """The modules that imports of these names, in a module of a package, may be about."""
    parents = [""]
    while package:
        parents.append(f"{package}.")
        package = package.rpartition(".")[0]
    for name in names:
        for parent in parents:
            yield f"{parent}{name}".rstrip(".")


def inspects(value: Any) -> bool:
    """Whether a function or class is one that may read attributes of any name.

    >>> inspects(getattr), inspects(len)
    (True, False)
    """
    return getattr(value, "__name__", "") in _INSPECTING


def is_library_code(code: CodeType) -> bool:
    """Whether code is of the standard library, funcgrad, or installed beside NumPy."""
    return code.co_filename.startswith(_HOMES)


def is_library(module: str | None) -> bool:
    """Whether a module is of the standard library, funcgrad, or installed beside NumPy."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if isinstance(file, str):  # a user's module may have the name of one of the standard library
        return file.startswith(_HOMES)
    return (module or "").partition(".")[0] in _LIBRARIES


def is_foreign(value: Any) -> bool:
    """Whether a function, class or module is of a library that may read objects of the user."""
    if isinstance(value, ModuleType):
        name: Any = value.__name__
    else:
        name = getattr(value, "__module__", None)
    top = name.partition(".")[0] if isinstance(name, str) else ""
    return bool(top) and top not in _LIBRARIES and top != "scipy" and is_library(name)


def is_library_class(kind: type[Any]) -> bool:
    """The same for a class; those made by code that has no module call themselves builtins."""
    module: Any = kind.__module__
    if module == "builtins":
        return not kind.__flags__ & _HEAP_TYPE
    return not isinstance(module, str) or is_library(module)
