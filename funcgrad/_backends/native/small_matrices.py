"""Small matrices in registers: elimination, substitution, square roots, products, written out.

Each function is for one number of rows, so that rows stay in registers, and is written once for all
uses in a module. Functions return whether the result is there. Where a pivot is zero, or negative,
or a result is not finite, it is not: the operation is left to NumPy.

The factors of a matrix of n rows are n * n numbers, L without its diagonal and U; then the order of
the rows, as n integers of the same size; then the sign of this order, or NaN where a pivot is zero
or no usual number.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import NativeModule

MOST_ROWS: Final = 8
"""The most rows of a matrix that is written out."""


def factors_size(n: int) -> int:
    """How many elements the factors of a matrix take."""
    return n * n + n + 1


def _word(dtype: np.dtype[Any]) -> str:
    """The integer type with as many bits as a float."""
    return f"i{8 * dtype.itemsize}"


def _all(lines: FunctionText, flags: list[str]) -> str:
    known = flags[0]
    for flag in flags[1:]:
        known = lines.op(f"and i1 {known}, {flag}")
    return known


def elimination(module: NativeModule, n: int, dtype: np.dtype[Any]) -> str:
    """The function ``(matrix, step from row to row, factors)``: exchange rows, and eliminate."""
    name = f"eliminate_{n}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (
            FloatRegisters(lines, dtype, n, module.fuses),
            FloatRegisters(lines, dtype, 1, module.fuses),
        )
        rows = [r.load(r.row("%a", i, "%step")) for i in range(n)]
        order, odd, flags = [str(i) for i in range(n)], "false", []
        for k in range(n):
            size = one.called("fabs", r.lane(rows[k], k))
            for i in range(k + 1, n):  # the greatest comes up, by exchanges
                other = one.called("fabs", r.lane(rows[i], k))
                more = lines.op(f"fcmp ogt {one.kind} {other}, {size}")
                size = lines.op(f"select i1 {more}, {one.kind} {other}, {one.kind} {size}")
                odd = lines.op(f"xor i1 {odd}, {more}")
                for values, kind in ((rows, r.kind), (order, "i64")):
                    x, y = values[k], values[i]
                    values[k] = lines.op(f"select i1 {more}, {kind} {y}, {kind} {x}")
                    values[i] = lines.op(f"select i1 {more}, {kind} {x}, {kind} {y}")
            flags += one.are_usual(size)
            inverse = one.op("fdiv", one.number(1.0), r.lane(rows[k], k))
            upper = r.without_first(rows[k], k)
            for i in range(k + 1, n):
                factor = one.op("fmul", r.lane(rows[i], k), inverse)
                below = r.minus_product(r.splat(factor), upper, rows[i])
                rows[i] = r.with_lane(below, k, factor)
        for i in range(n):
            r.store(r.at("%f", i * n), rows[i])
            place = r.at("%f", n * n + i)
            number = order[i]
            if dtype.itemsize == 4:
                number = lines.op(f"trunc i64 {number} to i32")
            lines.emit(f"store {_word(dtype)} {number}, ptr {place}")
        minus, plus = one.number(-1.0), one.number(1.0)
        sign = lines.op(f"select i1 {odd}, {one.kind} {minus}, {one.kind} {plus}")
        known = _all(lines, flags)
        sign = lines.op(f"select i1 {known}, {one.kind} {sign}, {one.kind} {one.number(np.nan)}")
        one.store(one.at("%f", n * n + n), sign)
        lines.emit("ret void")

    return module.shared(f"void @{name}", "ptr %a, i64 %step, ptr %f", write)


def substitution(
    module: NativeModule, n: int, width: int, has_unit_diagonal: bool, dtype: np.dtype[Any]
) -> str:
    """The function ``(matrix, its steps, right-hand sides, their step, solutions, their step)``.

    The matrix is a lower triangle, and there are so many right-hand sides side by side. An upper
    triangle is a lower one from the last element on, with negative steps.
    """
    unit = "_unit" if has_unit_diagonal else ""
    name = f"substitute{unit}_{n}_{width}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (FloatRegisters(lines, dtype, size, module.fuses) for size in (width, 1))
        along = [one.row("%a", i, "%row") for i in range(n)]
        inverses = []
        if not has_unit_diagonal:
            for i in range(n):
                pivot = one.load_one(one.row(along[i], i, "%column"))
                inverses.append(one.op("fdiv", one.number(1.0), pivot))
        solved: list[str] = []
        total = r.zero
        for i in range(n):
            x = r.load(r.row("%b", i, "%from"))
            for j in range(i):
                factor = one.load_one(one.row(along[i], j, "%column"))
                x = r.minus_product(r.splat(factor), solved[j], x)
            if inverses:
                x = r.op("fmul", x, r.splat(inverses[i]))
            solved.append(x)
            total = r.plus_product(x, r.zero, total)
        for i in range(n):
            r.store(r.row("%x", i, "%to"), solved[i])
        lines.emit(f"ret i1 {r.are_zeros(total)}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %b, i64 %from, ptr %x, i64 %to"
    return module.shared(f"i1 @{name}", parameters, write)


def solution(
    module: NativeModule, n: int, columns: int, is_transposed: bool, dtype: np.dtype[Any]
) -> str:
    """The function ``(factors, right-hand sides, their step, solutions)``, by two substitutions.

    Solutions lie in C order. ``is_transposed`` says that the factors are those of the transpose.
    """
    name = f"solve{'_transposed' if is_transposed else ''}_{n}_{columns}{dtype.char}"

    def write(lines: FunctionText) -> None:
        one = FloatRegisters(lines, dtype, 1, module.fuses)
        room = lines.room(f"[{n * columns} x {one.element}]") if is_transposed else "%x"
        last = one.at("%f", n * n - 1)
        places = []
        for i in range(n):
            place = lines.op(f"load {_word(dtype)}, ptr {one.at('%f', n * n + i)}")
            if dtype.itemsize == 4:
                place = lines.op(f"sext i32 {place} to i64")
            places.append(place)
        flags = []
        for start, width in spans(columns, dtype):
            r = FloatRegisters(lines, dtype, width, module.fuses)
            start_of_b, start_of_x = one.at("%b", start), one.at(room, start)
            first = substitution(module, n, width, not is_transposed, dtype)
            second = substitution(module, n, width, is_transposed, dtype)
            steps = (n, 1)
            if is_transposed:
                rows, step, steps = start_of_b, "%step", (1, n)
            else:
                for i in range(n):
                    moved = r.load(r.row(start_of_b, places[i], "%step"))
                    r.store(r.at(start_of_x, i * columns), moved)
                rows, step = start_of_x, str(columns)
            flags.append(
                lines.op(
                    f"call i1 @{first}(ptr %f, i64 {steps[0]}, i64 {steps[1]}, ptr {rows},"
                    f" i64 {step}, ptr {start_of_x}, i64 {columns})"
                )
            )
            end = one.at(start_of_x, (n - 1) * columns)
            flags.append(
                lines.op(
                    f"call i1 @{second}(ptr {last}, i64 {-steps[0]}, i64 {-steps[1]}, ptr {end},"
                    f" i64 {-columns}, ptr {end}, i64 {-columns})"
                )
            )
            if is_transposed:
                for i in range(n):
                    moved = r.load(r.at(start_of_x, i * columns))
                    r.store(r.row(one.at("%x", start), places[i], columns), moved)
        lines.emit(f"ret i1 {_all(lines, flags)}")

    return module.shared(f"i1 @{name}", "ptr %f, ptr %b, i64 %step, ptr %x", write)


def spans(columns: int, dtype: np.dtype[Any]) -> list[tuple[int, int]]:
    """How columns are gone through: where vectors start, and how wide they are."""
    widest = 64 // dtype.itemsize
    starts = range(0, columns, widest)
    return [(start, min(widest, columns - start)) for start in starts]


def determinant(module: NativeModule, n: int, dtype: np.dtype[Any]) -> str:
    """The function ``(factors, three numbers)``: a determinant's sign, a factor and an exponent.

    Its size is the factor, which is near 1, times a power of 2 with the exponent.
    """
    name = f"determinant_{n}{dtype.char}"
    digits, word = np.finfo(dtype).nmant, _word(dtype)
    bias = int(np.finfo(dtype).maxexp) - 1
    size, one_bits = 8 * dtype.itemsize, bias << digits

    def write(lines: FunctionText) -> None:
        one = FloatRegisters(lines, dtype, 1, module.fuses)
        sign = _bits(one, one.load_one(one.at("%f", n * n + n)))
        exponent = str(-bias * n)

        def parts(bits: str) -> tuple[str, str]:
            """A number from 1 to 2, and the exponent with its bias."""
            shifted = lines.op(f"lshr {word} {bits}, {digits}")
            power = lines.op(f"and {word} {shifted}, {(1 << (size - 1 - digits)) - 1}")
            fraction = lines.op(f"and {word} {bits}, {(1 << digits) - 1}")
            between = lines.op(f"or {word} {fraction}, {one_bits}")
            return lines.op(f"bitcast {word} {between} to {one.kind}"), power

        product = one.number(1.0)
        for k in range(n):
            bits = _bits(one, one.load_one(one.at("%f", k * n + k)))
            sign = lines.op(f"xor {word} {sign}, {bits}") if k or n else bits
            factor, power = parts(bits)
            product = one.op("fmul", product, factor)
            exponent = lines.op(f"add {word} {exponent}, {power}")
        factor, power = parts(_bits(one, product))
        exponent = lines.op(f"add {word} {exponent}, {power}")
        more = lines.op(f"fcmp ogt {one.kind} {factor}, {one.number(2**0.5)}")
        half = one.op("fmul", factor, one.number(0.5))
        factor = lines.op(f"select i1 {more}, {one.kind} {half}, {one.kind} {factor}")
        plus = lines.op(f"zext i1 {more} to {word}")
        exponent = lines.op(f"add {word} {exponent}, {plus}")
        exponent = lines.op(f"sub {word} {exponent}, {bias}")
        top = lines.op(f"and {word} {sign}, {-(1 << (size - 1))}")
        signed = lines.op(f"or {word} {top}, {one_bits}")
        one.store("%o", lines.op(f"bitcast {word} {signed} to {one.kind}"))
        one.store(one.at("%o", 1), factor)
        one.store(one.at("%o", 2), lines.op(f"sitofp {word} {exponent} to {one.kind}"))
        lines.emit("ret void")

    return module.shared(f"void @{name}", "ptr %f, ptr %o", write)


def _bits(one: FloatRegisters, x: str) -> str:
    return one.lines.op(f"bitcast {one.kind} {x} to {_word(one.dtype)}")


def square_root(module: NativeModule, n: int, dtype: np.dtype[Any]) -> str:
    """The function ``(matrix, its steps, factor, its steps)``: L with L L^T = A.

    Only the lower triangles are read and written. For upper ones the steps change places.
    """
    name = f"square_root_{n}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (
            FloatRegisters(lines, dtype, n, module.fuses),
            FloatRegisters(lines, dtype, 1, module.fuses),
        )
        columns = []
        for k in range(n):
            start, column = one.row("%a", k, "%column"), r.zero
            for i in range(k, n):
                element = one.load_one(one.row(start, i, "%row"))
                column = r.with_lane(column, i, element)
            columns.append(column)
        flags = []
        for k in range(n):
            pivot = r.lane(columns[k], k)
            flags += [
                lines.op(f"fcmp ogt {one.kind} {pivot}, {one.zero}"),
                lines.op(f"fcmp olt {one.kind} {pivot}, {one.number(np.inf)}"),
            ]
            root = one.called("sqrt", pivot)
            inverse = one.op("fdiv", one.number(1.0), root)
            column = r.op("fmul", columns[k], r.splat(inverse))
            start = one.row("%o", k, "%to_column")
            one.store(one.row(start, k, "%to_row"), root)
            for i in range(k + 1, n):
                element = r.lane(column, i)
                one.store(one.row(start, i, "%to_row"), element)
                columns[i] = r.minus_product(r.splat(element), column, columns[i])
        lines.emit(f"ret i1 {_all(lines, flags)}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %o, i64 %to_row, i64 %to_column"
    return module.shared(f"i1 @{name}", parameters, write)


_MOST_FACTORS: Final = 64
"""The most numbers of the first matrix."""


def is_small(rows: int, length: int, columns: int, dtype: np.dtype[Any]) -> bool:
    """Whether a product is written out."""
    return rows * length <= _MOST_FACTORS and 1 < columns <= 64 // dtype.itemsize


def small_product(
    module: NativeModule,
    sizes: tuple[int, int, int],
    has_rows: bool,
    dtype: np.dtype[Any],
) -> str:
    """The function ``(matrix, its steps, matrix, its steps, result)``, which lies in C order.

    Parameters
    ----------
    module : NativeModule
    sizes : tuple of int
        Rows, length of sums, columns.
    has_rows : bool
        Whether the elements of a row of the second matrix lie side by side.
    dtype : dtype
    """
    rows, length, columns = sizes
    kind = "" if has_rows else "_turned"
    name = f"multiply{kind}_{rows}_{length}_{columns}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (FloatRegisters(lines, dtype, size, module.fuses) for size in (columns, 1))
        seconds = []
        for k in range(length):
            start = r.row("%b", k, "%row")
            if has_rows:
                seconds.append(r.load(start))
                continue
            second = r.zero
            for j in range(columns):
                second = r.with_lane(second, j, one.load_one(one.row(start, j, "%column")))
            seconds.append(second)
        for i in range(rows):
            start, total = one.row("%a", i, "%along"), r.zero
            for k in range(length):
                factor = r.splat(one.load_one(one.row(start, k, "%across")))
                total = r.plus_product(factor, seconds[k], total)
            r.store(r.at("%o", i * columns), total)
        lines.emit("ret void")

    parameters = "ptr %a, i64 %along, i64 %across, ptr %b, i64 %row, i64 %column, ptr %o"
    return module.shared(f"void @{name}", parameters, write)
