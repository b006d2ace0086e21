"""Rules of elementwise operations: their results, and how they are batched.

>>> elementwise_result("add", np.add)(Spec((2, 1), np.dtype("f")), Spec((3,), np.dtype("d")))
Spec(shape=(2, 3), dtype=dtype('float64'), weak=False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, broadcast_shapes, shape_of, spec_of
from funcgrad._core.trace import Raw, Value, number_of
from funcgrad._primitives.structural import reshape


def elementwise_result(
    name: str, evaluate: Callable[..., Any], operator: str = ""
) -> Callable[..., Spec]:
    """The rule for the result of an elementwise operation: NumPy determines the dtype.

    Examples
    --------
    >>> from funcgrad.extend import Spec
    >>> rule = elementwise_result("hypot", np.hypot)
    >>> rule(Spec((3, 1), np.dtype("float64")), Spec((2,), np.dtype("float32")))
    Spec(shape=(3, 2), dtype=dtype('float64'), weak=False)
    """

    def result(*specs: Spec, **params: Any) -> Spec:
        shape = broadcast_shapes(name, *[spec.shape for spec in specs])
        dtype = None if params else _resolved_dtype(evaluate, specs)
        if dtype is not None:
            return Spec(shape, dtype)
        size = 0 if 0 in shape else 1  # empty arguments are never refused
        examples = [_example(spec, size) for spec in specs]
        with np.errstate(all="ignore"):  # 1 is outside the domain of, say, arctanh
            if operator and all(spec.weak for spec in specs):
                return spec_of(number_of(evaluate, operator, *examples, **params))
            return Spec(shape, np.asarray(evaluate(*examples, **params)).dtype)

    return result


def _resolved_dtype(evaluate: Callable[..., Any], specs: Sequence[Spec]) -> np.dtype[Any] | None:
    """The dtype of a ufunc's result, ten times as fast as evaluating examples.

    None for Python numbers and unsupported dtypes, for which evaluation raises NumPy's error.
    """
    if not isinstance(evaluate, np.ufunc) or True in [spec.weak for spec in specs]:
        return None
    try:
        dtype = evaluate.resolve_dtypes((*[spec.dtype for spec in specs], None))[-1]
    except TypeError:
        return None
    return None if dtype.hasobject else dtype  # of an object only its value has a dtype


def _example(spec: Spec, size: int) -> Raw:
    if spec.shape:
        return np.array([1] * size, spec.dtype)
    one = spec.dtype.type(1)
    return one.item() if spec.weak else one


def batch_elementwise(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Align the examples' axes after the batch axis, then broadcast as usual."""
    ranks = [len(shape_of(arg)) - flag for arg, flag in zip(args, batched, strict=True)]
    rank = max(ranks)
    aligned = [
        reshape(arg, shape=(size,) + (1,) * (rank - arg_rank) + shape_of(arg)[1:])
        if flag and arg_rank < rank
        else arg
        for arg, flag, arg_rank in zip(args, batched, ranks, strict=True)
    ]
    return primitive(*aligned, **params)
