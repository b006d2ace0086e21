"""A store of each worker process, by key, from task to task. Nothing else in it changes.

Three things are kept, each with a bound: compiled programs, arrays that were sent, and chunks that
were loaded. A chunk that does not fit gives no other way, since a run over all chunks in turn would
drop each just before its use; chunks of former runs make room.

>>> store = WorkerStore()
>>> store.chunk("a", "run", 100, lambda: [np.zeros(10)])
[array([0., 0., ...])]
>>> store.chunk("a", "run", 100, lambda: 1 / 0)
[array([0., 0., ...])]
"""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, TypeVar

import numpy as np

from funcgrad.process_locks import ProcessLock

T = TypeVar("T")

MOST_PROGRAMS: Final = 128
MOST_PARCELS: Final = 64


class WorkerStore:
    """A bounded memory of one process, safe for many threads.

    A child that was forked has the entries of its parent, which are as good for it.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._programs: OrderedDict[Hashable, Any] = OrderedDict()
        self._parcels: OrderedDict[Hashable, Any] = OrderedDict()
        self._chunks: dict[Hashable, tuple[str, int, Any]] = {}
        self._answers: dict[Hashable, Any] = {}

    def clear(self) -> None:
        """Forget everything."""
        with self._lock.here:
            for entries in (self._programs, self._parcels, self._chunks, self._answers):
                entries.clear()

    def program(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a compiled program; of those used last, ``MOST_PROGRAMS`` are kept."""
        return self._recent(self._programs, MOST_PROGRAMS, key, make)

    def parcel(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return arrays that were sent; of those used last, ``MOST_PARCELS`` are kept."""
        return self._recent(self._parcels, MOST_PARCELS, key, make)

    def answer(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is found out once in a process, such as its answer to the probe."""
        if key not in self._answers:
            self._answers[key] = make()
        known: T = self._answers[key]
        return known

    def _recent(
        self, entries: OrderedDict[Hashable, Any], most: int, key: Hashable, make: Callable[[], T]
    ) -> T:
        with self._lock.here:
            if key in entries:
                entries.move_to_end(key)
                known: T = entries[key]
                return known
        made = make()  # without the lock: two threads may make one thing twice
        with self._lock.here:
            entries[key] = made
            while len(entries) > most:
                entries.popitem(last=False)
        return made

    def chunk(self, key: str, run: str, limit: int, load: Callable[[], T]) -> T:
        """Return a chunk; keep it if all chunks of its run then have at most ``limit`` bytes."""
        with self._lock.here:
            if key in self._chunks:
                _, size, data = self._chunks[key]
                self._chunks[key] = (run, size, data)
                known: T = data
                return known
        loaded = load()
        size = sum(_sizes(loaded))
        with self._lock.here:
            total = sum([taken for _, taken, _ in self._chunks.values()])
            for other, (run_of_other, taken, _) in list(self._chunks.items()):
                if total + size > limit and run_of_other != run:
                    del self._chunks[other]
                    total -= taken
            if total + size <= limit:
                self._chunks[key] = (run, size, loaded)
        return loaded


def _sizes(tree: Any) -> Iterable[int]:
    """The bytes of the arrays in nested lists and tuples."""
    for value in tree if isinstance(tree, (list, tuple)) else (tree,):
        if isinstance(value, (np.ndarray, np.generic)):
            yield value.nbytes
        elif isinstance(value, (list, tuple)):
            yield from _sizes(value)


STORE: Final = WorkerStore()
"""The store of this process."""

atexit.register(STORE.clear)  # machine code is freed while the modules that free it are there
