"""Convert problems in pytrees for SciPy: ravel variables and bounds into vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from math import inf
from types import FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import tree
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.specs import Shape
from funcgrad._hints.optional_packages import optional_package
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FunctionError,
    MissingPackageError,
    ShapeError,
)
from funcgrad.sparse import SparseArray
from funcgrad.tensor.tensor import Tensor, tensor

Tree = TypeVar("Tree")


def scipy_optimize(name: str) -> ModuleType:
    """Import ``scipy.optimize`` for a function, named in the error.

    Raises
    ------
    MissingPackageError
        SciPy is not installed.
    """
    missing = f"{name}: the solver is SciPy's, and it is not installed"
    return optional_package("scipy.optimize", missing)


Vector: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


@dataclass(frozen=True, slots=True)
class Variables:
    """A pytree of variables and the vector of all its elements, in float64.

    Attributes
    ----------
    structure : Structure
    shapes : list of tuple
        The shapes of the leaves.
    dtypes : list of dtype
        The dtypes of the leaves; float64 for integers.
    start : ndarray
        The vector.
    unravel : callable
        From a vector to the tree, with leaves in float64.
    device : Device or str
        Where the leaves are.
    """

    structure: pytrees.Structure
    shapes: list[tuple[int, ...]]
    dtypes: list[np.dtype[Any]]
    start: Vector
    unravel: Callable[[Any], Any]
    device: Any

    @staticmethod
    def read(x0: Any, operation: str) -> Variables:
        """Make the variables of a problem that starts at a tree.

        Raises
        ------
        DtypeError
            A leaf is complex or boolean.
        ShapeError
            ``x0`` has no elements.
        """
        if type(x0) is list and all(isinstance(number, (int, float)) for number in x0):
            x0 = np.array(x0, float)  # as SciPy has it
        leaves, structure = pytrees.flatten(x0)
        values = [tensor(leaf) for leaf in leaves]
        for value, path in zip(values, structure.paths(), strict=True):
            if value.dtype.kind not in "iuf":
                raise DtypeError(
                    f"{operation}: x0{path}: variables are real numbers, not {value.dtype}. Take"
                    " the real and the imaginary part as two of them."
                )
        if not any(value.size for value in values):
            raise ShapeError(f"{operation}: x0 has no elements, so there is nothing to change.")
        wide = [value.astype(np.float64) for value in values]
        vector, unravel = tree.ravel(pytrees.unflatten(structure, wide))
        dtypes = [v.dtype if v.dtype.kind == "f" else np.dtype(np.float64) for v in values]
        shapes, start = [v.shape for v in values], np.array(vector)
        return Variables(structure, shapes, dtypes, start, unravel, vector.device)

    def placed(self, vector: Vector) -> Any:
        """Copy a vector of SciPy's to the device of the leaves; on the host, return it."""
        return vector if self.device == "cpu" else fnp.asarray(vector, device=self.device)

    def of_placed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Let a function of vectors on the device of the leaves take SciPy's vectors."""
        if self.device == "cpu":
            return function

        def of_vectors(*vectors: Vector) -> Any:
            result = function(*map(self.placed, vectors))
            return result.to_scipy() if isinstance(result, SparseArray) else result

        return of_vectors

    def tree_of(self, vector: Vector) -> Any:
        """Convert a vector to a tree with the dtypes of the leaves."""
        leaves, _ = pytrees.flatten(self.unravel(self.placed(vector)))
        pairs = zip(leaves, self.dtypes, strict=True)
        return pytrees.unflatten(self.structure, [leaf.astype(dtype) for leaf, dtype in pairs])


class Found(Protocol[Tree]):
    """SciPy's ``OptimizeResult``, with trees for vectors."""

    x: Tree
    success: bool
    status: int
    message: str
    nfev: int
    nit: int

    def __getattr__(self, name: str, /) -> Any:
        """Any other field, such as ``fun`` and ``jac``."""

    def __getitem__(self, name: str, /) -> Any: ...
    def __contains__(self, name: object, /) -> bool: ...


Limits: TypeAlias = "tuple[Vector, Vector]"
"""The lower and the upper bound of each element."""


