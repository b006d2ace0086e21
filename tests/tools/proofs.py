"""``python -m tests.tools.proofs``: count what the tests prove, and write ``funcgrad/PROOFS.md``.

Counts that take seconds are made here, by the tests' own subjects. Long runs write theirs into
``proofs.json`` when they are asked to (``python -m tests.tools.fuzz --minutes 30 --record``), and
stay there, with their day, until the next such run.

>>> line(ROWS[0], {"numbers": 65536, "operations": 2, "day": "2026-11-29"}).count("|")
6
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "funcgrad" / "PROOFS.md"
RECORDS: Final = Path(__file__).with_name("proofs.json")

HEAD: Final = """# Proofs: all checks, with their counts

Written by `python -m tests.tools.proofs`. Each row names the command that repeats it.
"Always" means that `python -m pytest` runs it, "with `--all`" that `python -m pytest --all`
and `.ci/run --all` do. The last column has the day of the counts.

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
        "by hand; a part always",
        "python -m tests.tools.fuzz --minutes 30 --record",
    ),
)


def recorded() -> dict[str, dict[str, Any]]:
    """The counts of all runs, by the keys of the rows."""
    if not RECORDS.exists():
        return {}
    records: dict[str, dict[str, Any]] = json.loads(RECORDS.read_text("utf-8"))
    return records


def record(key: str, **counts: int) -> None:
    """Store the counts of a run, with its day."""
    records = {**recorded(), key: {**counts, "day": date.today().isoformat()}}
    text = json.dumps(dict(sorted(records.items())), indent=2)
    RECORDS.write_text(f"{text}\n", "utf-8")


def line(row: Row, counts: Mapping[str, Any]) -> str:
    """The row of the page."""
    amount = row.amount.format(**counts)
    return f"| {row.what} | {amount} | {row.when} | `{row.command}` | {counts['day']} |"


def page() -> str:
    """The text of the page, with a row for each record."""
    records = recorded()
    lines = [line(row, records[row.key]) for row in ROWS if row.key in records]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> int:
    """Count and write the page."""
    from tests.conformance import every_case, every_primitive
    from tests.passes import test_every_half_in_rules as rules
    from tests.primitives import test_every_half as half
    from tests.primitives import test_exact_transposes as exact

    numbers = len(half.NUMBERS)
    record("half", operations=len(half.ONE_ARGUMENT), numbers=numbers)
    record("pairs", operations=len(half.TWO_ARGUMENTS), pairs=numbers * len(half.TIMES))
    record("rules", forms=len(rules.FORMS), pairs=numbers * rules.SHUFFLES)
    functions = [(f, shape) for shape in exact.SHAPES for f in exact.linear(shape)]
    elements = sum(exact.assert_exact(f, shape) for f, shape in functions)
    record("transposes", functions=len(functions), shapes=len(exact.SHAPES), elements=elements)
    primitives = [*every_primitive(), *every_primitive(several=True)]
    samples = sum(1 for _ in every_case(primitives))
    record("operations", operations=len(primitives), samples=samples)
    try:
        from tests.primitives import test_symbolic_partials as symbols
    except BaseException as error:  # pytest's exception for a test that is skipped
        print(f"symbols: {error}")
    else:
        values = [symbols.differences(*subject) for subject in symbols.SUBJECTS.values()]
        record("symbols", operations=sum(map(bool, values)), values=sum(values))
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
