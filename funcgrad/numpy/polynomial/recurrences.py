"""The six bases of ``numpy.polynomial`` as a table of recurrences.

A basis p_0 = 1, p_1, ... multiplies by x as ``x p_n = up(n) p_{n+1} + same(n) p_n + down(n)
p_{n-1}``. Values, products, conversions and companion matrices follow from these three bands, and
antiderivatives have three bands, too. (Abramowitz and Stegun, "Handbook of mathematical functions",
1964, tables 22.7 and 22.8; SciPy's and NumPy's names of the bases.)

>>> CHEBYSHEV.expansion(POWER, np.eye(1, 3)[0], 3)[2]
array([-1.,  0.,  2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

from funcgrad._base.fast_dataclass import dataclass
from funcgrad.numpy import creation, exponential, joining
from funcgrad.tensor.tensor import Tensor

Array: TypeAlias = np.ndarray[Any, Any]
Vector = TypeVar("Vector", Array, Tensor)
Band: TypeAlias = Callable[[Array], Any]


def _nothing(n: Array) -> Array:
    return np.zeros(n.shape)


def _one(n: Array) -> Array:
    return np.ones(n.shape)


@dataclass(frozen=True, slots=True)
class Bands:
    """How an operation maps the n-th polynomial to its neighbours.

    Attributes
    ----------
    up, same, down : callable
        From arrays of n to the factors of p_{n+1}, p_n and p_{n-1}.
    """

    up: Band
    same: Band = _nothing
    down: Band = _nothing

    def at(self, n: int) -> tuple[float, float, float]:
        """The three factors for one n."""
        one = np.array([n])
        up, same, down = (float(band(one)[0]) for band in (self.up, self.same, self.down))
        return up, same, down

    def apply(self, c: Tensor) -> Tensor:
        """The coefficients of the result, one more than before; they are on the first axis."""
        n = np.arange(c.shape[0])
        lead, more = (c.shape[0], *(1,) * (c.ndim - 1)), c.shape[1:]
        dtype = c.real.dtype
        up, same, down = (
            c * np.asarray(band(n), dtype).reshape(lead) for band in (self.up, self.same, self.down)
        )
        zero = creation.zeros((1, *more), c.dtype)
        total = joining.concatenate([zero, up])
        if np.any(self.same(n)):
            total = total + joining.concatenate([same, zero])
        if c.shape[0] > 1 and np.any(self.down(n[1:])):
            total = total + joining.concatenate([down[1:], zero, zero])
        return total


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A basis of polynomials.

    Attributes
    ----------
    prefix : str
        The beginning of NumPy's names of functions: ``"cheb"``.
    multiple : Bands
        The product with x.
    antiderivative : Bands
        An antiderivative, up to a constant.
    slope : callable
        From arrays of k and n to the factor of p_k in the derivative of p_n, for k < n.
    interval : tuple of float
        The domain of NumPy's class.
    weight_at : callable
        The weight under which the polynomials are orthogonal.
    quadrature : callable
        NumPy's nodes and weights of Gauss's rule for this weight.
    """

    prefix: str
    multiple: Bands
    antiderivative: Bands
    slope: Callable[[Array, Array], Any]
    interval: tuple[float, float]
    weight_at: Callable[[Tensor], Tensor]
    quadrature: Callable[[int], tuple[Any, Any]]

    def line_of(self, off: Tensor, scl: Tensor) -> list[Tensor]:
        """The coefficients of ``off + scl * x``."""
        up, same, _ = self.multiple.at(0)
        return [off + scl * same, scl * up]

    def expansion(self, target: Recurrence, start: Vector, count: int) -> list[Vector]:
        """The products of ``start``, in coefficients of another basis, and p_0, p_1, ...

        They have the length of ``start``, which has room for their degrees.
        """
        terms = [start]
        before = start * 0.0
        for n in range(count - 1):
            up, same, down = self.multiple.at(n)
            moved = target.times_x(terms[-1]) - terms[-1] * same
            moved = (moved - before * down) / up if down else moved / up
            before = terms[-1]
            terms.append(moved)
        return terms

    def times_x(self, c: Vector) -> Vector:
        """The product with x, without its highest coefficient."""
        if isinstance(c, np.ndarray):
            n = np.arange(len(c))
            total: Array = self.multiple.same(n) * c
            total[1:] += (self.multiple.up(n) * c)[:-1]
            total[:-1] += (self.multiple.down(n) * c)[1:]
            return total
        return self.multiple.apply(c)[:-1]

    def conversion(self, target: Recurrence, count: int) -> Array:
        """The matrix that converts coefficients in this basis to ones in another."""
        terms = self.expansion(target, np.eye(1, count)[0], count)
        return np.stack(terms, -1)


