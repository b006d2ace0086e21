"""``getval`` and ``isbox``: arrays behind traced values.

>>> from funcgrad.compat.autograd import grad
>>> grad(lambda x: x * getval(x))(3.0)
np.float64(3.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.arrays import released, trace_of
from funcgrad.compat.autograd.extend import notrace_primitive as notrace_primitive
from funcgrad.compat.autograd.extend import primitive as primitive


def getval(x: object) -> Any:
    """Return the array or number behind a traced value, without derivatives."""
    return released(x)


def isbox(x: object) -> bool:
    """Whether a value is traced."""
    return trace_of(x) is not None


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
