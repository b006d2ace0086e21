"""Records that travel between the caller and the workers.

The caller sends ``StepCode`` once a worker, parameters once a step, and items: a chunk's index,
weight and where its data come from. A worker answers with a ``Partial``, or with what it
lacks: a program for data of this kind (``Unstaged``), or arrays (``AbsentParcels``).
"""

from __future__ import annotations

from typing import Any

from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.trees import Structure


@dataclass(frozen=True, slots=True)
class Caller:
    """The facts that a worker has to agree with, and how it works for this caller.

    Attributes
    ----------
    operation : str
        The function that the user called, for error messages.
    versions : tuple of pairs
        Names of packages, with their versions.
    backend : str
        The backend that compiles programs.
    probe : str
        The digest of the caller's answer to the numeric probe; empty where any answer will do.
    keep : int or None
        How many bytes of loaded chunks a worker may keep; None means a fourth of its memory.
    """

    operation: str
    versions: tuple[tuple[str, str], ...]
    backend: str
    probe: str
    keep: int | None


@dataclass(frozen=True, slots=True)
class ChunkProgram:
    """A program for chunks of one kind.

    Attributes
    ----------
    structure : Structure
        The chunk's pytree.
    specs : tuple of Spec
        The chunk's leaves.
    fingerprint : str
    text : str
        The program as JSON. Its inputs are the leaves of the parameters, of further arguments and
        of the chunk, then its large constants.
    arrays : tuple of str
        The digests of these constants.
    """

    structure: Structure
    specs: tuple[Spec, ...]
    fingerprint: str
    text: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepCode:
    """All programs of a function for parameters of one kind.

    Attributes
    ----------
    programs : tuple of ChunkProgram
    combine : ChunkProgram or None
        From the leaves of two results to those of one; None for a sum.
    dtype : str or None
        The dtype of sums; None for that of the results.
    """

    programs: tuple[ChunkProgram, ...]
    combine: ChunkProgram | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk to be worked on.

    Attributes
    ----------
    index : int
    weight : float or None
        A factor for the results.
    source : object or None
        Has a ``key`` and a method ``load``; None where the data travel beside the item.
    run : str
        A name for all chunks that are worked on together; those of others make room.
    """

    index: int
    weight: float | None
    source: Any
    run: str


@dataclass(frozen=True, slots=True)
class Partial:
    """The combined results of some chunks.

    Attributes
    ----------
    values : tuple
        Arrays, one for each output of the program.
    places : tuple of pairs
        The indices of the chunks, with the names of the workers that had them.
    """

    values: tuple[Any, ...]
    places: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Unstaged:
    """There is no program yet for a chunk's structure, shapes, or path through control flow."""

    index: int


@dataclass(frozen=True, slots=True)
class AbsentParcels:
    """A worker cannot read the files of these parcels, as on another machine."""

    keys: tuple[str, ...]
