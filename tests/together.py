"""One test of all combinations of some arguments: ``together`` in the place of ``parametrize``.

A test of pytest's takes milliseconds beside what it checks: it is collected by every process, has
fixtures and a report. Where checks take less, one test makes them all, and reports all that fail.

>>> @together("x", [2, 3, 5])
... def test_numbers_are_odd(x):
...     assert x % 2
>>> test_numbers_are_odd()
Traceback (most recent call last):
...
ExceptionGroup: 1 of 3 checks fail, for x=2 (1 sub-exception)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

__all__ = ["together"]

Test = Callable[..., None]
_SHOWN = 5


def together(
    names: str | tuple[str, ...], values: Iterable[Any], ids: object = None
) -> Callable[[Test], Test]:
    """Make a decorator that has a test run with every value of an argument, or of several.

    It takes what ``pytest.mark.parametrize`` takes, so that either may stand for the other; names
    of values come from their representations, whatever ``ids`` are.
    """
    keys = (names,) if isinstance(names, str) else names
    choices = [dict(zip(keys, (x,) if isinstance(names, str) else x, strict=True)) for x in values]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def every(**others: Any) -> None:
            failures: list[Exception] = []
            told: list[str] = []
            for choice in choices:
                try:
                    test(**choice, **others)
                except pytest.skip.Exception:
                    continue
                except (Exception, pytest.fail.Exception) as error:
                    told.append(", ".join([f"{key}={_short(x)}" for key, x in choice.items()]))
                    if not isinstance(error, Exception):  # as pytest's own failures are
                        error = AssertionError(str(error))
                    error.add_note(f"with {told[-1]}")
                    failures.append(error)
            if failures:
                places = "; ".join(told[:_SHOWN]) + "; ..." * (len(told) > _SHOWN)
                text = f"{len(failures)} of {len(choices)} checks fail, for {places}"
                raise ExceptionGroup(text, failures)

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in keys]
        every.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return every

    return decorate


def _short(x: object) -> str:
    name = getattr(x, "__name__", None)
    return name if isinstance(name, str) else repr(x)[:60]
