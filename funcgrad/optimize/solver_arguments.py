"""Arguments of solvers: the start and the bounds as vectors, and checks of options.

>>> import numpy as np
>>> start, unravel = vector_of({"a": 1.0, "b": np.ones(2)}, "minimize")
>>> start, unravel(2.0 * start)["b"]
(Tensor([1., 1., 1.]), Tensor([2., 2.]))
>>> bounds_of((0.0, {"a": None, "b": 5.0}), {"a": 1.0, "b": np.ones(2)}, "minimize")
(Tensor([0., 0., 0.]), Tensor([inf,  5.,  5.]))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Real
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._staging.static_arguments import parts_of
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TreeError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.unknowns import Unknown
from funcgrad.scipy.optimize.problem import check_call
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel, scalars_as_vector

Vector: TypeAlias = Tensor
"""The elements of all leaves of the unknown."""

_WAYS: Final = ("implicit", "steps")


def as_vector(x0: Any) -> Any:
    """The start; a list of scalars, also of traced ones, becomes a vector, as in SciPy."""
    if isinstance(x0, list) and x0 and all(isinstance(number, Real) for number in x0):
        return np.asarray(x0, float)
    return scalars_as_vector(x0)


def vector_of(x0: Any, name: str, is_complex: bool = False) -> tuple[Vector, Callable[[Any], Any]]:
    """The start as one vector, and the function that makes a tree of such a vector.

    Raises
    ------
    DtypeError
        A leaf is an integer or a truth value, or complex where that has no meaning.
    """
    unknown, values = Unknown.read(name, "x0", x0)
    for place, spec in enumerate(unknown.specs):
        if spec.dtype.kind == "c" and not is_complex:
            raise placed(
                DtypeError,
                f"{name}: the dtype of x0{unknown.structure.paths()[place]} is {spec.dtype}, but"
                " the unknown has to be real. Take the real and the imaginary parts as unknowns.",
            )
    return ravel(unknown.tree(values))


def form_of(x0: object) -> Hashable:
    """A key of the structure, shapes and dtypes of the unknown."""
    leaves, structure = pytrees.flatten(x0)
    arrays = [fnp.asarray(leaf) for leaf in leaves]
    specs = tuple([(array.shape, array.dtype.str) for array in arrays])
    return structure, parts_of(structure), specs


def bounds_of(bounds: Any, x0: Any, name: str) -> tuple[Vector, Vector] | None:
    """The bounds as two vectors, or None without bounds.

    Raises
    ------
    ArgumentError, TreeError, ShapeError
        The bounds are not a pair, do not fit the unknown, or a lower one is above the upper one.
    """
    if bounds is None:
        return None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        bounds = attrgetter("lb", "ub")(bounds)
    elif name == "minimize" and _are_pairs(bounds, x0):
        sides = zip(*bounds, strict=True)
        bounds = tuple(
            [
                fnp.stack([fnp.asarray(infinite if end is None else end) for end in side])
                for side, infinite in zip(sides, (-np.inf, np.inf), strict=True)
            ]
        )
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise placed(
            ArgumentError,
            f"{name}: bounds are a pair (lower, upper), each None, a number, or a tree of arrays"
            f" like x0, or scipy.optimize.Bounds; got {bounds!r}.",
        )
    low, high = (
        _side(bound, infinite, x0, name)
        for bound, infinite in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    crossed = concrete(fnp.any(low > high))
    if isinstance(crossed, (bool, np.bool_)) and crossed:
        raise placed(ArgumentError, f"{name}: a lower bound is greater than the upper bound.")
    return low, high


def _are_pairs(bounds: object, x0: ArrayLike) -> bool:
    """Whether bounds are a pair for each element of an array, as SciPy's."""
    if not isinstance(bounds, Sequence) or np.ndim(x0) != 1 or len(bounds) != np.shape(x0)[0]:
        return False
    if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in bounds):
        return False
    return isinstance(bounds, list) or all(isinstance(pair, tuple) for pair in bounds)


def check_feasible(x: Vector, bounds: tuple[Vector, Vector] | None, name: str) -> None:
    """Check that a start lies within bounds, where both are known.

    Raises
    ------
    ArgumentError
        It does not.
    """
    if bounds is None:
        return
    outside = concrete((x < bounds[0]) | (x > bounds[1]))
    if type(outside) in RAW and np.any(outside):
        place = int(np.argmax(outside))
        raise placed(
            ArgumentError,
            f"{name}: x0 is infeasible: its element {place}, {float(concrete(x)[place]):.6g}, lies"
            " outside of its bounds. Start within them, for example at np.clip(x0, lower, upper).",
        )


