"""Public names of a package that are loaded when they are first used.

A script uses a few of hundreds of functions, and each imports the operations that it needs. A
package lists where its names are defined; its ``__getattr__`` (PEP 562) loads a name and stores it
in the package, so that this happens once. The package imports the same names for type checkers and
for the linter of layers; a test compares the two.

>>> names = LateNames("funcgrad", {"": "nn", "_control.choices": "cond switch"})
>>> "cond" in names
True
>>> names.load("nn").__name__
'funcgrad.nn'
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from time import time
from types import MappingProxyType
from typing import Any, Final

from funcgrad._hints.lookup import missing_name

BEGAN: Final = time()
"""When the package was imported. Files that are newer may differ from what is loaded."""


class LateNames:
    """Names of a package and where each is defined.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping from str to str
        From a module of the package, such as ``"_control.choices"``, to its public names, separated
        by spaces; ``public=inner`` means that the module calls the name ``inner``. The key ``""``
        lists the package's public modules.
    """

    __slots__ = ("_package", "_places")

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self._package = package
        self._places = MappingProxyType(
            {
                public: (module, inner or public)
                for module, names in modules.items()
                for public, _, inner in (name.partition("=") for name in names.split())
            }
        )

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def load(self, name: str) -> Any:
        """Load the object of a name, and store it in the package.

        If two threads call this at once, the module is loaded once: imports are locked.
        """
        if name not in self._places:
            raise missing_name(self._package, name)
        module, inner = self._places[name]
        if module:
            value = getattr(import_module(f"{self._package}.{module}"), inner)
        else:
            value = import_module(f"{self._package}.{inner}")
        setattr(sys.modules[self._package], name, value)
        return value
