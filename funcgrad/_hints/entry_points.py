"""Objects that other installed packages offer, by name: entry points of a group.

A package declares them in its ``pyproject.toml``. Nothing of it is imported before the name is
looked up::

    [project.entry-points."funcgrad.backends"]
    tiles = "tiled_backend:BACKEND"

>>> list(EntryPoints("funcgrad.colors", "jit"))
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from funcgrad.errors import ArgumentError, MissingPackageError


class EntryPoints(Mapping[str, Any]):
    """The objects of a group by their names. An object is imported when it is looked up.

    Parameters
    ----------
    group : str
        The group, such as ``"funcgrad.backends"``.
    operation : str
        The function that asks, for error messages.
    """

    __slots__ = ("_entries", "_group", "_operation")

    def __init__(self, group: str, operation: str) -> None:
        self._group, self._operation = group, operation
        self._entries = {entry.name: entry for entry in entry_points(group=group)}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Any:
        """Import the object of a name.

        Raises
        ------
        ArgumentError
            No installed package offers the name.
        MissingPackageError
            The package that offers it cannot be imported.
        """
        if name not in self._entries:
            known = ", ".join(map(repr, self)) or "none"
            raise ArgumentError(
                f"{self._operation}: no installed package offers {name!r} by an entry point of the"
                f" group {self._group!r}; known are: {known}."
            )
        entry = self._entries[name]
        try:
            return entry.load()
        except (AttributeError, ImportError) as error:
            package = entry.dist.name if entry.dist is not None else entry.module
            raise MissingPackageError(
                f"{self._operation}: the package {package!r} offers {name!r} as {entry.value!r},"
                f" which cannot be imported: {error}. Repair the package, or uninstall it."
            ) from error

    def __repr__(self) -> str:
        return f"EntryPoints({self._group!r}: {', '.join(self) or 'none'})"
