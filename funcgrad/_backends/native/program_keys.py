"""Compiled programs as data, and the keys by which they are stored.

Programs with equal keys have the same machine code, in whatever process.

A key tells everything that the text of machine code is made from: the program, constants of one
number by their bits and others by their shapes and dtypes, since those are only referred to, the
versions of Python and NumPy, and the files of this package. So a program that is on disk needs no
text. A key is a hash of plain values, which takes a tenth of the time of the text.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: x * 2.0)(1.0)
>>> keys = ProgramKeys()
>>> keys.key(staged) == keys.key(fg.program(lambda x: x * 2.0)(1.0))
True
>>> keys.key(staged) == keys.key(fg.program(lambda x: x * 2)(1.0))
False
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from types import EllipsisType, FunctionType, NoneType
from typing import Any, Final

import numpy as np

from funcgrad._backends.control_forms import programs_inside
from funcgrad._backends.native.code_cache import digest
from funcgrad._backends.native.function_text import PLAIN, Arithmetic
from funcgrad._backends.native.symbol_table import Recipe
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import cached_property
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._hints.lazy_names import BEGAN
from funcgrad._primitives.index_keys import Key
from funcgrad._programs.equation import Constant, Equation
from funcgrad._programs.program import Program

_PACKAGE: Final = "funcgrad"
_PLAIN: Final = frozenset({NoneType, bool, int, str, bytes, EllipsisType})


class _NoKeyError(Exception):
    """A part of a program has no key, such as an operation from outside of this package."""


class ProgramKeys:
    """Makes keys of programs; looks at the package's files and modules once."""

    def __init__(self) -> None:
        self._operations = _Operations()

    def key(self, program: Program, arithmetic: Arithmetic = PLAIN) -> str | None:
        """The key of a program; None where there is none.

        An operation or a function that the user's files define has none, since they may have
        changed since code was stored.
        """
        if self.sources is None:
            return None
        try:
            encoded = _Encoder(self._operations).program(program)
        except (RecursionError, _NoKeyError):
            return None
        versions = self.sources, sys.version, np.__version__
        return digest([repr(encoded), repr(arithmetic), *versions])

    @cached_property
    def sources(self) -> str | None:
        """The names and sizes of this package's files, and when they were written.

        None if one is newer than the loaded modules, or if files are missing.
        """
        try:
            files = sorted(_files(__file__.rpartition("_backends")[0]))
        except OSError:
            return None
        is_new = any(changed > int(BEGAN * 1e9) for _, _, changed in files)
        return None if is_new or not files else repr(files)


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                about = entry.stat()
                yield entry.path, about.st_size, about.st_mtime_ns


