"""Solutions in closed form for every solving function, and the ways to differentiate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from scipy import optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.implicit import dense_solve

Function: TypeAlias = Callable[[Any], Any]

X: Final = fg.tensor([0.5, 1.2, 0.8])
MATRIX: Final = fg.tensor([[4.0, 1.0, 0.5], [0.3, 5.0, 1.0], [0.2, 0.7, 6.0]])
_TURN: Final = fg.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])


def matrix(x: Any) -> Any:
    """A matrix that is not symmetric, like its derivative."""
    return MATRIX + x[0] * _TURN + fnp.diag(x)


def symmetric(x: Any) -> Any:
    return MATRIX + MATRIX.T + x[0] * (_TURN + _TURN.T)


def linear(solve: Any, made: Function = matrix, **options: Any) -> Function:
    return lambda x: fg.custom_linear_solve(lambda v: made(x) @ v, x**2, solve, **options)


def numpy_solve(matvec: Any, b: Any) -> Any:
    """The values of ``b`` and of the matrix as NumPy arrays."""
    columns = [np.asarray(matvec(unit)) for unit in np.eye(3)]
    return np.linalg.solve(np.stack(columns, 1), np.asarray(b))


def richardson(matvec: Any, b: Any) -> Any:
    def step(state: Any) -> Any:
        x = state[0] + state[1] / 6.0
        return x, b - matvec(x)

    return fg.while_loop(
        lambda state: fnp.linalg.norm(state[1]) > 1e-13, step, (fnp.zeros_like(b), b)
    )[0]


def krylov(name: str, made: Function = matrix, **options: Any) -> Function:
    method = getattr(fg.scipy.sparse.linalg, name)
    return lambda x: method(lambda v: made(x) @ v, x**2, rtol=1e-13, **options)[0]


def newton(f: Any, x: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return x - f(x) / fg.grad(lambda y: fnp.sum(f(y)))(x)

    return fg.fori_loop(0, 12, step, x)


def cube(x: Any, p: Any) -> Any:
    return x**3 - p * p[0]


def hybrid(f: Any, x: Any) -> Any:
    return optimize.root(f, x, tol=1e-12)


def bfgs(f: Any, x: Any) -> Any:
    return optimize.minimize(f, x, jac=fg.grad(f), tol=1e-11).x


def levenberg(f: Any, x: Any) -> Any:
    return optimize.least_squares(f, x, jac=fg.jacfwd(f), xtol=1e-15, gtol=1e-15, ftol=1e-15)


ONES: Final = fg.tensor([1.0, 1.0, 1.0])


@cache
def _of_linear(made: Function = matrix) -> Function:
    return lambda x: fnp.linalg.solve(made(x), x**2)


def _cube_root(p: Any) -> Any:
    return fnp.cbrt(p * p[0])


def _by_root(p: Any) -> Any:
    return fg.custom_root(lambda x: cube(x, p), ONES, newton)


def coupled(x: Any, p: Any) -> Any:
    """The same equation, with a derivative that is not symmetric."""
    return MATRIX @ cube(x, p)


def _by_any_root(p: Any) -> Any:
    return fg.implicit.root(coupled, hybrid)(ONES, p)


def _by_closure(p: Any) -> Any:
    return fg.implicit.root(lambda x, q: cube(x, fnp.stack([q, *p[1:]])), hybrid)(ONES, p[0])


def _by_minimum(p: Any) -> Any:
    return fg.implicit.minimize(lambda x, p: fnp.sum(x**4 / 4.0 - p * p[0] * x), bfgs)(ONES, p)


def _by_squares(p: Any) -> Any:
    return fg.implicit.least_squares(cube, levenberg)(ONES, p)


def _by_repetition(p: Any) -> Any:
    def heron(x: Any, q: Any) -> Any:
        return (2.0 * x + p * q / x**2) / 3.0

    return fg.fixed_point(heron, ONES, p[0])


def _by_any_fixed_point(p: Any) -> Any:
    def damped(x: Any, p: Any) -> Any:
        return x - 0.1 * cube(x, p)

    def solver(g: Any, x: Any) -> Any:
        return optimize.fixed_point(g, x, xtol=1e-14)

    return fg.implicit.fixed_point(damped, solver)(ONES, p)


SOLUTIONS: Final[Mapping[str, tuple[Function, Function]]] = MappingProxyType(
    {
        "a dense matrix": (linear(dense_solve), _of_linear()),
        "NumPy": (linear(numpy_solve), _of_linear()),
        "a loop": (linear(richardson), _of_linear()),
        "a symmetric matrix": (
            linear(dense_solve, symmetric, symmetric=True),
            _of_linear(symmetric),
        ),
        "cg": (krylov("cg", symmetric), _of_linear(symmetric)),
        "gmres": (krylov("gmres", M=np.linalg.inv(MATRIX)), _of_linear()),
        "bicgstab": (krylov("bicgstab"), _of_linear()),
        "custom_root": (_by_root, _cube_root),
        "implicit.root": (_by_any_root, _cube_root),
        "implicit.root of a closure": (_by_closure, _cube_root),
        "implicit.minimize": (_by_minimum, _cube_root),
        "implicit.least_squares": (_by_squares, _cube_root),
        "fixed_point": (_by_repetition, _cube_root),
        "implicit.fixed_point": (_by_any_fixed_point, _cube_root),
    }
)
"""Functions of a vector, and what they have to be."""


def _number(f: Function) -> Function:
    return lambda x: fnp.sum(fnp.sin(f(x)))


def _batch(x: Any) -> Any:
    return fnp.stack([x, 1.1 * x])


def _scanned(f: Function) -> Function:
    def total(x: Any) -> Any:
        return fg.scan(lambda c, y: (c + fnp.sum(f(x + y)), None), 0.0, fg.tensor([0.1, 0.2]))[0]

    return total


MODES: Final[Mapping[str, Callable[[Function, Any], Any]]] = MappingProxyType(
    {
        "value": lambda f, x: f(x),
        "jit": lambda f, x: fg.jit(f)(x),
        "jvp": lambda f, x: fg.jvp(f, (x,), (x + 1.0,))[1],
        "linearize": lambda f, x: fg.linearize(f, x)[1](x),
        "grad": lambda f, x: fg.grad(_number(f))(x),
        "jit of grad": lambda f, x: fg.jit(fg.grad(_number(f)))(x),
        "grad of jit": lambda f, x: fg.grad(fg.jit(_number(f)))(x),
        "jvp of jit": lambda f, x: fg.jvp(fg.jit(f), (x,), (x,))[1],
        "forward over reverse": lambda f, x: fg.hessian(_number(f))(x),
        "reverse over reverse": lambda f, x: fg.jacrev(fg.grad(_number(f)))(x),
        "reverse over forward": lambda f, x: fg.jacrev(fg.jacfwd(_number(f)))(x),
        "jit of hessian": lambda f, x: fg.jit(fg.hessian(_number(f)))(x),
        "vmap": lambda f, x: fg.vmap(f)(_batch(x)),
        "vmap of grad": lambda f, x: fg.vmap(fg.grad(_number(f)))(_batch(x)),
        "grad of vmap": lambda f, x: fg.grad(_number(fg.vmap(f)))(_batch(x)),
        "jit of vmap of grad": lambda f, x: fg.jit(fg.vmap(fg.grad(_number(f))))(_batch(x)),
        "a loop in a program": lambda f, x: fg.jit(fg.grad(_scanned(f)))(x),
        "checkpoint": lambda f, x: fg.grad(fg.checkpoint(_number(f)))(x),
    }
)
