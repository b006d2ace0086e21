"""Probability distributions under SciPy's names: densities, distribution functions, quantiles.

They are differentiable in the value and in every parameter, and take SciPy's arguments: the shape
parameters by their names or in their order, then ``loc`` and ``scale``. Outside of its support a
density is 0 and its logarithm -inf, with derivatives 0; at an end of the support derivatives are
the limits from inside. Invalid parameters give NaN, as in SciPy. ``norm(loc, scale)`` is a
distribution with fixed parameters.

>>> import funcgrad as fg
>>> from funcgrad.scipy.stats import norm
>>> fg.grad(norm.logpdf, argnums=(0, 1, 2))(1.0, 0.0, 2.0)
(Tensor(-0.25), Tensor(0.25), Tensor(-0.375))
>>> fg.grad(lambda scale: norm(0.0, scale).logpdf(1.0))(2.0)
Tensor(-0.375)
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.scipy.stats.circular import vonmises, wrapcauchy
from funcgrad.scipy.stats.densities import cauchy, expon, laplace, logistic, lognorm, norm, uniform
from funcgrad.scipy.stats.kernel_density import gaussian_kde
from funcgrad.scipy.stats.masses import bernoulli, betabinom, binom, geom, nbinom, poisson
from funcgrad.scipy.stats.multivariate import dirichlet, multinomial, multivariate_normal
from funcgrad.scipy.stats.normal_relatives import gennorm, skewnorm, truncnorm
from funcgrad.scipy.stats.ranks import mode, rankdata, sem
from funcgrad.scipy.stats.shaped import beta, chi2, f, gamma, invgamma, t
from funcgrad.scipy.stats.tails import (
    genextreme,
    gumbel_l,
    gumbel_r,
    halfnorm,
    pareto,
    rayleigh,
    weibull_min,
)

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "f",
    "gamma",
    "gaussian_kde",
    "genextreme",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "mode",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "rankdata",
    "rayleigh",
    "sem",
    "skewnorm",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "weibull_min",
    "wrapcauchy",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
