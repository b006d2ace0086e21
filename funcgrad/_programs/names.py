"""Names of variables in texts.

>>> [letters(number) for number in (0, 25, 26, 701, 702)]
['a', 'z', 'aa', 'zz', 'aaa']
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count, filterfalse, islice, product
from typing import Final

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def letters(number: int) -> str:
    """The name of a variable in texts: a, b, ..., z, aa, ab, ..."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def variable_names(inputs: Sequence[str], total: int) -> list[str]:
    """Names for ``total`` variables: inputs' names if they are identifiers, else letters."""
    taken = frozenset([name for name in inputs if name.isidentifier()])
    sizes = (product(_LETTERS, repeat=size) for size in count(1))
    names = map("".join, chain.from_iterable(sizes))  # as by letters, in a fifth of the time
    spare = filterfalse(taken.__contains__, names)
    named = [name if name in taken else next(spare) for name in inputs]
    return [*named, *islice(spare, total - len(inputs))]
