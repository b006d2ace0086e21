"""Operations with a mistake in their differential, to test tests.

``mistaken`` returns another operation with the same values. The original operation is not changed.

>>> import numpy as np
>>> from funcgrad._primitives.elementwise import multiply
>>> from funcgrad._transforms.forward import jvp
>>> wrong = mistaken(multiply, "missing term 1")
>>> jvp(wrong, (2.0, 3.0), (1.0, 1.0))
(Tensor(6.0), Tensor(3.0))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._core.primitive import Linearized, Primitive
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.structure.structures import OPAQUE
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import multiply, negative
from funcgrad._primitives.structural import roll, swap_last_axes
from funcgrad._transforms.flat_functions import run_pulled, run_pushed
from funcgrad._transforms.masked import Cotangent, Masked

Tangents = Sequence[Value]


def _halved(t: Value) -> Value:
    return multiply(t, dtype_of(t).type(0.5))


def _turned(t: Value) -> Value:
    """Transpose square matrices; roll other arrays along the last axis."""
    shape = shape_of(t)
    if len(shape) > 1 and shape[-1] == shape[-2] > 1:
        return swap_last_axes(t)
    return roll(t, shift=(1,), axis=(len(shape) - 1,)) if shape else t


_OF_RESULTS: Final[Mapping[str, Callable[[Value], Value]]] = MappingProxyType(
    {"sign": negative, "factor": _halved, "wrong axis": _turned}
)
"""Mistakes that change the result of the differential."""

_REVERSE: Final = ", in reverse mode only"


def kinds_of_mistakes(arity: int) -> tuple[str, ...]:
    """Return the possible mistakes in an operation with this number of arguments."""
    kinds = [*_OF_RESULTS, f"factor{_REVERSE}"]
    if arity == 1:
        kinds.append("missing factor")
    elif arity <= 4:
        kinds += [f"missing term {position}" for position in range(arity)]
        kinds.append("swapped arguments")
    return tuple(kinds)


def mistaken(operation: Primitive, kind: str) -> Primitive:
    """Make an operation with the same values and a mistake in its differential.

    Parameters
    ----------
    operation : Primitive
    kind : str
        See ``kinds_of_mistakes``.
    """
    if kind.endswith(_REVERSE):
        differential = Linearized(
            partial(_pushed, operation, ""), pull=partial(_pulled, operation), mixes=True
        )
    else:
        differential = Linearized(partial(_pushed, operation, kind), mixes=True)
    return Primitive(
        operation.name,
        operation.evaluate,
        operation.result,
        differential,
        operation.batch,
        operation.samples,
        structure=OPAQUE,
        label=operation.label,
    )


def _applied(
    operation: Primitive, params: Mapping[str, Hashable], values: Sequence[Value]
) -> list[Value]:
    out = operation(*values, **params)
    return list(out) if isinstance(out, tuple) else [out]


def _pushed(
    operation: Primitive,
    kind: str,
    tangents: Tangents,
    out: Value,
    *args: Value,
    **params: Hashable,
) -> Value:
    """Push tangents as the operation does, except for the mistake."""
    if kind.startswith("missing term"):
        position = int(kind.rpartition(" ")[2])
        tangents = [None if k == position else t for k, t in enumerate(tangents)]
    elif kind == "swapped arguments":
        tangents = _swapped(tangents, args)
    function = partial(_applied, operation, params)
    results = list(out) if isinstance(out, tuple) else [out]
    if kind == "missing factor" and shape_of(results[0]) == shape_of(args[0]) and len(args) == 1:
        pushed: list[Value] = [tangents[0], *[None] * (len(results) - 1)]
    elif all(t is None for t in tangents):
        pushed = [None] * len(results)
    else:
        pushed = run_pushed(function, args, tangents)[1]
    change = _OF_RESULTS.get(kind)
    if change is not None:
        pushed = [None if t is None else change(t) for t in pushed]
    whole = [_zeros(y) if t is None else t for t, y in zip(pushed, results, strict=True)]
    return tuple(whole) if isinstance(out, tuple) else whole[0]


def _zeros(y: Value) -> Value:
    return np.zeros(shape_of(y), dtype_of(y))


def _swapped(tangents: Tangents, args: Sequence[Value]) -> list[Value]:
    """Exchange the tangents of two arguments of equal shape; otherwise of those with a tangent."""
    first, second, *others = tangents
    alike = shape_of(args[0]) == shape_of(args[1]) and dtype_of(args[0]) == dtype_of(args[1])
    return [second, first, *others] if alike else list(tangents)


def _pulled(
    operation: Primitive, ct: Value, out: Value, *args: Value, **params: Hashable
) -> list[Cotangent]:
    """Pull cotangents back as the operation does, and halve them."""
    followed = [is_inexact(dtype_of(x)) for x in args]
    cts = list(ct) if isinstance(out, tuple) else [ct]
    results = list(out) if isinstance(out, tuple) else [out]
    whole = [_zeros(y) if c is None else c for c, y in zip(cts, results, strict=True)]
    _, pulled, _ = run_pulled(partial(_applied, operation, params), args, followed, whole)
    return [None if g is None else _halved_whole(g) for g in pulled]


def _halved_whole(ct: Cotangent) -> Cotangent:
    settled = ct.settle() if hasattr(ct, "settle") else ct
    if isinstance(settled, Masked):
        return Masked(_halved(settled.value), settled.mask)
    return _halved(settled)
