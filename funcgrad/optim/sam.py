"""Sharpness-aware minimization: the gradient at a worse place nearby.

>>> import funcgrad as fg
>>> from funcgrad.optim.sgd import sgd
>>> def loss(x):
...     return x**2
>>> optimizer = sam(sgd(0.25), rho=0.5)
>>> x = fg.tensor(1.0)
>>> x, state = optimizer.step(fg.grad(loss)(x), optimizer.init(x), x, objective=loss)
>>> x  # 1 - 0.25 * 2 * (1 + 0.5)
Tensor(0.25)
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import unflatten
from funcgrad._transforms.reverse import grad
from funcgrad.optim.base import Optimizer, Pytree, flattened, in_dtype_of, scalar, widened
from funcgrad.optim.option_types import Objective, Size, check_named, making, one_objective
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree import norm


@making
def sam(optimizer: Optimizer[Any], rho: Size = 0.05, *, adaptive: bool = False) -> Optimizer[Any]:
    """Sharpness-aware minimization: step by the gradient at the worst nearby point.

    It leads to flat minima, where networks often generalize better. A step costs a second gradient.
    ``update`` and ``step`` take the ``objective`` by name: a function from parameters to a real
    number, for the same data as ``grads``, its gradient at the parameters.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that steps from the parameters, by the gradient at the perturbed point.
    rho : float or 0-d tensor
        The distance of the perturbed point, in the norm of all parameters together.
    adaptive : bool
        Whether to measure distances relative to the parameters' magnitudes, element by element.
        Then use a ``rho`` ten times greater.

    Returns
    -------
    Optimizer
        It has the state of ``optimizer``.

    Raises
    ------
    ArgumentError
        ``update`` is called without ``objective=``.
    FunctionError
        ``objective`` is not a function.

    Notes
    -----
    With the gradient g at p, the perturbed point is ``p + rho g / |g|``; if ``adaptive``, it is
    ``p + rho |p|² g / |p g|``, with element-wise products. If the gradient is zero, it is p.

    Foret, Kleiner, Mobahi, Neyshabur, "Sharpness-aware minimization for efficiently improving
    generalization", ICLR 2021; for ``adaptive`` Kwon, Kim, Park, Choi, "ASAM", ICML 2021. As
    ``optax.contrib.sam(optimizer, chain(normalize(), sgd(rho)))``, in one call for a step. A
    gradient with NaN leads to a place of NaN: put ``sam`` around ``apply_if_finite``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad import optim
    >>> def loss(params):
    ...     return fg.tree.vdot(params, params)
    >>> optimizer = optim.sam(optim.adam(0.1))
    >>> def step(carry, _):
    ...     params, state = carry
    ...     grads = fg.grad(loss)(params)
    ...     return optimizer.step(grads, state, params, objective=loss), None
    >>> start = {"w": fg.tensor([1.0, -2.0])}
    >>> (params, state), _ = fg.scan(step, (start, optimizer.init(start)), length=100)
    >>> loss(params) < 0.1, state.count
    (Tensor(True), Tensor(100))
    """
    operation = "sam.update"
    takes = tuple(dict.fromkeys((*optimizer.takes, "objective")))

    def update(
        grads: Pytree,
        state: Pytree,
        params: Pytree,
        objective: Objective | None = None,
        **values: Pytree,
    ) -> tuple[Pytree, Any]:
        check_named(operation, values, takes)
        call = "step(grads, state, params, objective=loss)"
        function = one_objective(objective, operation, call)
        structure, leaves, gs = flattened(operation, params, {"grads": grads})
        there = grad(function)(unflatten(structure, worse(leaves, gs)))
        _, _, gs = flattened(operation, params, {"the gradient": there})
        taken = {"objective": objective} if "objective" in optimizer.takes else {}
        return optimizer.update(unflatten(structure, gs), state, params, **taken, **values)

    def worse(leaves: list[Tensor], gs: list[Tensor]) -> list[Tensor]:
        """A place where the objective is greater, at the distance ``rho``."""
        wide = [widened(p) for p in leaves]
        sizes = [abs(p) if adaptive else None for p in wide]
        turned = [g if s is None else s * g for g, s in zip(gs, sizes, strict=True)]
        size = norm(turned)
        is_zero = size == 0.0
        factor = fnp.where(is_zero, 0.0, rho / fnp.where(is_zero, 1.0, size))
        ways = [t if s is None else s * t for t, s in zip(turned, sizes, strict=True)]
        return [
            in_dtype_of(x + scalar(factor, x) * way, p)
            for x, way, p in zip(wide, ways, leaves, strict=True)
        ]

    return Optimizer(optimizer.init, update, takes)
