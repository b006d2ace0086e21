"""Count how often machine code leaves for Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from funcgrad._hooks.evaluations import CALLED_BACK


@contextmanager
def called_back() -> Iterator[Counter[str]]:
    """Count the operations that machine code calls back, while jitted functions run.

    ``lower(...).source`` says which operations are called back at each call, and which at times.
    This counts how often it happens, for example because a result is not finite.

    Yields
    ------
    collections.Counter
        The numbers of evaluations by Python, by the names of operations. Empty if all work was done
        by machine code. It counts calls of this thread, or of this task.

    See Also
    --------
    funcgrad.jit : Functions as machine code, with ``funcgrad[native]``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> quotients = fg.jit(lambda x: fnp.sum(fg.scipy.special.exprel(x)), backend="native")
    >>> with called_back() as counts:
    ...     _ = [quotients(fnp.ones(3)) for _ in range(5)]
    >>> counts
    Counter({'exprel': 5})
    """
    counter: Counter[str] = Counter()
    token = CALLED_BACK.set(counter)
    try:
        yield counter
    finally:
        CALLED_BACK.reset(token)
