"""Kernels: groups of equations that run together, on one block of rows after another.

A chain of elementwise operations on large arrays spends its time on memory: each operation reads
from main memory what the previous one wrote there. A *kernel* runs the whole chain on a block of
rows that stays in the cache, then on the next block. Its members are elementwise operations,
reductions within rows, and sums, extrema and dot products over the rows, which combine the blocks'
results.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.sum(fnp.sin(x) * x))(fnp.ones(100_000))
>>> kernels(staged)
[Kernel(members=(0, 1, 2), rows=100000, step=20000, flat=True)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final, TypeAlias

import numpy as np

from funcgrad.backends.numpy.graphs import in_order
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.programs.structures import keeps_order, rearranged
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Contraction, Elementwise, Movement, Reduction

BLOCK: Final = 3 * 2**16
"""Bytes of a block of an array. Half a dozen blocks fit into a core's cache, and an operation on
one takes ten times as long as the call. Measured: half or twice as much is 5 % slower."""

_LARGE: Final = 2  # blocks: an array of this size is worth going through in blocks
_CALL: Final = (
    1 / 8
)  # of the time that it takes to go through a block in the cache, is that of a call
_NEAR: Final = 8  # kernels, the last ones, are looked at, lest the search grow with the program


@dataclass(frozen=True, slots=True)
class Kernel:
    """Equations that run together, block by block.

    Attributes
    ----------
    members : tuple of int
        The equations' positions, in order.
    rows : int
        The length of axis 0, which all members share; if flat, the number of elements.
    step : int
        The number of rows in a block.
    flat : bool
        Whether all arrays are reshaped to one axis.
    """

    members: tuple[int, ...]
    rows: int
    step: int
    flat: bool

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.rows // self.step)


Step: TypeAlias = "int | Kernel"
"""The position of an equation that runs by itself, or a kernel."""


def is_dot(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether an equation is ``sum(x * y)`` over all axes of two arrays of one shape and dtype."""
    structure = equation.operation.structure
    operands = [specs[operand] for operand in equation.operands]
    if not isinstance(structure, Contraction) or any(
        spec.dtype != equation.results[0].dtype for spec in operands
    ):
        return False
    first, second, out = structure.letters(*operands, **dict(equation.params))
    return bool(first) and first == second and not out


def combined_by(equation: Equation, specs: Sequence[Spec]) -> str:
    """The name of the ufunc that combines an equation's results for blocks of rows, or ''."""
    if is_dot(equation, specs):
        return "add"
    ufunc = _combining_ufunc(equation)
    return "" if ufunc is None else ufunc.__name__


def _combining_ufunc(equation: Equation) -> np.ufunc | None:
    """The ufunc that combines the results of a reduction for two halves; None where none does."""
    structure = equation.operation.structure
    fold = structure.fold if isinstance(structure, Reduction) else None
    return None if fold is None else fold.ufunc


def _combines(equation: Equation) -> bool:
    return _combining_ufunc(equation) is not None


def _is_product(equation: Equation) -> bool:
    """Whether an equation is a contraction; in a kernel it is a dot product."""
    return isinstance(equation.operation.structure, Contraction)


def role_of(equation: Equation, specs: Sequence[Spec], rows: int) -> str:
    """The role of an equation in a kernel over ``rows`` rows.

    Returns
    -------
    str
        ``row`` if it computes a block of the result from a block of rows, ``total`` if the blocks'
        results are combined to the result, and an empty string if it cannot be a member.
    """
    params = dict(equation.params)
    if not equation.operands or len(equation.results) != 1:
        return ""
    first_shape = specs[equation.operands[0]].shape
    if is_dot(equation, specs):
        return "total" if first_shape[0] == rows else ""
    if _combines(equation):
        axes = params["axis"]
        if not first_shape or first_shape[0] != rows or not set(params) <= {"axis", "keepdims"}:
            return ""
        return "total" if 0 in axes else "row" if axes else ""
    shape = equation.results[0].shape
    if not shape or shape[0] != rows or not all(shape):
        return ""
    if _is_view(equation):
        return "row" if first_shape[:1] == (rows,) and _keeps_rows(equation, specs) else ""
    return "row" if isinstance(equation.operation.structure, Elementwise) else ""


def _is_view(equation: Equation) -> bool:
    structure = equation.operation.structure
    return isinstance(structure, Movement) and structure.is_view


