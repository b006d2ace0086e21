"""SciPy's functions under SciPy's own paths: ``funcgrad.scipy.special`` and so on.

Most are evaluated by SciPy itself, which is loaded when the first of them is computed; nothing
here needs it before. It comes with the extra ``funcgrad[scipy]``. What NumPy can evaluate needs no
extra.

>>> import funcgrad as fg
>>> fg.grad(fg.scipy.special.xlogy)(2.0, 1.0)
Tensor(0.0)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from funcgrad.scipy import fft, linalg, optimize, sparse, special, stats

__all__ = ["fft", "linalg", "optimize", "sparse", "special", "stats"]


def __getattr__(name: str) -> _Any:
    """Load a part when it is first used: a script needs one of them."""
    if name in __all__:
        return _import_module(f"funcgrad.scipy.{name}")
    raise AttributeError(f"module 'funcgrad.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names alone, for completion."""
    return list(__all__)
