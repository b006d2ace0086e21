"""How many examples of a batch run together, where each takes steps or a branch of its own.

An example by itself takes the steps that it needs, but its operations on few elements leave
vectors empty. So the work of a step decides: where operations are on many elements, each example
runs by itself; on several, a few run together. On single numbers and tiny arrays, examples are the
lanes of a few registers, and arrays come apart, so that steps need no memory. Only where a step has
few operations, which would wait for each other, many run together: they take nearly as many steps
as the whole batch, but stay in the cache.

>>> import funcgrad as fg
>>> root = fg.vmap(lambda x: fg.while_loop(lambda y: y > x, lambda y: (y + x / y) / 2.0, x + 1.0))
>>> scan = fg.program(root)(fg.tensor([2.0] * 1000)).equations[-1]
>>> block_size(Loop(**dict(scan.params)))
200
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from funcgrad._backends.control_forms import in_form
from funcgrad._backends.native.element_programs import MOST, by_elements
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    Contraction,
    Control,
    Factored,
    Loop,
    Movement,
    Opaque,
    Reduction,
    Scan,
)
from funcgrad._programs.algebra import body_of
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_LARGE: Final = 768, 8
"""The elements that a step computes, and the mean of its operations, from which on an example runs
by itself. Levenberg-Marquardt fits of 20 points take 0.26 of the time of the whole batch, 0.66 if
all examples take equally many steps; smoothing of 16 by 16 points 0.5, Sinkhorn's iteration 0.85;
smaller steps take up to twice as long (BFGS in 4 dimensions)."""

_SEVERAL: Final = 4
"""The mean elements of an operation from which on ``_FEW`` examples run together, if arrays are too
large to come apart: power iterations of 8 by 8 0.37, and at most 1.04 where all
examples take equally many steps."""

_FEW: Final = 8
_MANY: Final = 200
"""How many examples run together. In blocks of ``_MANY`` bisection, escape times and choices in a
scan take 0.65 to 0.9 of the time of the whole batch, Newton's method as long; in blocks of 32 up to
1.4."""

_SHORT: Final = 16
"""The most operations of a step of scalars for which many examples run together."""

_LANES: Final = 32, 16
"""How many examples are lanes: four registers of eight numbers each, or two. Compared with blocks
of ``_MANY``, steps by Runge and Kutta's method for Lorenz' equations take 0.35 of the time, their
gradient 0.84, leapfrog steps in two dimensions 0.4; BFGS in 4 dimensions takes 0.4 of the time of
blocks of ``_FEW``."""

_MUCH: Final = 112
"""The elements of a step from which on lanes take two registers, so that more values stay there."""

_BRANCH: Final = 256
"""The elements that branches compute from which on a choice outside of loops runs by example."""

_WEIGHTS: Final = 64
"""The elements of a matrix that all examples share, which a product of many examples reads once."""

_WASTE: Final = 0.03
"""The share of examples that may run twice, since the last block is as long as the others."""


class _Work(NamedTuple):
    """The work of an example in a step of each of its loops.

    Attributes
    ----------
    elements, operations : int
        How many elements it computes, and by how many operations.
    largest : int
        The most elements of an array that it makes or reads.
    calls_back : bool
        Whether NumPy runs some of them.
    shares : bool
        Whether it multiplies by a matrix that all examples share.
    loops : bool
    """

    elements: int = 0
    operations: int = 0
    largest: int = 0
    calls_back: bool = False
    shares: bool = False
    loops: bool = False

    def plus(self, other: _Work) -> _Work:
        """The work of both."""
        sums = self.elements + other.elements, self.operations + other.operations
        flags = [a or b for a, b in zip(self[3:], other[3:], strict=True)]
        return _Work(*sums, max(self.largest, other.largest), *flags)


def block_of(loop: Loop) -> tuple[int, Loop]:
    """Choose how many examples run together, and write tiny arrays of lanes element by element."""
    size, work = block_size(loop), _work_of_example(loop)
    if size not in _LANES or work.elements == work.operations:
        return size, loop
    return size, loop._replace(body=by_elements(loop.body))


def block_size(loop: Loop) -> int:
    """Choose how many examples run together."""
    length, work = loop.length or 0, _work_of_example(loop)
    if work.calls_back or not work.operations:
        return length
    if not work.loops:
        return 1 if work.elements >= _BRANCH and not work.shares else length
    elements, mean = _LARGE
    if work.elements >= max(elements, mean * work.operations) and not work.shares:
        return 1
    if work.shares or work.elements <= _SHORT:
        return _even(length, _MANY)
    if work.elements >= _SEVERAL * work.operations and work.largest > MOST:
        return _even(length, _FEW)
    for lanes in _LANES[work.elements >= _MUCH :]:
        if -length % lanes <= length // 8:
            return lanes
    has_arrays = work.elements > work.operations
    return _LANES[-1] if has_arrays and length > _LANES[-1] else _even(length, _MANY)


def _work_of_example(loop: Loop) -> _Work:
    flags = [place >= loop.shared for place in range(len(loop.body.inputs))]
    return loop.body.derived(("work", loop.shared), lambda: _work_of(loop.body, flags))


def _even(length: int, size: int) -> int:
    """A size near to this one with which the last block repeats few examples."""
    fitting = [one for one in range(size, 2 * size) if -length % one <= _WASTE * length]
    return min(fitting, key=lambda one: (-length % one, one), default=length)


def _work_of(program: Program, flags: Sequence[bool]) -> _Work:
    """Add up the work that depends on flagged inputs."""
    known, specs, work = [*flags, *[False] * len(program.constants)], program.specs(), _Work()
    for equation in program.equations:
        operands = [known[variable] for variable in equation.operands]
        known += [any(operands)] * len(equation.results)
        if any(operands):
            inner = isinstance(equation.operation.structure, Control)
            work = work.plus(
                _work_inside(equation, operands) if inner else _work(equation, operands, specs)
            )
    return work


def _work_inside(equation: Equation, operands: Sequence[bool]) -> _Work:
    structure = equation.operation.structure
    assert isinstance(structure, Control)
    if equation.called is not None:
        return _work_of(equation.called, operands)
    form = None if structure.form is None else structure.form(**dict(equation.params))
    if isinstance(form, Program):
        return _work_of(form, operands)
    work = _Work(loops=isinstance(form, Loop), calls_back=form is None)
    flags = operands[1:]
    if isinstance(form, Loop):
        flags = [*operands[: form.shared], *[True] * (len(form.body.inputs) - form.shared)]
    for program in in_form(form):
        work = work.plus(_work_of(program, flags[: len(program.inputs)]))
    return work


def _work(equation: Equation, operands: Sequence[bool], specs: Sequence[Spec]) -> _Work:
    structure = equation.operation.structure
    if isinstance(structure, Opaque) and body_of(equation.operation) is not None:
        largest = max([prod(spec.shape) for spec in equation.results])
        return _Work(largest, 1, largest)
    if isinstance(structure, Opaque) or equation.operation.is_foreign:
        return _Work(calls_back=True)
    if isinstance(structure, Movement) and structure.is_view:
        return _Work()
    shapes = [specs[variable].shape for variable in equation.operands]
    elements = max([prod(spec.shape) for spec in equation.results])
    largest, shares = max([elements, *map(prod, shapes)]), False
    if isinstance(structure, Contraction):
        letters = structure.letters(
            *[specs[variable] for variable in equation.operands], **dict(equation.params)
        )
        pairs = zip(letters[0] + letters[1], shapes[0] + shapes[1], strict=True)
        sizes: dict[str, int] = {}
        for letter, size in pairs:
            sizes[letter] = max(size, sizes.get(letter, size))
        elements = prod(sizes.values())
        fixed = [prod(shape) for shape, flag in zip(shapes, operands, strict=True) if not flag]
        shares = any(size >= _WEIGHTS for size in fixed)
    elif isinstance(structure, Reduction | Scan):
        elements = prod(shapes[0])
    elif isinstance(structure, Factored):
        elements = prod(shapes[0]) * shapes[0][-1]
    return _Work(elements, 1, largest, False, shares)
