"""``python -m tests.tools.mutation FILES --tests TESTS``: which planted mistakes do the tests miss?

    python -m tests.tools.mutation funcgrad/_passes/simplify.py funcgrad/_passes/sink.py
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --tests tests/backends --sample 100
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --again report.txt
    python -m tests.tools.mutation --project --sample 400 --seed 8 --quick --report report.txt

Without ``--tests`` each file is tried with the rounds of tests that ``project.py`` names for it, or
else with the folder of tests that mirrors its own. ``--project`` tries all files of the package: a
sample, spread evenly over folders, files and kinds, gives the project's score. Each round is first
run without a mistake; a mutant with which it takes four times as long counts as killed. If the
tests are known to pass, ``--seconds`` sets this limit and skips that run. ``--report`` appends
every verdict to a file at once; with that file a run that was stopped continues.

``--quick`` says which tests have to be quick: every round is tried with its quick tests first, then
with its slow ones, and a mutant that only these kill has the verdict ``slowly``. With ``--whole``
the whole quick suite, and then all slow tests, try what the rounds let through; this takes an hour
of processor time for ten such mutants.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.tools.mutation.mutants import KINDS, mutants_of
from tests.tools.mutation.project import Planned, Round, mutants_of_project, rounds_of, sampled
from tests.tools.mutation.trial import ROOT, Outcome, Workshop, workshop

VERDICTS: Final = ("killed", "slowly", "late", "survived")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants of files; the exit status is 1 if any survived."""
    options = _parser().parse_args(arguments)
    if options.project:
        chosen = mutants_of_project(ROOT)
    else:
        paths = [Path(file).resolve().relative_to(ROOT) for file in options.files]
        chosen = [(str(p), each) for p in paths for each in mutants_of((ROOT / p).read_text())]
    chosen = [each for each in chosen if each[1].kind in options.kinds]
    if options.lines:
        first, last = map(int, options.lines.split("-"))
        chosen = [each for each in chosen if first <= each[1].line <= last]
    if options.again:
        told = Path(options.again).read_text().splitlines()
        chosen = [each for each in chosen if any(map(Outcome(*each, "survived").is_told_in, told))]
    if options.sample is not None:
        chosen = sampled(chosen, options.sample, options.seed)
    if options.list:
        for each in chosen:
            print(Outcome(*each, "planned"))
        return 0
    outcomes = _tried(chosen, options)
    _report(outcomes)
    return int(any(each.verdict == "survived" for each in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--project", action="store_true", help="all files of the package")
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--lines", help="only those that begin there, as 20-45")
    parser.add_argument("--again", help="only those that survived in the report in this file")
    parser.add_argument("--report", type=Path, help="verdicts are added here, and not tried again")
    parser.add_argument("--seconds", type=float, help="the limit of every round; none is run first")
    parser.add_argument("--sample", type=int, help="the number of mutants to try, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="tell quick tests from slow ones")
    parser.add_argument("--whole", action="store_true", help="end with the whole suite")
    parser.add_argument("--list", action="store_true", help="do not try, only list")
    return parser


def _tried(chosen: Sequence[Planned], options: argparse.Namespace) -> list[Outcome]:
    report: Path | None = options.report
    told = report.read_text().splitlines() if report is not None and report.exists() else []
    outcomes: list[Outcome] = []
    limits: dict[Round, float] = {}
    with workshop() as shop:
        for planned in chosen:
            outcome = _known(planned, told)
            if outcome is None:
                began = _processor_seconds()
                outcome = _outcome(shop, planned, options, limits)
                print(f"{outcome}  ({_processor_seconds() - began:.0f} s)", flush=True)
                if report is not None:
                    with report.open("a") as file:
                        print(outcome, file=file)
            outcomes.append(outcome)
    return outcomes


def _known(planned: Planned, told: Sequence[str]) -> Outcome | None:
    """The verdict that a report already has."""
    candidates = [Outcome(*planned, verdict) for verdict in VERDICTS]
    return next((each for each in candidates if str(each) in told), None)


def _outcome(
    shop: Workshop, planned: Planned, options: argparse.Namespace, limits: dict[Round, float]
) -> Outcome:
    """Run the rounds of tests on a mutant; return its verdict, and store limits of rounds."""
    path, mutant = planned
    rounds = [tuple(options.tests)] if options.tests else rounds_of(path) or [(_mirror(path),)]
    for verdict, own in _in_order(rounds, options):
        if own not in limits:
            limits[own] = _limit(shop, own) if options.seconds is None else options.seconds
        found = shop.tried(path, mutant, own, limits[own]).verdict
        if found != "survived":
            return Outcome(path, mutant, verdict if found == "killed" else found)
    return Outcome(path, mutant, "survived")


def _in_order(rounds: Sequence[Round], options: argparse.Namespace) -> Iterator[tuple[str, Round]]:
    """The rounds, each with the verdict on a mutant that it kills."""
    if not options.quick:
        yield from (("killed", own) for own in rounds)
        return
    for verdict, mark in (("killed", "not slow"), ("slowly", "slow")):
        yield from ((verdict, (*own, "-m", mark)) for own in rounds)
        if options.whole:
            yield verdict, ("README.md", "funcgrad", "tests", "-m", mark)


def _limit(shop: Workshop, tests: Round) -> float:
    """The seconds that tests may take, from the time that they take without a mistake."""
    start = time.monotonic()
    if shop.passes(tests, 3600.0) != "survived":
        raise SystemExit(f"mutation: {' '.join(tests)} fail without any mistake")
    return 20.0 + 4 * (time.monotonic() - start)


def _mirror(path: str) -> str:
    """The folder of tests for a file of the package, or the file of tests for a top-level one."""
    parts = Path(path).with_suffix("").parts[1:]
    folder = Path("tests", *parts[:-1])
    return str(folder) if len(parts) > 1 else str(folder / f"test_{parts[-1]}.py")


def _processor_seconds() -> float:
    """The processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _report(outcomes: Sequence[Outcome]) -> None:
    """The score of each file, and the surviving mutants."""
    print()
    for path in dict.fromkeys(each.path for each in outcomes):
        counts = Counter(each.verdict for each in outcomes if each.path == path)
        print(f"{path}: {counts.total() - counts['survived']} of {counts.total()} killed")
    missed = [each for each in outcomes if each.verdict == "survived"]
    slowly = [each for each in outcomes if each.verdict == "slowly"]
    killed = len(outcomes) - len(missed)
    print(f"all: {killed} of {len(outcomes)} killed, {len(slowly)} of them only by slow tests")
    print(f"{_processor_seconds():.0f} s of processor time")
    for each in [*slowly, *missed]:
        print(each)


if __name__ == "__main__":
    sys.exit(main())
