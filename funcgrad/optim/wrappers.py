"""Optimizers around optimizers: steps of several gradients, and steps that are left out.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = accumulate(sgd(1.0), steps=2)
>>> params, state = tensor(0.0), optimizer.init(tensor(0.0))
>>> for gradient in (1.0, 3.0):
...     params, state = optimizer.step(tensor(gradient), state, params)
...     print(float(params))
0.0
-2.0
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import map, pytree, unflatten
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    flattened,
    in_dtype_of,
    in_dtypes_of,
    scalar,
    widened,
    zeros,
)
from funcgrad.optim.option_types import Count, Size, check_state, making
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class AccumulateState:
    """The state of ``accumulate``.

    Attributes
    ----------
    count : Tensor of int64
        How many gradients the mean holds.
    mean : pytree of tensors
        The mean of the gradients since the last step; in float32 at least.
    inner : pytree
        The state of the optimizer inside.
    """

    count: Tensor
    mean: Pytree
    inner: Any


@making
def accumulate(optimizer: Optimizer[Any], steps: Count) -> Optimizer[AccumulateState]:
    """Accumulate gradients: step once for every few calls, by the mean of their gradients.

    The updates in between are zero. So several small batches act as one large batch that would not
    fit into memory.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that makes the steps. It never sees the calls in between, so its count and its
        rate follow its own steps.
    steps : int
        The number of gradients for each step.

    Notes
    -----
    As ``optax.MultiSteps``. The mean has the dtype of the parameters, float32 at least; in optax
    float32 by default.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = accumulate(optim.sgd(1.0), steps=2)
    >>> params, state = tensor(0.0), optimizer.init(tensor(0.0))
    >>> for gradient in (1.0, 3.0, 5.0):
    ...     params, state = optimizer.step(tensor(gradient), state, params)
    >>> params, state.count
    (Tensor(-2.0), Tensor(1))
    """
    operation = "accumulate.update"

    def init(params: Pytree) -> AccumulateState:
        structure, leaves = flattened("accumulate.init", params)
        means = unflatten(structure, [zeros(widened(leaf)) for leaf in leaves])
        return AccumulateState(tensor(0), means, optimizer.init(params))

    def update(
        grads: Pytree, state: AccumulateState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, AccumulateState]:
        check_state(operation, state, AccumulateState, values, optimizer.takes)
        trees = {"grads": grads, "state.mean": state.mean}
        structure, _, gs, means = flattened(operation, params, trees)
        count = state.count + 1
        means = [
            in_dtype_of(mean + (g - mean) / scalar(count, mean), mean)
            for g, mean in zip(gs, means, strict=True)
        ]
        is_last = count == steps
        tree = unflatten(structure, means)
        updates, following = _step_if(
            is_last, optimizer, operation, params, values, tree, state.inner
        )
        emptied = map(lambda mean: fnp.where(is_last, 0.0, mean), tree)
        return updates, AccumulateState(fnp.where(is_last, 0, count), emptied, following)

    return Optimizer(init, update, optimizer.takes)


def _step_if(
    which: Tensor,
    optimizer: Optimizer[Any],
    operation: str,
    params: Pytree,
    values: dict[str, Pytree],
    grads: Pytree,
    state: Pytree,
) -> tuple[Pytree, Pytree]:
    """The updates and the next state of an optimizer; or zeros, and the same state."""

    def stepped(grads: Pytree, before: Pytree) -> tuple[Pytree, Pytree]:
        update: Any = optimizer.update
        updates, following = update(grads, before, params, **values)
        structure, leaves, us = flattened(operation, params, {"updates": updates})
        return unflatten(structure, in_dtypes_of(leaves, us)), following

    def waited(grads: Pytree, before: Pytree) -> tuple[Pytree, Pytree]:
        structure, leaves = flattened(operation, params)
        return unflatten(structure, [zeros(leaf) for leaf in leaves]), before

    return cond(which, stepped, waited, grads, state)


@pytree(slots=True)
class ApplyIfFiniteState:
    """The state of ``apply_if_finite``.

    Attributes
    ----------
    notfinite_count : Tensor of int64
        How many of the latest gradients were not finite, one after another.
    last_finite : Tensor of bool
        Whether the last gradients were finite; True before the first.
    total_notfinite : Tensor of int64
        How many gradients were not finite.
    inner : pytree
        The state of the optimizer inside.
    """

    notfinite_count: Tensor
    last_finite: Tensor
    total_notfinite: Tensor
    inner: Any


@making
def apply_if_finite(
    optimizer: Optimizer[Any], max_consecutive_errors: Size
) -> Optimizer[ApplyIfFiniteState]:
    """Skip steps whose gradients are not all finite.

    One NaN in a gradient would make all parameters NaN. Such steps happen in half precision, where
    a large loss overflows.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that makes the other steps. It never sees a gradient that is not finite: its
        state stays, and the updates are zero.
    max_consecutive_errors : int or 0-d tensor
        How many steps in a row may be skipped. The next such step is made unchanged, so that a
        persistent error becomes visible.

    Notes
    -----
    As ``optax.apply_if_finite``. It checks gradients, not updates. ``clip_by_norm`` before it makes
    infinite gradients finite. Put ``sam`` around it, and use ``lbfgs`` without it, since these
    evaluate gradients themselves.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.apply_if_finite(optim.adam(0.1), max_consecutive_errors=5)
    >>> grads, params = tensor([1.0, float("inf")]), tensor([3.0, 4.0])
    >>> params, state = optimizer.step(grads, optimizer.init(params), params)
    >>> params, state.last_finite
    (Tensor([3., 4.]), Tensor(False))
    """
    operation = "apply_if_finite.update"

    def init(params: Pytree) -> ApplyIfFiniteState:
        return ApplyIfFiniteState(tensor(0), tensor(True), tensor(0), optimizer.init(params))

    def update(
        grads: Pytree, state: ApplyIfFiniteState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, ApplyIfFiniteState]:
        check_state(operation, state, ApplyIfFiniteState, values, optimizer.takes)
        structure, _, gs = flattened(operation, params, {"grads": grads})
        is_finite = tensor(True)
        for g in gs:
            is_finite = is_finite & fnp.all(fnp.isfinite(g))
        errors = fnp.where(is_finite, 0, state.notfinite_count + 1)
        is_made = is_finite | (errors > max_consecutive_errors)
        tree = unflatten(structure, gs)
        updates, following = _step_if(
            is_made, optimizer, operation, params, values, tree, state.inner
        )
        total = state.total_notfinite + fnp.where(is_finite, 0, 1)
        return updates, ApplyIfFiniteState(errors, is_finite, total, following)

    return Optimizer(init, update, optimizer.takes)
