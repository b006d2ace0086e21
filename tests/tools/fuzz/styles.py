"""What a program is like: which operations, shapes and dtypes it is made of.

Few operations each, so that they meet themselves and each other often: nested, shared, repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import FORMS
from tests.tools.fuzz.families import FAMILIES
from tests.tools.fuzz.operations import LOOKS, MOTIFS, PRIMITIVES, every_function
from tests.tools.fuzz.syntax import CALLS

FUNCTIONS: Final = every_function()
BRANCHES: Final = ("if", "for", "while", "rows")

_OPERATIONS: Final = (*PRIMITIVES, *FUNCTIONS, *[f"look {k}" for k in range(len(LOOKS))])
_MOTIFS: Final = tuple(f"motif {k}" for k in range(len(MOTIFS)))
_FAMILIES: Final = tuple(f"family {k}" for k in range(len(FAMILIES)))
_FORMS: Final = (
    *[f"form {name}" for name in FORMS],
    *[
        f"ground {name} {k}"
        for name, each in GROUNDS.items()
        for k, made in enumerate(each.forms)
        if made.__name__ != "calls"  # whose rule is that of another function, on purpose
    ],
)
Weights = Callable[[str], float]


def operation_names() -> tuple[str, ...]:
    """Everything that a style draws from: primitives, functions, motifs, kinds of nesting."""
    return (*_OPERATIONS, *_MOTIFS, *_FAMILIES, *_FORMS, *BRANCHES, *CALLS)


@dataclass(frozen=True, slots=True)
class Style:
    """What one program is like."""

    operations: tuple[str, ...]
    nests: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    edges: bool
    closes: bool
    length: int


LARGE: Final = (128, 8)
_SHAPES: Final = (
    ((3, 3),),
    ((2, 2), (2,)),
    ((3,), ()),
    ((2, 3), (3,), (3, 2)),
    ((),),
    ((4,), (2, 2), (2, 1, 2)),
    ((2, 3), (0, 3), (1, 3)),
    ((5, 5),),
    ((1,), (1, 1), ()),
)
_SQUARE: Final = (((2, 2),), ((3, 3),), ((5, 5),), ((8, 8),))

_THEMES: Final = (
    (0.45, (*_OPERATIONS, *_MOTIFS), _SHAPES),
    (0.1, (*_FAMILIES, *_MOTIFS), _SHAPES),
    (0.1, _MOTIFS, _SHAPES),
    (0.15, tuple(name for name in _MOTIFS if "@" in MOTIFS[int(name[6:])]), _SQUARE),
    (0.17, _FORMS, (((3, 3),), ((4, 4),))),
    (0.03, (*_FORMS, *_MOTIFS), ((LARGE, (8,)),)),  # what passes do to arrays of some size
)
"""How often styles are of a kind, what they draw from, and the shapes of their arguments."""


def style_of(rng: np.random.Generator, weights: Weights) -> Style:
    """What the next program is like; where an operation is wanted most, it may draw that."""
    themes = [theme for theme in _THEMES if any(weights(name) > 1.0 for name in theme[1])]
    themes = themes or [*_THEMES]
    shares = np.array([share for share, *_ in themes])
    _, names, shapes = themes[rng.choice(len(themes), p=shares / shares.sum())]
    nests = (*BRANCHES, *CALLS)
    return Style(
        operations=_picked(rng, names, weights, int(rng.integers(2, 8))),
        nests=_picked(rng, nests, weights, int(rng.integers(0, 4))),
        shapes=shapes[rng.integers(len(shapes))],
        dtype=np.dtype(str(rng.choice(list("ddddddddfffeDDF")))),
        edges=bool(rng.random() < 0.1),
        closes=bool(rng.random() < 0.2),
        length=int(rng.integers(2, 11)),
    )


def _picked(
    rng: np.random.Generator, names: Sequence[str], weights: Weights, count: int
) -> tuple[str, ...]:
    sizes = np.array([weights(name) for name in names])
    return tuple(
        str(name) for name in rng.choice(list(names), count, replace=False, p=sizes / sizes.sum())
    )
