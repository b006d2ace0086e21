"""Uses of random keys, recorded by value while ``random.check_keys`` is in effect.

The record is in a context variable, which is None elsewhere: a draw takes 13 µs or more, and reads
it in 27 ns. Machine code of a jitted function that draws reads it, too: 40 ns of the 310 ns of the
shortest call. Other functions never read it.

>>> uses = KeyUses()
>>> uses.draw("normal", 0, [b"key"])
>>> uses.draw("normal", 1, [b"key"])  # another kind of use
>>> uses.draw("uniform", 0, [b"key"])
Traceback (most recent call last):
    ...
funcgrad.errors.KeyReuseError: uniform: the key was used before, by normal at <doctest ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from funcgrad._base.users_line import users_line
from funcgrad.errors import KeyReuseError


class KeyUses:
    """The keys used so far, by their bytes; threads may record uses concurrently.

    Attributes
    ----------
    is_open : bool
        False from the end of ``check_keys`` on. A copy of the context may outlive it.
    """

    __slots__ = ("_made", "_used", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._used: dict[bytes, dict[int, tuple[str, str]]] = {}
        self._made: dict[bytes, set[bytes]] = {}

    def draw(self, operation: str, kind: int, keys: Sequence[bytes]) -> None:
        """Record that an operation uses keys.

        Raises
        ------
        KeyReuseError
            A key was used in this way before, or occurs twice, as in two rows of ``vmap``.
        """
        line = users_line()
        for key in keys:
            use = operation, line
            first = self._used.setdefault(key, {}).setdefault(kind, use)
            if first is not use:
                raise _reused(operation, line, *first)

    def derive(self, key: bytes, made: Sequence[bytes]) -> None:
        """Record that keys were made from a key."""
        known: set[bytes] | None = None
        while self._made.get(key) is not known or known is None:  # it was forgotten meanwhile
            known = self._made.setdefault(key, set())
            known.update(made)

    def forget(self, key: bytes) -> None:
        """Forget the uses of a key, and of all keys that were made from it."""
        keys = [key]
        while keys:
            known = keys.pop()
            self._used.pop(known, None)
            keys += self._made.pop(known, ())


class DrawWitness:
    """Detects uses of keys while a function is staged, also of keys that it closes over."""

    __slots__ = ("drew",)

    def __init__(self) -> None:
        self.drew = False


KEY_USES: Final[ContextVar[KeyUses | DrawWitness | None]] = ContextVar(
    "funcgrad_key_uses", default=None
)
"""The record of this context; None where keys are not checked."""


def current_uses() -> KeyUses | None:
    """The record of this context, or None; a closed record is dropped."""
    uses = KEY_USES.get()
    if not isinstance(uses, KeyUses):
        return None
    if not uses.is_open:
        KEY_USES.set(None)
        return None
    return uses


def testify() -> None:
    """Tell the witness, if any, that a key was used."""
    witness = KEY_USES.get()
    if isinstance(witness, DrawWitness):
        witness.drew = True


@contextmanager
def witnessed() -> Iterator[DrawWitness]:
    """Within this context, a witness detects uses of keys."""
    witness = DrawWitness()
    token = KEY_USES.set(witness)
    try:
        yield witness
    finally:
        KEY_USES.reset(token)


@contextmanager
def repetition() -> Iterator[None]:
    """Within this context, a function is run again: uses of its keys are counted separately."""
    if current_uses() is None:
        yield
        return
    token = KEY_USES.set(KeyUses())
    try:
        yield
    finally:
        KEY_USES.reset(token)


def _reused(operation: str, line: str, before: str, earlier: str) -> KeyReuseError:
    return KeyReuseError(
        f"{operation}: the key was used before, by {before} at {earlier or 'an unknown line'}, and"
        f" is used again at {line or 'an unknown line'}: this gives the same random numbers, or"
        " keys, twice. Make a key for each use with fg.random.split or fold_in; for an intended"
        " repetition pass fg.random.again(key)."
    )
