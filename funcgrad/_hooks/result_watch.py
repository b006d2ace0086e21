"""The hook by which ``fg.debug`` watches the results of transformed functions.

The watch is in a context variable, which is None elsewhere. Reading it takes 30 to 70 ns, so
nobody reads it before somebody has looked for the first time (``WATCHING``).

>>> class Loud(ResultWatch):
...     def called(self, operation, call, args, kwargs):
...         print(operation)
...         with unwatched():
...             return call(*args, **kwargs)
>>> import funcgrad as fg
>>> with watched_by(Loud()):
...     fg.grad(lambda x: fg.grad(lambda y: x * y * y)(x))(3.0)
grad
Tensor(12.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from funcgrad._base.users_line import shorten

P = ParamSpec("P")
R = TypeVar("R")


class ResultWatch:
    """Intercepts the calls of transformed functions."""

    __slots__ = ()

    def called(
        self,
        operation: str,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Make a call of a transformed function, and return its result.

        Parameters
        ----------
        operation : str
            The transformation, such as ``"grad"``.
        call : callable
            The function itself, whose call is not intercepted again.
        args, kwargs
        """
        raise NotImplementedError

    def called_jitted(
        self,
        function: Callable[..., Any],
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Make a call of a jitted function; ``function`` is the user's function."""
        return self.called("jit", call, args, kwargs)

    def steps(self) -> tuple[tuple[str, int], ...]:
        """The running loops and their current steps, for computations that run again later."""
        return ()


WATCH: Final[ContextVar[ResultWatch | None]] = ContextVar("funcgrad_result_watch", default=None)
"""The watch of this context, or None."""


class Watching:
    """Whether any context of this process has ever had a watch.

    Attributes
    ----------
    begun : bool
    """

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


WATCHING: Final = Watching()
"""Read before ``WATCH``, since reading it is ten times as fast."""


@contextmanager
def watched_by(watch: ResultWatch | None) -> Iterator[None]:
    """Within this context, let a watch (or None) intercept calls."""
    WATCHING.begun = True
    token = WATCH.set(watch)
    try:
        yield
    finally:
        WATCH.reset(token)


def unwatched() -> Any:
    """Within this context, calls are not intercepted, since they are inside an intercepted call."""
    return watched_by(None)


def watched(function: Callable[P, R]) -> Callable[P, R]:
    """Let the watch, if any, intercept the calls of a function."""
    name = function.__name__

    @wraps(getattr(function, "__wrapped__", function))  # beneath the wrapper for hints
    def met(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if not WATCHING.begun or (watch := WATCH.get()) is None:
                return function(*args, **kwargs)
            return watch.called(name, function, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    return met
