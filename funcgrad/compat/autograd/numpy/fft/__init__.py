"""Fourier transforms: ``numpy.fft`` with derivatives.

>>> import numpy as np
>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.numpy import fft
>>> grad(lambda x: np.sum(np.abs(fft.fft(x)) ** 2))(np.array([1.0, 2.0]))
array([4., 8.])
"""

from __future__ import annotations

from typing import Final

import numpy

from funcgrad.compat.autograd.namespaces import Names

_NAMES: Final = Names(__name__, numpy.fft)
__getattr__ = _NAMES.load
__dir__ = _NAMES.listed
