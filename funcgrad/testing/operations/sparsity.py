"""Patterns: whatever is not zero in a derivative is in the pattern that the structure declares."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad.sparse.patterns import pattern
from funcgrad.testing.operations.agreement import require
from funcgrad.testing.operations.cases import Case
from funcgrad.testing.operations.declarations import is_differentiated
from funcgrad.testing.operations.properties import AtSamples, Property

_MOST_ELEMENTS: Final = 60


def _is_small(case: Case) -> bool:
    sizes = [np.size(x) for x in case.point(case.differentiable)]
    return case.is_smooth and 0 < sum(sizes) <= _MOST_ELEMENTS


def _lacks_nothing(case: Case) -> None:
    f, point = case.followed_function(case.differentiable), case.point(case.differentiable)
    width, start = sum(np.size(x) for x in point), 0
    seeds = []
    for x in point:
        seed = np.zeros((width, np.size(x)), np.asarray(x).dtype)
        seed[start + np.arange(np.size(x)), np.arange(np.size(x))] = 1
        seeds.append(seed.reshape(width, *np.shape(x)))
        start += np.size(x)
    tangents = vmap(lambda *seed: jvp(f, point, seed)[1])(*seeds)
    matrix = np.concatenate([np.asarray(t).reshape(width, -1) for t in tangents], axis=1).T
    is_nonzero = (matrix != 0) & ~np.isnan(matrix)  # a product of 0 and an infinity is NaN
    for is_local in (False, True)[: 2 if case.number % 3 == 0 else 1]:  # in turns
        declared = pattern(f, argnums=tuple(range(len(point))), local=is_local)(*point)
        lacking = np.argwhere(is_nonzero & ~declared.matrix.toarray())
        require(
            not len(lacking),
            f"local={is_local}: {len(lacking)} elements of the Jacobian are not in the pattern, the"
            f" first at {tuple(lacking[0].tolist()) if len(lacking) else ()}",
        )


def _can_be_sparse(primitive: Primitive) -> bool:
    return is_differentiated(primitive) and find_spec("scipy") is not None


SPARSITY: Final = (
    Property(
        "pattern",
        "Derivatives are zero outside of the pattern that the structure declares.",
        "See structure: its index map, letters, axes, places or cores.",
        AtSamples(_lacks_nothing, _is_small, by_kind=True),
        _can_be_sparse,
    ),
)
