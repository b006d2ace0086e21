"""``isinstance`` and ``type`` that see the array or scalar behind a traced value; containers.

>>> from funcgrad.compat.autograd import grad
>>> grad(lambda x: x**2 if isinstance(x, float) else x)(3.0)
np.float64(6.0)
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._core.users_values import is_weak
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.tensor.tensor import Tensor

tuple = builtins.tuple  # type: ignore[type-arg]  # the class itself
list = builtins.list
dict = builtins.dict

DictBox = dict
SequenceBox = (tuple, list)


def type(x: object) -> builtins.type:
    """Return the type of a value; for a traced value, the type of the array or scalar behind it.

    Examples
    --------
    >>> from funcgrad.compat.autograd import grad
    >>> grad(lambda x: x * (type(x) is float))(2.0)
    np.float64(1.0)
    """
    if not builtins.isinstance(x, Tensor):
        return builtins.type(x)
    if x.ndim:
        return np.ndarray
    number: Any = x.dtype.type(0)
    return builtins.type(number.item() if is_weak(x) else number)


def isinstance(x: object, class_or_tuple: Any) -> bool:
    """Whether a value, or the array or scalar behind a traced value, is an instance of a class.

    Examples
    --------
    >>> from funcgrad.compat.autograd import grad
    >>> grad(lambda x: x * isinstance(x, float))(2.0)
    np.float64(1.0)
    """
    return issubclass(type(x), class_or_tuple) or builtins.isinstance(x, class_or_tuple)


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
