"""Linear algebra: ``numpy.linalg`` with derivatives.

>>> import numpy as np
>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.numpy import linalg
>>> grad(linalg.det)(2.0 * np.eye(2))
array([[2., 0.],
       [0., 2.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from funcgrad.compat.autograd.namespaces import names

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(names(numpy.linalg))
