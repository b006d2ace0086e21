"""Declarations of primitives that only move the elements of one array.

>>> swap = movement(
...     "swap",
...     lambda x: x.T,
...     shape=lambda shape: shape[::-1],
...     transpose=lambda ct, x: swap(ct),
...     batch=lambda shape, size: {},
...     samples=tuple,
...     is_view=True,
... )
>>> swap(np.ones((2, 3))).shape
(3, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from funcgrad._core.primitive import Linear, Patch, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, shape_of
from funcgrad._core.structure.structures import Movement, Trait
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.index_keys import Key


def movement(
    name: str,
    evaluate: Callable[..., Any],
    *,
    shape: Callable[..., Shape],
    transpose: Callable[..., Value],
    batch: Callable[..., dict[str, Any]],
    samples: Callable[[], Iterator[Sample]],
    is_view: bool = False,
    windows: Callable[..., Iterable[tuple[Any, Any]]] | None = None,
    rows_last: Callable[..., Mapping[str, Any] | None] | None = None,
    gaps: bool = False,
    patch: Callable[..., None] | None = None,
    join: Callable[[Sequence[Patch], Shape], Value] | None = None,
    source: Callable[..., str | None] | None = None,
    traits: Trait = Trait.NONE,
) -> Primitive:
    """Declare a primitive of one array that only moves elements.

    Parameters
    ----------
    name : str
    evaluate : callable
        ``(raw value, **params) -> ndarray``, a view if possible.
    shape : callable
        ``(shape, **params) -> shape`` of the result.
    transpose : callable
        ``(cotangent, x, **params) -> cotangent of x``. It also gets masks, of dtype bool.
    batch : callable
        ``(shape of one example, batch size, **params) -> params`` that move each example of an
        array with the batch on axis 0 like ``params`` moves one example.
    samples : callable
    is_view : bool
        Whether the result is a view of the array, if NumPy can make one.
    windows : callable, optional
        The index map, see ``Movement``; for a view it is ``evaluate``.
    rows_last : callable, optional
        See ``Movement``.
    gaps : bool
        Whether the transpose leaves elements absent.
    patch, join : callable, optional
        The transpose in place, and of many operations at once, see ``Linear``.
    source : callable, optional
        ``evaluate`` as text, see ``Primitive``.
    traits : Trait
        See ``Primitive``.

    Returns
    -------
    Primitive

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad import extend
    >>> backwards = movement(
    ...     "backwards",
    ...     lambda x: x[..., ::-1],
    ...     shape=lambda shape: shape,
    ...     transpose=lambda cotangent, x: extend.bind(backwards, (cotangent,), {}),
    ...     batch=lambda shape, size: {},
    ...     samples=lambda: iter(()),
    ...     is_view=True,
    ... )
    >>> fg.grad(lambda x: extend.apply(backwards, x)[0])(fg.tensor([1.0, 2.0]))
    Tensor([0., 1.])
    """

    def batched(
        primitive: Primitive, size: int, args: tuple[Value, ...], _: Any, params: dict[str, Any]
    ) -> Value:
        return primitive(args[0], **batch(shape_of(args[0])[1:], size, **params))

    def viewed(result: Raw, x: Raw, **params: Hashable) -> list[tuple[Any, Any]]:
        return [(result, evaluate(x, **params))]

    return Primitive(
        name,
        evaluate,
        lambda x, **params: Spec(shape(x.shape, **params), x.dtype),
        Linear((transpose,), structural=True, gaps=gaps, patch=patch, join=join),
        batched,
        samples,
        source,
        structure=Movement(windows or viewed, is_view, rows_last=rows_last),
        traits=traits,
    )


def arrays(**cases: tuple[Shape, dict[str, Any]]) -> Callable[[], Iterator[Sample]]:
    """One sample for each shape and parameters; the first one also reversed, and complex."""

    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(7)
        for shape, params in cases.values():
            yield Sample((rng.standard_normal(shape),), params)
        shape, params = next(iter(cases.values()))
        yield Sample(
            (
                rng.standard_normal(tuple(2 * n for n in shape))[
                    (slice(None, None, -2),) * len(shape)
                ],
            ),
            params,
        )
        yield Sample((rng.standard_normal(shape) + 1j * rng.standard_normal(shape),), params)

    return samples


def behind(parts: Sequence[Any]) -> tuple[Any, ...]:
    """One entry for each axis of an array, with the entry of axis 0 moved to the end.

    >>> behind((1000, 25, 10))
    (25, 10, 1000)
    """
    return (*parts[1:], *parts[:1])


def axes_before(shape: Shape, axes: tuple[int, ...], **params: Hashable) -> dict[str, Any] | None:
    """Parameters after axis 0, which is not among ``axes``, has been moved to the end."""
    if not shape or 0 in axes:
        return None
    return {"axis": tuple([axis - 1 for axis in axes]), **params}


def keys_behind(keys: Sequence[Key], shape: Shape) -> tuple[Key, ...] | None:
    """Indices that select all of axis 0, for an array whose axis 0 has been moved to the end."""
    candidates = [_key_behind(key, len(shape), shape[0]) for key in keys] if shape else [None]
    moved = tuple([key for key in candidates if key is not None])
    return moved if len(moved) == len(candidates) else None


def _key_behind(key: Key, rank: int, size: int) -> Key | None:
    if key and type(key[0]) is slice and key[0].indices(size) == (0, size, 1):
        return Key((*key[1:], slice(None)))
    if key and key[0] is ... and sum([entry is not None for entry in key[1:]]) < rank:
        return Key((*key, slice(None)))
    return None
