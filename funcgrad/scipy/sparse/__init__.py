"""`scipy.sparse.linalg` for matrices of ``fg.sparse`` and for linear functions.

>>> from funcgrad.scipy.sparse import linalg
>>> linalg.cg([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0])
(Tensor([1., 1.]), Tensor(0))
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.scipy.sparse import linalg

__all__ = ["linalg"]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
