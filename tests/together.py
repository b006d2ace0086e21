"""One test of all combinations of some arguments: ``together`` in the place of ``parametrize``.

A test of pytest's takes milliseconds beside what it checks: it is collected by every process, has
fixtures and a report. Where checks take less, one test makes them all, and names each that fails.

>>> apart(False)
>>> @together("x", [2, 3, 5])
... def test_numbers_are_odd(x):
...     assert x % 2
>>> test_numbers_are_odd()
Traceback (most recent call last):
...
ExceptionGroup: 1 of 3 checks fail, for x=2 (1 sub-exception)

``pytest --apart`` makes each check a test with an id, which ``-k`` can choose.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import islice, pairwise, repeat
from typing import Any

import pytest

Test = Callable[..., None]
Case = tuple[str, Mapping[str, Any]]
"""The name of a check, and its arguments."""
_WITH_ID = type(pytest.param())
_NAMED = 50
_SHOWN = 10
_OPTION = {"apart": False}


def apart(yes: bool) -> None:
    """Choose whether ``together`` stands for ``parametrize`` in the modules imported from now."""
    _OPTION["apart"] = yes


def together(
    names: str | tuple[str, ...],
    values: Iterable[Any],
    ids: Any = None,
    pieces: int = 1,
    quick: int | None = None,
) -> Callable[[Test], Any]:
    """Make a decorator that has a test run with every value of an argument, or of several.

    It takes what ``pytest.mark.parametrize`` takes, so that either may stand for the other. A test
    that would take many seconds is made as several ``pieces`` for several processes; each is named
    after its first check and its last. With ``quick``, so many checks are one test, and the others
    are a slow one.
    """
    values = list(values)
    if _OPTION["apart"]:
        first = len(values) if quick is None else quick
        slow = [_slow(value, len(_keys(names))) for value in values[first:]]
        return pytest.mark.parametrize(names, [*values[:first], *slow], ids=ids)
    cases = _cases(names, values, ids)
    if not cases:
        raise ValueError(f"together: there are no values of {names}")

    def decorate(test: Test) -> Any:
        def every(**others: Any) -> None:
            _check(test, cases, others)

        def every_of(**others: Any) -> None:
            _check(test, others.pop(part), others)

        keys = dict.fromkeys(name for _, arguments in cases for name in arguments)
        rest = [p for name, p in inspect.signature(test).parameters.items() if name not in keys]
        if pieces == 1 and quick is None:
            return _like(test, every, rest)
        part = "_".join(["part", *keys])
        rest.append(inspect.Parameter(part, inspect.Parameter.KEYWORD_ONLY))
        ends = [len(cases) * k // pieces for k in range(pieces + 1)]
        parts = [cases[start:end] for start, end in pairwise(ends)]
        if quick is not None:
            parts = [cases[:quick], cases[quick:]]
        of_parts = [f"{several[0][0]} ... {several[-1][0]}" for several in parts]
        marked = parts if quick is None else [parts[0], _slow(parts[1], 1)]
        return pytest.mark.parametrize(part, marked, ids=of_parts)(_like(test, every_of, rest))

    return decorate


Refusal = tuple[Callable[[], Any], type[Exception], str]
"""A call, the class of the error that it raises, and a pattern of the message."""


def refused(cases: Iterable[Refusal] | Mapping[str, Refusal]) -> Any:
    """Make a test that each of the calls raises its error; a mapping names the calls."""
    ids, rows = None, cases
    if isinstance(cases, Mapping):
        ids, rows = list(cases), cases.values()

    @together(("call", "error", "message"), rows, ids)
    def check(call: Callable[[], Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            call()

    return check


def _slow(value: Any, arguments: int) -> Any:
    """The value of one argument or of several, for a slow test."""
    if isinstance(value, _WITH_ID):
        return pytest.param(*value.values, id=value.id, marks=pytest.mark.slow)
    return pytest.param(*(value if arguments > 1 else [value]), marks=pytest.mark.slow)


def _like(test: Test, every: Test, parameters: Sequence[inspect.Parameter]) -> Test:
    wraps(test)(every)
    every.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return every


def _keys(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(names.replace(",", " ").split()) if isinstance(names, str) else names


def _cases(names: str | tuple[str, ...], values: list[Any], ids: Any) -> list[Case]:
    keys = _keys(names)
    given = repeat(None, len(values)) if ids is None or callable(ids) else islice(ids, len(values))
    return [_case(keys, value, each, ids) for value, each in zip(values, given, strict=True)]


def _case(keys: tuple[str, ...], value: Any, given: Any, ids: Any) -> Case:
    """Name a check by its id, or by its arguments."""
    several = value if len(keys) > 1 else (value,)
    if isinstance(value, _WITH_ID):
        if value.marks:
            raise ValueError(f"together: a check cannot have marks of its own, as {value} has")
        given, several = value.id, value.values
    arguments = dict(zip(keys, several, strict=True))
    if given is not None:
        return str(given), arguments
    named = ids if callable(ids) else lambda x: None
    words = [f"{key}={named(x) or _short(x)}" for key, x in arguments.items()]
    return ", ".join(words), arguments


def _check(test: Test, cases: list[Case], others: Mapping[str, Any]) -> None:
    """Run a test with all cases, and raise the failures of all."""
    failures: list[Exception] = []
    told: list[str] = []
    skipped: list[str] = []
    for name, arguments in cases:
        try:
            test(**arguments, **others)
        except pytest.skip.Exception as reason:
            skipped.append(f"{name}: {reason}")
        except (Exception, pytest.fail.Exception) as error:
            told.append(name)
            failures.append(_with_note(error, f"with {name}"))
            if "pytest-timeout" in str(error):  # the time was for all
                break
    if failures:
        places = "; ".join(told[:_NAMED]) + "; ..." * (len(told) > _NAMED)
        text = f"{len(failures)} of {len(cases)} checks fail, for {places}"
        raise ExceptionGroup(text, failures[:_SHOWN])
    if len(skipped) == len(cases):
        pytest.skip(f"all of {len(cases)} checks, {skipped[0]}")


def _with_note(error: BaseException, note: str) -> Exception:
    if not isinstance(error, Exception):  # as pytest's own failures are
        error = AssertionError(str(error)).with_traceback(error.__traceback__)
    error.add_note(note)
    return error


def _short(x: object) -> str:
    name = getattr(x, "__name__", None)
    return name if isinstance(name, str) else repr(x)[:60]
