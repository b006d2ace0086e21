"""A program whose sums NumPy adds, so that machine code has the bits of its evaluation.

Exact machine code differs from NumPy in the order of sums only: in reductions, products and linear
algebra. NumPy's order depends on how operands lie in memory, while machine code keeps all arrays in
C order. So each operation is tried on an *example* of each operand, which lies as the operand does.
Then sums become steps that NumPy takes, on operands that are laid out like their examples. LAPACK
copies its operands, so that its bits do not depend on how they lie.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.numpy.exp(x).T @ x)(fg.numpy.ones((2, 3)))
>>> [equation.operation.name for equation in with_same_bits(staged).equations]
['exp', 'transpose', 'numpy_step']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.control_forms import form_of, in_form
from funcgrad._backends.decompose import decomposed
from funcgrad._backends.native.plan_steps import EquationStep
from funcgrad._backends.native.views import View
from funcgrad._backends.numpy.plan import Plan, plan_of, plan_of_steps
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.factorizations import Factorization, Factors
from funcgrad._core.structure.folds import ALL, ANY, GREATEST, LEAST, SUM
from funcgrad._core.structure.index_maps import dense_strides
from funcgrad._core.structure.structures import (
    FOREIGN,
    Choice,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Loop,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scatter,
)
from funcgrad._core.trace import Raw
from funcgrad._primitives.products import Arranged, ProductPlan, plan_product
from funcgrad._primitives.rows import many_rows
from funcgrad._programs.equation import Equation
from funcgrad._programs.extract import extract
from funcgrad._programs.inline import with_changed_programs, with_programs_inside
from funcgrad._programs.program import Program
from funcgrad._transforms.flat_functions import call_primitive

Example: TypeAlias = Any
"""An array or number that lies as a variable does; None if nobody knows how that lies."""

_MOST: Final = 1 << 20
"""The most elements of examples: sums of larger arrays take NumPy's time anyway."""

MOST_SOLVED: Final = 24
"""The most rows of a triangle for which evaluation calls LAPACK. For more rows it goes by blocks,
and rows before the first block with NaN have results."""


class _UnknownOrderError(Exception):
    """Nobody knows in which order NumPy adds."""


def with_same_bits(program: Program) -> Program | None:
    """Let NumPy evaluate all equations whose bits depend on the order of a sum.

    The result is None if it is unknown how an operand lies, or if an operation runs Python.

    Parameters
    ----------
    program : Program
        Prepared for NumPy, see ``prepared_exactly``. Its inputs lie in C order.
    """
    try:
        rewritten, _ = _rewritten(program, [_example(spec) for spec in program.inputs])
    except _UnknownOrderError:
        return None
    return _with_bodies(rewritten)


def _has_exact_body(operation: Primitive) -> bool:
    structure = operation.structure
    return isinstance(structure, Opaque) and structure.exact_body


def _with_bodies(program: Program) -> Program:
    return decomposed(with_programs_inside(program, _with_bodies), _has_exact_body)


def _rewritten(
    program: Program, inputs: Sequence[Example], plan: Plan | None = None
) -> tuple[Program, list[Example]]:
    """The program for inputs that lie as these do, and examples of its outputs.

    Results that NumPy's code may write into older arrays, as it plans, have to lie as these do.
    """
    specs, index = program.specs(), program.index
    if any(spec.dtype.kind == "c" for spec in specs):
        raise _UnknownOrderError  # products of complex numbers depend on their place in an array
    if sum(prod(spec.shape) for spec in specs) > _MOST:
        raise _UnknownOrderError
    examples = [*inputs, *[constant.value for constant in program.constants]]
    views: dict[int, int] = {}
    plan = plan or plan_of(program)
    older = {index.results[position].start: taken for position, taken in plan.takes.items()}
    older |= {variable: carry for carry, variable in plan.turns.items()}
    equations = []
    for equation, results in zip(program.equations, index.results, strict=True):
        structure, around = equation.operation.structure, [examples[v] for v in equation.operands]
        if FOREIGN in equation.operation.traits:
            raise _UnknownOrderError
        if isinstance(structure, Control):
            operands = {variable: specs[variable] for variable in equation.operands}
            equation, made = _controlled(equation, operands, around)
        else:
            made = _results(equation, around)
            if results.start in older:
                made = _agreed(made, [examples[older[results.start]]])
            if isinstance(structure, Movement) and len(around) == 1:
                views[results.start] = equation.operands[0]
            if _adds(equation):
                equation = _by_numpy(program, equation, results, examples, views)
        examples += made
        equations.append(equation)
    return replace(program, equations=tuple(equations)), [examples[v] for v in program.outputs]


