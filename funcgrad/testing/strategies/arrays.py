"""Strategies for tensors, pytrees of them, dtypes and keys.

Their simplest elements are smooth points: 0.5, 1.25, 1.75, 2.5, …, in order. Hypothesis shrinks
numbers to 0, where abs, relu, max, norm and the square root have their kinks, and equal elements
are ties: the smallest failing example would often be a false alarm. Here Hypothesis draws the
*distance* from a lattice point, and shrinks the distance. A distance is a float and some small
steps, because searches that climb change drawn numbers by integers, and 1 is too far.

>>> import numpy as np
>>> lattice(5, -4.0, 4.0)
array([0.5 , 1.25, 1.75, 2.5 , 3.25])
>>> lattice(3, 0.0, 1.0)
array([0.25 , 0.625, 0.875])
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.pytrees import flatten, unflatten
from funcgrad._core.specs import DTYPES, Shape, dtype_of, is_inexact
from funcgrad.errors import ArgumentError, DtypeError, MissingPackageError
from funcgrad.numpy.options import integer, real_number, shape_argument
from funcgrad.random.keys import key
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.testing.subject import Pytree

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Strategy: TypeAlias = "SearchStrategy[Any]"

Drawn: TypeAlias = Any
"""A user's value, or a strategy of such values."""

_CYCLE: Final = (0.5, 1.25, 1.75)
_MOST_DRAWN: Final = 48
"""The size up to which elements are drawn one by one; larger arrays come from one seed."""

_MOST_STEPS: Final = 1024
"""The maximum number of small steps; together they are an eighth of the range."""


def hypothesis_for(name: str) -> Any:
    """Import ``hypothesis.strategies`` for the function ``name``.

    Raises
    ------
    MissingPackageError
        Hypothesis is not installed.
    """
    try:
        import hypothesis.strategies
    except ImportError as error:
        raise MissingPackageError(
            f"{name}: hypothesis is not installed. Install it with `pip install hypothesis`; the"
            " laws themselves do not need it."
        ) from error
    return hypothesis.strategies


def check_strategy(name: str, argument: str, value: object) -> None:
    """Check that a value is a strategy."""
    kind = hypothesis_for(name).SearchStrategy
    if not isinstance(value, kind):
        raise ArgumentError(
            f"{name}: {argument} has to be a strategy of hypothesis, got {value!r}, of type"
            f" {type(value).__name__}."
        )


