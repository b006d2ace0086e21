"""Matrix-free linear solvers on pytrees: conjugate gradients, GMRES and BiCGSTAB.

Each is a ``custom_linear_solve`` whose iteration is written in funcgrad's functions, so it works
under ``jit`` and ``vmap``. Each derivative solves one more system, to the same tolerance.

Saad, Iterative Methods for Sparse Linear Systems, 2nd edition 2003: algorithms 9.1, 6.9 and 7.7.

>>> import funcgrad.numpy as fnp
>>> cg(lambda x: 4.0 * x, fnp.ones(2))
(Tensor([0.25, 0.25]), Tensor(0))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import tree
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._control.carry import count_of, placed
from funcgrad._control.whiles import while_loop
from funcgrad._hints.lookup import answering
from funcgrad._transforms.linear import linear_transpose
from funcgrad.errors import MatrixShapeError
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.linear_solves import linear_solution
from funcgrad.implicit.unknowns import Linear, Tree, Unknown, converged_or_nan
from funcgrad.numpy.options import failed_as
from funcgrad.sparse.sparse_arrays import sparse_operand
from funcgrad.tensor.tensor import Tensor

Operator: TypeAlias = Callable[[Tensor], Tensor]


@answering
def cg(
    A: Tree,
    b: Tree,
    x0: Tree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Tree = None,
    failed: str = "raise",
) -> tuple[Any, Tensor]:
    """Solve A x = b by conjugate gradients, for a symmetric positive definite A.

    The first choice for large systems with such a matrix: normal equations, Newton steps of convex
    functions, discretized diffusion. It needs products with A only, never the matrix. Otherwise use
    ``gmres`` or ``bicgstab``.

    Parameters
    ----------
    A : callable, or array_like of shape (n, n)
        A linear function of a pytree like ``b``, or a matrix; symmetric (complex: Hermitian) and
        positive definite. Derivatives flow into the values that it closes over.
    b : pytree of floating or complex arrays
    x0 : pytree, optional
        The starting point, a pytree like ``b``; zero by default. The derivative with respect to it
        is 0.
    rtol, atol : float
        The iteration ends when ``norm(b - A x) <= max(rtol * norm(b), atol)``.
    maxiter : int, optional
        The maximum number of steps; by default ten times the number of unknowns.
    M : callable, or array_like of shape (n, n), optional
        The preconditioner: an approximate inverse of A, also symmetric and positive definite. It
        has no derivative.
    failed : {"raise", "nan"}
        The behaviour if the iteration does not converge. With "raise", x is the last iterate, as in
        SciPy, and a derivative raises an error (outside ``jit`` and ``vmap``). With "nan", x and
        all of its derivatives are NaN.

    Returns
    -------
    x : pytree
        The solution, a pytree like ``b``.
    info : Tensor of int, shape ()
        0 if the iteration converged, else the number of steps.

    Raises
    ------
    ConvergenceError
        The iteration for a derivative did not converge. Inside ``jit`` and ``vmap`` the derivative
        is NaN instead.
    MatrixShapeError
        ``A`` or ``M`` is not a square matrix.
    ArgumentError
        A tolerance is negative, ``maxiter`` is less than 1, or ``failed`` is unknown.
    TreeError, ShapeError, DtypeError
        The result of ``A`` is not like ``b``, or ``b`` is an integer.

    Notes
    -----
    Derivatives solve systems with the same A (see ``fg.custom_linear_solve``), to the same
    tolerance.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> from funcgrad.scipy.sparse.linalg import cg
    >>> def energy(a):
    ...     laplacian = lambda x: a * x - 0.5 * (fnp.roll(x, 1) + fnp.roll(x, -1))
    ...     x, info = cg(laplacian, fnp.ones(4))
    ...     return fnp.sum(x)
    >>> fg.value_and_grad(energy)(3.0)
    (Tensor(2.0), Tensor(-1.0))
    """
    return _solved("cg", _conjugate_gradients, A, b, x0, rtol, atol, maxiter, M, failed, True)


@answering
def bicgstab(
    A: Tree,
    b: Tree,
    x0: Tree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Tree = None,
    failed: str = "raise",
) -> tuple[Any, Tensor]:
    """Solve A x = b by the stabilized biconjugate gradient method, for any A.

    It stores a fixed number of vectors, unlike ``gmres``, but may break down.

    Parameters
    ----------
    A, b, x0, rtol, atol, maxiter, M, failed
        See ``cg``; A and M need not be symmetric.

    Returns
    -------
    x : pytree
    info : Tensor of int, shape ()
        See ``cg``. If the method breaks down, it has not converged.

    Raises
    ------
    ConvergenceError, MatrixShapeError, ArgumentError, TreeError, ShapeError, DtypeError
        See ``cg``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> x, info = bicgstab([[3.0, 1.0], [0.0, 2.0]], [4.0, 2.0], rtol=1e-12)
    >>> fnp.round(x, 9), info
    (Tensor([1., 1.]), Tensor(0))
    """
    return _solved("bicgstab", _stabilized, A, b, x0, rtol, atol, maxiter, M, failed)


@answering
def gmres(
    A: Tree,
    b: Tree,
    x0: Tree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Tree = None,
    failed: str = "raise",
) -> tuple[Any, Tensor]:
    """Solve A x = b by the generalized minimal residual method (GMRES), for any A.

    The first choice if A is not symmetric. It stores ``restart`` vectors; if that is too much
    memory, use ``bicgstab``.

    Parameters
    ----------
    A, b, x0, rtol, atol, M, failed
        See ``cg``; A and M need not be symmetric.
    restart : int, optional
        The number of vectors that are stored before a restart; by default 20, or the number of
        unknowns if they are fewer.
    maxiter : int, optional
        The maximum number of restarts, as SciPy counts; by default ten times the number of
        unknowns.

    Returns
    -------
    x : pytree
    info : Tensor of int, shape ()
        See ``cg``; ``info`` counts restarts.

    Raises
    ------
    ConvergenceError, MatrixShapeError, ArgumentError, TreeError, ShapeError, DtypeError
        See ``cg``; also if ``restart`` is less than 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> x, info = gmres([[3.0, 1.0], [0.0, 2.0]], [4.0, 2.0])
    >>> fnp.round(x, 9), info
    (Tensor([1., 1.]), Tensor(0))
    """
    if restart is not None:
        restart = count_of("gmres", "restart", restart)
    method = partial(_minimal_residuals, restart=restart)
    return _solved("gmres", method, A, b, x0, rtol, atol, maxiter, M, failed)


@dataclass(frozen=True, slots=True)
class _Problem:
    """A linear system of vectors.

    Attributes
    ----------
    matvec, precondition : callable
    b, x0 : Tensor
    bound : Tensor
        The iteration ends when the norm of the residual is at most this.
    maxiter : int
    """

    matvec: Operator
    precondition: Operator
    b: Tensor
    x0: Tensor
    bound: Tensor
    maxiter: int

    def goes_on(self, state: Tree) -> Any:
        """Whether another step follows; a state ends with the residual's norm and a count."""
        return (state[-2] > self.bound) & (state[-1] < self.maxiter)


