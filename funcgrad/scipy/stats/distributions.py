"""A distribution is a record of formulas for its standard form, at values of its support.

This module handles location and scale, supports, and invalid parameters for all of them.

>>> from funcgrad.scipy.stats import expon
>>> expon.logpdf([-1.0, 0.0, 1.0], loc=0.0, scale=2.0)
Tensor([       -inf, -0.69314718, -1.19314718])
"""

from __future__ import annotations

from collections.abc import Callable
from math import isinf
from typing import NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import Value
from funcgrad._primitives.structural import unfollowed
from funcgrad.scipy.precision import real_numbers
from funcgrad.scipy.stats.conditions import Condition, Test, both, chosen, holding
from funcgrad.scipy.stats.frozen import AbsentMethods, FrozenDistribution, arguments
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1

Formula = Callable[..., Tensor]
Moment = Callable[..., Tensor | float]


def _completed(
    value: Tensor,
    z: Tensor,
    inside: Condition,
    valid: Condition,
    outside: Callable[[], Tensor | float],
) -> Tensor:
    """A value inside the support, another outside, and NaN for invalid parameters or NaN."""
    if inside is True:
        return chosen(valid, value, fnp.nan)
    result = chosen(inside, value, outside())
    return chosen(both(valid, ~fnp.isnan(z)), result, fnp.nan)


def _limits(z: Tensor, low: Tensor, ends: tuple[float, float]) -> Tensor:
    """The limit below the support or above it, in the precision of z."""
    return fnp.where(low, *[fnp.full_like(z, end) for end in ends])


class StandardizedPoint(NamedTuple):
    """Standardized values, and conditions on them.

    Attributes
    ----------
    z : Tensor
    shapes : list of Tensor
        Shape parameters, with harmless ones in place of invalid ones.
    scale : Tensor or None
        None if it was not given.
    unit : Tensor or float
        The factor of the ends of the support: the scale if z are distances.
    inside : Tensor or bool
        Where values are inside of the support. Ends that are infinite are outside.
    valid : Tensor or bool
        Where parameters are valid.
    """

    z: Tensor
    shapes: list[Tensor]
    scale: Tensor | None
    unit: Tensor | float
    inside: Condition
    valid: Condition

    def apply(
        self, formula: Formula, harmless: Callable[[StandardizedPoint], Tensor | float]
    ) -> Tensor:
        """Evaluate a formula inside the support, and elsewhere at a harmless value."""
        if self.inside is True:
            return formula(self.z, *self.shapes)
        return formula(chosen(self.inside, self.z, harmless(self)), *self.shapes)

    def completed(self, value: Tensor, outside: Callable[[], Tensor | float]) -> Tensor:
        """Choose a value inside the support, and another outside."""
        return _completed(value, self.z, self.inside, self.valid, outside)


