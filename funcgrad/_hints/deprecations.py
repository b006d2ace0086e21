"""Former names of public functions and options: one table says all about them.

A former name works, and warns, for at least two minor versions and at least a year. From the table
follow the aliases, the warnings, and the table of ``examples/docs/stability.md``.

>>> row = FormerName("funcgrad.nn", "", "attend", "nn.attention", "0.2", "2027-03")
>>> row.message
'fg.nn.attend is called fg.nn.attention now. The former name may go in version 0.4.'
>>> row.last_month
'2028-03'
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import reduce, wraps
from typing import Any, Final, TypeVar

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import warn_user
from funcgrad.errors import ArgumentError, FuncgradDeprecationWarning

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FormerName:
    """A name that has changed.

    Attributes
    ----------
    module : str
        The public module that has, or whose functions have, the former name.
    functions : str
        The functions that take it as an option, separated by spaces; empty for a name of the module
        itself.
    name : str
        The former name.
    present : str
        The new name: of an option, or the path of an object inside of ``funcgrad``.
    version, month : str
        The minor version in which the name changed, and the month of that version.
    """

    module: str
    functions: str
    name: str
    present: str
    version: str
    month: str

    @property
    def ends(self) -> str:
        """The first minor version that may lack the former name."""
        major, minor = self.version.split(".")
        return f"{major}.{int(minor) + 2}"

    @property
    def last_month(self) -> str:
        """The month until which the former name works in any case."""
        year, _, month = self.month.partition("-")
        return f"{int(year) + 1}-{month}"

    @property
    def written(self) -> tuple[str, str]:
        """Both names, as a user writes them."""
        if self.functions:
            return f"{self.name}=", f"{self.present}="
        return f"{self.module.replace('funcgrad', 'fg', 1)}.{self.name}", f"fg.{self.present}"

    @property
    def message(self) -> str:
        """The text of the warning."""
        former, present = self.written
        place = f"{self.module.replace('funcgrad', 'fg', 1)}: " if self.functions else ""
        end = f"The former name may go in version {self.ends}."
        return f"{place}{former} is called {present} now. {end}"


TABLE: Final[tuple[FormerName, ...]] = ()
"""All former names that still work; a row goes when its time is over."""


def former_value(module: str, name: str, table: Iterable[FormerName] = TABLE) -> Any:
    """Find the object that a module had under a name, and warn; None for any other name."""
    for row in table:
        if (row.module, row.functions, row.name) == (module, "", name):
            warn_user(row.message, FuncgradDeprecationWarning)
            return reduce(getattr, row.present.split("."), sys.modules["funcgrad"])
    return None


def with_former_options(function: F, table: Iterable[FormerName] = TABLE) -> F:
    """Let a public function take options by the former names that the table has for it.

    Raises
    ------
    ArgumentError
        An option is passed by both names.
    """
    package = ".".join(function.__module__.split(".")[:2])
    rows = {
        row.name: row
        for row in table
        if row.module == package and function.__name__ in row.functions.split()
    }

    @wraps(function)
    def renamed(*args: object, **options: object) -> object:
        for name in rows.keys() & options.keys():
            row = rows[name]
            warn_user(row.message, FuncgradDeprecationWarning)
            if row.present in options:
                text = f"{function.__name__}: {name}= is the former name of {row.present}=."
                raise ArgumentError(f"{text} Pass {row.present}= only.")
            options[row.present] = options.pop(name)
        return function(*args, **options)

    return renamed  # type: ignore[return-value]  # the same signature
