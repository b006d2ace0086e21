"""Steps of linear algebra as text: loops over stacks of matrices.

For a matrix with unusual pivots, or with results that are not finite, NumPy's loop computes the
results of this example as evaluation does: zeros and NaN are at the same places. If it finds that
the matrix has no result, and that is an error, the operation is called back and raises it.

A few forms have no such loop. They leave NaN in the results of the example, and are called back to
fill only these. ``lower`` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.band_matrices import (
    TOGETHER,
    band_elimination,
    band_room,
    long_substitution,
)
from funcgrad._backends.native.call_text import call_back, call_loop, each_example
from funcgrad._backends.native.floats import Floats, float_vectors
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import NotEmitted, Value, element_type
from funcgrad._backends.native.plan_steps import Elimination, EquationStep, FactorUse, GufuncLoop
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.small_matrices import (
    MOST_ROWS,
    determinant,
    elimination,
    factors_size,
    solution,
    spans,
    square_root,
    substitution,
    truth,
)
from funcgrad._backends.native.views import View, repeated, walk, whole
from funcgrad._core.structure.factorizations import Factors, FromFactors
from funcgrad._core.structure.index_maps import dense_strides


def write_elimination(site: FunctionSite, step: Elimination) -> None:
    """Write the elimination of a stack of matrices."""
    view, dtype = step.matrices, site.plan.specs[step.variable].dtype
    n = view.shape[-1]
    stack = view.shape[:-2]
    site.work += prod(view.shape) * n
    function = elimination(site.module, n, dtype)
    factors = whole(step.variable, (*stack, factors_size(n)))

    def one(pointers: Sequence[str]) -> None:
        matrix, out = pointers
        site.lines.emit(f"call void @{function}(ptr {matrix}, i64 {view.strides[-2]}, ptr {out})")

    each_example(site, stack, [(view, 2), (factors, 1)], dtype, one)


def write_factor_use(site: FunctionSite, step: FactorUse) -> None:
    """Write the results that factors give."""
    lines, dtype = site.lines, site.plan.specs[step.variable].dtype
    one = float_vectors(lines, dtype, 1)
    n = step.views[0].shape[-1]
    outs = [whole(v, site.plan.specs[v].shape) for v in step.written]
    has_matrices = step.form.makes not in (FromFactors.DETERMINANT, FromFactors.LOGARITHM)
    stack = outs[0].shape[:-2] if has_matrices else outs[0].shape
    site.work += prod(outs[0].shape) * n
    first = (step.views[0], 2)
    if step.factors is not None:
        first = (whole(step.factors, site.plan.specs[step.factors].shape), 1)
    core = 2 if has_matrices else 0
    operands, results = [(view, 2) for view in step.views], [(out, core) for out in outs]
    missing, count = _flag(lines), len(operands)

    def example(pointers: Sequence[str]) -> None:
        if step.by_numpy:
            _unusual(site, step, one, pointers, missing)
            return
        usual = _example(
            site, step, one, [pointers[count], *pointers[1:count], *pointers[count + 1 :]]
        )
        lines.when((~usual).text, lambda: _unusual(site, step, one, pointers, missing))

    each_example(site, stack, [*operands, first, *results], dtype, example)
    if step.ufunc is None:
        module = site.module
        module.recourses.append(f"{step.equation.name}: a result that is not finite")
    if step.ufunc is None or _may_fail(step):
        views = step.views
        _call_back_if(
            site, step, missing, lambda: [_in_order(site, v, dtype) for v in views], len(stack)
        )


def _may_fail(step: FactorUse) -> bool:
    """Whether a matrix without a result is an error."""
    return step.form.raises and _has_failures(step.form.makes)


def _has_failures(makes: FromFactors) -> bool:
    return makes not in (FromFactors.DETERMINANT, FromFactors.LOGARITHM)


# ------------------------------------------------------------------------------ unusual examples

_LONG: Final = np.dtype(np.int64)

_INVALID: Final = 1
"""The flag for invalid operations (``FE_INVALID`` on x86 and on Arm), which NumPy's loops set if a
matrix has no result."""


def _unusual(
    site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str], missing: str
) -> None:
    """Write how an example without usual results gets them from NumPy's loop.

    The pointers are addresses of the operands, of the factors, and of the results.
    """
    lines, outs = site.lines, pointers[len(step.views) + 1 :]

    def has_no_result() -> None:
        lines.emit(f"store i1 true, ptr {missing}")
        for out in outs:
            one.store(out, one.number(np.nan))

    def solve() -> None:
        _solve_by_loop(site, step, one, pointers)
        if _may_fail(step):
            invalid = lines.call("i32", "fetestexcept", ("i32", str(_INVALID)))
            lines.when(lines.op(f"icmp ne i32 {invalid}, 0"), has_no_result)

    if step.ufunc is None:
        has_no_result()
    elif step.form.factors is Factors.TRIANGLE and not step.form.unit_diagonal:
        absent = has_no_result if step.form.raises else lambda: _fill_with_nan(site, step, outs[0])
        lines.when(_has_zero(step, one, pointers[0]).text, absent, solve)
    else:
        solve()


def _has_zero(step: FactorUse, one: Floats, matrix: str) -> Value:
    """Whether there is a zero on the diagonal of a matrix."""
    n, (row, column) = step.views[0].shape[-1], step.views[0].strides[-2:]

    def look(index: str, so_far: Sequence[Value]) -> Sequence[Value]:
        return [so_far[0] | (one.load(one.row(matrix, index, row + column)) == 0.0)]

    return repeated(one.lanes.lines, str(n), look, [truth(one, "false")])[0]


def _fill_with_nan(site: FunctionSite, step: FactorUse, out: str) -> None:
    one = float_vectors(site.lines, site.plan.specs[step.variable].dtype, 1)

    def fill(index: str, _: Sequence[str]) -> Sequence[str]:
        one.store(one.at(out, index), one.number(np.nan))
        return ()

    site.lines.counted(prod(site.plan.specs[step.variable].shape[-2:]), fill)


def _solve_by_loop(
    site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]
) -> None:
    """Write the call of NumPy's loop for one example."""
    assert step.ufunc is not None
    n, size, count = step.views[0].shape[-1], one.dtype.itemsize, len(step.views)
    matrix, strides = pointers[0], list(step.views[0].strides[-2:])
    if step.form.factors is Factors.TRIANGLE:
        matrix, strides = _triangle_alone(site, step, one, matrix), [n, 1]
    counts = [1, n]
    for view in step.views[1:]:
        counts.append(view.shape[-1])
        strides += view.strides[-2:]
    outs = pointers[count + 1 :]
    shapes = [site.plan.specs[v].shape for v in step.written]
    if _has_failures(step.form.makes):
        strides += dense_strides(shapes[0][-2:])
    between = [0] * step.ufunc.nargs
    steps = [*between, *[stride * size for stride in strides]]
    site.lines.call("i32", "feclearexcept", ("i32", str(_INVALID)))
    operands = [matrix, *pointers[1:count], *outs]
    call_loop(site, step.ufunc, (one.dtype,) * step.ufunc.nargs, operands, counts, steps)