@dataclass(frozen=True, slots=True)
class ContinuousDistribution(AbsentMethods):
    """A distribution with a density, given by formulas of standardized values and shapes.

    Attributes
    ----------
    name : str
    shapes : tuple of str
        The names of the shape parameters.
    low, high : float
        The ends of the support.
    inside : float or callable
        A value between them, at which every formula is finite; or ``(*shapes)`` to one.
    log_density, density : callable
        ``(z, *shapes)`` for z in the support: the logarithm of the density without ``log_factor``,
        and the density.
    below, above : callable
        The probabilities of smaller and of greater values.
    log_below, log_above : callable
        Their logarithms.
    quantile, upper_quantile : callable
        ``(q, *shapes)`` for q from 0 to 1: the inverses of ``below`` and of ``above``.
    expectation, variance, uncertainty : callable
        ``(*shapes)`` to the mean, the variance and the differential entropy.
    open : bool
        Whether the lower end is excluded from the support.
    log_factor : float
        The logarithm of a constant factor of the density. It is added to the logarithm of the
        scale, which is often a scalar for many values.
    far : callable, optional
        ``(z, *shapes)``: the leading term of the logarithms at infinite ends, where they are
        infinite with its slope. By default the slope is 0.
    of_distances : bool
        Whether formulas, except quantiles and moments, take ``(distance, scale, *shapes)`` with the
        distance from the location, instead of standardized values: the factor of the scale in a
        derivative may overflow where the derivative does not. Densities are then divided by the
        scale already.
    allowed : callable, optional
        ``(*shapes)`` to whether they are valid. By default they have to be positive.
    harmless : tuple of float
        Shapes that replace invalid ones, where ``allowed`` is there.
    contains : callable, optional
        ``(z, *shapes)`` to whether z is in the support, if its ends depend on the shapes.
    """

    name: str
    shapes: tuple[str, ...]
    low: float
    high: float
    inside: float | Callable[..., Tensor]
    log_density: Formula
    density: Formula
    below: Formula
    above: Formula
    log_below: Formula
    log_above: Formula
    quantile: Formula
    upper_quantile: Formula
    expectation: Moment
    variance: Moment
    uncertainty: Moment
    open: bool = False
    log_factor: float = 0.0
    far: Formula | None = None
    of_distances: bool = False
    allowed: Test | None = None
    harmless: tuple[float, ...] = ()
    contains: Test | None = None

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> FrozenDistribution:
        """Fix the parameters of the distribution, in their order or by their names."""
        names = (*self.shapes, "loc", "scale")
        return FrozenDistribution(self, arguments(self.name, names, args, kwds))

    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the density at ``x``."""
        point = self._point("logpdf", x, args, kwds)
        value = point.apply(self.log_density, self._within)
        if point.scale is not None:
            value = value + (self.log_factor - fnp.log(point.scale))
        elif self.log_factor:
            value = value + self.log_factor
        return point.completed(value, lambda: self._far(point, -fnp.inf, -fnp.inf))

    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The density at ``x``."""
        point = self._point("pdf", x, args, kwds)
        value = point.apply(self.density, self._within)
        value = value if point.scale is None else value / point.scale
        return point.completed(value, lambda: 0.0)

    def cdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a value of at most ``x``."""
        point = self._point("cdf", x, args, kwds)
        return point.completed(
            point.apply(self.below, self._within), lambda: self._end(point, 0.0, 1.0)
        )

    def sf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a value above ``x``, with all digits where it is small."""
        point = self._point("sf", x, args, kwds)
        return point.completed(
            point.apply(self.above, self._within), lambda: self._end(point, 1.0, 0.0)
        )

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of a value of at most ``x``."""
        point = self._point("logcdf", x, args, kwds)
        value = point.apply(self.log_below, self._within)
        return point.completed(value, lambda: self._far(point, -fnp.inf, 0.0))

    def logsf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of a value above ``x``."""
        point = self._point("logsf", x, args, kwds)
        value = point.apply(self.log_above, self._within)
        return point.completed(value, lambda: self._far(point, 0.0, -fnp.inf))

    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The quantile of the probability ``q``: the inverse of ``cdf``."""
        return self._at_level("ppf", self.quantile, q, args, kwds)

    def isf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The quantile of the upper tail: the inverse of ``sf``."""
        return self._at_level("isf", self.upper_quantile, q, args, kwds)

    def mean(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The mean; infinite or NaN if it does not exist."""
        shapes, location, scale, valid = self._of_moment("mean", args, kwds)
        return chosen(valid, location + scale * self.expectation(*shapes), fnp.nan)

    def var(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The variance; infinite or NaN if it does not exist."""
        shapes, location, scale, valid = self._of_moment("var", args, kwds)
        value = scale * scale * self.variance(*shapes) + 0.0 * location
        return chosen(valid, value, fnp.nan)

    def std(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The standard deviation."""
        return fnp.sqrt(self.var(*args, **kwds))

    def entropy(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The differential entropy, the mean of minus ``logpdf``."""
        shapes, location, scale, valid = self._of_moment("entropy", args, kwds)
        value = self.uncertainty(*shapes) + fnp.log(scale) + 0.0 * location
        return chosen(valid, value, fnp.nan)

    def _at_level(
        self,
        method: str,
        formula: Formula,
        q: ArrayLike,
        args: tuple[ArrayLike, ...],
        kwds: dict[str, ArrayLike],
    ) -> Tensor:
        level, shapes, location, scale, valid = self._at_value(method, q, args, kwds)
        within = holding(lambda q: (q >= 0) & (q <= 1), level)
        z = formula(chosen(within, level, 0.5), *shapes)
        z = z if scale is None else scale * z
        z = z if location is None else location + z
        return chosen(both(valid, within), z, fnp.nan)

    def _of_moment(
        self, method: str, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[list[Tensor], Tensor, Tensor, Condition]:
        """Shapes, location and scale, and whether they are valid."""
        operation = f"{self.name}.{method}"
        named = arguments(operation, (*self.shapes, "loc", "scale"), args, kwds)
        numbers, valid = self._checked(operation, {"loc": 0.0, "scale": 1.0, **named})
        return [numbers[name] for name in self.shapes], numbers["loc"], numbers["scale"], valid

    def _at_value(
        self, method: str, x: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[Tensor, list[Tensor], Tensor | None, Tensor | None, Condition]:
        """The value, shapes, location and scale, if given, and validity."""
        operation = f"{self.name}.{method}"
        named = arguments(operation, (*self.shapes, "loc", "scale"), args, kwds)
        numbers, valid = self._checked(operation, {"": x, **named})
        shapes = [numbers[name] for name in self.shapes]
        return numbers[""], shapes, numbers.get("loc"), numbers.get("scale"), valid

    def _checked(
        self, operation: str, named: dict[str, ArrayLike]
    ) -> tuple[dict[str, Tensor], Condition]:
        """Arguments, with harmless shapes and scales in place of invalid ones, and validity."""
        numbers = dict(zip(named, real_numbers(operation, *named.values()), strict=True))
        valid: Condition = True
        if self.allowed is not None:
            valid = holding(self.allowed, *[numbers[name] for name in self.shapes])
            for name, harmless in zip(self.shapes, self.harmless, strict=True):
                numbers[name] = chosen(valid, numbers[name], harmless)
        for name in ("scale",) if self.allowed else (*self.shapes, "scale"):
            if name in numbers:
                positive = holding(lambda x: x > 0, numbers[name])
                numbers[name] = chosen(positive, numbers[name], 1.0)
                valid = both(valid, positive)
        return numbers, valid

    def _point(
        self, method: str, x: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> StandardizedPoint:
        z, shapes, location, scale, valid = self._at_value(method, x, args, kwds)
        z = z if location is None else z - location
        if self.of_distances:
            unit = fnp.ones((), z.dtype) if scale is None else scale
            inside = holding(self._is_inside, z, unit)
            return StandardizedPoint(z, [unit, *shapes], None, unit, inside, valid)
        z = z if scale is None else z / scale
        if self.contains is None:
            inside = holding(self._is_inside, z)
        else:
            inside = holding(self.contains, z, *shapes)
        return StandardizedPoint(z, shapes, scale, 1.0, inside, valid)

    def _within(self, point: StandardizedPoint) -> Tensor | float:
        """A value inside of the support, in the units of the point."""
        return self.inside(*point.shapes) if callable(self.inside) else self.inside * point.unit

    def _is_inside(self, z: Value, unit: Value = 1.0) -> Value:
        """Whether values are in the support. Infinite ends are outside: the density is 0 there."""
        if isinf(self.low) and isinf(self.high):
            return np.isfinite(z)
        low, high = self.low * unit, self.high * unit
        above = (z > low) if self.open or isinf(self.low) else (z >= low)
        return above & ((z < high) if isinf(self.high) else (z <= high))

    def _end(self, point: StandardizedPoint, low: float, high: float) -> Tensor:
        """Limits outside of the support, below it and above."""
        return _limits(point.z, point.z < self._within(point), (low, high))

    def _far(self, point: StandardizedPoint, low: float, high: float) -> Tensor:
        """Limits of logarithms outside of the support; at infinite ends with their slopes."""
        value = self._end(point, low, high)
        if self.far is None:
            return value
        ends = [end for end, limit in ((self.low, low), (self.high, high)) if isinf(limit)]
        for end in filter(isinf, ends):
            there = point.z == end
            harmless = self._within(point)
            leading = self.far(fnp.where(there, point.z, harmless), *point.shapes)
            value = fnp.where(there, leading, value)
        return value


@dataclass(frozen=True, slots=True)
class DiscreteDistribution(AbsentMethods):
    """A distribution of integers, given by formulas of the integer and the shapes.

    Attributes
    ----------
    name : str
    shapes : tuple of str
    valid : callable
        ``(*shapes)`` to whether they are valid.
    greatest : callable or None
        ``(*shapes)`` to the greatest integer of the support; None if it is unbounded.
    log_mass : callable
        ``(k, *shapes)`` for integers k of the support.
    mass : callable
        The probability itself: second derivatives through the logarithm would lose digits.
    below, above : callable
        The probabilities of at most k, and of more than k, for integers k below the greatest.
    log_below, log_above : callable
        Their logarithms.
    harmless : tuple of float
        Shapes at which the formulas are finite for the least k.
    expectation, variance : callable
        ``(*shapes)`` to the mean and the variance.
    least : float
        The least integer of the support.
    """

    name: str
    shapes: tuple[str, ...]
    valid: Test
    greatest: Test | None
    log_mass: Formula
    mass: Formula
    below: Formula
    above: Formula
    log_below: Formula
    log_above: Formula
    harmless: tuple[float, ...]
    expectation: Moment
    variance: Moment
    least: float = 0.0

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> FrozenDistribution:
        """Fix the parameters of the distribution, in their order or by their names."""
        names = (*self.shapes, "loc")
        return FrozenDistribution(self, arguments(self.name, names, args, kwds))

    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of ``k``; ``k`` has no derivative."""
        return self._of_mass("logpmf", self.log_mass, -fnp.inf, k, args, kwds)

    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of ``k``; ``k`` has no derivative."""
        return self._of_mass("pmf", self.mass, 0.0, k, args, kwds)

    def cdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of at most ``k``; ``k`` has no derivative."""
        return self._probability("cdf", self.below, (0.0, 1.0), k, args, kwds)

    def sf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of more than ``k``; ``k`` has no derivative."""
        return self._probability("sf", self.above, (1.0, 0.0), k, args, kwds)

    def logcdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of ``cdf``, with all digits also where ``cdf`` is near 1."""
        return self._probability("logcdf", self.log_below, (-fnp.inf, 0.0), k, args, kwds)

    def logsf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of ``sf``, with all digits also where ``sf`` is near 1."""
        return self._probability("logsf", self.log_above, (0.0, -fnp.inf), k, args, kwds)

    def mean(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The mean."""
        shapes, location, valid = self._of_moment("mean", args, kwds)
        return chosen(valid, self.expectation(*shapes) + location, fnp.nan)

    def var(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The variance."""
        shapes, location, valid = self._of_moment("var", args, kwds)
        return chosen(valid, self.variance(*shapes) + 0.0 * location, fnp.nan)

    def std(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The standard deviation."""
        return fnp.sqrt(self.var(*args, **kwds))

    def _of_moment(
        self, method: str, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[list[Tensor], Tensor, Condition]:
        """Shapes and location, and whether they are valid."""
        operation = f"{self.name}.{method}"
        named = arguments(operation, (*self.shapes, "loc"), args, kwds)
        numbers, shapes, valid = self._checked(operation, {"loc": 0.0, **named})
        return shapes, numbers["loc"], valid

    def _standard(
        self, method: str, k: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[Tensor, list[Tensor], Condition]:
        """The value minus the location, the shapes, and whether the shapes are valid."""
        operation = f"{self.name}.{method}"
        named = arguments(operation, (*self.shapes, "loc"), args, kwds)
        numbers, shapes, valid = self._checked(operation, {"": k, **named})
        n = numbers[""] - numbers["loc"] if "loc" in numbers else numbers[""]
        return apply1(unfollowed, n), shapes, valid

    def _checked(
        self, operation: str, named: dict[str, ArrayLike]
    ) -> tuple[dict[str, Tensor], list[Tensor], Condition]:
        """Arguments, with harmless shapes in place of invalid ones, and validity."""
        numbers = dict(zip(named, real_numbers(operation, *named.values()), strict=True))
        shapes = [numbers[name] for name in self.shapes]
        valid = holding(self.valid, *shapes)
        return numbers, self._harmless(valid, shapes), valid

    def _harmless(self, condition: Condition, shapes: list[Tensor]) -> list[Tensor]:
        if condition is True:
            return shapes
        pairs = zip(shapes, self.harmless, strict=True)
        return [chosen(condition, shape, harmless) for shape, harmless in pairs]

    def _has_mass(self, n: Value, *shapes: Value) -> Value:
        inside = (n >= self.least) & (n == np.floor(n))
        return inside & (n < np.inf if self.greatest is None else n <= self.greatest(*shapes))

    def _is_before_the_end(self, n: Value, *shapes: Value) -> Value:
        greatest = np.inf if self.greatest is None else self.greatest(*shapes)
        return (n >= self.least) & (n < greatest)

    def _inside_support(
        self, formula: Formula, n: Tensor, shapes: list[Tensor], inside: Condition
    ) -> Tensor:
        """Evaluate a formula inside the support, and elsewhere at harmless values."""
        return formula(chosen(inside, n, self.least), *self._harmless(inside, shapes))

    def _of_mass(
        self,
        method: str,
        formula: Formula,
        outside: float,
        k: ArrayLike,
        args: tuple[ArrayLike, ...],
        kwds: dict[str, ArrayLike],
    ) -> Tensor:
        n, shapes, valid = self._standard(method, k, args, kwds)
        inside = holding(self._has_mass, n, *shapes)
        value = self._inside_support(formula, n, shapes, inside)
        return _completed(value, n, inside, valid, lambda: outside)

    def _probability(
        self,
        method: str,
        formula: Formula,
        ends: tuple[float, float],
        k: ArrayLike,
        args: tuple[ArrayLike, ...],
        kwds: dict[str, ArrayLike],
    ) -> Tensor:
        n, shapes, valid = self._standard(method, k, args, kwds)
        whole = fnp.floor(n)
        inside = holding(self._is_before_the_end, whole, *shapes)
        value = self._inside_support(formula, whole, shapes, inside)
        return _completed(value, n, inside, valid, lambda: _limits(n, n < self.least, ends))
