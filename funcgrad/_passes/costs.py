"""The costs of a program: arithmetic, memory that is read and written, peak memory.

They are counted from shapes and dtypes, without running the program.

>>> import funcgrad as fg
>>> w, x = fg.tensor([[1.0, 2.0]]), fg.tensor([3.0, 4.0])
>>> staged = fg.program(lambda w, x: fg.numpy.tanh(w @ x))(w, x)
>>> print(costs(staged))
<lambda>: 2 equations, 5 arithmetic operations, 1 of them transcendental
  reads 40 B and writes 16 B; intermediates need 16 B at once
  inputs 32 B, constants 0 B, outputs 8 B
<BLANKLINE>
  operation  equations  arithmetic  transcendental  reads  writes
  matmul             1           4               0   32 B     8 B
  tanh               1           1               1    8 B     8 B
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    Contraction,
    Control,
    Elementwise,
    Gather,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
    Trait,
)
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class OperationCosts:
    """The total costs of all equations of one operation.

    Attributes
    ----------
    name : str
    equations : int
        The number of equations.
    arithmetic, transcendental : int or None
        See ``Costs``; None if unknown, as for most operations whose structure is ``Opaque``.
    bytes_read, bytes_written : int
        Only operands and results, without temporary memory of the operation.
    """

    name: str
    equations: int
    arithmetic: int | None
    transcendental: int | None
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a program.

    Attributes
    ----------
    name : str
        The program's name.
    operations : tuple of OperationCosts
        Sorted by arithmetic, then by bytes read and written, the greatest first.
    input_bytes, constant_bytes, output_bytes : int
    peak_bytes : int
        The maximum of bytes of results, including outputs, that are alive at once, if equations run
        in order and each result is freed after its last use.
    """

    name: str
    operations: tuple[OperationCosts, ...]
    input_bytes: int
    constant_bytes: int
    output_bytes: int
    peak_bytes: int

    @property
    def equations(self) -> int:
        """The number of equations."""
        return sum([row.equations for row in self.operations])

    @property
    def unknown(self) -> int:
        """The number of equations of unknown arithmetic, which the totals below omit."""
        return sum([row.equations for row in self.operations if row.arithmetic is None])

    @property
    def arithmetic(self) -> int:
        """The number of operations on single elements, whatever their dtype.

        An elementwise operation counts one for each element of its result, a reduction or a sort
        one for each input element, a contraction two for each product that it sums.
        """
        return sum([row.arithmetic or 0 for row in self.operations])

    @property
    def transcendental(self) -> int:
        """The number of slow operations: exponentials, logarithms, sines and the like."""
        return sum([row.transcendental or 0 for row in self.operations])

    @property
    def bytes_read(self) -> int:
        """The bytes that operations read, from memory or from a cache; views read nothing."""
        return sum([row.bytes_read for row in self.operations])

    @property
    def bytes_written(self) -> int:
        """The bytes of the results of operations; views write nothing."""
        return sum([row.bytes_written for row in self.operations])

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        from funcgrad._base.html import text_table

        return text_table(" ".join(map(str.strip, self._totals())), _cells(self.operations))

    def __str__(self) -> str:
        lines = self._totals()
        return "\n".join([*lines, "", *_table(self.operations)] if self.operations else lines)

    def _totals(self) -> list[str]:
        least = "at least " if self.unknown else ""
        return [
            f"{self.name}: {self.equations:,} equation{'s' * (self.equations != 1)},"
            f" {least}{self.arithmetic:,} arithmetic operations,"
            f" {self.transcendental:,} of them transcendental",
            f"  reads {least}{_text(self.bytes_read)} and writes {_text(self.bytes_written)};"
            f" intermediates need {_text(self.peak_bytes)} at once",
            f"  inputs {_text(self.input_bytes)}, constants {_text(self.constant_bytes)},"
            f" outputs {_text(self.output_bytes)}",
        ]


def costs(program: Program) -> Costs:
    """Count the costs of a program.

    Parameters
    ----------
    program : Program
        Calls cost as much as their programs.

    Returns
    -------
    Costs
        The costs; they print as a table.

    Examples
    --------
    >>> import funcgrad as fg
    >>> summary = costs(fg.program(lambda x: fg.numpy.sum(x * x))(fg.tensor([1.0, 2.0, 3.0])))
    >>> summary.arithmetic, summary.bytes_read, summary.peak_bytes
    (6, 48, 32)
    """
    program = inlined(program)
    specs = program.specs()
    rows: dict[str, OperationCosts] = {}
    for equation in program.equations:
        row = equation_costs(equation, specs)
        rows[row.name] = _together(rows[row.name], row) if row.name in rows else row
    return Costs(
        name=program.name,
        operations=tuple(sorted(rows.values(), key=_rank)),
        input_bytes=sum(map(bytes_of, program.inputs)),
        constant_bytes=sum([bytes_of(constant.spec) for constant in program.constants]),
        output_bytes=sum([bytes_of(specs[variable]) for variable in {*program.outputs}]),
        peak_bytes=peak_bytes(program),
    )


# ------------------------------------------------------------------------------- single equations


def bytes_of(spec: Spec) -> int:
    """The size of a value in bytes.

    >>> import numpy as np
    >>> bytes_of(Spec((2, 3), np.dtype("float32")))
    24
    """
    return prod(spec.shape) * spec.dtype.itemsize


