"""Calls of every function of files, in a folder that goes with the process.

>>> sorted(files())[0]
'fg.io.Checkpoints'
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import funcgrad as fg
from tests.differential.working_sample import Sample

_FOLDER = TemporaryDirectory()
TREE = {"a": np.arange(3.0), "b": (2.0, None)}


def files() -> dict[str, Sample]:
    """Functions of files."""
    io, folder = fg.io, Path(_FOLDER.name)
    path, steps = folder / "tree.safetensors", io.Checkpoints(folder / "steps")
    io.save(path, TREE, {"note": "sample"})
    steps.save(1, TREE, wait=True)
    made = {
        "Checkpoints": Sample(io.Checkpoints, (folder / "others", 2), then=_used),
        "Checkpoints.save": Sample(steps.save, (2, TREE, True, {"loss": 1.0})),
        "Checkpoints.latest": Sample(steps.latest, (TREE,)),
        "describe": Sample(io.describe, (path,), then=str),
        "differences": Sample(io.differences, (path, {"a": 1.0}), then=str),
        "load": Sample(io.load, (path, TREE)),
        "save": Sample(io.save, (folder / "saved.safetensors", TREE, {"note": "sample"})),
        "verify": Sample(io.verify, (path,)),
    }
    return {f"fg.io.{name}": sample for name, sample in made.items()}


def _used(checkpoints: Any) -> Any:
    checkpoints.save(1, TREE, wait=True)
    return checkpoints.latest()
