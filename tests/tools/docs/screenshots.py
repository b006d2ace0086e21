"""Pictures of a built site, as browsers show it: pages at three widths, light and dark.

    python -m tests.tools.docs.screenshots build/site build/pictures

Names of pages may follow. It needs a Chromium, under one of the names in ``BROWSERS``, and no
network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"phone": (390, 1600), "laptop": (1280, 1600), "desktop": (1920, 1600)}
LOOKS = {"light": 1, "dark": 0}
"""Chromium's numbers of the scheme of colors that a reader prefers."""

PAGES = (
    "index.html",
    "install.html",
    "ten_minutes.html",
    "guide/index.html",
    "guide/modes.html",
    "guide/optimization.html",
    "cookbook/training.html",
    "gallery/index.html",
    "reference/index.html",
    "reference/funcgrad.html",
    "reference/funcgrad/grad.html",
    "coming_from/numpy.html",
    "troubleshooting.html",
    "comparison.html",
)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(site: str, folder: str, *pages: str) -> None:
    """Write a PNG for each page, width and look, and print its name."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"No browser was found: install one of {', '.join(BROWSERS)}.")
    Path(folder).mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for page, (word, size), (look, scheme) in product(
        pages or PAGES, WIDTHS.items(), LOOKS.items()
    ):
        name = f"{page.removesuffix('.html').replace('/', '-')}-{word}-{look}.png"
        subprocess.run(
            [
                browser,
                "--headless=new",
                "--no-sandbox",
                "--hide-scrollbars",
                f"--blink-settings=preferredColorScheme={scheme}",
                "--window-size={},{}".format(*size),
                f"--screenshot={(Path(folder) / name).resolve()}",
                f"http://127.0.0.1:{server.server_port}/{page}",
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        print(Path(folder) / name)
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
