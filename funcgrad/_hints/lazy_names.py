"""Public names of a package that are loaded when they are first used.

A script uses only a few of hundreds of functions. So a package lists the modules that define its
names; its ``__getattr__`` (PEP 562) loads a name on first use and stores it in the package. The
package imports the same names for type checkers and for the linter of layers; a test compares the
two.

>>> names = LateNames("funcgrad", {"": "nn", "_control.choices": "cond switch"})
>>> "cond" in names
True
>>> names.load("nn").__name__
'funcgrad.nn'
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from time import time
from types import MappingProxyType
from typing import Any, Final

from funcgrad._hints.lookup import former_or_missing

BEGAN: Final = time()
"""The time of import. Newer files may differ from the loaded modules."""


class LateNames:
    """The names of a package, and the modules that define them.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping from str to str
        Maps a module of the package, such as ``"_control.choices"``, to its public names, separated
        by spaces; ``public=inner`` means that the name is ``inner`` in the module. The key ``""``
        lists the package's public modules.
    listed : sequence of str, optional
        All public names, module by module; ``modules`` then says only the first name of each.
    home : str, optional
        The package whose modules these are, if it is another one.

    Attributes
    ----------
    places : mapping
        From each public name to its module and the module's name for it.
    """

    __slots__ = ("_home", "_package", "places")

    def __init__(
        self, package: str, modules: Mapping[str, str], listed: Sequence[str] = (), home: str = ""
    ) -> None:
        self._package = package
        self._home = home or package
        if listed:
            starts = [listed.index(first.partition("=")[0]) for first in modules.values()]
            pieces = [listed[start:end] for start, end in pairwise([*starts, len(listed)])]
            modules = {
                module: " ".join([first, *piece[1:]])
                for (module, first), piece in zip(modules.items(), pieces, strict=True)
            }
        self.places = MappingProxyType(
            {
                public: (module, inner or public)
                for module, names in modules.items()
                for public, _, inner in (name.partition("=") for name in names.split())
            }
        )

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def load(self, name: str) -> Any:
        """Load the object of a name, and store it in the package.

        If two threads call this at once, the module is loaded once: imports are locked.
        """
        if name not in self.places:
            return former_or_missing(self._package, name)
        module, inner = self.places[name]
        if module:
            value = getattr(import_module(f"{self._home}.{module}"), inner)
        else:
            value = import_module(f"{self._home}.{inner}")
        setattr(sys.modules[self._package], name, value)
        return value
