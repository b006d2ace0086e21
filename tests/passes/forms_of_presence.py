"""Forms that the rules of ``presence.py`` apply to; see ``parts.py``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from tests.passes.parts import Form, Pick, as_matrix


def _joined(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    mask, other = x > y, y > 0
    partner = pick(
        lambda: mask,
        lambda: ~mask,
        lambda: fnp.logical_not(mask),
        lambda: other,
        lambda: np.ones(x.shape, np.bool_),
        lambda: np.zeros(x.shape, np.bool_),
        lambda: x,
    )
    result = pick(
        lambda: fnp.logical_or(mask, partner),
        lambda: fnp.logical_or(partner, mask),
        lambda: fnp.logical_or(
            fnp.logical_and(mask, other), fnp.logical_and(fnp.logical_not(other), mask)
        ),
    )
    return as_matrix(result, x, y)


def _both(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    mask, other = x > y, y > 0
    partner = pick(
        mask, other, np.ones(x.shape, np.bool_), np.zeros(x.shape, np.bool_), np.True_, x
    )
    result = pick(
        lambda: fnp.logical_and(mask, partner),
        lambda: fnp.logical_and(partner, mask),
        lambda: fnp.logical_and(fnp.logical_and(mask, other), pick(mask, other, partner)),
    )
    return as_matrix(result, x, y)


def _selection(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    mask = pick(np.ones(x.shape, np.bool_), np.zeros(x.shape, np.bool_), np.True_, np.False_, x > y)
    return pick(lambda: fnp.where(mask, x, y), lambda: fnp.where(mask, x * 2.0, y[:1]) + y)


PRESENT: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "presence._joined": _joined,
        "presence._both": _both,
        "presence._selection": _selection,
    }
)
