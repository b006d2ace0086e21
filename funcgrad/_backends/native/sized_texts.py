r"""Programs whose texts differ only in numbers: one code for all of them, with tables of numbers.

A batch of another length has the same text but for the ends of loops, places in memory, masks of
the last vector, and factors such as ``1 / n``. From the second such program on, the numbers that
differ are *holes*: values that code reads from a table, which each program has for itself. So
LLVM, which takes most of a first call, has nothing to compile. Programs whose texts differ in
anything else have their own code: wherever a size decides something, its decision is in the text.

>>> text = "define i64 @f(i64 %x) {\nentry:\n  %y = mul i64 %x, NUMBER\n  ret i64 %y\n}"
>>> families = SizedTexts()
>>> made = [families.of([text.replace("NUMBER", str(n))]) for n in (5, 6, 7)]
>>> [table for _, table in made]
[b'', b'\x06\x00\x00\x00\x00\x00\x00\x00', b'\x07\x00\x00\x00\x00\x00\x00\x00']
>>> print(made[2][0].texts[0])
define i64 @f(i64 %x) {
entry:
  %hole0 = load i64, ptr getelementptr (i8, ptr @numbers, i64 0)
  %y = mul i64 %x, %hole0
  ret i64 %y
}
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

from funcgrad._backends.native.code_cache import digest
from funcgrad._base.fast_dataclass import dataclass

TABLE: Final = "numbers"
"""The symbol of the table."""

_MOST: Final = 64
"""So many families are remembered, those that were used last; one has 0.1 MB of code."""

_PLACES: Final = re.compile(
    r"i64 (?:\[|(?:%[\w.]+|\d+), )?(?P<i64>-?\d+)(?![\w.]|, label)"  # also the second operand
    r"|double (?:%[\w.]+, )?(?P<double>0x[0-9A-F]{16})"
    r"|float (?:%[\w.]+, )?(?P<float>0x[0-9A-F]{16})"
    r"|i8, ptr (?P<memory>%o\d+|%arena)(?=, i64 \d)"
    r"|<i1 (?P<mask>(?:true|false)[^>]*)>"
    r"|<[a-z][^>]*>"  # vectors of constants, in which nothing can stand for a number
)
_SPLAT: Final = "splat ("
_MEMORY: Final = re.compile(r"%(?:o\d+|arena)\b")
_ENTRY: Final = "\nentry:\n"
_VECTORS: Final = (8, 16, 32)
"""The elements that whole vectors are multiples of."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in a function's text, for which a value can stand.

    Attributes
    ----------
    kind : str
        The LLVM type of the value.
    begin, end : int
    word : str
    """

    kind: str
    begin: int
    end: int
    word: str


@dataclass(frozen=True, slots=True)
class Family:
    """Programs whose texts differ only in numbers.

    Attributes
    ----------
    words : tuple of str
        The numbers of the first program.
    holes : frozenset of int
        The numbers that differ.
    texts : sequence of str
        The functions that read these numbers from a table. Without holes: the
        first program's functions.
    objects : dict
        Their object files, and the names of the shared functions that these call, by level.
    first : dict
        The same for the first program's own code, which equal programs share.
    is_refused : bool
        Whether LLVM refuses them.
    """

    words: tuple[str, ...]
    holes: frozenset[int]
    texts: Sequence[str]
    objects: dict[int, tuple[list[bytes], list[str]]] = field(default_factory=dict)
    first: dict[int, tuple[list[bytes], list[str]]] = field(default_factory=dict)
    is_refused: bool = False


class SizedTexts:
    """The families of the programs that a process has compiled."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def of(self, texts: Sequence[str]) -> tuple[Family, bytes]:
        """The family of a program, and its table; that is empty if the program has its own code.

        Parameters
        ----------
        texts : sequence of str
            The program's functions.
        """
        numbers = [_numbers(text) for text in texts]
        flat = [number for some in numbers for number in some]
        words, key = tuple([number.word for number in flat]), _key(texts, numbers)
        family = self._families.pop(key, None) or Family(words, frozenset(), ())
        for oldest in list(self._families)[: 1 - _MOST]:
            self._families.pop(oldest, None)
        self._families[key] = family
        pairs = enumerate(zip(family.words, words, strict=True))
        differing = frozenset([place for place, (one, other) in pairs if one != other])
        if not differing:
            return Family(words, frozenset(), texts, family.first), b""
        if family.is_refused:
            return Family(words, frozenset(), texts), b""
        if not differing <= family.holes:
            holes = family.holes | differing | _likely(flat, differing)
            changed = _with_holes(texts, numbers, holes)
            family = Family(family.words, holes, changed, first=family.first)
            self._families[key] = family
        return family, _table(texts, numbers, family.holes)

    def refuse(self, texts: Sequence[str]) -> None:
        """Note that LLVM wants constants where a family has holes."""
        key = _key(texts, [_numbers(text) for text in texts])
        if key in self._families:
            self._families[key] = replace(self._families[key], is_refused=True)


