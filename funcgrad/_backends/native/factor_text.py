"""Steps of linear algebra as text: loops over stacks of matrices, and what has no result.

A matrix without factors, or with results that are not finite, leaves NaN in its results. The
operation is then called back, and fills these alone: as elsewhere it raises, or gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod
from typing import Any

import numpy as np

from funcgrad._backends.native.band_matrices import (
    TOGETHER,
    band_elimination,
    band_room,
    long_substitution,
)
from funcgrad._backends.native.call_text import call_back, call_loop, each_example
from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.lanes import NotEmitted, Value
from funcgrad._backends.native.plan_steps import (
    Elimination,
    EquationStep,
    FactorUse,
    GufuncLoop,
)
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
)
from funcgrad._backends.native.views import View, whole
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
    """Write what is made of factors."""
    lines, dtype = site.lines, site.plan.specs[step.variable].dtype
    one = FloatRegisters(lines, dtype, 1, site.module.fuses)
    n = step.views[0].shape[-1]
    results = range(step.variable, step.variable + len(step.equation.results))
    outs = [whole(v, site.plan.specs[v].shape) for v in results]
    has_matrices = step.form.makes not in (FromFactors.DETERMINANT, FromFactors.LOGARITHM)
    stack = outs[0].shape[:-2] if has_matrices else outs[0].shape
    site.work += prod(outs[0].shape) * n
    first = (step.views[0], 2)
    if step.factors is not None:
        first = (whole(step.factors, site.plan.specs[step.factors].shape), 1)
    core = 2 if has_matrices else 0
    arrays = [first, *[(view, 2) for view in step.views[1:]], *[(out, core) for out in outs]]
    missing = lines.room("i1")
    lines.emit(f"store i1 false, ptr {missing}")

    def example(pointers: Sequence[str]) -> None:
        there = _example(site, step, one, pointers)
        absent, after = lines.fresh_label("absent"), lines.fresh_label("there")
        lines.branch(there, after, absent)
        lines.begin_block(absent)
        lines.emit(f"store i1 true, ptr {missing}")
        for out in pointers[-len(outs) :]:
            one.store(out, one.number(np.nan))
        lines.jump(after)
        lines.begin_block(after)

    each_example(site, stack, arrays, dtype, example)
    _call_back_if(
        site, step, missing, lambda: [_in_order(site, v, dtype) for v in step.views], len(stack)
    )


# ----------------------------------------------------------------------------------- one example


def _example(
    site: FunctionSite, step: FactorUse, one: FloatRegisters, pointers: Sequence[str]
) -> str:
    """Write the results of one example; returns a truth value: whether they are there."""
    lines, form, view = site.lines, step.form, step.views[0]
    if form.bands is not None:
        return _banded(site, step, one, pointers)
    if form.factors is Factors.SQUARE_ROOT:
        return _square_root(site, step, one, pointers)
    if form.factors is Factors.TRIANGLE:
        return _substituted(site, step, one, pointers)
    n = view.shape[-1]
    sign = one.load_one(one.at(pointers[0], n * n + n))
    usual = lines.op(f"fcmp ord {one.kind} {sign}, {sign}")
    if form.makes is FromFactors.SOLUTIONS:
        columns, step_of_rows = step.views[1].shape[-1], str(step.views[1].strides[-2])
        right = pointers[1]
    elif form.makes is FromFactors.INVERSE:
        right = site.module.symbol("unit", ("unit", n, one.dtype.char))
        columns, step_of_rows = n, str(n)
    else:
        return lines.op(f"and i1 {usual}, {_determinant(site, step, one, pointers)}")
    function = solution(site.module, n, columns, step.is_transposed, one.dtype)
    finite = lines.op(
        f"call i1 @{function}(ptr {pointers[0]}, ptr {right}, i64 {step_of_rows},"
        f" ptr {pointers[-1]})"
    )
    return lines.op(f"and i1 {usual}, {finite}")


def _determinant(
    site: FunctionSite, step: FactorUse, one: FloatRegisters, pointers: Sequence[str]
) -> str:
    lines, n = site.lines, step.views[0].shape[-1]
    room = lines.room(f"[3 x {one.element}]")
    function = determinant(site.module, n, one.dtype)
    lines.emit(f"call void @{function}(ptr {pointers[0]}, ptr {room})")
    sign, factor, exponent = [one.load_one(one.at(room, k)) for k in range(3)]
    if step.form.makes is FromFactors.LOGARITHM:
        logarithm = _logarithm(site, one, one.at(room, 1), factor)
        one.store(pointers[1], sign)
        one.store(pointers[2], one.plus_product(exponent, one.number(log(2.0)), logarithm))
        return "true"
    most = float(np.finfo(one.dtype).maxexp - 8)
    size = one.called("fabs", exponent)
    inside = lines.op(f"fcmp olt {one.kind} {size}, {one.number(most)}")
    bounded = lines.op(f"select i1 {inside}, {one.kind} {exponent}, {one.kind} {one.zero}")
    digits, word = np.finfo(one.dtype).nmant, f"i{8 * one.dtype.itemsize}"
    power = lines.op(f"fptosi {one.kind} {bounded} to {word}")
    biased = lines.op(f"add {word} {power}, {int(np.finfo(one.dtype).maxexp) - 1}")
    bits = lines.op(f"shl {word} {biased}, {digits}")
    scale = lines.op(f"bitcast {word} {bits} to {one.kind}")
    one.store(pointers[1], one.op("fmul", one.op("fmul", sign, factor), scale))
    return inside


def _logarithm(site: FunctionSite, one: FloatRegisters, place: str, x: str) -> str:
    """The logarithm of a number that lies at a place, where its own may come."""
    lanes = Registers(site.lines, 1)
    try:
        return lanes.log(Value(x, one.dtype, lanes)).text
    except NotEmitted:
        call_loop(site, np.log, (one.dtype, one.dtype), [place, place], [1], [0, 0])
        return one.load_one(place)


def _substituted(
    site: FunctionSite, step: FactorUse, one: FloatRegisters, pointers: Sequence[str]
) -> str:
    lines, form = site.lines, step.form
    matrix, right, out = pointers
    triangle, columns = step.views[0], step.views[1].shape[-1]
    n, (row, column) = triangle.shape[-1], triangle.strides[-2:]
    step_of_rows, to = step.views[1].strides[-2], columns
    if not form.lower:  # a lower triangle from the last element on
        matrix = one.at(matrix, (n - 1) * (row + column))
        right, out = one.at(right, (n - 1) * step_of_rows), one.at(out, (n - 1) * to)
        row, column, step_of_rows, to = -row, -column, -step_of_rows, -to
    known = "true"
    unit, is_long = form.unit_diagonal, n > MOST_ROWS
    for start, vectors, width in _spans(columns, one.dtype, TOGETHER if is_long else 1):
        if is_long:
            function = long_substitution(site.module, vectors, width, unit, one.dtype)
        else:
            function = substitution(site.module, n, width, unit, one.dtype)
        finite = lines.op(
            f"call i1 @{function}(ptr {matrix}, i64 {row}, i64 {column},"
            f" ptr {one.at(right, start)}, i64 {step_of_rows}, ptr {one.at(out, start)}, i64 {to}"
            + (f", i64 {n})" if is_long else ")")
        )
        known = lines.op(f"and i1 {known}, {finite}")
    return known


def _spans(columns: int, dtype: np.dtype[Any], most: int) -> list[tuple[int, int, int]]:
    """How columns are gone through: where they start, and how many vectors of which width."""
    joined: list[tuple[int, int, int]] = []
    for start, width in spans(columns, dtype):
        if joined and joined[-1][1] < most and joined[-1][2] == width:
            joined[-1] = (joined[-1][0], joined[-1][1] + 1, width)
        else:
            joined.append((start, 1, width))
    return joined


def _banded(
    site: FunctionSite, step: FactorUse, one: FloatRegisters, pointers: Sequence[str]
) -> str:
    lines, (bands, right) = site.lines, step.views
    assert step.form.bands is not None
    n, columns = right.shape[-2:]
    known = "true"
    for start, width in spans(columns, one.dtype):
        function = band_elimination(site.module, step.form.bands, width, one.dtype)
        room = site.shared_scratch(n * band_room(step.form.bands, width) * one.dtype.itemsize)
        usual = lines.op(
            f"call i1 @{function}(ptr {pointers[0]}, i64 {bands.strides[-2]},"
            f" i64 {bands.strides[-1]}, i64 {n}, ptr {one.at(pointers[1], start)},"
            f" i64 {right.strides[-2]}, ptr {one.at(pointers[2], start)}, i64 {columns},"
            f" ptr {room})"
        )
        known = lines.op(f"and i1 {known}, {usual}")
    return known


def _square_root(
    site: FunctionSite, step: FactorUse, one: FloatRegisters, pointers: Sequence[str]
) -> str:
    matrix, out = pointers
    n, (row, column) = step.views[0].shape[-1], step.views[0].strides[-2:]
    to_row, to_column = n, 1
    if not step.form.lower:
        row, column, to_row, to_column = column, row, to_column, to_row
    size = n * n * one.dtype.itemsize
    site.lines.call("ptr", "memset", ("ptr", out), ("i32", "0"), ("i64", str(size)))
    function = square_root(site.module, n, one.dtype)
    return site.lines.op(
        f"call i1 @{function}(ptr {matrix}, i64 {row}, i64 {column}, ptr {out}, i64 {to_row},"
        f" i64 {to_column})"
    )


# ---------------------------------------------------------------------------------- called back


def _call_back_if(
    site: FunctionSite,
    step: EquationStep,
    missing: str,
    operands: Callable[[], Sequence[str]],
    rank: int,
) -> None:
    """Write a branch: if some examples have no result, the operation is called back for these."""
    lines = site.lines
    call, after = lines.fresh_label("some"), lines.fresh_label("all")
    lines.branch(lines.op(f"load i1, ptr {missing}"), call, after)
    lines.begin_block(call)
    call_back(site, step, operands(), rank)
    lines.jump(after)
    lines.begin_block(after)


def _in_order(site: FunctionSite, view: View, dtype: np.dtype[Any]) -> str:
    """The address of a view's elements in C order, which may be a copy."""
    one = FloatRegisters(site.lines, dtype, 1, site.module.fuses)
    start = one.at(site.pointer(view.buffer), view.offset)
    if view.is_dense:
        return start
    copy = site.shared_scratch(prod(view.shape) * dtype.itemsize)
    dense = dense_strides(view.shape)

    def loops(axis: int, source: str, target: str) -> None:
        if axis == len(view.shape):
            one.store(target, one.load(source))
            return

        def step(index: str, _: Sequence[str]) -> Sequence[str]:
            place = one.row(source, index, view.strides[axis])
            loops(axis + 1, place, one.row(target, index, dense[axis]))
            return ()

        site.lines.counted(view.shape[axis], step)

    loops(0, start, copy)
    return copy


