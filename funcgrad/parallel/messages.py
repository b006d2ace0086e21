"""Records that the caller and the workers exchange, and the tree in which results combine.

The caller sends ``StepCode`` once to each worker, parameters once in each step, and items: the
index, weight and data source of a chunk. A worker answers with the combined results of its chunks,
or with the chunks for which it has no program (``Unstaged``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value
from funcgrad._core.users_values import freeze
from funcgrad.parallel.sources import ChunkSource
from funcgrad.parallel.worker_store import ChunkStore
from funcgrad.tensor.tensor import Tensor, wrap

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Versions that a worker has to share, and options of the work for this caller."""

    operation: str
    versions: tuple[tuple[str, str], ...]
    backend: str
    probe: str
    """The digest of the caller's answer to the numeric probe; empty to accept any answer."""
    keep: int | None
    run: str
    """A name for all chunks of one run; chunks of other runs are dropped to make room."""
    store: ChunkStore | None
    """The store in which threads keep chunks; other workers have a store in their process."""


@dataclass(frozen=True, slots=True)
class ChunkProgram:
    """A program for chunks of one kind: with this structure and these leaf specs.

    Its text is JSON. Its inputs are the leaves of the parameters, of further arguments and of the
    chunk, followed by large constants, whose digests are in ``arrays``.
    """

    structure: Structure
    specs: tuple[Spec, ...]
    text: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepCode:
    """All programs of a function for parameters of one kind, and the combination of results."""

    programs: tuple[ChunkProgram, ...]
    combine: ChunkProgram | None
    """``(leaves of two results) -> leaves of one``; None for a sum."""
    arrays: tuple[str, ...]
    """The digests of all large constants."""
    dtype: str | None
    """The dtype of sums; None for the dtype of the results."""


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk to process; its source is None if the data are sent with it."""

    index: int
    weight: float | None
    source: ChunkSource | None


@dataclass(frozen=True, slots=True)
class Unstaged:
    """Chunks that need another program: new structure, shapes or path through control flow."""

    indices: tuple[int, ...]


Outcome: TypeAlias = "tuple[Value, ...] | Unstaged"


def as_tensor(value: object) -> Tensor:
    """Make a tensor of a result, which may be on a device."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    return wrap(freeze(array) if array.ndim else array[()])


def folded(values: Iterable[T], combine: Callable[[T, T], T]) -> T:
    """Combine results in the fixed binary tree, which depends on their number only.

    Neighbours are combined level by level; a last result without a neighbour moves up unchanged. So
    workers may combine aligned groups of 2, 4, 8 … chunks before they send anything.

    >>> folded("abcdefg", lambda left, right: f"({left}{right})")
    '(((ab)(cd))((ef)g))'
    """
    groups: list[tuple[int, T]] = []  # such as 8, 4 and 1 results, like binary digits
    for value in values:
        size = 1
        while groups and groups[-1][0] == size:
            value = combine(groups.pop()[1], value)
            size *= 2
        groups.append((size, value))
    total = groups.pop()[1]
    while groups:
        total = combine(groups.pop()[1], total)
    return total
