"""The plan of a program: loop nests over arrays, products, loops, branches, and steps of NumPy.

A prepared program flows in, and steps flow out. A step reads views of buffers that earlier ones
have filled. Elementwise operations and reductions over one index space share a
nest, in which results that nothing else reads stay in registers. Movements are views.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: fnp.sum(x[::-1] * x + 1.0))(fnp.ones(5))
>>> [type(step).__name__ for step in plan_of(staged).steps], len(plan_of(staged).steps[0].members)
(['Nest'], 3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.control_forms import form_of, in_form
from funcgrad._backends.native.cpython import inner_loop
from funcgrad._backends.native.function_text import PLAIN, Arithmetic
from funcgrad._backends.native.instructions import Value, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.matrix_planning import (
    factorizes,
    factorizes_as_numpy,
    multiplies,
    multiplies_rows,
)
from funcgrad._backends.native.movement_planning import (
    folds_in_order,
    gathers,
    moves,
    scans,
    scatters,
)
from funcgrad._backends.native.nest_planning import computes, contracts, join, reduces, with_params
from funcgrad._backends.native.plan_steps import (
    AxisSweep,
    BoundFormula,
    Callback,
    Drawing,
    Fill,
    FinitePass,
    Member,
    NativePlan,
    Run,
    Sweep,
)
from funcgrad._backends.native.same_bits import NUMPY_STEP
from funcgrad._backends.native.sort_planning import sorts
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View
from funcgrad._backends.native.window_planning import folds_windows, multiplies_windows
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    FOREIGN,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


def plan_of(program: Program, arithmetic: Arithmetic = PLAIN) -> NativePlan:
    """Plan how a program runs."""
    plan = UnfinishedPlan(program, arithmetic)
    for equation, results in zip(program.equations, program.index.results, strict=True):
        _add(plan, equation, results.start)
    return plan.finished()


def _add(plan: UnfinishedPlan, equation: Equation, variable: int) -> None:
    structure, plan.lack = equation.operation.structure, ""
    planners = _PLANNERS.get(type(structure), ())
    if any(planner(plan, equation, structure, variable) for planner in planners):
        return
    plan.prepare(equation.operands)
    plan.append(Callback(variable, equation, _lack(plan, equation)))


def _lack(plan: UnfinishedPlan, equation: Equation) -> str:
    """Why an equation has no code."""
    operation = equation.operation
    structure = operation.structure
    if FOREIGN in operation.traits:
        return "a function of Python's"
    if plan.lack:
        return plan.lack
    if isinstance(structure, (Opaque, Control)):
        return "no form that the native backend emits"
    if isinstance(structure, Elementwise) and structure.formula is None:
        return "no formula"
    if isinstance(structure, Elementwise) and plan.arithmetic.exact:
        return "no inner loop of NumPy's with its bits"
    if isinstance(structure, Reduction) and structure.fold is None:
        return "no fold"
    specs = [plan.specs[operand] for operand in equation.operands]
    operands = [f"{spec.dtype}{list(spec.shape) if spec.shape else ''}" for spec in specs]
    return f"no code for {', '.join(operands)}"


def _computes(plan: UnfinishedPlan, equation: Equation, _: Elementwise, variable: int) -> bool:
    if len(equation.results) > 1:
        return False
    is_member = plan.is_emitted(equation, variable) and computes(plan, equation, variable)
    return is_member or _sweeps(plan, equation, variable)


def _reduces(plan: UnfinishedPlan, equation: Equation, structure: Reduction, variable: int) -> bool:
    known = plan, equation, structure, variable
    return plan.is_emitted(equation, variable) and (
        folds_windows(*known) or reduces(*known) or folds_in_order(*known)
    )


def _contracts(plan: UnfinishedPlan, equation: Equation, _: Contraction, variable: int) -> bool:
    if not plan.is_emitted(equation, variable):
        return False
    alike = _in_one_stack(plan, _in_one_dtype(plan, equation, variable))
    return contracts(plan, alike, variable) or multiplies(plan, alike, variable)


def _passes_finite(
    plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int
) -> bool:
    """Plan a copy of finite elements."""
    if not structure.keeps_finite:
        return False
    plan.prepare(equation.operands)
    plan.append(FinitePass(variable, equation))
    return True


def _draws(plan: UnfinishedPlan, equation: Equation, structure: Random, variable: int) -> bool:
    """Plan random words; returns whether they have a formula, and operands are integers."""
    key, *numbers = [plan.specs[operand] for operand in equation.operands]
    if structure.block is None or key.dtype != np.uint64 or key.shape[-1:] != (2,):
        return False
    if any(spec.dtype.kind not in "iu" for spec in numbers):
        return False
    if 0 in plan.specs[variable].shape:
        plan.append(Fill(variable))
        return True
    block = BoundFormula(with_params, (structure.block, equation.params))
    sizes: list[int] = []
    if not plan.can_write(
        lambda lanes: sizes.append(len(block(lanes, *[unknown(lanes, key.dtype)] * 3)))
    ):
        return False
    plan.prepare(equation.operands)
    plan.append(Drawing(variable, equation, block, *sizes))
    return True


def _sweeps(plan: UnfinishedPlan, equation: Equation, variable: int) -> bool:
    """Plan the inner loop of a ufunc over operands in one shape, and in the loop's dtypes."""
    ufunc, spec = _ufunc_of(equation), plan.specs[variable]
    if ufunc is None or equation.params or ufunc.nout != 1 or ufunc.signature is not None:
        return False
    if 0 in spec.shape:
        return False
    specs = [plan.specs[operand] for operand in equation.operands]
    try:
        dtypes = ufunc.resolve_dtypes((*map(_kind_of, specs), None))
    except TypeError:  # such as for bool, which ``evaluate`` converts
        return False
    if dtypes[-1] != spec.dtype or inner_loop(ufunc, dtypes) is None:
        return False
    operands = []
    for operand, operand_spec, dtype in zip(equation.operands, specs, dtypes, strict=False):
        if (
            operand_spec.weak
            or operand_spec.dtype != dtype
            or operand_spec.shape not in ((), spec.shape)
        ):
            source, operand = operand, plan.new(spec.shape if operand_spec.shape else (), dtype)
            member = Member(operand, (source,), BoundFormula(_converted, (dtype,)))
            join(plan, member, plan.specs[operand].shape)
        operands.append(operand)
    plan.prepare(operands)
    may_raise = ufunc is not equation.operation.evaluate or dtypes[-1].kind != "f"
    plan.append(Sweep(variable, ufunc, tuple(dtypes), tuple(operands), may_raise))
    return True


