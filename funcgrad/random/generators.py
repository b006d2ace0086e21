"""An immutable generator with NumPy's methods; each also returns the next generator.

>>> x, rng = generator(0).normal((3,))
>>> y, rng = rng.integers(2, 0, 10)
>>> rng
Generator(key=u64[2], count=Tensor(2))

Draw k has the key ``fold_in(key, k)``, so a generator is a key and a count: a pytree, which loops
can carry and files can hold. Methods take the arguments of the function except the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from funcgrad._core.pytree_class import pytree
from funcgrad._core.specs import ShapeLike
from funcgrad._core.users_values import ArrayLike
from funcgrad.random import (
    continuous,
    count_draws,
    discrete,
    gamma_family,
    quantile_draws,
    vector_draws,
)
from funcgrad.random import keys as _keys
from funcgrad.random.philox import as_key
from funcgrad.tensor.tensor import Tensor, wrap

P = ParamSpec("P")
R = TypeVar("R")


class _Method(Generic[P]):
    """Turn a function of a key into a method that draws with the generator's next key."""

    def __init__(self, function: Callable[Concatenate[ArrayLike, P], Tensor]) -> None:
        self._function = function

    def __get__(
        self, instance: Generator | None, owner: type[Generator]
    ) -> Callable[P, tuple[Tensor, Generator]]:
        function = self._function

        def method(*args: P.args, **kwargs: P.kwargs) -> tuple[Tensor, Generator]:
            if instance is None:
                raise TypeError(f"Generator.{function.__name__}: call it on a generator.")
            key, following = instance.next_key()
            return function(key, *args, **kwargs), following

        method.__name__ = function.__name__
        method.__doc__ = f"Draw by ``fg.random.{function.__name__}``, without its key."
        return method


@pytree(slots=True)
class Generator:
    """A key and the number of draws made with it: see ``generator``.

    Attributes
    ----------
    key : Tensor of shape (2,), uint64
    count : Tensor of shape (), int64
    """

    key: Tensor
    count: Tensor

    random = _Method(continuous.uniform)
    uniform = _Method(continuous.uniform)
    normal = _Method(continuous.normal)
    standard_normal = _Method(continuous.normal)
    truncated_normal = _Method(continuous.truncated_normal)
    exponential = _Method(continuous.exponential)
    standard_exponential = _Method(continuous.exponential)
    gumbel = _Method(continuous.gumbel)
    laplace = _Method(quantile_draws.laplace)
    logistic = _Method(quantile_draws.logistic)
    standard_cauchy = _Method(quantile_draws.cauchy)
    lognormal = _Method(quantile_draws.lognormal)
    weibull = _Method(quantile_draws.weibull)
    pareto = _Method(quantile_draws.pareto)
    rayleigh = _Method(quantile_draws.rayleigh)
    gamma = _Method(gamma_family.gamma)
    standard_gamma = _Method(gamma_family.gamma)
    chisquare = _Method(gamma_family.chisquare)
    standard_t = _Method(gamma_family.t)
    beta = _Method(gamma_family.beta)
    dirichlet = _Method(gamma_family.dirichlet)
    poisson = _Method(count_draws.poisson)
    binomial = _Method(count_draws.binomial)
    multinomial = _Method(count_draws.multinomial)
    geometric = _Method(count_draws.geometric)
    multivariate_normal = _Method(vector_draws.multivariate_normal)
    integers = _Method(discrete.randint)
    choice = _Method(discrete.choice)
    permutation = _Method(discrete.permutation)
    bernoulli = _Method(discrete.bernoulli)
    categorical = _Method(discrete.categorical)

    def next_key(self) -> tuple[Tensor, Generator]:
        """Take the key of the next draw, for functions that are not methods.

        Returns
        -------
        tuple of Tensor, Generator

        Examples
        --------
        >>> key, rng = generator(0).next_key()
        >>> bool((key == _keys.fold_in(_keys.key(0), 0)).all())
        True
        """
        return _keys.fold_in(self.key, self.count), Generator(self.key, self.count + 1)

    def spawn(self, num: ShapeLike = 2) -> tuple[Tensor, Generator]:
        """Make independent keys for further generators, like ``split``.

        Returns
        -------
        tuple of Tensor, Generator
            Keys of shape (num, 2).

        Examples
        --------
        >>> keys, rng = generator(0).spawn(3)
        >>> workers = [generator(key) for key in keys]
        """
        key, following = self.next_key()
        return _keys.split(key, num), following


def generator(seed: ArrayLike) -> Generator:
    """Make an immutable generator: its methods return a result and the next generator.

    Parameters
    ----------
    seed : int or key
        A seed as for ``key``, or a key.

    Returns
    -------
    Generator

    Raises
    ------
    ArgumentError, DtypeError, ShapeError
        ``seed`` is neither.

    Examples
    --------
    >>> rng = generator(0)
    >>> x, rng = rng.uniform(2)
    >>> y, rng = rng.uniform(2)
    >>> bool((x == y).any())
    False

    Loops carry the generator:

    >>> import funcgrad as fg
    >>> def step(rng, _):
    ...     x, rng = rng.normal()
    ...     return rng, x
    >>> rng, xs = fg.scan(step, generator(0), None, length=3)
    >>> rng.count
    Tensor(3)
    """
    is_key = getattr(seed, "shape", ()) != ()
    key = wrap(as_key(seed, "generator")) if is_key else _keys.key(seed)
    return Generator(key, wrap(np.int64(0)))
