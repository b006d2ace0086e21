"""Suites of checks: each part has a name and a promise, and a report lists all that are broken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad.errors import ArgumentError, CheckError


@dataclass(frozen=True, slots=True)
class Promise:
    """A part of a suite.

    Attributes
    ----------
    name : str
        What ``without`` calls it.
    sentence : str
        True of every subject that keeps the promise.
    check : callable
        Raises whatever it finds.
    """

    name: str
    sentence: str
    check: Callable[[], None]


def run_suite(
    operation: str, title: str, promises: Sequence[Promise], without: Collection[str]
) -> None:
    """Check all promises but those that are left out; raise one error for all that are broken."""
    names = [promise.name for promise in promises]
    if isinstance(without, (str, np.ndarray)) or not isinstance(without, Collection):
        unknown: object = repr(without)
    else:
        unknown = [name for name in without if name not in names]
    if unknown:
        raise ArgumentError(
            f"{operation}: without names {unknown}, no collection of promises. Choose of"
            f" {', '.join(names)}."
        )
    tried = [promise for promise in promises if promise.name not in without]
    broken = [(promise, text) for promise in tried if (text := _broken(promise)) is not None]
    if broken:
        lines = [f"{operation}: {title} breaks {len(broken)} of {len(tried)} promises."]
        for promise, text in broken:
            lines += ["", f"{promise.name}: {promise.sentence}"]
            lines += [f"  {line}" for line in text.splitlines()]
        raise CheckError("\n".join(lines))


def _broken(promise: Promise) -> str | None:
    """Make a check; say what it raised, if it did. A subject may raise anything."""
    with quiet():
        try:
            promise.check()
        except CheckError as error:
            return str(error)
        except Exception as error:
            lines = str(error).strip().splitlines() or ["without a word"]
            return f"{type(error).__name__}: {' '.join(lines)}"
    return None
