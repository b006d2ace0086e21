"""Logarithms of probabilities, accurate for small ones and for those near 1.

>>> formula = log_probability(lambda z: fnp.exp(-z), lambda z: -fnp.expm1(-z))
>>> formula(fnp.asarray([1e-20, 80.0]))
Tensor([-1.e-20, -8.e+01])
"""

from __future__ import annotations

from collections.abc import Callable

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions.beta_tails import log_betainc_factor
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import holding
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply

Formula = Callable[..., Tensor]


def log_probability(probability: Formula, opposite: Formula) -> Formula:
    """The logarithm of a probability, computed from its complement if it is near 1."""

    def formula(z: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        direct = probability(z, *args, **kwds)
        small = holding(lambda p: p < 0.5, direct)
        if small is True:
            return fnp.log(direct)
        near_one = fnp.log1p(-fnp.where(small, 0.5, opposite(z, *args, **kwds)))
        return fnp.where(small, fnp.log(fnp.where(small, direct, 0.5)), near_one)

    return formula


def log_betainc(a: Tensor, b: Tensor, x: Tensor, power: Tensor) -> Tensor:
    """The logarithm of ``betainc(a, b, x)``.

    Parameters
    ----------
    a, b, x : Tensor
    power : Tensor
        ``a * log(x)``: of a quotient x, its mixed derivatives are no differences.
    """
    below = holding(lambda a, b, x: (x > 0) & (x * (a + b) < a), a, b, x)
    if below is True:
        return power + apply(log_betainc_factor, a, b, x)
    tail = power + apply(log_betainc_factor, a, b, fnp.where(below, x, 0.5))
    usual = log_probability(special.betainc, special.betaincc)(a, b, fnp.where(below, 0.5, x))
    return fnp.where(below, tail, usual)


def log_betaincc(a: Tensor, b: Tensor, x: Tensor, power: Tensor) -> Tensor:
    """The logarithm of ``betaincc(a, b, x)``; ``power`` is ``b * log1p(-x)``."""
    above = holding(lambda a, b, x: (x < 1) & ((1 - x) * (a + b) < b), a, b, x)
    if above is True:
        return power + apply(log_betainc_factor, b, a, 1 - x)
    tail = power + apply(log_betainc_factor, b, a, fnp.where(above, 1 - x, 0.5))
    usual = log_probability(special.betaincc, special.betainc)(a, b, fnp.where(above, 0.5, x))
    return fnp.where(above, tail, usual)
