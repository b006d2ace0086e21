"""Keys: make one from a seed, several from one, and random bits from each.

>>> key(7)
Tensor([7, 0], dtype=uint64)
"""

from __future__ import annotations

import math
from hashlib import blake2b
from operator import index
from typing import Final

import numpy as np

from funcgrad._core.specs import ShapeLike, dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import SPLIT
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, LeafError, ShapeError
from funcgrad.numpy import stack
from funcgrad.random.philox import as_shape, folded_key, random_words
from funcgrad.tensor.tensor import Tensor, wrap

_WORD: Final = np.dtype(np.uint64)


@answering
def key(seed: ArrayLike) -> Tensor:
    """Make a key from a seed.

    Parameters
    ----------
    seed : int
        An integer from 0 to 2**128 - 1, inside ``vmap`` also a 0-d integer tensor. Different seeds
        give different keys; seeds need not look random.

    Returns
    -------
    Tensor of shape (2,), uint64

    Raises
    ------
    ArgumentError
        The seed is negative or too large.
    DtypeError
        The seed is not an integer.

    Examples
    --------
    >>> key(2**64 + 5)
    Tensor([5, 1], dtype=uint64)
    """
    value = _integer(seed, "key", "seed", 2**128)
    if type(value) is int:
        return wrap(np.array([value % 2**64, value >> 64], np.uint64))
    # A traced seed has 64 bits.
    return stack([wrap(cast(value, dtype=_WORD)), wrap(np.uint64(0))])


PRNGKey = key
"""JAX's name of ``key``."""


@answering
def split(key: ArrayLike, num: ShapeLike = 2) -> Tensor:
    """Make new keys, independent of each other and of the old one.

    Parameters
    ----------
    key : key
        The old key, which should not be used again.
    num : int or tuple of int
        The number of keys. A greater number begins with the same keys.

    Returns
    -------
    Tensor of shape (num, 2), uint64
        A key in each row, so that ``first, second = split(key)`` works.

    Raises
    ------
    ShapeError
        ``num`` is not an integer, or negative.

    Examples
    --------
    >>> first, second = split(key(0))
    >>> split(key(0), 3).shape
    (3, 2)
    """
    return random_words(key, (*as_shape(num, "split"), 2), "split", SPLIT)


@answering
def fold_in(key: ArrayLike, data: ArrayLike) -> Tensor:
    """Make a new key from a key and an integer, such as the index of a training step or a layer.

    Parameters
    ----------
    key : key
    data : int
        An integer from 0 to 2**64 - 1, inside ``vmap`` also a 0-d integer tensor.

    Returns
    -------
    Tensor of shape (2,), uint64

    Raises
    ------
    ArgumentError
        The integer is negative or too large.
    DtypeError
        ``data`` is not an integer.

    Examples
    --------
    >>> step_key = fold_in(key(0), 17)
    >>> bool((step_key == fold_in(key(0), 18)).any())
    False
    """
    number = _integer(data, "fold_in", "data", 2**64)
    if type(number) is int:
        number = np.uint64(number)
    return folded_key(key, number, "fold_in")


@answering
def named(key: ArrayLike, name: str) -> Tensor:
    """Make a new key from a key and a name, such as the name of a layer or a purpose.

    Parameters
    ----------
    key : key
    name : str

    Returns
    -------
    Tensor of shape (2,), uint64
        ``fold_in`` of a hash of the name: the first 8 bytes, little-endian, of BLAKE2b of its
        UTF-8 bytes. It is the same in every process and in every version.

    Raises
    ------
    ArgumentError
        The name is not a string.

    Examples
    --------
    >>> dropout_key = named(key(0), "dropout")
    >>> dropout_key
    Tensor([14688111357239820784,  5920064566028329813], dtype=uint64)
    """
    if not isinstance(name, str):
        raise ArgumentError(
            f"named: the name has to be a string, got {name!r}. For a number, use fold_in."
        )
    digest = blake2b(name.encode(), digest_size=8).digest()
    return fold_in(key, int.from_bytes(digest, "little"))


@answering
def bits(key: ArrayLike, shape: ShapeLike = ()) -> Tensor:
    """Draw uniformly distributed 64-bit words.

    Parameters
    ----------
    key : key
    shape : int or tuple of int

    Returns
    -------
    Tensor of uint64

    Examples
    --------
    >>> bits(key(0), 2)
    Tensor([ 1609277786247541068, 15789900245555285980], dtype=uint64)
    """
    return random_words(key, as_shape(shape, "bits"), "bits")


def _integer(number: ArrayLike, operation: str, name: str, limit: int) -> Value:
    """Check an argument: a Python integer in a range, or a traced 0-d integer."""
    expected = f"{operation}: {name} has to be an integer from 0 to 2**{int(math.log2(limit))} - 1"
    if isinstance(number, (bool, np.bool_)):
        raise DtypeError(f"{expected}, got the boolean {number}.")
    try:
        value = number if type(number) is int else operand(number, operation)
    except LeafError:
        raise DtypeError(f"{expected}, got {number!r}.") from None
    if type(value) is not int and dtype_of(value).kind not in "iu":
        raise DtypeError(f"{expected}, got {_described(number)}.")
    if shape_of(value):
        raise ShapeError(f"{expected}, got an array of shape {shape_of(value)}: use fg.vmap.")
    if isinstance(value, Tensor) and value._trace is not None:
        return value
    concrete = index(value)
    if not 0 <= concrete < limit:
        raise ArgumentError(f"{expected}, got {concrete}.")
    return concrete


def _described(x: object) -> str:
    return f"{x!r}" if isinstance(x, (int, float, complex)) else f"an array of {dtype_of(x)}"
