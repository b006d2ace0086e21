"""Compiled programs as data: object files, and what is needed to run them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise

from funcgrad._backends.control_forms import programs_inside
from funcgrad._backends.native.symbol_table import Recipe
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._programs.program import Program


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
        From symbols to what they refer to.
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
        return all(isinstance(item, (str, int, float)) for item in items)

    @property
    def calls_back(self) -> bool:
        """Whether the code calls Python's functions."""
        return any(recipe[0] == "callback" for recipe in self.recipes.values())

    def programs(self, program: Program) -> list[Program]:
        """The program and those inside, in the order of their numbers."""
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
        sizes = [len(file) for file in self.files]
        head = json.dumps([self.level, asdict(self.needs), sizes]).encode()
        return b"".join([head, b"\n", *self.files])

    @classmethod
    def from_bytes(cls, contents: bytes) -> ProgramObject:
        """Read what ``to_bytes`` wrote."""
        head, _, code = contents.partition(b"\n")
        level, fields, sizes = json.loads(head)
        ends = [0, *accumulate(sizes)]
        return cls(level, Needs(**fields), [code[i:k] for i, k in pairwise(ends)])
