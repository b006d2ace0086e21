"""What the rules of ``simplify.py``, ``fold.py``, ``negation.py`` and ``scale.py`` apply to.

Each form is written next to what the rule asks for, in the variants that the rule tells apart; see
``parts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives import logic
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.complexes import conj
from funcgrad.primitives.structural import cast_discrete, cast_inexact, flip, roll, view
from tests.passes.parts import Form, Pick, as_matrix, full, one_of, spread, truth

# ------------------------------------------------------------------------------------- simplify


def _neutral_factor(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    one = pick(1.0, 1, np.ones(3), full(1, x), full(1.0, y), -1.0, 1.5)
    return pick(lambda: x * one, lambda: one * x)


def _neutral_divisor(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return x / pick(1.0, 1, full(1, x), -1.0)


def _neutral_subtrahend(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return x - pick(0.0, 0, -0.0, full(0, x), full(-0.0, x) if x.dtype.kind == "f" else 0.0)


def _unsigned(x: Any, y: Any, pick: Pick) -> Any:
    """What never is -0.0, and what looks like it."""
    return pick(
        lambda: x * x,
        lambda: ew.square(x),
        lambda: fnp.exp(y),
        lambda: fnp.abs(x),
        lambda: fnp.sqrt(fnp.abs(y)),
        lambda: x * y,
        lambda: fnp.abs(x) - fnp.abs(y),
        lambda: 1.0 - fnp.abs(x),
        lambda: fnp.abs(x) + y,
        lambda: (x * x).T,
        lambda: fnp.abs(x) / fnp.exp(y),
        lambda: spread(fnp.sum(fnp.abs(x), axis=0), x) + 0.0,
        lambda: spread(fnp.max(x * x, axis=0), x),
        lambda: fnp.sum(x * x, axis=0, keepdims=True) * full(2, x),
    )


def _neutral_summand(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    zero = pick(-0.0, 0.0, 0, full(-0.0, x) if x.dtype.kind == "f" else 0, full(0, x), False)
    other = pick(lambda: x, lambda: _unsigned(x, y, pick))
    return pick(lambda: other + zero, lambda: zero + other)


def _power(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return x ** pick(1, 1.0, 2, 2.0, 3, True)


def _undone(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    if operation is flip:
        first = pick((0,), (1,), (0, 1), ())
        second = pick(first, first, (1,))
        return flip(flip(x, axis=first), axis=second)
    if operation is ew.negative:
        return fnp.negative(-x)
    if operation is logic.logical_not:
        value = pick(lambda: x, lambda: x > y)
        return as_matrix(fnp.logical_not(fnp.logical_not(value)), x, y)
    value = pick(lambda: x > y, lambda: (x > y).astype(np.int8))
    return operation(operation(value)) * x


def _positive(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return ew.positive(x)


def _conjugate(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return pick(lambda: conj(x), lambda: fnp.real(conj(conj(x + 1j * y))))


def _square_and_product(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    square = pick(lambda: ew.square(x), lambda: x**2)
    product = pick(lambda: x * x, lambda: x * x, lambda: x * y)
    return fnp.maximum(square, product) if x.dtype.kind != "c" else square - product


def _product_and_square(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    product = pick(lambda: x * x, lambda: x * x, lambda: x * y)
    return product - ew.square(x)


def _chosen(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    condition = pick(
        lambda: np.array(True),
        lambda: False,
        lambda: full(1, x).astype(bool),
        lambda: np.arange(x.size).reshape(x.shape) > 0,
        lambda: fnp.logical_not(truth(x, y, pick)),
        lambda: truth(x, y, pick),
        lambda: fnp.logical_not(x),
    )
    first, second = pick((x, y), (x, x), (y, x), (x, 1.0), (0, x))
    return as_matrix(fnp.where(condition, first, second), x, y)


def _chosen_twice(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    condition = truth(x, y, pick)
    inner = pick(condition, condition, condition, fnp.logical_not(condition))
    value = fnp.where(inner, *pick((x, 1.0), (y, x), (2.0, y), (x * y, y), (1, 2)))
    other = pick(x, y, x + y)
    return pick(
        lambda: fnp.where(condition, value, other), lambda: fnp.where(condition, other, value)
    )


def _compared(x: Any, y: Any, pick: Pick) -> Any:
    operations = (logic.less, logic.less_equal, logic.greater, logic.greater_equal)
    return pick(logic.equal, logic.not_equal, *operations)(x, y)


def _unequal(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    if x.dtype.kind == "c":
        return as_matrix(fnp.logical_not(pick(logic.equal, logic.not_equal)(x, y)), x, y)
    counted = (x > y).astype(np.int16)
    pair = pick((x, y), (counted, (y > 0).astype(np.int16)), (counted, x > 1))
    first, second = pair
    return as_matrix(fnp.logical_not(_compared(first, second, pick)), x, y)


def _cast_back(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    if operation is cast_inexact:
        between = pick(np.float64, np.float32, np.float16, np.complex128)
        last = pick(x.dtype, np.float32, np.float64, np.complex64)
        return x.astype(between).astype(last)
    whole = pick(np.bool_, np.int8, np.uint8, np.int32, np.int64)
    held = pick(lambda: (x > y).astype(whole), lambda: 100 * (x > y).astype(np.int8))
    back = held.astype(pick(np.float16, np.float64, np.float32)).astype(pick(held.dtype, whole))
    return as_matrix(back, x, y)


def _same_twice(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    values = pick((x, x), (x, x), (x, y))
    if operation in (logic.bitwise_and, logic.bitwise_or):
        first, second = [value > 1 for value in values]
        return as_matrix(operation(first, second), x, y)
    if operation in (logic.logical_and, logic.logical_or):
        values = pick(values, [value > 1 for value in values])
    return as_matrix(operation(*values), x, y)


# ----------------------------------------------------------------------------------------- fold


def _known(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    table = pick(full(2, x), np.arange(3.0), np.array([1.0, 0.0, -2.0]), 3.0)
    made = pick(fnp.sin, fnp.exp, fnp.reciprocal, fnp.negative, fnp.sum)(fnp.asarray(table))
    return pick(lambda: x * made, lambda: made - x, lambda: x + made * made)


def _unchanged(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    if operation is view:
        keys = ((slice(None),), (...,), (slice(None), ...), (slice(0, 3), slice(None, 9)))
        return x[pick(*keys, (slice(None, None, -1),), (..., slice(0, 3)))]
    if operation is flip:
        return flip(x, axis=pick((), (), (0,)))
    if operation is roll:
        return roll(x, shift=pick((0,), (0,), (1,), (3,)), axis=(0,))
    if operation is broadcast_to:
        return pick(lambda: operation(x, shape=x.shape), lambda: spread(x[0], x))
    if operation in (cast_inexact, cast_discrete):
        own = x if operation is cast_inexact else x > y
        dtype = pick(own.dtype, own.dtype, np.float32)
        return as_matrix(operation(own, dtype=np.dtype(dtype)), x, y)
    if operation.name == "reshape":
        return pick(lambda: operation(x, shape=x.shape), lambda: operation(x, shape=x.T.shape))
    return operation(x, axes=pick((0, 1), (0, 1), (1, 0)))


# ------------------------------------------------------------------------------------- negation


def _negated_summand(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    minus = -y
    return pick(
        lambda: x + minus,
        lambda: minus + x,
        lambda: minus + minus,
        lambda: -x + -y,
        lambda: (x + minus) * minus,
    )


def _negated_subtrahend(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return pick(lambda: x - (-y), lambda: (-x) - (-x), lambda: -x - y)


def _negated_factor(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    minus, number = -x, one_of(pick)
    product = pick(
        lambda: operation(minus, y),
        lambda: operation(y, minus),
        lambda: operation(minus, -y),
        lambda: operation(minus, minus),
        lambda: operation(minus, number),
        lambda: operation(number, minus),
    )
    return pick(lambda: product, lambda: y - product, lambda: product * product)


def _times_minus_one(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    product = pick(lambda: x * -1.0, lambda: -1 * x, lambda: x * full(-1, x))
    return pick(lambda: product, lambda: y + product)


def _negated_product(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    number = one_of(pick)
    product = pick(lambda: x * number, lambda: number * x, lambda: x / number, lambda: number / x)
    return pick(
        lambda: -product, lambda: fnp.negative(-product), lambda: y + -product, lambda: -product * y
    )


def _negated_choice(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    condition = truth(x, y, pick)
    value = pick(
        lambda: fnp.where(condition, -x, 0.0),
        lambda: fnp.where(condition, 2.0, -x),
        lambda: fnp.where(condition, -x, -y),
        lambda: fnp.where(condition, -x, y),
    )
    return pick(lambda: y - value, lambda: fnp.abs(value), lambda: value)


def _negated_even(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    return pick(lambda: operation(-x), lambda: operation(-x) + -y)


def _negated_move(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    minus = -x
    moves: dict[Any, Callable[[], Any]] = {
        ew.reciprocal: lambda: ew.reciprocal(minus),
        broadcast_to: lambda: spread(-x[0], x),
        view: lambda: minus[::-1],
        flip: lambda: flip(minus, axis=(1,)),
        roll: lambda: roll(minus, shift=(1,), axis=(0,)),
        cast_inexact: lambda: minus.astype(pick(np.float32, np.float64, np.complex128)),
    }
    if operation in moves:
        moved = moves[operation]()
    elif operation.name == "transpose":
        moved = minus.T
    else:
        moved = fnp.reshape(fnp.reshape(minus, (-1,)), x.shape)
    return pick(
        lambda: y + moved,
        lambda: y - moved,
        lambda: moved * (-moved),
        lambda: fnp.abs(moved),
        lambda: moved,
    )


# ---------------------------------------------------------------------------------------- scale


def _scaled(x: Any, y: Any, pick: Pick) -> Any:
    number = one_of(pick)
    return pick(
        lambda: number * x, lambda: x * number, lambda: x + x, lambda: x + y, lambda: x / number
    )


def _scaled_twice(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    inner = _scaled(x, y, pick)
    number = one_of(pick)
    return pick(lambda: number * inner, lambda: inner * number, lambda: (number * inner) * inner)


def _scaled_doubled(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    inner = _scaled(x, y, pick)
    return inner + inner


def _scaled_quotient(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return _scaled(x, y, pick) / pick(2, -4.0, 0.125, 2.0**100, 3.0, 0.0, 2.0**-1074, np.inf, 2**15)


ALGEBRAIC: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "simplify._product": _neutral_factor,
        "simplify._quotient": _neutral_divisor,
        "simplify._difference": _neutral_subtrahend,
        "simplify._sum": _neutral_summand,
        "simplify._power": _power,
        "simplify._twice": _undone,
        "simplify._operand": _positive,
        "simplify._conjugate": _conjugate,
        "simplify._product_as_square": _square_and_product,
        "simplify._square_as_product": _product_and_square,
        "simplify._selection": _chosen,
        "simplify._nested_selection": _chosen_twice,
        "simplify._not": _unequal,
        "simplify._cast": _cast_back,
        "simplify._either": _same_twice,
        "fold._folded": _known,
        "fold._same.rule": _unchanged,
        "negation._sum": _negated_summand,
        "negation._difference": _negated_subtrahend,
        "negation._product": _negated_factor,
        "negation._product_with_minus_one": _times_minus_one,
        "negation._negation": _negated_product,
        "negation._selection": _negated_choice,
        "negation._even": _negated_even,
        "negation._moved": _negated_move,
        "scale._product": _scaled_twice,
        "scale._sum": _scaled_doubled,
        "scale._quotient": _scaled_quotient,
    }
)
"""By the name of a rule, what it is made for."""
