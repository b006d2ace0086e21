"""How the elements of an operation's result come from elements of its operands.

A structure is data. Compilers and planners read it in the place of tables of operations: an
operation that declares its structure is costed, fused and planned without another line anywhere.

>>> import numpy as np
>>> Reduction(np.add).owns, Movement(is_view=True).owns
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final, TypeAlias

__all__ = [
    "COMMUTATIVE",
    "IDEMPOTENT",
    "JUMPS",
    "OPAQUE",
    "ROUNDED_ONCE",
    "TRANSCENDENTAL",
    "UNEVEN",
    "WRITES_INTO",
    "Contraction",
    "Control",
    "Elementwise",
    "Gather",
    "Movement",
    "Opaque",
    "Random",
    "Reduction",
    "Scan",
    "Scatter",
    "Structure",
    "Trait",
]


class Trait(Flag):
    """What holds of an operation for all operands; several are joined by ``|``.

    Attributes
    ----------
    COMMUTATIVE
        f(x, y) has the bits of f(y, x), but where both are complex.
    IDEMPOTENT
        f(x, x) is x, where it has the dtype of x.
    JUMPS
        It is not linear, although its factors do not depend on the values: a sawtooth.
    ROUNDED_ONCE
        Each element is the true result, rounded, so that no processor has another.
    TRANSCENDENTAL
        An exponential, a logarithm, an angle or the like, which is slow.
    UNEVEN
        The last bits of an element, or the sign of a zero, depend on where in an array it stands.
    WRITES_INTO
        After its arguments ``evaluate`` takes an array to put the result in.
    """

    NONE = 0
    COMMUTATIVE = auto()
    IDEMPOTENT = auto()
    JUMPS = auto()
    ROUNDED_ONCE = auto()
    TRANSCENDENTAL = auto()
    UNEVEN = auto()
    WRITES_INTO = auto()


COMMUTATIVE: Final = Trait.COMMUTATIVE
IDEMPOTENT: Final = Trait.IDEMPOTENT
JUMPS: Final = Trait.JUMPS
ROUNDED_ONCE: Final = Trait.ROUNDED_ONCE
TRANSCENDENTAL: Final = Trait.TRANSCENDENTAL
UNEVEN: Final = Trait.UNEVEN
WRITES_INTO: Final = Trait.WRITES_INTO


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Each element comes from the elements at the same place, after broadcasting.

    Attributes
    ----------
    owns : bool
        Whether the result is sure to have memory of its own.
    """

    owns: bool = True


@dataclass(frozen=True, slots=True)
class Reduction:
    """Each element comes from all elements along the parameter ``axis``.

    Attributes
    ----------
    combine : ufunc, optional
        What puts the reductions of two parts together: exactly, or rounding as a sum does.
    """

    combine: Any = None
    owns: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """Each element comes from those on one side of it along the parameter ``axis``."""

    owns: bool = True


@dataclass(frozen=True, slots=True)
class Movement:
    """Each element is one of the operands', or zero.

    Attributes
    ----------
    is_view : bool
        Whether the result lies in the memory of its operand, where NumPy can do that.
    """

    is_view: bool = False

    @property
    def owns(self) -> bool:
        """Whether the result is sure to have memory of its own."""
        return not self.is_view


@dataclass(frozen=True, slots=True)
class Contraction:
    """Products of elements of two operands, summed over the axes that the result does not have.

    Attributes
    ----------
    letters : callable
        ``(*specs, **params)`` to the axes of both operands and of the result, as ``einsum`` has
        them: a letter for each axis.
    """

    letters: Callable[..., tuple[str, str, str]]
    owns: bool = True


@dataclass(frozen=True, slots=True)
class Gather:
    """Each element is the first operand's at a place that the other operands say."""

    owns: bool = False


@dataclass(frozen=True, slots=True)
class Scatter:
    """Elements of an operand go to places of the result.

    Attributes
    ----------
    updates : int
        Which operand's elements go there.
    combine : ufunc, optional
        What puts those together that come to one place; without it the last one stays.
    """

    updates: int = 1
    combine: Any = None
    owns: bool = True


@dataclass(frozen=True, slots=True)
class Random:
    """Bits, computed from a key and a place."""

    owns: bool = True


@dataclass(frozen=True, slots=True)
class Control:
    """Programs that are run, which are parameters: loops, branches and calls.

    Attributes
    ----------
    runs : callable
        ``(**params)`` to the programs, each with how often it runs; None where nobody can tell.
    """

    runs: Callable[..., Sequence[tuple[Any, int | None]]]
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """Anything else: a step that NumPy takes alone.

    Attributes
    ----------
    counted : int, optional
        The operand for whose elements it does one operation each; None where nobody can tell.
    """

    counted: int | None = None
    owns: bool = False


OPAQUE: Final = Opaque()

Structure: TypeAlias = (
    Elementwise
    | Reduction
    | Scan
    | Movement
    | Contraction
    | Gather
    | Scatter
    | Random
    | Control
    | Opaque
)
