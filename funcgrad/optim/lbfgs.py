"""L-BFGS: step along a quasi-Newton direction, with a line search.

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
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.complexes import join_parts
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.errors import ShapeError
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    apply_updates,
    flattened,
    in_dtype,
    in_dtypes_of,
    widened,
)
from funcgrad.optim.lbfgs_search import Conditions, LinePlace, searched
from funcgrad.optim.option_types import (
    Count,
    Objective,
    Share,
    check_state,
    making,
    one_objective,
    one_value,
)
from funcgrad.tensor.tensor import Tensor, apply, tensor
from funcgrad.tree.vectors import ravel

_SCALAR = np.dtype(np.float64)


@pytree(slots=True)
class PairMemory:
    """Pairs of a step and a change of the gradient; the latest is the last.

    Attributes
    ----------
    steps, changes : Tensor of shape (m, n)
    inverse : Tensor of shape (m, m)
        The inverse of the upper triangle of the products of steps and changes. It is zero
        where a pair is missing; ``steps`` and ``changes`` have no effect there.
    scale : Tensor
        The first guess of the inverse Hessian: this number times the identity.

    Notes
    -----
    The two loops of Nocedal, "Updating quasi-Newton matrices with limited storage", Math. Comp. 35,
    1980, are substitutions in this triangle, so its inverse makes them products of matrices and
    vectors: on the NumPy backend a minimization takes half of the time. The inverse of a triangle
    without its first row and column is part of its inverse, so one more pair adds a column, and
    nothing is solved.

    Examples
    --------
    >>> memory = PairMemory.empty(2, tensor([0.0, 0.0]))
    >>> memory = memory.with_pair(tensor([1.0, 0.0]), tensor([4.0, 0.0]), tensor(0.0))
    >>> memory.direction(tensor([8.0, 8.0]))[0]  # the Hessian of 2 x² + 2 y²
    Tensor([-2., -2.])
    """

    steps: Tensor
    changes: Tensor
    inverse: Tensor
    scale: Tensor

    @staticmethod
    def empty(size: int, vector: Tensor) -> PairMemory:
        """Make the memory for so many pairs of vectors, without any."""
        rows = fnp.zeros_like(vector, shape=(size, *vector.shape))
        inverse, scale = fnp.zeros_like(vector, shape=(size, size)), fnp.ones_like(vector, shape=())
        return PairMemory(rows, rows, inverse, scale)

    def direction(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the product of the approximate inverse Hessian and the gradient.

        Without a pair, and where that does not descend, by rounding or since a number is not
        finite, it is minus the gradient, of length 1 at most. The second result says whether it is
        the product.
        """
        diagonal = fnp.diagonal(self.inverse)
        shares = self.inverse @ (self.steps @ gradient)
        product = self.scale * (gradient - shares @ self.changes)
        shares = shares / fnp.where(diagonal == 0.0, 1.0, diagonal) - self.changes @ product
        product = product + (shares @ self.inverse) @ self.steps
        slope = gradient @ product
        is_newton = (diagonal[-1] > 0.0) & fnp.isfinite(slope) & (slope > 0.0)
        product = cond(is_newton, lambda x, _: x, lambda _, g: _shortened(g), product, gradient)
        return -product, is_newton

    def emptied_unless(self, which: Tensor) -> PairMemory:
        """The memory, or an empty one."""
        inverse = cond(which, lambda x: x, fnp.zeros_like, self.inverse)
        return PairMemory(self.steps, self.changes, inverse, self.scale)

    def with_pair(self, step: Tensor, change: Tensor, least: Tensor) -> PairMemory:
        """The memory with one pair more, without the first, if the product is above a number."""
        numbers = np.finfo(step.dtype)
        product, square = step @ change, change @ change
        is_curved = (product > least) & (product > float(numbers.tiny))
        is_curved = is_curved & (square > float(numbers.tiny)) & fnp.isfinite(square)
        scale = product / fnp.where(is_curved, square, 1.0)
        return cond(is_curved, _shifted, lambda memory, *_: memory, self, step, change, scale)


def _shortened(gradient: Tensor) -> Tensor:
    """A gradient of length 1 at most, with zeros where it is not finite."""
    gradient = fnp.where(fnp.isfinite(gradient), gradient, 0.0)
    return gradient / fnp.maximum(fnp.linalg.norm(gradient), 1.0)


