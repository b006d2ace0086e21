"""Random expressions of few variables, full of patterns that the algebraic passes look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.subjects import SPECIAL

CONSTANTS = (-1.0, 2.0, -2, 0.5, -4.0, 3.0, 0.1, -0.7, 0.0, 1e300)
"""Factors and divisors; some are out of the range of float32."""


def _axis(reduce: Any, x: Any, keepdims: bool) -> Any:
    x = x if x.ndim else x[None]
    return reduce(x, axis=-1, keepdims=keepdims)


MOVES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "minus": fnp.negative,
        "doubled": lambda x: x + x,
        "squared": lambda x: x * x,
        "square": fnp.square,
        "cube": lambda x: x * x * x,
        "power": lambda x: x**2,
        "magnitude": fnp.absolute,
        "one_over": fnp.reciprocal,
        "zero_plus": lambda x: 0.0 + x,
        "exp": fnp.exp,
        "sqrt": fnp.sqrt,
        "itself": lambda x: fnp.maximum(x, x),
        "wide": lambda x: x.astype(np.float64),
        "single": lambda x: x.astype(np.float32),
        "half": lambda x: x.astype(np.float16),
        "positive_part": lambda x: fnp.where(x > 0, x, 0.0),
        "not_positive": lambda x: fnp.where(fnp.logical_not(x > 0), x, fnp.negative(x)),
        "chosen_twice": lambda x: fnp.where(x > 0, fnp.where(x > 0, x, 1.0), 2.0 * x),
        "unequal": lambda x: fnp.where(fnp.logical_not(x == 1), x, 2.0),
        "sum": lambda x: _axis(fnp.sum, x, False),
        "sum_kept": lambda x: _axis(fnp.sum, x, True),
        "mean_kept": lambda x: _axis(fnp.mean, x, True),
        "max": lambda x: _axis(fnp.max, x, False) if x.size else x,
        "max_kept": lambda x: _axis(fnp.max, x, True) if x.size else x,
        "ravel": lambda x: fnp.reshape(x, (-1,)),
        "column": lambda x: x[..., None],
        "row": lambda x: fnp.reshape(x, (1, *x.shape)),
        "first": lambda x: x[0] if x.ndim and x.size else x,
        "tail": lambda x: x[1:] if x.ndim and len(x) else x,
        "backwards": lambda x: x[::-1] if x.ndim else x,
        "last": lambda x: x[..., -1] if x.ndim and x.shape[-1] else x,
        "turned": lambda x: x.T,
        "repeated": lambda x: fnp.broadcast_to(x, (2, *x.shape)),
        "filled": lambda x: x + fnp.full(x.shape, 2.0, x.dtype),
        "placed": lambda x: fg.grad(lambda y: fnp.sum(y[..., None] * 3.0))(x) * x,
        "tail_slope": lambda x: (
            fg.grad(lambda y: fnp.sum(fnp.sqrt(y[1:][:-1])))(x) if x.ndim else x
        ),
        "max_slope": lambda x: (
            fg.grad(lambda y: fnp.sum(fnp.max(y, axis=None)))(x) if x.size else x
        ),
    }
)

_NAMES = (*sorted(MOVES), *("* c* / add subtract multiply divide".split() * 4))


def steps(rng: np.random.Generator) -> list[Any]:
    """Steps for ``run``: an operation, a constant, and the distances back to its operands."""
    return [
        (str(rng.choice(_NAMES)), CONSTANTS[rng.integers(len(CONSTANTS))], *rng.integers(0, 4, 2))
        for _ in range(rng.integers(2, 12))
    ]


def run(chosen: list[Any], *inputs: Any) -> Any:
    """Run the steps on some inputs; returns the last and the third last value."""
    values = [fnp.asarray(x) for x in inputs]
    for name, number, back, further in chosen:
        x = values[-1 - max(back - 2, 0)]
        if name in MOVES:
            value = MOVES[name](x)
        elif name == "*":
            value = x * number
        elif name == "c*":
            value = number * x
        elif name == "/":
            value = x / (number or 1.0)
        else:
            value = _combined(name, x, values[-1 - further % len(values)])
        values.append(value)
    return values[-1], values[-3]


def _combined(name: str, x: Any, y: Any) -> Any:
    try:
        return getattr(fnp, name)(x, y)
    except fg.errors.ShapeError:
        return x


def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """Three arrays of special numbers."""
    return tuple(
        rng.choice(SPECIAL, shape).astype(dtype)
        for shape, dtype in (((2, 3), np.float32), ((3,), np.float64), ((2, 3), np.float32))
    )
