"""Forms that the rules of ``simplify.py`` and ``fold.py`` apply to; see ``parts.py``.

Each form has the variants that its rule distinguishes, and cases that just miss its conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import cast_inexact, flip, reshape, roll, transpose
from tests.passes.parts import Form, Pick, as_matrix, full, one_of, spread

# ------------------------------------------------------------------------------------- simplify


def _neutral_factor(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    one = pick(1.0, 1, np.ones(3), full(1, x), full(1.0, y), -1.0, 1.5)
    return pick(lambda: x * one, lambda: one * x)


# ----------------------------------------------------------------------------------------- fold


def _known(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    table = pick(full(2, x), np.arange(3.0), np.array([1.0, 0.0, -2.0]), 3.0)
    made = pick(fnp.sin, fnp.exp, fnp.reciprocal, fnp.negative, fnp.sum)(fnp.asarray(table))
    return pick(lambda: x * made, lambda: made - x, lambda: x + made * made)


def _unchanged(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    own = x if operation is cast_inexact else x > y
    dtype = pick(own.dtype, own.dtype, np.float32)
    return as_matrix(operation(own, dtype=np.dtype(dtype)), x, y)


def _unmoved(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    keys = ((slice(None),), (...,), (slice(None), ...), (slice(0, 3), slice(None, 9)))
    return pick(
        lambda: x[pick(*keys, (slice(None, None, -1),), (..., slice(0, 3)))],
        lambda: broadcast_to(x, shape=x.shape),
        lambda: reshape(x, shape=x.shape),
        lambda: transpose(x, axes=pick((0, 1), (1, 0))),
        lambda: flip(x, axis=pick((), (0,))),
        lambda: roll(x, shift=(pick(0, 3, 1),), axis=(1,)),
        lambda: concatenate(x, axis=0),
        lambda: spread(x[0], x),
    )


def _two_reshapes(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    shape = pick((x.size,), (1, *x.shape), x.shape)
    return fnp.reshape(fnp.reshape(x, (x.size, 1)), shape).reshape(x.shape) + fnp.reshape(
        y, x.shape
    )


def _single_elements(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    reduce = pick(fnp.sum, fnp.sum, fnp.prod, fnp.max, fnp.min)
    return pick(
        lambda: reduce(x, axis=()),
        lambda: reduce(x * y, axis=(), keepdims=True),
        lambda: reduce(x[:, None], axis=1),
        lambda: reduce(x[:1], axis=0, keepdims=True) * y,
        lambda: reduce(x[:, :1], axis=pick(1, (0, 1), 0), keepdims=True) + y,
        lambda: as_matrix(fnp.any(x > y, axis=()), x, y),
        lambda: as_matrix(reduce(fnp.asarray(x > y)[..., None], axis=-1), x, y),
    )


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


def _negated_product(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    number = one_of(pick)
    product = pick(lambda: x * number, lambda: number * x, lambda: x / number, lambda: number / x)
    return pick(
        lambda: -product, lambda: fnp.negative(-product), lambda: y + -product, lambda: -product * y
    )


ALGEBRAIC: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "simplify._product": _neutral_factor,
        "simplify._sum_with_opposite": _negated_summand,
        "simplify._opposite_of_product": _negated_product,
        "fold._unmoved": _unmoved,
        "simplify._reshaped": _two_reshapes,
        "simplify._of_single_elements": _single_elements,
        "fold._folded": _known,
        "fold._same": _unchanged,
    }
)
"""By the name of a rule, what it is made for."""
