"""SciPy's functions under SciPy's own paths: ``funcgrad.scipy.special`` and so on.

Most are evaluated by SciPy itself, which is loaded when the first of them is computed. It is
installed by the extra ``funcgrad[scipy]``. Functions that NumPy can evaluate do not need it.

>>> import funcgrad as fg
>>> fg.grad(fg.scipy.special.xlogy)(2.0, 1.0)
Tensor(0.0)
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.scipy import fft, linalg, ndimage, optimize, signal, sparse, special, stats

__all__ = ["fft", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"]


_LATE = _LateNames(__name__, {"": "fft linalg ndimage optimize signal sparse special stats"})

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules
