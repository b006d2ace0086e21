"""Ways to call a function: as it is, and under each transformation of its arrays.

>>> import funcgrad.numpy as fnp
>>> called("grad", fnp.sin, WorkingCall((0.0,), {}), (0,))
(Tensor(1.0),)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.tools.refusals.working_calls import WorkingCall

MODES = ("eager", "jit", "grad", "vmap")


def followed(call: WorkingCall) -> tuple[int | str, ...]:
    """The places of what a transformation follows: arrays, or numbers where there are none."""
    arrays = [place for place in call.places if _is_inexact(call[place])]
    numbers = [place for place in call.places if isinstance(call[place], float)]
    return tuple(arrays or numbers)


def _is_inexact(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def called(
    mode: str, function: Callable[..., Any], call: WorkingCall, places: tuple[int | str, ...]
) -> Any:
    """What a call comes to, in a mode."""
    if mode == "eager":
        return function(*call.positional, **call.named)
    places = tuple(
        place for place in places if _is_inexact(call[place]) or isinstance(call[place], float)
    )
    leaves = [call[place] for place in places]

    def of_leaves(*traced: Any) -> Any:
        replaced = call
        for place, leaf in zip(places, traced, strict=True):
            replaced = replaced.with_argument(place, leaf)
        return function(*replaced.positional, **replaced.named)

    def total(*traced: Any) -> Any:
        sums = [fnp.sum(leaf).real * 0.0 for leaf in traced]
        for leaf in fg.tree.leaves(of_leaves(*traced)):
            if isinstance(leaf, fg.Tensor) and leaf.dtype.kind in "fc":
                sums.append(fnp.sum(leaf).real)
        return sum(sums)

    if not leaves or mode == "jit":
        return fg.jit(of_leaves)(*leaves)
    if mode == "grad":
        return fg.grad(total, tuple(range(len(leaves))))(*leaves)
    return fg.vmap(of_leaves)(*[np.stack([leaf, leaf]) for leaf in leaves])
