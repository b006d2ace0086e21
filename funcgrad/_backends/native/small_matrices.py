"""Small matrices in registers: elimination, substitution, square roots, products, written out.

Each function is for one number of rows, so that rows stay in registers, and is written once for all
uses in a module. Functions return whether the result is there. Where a pivot is zero, or negative,
or a result is not finite, it is not: the operation is left to NumPy.

The factors of a matrix of n rows are n * n elements, L without its diagonal and U; then the order
of the rows, as n integers of the same size; then the sign of this order, or NaN where a pivot is
zero, subnormal or not finite.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._backends.native.floats import Floats, float_vectors
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value, element_type
from funcgrad._backends.native.native_module import NativeModule

MOST_ROWS: Final = 8
"""The most rows of a matrix that is written out."""


def factors_size(n: int) -> int:
    """How many elements the factors of a matrix take."""
    return n * n + n + 1


_LONG: Final = np.dtype(np.int64)


def _integers(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The integers with as many bits as a float."""
    return np.dtype(f"i{dtype.itemsize}")


def truth(f: Floats, text: str) -> Value:
    """A truth value by its name."""
    return Value(text, np.dtype(np.bool_), f.lanes.single)


def elimination(module: NativeModule, n: int, dtype: np.dtype[Any]) -> str:
    """The function ``(matrix, step from row to row, factors)``: exchange rows, and eliminate."""
    name = f"eliminate_{n}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r = float_vectors(lines, dtype, n)
        one, m = r.single, r.lanes
        rows = [r.load(r.row("%a", i, "%step")) for i in range(n)]
        order = [one.lanes.constant(i, _LONG) for i in range(n)]
        odd, is_usual = truth(r, "false"), truth(r, "true")
        for k in range(n):
            size = abs(m.lane(rows[k], k))
            for i in range(k + 1, n):  # the greatest comes up, by exchanges
                other = abs(m.lane(rows[i], k))
                more = other > size
                size, odd = one.lanes.select(more, other, size), odd ^ more
                for algebra, values in ((m, rows), (one.lanes, order)):
                    x, y = values[k], values[i]
                    values[k], values[i] = [algebra.select(more, *p) for p in ((y, x), (x, y))]
            is_usual = is_usual & one.are_usual(size)
            inverse = 1.0 / m.lane(rows[k], k)
            upper = _without_first(r, rows[k], k)
            for i in range(k + 1, n):
                factor = m.lane(rows[i], k) * inverse
                below = r.fma(-m.splat(factor), upper, rows[i])
                rows[i] = m.with_lane(below, k, factor)
        for i in range(n):
            r.store(r.at("%f", i * n), rows[i])
            one.lanes.store(r.at("%f", n * n + i), one.lanes.astype(order[i], _integers(dtype)))
        sign = one.lanes.where(odd, one.number(-1.0), one.number(1.0))
        one.store(one.at("%f", n * n + n), one.lanes.where(is_usual, sign, one.number(np.nan)))
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
        r = float_vectors(lines, dtype, width)
        one, zero = r.single, r.number(0.0)
        along = [one.row("%a", i, "%row") for i in range(n)]
        inverses = []
        if not has_unit_diagonal:
            inverses = [1.0 / one.load(one.row(along[i], i, "%column")) for i in range(n)]
        solved: list[Value] = []
        total = zero
        for i in range(n):
            x = r.load(r.row("%b", i, "%from"))
            for j in range(i):
                factor = r.lanes.splat(one.load(one.row(along[i], j, "%column")))
                x = r.fma(-factor, solved[j], x)
            if inverses:
                x = x * r.lanes.splat(inverses[i])
            solved.append(x)
            total = r.fma(x, zero, total)
        for i in range(n):
            r.store(r.row("%x", i, "%to"), solved[i])
        lines.emit(f"ret i1 {r.are_zeros(total).text}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %b, i64 %from, ptr %x, i64 %to"
    return module.shared(f"i1 @{name}", parameters, write)


def solution(
    module: NativeModule, n: int, columns: int, is_transposed: bool, dtype: np.dtype[Any]
) -> str:
    """The function ``(factors, right-hand sides, their step, solutions)``, by two substitutions.

    Solutions lie in C order. ``is_transposed`` says that the transpose was factored.
    """
    name = f"solve{'_transposed' if is_transposed else ''}_{n}_{columns}{dtype.char}"

    def write(lines: FunctionText) -> None:
        one = float_vectors(lines, dtype, 1)
        m = one.lanes
        room = lines.room(f"[{n * columns} x {element_type(dtype)}]") if is_transposed else "%x"
        last = one.at("%f", n * n - 1)
        order = [m.load("%f", _integers(dtype), n * n + i) for i in range(n)]
        places = [m.astype(place, _LONG).text for place in order]
        is_finite = truth(one, "true")
        for start, width in spans(columns, dtype):
            r = float_vectors(lines, dtype, width)
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
            below = lines.op(
                f"call i1 @{first}(ptr %f, i64 {steps[0]}, i64 {steps[1]}, ptr {rows},"
                f" i64 {step}, ptr {start_of_x}, i64 {columns})"
            )
            end = one.at(start_of_x, (n - 1) * columns)
            above = lines.op(
                f"call i1 @{second}(ptr {last}, i64 {-steps[0]}, i64 {-steps[1]}, ptr {end},"
                f" i64 {-columns}, ptr {end}, i64 {-columns})"
            )
            is_finite = is_finite & truth(one, below) & truth(one, above)
            if is_transposed:
                for i in range(n):
                    moved = r.load(r.at(start_of_x, i * columns))
                    r.store(r.row(one.at("%x", start), places[i], columns), moved)
        lines.emit(f"ret i1 {is_finite.text}")

    return module.shared(f"i1 @{name}", "ptr %f, ptr %b, i64 %step, ptr %x", write)


def _without_first(r: Floats, x: Value, count: int) -> Value:
    """A vector with zeros in its first lanes."""
    width = r.lanes.width
    places = [k if k < count else width + k for k in range(width)]
    return r.lanes.shuffled(r.number(0.0), places, x) if count else x


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
    digits, bias = np.finfo(dtype).nmant, int(np.finfo(dtype).maxexp) - 1

    def write(lines: FunctionText) -> None:
        f = float_vectors(lines, dtype, 1)
        m, unit, sign_bit = f.lanes, f.bits_of(1.0), f.bits_of(-0.0)
        signs = f.bits(f.load(f.at("%f", n * n + n)))
        exponent = m.constant(-bias * (n + 1), _integers(dtype))
        product = f.number(1.0)

        def parts(x: Value) -> tuple[Value, Value]:
            """A number from 1 to 2, and the exponent with its bias."""
            bits = f.bits(x)
            power = f.shifted("lshr", bits & (sign_bit - 1), digits)
            factor = f.of_bits((bits & ((1 << digits) - 1)) | unit)
            return factor, m.astype(power, exponent.dtype)

        for k in range(n):
            pivot = f.load(f.at("%f", k * n + k))
            signs = signs ^ f.bits(pivot)
            factor, power = parts(pivot)
            product, exponent = product * factor, exponent + power
        factor, power = parts(product)
        more = factor > 2**0.5
        exponent = exponent + power + m.astype(more, exponent.dtype)
        f.store("%o", f.of_bits((signs & sign_bit) | unit))
        f.store(f.at("%o", 1), m.where(more, factor * 0.5, factor))
        f.store(f.at("%o", 2), m.astype(exponent, dtype))
        lines.emit("ret void")

    return module.shared(f"void @{name}", "ptr %f, ptr %o", write)


def square_root(module: NativeModule, n: int, dtype: np.dtype[Any]) -> str:
    """The function ``(matrix, its steps, factor, its steps)``: L with L L^T = A.

    Only the lower triangles are read and written. For upper ones the steps change places.
    """
    name = f"square_root_{n}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r = float_vectors(lines, dtype, n)
        one, m = r.single, r.lanes
        columns = []
        for k in range(n):
            start, column = one.row("%a", k, "%column"), r.number(0.0)
            for i in range(k, n):
                column = m.with_lane(column, i, one.load(one.row(start, i, "%row")))
            columns.append(column)
        is_positive = truth(one, "true")
        for k in range(n):
            pivot = m.lane(columns[k], k)
            is_positive = is_positive & (pivot > 0.0) & (pivot < np.inf)
            root = one.lanes.sqrt(pivot)
            column = columns[k] * m.splat(1.0 / root)
            start = one.row("%o", k, "%to_column")
            one.store(one.row(start, k, "%to_row"), root)
            for i in range(k + 1, n):
                element = m.lane(column, i)
                one.store(one.row(start, i, "%to_row"), element)
                columns[i] = r.fma(-m.splat(element), column, columns[i])
        lines.emit(f"ret i1 {is_positive.text}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %o, i64 %to_row, i64 %to_column"
    return module.shared(f"i1 @{name}", parameters, write)


_MOST_FACTORS: Final = 64
"""The most elements of the first matrix."""


def is_small(rows: int, length: int, columns: int, dtype: np.dtype[Any]) -> bool:
    """Whether a product is written out."""
    return rows * length <= _MOST_FACTORS and 1 < columns <= 64 // dtype.itemsize


def small_product(
    module: NativeModule, sizes: tuple[int, int, int], has_rows: bool, dtype: np.dtype[Any]
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
        r = float_vectors(lines, dtype, columns)
        one, m = r.single, r.lanes
        seconds = []
        for k in range(length):
            start = r.row("%b", k, "%row")
            if has_rows:
                seconds.append(r.load(start))
                continue
            second = r.number(0.0)
            for j in range(columns):
                second = m.with_lane(second, j, one.load(one.row(start, j, "%column")))
            seconds.append(second)
        for i in range(rows):
            start, total = one.row("%a", i, "%along"), r.number(0.0)
            for k in range(length):
                factor = m.splat(one.load(one.row(start, k, "%across")))
                total = r.fma(factor, seconds[k], total)
            r.store(r.at("%o", i * columns), total)
        lines.emit("ret void")

    parameters = "ptr %a, i64 %along, i64 %across, ptr %b, i64 %row, i64 %column, ptr %o"
    return module.shared(f"void @{name}", parameters, write)
