"""The table of lost digits: ``python -m tests.tools.digits.page`` writes it.

It stands in ``funcgrad/scipy/README.md`` between two lines, ``BEGIN`` and ``END``.
"""

from __future__ import annotations

from pathlib import Path

import funcgrad.scipy
from tests.tools.digits.excuses import EXCUSES

PAGE = Path(str(funcgrad.scipy.__file__)).parent / "README.md"
BEGIN = "<!-- Written by python -m tests.tools.digits.page from here on. -->\n"
END = "<!-- To here. -->\n"


def written() -> str:
    """The page, with the table as it is to be."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rows = ["", "| functions | where | because |", "|---|---|---|"]
    rows += [f"| {e.functions} | {e.at} | {e.why} |" for e in EXCUSES]
    return before + BEGIN + "\n".join([*rows, "", ""]) + END + after.partition(END)[2]


def main() -> None:
    """Write the page."""
    PAGE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    main()
