"""Products of matrices, sparse ones too, and linear algebra as steps.

The axes of a contraction form four groups; each group is handled as one axis. All uses of one
matrix share an elimination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.band_matrices import MOST_DIAGONALS
from funcgrad._backends.native.cpython import inner_loop
from funcgrad._backends.native.plan_steps import (
    Elimination,
    FactorUse,
    Fill,
    GufuncLoop,
    MatrixProduct,
    RowProduct,
)
from funcgrad._backends.native.same_bits import MOST_SOLVED
from funcgrad._backends.native.small_matrices import MOST_ROWS, factors_size
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View, whole
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.structures import Factored, Opaque
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import letters_of

_CHARS: Final = frozenset("fdFD")


@dataclass(frozen=True, slots=True)
class Groups:
    """The letters of a contraction.

    Attributes
    ----------
    batch : str
        In both operands and in the result.
    rows, columns : str
        In one operand and in the result.
    summed : str
        In both operands, but not in the result.
    sizes : dict
    """

    batch: str
    rows: str
    columns: str
    summed: str
    sizes: dict[str, int]

    def size(self, letters: str) -> int:
        """The elements along some axes."""
        return prod([self.sizes[letter] for letter in letters])


def groups_of(texts: Sequence[str], specs: Sequence[Spec]) -> Groups | None:
    """The letters in groups; None where one is repeated, or stands in only one operand."""
    first, second, out = texts
    if any(len({*text}) < len(text) for text in texts):
        return None
    if {*first} - {*second, *out} or {*second} - {*first, *out}:
        return None
    sizes: dict[str, int] = {}
    for text, spec in zip((first, second), specs, strict=False):
        for letter, size in zip(text, spec.shape, strict=True):
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    return Groups(
        "".join([letter for letter in out if letter in first and letter in second]),
        "".join([letter for letter in out if letter not in second]),
        "".join([letter for letter in out if letter not in first]),
        "".join([letter for letter in second if letter not in out]),
        sizes,
    )


def multiplies(plan: UnfinishedPlan, equation: Equation, variable: int) -> bool:
    """Plan a contraction of floats or complex numbers as a product of stacks of matrices."""
    letters, spec = letters_of(equation, plan.specs), plan.specs[variable]
    if letters is None or spec.dtype.char not in _CHARS:
        return False
    specs = [plan.specs[operand] for operand in equation.operands]
    if any(one.dtype != spec.dtype or one.weak for one in specs):
        return False
    groups = groups_of(letters, specs)
    if groups is None or inner_loop(np.matmul, (spec.dtype,) * 3) is None:
        return False
    if 0 in groups.sizes.values():
        plan.append(Fill(variable))
        return True
    texts, views = list(letters[:2]), [plan.views[operand] for operand in equation.operands]
    if groups.size(groups.columns) == 1 or letters[2][-1] in groups.rows:
        groups = replace(groups, rows=groups.columns, columns=groups.rows)
        texts.reverse()
        views.reverse()
    left, right = _arranged(plan, groups, texts, views, spec.dtype)
    order = groups.batch + groups.rows + groups.columns
    product = variable
    if order != letters[2]:
        product = plan.new(tuple([groups.sizes[letter] for letter in order]), spec.dtype)
    plan.append(MatrixProduct(product, left, right))
    if product != variable:
        axes = [order.index(letter) for letter in letters[2]]
        plan.views[variable] = whole(product, plan.specs[product].shape).moved(axes)
    return True


def _arranged(
    plan: UnfinishedPlan,
    groups: Groups,
    texts: Sequence[str],
    views: Sequence[View],
    dtype: np.dtype[Any],
) -> tuple[View, View]:
    """Both operands as stacks of matrices, copied where they do not lie so."""
    first, second = texts
    orders = ["".join([x for x in text if x in groups.summed]) for text in (second, first)]
    for summed in dict.fromkeys(orders):
        left = _matrices(views[0], first, groups, groups.rows, summed)
        right = _matrices(views[1], second, groups, summed, groups.columns)
        if left is not None and right is not None:
            return left, _with_unit_step(plan, right, dtype)
    summed = orders[0]
    left = _matrices(views[0], first, groups, groups.rows, summed)
    right = _matrices(views[1], second, groups, summed, groups.columns)
    if left is None:
        left = _copied(plan, views[0], first, groups, groups.rows, summed, dtype)
    if right is None:
        right = _copied(plan, views[1], second, groups, summed, groups.columns, dtype)
    return left, _with_unit_step(plan, right, dtype)


def _matrices(view: View, letters: str, groups: Groups, rows: str, columns: str) -> View | None:
    """A view with the axes of the batch, then one axis for rows and one for columns."""
    strides = {
        letter: 0 if size == 1 else stride
        for letter, size, stride in zip(letters, view.shape, view.strides, strict=True)
    }
    merged = []
    for group in (rows, columns):
        axes = [letter for letter in group if groups.sizes[letter] != 1]
        for outer, inner in pairwise(axes):
            if strides[outer] != strides[inner] * groups.sizes[inner]:
                return None
        merged.append(strides[axes[-1]] if axes else 0)
    shape = (*[groups.sizes[x] for x in groups.batch], groups.size(rows), groups.size(columns))
    return View(view.buffer, shape, (*[strides[x] for x in groups.batch], *merged), view.offset)


def _copied(
    plan: UnfinishedPlan,
    view: View,
    letters: str,
    groups: Groups,
    rows: str,
    columns: str,
    dtype: np.dtype[Any],
) -> View:
    order = [letter for letter in groups.batch if letter in letters] + [*rows, *columns]
    copy = plan.copied(view.moved([letters.index(letter) for letter in order]), dtype)
    matrices = _matrices(copy, "".join(order), groups, rows, columns)
    assert matrices is not None  # a copy in C order
    return matrices


def _with_unit_step(plan: UnfinishedPlan, right: View, dtype: np.dtype[Any]) -> View:
    """The second operand, with rows or columns whose elements lie side by side."""
    (rows, columns), (row, column) = right.shape[-2:], right.strides[-2:]
    if column == 1 or columns == 1 or row == 1 or rows == 1:
        return right
    return plan.copied(right, dtype)


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
    plan: UnfinishedPlan, equation: Equation, structure: Factored, variable: int
) -> bool:
    """Plan the results of triangular factors; returns whether there is code for them."""
    form = structure.factorization(**dict(equation.params))
    specs = [*[plan.specs[operand] for operand in equation.operands], *equation.results]
    dtype = specs[-1].dtype
    if not _are_floats(specs) or (form.factors, form.makes) not in _WRITTEN:
        return False
    if form.bands is not None:
        is_written = form.makes is FromFactors.SOLUTIONS and sum(form.bands) < MOST_DIAGONALS
        if form.factors is not Factors.ELIMINATION or not is_written:
            return False
    elif specs[0].shape[-1] > MOST_ROWS and form.factors is not Factors.TRIANGLE:
        return _by_numpy(plan, equation, form, variable)
    views = [plan.views[operand] for operand in equation.operands]
    if len(views) > 1:
        views[1] = _with_dense_rows(plan, views[1], dtype)
    factors, is_transposed = None, False
    if form.factors is Factors.ELIMINATION and form.bands is None:
        is_transposed = views[0].strides[-2] == 1 and views[0].strides[-1] != 1
        turned = views[0].moved(_swapped(views[0])) if is_transposed else views[0]
        factors = _eliminated(plan, _with_dense_rows(plan, turned, dtype), dtype)
    ufunc = _loop_for_unusual(form, specs)
    plan.append(FactorUse(variable, equation, form, tuple(views), factors, is_transposed, ufunc))
    return True


def factorizes_as_numpy(
    plan: UnfinishedPlan, equation: Equation, form: Factorization, variable: int
) -> bool:
    """Plan the results of triangular factors with NumPy's bits; returns whether it has a loop."""
    operands = [plan.specs[operand] for operand in equation.operands]
    specs = [*operands, *equation.results]
    if not _are_floats(specs) or form.bands is not None or specs[-1].dtype.char != "d":
        return False  # NumPy computes in double precision
    if form.factors is not Factors.TRIANGLE:
        return _by_numpy(plan, equation, form, variable)
    ufunc = _loop_for_unusual(form, specs)
    if ufunc is None or len({spec.shape[:-2] for spec in operands}) > 1:
        return False
    views = tuple([plan.views[operand] for operand in equation.operands])
    plan.append(FactorUse(variable, equation, form, views, None, False, ufunc, by_numpy=True))
    return True


