"""The tables of NumPy's functions in funcgrad: ``python -m tests.numpy.coverage`` writes them.

They are in ``funcgrad/numpy/README.md``, after the line ``BEGIN``. A test keeps them up to date.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.numpy.excluded import EXCLUDED

PAGE = Path(fnp.__file__).parent / "README.md"
BEGIN = "<!-- Written by python -m tests.numpy.coverage from here on. -->\n"


def without_a_word() -> list[str]:
    """The public callables of NumPy that funcgrad neither has nor excludes."""
    public = [name for name in dir(np) if not name.startswith("_") and callable(getattr(np, name))]
    return [name for name in public if not hasattr(fnp, name) and name not in EXCLUDED]


def table() -> str:
    """The tables of functions that funcgrad has, by module, and of those it lacks, by reason."""
    return "\n".join([*_present(), "", *_absent(), ""])


def _present() -> Iterator[str]:
    homes: dict[str, list[str]] = {}
    for path, module in (("", fnp), ("fft.", fnp.fft)):
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType) and callable(value):
                homes.setdefault(_home(value), []).append(path + name)
    yield "| in | functions |"
    yield "|---|---|"
    for home in sorted(homes):
        yield f"| `{home}` | {' '.join(f'`{name}`' for name in homes[home])} |"


def _home(value: object) -> str:
    module = inspect.getmodule(value)
    name = "" if module is None else module.__name__
    return f"{name.rpartition('.')[2]}.py" if name.startswith("funcgrad") else "NumPy's own"


def _absent() -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in EXCLUDED.items():
        reasons.setdefault(reason, []).append(name)
    yield "| not here | because |"
    yield "|---|---|"
    for reason, names in reasons.items():
        yield f"| {' '.join(f'`{name}`' for name in sorted(names))} | {reason} |"


def main() -> None:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(BEGIN)[0] + BEGIN + "\n" + table(), encoding="utf-8")


if __name__ == "__main__":
    main()
