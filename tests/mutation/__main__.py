"""``python -m tests.mutation FILES --tests TESTS``: which planted mistakes do the tests miss?

    python -m tests.mutation funcgrad/passes/scale.py funcgrad/passes/negation.py
    python -m tests.mutation funcgrad/planning/*.py --tests tests/backends --sample 100 --seed 3
    python -m tests.mutation funcgrad/planning/*.py --again report.txt

Without ``--tests`` each file is tried with the folder of tests that mirrors its own. The tests are
run once without a mistake first; a mutant that takes ten times as long counts as killed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import KINDS, Mutant, mutants_of
from tests.mutation.trial import ROOT, Outcome, workshop


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants of files; the exit status is 1 if any survived."""
    options = _parser().parse_args(arguments)
    chosen = []
    for file in options.files:
        path = Path(file).resolve().relative_to(ROOT)
        found = mutants_of((ROOT / path).read_text())
        chosen += [(str(path), each) for each in found if each.kind in options.kinds]
    if options.lines:
        first, last = map(int, options.lines.split("-"))
        chosen = [each for each in chosen if first <= each[1].line <= last]
    if options.again:
        told = Path(options.again).read_text().splitlines()
        chosen = [each for each in chosen if any(map(Outcome(*each, "survived").is_told_in, told))]
    if options.sample is not None and options.sample < len(chosen):
        chosen = random.Random(options.seed).sample(chosen, options.sample)
        chosen.sort(key=lambda each: (each[0], each[1].start))
    if options.list:
        for each in chosen:
            print(Outcome(*each, "planned"))
        return 0
    outcomes = _tried(chosen, options.tests)
    _report(outcomes)
    return int(any(each.verdict == "survived" for each in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--lines", help="only those that begin there, as 20-45")
    parser.add_argument("--again", help="only those that survived in the report in this file")
    parser.add_argument("--sample", type=int, help="only so many, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="do not try, only list")
    return parser


def _tried(chosen: Sequence[tuple[str, Mutant]], tests: Sequence[str]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    limits: dict[tuple[str, ...], float] = {}
    with workshop() as shop:
        for path, mutant in chosen:
            own = tuple(tests or [_mirror(path)])
            if own not in limits:
                start = time.monotonic()
                if shop.passes(own, 3600.0) != "survived":
                    raise SystemExit(f"mutation: {' '.join(own)} fail without any mistake")
                limits[own] = 30.0 + 10 * (time.monotonic() - start)
            outcomes.append(shop.tried(path, mutant, own, limits[own]))
            print(outcomes[-1], flush=True)
    return outcomes


def _mirror(path: str) -> str:
    """The folder of tests for a file of the package, or the file of tests for a top-level one."""
    parts = Path(path).with_suffix("").parts[1:]
    folder = Path("tests", *parts[:-1])
    return str(folder) if len(parts) > 1 else str(folder / f"test_{parts[-1]}.py")


def _report(outcomes: Sequence[Outcome]) -> None:
    """The score of each file, and what was missed."""
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
