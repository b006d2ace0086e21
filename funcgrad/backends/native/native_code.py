"""The code of programs in memory, quickly made at first and better where that pays.

Compiling at LLVM's level 0 takes a third of the time of level 2, and makes code that is some times
slower, with the same bits. So a program's first code is of level 0. When that has run for some
milliseconds, a thread compiles it at level 2, and calls that begin from then on run the new code.
Code that is on disk at level 2 is used at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, Final

import numpy as np

from funcgrad.backends.native.processor import Toolchain
from funcgrad.quick_dataclasses import dataclass

_PATIENCE: Final = 10_000_000
"""For so many ticks of the processor's clock, some milliseconds, the first code runs."""

FIRST, BEST = 0, 2


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
    tools: Toolchain, text: str, symbols: Mapping[str, int], size: int, referents: list[Any]
) -> NativeCode:
    """Compile a module that has the function ``program``.

    Parameters
    ----------
    tools : Toolchain
    text : str
    symbols : mapping
        The addresses of what the text does not define.
    size : int
        The bytes of the arena.
    referents : list
        What lies at these addresses.

    Raises
    ------
    NativeError
        LLVM refuses the text, or a symbol is not among ``symbols``.
    """
    words = np.zeros(3, np.int64)

    def use(made: bytes) -> None:
        code = tools.linked(made, symbols, ["program"])
        referents.append(code)
        words[0] = code.addresses["program"]

    best = tools.known_code(text, BEST)
    if best is not None:
        use(best)
        return NativeCode(words, size, referents)
    use(tools.object_code(text, FIRST))
    improve = _in_a_thread(lambda: use(tools.object_code(text, BEST)))
    words[1:] = _PATIENCE, id(improve)
    return NativeCode(words, size, [referents, improve])


def _in_a_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Make a function that begins a piece of work and does not wait for it."""

    def begin() -> None:
        with suppress(RuntimeError):  # no thread begins any more when Python ends
            Thread(target=work, name="funcgrad compiles").start()

    return begin
