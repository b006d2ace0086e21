"""Ipopt on functions: gradients, sparse Jacobians and sparse Hessians are made here.

>>> import pytest
>>> cyipopt = pytest.importorskip("cyipopt")
>>> import funcgrad.numpy as fnp
>>> def nearest(x):
...     return fnp.sum((x - fnp.array([2.0, 1.0])) ** 2)
>>> found = minimize(nearest, np.zeros(2), constraints=lambda x: fnp.sum(x**2), limits=(None, 1.0))
>>> found.success, fnp.allclose(found.x, np.array([2.0, 1.0]) / 5**0.5)
(True, Tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._hints.lookup import answering
from funcgrad._hints.optional_packages import optional_package
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.interop.flat_function import Flat, Vector
from funcgrad.sparse.hessians import hessian
from funcgrad.sparse.jacobians import jacobian
from funcgrad.sparse.patterns import Pattern
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel

__all__ = ["IpoptProblem", "IpoptResult", "minimize"]

Structure: TypeAlias = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

_ENDLESS: Final = 1e20
"""Ipopt's infinity: a bound of this size is none."""


class IpoptProblem:
    """The callbacks of a problem, as an argument ``problem_obj`` of ``cyipopt.Problem``.

    It minimizes ``f(x)`` subject to bounds of ``constraints(x)``. The Jacobian of the constraints
    and the Hessian of the Lagrangian are sparse; their patterns are found at ``init``.

    Parameters
    ----------
    f : callable
        Takes a pytree like ``init`` and returns a number.
    init : pytree of real floating arrays
        An example of the unknown, such as the starting point.
    constraints : callable, optional
        Takes a pytree like ``init`` and returns a pytree of real arrays.

    Attributes
    ----------
    flat : Flat
        The objective of flat vectors, which also converts trees to vectors and back.
    count : int
        The number of constraints.
    """

    def __init__(
        self, f: Callable[..., Any], init: Any, constraints: Callable[..., Any] | None = None
    ) -> None:
        check_function("interop.ipopt", f)
        if constraints is not None:
            check_function("interop.ipopt", constraints)
        self.flat = Flat(f, init)
        start = self.flat.ravel(init)
        values = [] if constraints is None else constraints(self.flat.unravel(start))
        empty, self._unravel = ravel(values)
        self.count = empty.size

        def restrained(x: Tensor) -> Tensor:
            return fnp.zeros(0) if constraints is None else ravel(constraints(self._tree(x)))[0]

        def lagrangian(x: Tensor, factor: Tensor, multipliers: Tensor) -> Tensor:
            return factor * f(self._tree(x)) + fnp.sum(multipliers * restrained(x))

        self._constraints: Callable[..., Any] = jit(restrained)
        self._jacobian = jacobian(restrained)
        self._hessian = hessian(lagrangian)
        weights = np.float64(1.0), np.ones(self.count)
        self._patterns = (
            self._jacobian.pattern(start),
            Pattern.of(self._hessian.lower(start, *weights)),
        )

    def _tree(self, x: Tensor) -> Any:
        return self.flat._unravel(x)

    def objective(self, x: Vector) -> float:
        """The value of the function."""
        return float(self.flat.value(x))

    def gradient(self, x: Vector) -> Vector:
        """The gradient of the function."""
        return self.flat.grad(x)

    def constraints(self, x: Vector) -> Vector:
        """The values of the constraints, flat."""
        return np.array(self._constraints(np.array(x)), np.float64)

    def jacobianstructure(self) -> Structure:
        """Rows and columns of the nonzeros of ``jacobian``."""
        return self._patterns[0].row_numbers, self._patterns[0].indices

    def jacobian(self, x: Vector) -> Vector:
        """The nonzeros of the Jacobian of the constraints."""
        return self._elements(self._jacobian(np.array(x)), self._patterns[0])

    def hessianstructure(self) -> Structure:
        """Rows and columns of the nonzeros of ``hessian``, in the lower triangle."""
        return self._patterns[1].row_numbers, self._patterns[1].indices

    def hessian(self, x: Vector, multipliers: Vector, factor: float) -> Vector:
        """The nonzeros of the Hessian of ``factor * f(x) + multipliers @ constraints(x)``."""
        lower = self._hessian.lower(np.array(x), np.float64(factor), np.array(multipliers))
        return self._elements(lower, self._patterns[1])

    def _elements(self, matrix: Any, pattern: Pattern) -> Vector:
        if matrix.nnz != pattern.nnz:
            raise ArgumentError(
                "interop.ipopt: the function takes another path at this point, on which other"
                " elements of its derivatives are nonzero, and Ipopt asks for their places once."
                " Choose with fnp.where or fg.cond instead of `if`."
            )
        return matrix.data

    def limits(self, pair: Any, like: str) -> tuple[Vector, Vector]:
        """Lower and upper bounds as vectors, of the unknown or of the constraints.

        Raises
        ------
        ArgumentError, ShapeError
            The argument is not a pair; or a bound has another shape.
        """
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise ArgumentError(
                f"interop.ipopt: {like} has to be a pair (lower, upper), got {pair!r}. Write None"
                " for no bound."
            )
        size = self.count if like == "limits" else self.flat.size
        sides = []
        for bound, endless in zip(pair, (-_ENDLESS, _ENDLESS), strict=True):
            vector = np.asarray(ravel(endless if bound is None else bound)[0], np.float64)
            if vector.size not in (1, size):
                raise ShapeError(
                    f"interop.ipopt: a bound in {like} has {vector.size} elements; pass a number or"
                    f" a tree of {size}, as the {'constraints' if like == 'limits' else 'unknown'}."
                )
            sides.append(np.array(np.broadcast_to(vector, (size,))))
        return sides[0], sides[1]

    def of_multipliers(self, vector: Vector) -> Any:
        """Multipliers as a tree like the result of the constraints."""
        return self._unravel(vector)


