"""BLAKE2 digests of arrays, computed by threads while files are read or written.

A digest covers an array's name, dtype, shape and bytes. Pieces of 4 MiB are hashed separately, and
then their hashes, so that several threads can hash one large array.

>>> with Digests() as digests:
...     digests.add("weight", np.zeros(3))
...     print(digests.all())
{'weight': '...'}
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Self

import numpy as np

from funcgrad._base.locks import begin_thread

PIECE: Final = 2**22
HELPERS: Final = max(1, min(3, (os.cpu_count() or 1) - 1))
SIZE: Final = 16
"""Bytes of a digest: damage is missed with a probability of 2**-128."""

Array = np.ndarray[Any, np.dtype[Any]]


def text_digest(text: str) -> str:
    """Hash a text."""
    return blake2b(text.encode(), digest_size=SIZE).hexdigest()


class Digests:
    """A queue of pieces to hash. Leaving the block ends its threads, also after an error.

    These are plain threads, since an executor refuses work while the interpreter exits, when the
    last checkpoint may still be saving. They are daemons, so that a thread that waits for ever
    after an interrupt does not keep Python alive.
    """

    def __init__(self) -> None:
        self._pieces: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._hashes: dict[str, list[bytes]] = {}
        self._threads: list[Thread] = []
        self._bytes = 0

    def add(self, name: str, array: Array) -> None:
        """Start to hash an array, which must be C-contiguous and must not change."""
        data = array.reshape(-1).view(np.uint8)
        starts = range(0, data.size, PIECE)
        facts = f"{name}\n{array.dtype.str}\n{array.shape}".encode()
        hashes = self._hashes[name] = [facts, *[b""] * len(starts)]
        for number, start in enumerate(starts, start=1):
            self._pieces.put(_hashing(hashes, number, data[start : start + PIECE]))
        self._bytes += data.size
        if self._bytes > PIECE * (1 + len(self._threads)) and len(self._threads) < HELPERS:
            self.use_another_thread()

    def use_another_thread(self) -> None:
        """Start one more thread, because the caller is about to wait for the disk."""
        self._threads.append(begin_thread(self._help, daemon=True))

    def _help(self) -> None:
        while (work := self._pieces.get()) is not None:
            work()

    def all(self) -> dict[str, str]:
        """Wait for the digests of all arrays, and return them by name."""
        self._work_off(lambda work: work())
        return {
            name: blake2b(b"".join(hashes), digest_size=SIZE).hexdigest()
            for name, hashes in self._hashes.items()
        }

    def _work_off(self, do: Callable[[Callable[[], None]], None]) -> None:
        while True:
            try:
                work = self._pieces.get_nowait()
            except Empty:
                break
            if work is not None:
                do(work)
        for _ in self._threads:
            self._pieces.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._work_off(lambda work: None)


def _hashing(hashes: list[bytes], number: int, piece: Array) -> Callable[[], None]:
    def work() -> None:
        hashes[number] = blake2b(piece.data, digest_size=SIZE).digest()

    return work
