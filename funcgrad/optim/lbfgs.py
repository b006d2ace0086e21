"""L-BFGS: steps along a quasi-Newton direction, whose length a line search finds.

>>> import funcgrad as fg
>>> def loss(x):
...     return (x - 3.0) ** 4
>>> optimizer = lbfgs()
>>> x, state = fg.tensor(1.0), optimizer.init(1.0)
>>> x, state = optimizer.step(state.grads, state, x, value=state.value, objective=loss)
>>> loss(x) < loss(1.0), loss(x) == state.value
(Tensor(True), Tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.complexes import join_parts
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.errors import ShapeError
from funcgrad.optim.base import (
    Objective,
    Optimizer,
    Pytree,
    aligned,
    apply_updates,
    check_number,
    check_state,
    check_whole,
    flatten_params,
    in_dtype,
    making,
    one_objective,
    one_value,
    widened,
)
from funcgrad.optim.lbfgs_memory import PairMemory
from funcgrad.optim.lbfgs_search import Conditions, LinePlace, searched
from funcgrad.tensor.tensor import Tensor, apply, tensor
from funcgrad.tree.vectors import ravel

_SCALAR = np.dtype(np.float64)


@pytree(slots=True)
class LbfgsState:
    """The state of ``lbfgs``.

    The vectors hold the numbers of all parameters, complex ones by their real and imaginary parts,
    in the parameters' widest precision, which is float32 at least.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    value : Tensor of float64
        The objective at the parameters after the step; infinite before the first.
    grads : pytree of tensors
        Its gradient there, infinite before the first step. Pass both to the next step, so that
        nothing is evaluated twice.
    evaluations : Tensor of int64
        How often all steps so far have evaluated the objective and its gradient.
    memory : PairMemory
        The last ``steps`` and ``changes`` of the gradient, each of shape (memory_size, n), and
        their products.
    rate : Tensor of float64
        The last step's multiple of the direction; 0 before the first step, and where no rate was
        found at which the objective is less.
    """

    count: Tensor
    value: Tensor
    grads: Pytree
    evaluations: Tensor
    memory: PairMemory
    rate: Tensor


@making
def lbfgs(
    memory_size: int = 10,
    *,
    max_linesearch_steps: int = 20,
    slope_rtol: ArrayLike = 1e-4,
    curv_rtol: ArrayLike = 0.9,
) -> Optimizer[LbfgsState]:
    """L-BFGS: steps along a quasi-Newton direction, whose length a line search finds.

    For smooth objectives without noise, such as that of all data. ``update`` and ``step`` take two
    arguments by name: ``objective``, a function from parameters to a real number, and ``value``,
    its value at ``params``; ``grads`` is its gradient there. Where the value is not finite, as
    ``state.value`` is not before the first step, both are evaluated first.

    Parameters
    ----------
    memory_size : int
        How many steps and changes of the gradient make the direction.
    max_linesearch_steps : int
        How often a step evaluates the objective and its gradient at most.
    slope_rtol : float or 0-d tensor
        Wolfe's first condition: the objective falls at least by this share of what its slope at the
        start promises.
    curv_rtol : float or 0-d tensor
        Wolfe's second condition: the slope's magnitude falls to this share of that at the start.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is out of bounds, or ``update`` is called without ``value=`` or ``objective=``.

    Notes
    -----
    Nocedal, "Updating quasi-Newton matrices with limited storage", Math. Comp. 35, 1980; the search
    is that of Nocedal, Wright, "Numerical optimization", 2006, section 3.5. Options are those of
    optax's ``lbfgs`` and its zoom line search.

    A rate at which the objective is infinite or NaN is too long. A pair of a step and a change is
    remembered if their product is above 0. If no rate is found at which the objective is less, as
    at a minimum, the updates and ``state.rate`` are zero, and the next step starts again along the
    gradient. Where numbers differ by rounding alone, the slope decides, and the objective may rise
    by that much.

    In a ``chain`` put it last: the search is along its direction, and ends at its updates.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def rosenbrock(p):
    ...     return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2
    >>> optimizer = lbfgs()
    >>> def is_steep(carry):
    ...     return fg.tree.norm(carry[1].grads) > 1e-8
    >>> def step(carry):
    ...     x, state = carry
    ...     return optimizer.step(state.grads, state, x, value=state.value, objective=rosenbrock)
    >>> def minimized(params):
    ...     return fg.while_loop(is_steep, step, (params, optimizer.init(params)))
    >>> params, state = fg.jit(minimized)({"x": fg.tensor(-1.2), "y": fg.tensor(1.0)})
    >>> fg.tree.map(lambda x: x.round(6), params), state.count < 40
    ({'x': Tensor(1.0), 'y': Tensor(1.0)}, Tensor(True))
    """
    check_whole("lbfgs", "memory_size", memory_size)
    check_whole("lbfgs", "max_linesearch_steps", max_linesearch_steps)
    check_number("lbfgs", "slope_rtol", slope_rtol, 1.0)
    check_number("lbfgs", "curv_rtol", curv_rtol, 1.0)
    return _Lbfgs(memory_size, max_linesearch_steps, slope_rtol, curv_rtol).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Lbfgs:
    memory_size: int
    evaluations: int
    decrease: ArrayLike
    curvature: ArrayLike

    def optimizer(self) -> Optimizer[LbfgsState]:
        def init(params: Pytree) -> LbfgsState:
            leaves, structure = flatten_params(params, "lbfgs.init")
            vector, restored = _numbers([widened(leaf, leaf.dtype) for leaf in leaves])
            grads = unflatten(structure, restored(fnp.full_like(vector, np.inf)))
            memory = PairMemory.empty(self.memory_size, vector)
            return LbfgsState(tensor(0), tensor(np.inf), grads, tensor(0), memory, tensor(0.0))

        def update(
            grads: Pytree,
            state: LbfgsState,
            params: Pytree,
            value: ArrayLike | None = None,
            objective: Objective | None = None,
        ) -> tuple[Pytree, LbfgsState]:
            return self._update(grads, state, params, *_checked(value, objective))

        return Optimizer(init, answering(update, "lbfgs.update"), ("value", "objective"), self)

    def _update(
        self,
        grads: Pytree,
        state: LbfgsState,
        params: Pytree,
        value: Tensor,
        objective: Objective,
    ) -> tuple[Pytree, LbfgsState]:
        operation = "lbfgs.update"
        check_state(state, LbfgsState, operation)
        leaves, structure = flatten_params(params, operation)

        def evaluated(places: list[Tensor]) -> tuple[Tensor, Tensor]:
            value, grads = value_and_grad(objective)(unflatten(structure, places))
            gradient, _ = _numbers(aligned(grads, "gradient", leaves, structure, operation))
            return in_dtype(value, _SCALAR), gradient

        gradient, restored = _numbers(aligned(grads, "grads", leaves, structure, operation))
        # A choice would evaluate at every step in a batch; and the loop carries the leaves, since
        # what does not change in a loop is computed before it, even if it has no steps.
        value, before, first, _ = while_loop(
            lambda start: ~fnp.isfinite(start[0]) & (start[2] < 1),
            lambda start: (*evaluated(start[3]), start[2] + 1, start[3]),
            (value, gradient, tensor(0), leaves),
        )
        _check_memory(state.memory, self.memory_size, before)
        direction, is_newton = state.memory.direction(before)

        def updates_at(rate: Tensor) -> list[Tensor]:
            updates = restored(in_dtype(rate, direction.dtype) * direction)
            return [in_dtype(x, leaf.dtype) for x, leaf in zip(updates, leaves, strict=True)]

        def along(rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            value, gradient = evaluated(apply_updates(leaves, updates_at(rate)))
            return value, _product(gradient, direction), gradient

        noise = 10.0 * max([float(np.finfo(leaf.dtype).eps) for leaf in leaves], default=0.0)
        start = LinePlace(tensor(0.0), value, _product(before, direction))
        conditions = Conditions(self.decrease, self.curvature, noise, self.evaluations)
        low, gradient, evaluations = searched(along, start, before, conditions)
        updates = updates_at(low.rate)
        step, _ = _numbers([widened(update, update.dtype) for update in updates])
        memory = state.memory.emptied_unless(is_newton & (low.rate > 0.0))
        least = float(np.finfo(step.dtype).eps) * -start.slope * low.rate
        following = LbfgsState(
            state.count + 1,
            low.value,
            unflatten(structure, restored(gradient)),
            state.evaluations + first + evaluations,
            memory.with_pair(step, gradient - before, least),
            low.rate,
        )
        return unflatten(structure, updates), following


def _checked(value: ArrayLike | None, objective: Objective | None) -> tuple[Tensor, Objective]:
    """Check the named arguments of ``update``; return the value in float64.

    Raises
    ------
    ArgumentError, FunctionError, ShapeError, DtypeError
        One is missing, or no function, or not one real number.
    """
    call = "step(state.grads, state, params, value=state.value, objective=loss)"
    return one_value(value, "lbfgs.update", call), one_objective(objective, "lbfgs.update", call)


def _check_memory(memory: PairMemory, memory_size: int, gradient: Tensor) -> None:
    """Check that a memory is one of as many pairs and parameters.

    Raises
    ------
    ShapeError
        It is not.
    """
    rows, square = (memory_size, *gradient.shape), (memory_size, memory_size)
    shapes = {"steps": rows, "changes": rows, "inverse": square}
    for name, expected in shapes.items():
        shape = getattr(memory, name).shape
        if shape != expected:
            raise ShapeError(
                f"lbfgs.update: state.memory.{name}: expected shape {expected}, as memory_size and"
                f" the parameters give, got {shape}."
            )


def _numbers(leaves: list[Tensor]) -> tuple[Tensor, Callable[[Tensor], list[Tensor]]]:
    """One real vector of the numbers of leaves; and the function from a vector to such leaves."""
    vector, unravel = ravel(
        [(leaf.real, leaf.imag) if leaf.dtype.kind == "c" else leaf for leaf in leaves]
    )

    def restored(numbers: Tensor) -> list[Tensor]:
        return [
            apply(join_parts, *leaf) if isinstance(leaf, tuple) else leaf
            for leaf in unravel(numbers)
        ]

    return vector, restored


def _product(x: Tensor, y: Tensor) -> Tensor:
    return in_dtype(x @ y, _SCALAR)