def _side(bound: Any, infinite: float, x0: Any, name: str) -> Vector:
    """One bound of each element of the unknown."""
    leaves, structure = pytrees.flatten(x0)
    if isinstance(bound, Sequence) and leaves and leaves[0] is x0:
        bound = fnp.asarray(bound)  # a list for the elements of one array, as in SciPy
    try:
        sides = pytrees.broadcast_prefix(bound, structure, "bounds", lambda leaf: leaf is None)
    except TreeError as error:
        raise placed(TreeError, f"{name}: the bounds do not fit x0: {error}") from None
    placed_sides = []
    for side, leaf in zip(sides, leaves, strict=True):
        shape, dtype = np.shape(leaf), fnp.asarray(leaf).dtype
        value = fnp.asarray(operand(infinite if side is None else side, f"{name}: bounds"))
        try:
            placed_sides.append(fnp.broadcast_to(value.astype(dtype), shape))
        except ShapeError:
            raise placed(
                ShapeError,
                f"{name}: bounds of shape {value.shape} do not fit an unknown of shape {shape}.",
            ) from None
    return ravel(placed_sides)[0]


def off_minimum(x: Tensor, slope: Tensor, bounds: tuple[Any, Any] | None) -> Tensor:
    """A residual that is zero at a minimum within bounds.

    It is the slope of an unknown that is free, and the distance from the bound of one that the
    slope holds there. An unknown at a bound where its slope is zero counts as free.
    """
    if bounds is None or bounds[0] is None:
        return slope
    low, high = bounds
    wanted = x - slope
    inside = fnp.where(wanted > high, x - high, slope)
    return fnp.where((wanted < low) | (low == high), x - low, inside)


def residuals_of(tree: Any, name: str) -> Vector:
    """Residuals as one real vector: of complex ones the real and then the imaginary parts."""
    leaves = pytrees.leaves(tree)
    real = [
        component
        for leaf in map(fnp.asarray, leaves)
        for component in ((leaf.real, leaf.imag) if leaf.dtype.kind == "c" else (leaf,))
    ]
    vector = ravel(real)[0]
    if vector.dtype.kind != "f":
        raise placed(
            DtypeError, f"{name}: fun has to return floating-point residuals, got {vector.dtype}."
        )
    return vector


def checked(
    name: str,
    fun: Callable[..., Any],
    x0: object,
    args: object,
    derivative: object,
    tangent_solve: object = direct_solve,
) -> tuple[Any, ...]:
    """Check arguments of all solvers; return the further arguments of the function as a tuple.

    Raises
    ------
    FunctionError, ArgumentError
        ``fun`` is not a function of these arguments, or ``derivative`` is unknown.
    """
    check_function(name, fun)
    check_function(f"{name} with tangent_solve", tangent_solve)
    if not isinstance(derivative, str) or derivative not in _WAYS:
        raise placed(
            ArgumentError,
            f"{name}: derivative has to be 'implicit' or 'steps', got {derivative!r}.",
        )
    more = args if isinstance(args, tuple) else (args,)  # as in SciPy
    check_call(name, fun, x0, more)
    return more


def chosen(name: str, word: str, value: object, options: Sequence[str]) -> str:
    """Check that an option is one of several words, in any case.

    Raises
    ------
    ArgumentError
        It is not.
    """
    if isinstance(value, str) and value.lower() in options:
        return value.lower()
    words = ", ".join(map(repr, options))
    raise placed(ArgumentError, f"{name}: {word} has to be one of {words}, got {value!r}.")


def with_options(name: str, options: object, **named: Any) -> dict[str, Any]:
    """Options by SciPy's names in a dict, for those that are not passed by name.

    ``named`` has for each option its value; of several names of one option the last.

    Raises
    ------
    ArgumentError
        An option is unknown, or passed twice.
    """
    merged = dict(named)
    if options is None:
        return merged
    if not isinstance(options, Mapping):
        raise placed(ArgumentError, f"{name}: options has to be a dict, got {options!r}.")
    for word, value in options.items():
        if word == "disp":
            continue
        if word not in named:
            words = ", ".join(map(repr, named))
            raise placed(
                ArgumentError, f"{name}: there is no option {word!r}. The options are {words}."
            )
        if merged[word] is not None and value is not None:
            raise placed(ArgumentError, f"{name}: {word} is passed twice, also in options.")
        merged[word] = value
    return merged


def matrix_of(name: str, value: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Tensor:
    """A matrix that a user's function has returned, dense or sparse, as a constant.

    Raises
    ------
    ShapeError
        It has another shape.
    """
    dense = value.toarray() if hasattr(value, "toarray") else value
    matrix = fnp.asarray(dense)
    if matrix.size == shape[0] * shape[1] and matrix.ndim < 2:
        matrix = fnp.reshape(matrix, shape)  # of one unknown, or of one residual
    if matrix.shape != shape:
        raise placed(
            ShapeError,
            f"{name}: the matrix of derivatives has shape {matrix.shape}, but has to have"
            f" {shape}: a row for each result, and a column for each element of the unknown.",
        )
    return stop_gradient(matrix.astype(dtype))