def _kind_of(spec: Spec) -> Any:
    """A dtype, or the type of a Python number."""
    return type(spec.dtype.type(0).item()) if spec.weak else spec.dtype


def _ufunc_of(equation: Equation) -> np.ufunc | None:
    """The ufunc that evaluates an elementwise operation."""
    operation, structure = equation.operation, equation.operation.structure
    ufunc: Any = operation.evaluate
    if isinstance(structure, Elementwise) and structure.ufunc:
        try:
            ufunc = resolve_name(structure.ufunc)
        except (ImportError, AttributeError):  # called back, the operation says what is missing
            return None
    return ufunc if isinstance(ufunc, np.ufunc) else None


def _runs_along_axis(
    plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int
) -> bool:
    if structure.along is None or len(equation.operands) != 1 or len(equation.results) > 1:
        return False
    (operand,) = equation.operands
    spec, out = plan.specs[operand], plan.specs[variable]
    if spec.weak:
        return False
    loop = structure.along(spec.shape, spec.dtype, **dict(equation.params))
    if loop is None or 0 in spec.shape or 0 in out.shape:
        return False
    signatures = [signature.split("->") for signature in loop.ufunc.types]
    letters = [ins + outs for ins, outs in signatures if outs == out.dtype.char]
    dtypes = tuple([np.dtype(letter) for letter in letters[0]]) if letters else ()
    if (
        not dtypes
        or not np.can_cast(spec.dtype, dtypes[0])
        or inner_loop(loop.ufunc, dtypes) is None
    ):
        return False
    if spec.dtype != dtypes[0]:
        source, operand = operand, plan.new(spec.shape, dtypes[0])
        member = Member(operand, (source,), BoundFormula(_converted, (dtypes[0],)))
        join(plan, member, spec.shape)
    plan.prepare([operand])
    plan.append(AxisSweep(variable, loop, dtypes, operand))
    return True


