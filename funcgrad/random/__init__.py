"""Random numbers as functions of an explicit key, without a hidden seed or state.

A key is an immutable value, a uint64 tensor of shape (2,). The same key always gives the same
samples, on every machine and in every version, so use each key once. Make more keys from it:

>>> import funcgrad.random as random
>>> key = random.key(0)
>>> key, subkey = random.split(key)
>>> random.normal(subkey, (2,))
Tensor([-0.88034723,  0.40492615])

``split`` makes independent keys; ``fold_in`` makes a key for an integer, such as the step of a
training loop, and ``named`` one for a name. ``generator`` wraps a key and a count in a value with
NumPy's methods. A key does not record its uses, so using it twice is an error only within ``with
check_keys():``, and not in the first line here.

>>> bool(random.uniform(key) == random.uniform(key))
True
>>> first, second = random.split(key)
>>> bool(random.uniform(first) == random.uniform(second))
False

Keys are arrays: ``fg.vmap`` over the rows of ``split(key, n)`` draws the same as a loop over them.
Samples are differentiable with respect to parameters of continuous distributions; samples of
discrete distributions have zero derivatives.

The Philox cipher encrypts the integers 0, 1, 2, ... under the key. The words of this stream, 64
bits each, become the elements in order: one word for each element (two for integers and complex
numbers). A longer shape begins with the same elements, and a lower precision has the same elements,
rounded.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.random.brownian_paths import brownian
    from funcgrad.random.continuous import exponential, gumbel, normal, truncated_normal, uniform
    from funcgrad.random.count_draws import binomial, geometric, multinomial, poisson, rademacher
    from funcgrad.random.discrete import bernoulli, categorical, choice, permutation, randint
    from funcgrad.random.gamma_family import beta, chisquare, dirichlet, f, gamma, loggamma, t
    from funcgrad.random.generators import Generator, generator
    from funcgrad.random.key_checks import again, check_keys
    from funcgrad.random.keys import PRNGKey, bits, fold_in, key, named, split
    from funcgrad.random.low_discrepancy import halton, sobol
    from funcgrad.random.quantile_draws import (
        cauchy,
        laplace,
        logistic,
        lognormal,
        pareto,
        rayleigh,
        triangular,
        weibull,
    )
    from funcgrad.random.relatives_of_normal import ball, generalized_normal, maxwell, wald
    from funcgrad.random.vector_draws import multivariate_normal, orthogonal

__all__ = [
    "Generator",
    "PRNGKey",
    "again",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "brownian",
    "categorical",
    "cauchy",
    "check_keys",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "generator",
    "geometric",
    "gumbel",
    "halton",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "named",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "sobol",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull",
]

_LATE = _LateNames(
    __name__,
    {
        "brownian_paths": "brownian",
        "continuous": "exponential gumbel normal truncated_normal uniform",
        "count_draws": "binomial geometric multinomial poisson rademacher",
        "discrete": "bernoulli categorical choice permutation randint",
        "gamma_family": "beta chisquare dirichlet f gamma loggamma t",
        "generators": "Generator generator",
        "key_checks": "again check_keys",
        "keys": "PRNGKey bits fold_in key named split",
        "low_discrepancy": "halton sobol",
        "quantile_draws": "cauchy laplace logistic lognormal pareto rayleigh triangular weibull",
        "relatives_of_normal": "ball generalized_normal maxwell wald",
        "vector_draws": "multivariate_normal orthogonal",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules
