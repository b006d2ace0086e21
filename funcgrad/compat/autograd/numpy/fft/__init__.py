"""Fourier transforms: ``numpy.fft`` with derivatives.

>>> import numpy as np
>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.numpy import fft
>>> grad(lambda x: np.sum(np.abs(fft.fft(x)) ** 2))(np.array([1.0, 2.0]))
array([4., 8.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from funcgrad.compat.autograd.namespaces import names

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(names(numpy.fft))
