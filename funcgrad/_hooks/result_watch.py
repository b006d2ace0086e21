"""Who looks at the results of transformed functions: ``fg.debug``, where it is in effect.

The watch is in a context variable, which is None elsewhere. Reading it takes 30 to 70 ns, so
nobody reads it before somebody has looked for the first time (``WATCHING``). Machine code of jitted
functions reads NumPy's error state anyway, and ``fg.debug`` chooses another: it looks at its
results itself, and leaves those that are not finite to the watch.

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
    """Meets the calls of transformed functions."""

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
            The function itself, whose call is not met again.
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
        """Make a call of a jitted function; ``function`` is the user's own."""
        return self.called("jit", call, args, kwargs)

    def steps(self) -> tuple[tuple[str, int], ...]:
        """The loops that run, with the numbers of their steps, for what runs again later."""
        return ()


WATCH: Final[ContextVar[ResultWatch | None]] = ContextVar("funcgrad_result_watch", default=None)
"""The watch of this context; None where nobody looks."""


class Watching:
    """Whether any context of this process has had a watch; once it has, that stays so.

    Attributes
    ----------
    begun : bool
    """

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


WATCHING: Final = Watching()
"""Read before ``WATCH``, since it is ten times as quick to read."""


@contextmanager
def watched_by(watch: ResultWatch | None) -> Iterator[None]:
    """Within this context, let a watch meet calls, or none."""
    WATCHING.begun = True
    token = WATCH.set(watch)
    try:
        yield
    finally:
        WATCH.reset(token)


def unwatched() -> Any:
    """Within this context calls are not met: they are inside of one that was."""
    return watched_by(None)


def watched(function: Callable[P, R]) -> Callable[P, R]:
    """Let the watch, where there is one, meet the calls of a function."""
    name = function.__name__

    @wraps(getattr(function, "__wrapped__", function))  # a function with answers to wrong names
    def met(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if not WATCHING.begun or (watch := WATCH.get()) is None:
                return function(*args, **kwargs)
            return watch.called(name, function, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    return met
