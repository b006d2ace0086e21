"""Distributions of vectors: densities, differentiable in the vectors and all parameters.

>>> multivariate_normal.logpdf([0.0, 0.0])
Tensor(-1.83787707)
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._primitives.structural import unfollowed
from funcgrad.errors import ShapeError
from funcgrad.scipy import special
from funcgrad.scipy.precision import real_numbers
from funcgrad.scipy.stats.frozen import AbsentMethods, FrozenDistribution
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


@dataclass(frozen=True, slots=True)
class NormalOfVectors(AbsentMethods):
    """The normal distribution of vectors, by the Cholesky factor of its covariance."""

    name: str = "multivariate_normal"

    def __call__(self, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> FrozenDistribution:
        """Fix the mean and the covariance of the distribution."""
        parameters = {"cov": cov} if mean is None else {"mean": mean, "cov": cov}
        return FrozenDistribution(self, parameters)

    def logpdf(self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Tensor:
        """The logarithm of the density.

        Parameters
        ----------
        x : array_like
            Vectors along the last axis; vectors of one component may have any shape.
        mean : array_like, optional
            A vector; 0 by default.
        cov : array_like
            A symmetric positive definite matrix; a vector is its diagonal, and a number the
            variance of all components.

        Returns
        -------
        Tensor
            One value for each vector.

        Raises
        ------
        ShapeError
            The sizes do not fit.
        numpy.linalg.LinAlgError
            The covariance is not positive definite.
        """
        means = () if mean is None else (mean,)
        value, spread, *centres = real_numbers("multivariate_normal.logpdf", x, cov, *means)
        centre = centres[0] if centres else None
        size = _dimension(spread, centre, value)
        if value.ndim == 0 or (size == 1 and value.shape[-1] != 1):
            value = fnp.expand_dims(value, -1)
        centre = fnp.zeros(size, value.dtype) if centre is None else centre
        sizes = {*spread.shape, *centre.shape, value.shape[-1], size}
        if spread.ndim > 2 or centre.ndim > 1 or not sizes <= {1, size} or value.shape[-1] != size:
            raise ShapeError(
                f"multivariate_normal: x of shape {value.shape}, a mean of shape {centre.shape} and"
                f" a covariance of shape {spread.shape} do not fit: vectors are along the last axis"
                " of x, and the covariance has a row for each component."
            )
        if spread.ndim < 2:
            spread = fnp.diag(fnp.broadcast_to(spread, (size,)))
        factor = fnp.linalg.cholesky(spread)
        deviation = fnp.reshape(value - centre, (-1, size))
        whitened = fnp.linalg.solve(factor, deviation.T)
        logarithm = fnp.sum(fnp.log(fnp.diagonal(factor)))
        squares = fnp.reshape(fnp.sum(whitened * whitened, axis=0), value.shape[:-1])
        return -squares / 2 - logarithm - size / 2 * math.log(2 * math.pi)

    def pdf(self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Tensor:
        """The density; see ``logpdf``."""
        return fnp.exp(self.logpdf(x, mean, cov))


def _dimension(spread: Tensor, centre: Tensor | None, value: Tensor) -> int:
    """The number of components, from the first argument that determines it."""
    if spread.ndim:
        return int(spread.shape[-1])
    if centre is not None and centre.ndim:
        return int(centre.shape[-1])
    return int(value.shape[-1]) if centre is None and value.ndim else 1


@dataclass(frozen=True, slots=True)
class DirichletDistribution(AbsentMethods):
    """The Dirichlet distribution of positive vectors that sum to 1."""

    name: str = "dirichlet"

    def __call__(self, alpha: ArrayLike) -> FrozenDistribution:
        """Fix the parameter of the distribution."""
        return FrozenDistribution(self, {"alpha": alpha})

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Tensor:
        """The logarithm of the density.

        Parameters
        ----------
        x : array_like
            Vectors along the first axis, as in SciPy; the last component, which follows from the
            others, may be missing. Derivatives treat all components as free.
        alpha : array_like
            A vector with positive elements.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            The sizes do not fit.
        """
        value, shape = real_numbers("dirichlet.logpdf", x, alpha)
        if shape.ndim != 1 or value.ndim < 1 or len(shape) - len(value) not in (0, 1):
            raise ShapeError(
                f"dirichlet: x of shape {value.shape} and alpha of shape {shape.shape} do not fit:"
                " alpha is a vector, and x has its length, or one less, along the first axis."
            )
        if len(value) < len(shape):
            last = 1 - fnp.sum(value, axis=0, keepdims=True)
            value = fnp.concatenate([value, last])
        weights = fnp.reshape(shape - 1, (-1,) + (1,) * (value.ndim - 1))
        logarithm = special.gammaln(fnp.sum(shape)) - fnp.sum(special.gammaln(shape))
        return fnp.sum(special.xlogy(weights, value), axis=0) + logarithm

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Tensor:
        """The density; see ``logpdf``."""
        return fnp.exp(self.logpdf(x, alpha))


@dataclass(frozen=True, slots=True)
class MultinomialDistribution(AbsentMethods):
    """The multinomial distribution of counts in several classes."""

    name: str = "multinomial"

    def __call__(self, n: ArrayLike, p: ArrayLike) -> FrozenDistribution:
        """Fix the number of trials and the probabilities."""
        return FrozenDistribution(self, {"n": n, "p": p})

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
        """The logarithm of the probability of counts; counts have no derivative.

        Parameters
        ----------
        x : array_like, shape (..., k)
            Counts of the classes along the last axis.
        n : array_like
            The number of trials: -inf where the counts have another sum.
        p : array_like, shape (..., k)
            Probabilities of the classes. As in SciPy, the last one is replaced by 1 minus the
            others, so its derivative is 0, and theirs are along the probabilities that sum to 1.

        Returns
        -------
        Tensor
            One value for each vector; NaN for invalid parameters.

        Raises
        ------
        ShapeError
            The sizes do not fit.
        """
        counts, trials, shares = real_numbers("multinomial.logpmf", x, n, p)
        if not counts.ndim or not shares.ndim or counts.shape[-1] != shares.shape[-1]:
            raise ShapeError(
                f"multinomial: x of shape {counts.shape} and p of shape {shares.shape} do not fit:"
                " both have the classes along the last axis."
            )
        counts, trials = (apply1(unfollowed, k) for k in (counts, trials))
        shares, valid = _completed_shares(shares)
        valid = valid & (trials >= 0) & (trials == fnp.floor(trials))
        whole = fnp.all((counts >= 0) & (counts == fnp.floor(counts)), axis=-1)
        possible = whole & (fnp.sum(counts, axis=-1) == trials)
        counts = fnp.where(possible[..., None], counts, 0.0)
        ways = special.gammaln(fnp.where(valid, trials, 0.0) + 1)
        ways = ways - fnp.sum(special.gammaln(counts + 1), axis=-1)
        value = ways + fnp.sum(special.xlogy(counts, shares), axis=-1)
        return fnp.where(valid, fnp.where(possible, value, -math.inf), math.nan)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
        """The probability of counts; see ``logpmf``."""
        return fnp.exp(self.logpmf(x, n, p))

    def mean(self, n: ArrayLike, p: ArrayLike) -> Tensor:
        """The mean of the counts, along the last axis."""
        trials, shares = real_numbers("multinomial.mean", n, p)
        shares, valid = _completed_shares(shares)
        return fnp.where(valid[..., None], trials[..., None] * shares, math.nan)

    def cov(self, n: ArrayLike, p: ArrayLike) -> Tensor:
        """The covariance of the counts, along the last two axes."""
        trials, shares = real_numbers("multinomial.cov", n, p)
        shares, valid = _completed_shares(shares)
        diagonal = shares[..., None] * fnp.eye(shares.shape[-1], dtype=shares.dtype)
        value = trials[..., None, None] * (diagonal - shares[..., None] * shares[..., None, :])
        return fnp.where(valid[..., None, None], value, math.nan)


def _completed_shares(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities with the last one from the others, as in SciPy, and whether they are valid."""
    if not shares.ndim or not shares.shape[-1]:
        raise ShapeError(
            f"multinomial: p has the shape {shares.shape}; it needs a class along its last axis."
        )
    last = 1 - fnp.sum(shares[..., :-1], axis=-1, keepdims=True)
    shares = fnp.concatenate([shares[..., :-1], last], axis=-1)
    valid = fnp.all((shares >= 0) & (shares <= 1), axis=-1)
    return fnp.where(valid[..., None], shares, 1.0), valid


multivariate_normal = NormalOfVectors()
multinomial = MultinomialDistribution()
dirichlet = DirichletDistribution()