def _keeps_rows(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether each row of a view consists of elements of the same row of the array."""
    shape, piece = specs[equation.operands[0]].shape, rearranged(equation, specs)
    if piece is None or piece.shape[0] != shape[0]:
        return False
    row, *steps = piece.strides
    ends = [(size - 1) * step for size, step in zip(piece.shape[1:], steps, strict=True)]
    first = piece.start + sum([min(end, 0) for end in ends])
    last = piece.start + sum([max(end, 0) for end in ends])
    if row != prod(shape[1:]) or first < 0 or last >= row:
        return False
    return keeps_order(piece, shape) or fits_blocks(equation, specs)


def fits_blocks(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether an operation has the same parameters for a block of rows as for all rows."""
    spec = specs[equation.operands[0]]
    block = replace(spec, shape=(1, *spec.shape[1:]))
    (result,) = equation.operation.results(block, **dict(equation.params))
    return result.shape == (1, *equation.results[0].shape[1:])


@dataclass(frozen=True, slots=True)
class _ArraySizes:
    """The sizes of a program's arrays in bytes, and whether a size counts as large."""

    specs: Sequence[Spec]
    block: int

    def size_of(self, spec: Spec) -> int:
        return prod(spec.shape) * spec.dtype.itemsize

    def widest(self, equation: Equation) -> int:
        """The size of the largest array that an equation reads or makes."""
        operands = [self.specs[operand] for operand in equation.operands]
        return max([self.size_of(spec) for spec in (*equation.results, *operands)])

    def is_large(self, size: int) -> bool:
        return size >= _LARGE * self.block


class _KernelDraft:
    """An unfinished kernel."""

    __slots__ = ("after", "members", "number", "results", "rows", "seen")

    def __init__(self, number: int, rows: int) -> None:
        self.number = number
        self.rows = rows
        self.members: list[int] = []
        self.results: dict[int, str] = {}  # the roles of the equations, by their results
        self.seen: set[int] = set()  # variables that the kernel reads or makes in blocks
        self.after = 0  # the kernels that have to run before this one, as bits


def is_total(equation: Equation, kernel: Kernel) -> bool:
    """Whether an equation of a kernel reduces over the kernel's rows."""
    axes = dict(equation.params).get("axis", ())
    is_reduction = _combines(equation) and (kernel.flat or 0 in axes)
    return is_reduction or _is_product(equation)


def kernels(program: Program, block: int = BLOCK) -> list[Kernel]:
    """The kernels of a program; an order exists in which they can run.

    Equations on small arrays may be members, as in ``exp(x - max(x, axis=1))`` the maxima. If a
    kernel would be slower than separate equations, it is tried again without small arrays.
    """
    sizes = _ArraySizes(program.specs(), block)
    if not any(sizes.is_large(sizes.size_of(spec)) for spec in sizes.specs):
        return []
    drafts = _drafts(program, sizes, frozenset())
    small = {
        position
        for draft in drafts
        if not _pays(program, draft, sizes)
        for position in draft.members
        if not sizes.is_large(sizes.widest(program.equations[position]))
    }
    if small:
        drafts = _drafts(program, sizes, frozenset(small))
    paying = [draft for draft in drafts if _pays(program, draft, sizes)]
    return [_finished(program, draft, sizes) for draft in paying]


def _drafts(program: Program, sizes: _ArraySizes, refused: frozenset[int]) -> list[_KernelDraft]:
    """Draft the kernels of a program; equations at refused positions join none."""
    drafts: list[_KernelDraft] = []
    specs = sizes.specs
    upstream = [0] * len(specs)  # for each variable the kernels that it depends on, as bits
    variable = program.index.first_result
    for position, equation in enumerate(program.equations):
        draft = None
        if position not in refused:
            draft = _draft_for(equation, sizes, drafts, upstream)
        if draft is None:
            earlier = 0
            for operand in equation.operands:
                earlier |= upstream[operand]
            for _ in equation.results:
                upstream[variable] = earlier
                variable += 1
            continue
        _join(draft, position, variable, equation, specs, drafts, upstream)
        variable += 1
    return drafts


def _draft_for(
    equation: Equation, sizes: _ArraySizes, drafts: list[_KernelDraft], upstream: Sequence[int]
) -> _KernelDraft | None:
    """The kernel that an equation joins, which may be a new one; None if it runs by itself."""
    if len(equation.results) != 1:
        return None
    specs = sizes.specs
    small = not sizes.is_large(sizes.widest(equation))
    if small and not any(
        operand in draft.results for draft in drafts[-_NEAR:] for operand in equation.operands
    ):
        return None
    rows = _rows(equation, specs)
    if rows < 2 or not role_of(equation, specs, rows):
        return None
    for draft in reversed(drafts[-_NEAR:]):
        if draft.rows == rows and _may_join(draft, equation, specs, drafts, upstream):
            return draft
    if small:
        return None
    drafts.append(_KernelDraft(len(drafts), rows))
    return drafts[-1]


def _rows(equation: Equation, specs: Sequence[Spec]) -> int:
    shape = equation.results[0].shape
    if _combines(equation) or _is_product(equation):
        shape = specs[equation.operands[0]].shape
    return shape[0] if shape else 0


def blocked_operands(equation: Equation, specs: Sequence[Spec], rows: int) -> list[bool]:
    """For each operand, whether a block of rows reads a block of it, rather than all of it."""
    # Elementwise operations align the last axes of their operands.
    aligned = not combined_by(equation, specs) and not _is_view(equation)
    axes = len(equation.results[0].shape)
    shapes = [specs[operand].shape for operand in equation.operands]
    return [
        bool(shape) and shape[0] == rows and (not aligned or len(shape) == axes) for shape in shapes
    ]


def _may_join(
    draft: _KernelDraft,
    equation: Equation,
    specs: Sequence[Spec],
    drafts: Sequence[_KernelDraft],
    upstream: Sequence[int],
) -> bool:
    shared, outside = False, 0
    flags = blocked_operands(equation, specs, draft.rows)
    for operand, blocked in zip(equation.operands, flags, strict=True):
        if operand in draft.results:
            if not blocked or draft.results[operand] != "row":
                return False
            shared = True
        else:
            shared = shared or (blocked and operand in draft.seen)
            outside |= upstream[operand]
    return shared and not _closure(outside, drafts) >> draft.number & 1


def _closure(bits: int, drafts: Sequence[_KernelDraft]) -> int:
    """Extend a set of kernels, as bits, by all kernels that have to run before them."""
    waiting, known = bits, 0
    while waiting:
        known |= waiting
        more = 0
        while waiting:
            number = waiting.bit_length() - 1
            waiting ^= 1 << number
            more |= drafts[number].after
        waiting = more & ~known
    return known


def _join(
    draft: _KernelDraft,
    position: int,
    variable: int,
    equation: Equation,
    specs: Sequence[Spec],
    drafts: Sequence[_KernelDraft],
    upstream: list[int],
) -> None:
    flags = blocked_operands(equation, specs, draft.rows)
    for operand, blocked in zip(equation.operands, flags, strict=True):
        if operand not in draft.results:
            draft.after |= _closure(upstream[operand], drafts)
        if blocked:
            draft.seen.add(operand)
    draft.members.append(position)
    draft.results[variable] = role_of(equation, specs, draft.rows)
    draft.seen.add(variable)
    upstream[variable] = 1 << draft.number


def _finished(program: Program, draft: _KernelDraft, sizes: _ArraySizes) -> Kernel:
    specs = sizes.specs
    equations = [program.equations[position] for position in draft.members]
    blocks = [v for v in draft.seen if draft.results.get(v) != "total"]
    flat = _is_flat(equations, [specs[variable] for variable in blocks], specs)
    widest = max([sizes.size_of(specs[variable]) for variable in blocks])
    rows = prod(specs[blocks[0]].shape) if flat else draft.rows
    count = -(-rows // max(1, sizes.block * rows // widest))
    return Kernel(tuple(draft.members), rows, -(-rows // count), flat)


def _pays(program: Program, draft: _KernelDraft, sizes: _ArraySizes) -> bool:
    """Whether a loop over blocks takes less time than the equations one after another.

    Reading an array from main memory takes three times as long as from the cache.
    """
    kernel, block = _finished(program, draft, sizes), sizes.block
    equations = [program.equations[position] for position in draft.members]
    work = [sizes.widest(equation) for equation in equations if not _is_view(equation)]
    if len(work) < 2 or kernel.blocks < 3 or max(work) // kernel.blocks > 2 * block:
        return False
    alone = sum([_CALL * block + size * (3 if sizes.is_large(size) else 1) for size in work])
    return sum([_CALL * block * kernel.blocks + size for size in work]) < alone


def _is_flat(equations: Sequence[Equation], blocks: Sequence[Spec], specs: Sequence[Spec]) -> bool:
    """Whether all arrays have one shape, so that they can be treated as one-dimensional."""
    shapes = {specs[operand].shape for equation in equations for operand in equation.operands}
    shapes.update([spec.shape for spec in blocks])
    if len([shape for shape in shapes if prod(shape) != 1]) != 1:
        return False
    everything = tuple(range(len(blocks[0].shape)))
    for equation in equations:
        params = dict(equation.params)
        if _is_view(equation):
            return False
        if _combines(equation) and (
            tuple(sorted(params["axis"])) != everything or params.get("keepdims")
        ):
            return False
    return True


def steps(program: Program, block: int = BLOCK) -> list[Step]:
    """The steps of a program: its equations in order, with members of kernels brought together."""
    fused = kernels(program, block)
    if not fused:
        return list(range(len(program.equations)))
    home: dict[int, Kernel] = {position: k for k in fused for position in k.members}
    makers = program.index.makers
    nodes: dict[Step, set[Step]] = {}
    for position, equation in enumerate(program.equations):
        node = home.get(position, position)
        needs = {home.get(m, m) for m in (makers[v] for v in equation.operands) if m >= 0}
        nodes.setdefault(node, set()).update(needs - {node})
    # A kernel takes the place of its last member.
    return in_order(nodes, lambda node: node if isinstance(node, int) else node.members[-1])
