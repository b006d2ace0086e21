"""Basic formulas, of operations that every algebra has: intrinsics and Python's operators.

>>> import numpy as np
>>> import funcgrad._core.intrinsics as m
>>> sine, less = basic_formula(np.sin), basic_formula(np.less, "<")
>>> sine(m, 0.0), less(m, 1.0, 2.0)
(np.float64(0.0), True)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from funcgrad._core import intrinsics

_INTRINSICS: Final[Mapping[Any, str]] = MappingProxyType(
    {getattr(intrinsics, name): name for name in intrinsics.__all__}
)
_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "!=": operator.ne,
        "&": operator.and_,
        "+": operator.pos,
        "-": operator.neg,
        "<": operator.lt,
        "<<": operator.lshift,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        ">>": operator.rshift,
        "^": operator.xor,
        "|": operator.or_,
        "~": operator.invert,
    }
)
"""Python's operators that have no intrinsic."""


def basic_formula(evaluate: Callable[..., Any], sign: str = "") -> Callable[..., Any] | None:
    """The formula of an operation that an algebra has itself; None where it has none.

    Parameters
    ----------
    evaluate : callable
        An intrinsic, or another function.
    sign : str
        How Python writes the operation, if it has an operator for it.
    """
    name, function = _INTRINSICS.get(evaluate), _OPERATIONS.get(sign)
    if name is not None:
        return lambda m, *operands: getattr(m, name)(*operands)
    return None if function is None else lambda m, *operands: function(*operands)
