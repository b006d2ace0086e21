"""``scipy.linalg`` with funcgrad's derivatives.

>>> from funcgrad.compat.autograd import grad
>>> import funcgrad.compat.autograd.numpy as np
>>> from funcgrad.compat.autograd.scipy import linalg
>>> grad(lambda a: linalg.solve_triangular(np.array([[a]]), np.ones(1), lower=True)[0])(2.0)
np.float64(-0.25)
"""

from __future__ import annotations

from typing import Any

import funcgrad.scipy.linalg as _ours
from funcgrad.compat.autograd.namespaces import paired


def __getattr__(name: str) -> Any:
    import scipy.linalg as theirs

    return paired(theirs, _ours, "scipy.linalg", name)
