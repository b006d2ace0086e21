"""``unbroadcast_f``, by which rules of broadcasting primitives are written.

>>> import numpy as np
>>> unbroadcast_f(np.ones(2), lambda g: 3.0 * g)(np.ones((4, 2)))
array([12., 12.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._core.specs import shape_of
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.arrays import plain
from funcgrad.tensor.tensor import ArrayLike


def unbroadcast(x: ArrayLike, target: ArrayLike) -> Any:
    """Sum a cotangent over the axes along which an argument was repeated.

    Parameters
    ----------
    x : array
        Of the shape that ``target`` was broadcast to.
    target : array_like
        The argument.
    """
    shape, size = shape_of(target), shape_of(x)
    extra = len(size) - len(shape)
    axes = (*range(extra), *(k + extra for k, n in enumerate(shape) if n != size[k + extra]))
    out = np.reshape(np.sum(x, axis=axes), shape) if axes else x
    return plain(out)


def unbroadcast_f(target: ArrayLike, f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function whose results are summed to the shape of an argument."""
    return lambda g: unbroadcast(f(g), target)


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
