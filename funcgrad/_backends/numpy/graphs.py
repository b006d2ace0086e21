"""Connected components of a graph.

>>> connected([1, 2, 3, 5], links=[(1, 2), (2, 5)])
[[1, 2, 5], [3]]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def connected(nodes: Iterable[N], links: Iterable[Iterable[Hashable]]) -> list[list[N]]:
    """Find the connected components of a graph, each with its nodes in the order of ``nodes``.

    Parameters
    ----------
    nodes : iterable of nodes
    links : iterable of iterables of nodes
        Each link connects all of its nodes. It may contain nodes that are not among ``nodes``.
    """
    parents: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parents.setdefault(node, node) != node:
            parents[node] = node = parents[parents[node]]
        return node

    for link in links:
        first, *others = link
        for other in others:
            parents[root(other)] = root(first)
    parts: dict[Hashable, list[N]] = {}
    for node in nodes:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())
