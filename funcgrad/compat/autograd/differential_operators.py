"""autograd's differential operators: ``grad``, ``jacobian``, ``make_vjp`` and others.

Each takes a function and ``argnum``, the position of the differentiated argument or a tuple of
positions, and returns a function of the same arguments. Complex derivatives follow autograd's
convention: the gradient of a real function of x + iy is ∂f/∂x - i ∂f/∂y.

>>> grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
array([2., 4.])
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._transforms.arguments import check_function, is_whole
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.checkpoint import checkpoint as _checkpoint
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.compat.autograd.arrays import (
    conjugated,
    differentiable,
    filled_like,
    levels,
    like,
    plain,
    subvals,
)
from funcgrad.errors import DifferentiationError, TracerError
from funcgrad.tensor.tensor import Tensor

Function = Callable[..., Any]
Argnum = int | tuple[int, ...] | list[int]


def unary_to_nary(operator: Function) -> Function:
    """Extend an operator on functions of one argument to functions of several.

    Parameters
    ----------
    operator : callable
        ``operator(fun, x, *args, **kwargs)``, where ``fun`` takes only ``x``.

    Returns
    -------
    callable
        ``nary(fun, argnum=0, *args, **kwargs)``, which returns a function of the arguments of
        ``fun``.

    Examples
    --------
    >>> value_at = unary_to_nary(lambda fun, x: fun(x))
    >>> value_at(lambda x, y: x - y, 1)(5.0, 3.0)
    2.0
    """
    operation = getattr(operator, "__name__", "operator")

    @wraps(operator)
    def nary(fun: Function, argnum: Argnum = 0, *options: object, **named: object) -> Function:
        check_function(operation, fun)
        positions = argnum if isinstance(argnum, (tuple, list)) else (argnum,)
        if not all(map(is_whole, positions)):
            raise DifferentiationError(
                f"{operation}: argnum has to be an integer or a tuple of integers, got"
                f" {argnum!r}. {operation}(fun) returns a function; call it:"
                f" {operation}(fun)(x)."
            )

        def derived(*args: object, **kwargs: object) -> Any:
            count = len(args)
            if not all(-count <= position < count for position in positions):
                raise DifferentiationError(
                    f"{operation}: argnum={argnum!r} is out of range: the function was called with"
                    f" {count} positional argument(s)."
                )

            def unary(x: Any) -> Any:
                values = zip(positions, (x,) if single else x, strict=True)
                return fun(*subvals(args, values), **kwargs)

            single = not isinstance(argnum, (tuple, list))
            chosen = tuple(args[position] for position in positions)
            return operator(unary, chosen[0] if single else chosen, *options, **named)

        derived.__name__ = f"{operation}_of_{getattr(fun, '__name__', 'function')}"
        derived.__doc__ = f"Call ``{operation}`` of a function, in argument {argnum}."
        return derived

    return nary


def pullback_of(fun: Function, x: object) -> tuple[Function, Any]:
    """The pullback of a function of one argument, in autograd's convention, and its value."""

    def watched(inner: Any) -> Any:
        out = fun(inner)
        if not set(levels(inner)) & set(levels(out)):
            warnings.warn("Output seems independent of input.", stacklevel=2)
        return out

    point = differentiable(x)
    out, pullback = vjp(watched, point)
    value = plain(out)

    def pull(g: object) -> Any:
        cotangent = conjugated(like(g, value, "vjp"))
        return plain(conjugated(pullback(cotangent)[0]))

    return pull, value


def pushforward_of(fun: Function, x: object) -> Function:
    point = differentiable(x)

    def push(g: object) -> tuple[Any, Any]:
        out, tangent = jvp(lambda inner: fun(inner), (point,), (like(g, point, "jvp"),))
        return plain(out), plain(tangent)

    return push


def _numbers(operation: str, out: object, advice: str) -> list[Any]:
    """The leaves of a function's result, which have to be real arrays or scalars."""
    leaves = pytrees.leaves(out)
    for leaf in leaves:
        is_number = isinstance(leaf, Tensor | np.ndarray | np.generic | int | float | complex)
        if not is_number or dtype_of(leaf).kind != "f":
            kind = dtype_of(leaf) if is_number else type(leaf).__name__
            raise DifferentiationError(f"{operation}: the function returned {kind}. {advice}")
    return leaves


def _value_and_gradient(operation: str, fun: Function, x: object) -> tuple[Any, Any]:
    pull, value = pullback_of(fun, x)
    _check_scalar(operation, value)
    return value, pull(filled_like(value, 1.0))


def _check_scalar(operation: str, out: object) -> None:
    advice = "It has to return one real number; take jacobian, elementwise_grad, holomorphic_grad."
    shapes = [shape_of(leaf) for leaf in _numbers(operation, out, advice)]
    if sum(int(np.prod(shape)) for shape in shapes) != 1:
        raise DifferentiationError(
            f"{operation}: the function returned arrays of shapes {shapes}. {advice}"
        )


@unary_to_nary
def make_vjp(fun: Function, x: object) -> tuple[Function, Any]:
    """``make_vjp(fun, argnum)(*args)``: the vector-Jacobian product at a point, and the value.

    Examples
    --------
    >>> vjp, value = make_vjp(np.sin)(np.zeros(2))
    >>> vjp(np.array([1.0, 2.0])), value
    (array([1., 2.]), array([0., 0.]))
    """
    return pullback_of(fun, x)


@unary_to_nary
def make_jvp(fun: Function, x: object) -> Function:
    """``make_jvp(fun, argnum)(*args)(v)``: the value, and the Jacobian-vector product with v.

    Examples
    --------
    >>> make_jvp(np.sin)(np.zeros(2))(np.array([1.0, 2.0]))
    (array([0., 0.]), array([1., 2.]))
    """
    return pushforward_of(fun, x)


@unary_to_nary
def grad(fun: Function, x: object) -> Any:
    """``grad(fun, argnum)(*args)``: the gradient of a function that returns one real number.

    The result may have any shape of one element. Containers have containers for gradients.

    Examples
    --------
    >>> grad(lambda a, b: a * b, argnum=(0, 1))(2.0, 3.0)
    (np.float64(3.0), np.float64(2.0))
    """
    return _value_and_gradient("grad", fun, x)[1]


@unary_to_nary
def value_and_grad(fun: Function, x: object) -> tuple[Any, Any]:
    """``value_and_grad(fun, argnum)(*args)``: the value and the gradient, as SciPy's solvers ask.

    Examples
    --------
    >>> value_and_grad(lambda x: x**2)(3.0)
    (9.0, np.float64(6.0))
    """
    return _value_and_gradient("value_and_grad", fun, x)


@unary_to_nary
def grad_and_aux(fun: Function, x: object) -> tuple[Any, Any]:
    """``grad_and_aux(fun, argnum)(*args)``: the gradient of the first result, and the second one.

    Examples
    --------
    >>> grad_and_aux(lambda x: (x**2, x + 1))(3.0)
    (np.float64(6.0), 4.0)
    """
    out, pullback, aux = vjp(fun, differentiable(x), has_aux=True)
    _check_scalar("grad_and_aux", out)
    return plain(conjugated(pullback(filled_like(out, 1.0))[0])), plain(aux)


@unary_to_nary
def elementwise_grad(fun: Function, x: object) -> Any:
    """``elementwise_grad(fun, argnum)(*args)``: the sums of the Jacobian's columns.

    For an elementwise function they are its derivatives.

    Examples
    --------
    >>> elementwise_grad(np.tanh)(np.array([0.0, 1.0]))
    array([1.        , 0.41997434])
    """
    pull, value = pullback_of(fun, x)
    _numbers("elementwise_grad", value, "It has to return real numbers.")
    return pull(filled_like(value, 1.0))


@unary_to_nary
def deriv(fun: Function, x: object) -> Any:
    """``deriv(fun, argnum)(*args)``: the derivative by forward mode, along ones.

    Examples
    --------
    >>> deriv(np.sin)(0.0)
    np.float64(1.0)
    """
    return pushforward_of(fun, x)(filled_like(differentiable(x), 1.0))[1]


@unary_to_nary
def holomorphic_grad(fun: Function, x: object) -> Any:
    """``holomorphic_grad(fun, argnum)(*args)``: f'(z) of a holomorphic function.

    Examples
    --------
    >>> complex(holomorphic_grad(lambda z: z**2)(1.0 + 2.0j))
    (2+4j)
    """
    if not all(np.iscomplexobj(leaf) for leaf in pytrees.leaves(x)):
        warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
    return _value_and_gradient("holomorphic_grad", lambda z: fnp.real(fun(z)), x)[1]


