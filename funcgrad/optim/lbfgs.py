"""L-BFGS: steps along a quasi-Newton direction, whose length a line search finds.

>>> import funcgrad as fg
>>> def loss(x):
...     return (x - 3.0) ** 4
>>> optimizer = lbfgs()
>>> value, grads = fg.value_and_grad(loss)(fg.tensor(1.0))
>>> x, state = optimizer.step(
...     grads, optimizer.init(1.0), fg.tensor(1.0), value=value, objective=loss
... )
>>> loss(x) < value, loss(x) == state.value
(Tensor(True), Tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.control.scans import scan
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError
from funcgrad.foreign_names import answering
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    apply_updates,
    check_number,
    check_state,
    flatten_params,
    in_dtype,
    widened,
)
from funcgrad.optim.lbfgs_search import Conditions, LinePlace, searched
from funcgrad.primitives.complexes import join_parts
from funcgrad.quick_dataclasses import dataclass
from funcgrad.tensor import Tensor, apply, tensor
from funcgrad.transforms.reverse import value_and_grad
from funcgrad.tree.vectors import ravel
from funcgrad.trees import pytree, unflatten
from funcgrad.users_values import ArrayLike, operand

Objective: TypeAlias = Callable[[Any], ArrayLike]
"""From parameters to a real number."""

Memory: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Steps, changes of the gradient, and the inverses of their products."""