# ------------------------------------------------------------------------------ loops of NumPy's


def write_gufunc(site: FunctionSite, step: GufuncLoop) -> None:
    """Write the call of NumPy's loop over a stack of matrices; NaN means that one failed."""
    specs = [site.plan.specs[operand] for operand in step.equation.operands]
    results = range(step.variable, step.variable + len(step.equation.results))
    stack, rank = specs[0].shape[:-2], len(specs[0].shape) - 2
    specs += [site.plan.specs[result] for result in results]
    pointers = [*map(site.at, step.equation.operands), *map(site.pointer, results)]
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
    call_loop(site, step.ufunc, step.dtypes, pointers, counts, steps)
    if len(cores[-1]) < 2:  # determinants have no failures
        return
    missing, one = site.lines.room("i1"), FloatRegisters(site.lines, step.dtypes[-1], 1, False)
    site.lines.emit(f"store i1 false, ptr {missing}")

    def look(index: str, _: Sequence[str]) -> Sequence[str]:
        first = one.load_one(one.row(pointers[-1], index, prod(cores[-1])))
        absent = site.lines.op(f"fcmp uno {one.kind} {first}, {first}")
        before = site.lines.op(f"load i1, ptr {missing}")
        site.lines.emit(f"store i1 {site.lines.op(f'or i1 {before}, {absent}')}, ptr {missing}")
        return ()

    site.lines.counted(prod(stack), look)
    _call_back_if(site, step, missing, lambda: pointers[: len(step.equation.operands)], rank)
