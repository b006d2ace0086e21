"""Methods that SciPy's distributions have and these lack: errors say what to write.

>>> from funcgrad.scipy.stats import norm
>>> norm.median
Traceback (most recent call last):
funcgrad.errors.MissingAttributeError: Distributions have no median: ppf(0.5, ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from funcgrad.foreign_names import missing_method


class AbsentMethods:
    """A base class of distributions whose missing methods raise with advice."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to write instead."""
            raise missing_method("Distributions", self, name)
