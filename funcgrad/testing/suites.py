"""``check_optimizer`` and ``check_layer``: suites of promises, with one report of all broken ones.

Optimizers and layers of users are checked like the package's own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._control.scans import scan
from funcgrad._core import pytrees
from funcgrad._core.specs import is_inexact
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.numpy.reductions import sum as total
from funcgrad.optim.base import apply_updates
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.testing.assertions import assert_trees_close
from funcgrad.testing.gradients import check_grads
from funcgrad.testing.laws.derivative_laws import grad_is_numerical, modes_agree
from funcgrad.testing.laws.transformation_laws import dtype_kept, jit_is_eager, pure, vmap_is_loop
from funcgrad.testing.subject import Pytree


@dataclass(frozen=True, slots=True)
class Promise:
    """A part of a suite.

    Attributes
    ----------
    name : str
        The name in ``without``.
    sentence : str
        The promise in words.
    check : callable
        Raises an error if the promise is broken.
    """

    name: str
    sentence: str
    check: Callable[[], None]


def _run_suite(
    operation: str, title: str, promises: Sequence[Promise], without: Collection[str]
) -> None:
    """Check all promises except those in ``without``; raise one error for all broken ones."""
    names = [promise.name for promise in promises]
    if isinstance(without, (str, np.ndarray)) or not isinstance(without, Collection):
        unknown: object = repr(without)
    else:
        unknown = [name for name in without if name not in names]
    if unknown:
        raise ArgumentError(
            f"{operation}: without={unknown} is not a collection of promises. The promises are"
            f" {', '.join(names)}."
        )
    tried = [promise for promise in promises if promise.name not in without]
    broken = [(promise, text) for promise in tried if (text := _broken(promise)) is not None]
    if broken:
        lines = [f"{operation}: {title} breaks {len(broken)} of {len(tried)} promises."]
        for promise, text in broken:
            lines += ["", f"{promise.name}: {promise.sentence}"]
            lines += [f"  {line}" for line in text.splitlines()]
        raise CheckError("\n".join(lines))


def _broken(promise: Promise) -> str | None:
    """Run a check; return the text of its error, if any. A subject may raise anything."""
    with quiet():
        try:
            promise.check()
        except CheckError as error:
            return str(error)
        except Exception as error:
            lines = str(error).strip().splitlines() or ["without a message"]
            return f"{type(error).__name__}: {' '.join(lines)}"
    return None


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
    _run_suite("check_optimizer", type(optimizer).__name__, promises, without)


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


def check_layer(
    layer: Pytree,
    *inputs: Pytree,
    apply: Callable[..., Any] | None = None,
    without: Collection[str] = (),
) -> None:
    """Check that a layer is a pytree of parameters and a pure, differentiable function.

    Use it in the tests of a layer that you write. The package's own layers pass the same checks.

    Parameters
    ----------
    layer : pytree
        The layer, such as a frozen dataclass made by ``fg.pytree``.
    *inputs : pytrees
        The arguments of a call.
    apply : callable, optional
        ``(layer, *inputs) -> result``; by default a call. For layers with states or keys pass
        ``apply=lambda layer, x: layer(x, key=key)``.
    without : collection of str
        The names of promises to skip, as in the report.

    Raises
    ------
    CheckError
        A promise is broken (an ``AssertionError``). The message lists all broken promises: ``tree``
        (parameters are tensors, and flattening can be undone), ``pure``, ``modes`` and
        ``derivative`` (forward = reverse = numerical, to second order, with respect to parameters
        and inputs), ``jit``, ``vmap`` (ensembles of layers, batches of inputs), ``dtypes`` (float32
        stays), ``pickled``.
    ArgumentError
        ``layer`` cannot be called, or a name in ``without`` is unknown.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x = fg.tensor([0.5, 1.25, 1.75])
    >>> check_layer(fg.nn.Linear.init(fg.random.key(0), 3, 2), x)

    >>> @fg.pytree
    ... class Wide:
    ...     weight: fg.Tensor
    ...     def __call__(self, x):
    ...         return self.weight * x + fg.numpy.ones(3)
    >>> check_layer(Wide(x), x, without=("pickled",))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: check_layer: Wide breaks 1 of 7 promises.
    <BLANKLINE>
    dtypes: Results and gradients have the precision of parameters and inputs.
      laws.dtype_kept: Wide does not keep float32.
    ...
    """
    title = type(layer).__name__
    if apply is None and not callable(layer):
        raise ArgumentError(
            f"check_layer: a {title} cannot be called. Pass apply=, a function of the layer and its"
            " inputs."
        )

    def called(layer: Pytree, *inputs: Pytree) -> Any:
        return layer(*inputs) if apply is None else apply(layer, *inputs)

    called.__name__ = title
    args = (layer, *inputs)
    promises = [
        Promise(
            "tree", "Parameters are tensors, and flattening can be undone.", lambda: _tree(layer)
        ),
        Promise(
            "pure",
            "A call changes nothing, and returns the same bits again.",
            lambda: pure(called, args),
        ),
        Promise("pickled", "A copy by pickle returns the same.", lambda: _pickled(called, args)),
    ]
    if any(is_inexact(np.asarray(leaf).dtype) for leaf in pytrees.leaves(args)):
        promises += [
            Promise("modes", "Forward and reverse mode agree.", lambda: modes_agree(called, args)),
            Promise(
                "derivative",
                "First and second derivatives agree with numerical ones.",
                lambda: check_grads(called, args),
            ),
            Promise(
                "jit",
                "A jitted call returns the results of the eager call.",
                lambda: jit_is_eager(called, args),
            ),
            Promise(
                "vmap",
                "A batch of layers and inputs agrees with a loop over them.",
                lambda: vmap_is_loop(called, args),
            ),
            Promise(
                "dtypes",
                "Results and gradients have the precision of parameters and inputs.",
                lambda: dtype_kept(called, args),
            ),
        ]
    _run_suite("check_layer", title, promises, without)


def _tree(layer: Pytree) -> None:
    leaves, structure = pytrees.flatten(layer)
    for path, leaf in zip(structure.paths(), leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise CheckError(
                f"the layer{path} is a {type(leaf).__name__}, not a tensor. Convert parameters with"
                " fg.tensor, and declare options as fg.static_field()."
            )
    again = pytrees.unflatten(structure, leaves)
    if type(again) is not type(layer) or pytrees.structure(again) != structure:
        raise CheckError(f"the tree is put together as {pytrees.structure(again)}, not {structure}")


def _pickled(called: Callable[..., Any], args: tuple[Any, ...]) -> None:
    layer, *inputs = args
    again = pickle.loads(pickle.dumps(layer))
    assert_trees_close(called(again, *inputs), called(*args), 0.0)
