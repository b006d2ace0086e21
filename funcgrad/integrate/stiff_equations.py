"""A stiff differential equation on one real vector, with its Jacobian and linear systems.

Implicit methods solve linear systems for all elements of y at once. So the leaves of y become one
real vector: complex leaves are pairs of real values.

>>> import funcgrad as fg
>>> form = VectorForm.of([fg.tensor([1.0, 2.0]), fg.tensor(3.0 + 4.0j)])
>>> form.vector([fg.tensor([1.0, 2.0]), fg.tensor(3.0 + 4.0j)])
Tensor([1., 2., 3., 4.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from math import prod
from operator import add
from typing import Any, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import RAW, concrete
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.jacobian import jacfwd
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import FuncgradError
from funcgrad.implicit.direct import FEWEST_SPARSE, is_sparse_enough
from funcgrad.integrate.right_hand_side import real_dtype
from funcgrad.integrate.step_methods import Leaves, OdeEquation, RightHandSide
from funcgrad.scipy.sparse.direct_solvers import spsolve
from funcgrad.sparse.constructors import eye
from funcgrad.sparse.jacobians import jacobian as sparse_jacobian
from funcgrad.sparse.patterns import Pattern
from funcgrad.sparse.sparse_arrays import SparseArray, sparse_operand
from funcgrad.tensor.tensor import Tensor, wrap

Matrix: TypeAlias = Tensor | SparseArray


@dataclass(frozen=True, slots=True)
class VectorForm:
    """How the leaves of y stand in one real vector.

    Attributes
    ----------
    shapes : tuple
        The shapes of the leaves.
    dtypes : tuple of dtype
    dtype : dtype
        The dtype of the vector.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, y: Leaves) -> VectorForm:
        """Read the shapes and dtypes of leaves."""
        dtypes = tuple([leaf.dtype for leaf in y])
        dtype = real_dtype(y) if y else np.dtype(float)
        return cls(tuple([leaf.shape for leaf in y]), dtypes, dtype)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(
            prod(shape) * (2 if dtype.kind == "c" else 1)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )

    def vector(self, leaves: Leaves) -> Tensor:
        """Join leaves to a vector."""
        pieces = []
        for leaf, dtype in zip(leaves, self.dtypes, strict=True):
            both = (fnp.real(leaf), fnp.imag(leaf)) if dtype.kind == "c" else (leaf,)
            pieces += [fnp.reshape(x, (-1,)).astype(self.dtype) for x in both]
        if not pieces:
            return fnp.zeros(0, self.dtype)
        return pieces[0] if len(pieces) == 1 else fnp.concatenate(pieces)

    def leaves(self, vector: Tensor) -> Leaves:
        """Split a vector into leaves."""
        leaves, start = [], 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            length = prod(shape)
            piece = vector[start : start + length]
            start += length
            if dtype.kind == "c":
                piece = piece + 1j * vector[start : start + length]
                start += length
            leaves.append(fnp.reshape(piece, shape).astype(dtype))
        return leaves