Method: TypeAlias = Callable[[_Problem], tuple[Tensor, Tensor, Tensor]]
"""From a problem to x, the norm of its residual, and the number of steps."""


@dataclass(frozen=True, slots=True)
class _Solver:
    """A method with its options, for systems of pytrees."""

    name: str
    method: Method
    rtol: float
    atol: float
    maxiter: int | None
    precondition: Linear | None
    failed: str

    def solve(
        self, matvec: Linear, b: Tree, x0: Tree = None, inverse: Linear | None = None
    ) -> tuple[Tree, Tensor, Tensor]:
        """Return the solution, whether the method converged, and the number of steps."""
        unknown, values = Unknown.read(self.name, "b", b)
        vector, unravel = tree.ravel(unknown.tree(values))
        start = fnp.zeros_like(vector)
        if x0 is not None:
            start = tree.ravel(unknown.tree(unknown.values(x0, "x0")))[0]

        def flat(function: Linear) -> Operator:
            return lambda x: tree.ravel(function(unravel(x)))[0]

        bound = fnp.maximum(self.rtol * fnp.linalg.norm(vector), self.atol)
        most = 10 * vector.size if self.maxiter is None else self.maxiter
        precondition = flat(inverse) if inverse is not None else lambda x: x
        with quiet():  # after a division by zero the residual is not small
            x, size, count = self.method(
                _Problem(flat(matvec), precondition, vector, start, bound, most)
            )
        return unravel(x), size <= bound, count

    def flagged(self, x0: Tree, matvec: Linear, b: Tree) -> tuple[Tree, Tensor]:
        """Return the solution, and 0 or the number of steps."""
        x, converged, count = self.solve(matvec, b, x0, self.precondition)
        info = fnp.where(converged, 0, fnp.maximum(count, 1))
        return (self._checked(x, converged) if self.failed == "nan" else x), info

    def sure(self, matvec: Linear, b: Tree) -> tuple[Tree, tuple[()]]:
        """Solve a system for tangents, which has to converge."""
        x, converged, _ = self.solve(matvec, b, None, self.precondition)
        return self._checked(x, converged), ()

    def adjoint(self, vecmat: Linear, b: Tree) -> tuple[Tree, tuple[()]]:
        """Solve the adjoint system, with the adjoint of the preconditioner."""
        inverse = self.precondition
        if inverse is not None:
            transposed = linear_transpose(inverse, b)
            inverse = lambda x: transposed(x)[0]  # noqa: E731 - beside None
        x, converged, _ = self.solve(vecmat, b, None, inverse)
        return self._checked(x, converged), ()

    def _checked(self, x: Tree, converged: Tensor) -> Tree:
        message = (
            f"{self.name}: the linear system for a derivative did not converge within maxiter"
            " steps. Raise maxiter or rtol, or use a preconditioner M. If the matrix is singular,"
            " the system may have no solution."
        )
        return converged_or_nan(x, converged, message, self.failed)


