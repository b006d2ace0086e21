"""Records that travel between the caller and the workers, and the tree in which results combine.

The caller sends ``StepCode`` once a worker, parameters once a step, and items: a chunk's index,
weight and where its data come from. A worker answers with the combined results of its chunks, or
with the chunks that it lacks a program for (``Unstaged``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value
from funcgrad.parallel.sources import ChunkSource
from funcgrad.parallel.worker_store import ChunkStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """The facts that a worker has to agree with, and how it works for this caller."""

    operation: str
    versions: tuple[tuple[str, str], ...]
    backend: str
    probe: str
    """The digest of the caller's answer to the numeric probe; empty where any answer will do."""
    keep: int | None
    run: str
    """A name for all chunks that are worked on together; those of other runs make room."""
    store: ChunkStore | None
    """Where threads keep chunks; other workers have a store for their process."""


@dataclass(frozen=True, slots=True)
class ChunkProgram:
    """A program for chunks of one kind, of this structure and with these leaves.

    Its text is JSON. Its inputs are the leaves of the parameters, of further arguments and of the
    chunk, then large constants, by their digests in ``arrays``.
    """

    structure: Structure
    specs: tuple[Spec, ...]
    text: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepCode:
    """All programs of a function for parameters of one kind, and what combines their results."""

    programs: tuple[ChunkProgram, ...]
    combine: ChunkProgram | None
    """From the leaves of two results to those of one; None for a sum."""
    arrays: tuple[str, ...]
    """The digests of all large constants."""
    dtype: str | None
    """The dtype of sums; None for that of the results."""


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk to be worked on; its source is None where the data travel beside it."""

    index: int
    weight: float | None
    source: ChunkSource | None


@dataclass(frozen=True, slots=True)
class Unstaged:
    """Chunks whose structure, shapes, or path through control flow no program has yet."""

    indices: tuple[int, ...]


Outcome: TypeAlias = "tuple[Value, ...] | Unstaged"


def folded(values: Iterable[T], combine: Callable[[T, T], T]) -> T:
    """Combine results in the fixed binary tree, which depends on their number alone.

    Neighbours are combined level by level, a last one without a neighbour stays as it is. So
    workers may combine aligned groups of 2, 4, 8 … chunks before anything travels.

    >>> folded("abcdefg", lambda left, right: f"({left}{right})")
    '(((ab)(cd))((ef)g))'
    """
    groups: list[tuple[int, T]] = []  # of 8, 4, 1 results, say, like the digits of their number
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
