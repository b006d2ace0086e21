"""The variants of a jitted function for one kind of arguments.

A *variant* is the function staged along one path through its control flow. It is valid as long as
the outside values that the function reads are unchanged, for arguments for which its guards hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from funcgrad._backends.interface import MISS, Compiled, DirectlyCalled
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import ProcessLock
from funcgrad._core import pytrees
from funcgrad._core.trace import Value
from funcgrad._hooks.key_uses import testify
from funcgrad._hooks.result_watch import WATCHING
from funcgrad._programs.program import Program
from funcgrad._staging.capture import Capture
from funcgrad._staging.derived import Compile, ProgramCall
from funcgrad._staging.entry import joined, write_attempt
from funcgrad.errors import GuardError
from funcgrad.tensor.tensor import wrap

_MOST_CHANGES: Final = 4


@dataclass(slots=True, eq=False)
class Variant:
    """A function staged along one path through its control flow.

    Attributes
    ----------
    program : Program
        The optimized program, before the backend prepares it.
    attempt : callable
        ``(*raw inputs, given) -> result or MISS``; see ``write_attempt``.
    compiled : Compiled
    capture : Capture
    call : ProgramCall
        The program as an operation inside of other transformations.
    was_used : bool
        Whether any call ran it after the one that made it.
    """

    program: Program
    attempt: Callable[..., Any]
    compiled: Compiled
    capture: Capture
    call: ProgramCall
    was_used: bool = False

    def table(self, types: tuple[type[Any], ...], kind: type[DirectlyCalled]) -> Any:
        """The table by which machine code takes calls of a class; None if it does not."""
        direct, places = self.compiled.direct, self.capture.places()
        if direct is None:
            return None
        begun = WATCHING, "begun", False
        places = replace(places, attributes=(*places.attributes, begun))
        table = direct.table(types, places, joined(self.program.result))
        if table is not None:
            direct.take_calls(kind)
        return table


def make_variant(
    program: Program, prepared: Program, compiled: Compiled, capture: Capture, compile: Compile
) -> Variant:
    """Make the variant of a program, which the backend prepared and compiled.

    ``compile`` compiles the programs that are derived from it.
    """
    attempt = write_attempt(prepared, compiled, capture.check)
    run = None if compiled.follow else compiled.run  # a device finds its programs itself
    return Variant(program, attempt, compiled, capture, ProgramCall(program, compile, run))


class Signature:
    """The variants for one kind of arguments; thread-safe.

    Attributes
    ----------
    attempts : tuple of callable
        The attempts of the variants, for entries to try.
    watched : bool
        False once it turned out that the function reads more than can be watched.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._variants: tuple[Variant, ...] = ()
        self.attempts: tuple[Callable[..., Any], ...] = ()
        self.watched = True
        self._tables: dict[tuple[type[Any], ...], tuple[Any, ...]] = {}
        self._changes = 0
        self._wasted = 0, ""

    def run(self, values: Sequence[Value]) -> Any:
        """Return the result for raw, read-only values; MISS if no variant fits."""
        for variant in self._variants:
            result = variant.attempt(*values, ())
            if result is not MISS:
                variant.was_used = True
                return result
        return MISS

    def tables(self, types: tuple[type[Any], ...], kind: type[DirectlyCalled]) -> tuple[Any, ...]:
        """The tables by which machine code takes calls of a class, for arguments of these types."""
        tables = self._tables
        if types not in tables:
            made = [variant.table(types, kind) for variant in self._variants]
            tables[types] = tuple([table for table in made if table is not None])
        return tables[types]

    def run_inside(self, values: Sequence[Value]) -> Any:
        """Return the result inside of other transformations; MISS if no variant fits."""
        for variant in self._variants:
            if variant.capture.unchanged():
                try:
                    outs = variant.call.apply(values)
                except GuardError:
                    continue
                variant.was_used = True
                if variant.capture.draws:
                    testify()  # to the staging of a function that calls this one
                self._prefer(variant)
                return pytrees.unflatten(variant.program.result, [wrap(out) for out in outs])
        return MISS

    def _prefer(self, variant: Variant) -> None:
        """Try a variant first from now on: variants that do not fit may be slow to reject."""
        if self._variants[0] is not variant:
            self._lock.run(lambda: self._put_first(variant))

    def _put_first(self, variant: Variant) -> None:
        if variant in self._variants:
            self._set(sorted(self._variants, key=lambda other: other is not variant))

    def refresh(self) -> tuple[int, str | None]:
        """Drop the variants that rely on outside values that have changed; return how many remain.

        Also returns the name of the changed value if it made several variants useless before they
        ran again; else None.
        """
        return self._lock.run(self._refresh)

    def _refresh(self) -> tuple[int, str | None]:
        valid = [variant for variant in self._variants if variant.capture.unchanged()]
        dropped = [variant for variant in self._variants if variant not in valid]
        self._set(valid)
        if not dropped:
            return len(valid), None
        cause = "" if dropped[-1].was_used else dropped[-1].capture.cause()
        wasted = self._wasted[0] + 1 if cause and cause == self._wasted[1] else 1
        self._wasted = wasted, cause
        return len(valid), cause if cause and wasted == _MOST_CHANGES else None

    def add(self, variant: Variant) -> None:
        """Keep a variant, unless another thread has staged the same in the meantime."""
        self._lock.run(lambda: self._add(variant))

    def _add(self, variant: Variant) -> None:
        if all(variant.program != known.program for known in self._variants):
            self._set([*self._variants, variant])

    def keeps_changed(self, alone: bool) -> bool:
        """Whether to keep a variant although a value that the function reads changed meanwhile.

        Without other threads, the function itself has changed it, as a function that counts its
        calls. With other threads, another thread may have, unless it happens again and again.
        """
        self._changes += 1  # a simultaneous count in another thread may get lost
        return alone or self._changes > _MOST_CHANGES

    def _set(self, variants: Sequence[Variant]) -> None:
        """Publish variants; the tuple by which new variants are recognized is set last."""
        self._tables = {}
        self.attempts = tuple([variant.attempt for variant in variants])
        self._variants = tuple(variants)
