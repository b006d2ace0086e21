"""The names that code looks up, and the modules whose code is followed.

A function reads only those attributes of modules, objects and classes that its code names: ``step``
below may read a trainer's ``rate``, but not its ``history``.

>>> def step(trainer, x):
...     trainer.seen = x
...     return trainer.rate * x * SCALE
>>> found = lookups(step.__code__)
>>> sorted(found.globals), sorted(found.attributes)
(['SCALE'], ['SCALE', 'rate'])
"""

from __future__ import annotations

import dis
import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import accumulate
from types import CodeType
from typing import Any, Final, NamedTuple

from funcgrad._base.interpreters import GLOBAL_READS, IMPORT, names_read

REFLECTIVE: Final = frozenset(
    "__dict__ __getattribute__ attrgetter dir eval exec getattr getmembers hasattr vars".split()
)
"""Code that uses one of these may read any attribute, also of modules."""
INSPECTING: Final = REFLECTIVE | frozenset(
    "__getstate__ __match_args__ __reduce__ __reduce_ex__ asdict astuple copy deepcopy dump dumps"
    " evolve fields format format_map methodcaller pprint replace".split()
)
"""Code that uses one of these may read any attribute of an object."""
_IMPORTING: Final = frozenset({"__import__", "import_module", "modules"})
_SPACES: Final = frozenset({"eval", "exec", "globals", "vars", "locals"})
"""Code that uses one of these may import modules or read globals whose names are strings in it."""
_STANDARD: Final = os.path.dirname(os.path.realpath(os.__file__))
_COMPILED: Final = tuple(EXTENSION_SUFFIXES)
_HEAP_TYPE: Final = 1 << 9


class Lookups(NamedTuple):
    """The names that code and the functions inside it look up."""

    globals: set[str]
    attributes: set[str]  # names that are read in any way, as attributes or as globals
    imports: set[str]  # imported names, including any that may be a module
    random: set[str]  # global names whose attribute ``random`` is read, as in ``np.random``


def lookups(code: CodeType) -> Lookups:
    """The names that a function's code looks up."""
    looked_up = Lookups(set(), set(), set(), set())
    strings = set[str]()
    waiting: list[Any] = [code]
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, CodeType):
            _read(constant, looked_up)
            waiting += constant.co_consts
        elif isinstance(constant, (tuple, frozenset)):
            waiting += constant
        elif isinstance(constant, str):
            strings.add(constant)
    if not _SPACES.isdisjoint(looked_up.attributes):
        looked_up.globals.update(
            [word for text in strings for word in re.findall(r"[^\W\d]\w*", text)]
        )
    if not _IMPORTING.isdisjoint(looked_up.attributes):
        looked_up.imports.update(strings)
    return looked_up


def _read(code: CodeType, looked_up: Lookups) -> None:
    """Note which names code looks up, without the functions inside it."""
    before = ""
    for kind, name in names_read(code):
        looked_up.attributes.add(name)
        if name == "random":
            looked_up.random.add(before)
        before = name if kind in GLOBAL_READS else ""
        if before:
            looked_up.globals.add(name)
        elif kind == IMPORT:
            looked_up.imports.update(code.co_names)


def line_of(code: CodeType, name: str) -> int | None:
    """The first line on which code, or a function inside it, reads a name."""
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, CodeType) and (line := line_of(instruction.argval, name)):
            return line
        if instruction.argval == name and instruction.opname.startswith(("LOAD_", "IMPORT_")):
            return instruction.positions.lineno if instruction.positions else None
    return None


def imported(names: set[str], package: str | None) -> list[str]:
    """The modules that imports of these names may load; they may be relative to a package."""
    parents = accumulate((package or "").split("."), "{}.{}".format)
    starts = ["", *[f"{parent}." for parent in parents]]
    return [f"{start}{name}".rstrip(".") for start in starts for name in names]


class Libraries:
    """Modules whose code is not followed: the standard library, funcgrad, compiled packages.

    >>> libraries = Libraries("my_model")
    >>> [libraries.has(name) for name in ("math", "numpy.linalg", "funcgrad.nn", "my_model")]
    [True, True, True, False]

    Parameters
    ----------
    *modules : str
        Modules whose code is followed even if they have compiled parts.

    Attributes
    ----------
    met_foreign : bool
        Whether `has` was asked about a library other than NumPy, SciPy and Python's own.
    """

    __slots__ = ("_known", "met_foreign")

    def __init__(self, *modules: Any) -> None:
        self.met_foreign = False
        # The module may be in the standard library, as for a jitted `functools.partial`.
        followed = [top for top in map(_top, modules) if not _is_standard(top)]
        libraries = dict.fromkeys(("builtins", "funcgrad", "jax", "numpy", "scipy"), True)
        self._known = {**dict.fromkeys(followed, False), **libraries}

    def has(self, module: object) -> bool:
        """Whether the module of this name belongs to a library."""
        top = _top(module)
        if top not in self._known:
            standard = _is_standard(top)
            loaded = {} if standard else sys.modules.copy()
            near = [name for name in loaded if name.startswith(top)]
            files = [_file(loaded[name]) for name in near if _top(name) == top]
            foreign = any(file.endswith(_COMPILED) for file in files)
            self._known[top], self.met_foreign = standard or foreign, self.met_foreign or foreign
        return self._known[top]

    def has_class(self, kind: type[Any]) -> bool:
        """Whether a class belongs to a library.

        A class made by code without a module claims that its module is ``builtins``.
        """
        module: Any = kind.__module__
        if module == "builtins":
            return not kind.__flags__ & _HEAP_TYPE
        return not isinstance(module, str) or self.has(module)


def _top(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def _is_standard(top: str) -> bool:
    """Whether a name belongs to the standard library, and no user's module hides it."""
    file = _file(sys.modules.get(top))
    return top in sys.stdlib_module_names and file.startswith(_STANDARD)


def _file(module: object) -> str:
    return str(getattr(module, "__file__", None) or _STANDARD)
