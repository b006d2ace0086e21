"""Suites of checks: named promises, and one report of all broken ones."""

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
        The name in ``without``.
    sentence : str
        The promise in words.
    check : callable
        Raises an error if the promise is broken.
    """

    name: str
    sentence: str
    check: Callable[[], None]


def run_suite(
    operation: str, title: str, promises: Sequence[Promise], without: Collection[str]
) -> None:
    """Check all promises except those in ``without``; raise one error for all broken ones."""
    names = [promise.name for promise in promises]
    if isinstance(without, (str, np.ndarray)) or not isinstance(without, Collection):
        unknown: object = repr(without)
    else:
        unknown = [name for name in without if name not in names]
    if unknown:
        raise ArgumentError(
            f"{operation}: without={unknown} is not a collection of promises. The promises are"
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
    """Run a check; return the text of its error, if any. A subject may raise anything."""
    with quiet():
        try:
            promise.check()
        except CheckError as error:
            return str(error)
        except Exception as error:
            lines = str(error).strip().splitlines() or ["without a message"]
            return f"{type(error).__name__}: {' '.join(lines)}"
    return None
