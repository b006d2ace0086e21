"""``check_optimizer``: check an optimizer of your own like the package's optimizers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._control.scans import scan
from funcgrad._core import pytrees
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.numpy.reductions import sum as total
from funcgrad.optim.base import Pytree, apply_updates
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.testing.laws.derivative_laws import grad_is_numerical, modes_agree
from funcgrad.testing.laws.transformation_laws import pure
from funcgrad.testing.suites import Promise, run_suite
from funcgrad.testing.tree_closeness import assert_trees_close

Stepper: TypeAlias = Any
"""An ``Optimizer``, or any object with its two functions."""

_STEPS: Final = 3
_DESCENT: Final = 60


def check_optimizer(
    optimizer: Stepper,
    *,
    params: Pytree = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    without: Collection[str] = (),
) -> None:
    """Check that an optimizer keeps the contract of ``fg.optim``.

    Use it in the tests of an optimizer that you write. The package's own optimizers pass the same
    checks.

    Parameters
    ----------
    optimizer : Optimizer
        ``init(params)`` returns the first state, and ``update(grads, state, params)`` the updates
        and the next state.
    params : pytree, optional
        Floating-point parameters to step with; by default a tree with a matrix, a vector, a number
        and None.
    dtypes : sequence of str
        The dtypes to which parameters are cast; ``"complex128"`` may be among them.
    without : collection of str
        The names of promises to skip, as in the report: ``("descent",)`` for an optimizer that does
        not descend by itself, such as a clip.

    Raises
    ------
    CheckError
        A promise is broken (an ``AssertionError``). The message lists all broken promises:
        ``state`` (one structure and constant dtypes), ``pure``, ``dtypes``, ``zeros`` (zero
        gradients give finite updates), ``jit``, ``scan``, ``vmap`` (a batch of runs is a loop over
        runs), ``derivative`` (of two steps, in both modes, against numerical derivatives),
        ``descent`` (a quadratic loss falls).
    ArgumentError
        ``optimizer`` is not an optimizer, or a name in ``without`` is unknown.

    Examples
    --------
    >>> import funcgrad as fg
    >>> check_optimizer(fg.optim.adam(0.1))
    >>> uphill = fg.optim.chain(sgd=fg.optim.sgd(0.01), turn=fg.optim.scale(-1.0))
    >>> check_optimizer(uphill)
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: check_optimizer: Optimizer breaks 1 of 9 promises.
    <BLANKLINE>
    descent: A quadratic loss falls.
      the loss was 9.22 and is ... after 60 steps
    """
    for name in ("init", "update"):
        if not callable(getattr(optimizer, name, None)):
            raise ArgumentError(
                f"check_optimizer: {optimizer!r} has no function {name}. Pass an optimizer, such"
                " as fg.optim.adam(0.1), or a fg.optim.Optimizer(init, update) of your own."
            )
    start = _example() if params is None else pytrees.map(tensor, params)
    run = _SteppingOptimizer(optimizer, start)
    promises = (
        Promise("state", "The state keeps its structure, shapes and dtypes.", run.state),
        Promise("pure", "An update changes nothing, and returns the same bits again.", run.pure),
        Promise("dtypes", "Updates have the dtypes of the parameters.", lambda: run.dtypes(dtypes)),
        Promise("zeros", "Zero gradients give finite updates.", run.zeros),
        Promise("jit", "A jitted update returns the results of the eager one.", run.jit),
        Promise("scan", "Steps in a scan agree with a Python loop.", run.scan),
        Promise("vmap", "A batch of runs agrees with a loop over runs.", run.vmap),
        Promise("derivative", "The derivative through two steps is right.", run.derivative),
        Promise("descent", "A quadratic loss falls.", run.descent),
    )
    run_suite("check_optimizer", type(optimizer).__name__, promises, without)


def _example() -> Any:
    return {
        "w": tensor([[1.0, -2.0], [0.5, 3.0]]),
        "layers": (tensor(2.0), None, [tensor([1.5, -0.5])]),
    }


def _layout(tree: Pytree) -> list[tuple[str, tuple[int, ...], str]]:
    leaves, structure = pytrees.flatten(tree)
    return [
        (path, np.shape(leaf), str(np.asarray(leaf).dtype))
        for path, leaf in zip(structure.paths(), leaves, strict=True)
    ]


def _require_layout(tree: Pytree, expected: Pytree, name: str) -> None:
    if pytrees.structure(tree) != pytrees.structure(expected):
        raise CheckError(
            f"the structure of {name} is {pytrees.structure(tree)},"
            f" not {pytrees.structure(expected)}"
        )
    for one, other in zip(_layout(tree), _layout(expected), strict=True):
        if one != other:
            path, shape, dtype = one
            raise CheckError(
                f"{name}{path} has shape {shape} and dtype {dtype}, not {other[1]} and {other[2]}"
            )


class _SteppingOptimizer:
    """An optimizer, and its first parameters."""

    def __init__(self, optimizer: Stepper, start: Pytree) -> None:
        self._optimizer = optimizer
        self._start = start

    def _gradients(self, params: Pytree) -> Any:
        """Return the gradients of half the sum of squared distances to 0.25."""
        return pytrees.map(lambda x: x - x.dtype.type(0.25), params)

    def _steps(self, params: Pytree, count: int) -> tuple[Any, Any]:
        state = self._optimizer.init(params)
        for _ in range(count):
            params, state = self._step(params, state)
        return params, state

    def _step(self, params: Pytree, state: Pytree) -> tuple[Any, Any]:
        updates, state = self._optimizer.update(self._gradients(params), state, params)
        return apply_updates(params, updates), state

    def state(self) -> None:
        first = self._optimizer.init(self._start)
        _, state = self._steps(self._start, _STEPS)
        _require_layout(state, first, "the state")
        for path, leaf in pytrees.leaves_with_path(state):
            if not isinstance(leaf, Tensor):
                raise CheckError(f"the state{path} is a {type(leaf).__name__}, not a tensor")

    def pure(self) -> None:
        state = self._optimizer.init(self._start)
        grads = self._gradients(self._start)
        pure(lambda g, s, p: self._optimizer.update(g, s, p), (grads, state, self._start))

    def dtypes(self, names: Sequence[str]) -> None:
        for name in names:
            params = pytrees.map(
                lambda x, name=name: tensor(np.asarray(x).astype(name)), self._start
            )
            state = self._optimizer.init(params)
            updates, after = self._optimizer.update(self._gradients(params), state, params)
            _require_layout(updates, params, f"the updates of {name} parameters")
            _require_layout(after, state, f"the state of {name} parameters")

    def zeros(self) -> None:
        zeros = pytrees.map(lambda x: x * 0, self._start)
        for params in (self._start, zeros):
            updates, _ = self._optimizer.update(zeros, self._optimizer.init(params), params)
            for path, leaf in pytrees.leaves_with_path(updates):
                if not np.all(np.isfinite(np.asarray(leaf))):
                    raise CheckError(f"the update{path} is {np.asarray(leaf)!r}")

    def jit(self) -> None:
        state = self._optimizer.init(self._start)
        eager = self._step(self._start, state)
        assert_trees_close(jit(self._step)(self._start, state), eager, 1e-10, 1e-12)

    def scan(self) -> None:
        def step(carry: Pytree, _: None) -> Any:
            return self._step(*carry), None

        init = self._start, self._optimizer.init(self._start)
        carry, _ = scan(step, init, None, length=_STEPS)
        assert_trees_close(carry, self._steps(self._start, _STEPS), 1e-10, 1e-12)

    def vmap(self) -> None:
        factors = tensor([1.0, -0.5, 2.0])

        def run(factor: Tensor) -> Any:
            scaled = pytrees.map(lambda x: x * factor.astype(x.dtype), self._start)
            return self._steps(scaled, _STEPS)[0]

        batched = vmap(run)(factors)
        for number, factor in enumerate(factors):
            alone = pytrees.map(lambda x, number=number: x[number], batched)
            assert_trees_close(alone, run(factor), 1e-10, 1e-12)

    def derivative(self) -> None:
        def after_two(params: Pytree) -> Any:
            stepped, _ = self._steps(params, 2)
            return _squares(stepped)

        modes_agree(after_two, (self._start,))
        grad_is_numerical(after_two, (self._start,))

    def descent(self) -> None:
        before = _loss(self._start)
        after = _loss(self._steps(self._start, _DESCENT)[0])
        if not after < before:
            raise CheckError(f"the loss was {before:.3g} and is {after:.3g} after {_DESCENT} steps")


def _squares(tree: Pytree) -> Any:
    sums = [total(x * x) for x in pytrees.leaves(tree)]
    return sum(sums[1:], sums[0])


def _loss(params: Pytree) -> float:
    squares = [float(np.sum(abs(np.asarray(x) - 0.25) ** 2)) for x in pytrees.leaves(params)]
    return sum(squares) / 2
