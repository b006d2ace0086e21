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

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType
from typing import Any, Final, Literal, TypeAlias

from funcgrad.key_uses import KEY_USES, KeyUses, current_uses
from funcgrad.philox import apart, as_key, numbers_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.users_values import ArrayLike


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
    of ``vmap``, jitted functions or threads (those of ``threading`` that begin within the context)
    a key is reached. One key for all examples of a ``vmap`` is one use. Jitted functions that draw
    run without being staged. ``fold_in``, ``named`` and the points of ``sobol`` and ``halton`` are
    no uses: the same number, name or place gives the same result on purpose.

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
    threading.setprofile(_Inheritance(uses, threading.getprofile()))
    try:
        yield
    finally:
        uses.is_open = False
        KEY_USES.reset(token)
        hook = threading.getprofile()
        while isinstance(hook, _Inheritance) and not hook.uses.is_open:
            hook = hook.outer  # contexts of several threads may end in any order
        threading.setprofile(hook)


_Event: TypeAlias = Literal["call", "return", "c_call", "c_return", "c_exception"]
_Profiler: TypeAlias = Callable[[FrameType, _Event, Any], object]


class _Inheritance:
    """Gives new threads the record of keys: a profiling hook, which runs once as a thread begins.

    Threads begin with an empty context, and nothing else is called in them before their function.
    """

    def __init__(self, uses: KeyUses, outer: _Profiler | None) -> None:
        self.uses, self.outer = uses, outer

    def __call__(self, frame: FrameType, event: _Event, arg: object) -> None:
        starter = _starter()
        hook: _Profiler | None = self
        while isinstance(hook, _Inheritance):
            uses, hook = hook.uses, hook.outer
            if (
                KEY_USES.get() is None
                and uses.is_open
                and (starter is None or starter in uses.threads)
            ):
                uses.threads.add(get_ident())
                KEY_USES.set(uses)
        sys.setprofile(hook)
        if hook is not None:
            hook(frame, event, arg)


def _starter() -> int | None:
    """The thread that began this one: it still waits in ``start``; None if it does no more."""
    thread = threading.current_thread()
    for ident, innermost in sys._current_frames().items():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code is _START and frame.f_locals.get("self") is thread:
                return ident
            frame = frame.f_back
    return None


_START: Final = threading.Thread.start.__code__


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
    same: Tensor = wrap(apart(value))
    return same
