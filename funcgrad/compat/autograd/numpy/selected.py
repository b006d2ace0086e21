"""``np.where`` as autograd has it.

>>> chosen(True, 1, 2), chosen(condition=[True, False], x=np.zeros(2), y=1.0)
(1, array([0., 1.]))
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad.compat.autograd.namespaces import function
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import ArrayLike, Tensor

_where: Final = function(np.where)
_ABSENT: Final = object()


def chosen(condition: ArrayLike, x: ArrayLike = _ABSENT, y: ArrayLike = _ABSENT) -> Any:
    """Choose elements of ``x`` and ``y``; of Python's numbers and lists, Python's.

    Raises
    ------
    ArgumentError
        One of ``x`` and ``y`` is missing.
    """
    if (x is _ABSENT) != (y is _ABSENT):
        raise ArgumentError("where: pass both x and y, or neither of them.")
    if x is _ABSENT:
        return _where(condition)
    out = _where(condition, x, y)
    is_python = not any(map(_holds_array, (condition, x, y)))
    return out.tolist() if is_python and isinstance(out, np.ndarray) else out


def _holds_array(x: object) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_array, x))
    return isinstance(x, np.ndarray | np.generic | Tensor)
