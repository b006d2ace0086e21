"""Select leaves of a tree by their paths: partition, combine, select.

>>> chosen, others = partition({"w": 1.0, "b": 2.0}, "w")
>>> chosen, others
({'b': None, 'w': 1.0}, {'b': 2.0, 'w': None})
>>> combine(chosen, others)
{'b': 2.0, 'w': 1.0}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from funcgrad._core.pytrees import broadcast_prefix, flatten, subtrees_like, unflatten
from funcgrad._core.trace import TracedValue
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, TreeError
from funcgrad.tree.path_texts import matcher, no_such_path, path_text

Pytree: TypeAlias = Any
"""A nested container of arrays."""

Where: TypeAlias = str | Callable[[str, Any], bool] | Pytree
"""A selection of leaves: a pattern, a predicate, or a tree of booleans."""


def chosen_leaves(tree: Pytree, where: Where, operation: str) -> list[bool]:
    """List for each leaf of a tree whether it is selected.

    Raises
    ------
    TreeError
        A pattern matches no leaf, or a tree of booleans has another structure.
    DtypeError
        The predicate or the tree gives neither True nor False for a leaf.
    """
    leaves, structure = flatten(tree)
    paths = [path_text(path) for path in structure.key_paths()]
    if isinstance(where, str):
        matches = matcher(where)
        flags: list[Any] = [matches(path) for path in paths]
        if not any(flags):
            raise no_such_path(operation, where, paths)
        return flags
    if callable(where) and is_one_leaf(where):  # a model of booleans may be callable, too
        flags = [where(path, leaf) for path, leaf in zip(paths, leaves, strict=True)]
    else:
        flags = broadcast_prefix(where, structure, f"{operation}: where")
    for flag, path in zip(flags, paths, strict=True):
        if not isinstance(flag, (bool, np.bool_)):
            raise DtypeError(
                f"{operation}: where has to be a pattern, a predicate of (path, leaf), or a tree of"
                f" booleans; for {path or 'the leaf'} it gives {flag!r}."
            )
    return flags


def partition(tree: Pytree, where: Where) -> tuple[Pytree, Pytree]:
    """Split a tree into two: one with the selected leaves, and one with all others.

    Parameters
    ----------
    tree : pytree
    where : str, callable, or pytree of bool
        A pattern on paths, such as ``"encoder.*"``, ``"*.bias"`` or ``"layers.[0-2].weight"``,
        which also selects all leaves below a matching path; a predicate of ``(path, leaf)``, the
        path as text; or booleans in a tree like ``tree``, or in a prefix of it.

    Returns
    -------
    chosen, others : pytree
        Trees like ``tree`` with None instead of each leaf that is in the other. None has no leaves,
        so ``grad``, ``optimizer.init`` and ``jit`` accept either tree, and do nothing for the
        missing leaves.

    Raises
    ------
    TreeError
        A pattern matches no leaf, or a tree of booleans has another structure.
    DtypeError
        The predicate or the tree gives neither True nor False for a leaf.

    Examples
    --------
    Train only the head; the gradient of the body is not computed:

    >>> import funcgrad as fg
    >>> params = {"body": {"w": fg.tensor(2.0)}, "head": {"w": fg.tensor(3.0)}}
    >>> head, frozen = partition(params, "head")
    >>> def loss(head):
    ...     params = combine(head, frozen)
    ...     return params["body"]["w"] * params["head"]["w"] ** 2
    >>> fg.grad(loss)(head)
    {'body': {'w': None}, 'head': {'w': Tensor(12.0)}}
    """
    leaves, structure = flatten(tree)
    flags = chosen_leaves(tree, where, "partition")
    pairs = list(zip(leaves, flags, strict=True))
    chosen = unflatten(structure, [leaf if flag else None for leaf, flag in pairs])
    return chosen, unflatten(structure, [None if flag else leaf for leaf, flag in pairs])


def combine(*trees: Pytree) -> Pytree:
    """Merge trees that ``partition`` split: take each leaf from the tree that has it.

    Parameters
    ----------
    *trees : pytree
        Trees of one structure, with None for leaves that are elsewhere.

    Returns
    -------
    pytree

    Raises
    ------
    TreeError
        The structures differ, or two trees have the same leaf.

    Examples
    --------
    >>> combine((1.0, None, None), (None, 2.0, None))
    (1.0, 2.0, None)
    """
    if not trees:
        raise ArgumentError("combine: expected one tree or more.")
    _, structure = flatten(trees[0], is_leaf=lambda leaf: leaf is None)
    columns = [
        subtrees_like(structure, tree, f"combine: trees[{number}]")
        for number, tree in enumerate(trees)
    ]
    groups = zip(structure.paths(), *columns, strict=True)
    return unflatten(structure, [_only(path, leaves) for path, *leaves in groups])


def _only(path: str, leaves: Sequence[object]) -> object:
    present = [number for number, leaf in enumerate(leaves) if leaf is not None]
    if len(present) > 1:
        first, second, *_ = present
        raise TreeError(
            f"combine: two trees have the same leaf, trees[{first}]{path} and"
            f" trees[{second}]{path}. Replace it by None in one of them."
        )
    return leaves[present[0]] if present else None


def is_one_leaf(tree: Pytree) -> bool:
    """Whether a tree is a leaf, not a container."""
    return flatten(tree, is_leaf=lambda value: value is not tree)[1].tokens == (None,)


def nodes(tree: Pytree) -> Iterator[tuple[str, Any]]:
    """Yield every subtree after its path as text, the tree itself first.

    >>> list(nodes({"a": (1.0,)}))
    [('', {'a': (1.0,)}), ('a', (1.0,)), ('a.0', 1.0)]
    """
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending:
        path, node = pending.pop()
        yield path, node
        steps, children, _ = children_of(node)
        below = [f"{path}.{path_text((step,))}" if path else path_text((step,)) for step in steps]
        pending.extend(reversed(list(zip(below, children, strict=True))))


def children_of(node: Pytree) -> tuple[list[str], list[Any], Callable[[list[Any]], Any]]:
    """The steps to the children of a container, the children, and a function that rebuilds it.

    A leaf has none.
    """
    children, structure = flatten(node, is_leaf=lambda value: value is not node)
    paths = structure.key_paths()
    if () in paths:
        return [], [], lambda _: node
    return [step for (step,) in paths], children, lambda others: unflatten(structure, others)


def select(tree: Pytree, pattern: str, kind: type[Any] | None = None) -> dict[str, Any]:
    """List the leaves or subtrees that match a pattern.

    Parameters
    ----------
    tree : pytree
    pattern : str
        See ``partition``.
    kind : type, optional
        List subtrees of this class instead of leaves.

    Returns
    -------
    dict
        Maps paths to leaves or subtrees.

    Raises
    ------
    TreeError
        Nothing matches.
    FunctionError
        ``kind`` is not a class.

    Examples
    --------
    >>> select({"layers": [{"w": 1.0, "b": 2.0}, {"w": 3.0, "b": 4.0}]}, "layers.*.w")
    {'layers.0.w': 1.0, 'layers.1.w': 3.0}
    >>> select({"layers": [{"w": 1.0}, (3.0,)]}, "layers", kind=tuple)
    {'layers.1': (3.0,)}
    """
    if not isinstance(pattern, str):
        raise ArgumentError(f"select: pattern has to be text such as '*.bias', got {pattern!r}.")
    if kind is not None and not isinstance(kind, type):
        raise FunctionError(f"select: kind has to be a class, got {kind!r}.")
    matches = matcher(pattern)
    leaves, structure = flatten(tree)
    paths = [path_text(path) for path in structure.key_paths()]
    values = dict(zip(paths, leaves, strict=True))
    if kind is not None:
        values = {path: node for path, node in nodes(tree) if isinstance(node, kind)}
    selected = {path: value for path, value in values.items() if matches(path)}
    if not selected:
        if kind is not None and any(matches(path) for path, _ in nodes(tree)):
            places = ", ".join([path or "the root" for path in values][:3])
            raise TreeError(
                f"select: {pattern!r} matches no {kind.__name__}."
                + (f" The tree has them at {places}." if values else " The tree has none.")
            )
        raise no_such_path("select", pattern, [path for path, _ in nodes(tree)])
    return selected


def check_shared(tree: Pytree) -> None:
    """Check that no tensor object is used for two leaves.

    An optimizer updates each leaf separately, so tied weights would differ after the first step.
    Store such a tensor once, and use it in both places.

    Parameters
    ----------
    tree : pytree

    Raises
    ------
    TreeError
        One object is used for two leaves; the message names both paths.

    Examples
    --------
    >>> import funcgrad as fg
    >>> table = fg.tensor([1.0, 2.0])
    >>> check_shared({"embedding": table, "head": table})
    Traceback (most recent call last):
    funcgrad.errors.TreeError: check_shared: embedding and head are the same tensor. ...
    """
    leaves, structure = flatten(tree)
    seen: dict[int, str] = {}
    for leaf, path in zip(leaves, structure.key_paths(), strict=True):
        if isinstance(leaf, TracedValue | np.ndarray):
            text = path_text(path)
            if id(leaf) in seen:
                raise TreeError(
                    f"check_shared: {seen[id(leaf)]} and {text} are the same tensor. Each leaf"
                    " is updated separately: store the tensor once, and use it in both places."
                )
            seen[id(leaf)] = text
