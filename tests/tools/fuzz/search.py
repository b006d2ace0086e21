"""The search: make programs, check them, shrink findings and tell them apart.

>>> report = Search(seed=0).run(programs=1)
>>> report.programs
1
"""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from funcgrad.errors import DifferentiationError, DtypeError, MatrixError
from tests.tools.fuzz.checks import CHECKS, Check, is_refused
from tests.tools.fuzz.compare import DifferenceError
from tests.tools.fuzz.generate import BrokenError, generate
from tests.tools.fuzz.operations import PRIMITIVES
from tests.tools.fuzz.shrink import shrunk, size_of
from tests.tools.fuzz.subject import Subject, quietly
from tests.tools.fuzz.syntax import Nest, Program, constant_text, every_statement, names_of, source

_EACH: Final = 8
"""Checks for each program, beside those that are made always."""

_MOST: Final = 1000
"""The most operations of a program. With loops in loops there may be hundreds of thousands, which
take hours and gigabytes, and show nothing that a shorter program does not."""

_ALWAYS: Final = ("pass ", "complex step")
"""Prefixes of the names of checks that cost little if there is nothing to check."""


@dataclass(slots=True)
class Finding:
    """A failure, with the smallest program that shows it."""

    check: str
    error: str
    program: Program
    seed: tuple[int, int]
    count: int = 1


@dataclass(slots=True)
class Report:
    """The results of a search."""

    programs: int = 0
    left_out: int = 0
    checks: int = 0
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    rules: Counter[Any] = field(default_factory=Counter)
    analytic: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    failing: int = 0

    def add(self, other: Report) -> None:
        """Take over what another search did."""
        self.programs += other.programs
        self.left_out += other.left_out
        self.checks += other.checks
        self.failing += other.failing
        self.pairs.update(other.pairs)
        self.changed.update(other.changed)
        self.rules.update(other.rules)
        self.analytic += other.analytic
        for cause, finding in other.findings.items():
            known = self.findings.get(cause)
            if known is None:
                self.findings[cause] = finding
                continue
            known.count += finding.count
            if size_of(finding.program) < size_of(known.program):
                known.program, known.error = finding.program, finding.error

    @property
    def covered(self) -> tuple[int, int]:
        """Pairs of primitive and check that occurred, and those that there are."""
        reached = {pair for pair in self.pairs if pair[0] in PRIMITIVES}
        return len(reached), len(PRIMITIVES) * len(CHECKS)


