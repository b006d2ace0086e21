"""autograd's ``misc``: flattened containers, optimizers, fixed points, functions traced once.

The optimizers minimize by ``grad(x, i)``, the gradient at step i, and call ``callback(x, i, g)``
before each step. ``funcgrad.optim`` has more optimizers, as functions of one step.

>>> x = sgd(lambda x, i: x, {"a": np.ones(2)}, num_iters=100)
>>> bool(np.all(np.abs(x["a"]) < 0.6))
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.specs import shape_of
from funcgrad._staging.jit import jit
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.errors import ShapeError, TreeError
from funcgrad.implicit.roots import custom_root
from funcgrad.tensor.tensor import Tensor

Gradient = Callable[[Any, int], Any]
Callback = Callable[[Any, int, Any], object]
Vector = NDArray[np.float64]
Means = tuple[Vector, Vector]
State = TypeVar("State")


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Fix the first arguments of a function, and compile it by ``fg.jit``.

    The Python code runs again only if shapes, or values that it branched on, have changed.

    >>> area = const_graph(lambda a, b: a * b, 2.0)
    >>> area(3.0)
    6.0
    """
    compiled = jit(partial(fun, *args, **kwargs))
    return wraps(fun)(lambda *values: plain(compiled(*values)))


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: Any,
    x0: Any,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """Iterate f(a) from ``x0`` until successive iterates are closer than ``tol``.

    Parameters
    ----------
    f : callable
        ``f(a)(x)`` is like x.
    a : pytree
        The parameters. The result is differentiable with respect to them, in both modes and to
        every order, through the equation x = f(a)(x).
    x0 : pytree
        The starting point, without influence on derivatives.
    distance : callable
        ``distance(x, y)`` returns a scalar.
    tol : float

    >>> from funcgrad.compat.autograd import grad
    >>> heron = lambda a: lambda x: 0.5 * (x + a / x)
    >>> root = lambda a: fixed_point(heron, a, 1.0, lambda x, y: abs(x - y), 1e-12)
    >>> float(root(4.0)), float(grad(root)(4.0))
    (2.0, 0.25)
    """
    step = f(a)

    def iterated(_: Callable[[Any], Any], start: Any) -> Any:
        x, before = step(start), start
        while distance(x, before) > tol:
            x, before = step(x), x
        return x

    def residual(x: Any) -> Any:
        return pytrees.map(lambda new, old: new - old, step(x), x)

    return plain(custom_root(residual, x0, iterated))


def flatten(value: object) -> tuple[Any, Callable[[Any], Any]]:
    """Flatten nested tuples, lists and dicts of arrays and scalars to a vector.

    Parameters
    ----------
    value : container, array or scalar
        The keys of dicts are sorted.

    Returns
    -------
    vector : array of shape (n,)
    unflatten : callable
        From a vector of n elements to containers like ``value``; both are differentiable.

    Raises
    ------
    TreeError
        A leaf is not an array.
    ShapeError
        When ``unflatten`` is called: its argument has another shape.

    >>> vector, unflatten = flatten({"b": np.array([2.0, 3.0]), "a": 1.0})
    >>> vector, unflatten(vector)
    (array([1., 2., 3.]), {'a': np.float64(1.0), 'b': array([2., 3.])})
    """
    leaves, structure = pytrees.flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, Tensor) and np.asarray(leaf).dtype.kind not in "biufc":
            raise TreeError(
                f"flatten: expected arrays, scalars and containers, got a"
                f" {type(leaf).__name__}: {leaf!r}."
            )
    if any(map(holds_tensor, leaves)):
        vector = plain(fnp.concatenate([fnp.ravel(leaf) for leaf in leaves]))
    else:
        vector = np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.array([])
    shapes = [shape_of(leaf) for leaf in leaves]
    stops = list(accumulate((int(np.prod(shape)) for shape in shapes), initial=0))

    def unflatten(flat: Any) -> Any:
        if shape_of(flat) != (stops[-1],):
            raise ShapeError(
                f"unflatten: expected shape {(stops[-1],)}, of the vector that flatten returned,"
                f" got {shape_of(flat)}."
            )
        parts = zip(shapes, stops, stops[1:], strict=False)
        return pytrees.unflatten(
            structure, [flat[i:j].reshape(shape) if shape else flat[i] for shape, i, j in parts]
        )

    return vector, unflatten


