"""Packages that a user may have: they are imported when a function needs them.

>>> optional_package("json", "f: json is not installed").dumps([1])
'[1]'
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from funcgrad.errors import MissingPackageError


def optional_package(module: str, missing: str) -> ModuleType:
    """Import a module of another package.

    Parameters
    ----------
    module : str
        The name of the module; the package is the part before the first dot.
    missing : str
        The beginning of the error: which function needs the package, without a full stop.

    Raises
    ------
    MissingPackageError
        The package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(f"{missing}. Install it with `pip install {package}`.") from error
