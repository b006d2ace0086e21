"""Kernels: groups of equations that run together, on one block of elements after another.

A chain of elementwise operations on large arrays spends its time on memory: each operation reads
from main memory what the previous one wrote there. A *kernel* runs the whole chain on a block of
elements that stays in the cache, then on the next block. Its members are elementwise operations on
arrays of one shape and single numbers, and sums, extrema and dot products over all axes of such
arrays, which combine the blocks' results.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.sum(fnp.sin(x) * x))(fnp.ones(100_000))
>>> kernels(staged)
[Kernel(members=(0, 1, 2), size=100000, step=20000)]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, TypeAlias

from funcgrad._backends.numpy.graphs import in_order
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.structures import Contraction, Elementwise, Reduction
from funcgrad._passes.costs import bytes_of
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

BLOCK: Final = 3 * 2**16
"""Bytes of a block of an array. Half a dozen blocks fit into a core's cache, and an operation on
one takes ten times as long as the call. Measured: half or twice as much is 5 % slower."""

_LARGE: Final = 3  # blocks: an array of this size is worth going through in blocks
_NEAR: Final = 8  # kernels, the last ones, are looked at, lest the search grow with the program


@dataclass(frozen=True, slots=True)
class Kernel:
    """Equations that run together, block by block.

    Attributes
    ----------
    members : tuple of int
        The equations' positions, in order.
    size : int
        The number of elements of all arrays.
    step : int
        The number of elements in a block.
    """

    members: tuple[int, ...]
    size: int
    step: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.step)


Step: TypeAlias = "int | Kernel"
"""The position of an equation that runs by itself, or a kernel."""


def members_of(step: Step) -> tuple[int, ...]:
    """The positions of the equations of a step."""
    return (step,) if isinstance(step, int) else step.members


def is_total(equation: Equation) -> bool:
    """Whether a member of a kernel combines the results of the blocks."""
    return not isinstance(equation.operation.structure, Elementwise)


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
    """The name of the ufunc that combines a total's results for blocks, or ''."""
    structure = equation.operation.structure
    if not isinstance(structure, Reduction):
        return "add" if is_dot(equation, specs) else ""
    ufunc = None if structure.fold is None else structure.fold.ufunc
    params = dict(equation.params)
    if ufunc is None or not {*params} <= {"axis", "keepdims"} or params.get("keepdims"):
        return ""
    rank = len(specs[equation.operands[0]].shape)
    return ufunc.__name__ if sorted(params["axis"]) == [*range(rank)] else ""


def _shape_of(equation: Equation, specs: Sequence[Spec]) -> Shape:
    """The shape of all arrays of the kernel that an equation may join; () if it can join none."""
    if len(equation.results) != 1 or not equation.operands:
        return ()
    shapes = [specs[operand].shape for operand in equation.operands]
    shape = shapes[0]
    if isinstance(equation.operation.structure, Elementwise):
        shape = equation.results[0].shape
    elif not combined_by(equation, specs):
        return ()
    is_one = all(other == shape or prod(other) == 1 for other in shapes)
    return shape if is_one and prod(shape) > 1 else ()


class _KernelDraft:
    """An unfinished kernel."""

    __slots__ = ("after", "members", "number", "results", "seen", "shape")

    def __init__(self, number: int, shape: Shape) -> None:
        self.number = number
        self.shape = shape
        self.members: list[int] = []
        self.results: set[int] = set()
        self.seen: set[int] = set()  # variables that the kernel reads or makes in blocks
        self.after = 0  # the kernels that have to run before this one, as bits


def kernels(program: Program, block: int = BLOCK) -> list[Kernel]:
    """The kernels of a program; an order exists in which they can run."""
    specs = program.specs()
    if not any(bytes_of(spec) >= _LARGE * block for spec in specs):
        return []
    drafts = [draft for draft in _drafts(program, specs, block) if len(draft.members) > 1]
    return [_finished(draft, specs, block) for draft in drafts]


def _drafts(program: Program, specs: Sequence[Spec], block: int) -> list[_KernelDraft]:
    drafts: list[_KernelDraft] = []
    upstream = [0] * len(specs)  # for each variable the kernels that it depends on, as bits
    for position, equation in enumerate(program.equations):
        results = program.index.results[position]
        draft = _draft_for(equation, specs, block, drafts, upstream)
        before = 0
        for operand in equation.operands:
            before |= upstream[operand]
        for variable in results:
            upstream[variable] = before if draft is None else 1 << draft.number
        if draft is None:
            continue
        draft.after |= _closure(before & ~(1 << draft.number), drafts)
        draft.members.append(position)
        draft.results.add(results.start)
        blocked = [v for v in (*equation.operands, results.start) if specs[v].shape == draft.shape]
        draft.seen.update(blocked)
    return drafts


def _draft_for(
    equation: Equation,
    specs: Sequence[Spec],
    block: int,
    drafts: list[_KernelDraft],
    upstream: Sequence[int],
) -> _KernelDraft | None:
    """The kernel that an equation joins, which may be a new one; None if it runs by itself."""
    shape = _shape_of(equation, specs)
    sizes = [bytes_of(spec) for spec in (*equation.results, *[specs[v] for v in equation.operands])]
    if not shape or max(sizes) < _LARGE * block:
        return None
    for draft in reversed(drafts[-_NEAR:]):
        if draft.shape == shape and _may_join(draft, equation, drafts, upstream):
            return draft
    drafts.append(_KernelDraft(len(drafts), shape))
    return drafts[-1]


def _may_join(
    draft: _KernelDraft,
    equation: Equation,
    drafts: Sequence[_KernelDraft],
    upstream: Sequence[int],
) -> bool:
    """Whether an equation reads what a kernel has in blocks, and nothing that has to run later."""
    outside = 0
    for operand in equation.operands:
        if operand not in draft.results:
            outside |= upstream[operand]
        elif operand not in draft.seen:
            return False  # a total, which is known after the last block
    is_near = not draft.seen.isdisjoint(equation.operands)
    return is_near and not _closure(outside, drafts) >> draft.number & 1


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


def _finished(draft: _KernelDraft, specs: Sequence[Spec], block: int) -> Kernel:
    size = prod(draft.shape)
    widest = max([bytes_of(specs[variable]) for variable in draft.seen])
    count = -(-size // max(1, block * size // widest))
    return Kernel(tuple(draft.members), size, -(-size // count))


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