@dataclass(frozen=True, slots=True, eq=False)
class VectorEquation:
    """The equation M y' = f(y, t) of a vector, and linear systems with c M - ∂f/∂y.

    A dense matrix is "factored" by its inverse: a solution is then one product, which machine code
    and batches do fastest. The methods here need no more: Newton's method corrects its own errors,
    and the matrices of Rosenbrock's are as well conditioned as the steps are small. A sparse matrix
    is its own factor, and SuperLU keeps the last factors.

    Attributes
    ----------
    equation : OdeEquation
    form : VectorForm
    is_sparse : bool
        Whether the Jacobian is a sparse matrix, whatever its size.
    """

    equation: OdeEquation
    form: VectorForm
    is_sparse: bool

    @classmethod
    def of(cls, equation: OdeEquation, y: Leaves, is_sparse: bool) -> VectorEquation:
        """Write an equation for leaves as an equation for one vector."""
        return cls(equation, VectorForm.of(y), is_sparse)

    def f(self, v: Tensor, t: Tensor) -> Tensor:
        """The right-hand side."""
        return self.form.vector(self.equation.f(self.form.leaves(v), t))

    def jacobian(self, v: Tensor, t: Tensor) -> Matrix:
        """The derivative of the right-hand side with respect to the vector.

        From 200 elements on it is sparse if its pattern is; see ``fg.implicit.direct_solve``.
        """
        if self.equation.jacobian is None:
            matrix = self._own_jacobian(lambda v: self.f(v, t), v)
        else:
            matrix = self.equation.jacobian(self.form.leaves(v), t)
        sparse = sparse_operand(matrix)
        if sparse is None:
            return fnp.asarray(matrix).astype(self.form.dtype)
        return SparseArray(wrap(sparse.data).astype(self.form.dtype), sparse.pattern)

    def _own_jacobian(self, f: Callable[[Tensor], Tensor], v: Tensor) -> Any:
        derivative = sparse_jacobian(f)
        if self.is_sparse:
            return derivative(v)
        if self.form.size >= FEWEST_SPARSE and find_spec("scipy") is not None:
            with suppress(FuncgradError):  # the dense matrix does not need a pattern
                if is_sparse_enough(derivative.pattern(v)):
                    return derivative(v)
        return jacfwd(f)(v)

    def time_derivative(self, v: Tensor, t: Tensor) -> Tensor:
        """The derivative of the right-hand side with respect to the time."""
        return jvp(lambda t: self.f(v, t), (t,), (fnp.ones_like(t),))[1]

    def massed(self, v: Tensor) -> Tensor:
        """M v."""
        mass = self.equation.mass
        return v if mass is None else mass.astype(v.dtype) @ v

    def factor(self, jacobian: Matrix, rate: Tensor) -> Matrix:
        """Factor ``rate * M - jacobian``; NaN if it is singular."""
        mass = self.equation.mass
        if isinstance(jacobian, SparseArray):
            return _sparse_difference(jacobian, rate, mass)
        identity = np.eye(self.form.size, dtype=self.form.dtype)
        scaled = rate * (identity if mass is None else mass.astype(self.form.dtype))
        return fnp.linalg.inv(scaled - jacobian, failed="nan")

    def solve(self, factor: Matrix, b: Tensor) -> Tensor:
        """Solve a linear system with a matrix that was factored."""
        if isinstance(factor, SparseArray):
            return spsolve(factor, b, failed="nan")
        return factor @ b

    def pair_factor(self, jacobian: Matrix, real: Tensor, imaginary: Tensor) -> Matrix:
        """Factor ``(real + i imaginary) M - jacobian``; NaN if it is singular."""
        mass = self.equation.mass
        if isinstance(jacobian, SparseArray):
            return _sparse_difference(jacobian, real + 1j * imaginary, mass)
        weights = np.eye(self.form.size, dtype=self.form.dtype) if mass is None else mass
        weights = fnp.asarray(weights).astype(self.form.dtype)
        diagonal, other = real * weights - jacobian, imaginary * weights
        lines = [(diagonal, -other), (other, diagonal)]
        matrix = fnp.concatenate([fnp.concatenate(line, axis=1) for line in lines])
        return fnp.linalg.inv(matrix, failed="nan")

    def pair_solve(self, factor: Matrix, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        """Solve with a complex matrix that was factored: the real and the imaginary part."""
        if isinstance(factor, SparseArray):
            x = spsolve(factor, real + 1j * imaginary, failed="nan")
            return fnp.real(x), fnp.imag(x)
        both = factor @ fnp.concatenate([real, imaginary])
        return both[: self.form.size], both[self.form.size :]

    def slope(self, v: Tensor, flow: Tensor, jacobian: Matrix, t: Tensor, size: Tensor) -> Tensor:
        """y' from M y' = ``flow``; if M is singular, also from the derivative of its equations.

        It is the mean slope over a small step of the implicit Euler method.
        """
        if self.equation.mass is None:
            return flow
        small = 1e-3 * size
        moved = flow + small * self.time_derivative(v, t)
        return self.solve(self.factor(jacobian, 1.0 / small), moved) / small

    def norm(self, v: Tensor, scales: Leaves) -> Tensor:
        """The root mean square of all elements, each divided by its allowed error."""
        return self.equation.norm(self.form.leaves(v), scales)


def mixed(weights: Any, vectors: Sequence[Tensor]) -> Tensor:
    """A weighted sum of vectors.

    They are not the rows of a matrix, since then their elements do not stay in registers: Rodas5P
    takes 0.48 of the time for a batch of ROBER, and 0.73 for a single start.
    """
    return reduce(add, [w * v for w, v in zip(weights, vectors, strict=True)])


def slope_of(f: RightHandSide, mass: Tensor | None) -> RightHandSide:
    """y' from M y' = f(y, t), at a point that satisfies the equations without derivatives.

    For a projection Q to these equations, Q f(y, t) = 0 has the derivative Q (∂f/∂y y' + ∂f/∂t) = 0
    along the solution. So (M - Q ∂f/∂y) y' = (1 - Q) f + Q ∂f/∂t, where the matrix is regular if
    the index is 1; otherwise y' is NaN. Source: Hairer and Wanner, section VI.1.
    """
    if mass is None:
        return f
    onto = algebraic_equations(mass)

    def slope(y: Leaves, t: Tensor) -> Leaves:
        form = VectorForm.of(y)

        def flow(v: Tensor, t: Tensor) -> Tensor:
            return form.vector(f(form.leaves(v), t))

        v = form.vector(y)
        matrix, right = mass.astype(form.dtype), flow(v, t)
        if onto is not None:
            q = onto.astype(form.dtype)
            by_time: Tensor = jvp(lambda t: flow(v, t), (t,), (fnp.ones_like(t),))[1]
            matrix = matrix - q @ jacfwd(flow)(v, t)
            right = right - q @ (right - by_time)
        return form.leaves(fnp.linalg.solve(matrix, right, failed="nan"))

    return slope


def algebraic_equations(mass: Tensor) -> Tensor | None:
    """The projection to combinations of equations without derivatives; None if there are none."""
    still = stop_gradient(mass)
    left, values, _ = fnp.linalg.svd(still)
    least = len(mass) * float(np.finfo(mass.dtype).eps) * fnp.max(values, initial=0.0)
    missing = values <= least
    if type(concrete(missing)) in RAW and not np.any(np.asarray(missing)):
        return None
    return (left * missing) @ left.T


def _sparse_difference(jacobian: SparseArray, rate: Tensor, mass: Tensor | None) -> SparseArray:
    """``rate * M - jacobian``, with the nonzeros of both."""
    size = jacobian.pattern.shape[0]
    if mass is None:
        weights: SparseArray = eye(size, dtype=jacobian.dtype)
    else:
        places = np.nonzero(np.asarray(mass))
        pattern = Pattern.of(np.asarray(mass) != 0)
        weights = SparseArray(mass[places].astype(jacobian.dtype), pattern)
    scaled: SparseArray = weights * rate
    return scaled - jacobian