def _triangle_alone(site: FunctionSite, step: FactorUse, one: Floats, matrix: str) -> str:
    """Write a copy of a triangle, with zeros beyond it, and return its address."""
    lines, form, n = site.lines, step.form, step.views[0].shape[-1]
    copy = site.shared_scratch(n * n * one.dtype.itemsize)
    m, (row, column) = one.lanes, step.views[0].strides[-2:]

    def copy_row(i: str, _: Sequence[str]) -> Sequence[str]:
        source, target = one.row(matrix, i, row), one.row(copy, i, n)
        here = Value(i, _LONG, m)

        def copy_one(j: str, _: Sequence[str]) -> Sequence[str]:
            there, x = Value(j, _LONG, m), one.load(one.row(source, j, column))
            inside = there <= here if form.lower else there >= here
            x = m.where(inside, x, one.number(0.0))
            if form.unit_diagonal:
                x = m.where(there == here, one.number(1.0), x)
            one.store(one.at(target, j), x)
            return ()

        lines.counted(n, copy_one)
        return ()

    lines.counted(n, copy_row)
    return copy


# ----------------------------------------------------------------------------------- one example


def _example(site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]) -> Value:
    """Write the results of one example; returns a truth value: whether they are there."""
    lines, form, view = site.lines, step.form, step.views[0]
    if form.bands is not None:
        return _banded(site, step, one, pointers)
    if form.factors is Factors.SQUARE_ROOT:
        return _square_root(site, step, one, pointers)
    if form.factors is Factors.TRIANGLE:
        return _substituted(site, step, one, pointers)
    n = view.shape[-1]
    sign = one.load(one.at(pointers[0], n * n + n))
    usual = sign == sign
    if form.makes is FromFactors.SOLUTIONS:
        columns, step_of_rows = step.views[1].shape[-1], str(step.views[1].strides[-2])
        right = pointers[1]
    elif form.makes is FromFactors.INVERSE:
        right = site.module.symbol("unit", ("unit", n, one.dtype.char))
        columns, step_of_rows = n, str(n)
    else:
        return usual & _determinant(site, step, one, pointers)
    function = solution(site.module, n, columns, step.is_transposed, one.dtype)
    finite = lines.op(
        f"call i1 @{function}(ptr {pointers[0]}, ptr {right}, i64 {step_of_rows},"
        f" ptr {pointers[-1]})"
    )
    return usual & truth(one, finite)


