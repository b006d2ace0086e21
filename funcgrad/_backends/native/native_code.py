"""The code of programs in memory, quickly made at first and better where that pays.

Compiling at level 1 takes half of the time of level 2, and makes code that takes 1.05 to 1.7 times
as long, with the same bits. So a program's first code is of level 1, and calls shared functions,
which a process compiles once. When it has run for some milliseconds, a thread compiles the program
at level 2, with the functions that it calls if they are short, and later calls run the new
code. The thread works in pieces, while nobody else wants LLVM. Code that is on disk at level 2 is
used at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.code_cache import is_on, read_code, write_code
from funcgrad._backends.native.cpython import NativeError
from funcgrad._backends.native.function_text import Arithmetic, SharedFunction, module_text, needed
from funcgrad._backends.native.native_module import Function, NativeModule
from funcgrad._backends.native.processor import QUICKLY, Code, Toolchain
from funcgrad._backends.native.program_keys import Needs, ProgramKeys, ProgramObject
from funcgrad._backends.native.sized_texts import TABLE, Family, SizedTexts
from funcgrad._backends.native.symbol_table import referent
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import begin_thread
from funcgrad._programs.program import Program

FIRST, BEST = 1, 2

_PATIENCE: Final = 4_000_000
"""For so many nanoseconds the first code of a short program runs."""

_SHORT: Final = 1024
"""The bytes of its code. Longer code runs longer, as it takes longer to compile again: a quarter of
that time."""

_EVER: Final = 1 << 62
"""So many calls never end."""

_TOGETHER: Final = 50_000
"""The characters of shared functions that are compiled together: to begin takes LLVM as long as
a function of 3,000 characters."""


class SharedCode:
    """The functions that programs share, compiled once a process.

    On a first call of a small net these are half of the code: a first product or exponential
    pays for those that follow.

    Attributes
    ----------
    tools : Toolchain
    definitions : dict
        Their texts, by name.
    keys : ProgramKeys
    sized : SizedTexts
    better : SharedCode
        The same functions at level 2.

    Parameters
    ----------
    tools : Toolchain
    arithmetic : Arithmetic
    symbols : mapping
        The addresses of the functions that they may call.
    worse : SharedCode, optional
        The same functions at level 0.
    """

    def __init__(
        self,
        tools: Toolchain,
        arithmetic: Arithmetic,
        symbols: Mapping[str, int],
        worse: SharedCode | None = None,
    ) -> None:
        self.tools, self.arithmetic = tools, arithmetic
        self.definitions: dict[str, SharedFunction] = worse.definitions if worse else {}
        self.keys: ProgramKeys = worse.keys if worse else ProgramKeys()
        self.sized: SizedTexts = worse.sized if worse else SizedTexts()
        self.better: SharedCode = self if worse else SharedCode(tools, arithmetic, symbols, self)
        self._level = BEST if worse else FIRST
        self._symbols = symbols
        self._addresses: dict[str, int] = {}
        self._files: dict[str, str] = {}
        self._codes: list[Code] = []  # which stay, for a process has few

    def files(self, names: Iterable[str]) -> dict[str, str]:
        """The files on disk of functions, which are compiled unless they are there."""
        for group in self._groups([name for name in names if name not in self._addresses]):
            text = self._text(group)
            file = self.tools.object_code(text, self._level)
            # First: another thread looks up the file of a function that has an address.
            self._files |= dict.fromkeys(group, self.tools.name(text, self._level))
            self._link(file, group)
        return {name: self._files[name] for name in names}

    def addresses(self, files: Mapping[str, str]) -> dict[str, int]:
        """The addresses of functions, given their files.

        Raises
        ------
        FileNotFoundError
            One of the files that are needed is gone.
        """
        for file in {*files.values()}:
            names = [name for name in files if files[name] == file]
            missing = [name for name in names if name not in self._addresses]
            code = read_code(file) if missing else b""
            if code is None:
                raise FileNotFoundError
            if missing:
                self._files |= dict.fromkeys(missing, file)  # first, as above
                self._link(code, missing)
        return {name: self._addresses[name] for name in files}

    def _groups(self, names: Iterable[str]) -> list[list[str]]:
        groups, size = list[list[str]](), _TOGETHER
        for name in names:
            size += len(self.definitions[name].text)
            if size > _TOGETHER:
                groups.append([])
                size = len(self.definitions[name].text)
            groups[-1].append(name)
        return groups

    def _text(self, names: Sequence[str]) -> str:
        functions = [self.definitions[name] for name in names]
        uses = {use for function in functions for use in function.uses}
        inner = [f for f in needed(self.definitions, uses) if f not in functions]
        declared = {line for function in functions for line in function.declarations}
        return module_text(inner, declared, [f"define {function.text}" for function in functions])

    def _link(self, file: bytes, names: Sequence[str]) -> None:
        # One by one, as two files may both have a function.
        code = self.tools.linked([file], self._symbols, names)
        self._codes.append(code)
        for name, address in code.addresses.items():  # another thread's code stays
            self._addresses.setdefault(name, address)


class TimeLeft:
    """How long code is still run before it is improved.

    Attributes
    ----------
    nanoseconds : int
        0 for ever.
    calls : array
        How many calls tables may take before Python looks at the clock again.
    """

    __slots__ = ("_pace", "calls", "nanoseconds")

    def __init__(self) -> None:
        self.calls = np.zeros(1, np.int64)
        self.begin(0)

    def begin(self, nanoseconds: int) -> None:
        """Run the code for so long; 0 for ever."""
        self._pace = 0
        self.calls[0] = 0 if nanoseconds else _EVER
        self.nanoseconds = nanoseconds

    def ends(self, taken: int) -> bool:
        """Note that the code has run for some time; returns whether it is to be improved now.

        Half of the time that is left goes to calls that tables take and nobody times.
        """
        if not self.nanoseconds:  # another thread was first
            return False
        untaken = max(0, int(self.calls[0])) * self._pace
        left = max(0, self.nanoseconds + untaken - taken)
        self.begin(left)
        if left:
            calls = left // (2 * taken + 1)
            self.nanoseconds -= calls * taken
            self._pace, self.calls[0] = taken, calls
        return not left


@dataclass(frozen=True, slots=True, eq=False)
class NativeCode:
    """The code of a program, as the runtime calls it.

    Attributes
    ----------
    words : array
        The code's address; 1 if it runs without the interpreter's lock, 2 if so from its first look
        for signals on; the count of operands; the bytes of its arena.
    calls_back : bool
        Whether it calls Python's functions.
    time_left : TimeLeft
    improve : callable
        Begins to improve the code.
    referents : list
        Everything that must not go before the code does.
    """

    words: np.ndarray[Any, Any]
    calls_back: bool
    time_left: TimeLeft
    improve: Callable[[], None]
    referents: list[Any]


def native_code_of(
    shared: SharedCode,
    program: Program,
    write: Callable[[], tuple[NativeModule, Function]],
    symbols: Mapping[str, int],
    pool: Callable[[], Mapping[str, int]],
) -> NativeCode:
    """Compile a program, unless its code is on disk.

    Parameters
    ----------
    shared : SharedCode
    program : Program
    write : callable
        Writes its module, which has the function ``program``.
    symbols : mapping
        The addresses of the functions that programs call.
    pool : callable
        Finds the addresses of the functions that programs with shared work call.

    Raises
    ------
    NativeError
        LLVM refuses the text, or a symbol is not among ``symbols``.
    """
    words, tools, time_left = np.zeros(3, np.int64), shared.tools, TimeLeft()
    referents: list[Any] = [shared, program]
    key = shared.keys.key(program, shared.arithmetic) if is_on() else None

    compiled = _Compiler(shared, write, key).compiled

    def use(made: ProgramObject) -> None:
        needs = made.needs
        programs = needs.programs(program)
        targets = {name: referent(recipe, programs) for name, recipe in needs.recipes.items()}
        addresses = {name: address for name, (address, _) in targets.items()}
        addresses |= (shared.better if made.level == BEST else shared).addresses(needs.shared)
        functions = dict(symbols)
        if "share" in needs.symbols:  # the pool takes longer to compile than first code runs
            functions |= pool() if made.level == BEST else {"share": symbols["share_alone"]}
        for name in needs.symbols:
            if name not in functions:
                raise NativeError(f"native code: nobody knows the symbol {name!r}")
            calls = name == "look" and needs.calls_back
            addresses[name] = functions["look_between_calls" if calls else name]
        code = tools.linked(made.files, addresses, ["program"])
        referents.extend((programs, targets, code))
        words[0] = code.addresses["program"]

    def begun(made: ProgramObject) -> NativeCode:
        use(made)
        needs = made.needs
        unlocked = 1 if needs.is_long else 2 * ("look" in needs.symbols and not needs.calls_back)
        words[1:] = unlocked, needs.size
        if made.level != BEST:
            size = sum(map(len, made.files)) if made.level == FIRST else 0
            time_left.begin(_PATIENCE + _PATIENCE * size // _SHORT)
        return NativeCode(words, needs.calls_back, time_left, improve, referents)

    def again() -> None:
        time_left.begin(1)

    def improve() -> None:
        time_left.begin(1)  # if an interrupt comes, the next call asks again
        work = partial(tools.in_background, lambda: use(compiled(BEST)), again)
        waits = tools.has_much_to_do  # else threads, and programs that are gone, would pile up
        if not waits:
            with suppress(RuntimeError):  # no thread begins any more when Python ends
                begin_thread(work, "funcgrad compiles", daemon=True)
        time_left.begin(_PATIENCE if waits else 0)

    for level in (BEST, FIRST):
        contents = None if key is None else read_code(tools.name(key, level))
        if contents is not None:
            with suppress(AttributeError, ImportError, FileNotFoundError, NativeError):
                return begun(ProgramObject.from_bytes(contents))
    return begun(compiled(FIRST))


class _Compiler:
    """Compiles one program, at one level after the other."""

    def __init__(
        self,
        shared: SharedCode,
        write: Callable[[], tuple[NativeModule, Function]],
        key: str | None,
    ) -> None:
        self._shared, self._write, self._key = shared, write, key
        self._family: tuple[Family, Needs] | None = None

    def compiled(self, level: int) -> ProgramObject:
        """The program's code; the text is written unless its family has code of this level.

        So an equal program made later runs the improved code of the first one: it takes half of the
        time of level 0's in batches of integrators, and seconds to compile again.
        """
        if self._family is not None:
            family, needs = self._family
            if level in family.objects:
                return _of_family(self._shared, family, needs, self._key, level)
        made, family = _compiled(self._shared, *self._write(), self._key, level)
        self._family = replace(family, texts=()), made.needs
        return made


def _compiled(
    shared: SharedCode, module: NativeModule, function: Function, key: str | None, level: int
) -> tuple[ProgramObject, Family]:
    """Compile a program, unless its family is compiled; at level 2 if that is at hand."""
    relocations = module.origins, module.recipes, module.symbols
    needs = Needs(function.size, function.is_long, *relocations, {})
    has_key = key is not None and needs.is_storable
    texts, declared = module.texts, module.declarations
    family, table = shared.sized.of(texts)
    if table:
        needs = replace(needs, recipes={**needs.recipes, TABLE: ("table", table)})
        module.texts = [*family.texts]
        module.declarations = {*declared, f"@{TABLE} = external global i8"}
    try:
        level = _compile(shared, module, family, has_key, level)
    except NativeError:
        if not table:
            raise
        module.texts, module.declarations = texts, declared
        shared.sized.refuse(texts)
        return _compiled(shared, module, function, key, level)
    return _of_family(shared, family, needs, key, level), family


def _of_family(
    shared: SharedCode, family: Family, needs: Needs, key: str | None, level: int
) -> ProgramObject:
    """The code of a program, from its family's; it is put on disk if the program has a key."""
    files, called = family.objects[level]
    code = shared.better if level == BEST else shared
    made = ProgramObject(level, replace(needs, shared=code.files(called)), files)
    if key is not None and needs.is_storable:
        write_code(shared.tools.name(key, BEST if level == BEST else FIRST), made.to_bytes())
    return made


def _compile(
    shared: SharedCode, module: NativeModule, family: Family, has_key: bool, level: int
) -> int:
    """Compile the code of a family, unless it is compiled; returns the level that it has."""
    if BEST in family.objects:
        return BEST
    tools = shared.tools
    compile_ = tools.compiled if has_key else tools.object_code
    texts, called = module.parts if level == BEST or (is_on() and not has_key) else ([], [])
    if level != BEST and texts and all(tools.known_code(text, BEST) for text in texts):
        level = BEST
    if level != BEST:
        texts, called = [module.short_text], sorted(module.uses)
        level = 0 if len(texts[0]) >= QUICKLY else level
    if level not in family.objects:
        family.objects[level] = [compile_(text, level) for text in texts], called
    return level
