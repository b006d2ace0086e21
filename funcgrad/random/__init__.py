"""Random numbers as a function of an explicit key: no seed and no state is hidden anywhere.

A key is an immutable value, a uint64 tensor of shape (2,). The same key gives the same numbers,
always, on every machine and in every version: a key is for one use. Where more randomness is
needed, make more keys of it:

>>> import funcgrad.random as random
>>> key = random.key(0)
>>> key, subkey = random.split(key)
>>> random.normal(subkey, (2,))
Tensor([-0.88034723,  0.40492615])

``split`` makes keys that go different ways; ``fold_in`` makes one for each number of a count, such
as the step of a training loop. What a key was used for cannot be seen from the key, so no error
tells of a key that is used twice, as in the first line here:

>>> bool(random.uniform(key) == random.uniform(key))
True
>>> first, second = random.split(key)
>>> bool(random.uniform(first) == random.uniform(second))
False

Keys are arrays: ``fg.vmap`` over the rows of ``split(key, n)`` draws as a loop over them does.
Distributions are differentiable in their parameters, and discrete ones have zero derivatives.

How it is made: the Philox cipher encrypts the numbers 0, 1, 2, ... under the key; the first words
of this stream, 64 bits each, become the elements in order, one word an element (two for integers
and for complex numbers). A longer shape begins with the same numbers, and a lower precision has the
same numbers, rounded.
"""

from typing import TYPE_CHECKING

from funcgrad.foreign_names import missing_from as _missing_from
from funcgrad.random.continuous import (
    exponential,
    gumbel,
    normal,
    truncated_normal,
    uniform,
)
from funcgrad.random.discrete import bernoulli, categorical, choice, permutation, randint
from funcgrad.random.keys import bits, fold_in, key, split

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)


def __dir__() -> list[str]:
    """The public names alone, for completion; modules that hold parts are not among them."""
    return list(__all__)
