"""``associative_scan``: running totals of any associative function, many at once.

Neighbours are combined in pairs, the running totals of the pairs are computed in the same way, and
the other totals follow from these (Ladner and Fischer, "Parallel prefix computation", J. ACM 27,
1980): n elements take about 2 n applications of the function, in about 2 log n calls on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, overload

from funcgrad._control.carried_types import AnyNumber, Containers, NumberCombined, State
from funcgrad._control.carry import described_spec, placed, placed_values
from funcgrad._core import pytrees
from funcgrad._core.specs import normalize_axis, shape_of
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate, stack
from funcgrad._primitives.structural import flip, move_axis, reshape, view
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor, wrap


@overload
def associative_scan(
    fn: NumberCombined, elems: AnyNumber, reverse: bool = False, axis: SupportsIndex = 0
) -> Tensor: ...
@overload
def associative_scan(
    fn: Callable[[State, State], State],
    elems: State | Containers,
    reverse: bool = False,
    axis: SupportsIndex = 0,
) -> State: ...
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: SupportsIndex = 0
) -> Any:
    """Combine the elements up to each position with an associative function, in parallel.

    Parameters
    ----------
    fn : callable
        Takes two pytrees like ``elems`` and returns a third. It is called on many elements at once,
        which lie along ``axis``, and has to be associative: ``fn(a, fn(b, c))`` is
        ``fn(fn(a, b), c)``.
    elems : pytree of arrays
        The leaves have one length along ``axis``.
    reverse : bool
        Whether to combine from the end. ``fn`` then gets the later elements first.
    axis : int

    Returns
    -------
    pytree of arrays
        Like ``elems``: the entry at each position combines the elements up to and including that
        position.

    Raises
    ------
    ArgumentError
        ``elems`` has no array.
    ShapeError, DtypeError, TreeError
        Leaves have different lengths, or ``fn`` returns another kind of tree than it gets.

    Notes
    -----
    ``n`` elements take about ``2 n`` applications of ``fn``, in ``2 log2 n`` calls; a program holds
    the operations of all these calls.

    References
    ----------
    .. [1] R. E. Ladner, M. J. Fischer, "Parallel prefix computation", J. ACM 27, 1980.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fg.associative_scan(fnp.multiply, fnp.arange(1.0, 6.0))
    Tensor([  1.,   2.,   6.,  24., 120.])
    >>> def line_after_line(f, g):  # x -> a x + b
    ...     return f[0] * g[0], g[0] * f[1] + g[1]
    >>> fg.associative_scan(line_after_line, (fg.tensor([2.0, 3.0, 1.0]), fnp.ones(3)))[1]
    Tensor([1., 4., 5.])
    """
    check_function("associative_scan", fn)
    leaves, structure = pytrees.flatten(elems)
    values = placed_values("associative_scan", leaves, structure, lambda: "elems")
    if not values:
        raise placed(ArgumentError, "associative_scan: elems has no array.")
    axes = [normalize_axis(axis, len(shape_of(x)), "associative_scan") for x in values]
    sizes = [shape_of(x)[a] for x, a in zip(values, axes, strict=True)]
    paths = structure.paths()
    for path, size in zip(paths, sizes, strict=True):
        if size != sizes[0]:
            raise placed(
                ShapeError,
                f"associative_scan: the lengths differ: elems{paths[0]} has {sizes[0]} elements"
                f" along axis {axis}, and elems{path} has {size}.",
            )

    def combine(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
        """Combine two stacks with ``fn``, elementwise along axis 0."""
        first_tree, second_tree = [
            pytrees.unflatten(
                structure, [wrap(move_axis(x, 0, a)) for x, a in zip(operand, axes, strict=True)]
            )
            for operand in (first, second)
        ]
        out_leaves, result = pytrees.flatten(fn(first_tree, second_tree))
        if result != structure:
            raise placed(
                TreeError,
                (
                    f"associative_scan: fn has to return a tree like elems, {structure}, but"
                    f" returned {result}."
                ),
            )
        outs = placed_values("associative_scan", out_leaves, result, lambda: "the result of fn")
        moved = []
        for out, leaf, a, path in zip(outs, first, axes, paths, strict=True):
            spec, wanted = spec_inside(out), spec_inside(move_axis(leaf, 0, a))
            if spec != wanted:
                error_class = ShapeError if spec.shape != wanted.shape else DtypeError
                raise placed(
                    error_class,
                    f"associative_scan: fn got {described_spec(wanted)} and returned"
                    f" {described_spec(spec)} for elems{path}.",
                )
            moved.append(move_axis(out, a, 0))
        return moved

    first = [move_axis(x, a, 0) for x, a in zip(values, axes, strict=True)]
    if reverse:
        first = [flip(x, axis=(0,)) for x in first]
    totals = _totals(combine, first)
    if reverse:
        totals = [flip(x, axis=(0,)) for x in totals]
    outs = [wrap(move_axis(x, 0, a)) for x, a in zip(totals, axes, strict=True)]
    return pytrees.unflatten(structure, outs)


def _totals(
    combine: Callable[[Sequence[Value], Sequence[Value]], list[Value]], elems: list[Value]
) -> list[Value]:
    count = shape_of(elems[0])[0]
    if count < 2:
        return elems
    pairs = combine(_strided(elems, 0, count - 1, 2), _strided(elems, 1, count, 2))
    odd = _totals(combine, pairs)  # the totals at places 1, 3, 5, ...
    even_elems = _strided(elems, 2, count, 2)
    before = _strided(odd, 0, (count - 1) // 2, 1)
    even = combine(before, even_elems) if count > 2 else even_elems
    first = _strided(elems, 0, 1, 1)
    return [
        _interleaved(concatenate(x, y, axis=0), z) for x, y, z in zip(first, even, odd, strict=True)
    ]


def _strided(values: Sequence[Value], start: int, stop: int, step: int) -> list[Value]:
    key = Key((slice(start, stop, step),))
    return [view(value, key=key) for value in values]


def _interleaved(even: Value, odd: Value) -> Value:
    """Interleave two arrays along axis 0; the first may have one more element."""
    count, *elem_shape = shape_of(odd)
    pairs = stack(view(even, key=Key((slice(0, count),))), odd, axis=1)
    both = reshape(pairs, shape=(2 * count, *elem_shape))
    last = view(even, key=Key((slice(count, None),)))
    return concatenate(both, last, axis=0) if shape_of(last)[0] else both