class _Operations:
    """The names of this package's operations, as modules have them."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Primitive, str]] = {}
        self._modules = 0

    def name(self, operation: Primitive) -> str:
        """The name of an operation."""
        if id(operation) not in self._names and len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            for path, module in sorted(sys.modules.copy().items()):
                if path.startswith(f"{_PACKAGE}."):
                    for name, value in list(vars(module).items()):
                        if isinstance(value, Primitive):
                            self._names.setdefault(id(value), (value, f"{path}:{name}"))
        if id(operation) not in self._names:
            raise _NoKeyError
        return self._names[id(operation)][1]


class _Encoder:
    """Writes programs as tuples of plain values, whose ``repr`` tells them apart."""

    def __init__(self, operations: _Operations) -> None:
        self._operations = operations
        self._numbers: dict[int, int] = {}
        self._specs: dict[Spec, Any] = {}

    def program(self, program: Program) -> Any:
        """Write a program; one that is there already by its number, for its code is shared."""
        if id(program) in self._numbers:
            return self._numbers[id(program)]
        self._numbers[id(program)] = len(self._numbers)
        guards = [(g.variable, g.use, self._value(g.value)) for g in program.guards]
        return (
            tuple([self._spec(spec) for spec in program.inputs]),
            tuple([self._constant(constant) for constant in program.constants]),
            tuple([self._equation(equation) for equation in program.equations]),
            program.outputs,
            tuple(guards),
        )

    def _spec(self, spec: Spec) -> Any:
        encoded = self._specs.get(spec)
        if encoded is None:
            encoded = self._specs[spec] = spec.shape, _dtype_text(spec.dtype), spec.weak
        return encoded

    def _constant(self, constant: Constant) -> Any:
        number = None
        if not constant.spec.shape:
            value = constant.value
            number = self._value(value[()] if isinstance(value, np.ndarray) else value)
        return self._spec(constant.spec), number

    def _equation(self, equation: Equation) -> Any:
        return (
            self._operations.name(equation.operation),
            equation.operands,
            equation.params and self._value(equation.params),
            tuple([self._spec(spec) for spec in equation.results]),
        )

    def _value(self, value: object) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if isinstance(value, float) and kind is float:
            return value if value == value else struct.pack("d", value)
        if isinstance(value, tuple) and kind is tuple:
            return tuple([self._value(member) for member in value])
        if isinstance(value, Program):
            return "program", self.program(value)
        return kind.__name__, self._other(value)

    def _other(self, value: object) -> Any:
        if isinstance(value, np.dtype):
            return _dtype_text(value)
        if isinstance(value, np.generic):
            return _dtype_text(value.dtype), value.tobytes()
        if isinstance(value, complex):
            return struct.pack("dd", value.real, value.imag)
        if isinstance(value, slice):
            return self._value((value.start, value.stop, value.step))
        if isinstance(value, Key):
            return self._value(tuple(value))
        if isinstance(value, (type, FunctionType)):
            return _reference(value)
        if isinstance(value, Enum):
            return _reference(type(value)), value.name
        if isinstance(value, tuple):
            return _reference(type(value)), self._value(tuple(value))
        names = getattr(type(value), "__dataclass_fields__", None)
        if names is None:
            raise _NoKeyError
        fields = [(name, self._value(getattr(value, name))) for name in names]
        return _reference(type(value)), tuple(fields)


def _reference(value: type[object] | FunctionType) -> str:
    """The module and the name of a function or a class of this package or of NumPy."""
    module, name = value.__module__ or "", value.__qualname__  # None as by `exec`
    known = module.split(".")[0] in (_PACKAGE, "builtins", "numpy")
    if not known or getattr(sys.modules.get(module), name, None) is not value:
        raise _NoKeyError
    return f"{module}:{name}"


def _dtype_text(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject or dtype.names is not None:
        raise _NoKeyError
    return f"{dtype.char}{dtype.str}"


@dataclass(frozen=True, slots=True)
class Needs:
    """All that the code of a program needs.

    Attributes
    ----------
    size : int
        The bytes of its arena.
    is_long : bool
        Whether it runs long without calling Python's functions.
    origins : sequence of (program, equation, place)
        Where each of the programs inside stands: its place in an equation of an earlier one.
    recipes : mapping
        From symbols to their referents.
    symbols : sequence of str
        The symbols that every process has.
    shared : mapping
        From the names of shared functions to the files that have them.
    """

    size: int
    is_long: bool
    origins: Sequence[Sequence[int]]
    recipes: Mapping[str, Recipe]
    symbols: Sequence[str]
    shared: Mapping[str, str]

    @property
    def is_storable(self) -> bool:
        """Whether no recipe has an object that other processes lack."""
        items = [item for recipe in self.recipes.values() for item in recipe]
        return all(isinstance(item, (str, bytes, int, float)) for item in items)

    @property
    def calls_back(self) -> bool:
        """Whether the code calls Python's functions."""
        return any(recipe[0] == "callback" for recipe in self.recipes.values())

    def programs(self, program: Program) -> list[Program]:
        """The program and the programs inside, in the order in which they are written."""
        programs = [program]
        for parent, number, place in self.origins:
            programs.append(programs_inside(programs[parent].equations[number])[place])
        return programs


@dataclass(frozen=True, slots=True)
class ProgramObject:
    """A compiled program.

    Attributes
    ----------
    level : int
        How much LLVM has optimized it.
    needs : Needs
    files : sequence of bytes
        The object files.
    """

    level: int
    needs: Needs
    files: Sequence[bytes]

    def to_bytes(self) -> bytes:
        """The contents of a file."""
        return marshal.dumps((self.level, asdict(self.needs), list(self.files)))

    @classmethod
    def from_bytes(cls, contents: bytes) -> ProgramObject:
        """Read the contents that ``to_bytes`` made."""
        level, fields, files = marshal.loads(contents)
        return cls(level, Needs(**fields), files)
