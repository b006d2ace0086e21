"""Trees as JSON: containers, the names of leaves and static fields, and no code.

A tree is written as a flat list in prefix order, so it may be as deep as memory allows. Tuples,
lists and dicts are restored, an ``OrderedDict`` as a dict. Frozen dataclasses and named tuples
become dicts of their fields, and other classes lists of their children: files never name a class
that would have to be imported.

>>> from funcgrad import tree
>>> text = tree_text(tree.structure({"a": (1.0, None)}), [("a.0", "float")])
>>> form, leaves = read_tree_text(text)
>>> tree.unflatten(form, [2.0]), leaves
({'a': (2.0, None)}, [('a.0', 'float')])
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from types import NoneType
from typing import Any, Final, TypeAlias

from funcgrad._core.pytrees import Structure, Token, walk
from funcgrad.io.digests import text_digest
from funcgrad.tree.path_texts import path_text, step_text

Leaves: TypeAlias = list[tuple[str, str]]
"""For each leaf its name in the file and its kind: the name of a type of Python numbers,
``"complex128"`` for pairs of floats, or the empty string."""

VERSION: Final = 1
_KEYS: Final = (str, int, float, bool, NoneType)
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


def tree_text(structure: Structure, leaves: Sequence[tuple[str, str]]) -> str:
    """Write a structure and the names of its leaves as JSON."""
    nodes = [None if token is None else _node(token) for token in structure.tokens]
    statics = statics_of(structure)
    return json.dumps(
        {"version": VERSION, "nodes": nodes, "leaves": leaves, "statics": statics},
        separators=(",", ":"),
    )


def _node(token: tuple[type[Any], int, Any]) -> list[Any]:
    kind, size, aux = token
    if kind is dict or kind is OrderedDict:
        return ["dict", [key if type(key) in _KEYS else step_text(f"[{key!r}]") for key in aux]]
    if kind is tuple or kind is list:
        return [kind.__name__, size]
    if kind is NoneType:
        return ["None"]
    if hasattr(kind, "__tree_flatten__"):
        return ["object", size, kind.__qualname__]
    return ["fields", list(aux.names), kind.__qualname__]


def statics_of(structure: Structure) -> dict[str, str]:
    """Describe the static parts of a structure, by path, as texts that can be compared."""
    statics = {}
    for token, path in zip(structure.tokens, walk(structure.tokens), strict=True):
        if token is None or token[2] is None or token[0] in (dict, OrderedDict):
            continue
        above = path_text(tuple(path))
        if hasattr(token[0], "__tree_flatten__"):
            statics[above] = _static_text(token[2])
            continue
        for name, _, value in token[2].static:
            statics[f"{above}.{name}" if above else name] = _static_text(value)
    return statics


def _static_text(value: object) -> str:
    """Describe a static value equally in every process: without addresses, with sorted sets."""
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_static_text, value))) + "}"
    if type(value) is tuple:
        return "(" + ", ".join(map(_static_text, value)) + ")"
    static_parts = getattr(value, "__static_parts__", None)
    if static_parts is not None and not isinstance(value, type):
        parts = text_digest(_static_text(static_parts()))
        return f"{type(value).__qualname__} {parts}"
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{getattr(value, '__module__', '')}.{name}"
    return _ADDRESS.sub("", repr(value))


def read_tree_text(text: str) -> tuple[Structure, Leaves]:
    """Read the output of `tree_text`: a structure of dicts, lists and tuples, and its leaves.

    Raises
    ------
    ValueError
        The text is damaged, or of a later version.
    """
    content = json.loads(text)
    if content["version"] != VERSION:
        raise ValueError(f"it is of version {content['version']}, later than {VERSION}")
    leaves = [(str(name), str(kind)) for name, kind in content["leaves"]]
    tokens = tuple(None if node is None else _token(node) for node in content["nodes"])
    wanted = 1  # the number of nodes still expected
    for token in tokens:
        if wanted == 0:
            raise ValueError("it has too many nodes")
        wanted += -1 if token is None else token[1] - 1
    if wanted or tokens.count(None) != len(leaves):
        raise ValueError("its nodes do not fit its leaves")
    return Structure(tokens), leaves


def read_statics(text: str) -> dict[str, str]:
    """Read the static parts from the output of `tree_text`."""
    return {str(name): str(value) for name, value in json.loads(text)["statics"].items()}


def _token(node: list[Any]) -> Token:
    match node:
        case ["dict" | "fields", [*keys], *_] if all(type(key) in _KEYS for key in keys):
            return dict, len(keys), tuple(keys)
        case ["tuple", int(size)] if size >= 0:
            return tuple, size, None
        case ["list", int(size)] | ["object", int(size), str()] if size >= 0:
            return list, size, None
        case ["None"]:
            return NoneType, 0, None
    raise ValueError(f"{node!r:.60} is not a node")
