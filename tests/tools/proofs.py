"""``python -m tests.tools.proofs``: count what the tests prove, and write ``funcgrad/PROOFS.md``.

Counts that take minutes are made here, by the tests' own subjects; name rows to count only these,
as ``python -m tests.tools.proofs onnx``. Long runs write theirs into ``proofs.json`` when they are
asked to (``python -m tests.tools.fuzz --minutes 30 --record``), and stay there, with their day,
until the next such run.

>>> line(ROWS[0], {"numbers": 65536, "operations": 2, "day": "2026-11-29"}).count("|")
6
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "funcgrad" / "PROOFS.md"
RECORDS: Final = Path(__file__).with_name("proofs.json")

HEAD: Final = """# Proofs: all checks, with their counts

Written by `python -m tests.tools.proofs`. Each row names the command that repeats it.
"Always" means that `python -m pytest` runs it, "with `--all`" that `python -m pytest --all`
does, and a third of the days `.ci/run`. The last column has the day of the counts.

| check | how much | when | command | counted |
|---|---|---|---|---|
"""

TAIL: Final = """
Every check is shown to fail for a planted mistake, beside the check. Known exceptions stand in
tables of these files, each with its reason. For example, derivatives of `exp2` at 30 values and of
`log10` at 141 values overflow too early in half precision.
"""


class Row(NamedTuple):
    """A row of the page; ``amount`` is a format for the counts that are recorded under ``key``."""

    key: str
    what: str
    amount: str
    when: str
    command: str


ROWS: Final = (
    Row(
        "half",
        "Elementwise operations and their derivatives at every value of half precision",
        "{operations} operations at {numbers:,} values each",
        "with `--all`",
        "python -m pytest -n 0 tests/primitives/test_every_half.py",
    ),
    Row(
        "pairs",
        "Operations of two arguments at every value of half precision, beside fixed ones",
        "{operations} operations, {pairs:,} pairs each",
        "with `--all`",
        "python -m pytest -n 0 tests/primitives/test_every_half.py",
    ),
    Row(
        "rules",
        "Exact rules of passes keep every bit, at every value of half precision",
        "{forms} forms of expressions, {pairs:,} pairs each",
        "with `--all`",
        "python -m pytest -n 0 tests/passes/test_every_half_in_rules.py",
    ),
    Row(
        "transposes",
        "Transposes of linear operations, exactly, for all shapes up to 3 × 3 × 3",
        "{functions:,} functions in {shapes} shapes, {elements:,} elements",
        "with `--all`",
        "python -m pytest -n 0 tests/primitives/test_exact_transposes.py",
    ),
    Row(
        "symbols",
        "Declared partial derivatives against SymPy's of the formulas, with 50 digits",
        "{operations} operations with parameters, {values} values",
        "with `--all`",
        "python -m pytest -n 0 tests/primitives/test_symbolic_partials.py",
    ),
    Row(
        "operations",
        "Declarations of operations: rules, structure, batches, programs, files, bad arguments",
        "{operations} operations at {samples:,} samples",
        "always, a part with `--all`",
        "python -m pytest -n 0 tests/primitives/test_primitives.py",
    ),
    Row(
        "fuzz",
        "Random programs mean the same in every mode, backend, pass and file",
        "{programs:,} programs, {checks:,} checks, {failing} failed",
        "by hand, a part with `--all`",
        "python -m tests.tools.fuzz --minutes 30 --record",
    ),
    Row(
        "validated",
        "Each pass keeps the results, on drawn values, for random programs and their derivatives",
        "{programs:,} programs, {failing} failed",
        "by hand",
        "python -m tests.tools.fuzz --check validated --minutes 30 --record",
    ),
    Row(
        "mutants",
        "Mistakes that are planted in a sample of places, and killed by tests",
        "{killed} of {mutants} by {tests}, {equivalent} others change nothing that a test can see:"
        " {packages}",
        "by hand",
        "python -m tests.tools.mutation --project --in-packages 6 --seed 1 --seconds 6"
        " --report FILE --record",
    ),
    Row(
        "onnx",
        "ONNX's own tests of its operators, by `fg.interop.onnx.load`",
        "{passed:,} of {cases:,} passed, none failed, {left} have other operators or dtypes",
        "with `--all`",
        "python -m pytest -n 0 tests/interop/test_onnx_backend.py",
    ),
    Row(
        "standard",
        "The array API's own tests of `funcgrad.numpy`, with {examples} examples for each",
        "{passed:,} passed ({files}); {different} fail by the deviations that"
        " `funcgrad/numpy/README.md` lists, {failed} others fail",
        "by hand",
        "python -m tests.tools.array_api FOLDER",
    ),
    Row(
        "arm",
        "Tests of machine code for 64-bit Arm, on an emulated processor",
        "{passed:,} passed ({files}), {failed} failed; {modules} modules",
        "by hand",
        "python -m tests.tools.emulated PYTHON --record TESTS",
    ),
    Row(
        "gradbench",
        "GradBench's evaluations against JAX and C++ that is written by hand, to 1e-8",
        "{cells} results, {evaluations} evaluations",
        "with `--all`",
        "python -m pytest -n 0 tests/tools/benchmarks/gradbench",
    ),
)


def recorded() -> dict[str, dict[str, Any]]:
    """The counts of all runs, by the keys of the rows."""
    if not RECORDS.exists():
        return {}
    return json.loads(RECORDS.read_text("utf-8"))


def record(key: str, **counts: int | str) -> None:
    """Store the counts of a run, with its day, and write the page."""
    records = {**recorded(), key: {**counts, "day": date.today().isoformat()}}
    text = json.dumps(dict(sorted(records.items())), indent=2)
    RECORDS.write_text(f"{text}\n", "utf-8")
    PAGE.write_text(page(), "utf-8")


def line(row: Row, counts: Mapping[str, Any]) -> str:
    """The row of the page."""
    amount = row.amount.format(**counts)
    what = row.what.format(**counts)
    return f"| {what} | {amount} | {row.when} | `{row.command}` | {counts['day']} |"


def page() -> str:
    """The text of the page, with a row for each record."""
    records = recorded()
    lines = [line(row, records[row.key]) for row in ROWS if row.key in records]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _half() -> dict[str, int]:
    from tests.primitives import test_every_half as half

    return {"operations": len(half.ONE_ARGUMENT), "numbers": len(half.NUMBERS)}


def _pairs() -> dict[str, int]:
    from tests.primitives import test_every_half as half

    pairs = len(half.NUMBERS) * len(half.TIMES)
    return {"operations": len(half.TWO_ARGUMENTS), "pairs": pairs}


def _rules() -> dict[str, int]:
    from tests.passes import test_every_half_in_rules as rules
    from tests.primitives import test_every_half as half

    return {"forms": len(rules.FORMS), "pairs": len(half.NUMBERS) * rules.SHUFFLES}


def _transposes() -> dict[str, int]:
    from tests.primitives import test_exact_transposes as exact

    functions = [(f, shape) for shape in exact.SHAPES for f in exact.linear(shape)]
    elements = sum(exact.assert_exact(f, shape) for f, shape in functions)
    return {"functions": len(functions), "shapes": len(exact.SHAPES), "elements": elements}


def _symbols() -> dict[str, int]:
    from tests.primitives import test_symbolic_partials as symbols

    values = [symbols.differences(*subject) for subject in symbols.SUBJECTS.values()]
    return {"operations": sum(map(bool, values)), "values": sum(values)}


def _operations() -> dict[str, int]:
    from tests.conformance import every_case, every_primitive

    primitives = [*every_primitive(), *every_primitive(several=True)]
    return {"operations": len(primitives), "samples": sum(1 for _ in every_case(primitives))}


def _onnx() -> dict[str, int]:
    from tests.interop import test_onnx_backend as onnx

    counts = onnx.outcomes()
    cases, passed = counts.total(), counts["passed"]
    return {"cases": cases, "passed": passed, "left": cases - passed}


def _gradbench() -> dict[str, int]:
    from tests.tools.benchmarks.gradbench import __main__ as gradbench
    from tests.tools.benchmarks.gradbench.by_hand import built, has_compiler
    from tests.tools.practice.libraries import has_jax

    compiled, cells = built() if has_compiler() else None, 0
    for evaluation in gradbench.EVALUATIONS:
        ways = gradbench.ways(evaluation, evaluation.sizes[0], compiled, has_jax())
        gradbench.check(ways)
        cells += len(ways) - 1
    return {"evaluations": len(gradbench.EVALUATIONS), "cells": cells}


COUNTS: Final[Mapping[str, Callable[[], dict[str, int]]]] = MappingProxyType(
    {
        "half": _half,
        "pairs": _pairs,
        "rules": _rules,
        "transposes": _transposes,
        "symbols": _symbols,
        "operations": _operations,
        "onnx": _onnx,
        "gradbench": _gradbench,
    }
)


def main(keys: Sequence[str]) -> int:
    """Count rows, all that take minutes unless some are named."""
    import pytest

    for key in keys or COUNTS:
        try:
            record(key, **COUNTS[key]())
        except pytest.skip.Exception as error:  # a package is not installed
            print(f"{key}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