def _are_floats(specs: Sequence[Spec]) -> bool:
    """Whether arrays are not empty, and of one dtype for which there is code."""
    dtype = specs[-1].dtype
    if dtype.char not in "fd" or any(spec.dtype != dtype or spec.weak for spec in specs):
        return False
    return not any(0 in spec.shape for spec in specs)


def _loop_for_unusual(form: Factorization, specs: Sequence[Spec]) -> np.ufunc | None:
    """NumPy's loop that gives evaluation's results of matrices with unusual pivots, if it has one.

    For triangles of a few rows, evaluation solves equations with any matrix.
    """
    if form.bands is not None:
        return None
    factors = form.factors
    if factors is Factors.TRIANGLE:
        if specs[0].shape[-1] > MOST_SOLVED:
            return None
        factors = Factors.ELIMINATION
    lower = form.lower or factors is Factors.ELIMINATION
    ufunc = _GUFUNCS.get((factors, form.makes, lower))
    if ufunc is None or inner_loop(ufunc, (specs[0].dtype,) * ufunc.nargs) is None:
        return None
    return ufunc


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
        plan.append(Elimination(factors, matrices))
    return factors


def _by_numpy(plan: UnfinishedPlan, equation: Equation, form: Factorization, variable: int) -> bool:
    """Plan the loop of NumPy's over stacks, which have one shape."""
    ufunc = _GUFUNCS.get((form.factors, form.makes, form.lower))
    specs = [*[plan.specs[operand] for operand in equation.operands], *equation.results]
    count = len(equation.operands)
    if ufunc is None or len({spec.shape[:-2] for spec in specs[:count]}) > 1:
        return False
    if (ufunc.nin, ufunc.nout) != (count, len(equation.results)):
        return False
    dtypes = tuple([np.dtype(spec.dtype) for spec in specs])
    if inner_loop(ufunc, dtypes) is None:
        return False
    plan.prepare(equation.operands)
    plan.append(GufuncLoop(variable, equation, ufunc, dtypes, form.raises))
    return True


def multiplies_rows(
    plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int
) -> bool:
    """Plan products with a sparse matrix; returns whether they are of one floating dtype."""
    if structure.rows is None:
        return False
    specs = [plan.specs[v] for v in (*equation.operands, variable)]
    dtype = specs[-1].dtype
    if dtype.char not in _CHARS or any(spec.dtype != dtype or spec.weak for spec in specs):
        plan.lack = f"sparse products of {', '.join([str(spec.dtype) for spec in specs[:-1]])}"
        return False
    if not all(prod(spec.shape) for spec in specs):
        plan.append(Fill(variable))
        return True
    plan.prepare(equation.operands)
    plan.append(RowProduct(variable, equation))
    return True
