"""Normal distribution of several variables: ``scipy.stats.multivariate_normal``.

>>> from funcgrad.compat.autograd import grad
>>> float(grad(logpdf)(np.array([1.0, 0.0]), np.zeros(2), np.eye(2))[0])
-1.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.compat.autograd.scipy.stats.methods import Methods
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import ArrayLike

_METHODS = Methods("multivariate_normal")
__getattr__ = _METHODS.__getattr__


def logpdf(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1.0,
    allow_singular: bool = False,
) -> Any:
    """The logarithm of the density."""
    return _density("logpdf", x, mean, cov, allow_singular)


def pdf(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1.0,
    allow_singular: bool = False,
) -> Any:
    """The density."""
    return _density("pdf", x, mean, cov, allow_singular)


def entropy(mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Any:
    """The entropy, half of the log-determinant of 2 π e times the covariance.

    >>> round(float(entropy(np.zeros(2), np.eye(2))), 6)
    2.837877
    """
    if not holds_tensor((mean, cov)):
        return _METHODS.entropy(mean, cov)
    matrix = fnp.atleast_2d(fnp.asarray(cov))
    return plain(0.5 * fnp.linalg.slogdet(2.0 * np.pi * np.e * matrix).logabsdet)


def _density(
    name: str,
    x: ArrayLike,
    mean: ArrayLike | None,
    cov: ArrayLike,
    allow_singular: bool,
) -> Any:
    method = getattr(_METHODS, name)
    if not holds_tensor((x, mean, cov)):
        return method(x, mean, cov, allow_singular)
    if allow_singular:
        raise ArgumentError(
            f"multivariate_normal.{name}: allow_singular is not available for traced values. Add a"
            " small multiple of the identity to the covariance, or use the density within the"
            " subspace."
        )
    return method(x, mean, cov)
