"""Training by gradient descent of any parameters on rows of data; independent of scikit-learn.

>>> rows = np.arange(12.0).reshape(6, 2) / 10
>>> data = Data(rows, rows @ np.array([1.0, -2.0]), None)
>>> loss = SquaredError("fit", linear, ())
>>> plan = EpochPlan("fit", 3, max_iter=500, shuffle=True, tol=1e-6, n_iter_no_change=20)
>>> params = started("fit", None, random.key(0), rows, 1)
>>> optimizer = adam(0.05)
>>> step = compiled_step("fit", loss, optimizer)
>>> run = train(plan, step, params, optimizer.init(params), data, random.key(1))
>>> run.curve[0] > 1e-2 > 1e-3 > run.curve[-1]
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn, random
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.specs import Shape, shape_of
from funcgrad._staging.jit import jit
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.errors import ArgumentError, FunctionError, NonFiniteError, ShapeError
from funcgrad.nn.recipes import LayerRecipe, build
from funcgrad.optim.adam import adam
from funcgrad.optim.base import Optimizer, Pytree
from funcgrad.optim.parameter_means import EvaluationState, eval_params, records
from funcgrad.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]

ADAM: Final = adam(0.01)
"""The default optimizer."""


@dataclass(frozen=True, slots=True)
class Data:
    """Rows of data.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
    y : ndarray of n rows, or None
        The targets; None without targets.
    weights : ndarray of shape (n,), or None
        The weight of each row; None if all weights are 1.
    """

    X: Array
    y: Array | None
    weights: Array | None

    def rows(self, chosen: Any) -> Data:
        """Return chosen rows."""
        y, weights = self.y, self.weights
        return Data(
            self.X[chosen],
            None if y is None else y[chosen],
            None if weights is None else weights[chosen],
        )

    @property
    def total(self) -> float:
        """Return the sum of the weights."""
        return float(len(self.X) if self.weights is None else self.weights.sum())


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The number of epochs, and when training ends; options of an estimator.

    Attributes
    ----------
    name : str
        The method that trains, for errors.
    batch_size, max_iter, shuffle, tol, n_iter_no_change
        See the estimator.
    """

    name: str
    batch_size: int
    max_iter: int
    shuffle: bool
    tol: float
    n_iter_no_change: float


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The results of training: parameters, the optimizer's state, a loss and a score for each
    epoch.

    Attributes
    ----------
    best : pytree
        The parameters to predict with: from the epoch with the best score, or the last epoch
        without a score.
    gains : list of float
        The score of each epoch, or minus the loss.
    has_converged : bool
        Whether training ended because the loss or score stopped improving.
    """

    params: Pytree
    state: Pytree
    best: Pytree
    curve: list[float]
    gains: list[float]
    has_converged: bool


def linear(params: Pytree, X: Any) -> Any:
    """Apply the default model: call a layer, or apply a linear model."""
    return params(X) if callable(params) else X @ params["coef"] + params["intercept"]


def started(name: str, init: Any, key: Tensor, X: Array, outputs: int) -> Any:
    """Return the initial parameters.

    Raises
    ------
    FunctionError
        ``init`` is neither a function, a recipe, nor a pytree of arrays.
    """
    if init is None:
        return {
            "coef": fnp.zeros((X.shape[1], outputs), X.dtype),
            "intercept": fnp.zeros(outputs, X.dtype),
        }
    if isinstance(init, LayerRecipe):
        return build(init, key, X)
    leaves, form = pytrees.flatten(init)
    is_leaf = len(leaves) == 1 and leaves[0] is init
    if is_leaf and callable(init):
        return init(key, X.shape[1], outputs)
    if is_leaf and not np.ndim(init):
        raise FunctionError(
            f"{name}: init has to be a function (key, n_features, n_outputs) -> params, a recipe"
            f" such as nn.sequential(...), or a pytree of arrays, got {init!r}."
        )
    return pytrees.unflatten(form, [fnp.asarray(leaf) for leaf in leaves])


def scores(
    name: str, apply: Callable[..., Any], params: Pytree, X: Any, shape: Shape | None
) -> Any:
    """Return the model's result for rows, of the shape ``(rows, *shape)``.

    A superfluous axis of length 1 is removed, as networks with one output have it. One logit for
    two classes becomes two logits. Without a shape only the number of rows is checked.

    Raises
    ------
    ShapeError
        The model's result has another shape.
    """
    value = fnp.asarray(apply(params, X))
    if shape is None:
        shape = value.shape[1:]
    expected = (len(X), *shape)
    if shape == () and value.shape == (len(X), 1):
        return value[:, 0]
    if shape == (2,) and value.shape in ((len(X),), (len(X), 1)):  # the second logit
        second = value.reshape(len(X))
        return fnp.stack([fnp.zeros_like(second), second], axis=1)
    if value.shape != expected:
        raise ShapeError(
            f"{name}: apply(params, X) returned shape {value.shape} for X of shape {X.shape}, and"
            f" {expected} is expected: a row for each row of X"
            + (f", with {shape[0]} values in it." if shape else ", which is one number.")
        )
    return value


def _mean(values: Any, sample_weight: Any) -> Any:
    """Return the (weighted) mean over rows, and over all other axes."""
    if sample_weight is None:
        return fnp.mean(values)
    by_row = fnp.mean(values.reshape(len(values), -1), axis=1)
    return fnp.sum(by_row * sample_weight) / fnp.sum(sample_weight)


@dataclass(frozen=True, slots=True)
class SquaredError:
    """The default loss of a regression: the mean squared error.

    Attributes
    ----------
    name : str
        The method that trains, for errors.
    apply : callable
    shape : tuple of int
        The shape of a row of y.
    """

    name: str
    apply: Callable[..., Any]
    shape: Shape

    def __call__(self, params: Pytree, X: Any, y: Any, sample_weight: Any) -> Any:
        predicted = scores(self.name, self.apply, params, X, self.shape)
        return _mean(nn.squared_error(predicted, y), sample_weight)


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """The default loss of a classification: the cross-entropy of integer labels.

    Attributes
    ----------
    name : str
        The method that trains, for errors.
    apply : callable
    count : int
        The number of classes.
    """

    name: str
    apply: Callable[..., Any]
    count: int

    def __call__(self, params: Pytree, X: Any, y: Any, sample_weight: Any) -> Any:
        logits = scores(self.name, self.apply, params, X, (self.count,))
        return _mean(nn.cross_entropy(logits, y), sample_weight)


def _taken_by(loss: Callable[..., Any]) -> frozenset[str]:
    """Return which of ``sample_weight`` and ``key`` a loss takes, by name."""
    try:
        parameters = inspect.signature(loss).parameters
    except (TypeError, ValueError):  # a function that is not written in Python
        return frozenset()
    return frozenset({"sample_weight", "key"}.intersection(parameters))


def evaluated(name: str, loss: Callable[..., Any], params: Pytree, data: Data, key: Any) -> Any:
    """Return the loss of some rows, which is one number.

    Raises
    ------
    ShapeError
        The loss is not one number.
    ArgumentError
        The loss does not take the weights; or it takes y and y is missing; or it does not take y.
    """
    takes = _taken_by(loss)
    named = {}
    if "sample_weight" in takes:
        named["sample_weight"] = data.weights
    elif data.weights is not None:
        raise ArgumentError(
            f"{name}: the loss does not take weights. Give it a parameter sample_weight, an array"
            " of shape (n_samples,) or None, or leave sample_weight out."
        )
    if "key" in takes:
        named["key"] = key
    targets = () if data.y is None else (data.y,)
    _check_call(name, loss, (params, data.X, *targets), named)
    value = loss(params, data.X, *targets, **named)
    leaves = pytrees.leaves(value)
    if len(leaves) != 1 or shape_of(leaves[0]) != ():
        shapes = [shape_of(leaf) for leaf in leaves]
        raise ShapeError(
            f"{name}: the loss has to return one number, and returned"
            f" {f'an array of shape {shapes[0]}' if len(shapes) == 1 else f'{len(shapes)} values'}."
            " Return the mean over the rows, such as fnp.mean(losses)."
        )
    return leaves[0]


def _check_call(
    name: str, loss: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """Check that a loss can be called with y, or without it."""
    try:
        inspect.signature(loss).bind(*args, **named)
    except ValueError:  # a function that is not written in Python
        return
    except TypeError as error:
        called, other = ("X", "X, y") if len(args) == 2 else ("X, y", "X")
        raise ArgumentError(
            f"{name}: the loss is called as loss(params, {called}), because y is"
            f" {'None' if len(args) == 2 else 'given'}: {error}. Write {name}({other}), or give the"
            " loss these parameters."
        ) from None


def compiled_step(
    name: str, loss: Callable[..., Any], optimizer: Optimizer[Any]
) -> Callable[..., Any]:
    """Make the function ``(params, state, X, y, weights, key) -> (params, state, loss)``.

    Raises
    ------
    FunctionError
        The loss is not a function, or the optimizer is not from ``funcgrad.optim``.
    """
    if not callable(loss):
        raise FunctionError(f"{name}: loss has to be a function (params, X, y), got {loss!r}.")
    if not isinstance(optimizer, Optimizer):
        raise FunctionError(
            f"{name}: optimizer has to be one of funcgrad.optim, as optim.adam(0.01), got"
            f" {optimizer!r}."
        )

    def step(params: Pytree, state: Pytree, X: Any, y: Any, weights: Any, key: Any) -> Any:
        def objective(params: Pytree) -> Any:
            return evaluated(name, loss, params, Data(X, y, weights), key)

        value, grads = value_and_grad(objective)(params)
        known = {"value": value, "objective": objective}
        taken = {word: known[word] for word in optimizer.takes if word in known}
        params, state = optimizer.step(grads, state, params, **taken)
        return params, state, value

    return jit(step)


def train(
    plan: EpochPlan,
    step: Callable[..., Any],
    params: Pytree,
    state: Pytree,
    data: Data,
    key: Tensor,
    *,
    first: int = 0,
    score: Callable[[Any], float] | None = None,
) -> TrainingRun:
    """Train until the loss or score stops improving.

    Parameters
    ----------
    plan : EpochPlan
    step : callable
        See ``compiled_step``.
    params, state : pytree
        The initial parameters, and the initial state of the optimizer.
    data : Data
    key : key
        The random key of the order of rows and of the loss.
    first : int
        The number of earlier epochs.
    score : callable, optional
        ``params -> score`` of an epoch; more is better. By default minus the training loss.

    Returns
    -------
    TrainingRun

    Raises
    ------
    NonFiniteError
        The loss of an epoch is not finite.
    """
    curve: list[float] = []
    gains: list[float] = []
    best, highest, idle = params, -np.inf, 0
    for epoch in range(first, first + plan.max_iter):
        epoch_key = random.fold_in(key, epoch)
        total = 0.0
        for number, batch in enumerate(_batches(plan, data, epoch_key)):
            step_key = random.fold_in(epoch_key, number + 1)
            params, state, value = step(params, state, batch.X, batch.y, batch.weights, step_key)
            total += float(value) * batch.total
        curve.append(total / data.total)
        _check_finite(plan.name, curve[-1], epoch)
        evaluation = _evaluation_params(state, params)
        gains.append(-curve[-1] if score is None else score(evaluation))
        idle = 0 if gains[-1] > highest + plan.tol else idle + 1
        if score is None or gains[-1] > highest:
            best = evaluation
        highest = max(highest, gains[-1])
        if idle > plan.n_iter_no_change:
            break
    return TrainingRun(params, state, best, curve, gains, idle > plan.n_iter_no_change)


def _evaluation_params(state: Pytree, params: Pytree) -> Any:
    """Return the parameters to predict with: the optimizer's average, if it keeps one."""
    if any(isinstance(record, EvaluationState) for record in records(state)):
        return eval_params(state, params)
    return params


def _check_finite(name: str, loss: float, epoch: int) -> None:
    if not np.isfinite(loss):
        raise NonFiniteError(
            f"{name}: the loss is {loss} in epoch {epoch + 1}. Scale the columns of X (as"
            " sklearn.preprocessing.StandardScaler does), or choose an optimizer with a smaller"
            " rate; fg.debug.nans(loss) names the operation that produced a NaN."
        )


def _batches(plan: EpochPlan, data: Data, key: Tensor) -> Iterator[Data]:
    """Yield the batches of an epoch. Rows are shuffled if there are several batches.

    Batches whose weights are all 0 are left out.
    """
    count = len(data.X)
    if plan.batch_size >= count:
        yield data
        return
    order = np.arange(count)
    if plan.shuffle:
        order = np.asarray(random.permutation(random.fold_in(key, 0), count))
    for start in range(0, count, plan.batch_size):
        batch = data.rows(order[start : start + plan.batch_size])
        if batch.total:
            yield batch
