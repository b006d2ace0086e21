"""Stores what HIPS autograd returns for the programs: ``python -m tests.compat.golden``.

It needs autograd and SciPy; the tests need the file alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.compat.programs import PROGRAMS, library

FILE = Path(__file__).parent / "golden.json"


def encoded(value: Any) -> Any:
    """A value as JSON: containers, and arrays with their shapes."""
    if isinstance(value, dict):
        return {key: encoded(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encoded(item) for item in value]
    array = np.asarray(value)
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return {
        "shape": list(array.shape),
        "numbers": [[float(f"{x:.12g}") for x in part.ravel()] for part in parts],
    }


if __name__ == "__main__":
    results = {name: encoded(program(library("autograd"))) for name, program in PROGRAMS.items()}
    lines = [f" {json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
