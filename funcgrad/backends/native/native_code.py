"""The code of programs in memory, quickly made at first and better where that pays.

Compiling at LLVM's level 0 takes a third of the time of level 2, and makes code that is some times
slower, with the same bits. So a program's first code is of level 0, and calls shared functions,
which a process compiles once. When it has run for some milliseconds, a thread compiles the program
with all that it calls at level 2, and calls that begin from then on run the new code. Code that is
on disk at level 2 is used at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, Final

import numpy as np

from funcgrad.backends.native.function_text import (
    SharedFunction,
    module_text,
    needed,
    symbols_in,
)
from funcgrad.backends.native.native_module import NativeModule
from funcgrad.backends.native.processor import Code, Toolchain
from funcgrad.quick_dataclasses import dataclass

_PATIENCE: Final = 10_000_000
"""For so many ticks of the processor's clock, some milliseconds, the first code runs."""

FIRST, BEST = 0, 2


class SharedCode:
    """The functions that programs share, compiled once a process.

    On a first call of a small net these are half of the code: a first product or exponential
    pays for those that follow.

    Attributes
    ----------
    tools : Toolchain
    definitions : dict
        Their texts, by name.

    Parameters
    ----------
    tools : Toolchain
    symbols : mapping
        The addresses of what they may call.
    """

    def __init__(self, tools: Toolchain, symbols: Mapping[str, int]) -> None:
        self.tools = tools
        self.definitions: dict[str, SharedFunction] = {}
        self._symbols = symbols
        self._codes: dict[str, Code] = {}  # which stay, for a process has few

    def addresses(self, names: Iterable[str]) -> dict[str, int]:
        """The addresses of functions, which are compiled unless they are there."""
        names = sorted(names)
        missing = [name for name in names if name not in self._codes]
        if missing:
            functions = [self.definitions[name] for name in missing]
            texts, symbols = [], dict[str, int]()
            for function in functions:
                inner = needed(self.definitions, function.uses)
                declared = function.declarations.union(*[other.declarations for other in inner])
                texts.append(module_text(inner, declared, [f"define {function.text}"]))
                symbols |= {name: self._symbols[name] for name in symbols_in(declared)}
            made = [self.tools.object_code(text, FIRST) for text in texts]
            code = self.tools.linked(made, symbols, missing)
            for name in missing:  # another thread's code, which programs may call, stays
                self._codes.setdefault(name, code)
        return {name: self._codes[name].addresses[name] for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class NativeCode:
    """The code of a program, as the runtime calls it.

    Attributes
    ----------
    words : array
        The code's address; for how many more ticks of the clock it is run before the function is
        called whose address comes last; 0 for ever.
    size : int
        The bytes of its arena.
    referents : list
        Everything that must not go before the code does.
    """

    words: np.ndarray[Any, Any]
    size: int
    referents: list[Any]


def native_code_of(
    shared: SharedCode, module: NativeModule, symbols: Mapping[str, int], size: int
) -> NativeCode:
    """Compile a module that has the function ``program``.

    Parameters
    ----------
    shared : SharedCode
    module : NativeModule
    symbols : mapping
        The addresses of what the module calls and neither defines nor knows.
    size : int
        The bytes of the arena.

    Raises
    ------
    NativeError
        LLVM refuses the text, or a symbol is not among ``symbols``.
    """
    words, tools = np.zeros(3, np.int64), shared.tools
    referents: list[Any] = [shared, *module.referents]
    text, addresses = module.text, module.addresses(symbols)

    def use(made: bytes, addresses: Mapping[str, int]) -> None:
        code = tools.linked([made], addresses, ["program"])
        referents.append(code)
        words[0] = code.addresses["program"]

    best = tools.known_code(text, BEST)
    if best is not None:
        use(best, addresses)
        return NativeCode(words, size, referents)
    first = tools.object_code(module.short_text, FIRST)
    use(first, {**addresses, **shared.addresses(module.uses)})
    improve = _in_a_thread(lambda: use(tools.object_code(text, BEST), addresses))
    words[1:] = _PATIENCE, id(improve)
    return NativeCode(words, size, [referents, improve])


def _in_a_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Make a function that begins a piece of work and does not wait for it."""

    def begin() -> None:
        with suppress(RuntimeError):  # no thread begins any more when Python ends
            Thread(target=work, name="funcgrad compiles").start()

    return begin