def _solved(
    name: str,
    method: Method,
    a: Tree,
    b: Tree,
    x0: Tree,
    rtol: float,
    atol: float,
    maxiter: int | None,
    m: Tree,
    failed: str,
    symmetric: bool = False,
) -> tuple[Tree, Tensor]:
    failed = failed_as(failed, name)
    rtol, atol = tolerance(name, "rtol", rtol), tolerance(name, "atol", atol)
    if maxiter is not None:
        maxiter = count_of(name, "maxiter", maxiter)
    matvec = _operator(name, "A", a)
    if matvec is not a:
        b, x0 = fnp.asarray(b), None if x0 is None else fnp.asarray(x0)
    precondition = None if m is None else _operator(name, "M", m)
    solver = _Solver(name, method, rtol, atol, maxiter, precondition, failed)
    solves = (partial(solver.flagged, x0), solver.sure, solver.adjoint)
    x, info = linear_solution(name, matvec, b, solves, symmetric, True, failed)
    return x, info


def _operator(name: str, word: str, a: Tree) -> Callable[[Any], Any]:
    """Convert a matrix to a linear function; return a function unchanged."""
    if callable(a) and not isinstance(a, Tensor):
        return a
    sparse = sparse_operand(a)
    if sparse is not None:
        return lambda x: sparse @ x
    matrix = fnp.asarray(a)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise placed(
            MatrixShapeError,
            f"{name}: {word} has to be a linear function or a square matrix, got an array of"
            f" shape {matrix.shape}.",
        )
    return lambda x: fnp.matmul(matrix, x)


def _conjugate_gradients(problem: _Problem) -> tuple[Tensor, Tensor, Tensor]:
    def step(state: Tree) -> Any:
        x, r, p, rho, _, count = state
        image = problem.matvec(p)
        alpha = rho / fnp.vdot(p, image).real
        x, r = x + alpha * p, r - alpha * image
        z = problem.precondition(r)
        new = fnp.vdot(r, z).real
        return x, r, z + (new / rho) * p, new, fnp.linalg.norm(r), count + 1

    r = problem.b - problem.matvec(problem.x0)
    z = problem.precondition(r)
    start = (problem.x0, r, z, fnp.vdot(r, z).real, fnp.linalg.norm(r), 0)
    x, _, _, _, size, count = while_loop(problem.goes_on, step, start)
    return x, size, count


