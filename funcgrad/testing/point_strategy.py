"""A Hypothesis strategy for arguments of a function, away from kinks of its operations.

>>> from hypothesis import find
>>> import funcgrad.numpy as fnp
>>> find(points(lambda x: fnp.max(abs(x)), Like((3,))), lambda args: True)
(Tensor([0.5 , 1.25, 2.  ]),)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core import pytrees
from funcgrad._core.specs import Shape, is_inexact
from funcgrad.errors import ArgumentError, MissingPackageError
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.crossing import across
from funcgrad.testing.points import mover_of

_DRAWN: Final = 32
"""The number of elements that are drawn one by one; further elements follow from a seed."""

_SIXTEENTHS: Final = 48
"""The maximum offset of an element, in steps of 1/16, in each direction."""

_CHOICES: Final = 255
"""The greatest index of a comparison or choice that is crossed; as many draws cross none."""

_CROSSINGS: Final = 3
"""The maximum number of crossings in one draw, for branches inside branches."""


class Like:
    """A tensor described by shape and dtype, instead of an example."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DTypeLike = np.float64) -> None:
        """Describe a tensor of a shape and a dtype."""
        self.shape = shape
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        return f"Like({self.shape}, {self.dtype.name!r})"


def points(f: Callable[..., Any], *specs: Any, margin: float = 1e-3) -> Any:
    """Make a strategy for arguments of a function, at which no operation is near a kink.

    Use it in property-based tests of derivatives: numerical derivatives are only right at smooth
    points, and rejecting draws (``assume``) would reject nearly all of them.

    Parameters
    ----------
    f : callable
        A function of pytrees, which runs when a point is drawn; see ``away_from_kinks``.
    *specs : pytrees
        Examples of the arguments. Leaves with ``shape`` and ``dtype`` only, such as ``Like((3,))``,
        stand for tensors. Integers and booleans are constant.
    margin : float
        The minimum distance of the operations from kinks.

    Returns
    -------
    SearchStrategy
        It draws tuples of arguments like ``specs``. No draw is rejected. Draws shrink to the
        examples, or to 0.5, 1.25, 2, ... without examples; or to a point close by that is away from
        kinks.

    Raises
    ------
    ArgumentError
        ``margin`` is invalid, or no argument can move. A draw raises it if ``f`` is at a kink for
        all arguments.
    MissingPackageError
        Hypothesis is not installed.

    Notes
    -----
    Most draws cross up to three comparisons and choices of the function or its derivative rules,
    one after the other, to reach branches that few arguments lead to: of ``cond``, ``switch``,
    loops, ``where``, ``maximum`` and so on, and of Python's ``if``. Comparisons of integers are not
    crossed. For functions with more than a hundred operations the derivative rules are left out;
    for several hundred operations only comparisons are crossed.

    Examples
    --------
    >>> from hypothesis import given
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x, y):
    ...     return fnp.sqrt(x) * fnp.maximum(x, y)
    >>> @given(points(f, 1.0, Like((2,))))
    ... def test(args):
    ...     fg.testing.check_grads(f, args)
    >>> test()
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise MissingPackageError(
            "points: hypothesis is not installed. Install it by `pip install hypothesis`."
        ) from error
    leaves, structure = pytrees.flatten(tuple(specs))
    examples = [_example(leaf) for leaf in leaves]
    arguments = pytrees.unflatten(structure, examples)
    mover_of("points", f, arguments, margin)  # raises if nothing can be drawn
    sizes = [np.size(leaf) for leaf in examples if is_inexact(np.asarray(leaf).dtype)]
    count = min(sum(sizes) * 2, _DRAWN)
    steps = st.lists(st.integers(-_SIXTEENTHS, _SIXTEENTHS), min_size=count, max_size=count)
    seeds = st.integers(0, 2**16) if sum(sizes) * 2 > _DRAWN else st.just(0)

    side = st.integers(0, 2 * _CHOICES + 1).map(lambda number: max(number - _CHOICES - 1, 0))
    sides = st.lists(side, min_size=_CROSSINGS, max_size=_CROSSINGS)

    def moved(drawn: tuple[list[int], int, list[int]]) -> Any:
        numbers, seed, choices = drawn
        offsets = _Offsets(numbers, seed)
        begun = [_moved(leaf, offsets) for leaf in examples]
        mover = mover_of("points", f, pytrees.unflatten(structure, begun), margin)
        return mover.moved(0, lambda mover, start: across(mover, start, choices))

    return st.tuples(steps, seeds, sides).map(moved)


def _example(leaf: object) -> Any:
    """Return an example for a spec (distinct elements in order); an example stays."""
    if isinstance(leaf, (int, float, complex)) or hasattr(leaf, "__array__"):
        return leaf
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise ArgumentError(
            f"points: {leaf!r} is neither an example of an argument nor has a shape and a dtype."
            " Pass a number, an array, or Like((3,))."
        )
    size = int(np.prod(shape))
    numbers = 0.5 + np.arange(size) * (0.75 if size <= 12 else 8.5 / size)
    return wrap(numbers.reshape(shape).astype(np.dtype(dtype)))


class _Offsets:
    """Offsets one after the other: first the drawn ones, then from a seed."""

    def __init__(self, drawn: list[int], seed: int) -> None:
        """Start with the first offset."""
        self._drawn = list(reversed(drawn))
        self._rng = np.random.default_rng(seed)
        self._zero = seed == 0

    def take(self, count: int) -> Any:
        """Return the next offsets, in sixteenths."""
        first = [self._drawn.pop() for _ in range(min(count, len(self._drawn)))]
        left = count - len(first)
        others = np.zeros(left) if self._zero else self._rng.integers(-_SIXTEENTHS, 49, left)
        return np.concatenate([first, others]) / 16


def _moved(leaf: object, offsets: _Offsets) -> Any:
    array = np.asarray(leaf)
    if not is_inexact(array.dtype):
        return leaf
    change = offsets.take(array.size).reshape(array.shape)
    if array.dtype.kind == "c":
        change = change + 1j * offsets.take(array.size).reshape(array.shape)
    changed = (array + change).astype(array.dtype)
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        return changed.item()
    return changed if isinstance(leaf, (np.ndarray, np.generic)) else wrap(changed)