def _determinant(
    site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]
) -> Value:
    lines, n, m = site.lines, step.views[0].shape[-1], one.lanes
    room = lines.room(f"[3 x {element_type(one.dtype)}]")
    function = determinant(site.module, n, one.dtype)
    lines.emit(f"call void @{function}(ptr {pointers[0]}, ptr {room})")
    sign, factor, exponent = [one.load(one.at(room, k)) for k in range(3)]
    if step.form.makes is FromFactors.LOGARITHM:
        logarithm = _logarithm(site, one, one.at(room, 1), factor)
        one.store(pointers[1], sign)
        one.store(pointers[2], one.fma(exponent, log(2.0), logarithm))
        return truth(one, "true")
    inside = abs(exponent) < float(np.finfo(one.dtype).maxexp - 8)
    bounded = m.where(inside, exponent, 0.0)
    power = m.cast("fptosi", bounded, one.integers)
    one.store(pointers[1], sign * factor * one.power_of_two(power))
    return inside


def _logarithm(site: FunctionSite, one: Floats, place: str, x: Value) -> Value:
    """The logarithm of a number that lies at a place, where its own may come."""
    try:
        return Registers(site.lines, 1).log(x)
    except NotEmitted:
        call_loop(site, np.log, (one.dtype, one.dtype), [place, place], [1], [0, 0])
        return one.load(place)


def _substituted(
    site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]
) -> Value:
    lines, form = site.lines, step.form
    matrix, right, out = pointers
    triangle, columns = step.views[0], step.views[1].shape[-1]
    n, (row, column) = triangle.shape[-1], triangle.strides[-2:]
    step_of_rows, to = step.views[1].strides[-2], columns
    if not form.lower:  # a lower triangle from the last element on
        matrix = one.at(matrix, (n - 1) * (row + column))
        right, out = one.at(right, (n - 1) * step_of_rows), one.at(out, (n - 1) * to)
        row, column, step_of_rows, to = -row, -column, -step_of_rows, -to
    is_finite = truth(one, "true")
    unit, is_long = form.unit_diagonal, n > MOST_ROWS
    for start, count, width in _spans(columns, one.dtype, TOGETHER if is_long else 1):
        if is_long:
            function = long_substitution(site.module, count, width, unit, one.dtype)
        else:
            function = substitution(site.module, n, width, unit, one.dtype)
        finite = lines.op(
            f"call i1 @{function}(ptr {matrix}, i64 {row}, i64 {column},"
            f" ptr {one.at(right, start)}, i64 {step_of_rows}, ptr {one.at(out, start)}, i64 {to}"
            + (f", i64 {n})" if is_long else ")")
        )
        is_finite = is_finite & truth(one, finite)
    return is_finite


def _spans(columns: int, dtype: np.dtype[Any], most: int) -> list[tuple[int, int, int]]:
    """How columns are gone through: the start, the count and the width of each group of vectors."""
    joined: list[tuple[int, int, int]] = []
    for start, width in spans(columns, dtype):
        if joined and joined[-1][1] < most and joined[-1][2] == width:
            joined[-1] = (joined[-1][0], joined[-1][1] + 1, width)
        else:
            joined.append((start, 1, width))
    return joined


