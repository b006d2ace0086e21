"""Debug numerics: find the cause of NaN, conventions at kinks, lost digits, and paths of batches.

>>> import funcgrad as fg
>>> import funcgrad.debug as debug
>>> debug.nans(fg.grad(lambda x: fg.numpy.sqrt(x)))(0.0)
Traceback (most recent call last):
    ...
funcgrad.errors.NonFiniteError: nans: grad of <lambda>: the gradient is inf.
  Cause: divide in the pull of sqrt at <doctest ...>:1: divide(0.5, 0.0) = inf.
    Remedy: clip the argument, or choose inside: sqrt(where(x > 0, x, 1)); for a sum of squares ...
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.debug.batch_paths import BatchPath, BatchPaths, paths
from funcgrad.debug.causes import Cause
from funcgrad.debug.checks import check
from funcgrad.debug.conventions import conventions
from funcgrad.debug.lost_digits import Loss, LostDigits, digits
from funcgrad.debug.prints import print
from funcgrad.debug.python_evaluations import called_back
from funcgrad.debug.results import nans, raise_nans

__all__ = [
    "BatchPath",
    "BatchPaths",
    "Cause",
    "Loss",
    "LostDigits",
    "called_back",
    "check",
    "conventions",
    "digits",
    "nans",
    "paths",
    "print",
    "raise_nans",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
