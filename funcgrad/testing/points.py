"""Points that know the function: arguments at which no operation is near a kink.

Every operation that a function performs declares how far its arguments are from its kinks, ties,
jumps and poles, and from the ends of its domain. Points are moved until all are far enough, so none
is rejected:

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> away_from_kinks(lambda x: fnp.max(abs(x)), fg.tensor([0.0, 2.0, 2.0]))
(Tensor([0.015, 2.002, 2.   ]),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import is_inexact
from funcgrad._transforms.arguments import argument_name, check_function, is_whole, values_of
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import real_number
from funcgrad.testing.moving import Mover


def away_from_kinks(
    f: Callable[..., Any], *args: Any, margin: float = 1e-3, seed: int = 0
) -> tuple[Any, ...]:
    """Move arguments so that no operation of a function is near a kink.

    Parameters
    ----------
    f : callable
        A function of pytrees. It runs some times, operation by operation, also inside of jitted
        functions, loops and branches.
    *args : pytrees
        Where to begin. Real and complex numbers move; integers and truth values stay.
    margin : float
        How far the arguments of each operation shall be from its kinks, ties, jumps and poles, and
        from the ends of its domain. Where the operation's arguments change faster than those of
        ``f``, they are further away, if that is possible.
    seed : int
        The seed of the starts that are tried where no point is found near the arguments. The same
        arguments and seed always give the same point.

    Returns
    -------
    tuple of pytrees
        The arguments, of the same kinds and dtypes; unchanged if they were good enough.

    Raises
    ------
    ArgumentError
        No such point was found. The message names the operation, its line and the distance. Or
        ``margin`` or ``seed`` is invalid, or no argument has real or complex numbers.

    Notes
    -----
    A distance that does not change with the arguments, such as that between two zeros of ``relu``,
    is no obstacle, provided that the operation is at no kink at other points.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> away_from_kinks(lambda x, y: fnp.sqrt(x) * fnp.maximum(x, y), 1.0, 1.0)
    (1.02, 0.99)
    >>> away_from_kinks(lambda x, y: fnp.sqrt(x) * fnp.maximum(x, y), 1.0, 2.0)
    (1.0, 2.0)
    """
    return mover_of("away_from_kinks", f, args, margin).moved(_seed("away_from_kinks", seed))


def _seed(operation: str, seed: int) -> int:
    """Return a seed, or refuse it."""
    if not is_whole(seed) or seed < 0:
        raise ArgumentError(
            f"{operation}: seed has to be an integer that is not negative, got {seed!r}."
        )
    return index(seed)


def mover_of(operation: str, f: Callable[..., Any], args: Sequence[Any], margin: float) -> Mover:
    """Read a user's function and arguments.

    Raises
    ------
    ArgumentError
        No argument has real or complex numbers, or the margin is not positive.
    DtypeError
        The margin is no real number.
    """
    check_function(operation, f)
    width = real_number(margin, operation, "margin")
    if not 0 < width < np.inf:
        raise ArgumentError(f"{operation}: margin has to be positive and finite, got {margin!r}.")
    for position, arg in enumerate(args):
        name = argument_name(f, position)
        leaves, structure = pytrees.flatten(arg)
        values_of(operation, leaves, structure, partial(str, name))
    leaves, structure = pytrees.flatten(tuple(args))
    movable = [k for k, leaf in enumerate(leaves) if is_inexact(np.asarray(leaf).dtype)]
    if not movable:
        raise ArgumentError(
            f"{operation}: no argument has real or complex numbers, so there is nothing to move."
            " Pass 2.0 rather than 2."
        )
    return Mover(operation, f, tuple(leaves), structure, tuple(movable), width)
