"""Steps that are left out because a gradient is infinite or NaN.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = apply_if_finite(sgd(1.0), max_consecutive_errors=5)
>>> params, state = tensor(1.0), optimizer.init(tensor(1.0))
>>> for gradient in (0.5, float("nan"), 0.25):
...     params, state = optimizer.step(tensor(gradient), state, params)
>>> params, state.total_notfinite, state.inner.count
(Tensor(0.25), Tensor(1), Tensor(2))
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    check_number,
    check_optimizer,
    check_state,
    flatten_params,
    in_dtypes,
    making,
    zeros,
)
from funcgrad.optim.chain import check_named
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class ApplyIfFiniteState:
    """The state of ``apply_if_finite``.

    Attributes
    ----------
    notfinite_count : Tensor of int64
        How many gradients in a row were not finite, up to the last.
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
    optimizer: Optimizer[Any], max_consecutive_errors: ArrayLike
) -> Optimizer[ApplyIfFiniteState]:
    """Leave out steps whose gradients are not all finite.

    Parameters
    ----------
    optimizer : Optimizer
        It never sees such gradients: its state stays, and the updates are zero.
    max_consecutive_errors : int or 0-d tensor
        How many steps in a row may be left out. The next of them is made as it is, so that an error
        that stays is seen.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        The number is negative.
    FunctionError
        ``optimizer`` is none.

    Notes
    -----
    As ``optax.apply_if_finite``. The gradients that it gets are looked at, not the updates. Put
    ``clip_by_norm`` outside of it, which makes an infinite gradient finite, only if that is wanted;
    and ``sam`` and ``lbfgs`` around it or without it, since they evaluate gradients themselves.

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
    check_optimizer("apply_if_finite", optimizer)
    check_number("apply_if_finite", "max_consecutive_errors", max_consecutive_errors)
    return _IfFinite(optimizer, max_consecutive_errors).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _IfFinite:
    inner: Optimizer[Any]
    most: ArrayLike

    def optimizer(self) -> Optimizer[ApplyIfFiniteState]:
        inner, operation = self.inner, "apply_if_finite.update"

        def init(params: Pytree) -> ApplyIfFiniteState:
            return ApplyIfFiniteState(tensor(0), tensor(True), tensor(0), inner.init(params))

        def update(
            grads: Pytree, state: ApplyIfFiniteState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, ApplyIfFiniteState]:
            check_named(operation, values, inner.takes)
            check_state(state, ApplyIfFiniteState, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)

            def stepped(gs: list[Tensor], before: Pytree) -> tuple[Pytree, Any]:
                updates, following = inner.update(
                    unflatten(structure, gs), before, params, **values
                )
                return in_dtypes(updates, leaves, structure, operation), following

            def waited(gs: list[Tensor], before: Pytree) -> tuple[Pytree, Any]:
                return unflatten(structure, [zeros(leaf) for leaf in leaves]), before

            is_finite = tensor(True)
            for g in gs:
                is_finite = is_finite & fnp.all(fnp.isfinite(g))
            errors = fnp.where(is_finite, 0, state.notfinite_count + 1)
            is_made = is_finite | (errors > self.most)
            updates, following = cond(is_made, stepped, waited, gs, state.inner)
            total = state.total_notfinite + fnp.where(is_finite, 0, 1)
            return updates, ApplyIfFiniteState(errors, is_finite, total, following)

        return Optimizer(init, answering(update, operation), inner.takes, self)
