"""The user's differential equation as lists of tensors, with errors in the user's terms.

>>> import funcgrad as fg
>>> system = System.read(lambda y, t, rate: {"x": -rate * y["x"]}, {"x": 1}, 2)
>>> system.slope(system.start, 0.0, system.parameters)
[Tensor(-2.)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import handed, placed
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._transforms.arguments import check_function, values_of
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor, wrap

Slope = Callable[[list[Tensor], Tensor, list[Tensor]], list[Tensor]]
"""Right-hand side of the equation: ``(leaves of y, time, parameters) -> leaves of the slope``."""


_ORDERS: Final = MappingProxyType(
    {
        "odeint": " It is called as func(y, t, *args): y first, unlike SciPy's solve_ivp.",
        "solve_ivp": " It is called as fun(t, y, *args): t first, unlike odeint.",
    }
)


@dataclass(frozen=True, slots=True)
class System:
    """A differential equation, its start and its parameters.

    Attributes
    ----------
    function : callable
    state, arguments : Structure
        The structures of ``y0`` and of ``args``.
    start, parameters : list of Tensor
        The leaves of ``y0`` and of ``args``.
    name : {"odeint", "solve_ivp"}
        The solver, for errors; the second one calls the function with the time first.
    """

    function: Callable[..., Any]
    state: Structure
    arguments: Structure
    start: list[Tensor]
    parameters: list[Tensor]
    name: str = "odeint"

    @classmethod
    def read(
        cls, function: Callable[..., Any], y0: Any, *args: Any, name: str = "odeint"
    ) -> System:
        """Read the arguments of a solver: the function, the start and the parameters."""
        check_function(name, function)
        leaves, state = pytrees.flatten(y0)
        start = [wrap(value) for value in values_of(name, leaves, state, lambda: "y0")]
        for leaf, path in zip(start, state.paths(), strict=True):
            if leaf.dtype.kind not in "biufc":
                raise placed(DtypeError, f"{name}: y0{path} is not numeric: it is {leaf.dtype}.")
        start = [
            leaf.astype(leaf.dtype if leaf.dtype.kind in "fc" else np.float64) for leaf in start
        ]
        others, arguments = pytrees.flatten(args)
        parameters = handed(values_of(name, others, arguments, lambda: "args"))
        return cls(function, state, arguments, start, [wrap(value) for value in parameters], name)

    def tree(self, leaves: Sequence[Tensor]) -> Any:
        """Make a tree like ``y0`` from leaves."""
        return pytrees.unflatten(self.state, leaves)

    def slope(self, y: list[Tensor], t: Tensor, parameters: list[Tensor]) -> list[Tensor]:
        """Call the user's function, and check the slope against ``y0``."""
        try:
            out = self.called(self.function, y, t, parameters)
        except FuncgradError as error:
            error.add_note(f"In the function of {self.name}." + _ORDERS[self.name])
            raise
        if isinstance(out, list | tuple) and self.name == "solve_ivp" and self._is_vector(y):
            out = _joined(out)
        leaves, structure = pytrees.flatten(out)
        if structure != self.state:
            try:
                pytrees.flatten_like(self.state, out, f"{self.name}: the slope")
            except FuncgradError as error:
                vector = " A y that is one vector starts with fg.tensor([...])."
                is_vector = isinstance(out, Tensor) and self.state.num_leaves == out.size
                raise placed(
                    TreeError,
                    f"{error}. The function has to return the slope of y, a tree like y0."
                    + vector * is_vector,
                ) from None
        values = values_of(self.name, leaves, structure, lambda: "the slope")
        return [
            self._checked_slope(place, wrap(value), leaf)
            for place, (value, leaf) in enumerate(zip(values, y, strict=True))
        ]

    def called(
        self, function: Callable[..., Any], y: list[Tensor], t: Tensor, parameters: list[Tensor]
    ) -> Any:
        """Call a function of the time, the solution and the parameters in the solver's order."""
        args = pytrees.unflatten(self.arguments, parameters)
        if self.name == "odeint":
            return function(self.tree(y), t, *args)
        return function(t, self.tree(y), *args)

    def _is_vector(self, y: list[Tensor]) -> bool:
        return len(y) == 1 and y[0].ndim == 1 and self.state == pytrees.flatten(0.0)[1]

    def _checked_slope(self, place: int, slope: Tensor, leaf: Tensor) -> Tensor:
        if slope.shape != leaf.shape:
            raise placed(
                ShapeError,
                f"{self.name}: the function returned a slope{self.state.paths()[place]} of shape"
                f" {slope.shape}, but y0 has shape {leaf.shape} there. Each element of y needs"
                f" its own slope.{_ORDERS[self.name]}",
            )
        if slope.dtype == leaf.dtype:
            return slope
        if np.result_type(slope.dtype, leaf.dtype) != leaf.dtype and not _is_weak(slope, leaf):
            raise placed(
                DtypeError,
                f"{self.name}: the function returned a slope{self.state.paths()[place]} of dtype"
                f" {slope.dtype}, but y0 has {leaf.dtype} there. Give y0 in that precision, or"
                f" return slope.astype({leaf.dtype.name!r}).",
            )
        return slope.astype(leaf.dtype)


def _is_weak(slope: Tensor, leaf: Tensor) -> bool:
    """Whether a slope is a Python number or an integer, so that it is converted to y's dtype."""
    kind = slope.dtype.kind
    return kind in "biu" or (isinstance(slope._value, float) and leaf.dtype.kind in "fc")


def _joined(out: Sequence[Any]) -> Any:
    """The slope of a vector as one: SciPy's users return a list of its elements."""
    if all(isinstance(x, Tensor | np.generic | int | float | complex) for x in out):
        return fnp.asarray(out)
    return out


def real_dtype(leaves: Sequence[Tensor]) -> np.dtype[Any]:
    """Return the dtype of the real parts of a state, promoted over its leaves.

    >>> real_dtype([wrap(np.zeros(2, np.complex64)), wrap(np.float32(1.0))])
    dtype('float32')
    """
    return np.result_type(np.float16, *[np.finfo(leaf.dtype).dtype for leaf in leaves])


def times_of(ts: ArrayLike, name: str = "odeint", what: str = "ts") -> Tensor:
    """Check that the times of a solution are a vector of real numbers, and return it.

    Raises
    ------
    ShapeError, DtypeError
        ``ts`` is not a vector of real numbers.
    ArgumentError
        ``ts`` of ``odeint`` is empty.
    """
    value = concrete(operand(ts, name))
    shape, dtype = shape_of(value), dtype_of(value)
    if len(shape) != 1:
        raise placed(
            ShapeError,
            f"{name}: {what} has to be a vector of times, got an array of shape {shape}.",
        )
    if not shape[0] and name == "odeint":
        raise placed(ArgumentError, "odeint: ts is empty; its first time belongs to y0.")
    if dtype.kind not in "biuf":
        raise placed(DtypeError, f"{name}: {what} has to hold real numbers, got {dtype}.")
    return wrap(value) if dtype.kind == "f" else fnp.astype(wrap(value), np.float64)
