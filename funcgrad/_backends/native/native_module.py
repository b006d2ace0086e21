"""An LLVM module that is being written: its functions, and the addresses that they refer to.

LLVM optimizes its parts one by one, each in a fraction of a second. Functions are put into those
that call them while these stay small, and called otherwise: the time grows faster than the
gain. A chain of 400 sines would take 7 seconds, and nobody else could use LLVM meanwhile.

>>> program = "define i64 @program() { %x = call i64 @f() ret i64 %x }"
>>> f = SharedFunction("i64 @f()", "i64 @f() { ret i64 5 }", frozenset(), frozenset())
>>> [text.count("define") for text in parts([program], [], {"f": f}, limit=1000)[0]]
[2]
>>> texts, called = parts([program], [], {"f": f}, limit=60)
>>> [text.count("define") for text in texts], called
([1], ['f'])
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from funcgrad._backends.native.cpython import COPYING
from funcgrad._backends.native.function_text import (
    Arithmetic,
    FunctionText,
    SharedFunction,
    module_text,
    needed,
    symbols_in,
)
from funcgrad._backends.native.symbol_table import Recipe
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._programs.program import Program

_LONG: Final = 1 << 20
"""So many scalar operations take from a tenth of a millisecond to some. Whoever has let go of
the interpreter's lock may wait five milliseconds for it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A program as a function.

    Attributes
    ----------
    name : str
    program : Program
    size : int
        The bytes of its arena.
    work : int
        About how many scalar operations a call takes.
    unknown : int
        How many of these are a guess, in loops that may end at once.
    calls : int
        About how often a call calls functions of Python's.
    in_place : mapping
        From outputs to the inputs whose addresses they may have too, by their positions.
    shares : bool
        Whether threads share some of its work that is known to take long.
    needs_caller : bool
        Whether threads of the pool cannot run it.
    """

    name: str
    program: Program
    size: int
    work: int
    unknown: int
    calls: int
    in_place: Mapping[int, int]
    shares: bool = False
    needs_caller: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it runs long without calling Python's functions, so that other threads may.

        Threads share work without the interpreter's lock, which NumPy's inner loops may ask for.
        """
        return self.shares or self.work - self.unknown >= _LONG * (self.calls + 1)


class NativeModule:
    """The functions of one module, and the symbols that they refer to.

    Attributes
    ----------
    texts : list of str
    declarations : set of str
    recipes : dict
        The referents of the module's symbols: constants, inner loops and steps, by name.
    origins : list of (program, equation, place)
        Where each of the programs inside stands: its place in an equation of an earlier one.
    bits : int
        The width of a register.
    arithmetic : Arithmetic
    definitions : dict
        The functions that programs share, by name.
    uses : set of str
        The names of those that this module calls.
    callbacks : list of str
        The names of the operations that NumPy evaluates, and why.
    recourses : list of str
        The names of those that NumPy evaluates for some values only, and for which.
    nests : Counter
        How many nests there are of each kind.
    nest_kinds : dict
        The kinds of nests, as numbers, by a key of everything that a nest depends on.
    nest_names : dict
        The names of functions of nests, by their kinds, with how threads share them.

    Parameters
    ----------
    bits : int
    arithmetic : Arithmetic
    definitions : dict
    write : callable
        ``(module, program, number) -> Function``: writes the function of a program.
    """

    def __init__(
        self,
        bits: int,
        arithmetic: Arithmetic,
        definitions: dict[str, SharedFunction],
        write: WriteFunction,
    ) -> None:
        self.bits, self.arithmetic, self.definitions = bits, arithmetic, definitions
        self.uses: set[str] = set()
        self._write = write
        self.texts: list[str] = []
        self.declarations: set[str] = set()
        self.recipes: dict[str, Recipe] = {}
        self.origins: list[Sequence[int]] = []
        self.callbacks: list[str] = []
        self.recourses: list[str] = []
        self.nests: Counter[int] = Counter()
        self.nest_kinds: dict[Hashable, int] = {}
        self.nest_names: dict[int, tuple[str, Any]] = {}
        self._functions: dict[int, Function] = {}
        self._places: dict[int, Sequence[int]] = {}
        self._users = [self.uses]  # the module, or the shared functions that are being written

    def expect(self, program: Program, origin: Sequence[int]) -> None:
        """Note where a program stands that is inside another one: (program, equation, place)."""
        self._places[id(program)] = origin

    def function(self, program: Program) -> Function:
        """The function of a program; the same one for the same program."""
        known = self._functions.get(id(program))
        if known is None:
            number = len(self._functions)
            if number:
                self.origins.append(self._places[id(program)])
            unfinished = Function(f"f{number}", program, 0, 0, 0, 0, {})
            self._functions[id(program)] = unfinished
            known = self._functions[id(program)] = self._write(self, program, number)
        return known

    @property
    def text(self) -> str:
        """The module's text, with all that it calls."""
        functions = needed(self.definitions, self.uses)
        return module_text(functions, self.declarations, self.texts)

    @property
    def parts(self) -> tuple[list[str], list[str]]:
        """The texts of its parts, and the names of the shared functions that these do not have."""
        return parts(self.texts, sorted(self.declarations), self.definitions)

    @property
    def short_text(self) -> str:
        """The module's text, in which the functions that programs share are declared only."""
        heads = [f"declare {self.definitions[name].head}" for name in sorted(self.uses)]
        return "\n".join([*sorted(self.declarations), *heads, *self.texts])

    def add(self, head: str, lines: FunctionText) -> None:
        """Add a function, given its first line without the brace, and its lines."""
        self.texts.append(lines.function(head))
        self.declarations |= lines.declarations
        self.uses |= lines.uses

    @property
    def symbols(self) -> list[str]:
        """The names that it and its shared functions refer to and that have no recipe."""
        functions = needed(self.definitions, self.uses)
        declared = self.declarations.union(*[function.declarations for function in functions])
        return sorted({*symbols_in(declared), *COPYING} - self.recipes.keys())

    def shared(self, function: str, parameters: str, write: Callable[[FunctionText], None]) -> str:
        """Write a function that programs share, unless it is written; returns its name.

        Parameters
        ----------
        function : str
            The type of its result and its name, as in ``i1 @name``; the name says all that the
            function depends on.
        parameters : str
        write : callable
            Writes its lines.
        """
        name = function.partition("@")[2]

        def write_inside(lines: FunctionText) -> None:
            self._users.append(lines.uses)
            write(lines)
            self._users.pop()

        lines = FunctionText(self.arithmetic, self.definitions)
        lines.use(name, f"{function}({parameters})", write_inside)
        self._users[-1].add(name)
        return name

    def symbol(self, word: str, recipe: Recipe) -> str:
        """A symbol for the referent of a recipe; its name begins with a word."""
        name = f"{word}{len(self.recipes)}"
        self.recipes[name] = recipe
        self.declarations.add(f"@{name} = external global i8")
        return f"@{name}"


