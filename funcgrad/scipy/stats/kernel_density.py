"""Densities estimated from samples, by a normal kernel at each of them.

>>> density = gaussian_kde([-1.0, 0.0, 0.5, 2.0])
>>> density.evaluate([0.0, 1.0]).round(6)
Tensor([0.26852 , 0.223548])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ImmutableError, ShapeError
from funcgrad.scipy.precision import real_numbers
from funcgrad.scipy.special import logsumexp, ndtr
from funcgrad.tensor.tensor import ArrayLike, Tensor

if TYPE_CHECKING:
    Bandwidth = str | ArrayLike | Callable[["gaussian_kde"], ArrayLike] | None


class gaussian_kde:  # noqa: N801  # SciPy's name
    """A density estimated by normal kernels, differentiable in points, data, weights and width.

    It is a pytree of its data, weights and factor: it passes through ``jit`` and ``vmap``, and has
    gradients itself. ``set_bandwidth`` returns another one, since nothing changes here.

    Parameters
    ----------
    dataset : array_like, shape (n,) or (d, n)
        The samples, along the last axis.
    bw_method : str, scalar or callable, optional
        The factor by which the covariance's root is multiplied: ``"scott"`` (the default) is
        ``neff ** (-1 / (d + 4))`` (D. W. Scott, Multivariate Density Estimation, 1992),
        ``"silverman"`` is ``(neff * (d + 2) / 4) ** (-1 / (d + 4))`` (B. W. Silverman, Density
        Estimation, 1986). A callable takes the estimate.
    weights : array_like, shape (n,), optional
        Of the samples; they are divided by their sum. By default they are equal.

    Raises
    ------
    ShapeError
        There are fewer than two samples, or the weights are not as many as they.
    ArgumentError
        ``bw_method`` is an unknown name.

    Examples
    --------
    >>> import funcgrad as fg
    >>> density = gaussian_kde([-1.0, 0.0, 0.5, 2.0], bw_method=0.5)
    >>> fg.grad(lambda x: density.logpdf(x)[0])(1.0).round(6)
    Tensor(-0.745279)
    >>> density.integrate_box_1d(-fg.numpy.inf, 0.0).round(6)
    Tensor(0.414436)
    """

    __slots__ = ("dataset", "factor", "weights")

    dataset: Tensor
    weights: Tensor
    factor: Tensor

    def __init__(
        self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None
    ) -> None:
        others = () if weights is None else (weights,)
        samples, *shares = real_numbers("gaussian_kde", dataset, *others)
        samples = fnp.atleast_2d(samples)
        count = samples.shape[-1]
        if samples.ndim != 2 or count < 2:
            raise ShapeError(
                f"gaussian_kde: the dataset has the shape {samples.shape}; it needs at least two"
                " samples along the last axis of a vector or a matrix."
            )
        share = shares[0] if shares else fnp.full_like(samples, 1 / count, shape=(count,))
        if share.shape != (count,):
            raise ShapeError(
                f"gaussian_kde: weights of shape {share.shape} for {count} samples. Pass one weight"
                " for each sample."
            )
        _set(self, samples, share / fnp.sum(share) if shares else share, samples)
        _set(self, self.dataset, self.weights, self._factor_by(bw_method))

    def __setattr__(self, name: str, value: object) -> None:
        raise ImmutableError("gaussian_kde: an estimate does not change. Make another one.")

    def __repr__(self) -> str:
        return f"gaussian_kde of {self.n} samples in {self.d} dimensions, factor {self.factor}"

    def __reduce__(self) -> Any:
        return self.__tree_unflatten__, (None, self.__tree_flatten__()[0])

    def __tree_flatten__(self) -> tuple[tuple[Tensor, Tensor, Tensor], None]:
        """Data, weights and factor."""
        return (self.dataset, self.weights, self.factor), None

    @classmethod
    def __tree_unflatten__(cls, aux: None, children: Iterable[object]) -> gaussian_kde:
        """An estimate of other data, weights and factor."""
        return _set(object.__new__(cls), *children)

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.dataset.shape[1])

    @property
    def neff(self) -> Tensor:
        """The effective number of samples, the reciprocal of the sum of squared weights."""
        return 1 / fnp.sum(self.weights**2)

    @property
    def covariance(self) -> Tensor:
        """The covariance of a kernel: of the samples, times the square of the factor."""
        centred = self.dataset - fnp.sum(self.weights * self.dataset, axis=1, keepdims=True)
        spread = (self.weights * centred) @ centred.T / (1 - fnp.sum(self.weights**2))
        return spread * self.factor**2

    @property
    def inv_cov(self) -> Tensor:
        """The inverse of ``covariance``."""
        return fnp.linalg.inv(self.covariance)

    def scotts_factor(self) -> Tensor:
        """Scott's factor, ``neff ** (-1 / (d + 4))``."""
        return self.neff ** (-1 / (self.d + 4))

    def silverman_factor(self) -> Tensor:
        """Silverman's factor, ``(neff * (d + 2) / 4) ** (-1 / (d + 4))``."""
        return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))

    covariance_factor = scotts_factor

    def set_bandwidth(self, bw_method: Bandwidth = None) -> gaussian_kde:
        """The estimate with another factor, by the rules of ``bw_method``.

        SciPy's method changes the estimate and returns None; here nothing changes.
        """
        return gaussian_kde(self.dataset, bw_method, self.weights)

    def evaluate(self, points: ArrayLike) -> Tensor:
        """The density at points, of shape (m,) or (d, m): m values."""
        return fnp.exp(self.logpdf(points))

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Tensor:
        """The density; the same as ``evaluate``."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Tensor:
        """The logarithm of the density, also where the density underflows."""
        (points,) = real_numbers("gaussian_kde.logpdf", x)
        points = fnp.atleast_2d(points)
        if points.shape[0] != self.d and points.shape == (1, self.d):
            points = fnp.reshape(points, (self.d, 1))
        if points.ndim != 2 or points.shape[0] != self.d:
            raise ShapeError(
                f"gaussian_kde: points of shape {points.shape} for data of {self.d} dimensions."
                f" Pass an array of shape ({self.d}, m)."
            )
        root = fnp.linalg.cholesky(self.covariance)
        both = fnp.linalg.solve(root, fnp.concatenate([self.dataset, points], axis=1))
        samples, at = both[:, : self.n], both[:, self.n :]
        squares = fnp.sum((at[:, :, None] - samples[:, None, :]) ** 2, axis=0)
        size = fnp.sum(fnp.log(fnp.diagonal(root))) + 0.5 * self.d * math.log(2 * math.pi)
        return logsumexp(-0.5 * squares, axis=1, b=self.weights) - size

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Tensor:
        """The probability between two ends, of a density of one dimension.

        Raises
        ------
        ShapeError
            The data have several dimensions, or an end is not a scalar.
        """
        start, end = real_numbers("gaussian_kde.integrate_box_1d", low, high)
        if self.d != 1 or start.ndim or end.ndim:
            raise ShapeError(
                "gaussian_kde.integrate_box_1d: takes scalars, and data of one dimension; got ends"
                f" of shapes {start.shape} and {end.shape}, and {self.d} dimensions."
            )
        width = fnp.sqrt(self.covariance[0, 0])
        ends = ((x - self.dataset[0]) / width for x in (start, end))
        first, last = (ndtr(z) for z in ends)
        return fnp.sum(self.weights * (last - first))

    def _factor_by(self, bw_method: Bandwidth) -> Tensor:
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            return self.scotts_factor()
        if isinstance(bw_method, str):
            if bw_method == "silverman":
                return self.silverman_factor()
            raise ArgumentError(
                f'gaussian_kde: bw_method is {bw_method!r}. It is "scott", "silverman", a number,'
                " or a function of the estimate."
            )
        factor = bw_method(self) if callable(bw_method) else bw_method
        return fnp.asarray(factor, dtype=self.dataset.dtype)


def _set(estimate: gaussian_kde, dataset: object, weights: object, factor: object) -> gaussian_kde:
    values = {"dataset": dataset, "weights": weights, "factor": factor}
    for name, value in values.items():
        object.__setattr__(estimate, name, value)
    return estimate
