"""Matrices for which an operation has no result: raise an error, or fill their results with NaN.

LAPACK gives up a whole stack if one matrix fails. An operation that is ``failing`` has the
parameter ``failed``: "raise" raises an error; with "nan" the stack is halved until the failing
matrix is isolated, and all others have the same bits as without it. Rules of derivatives pass the
parameter on, so a derivative that does not exist is NaN, too.

>>> flags = failures(np.linalg.inv, np.array([[[2.0]], [[0.0]], [[1.0]]]))
>>> flags
array([False,  True, False])
>>> or_nan(np.array([0.5, 7.0, 1.0]), flags)
array([0.5, nan, 1. ])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import Spec, spec_of

Array: TypeAlias = np.ndarray[Any, Any]


def failing(primitive: Primitive) -> Primitive:
    """Make an operation on stacks with the parameter ``failed`` from one that may raise errors.

    Parameters
    ----------
    primitive : Primitive
        Its evaluation raises ``LinAlgError`` for a whole stack; its arguments are stacks of one
        shape, whose structure has the ``cores``. The rules of its differential take ``failed``.
    """
    evaluate, result, ranks = primitive.evaluate, primitive.result, primitive.cores

    def evaluated(*args: Array, failed: str = "raise", **params: object) -> Any:
        try:
            return evaluate(*args, **params)
        except LinAlgError:
            if failed == "raise":
                raise
        specs = result(*map(spec_of, args), **params)
        if not isinstance(specs, tuple):
            return _without_failures(partial(evaluate, **params), [specs], args, ranks)[0]
        return tuple(_without_failures(partial(evaluate, **params), specs, args, ranks))

    def resulting(*specs: Spec, failed: str = "raise", **params: object) -> Any:
        return result(*specs, **params)

    def samples() -> Iterator[Sample]:
        known = [*primitive.samples()]
        yield from known
        params = {**known[0].params, "failed": "nan"}  # so that every check sees it
        yield replace(known[0], params=params)

    return replace(primitive, evaluate=evaluated, result=resulting, samples=samples)


def _without_failures(
    evaluate: Callable[..., Any], specs: Sequence[Spec], args: Sequence[Array], ranks: Sequence[int]
) -> list[Any]:
    """The results of all matrices that have any, and NaN for the others."""
    pairs = list(zip(args, ranks, strict=True))
    lead = args[0].shape[: args[0].ndim - ranks[0]]
    count = prod(lead)
    flat = [x.reshape(count, *x.shape[x.ndim - rank :]) for x, rank in pairs]
    outs = [
        np.full((count, *spec.shape[len(lead) :]), _nan(spec.dtype), spec.dtype) for spec in specs
    ]
    for run, values in _runs(evaluate, flat):
        several = values if isinstance(values, tuple) else (values,)
        for out, value in zip(outs, several, strict=True):
            out[run] = value
    return [out.reshape(spec.shape)[()] for out, spec in zip(outs, specs, strict=True)]


def _runs(evaluate: Callable[..., Any], flat: Sequence[Array]) -> Iterator[tuple[slice, Any]]:
    """The runs of stacks along one axis in which nothing fails, with their results.

    The evaluation of all stacks together has failed already.
    """
    count = len(flat[0])
    pending = [] if count == 1 else [(0, count // 2), (count // 2, count)]
    while pending:
        start, stop = pending.pop()
        run = slice(start, stop)
        try:
            yield run, evaluate(*[x[run] for x in flat])
        except LinAlgError:
            middle = (start + stop) // 2
            if stop - start > 1:
                pending += [(start, middle), (middle, stop)]


def failures(evaluate: Callable[[Array], Any], stack: Array) -> Array:
    """Flags of the matrices of a stack for which an evaluation raises an error."""
    flat = stack.reshape(prod(stack.shape[:-2]), *stack.shape[-2:])
    flags = np.ones(len(flat), bool)
    for run, _ in _runs(evaluate, [flat]):
        flags[run] = False
    return flags.reshape(stack.shape[:-2])


def or_nan(x: Array, flags: Array) -> Array:
    """An array that is NaN for some examples of a stack, to whose shape the flags broadcast."""
    spread = flags.reshape(flags.shape + (1,) * (x.ndim - flags.ndim))
    return np.where(spread, x.dtype.type(_nan(x.dtype)), x)


def _nan(dtype: np.dtype[Any]) -> complex | float:
    return complex(np.nan, np.nan) if dtype.kind == "c" else np.nan