def flatten_func(
    func: Callable[..., Any], example: object
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Convert a function of containers to a function from vectors to vectors.

    Returns
    -------
    flat_func : callable
    unflatten : callable
    vector : array
        The example as a vector.

    >>> flat, _, vector = flatten_func(lambda t: [t[1], t[0]], (1.0, 2.0))
    >>> flat(vector)
    array([2., 1.])
    """
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """Convert an optimizer of vectors to an optimizer of containers.

    Parameters
    ----------
    optimize : callable
        ``optimize(grad, x, callback, *args, **kwargs)`` for a vector x.
    """

    @wraps(optimize)
    def on_containers(
        grad: Gradient,
        x0: object,
        callback: Callback | None = None,
        *args: object,
        **kwargs: object,
    ) -> Any:
        vector, unflatten = flatten(x0)

        def flat_grad(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def flat_callback(x: Any, i: int, g: Any) -> None:
            assert callback is not None
            callback(unflatten(x), i, unflatten(g))

        shown = flat_callback if callback else None
        return unflatten(optimize(flat_grad, vector, shown, *args, **kwargs))

    return on_containers


def _minimized(
    grad: Gradient,
    x: Vector,
    callback: Callback | None,
    num_iters: int,
    state: State,
    update: Callable[[State, Vector, int], tuple[State, Vector]],
) -> Vector:
    """Subtract steps from x: ``update(state, g, i)`` returns the next state and the step."""
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        state, step = update(state, g, i)
        x = x - step
    return x


@unflatten_optimizer
def sgd(
    grad: Gradient,
    x: Vector,
    callback: Callback | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Vector:
    """Gradient descent with momentum: v = mass v - (1 - mass) g, x = x + step_size v."""

    def update(velocity: Vector, g: Vector, _: int) -> tuple[Vector, Vector]:
        velocity = mass * velocity - (1.0 - mass) * g
        return velocity, -step_size * velocity

    return _minimized(grad, x, callback, num_iters, np.zeros(len(x)), update)


@unflatten_optimizer
def rmsprop(
    grad: Gradient,
    x: Vector,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Vector:
    """RMSProp: divide the gradient by the root of its running mean square, which starts at 1.

    References
    ----------
    T. Tieleman and G. Hinton, Neural Networks for Machine Learning, lecture 6e, 2012.
    """

    def update(mean_square: Vector, g: Vector, _: int) -> tuple[Vector, Vector]:
        mean_square = gamma * mean_square + (1.0 - gamma) * g**2
        return mean_square, step_size * g / (np.sqrt(mean_square) + eps)

    return _minimized(grad, x, callback, num_iters, np.ones(len(x)), update)


@unflatten_optimizer
def adam(
    grad: Gradient,
    x: Vector,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Vector:
    """Adam: unbiased running means of the gradient and of its square.

    References
    ----------
    D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
    """

    def update(means: Means, g: Vector, i: int) -> tuple[Means, Vector]:
        mean, mean_square = means
        mean = (1.0 - b1) * g + b1 * mean
        mean_square = (1.0 - b2) * g**2 + b2 * mean_square
        unbiased = mean / (1.0 - b1 ** (i + 1))
        scale = np.sqrt(mean_square / (1.0 - b2 ** (i + 1))) + eps
        return (mean, mean_square), step_size * unbiased / scale

    zeros = np.zeros(len(x))
    return _minimized(grad, x, callback, num_iters, (zeros, zeros), update)
