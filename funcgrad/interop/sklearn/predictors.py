"""``Regressor`` and ``Classifier``: estimators with scikit-learn's scores.

>>> X = np.arange(-3.0, 3.0)[:, np.newaxis]
>>> model = Classifier(tol=1e-3).fit(X, ["a", "a", "a", "b", "b", "b"])
>>> model.predict([[-0.9], [0.9]]).tolist(), model.score([[0.1]], ["b"])
(['a', 'b'], 1.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from funcgrad import nn
from funcgrad.errors import ArgumentError
from funcgrad.interop.sklearn.estimators import DTYPES, Array, Estimator, has_no_early_stopping
from funcgrad.interop.sklearn.gradient_training import CrossEntropy, Data, scores
from funcgrad.optim.base import Pytree


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc] # score differs: R²
    """Regression with any model and loss, trained by gradient descent; the score is R².

    Parameters and attributes: see ``Estimator``. y may have several columns; ``apply`` returns the
    shape of y, or ``(n_samples, 1)`` if y has one axis.

    Examples
    --------
    With the absolute error outliers count less:

    >>> import funcgrad.numpy as fnp
    >>> def loss(params, X, y):
    ...     return fnp.mean(fnp.abs(X @ params["coef"][:, 0] + params["intercept"] - y))
    >>> X = np.arange(5.0)[:, np.newaxis]
    >>> y = [0.0, 2.0, 4.0, 6.0, 99.0]
    >>> Regressor(loss=loss, max_iter=1000).fit(X, y).predict([[10.0]]).round()
    array([20.])
    """

    def _validated(self, X: Any, y: Any, reset: bool, classes: Any) -> tuple[Array, Array]:
        rows, targets = super()._validated(X, y, reset, classes)
        return rows, targets.astype(rows.dtype)

    def _row_shape(self, y: Array | None) -> tuple[int, ...] | None:
        return None if y is None else y.shape[1:]

    def _score(self, params: Pytree, data: Data, method: str = "fit") -> float:
        assert data.y is not None
        name, shape = self._name(method), data.y.shape[1:]
        predicted = np.asarray(scores(name, self._apply(), params, data.X, shape))
        return float(r2_score(data.y, predicted, sample_weight=data.weights))


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc] # score differs: accuracy
    """Classification with any model and loss, trained by gradient descent; scored by accuracy.

    Parameters and attributes: see ``Estimator``; besides, ``classes_`` has the sorted labels. The
    loss gets y as class indices, from 0. ``init`` gets the number of classes as ``n_outputs``, and
    ``apply`` returns a logit for each class. With a loss of your own, ``apply`` may return other
    scores: the class with the largest score is predicted, and ``predict_proba`` returns their
    softmax.

    Examples
    --------
    >>> from funcgrad import nn
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> net = nn.sequential(nn.dense(16), nn.tanh, nn.dense(2))
    >>> model = Classifier(net, max_iter=500, tol=1e-3, random_state=0)
    >>> model.fit(X, [False, True, True, False]).predict(X)
    array([False,  True,  True, False])
    """

    @available_if(has_no_early_stopping)
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None
    ) -> Self:
        """Train for one epoch, starting from the parameters of the last call.

        Parameters
        ----------
        X, y, sample_weight
            See ``fit``.
        classes : array_like, optional
            All labels that will occur, in the first call; later calls may leave them out.

        Returns
        -------
        self

        Raises
        ------
        ArgumentError
            The first call has no classes, or a later call has other classes.
        """
        known = None if classes is None else np.unique(np.asarray(classes))
        if not hasattr(self, "params_"):
            if known is None:
                raise ArgumentError(
                    f"{self._name('partial_fit')}: classes must be passed on the first call: all"
                    " labels that there will be."
                )
        elif known is not None and not np.array_equal(known, self.classes_):
            raise ArgumentError(
                f"{self._name('partial_fit')}: classes {known} differ from the first call,"
                f" {self.classes_}."
            )
        return self._partial_fit(X, y, sample_weight, known)

    def decision_function(self, X: Any) -> Array:
        """Return the logits of rows; for two classes, the second logit minus the first.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,)
        """
        logits = self._outputs("decision_function", X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: Any) -> Array:
        """Predict the class with the largest logit for each row.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        logits = self._outputs("predict", X)
        return self.classes_[logits.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class: the softmax of the logits.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.array(nn.softmax(self._outputs("predict_proba", X)))

    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.array(nn.log_softmax(self._outputs("predict_log_proba", X)))

    def _validated(self, X: Any, y: Any, reset: bool, classes: Any) -> tuple[Array, Array]:
        """Check data, and convert labels to class indices."""
        rows, labels = validate_data(self, X, y, dtype=DTYPES, reset=reset)
        check_classification_targets(labels)
        if reset:
            self.classes_ = np.unique(labels) if classes is None else classes
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ArgumentError(
                f"{type(self).__name__}: y has the labels {unknown}, which are not among the"
                f" classes {self.classes_} of the first call."
            )
        return rows, np.searchsorted(self.classes_, labels)

    def _output_count(self, data: Data) -> int:
        return len(self.classes_)

    def _row_shape(self, y: Array | None) -> tuple[int, ...] | None:
        return (len(self.classes_),)

    def _loss(self, data: Data) -> Callable[..., Any]:
        if self.loss is not None:
            return self.loss
        return CrossEntropy(self._name("fit"), self._apply(), len(self.classes_))

    def _strata(self, data: Data) -> Array | None:
        return data.y

    def _score(self, params: Pytree, data: Data, method: str = "fit") -> float:
        name, shape = self._name(method), (len(self.classes_),)
        logits = np.asarray(scores(name, self._apply(), params, data.X, shape))
        return float(accuracy_score(data.y, logits.argmax(axis=1), sample_weight=data.weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags
