"""``Estimator``: training by gradient descent, with scikit-learn's interface.

>>> import funcgrad.numpy as fnp
>>> def loss(params, X, y):
...     return fnp.mean(fnp.abs(X @ params - y))
>>> X = np.eye(2)
>>> Estimator(np.zeros(2), loss, lambda params, X: X @ params).partial_fit(X, [1.0, 3.0]).n_iter_
1
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from funcgrad import random
from funcgrad.errors import ArgumentError, MissingAttributeError, ShapeError
from funcgrad.interop.sklearn.gradient_training import (
    ADAM,
    Data,
    EpochPlan,
    SquaredError,
    TrainingRun,
    compiled_step,
    evaluated,
    linear,
    scores,
    started,
    train,
)
from funcgrad.optim.base import Optimizer, Pytree
from funcgrad.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]

DTYPES = (np.float64, np.float32)


def has_no_early_stopping(estimator: Estimator) -> bool:
    """Whether ``partial_fit`` exists.

    Raises
    ------
    MissingAttributeError
        Early stopping needs a validation set from all data.
    """
    if estimator.early_stopping:
        raise MissingAttributeError(
            f"{type(estimator).__name__} has no partial_fit with early_stopping=True, which needs"
            " all data at once. Use fit, or early_stopping=False."
        )
    return True


class Estimator(BaseEstimator):
    """Estimator for scikit-learn that trains any model on any loss by gradient descent.

    Use it if neither ``Regressor`` nor ``Classifier`` fits: density estimation, autoencoders,
    custom likelihoods.

    Its score is minus the loss. ``Regressor`` and ``Classifier`` have scikit-learn's scores and
    tags.

    Parameters
    ----------
    init : callable, recipe or pytree, optional
        The initial parameters: a function ``(key, n_features, n_outputs) -> params``; a recipe of
        layers, such as ``nn.sequential(nn.dense(16), nn.relu, nn.dense(1))``; or the parameters
        themselves, such as a layer. By default a linear model, all zeros: ``{"coef": (n_features,
        n_outputs), "intercept": (n_outputs,)}``.
    loss : callable, optional
        ``loss(params, X, y)``, or ``loss(params, X)`` without a target, returns one number, the
        mean over the rows. If it has parameters of these names, it also gets ``sample_weight`` (an
        array or None) and ``key`` (a new random key for every step). By default the mean squared
        error, and ``nn.cross_entropy`` for classes.
    apply : callable, optional
        ``apply(params, X)`` returns a row for each row of X: the prediction, or ``n_classes``
        logits (for two classes one logit is enough). By default a layer is called, and other
        parameters are a linear model.
    optimizer : Optimizer, optional
        An optimizer of ``funcgrad.optim``; ``optim.adam(0.01)`` by default. With ``optim.lbfgs()``
        use all rows as one batch. If the optimizer keeps parameters for evaluation (averages),
        these predict.
    batch_size : int or "auto"
        The number of rows in a step; "auto" is 200, or all rows if they are fewer.
    max_iter : int
        The maximum number of epochs (passes over the data).
    shuffle : bool
        Whether to shuffle the rows before each epoch. One batch of all rows is not shuffled.
    random_state : int, RandomState or None
        The seed of all random numbers.
    tol, n_iter_no_change : float
        Training ends after more than ``n_iter_no_change`` epochs in a row that improve the loss (or
        the score) by less than ``tol``.
    warm_start : bool
        Whether ``fit`` starts from the parameters of the last call.
    early_stopping : bool
        Whether to set a part of the data aside. Its score decides when training ends, and which
        epoch's parameters are kept.
    validation_fraction : float
        The fraction of the data that is set aside, between 0 and 1.

    Attributes
    ----------
    params_ : pytree of tensors
        The trained parameters.
    n_iter_ : int
        The number of epochs of the last call.
    loss_ : float
        The training loss of the last epoch.
    loss_curve_ : list of float
        The training loss of every epoch; ``warm_start`` and ``partial_fit`` append to it.
    validation_scores_ : list of float or None
        With early stopping, the score of every epoch of the last call.
    best_validation_score_ : float or None
    optimizer_state_ : pytree
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        The names of the columns, if X has names.

    Examples
    --------
    Fit a normal distribution to one column by maximum likelihood:

    >>> import funcgrad.numpy as fnp
    >>> def loss(params, X):
    ...     mean, scale = params
    ...     return fnp.mean(0.5 * ((X - mean) / scale) ** 2) + fnp.log(scale)
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> model = Estimator((0.0, 1.0), loss, max_iter=2000, tol=1e-9).fit(X)
    >>> model.params_[0].round(3), model.params_[1].round(3)
    (Tensor(2.0), Tensor(0.816))
    """

    def __init__(
        self,
        init: Any = None,
        loss: Callable[..., Any] | None = None,
        apply: Callable[..., Any] | None = None,
        optimizer: Optimizer[Any] | None = None,
        *,
        batch_size: int | Literal["auto"] = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        n_iter_no_change: float = 10,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
    ) -> None:
        self.init = init
        self.loss = loss
        self.apply = apply
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on data.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        y : array_like of shape (n_samples,) or (n_samples, n_outputs), optional
        sample_weight : array_like of shape (n_samples,), optional
            The weight of each row. The loss has to take it.

        Returns
        -------
        self

        Raises
        ------
        ArgumentError
            An option has a wrong value, or the loss does not take the weights.
        FunctionError
            ``init``, ``loss`` or ``optimizer`` has a wrong type.
        ShapeError
            The loss returns a batch, or ``apply`` returns another shape.
        NonFiniteError
            The loss became infinite or NaN.
        """
        goes_on = self.warm_start and hasattr(self, "params_")
        self._check_options()
        data = self._checked(X, y, sample_weight, reset=not goes_on)
        key, seed = self._seeded()
        params = self.params_ if goes_on else self._started(key, data)
        validation, score = None, None
        if self.early_stopping:
            data, validation = self._split(data, seed)
            score = lambda params: self._score(params, validation)  # noqa: E731 - one line says it
        first = self._epochs if goes_on else 0
        run = self._train(params, data, key, self.max_iter, first=first, score=score)
        earlier = self.loss_curve_ if goes_on else []
        self.validation_scores_ = run.gains if validation else None
        self.best_validation_score_ = max(run.gains) if validation else None
        self._set(run, data, key, first, earlier)
        if not run.has_converged and self.n_iter_ == self.max_iter:
            warnings.warn(
                f"{self._name('fit')}: the loss still improves after max_iter={self.max_iter}"
                " epochs. Raise max_iter or the optimizer's rate, or scale the columns of X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @available_if(has_no_early_stopping)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch, starting from the parameters of the last call.

        Parameters
        ----------
        X, y, sample_weight
            See ``fit``.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> Array:
        """Predict a row for each row of X.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)

        Returns
        -------
        ndarray
            The results of ``apply``, of shape (n_samples,) or (n_samples, n_outputs).
        """
        return self._outputs("predict", X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the loss, so that more is better.

        Parameters
        ----------
        X, y, sample_weight
            See ``fit``.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return self._score(self.params_, self._checked(X, y, sample_weight, reset=False), "score")

    def _name(self, method: str) -> str:
        return f"{type(self).__name__}.{method}"

    def _check_options(self) -> None:
        """Raise for an option with a wrong value."""
        whole = isinstance(self.batch_size, (int, np.integer)) and self.batch_size > 0
        checks = [
            ("batch_size", whole or self.batch_size == "auto", 'a positive integer or "auto"'),
            ("max_iter", self.max_iter >= 1 and self.max_iter % 1 == 0, "a positive integer"),
            ("tol", self.tol >= 0, "0 or more"),
            ("n_iter_no_change", self.n_iter_no_change >= 1, "1 or more, or np.inf"),
            ("validation_fraction", 0 < self.validation_fraction < 1, "between 0 and 1"),
        ]
        for option, is_right, expected in checks:
            if not is_right:
                raise ArgumentError(
                    f"{self._name('fit')}: {option} has to be {expected}, got"
                    f" {getattr(self, option)!r}."
                )

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, classes: Any = None
    ) -> Data:
        """Convert data to arrays, after scikit-learn's checks."""
        if y is None and self.loss is None:
            raise ArgumentError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is"
                " None. A loss of your own, loss(params, X), needs no y."
            )
        if y is None:
            rows, targets = validate_data(self, X, dtype=DTYPES, reset=reset), None
        else:
            rows, targets = self._validated(X, y, reset, classes)
        return Data(rows, targets, self._weights(rows, sample_weight))

    def _validated(self, X: Any, y: Any, reset: bool, classes: Any) -> tuple[Array, Array]:
        rows, targets = validate_data(
            self, X, y, dtype=DTYPES, multi_output=True, y_numeric=True, reset=reset
        )
        return rows, targets.astype(rows.dtype) if targets.dtype.kind == "f" else targets

    def _row_shape(self, y: Array | None) -> tuple[int, ...] | None:
        """Return the shape of ``apply``'s result for one row; None if it is unknown."""
        return None if self.loss is not None or y is None else y.shape[1:]

    def _weights(self, X: Array, sample_weight: Any) -> Array | None:
        if sample_weight is None:
            return None
        weights: Array = check_array(
            sample_weight, ensure_2d=False, dtype=X.dtype, input_name="sample_weight"
        )
        if weights.shape != (len(X),):
            raise ShapeError(
                f"{type(self).__name__}: sample_weight has shape {weights.shape}, expected"
                f" {(len(X),)}: one number for each row of X."
            )
        if not weights.any():
            raise ArgumentError("Sample weights must contain at least one non-zero number.")
        return weights

    def _seeded(self) -> tuple[Tensor, int]:
        """Return the key and the seed of all random numbers."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return random.key(seed), seed

    def _started(self, key: Tensor, data: Data) -> Any:
        outputs = self._output_count(data)
        return started(self._name("fit"), self.init, random.named(key, "init"), data.X, outputs)

    def _output_count(self, data: Data) -> int:
        return 1 if data.y is None or data.y.ndim == 1 else int(data.y.shape[1])

    def _loss(self, data: Data) -> Callable[..., Any]:
        if self.loss is not None:
            return self.loss
        assert data.y is not None
        return SquaredError(self._name("fit"), self._apply(), data.y.shape[1:])

    def _apply(self) -> Callable[..., Any]:
        return linear if self.apply is None else self.apply

    def _split(self, data: Data, seed: int) -> tuple[Data, Data]:
        """Split the rows into the training set and the validation set."""
        places = train_test_split(
            np.arange(len(data.X)),
            test_size=self.validation_fraction,
            random_state=seed,
            stratify=self._strata(data),
        )
        trained, others = map(data.rows, places)
        if len(others.X) < 2:
            raise ArgumentError(
                f"{self._name('fit')}: the validation set has {len(others.X)} row. Increase"
                " validation_fraction or the data."
            )
        return trained, others

    def _strata(self, data: Data) -> Array | None:
        return None

    def _train(
        self,
        params: Pytree,
        data: Data,
        key: Tensor,
        epochs: int,
        *,
        first: int,
        state: Pytree = None,
        score: Callable[[Pytree], float] | None = None,
    ) -> TrainingRun:
        size = 200 if self.batch_size == "auto" else int(self.batch_size)
        plan = EpochPlan(
            self._name("fit"), size, epochs, self.shuffle, self.tol, self.n_iter_no_change
        )
        optimizer = ADAM if self.optimizer is None else self.optimizer
        step = self._step(self._loss(data), optimizer)
        state = optimizer.init(params) if state is None else state
        key = random.named(key, "epochs")
        return train(plan, step, params, state, data, key, first=first, score=score)

    def _step(self, loss: Callable[..., Any], optimizer: Optimizer[Any]) -> Callable[..., Any]:
        """Return the compiled step; the next fits of the same functions reuse it."""
        functions = (loss, optimizer)
        if getattr(self, "_compiled", (None,))[0] != functions:
            self._compiled = functions, compiled_step(self._name("fit"), loss, optimizer)
        return self._compiled[1]

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        state.pop("_compiled", None)
        return state

    def _set(
        self, run: TrainingRun, data: Data, key: Tensor, first: int, earlier: list[float]
    ) -> None:
        """Store the results of training."""
        self._output_shape = self._row_shape(data.y)
        self.params_ = run.best
        self.optimizer_state_ = run.state
        self.loss_ = run.curve[-1]
        self.loss_curve_ = [*earlier, *run.curve]
        self.n_iter_ = len(run.curve)
        self._epochs = first + self.n_iter_
        self._stepped = run.params
        self._key = key

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        goes_on = hasattr(self, "params_")
        self._check_options()
        data = self._checked(X, y, sample_weight, reset=not goes_on, classes=classes)
        if goes_on:
            key, params, state = self._key, self._stepped, self.optimizer_state_
        else:
            (key, _), state = self._seeded(), None
            params = self._started(key, data)
        first, earlier = (self._epochs, self.loss_curve_) if goes_on else (0, [])
        run = self._train(params, data, key, 1, state=state, first=first)
        self._set(run, data, key, first, earlier)
        return self

    def _outputs(self, method: str, X: Any) -> Array:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=DTYPES, reset=False)
        name = self._name(method)
        return np.array(scores(name, self._apply(), self.params_, rows, self._output_shape))

    def _score(self, params: Pytree, data: Data, method: str = "fit") -> float:
        loss, key = self._loss(data), random.key(0)
        return -float(evaluated(self._name(method), loss, params, data, key))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.loss is None
        tags.target_tags.multi_output = True
        return tags
