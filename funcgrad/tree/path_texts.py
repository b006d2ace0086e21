"""Paths in a tree as text, spelled as in PyTorch, and patterns that select paths.

>>> path_text(("['layers']", "[0]", ".weight"))
'layers.0.weight'
>>> [matcher("*.bias")(path) for path in ("head.bias", "bias")]
[True, False]
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from fnmatch import translate

from funcgrad._core.pytrees import KeyPath
from funcgrad.errors import TreeError


def path_text(path: KeyPath) -> str:
    """Write a path as names and positions between dots.

    >>> path_text(("[0]", "['w.1']"))
    '0.w.1'
    """
    return ".".join([step_text(step) for step in path])


def step_text(step: str) -> str:
    """Write one step of a path: an attribute, or a key in brackets."""
    if step.startswith("."):
        return step[1:]
    try:
        return str(literal_eval(step[1:-1]))
    except (SyntaxError, ValueError):  # the key is not a literal
        return step[1:-1]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Make a function that tests whether a pattern matches a path or one of its ancestors.

    As in file names, ``*`` matches any text, dots included, ``?`` one character, and ``[0-2]`` one
    of several characters.

    >>> [matcher("encoder")(path) for path in ("encoder.0.weight", "encoders")]
    [True, False]
    """
    exact = re.compile(translate(pattern))
    below = re.compile(translate(f"{pattern}.*"))
    return lambda path: bool(exact.match(path) or below.match(path))


def no_such_path(operation: str, wanted: str, paths: Iterable[str]) -> TreeError:
    """The error for a path or a pattern that matches nothing; it shows similar paths."""
    known = list(dict.fromkeys(path for path in paths if path))
    nearness = {path: _nearness(wanted, path) for path in known}
    near = [path for path in known if nearness[path] >= 0.5]
    nearest = sorted(near, key=lambda path: (nearness[path], path), reverse=True)[:3] or known[:3]
    if not nearest:
        return TreeError(f"{operation}: {wanted!r} matches nothing: the tree is one leaf or empty.")
    return TreeError(f"{operation}: {wanted!r} matches nothing. Similar: {', '.join(nearest)}.")


def _nearness(wanted: str, path: str) -> float:
    """The similarity of two paths, from 0 to 1; similar ends count a little less."""
    ends = wanted.rpartition(".")[2], path.rpartition(".")[2]
    whole, end = [SequenceMatcher(None, *pair).ratio() for pair in ((wanted, path), ends)]
    return max(whole, 0.95 * end)
