"""Choices by conditions, free if they are known to hold everywhere; logarithms of probabilities.

A condition on known values, as outside of ``vmap`` and ``jit``, is checked at once. If it holds
everywhere, the result is the value itself, without a mask in its gradient: with masks, the gradient
of a normal density of 200 elements took three times as long.

>>> import funcgrad.numpy as fnp
>>> x = fnp.asarray([1.0, 4.0])
>>> holding(lambda x: x > 0, x), chosen(holding(lambda x: x > 2, x), x, 0.0)
(True, Tensor([0., 4.]))

Logarithms of probabilities are accurate for small ones and for those near 1:

>>> formula = log_probability(lambda z: fnp.exp(-z), lambda z: -fnp.expm1(-z))
>>> formula(fnp.asarray([1e-20, 80.0]))
Tensor([-1.e-20, -8.e+01])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import broadcast_shapes, shape_of
from funcgrad._core.trace import RAW, STRONG, Value, bind1
from funcgrad._primitives.special_functions.beta_tails import log_betainc_factor
from funcgrad._primitives.special_functions.entropies import log_ratio
from funcgrad._primitives.structural import unfollowed
from funcgrad.scipy import special
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply2, wrap

Condition: TypeAlias = "Tensor | bool"
"""A condition: truth values, or True if it holds everywhere."""

Test: TypeAlias = Callable[..., Value]
"""A test that compares scalars, arrays and tensors by operators."""


def holding(test: Test, *args: Tensor) -> Condition:
    """The condition that a test holds; True if it is known to hold everywhere.

    NumPy compares known values, in a third of the time, and counts them, in a third of the time of
    ``all``.

    Raises
    ------
    ShapeError
        The arguments do not broadcast.
    """
    numbers = [bind1(unfollowed, x) for x in args]
    if not RAW.issuperset(map(type, numbers)):
        return wrap(test(*map(wrap, numbers)))
    # A Python float, as from a traced scalar, would raise where NumPy's scalars overflow.
    try:
        truths = test(*[x if type(x) in STRONG else np.asarray(x)[()] for x in numbers])
    except ValueError:
        broadcast_shapes("a value and the parameters of a distribution", *map(shape_of, numbers))
        raise
    if type(truths) is np.ndarray:
        return True if np.count_nonzero(truths) == truths.size else wrap(truths)
    return True if truths else wrap(truths)


def both(first: Condition, second: Condition) -> Condition:
    """Whether two conditions hold."""
    if first is True:
        return second
    return first if second is True else first & second


def chosen(condition: Condition, value: Tensor, otherwise: Tensor | float) -> Tensor:
    """A value where a condition holds, and ``otherwise`` elsewhere, without a derivative."""
    return value if condition is True else fnp.where(condition, value, otherwise)


def split(
    test: Test,
    z: Tensor,
    then: Callable[[Tensor], Tensor],
    otherwise: Callable[[Tensor], Tensor],
    harmless: tuple[float, float],
) -> Tensor:
    """Evaluate one formula of z where a test of z holds, and another one elsewhere.

    Parameters
    ----------
    test : callable
        Comparisons of z.
    z : Tensor
    then, otherwise : callable
        Formulas of one tensor. If all elements need the same one, the other is not evaluated.
    harmless : tuple of float
        For each formula, a value that replaces the elements of the other formula.
    """
    condition = holding(test, z)
    if condition is True:
        return then(z)
    if type(condition) is Tensor and not np.any(condition._value):
        return otherwise(z)
    first = then(fnp.where(condition, z, harmless[0]))
    return fnp.where(condition, first, otherwise(fnp.where(condition, harmless[1], z)))


def times_log(x: Tensor, y: Tensor) -> Tensor:
    """``x * log(y)``, 0 where x and y are 0; the slower formula runs only if y may be 0."""
    if holding(lambda y: y > 0, y) is True:
        return x * fnp.log(y)
    return special.xlogy(x, y)


def times_log_ratio(x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """``x * log(y / scale)``, 0 where x and y are 0; y and scale have no mixed derivative."""
    if holding(lambda y: y > 0, y) is True:
        return x * apply2(log_ratio, y, scale)
    return special.xlogy(x, y / scale)


def times_log1p(x: Tensor, y: Tensor) -> Tensor:
    """``x * log1p(y)``, 0 where x is 0 and y is -1."""
    if holding(lambda y: y > -1, y) is True:
        return x * fnp.log1p(y)
    return special.xlog1py(x, y)


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
        ``a * log(x)``: if x is a quotient, mixed derivatives then do not cancel.
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