class Search:
    """Programs from a seed; what they covered decides what is made next.

    ``operation``: the name of one that most programs are to be made of, among others.
    """

    def __init__(
        self,
        seed: int,
        checks: Mapping[str, Check] = CHECKS,
        seconds: float = 20.0,
        operation: str = "",
    ) -> None:
        self._operation = operation
        self._seed = seed
        self._checks = checks
        self._seconds = seconds
        self._drawn: Counter[str] = Counter()
        self.report = Report()

    def run(
        self,
        programs: int | None = None,
        seconds: float | None = None,
        tell: Callable[[Finding], None] = lambda finding: None,
    ) -> Report:
        """Make and check a number of programs, or for some time; ``tell`` gets new findings."""
        end = None if seconds is None else time.monotonic() + seconds
        while programs is None or self.report.programs < programs:
            if end is not None and time.monotonic() > end:
                break
            self._one(tell)
        return self.report

    def _one(self, tell: Callable[[Finding], None]) -> None:
        number = self.report.programs
        self.report.programs += 1
        rng = np.random.default_rng((self._seed, number))
        try:
            program = generate(rng, self._weight)
        except BrokenError as broken:
            if isinstance(broken.error, (DifferentiationError, DtypeError, MatrixError)):
                return
            self._found("eager", broken.error, broken.program, number, tell)
            return
        self._drawn.update(names_of(program))
        subject = Subject(program)
        error = _eager_error(subject)
        if error is not None:
            self._found("eager", error, program, number, tell)
            return
        if subject.operations > _MOST:
            self.report.left_out += 1
            return
        for name in self._chosen(rng, subject):
            error = _error_of(self._checks[name], subject)
            self.report.checks += 1
            self._count(name, subject)
            if error is not None:
                self._found(name, error, program, number, tell)
                return

    def _weight(self, name: str) -> float:
        wanted = 1000.0 if name == self._operation else 1.0
        return wanted / (1.0 + self._drawn[name])

    def _chosen(self, rng: np.random.Generator, subject: Subject) -> list[str]:
        """Some checks: rather those that the program's operations have met less often."""
        with quietly():
            names = [name for name, check in self._checks.items() if check.applies(subject)]
        always = [name for name in names if name.startswith(_ALWAYS)]
        names = [name for name in names if name not in always]
        if not names:
            return always
        met = [
            sum(1.0 / (1.0 + self.report.pairs[operation, name]) for operation in subject.names)
            for name in names
        ]
        sizes = np.array(met) + 0.01
        count = min(_EACH, len(names))
        chosen = rng.choice(names, count, replace=False, p=sizes / sizes.sum())
        return [*always, *[str(each) for each in chosen]]

    def _count(self, check: str, subject: Subject) -> None:
        """The pairs that a check covered, also with operations that others bind.

        A pass counts where it changed the program.
        """
        self.report.analytic += check == "complex step" and subject.analytic
        self.report.rules.update(name for name, _ in subject.rules.elements())
        rules = bool(subject.rules)
        subject.rules.clear()
        if check.startswith("pass ") and check[5:] not in subject.changed and not rules:
            return
        names = set(subject.names)
        staged = subject.__dict__.get("staged")
        if staged is not None:
            names |= {equation.operation.name for equation in staged.equations}
        self.report.pairs.update((name, check) for name in names)
        self.report.changed.update(subject.changed)
        subject.changed.clear()

    def _found(
        self,
        check: str,
        error: BaseException,
        program: Program,
        number: int,
        tell: Callable[[Finding], None],
    ) -> None:
        self.report.failing += 1
        early = _place(error)
        known = self.report.findings.get(early)
        if known is not None:
            known.count += 1
            return
        smallest = shrunk(
            program, lambda each: self._fails_alike(check, error, each), self._seconds
        )
        cause = early or _cause(smallest)
        if cause in self.report.findings:
            self.report.findings[cause].count += 1
            return
        finding = Finding(check, _told(error), smallest, (self._seed, number))
        self.report.findings[cause] = finding
        tell(finding)

    def _fails_alike(self, check: str, error: BaseException, program: Program) -> bool:
        """Whether a program fails a check with an error of the same kind, for the same reason."""
        with quietly():
            if check == "eager":
                found = _eager_error(Subject(program))
            else:
                subject = Subject(program)
                try:
                    subject.f(*subject.args)
                    if not self._checks[check].applies(subject):
                        return False
                except Exception:
                    return False
                found = _error_of(self._checks[check], subject)
        return found is not None and _place(found) == _place(error)


def searched(
    seed: int,
    minutes: float,
    programs: int | None = None,
    checks: Sequence[str] | None = None,
    operation: str = "",
) -> Report:
    """A search that prints what it finds; a function of its own, so that a process can run it."""
    chosen = {name: CHECKS[name] for name in checks or CHECKS}
    return Search(seed, chosen, operation=operation).run(programs, 60 * minutes, _printed)


def _printed(finding: Finding) -> None:
    print(f"{'-' * 100}\n# seed {finding.seed}\n{script(finding)}\n", flush=True)


def _error_of(check: Check, subject: Subject) -> BaseException | None:
    """What a check raises."""
    with quietly():
        try:
            check.run(subject)
        except Exception as error:
            return None if is_refused(subject, error) else error
    return None


def _eager_error(subject: Subject) -> BaseException | None:
    """What the program raises when it is just called."""
    with quietly():
        try:
            _ = subject.value
        except Exception as error:
            return error
    return None


def _place(error: BaseException) -> str:
    """What kind of error it is, and the function of the library that raised it."""
    if isinstance(error, DifferenceError):
        return ""
    if isinstance(error, RecursionError):
        return "RecursionError"  # raised wherever the stack happened to end
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "funcgrad" in frame.filename and "tests" not in frame.filename
    ]
    words = re.sub(r"[\d.]+|\bv\d+\b|'[^']*'|\([^)]*\)|\[[^]]*\]", "#", str(error))[:50]
    return f"{type(error).__name__} {frames[-1].name if frames else ''} {words}"


def _cause(program: Program) -> str:
    """What tells wrong numbers apart: what is left in the smallest program."""
    names: set[str] = set()
    for statement in every_statement(program.statements):
        names.add(statement.kind if isinstance(statement, Nest) else statement.text)
    return f"wrong: {' | '.join(sorted(names))}"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:600]


def script(finding: Finding) -> str:
    """A finding as Python that can be run."""
    program = finding.program
    lines = [f"{name} = {constant_text(value)}" for name, value in program.constants.items()]
    args = [f"    {constant_text(value)}," for _, value in program.inputs]
    return "\n".join(
        [
            f"# {finding.check}: {finding.error}".replace("\n", "\n# "),
            "from tests.tools.fuzz.prelude import *",
            "",
            *lines,
            "",
            source(program),
            "",
            "args = (",
            *args,
            ")",
            "print(f(*args))",
        ]
    )