def equation_costs(equation: Equation, specs: Sequence[Spec]) -> OperationCosts:
    """The costs of one equation, for the specs of a program's variables."""
    operation, name = equation.operation, equation.name
    if _is_view(equation):
        return OperationCosts(name, 1, 0, 0, 0, 0)
    written = sum(map(bytes_of, equation.results))
    read = sum([bytes_of(specs[variable]) for variable in {*equation.operands}])
    operands = [specs[variable] for variable in equation.operands]
    if isinstance(operation.structure, Gather):  # a few rows of a possibly large table
        read += written - bytes_of(operands[0])
    arithmetic = _arithmetic(equation, operands)
    is_slow = Trait.TRANSCENDENTAL in operation.traits or arithmetic is None
    slow = arithmetic if is_slow else 0
    if isinstance(operation.structure, Control):
        slow = _of_programs(operation.structure.runs(**dict(equation.params)), "transcendental")
    return OperationCosts(name, 1, arithmetic, slow, read, written)


def _of_programs(runs: Sequence[tuple[Program, int | None]], kind: str) -> int | None:
    """The sum of a cost over programs, times how often each runs; None if any is unknown."""
    total = 0
    for program, times in runs:
        program_costs = costs(program)
        if times is None or program_costs.unknown:
            return None
        total += times * int(getattr(program_costs, kind))
    return total


_MOVING: Final = (Movement, Elementwise)


def _is_view(equation: Equation) -> bool:
    """Whether an operation returns a view and computes nothing (a reshape: if possible)."""
    structure = equation.operation.structure
    return isinstance(structure, _MOVING) and structure.is_view


def _arithmetic(equation: Equation, operands: Sequence[Spec]) -> int | None:
    """The number of operations on single elements, as for ``Costs.arithmetic``; None if unknown."""
    structure = equation.operation.structure
    match structure:
        case Elementwise() | Random():
            return prod(equation.results[0].shape)
        case Reduction() | Scan():
            return prod(operands[0].shape)
        case Scatter() if structure.fold is not None:
            return prod(operands[structure.updates].shape)
        case Movement() if structure.adds:
            return sum([prod(operand.shape) for operand in operands[1:]])
        case Scatter() | Movement() | Gather():
            return 0
        case Contraction():
            first, second, _ = structure.letters(*operands, **dict(equation.params))
            sizes: dict[str, int] = {}
            for letters, spec in zip((first, second), operands, strict=True):
                for letter, size in zip(letters, spec.shape, strict=True):
                    sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
            return 2 * prod(sizes.values())
        case Control():
            return _of_programs(structure.runs(**dict(equation.params)), "arithmetic")
        case Opaque() if structure.counted is not None:
            return prod(operands[structure.counted].shape)
    return None


def _together(first: OperationCosts, second: OperationCosts) -> OperationCosts:
    return OperationCosts(
        first.name,
        first.equations + second.equations,
        _sum(first.arithmetic, second.arithmetic),
        _sum(first.transcendental, second.transcendental),
        first.bytes_read + second.bytes_read,
        first.bytes_written + second.bytes_written,
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _rank(row: OperationCosts) -> tuple[bool, int, int, str]:
    """The sort key of a row: unknown costs first, then the greatest."""
    moved = row.bytes_read + row.bytes_written
    return row.arithmetic is not None, -(row.arithmetic or 0), -moved, row.name


# ------------------------------------------------------------------------------------ memory


def memory_homes(program: Program) -> list[int]:
    """For each variable, the variable whose memory it uses: itself, or the base of a view.

    Results that may or may not share memory, such as results of calls, count as new memory.
    """
    homes = list(range(program.index.first_result))
    for equation in program.equations:
        if _is_view(equation):
            homes.append(homes[equation.operands[0]])
        else:
            homes += range(len(homes), len(homes) + len(equation.results))
    return homes


def peak_bytes(program: Program) -> int:
    """The maximum of bytes of results that are alive at once; see ``Costs``."""
    homes = memory_homes(program)
    ends = [-1] * len(homes)
    for home, last in zip(homes, program.index.last_uses, strict=True):
        ends[home] = max(ends[home], last)
    number = program.index.first_result
    freed = [0] * (len(program.equations) + 1)
    alive = peak = 0
    for position, equation in enumerate(program.equations):
        for spec in equation.results:
            if homes[number] == number:
                size = bytes_of(spec)
                alive += size
                freed[ends[number]] += size
            number += 1
        peak = max(peak, alive)
        alive -= freed[position]
    return peak


# ------------------------------------------------------------------------------------- in print

_COLUMNS: Final = ("operation", "equations", "arithmetic", "transcendental", "reads", "writes")


def _cells(rows: Sequence[OperationCosts]) -> list[Sequence[str]]:
    """The titles of the columns, and the texts of the rows."""
    cells: list[Sequence[str]] = [_COLUMNS]
    for row in rows:
        counts = [row.equations, row.arithmetic, row.transcendental]
        texts = ["?" if count is None else f"{count:,}" for count in counts]
        cells.append((row.name, *texts, _text(row.bytes_read), _text(row.bytes_written)))
    return cells


def _table(rows: Sequence[OperationCosts]) -> list[str]:
    cells = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  " + "  ".join(_justified(row, widths)) for row in cells]


def _justified(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0])] + [
        cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
    ]


def _text(count: int) -> str:
    """A number of bytes as text in a suitable unit."""
    if count < 1024:
        return f"{count} B"
    size, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"
