"""``python -m tests.tools.mutation FILES``: which planted mistakes do the tests miss?

    python -m tests.tools.mutation funcgrad/_passes/simplify.py funcgrad/_passes/sink.py
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --sample 100 --report report.txt
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --again report.txt
    python -m tests.tools.mutation --project --in-packages 10 --report report.txt --record

Which blocks each quick test executes is recorded once, which takes as long as the quick suite, and
is kept in the file of ``--reach`` until the package changes. A mutant is tried with the quick tests
that execute its block, those that do little first, then with others of the same files of tests. If
the slow tests were recorded, too (``--slow``), they try the mutants that the quick ones let
through, and those that they kill have the verdict ``slowly``: such a test should be a quick one.
``--tests`` names files of tests that are tried first, for tests that were written since.

``--project`` tries all files of the package: a sample, spread evenly over folders, files and kinds,
gives the project's score; ``--in-packages 10`` takes ten of every package. Mistakes that no test
can see stand in ``equivalents.json``, with reasons. ``--report`` appends every verdict to a file at
once; with that file a run that was stopped continues, and ``--record`` counts it on the page of
proofs. ``--share 1/2`` tries every second mutant, for a second process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.tools import proofs
from tests.tools.mutation.mutants import KINDS, Mutant, mutants_of
from tests.tools.mutation.project import (
    Planned,
    equivalents,
    mutants_of_project,
    package_of,
    sampled,
    sampled_in_packages,
)
from tests.tools.mutation.reach import Reach, digest
from tests.tools.mutation.trial import (
    ROOT,
    Outcome,
    Suite,
    Verdict,
    forked,
    planted,
    processor_seconds,
    recorded,
    tried_anew,
    workshop,
)

VERDICTS: Final = ("killed", "late", "slowly", "survived", "unreached", "equivalent")
_MISSED: Final = ("survived", "unreached")
_NEAR: Final = 0.25
"""The part of the time of a trial for tests that stand near, but do not execute a mistake."""
_ANEW: Final = (2, 10, 100_000)
"""The numbers of files of tests that are collected for a mistake that needs an import."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants of files; the exit status is 1 if any survived."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(given)
    if options.list:
        for each in _chosen(options):
            print(Outcome(*each, "planned"))
        return 0
    if not options.here:
        status = _in_a_copy(given, options)
        if options.record:
            known = _verdicts(_chosen(options), options)
            proofs.record("mutants", **_counts(_judged([each for each in known if each])))
        return status
    outcomes = _judged(_tried(_chosen(options), options))
    _report(outcomes)
    return int(any(each.verdict in _MISSED for each in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--project", action="store_true", help="all files of the package")
    parser.add_argument("--tests", nargs="+", default=[], help="files of tests to run first")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--lines", help="only those that begin there, as 20-45")
    parser.add_argument("--again", type=_absolute, help="only those that survived in this report")
    parser.add_argument(
        "--report", type=_absolute, help="verdicts are added here, and not tried again"
    )
    parser.add_argument("--reach", type=_absolute, help="where the reach of tests is kept")
    parser.add_argument("--slow", action="store_true", help="record the reach of slow tests, too")
    parser.add_argument("--jobs", type=int, default=1, help="processes that record the reach")
    parser.add_argument("--sample", type=int, help="the number of mutants to try, chosen at random")
    parser.add_argument("--in-packages", type=int, help="the number to try in every package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="choose tests for a mutant up to this time"
    )
    parser.add_argument(
        "--after-imports",
        action="store_true",
        help="plant mistakes after the import, also in functions that it calls: takes a third",
    )
    parser.add_argument("--share", default="1/1", help="try these: 1/2 is every second one")
    parser.add_argument("--list", action="store_true", help="do not try, only list")
    parser.add_argument(
        "--record", action="store_true", help="count the report on the page of proofs"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser


def _absolute(text: str) -> Path:
    return Path(text).resolve()


def _chosen(options: argparse.Namespace) -> list[Planned]:
    if options.project:
        chosen = mutants_of_project(ROOT)
    else:
        paths = [(ROOT / file).resolve().relative_to(ROOT) for file in options.files]
        chosen = [(str(p), each) for p in paths for each in mutants_of((ROOT / p).read_text())]
    chosen = [each for each in chosen if each[1].kind in options.kinds]
    if options.lines:
        first, last = map(int, options.lines.split("-"))
        chosen = [each for each in chosen if first <= each[1].line <= last]
    if options.sample is not None:
        chosen = sampled(chosen, options.sample, options.seed)
    if options.in_packages is not None:
        chosen = sampled_in_packages(chosen, options.in_packages, options.seed)
    if options.again:
        told = options.again.read_text().splitlines()
        chosen = [each for each in chosen if _known(each, told, _MISSED)]
    share, shares = map(int, options.share.split("/"))
    return chosen[share - 1 :: shares]


def _in_a_copy(given: Sequence[str], options: argparse.Namespace) -> int:
    """Run the tool in a copy of the repository; all paths lead into the copy."""
    reach = options.reach
    if reach is None:
        reach = Path(tempfile.gettempdir(), f"funcgrad-reach-{digest(ROOT)}.npz")
    paths = [f"--{name}={getattr(options, name)}" for name in ("report", "again")]
    with workshop() as copy:
        command = [sys.executable, "-m", "tests.tools.mutation", *given, "--here"]
        command += [*(p for p in paths if not p.endswith("=None")), f"--reach={reach}"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(copy), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            ).replace(str(ROOT), str(copy)),
            "HYPOTHESIS_NO_PLUGINS": "1",  # they would import the package before all else
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def _reach(options: argparse.Namespace) -> Reach:
    """Load the reach of tests, or record it."""
    file: Path = options.reach
    if not file.exists():

        def work() -> list[str]:
            reach, failing = recorded(ROOT, options.slow, options.jobs)
            reach.saved(file)
            return failing

        failing = forked(work, 3 * 3600.0, None, None)
        if failing is None:
            raise SystemExit("mutation: the tests cannot be run")
        print(f"{len(failing)} tests fail when their reach is recorded:", *failing, sep="\n  ")
    return Reach.loaded(file)


def _verdicts(chosen: Sequence[Planned], options: argparse.Namespace) -> list[Outcome | None]:
    """The verdicts that the report has."""
    report: Path | None = options.report
    told = report.read_text().splitlines() if report is not None and report.exists() else []
    return [_known(each, told, VERDICTS) for each in chosen]


def _tried(chosen: Sequence[Planned], options: argparse.Namespace) -> list[Outcome]:
    report: Path | None = options.report
    outcomes = _verdicts(chosen, options)
    if all(outcomes):
        return [each for each in outcomes if each]
    trials = _Trials(_reach(options), options)
    for place in sorted(range(len(chosen)), key=lambda k: trials.needs_import(*chosen[k])):
        planned = chosen[place]
        if outcomes[place] is None:
            began = processor_seconds() + trials.suite.seconds
            outcomes[place] = outcome = trials.outcome(*planned)
            seconds = processor_seconds() + trials.suite.seconds - began
            print(f"{outcome}  ({seconds:.1f} s)", flush=True)
            if report is not None:
                with report.open("a") as file:
                    print(outcome, file=file)
    trials.suite.close()
    return [each for each in outcomes if each]


def _known(planned: Planned, told: Sequence[str], verdicts: Sequence[str]) -> Outcome | None:
    """The verdict that a report already has, one of some."""
    candidates = [Outcome(*planned, verdict) for verdict in verdicts]
    return next((each for each in candidates if any(map(each.is_told_in, told))), None)


class _Trials:
    """Tries mutants with the tests that can see them."""

    def __init__(self, reach: Reach, options: argparse.Namespace) -> None:
        first = tuple(options.tests)
        self._reach = reach
        self._seconds = options.seconds
        self._quickly = options.after_imports
        self.suite = Suite(ROOT)
        self._first = [
            test
            for test, is_slow in self.suite.tests.items()
            if first and test.startswith(first) and not is_slow
        ]
        self._limits = {name: 5 + 8 * seconds for name, (_, seconds) in reach.tests.items()}
        self._passing: dict[str, bool] = {}

    def outcome(self, path: str, mutant: Mutant) -> Outcome:
        """The verdict on a mutant."""
        reached = self._reaching(path, mutant)
        slow = [test for test in reached if self.suite.tests.get(test)]
        quick = [test for test in reached if not self.suite.tests.get(test, True)]
        rounds = [
            ("killed", [*self._first, *self._within(self._seconds, quick)]),
            ("killed", self._near(path, quick)),
            ("slowly", self._within(4 * self._seconds, slow)),
        ]
        for word, tests in rounds:
            found = self._verdict(path, mutant, tests) if tests else Verdict("survived")
            if found.word != "survived":
                return Outcome(path, mutant, word if found.word == "killed" else "late", found.test)
        return Outcome(path, mutant, "survived" if reached else "unreached")

    def needs_import(self, path: str, mutant: Mutant) -> bool:
        """Whether a mistake is executed before any test."""
        block = self._reach.block(path, mutant.line, mutant.column)
        return block is None or self._reach.is_imported(block)

    def _reaching(self, path: str, mutant: Mutant) -> list[str]:
        """The tests that execute a mistake; with its file, where only an import executes it."""
        block = self._reach.block(path, mutant.line, mutant.column)
        reached = [] if block is None else self._reach.of([block])
        if reached or not self.needs_import(path, mutant):
            return reached
        return self._reach.of([span[4] for span in self._reach.places[path]])

    def _near(self, path: str, tests: Sequence[str]) -> list[str]:
        """Quick tests from the same files and from those that mirror the file.

        Tests before them may have left results in caches, so that they executed less.
        """
        counts = Counter(test.split("::")[0] for test in tests)
        files = [path, *(name for name, _ in counts.most_common(4)), *_mirrors(path)]
        there = tuple([f"{file}{end}" for file in dict.fromkeys(files) for end in ("::", "/")])
        near = [t for t, is_slow in self.suite.tests.items() if t.startswith(there) and not is_slow]
        return self._within(_NEAR * self._seconds, [test for test in near if test not in tests])

    def _within(self, seconds: float, tests: Sequence[str]) -> list[str]:
        """The tests that take so long together, the first ones first."""
        chosen: list[str] = []
        for test in tests:
            seconds -= self._reach.tests.get(test, (False, 1.0))[1]
            if seconds > 0:
                chosen.append(test)
        return chosen

    def _verdict(self, path: str, mutant: Mutant, tests: Sequence[str]) -> Verdict:
        """Run tests until one fails that passes without the mistake."""
        with planted(ROOT / path, mutant) as sources:
            while True:
                found = None
                if self._quickly or not self.needs_import(path, mutant):
                    found = self.suite.tried(path, sources, tests, self._limits)
                if found is None:
                    found = self._anew(tests)
                if found.word == "survived" or self._passes(found.test):
                    return found
                tests = [test for test in tests if test != found.test]

    def _anew(self, tests: Sequence[str]) -> Verdict:
        """Import the package with the mistake for tests of a few files, then of more."""
        files = dict.fromkeys(test.split("::")[0] for test in tests)
        start = 0
        for count in _ANEW:
            some = tuple([f"{file}::" for file in list(files)[start : start + count]])
            chosen = [test for test in tests if test.startswith(some)] if some else []
            found = tried_anew(chosen, self._limits) if chosen else Verdict("survived")
            if found.word != "survived":
                return found
            start += count
        return Verdict("survived")

    def _passes(self, test: str) -> bool:
        """Whether a test passes by itself without any mistake; so do all that are not tests."""
        if test in self.suite.tests and test not in self._passing:
            found = self.suite.tried("", ("", ""), [test], {})
            self._passing[test] = found == Verdict("survived")
        return self._passing.get(test, True)


def _mirrors(path: str) -> list[str]:
    """The file of tests for a file of the package, and its folder."""
    parts = Path(path).with_suffix("").parts[1:]
    name = parts[-1].removeprefix("_")
    folders = [each.removeprefix("_") for each in parts[:-1]]
    folder = "/".join(["tests", *folders])
    return [f"{folder}/test_{name}.py", folder] if folders else [f"{folder}/test_{name}.py"]


def _report(outcomes: Sequence[Outcome]) -> None:
    """The score of each file, and the surviving mutants."""
    print()
    for folder, counts in _by_folder(outcomes).items():
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        print(f"{folder}: {words}")
    counts = Counter(each.verdict for each in outcomes)
    print(f"all {counts.total()}: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS))
    print(f"{processor_seconds():.0f} s of processor time")
    for each in outcomes:
        if each.verdict in ("slowly", *_MISSED):
            print(each)


def _judged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes; those that live and that no test can see are ``equivalent``."""
    alike = equivalents(ROOT, [(each.path, each.mutant) for each in outcomes])
    return [
        replace(each, verdict="equivalent")
        if each.verdict in _MISSED and (each.path, each.mutant) in alike
        else each
        for each in outcomes
    ]


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int | str]:
    """How many mistakes died, in all and in each package, of those that tests can see."""
    tried, killed = Counter[str](), Counter[str]()
    for each in outcomes:
        tried[package_of(each.path)] += each.verdict != "equivalent"
        killed[package_of(each.path)] += each.verdict not in (*_MISSED, "equivalent")
    told = [f"`{name}` {killed[name]} of {count}" for name, count in sorted(tried.items())]
    return {
        "mutants": tried.total(),
        "killed": killed.total(),
        "equivalent": len(outcomes) - tried.total(),
        "packages": ", ".join(told),
        "tests": os.environ.get("PYTEST_ADDOPTS", "quick tests"),
    }


def _by_folder(outcomes: Sequence[Outcome]) -> Mapping[str, Counter[str]]:
    folders: dict[str, Counter[str]] = {}
    for each in sorted(outcomes, key=lambda each: each.path):
        folders.setdefault(str(Path(each.path).parent), Counter())[each.verdict] += 1
    return folders


if __name__ == "__main__":
    sys.exit(main())
