"""A long search: ``python -m tests.tools.fuzz --minutes 30``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.tools import proofs
from tests.tools.fuzz.checks import CHECKS, RULES
from tests.tools.fuzz.operations import PRIMITIVES
from tests.tools.fuzz.search import Report, searched


def _passes() -> list[str]:
    """The names of the checks of passes, with and without their limits."""
    return [name.removeprefix("pass ") for name in CHECKS if name.startswith("pass ")]


def _summary(report: Report, seconds: float) -> str:
    covered, all_pairs = report.covered
    missed = [name for name in PRIMITIVES if not any(report.pairs[name, check] for check in CHECKS)]
    lines = [
        f"{report.programs} programs in {seconds:.0f} s, {report.checks} checks; {report.left_out}"
        " programs were too long to be checked",
        f"{covered} of {all_pairs} pairs of a primitive and a check",
        f"primitives in no program: {', '.join(missed) or 'none'}",
        "programs that passes changed: "
        + ", ".join(f"{name} {report.changed[name]}" for name in _passes()),
        "single rules applied: "
        + ", ".join(f"{name} {report.rules[name]}" for name in sorted(RULES)),
        f"derivatives told by complex steps: {report.analytic}",
        f"{report.failing} programs failed, for {len(report.findings)} causes",
    ]
    lines += [
        f"  {finding.count:6} {cause}"
        for cause, finding in sorted(report.findings.items(), key=lambda each: -each[1].count)
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, print the findings, and report the coverage."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--programs", type=int, help="stop each job after this number")
    parser.add_argument("--check", action="append", choices=list(CHECKS), help="only this check")
    parser.add_argument("--operation", default="", help="in most programs, such as scatter_add")
    parser.add_argument("--record", action="store_true", help="count it on the page of proofs")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    seeds = range(options.seed, options.seed + options.jobs)
    rest = options.minutes, options.programs, options.check, options.operation
    work: list[Any] = [(seed, *rest) for seed in seeds]
    if options.jobs == 1:
        reports = [searched(*work[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            reports = pool.starmap(searched, work)
    report = Report()
    for each in reports:
        report.add(each)
    print(_summary(report, time.monotonic() - start))
    if options.record:
        key = "validated" if options.check == ["validated"] else "fuzz"
        made = {"programs": report.programs, "checks": report.checks}
        proofs.record(key, **made, failing=report.failing)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
