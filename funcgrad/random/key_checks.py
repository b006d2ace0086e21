"""Find keys that are used twice for random numbers.

>>> from funcgrad.random.continuous import normal, uniform
>>> from funcgrad.random.keys import key
>>> with check_keys():
...     x = normal(key(0))
...     y = normal(again(key(0)))  # the same number, as is wanted
>>> bool(x == y)
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from funcgrad._core.users_values import ArrayLike
from funcgrad._hooks.key_uses import KEY_USES, KeyUses, current_uses
from funcgrad.random.philox import apart, as_key, numbers_of
from funcgrad.tensor.tensor import Tensor, wrap


@contextmanager
def check_keys() -> Iterator[None]:
    """Raise an error when a key is used twice for random numbers within this context.

    Yields
    ------
    None

    Raises
    ------
    KeyReuseError
        A key is used twice in the same way: for words of its stream (``normal``, ``uniform``,
        ``randint``, ``permutation``, dropout …), for draws by rejection (``gamma``, ``poisson`` …),
        or by ``split``. These three are independent, so a key may be used once in each way. The
        message names both lines.

    See Also
    --------
    again : allow an intended repetition.

    Notes
    -----
    Keys are compared by value, so it does not matter through which names, closures, examples of
    ``vmap`` or jitted functions a key is reached. One key for all examples of a ``vmap`` is one
    use. Jitted functions that draw run uncompiled. ``fold_in``, ``named``, ``sobol`` and ``halton``
    do not count as uses: they repeat their results on purpose.

    Other threads are checked if they run in a copy of the context, like ``asyncio.to_thread`` and
    the threads of ``fg.parallel``: ``pool.submit(contextvars.copy_context().run, f, x)`` checks
    ``f(x)`` in a thread of a pool. Python starts other threads in an empty context, where draws are
    **not checked**, unless it runs with ``-X thread_inherit_context=1`` (from Python 3.14 on).

    Operations that are repeated for a derivative (by ``checkpoint``, in the backward pass of a
    loop, by ``fg.testing.check_grads``) do not count as second uses. Programs that were compiled
    before are not checked; compiling itself warns (``KeyReuseWarning``) if a program draws from one
    variable twice.

    Examples
    --------
    >>> from funcgrad.random.continuous import normal, uniform
    >>> from funcgrad.random.keys import key
    >>> with check_keys():
    ...     normal(key(0)) + uniform(key(0))
    Traceback (most recent call last):
        ...
    funcgrad.errors.KeyReuseError: uniform: the key was used before, by normal at <doctest ...
    """
    if current_uses() is not None:
        yield
        return
    uses = KeyUses()
    token = KEY_USES.set(uses)
    try:
        yield
    finally:
        uses.is_open = False
        KEY_USES.reset(token)


def again(key: ArrayLike) -> Tensor:
    """Mark a key as reused on purpose, such as for equal noise in two places.

    Parameters
    ----------
    key : key

    Returns
    -------
    Tensor of shape (2,), uint64
        The same key. ``check_keys`` forgets its uses so far, and the uses of all keys made from it;
        in a program it is a new variable.

    Raises
    ------
    DtypeError, ShapeError
        ``key`` is not a key.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> again(key(7))
    Tensor([7, 0], dtype=uint64)
    """
    value = as_key(key, "again")
    uses = current_uses()
    rows = None if uses is None else numbers_of(value)
    if uses is not None and rows is not None:
        for row in rows:
            uses.forget(row.tobytes())
    return wrap(apart(value))
