"""Functions that are minimized, with the derivatives that a user gives, or computed ones.

>>> import funcgrad as fg
>>> fun, users = with_derivatives(lambda x: x @ x, {"jac": lambda x: 2.0 * x})
>>> form = UsersObjective(lambda x: x, tuple(users))
>>> objective = form.objective((fun, *users.values()), fun, ())
>>> objective.hessian(fg.tensor([1.0, 2.0]))
Tensor([[2., 0.],
        [0., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._transforms.arguments import check_function, scalar, unwrap
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.jacobian import jacfwd
from funcgrad._transforms.reverse import value_and_grad
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.optimize.constraints import Constraint, joined_limits
from funcgrad.optimize.descents import Objective
from funcgrad.optimize.solver_arguments import matrix_of
from funcgrad.optimize.solver_tasks import Functions
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel


def with_derivatives(
    fun: Callable[..., Any], users: dict[str, object]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function, and the derivatives that the user gives, by name."""
    value = fun
    if users["jac"] is True:
        value = lambda *args: fun(*args)[0]  # noqa: E731
        users = {**users, "jac": lambda *args: fun(*args)[1]}
    named = {word: f for word, f in users.items() if f is not None and f is not False}
    for word, function in named.items():
        check_function(f"minimize with {word}", function)
    return value, named


class UsersObjective(NamedTuple):
    """How the tree is made of a vector, and which derivatives are the user's."""

    unravel: Callable[[Any], Any]
    words: tuple[str, ...]

    def problem(self, functions: Functions) -> Callable[..., Any]:
        """The function that gives the value, bounds, parameters, and values of constraints."""
        fun, limiting = functions[0], functions[1 + len(self.words) :]

        def problem(point: tuple[Tensor, Tensor], ends: Any, values: Any, sides: Any) -> Any:
            x = self.unravel(point[0])
            value = fun(x, *values)
            scalar("minimize", unwrap(value, "minimize"))
            pairs = zip(limiting, sides, strict=True)
            limits = [Constraint(function, *side).at(x) for function, side in pairs]
            joined = joined_limits(limits) if limits else None
            return fnp.asarray(value), ends, joined, values

        return problem

    def finish(
        self, functions: Functions, point: tuple[Tensor, Tensor], parameters: tuple[Any, ...]
    ) -> list[Tensor]:
        """The value and the gradient at the solution."""
        fun, more = functions[0], parameters[1]
        return list(value_and_grad(lambda p: fun(self.unravel(p), *more))(point[0]))

    def objective(
        self, functions: Functions, value: Callable[[Tensor], Tensor], more: tuple[Any, ...]
    ) -> Objective:
        """The function with its derivatives, the user's where there are some."""
        users = dict(zip(self.words, functions[1:], strict=False))
        made = Objective.derived(value)
        if "jac" in users:

            def gradient(x: Tensor) -> Tensor:
                return self._vector(users["jac"](self.unravel(x), *more), x)

            made = Objective(
                value,
                lambda x: (value(x), stop_gradient(gradient(x))),
                lambda x, v: jvp(gradient, (x,), (v,))[1],
                jacfwd(gradient),
            )
        if "hess" in users:

            def matrix(x: Tensor) -> Tensor:
                second = users["hess"](self.unravel(x), *more)
                return matrix_of("minimize with hess", second, (x.size, x.size), x.dtype)

            made = made._replace(hessian=matrix, product=lambda x, v: matrix(x) @ v)
        if "hessp" in users:

            def product(x: Tensor, v: Tensor) -> Tensor:
                image = users["hessp"](self.unravel(x), self.unravel(v), *more)
                return stop_gradient(self._vector(image, x))

            made = made._replace(product=product)
            if "hess" not in users:
                made = made._replace(
                    hessian=lambda x: vmap(partial(product, x))(fnp.eye(x.size, dtype=x.dtype)).T
                )
        return made

    def _vector(self, tree: Any, x: Tensor) -> Tensor:
        vector = ravel(tree)[0] if not isinstance(tree, list) else fnp.asarray(tree)
        if vector.shape != x.shape:
            raise placed(
                ShapeError,
                f"minimize: jac and hessp have to return a tree like x, with {x.size} elements, but"
                f" returned {vector.size}.",
            )
        return vector.astype(x.dtype)
