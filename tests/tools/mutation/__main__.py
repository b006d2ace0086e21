"""``python -m tests.tools.mutation FILES --tests TESTS``: which planted mistakes do the tests miss?

    python -m tests.tools.mutation funcgrad/_passes/simplify.py funcgrad/_passes/sink.py
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --tests tests/backends --sample 100
    python -m tests.tools.mutation funcgrad/_backends/numpy/*.py --again report.txt
    python -m tests.tools.mutation --project --sample 120 --seed 8 --report report.txt

Without ``--tests`` each file is tried with the rounds of tests that ``project.py`` names for it, or
else with the folder of tests that mirrors its own. ``--project`` tries all files of that table: a
sample, spread evenly over folders, files and kinds, gives the project's score. Each round is first
run without a mistake; a mutant with which it takes four times as long counts as killed. If the
tests are known to pass, ``--seconds`` sets this limit and skips that run. ``--report`` appends
every verdict to a file at once; with that file a run that was stopped continues.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.tools.mutation.mutants import KINDS, mutants_of
from tests.tools.mutation.project import Planned, Round, mutants_of_project, rounds_of, sampled
from tests.tools.mutation.trial import ROOT, Outcome, Workshop, workshop


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
    outcomes = _tried(chosen, options.tests, options.report, options.seconds)
    _report(outcomes)
    return int(any(each.verdict == "survived" for each in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--project", action="store_true", help="all files that compute numbers")
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--lines", help="only those that begin there, as 20-45")
    parser.add_argument("--again", help="only those that survived in the report in this file")
    parser.add_argument("--report", type=Path, help="verdicts are added here, and not tried again")
    parser.add_argument("--seconds", type=float, help="the limit of every round; none is run first")
    parser.add_argument("--sample", type=int, help="the number of mutants to try, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="do not try, only list")
    return parser


def _tried(
    chosen: Sequence[Planned], tests: Sequence[str], report: Path | None, seconds: float | None
) -> list[Outcome]:
    told = report.read_text().splitlines() if report is not None and report.exists() else []
    outcomes: list[Outcome] = []
    limits: dict[Round, float] = {}
    with workshop() as shop:
        for planned in chosen:
            outcome = _known(planned, told)
            if outcome is None:
                outcome = _outcome(shop, planned, tests, limits, seconds)
                print(outcome, flush=True)
                if report is not None:
                    with report.open("a") as file:
                        print(outcome, file=file)
            outcomes.append(outcome)
    return outcomes


def _known(planned: Planned, told: Sequence[str]) -> Outcome | None:
    """The verdict that a report already has."""
    candidates = [Outcome(*planned, verdict) for verdict in ("killed", "late", "survived")]
    return next((each for each in candidates if str(each) in told), None)


def _outcome(
    shop: Workshop,
    planned: Planned,
    tests: Sequence[str],
    limits: dict[Round, float],
    seconds: float | None,
) -> Outcome:
    """Run the rounds of tests on a mutant; return its verdict, and store limits of rounds."""
    path, mutant = planned
    verdict = "survived"
    for own in [tuple(tests)] if tests else rounds_of(path) or [(_mirror(path),)]:
        if own not in limits:
            limits[own] = _limit(shop, own) if seconds is None else seconds
        verdict = shop.tried(path, mutant, own, limits[own]).verdict
        if verdict != "survived":
            break
    return Outcome(path, mutant, verdict)


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


def _report(outcomes: Sequence[Outcome]) -> None:
    """The score of each file, and the surviving mutants."""
    print()
    for path in dict.fromkeys(each.path for each in outcomes):
        counts = Counter(each.verdict for each in outcomes if each.path == path)
        print(f"{path}: {counts.total() - counts['survived']} of {counts.total()} killed")
    missed = [each for each in outcomes if each.verdict == "survived"]
    print(f"all: {len(outcomes) - len(missed)} of {len(outcomes)} killed")
    for each in missed:
        print(each)


if __name__ == "__main__":
    sys.exit(main())