def _shifted(memory: PairMemory, step: Tensor, change: Tensor, scale: Tensor) -> PairMemory:
    steps = fnp.concatenate([memory.steps[1:], step[None]])
    changes = fnp.concatenate([memory.changes[1:], change[None]])
    inner = fnp.concatenate([memory.inverse[1:, 1:], fnp.zeros_like(memory.inverse[:1, 1:])])
    products = steps @ change
    last = np.arange(len(products)) == len(products) - 1
    column = (last - inner @ products[:-1]) / products[-1]
    return PairMemory(steps, changes, fnp.column_stack([inner, column]), scale)


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
    memory_size: Count = 10,
    *,
    max_linesearch_steps: Count = 20,
    slope_rtol: Share = 1e-4,
    curv_rtol: Share = 0.9,
) -> Optimizer[LbfgsState]:
    """L-BFGS: step along a quasi-Newton direction, with a line search.

    It needs the fewest steps of all optimizers here for smooth objectives without noise, such as a
    loss over all data. For losses of batches take ``adam``. ``update`` and ``step`` take two
    arguments by name: ``objective``, a function from parameters to a real number, and ``value``,
    the objective at ``params``; ``grads`` is its gradient there. Where the value is not finite, as
    ``state.value`` before the first step, both are evaluated first.

    Parameters
    ----------
    memory_size : int
        How many past steps and gradient changes are stored to compute the direction.
    max_linesearch_steps : int
        The maximum number of evaluations of the objective with its gradient, for each step.
    slope_rtol : float or 0-d tensor
        Wolfe's first condition: the objective falls at least by this share of the fall that its
        slope at the start promises.
    curv_rtol : float or 0-d tensor
        Wolfe's second condition: the slope's magnitude falls to this share of its magnitude at the
        start.

    Raises
    ------
    ArgumentError
        ``update`` is called without ``value=`` or ``objective=``.

    Notes
    -----
    The update is ``-rate H g``, with the gradient g and an approximate inverse H of the Hessian,
    made of the last steps s and changes y of the gradient, so that ``H y = s`` for the last pair.
    The line search chooses the rate.

    Nocedal, "Updating quasi-Newton matrices with limited storage", Math. Comp. 35, 1980; the search
    follows Nocedal, Wright, "Numerical optimization", 2006, section 3.5. Options have the names of
    optax's ``lbfgs`` and its zoom line search.

    A rate at which the objective is infinite or NaN is too long. A pair of a step and a change is
    remembered if their product is above 0. If no rate is found at which the objective is less, as
    at a minimum, the updates and ``state.rate`` are zero, and the next step starts again along the
    gradient. Where numbers differ only by rounding, the slope decides, and the objective may rise
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
    steps = _LbfgsSteps(memory_size, max_linesearch_steps, slope_rtol, curv_rtol)
    return Optimizer(steps.init, steps.update, ("value", "objective"))


@dataclass(frozen=True, slots=True, eq=False)
class _LbfgsSteps:
    memory_size: int
    evaluations: int
    decrease: ArrayLike
    curvature: ArrayLike

    def init(self, params: Pytree) -> LbfgsState:
        structure, leaves = flattened("lbfgs.init", params)
        vector, restored = _numbers([widened(leaf) for leaf in leaves])
        grads = unflatten(structure, restored(fnp.full_like(vector, np.inf)))
        memory = PairMemory.empty(self.memory_size, vector)
        return LbfgsState(tensor(0), tensor(np.inf), grads, tensor(0), memory, tensor(0.0))

    def update(
        self,
        grads: Pytree,
        state: LbfgsState,
        params: Pytree,
        value: ArrayLike | None = None,
        objective: Objective | None = None,
    ) -> tuple[Pytree, LbfgsState]:
        operation = "lbfgs.update"
        call = "step(state.grads, state, params, value=state.value, objective=loss)"
        number = one_value(value, operation, call)
        function = value_and_grad(one_objective(objective, operation, call))
        check_state(operation, state, LbfgsState)
        structure, leaves, gs = flattened(operation, params, {"grads": grads})

        def evaluated(places: list[Tensor]) -> tuple[Tensor, Tensor]:
            value, grads = function(unflatten(structure, places))
            gradient, _ = _numbers(flattened(operation, params, {"gradient": grads})[2])
            return in_dtype(value, _SCALAR), gradient

        gradient, restored = _numbers(gs)
        # A choice would evaluate at every step in a batch; and the loop carries the leaves, since
        # what does not change in a loop is computed before it, even if it has no steps.
        here, before, first, _ = while_loop(
            lambda start: ~fnp.isfinite(start[0]) & (start[2] < 1),
            lambda start: (*evaluated(start[3]), start[2] + 1, start[3]),
            (number, gradient, tensor(0), leaves),
        )
        _check_memory(state.memory, self.memory_size, before)
        direction, is_newton = state.memory.direction(before)

        def updates_at(rate: Tensor) -> list[Tensor]:
            return in_dtypes_of(leaves, restored(in_dtype(rate, direction.dtype) * direction))

        def along(rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            value, gradient = evaluated(apply_updates(leaves, updates_at(rate)))
            return value, _product(gradient, direction), gradient

        noise = 10.0 * max([float(np.finfo(leaf.dtype).eps) for leaf in leaves], default=0.0)
        start = LinePlace(tensor(0.0), here, _product(before, direction))
        conditions = Conditions(self.decrease, self.curvature, noise, self.evaluations)
        low, gradient, evaluations = searched(along, start, before, conditions)
        updates = updates_at(low.rate)
        step, _ = _numbers([widened(update) for update in updates])
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


def _check_memory(memory: PairMemory, memory_size: int, gradient: Tensor) -> None:
    """Check that a memory is one of as many pairs and parameters."""
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
