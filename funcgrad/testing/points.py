"""``away_from_kinks``: arguments at which no operation of a function is near a kink.

Every operation declares how far its arguments are from its kinks, ties, jumps and poles, and from
the ends of its domain. Points are moved until all distances are large enough, so no point is
rejected:

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

    Use it before ``check_grads``: at a kink, numerical derivatives are wrong.

    Parameters
    ----------
    f : callable
        A function of pytrees. It runs several times, operation by operation, also inside jitted
        functions, loops and branches.
    *args : pytrees
        The start. Real and complex leaves move; integers and booleans stay.
    margin : float
        The minimum distance of the arguments of each operation from its kinks, ties, jumps and
        poles, and from the ends of its domain. If the operation's arguments change faster than the
        arguments of ``f``, the distance is larger, if possible.
    seed : int
        The seed of further starts, if no point is found near the arguments. The same arguments and
        seed give the same point.

    Returns
    -------
    tuple of pytrees
        The moved arguments, with the same types and dtypes; unchanged if they were far enough from
        kinks.

    Raises
    ------
    ArgumentError
        No such point was found: the message names the operation, its line and the distance. Or
        ``margin`` or ``seed`` is invalid, or no argument is real or complex.

    Notes
    -----
    A distance that does not depend on the arguments, such as the distance between two zeros of
    ``relu``, is ignored if the operation is not at a kink at other points.

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
    """Check a seed."""
    if not is_whole(seed) or seed < 0:
        raise ArgumentError(f"{operation}: seed has to be a non-negative integer, got {seed!r}.")
    return index(seed)


def mover_of(operation: str, f: Callable[..., Any], args: Sequence[Any], margin: float) -> Mover:
    """Check a user's function and arguments.

    Raises
    ------
    ArgumentError
        No argument is real or complex, or the margin is not positive.
    DtypeError
        The margin is not a real number.
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
            f"{operation}: no argument is real or complex, so there is nothing to move. Pass 2.0"
            " rather than 2."
        )
    return Mover(operation, f, tuple(leaves), structure, tuple(movable), width)