_NAMES = ("steps", "changes", "rho")

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
        Its gradient there: pass both to the next step, and nothing is evaluated twice.
    evaluations : Tensor of int64
        How often all steps so far have evaluated the objective and its gradient.
    steps : Tensor of shape (memory_size, n)
        The last steps; the latest is the last row, and what is not yet used is zero.
    changes : Tensor of shape (memory_size, n)
        By how much the gradient changed at each.
    rho : Tensor of shape (memory_size,)
        The inverse of the product of each step and change.
    rate : Tensor of float64
        The last step's multiple of the direction; 0 before the first step, and where no rate was
        found at which the objective is less.
    """

    count: Tensor
    value: Tensor
    grads: Pytree
    evaluations: Tensor
    steps: Tensor
    changes: Tensor
    rho: Tensor
    rate: Tensor


@answering
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
    its value at ``params``; ``grads`` is its gradient there.

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
    >>> def minimized(params):
    ...     value, grads = fg.value_and_grad(rosenbrock)(params)
    ...     def is_steep(carry):
    ...         return fg.tree.norm(carry[3]) > 1e-8
    ...     def step(carry):
    ...         params, state, value, grads = carry
    ...         params, state = optimizer.step(
    ...             grads, state, params, value=value, objective=rosenbrock
    ...         )
    ...         return params, state, state.value, state.grads
    ...     return fg.while_loop(is_steep, step, (params, optimizer.init(params), value, grads))
    >>> params, state, *_ = fg.jit(minimized)({"x": fg.tensor(-1.2), "y": fg.tensor(1.0)})
    >>> fg.tree.map(lambda x: x.round(6), params), state.count < 40
    ({'x': Tensor(1.0), 'y': Tensor(1.0)}, Tensor(True))
    """
    for name, number in (
        ("memory_size", memory_size),
        ("max_linesearch_steps", max_linesearch_steps),
    ):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ArgumentError(f"lbfgs: {name} has to be an integer above 0, got {number!r}.")
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
            start = fnp.zeros_like(vector)
            empty = fnp.zeros((self.memory_size, *vector.shape), vector.dtype)
            rho, grads = (
                fnp.zeros(self.memory_size, vector.dtype),
                unflatten(structure, restored(start)),
            )
            no = tensor(0)
            return LbfgsState(no, tensor(np.inf), grads, no, empty, empty, rho, tensor(0.0))

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
        before, restored = _numbers(aligned(grads, "grads", leaves, structure, operation))
        memory = _checked_memory(state, self.memory_size, before)
        direction, memory = _direction(before, memory)

        def updates_at(rate: Tensor) -> list[Tensor]:
            updates = restored(in_dtype(rate, direction.dtype) * direction)
            return [in_dtype(x, leaf.dtype) for x, leaf in zip(updates, leaves, strict=True)]

        def along(rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            moved = apply_updates(leaves, updates_at(rate))
            value, grads = value_and_grad(objective)(unflatten(structure, moved))
            gradient, _ = _numbers(aligned(grads, "gradient", leaves, structure, operation))
            return in_dtype(value, _SCALAR), _product(gradient, direction), gradient

        noise = 10.0 * max([float(np.finfo(leaf.dtype).eps) for leaf in leaves], default=0.0)
        start = LinePlace(tensor(0.0), value, _product(before, direction))
        conditions = Conditions(self.decrease, self.curvature, noise, self.evaluations)
        low, gradient, evaluations = searched(along, start, before, conditions)
        updates = updates_at(low.rate)
        step, _ = _numbers([widened(update, update.dtype) for update in updates])
        memory = _remembered(memory, low.rate, step, gradient - before, -start.slope * low.rate)
        following = LbfgsState(
            state.count + 1,
            low.value,
            unflatten(structure, restored(gradient)),
            state.evaluations + evaluations,
            *memory,
            low.rate,
        )
        return unflatten(structure, updates), following


def _checked(value: ArrayLike | None, objective: Objective | None) -> tuple[Tensor, Objective]:
    """Check the named arguments of ``update``; return the value in float64.

    Raises
    ------
    ArgumentError, DtypeError, FunctionError, ShapeError, DtypeError
        One is missing, or no function, or not one real number.
    """
    for name, argument in (("value", value), ("objective", objective)):
        if argument is None:
            raise ArgumentError(
                f"lbfgs.update: {name}= is missing. Call step(grads, state, params, value=value,"
                " objective=loss) with value, grads = fg.value_and_grad(loss)(params)."
            )
    if not callable(objective):
        raise FunctionError(
            "lbfgs.update: objective has to be a function from parameters to a number, got"
            f" {objective!r}."
        )
    start = tensor(operand(value, "lbfgs.update: value"))
    if start.shape:
        raise ShapeError(f"lbfgs.update: value has to be one number, got shape {start.shape}.")
    if start.dtype.kind not in "fiu":
        raise DtypeError(f"lbfgs.update: value has to be a real number, got dtype {start.dtype}.")
    return in_dtype(start, _SCALAR), objective


def _checked_memory(state: LbfgsState, memory_size: int, gradient: Tensor) -> Memory:
    """The memory of a state, if it is one of as many parameters.

    Raises
    ------
    ShapeError
        It is not.
    """
    memory, shape = (state.steps, state.changes, state.rho), (memory_size, *gradient.shape)
    for name, array, expected in zip(_NAMES, memory, (shape, shape, shape[:1]), strict=True):
        if array.shape != expected:
            raise ShapeError(
                f"lbfgs.update: state.{name}: expected shape {expected}, as memory_size and the"
                f" parameters give, got {array.shape}."
            )
    return memory


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


def _direction(gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    """Minus the product of the gradient and an inverse Hessian, by the two loops of Nocedal.

    Where rounding makes that no direction of descent, it is minus the gradient, and the memory is
    emptied.
    """

    def back(q: Tensor, pair: Memory) -> tuple[Tensor, Tensor]:
        step, change, rho = pair
        share = rho * (step @ q)
        return q - share * change, share

    def forth(q: Tensor, pair: tuple[Memory, Tensor]) -> tuple[Tensor, None]:
        (step, change, rho), share = pair
        return q + (share - rho * (change @ q)) * step, None

    _, changes, rho = memory
    plain = gradient / fnp.maximum(fnp.linalg.norm(gradient), 1.0)
    q, shares = scan(back, gradient, memory, reverse=True)
    is_empty, square = rho[-1] == 0.0, rho[-1] * (changes[-1] @ changes[-1])
    q = fnp.where(is_empty, plain, q / fnp.where(is_empty, 1.0, square))
    q, _ = scan(forth, q, (memory, shares))
    slope = gradient @ q
    is_down = fnp.isfinite(slope) & (slope > 0.0)
    q = fnp.where(is_down, q, fnp.where(fnp.isfinite(plain), plain, 0.0))
    steps, changes, rho = (fnp.where(is_down, x, 0.0) for x in memory)
    return -q, (steps, changes, rho)


def _remembered(
    memory: Memory, rate: Tensor, step: Tensor, change: Tensor, promised: Tensor
) -> Memory:
    """The memory with one pair more, if its product is above 0; empty where there was no step."""
    product = step @ change
    least = float(np.finfo(product.dtype).eps) * promised
    is_curved = (product > least) & (product > float(np.finfo(product.dtype).tiny))
    inverse = 1.0 / fnp.where(is_curved, product, 1.0)
    steps, changes, rho = (
        fnp.where(
            is_curved, fnp.concatenate([rows[1:], row[None]]), fnp.where(rate > 0.0, rows, 0.0)
        )
        for rows, row in zip(memory, (step, change, inverse), strict=True)
    )
    return steps, changes, rho
