"""The functions in C++: built once a process where there is a compiler, and called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

HERE: Final = Path(__file__).parent
COMMAND: Final = ("g++", "-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


class _Array(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("shape", ctypes.c_long * 4))


def has_compiler() -> bool:
    """Whether there is a compiler of C++."""
    return shutil.which(COMMAND[0]) is not None


def built() -> Any:
    """The library of all functions."""
    with TemporaryDirectory() as folder:
        source, library = Path(folder) / "all.cpp", Path(folder) / "by_hand.so"
        source.write_text("".join([p.read_text("utf-8") for p in sorted(HERE.glob("*.cpp"))]))
        subprocess.run([*COMMAND, "-o", str(library), str(source)], check=True)
        return ctypes.CDLL(str(library))


def bound(library: Any, name: str, arguments: Sequence[Any], results: int) -> Callable[[int], Any]:
    """A function of how often to call, which returns all results in one array."""
    arrays = [np.ascontiguousarray(a, np.int64 if _whole(a) else np.float64) for a in arguments]
    inputs = (_Array * len(arrays))()
    for record, array in zip(inputs, arrays, strict=True):
        record.data = array.ctypes.data
        record.shape[: array.ndim] = array.shape
    out = np.full(results, np.nan)
    function = getattr(library, name.replace(" ", "_"))
    place = ctypes.c_void_p(out.ctypes.data)

    def call(calls: int) -> Any:
        library.repeat(function, inputs, place, ctypes.c_long(calls))
        return out

    call.arrays = arrays  # type: ignore[attr-defined]  # which hold the memory that is read
    return call


def _whole(array: Any) -> bool:
    return np.asarray(array).dtype.kind in "iu"
