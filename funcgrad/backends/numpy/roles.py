"""Roles: which equations of an unrolled loop do the same thing in another step of it.

Equations are *of a kind* if they do the same operation to operands of the same shapes. Those of a
kind may depend on each other, such as each step's ``x = sin(x)`` on that of the step before. Kinds
that depend on each other in a circle are done step by step; all others can be done for all steps at
once. So compilers split a loop in order to vectorize it (Allen and Kennedy, "Automatic Translation
of Fortran Programs to Vector Form", 1987).

Of the two steps ``x = sin(x); y = square(x)``, the squares are of one role:

>>> roles(kinds=[0, 1, 0, 1], before=[[], [0], [0], [2]])
[(1, 3)]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

__all__ = ["roles"]

_FEWEST: Final = 2
"""The equations of a kind that have to differ from the most common ones to be told apart: the first
step of a loop differs."""

_DONE: Final = 1 << 62


def roles(kinds: Sequence[int], before: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Find the roles of equations.

    Parameters
    ----------
    kinds : sequence of int
        The kind of each equation; -1 for one that is like no other.
    before : sequence of sequences of int
        For each equation the positions of those that it reads.

    Returns
    -------
    list of tuple of int
        The positions of the equations of each role, in order, of which none depends on another. All
        roles can be done at once, one after another in this order.
    """
    colors = _numbered([~place if kind < 0 else kind for place, kind in enumerate(kinds)])
    ranks, circles = _ranked(colors, before)
    if circles:
        ranks, circles = _ranked(_told_apart(colors, before, ranks, circles), before)
    found: dict[int, list[int]] = {}
    for position, kind in enumerate(kinds):
        if kind >= 0 and ranks[position] not in circles:
            found.setdefault(ranks[position], []).append(position)
    return [tuple(found[rank]) for rank in sorted(found)]


def _numbered(keys: Iterable[Hashable]) -> list[int]:
    """Small numbers for keys, the same for the same."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _ranked(
    colors: Sequence[int], before: Sequence[Sequence[int]]
) -> tuple[list[int], frozenset[int]]:
    """The rank of each equation, and the ranks that are circles of colors."""
    reads: list[list[int]] = [[] for _ in range(max(colors, default=-1) + 1)]
    for color, positions in zip(colors, before, strict=True):
        reads[color] += [colors[position] for position in positions]
    ranks = [0] * len(reads)
    circles = []
    for rank, part in enumerate(_parts(reads)):
        for color in part:
            ranks[color] = rank
        if len(part) > 1 or part[0] in reads[part[0]]:
            circles.append(rank)
    return [ranks[color] for color in colors], frozenset(circles)


def _told_apart(
    colors: Sequence[int],
    before: Sequence[Sequence[int]],
    ranks: Sequence[int],
    circles: frozenset[int],
) -> list[int]:
    """Colors in circles told apart by the colors that they read in these."""
    shades: dict[int, dict[tuple[int, ...], list[int]]] = {}
    for position, rank in enumerate(ranks):
        if rank in circles:
            inside = tuple([colors[other] for other in before[position] if ranks[other] == rank])
            own = shades.setdefault(colors[position], {})
            own.setdefault(inside, []).append(position)
    finer = list(colors)
    count = max(colors) + 1
    for own in shades.values():
        sizes = [len(positions) for positions in own.values()]
        if sum(sizes) - max(sizes) >= _FEWEST:
            for positions in [*own.values()][1:]:
                for position in positions:
                    finer[position] = count
                count += 1
    return finer


def _parts(reads: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected parts of a graph, each after those that it reads.

    By one walk in depth, with stacks of its own (Gabow, "Path-based depth-first search for strong
    and biconnected components", 2000).
    """
    numbers = [0] * len(reads)
    open_nodes: list[int] = []
    bounds: list[int] = []
    count = 0
    for root in range(len(reads)):
        waiting = [] if numbers[root] else [root]
        path: list[tuple[int, Iterator[int]]] = []
        while waiting or path:
            if waiting:
                node = waiting.pop()
                count += 1
                numbers[node] = count
                open_nodes.append(node)
                bounds.append(count)
                path.append((node, iter(reads[node])))
            node, others = path[-1]
            for other in others:
                if not numbers[other]:
                    waiting.append(other)
                    break
                while numbers[other] < bounds[-1]:
                    bounds.pop()
            else:
                path.pop()
                if bounds[-1] == numbers[node]:
                    bounds.pop()
                    part: list[int] = []
                    while not part or part[-1] != node:
                        part.append(open_nodes.pop())
                        numbers[part[-1]] = _DONE
                    yield part