def limits_of(bounds: Any, variables: Variables, operation: str) -> Limits | None:
    """Convert a tree of pairs to limits.

    Parameters
    ----------
    bounds : pytree prefix of pairs, or None
        See ``minimize``.
    variables : Variables
    operation : str

    Raises
    ------
    TreeError
        The tree is not a prefix of the tree of variables.
    ShapeError
        A limit does not broadcast to its leaf.
    ArgumentError
        A leaf is not a pair.
    """
    if bounds is None:
        return None
    count = len(variables.start)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # SciPy's own
        return np.broadcast_to(bounds.lb, count), np.broadcast_to(bounds.ub, count)
    single = variables.structure.num_leaves == 1 and variables.structure.paths() == ("",)
    if single and not _is_pair(bounds):
        rows = [_limits(row, (), f"{operation}: bounds[{k}]") for k, row in enumerate(bounds)]
        lower, upper = zip(*rows, strict=True) if rows else ((), ())
        if len(rows) != count:
            raise ShapeError(f"{operation}: {len(rows)} pairs of bounds for {count} variables.")
        return np.array(lower, float), np.array(upper, float)
    pairs = pytrees.broadcast_prefix(
        bounds, variables.structure, f"{operation}: bounds", is_leaf=_is_pair
    )
    lows, highs = [np.zeros(0)], [np.zeros(0)]
    for pair, shape, path in zip(pairs, variables.shapes, variables.structure.paths(), strict=True):
        low, high = _limits(pair, shape, f"{operation}: bounds{path}")
        lows.append(np.ravel(low))
        highs.append(np.ravel(high))
    return np.concatenate(lows), np.concatenate(highs)


def _is_pair(x: object) -> bool:
    """Whether an object is a pair of limits, each a number, an array or None."""
    return isinstance(x, (tuple, list)) and len(x) == 2 and all(map(_is_limit, x))


def _is_limit(x: object) -> bool:
    return x is None or isinstance(x, (int, float, np.ndarray, np.generic, Tensor))


def _limits(pair: Any, shape: Shape, where: str) -> Limits:
    if pair is None:
        pair = (None, None)
    if not _is_pair(pair):
        raise ArgumentError(
            f"{where}: expected None or a pair (lower, upper) of numbers, arrays or None, not"
            f" {pair!r}."
        )
    limits = []
    for limit, default in zip(pair, (-inf, inf), strict=True):
        value = np.asarray(default if limit is None else limit, float)
        try:
            limits.append(np.broadcast_to(value, shape))
        except ValueError:
            raise ShapeError(
                f"{where}: a limit of shape {value.shape} does not fit a leaf of shape {shape}."
            ) from None
    return limits[0], limits[1]


@contextmanager
def progress_bar(wanted: bool, operation: str) -> Iterator[Callable[[float], None]]:
    """Make a function that is called with the value at each step, and shows it if ``wanted``.

    Raises
    ------
    MissingPackageError
        A progress bar is wanted, and tqdm is not installed.
    """
    if not wanted:
        yield lambda value: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise MissingPackageError(
            f"{operation}: progress is shown by tqdm, and it is not installed. Install it with `pip"
            " install tqdm`."
        ) from error

    class Bar(tqdm):  # type: ignore[type-arg]  # whose bars have no items here
        monitor_interval = (
            0  # no thread that looks after bars: where others run, draws go unnoticed
        )

    bar: Any = Bar(desc=operation, unit="step")
    with bar:

        def tell(value: float) -> None:
            bar.set_postfix_str(f"{value:.6g}", refresh=False)
            bar.update()

        yield tell


def check_call(name: str, fun: Callable[..., Any], x0: Any, more: tuple[Any, ...]) -> None:
    """Check that a function takes the tree as one argument, and the further arguments.

    Raises
    ------
    FunctionError
        It does not.
    """
    if isinstance(fun, FunctionType) and not vars(fun):  # a signature takes 20 µs
        code, passed = fun.__code__, 1 + len(more)
        if code.co_argcount == passed == code.co_argcount + code.co_kwonlyargcount:
            return
    try:
        signature(fun).bind(x0, *more)
    except TypeError as error:
        raise FunctionError(
            f"{name}: fun is called as fun(x{', *args' * bool(more)}), x a tree like x0: {error}."
            " Of several variables x0 is a tuple or a dict, and fun takes it as one argument."
        ) from None
    except ValueError:  # a function without a signature
        return
