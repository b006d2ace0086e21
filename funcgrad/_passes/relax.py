"""Algebra that holds for real numbers and up to rounding for floats: only with ``relaxed=True``.

Each pass changes how results are rounded, so they differ in their last digits. The bounds below
hold if no intermediate result overflows or is subnormal; ``ulp`` is the distance between
neighbouring floats at the exact result.

======================== ====================================== ==================================
pass                     rewrite                                differs by at most
======================== ====================================== ==================================
group_small_factors      ``(f * a) * b`` is ``f * (a * b)``     3 ulp
share_factors            ``f * a + f * b`` is ``f * (a + b)``   3 ulp of ``|f a| + |f b|``
sum_before_scaling       ``sum(f * a)`` is ``sum(f) * a``       n + 1 ulp of the sum of ``|f a|``
sum_before_multiplying   ``sum(f @ a)`` is ``sum(f) @ a``       n ulp of the sum of all ``|f a|``
======================== ====================================== ==================================

No pass uses ``x * 0 = 0``, ``x - x = 0``, ``x / x = 1`` or ``x + 0.0 = x``. NaN and infinities stay
in their places, except where intermediate results decide: these may begin or cease to overflow, and
while ``inf * 2 - inf * 1`` is NaN, ``inf * (2 - 1)`` is infinite. If summands cancel, the sign of
zero may change: ``f * 1 - f * 1`` is 0.0, and ``f * (1 - 1)`` is -0.0 for a negative f. So a guard
on a value may fail for the very arguments with which the program was staged; ``jit`` then stages
the function again.

>>> import funcgrad as fg
>>> x = fg.tensor([1.0, 2.0])
>>> staged = fg.program(lambda x, y: x * y + x * 3.0 * y)(x, x)
>>> [equation.operation.name for equation in relax(staged).equations]
['multiply', 'add', 'multiply']
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec
from funcgrad._passes.fold import FOLDING
from funcgrad._passes.workbench import Rules, Workbench, improve, joined
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.elementwise import add, divide, multiply, subtract
from funcgrad._primitives.reduction import reduce_mean, reduce_sum
from funcgrad._primitives.structural import reshape
from funcgrad._programs.equation import Equation, Params
from funcgrad._programs.moved_elements import letters_of
from funcgrad._programs.program import Program

_SAVING: Final = 4
"""The number of multiplications that each element summed beforehand has to save."""


def relax(program: Program) -> Program:
    """Apply all passes of this module until nothing changes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x = fg.tensor([2.0, 3.0])
    >>> staged = fg.program(lambda x, y: x * y + x * 0.3 * 0.5 * y[0])(x, x)
    >>> [equation.operation.name for equation in relax(staged).equations]
    ['view', 'multiply', 'multiply', 'add', 'multiply']
    """
    return improve(program, RELAXED)


# ------------------------------------------------------------------------------------ small factors


def group_small_factors(program: Program) -> Program:
    """Rewrite ``(f * a) * b`` as ``f * (a * b)`` if ``a * b`` is smaller; quotients likewise.

    The number of roundings is the same, in another order: results differ by at most 3 ulp.
    """
    return improve(program, _GROUPS)


def _size(bench: Workbench, variable: int) -> int:
    return prod(bench.specs[variable].shape)


def _grouped(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    dtype = equation.results[0].dtype
    if dtype.kind != "f":
        return None
    pairs = ((x, y), (y, x)) if equation.operation is multiply else ((x, y),)
    for product, small in pairs:
        maker = bench.makers[product]
        if maker is None or maker.operation not in (multiply, divide):
            continue
        if _size(bench, small) >= _size(bench, product) or not bench.is_read_once(product):
            continue
        inner = _pairs_of(maker)
        for large, other in inner:
            regrouped = _regrouped(bench, equation, maker.operation, large, other, small)
            if regrouped is not None:
                return regrouped
    return None


def _pairs_of(product: Equation) -> tuple[tuple[int, int], ...]:
    """The pairs (factor to keep, factor to move) of a product; only ``(x, y)`` of ``x / y``."""
    x, y = product.operands
    return ((x, y), (y, x)) if product.operation is multiply else ((x, y),)


def _regrouped(
    bench: Workbench, equation: Equation, inner: Primitive, large: int, other: int, small: int
) -> int | None:
    """Rewrite ``(large * other) / small`` and the like as ``large * (other / small)``."""
    result = equation.results[0]
    specs = [bench.specs[variable] for variable in (large, other, small)]
    if any(spec.dtype != result.dtype and not spec.weak for spec in specs):
        return None
    if specs[0].weak or specs[0].shape != result.shape or (specs[1].weak and specs[2].weak):
        return None
    shape = np.broadcast_shapes(specs[1].shape, specs[2].shape)
    if prod(shape) >= prod(result.shape):
        return None
    spec = Spec(shape, result.dtype)
    if equation.operation is inner:  # f * a * b is f * (a * b), and f / a / b is f / (a * b)
        factor = bench.put(equation, multiply, (other, small), (), spec)
        return bench.put(equation, inner, (large, factor))
    numerator, denominator = (other, small) if inner is multiply else (small, other)
    factor = bench.put(equation, divide, (numerator, denominator), (), spec)
    return bench.put(equation, multiply, (large, factor))


# ----------------------------------------------------------------------------------- common factors


def share_factors(program: Program) -> Program:
    """Rewrite ``f * a + f * b`` as ``f * (a + b)`` if the products have no other readers.

    The same holds for differences. Results differ by at most 3 ulp of ``|f a| + |f b|``. If the
    terms nearly cancel, that may be many ulp of the result, but then its last digits were wrong
    before, too.
    """
    return improve(program, _FACTORS)


def _shared(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    first, second = bench.is_made_by(x, multiply), bench.is_made_by(y, multiply)
    result = equation.results[0]
    if first is None or second is None or x == y or result.dtype.kind != "f":
        return None
    common = [variable for variable in first.operands if variable in second.operands]
    if not common or first.results != second.results or first.results[0] != result:
        return None
    if not (bench.is_read_once(x) and bench.is_read_once(y)):
        return None
    factor = max(common, key=lambda variable: _size(bench, variable))
    others = _other(first, factor), _other(second, factor)
    specs = [bench.specs[variable] for variable in (factor, *others)]
    if any(spec.dtype != result.dtype or spec.weak for spec in specs):
        return None
    spec = Spec(np.broadcast_shapes(specs[1].shape, specs[2].shape), result.dtype)
    inner = bench.put(equation, equation.operation, others, (), spec)
    return bench.put(equation, multiply, (factor, inner))


def _other(product: Equation, factor: int) -> int:
    x, y = product.operands
    return y if x == factor else x


# --------------------------------------------------------------------------------------------- sums


def sum_before_scaling(program: Program) -> Program:
    """Rewrite ``sum(f * a)`` as ``sum(f) * a`` if all summands share one ``a``; means likewise.

    The results of sums of n terms differ by at most n + 1 ulp of ``sum(|f a|)``.
    """
    return improve(program, _SUMS)


def _scaled_sum(bench: Workbench, equation: Equation) -> int | None:
    product = bench.is_made_by(equation.operands[0], multiply)
    result = equation.results[0]
    if product is None or result.dtype.kind != "f" or product.results[0].dtype != result.dtype:
        return None
    params = dict(equation.params)
    for large, small in _pairs_of(product):
        specs = bench.specs[large], bench.specs[small]
        if specs[0] != product.results[0] or (specs[1].dtype != result.dtype and not specs[1].weak):
            continue
        factor = _factor_of_sum(bench, small, len(specs[0].shape), params)
        if factor is None or not prod(specs[0].shape):
            continue
        known = bench.known(equation, equation.operation, (large,), equation.params)
        if known is None and not bench.is_read_once(equation.operands[0]):
            continue
        total = bench.put(equation, equation.operation, (large,), equation.params)
        return bench.put(equation, multiply, (total, factor))
    return None


def _factor_of_sum(bench: Workbench, small: int, rank: int, params: dict[str, Any]) -> int | None:
    """The factor of the sum that replaces the summands' factor ``small``; None if they differ."""
    shape = bench.specs[small].shape
    aligned = (1,) * (rank - len(shape)) + shape
    axes = params["axis"]
    if any(aligned[axis] != 1 for axis in axes):
        return None
    if params["keepdims"] or not shape or all(axis < rank - len(shape) for axis in axes):
        return small
    maker = bench.is_made_by(small, reshape)
    shape_left: Shape = tuple([n for axis, n in enumerate(aligned) if axis not in axes])
    if maker is not None and bench.specs[maker.operands[0]].shape == shape_left:
        return maker.operands[0]
    return None