def _adds(equation: Equation) -> bool:
    """Whether the bits of results may depend on the order of a sum."""
    structure = equation.operation.structure
    if all(spec.dtype.kind != "f" for spec in equation.results):
        return False
    if _has_exact_body(equation.operation):
        return False
    if isinstance(structure, Reduction) and structure.fold in (GREATEST, LEAST, ALL, ANY):
        return False
    if isinstance(structure, Scatter):
        return structure.fold is not None
    return not isinstance(structure, (Elementwise, Movement, Gather, Random))


@dataclass(frozen=True, slots=True, eq=False)
class NumpyStep:
    """Equations that NumPy evaluates.

    Attributes
    ----------
    program : Program
        The last equation adds, and the others move its operands.
    orders : sequence of tuple of int
        The orders of the inputs' axes in memory.
    strides : sequence of tuple of int
        The bytes between elements of the last equation's operands, if ``adding_loop`` has a loop.
    """

    program: Program
    orders: Sequence[tuple[int, ...]]
    strides: Sequence[tuple[int, ...]]

    def __call__(self, values: Sequence[Raw]) -> Sequence[Any]:
        program, pairs = self.program, zip(values, self.orders, strict=False)
        known = [_laid(value, order) for value, order in pairs]
        known += [constant.value for constant in program.constants]
        for equation in program.equations:
            known += _evaluated(equation, [known[variable] for variable in equation.operands])
        return [known[variable] for variable in program.outputs]

    def factorization(self) -> Factorization | None:
        """The equation as results of triangular factors of its operands; None if it is none."""
        equation = self.program.equations[-1]
        structure, count = equation.operation.structure, len(self.program.inputs)
        if not isinstance(structure, Factored) or equation.operands != (*range(count),):
            return None
        return structure.factorization(**dict(equation.params))

    def loop(
        self,
        variable: int,
        equation: Equation,
        views: Sequence[View],
        size: int,
        copied: Callable[[View], View],
    ) -> AddingLoop | None:
        """NumPy's loop over views of elements of so many bytes; None if there is none.

        Operands that lie otherwise than NumPy's are ``copied``.
        """
        pairs = zip(views[len(self.orders) :], self.strides, strict=False)
        lying = [_lying(view, strides, size, copied) for view, strides in pairs]
        operands = tuple([view for view in lying if view is not None])
        if not lying or len(operands) < len(lying):
            return None
        strides = self.strides
        if len(operands) == 1:
            axes = dict(self.program.equations[-1].params)["axis"]
            counts, steps = _sum_loops(operands[0].shape, strides[0], axes, size)
            return AddingLoop(variable, equation, np.add, operands, counts, steps)
        left, right = operands
        rows, columns = left.shape[:-1] or (1,), right.shape[1:] or (1,)
        across, down = strides[0][:-1] or (0,), strides[1][1:] or (0,)
        out = _strides_of((*rows, *columns), [columns[0] * size, size])
        steps = 0, 0, 0, *across, strides[0][-1], strides[1][0], *down, *out
        counts = 1, *rows, left.shape[-1], *columns
        return AddingLoop(variable, equation, np.matmul, operands, counts, steps)