def _odd(k: Array, n: Array) -> Array:
    return (n - k) % 2 == 1


POWER = Recurrence(
    prefix="poly",
    multiple=Bands(_one),
    antiderivative=Bands(lambda n: 1 / (n + 1)),
    slope=lambda k, n: n * (k == n - 1),
    interval=(-1.0, 1.0),
    weight_at=creation.ones_like,
    quadrature=legendre.leggauss,
)
CHEBYSHEV = Recurrence(
    prefix="cheb",
    multiple=Bands(lambda n: np.where(n == 0, 1.0, 0.5), down=lambda n: np.where(n == 0, 0, 0.5)),
    antiderivative=Bands(
        lambda n: np.where(n == 0, 1.0, 0.5 / (n + 1)),
        down=lambda n: np.where(n < 2, 0.0, -0.5 / np.maximum(n - 1, 1)),
    ),
    slope=lambda k, n: np.where(_odd(k, n), np.where(k == 0, n, 2 * n), 0),
    interval=(-1.0, 1.0),
    weight_at=lambda x: 1 / (exponential.sqrt(1 + x) * exponential.sqrt(1 - x)),
    quadrature=chebyshev.chebgauss,
)
LEGENDRE = Recurrence(
    prefix="leg",
    multiple=Bands(lambda n: (n + 1) / (2 * n + 1), down=lambda n: n / (2 * n + 1)),
    antiderivative=Bands(
        lambda n: 1 / (2 * n + 1), down=lambda n: np.where(n == 0, 0.0, -1 / (2 * n + 1))
    ),
    slope=lambda k, n: np.where(_odd(k, n), 2 * k + 1, 0),
    interval=(-1.0, 1.0),
    weight_at=lambda x: x * 0.0 + 1.0,
    quadrature=legendre.leggauss,
)
HERMITE = Recurrence(
    prefix="herm",
    multiple=Bands(lambda n: _one(n) / 2, down=lambda n: n),
    antiderivative=Bands(lambda n: 0.5 / (n + 1)),
    slope=lambda k, n: 2 * n * (k == n - 1),
    interval=(-1.0, 1.0),
    weight_at=lambda x: exponential.exp(-(x**2)),
    quadrature=hermite.hermgauss,
)
HERMITE_E = Recurrence(
    prefix="herme",
    multiple=Bands(_one, down=lambda n: n),
    antiderivative=Bands(lambda n: 1 / (n + 1)),
    slope=lambda k, n: n * (k == n - 1),
    interval=(-1.0, 1.0),
    weight_at=lambda x: exponential.exp(-0.5 * x**2),
    quadrature=hermite_e.hermegauss,
)
LAGUERRE = Recurrence(
    prefix="lag",
    multiple=Bands(lambda n: -(n + 1.0), lambda n: 2 * n + 1.0, lambda n: -n),
    antiderivative=Bands(lambda n: -_one(n), _one),
    slope=lambda k, n: -1.0 * (k < n),
    interval=(0.0, 1.0),
    weight_at=lambda x: exponential.exp(-x),
    quadrature=laguerre.laggauss,
)
