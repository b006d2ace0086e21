"""Errors for names and options of other libraries, which say what to write instead.

Modules use ``missing_from`` for missing names, and functions ``answering`` for calls that do not
fit their signature. The hints are rows of ``other_libraries`` and ``other_options``.

>>> import funcgrad as fg
>>> fg.random.clone(0)
Traceback (most recent call last):
funcgrad.errors.MissingAttributeError: fg.random has no clone: fg.random.again(key).
>>> fg.optim.adam(lr=0.1)
Traceback (most recent call last):
funcgrad.errors.MissingOptionError: adam has no option lr: learning_rate=.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial, wraps
from opcode import opmap
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from funcgrad._base.users_line import shorten
from funcgrad.errors import MissingAttributeError

F = TypeVar("F", bound=Callable[..., object])


def missing_from(module: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module: it raises an error, with a replacement if one is known.

    Former names of the module still work, with a warning.

    Put it behind ``if not TYPE_CHECKING``: type checkers accept any name of a module with
    ``__getattr__``.
    """

    return partial(former_or_missing, module)


def former_or_missing(module: str, name: str) -> Any:
    """Find the object that a module had under a former name, with a warning.

    Raises
    ------
    AttributeError, ImportError
        The module never had that name; the error is ``missing_name``'s.
    """
    if not name.startswith("_"):
        from funcgrad._hints.deprecations import former_value

        value = former_value(module, name)
        if value is not None:
            return value
    raise missing_name(module, name)


def missing_name(module: str, name: str) -> Exception:
    """The error for a name that a module lacks: ``ImportError`` in an import statement.

    Python would turn an ``AttributeError`` into an ``ImportError`` without the advice.
    """
    from funcgrad._hints.other_libraries import advice_of_name, as_written, nearest

    advice = advice_of_name(module, name)
    if advice:
        if _is_imported():
            return ImportError(f"cannot import name {name!r} from {module!r}: {advice}.", name=name)
        words = f"{as_written(module)} has no {name}: {advice}."
        return MissingAttributeError(words, name)
    words = f"module {module!r} has no attribute {name!r}"
    close = "" if name.startswith("_") else nearest(name, dir(sys.modules[module]))
    if close and _is_imported():
        words = f"cannot import name {name!r} from {module!r}. Did you mean {close!r}?"
        return ImportError(words, name=name)
    if close:  # better than Python's guess: swapped neighbours count as one mistake
        return AttributeError(f"{words}. Did you mean {close!r}?", name=name)
    return AttributeError(words, name=name)


def _is_imported() -> bool:
    """Whether ``from module import name`` looks up the name."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
            return True
        frame = frame.f_back
    return False


_FRAMES: Final = 5
"""The maximum number of calls from the statement to the error, through ``__getattr__``."""


def missing_method(kind: str, instance: object, name: str) -> AttributeError:
    """The error for an attribute that objects of a kind lack."""
    from funcgrad._hints.other_libraries import NAMES, advice_in

    advice = advice_in(NAMES, kind, name)
    if advice:
        words = f"{kind} have no {name}: {advice}."
        return MissingAttributeError(words, name)
    words = f"{type(instance).__name__!r} object has no attribute {name!r}"
    return AttributeError(words, name=name, obj=instance)


def answering(function: F, name: str = "", decorates: bool = False) -> F:
    """Wrap a function so that a call with wrong arguments raises an error with advice.

    Parameters
    ----------
    function : callable
    name : str
        The function's name in errors; by default its ``__name__``.
    decorates : bool
        Whether a call with options only makes a decorator, see ``decorating``.
    """
    name = name or function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def answered(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            behind = error.__traceback__
            if behind is not None and behind.tb_next is None:  # the function has not started
                if decorates and not args and _has(function, kwargs):
                    return partial(answered, **kwargs)
                from funcgrad._hints.other_options import refusal

                raise refusal(function, name, args, kwargs, error) from None
            shorten(error)
            raise
        except Exception as error:
            shorten(error)
            raise

    return answered  # type: ignore[return-value]  # it takes and returns what the function does


def answering_as(name: str) -> Callable[[F], F]:
    """Make the decorator ``answering`` for a method that users know by another name.

    >>> @answering_as("Layer")
    ... def __call__(x): ...
    >>> __call__(1, training=True)
    Traceback (most recent call last):
    ...
    funcgrad.errors.MissingOptionError: Layer has no option training: the arguments are x.
    """
    return lambda function: answering(function, name)


def decorating(transformation: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a transformation of ``f``: it is a decorator, with options and without.

    >>> import funcgrad as fg
    >>> @fg.vmap(in_axes=(0, None))
    ... def scaled(x, factor):
    ...     return x * factor
    >>> scaled(fg.tensor([1.0, 2.0]), 3.0)
    Tensor([3., 6.])
    """
    return answering(transformation, decorates=True)


def _has(transformation: Callable[..., object], options: Iterable[str]) -> bool:
    """Whether a call with these options lacks nothing but the function."""
    code: CodeType = transformation.__code__
    return {*options} <= {*code.co_varnames[1 : code.co_argcount]}