def sum_before_multiplying(program: Program) -> Program:
    """Sum over an index that only one factor of a product has before multiplying.

    The sum of the rows of ``f @ a`` is the sum of the rows of ``f``, times ``a``. If n products are
    added up in all, results differ by at most n ulp of the sum of their magnitudes.
    """
    return improve(program, _PRODUCTS)


def _summed_product(bench: Workbench, equation: Equation) -> int | None:
    variable, params = equation.operands[0], dict(equation.params)
    maker, result = bench.makers[variable], equation.results[0]
    letters = None if maker is None else letters_of(maker, bench.specs)
    if maker is None or letters is None or result.dtype.kind != "f":
        return None
    specs = [bench.specs[operand] for operand in maker.operands]
    shapes = [spec.shape for spec in specs]
    if any(spec.dtype != result.dtype for spec in specs) or not prod(bench.specs[variable].shape):
        return None
    if not bench.is_read_once(variable):
        return None
    first, second, out = letters
    sum_letters = "".join([letter for k, letter in enumerate(out) if k not in params["axis"]])
    alone = [{*first} - {*second, *sum_letters}, {*second} - {*first, *sum_letters}]
    sizes = dict(zip(first + second, shapes[0] + shapes[1], strict=True))
    read = [prod(shape) for shape, letters in zip(shapes, alone, strict=True) if letters]
    if not (first and second) or not read or prod(sizes.values()) < _SAVING * sum(read):
        return None
    factors, letters = zip(
        *[
            _summed_factor(bench, equation, *factor)
            for factor in zip(maker.operands, (first, second), alone, strict=True)
        ],
        strict=True,
    )
    text = (("subscripts", f"{','.join(letters)}->{sum_letters}"),)
    shape = tuple([sizes[letter] for letter in sum_letters])
    product = bench.put(equation, contract, factors, text, Spec(shape, result.dtype))
    if shape == result.shape:
        return product
    return bench.put(equation, reshape, (product,), (("shape", result.shape),))


