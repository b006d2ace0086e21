"""Pages that are generated when the site is built; only changed pages are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def replace(folders: list[Path], texts: Mapping[Path, str]) -> None:
    """Write pages into folders that hold nothing else, and remove those that have gone.

    An unchanged page is not written, so that Sphinx reads it once.
    """
    suffixes = {path.suffix for path in texts}
    there = {path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes}
    for path in there - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
