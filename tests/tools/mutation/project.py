"""The files whose mistakes count in the project's score, and how a sample is drawn from them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from tests.tools.mutation.mutants import Mutant, mutants_of

Planned: TypeAlias = tuple[str, Mutant]
"""A mutant and the path of its file, relative to the repository."""

ONLY_SPEED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "funcgrad/_backends/numpy/rows_last.py": ("_time_to_turn",),
        "funcgrad/_backends/numpy/rowwise.py": ("_reduction_time",),
    }
)
"""Functions that estimate time: programs mean the same whatever they return."""

EQUIVALENTS: Final = Path(__file__).with_name("equivalents.json")
"""For each file of the package: its lines with mistakes that no test can see, and the reasons."""


def subjects(root: Path) -> list[str]:
    """The files whose mistakes are counted: all but those that only estimate, or only import."""
    files = [file for file in (root / "funcgrad").rglob("*.py") if file.name != "__init__.py"]
    paths = sorted(str(file.relative_to(root)) for file in files)
    left_out = ("funcgrad/_passes/costs.py", "funcgrad/testing/plugin/")
    return [path for path in paths if not path.startswith(left_out)]


def mutants_of_project(root: Path) -> list[Planned]:
    """Every mistake in the subjects, without those in estimates of time."""
    return [
        (path, mutant)
        for path in subjects(root)
        for mutant in mutants_of((root / path).read_text(), ONLY_SPEED.get(path, ()))
    ]


def sampled(planned: Sequence[Planned], count: int, seed: int) -> list[Planned]:
    """Choose ``count`` mutants, evenly over folders, their files, and the kinds each file has.

    The beginning of a sample is a smaller sample, spread as evenly, for runs that are cut short.
    """
    left: dict[str, dict[str, dict[str, list[Planned]]]] = {}
    for each in random.Random(seed).sample(planned, len(planned)):
        files = left.setdefault(str(Path(each[0]).parent), {})
        files.setdefault(each[0], {}).setdefault(each[1].kind, []).append(each)
    kinds: Counter[str] = Counter()
    chosen: list[Planned] = []
    while left and len(chosen) < count:
        for folder, files in list(left.items()):
            path, own = next(iter(files.items()))
            kind = min(own, key=lambda kind: kinds[kind])
            kinds[kind] += 1
            chosen.append(own[kind].pop())
            del files[path]
            own = {kind: mutants for kind, mutants in own.items() if mutants}
            if own:
                files[path] = own  # behind the others
            if not files:
                del left[folder]
    return chosen[:count]


def package_of(path: str) -> str:
    """The package inside of ``funcgrad``, or the module."""
    return Path(path).parts[1].removesuffix(".py")


def sampled_in_packages(planned: Sequence[Planned], count: int, seed: int) -> list[Planned]:
    """Choose ``count`` mutants in every package; the beginning has as many of all packages."""
    packages: dict[str, list[Planned]] = {}
    for path, mutant in planned:
        packages.setdefault(package_of(path), []).append((path, mutant))
    samples = [sampled(members, count, seed) for members in packages.values()]
    return [chosen for row in zip_longest(*samples) for chosen in row if chosen is not None]


def equivalents(root: Path, planned: Sequence[Planned]) -> list[Planned]:
    """Those of some mutants that no test can see, by ``equivalents.json``."""
    told = json.loads(EQUIVALENTS.read_text("utf-8"))
    lines = {path: (root / path).read_text("utf-8").splitlines() for path, _ in planned}
    return [
        (path, mutant)
        for path, mutant in planned
        if mutant.what in told.get(path, {}).get(lines[path][mutant.line - 1].strip(), {})
    ]
