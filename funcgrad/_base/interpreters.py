"""Read byte code, and list the interpreters on which this was tested.

Byte code differs between versions, so only this module reads instructions. On an interpreter that
is not in ``PROVED``, the standard library's ``dis`` tells the name of an instruction, and an
unknown instruction counts as every kind of read. So ``jit`` watches more names than necessary,
never fewer, and its warnings say why.

Other modules read only objects that do not depend on the version:

- frames and functions (``users_line``, ``programs.origins``, ``debug``, ``staging.capture``), by
  attributes that Python documents, and hooks of ``sys.setprofile``;
- objects in memory (``backends.native.cpython``): their layout is checked on known objects before
  machine code runs; if it differs, NumPy runs the programs, with a warning.

>>> names_read((lambda trainer: trainer.rate * SCALE).__code__)
[('LOAD_ATTR', 'rate'), ('LOAD_GLOBAL', 'SCALE')]
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from types import CodeType, MappingProxyType
from typing import Final

PROVED: Final = frozenset({(3, 11), (3, 12), (3, 13), (3, 14), (3, 15)})
"""The versions of CPython whose instructions are known."""

GLOBAL_READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
"""Instructions that read a global name, or the name of a builtin."""

IMPORT: Final = "IMPORT_NAME"
"""The instruction that imports a module."""

_WRITES: Final = ("STORE_", "DELETE_")
_ATTRIBUTE_READS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
_READS: Final = frozenset(
    [number for number in dis.hasname if not dis.opname[number].startswith(_WRITES)]
)
_MATCH_CLASS: Final = dis.opmap.get("MATCH_CLASS")
_SHIFTS: Final[Mapping[int, int]] = MappingProxyType(
    {
        dis.opmap[kind]: bits
        for kind, bits, first in (
            ("LOAD_GLOBAL", 1, (3, 11)),
            ("LOAD_ATTR", 1, (3, 12)),
            ("LOAD_SUPER_ATTR", 2, (3, 12)),
            (IMPORT, 2, (3, 15)),
        )
        if sys.version_info >= first and kind in dis.opmap
    }
)
"""The number of low bits of an argument that are flags; the other bits are a name's index."""


def is_proved() -> bool:
    """Whether this interpreter's instructions are known."""
    return sys.implementation.name == "cpython" and sys.version_info[:2] in PROVED


def doubt() -> str:
    """The end of warnings about names, on interpreters where too many may be watched."""
    if is_proved():
        return ""
    return f" (This library does not know Python {sys.version.split()[0]}: more names may count.)"


def names_read(code: CodeType) -> list[tuple[str, str]]:
    """The names that code reads, with their instructions, without inner functions.

    A class pattern reads ``__match_args__``.
    """
    return _by_bytes(code) if is_proved() else _by_dis(code)


def _by_bytes(code: CodeType) -> list[tuple[str, str]]:
    """Read the bytes, which takes a fifteenth of the time that ``dis`` does."""
    reads: list[tuple[str, str]] = []
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation in _READS:
            name = code.co_names[argument >> _SHIFTS.get(operation, 0)]
            reads.append((dis.opname[operation], name))
        elif operation == _MATCH_CLASS:
            reads.append(("MATCH_CLASS", "__match_args__"))
    return reads


def _by_dis(code: CodeType) -> list[tuple[str, str]]:
    """Read instructions by ``dis``; unknown instructions count as imports and globals."""
    reads: list[tuple[str, str]] = []
    known, unknown = set[str](), set[str]()
    for instruction in dis.get_instructions(code):
        kind, name = instruction.opname, instruction.argval
        if kind == "MATCH_CLASS":
            reads.append((kind, "__match_args__"))
        if instruction.opcode in dis.hasname and name in code.co_names:
            if kind in GLOBAL_READS or kind in _ATTRIBUTE_READS or kind == IMPORT:
                reads.append((kind, name))
            elif not kind.startswith(_WRITES):
                unknown.add(name)
            known.add(name)
    unknown.update({*code.co_names} - known)
    if _MATCH_CLASS is None:
        unknown.add("__match_args__")
    return reads + [(kind, name) for name in sorted(unknown) for kind in ("LOAD_GLOBAL", IMPORT)]
