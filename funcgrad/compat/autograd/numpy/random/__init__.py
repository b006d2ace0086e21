"""``numpy.random`` itself: drawing has no derivatives. ``fg.random`` has distributions with some.

>>> import funcgrad.compat.autograd.numpy.random as npr
>>> npr.RandomState(0).randn(2).shape
(2,)
"""

from __future__ import annotations

from typing import Final

from numpy import random as _random  # which has a function of its own name

from funcgrad.compat.autograd.namespaces import Names

_NAMES: Final = Names(__name__, _random)
__getattr__ = _NAMES.load
__dir__ = _NAMES.listed
