"""NumPy as autograd has it: every name, with derivatives wherever an argument is traced.

What does not depend on a traced value is computed by NumPy itself, and gives its arrays.

>>> import funcgrad.compat.autograd.numpy as np
>>> from funcgrad.compat.autograd import grad
>>> grad(lambda x: np.sum(np.array([x, x**2])))(3.0)
np.float64(7.0)
"""

from __future__ import annotations

from typing import Final

import numpy

from funcgrad.compat.autograd.namespaces import Names
from funcgrad.compat.autograd.numpy import fft as fft
from funcgrad.compat.autograd.numpy import linalg as linalg
from funcgrad.compat.autograd.numpy import random as random
from funcgrad.compat.autograd.numpy.joined import Columns, Rows
from funcgrad.compat.autograd.numpy.joined import make_diagonal as make_diagonal
from funcgrad.compat.autograd.numpy.selected import chosen

_NAMES: Final = Names(__name__, numpy)
__getattr__ = _NAMES.load
__dir__ = _NAMES.listed
where = chosen
r_ = Rows()
c_ = Columns()