def _stabilized(problem: _Problem) -> tuple[Tensor, Tensor, Tensor]:
    r = problem.b - problem.matvec(problem.x0)
    shadow = r

    def step(state: Tree) -> Any:
        x, r, p, rho, _, count = state
        direction = problem.precondition(p)
        v = problem.matvec(direction)
        alpha = rho / fnp.vdot(shadow, v)
        s = r - alpha * v
        second = problem.precondition(s)
        t = problem.matvec(second)
        square = fnp.vdot(t, t)
        done = fnp.linalg.norm(s) <= problem.bound  # if s is zero, so is t
        omega = fnp.where(done, 0.0, fnp.vdot(t, s) / fnp.where(square == 0.0, 1.0, square))
        x, r = x + alpha * direction + omega * second, s - omega * t
        new = fnp.vdot(shadow, r)
        beta = (new / rho) * (alpha / fnp.where(omega == 0.0, 1.0, omega))
        return x, r, r + beta * (p - omega * v), new, fnp.linalg.norm(r), count + 1

    start = (problem.x0, r, r, fnp.vdot(shadow, r), fnp.linalg.norm(r), 0)
    x, _, _, _, size, count = while_loop(problem.goes_on, step, start)
    return x, size, count


def _minimal_residuals(problem: _Problem, restart: int | None) -> tuple[Tensor, Tensor, Tensor]:
    most = min(20 if restart is None else restart, max(problem.b.size, 1))

    def cycle(state: Tree) -> Any:
        x, r, size, count = state
        x = x + problem.precondition(_least_in_krylov_space(problem, r, size, most))
        r = problem.b - problem.matvec(x)
        return x, r, fnp.linalg.norm(r), count + 1

    r = problem.b - problem.matvec(problem.x0)
    x, _, size, count = while_loop(problem.goes_on, cycle, (problem.x0, r, fnp.linalg.norm(r), 0))
    return x, size, count


def _least_in_krylov_space(problem: _Problem, r: Tensor, size: Tensor, most: int) -> Tensor:
    """Return the change of x with the least residual, before preconditioning (Arnoldi's method)."""
    dtype, tiny = problem.b.dtype, np.finfo(problem.b.dtype).eps
    basis = fnp.zeros((most + 1, problem.b.size), dtype).at[0].set(r / size)
    # Column k of H is row k here. Rows that the iteration does not reach stay unit vectors with
    # coefficient 0.
    rows = fnp.eye(most, most + 1, dtype=dtype)

    def goes_on(state: Tree) -> Any:
        return (state[2] < most) & ~state[3]

    def step(state: Tree) -> Any:
        basis, rows, k, _ = state
        image = problem.matvec(problem.precondition(basis[k]))
        before, w = fnp.linalg.norm(image), image
        h = fnp.zeros(most + 1, dtype)
        for _ in range(2):  # twice is enough (Kahan and Parlett)
            coefficients = basis.conj() @ w
            w, h = w - coefficients @ basis, h + coefficients
        after = fnp.linalg.norm(w)
        is_last = after <= 10 * tiny * before
        unit = fnp.where(is_last, 0.0, w / fnp.where(is_last, 1.0, after))
        h = h.at[k + 1].set(fnp.where(is_last, 0.0, after).astype(dtype))
        return basis.at[k + 1].set(unit), rows.at[k].set(h), k + 1, is_last

    basis, rows, _, _ = while_loop(goes_on, step, (basis, rows, 0, fnp.asarray(False)))
    q, upper = fnp.linalg.qr(rows.T)
    # A singular matrix gives a column of zeros: then the residual shows that the system has no
    # solution.
    upper = upper + fnp.diag((fnp.diagonal(upper) == 0.0).astype(dtype))
    y = fnp.linalg.solve(upper, size * q[0].conj())
    return y @ basis[:-1]
