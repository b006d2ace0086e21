"""Names of NumPy, SciPy and Python, and the pages that describe them, without a network.

Sphinx resolves names of other sites by their inventories (``objects.inv``), which it would fetch.
These are made from the installed packages: which names there are, by their ``__all__``; and where
they are described, by the rules by which those sites name their pages.
"""

from __future__ import annotations

import builtins
import inspect
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

NUMPY = ("numpy", "numpy.fft", "numpy.linalg", "numpy.random", "numpy.testing")
SCIPY = tuple(
    f"scipy.{name}"
    for name in "fft integrate linalg optimize sparse sparse.linalg special stats".split()
)
SITES = {
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "python": "https://docs.python.org/3/",
}
SCALARS = "reference/arrays.scalars.html#$"
CONSTANTS = "reference/constants.html#$"


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventories into a folder, and return ``intersphinx_mapping``."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, lines in (
        ("numpy", _numpy()),
        ("scipy", _generated(SCIPY)),
        ("python", _python()),
    ):
        path = folder / f"{project}.inv"
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version:\n"
        head += "# The remainder of this file is compressed using zlib.\n"
        text = "".join(f"{name} {role} 1 {uri} -\n" for name, role, uri in lines)
        path.write_bytes(head.encode() + zlib.compress(text.encode()))
        mapping[project] = (SITES[project], str(path))
    return mapping


def _generated(modules: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """The names of modules whose sites have one page for each, made by autosummary."""
    for path in modules:
        module = import_module(path)
        for name in sorted(getattr(module, "__all__", dir(module))):
            role = _role(getattr(module, name, None))
            if name[0] != "_" and role:
                yield f"{path}.{name}", role, f"reference/generated/{path}.{name}.html#$"


def _numpy() -> Iterator[tuple[str, str, str]]:
    import numpy as np

    for name, role, uri in _generated(NUMPY):
        value = getattr(np, name.removeprefix("numpy."), None)
        is_scalar = inspect.isclass(value) and issubclass(value, np.generic)
        yield name, role, SCALARS if is_scalar else uri
    for name in ("e", "euler_gamma", "inf", "nan", "newaxis", "pi"):
        yield f"numpy.{name}", "py:data", CONSTANTS


def _python() -> Iterator[tuple[str, str, str]]:
    for name, value in vars(builtins).items():
        if inspect.isclass(value) and issubclass(value, BaseException):
            yield name, "py:exception", "library/exceptions.html#$"
        elif inspect.isclass(value):
            yield name, "py:class", "library/functions.html#$"
        elif callable(value) and name[0] != "_":
            yield name, "py:function", "library/functions.html#$"


def _role(value: Any) -> str:
    if inspect.isclass(value):
        return "py:exception" if issubclass(value, Exception) else "py:class"
    if callable(value) or type(value).__name__ == "ufunc":
        return "py:function"
    return ""