def lattice(count: int, low: float, high: float) -> np.ndarray[Any, Any]:
    """Return smooth points in a range: ascending, different, and not integers if possible."""
    numbers = np.array([_CYCLE[k % 3] + 2 * (k // 3) for k in range(count)])
    if count and (low > 0.25 or high < numbers[-1] + 0.25):
        whole = 2.0 if count <= 3 else numbers[-1] + 0.5
        numbers = low + (high - low) * numbers / whole
    return numbers


def _smooth_arrays(
    name: str, dtype: np.dtype[Any], shape: Shape, low: float, high: float
) -> Strategy:
    """Draw inexact arrays with elements in a range."""
    st = hypothesis_for(name)
    count = prod(shape) * (2 if dtype.kind == "c" else 1)
    base = lattice(count, low, high)
    width = high - low
    if count <= _MOST_DRAWN:
        distance = st.floats(0, width, allow_nan=False)
        steps = st.integers(-_MOST_STEPS, _MOST_STEPS)
        coarse, fine = [st.lists(x, min_size=count, max_size=count) for x in (distance, steps)]
        moves = st.tuples(coarse, fine).map(
            lambda pair: np.array(pair[0]) + np.array(pair[1]) * (width / 8 / _MOST_STEPS)
        )
    else:
        moves = st.integers(0, 2**32 - 1).map(_moves(count, width))

    def assembled(distances: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        numbers = low + (base - low + distances.reshape(count)) % width if width else base
        if dtype.kind == "c":
            numbers = numbers[::2] + 1j * numbers[1::2]
            return numbers.reshape(shape).astype(dtype)
        array: np.ndarray[Any, Any] = numbers.reshape(shape).astype(dtype)
        return np.asarray(np.clip(array, dtype.type(low), dtype.type(high)))

    return moves.map(assembled)


def _moves(count: int, width: float) -> Callable[[int], np.ndarray[Any, Any]]:
    def moves(seed: int) -> np.ndarray[Any, Any]:
        if seed == 0:
            return np.zeros(count)
        return np.random.default_rng(seed).uniform(0, width, count)

    return moves


_KINDS: Final = ("float64", "float32", "float16", "complex128", "complex64")
_RANGE: Final = (-4.0, 4.0)
_SCALES: Final = (1e-3, 10.0, 30.0, 1e3, 1e6)
"""The scales of some draws by default: formulas have other branches near 0 and far away."""
_USUAL: Final = 2
"""The number of draws in the usual range for each draw of another scale."""
_INTEGERS: Final = 8


def dtypes(kinds: str = "f", *, min_bits: int = 32) -> Strategy:
    """Draw inexact dtypes; the simplest is float64.

    Parameters
    ----------
    kinds : str
        ``"f"`` for floating, ``"c"`` for complex dtypes, ``"fc"`` for both.
    min_bits : int
        The minimum width of a real number; 16 includes float16.

    Returns
    -------
    strategy
        Of NumPy dtypes.

    Raises
    ------
    ArgumentError
        No dtype fits.
    MissingPackageError
        Hypothesis is not installed.

    Examples
    --------
    >>> dtypes("c")
    sampled_from([dtype('complex128'), dtype('complex64')])
    """
    bits = integer(min_bits, "strategies.dtypes", "min_bits")
    chosen = [np.dtype(name) for name in _KINDS if np.dtype(name).kind in str(kinds)]
    chosen = [dtype for dtype in chosen if dtype.type(0).real.itemsize * 8 >= bits]
    if not chosen or set(str(kinds)) - set("fc"):
        raise ArgumentError(
            f"strategies.dtypes: no inexact dtype is of the kinds {kinds!r} with {bits} bits."
            " Kinds are 'f', 'c' or 'fc', and bits 16, 32 or 64."
        )
    return hypothesis_for("strategies.dtypes").sampled_from(chosen)


def tensors(dtype: Drawn = np.float64, shape: Drawn = (), elements: Drawn = None) -> Strategy:
    """Draw tensors, which shrink towards smooth points: 0.5, 1.25, 1.75, … in order.

    Parameters
    ----------
    dtype : dtype, or strategy of dtypes
    shape : int, tuple of int, or strategy of them
        A strategy is, for example, ``hypothesis.extra.numpy.array_shapes()``.
    elements : pair of numbers, or strategy, optional
        The least and the greatest element (for real and imaginary parts), or a strategy of
        elements. By default elements are from -4 to 4 in two draws of three, otherwise up to 1e-3,
        10, 30, 1e3 or 1e6. Integers are from -8 to 8.

    Returns
    -------
    strategy
        Of tensors.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        An argument is neither a value nor a strategy of values.
    MissingPackageError
        Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(tensors(shape=4), lambda x: True)
    Tensor([0.5 , 1.25, 1.75, 2.5 ])
    >>> find(tensors(np.float32, (2,), (0, 1)), lambda x: x[0] > 0.5)
    Tensor([0.75 , 0.625], dtype=float32)
    """
    drawn = _drawn_tensors("strategies.tensors", dtype, shape, elements)
    if elements is not None:
        return drawn
    st = hypothesis_for("strategies.tensors")
    scales = st.sampled_from([_RANGE[1]] * (_USUAL * len(_SCALES)) + [*_SCALES])
    return st.tuples(drawn, scales).map(lambda pair: _scaled(*pair))


def _scaled(x: Tensor, greatest: float) -> Tensor:
    """Scale elements of the usual range, if the dtype is inexact and can hold the result."""
    dtype = dtype_of(x)
    if greatest == _RANGE[1] or not is_inexact(dtype) or greatest > float(np.finfo(dtype).max):
        return x
    return tensor(np.asarray(x) * dtype.type(greatest / _RANGE[1]))


def _drawn_tensors(name: str, dtype: Drawn, shape: Drawn, elements: Drawn) -> Strategy:
    """Draw tensors, for the strategy ``name``; see ``tensors``."""
    st = hypothesis_for(name)
    kinds = dtype if isinstance(dtype, st.SearchStrategy) else st.just(dtype_for(name, dtype))
    if not isinstance(shape, st.SearchStrategy):
        shape = st.just(shape_argument(shape, name))
    if not isinstance(elements, st.SearchStrategy):
        _limits(name, elements)
    both = st.tuples(kinds, shape)
    return both.flatmap(
        lambda pair: _arrays(
            name, dtype_for(name, pair[0]), shape_argument(pair[1], name), elements
        )
    ).map(tensor)


def _arrays(name: str, dtype: np.dtype[Any], shape: Shape, elements: Drawn) -> Strategy:
    st = hypothesis_for(name)
    if (elements is not None and isinstance(elements, st.SearchStrategy)) or not is_inexact(dtype):
        from hypothesis.extra import numpy as hnp

        if elements is None or isinstance(elements, tuple | list):
            low, high = (-_INTEGERS, _INTEGERS) if elements is None else _limits(name, elements)
            low = max(low, 0) if dtype.kind in "ub" else low
            elements = st.booleans() if dtype.kind == "b" else st.integers(int(low), int(high))
        return hnp.arrays(dtype, shape, elements=elements)
    low, high = _limits(name, elements)
    return _smooth_arrays(name, dtype, shape, low, high)


def dtype_for(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    try:
        made = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"{name}: dtype has to be a dtype or a strategy, got {dtype!r}.") from None
    if made not in DTYPES:
        raise DtypeError(f"{name}: tensors cannot have the dtype {made}.")
    return made


def _limits(name: str, elements: Drawn) -> tuple[float, float]:
    if elements is None:
        return _RANGE
    if not isinstance(elements, tuple | list) or len(elements) != 2:
        raise ArgumentError(
            f"{name}: elements has to be a pair of numbers, the least and the greatest, or a"
            f" strategy, got {elements!r}."
        )
    low, high = [real_number(limit, name, "elements") for limit in elements]
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ArgumentError(f"{name}: elements has to be a finite range, got {elements!r}.")
    return low, high


def positive(dtype: Drawn = np.float64, shape: Drawn = ()) -> Strategy:
    """Draw tensors with elements from 1/16 to 16; see ``tensors``.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(positive(shape=2), lambda x: True)
    Tensor([0.5 , 1.25])
    """
    return _drawn_tensors("strategies.positive", dtype, shape, (1 / 16, 16.0))


def sorted(dtype: Drawn = np.float64, shape: Drawn = ()) -> Strategy:
    """Draw tensors that ascend along the last axis; see ``tensors``.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(sorted(shape=3), lambda x: x[0] < 0)
    Tensor([-3.25,  0.5 ,  1.25])
    """
    strategy = _drawn_tensors("strategies.sorted", dtype, shape, None)
    return strategy.map(lambda x: tensor(np.sort(np.asarray(x))) if x.shape else x)


def probabilities(dtype: Drawn = np.float64, shape: Drawn = (3,)) -> Strategy:
    """Draw tensors of probabilities: positive, with the sum 1 along the last axis; see ``tensors``.

    Raises
    ------
    ArgumentError
        The last axis is empty or missing.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(probabilities(shape=2), lambda p: True)
    Tensor([0.2857..., 0.7142...])
    """
    strategy = _drawn_tensors("strategies.probabilities", dtype, shape, (1 / 16, 16.0))

    def normalized(x: Tensor) -> Tensor:
        if not x.shape or not x.shape[-1]:
            raise ArgumentError(
                f"strategies.probabilities: the shape {x.shape} has no last axis with elements, so"
                " nothing can sum to 1."
            )
        weights = np.asarray(x)
        return tensor(weights / weights.sum(-1, keepdims=True))

    if not isinstance(shape, hypothesis_for("strategies.probabilities").SearchStrategy):
        normalized(tensor(np.ones(shape_argument(shape, "strategies.probabilities"))))
    return strategy.map(normalized)


def keys() -> Strategy:
    """Draw random keys; the simplest is ``fg.random.key(0)``.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(keys(), lambda key: True)
    Tensor([0, 0], dtype=uint64)
    """
    return hypothesis_for("strategies.keys").integers(0, 2**32 - 1).map(key)


def pytrees(leaves: Strategy | None = None, *, max_leaves: int = 6) -> Strategy:
    """Draw pytrees of dicts, tuples, lists and None; the simplest is a leaf.

    Parameters
    ----------
    leaves : strategy, optional
        A strategy of leaves; by default float64 tensors with up to two axes.
    max_leaves : int

    Returns
    -------
    Strategy

    Raises
    ------
    ArgumentError
        ``leaves`` is not a strategy, or ``max_leaves`` is less than 1.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(pytrees(), lambda tree: isinstance(tree, dict) and len(tree) == 1)
    {'a': Tensor(0.5)}
    """
    name = "strategies.pytrees"
    st = hypothesis_for(name)
    if leaves is None:
        shapes = st.sampled_from([(), (2,), (3, 2)])
        leaves = _drawn_tensors(name, np.float64, shapes, None)
    check_strategy(name, "leaves", leaves)
    most = integer(max_leaves, name, "max_leaves")
    if most < 1:
        raise ArgumentError(f"{name}: max_leaves has to be at least 1, got {most}.")

    def nested(children: Strategy) -> Strategy:
        optional = children | st.none()
        listed = st.lists(optional, min_size=1, max_size=3)
        named = st.dictionaries(st.sampled_from("abcd"), children, min_size=1, max_size=3)
        return named | listed.map(tuple) | listed

    return st.recursive(leaves, nested, max_leaves=most)


def like(tree: Pytree, elements: Drawn = None) -> Strategy:
    """Draw pytrees with the structure, shapes and dtypes of another: tangents and cotangents.

    Parameters
    ----------
    tree : pytree
        The example. Leaves that are neither floating-point nor complex stay unchanged.
    elements : pair of numbers, or strategy, optional
        See ``tensors``.

    Returns
    -------
    Strategy

    Examples
    --------
    >>> import funcgrad as fg
    >>> from hypothesis import find
    >>> find(like({"w": fg.tensor([7.0, 8.0]), "n": 3}), lambda t: True)
    {'n': 3, 'w': Tensor([0.5 , 1.25])}
    """
    name = "strategies.like"
    st = hypothesis_for(name)
    leaves, structure = flatten(tree)
    strategies = []
    for leaf in leaves:
        value = tensor(leaf)
        inexact = is_inexact(dtype_of(value))
        drawn = (
            _drawn_tensors(name, value.dtype, value.shape, elements) if inexact else st.just(leaf)
        )
        strategies.append(drawn)
    return st.tuples(*strategies).map(lambda xs: unflatten(structure, xs))
