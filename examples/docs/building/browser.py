"""The wheel of the package, with which browsers run cells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def write(folder: Path) -> str:
    """Build the wheel, which is pure Python, into a folder, and return that."""
    command = ["-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([sys.executable, *command, folder], cwd=ROOT, check=True)
    return str(folder)
