"""``scipy.special`` with funcgrad's derivatives.

>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.scipy import special
>>> round(float(grad(special.gammaln)(1.0)), 8)
-0.57721566
"""

from __future__ import annotations

from typing import Any

import funcgrad.scipy.special as _ours
from funcgrad.compat.autograd.namespaces import paired


def __getattr__(name: str) -> Any:
    import scipy.special as theirs

    return paired(theirs, _ours, "scipy.special", name)
