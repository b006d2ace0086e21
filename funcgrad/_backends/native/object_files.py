"""Object files as machine code in memory, without LLVM.

LLVM takes 30 ms and 45 MB to load. A process that finds its code on disk does not need it. Object
files of Linux (ELF) for x86-64 flow in, with the addresses of the symbols that they do not define.
LLVM writes code for any place in memory, so a file leaves open only addresses of eight bytes. Any
other file raises ``UnknownFormatError``, and LLVM's own linker loads it.

>>> load([b"a text"], {})
Traceback (most recent call last):
...
funcgrad._backends.native.object_files.UnknownFormatError
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from funcgrad._backends.native.cpython import NativeError
from funcgrad._base.fast_dataclass import dataclass

_HEAD: Final = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_CODE, _SYMBOLS, _RELOCATIONS = 1, 2, 4
_UNWINDING: Final = 0x70000001
_IS_LOADED: Final = 2
_IS_UNDEFINED: Final = 0
_FIRST_RESERVED: Final = 0xFF00
_ADDRESS: Final = 1
"""The kind of relocation that is an address of eight bytes."""


class UnknownFormatError(Exception):
    """An object file is of a kind that only LLVM reads, or the system refuses its memory."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    target: int
    alignment: int


class _File:
    """An object file, and where its sections lie in memory."""

    def __init__(self, contents: bytes) -> None:
        self.contents = contents
        self.places: dict[int, int] = {}
        try:
            kind, machine = struct.unpack_from("<HH", contents, 16)
            if not contents.startswith(_HEAD) or (kind, machine) != (_RELOCATABLE, _X86_64):
                raise UnknownFormatError
            (begin,), (size, count) = self._at("<Q", 40), self._at("<HH", 58)
            rows = [self._at("<IIQQQQIIQQ", begin + size * k) for k in range(count)]
        except struct.error:
            raise UnknownFormatError from None
        self.sections = [_Section(*row[1:3], *row[4:9]) for row in rows]

    def _at(self, form: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self.contents, place)

    def lay_out(self, end: int) -> int:
        """Find places for the sections that code needs; returns where they end."""
        for number, section in enumerate(self.sections):
            if not section.flags & _IS_LOADED or section.kind == _UNWINDING:
                continue
            if section.kind != _CODE:
                raise UnknownFormatError
            end += -end % max(1, section.alignment)
            self.places[number] = end
            end += section.size
        return end

    def symbols(self) -> list[tuple[str, int | None, bool]]:
        """The symbols: name, place (None if it is outside), and whether other files see it."""
        (table,) = [section for section in self.sections if section.kind == _SYMBOLS]
        names = self._bytes_of(self.sections[table.link])
        symbols: list[tuple[str, int | None, bool]] = []
        for name, info, _, section, value, _ in struct.iter_unpack(
            "<IBBHQQ", self._bytes_of(table)
        ):
            if section >= _FIRST_RESERVED and info & 15 != 4:  # the name of the source file
                raise UnknownFormatError
            place = None if section == _IS_UNDEFINED else self.places.get(section, 0) + value
            text = names[name : names.index(b"\0", name)].decode()
            symbols.append((text, place, info >> 4 != 0))
        return symbols

    def relocations(self) -> Iterator[tuple[int, int, int]]:
        """Where addresses are missing: the place, the number of the symbol, what is added."""
        for section in self.sections:
            if section.kind != _RELOCATIONS or section.target not in self.places:
                continue
            begin = self.places[section.target]
            for offset, info, added in struct.iter_unpack("<QQq", self._bytes_of(section)):
                if info & 0xFFFFFFFF != _ADDRESS:
                    raise UnknownFormatError
                yield begin + offset, info >> 32, added

    def copy_to(self, memory: mmap.mmap) -> None:
        """Copy its sections to their places."""
        for number, place in self.places.items():
            section = self.sections[number]
            memory[place : place + section.size] = self._bytes_of(section)

    def _bytes_of(self, section: _Section) -> bytes:
        return self.contents[section.offset : section.offset + section.size]


def load(files: Sequence[bytes], symbols: Mapping[str, int]) -> tuple[dict[str, int], mmap.mmap]:
    """Load object files.

    Parameters
    ----------
    files : sequence of bytes
    symbols : mapping
        The addresses of the symbols that they refer to and do not define, but for functions of C,
        which LLVM calls where a processor lacks an instruction: ``trunc`` without SSE4.1.

    Returns
    -------
    addresses : dict
        From the names of functions to where they begin.
    memory : mmap
        The memory, which is freed with this object.

    Raises
    ------
    UnknownFormatError
        LLVM has to load these files.
    NativeError
        They refer to an unknown symbol.
    """
    read, size = [_File(file) for file in files], 0
    for file in read:
        size = file.lay_out(size)
    tables = [file.symbols() for file in read]
    memory = mmap.mmap(-1, max(1, size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    defined: dict[str, int] = {}
    for table in tables:
        for name, place, is_seen in table:
            if is_seen and place is not None:
                defined[name] = start + place
    for file, table in zip(read, tables, strict=True):
        file.copy_to(memory)
        for place, number, added in file.relocations():
            name, inside, _ = table[number]
            if inside is not None:
                address = start + inside
            elif name in defined:
                address = defined[name]
            else:
                address = symbols[name] if name in symbols else _in_process(name)
            struct.pack_into("<q", memory, place, address + added)
    _make_executable(start, size)
    return defined, memory


def _in_process(name: str) -> int:
    """The address of a function that the process has, as LLVM's linker finds it."""
    try:
        function = getattr(ctypes.pythonapi, name)
    except AttributeError:
        raise NativeError(f"native code: nobody knows the symbol {name!r}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _make_executable(start: int, size: int) -> None:
    protect: Any = ctypes.pythonapi.mprotect  # Python's own library, which no call leaves in cycles
    reads, runs = 1, 4  # PROT_READ, PROT_EXEC
    if protect(ctypes.c_void_p(start), ctypes.c_size_t(size), reads | runs):
        raise UnknownFormatError
