"""``max_variants``: check how often a jitted function is staged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from funcgrad._staging.jit import Jitted
from funcgrad.errors import CheckError, FunctionError
from funcgrad.numpy.options import natural


@contextmanager
def max_variants(f: object, n: int) -> Iterator[None]:
    """Check that a jitted function is staged at most ``n`` times within this context.

    Use it to protect a program against slow recompilation, such as a training loop whose last batch
    has another shape.

    Parameters
    ----------
    f : jitted function
    n : int
        The maximum; 0 if the function was called before with the same shapes and dtypes.

    Yields
    ------
    None

    Raises
    ------
    CheckError
        The function was staged more often: shapes or dtypes of arguments change, an ``if`` tests
        values, or an outside value changes.
    FunctionError
        ``f`` is not a jitted function.
    ShapeError
        ``n`` is negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import numpy as np
    >>> f = fg.jit(lambda x: fg.numpy.sum(x * x))
    >>> with max_variants(f, 1):
    ...     for step in range(3):
    ...         y = f(np.full(2, float(step)))
    >>> with max_variants(f, 1):
    ...     for step in range(3):
    ...         y = f(np.ones(3 + step))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: max_variants: <lambda> was staged 3 times, more than once.
    ...
    """
    if not isinstance(f, Jitted):
        raise FunctionError(
            f"max_variants: f has to be a jitted function, got a {type(f).__name__}. Write"
            " f = fg.jit(f) before."
        )
    most = natural(n, "max_variants", "n")
    before = f.stagings
    yield
    count = f.stagings - before
    if count > most:
        raise CheckError(
            f"max_variants: {f.__name__} was staged {_times(count)}, more than {_times(most)}.\n"
            "It is staged for each combination of structures, shapes, dtypes and static arguments,"
            " for each path through its control flow, and when an outside value that it reads has"
            " changed."
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