def _key(texts: Sequence[str], numbers: Sequence[Sequence[_Number]]) -> str:
    """A name for texts without their numbers."""
    between = list[str]()
    for text, some in zip(texts, numbers, strict=True):
        begins, ends = [number.begin for number in some], [number.end for number in some]
        pairs = zip([0, *ends], [*begins, len(text)], strict=True)
        between.append("\0".join([text[begin:end] for begin, end in pairs]))
    return digest(between)


def _numbers(text: str) -> list[_Number]:
    """The numbers in a function's text for which a value can stand."""
    numbers = []
    for match in _PLACES.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        (begin, end), word = match.span(kind), match[kind]
        if kind == "mask":
            kind, begin, end = f"<{word.count('i1') + 1} x i1>", *match.span()
        elif text.endswith(_SPLAT, 0, match.start()):
            vector = text.rfind("<", text.rfind("\n", 0, begin), begin)
            element, kind = kind, text[vector : text.find(">", vector) + 1]
            if vector < 0 or not kind.endswith(f" x {element}>"):
                continue
            begin, end = match.start() - len(_SPLAT), end + 1
        numbers.append(_Number(kind, begin, end, word))
    return numbers


def _likely(numbers: Sequence[_Number], differing: frozenset[int]) -> frozenset[int]:
    """Numbers that will differ in other sizes: counts of whole vectors, masks, addresses."""
    sizes = {int(numbers[place].word) for place in differing if numbers[place].kind == "i64"}
    whole = {str(size // width * width) for size in sizes for width in _VECTORS} - {"0"}
    likely, is_offset = set[int](), False
    for place, number in enumerate(numbers):
        is_size = number.kind == "i64" and (is_offset or number.word in whole)
        is_offset = number.kind == "memory"
        if is_offset or is_size or number.kind.endswith(" x i1>"):
            likely.add(place)
    return frozenset(likely if sizes else ())


def _with_holes(
    texts: Sequence[str], numbers: Sequence[Sequence[_Number]], holes: frozenset[int]
) -> list[str]:
    """The texts, in which some numbers are read from a table instead."""
    slots = {place: slot for slot, place in enumerate(sorted(holes))}
    changed, place = list[str](), 0
    for text, some in zip(texts, numbers, strict=True):
        begin = text.index(_ENTRY) + len(_ENTRY)
        memories = _MEMORY.findall(text[: text.index("\n")])
        loads, pieces, copied = list[str](), list[str](), begin
        for number in some:
            if place in holes:
                hole = f"%hole{slots[place]}"
                loads += _loads(number.kind, slots[place], memories)
                pieces += text[copied : number.begin], hole
                copied = number.end
            place += 1
        changed.append("".join([text[:begin], *loads, *pieces, text[copied:]]))
    return changed


def _loads(kind: str, slot: int, memories: Sequence[str]) -> list[str]:
    """Lines that read the value of a hole from the table."""
    hole = f"%hole{slot}"

    def read(suffix: str, kind: str) -> str:
        place = f"ptr getelementptr (i8, ptr @{TABLE}, i64 {8 * slot})"
        return f"  {hole}{suffix} = load {kind}, {place}\n"

    if not kind.startswith("<") and kind != "memory":
        return [read("", kind)]
    if kind == "memory":  # not by a table of them: LLVM would not know that they are apart
        lines, chosen = [read(".number", "i64")], memories[0]
        for number, memory in enumerate(memories[1:], 1):
            name = hole if number == len(memories) - 1 else f"{hole}.{number}"
            lines.append(f"  {hole}.is{number} = icmp eq i64 {hole}.number, {number}\n")
            lines.append(f"  {name} = select i1 {hole}.is{number}, ptr {memory}, ptr {chosen}\n")
            chosen = name
        return lines
    width, element = kind[1:-1].split(" x ")
    if element == "i1":
        bits = f"i{width}"
        return [read(".bits", bits), f"  {hole} = bitcast {bits} {hole}.bits to {kind}\n"]
    return [
        read(".one", element),
        f"  {hole}.lane = insertelement {kind} poison, {element} {hole}.one, i64 0\n",
        f"  {hole} = shufflevector {kind} {hole}.lane, {kind} poison,"
        f" <{width} x i32> zeroinitializer\n",
    ]


def _table(
    texts: Sequence[str], numbers: Sequence[Sequence[_Number]], holes: frozenset[int]
) -> bytes:
    """The numbers of a program for some holes, eight bytes each."""
    table, place = list[int](), 0
    for text, some in zip(texts, numbers, strict=True):
        memories = _MEMORY.findall(text[: text.index("\n")])
        for number in some:
            if place in holes:
                table.append(_encoded(number, memories))
            place += 1
    return struct.pack(f"<{len(table)}Q", *table)


def _encoded(number: _Number, memories: Sequence[str]) -> int:
    word, element = number.word, number.kind.removesuffix(">").rpartition(" ")[2]
    if element == "memory":
        return memories.index(word)
    if element == "i1":
        return sum([1 << k for k, lane in enumerate(word.split(",")) if "true" in lane])
    if element == "i64":
        return int(word) % (1 << 64)
    if element == "double":
        return int(word, 16)
    (value,) = struct.unpack("<d", struct.pack("<Q", int(word, 16)))  # as LLVM writes floats
    return int.from_bytes(struct.pack("<f", value), "little")
