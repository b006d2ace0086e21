"""A small compiler of formulas: it emits instructions and runs them element by element.

It shows that a formula uses only intrinsics, and does not branch on values.

>>> machine = Machine()
>>> x = machine.register(np.dtype(float))
>>> out = machine.sqrt(x * x + 1)
>>> machine.code
[('__mul__', (r0, r0), 1), ('__add__', (r1, 1), 2), ('sqrt', (r2,), 3)]
>>> machine.run(np.array([0.0, 1.0]))[out.place]
array([1.        , 1.41421356])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import intrinsics
from funcgrad._core.trace import Raw

Operand = Any
"""A register, or a Python number in a formula."""


def _operator(name: str) -> Callable[..., Operand]:
    return lambda self, *others: self.machine.emit(f"__{name}__", (self, *others))


def _swapped(name: str) -> Callable[..., Operand]:
    return lambda self, other: self.machine.emit(f"__{name}__", (other, self))


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A value whose dtype is known; it has the operators of formulas."""

    machine: Machine
    place: int
    dtype: np.dtype[Any]

    __hash__ = None  # type: ignore[assignment]  # values must not be put into sets

    __add__, __radd__ = _operator("add"), _swapped("add")
    __sub__, __rsub__ = _operator("sub"), _swapped("sub")
    __mul__, __rmul__ = _operator("mul"), _swapped("mul")
    __truediv__, __rtruediv__ = _operator("truediv"), _swapped("truediv")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _swapped("floordiv")
    __and__, __rand__ = _operator("and"), _swapped("and")
    __or__, __ror__ = _operator("or"), _swapped("or")
    __xor__, __rxor__ = _operator("xor"), _swapped("xor")
    __pos__, __neg__, __invert__ = _operator("pos"), _operator("neg"), _operator("invert")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __rshift__, __lshift__ = _operator("rshift"), _operator("lshift")

    def __repr__(self) -> str:
        return f"r{self.place}"

    def __bool__(self) -> bool:
        raise TypeError("a formula branches on a value: write m.where(condition, x, y) instead")

    def __getattr__(self, name: str) -> Operand:
        raise AttributeError(f"an element has no {name}: write formulas in intrinsics")


class Machine:
    """An algebra like ``funcgrad._core.intrinsics``, whose functions emit instructions.

    Attributes
    ----------
    code : list of (str, tuple, int)
        The intrinsic or the operator, its operands, and the register of its (first) result.
    """

    def __init__(self) -> None:
        """Start without instructions."""
        self.code: list[tuple[str, tuple[Operand, ...], int]] = []
        self._places = 0

    if not TYPE_CHECKING:  # type checkers would accept any name as an intrinsic

        def __getattr__(self, name: str) -> Callable[..., Operand]:
            """Return the intrinsic of a name."""
            if name.startswith("_") or name not in intrinsics.__all__:
                raise AttributeError(f"{name} is not an intrinsic")
            return lambda *args: self.emit(name, args)

    def register(self, dtype: np.dtype[Any]) -> Register:
        """Add a register."""
        self._places += 1
        return Register(self, self._places - 1, dtype)

    def emit(self, name: str, operands: tuple[Operand, ...]) -> Operand:
        """Add an instruction; NumPy's result for ones gives its dtype."""
        examples = [np.ones(1, x.dtype) if type(x) is Register else x for x in operands]
        made = _done(name, examples)
        several = type(made) is tuple
        registers = [self.register(x.dtype) for x in (made if several else (made,))]
        self.code.append((name, operands, registers[0].place))
        return tuple(registers) if several else registers[0]

    def run(self, *inputs: Raw) -> list[Raw]:
        """Run the instructions; return the values of all registers."""
        places = list(inputs)
        for name, operands, _ in self.code:
            values = [places[x.place] if type(x) is Register else x for x in operands]
            made = _done(name, values)
            places += made if type(made) is tuple else [made]
        return places


def _done(name: str, operands: Sequence[Operand]) -> Raw:
    if not name.startswith("__"):
        return getattr(intrinsics, name)(*operands)
    first, *others = operands
    if type(first) in (int, float):  # Python numbers are weak, as in the formula
        return getattr(others[0], f"__r{name.strip('_')}__")(first)
    return getattr(np.asarray(first)[()] if others else first, name)(*others)