@unary_to_nary
def jacobian(fun: Function, x: object) -> Any:
    """``jacobian(fun, argnum)(*args)``: all derivatives, of shape ``out.shape + x.shape``.

    Examples
    --------
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    pull, value = pullback_of(fun, x)
    leaves = _numbers("jacobian", value, "Take the Jacobian of its real and imaginary parts.")
    if isinstance(value, (tuple, list, dict)) or len(leaves) != 1:
        raise DifferentiationError(
            "jacobian: the function returned a container. It has to return one array: join its"
            " parts with np.concatenate, or see misc.flatten."
        )
    shape, size = shape_of(value), int(np.prod(shape_of(value)))
    basis = np.eye(size, dtype=dtype_of(value)).reshape(size, *shape)
    try:
        rows = vmap(pull)(basis)
    except TracerError:  # a user's rule needs concrete values: one row at a time
        rows = pytrees.map(lambda *parts: fnp.stack(parts), *map(pull, basis))
    return plain(
        pytrees.map(
            lambda leaf, row: fnp.reshape(row, (*shape, *shape_of(leaf))), differentiable(x), rows
        )
    )


@unary_to_nary
def hessian(fun: Function, x: object) -> Any:
    """``hessian(fun, argnum)(*args)``: the second derivatives.

    Examples
    --------
    >>> hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def make_hvp(fun: Function, x: object) -> tuple[Function, Any]:
    """``make_hvp(fun, argnum)(*args)``: the Hessian-vector product at a point, and the gradient.

    Examples
    --------
    >>> hvp, gradient = make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> hvp(np.array([1.0, 0.0]))
    array([6., 0.])
    """
    return pullback_of(grad(fun), x)


def grad_named(fun: Function, argname: str) -> Function:
    """Make the gradient with respect to a parameter, given by name.

    Examples
    --------
    >>> grad_named(lambda a, b: a * b, "b")(2.0, 3.0)
    np.float64(2.0)
    """
    parameters = list(inspect.signature(fun).parameters)
    if argname not in parameters:
        raise DifferentiationError(
            f"grad_named: the function has no parameter {argname}; it has {', '.join(parameters)}."
        )
    return grad(fun, parameters.index(argname))


def multigrad_dict(fun: Function) -> Function:
    """Make the gradients with respect to all arguments, as a dict by name, defaults included.

    Examples
    --------
    >>> multigrad_dict(lambda a, b=3.0: a * b)(2.0)
    {'a': np.float64(3.0), 'b': np.float64(2.0)}
    """
    signature = inspect.signature(fun)

    def gradients(*args: object, **kwargs: object) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def by_names(arguments: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, arguments)
            return fun(*again.args, **again.kwargs)

        return grad(by_names)(dict(bound.arguments))

    return gradients


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """Make the product of the Hessian with a tensor, passed as the last argument.

    Examples
    --------
    >>> hessian_tensor_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.ones(2))
    array([ 6., 12.])
    """
    gradient = grad(fun, argnum)

    def directional(*args: Any, **kwargs: object) -> Any:
        *point, direction = args
        return fnp.tensordot(gradient(*point, **kwargs), direction, np.ndim(direction))

    return grad(directional, argnum)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """Make the product of a tensor, passed as the last argument, with the Jacobian.

    Examples
    --------
    >>> tensor_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.ones(2))
    array([2., 4.])
    """

    def weighted(*args: Any, **kwargs: object) -> Any:
        *point, weights = args
        return fnp.tensordot(weights, fun(*point, **kwargs), np.ndim(weights))

    return jacobian(weighted, argnum)


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: object) -> Function:
    """``make_jvp_reversemode(fun, argnum)(*args)``: the Jacobian-vector product, by reverse mode.

    Examples
    --------
    >>> make_jvp_reversemode(np.sin)(np.zeros(2))(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    pull, value = pullback_of(fun, x)
    return pullback_of(pull, filled_like(value, 0.0))[0]


def _half_square(x: object) -> Any:
    return 0.5 * fnp.sum(fnp.square(x), axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """``make_ggnvp(f, g)(*args)``: products with the generalized Gauss-Newton matrix J' H J.

    J is the Jacobian of ``f``, and H the Hessian of ``g`` at its value.

    Examples
    --------
    >>> make_ggnvp(lambda x: x**2)(np.array([1.0, 2.0]))(np.ones(2))
    array([ 4., 16.])
    """

    def at_point(fun: Function, x: object) -> Function:
        pull, value = pullback_of(fun, x)
        curvature = pullback_of(grad(g), value)[0]
        push = pushforward_of(fun, x)
        return lambda v: pull(curvature(push(v)[1]))

    return unary_to_nary(at_point)(f, f_argnum)


def checkpoint(fun: Function) -> Function:
    """Make a function that reverse mode recomputes instead of storing its intermediate values.

    Examples
    --------
    >>> grad(checkpoint(lambda x: x**2))(3.0)
    np.float64(6.0)
    """

    @wraps(fun)
    def checkpointed(*args: object, **kwargs: object) -> Any:
        followed = [k for k, arg in enumerate(args) if levels(arg)]

        def inner(*values: object) -> Any:
            return fun(*subvals(args, zip(followed, values, strict=True)), **kwargs)

        if not followed:
            return fun(*args, **kwargs)
        return plain(_checkpoint(inner)(*[args[k] for k in followed]))

    return checkpointed


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
