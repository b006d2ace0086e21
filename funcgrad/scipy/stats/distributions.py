"""A distribution is a record of formulas for its standard form, at values of its support.

Location and scale, supports and parameters that are none are the same for all, and stand here.

>>> from funcgrad.scipy.stats import expon
>>> expon.logpdf([-1.0, 0.0, 1.0], loc=0.0, scale=2.0)
Tensor([       -inf, -0.69314718, -1.19314718])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import isinf
from typing import Protocol

import funcgrad.numpy as fnp
from funcgrad.errors import ImmutableError, MissingAttributeError, MissingOptionError
from funcgrad.primitives.logits import real_value
from funcgrad.quick_dataclasses import dataclass
from funcgrad.tensor import ArrayLike, Tensor, wrap
from funcgrad.transforms.stop import stop_gradient

__all__ = [
    "ContinuousDistribution",
    "DiscreteDistribution",
    "FrozenDistribution",
    "arguments",
    "log_probability",
]

Formula = Callable[..., Tensor]
Moment = Callable[..., Tensor | float]


def arguments(
    operation: str, names: Sequence[str], given: tuple[ArrayLike, ...], named: dict[str, ArrayLike]
) -> list[Tensor]:
    """Parameters in the order of their names; ``loc`` is 0 and ``scale`` 1 by default.

    Raises
    ------
    MissingOptionError
        A parameter is missing, or given twice, or there is none of its name.
    """
    defaults = {"loc": 0.0, "scale": 1.0}
    found = dict(zip(names, given, strict=False))
    wrong = [name for name in named if name not in names or name in found]
    missing = [name for name in names if name not in {**defaults, **found, **named}]
    if len(given) > len(names) or wrong or missing:
        raise MissingOptionError(
            f"{operation}: the parameters are {', '.join(names)}; got {len(given)} by position"
            f" and {', '.join(named) or 'none'} by name."
        )
    values = {**defaults, **found, **named}
    return [wrap(real_value(values[name], operation)) for name in names]


def log_probability(own: Formula, other: Formula) -> Formula:
    """The logarithm of a probability, by that of the opposite where it is near 1."""

    def formula(z: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        probability = own(z, *args, **kwds)
        small = probability < 0.5
        near_one = fnp.log1p(-fnp.where(small, 0.5, other(z, *args, **kwds)))
        result: Tensor = fnp.where(small, fnp.log(fnp.where(small, probability, 0.5)), near_one)
        return result

    return formula


class Named(Protocol):
    """What has methods of a value and of parameters."""

    @property
    def name(self) -> str: ...


class FrozenDistribution:
    """A distribution whose parameters are given: its methods take what is before these alone.

    The parameters may be traced, where it is made inside of what is differentiated.

    >>> from funcgrad.scipy.stats import norm
    >>> norm(1.0, 2.0).cdf(1.0), norm(1.0, scale=2.0).mean()
    (Tensor(0.5), Tensor(1.))
    """

    __slots__ = ("_distribution", "_parameters")

    _distribution: Named
    _parameters: tuple[Tensor, ...]

    def __init__(self, distribution: Named, parameters: Sequence[Tensor]) -> None:
        object.__setattr__(self, "_distribution", distribution)
        object.__setattr__(self, "_parameters", tuple(parameters))

    def __setattr__(self, name: str, value: object) -> None:
        raise ImmutableError(
            f"{self._distribution.name}: a frozen distribution does not change. Make another one."
        )

    def __getattr__(self, name: str) -> Formula:
        """A method of the distribution, with the parameters at its end."""
        if name not in dir(self):
            raise MissingAttributeError(
                f"{self._distribution.name}: there is no {name!r} here. There are"
                f" {', '.join(dir(self))}."
            )
        method = getattr(self._distribution, name)
        return lambda *given: method(*given, *self._parameters)

    def __dir__(self) -> list[str]:
        """The names of the methods."""
        own = vars(type(self._distribution)).items()
        return [name for name, each in own if name[0] != "_" and inspect.isfunction(each)]


@dataclass(frozen=True, slots=True)
class ContinuousDistribution:
    """A distribution with a density, by formulas of standardized values and shape parameters.

    Attributes
    ----------
    name : str
    shapes : tuple of str
        The names of the shape parameters.
    low, high : float
        The ends of the support.
    inside : float
        A value between them, at which every formula is finite.
    log_density, density : callable
        ``(z, *shapes)`` for z in the support.
    below, above : callable
        The probabilities of smaller and of greater values.
    log_below, log_above : callable
        Their logarithms.
    quantile, upper_quantile : callable
        ``(q, *shapes)``, the inverses of ``below`` and of ``above``, from 0 to 1.
    expectation, variance, uncertainty : callable
        ``(*shapes)`` to the mean, the variance and the differential entropy.
    open : bool
        Whether the lower end is no part of the support.
    """

    name: str
    shapes: tuple[str, ...]
    low: float
    high: float
    inside: float
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

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> FrozenDistribution:
        """The distribution with its parameters given, in their order or by their names."""
        names = (*self.shapes, "loc", "scale")
        return FrozenDistribution(self, arguments(self.name, names, args, kwds))

    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the density at ``x``."""
        z, shapes, scale, valid = self._standard("logpdf", x, args, kwds)
        value = self._within(z, shapes, self.log_density) - fnp.log(scale)
        return _chosen(valid, fnp.where(self._is_inside(z), value, -fnp.inf), z)

    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The density at ``x``."""
        z, shapes, scale, valid = self._standard("pdf", x, args, kwds)
        value = self._within(z, shapes, self.density) / scale
        return _chosen(valid, fnp.where(self._is_inside(z), value, 0.0), z)

    def cdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a value of at most ``x``."""
        return self._probability("cdf", self.below, (0.0, 1.0), x, args, kwds)

    def sf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a value above ``x``, with all digits where it is small."""
        return self._probability("sf", self.above, (1.0, 0.0), x, args, kwds)

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of a value of at most ``x``."""
        return self._probability("logcdf", self.log_below, (-fnp.inf, 0.0), x, args, kwds)

    def logsf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of a value above ``x``."""
        return self._probability("logsf", self.log_above, (0.0, -fnp.inf), x, args, kwds)

    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The value below which is the probability ``q``: the inverse of ``cdf``."""
        return self._quantile("ppf", self.quantile, q, args, kwds)

    def isf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The value above which is the probability ``q``: the inverse of ``sf``."""
        return self._quantile("isf", self.upper_quantile, q, args, kwds)

    def mean(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The mean; infinite or NaN where there is none."""
        _, shapes, location, scale, valid = self._parameters("mean", 0.0, args, kwds)
        return _chosen(valid, location + scale * self.expectation(*shapes), scale)

    def var(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The variance; infinite or NaN where there is none."""
        _, shapes, location, scale, valid = self._parameters("var", 0.0, args, kwds)
        return _chosen(valid, scale * scale * self.variance(*shapes) + 0.0 * location, scale)

    def std(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The root of the variance."""
        return fnp.sqrt(self.var(*args, **kwds))

    def entropy(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The differential entropy, the mean of minus ``logpdf``."""
        _, shapes, location, scale, valid = self._parameters("entropy", 0.0, args, kwds)
        value = self.uncertainty(*shapes) + fnp.log(scale) + 0.0 * location
        return _chosen(valid, value, scale)

    def _quantile(
        self,
        method: str,
        formula: Formula,
        q: ArrayLike,
        args: tuple[ArrayLike, ...],
        kwds: dict[str, ArrayLike],
    ) -> Tensor:
        level, shapes, location, scale, valid = self._parameters(method, q, args, kwds)
        within = (level >= 0) & (level <= 1)
        z = formula(fnp.where(within, level, 0.5), *shapes)
        valid = valid & within
        return _chosen(valid, location + scale * z, level)

    def _parameters(
        self, method: str, x: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor, Tensor]:
        """The value, harmless shapes for those that are none, location, scale, validity."""
        operation = f"{self.name}.{method}"
        names = (*self.shapes, "loc", "scale")
        *shapes, location, scale = arguments(operation, names, args, kwds)
        value = wrap(real_value(x, operation))
        valid = scale > 0
        for shape in shapes:
            valid = valid & (shape > 0)
        positive = [fnp.where(shape > 0, shape, 1.0) for shape in shapes]
        return value, positive, location, fnp.where(scale > 0, scale, 1.0), valid

    def _standard(
        self, method: str, x: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        value, shapes, location, scale, valid = self._parameters(method, x, args, kwds)
        return (value - location) / scale, shapes, scale, valid

    def _is_inside(self, z: Tensor) -> Tensor:
        """Ends that are infinite are outside: nothing is left of a density there."""
        above = (z > self.low) if self.open or isinf(self.low) else (z >= self.low)
        return above & ((z < self.high) if isinf(self.high) else (z <= self.high))

    def _within(self, z: Tensor, shapes: list[Tensor], formula: Formula) -> Tensor:
        """A formula, elsewhere at a place where it does no harm."""
        return formula(fnp.where(self._is_inside(z), z, self.inside), *shapes)

    def _probability(
        self,
        method: str,
        formula: Formula,
        ends: tuple[float, float],
        x: ArrayLike,
        args: tuple[ArrayLike, ...],
        kwds: dict[str, ArrayLike],
    ) -> Tensor:
        z, shapes, _, valid = self._standard(method, x, args, kwds)
        outside = fnp.where(z < self.inside, ends[0], ends[1])
        value = fnp.where(self._is_inside(z), self._within(z, shapes, formula), outside)
        return _chosen(valid, value, z)


def _chosen(valid: Tensor, value: Tensor, z: Tensor) -> Tensor:
    result: Tensor = fnp.where(valid & ~fnp.isnan(z), value, fnp.nan)
    return result


@dataclass(frozen=True, slots=True)
class DiscreteDistribution:
    """A distribution of whole numbers from 0 on, by formulas of them and shape parameters.

    Attributes
    ----------
    name : str
    shapes : tuple of str
    valid : callable
        ``(*shapes)`` to whether they are parameters of a distribution.
    greatest : callable
        ``(*shapes)`` to the greatest number that has a probability.
    log_mass : callable
        ``(k, *shapes)`` for whole k from 0 to that.
    below, above : callable
        The probabilities of at most k, and of more, for whole k from 0 to less than the greatest.
    harmless : tuple of float
        Shapes at which nothing goes wrong.
    expectation, variance : callable
        ``(*shapes)`` to the mean and the variance.
    """

    name: str
    shapes: tuple[str, ...]
    valid: Formula
    greatest: Formula
    log_mass: Formula
    below: Formula
    above: Formula
    harmless: tuple[float, ...]
    expectation: Moment
    variance: Moment

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> FrozenDistribution:
        """The distribution with its parameters given, in their order or by their names."""
        names = (*self.shapes, "loc")
        return FrozenDistribution(self, arguments(self.name, names, args, kwds))

    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of the probability of ``k``; it has no derivative in that."""
        n, shapes, valid = self._standard("logpmf", k, args, kwds)
        inside = (n >= 0) & (n <= self.greatest(*shapes)) & (n == fnp.floor(n))
        value = self.log_mass(fnp.where(inside, n, 0.0), *shapes)
        return _chosen(valid, fnp.where(inside, value, -fnp.inf), n)

    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of ``k``; it has no derivative in that."""
        return fnp.exp(self.logpmf(k, *args, **kwds))

    def cdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a number of at most ``k``; it has no derivative in that."""
        return self._probability("cdf", self.below, (0.0, 1.0), k, args, kwds)

    def sf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The probability of a number above ``k``; it has no derivative in that."""
        return self._probability("sf", self.above, (1.0, 0.0), k, args, kwds)

    def logcdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of ``cdf``, with all digits also where that is near 1."""
        return log_probability(self.cdf, self.sf)(k, *args, **kwds)

    def logsf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The logarithm of ``sf``, with all digits also where that is near 1."""
        return log_probability(self.sf, self.cdf)(k, *args, **kwds)

    def mean(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The mean."""
        shapes, location, valid = self._parameters("mean", args, kwds)
        return _chosen(valid, self.expectation(*shapes) + location, location)

    def var(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The variance."""
        shapes, location, valid = self._parameters("var", args, kwds)
        return _chosen(valid, self.variance(*shapes) + 0.0 * location, location)

    def std(self, *args: ArrayLike, **kwds: ArrayLike) -> Tensor:
        """The root of the variance."""
        return fnp.sqrt(self.var(*args, **kwds))

    def _parameters(
        self, method: str, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Harmless shapes for those that are none, the location, and whether they are valid."""
        names = (*self.shapes, "loc")
        *shapes, location = arguments(f"{self.name}.{method}", names, args, kwds)
        valid = self.valid(*shapes)
        pairs = zip(shapes, self.harmless, strict=True)
        return [fnp.where(valid, shape, harmless) for shape, harmless in pairs], location, valid

    def _standard(
        self, method: str, k: ArrayLike, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        shapes, location, valid = self._parameters(method, args, kwds)
        n = stop_gradient(wrap(real_value(k, f"{self.name}.{method}")) - location)
        return n, shapes, valid

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
        inside = (whole >= 0) & (whole < self.greatest(*shapes))
        value = formula(fnp.where(inside, whole, 0.0), *shapes)
        return _chosen(valid, fnp.where(inside, value, fnp.where(n < 0, *ends)), n)
