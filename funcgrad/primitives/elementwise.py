"""Elementwise primitives: arithmetic, comparison and logic.

The constructor ``elementwise`` takes a NumPy ufunc and the factor of the tangent for each argument;
broadcasting, casts and conjugation are the transformations' business.

>>> add(1.0, 2.0)
np.float64(3.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funcgrad.primitive import (
    DISCRETE,
    OPPOSITE,
    SAME,
    Factor,
    Partials,
    Primitive,
    Sample,
)
from funcgrad.primitives.structural import reshape
from funcgrad.shape import Spec, broadcast_shapes, shape_of
from funcgrad.trace import Value

__all__ = ["add", "divide", "elementwise", "multiply", "negative", "power", "subtract"]


def elementwise(
    name: str,
    evaluate: Callable[..., Any],
    *,
    partials: tuple[Factor, ...] | None,
    selects: bool = False,
    samples: Callable[[], Iterable[Sample]] = tuple,
) -> Primitive:
    """Declare an elementwise primitive.

    Parameters
    ----------
    name : str
    evaluate : callable
        A ufunc, or a function of raw values that broadcasts as one does.
    partials : tuple of callables or None
        For each argument ``(output, *arguments) -> factor`` (or ``SAME``, ``OPPOSITE``, or None for
        an argument without derivative). Each is evaluated only when its argument is followed,
        which is why they are several functions rather than one. None for a discrete operation.
    selects : bool
        Whether the factors are masks, see ``Partials``.
    samples : callable

    Examples
    --------
    >>> tanh = elementwise("tanh", np.tanh, partials=(lambda y, x: 1 - y * y,))
    >>> tanh(0.0)
    np.float64(0.0)
    """

    def result(*specs: Spec, **params: Any) -> Spec:
        examples = [_example(spec) for spec in specs]
        dtype = np.asarray(evaluate(*examples, **params)).dtype
        return Spec(broadcast_shapes(name, *(spec.shape for spec in specs)), dtype)

    differential = DISCRETE if partials is None else Partials(partials, selects)
    return Primitive(name, evaluate, result, differential, batch_elementwise, samples)


def _example(spec: Spec) -> Any:
    one = np.ones((1,) * bool(spec.shape), spec.dtype)
    return one.item() if spec.weak else one[()]


def batch_elementwise(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Line up the examples' axes behind the batch axis, then broadcast as ever."""
    ranks = [len(shape_of(arg)) - flag for arg, flag in zip(args, batched, strict=True)]
    rank = max(ranks)
    aligned = [
        reshape(arg, shape=(size,) + (1,) * (rank - own) + shape_of(arg)[1:])
        if flag and own < rank
        else arg
        for arg, flag, own in zip(args, batched, ranks, strict=True)
    ]
    return primitive(*aligned, **params)


def reals(low: float, high: float, arity: int = 1) -> Callable[[], Iterable[Sample]]:
    """Samples of real arguments between two bounds: scalars, 0-d, strided, broadcast, empty."""

    def samples() -> Iterable[Sample]:
        rng = np.random.default_rng(11)
        draw = lambda *shape: rng.uniform(low, high, shape)  # noqa: E731 - local shorthand
        yield Sample(tuple(draw(3) for _ in range(arity)))
        yield Sample(tuple(float(draw()) for _ in range(arity)))
        yield Sample(tuple(draw(4, 6)[::2, ::-3] for _ in range(arity)))
        yield Sample(tuple(draw(0, 2) for _ in range(arity)))
        if arity == 2:
            yield Sample((draw(2, 1, 3), draw(4, 1)))
            yield Sample((draw(), draw(3)))
            yield Sample((2 * high if high < 1 else high / 2, draw(3)), smooth=True)

    return samples


add = elementwise("add", np.add, partials=(SAME, SAME), samples=reals(-3, 3, 2))
subtract = elementwise("subtract", np.subtract, partials=(SAME, OPPOSITE), samples=reals(-3, 3, 2))
negative = elementwise("negative", np.negative, partials=(OPPOSITE,), samples=reals(-3, 3))
positive = elementwise("positive", np.positive, partials=(SAME,), samples=reals(-3, 3))
multiply = elementwise(
    "multiply",
    np.multiply,
    partials=(lambda _, x, y: y, lambda _, x, y: x),
    samples=reals(-3, 3, 2),
)
divide = elementwise(
    "divide",
    np.true_divide,
    partials=(lambda _, x, y: 1 / y, lambda out, x, y: -out / y),
    samples=reals(0.5, 3, 2),
)
square = elementwise("square", np.square, partials=(lambda _, x: 2 * x,), samples=reals(-3, 3))
power = elementwise(
    "power",
    np.power,
    partials=(lambda _, x, y: y * x ** (y - 1), lambda out, x, y: out * log(x)),
    samples=reals(0.5, 3, 2),
)
absolute = elementwise("absolute", np.absolute, partials=(lambda _, x: conj_sign(x),))
floor_divide = elementwise("floor_divide", np.floor_divide, partials=None)
remainder = elementwise(
    "remainder", np.remainder, partials=(SAME, lambda _, x, y: -floor_divide(x, y))
)


def conj_sign(x: Value) -> Value:
    return np.sign(x)


log = elementwise("log", np.log, partials=(lambda y, x: 1 / x,), samples=reals(0.1, 3))
