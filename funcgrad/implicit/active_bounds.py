"""Active bounds: which elements of a minimizer lie at a bound, and so do not follow the parameters.

The side of an element is -1 at its lower bound, 1 at its upper bound, 2 if both bounds are equal,
else 0.

>>> import numpy as np
>>> from funcgrad.implicit.unknowns import Unknown
>>> unknown, x = Unknown.read("minimize", "init", np.array([0.0, 0.5, 2.0]))
>>> _sides_at(Bounds(0.0, 1.0), unknown, x)
[array([-1.,  0.,  1.])]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter, is_
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import operand
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.implicit.unknowns import Tree, Unknown
from funcgrad.tensor.tensor import Tensor, wrap

Ends: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""One bound for each element of a leaf."""

_SLACK: Final = 1e-6
"""The distance from a bound, relative to 1 + \\|x\\|, that counts as being at the bound."""


class Bounds(NamedTuple):
    """A user's bounds: each is a number, None, or a prefix of the unknown's tree."""

    lower: Any = None
    upper: Any = None

    @classmethod
    def read(cls, name: str, bounds: object) -> Bounds:
        """Check that bounds are a pair or SciPy's ``Bounds``.

        Raises
        ------
        ArgumentError
            The bounds are something else.
        """
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
            return cls(*attrgetter("lb", "ub")(bounds))
        if bounds is None:
            return cls()
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise placed(
                ArgumentError,
                f"{name}: bounds are a pair (lower, upper), each None, a number, or a tree of"
                f" arrays like the unknown, not {bounds!r}.",
            )
        return cls(*bounds)


def _sides_at(bounds: Bounds, unknown: Unknown, x: Sequence[Value]) -> list[Value]:
    """Return the sides of a solution, by the user's bounds."""
    ends = [_ends(unknown, bound, sign) for bound, sign in zip(bounds, (-1.0, 1.0), strict=True)]
    return [
        _sides(wrap(value), low, high, spec)
        for value, low, high, spec in zip(x, *ends, unknown.specs, strict=True)
    ]


def _ends(unknown: Unknown, bound: Tree, sign: float) -> list[Ends]:
    """Return a bound for each leaf; None becomes an infinite bound."""
    name = f"{unknown.operation}: bounds"
    none = [None] * len(unknown.specs)
    is_none = partial(is_, None)
    leaves = (
        none if bound is None else pytrees.broadcast_prefix(bound, unknown.structure, name, is_none)
    )
    ends = []
    for leaf, spec in zip(leaves, unknown.specs, strict=True):
        end = np.asarray(concrete(operand(sign * np.inf if leaf is None else leaf, name)), float)
        try:
            ends.append(np.broadcast_to(end, spec.shape))
        except ValueError:
            raise placed(
                ShapeError, f"{name} of shape {end.shape} do not fit the unknown's {spec.shape}."
            ) from None
    return ends


def _sides(x: Tensor, low: Ends, high: Ends, spec: Spec) -> Value:
    if spec.dtype.kind == "c":
        return np.zeros(spec.shape, spec.dtype)[()]
    return concrete(sides(x, low, high).astype(spec.dtype))


def sides(x: Tensor | Ends, low: Ends, high: Ends) -> Tensor:
    """Return the sides of elements, by their bounds, which may be infinite."""
    is_low, is_high = x <= low + _slack(low), x >= high - _slack(high)
    low_side, high_side = fnp.where(is_high, 2.0, -1.0), fnp.where(is_high, 1.0, 0.0)
    return fnp.where(is_low, low_side, high_side)


def _slack(bound: Ends) -> Ends:
    return _SLACK * (1.0 + np.where(np.isfinite(bound), np.abs(bound), 0.0))


def sides_of(bounds: Bounds, unknown: Unknown, x: Sequence[Value], result: object) -> list[Value]:
    """Return the sides of a solution, by the user's bounds and the solver's result."""
    at, told = _sides_at(bounds, unknown, x), _sides_told(result, unknown)
    if told is None:
        return at
    return [concrete(fnp.where(a != 0.0, a, b)) for a, b in zip(map(wrap, at), told, strict=True)]


def _sides_told(result: object, unknown: Unknown) -> list[Value] | None:
    """Read the sides from SciPy's result object; None if it does not tell them.

    ``least_squares`` and ``lsq_linear`` have an ``active_mask``. Their ``optimality`` is the
    greatest product of a slope and the distance to the bound towards which the function falls:
    where the slope is large, the distance is small. The method trust-constr of ``minimize`` returns
    the multipliers of bounds. Each is the barrier parameter divided by the distance to the bound.
    """
    count = sum(int(np.prod(spec.shape)) for spec in unknown.specs)
    mask = getattr(result, "active_mask", None)
    if mask is not None and np.size(mask) == count:
        sides = np.array(mask, float).ravel()
        slope, most = getattr(result, "grad", None), getattr(result, "optimality", None)
        if most is not None and slope is not None:
            slopes, x = _vector(slope), _vector(attrgetter("x")(result))
            near = np.abs(slopes) * _SLACK * (1.0 + np.abs(x)) > most
            sides = np.where((sides == 0.0) & near, -np.sign(slopes), sides)
    elif hasattr(result, "barrier_parameter") and hasattr(result, "v"):
        sides = np.zeros(count)
        v, jac, least = attrgetter("v", "jac", "barrier_parameter")(result)
        for multipliers, jacobian in zip(v, jac, strict=True):
            if np.shape(jacobian) == (count, count) and _is_unit(jacobian):
                held = np.abs(multipliers) > np.sqrt(least)
                sides = np.where(held, np.sign(multipliers), sides)
    else:
        return None
    splits = np.cumsum([int(np.prod(spec.shape)) for spec in unknown.specs])[:-1]
    return [
        piece.reshape(spec.shape).astype(spec.dtype)[()]
        for piece, spec in zip(np.split(sides, splits), unknown.specs, strict=True)
    ]


def _vector(tree: Tree) -> Ends:
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in pytrees.leaves(tree)])


def _is_unit(matrix: Ends) -> bool:
    """Whether a matrix, which may be sparse, is the unit matrix."""
    unit = np.eye(matrix.shape[0])
    return np.array_equal(np.asarray(matrix @ unit), unit)
