"""Equations as members of loop nests: elementwise operations, reductions, small products."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.function_text import Arithmetic, FunctionText
from funcgrad._backends.native.instructions import NotEmitted, Value, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.plan_steps import BoundFormula, Fill, Folded, Formula, Member, Nest
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View
from funcgrad._core import intrinsics
from funcgrad._core.specs import Shape
from funcgrad._core.structure.folds import SUM, Fold
from funcgrad._core.structure.structures import Reduction
from funcgrad._programs.equation import Equation, Params, exact_key
from funcgrad._programs.moved_elements import letters_of

Operand: TypeAlias = "tuple[np.dtype[Any], bool] | tuple[type[Any], Any]"
"""An unknown operand's dtype, and whether it is weak; or a constant's type and value."""

_MOST_MEMBERS: Final = 1000
"""Members of a nest. Jacobians of bundle adjustment have 800 in one: with 200 in each, values
between nests wait in memory, and 31,843 observations take four times as long."""

_SMALL_PRODUCT: Final = 2048
"""The most multiplications of a matrix product that is a nest; calling NumPy takes as long."""

_FEW_FLOATS: Final = 15
"""The most multiplications of floats: products of more are written out in registers."""


def computes(plan: UnfinishedPlan, equation: Equation, variable: int) -> bool:
    """Plan an elementwise operation that has instructions; returns whether it has."""
    structure: Any = equation.operation.structure
    if structure.formula is None or (structure.ulps and plan.arithmetic.exact):
        return False
    key = structure.formula, equation.params and exact_key(equation.params)
    formula = plan.formulas.get(key)
    if formula is None:
        formula = BoundFormula(with_params, (structure.formula, equation.params))
        plan.formulas[key] = formula
    spec, specs = plan.specs[variable], [plan.specs[operand] for operand in equation.operands]
    if spec.dtype.kind != "b" and all(s.weak and s.dtype.kind == "b" for s in specs):
        return False  # Python adds its truth values up as integers, NumPy does not
    operands = [_operand(plan, operand) for operand in equation.operands]
    if not _can_be_written(plan, formula, operands, spec.dtype):
        return False
    if 0 in spec.shape:
        plan.append(Fill(variable))
    else:
        join(plan, Member(variable, equation.operands, formula), spec.shape)
    return True


def _operand(plan: UnfinishedPlan, variable: int) -> Operand:
    """A constant, or the dtype of an unknown operand."""
    number, spec = plan.numbers.get(variable), plan.specs[variable]
    return (spec.dtype, spec.weak) if number is None else (type(number), number)


def reduces(plan: UnfinishedPlan, equation: Equation, structure: Reduction, variable: int) -> bool:
    """Plan a reduction whose state is one number; returns whether it is."""
    params, fold = dict(equation.params), structure.fold
    if fold is None or len(equation.operands) != 1 or not {*params} <= {"axis", "keepdims"}:
        return False
    (operand,) = equation.operands
    shape, dtype = plan.specs[operand].shape, plan.specs[variable].dtype
    formula = BoundFormula(_first_state, (fold, dtype))
    if 0 in shape:
        return False
    if not _can_be_written(plan, formula, [_operand(plan, operand)], dtype):
        return False
    if not params["axis"]:
        join(plan, Member(variable, (operand,), formula), shape)
        return True
    axes = frozenset([axis % len(shape) for axis in params["axis"]])
    try:
        folded = Folded(axes, fold, neutral_of(fold, dtype))
    except NotEmitted:
        return False
    join(plan, Member(variable, (operand,), formula, folded), shape)
    return True


def contracts(plan: UnfinishedPlan, equation: Equation, variable: int) -> bool:
    """Plan a sum of products as a nest, if it is small or reads each number once.

    NumPy's products are quicker where elements are read more than once.
    """
    letters, spec = letters_of(equation, plan.specs), plan.specs[variable]
    operands = equation.operands
    if letters is None or spec.dtype.char not in "fdFDbBhHiIlLqQ":
        return False
    *factors, out = letters
    repeated = any(len({*text}) < len(text) for text in letters)
    if repeated or any(plan.specs[operand].dtype != spec.dtype for operand in operands):
        return False
    sizes = {
        letter: size
        for text, operand in zip(factors, operands, strict=True)
        for letter, size in zip(text, plan.specs[operand].shape, strict=True)
    }
    order = [*out, *[letter for letter in sizes if letter not in out]]
    shape = tuple([sizes[letter] for letter in order])
    sums = len(out) < len(order)
    reads_again = sums and any(len(text) < len(order) for text in factors)
    most: float = inf
    if reads_again:
        most = _FEW_FLOATS if spec.dtype.char in "fd" else _SMALL_PRODUCT
    if not prod(shape):
        return False
    for text, operand, other in zip(factors, operands, reversed(operands), strict=True):
        if {*out}.union(text) == {*order} and _is_of_ones(plan, other):
            _sums(plan, operand, text, out, variable)
            return True
    if prod(shape) > most:
        return False
    spread = []
    for text, operand in zip(factors, operands, strict=True):
        view, factor = plan.views[operand], plan.new(shape, spec.dtype)
        strides = dict(zip(text, view.strides, strict=True))
        along = tuple([strides.get(letter, 0) for letter in order])
        plan.views[factor] = View(view.buffer, shape, along, view.offset)
        spread.append(factor)
    product = plan.new(shape, spec.dtype)
    join(plan, Member(product, tuple(spread), _PRODUCT), shape)
    if len(order) == len(out):
        plan.views[variable] = plan.views[product]
        return True
    folded = Folded(frozenset(range(len(out), len(order))), SUM, neutral_of(SUM, spec.dtype))
    formula = BoundFormula(_first_state, (SUM, spec.dtype))
    join(plan, Member(variable, (product,), formula, folded), shape)
    return True


def _is_of_ones(plan: UnfinishedPlan, operand: int) -> bool:
    """Whether an operand is a constant of ones."""
    constant = plan.constants.get(operand)
    return constant is not None and bool(np.all(np.asarray(constant.value) == 1))


def _sums(plan: UnfinishedPlan, operand: int, text: str, out: str, variable: int) -> None:
    """Plan a product with ones as a sum, which is repeated.

    Gradients with gaps ask so which elements they reach: steps of training a transformer and a net
    with linear units take 0.72 and 0.9 of the time.
    """
    view, dtype = plan.views[operand], plan.specs[variable].dtype
    sizes = dict(zip(text, view.shape, strict=True))
    shown = [letter for letter in out if letter in text]
    order = [*shown, *[letter for letter in text if letter not in out]]
    moved = view.moved([text.index(letter) for letter in order])
    if len(shown) < len(order):
        source = plan.new(moved.shape, dtype)
        plan.views[source] = moved
        total = plan.new(tuple([sizes[letter] for letter in shown]), dtype)
        folded = Folded(frozenset(range(len(shown), len(order))), SUM, neutral_of(SUM, dtype))
        member = Member(total, (source,), BoundFormula(_first_state, (SUM, dtype)), folded)
        join(plan, member, moved.shape)
        moved = plan.views[total]
    strides = dict(zip(shown, moved.strides, strict=True))
    along = tuple([strides.get(letter, 0) for letter in out])
    plan.views[variable] = View(moved.buffer, plan.specs[variable].shape, along, moved.offset)


def join(plan: UnfinishedPlan, member: Member, shape: Shape) -> None:
    """Put an operation into the first nest over its index space that comes late enough."""
    made_at, elements = plan.made_at, plan.elements
    made = {
        v: made_at[v if v in elements else plan.views[v].buffer]
        for v in member.operands
        if v not in plan.numbers
    }
    first = max(made.values(), default=0)
    places = plan.nests.setdefault(shape, [])
    index = bisect_left(places, first)
    if index < len(places) and places[index] == first and not _fits(plan, made, first, shape):
        index += 1
    if index == len(places):
        plan.append(Nest(shape))
    position = places[index]
    nest = plan.steps[position]
    assert isinstance(nest, Nest)
    for variable, place in made.items():
        if place < position:
            nest.operands[variable] = plan.views[variable]
    nest.members.append(member)
    if len(nest.members) >= _MOST_MEMBERS:
        del places[index]
    if member.folded is None:
        elements.add(member.variable)
    made_at[member.variable] = position


def _fits(plan: UnfinishedPlan, made: Mapping[int, int], place: int, shape: Shape) -> bool:
    """Whether an operation can be a member of the nest that makes one of its operands."""
    elements, specs = plan.elements, plan.specs
    for variable, at in made.items():
        if at >= place and (variable not in elements or specs[variable].shape != shape):
            return False
    return True


def with_params(formula: Formula, params: Params, m: Lanes, *operands: Any) -> Any:
    """The value of a formula that has parameters."""
    return formula(m, *operands, **dict(params))


def _product(m: Lanes, x: Value, y: Value) -> Value:
    return m.multiply(x, y)


_PRODUCT: Final = BoundFormula(_product)


def _can_be_written(
    plan: UnfinishedPlan, formula: BoundFormula, operands: Sequence[Operand], dtype: np.dtype[Any]
) -> bool:
    """Whether there are instructions for a formula."""
    question = formula.key, tuple(operands), dtype
    if question not in plan.lacks:
        plan.lacks[question] = _lack(formula, operands, dtype, plan.arithmetic)
    reason = plan.lacks[question]
    plan.lack = reason or plan.lack
    return reason is None


def _lack(
    formula: BoundFormula, operands: Sequence[Operand], dtype: np.dtype[Any], arithmetic: Arithmetic
) -> str | None:
    """Why a formula has no instructions; None if it has."""
    lanes = Registers(FunctionText(arithmetic, is_draft=True), 1)
    values = [
        unknown(lanes, kind, operand) if isinstance(kind, np.dtype) else operand
        for kind, operand in operands
    ]
    try:
        lanes.astype(formula(lanes, *values), dtype)
    except NotEmitted as error:
        return str(error)
    return None


def _first_state(fold: Fold, dtype: np.dtype[Any], m: Lanes, x: Any) -> Any:
    """The state of one element, if that is one number and does not depend on its place."""
    state = fold.of(m, dtype, _Nowhere(), x)
    if isinstance(state, tuple) or fold.finish is not None:
        raise NotEmitted("a reduction whose state has several values")
    return state


class _Nowhere:
    """A place that nobody may ask for."""


def neutral_of(fold: Fold, dtype: np.dtype[Any]) -> Any:
    """The number that changes no other: declared, or else the least or the greatest that there is.

    >>> from funcgrad._core.structure.folds import GREATEST, LEAST, SUM
    >>> float64, int8 = np.dtype(float), np.dtype(np.int8)
    >>> neutral_of(GREATEST, float64), neutral_of(LEAST, int8), neutral_of(SUM, float64)
    (-inf, 127, 0)
    """
    if dtype.kind == "c" and fold.identity != 0:
        raise NotEmitted("infinite complex numbers, which one times itself would change")
    if fold.identity is not None:  # a sum of negative zeros is 0.0, as NumPy's is
        return fold.identity
    if dtype.kind == "f":
        least, greatest = -np.inf, np.inf
    elif dtype.kind == "b":
        least, greatest = False, True
    else:
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    others = np.array([least, greatest, 0, 1, greatest // 3 if dtype.kind in "iu" else 0.3], dtype)
    for number in (least, greatest):
        with np.errstate(all="ignore"):
            left = fold.combine(intrinsics, dtype.type(number), others)
            right = fold.combine(intrinsics, others, dtype.type(number))
        if np.array_equal(left, others) and np.array_equal(right, others):
            return number
    raise NotEmitted("a reduction without a neutral number")
