"""Sharpness-aware minimization: the gradient is that of a worse place nearby.

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
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    flattened,
    in_dtype_of,
    scalar,
    widened,
)
from funcgrad.optim.option_types import Objective, Size, check_named, making, one_objective
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree import norm


@making
def sam(
    optimizer: Optimizer[Any],
    rho: Size = 0.05,
    *,
    adaptive: bool = False,
) -> Optimizer[Any]:
    """Step by the gradient at the worst place nearby, which leads to flat minima.

    ``update`` and ``step`` take the ``objective`` by name: a function from parameters to a real
    number, whose gradient at the parameters is ``grads``, with the same data. So a step is one
    call, also in ``jit`` and in ``scan``.

    Parameters
    ----------
    optimizer : Optimizer
        It gets the gradient at the other place, and steps from the parameters.
    rho : float or 0-d tensor
        How far that place is away, in the norm of all parameters together.
    adaptive : bool
        Whether distances are counted in magnitudes of parameters, number by number, so that they
        do not depend on their scales. ``rho`` is to be ten times greater then.

    Returns
    -------
    Optimizer
        Its state is that of ``optimizer``.

    Raises
    ------
    ArgumentError
        ``rho`` is negative, or ``update`` is called without ``objective=``.
    FunctionError
        ``optimizer`` is none, or ``objective`` is no function.

    Notes
    -----
    Foret, Kleiner, Mobahi, Neyshabur, "Sharpness-aware minimization for efficiently improving
    generalization", ICLR 2021; ``adaptive`` is that of Kwon, Kim, Park, Choi, "ASAM", ICML 2021.
    With the gradient g at p, the other place is ``p + rho g / |g|``, or
    ``p + rho |p|² g / |p g|``, with products of numbers, where ``adaptive``. A gradient that is
    zero leads to no other place.

    Steps are those of ``optax.contrib.sam(optimizer, chain(normalize(), sgd(rho)))``, which by
    default takes a step in two calls, with parameters in between that are to be used for nothing
    else.

    For complex parameters the objective rises along the gradient as for real ones. A gradient with
    a NaN leads to a place of NaN, whose gradient ``optimizer`` gets: put ``sam`` around
    ``apply_if_finite``.

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
