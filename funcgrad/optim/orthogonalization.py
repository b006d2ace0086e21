"""Nearly orthogonal matrices by products: the iteration of Newton and Schulz, as Muon has it.

A step maps a matrix X with singular values s, in [0, 1], to one with the same singular vectors and
the values ``a s + b s³ + c s⁵``, which the coefficients choose so that a few steps bring them near
1, the small ones too.

>>> from funcgrad.tensor.tensor import tensor
>>> x = orthogonalized(tensor([[3.0, 0.0], [0.0, 1e-2]]), ((2.0, -1.5, 0.5),) * 12)
>>> x.round(3)
Tensor([[1., 0.],
        [0., 1.]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.norms import length
from funcgrad.optim.base import scalar
from funcgrad.tensor.tensor import Tensor, apply

Coefficients: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]
"""The three numbers of a step: a, b and c."""

PRESETS: Final[Mapping[str, tuple[Coefficients, ...]]] = MappingProxyType(
    {
        "standard": ((3.4445, -4.7750, 2.0315),),
        "dion": (
            (4.0848, -6.8946, 2.9270),
            (3.9505, -6.3029, 2.6377),
            (3.7418, -5.5913, 2.3037),
            (2.8769, -3.1427, 1.2046),
            (2.8366, -3.0525, 1.2012),
        ),
    }
)
"""The coefficients of Jordan, 2024, for every step; and of Ahn and others, 2025, for five steps."""


def orthogonalized(
    x: Tensor,
    coefficients: tuple[Coefficients, ...],
    preconditioning: str = "frobenius",
    eps: ArrayLike = 1e-8,
) -> Tensor:
    """Replace the singular values of a stack of matrices by numbers near 1.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    coefficients : tuple of triples of numbers
        The coefficients of each step.
    preconditioning : {"frobenius", "spectral", "aol", "schatten"}
        How matrices are scaled first, so that their singular values are 1 at most.
    eps : number
        A number that is added to the divisor of the scaling, or its least value.
    """
    is_tall = x.shape[-2] > x.shape[-1]  # the products are those of the shorter side
    x = fnp.swapaxes(x, -1, -2) if is_tall else x
    x = PRECONDITIONINGS[preconditioning](x, eps)
    for a, b, c in coefficients:
        gram = x @ _adjoint(x)
        x = scalar(a, x) * x + (scalar(b, x) * gram + scalar(c, x) * (gram @ gram)) @ x
    return fnp.swapaxes(x, -1, -2) if is_tall else x


def _adjoint(x: Tensor) -> Tensor:
    return fnp.conj(fnp.swapaxes(x, -1, -2))


def _by_frobenius_norm(x: Tensor, eps: ArrayLike) -> Tensor:
    size = apply(length, x, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)
    return x / (size + scalar(eps, x))


def _by_greatest_singular_value(x: Tensor, eps: ArrayLike) -> Tensor:
    greatest: Tensor = fnp.max(fnp.linalg.svdvals(x), axis=-1, initial=0.0)
    return x / (greatest[..., None, None] + scalar(eps, x))


def _by_rows_of_gram(x: Tensor, eps: ArrayLike) -> Tensor:
    """Each row over the root of the sum of magnitudes in its row of the Gram matrix."""
    total = fnp.sum(abs(x @ _adjoint(x)), axis=-1, keepdims=True)
    return x / fnp.sqrt(fnp.maximum(total, scalar(eps, x)))


def _by_norm_of_gram(x: Tensor, eps: ArrayLike) -> Tensor:
    gram = x @ _adjoint(x)
    size = apply(length, gram, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)
    return x / fnp.sqrt(fnp.maximum(size, scalar(eps, x)))


PRECONDITIONINGS: Final[Mapping[str, Callable[[Tensor, ArrayLike], Tensor]]] = MappingProxyType(
    {
        "frobenius": _by_frobenius_norm,
        "spectral": _by_greatest_singular_value,
        "aol": _by_rows_of_gram,
        "schatten": _by_norm_of_gram,
    }
)
"""By name: the functions that scale matrices first."""