def _banded(site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]) -> Value:
    lines, (bands, right) = site.lines, step.views
    assert step.form.bands is not None
    n, columns = right.shape[-2:]
    is_solved = truth(one, "true")
    for start, width in spans(columns, one.dtype):
        function = band_elimination(site.module, step.form.bands, width, one.dtype)
        room = site.shared_scratch(n * band_room(step.form.bands, width) * one.dtype.itemsize)
        usual = lines.op(
            f"call i1 @{function}(ptr {pointers[0]}, i64 {bands.strides[-2]},"
            f" i64 {bands.strides[-1]}, i64 {n}, ptr {one.at(pointers[1], start)},"
            f" i64 {right.strides[-2]}, ptr {one.at(pointers[2], start)}, i64 {columns},"
            f" ptr {room})"
        )
        is_solved = is_solved & truth(one, usual)
    return is_solved


def _square_root(
    site: FunctionSite, step: FactorUse, one: Floats, pointers: Sequence[str]
) -> Value:
    matrix, out = pointers
    n, (row, column) = step.views[0].shape[-1], step.views[0].strides[-2:]
    to_row, to_column = n, 1
    if not step.form.lower:
        row, column, to_row, to_column = column, row, to_column, to_row
    size = n * n * one.dtype.itemsize
    site.lines.call("ptr", "memset", ("ptr", out), ("i32", "0"), ("i64", str(size)))
    function = square_root(site.module, n, one.dtype)
    positive = site.lines.op(
        f"call i1 @{function}(ptr {matrix}, i64 {row}, i64 {column}, ptr {out}, i64 {to_row},"
        f" i64 {to_column})"
    )
    return truth(one, positive)


# ---------------------------------------------------------------------------------- called back


def _flag(lines: FunctionText) -> str:
    """Room for a truth value, which is false at first."""
    room = lines.room("i1")
    lines.emit(f"store i1 false, ptr {room}")
    return room


def _call_back_if(
    site: FunctionSite,
    step: EquationStep,
    missing: str,
    operands: Callable[[], Sequence[str]],
    rank: int,
) -> None:
    """Write a branch: if some examples have no result, the operation is called back for these."""
    is_missing = site.lines.op(f"load i1, ptr {missing}")
    site.lines.when(is_missing, lambda: call_back(site, step, operands(), rank))


def _in_order(site: FunctionSite, view: View, dtype: np.dtype[Any]) -> str:
    """The address of a view's elements in C order, which may be a copy."""
    one = float_vectors(site.lines, dtype, 1)
    start = one.at(site.pointer(view.buffer), view.offset)
    if view.is_dense:
        return start
    copy = site.shared_scratch(prod(view.shape) * dtype.itemsize)
    strides = view.strides, dense_strides(view.shape)

    def move(places: Sequence[str]) -> None:
        source, target = [one.at(p, k) for p, k in zip((start, copy), places, strict=True)]
        one.store(target, one.load(source))

    walk(site.lines, view.shape, strides, ["0", "0"], move)
    return copy


# ------------------------------------------------------------------------------ loops of NumPy's


def write_gufunc(site: FunctionSite, step: GufuncLoop) -> None:
    """Write the call of NumPy's loop over a stack of matrices."""
    specs = [site.plan.specs[operand] for operand in step.equation.operands]
    stack, rank = specs[0].shape[:-2], len(specs[0].shape) - 2
    specs += [site.plan.specs[result] for result in step.written]
    pointers = [*map(site.at, step.equation.operands), *map(site.pointer, step.written)]
    sizes = [dtype.itemsize for dtype in step.dtypes]
    cores = [spec.shape[rank:] for spec in specs]
    steps = [prod(core) * size for core, size in zip(cores, sizes, strict=True)]
    for core, size in zip(cores, sizes, strict=True):
        steps += [stride * size for stride in dense_strides(core)]
    n = specs[0].shape[-1]
    counts = [prod(stack), n]
    if len(step.equation.operands) > 1:
        counts.append(specs[1].shape[-1])
    site.work += prod(specs[0].shape) * n
    can_fail = step.raises and len(cores[-1]) == 2  # determinants have no failures
    if can_fail:
        site.lines.call("i32", "feclearexcept", ("i32", str(_INVALID)))
    call_loop(site, step.ufunc, step.dtypes, pointers, counts, steps)
    if can_fail:
        invalid = site.lines.call("i32", "fetestexcept", ("i32", str(_INVALID)))
        some = site.lines.op(f"icmp ne i32 {invalid}, 0")
        operands = pointers[: len(step.equation.operands)]
        site.lines.when(some, lambda: call_back(site, step, operands, rank))
