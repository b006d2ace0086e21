"""Methods that SciPy's distributions have and these lack: errors say what to write.

>>> from funcgrad.scipy.stats import norm
>>> norm.median
Traceback (most recent call last):
funcgrad.errors.MissingAttributeError: Distributions have no median: ppf(0.5, ...).
"""

from __future__ import annotations

import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from funcgrad._hints.lookup import missing_method


class AbsentMethods:
    """A base class of distributions whose missing methods raise with advice."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle a distribution by its name in ``funcgrad.scipy.stats``, if it is there."""
        home, name = "funcgrad.scipy.stats", str(getattr(self, "name", ""))
        if getattr(sys.modules.get(home), name, None) is self:
            return resolve_name, (f"{home}:{name}",)
        return super().__reduce_ex__(protocol)

    if not TYPE_CHECKING:  # which know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to write instead."""
            raise missing_method("Distributions", self, name)
