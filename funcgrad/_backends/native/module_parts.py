"""The parts of a module that LLVM optimizes one by one, each in a fraction of a second.

Functions are put into those that call them while these stay small, and called otherwise: the time
grows faster than what is gained. A chain of 400 sines would take 7 seconds, and nobody else could
use LLVM meanwhile.

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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from funcgrad._backends.native.function_text import SharedFunction, module_text, needed

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
        The module's own functions: ``program``, and what it calls.
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

    @cache
    def size(name: str) -> int:
        text = known[name].text
        others = [other for other in _NAME.findall(text)[1:] if other in known]
        return len(text) + sum(map(size, others))

    for name in waiting:  # which grows
        if name not in local:
            continue
        copies, heads = list[SharedFunction](), list[str]()
        if size(name) <= limit:
            copies = needed(known, local[name].uses)
        else:
            heads = [f"declare {known[other].head}" for other in sorted(local[name].uses)]
            waiting += sorted(local[name].uses.difference(waiting))
        texts.append(module_text(copies, [*declarations, *heads], [f"define {local[name].text}"]))
    return texts, [name for name in waiting if name not in local]


def _taken_apart(text: str, uses: Iterable[str]) -> SharedFunction:
    text = text.removeprefix("define ").removeprefix("internal ")
    return SharedFunction(text.partition("{")[0].strip(), text, frozenset(), frozenset(uses))
