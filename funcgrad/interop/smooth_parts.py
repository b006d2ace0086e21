"""The differentiable part of a function of another library's arrays.

>>> of_smooth, smooth, filled = smooth_part(
...     lambda x, n: x * n, (np.ones(2), np.array(3)), lambda x: x.dtype.kind in "fc"
... )
>>> of_smooth(*smooth), filled([np.ones(2)])[0]
([array([3., 3.])], array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from funcgrad._core import pytrees

Array = np.ndarray[Any, Any]  # or another library's


def smooth_part(
    function: Callable[..., Any], args: Iterable[Any], is_smooth: Callable[[Array], bool]
) -> tuple[Callable[..., list[Array]], list[Array], Callable[[Iterable[Array]], Any]]:
    """Restrict a function to its floating-point and complex arrays.

    Returns
    -------
    of_smooth : callable
        ``(these arrays) -> list of differentiable results``.
    smooth : list of arrays
        The differentiable leaves of the arguments.
    filled : callable
        Turns such a list into a tree like the arguments, with zeros at the other leaves.
    """
    leaves, form = pytrees.flatten(tuple(args))
    flags = [is_smooth(x) for x in leaves]

    def of_smooth(*moved: Array) -> list[Array]:
        remaining: Iterator[Array] = iter(moved)
        joined = [next(remaining) if flag else x for x, flag in zip(leaves, flags, strict=True)]
        return [
            x for x in pytrees.leaves(function(*pytrees.unflatten(form, joined))) if is_smooth(x)
        ]

    def filled(values: Iterable[Array]) -> Any:
        remaining = iter(values)
        zeros = [next(remaining) if flag else x * 0 for x, flag in zip(leaves, flags, strict=True)]
        return pytrees.unflatten(form, zeros)

    return of_smooth, [x for x, flag in zip(leaves, flags, strict=True) if flag], filled
