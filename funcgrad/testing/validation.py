"""``validated``: try every pass of the compiler on values, while functions are compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from funcgrad._hooks.requested_checks import VALIDATED


@contextmanager
def validated() -> Iterator[None]:
    """Check each pass of the compiler on values while functions are compiled.

    ``jit`` rewrites a program by passes before it runs. Within this context each program is run
    before and after each pass, on draws from the samples that operations declare and on edges (NaN,
    infinities, zeros of both signs), and the results are compared as ``NUMBERS.md`` promises: bit
    for bit, or with sums up to rounding. ``FUNCGRAD_VALIDATE=1`` in the environment does the same
    for a whole process, such as a test suite.

    Functions that were compiled before are not compiled again. Programs with prints, functions of
    other libraries, loops whose length depends on values, partitions, or more than 200,000 elements
    are not tried as a whole, but the bodies of their loops and branches are. Compiling takes some
    ten times as long.

    Yields
    ------
    None

    Raises
    ------
    CheckError
        In the context, by the call that compiles: a pass changes a result. The error names the pass
        and the rule, and shows the smallest program on which they go wrong. Please report it.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> with fg.testing.validated():
    ...     fg.jit(fg.grad(lambda x: fnp.sum(fnp.sin(x) * x)))(fg.tensor([1.0, 2.0]))
    Tensor([1.38177329, 0.07700375])
    """
    token = VALIDATED.set(True)
    try:
        yield
    finally:
        VALIDATED.reset(token)
