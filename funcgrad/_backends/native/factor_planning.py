"""Linear algebra as steps: eliminations, shared by uses of one matrix, and what they give."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.band_matrices import MOST_DIAGONALS
from funcgrad._backends.native.cpython import inner_loop
from funcgrad._backends.native.plan_steps import Elimination, FactorUse, GufuncLoop
from funcgrad._backends.native.small_matrices import MOST_ROWS, factors_size
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import Factored
from funcgrad._programs.equation import Equation

_WRITTEN: Final = frozenset(
    {
        (Factors.ELIMINATION, FromFactors.SOLUTIONS),
        (Factors.ELIMINATION, FromFactors.INVERSE),
        (Factors.ELIMINATION, FromFactors.DETERMINANT),
        (Factors.ELIMINATION, FromFactors.LOGARITHM),
        (Factors.TRIANGLE, FromFactors.SOLUTIONS),
        (Factors.SQUARE_ROOT, FromFactors.FACTOR),
    }
)


def _gufuncs() -> Mapping[tuple[Factors, FromFactors, bool], Any]:
    """NumPy's loops over stacks of matrices, which are private: there may be none."""
    loops = getattr(np.linalg, "_umath_linalg", None)
    eliminated, root = Factors.ELIMINATION, Factors.SQUARE_ROOT
    names = {
        (eliminated, FromFactors.SOLUTIONS, True): "solve",
        (eliminated, FromFactors.INVERSE, True): "inv",
        (eliminated, FromFactors.DETERMINANT, True): "det",
        (eliminated, FromFactors.LOGARITHM, True): "slogdet",
        (root, FromFactors.FACTOR, True): "cholesky_lo",
        (root, FromFactors.FACTOR, False): "cholesky_up",
    }
    ufuncs = {key: getattr(loops, name, None) for key, name in names.items()}
    return MappingProxyType(
        {key: loop for key, loop in ufuncs.items() if isinstance(loop, np.ufunc)}
    )


_GUFUNCS: Final = _gufuncs()


def factorizes(
    plan: UnfinishedPlan, equation: Equation, structure: Factored, results: range
) -> bool:
    """Plan what triangular factors give; returns whether there is code for it."""
    form = structure.factorization(**dict(equation.params))
    specs = [plan.specs[variable] for variable in (*equation.operands, *results)]
    dtype = specs[-1].dtype
    if dtype.char not in "fd" or any(spec.dtype != dtype or spec.weak for spec in specs):
        return False
    if any(0 in spec.shape for spec in specs) or (form.factors, form.makes) not in _WRITTEN:
        return False
    if form.bands is not None:
        is_written = form.makes is FromFactors.SOLUTIONS and sum(form.bands) < MOST_DIAGONALS
        if form.factors is not Factors.ELIMINATION or not is_written:
            return False
    elif specs[0].shape[-1] > MOST_ROWS and form.factors is not Factors.TRIANGLE:
        return _by_numpy(plan, equation, form, results)
    views = [plan.views[operand] for operand in equation.operands]
    if len(views) > 1:
        views[1] = _with_dense_rows(plan, views[1], dtype)
    factors, is_transposed = None, False
    if form.factors is Factors.ELIMINATION and form.bands is None:
        is_transposed = views[0].strides[-2] == 1 and views[0].strides[-1] != 1
        turned = views[0].moved(_swapped(views[0])) if is_transposed else views[0]
        factors = _eliminated(plan, _with_dense_rows(plan, turned, dtype), dtype)
    step = FactorUse(equation, results.start, form, tuple(views), factors, is_transposed)
    plan.append(step, results)
    return True


def _swapped(view: View) -> list[int]:
    axes = list(range(len(view.shape)))
    return [*axes[:-2], axes[-1], axes[-2]]


def _with_dense_rows(plan: UnfinishedPlan, view: View, dtype: np.dtype[Any]) -> View:
    """The view, or a copy, in which the elements of a row lie side by side."""
    if view.strides[-1] == 1 or view.shape[-1] == 1:
        return view
    return plan.copied(view, dtype)


def _eliminated(plan: UnfinishedPlan, matrices: View, dtype: np.dtype[Any]) -> int:
    """The factors of matrices, which may be there already."""
    factors = plan.eliminations.get(matrices)
    if factors is None:
        shape = (*matrices.shape[:-2], factors_size(matrices.shape[-1]))
        factors = plan.eliminations[matrices] = plan.new(shape, dtype)
        plan.append(Elimination(matrices, factors), range(factors, factors + 1))
    return factors


def _by_numpy(
    plan: UnfinishedPlan, equation: Equation, form: Factorization, results: range
) -> bool:
    """Plan the loop of NumPy's over stacks, which have one shape."""
    ufunc = _GUFUNCS.get((form.factors, form.makes, form.lower))
    specs = [plan.specs[variable] for variable in (*equation.operands, *results)]
    count = len(equation.operands)
    if ufunc is None or len({spec.shape[:-2] for spec in specs[:count]}) > 1:
        return False
    if (ufunc.nin, ufunc.nout) != (count, len(results)):
        return False
    dtypes = tuple([np.dtype(spec.dtype) for spec in specs])
    if inner_loop(ufunc, dtypes) is None:
        return False
    plan.prepare(equation.operands)
    plan.append(GufuncLoop(equation, results.start, ufunc, dtypes), results)
    return True
