"""An equation at which a rule looks, and the answers of rules.

>>> bool(UNKNOWN)
Traceback (most recent call last):
TypeError: the value is not known
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad._programs.equation import Equation
from funcgrad.sparse.element_rows import Rows

Dependent: TypeAlias = list[Rows | None]
"""The rows of several variables."""

Known: TypeAlias = Mapping[int, Any]
"""The values of some variables, or of some operands."""


class UnknownValue:
    """It stands for operands that are not known: every use of it raises."""

    def _refuse(self, *_args: object, **_kwargs: object) -> Any:
        raise TypeError("the value is not known")

    __array__ = __bool__ = __eq__ = __invert__ = __abs__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __and__ = __mul__ = __rmul__ = _refuse
    __hash__ = None  # type: ignore[assignment]


UNKNOWN: Final = UnknownValue()


@dataclass(frozen=True, slots=True)
class DenseOperation:
    """An operation that was taken to be dense, since it declares too little.

    Attributes
    ----------
    name : str
    source : str
        The user's line.
    """

    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} at {self.source}" if self.source else self.name


@dataclass(frozen=True, slots=True, eq=False)
class PatternSite:
    """An equation at which a rule looks.

    Attributes
    ----------
    equation : Equation
    specs : sequence of Spec
        The specs of the operands.
    rows : list of rows
        The rows of the operands.
    known : mapping
        The known values of operands, by position.
    out : value or None
        The known results.
    """

    equation: Equation
    specs: Sequence[Spec]
    rows: Dependent
    known: Known
    out: tuple[Any, ...] | None

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.equation.params)

    @property
    def shapes(self) -> list[Shape]:
        return [spec.shape for spec in self.specs]

    @property
    def results(self) -> list[Shape]:
        return [spec.shape for spec in self.equation.results]

    @property
    def dependent(self) -> Iterable[tuple[int, Rows]]:
        """The operands that depend on the arguments, with their rows."""
        return [(k, rows) for k, rows in enumerate(self.rows) if rows is not None]


class Undeclared:
    """The answer of a rule for which an operation declares too little."""


UNDECLARED: Final = Undeclared()
