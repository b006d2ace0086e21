"""Activations of neural networks: elementwise, of real arguments, exact also where they saturate.

>>> sigmoid(np.array([-1000.0, 0.0, np.inf]))
array([0. , 0.5, 1. ])

None of their derivatives meets ``inf * 0``: beyond a limit at which double precision can no longer
tell the difference, the slope is constant, and it is computed at a clamped argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import OPPOSITE, SAME, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.folds import GREATEST
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN, Algebra
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import combined, edges, elementwise, reals
from funcgrad._primitives.kinks import AT_ZERO
from funcgrad._primitives.reduction import reduce_max, reduction
from funcgrad._primitives.special import bell, clamp, ndtr, ndtr_of, real_operand
from funcgrad._primitives.transcendental import sech_squared
from funcgrad.errors import DtypeError

Array = np.ndarray[Any, Any]

_SAMPLES: Final = combined(
    reals(-3, 3),
    edges(0.0, -0.5, 30.0, -30.0, smooth=True),
    edges(-np.inf, -1e4, -1000.0, 1000.0, 1e4, np.inf, np.nan),
)


def _relu(m: Algebra, x: Value) -> Value:
    if dtype_of(x).kind == "c":
        raise DtypeError(f"relu: complex numbers ({dtype_of(x)}) have no order.")
    return m.maximum(x, 0)


relu: Primitive = elementwise(
    "relu",
    formula=_relu,
    partials=(lambda _, x: x > 0,),
    selects=True,
    samples=combined(reals(0.5, 3), reals(-3, -0.5), edges(-np.inf, 0.0, np.inf, np.nan)),
    kinks=AT_ZERO,
)


def _sigmoid(m: Algebra, x: Value) -> Value:
    x = real_operand(m, x, "sigmoid")
    small = m.exp(-m.absolute(x))  # never overflows
    # No choice, which NumPy makes by branches: for the signs of activations 2 to 15 times slower.
    return m.maximum(small, x >= 0) / (1 + small)


sigmoid: Primitive = elementwise(
    "sigmoid",
    formula=_sigmoid,
    # y * (1 - y) would lose digits for large arguments, and its derivative for small
    partials=(lambda _, x: 0.25 * sech_squared(0.5 * x),),
    samples=_SAMPLES,
    traits=TRANSCENDENTAL,
)


def _softplus(m: Algebra, x: Value) -> Value:
    x = real_operand(m, x, "softplus")
    return m.maximum(x, 0) + m.log1p(m.exp(-m.absolute(x)))


softplus: Primitive = elementwise(
    "softplus",
    formula=_softplus,
    partials=(lambda _, x: sigmoid(x),),
    samples=_SAMPLES,
    traits=TRANSCENDENTAL,
)


def _gated(
    name: str, gate: Callable[[Algebra, Value], Value], limit: float
) -> Callable[..., Value]:
    """``x * gate(x)``, where the gate is fully closed and open at minus and plus the limit."""

    def formula(m: Algebra, x: Value) -> Value:
        bounded = m.maximum(real_operand(m, x, name), -limit)
        return bounded * gate(m, m.minimum(bounded, limit))

    return formula


def _silu_slope(x: Value) -> Value:
    inner = clamp(x, 800.0)
    return sigmoid(inner) * (1 + inner * sigmoid(-inner))


silu: Primitive = elementwise(
    "silu",
    formula=_gated("silu", _sigmoid, 800.0),
    partials=(lambda _, x: _silu_slope(x),),
    samples=_SAMPLES,
    traits=TRANSCENDENTAL,
)


def _gelu_slope(x: Value) -> Value:
    inner = clamp(x, 40.0)
    return ndtr(inner) + inner * (bell(inner, sharpness=0.5) / math.sqrt(2 * math.pi))


gelu: Primitive = elementwise(
    "gelu",
    formula=_gated("gelu", ndtr_of, 40.0),
    partials=(lambda _, x: _gelu_slope(x),),
    samples=_SAMPLES,
    traits=TRANSCENDENTAL,
)

# (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps the digits of the left tail.
_LINEAR: Final = 2 * math.sqrt(2 / math.pi)
_CUBIC: Final = 0.044715 * _LINEAR


def _gelu_tanh_slope(x: Value) -> Value:
    inner = clamp(x, 40.0)
    squared = inner * inner
    u = inner * (_LINEAR + _CUBIC * squared)
    return sigmoid(u) * (1 + inner * sigmoid(-u) * (_LINEAR + 3 * _CUBIC * squared))


gelu_tanh: Primitive = elementwise(
    "gelu_tanh",
    formula=_gated("gelu", lambda m, x: _sigmoid(m, x * (_LINEAR + _CUBIC * (x * x))), 40.0),
    partials=(lambda _, x: _gelu_tanh_slope(x),),
    samples=_SAMPLES,
    traits=TRANSCENDENTAL,
)


def _axis_samples() -> Iterator[Sample]:
    x = np.array([[3.0, -1.0, 3.0], [-np.inf, np.inf, np.nan]])
    for axis in ((0,), (1,), (0, 1)):
        yield Sample((x[:, ::-1],), {"axis": axis, "keepdims": True})
    yield Sample((x[:0],), {"axis": (1,), "keepdims": True})


# The greatest element, as a constant to derivatives: for functions in which it cancels.
constant_max: Primitive = reduction(
    "constant_max",
    reduce_max.evaluate,
    factor=None,
    samples=_axis_samples,
    fold=GREATEST,
    body=reduce_max,
    traits=OWNS,
)


def _shift(x: Raw, origin: Raw) -> Raw:  # an origin is one for a row, and mostly finite
    if np.isfinite(origin).all():
        return np.subtract(x, origin)
    x, origin = np.asarray(x), np.asarray(origin)
    out = np.zeros(np.broadcast_shapes(x.shape, origin.shape), np.result_type(x, origin))
    return np.subtract(x, origin, out=out, where=np.not_equal(x, origin))[()]


# A difference in which infinity minus infinity is 0: for softmax, relative to the greatest logit.
shift: Primitive = elementwise(
    "shift",
    _shift,
    formula=lambda m, x, origin: m.where(m.equal(x, origin), 0, m.subtract(x, origin)),
    partials=(SAME, OPPOSITE),
    samples=combined(reals(-3, 3, 2), edges((np.inf, np.inf), (-np.inf, np.inf), (1.0, 1.0))),
    traits=UNEVEN | OWNS,
)
