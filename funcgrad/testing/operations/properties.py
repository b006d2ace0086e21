"""Properties: sentences that hold for every declaration, with their checks.

The check of an operation returns its failures: the samples and the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core.primitive import Primitive
from funcgrad.errors import CheckError
from funcgrad.testing.operations.cases import Case, representatives


def always(_: object) -> bool:
    """Apply to everything."""
    return True


@dataclass(frozen=True, slots=True)
class AtSamples:
    """A check of each sample separately.

    Attributes
    ----------
    check : callable
        Takes a ``Case``, and raises an error if the property fails.
    wants : callable
        ``(case) -> bool``: the samples to which the check applies.
    by_kind : bool
        Whether the result depends on dtypes, shapes and parameters only: then ``representatives``
        suffice for an operation of the package.
    """

    check: Callable[[Case], None]
    wants: Callable[[Case], bool] = always
    by_kind: bool = False


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A check of the operation with all samples together, or with other values."""

    check: Callable[[Primitive], None]


Tries: TypeAlias = AtSamples | AtOnce


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A failure of a property.

    Attributes
    ----------
    case : Case or None
        The failing sample; None if the property concerns the whole declaration.
    text : str
        The difference.
    """

    case: Case | None
    text: str


@dataclass(frozen=True, slots=True)
class Property:
    """A promise of declarations, and its check.

    Attributes
    ----------
    name : str
    promise : str
        A sentence that is true for every operation to which it applies.
    remedy : str
        Where to look if it fails.
    tries : AtSamples or AtOnce
    applies : callable
        ``(primitive) -> bool``, by the declaration only.
    """

    name: str
    promise: str
    remedy: str
    tries: Tries
    applies: Callable[[Primitive], bool] = always

    def __str__(self) -> str:
        return self.name

    def failures(self, primitive: Primitive, cases: Sequence[Case]) -> list[BrokenPromise]:
        """Check an operation at all samples to which the property applies."""
        return list(self._failures(primitive, cases))

    def of_kinds(self, primitive: Primitive, cases: Sequence[Case]) -> list[BrokenPromise]:
        """Check an operation at representative samples, if values do not matter."""
        tries = self.tries
        if isinstance(tries, AtSamples) and tries.by_kind:
            return self.failures(primitive, representatives(filter(tries.wants, cases)))
        return self.failures(primitive, cases)

    def _failures(self, primitive: Primitive, cases: Sequence[Case]) -> Iterator[BrokenPromise]:
        tries = self.tries
        if isinstance(tries, AtOnce):
            text = _broken(lambda: tries.check(primitive))
            if text is not None:
                yield BrokenPromise(None, text)
            return
        for case in cases:
            text = _broken(lambda case=case: _tried(tries, case))  # type: ignore[misc]
            if text is not None:
                yield BrokenPromise(case, text)


def _tried(tries: AtSamples, case: Case) -> None:
    if tries.wants(case):
        tries.check(case)


def _broken(check: Callable[[], None]) -> str | None:
    """Run a check; return the text of its error, if any. A rule may raise anything."""
    with quiet():
        try:
            check()
        except CheckError as error:
            return str(error)
        except Exception as error:
            lines = str(error).strip().splitlines() or ["without a message"]
            return f"{type(error).__name__}: {' '.join(lines)}"
    return None
