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
from funcgrad.scipy.stats.densities import (
    cauchy,
    expon,
    laplace,
    logistic,
    lognorm,
    norm,
    uniform,
)
from funcgrad.scipy.stats.masses import bernoulli, binom, geom, nbinom, poisson
from funcgrad.scipy.stats.multivariate import dirichlet, multivariate_normal
from funcgrad.scipy.stats.shaped import beta, chi2, gamma, t
from funcgrad.scipy.stats.tails import (
    gumbel_l,
    gumbel_r,
    halfnorm,
    pareto,
    weibull_min,
)

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfnorm",
    "laplace",
    "logistic",
    "lognorm",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "uniform",
    "weibull_min",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
