"""Values that a worker process keeps by key between tasks: its only state.

>>> store = ChunkStore()
>>> store.chunk("a", "run", 100, lambda: [np.zeros(10)])
[array([0., 0., ...])]
>>> store.chunk("a", "run", 100, lambda: 1 / 0)
[array([0., 0., ...])]
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeVar

import numpy as np

from funcgrad._base.locks import ProcessLock
from funcgrad.tensor.tensor import Tensor

T = TypeVar("T")
_MOST: Final = 128
_MISSING: Final[Any] = object()


class ChunkStore:
    """Loaded chunks, as far as they fit.

    A chunk that does not fit does not evict chunks of the same run: a run over all chunks in turn
    would evict each chunk just before its use. Chunks of other runs are evicted.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._chunks: dict[str, tuple[str, int, Any]] = {}

    def chunk(self, key: str, run: str, limit: int, load: Callable[[], T]) -> T:
        """Return a chunk; keep it if all chunks of its run have at most ``limit`` bytes."""
        for known in self._lock.run(lambda: self._known(key, run)):
            return known
        loaded = load()  # without the lock: two threads may both load the chunk
        self._lock.run(lambda: self._keep(key, run, limit, loaded))
        return loaded

    def _known(self, key: str, run: str) -> tuple[Any, ...]:
        if key not in self._chunks:
            return ()
        _, size, data = self._chunks[key]
        self._chunks[key] = run, size, data
        return (data,)

    def _keep(self, key: str, run: str, limit: int, loaded: object) -> None:
        size = sum(_sizes(loaded))
        self._chunks.pop(key, None)
        total = sum([taken for _, taken, _ in self._chunks.values()])
        for other, (run_of_other, taken, _) in list(self._chunks.items()):
            if total + size > limit and run_of_other != run:
                del self._chunks[other]
                total -= taken
        if total + size <= limit:
            self._chunks[key] = run, size, loaded


class RecentValues:
    """The 128 most recently used values by key: compiled programs, and answers to the probe."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value, and make it if it is new; two threads may both make it."""
        known = self._values.pop(key, _MISSING)
        value: T = make() if known is _MISSING else known
        self._values[key] = value  # now the last in order
        for oldest in list(self._values)[:-_MOST]:
            self._values.pop(oldest, None)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


def _sizes(tree: object) -> Iterator[int]:
    """Yield the bytes of the arrays in nested lists and tuples."""
    if isinstance(tree, (np.ndarray, np.generic, Tensor)):  # a tensor is on a device
        yield tree.nbytes
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _sizes(value)


CHUNKS: Final = ChunkStore()
"""The chunks of this process."""
RECENT: Final = RecentValues()
"""The programs of this process, and its answer to the probe."""

atexit.register(RECENT.clear)  # free machine code before the modules that free it are gone
