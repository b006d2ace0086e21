"""Pytrees: flattened, rebuilt, mapped over."""

from typing import Any

import pytest

import funcgrad as fg
from funcgrad._core import pytrees


def nested(depth):
    """Pairs within pairs."""
    tree: Any = 0
    for k in range(depth):
        tree = (k, tree)
    return tree


TREES = {
    "list of 100": list(range(100)),
    "dict of 100": {f"key {k:03}": k for k in range(100)},
    "100 dicts of 2": [{"weight": k, "bias": -k} for k in range(100)],
    "100 deep": nested(100),
}
by_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


@pytest.mark.benchmark(group="tree: flatten")
@by_tree
def test_flatten(benchmark, tree):
    leaves, structure = benchmark(pytrees.flatten, tree)
    benchmark.extra_info["leaves"] = len(leaves)
    assert pytrees.unflatten(structure, leaves) == tree


@pytest.mark.benchmark(group="tree: unflatten")
@by_tree
def test_unflatten(benchmark, tree):
    leaves, structure = pytrees.flatten(tree)
    benchmark.extra_info["leaves"] = len(leaves)
    assert benchmark(pytrees.unflatten, structure, leaves) == tree


@pytest.mark.benchmark(group="tree: map")
@by_tree
def test_map(benchmark, tree):
    found = benchmark(fg.tree.map, lambda x: x + 1, tree)
    assert sum(fg.tree.leaves(found)) == sum(fg.tree.leaves(tree)) + len(fg.tree.leaves(tree))
