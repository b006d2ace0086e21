"""Calls of every function that draws random numbers.

>>> distributions()["fg.random.key"].args
(0,)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad as fg
from tests.differential.working_sample import Sample

PARAMETERS = {
    "again": (),
    "bernoulli": (0.5, (2,)),
    "beta": (2.0, 3.0, (2,)),
    "binomial": (9, 0.4, (2,)),
    "bits": ((2,),),
    "categorical": ([0.0, 1.0],),
    "brownian": (0.5, (2,)),
    "cauchy": ((2,), "float64", 0.5, 2.0),
    "chisquare": (3.0, (2,)),
    "choice": (5, (2,)),
    "choice (of an array)": ([1.0, 2.0, 3.0], (2,), False, [0.2, 0.3, 0.5]),
    "dirichlet": ([1.0, 2.0], (2,)),
    "exponential": ((2,),),
    "fold_in": (1,),
    "gamma": (2.0, (2,)),
    "geometric": (0.3, (2,)),
    "gumbel": ((2,),),
    "halton": (3, 2, 1),
    "laplace": ((2,), "float64", 0.5, 2.0),
    "loggamma": (2.0, (2,)),
    "logistic": ((2,), "float64", 0.5, 2.0),
    "lognormal": ((2,), "float64", 0.5, 2.0),
    "multinomial": (9, [1.0, 2.0], (2,)),
    "multivariate_normal": ([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], (2,)),
    "named": ("dropout",),
    "normal": ((2,),),
    "orthogonal": (2, (2,)),
    "pareto": (3.0, (2,)),
    "permutation": (np.eye(3),),
    "poisson": (4.0, (2,)),
    "rademacher": ((2,),),
    "randint": ((2,), 0, 5),
    "rayleigh": ((2,),),
    "sobol": (3, 2, 1),
    "split": (),
    "t": (4.0, (2,)),
    "truncated_normal": (-1.0, 1.0),
    "uniform": ((2,),),
    "ball": (3, 2.0, (2,)),
    "f": (3.0, 10.0, (2,)),
    "generalized_normal": (4.0, (2,)),
    "maxwell": ((2,),),
    "triangular": (0.0, 1.0, 4.0, (2,)),
    "wald": (2.0, (2,)),
    "weibull": (2.0, (2,)),
}
"""By function, the arguments behind the key."""


def distributions() -> dict[str, Sample]:
    """Random numbers."""
    key = fg.random.key(0)
    made = {
        "check_keys": Sample(fg.random.check_keys, (), then=_drawn_within),
        "Generator": Sample(fg.random.Generator, (key, fg.tensor(0)), then=_next_draw),
        "generator": Sample(fg.random.generator, (0,), then=_next_draw),
        "key": Sample(fg.random.key, (0,)),
        "PRNGKey": Sample(fg.random.PRNGKey, (0,)),
    }
    for name, parameters in PARAMETERS.items():
        made[name] = Sample(getattr(fg.random, name.split(" ")[0]), (key, *parameters))
    return {f"fg.random.{name}": sample for name, sample in made.items()}


def _drawn_within(check: Any) -> Any:
    with check:
        return fg.random.normal(fg.random.key(0))


def _next_draw(rng: Any) -> Any:
    return rng.normal((2,))[0]
