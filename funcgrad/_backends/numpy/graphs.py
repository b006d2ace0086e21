"""Graph algorithms: topological order and connected components.

>>> in_order({4: {2}, 1: {4}, 2: set(), 3: set()}, place=lambda node: node)
[2, 3, 4, 1]
>>> connected([1, 2, 3, 5], links=[(1, 2), (2, 5)])
[[1, 2, 5], [3]]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def in_order(needs: Mapping[N, Iterable[N]], place: Callable[[N], int]) -> list[N]:
    """Order nodes so that each comes after the nodes that it needs.

    Parameters
    ----------
    needs : mapping
        For each node the nodes that it needs, without duplicates.
    place : callable
        A node's sort key; of the nodes that can come next, the one with the least key does.
    """
    readers: dict[N, list[N]] = {}
    missing: dict[N, int] = {}
    nodes = {place(node): node for node in needs}
    for node, others in needs.items():
        missing[node] = 0
        for other in others:
            missing[node] += 1
            readers.setdefault(other, []).append(node)
    ready = [at for at, node in nodes.items() if not missing[node]]
    heapify(ready)
    order: list[N] = []
    while ready:
        order.append(nodes[heappop(ready)])
        for reader in readers.get(order[-1], ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, place(reader))
    return order


def connected(nodes: Iterable[N], links: Iterable[Iterable[Hashable]]) -> list[list[N]]:
    """The connected components of a graph, each with its nodes in the order of ``nodes``.

    Parameters
    ----------
    nodes : iterable of nodes
    links : iterable of iterables of nodes
        Each connects all of its nodes; it may contain others than ``nodes``.
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
