"""Pictures of a built site, as browsers show it: 12 pages at three widths.

    python -m tests.tools.docs.screenshots build/site build/pictures

It needs a Chromium, under one of the names in ``BROWSERS``, and no network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"phone": (390, 1600), "laptop": (1280, 1600), "desktop": (1920, 1600)}
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
    "troubleshooting.html",
    "comparison.html",
)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(site: str, folder: str) -> None:
    """Write a PNG for each page and width, and print its name."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"No browser was found: install one of {', '.join(BROWSERS)}.")
    Path(folder).mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for page in PAGES:
        for word, (width, height) in WIDTHS.items():
            file = Path(folder) / f"{page.removesuffix('.html').replace('/', '-')}-{word}.png"
            subprocess.run(
                [
                    browser,
                    "--headless=new",
                    "--no-sandbox",
                    "--hide-scrollbars",
                    f"--window-size={width},{height}",
                    f"--screenshot={file.resolve()}",
                    f"http://127.0.0.1:{server.server_port}/{page}",
                ],
                check=True,
                capture_output=True,
                timeout=120,
            )
            print(file)
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
