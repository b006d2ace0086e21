"""The figures of an example: files beside it, which the gallery shows; a panel is the thumbnail.

Examples draw to files without ``pyplot``, which the gallery's scraper for Matplotlib would look at.
The pictures of a script come first, and then each of their panels, which no page shows:
``# sphinx_gallery_thumbnail_number = 3`` chooses the second panel of a script with one picture.
"""

from __future__ import annotations

import shutil
import time
from functools import wraps
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

BEGUN = time.time()
"""The start of the build: older pictures are not moved."""

SAVED: dict[str, Figure] = {}
"""The figures of the script that runs, by the names of their files."""

SAVE = Figure.savefig


@wraps(SAVE)
def _save(figure: Figure, path: Any, **options: Any) -> None:
    SAVED[Path(path).name] = figure
    SAVE(figure, path, **options)


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
    for name in sorted(SAVED):
        figure = SAVED.pop(name)
        for axes in figure.axes:
            _save_panel(figure, axes, next(names))
    text: str = figure_rst(pictures, gallery_conf["src_dir"])
    return text


def _save_panel(figure: Figure, axes: Any, path: str) -> None:
    """Save one panel without words and numbers, which nobody can read in a thumbnail."""
    axes.set(title="", xlabel="", ylabel="")
    axes.tick_params(labelbottom=False, labelleft=False, which="both")
    if (legend := axes.get_legend()) is not None:
        legend.remove()
    for line in axes.lines:
        line.set(linewidth=1.6 * line.get_linewidth(), markersize=1.6 * line.get_markersize())
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the panel stays at its place
    box = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    SAVE(figure, path, dpi=150, bbox_inches=box.padded(0.05))


Figure.savefig = _save  # type: ignore[assignment, method-assign]  # in builds
