"""``numpy.random`` itself: drawing has no derivatives. ``fg.random`` has distributions with some.

>>> import funcgrad.compat.autograd.numpy.random as npr
>>> npr.RandomState(0).randn(2).shape
(2,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import random

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update({name: getattr(random, name) for name in random.__all__})
