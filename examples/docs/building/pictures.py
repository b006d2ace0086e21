"""The figures of an example: files beside it, which the gallery shows.

Examples draw to files without ``pyplot``, which the gallery's scraper for Matplotlib would look at.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

BEGUN = time.time()
"""The start of the build: older pictures are not moved."""


def drawn(
    block: tuple[str, str, int], block_vars: dict[str, Any], gallery_conf: dict[str, Any]
) -> str:
    """Move the pictures that a block of an example wrote to the gallery's, and show them."""
    source, names = Path(block_vars["src_file"]), block_vars["image_path_iterator"]
    pictures: list[Any] = []  # paths of the kind that the gallery has
    files = [path for path in source.parent.glob("*.png") if path.stat().st_mtime >= BEGUN]
    for path in sorted(files):
        pictures.append(next(names))
        shutil.move(path, pictures[-1])
    text: str = figure_rst(pictures, gallery_conf["src_dir"])
    return text
