"""``minimize``: a whole run of an optimizer, as one compiled loop.

>>> from funcgrad.optim.adam import adam
>>> run = minimize(lambda w: (w - 3.0) ** 2, 0.0, adam(0.1), tol=1e-6, max_steps=1000)
>>> run.params.round(4), run.success
(Tensor(3.0), Tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._control.choices import is_unknown
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._core.pytrees import pytree
from funcgrad._core.trace import concrete
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import Optimizer, Pytree
from funcgrad.optim.option_types import check_number
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.tree import norm

Objective = Callable[..., Any]


@pytree(slots=True)
class OptimizerRun:
    """A run of an optimizer so far, from which ``minimize`` can go on.

    Attributes
    ----------
    params : pytree
        The parameters after the last step.
    state : pytree
        The state of the optimizer.
    value : Tensor
        The objective at ``params``.
    slope : Tensor
        The norm of the gradient at ``params``.
    nit : Tensor of int
        The number of steps, those of an earlier run included.
    success : Tensor of bool
        Whether the norm of the gradient is at most ``tol``.
    """

    params: Any
    state: Any
    value: Tensor
    slope: Tensor
    nit: Tensor
    success: Tensor


@watched
@answering
def minimize(
    objective: Objective,
    params: Pytree,
    optimizer: Optimizer[Any],
    *,
    args: object = (),
    tol: float = 0.0,
    max_steps: int = 1000,
    run: OptimizerRun | None = None,
    callback: Callable[[OptimizerRun], object] | None = None,
    every: int = 100,
) -> OptimizerRun:
    """Run an optimizer until the gradient is small, or for a number of steps, as a compiled loop.

    For training on batches write the loop yourself, by ``fg.scan``: here each step has the whole
    objective. For problems of few parameters ``fg.optimize.minimize`` needs fewer steps.

    Parameters
    ----------
    objective : callable
        ``objective(params, *args)`` returns a scalar.
    params : pytree of tensors
        The first parameters.
    optimizer : Optimizer
        Such as ``fg.optim.adam(0.01)`` or ``fg.optim.lbfgs()``. It is passed ``value`` and
        ``objective`` if it takes them.
    args : tuple
        Further arguments of ``objective``; anything else than a tuple is one argument.
    tol : float
        The run ends when the norm of the gradient is at most this; by default it does all steps.
    max_steps : int
        The maximum number of steps of this call.
    run : OptimizerRun, optional
        An earlier result, to go on from its parameters and its state; ``params`` is then ignored.
    callback : callable, optional
        Called with the run after each ``every`` steps, such as to print the value or to save it.
        A true result ends the run. Not inside ``jit`` and other transformations.
    every : int
        The number of steps between calls of ``callback``.

    Returns
    -------
    OptimizerRun
        ``params``, ``state``, ``value``, ``slope``, ``nit`` and ``success``; under ``vmap`` each
        example stops by itself. A run also ends where the objective is not finite.

    Raises
    ------
    ArgumentError
        An option is not allowed, or there is a callback inside of a transformation.
    FunctionError
        ``objective`` or ``callback`` is not a function.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def loss(w, data):
    ...     return fg.numpy.mean((w["a"] * data[0] + w["b"] - data[1]) ** 2)
    >>> data = fg.tensor([[0.0, 1.0, 2.0], [1.0, 3.0, 5.0]])
    >>> start = {"a": fg.tensor(0.0), "b": fg.tensor(0.0)}
    >>> first = fg.optim.minimize(loss, start, fg.optim.adam(0.1), args=(data,), max_steps=100)
    >>> run = fg.optim.minimize(loss, start, fg.optim.adam(0.1), args=(data,), run=first, tol=1e-6)
    >>> run.success, run.params["a"].round(4), run.nit > 100
    (Tensor(True), Tensor(2.0), Tensor(True))
    """
    check_function("minimize", objective)
    if not isinstance(optimizer, Optimizer):
        raise placed(
            ArgumentError,
            f"minimize: the third argument is an optimizer such as fg.optim.adam(0.01), got"
            f" {optimizer!r:.100}. Without one, fg.optimize.minimize(f, x0) chooses the steps.",
        )
    check_number("minimize", "tol", tol)
    most = count_of("minimize", "max_steps", max_steps)
    if run is not None and not isinstance(run, OptimizerRun):
        raise placed(ArgumentError, f"minimize: run has to be a result of minimize, got {run!r}.")
    params_of = args if isinstance(args, tuple) else (args,)
    start = partial(_started, objective, optimizer, tol)
    steps = partial(_advanced, objective, optimizer, tol)
    run = start(params, *params_of) if run is None else replace(run, success=run.slope <= tol)
    if callback is None:
        last = run.nit + most
        if is_unknown(concrete(run.value)):
            return steps(run, last, *params_of)
        return jit(steps)(run, last, *params_of)
    check_function("minimize", callback)
    length = count_of("minimize", "every", every)
    if is_unknown(concrete(run.value)):
        raise placed(
            ArgumentError,
            "minimize: inside jit, vmap and other transformations no callback can be called. Call"
            " minimize outside, or use fg.debug.print in the objective.",
        )
    compiled, last = jit(steps), run.nit + most
    while _goes_on(run) and int(run.nit) < int(last):
        run = compiled(run, fnp.minimum(run.nit + length, last), *params_of)
        if callback(run):
            break
    return run


def _goes_on(run: OptimizerRun) -> bool:
    return not bool(run.success) and bool(fnp.isfinite(run.value))


def _started(
    objective: Objective, optimizer: Optimizer[Any], tol: ArrayLike, params: Pytree, *args: object
) -> OptimizerRun:
    params = pytrees.map(tensor, params)
    value, grads = value_and_grad(objective)(params, *args)
    slope = norm(grads)
    return OptimizerRun(params, optimizer.init(params), value, slope, tensor(0), slope <= tol)


def _advanced(
    objective: Objective,
    optimizer: Optimizer[Any],
    tol: ArrayLike,
    run: OptimizerRun,
    last: Tensor,
    *args: object,
) -> OptimizerRun:
    """Steps until the gradient is small, or the count of steps is reached."""
    differentiated = value_and_grad(objective)

    def loss(params: Pytree) -> Any:
        return objective(params, *args)

    def goes_on(state: tuple[OptimizerRun, Pytree]) -> Tensor:
        now = state[0]
        return ~now.success & (now.nit < last) & fnp.isfinite(now.value)

    def step(state: tuple[OptimizerRun, Pytree]) -> tuple[OptimizerRun, Pytree]:
        now, grads = state
        known = {"value": now.value, "objective": loss}
        named = {name: known[name] for name in optimizer.takes if name in known}
        params, inner = optimizer.step(grads, now.state, now.params, **named)
        value, grads = differentiated(params, *args)
        slope = norm(grads)
        return OptimizerRun(params, inner, value, slope, now.nit + 1, slope <= tol), grads

    value, grads = differentiated(run.params, *args)
    slope = norm(grads)
    now = OptimizerRun(run.params, run.state, value, slope, run.nit, slope <= tol)
    return while_loop(goes_on, step, (now, grads))[0]