def _in_one_dtype(plan: UnfinishedPlan, equation: Equation, variable: int) -> Equation:
    """A contraction with its operands in the dtype of its result, as NumPy converts them."""
    dtype, operands = plan.specs[variable].dtype, []
    for operand in equation.operands:
        spec, source = plan.specs[operand], operand
        if spec.dtype != dtype and not spec.weak and dtype.kind in "fc":
            operand = plan.new(spec.shape, dtype)
            join(plan, Member(operand, (source,), BoundFormula(_converted, (dtype,))), spec.shape)
        operands.append(operand)
    return equation.on(tuple(operands))


def _in_one_stack(plan: UnfinishedPlan, equation: Equation) -> Equation:
    """A contraction whose factors repeat axes of size 1 that the result has longer, as views.

    Products in two such stacks take 0.06 (2 by 3) to 0.9 (64 by 64) of the time of a call back.
    """
    factors = [plan.specs[operand] for operand in equation.operands]
    structure: Any = equation.operation.structure
    *texts, out = structure.letters(*factors, **dict(equation.params))
    sizes = dict(zip(out, equation.results[0].shape, strict=True))
    operands = list(equation.operands)
    for place, (text, spec) in enumerate(zip(texts, factors, strict=True)):
        axes = zip(text, spec.shape, strict=True)
        shape = tuple([sizes.get(letter, size) for letter, size in axes])
        if shape != spec.shape:
            view = plan.views[operands[place]]
            operands[place] = plan.new(shape, spec.dtype)
            repeated = View(view.buffer, shape, view.broadcast(shape), view.offset)
            plan.views[operands[place]] = repeated
    return equation.on(tuple(operands))


def _converted(dtype: np.dtype[Any], m: Lanes, x: Value) -> Value:
    return m.astype(x, dtype)


def _adds_as_numpy(plan: UnfinishedPlan, equation: Equation, _: Opaque, variable: int) -> bool:
    """Plan NumPy's inner loop for a result that has to have its bits."""
    if equation.operation is not NUMPY_STEP:
        return False
    step: Any = dict(equation.params)["step"]
    form = step.factorization()
    if form is not None:
        return factorizes_as_numpy(plan, equation, form, variable)
    views = [plan.views[operand] for operand in equation.operands]
    dtype = plan.specs[variable].dtype
    copied = partial(plan.copied, dtype=dtype)
    loop = step.loop(variable, equation, views, dtype.itemsize, copied)
    if loop is None:
        return False
    plan.append(loop)
    return True


def _runs(plan: UnfinishedPlan, equation: Equation, _: Control, variable: int) -> bool:
    form = form_of(equation, plan.specs)
    if form is None:
        return False
    plan.prepare(equation.operands)
    plan.append(Run(variable, equation, form, in_form(form)))
    return True


_PLANNERS: Final = MappingProxyType[type, Sequence[Callable[..., bool]]](
    {
        Control: (_runs,),
        Factored: (factorizes,),
        Movement: (moves,),
        Gather: (gathers,),
        Scatter: (scatters,),
        Scan: (scans,),
        Random: (_draws,),
        Elementwise: (_computes,),
        Reduction: (_reduces,),
        Contraction: (_contracts,),
        Opaque: (
            _adds_as_numpy,
            _runs_along_axis,
            multiplies_windows,
            multiplies_rows,
            _passes_finite,
            sorts,
        ),
    }
)
"""Functions that plan an equation, given its structure and its first result, and return whether
they have: by the class of the structure, the first to try first."""
