"""Methods of a distribution: SciPy's for arrays, funcgrad's for traced values."""

from __future__ import annotations

from typing import Any

import funcgrad.scipy.stats as ours
from funcgrad._base.fast_dataclass import dataclass
from funcgrad.compat.autograd.namespaces import pair, paired


@dataclass(frozen=True, slots=True)
class Methods:
    """The methods of the distribution of a name.

    >>> Methods("norm").cdf(0.0)
    np.float64(0.5)
    """

    _name: str

    def itself(self) -> Any:
        """The object of the name: a distribution, or another object of SciPy's.

        Raises
        ------
        AttributeError
            SciPy has no such name.
        """
        theirs = self._theirs()
        return self if hasattr(theirs, "logpdf") or hasattr(theirs, "logpmf") else theirs

    def __getattr__(self, method: str) -> Any:
        mine = getattr(ours, self._name, None)
        return paired(self._theirs(), mine, f"scipy.stats.{self._name}", method)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        mine = getattr(ours, self._name, None)
        return pair(self._theirs(), mine, f"scipy.stats.{self._name}")(*args, **kwargs)

    def _theirs(self) -> Any:
        import scipy.stats

        return getattr(scipy.stats, self._name)