def _summed_factor(
    bench: Workbench, equation: Equation, variable: int, letters: str, alone: set[str]
) -> tuple[int, str]:
    """Sum a factor over the indices that only it has; return the result and its other indices."""
    if not alone:
        return variable, letters
    axis = tuple([k for k, letter in enumerate(letters) if letter in alone])
    spec = bench.specs[variable]
    shape = tuple([n for k, n in enumerate(spec.shape) if k not in axis])
    params: Params = (("axis", axis), ("keepdims", False))
    total = bench.put(equation, reduce_sum, (variable,), params, Spec(shape, spec.dtype))
    return total, "".join([letter for letter in letters if letter not in alone])


def _table(*rules: tuple[Primitive, Callable[[Workbench, Equation], int | None]]) -> Rules:
    table: dict[Any, Any] = {}
    for operation, rule in rules:
        table[operation] = (*table.get(operation, ()), rule)
    return joined(FOLDING, table)  # to fold products of constants and reshapes to the same shape


_GROUPS: Final = _table((multiply, _grouped), (divide, _grouped))
_FACTORS: Final = _table((add, _shared), (subtract, _shared))
_SUMS: Final = _table((reduce_sum, _scaled_sum), (reduce_mean, _scaled_sum))
_PRODUCTS: Final = _table((reduce_sum, _summed_product))

RELAXED: Final[Rules] = joined(_SUMS, _PRODUCTS, _GROUPS, _FACTORS)