@dataclass(frozen=True, slots=True)
class IpoptResult:
    """A minimum that Ipopt has found.

    Attributes
    ----------
    x : pytree of Tensor
    fun : float
        The value of the function.
    success : bool
        Whether x solves the problem, at least to the acceptable tolerance.
    status : int
        Ipopt's status: 0 if it solved the problem, 1 to the acceptable tolerance.
    message : str
    multipliers : pytree of Tensor
        The multipliers of the constraints, as their results; None without constraints.
    """

    x: Any
    fun: float
    success: bool
    status: int
    message: str
    multipliers: Any


@answering
def minimize(
    f: Callable[..., Any],
    init: Any,
    *,
    bounds: Any = (None, None),
    constraints: Callable[..., Any] | None = None,
    limits: Any = (0.0, 0.0),
    options: Mapping[str, Any] | None = None,
) -> IpoptResult:
    """Minimize a function of a pytree by Ipopt, subject to bounds and nonlinear constraints.

    Ipopt is an interior-point method for problems of up to millions of unknowns whose derivatives
    are sparse. The gradient, the sparse Jacobian of the constraints and the sparse Hessian of the
    Lagrangian follow from the functions. Needs ``pip install cyipopt``.

    Parameters
    ----------
    f : callable
        Takes a pytree like ``init`` and returns a number.
    init : pytree of real floating arrays
        The starting point.
    bounds : pair
        The least and the greatest x: scalars, trees like ``init``, or None.
    constraints : callable, optional
        Takes a pytree like ``init`` and returns a pytree of real arrays.
    limits : pair
        The least and the greatest values of the constraints: scalars, trees like their result, or
        None. By default they are zero.
    options : mapping, optional
        Ipopt's options by name, such as ``{"tol": 1e-9, "max_iter": 100}``.

    Returns
    -------
    IpoptResult

    Raises
    ------
    MissingPackageError
        cyipopt is not installed.
    ArgumentError, ShapeError
        A pair of bounds is not a pair, or a bound does not fit; or a function takes another path by
        ``if`` at another point, and has other nonzeros there.

    Notes
    -----
    Wächter, Biegler, "On the implementation of an interior-point filter line-search algorithm for
    large-scale nonlinear programming", 2006.

    Examples
    --------
    >>> import pytest
    >>> cyipopt = pytest.importorskip("cyipopt")
    >>> found = minimize(lambda x: fnp.sum((x - 2.0) ** 2), np.zeros(2), bounds=(None, 1.0))
    >>> fnp.allclose(found.x, 1.0)
    Tensor(True)
    """
    cyipopt = optional_package("cyipopt", "interop.ipopt.minimize: cyipopt is not installed")
    callbacks = IpoptProblem(f, init, constraints)
    sides = callbacks.limits(bounds, "bounds"), callbacks.limits(limits, "limits")
    problem = cyipopt.Problem(
        n=callbacks.flat.size,
        m=callbacks.count,
        problem_obj=callbacks,
        lb=sides[0][0],
        ub=sides[0][1],
        cl=sides[1][0],
        cu=sides[1][1],
    )
    for name, value in {"print_level": 0, "sb": "yes", **(options or {})}.items():
        problem.add_option(name, value)
    x, told = problem.solve(callbacks.flat.ravel(init))
    message = told["status_msg"]
    return IpoptResult(
        callbacks.flat.unravel(x),
        float(told["obj_val"]),
        told["status"] in (0, 1),
        int(told["status"]),
        message.decode() if isinstance(message, bytes) else str(message),
        None if constraints is None else callbacks.of_multipliers(told["mult_g"]),
    )


__dir__ = __all__.copy  # completion shows the public names, without the modules