@dataclass(frozen=True, slots=True)
class AddingLoop(EquationStep):
    """NumPy's inner loop of a sum or a product, over operands as they lie in memory.

    Attributes
    ----------
    ufunc : ufunc
    operands : tuple of View
    counts, steps : tuple of int
        The sizes and the bytes between elements, as the loop takes them. A sum has a loop around
        it, whose count and steps come first.
    """

    ufunc: np.ufunc
    operands: tuple[View, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads."""
        return self.operands


def _lying(
    view: View, strides: Sequence[int], size: int, copied: Callable[[View], View]
) -> View | None:
    """The view, or else a copy, with these strides in bytes; None if a copy cannot have them."""
    if min(strides, default=0) < 0:
        return None  # NumPy goes through the memory in its order
    if _strides_of(view.shape, [n * size for n in view.strides]) == strides:
        return view
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    moved = view.moved(order)
    dense = _strides_of(moved.shape, [n * size for n in dense_strides(moved.shape)])
    if dense != tuple([strides[axis] for axis in order]):
        return None
    return copied(moved).moved(sorted(order, key=order.__getitem__))


def _sum_loops(
    shape: Shape, strides: Sequence[int], axes: Sequence[int], size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts and steps of the two loops in which NumPy adds: the inner one has small strides."""
    loops = [(1, 0, 0), (1, 0, 0)]
    for axis in sorted(range(len(shape)), key=lambda axis: -strides[axis]):
        if shape[axis] != 1:
            loops.append((shape[axis], 0 if axis in axes else size, strides[axis]))
    (outer, *before), (inner, *along) = loops[-2:]
    return (outer, inner), (*before, *along, along[0])


NUMPY_STEP: Final = call_primitive(
    "numpy_step",
    lambda values, *, step: step(values),
    lambda *specs, step: step.program.results(*specs[: len(step.orders)]),
    label=lambda *, step: step.program.equations[-1].name,
)
"""Equations that NumPy evaluates. The operands are the inputs of these equations, and, if there is
a loop for the last one, its operands."""


def _by_numpy(
    program: Program,
    equation: Equation,
    results: range,
    examples: Sequence[Example],
    views: Mapping[int, int],
) -> Equation:
    """The equation, with those that move its operands, as one step of NumPy's."""
    if _copies(equation):
        views, examples = {}, [_example(spec) for spec in program.specs()]
    bases = []
    for variable in equation.operands:
        while variable in views:
            variable = views[variable]
        bases.append(variable)
    constants = range(len(program.inputs), program.index.first_result)
    operands = [variable for variable in dict.fromkeys(bases) if variable not in constants]
    inside = extract(program, operands, results)
    orders, strides = [_order(examples[variable]) for variable in operands], []
    lying = [np.asarray(examples[variable]) for variable in equation.operands]
    if _has_loop(equation, [program.specs()[variable] for variable in equation.operands]):
        strides = [_strides_of(array.shape, array.strides) for array in lying]
        operands += equation.operands
    params = (("step", NumpyStep(inside, orders, strides)),)
    return replace(equation, operation=NUMPY_STEP, operands=tuple(operands), params=params)


def _copies(equation: Equation) -> bool:
    """Whether an equation is computed by LAPACK: from copies in one order, to a new array."""
    structure = equation.operation.structure
    if not isinstance(structure, Factored):
        return False
    form = structure.factorization(**dict(equation.params))
    is_small = equation.results[0].shape[-2:-1] <= (MOST_SOLVED,)
    return form.bands is None and (form.factors is not Factors.TRIANGLE or is_small)


def _has_loop(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether NumPy evaluates an equation by one inner loop."""
    operation, (result, *_) = equation.operation, equation.results
    if result.dtype.char not in "fd" or any(0 in spec.shape for spec in specs):
        return False
    if any(spec.weak or spec.dtype != result.dtype for spec in specs):
        return False
    structure, params, shapes = operation.structure, equation.params, [s.shape for s in specs]
    if any(len(shape) > 2 for shape in shapes):
        return False
    if isinstance(structure, Contraction):
        if operation.evaluate is np.matmul:
            return True
        text, (first, second) = dict(params).get("subscripts"), shapes
        plain = ProductPlan(False, Arranged(), Arranged())
        return isinstance(text, str) and plan_product(text, first, second) == plain
    if not isinstance(structure, Reduction) or structure.fold is not SUM:
        return False
    axes = dict(params)["axis"]
    return len(axes) == 1 and not many_rows(shapes[0], result.dtype.char, axes)


def _strides_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides as NumPy's loops take them: 0 along axes of one element."""
    return tuple([0 if n == 1 else stride for n, stride in zip(shape, strides, strict=True)])


def _controlled(
    equation: Equation, operands: Mapping[int, Spec], around: Sequence[Example]
) -> tuple[Equation, list[Example]]:
    """A loop or a choice with its programs rewritten, and examples of its results."""
    form = form_of(equation, operands)
    if form is None:
        raise _UnknownOrderError
    if isinstance(form, Loop):
        programs, made = _looped(form, around, equation.results)
    else:
        programs, made = _chosen(form, around)
    inside = dict(zip(map(id, in_form(form)), programs, strict=True))
    if any(id(value) not in inside for _, value in equation.params if isinstance(value, Program)):
        raise _UnknownOrderError
    return with_changed_programs(equation, lambda program: inside[id(program)]), made


def _chosen(form: Choice, around: Sequence[Example]) -> tuple[list[Program], list[Example]]:
    branches = [_rewritten(branch, around[1:]) for branch in form.branches]
    first, *others = [made for _, made in branches]
    for other in others:
        first = _agreed(first, other)
    return [program for program, _ in branches], first


def _looped(
    form: Loop, around: Sequence[Example], results: Sequence[Spec]
) -> tuple[list[Program], list[Example]]:
    shared, carried, arrays = form.parts(around)
    slices = [_example(spec) for spec in form.body.inputs[len(shared) + len(carried) :]]
    if any(array is None or not array.flags.c_contiguous for array in arrays):
        raise _UnknownOrderError
    carry, plan = [*carried], plan_of_steps(form.body, form.shared, form.carried)
    while True:
        body, outs = _rewritten(form.body, [*shared, *carry, *slices], plan)
        agreed = _agreed(carry, outs[: len(carry)])
        if all(new is old for new, old in zip(agreed, carry, strict=True)):
            break
        carry = agreed
    conditions = [] if form.condition is None else [form.condition]
    after = [_rewritten(condition, [*shared, *carry])[0] for condition in conditions]
    stacks = [_example(s) if len(s.shape) < 3 else None for s in results[len(carry) :]]
    return [body, *after], [*carry, *stacks]


def _agreed(examples: Sequence[Example], others: Sequence[Example]) -> list[Example]:
    """The examples that lie as the others do; None for the rest."""
    return [
        example if _strides(example) == _strides(other) else None
        for example, other in zip(examples, others, strict=True)
    ]


def _strides(example: Example) -> tuple[int, ...] | None:
    return None if example is None else np.asarray(example).strides


def _results(equation: Equation, around: Sequence[Example]) -> list[Example]:
    """Examples of the results, as NumPy makes them from examples of the operands."""
    specs = equation.results
    if _copies(equation):
        return [_example(spec) for spec in specs]
    may_return_operand = _has_exact_body(equation.operation)  # as it lies, depending on its values
    if any(
        example is None or (may_return_operand and not np.asarray(example).flags.c_contiguous)
        for example in around
    ):
        return [None if spec.shape else _example(spec) for spec in specs]
    try:
        with np.errstate(all="ignore"):
            return _evaluated(equation, around)
    except Exception:  # ones may have no result
        return [None if spec.shape else _example(spec) for spec in specs]


def _evaluated(equation: Equation, operands: Sequence[Raw]) -> list[Any]:
    outs = equation.operation.evaluate(*operands, **dict(equation.params))
    return [*outs] if isinstance(outs, tuple) else [outs]


def _example(spec: Spec) -> Example:
    """Zeros, or ones on the diagonal of matrices, in C order."""
    if spec.weak:
        return spec.dtype.type(1).item()
    array = np.zeros(spec.shape, spec.dtype)
    if spec.dtype.kind == "f":
        array[...] = np.eye(spec.shape[-2], spec.shape[-1]) if len(spec.shape) > 1 else 1.0
    return array if spec.shape else array[()]


def _order(example: Example) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost."""
    if example is None:
        raise _UnknownOrderError
    array = np.asarray(example)
    order = _strides_order(array)
    if not array.transpose(order).flags.c_contiguous:
        raise _UnknownOrderError
    return order


def _strides_order(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    axes = range(array.ndim)
    if array.flags.c_contiguous:
        return (*axes,)
    return tuple(sorted(axes, key=lambda axis: -array.strides[axis]))


def _laid(array: np.ndarray[Any, Any], order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array in C order laid out in another one."""
    if order == (*range(len(order)),):
        return array
    back = sorted(range(len(order)), key=order.__getitem__)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)
