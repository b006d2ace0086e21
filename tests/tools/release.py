"""``python -m tests.tools.release``: build the distributions, and check them as an index would.

The archive of sources and the wheel are made twice, and have to have the same bytes. ``twine``,
``check-wheel-contents`` and ``validate-pyproject`` look at them. The wheel holds its bill of
materials, and all files name one version. The unpacked sources are the files of this tree, byte for
byte, and some tests run there: the ones that are named on the command line, or a few.

>>> len(versions())
1
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from filecmp import cmpfiles
from hashlib import blake2b
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MOMENT: Final = "1767225600"
"""The time of all files in both archives, in seconds since 1970: the beginning of 2026."""

BUNDLED: Final = "dist-info/sboms/sbom.cdx.json"
TESTS: Final = ("tests/test_tree.py", "tests/test_proofs.py")
TOLERATED: Final = "W002,W009"
"""Stubs with one text, and the plugin of pytest beside the package, are meant."""


def versions() -> set[str]:
    """The versions that the files of the project name; a release needs them to be one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    component = json.loads((ROOT / ".github" / "sbom.cdx.json").read_text("utf-8"))["metadata"][
        "component"
    ]
    found = {project["version"], component["version"], component["purl"].partition("@")[2]}
    for name, pattern in (
        ("CITATION.cff", r"^version: (\S+)$"),
        ("funcgrad/__init__.py", r'^__version__ = "(.*)"$'),
        ("CHANGELOG.md", r"^## \[(\d[^\]]*)\]"),  # the newest version comes first
    ):
        match = re.search(pattern, (ROOT / name).read_text("utf-8"), re.MULTILINE)
        found.add(match[1] if match else f"none in {name}")
    return found


def run(arguments: Sequence[str], folder: Path) -> None:
    """Run a module of this Python in a folder, and stop if it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": MOMENT, "PYTHONPATH": ""}
    subprocess.run([sys.executable, "-m", *arguments], cwd=folder, env=environment, check=True)


def built(folder: Path) -> list[Path]:
    """Build both distributions, the wheel from the archive of sources."""
    run(["build", "--no-isolation", "--outdir", str(folder), "."], ROOT)
    return sorted(folder.iterdir())


def digests(files: Sequence[Path]) -> dict[str, str]:
    """A digest of each file, by its name."""
    return {file.name: blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files}


def differing(unpacked: Path) -> set[str]:
    """The files that differ from those of this tree, which git knows, are missing, or are too many.

    Nothing is compared where git is missing, as in sources that were unpacked themselves.
    """
    if not (ROOT / ".git").exists():
        return set()
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    _, others, missing = cmpfiles(ROOT, unpacked, names, shallow=False)
    files = [path for path in unpacked.rglob("*") if path.is_file()]
    there = {path.relative_to(unpacked).as_posix() for path in files}
    return {*others, *missing, *(there - names - {"PKG-INFO"})}


def relative_links(wheel: Path) -> list[str]:
    """The links in the description of a wheel that lead to files."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        return re.findall(r"\]\((?!https?:|#)[^)]*\)", archive.read(name).decode("utf-8"))


def main(tests: Sequence[str]) -> int:
    """Build and check; return 1 after printing what is wrong."""
    faults = []
    if len(versions()) > 1:
        faults.append(f"the files name several versions: {sorted(versions())}")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        files = built(place / "first")
        if digests(files) != digests(built(place / "second")):
            faults.append("two builds differ")
        wheel, sources = files
        if not any(name.endswith(BUNDLED) for name in zipfile.ZipFile(wheel).namelist()):
            faults.append("the wheel has no bill of materials")
        if links := relative_links(wheel):
            faults.append(f"an index would not follow these links of the README: {links}")
        run(["twine", "check", "--strict", *map(str, files)], ROOT)
        run(["check_wheel_contents", "--ignore", TOLERATED, str(wheel)], ROOT)
        run(["validate_pyproject", "pyproject.toml"], ROOT)
        with tarfile.open(sources) as archive:
            archive.extractall(place, filter="data")
        unpacked = place / sources.name.removesuffix(".tar.gz")
        if others := differing(unpacked):
            faults.append(f"the sources are not those of this tree: {sorted(others)}")
        run(["pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *(tests or TESTS)], unpacked)
        for name, digest in digests(files).items():
            print(name, digest)
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
