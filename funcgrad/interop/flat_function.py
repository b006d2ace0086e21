"""``flat``: a function of a pytree on flat NumPy vectors, for solvers and samplers of any library.

>>> quadratic = flat(lambda p: p["a"] * p["b"] ** 2, {"a": 1.0, "b": 2.0})
>>> quadratic.value_and_grad(np.array([3.0, 2.0]))
(12.0, array([ 4., 12.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function, values_of
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.jacobian import hessian, hvp
from funcgrad._transforms.reverse import grad, value_and_grad
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.path_texts import path_text
from funcgrad.tree.vectors import ravel

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Flat:
    """A function of flat vectors, with its derivatives; made by ``flat``.

    Vectors have shape ``(n,)``. Results are Python floats and new, writable float64 arrays. Further
    arguments are passed to the function unchanged.

    Attributes
    ----------
    size : int
        The number n of elements.
    names : tuple of str
        A name for each element: the path of its leaf, and its index there.
    """

    def __init__(self, f: Callable[..., Any], like: Any) -> None:
        leaves, form = pytrees.flatten(like)
        self._specs = [
            (shape_of(x), dtype_of(x)) for x in values_of("flat", leaves, form, lambda: "like")
        ]
        for (_, dtype), path in zip(self._specs, form.paths(), strict=True):
            if dtype.kind != "f":
                raise DtypeError(
                    f"flat: like{path} has dtype {dtype}, but a solver changes every element of a"
                    " vector, so leaves have to be real floating-point arrays. Close over"
                    " constants, and split complex arrays into two leaves."
                )
        self._form = form
        self.names = tuple(_names(form, [shape for shape, _ in self._specs]))
        self.size = len(self.names)
        _, unravel = ravel(like)

        def of_vector(vector: Tensor, *args: Any) -> Any:
            value = f(unravel(vector), *args)
            if shape_of(value) != ():
                raise ShapeError(
                    f"flat: the function has to return a number, got shape {shape_of(value)}. Sum"
                    " or average it."
                )
            return value

        self._function = f
        self._unravel = unravel
        self._value: Callable[..., Any] = jit(of_vector)
        self._values = jit(_batched(of_vector))
        self._both: Callable[..., Any] = jit(value_and_grad(of_vector))
        self._grad: Callable[..., Any] = jit(grad(of_vector))
        self._hessian: Callable[..., Any] = jit(hessian(of_vector))
        self._hvp = jit(lambda x, v, *args: hvp(lambda y: of_vector(y, *args), (x,), (v,)))

    def __reduce__(self) -> Any:
        """Pickle the function, and a tree like the example."""
        return Flat, (self._function, self._unravel(np.zeros(self.size)))

    def ravel(self, tree: Any) -> Vector:
        """Flatten a tree like the example to a vector.

        Raises
        ------
        TreeError, ShapeError
            The tree has another structure, or a leaf another shape.
        """
        leaves = pytrees.flatten_like(self._form, tree, "ravel: the tree")
        for leaf, (shape, _), path in zip(leaves, self._specs, self._form.paths(), strict=True):
            if np.shape(leaf) != shape:
                raise ShapeError(f"ravel: tree{path} has shape {np.shape(leaf)}, expected {shape}.")
        return np.array(ravel(tree)[0], np.float64)

    def unravel(self, x: ArrayLike) -> Any:
        """Turn a vector into a tree of tensors."""
        return self._unravel(self._checked("unravel", x))

    def value(self, x: ArrayLike, *args: Any) -> Any:
        """Return the value, a float; for m vectors in an array ``(m, n)`` an array ``(m,)``."""
        if np.ndim(x) == 2:
            return np.array(self._values(self._checked("value", x, rows=True), *args), np.float64)
        return float(self._value(self._checked("value", x), *args))

    __call__ = value

    def value_and_grad(self, x: ArrayLike, *args: Any) -> tuple[float, Vector]:
        """Return the value and the gradient, of shape ``(n,)``."""
        value, gradient = self._both(self._checked("value_and_grad", x), *args)
        return float(value), np.array(gradient, np.float64)

    def grad(self, x: ArrayLike, *args: Any) -> Vector:
        """Return the gradient, of shape ``(n,)``."""
        return np.array(self._grad(self._checked("grad", x), *args), np.float64)

    def hess(self, x: ArrayLike, *args: Any) -> Vector:
        """Return the Hessian, of shape ``(n, n)``."""
        return np.array(self._hessian(self._checked("hess", x), *args), np.float64)

    def hvp(self, x: ArrayLike, v: ArrayLike, *args: Any) -> Vector:
        """Return the product of the Hessian and a vector, without forming the Hessian."""
        moved = self._hvp(self._checked("hvp", x), self._checked("hvp", v), *args)
        return np.array(moved, np.float64)

    def _checked(self, method: str, x: ArrayLike, rows: bool = False) -> Vector:
        """Check a vector, and copy it, because its owner may change it afterwards.

        Raises
        ------
        ShapeError
            The vector has another shape.
        """
        vector = np.array(x, np.float64)
        expected = f"(m, {self.size})" if rows else f"({self.size},)"
        if vector.shape[-1:] != (self.size,) or vector.ndim != 1 + rows:
            raise ShapeError(
                f"{method}: expected a vector of shape {expected}, got shape {vector.shape}. Its"
                " elements are named in flat.names."
            )
        return vector

    def __repr__(self) -> str:
        return f"<flat function of {self.size} numbers>"


def _batched(f: Callable[..., Any]) -> Callable[..., Any]:
    def of_rows(rows: Any, *args: Any) -> Any:
        return vmap(lambda x: f(x, *args))(rows)

    return of_rows


def _names(form: pytrees.Structure, shapes: list[tuple[int, ...]]) -> list[str]:
    names = []
    for path, shape in zip(form.key_paths(), shapes, strict=True):
        leaf = path_text(path) or "x"
        places = np.ndindex(*shape)
        names += [f"{leaf}[{', '.join(map(str, place))}]" if place else leaf for place in places]
    return names


@answering
def flat(f: Callable[..., Any], like: Any) -> Flat:
    """Turn a function of a pytree into a function of flat vectors, with compiled derivatives.

    Solvers and samplers of other libraries (SciPy, emcee, PyMC, NLopt) want a function of one
    float64 vector. The result has its value, gradient, Hessian and Hessian-vector product, and
    converts trees to vectors and back.

    Parameters
    ----------
    f : callable
        ``f(tree, *args)`` returns a number.
    like : pytree
        An example of the tree, whose leaves are of real floating dtypes.

    Returns
    -------
    Flat
        An object with ``value``, ``value_and_grad``, ``grad``, ``hess``, ``hvp``, ``ravel``,
        ``unravel`` and ``names``. Calling it is ``value``.

    Raises
    ------
    DtypeError
        A leaf has another dtype.
    LeafError
        A leaf is not an array.
    ShapeError
        At a call, a vector has another shape, or the result of the function is not a number.

    Examples
    --------
    A solver that expects vectors:

    >>> import funcgrad.numpy as fnp
    >>> from scipy import optimize
    >>> def loss(p):
    ...     return fnp.sum((p["weights"] - fnp.arange(3.0)) ** 2) + (p["bias"] - 0.5) ** 2
    >>> start = {"weights": np.zeros(3), "bias": 1.0}
    >>> problem = flat(loss, start)
    >>> problem.names
    ('bias', 'weights[0]', 'weights[1]', 'weights[2]')
    >>> found = optimize.minimize(
    ...     problem.value_and_grad, problem.ravel(start), jac=True, hessp=problem.hvp,
    ...     method="trust-ncg",
    ... )
    >>> problem.unravel(found.x)
    {'bias': Tensor(0.5), 'weights': Tensor([0., 1., 2.])}

    A sampler that moves many walkers at once, as emcee with
    ``EnsembleSampler(walkers, log_density.size, log_density.value, vectorize=True)``:

    >>> log_density = flat(lambda p: -loss(p), start)
    >>> log_density.value(np.zeros((2, 4)))
    array([-5.25, -5.25])

    A density for PyMC: ``perform`` and the gradient of a PyTensor ``Op`` call ``logp_dlogp(x)``:

    >>> logp_dlogp = log_density.value_and_grad
    >>> logp_dlogp(np.full(4, 0.25))
    (-3.75, array([ 0.5, -0.5,  1.5,  3.5]))
    """
    check_function("flat", f)
    return Flat(f, like)