WriteFunction: TypeAlias = Callable[[NativeModule, Program, int], Function]


LARGEST: Final = 100_000
"""The characters of a function with copies of all that it calls from which on it has no copies:
so much takes a tenth of a second."""

_NAME: Final = re.compile(r"@(\w+)")


def parts(
    functions: Sequence[str],
    declarations: Iterable[str],
    definitions: Mapping[str, SharedFunction],
    limit: int = LARGEST,
) -> tuple[list[str], list[str]]:
    """The texts of the parts, and the names of the shared functions that they do not have.

    Parameters
    ----------
    functions : sequence of str
        The module's own functions: ``program``, and the functions that it calls.
    declarations : iterable of str
    definitions : mapping
        The functions that programs share, by name.
    limit : int
        How many characters a function may have with copies of all that it calls.
    """
    names = [_NAME.findall(text) for text in functions]
    everybody = {*definitions, *[head for head, *_ in names]}
    local = {
        head: _taken_apart(text, everybody.intersection(others))
        for (head, *others), text in zip(names, functions, strict=True)
    }
    known, texts, waiting = {**definitions, **local}, list[str](), ["program"]
    sizes: dict[str, int] = {}
    for name in waiting:  # which grows
        if name not in local:
            continue
        copies, heads = list[SharedFunction](), list[str]()
        if _size(name, known, sizes) <= limit:
            copies = needed(known, local[name].uses)
        else:
            heads = [f"declare {known[other].head}" for other in sorted(local[name].uses)]
            waiting += sorted(local[name].uses.difference(waiting))
        texts.append(module_text(copies, [*declarations, *heads], [f"define {local[name].text}"]))
    return texts, [name for name in waiting if name not in local]


def _size(name: str, known: Mapping[str, SharedFunction], sizes: dict[str, int]) -> int:
    """The characters of a function with copies of all that it calls; sizes found are kept."""
    if name not in sizes:
        text = known[name].text
        others = [other for other in _NAME.findall(text)[1:] if other in known]
        sizes[name] = len(text) + sum([_size(other, known, sizes) for other in others])
    return sizes[name]


def _taken_apart(text: str, uses: Iterable[str]) -> SharedFunction:
    text = text.removeprefix("define ").removeprefix("internal ")
    return SharedFunction(text.partition("{")[0].strip(), text, frozenset(), frozenset(uses))
