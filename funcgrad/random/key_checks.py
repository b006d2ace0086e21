"""Find keys that random numbers are drawn from twice.

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
    """Within this context, raise where random numbers are drawn from one key twice.

    Yields
    ------
    None

    Raises
    ------
    KeyReuseError
        A key is used twice in the same way: for words of its stream (``normal``, ``uniform``,
        ``randint``, ``permutation``, dropout …), for words of draws by rejection (``gamma``,
        ``poisson`` …), or by ``split``. These three have different numbers, so a key may be used
        in each way once. The message has both lines.

    See Also
    --------
    again : a repetition that is wanted.

    Notes
    -----
    Keys are told apart by their numbers, so it does not matter by which names, closures, examples
    of ``vmap`` or jitted functions a key is reached. One key for all examples of a ``vmap`` is one
    use. Jitted functions that draw run without being staged. ``fold_in``, ``named`` and the points
    of ``sobol`` and ``halton`` are no uses: the same number, name or place gives the same result on
    purpose.

    Another thread takes part if it is given the context, as ``asyncio.to_thread`` and the threads
    of ``fg.parallel`` are: ``pool.submit(contextvars.copy_context().run, f, x)`` has ``f(x)``
    checked in a thread of a pool. Python starts other threads in an empty context, where draws are
    **not checked**, unless it runs with ``-X thread_inherit_context=1`` (from Python 3.14 on).

    Operations that are repeated for a derivative, by ``checkpoint`` or in a loop that is run
    backwards, are no second use, nor are the evaluations of ``fg.testing.check_grads``. A program
    that was staged before is not looked into when it is called; staging itself warns
    (``KeyReuseWarning``) where a program draws from one variable twice.

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
    """Say that a key is used again on purpose, as for one noise in two places.

    Parameters
    ----------
    key : key

    Returns
    -------
    Tensor of shape (2,), uint64
        The same key. Within ``check_keys`` the uses that it had so far, and those of all keys that
        were made from it, are forgotten; in a program it is a variable of its own.

    Raises
    ------
    DtypeError, ShapeError
        It is no key.

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
