"""Estimators of scikit-learn: its own checks, and what they do not look at."""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, interop, nn, optim
from funcgrad.interop.sklearn import Classifier, Estimator, Regressor
from funcgrad.interop.sklearn.gradient_training import _mean, linear
from tests.together import refused

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_diabetes(return_X_y=True)
X, Y = StandardScaler().fit_transform(X), (Y - Y.mean()) / Y.std()
FLOWERS, KINDS = load_iris(return_X_y=True)
FLOWERS = StandardScaler().fit_transform(FLOWERS)
ALL = 10**6  # more than any number of rows: one batch


def by_distance(params: Any, X: Any) -> Any:
    """A loss without y."""
    return fnp.mean((X - params) ** 2)


def absolute(params: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    error = fnp.abs(linear(params, X).reshape(y.shape) - y)
    return fnp.average(error, weights=sample_weight, axis=0).mean()


def small_net(key: Any, n_features: int, n_outputs: int) -> Any:
    recipe = nn.sequential(nn.dense(8), nn.relu, nn.dense(n_outputs))
    return nn.build(recipe, key, (1, n_features))


@pytest.mark.slow
@parametrize_with_checks([Regressor(), Classifier(), Estimator()])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Classifier(small_net, optimizer=optim.adamw(0.01)), {}),
        (Regressor(optimizer=optim.lion(0.01)), {}),
        # Adam's last digits decide when training stops; rows of weight 0 are drawn for validation
        (
            Regressor(early_stopping=True, validation_fraction=0.3, batch_size=7),
            {"check_sample_weight_equivalence_on_dense_data": "the order of random rows differs"},
        ),
    ],
    ids=["a net by adamw", "lion", "early stopping"],
)
def test_scikit_learn_s_checks_with_options(estimator: Any, expected: dict[str, str]) -> None:
    check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail="raise")


def test_the_linear_model_is_scikit_learn_s() -> None:
    options: dict[str, Any] = {"optimizer": optim.lbfgs(), "batch_size": ALL, "tol": 0.0}
    ours: Any = Regressor(**options).fit(X, Y)
    theirs = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.score(X, Y), theirs.score(X, Y), rtol=1e-9)

    def penalized(params: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        losses = nn.cross_entropy(linear(params, X), y)
        return fnp.sum(losses * sample_weight) + 0.5 * fnp.sum(params["coef"] ** 2)

    weights = 1.0 + np.arange(len(KINDS)) % 3
    ours = Classifier(loss=penalized, **options).fit(FLOWERS, KINDS, sample_weight=weights)
    theirs = LogisticRegression(tol=1e-10).fit(FLOWERS, KINDS, sample_weight=weights)
    np.testing.assert_allclose(
        ours.predict_proba(FLOWERS), theirs.predict_proba(FLOWERS), rtol=1e-3, atol=1e-5
    )


@pytest.mark.slow
def test_pipelines_searches_and_copies() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    names = np.array(["benign", "malignant"])[y]
    estimator = Classifier(nn.sequential(nn.dense(8), nn.tanh, nn.dense(1)), random_state=0)
    pipe = make_pipeline(StandardScaler(), estimator)
    assert cross_val_score(pipe, x, names, cv=2).min() > 0.93
    rates = [optim.adam(1e-6), optim.adam(0.01)]
    search = GridSearchCV(pipe, {"classifier__optimizer": rates}, cv=2).fit(x, names)
    assert search.best_params_["classifier__optimizer"] == rates[1]
    best = search.best_estimator_[-1]
    assert set(best.classes_) == set(names)
    assert best.decision_function(x).shape == (len(x),)


def test_the_next_fit_takes_what_is_compiled() -> None:
    model = Regressor(loss=absolute, max_iter=2).fit(X, Y)
    step = model._compiled[1]
    assert model.fit(X, Y)._compiled[1] is step
    assert model.set_params(optimizer=optim.sgd(0.1)).fit(X, Y)._compiled[1] is not step


@pytest.mark.parametrize("dump", [pickle, joblib])
def test_fitted_estimators_are_stored(dump: Any, tmp_path: Any) -> None:
    model = Classifier(nn.sequential(nn.dense(4), nn.relu, nn.dense(3)), random_state=0)
    model.partial_fit(FLOWERS, KINDS, classes=[0, 1, 2])
    with (tmp_path / "model").open("wb") as file:
        dump.dump(model, file)
    with (tmp_path / "model").open("rb") as file:
        loaded = dump.load(file)
    for _ in range(2):
        for estimator in (model, loaded):
            estimator.partial_fit(FLOWERS, KINDS)
    np.testing.assert_array_equal(model.predict_proba(FLOWERS), loaded.predict_proba(FLOWERS))
    assert loaded.loss_curve_ == model.loss_curve_
    assert len(loaded.loss_curve_) == 3


def test_partial_fits_are_epochs_of_one_fit() -> None:
    options: dict[str, Any] = {"batch_size": 50, "tol": 0.0, "random_state": 3, "max_iter": 4}
    whole, steps = Regressor(**options).fit(X, Y), Regressor(**options)
    for _ in range(4):
        steps.partial_fit(X, Y)
    np.testing.assert_array_equal(whole.params_["coef"], steps.params_["coef"])
    assert whole.loss_curve_ == steps.loss_curve_
    assert (whole.n_iter_, steps.n_iter_) == (4, 1)


def test_warm_starts_begin_where_the_last_fit_ended() -> None:
    model = Regressor(warm_start=True, max_iter=5, random_state=0)
    first = model.fit(X, Y).loss_
    assert model.fit(X, Y).loss_curve_[5] < first
    assert len(model.loss_curve_) == 10
    cold = Regressor(max_iter=5, random_state=0)
    assert cold.fit(X, Y).loss_curve_ == cold.fit(X, Y).loss_curve_


def test_random_numbers_follow_the_seed() -> None:
    def noisy(params: Any, X: Any, y: Any, key: Any) -> Any:
        return fnp.mean((X @ params - y) ** 2) + fnp.vdot(params, fg.random.normal(key, (10,)))

    def curve(seed: int, **options: Any) -> list[float]:
        model = Regressor(
            lambda key, n_features, _: fg.random.normal(key, n_features),
            noisy,
            lambda params, X: X @ params,
            random_state=seed,
            max_iter=3,
            batch_size=100,
            **options,
        )
        return model.fit(X, Y).loss_curve_

    assert curve(0) == curve(0) != curve(1)
    assert curve(0) != curve(0, shuffle=False) == curve(0, shuffle=False)


def test_early_stopping_takes_the_best_epoch() -> None:
    rng = np.random.RandomState(0)
    x, y = rng.normal(size=(60, 40)), rng.normal(size=60)  # nothing to learn but noise
    options: dict[str, Any] = {"optimizer": optim.adam(0.1), "tol": 0.0, "random_state": 0}
    model: Any = Regressor(early_stopping=True, validation_fraction=0.3, **options).fit(x, y)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert model.n_iter_ == len(model.validation_scores_) < 50
    assert np.argmax(model.validation_scores_) == model.n_iter_ - 12
    assert not np.allclose(model.params_["coef"], model._stepped["coef"])
    assert Regressor(**options).fit(x, y).validation_scores_ is None
    classes: Any = Classifier(early_stopping=True, random_state=0).fit(FLOWERS, KINDS)
    assert 0.7 < classes.best_validation_score_ <= 1.0
    alone: Any = Estimator(np.zeros(4), by_distance, early_stopping=True).fit(FLOWERS)
    assert alone.best_validation_score_ <= 0.0


def test_averages_predict_and_training_goes_on_from_where_it_was() -> None:
    optimizer = optim.average_params(optim.sgd(0.1), decay=0.5)
    model = Regressor(optimizer=optimizer, random_state=0)
    for _ in range(3):
        model.partial_fit(X, Y)
    state = model.optimizer_state_
    np.testing.assert_array_equal(
        model.params_["coef"], optim.eval_params(state, model._stepped)["coef"]
    )
    assert not np.array_equal(model.params_["coef"], model._stepped["coef"])


def test_dtypes_and_shapes() -> None:
    both = np.stack([Y, -Y], axis=1)
    for y, shape in ((Y, (442,)), (both, (442, 2)), (both[:, :1], (442, 1))):
        model = Regressor(max_iter=2).fit(X.astype(np.float32), y)
        assert model.params_["coef"].dtype == model.predict(X.astype(np.float32)).dtype == "float32"
        out = model.predict(X)
        assert out.shape == shape
        out[:] = 0.0  # the caller's
    layer = nn.Linear.init(fg.random.key(0), 10, 1)
    assert Regressor(layer, max_iter=2).fit(X, Y).predict(X).shape == (442,)
    two = Classifier(layer, max_iter=2).fit(X, Y > 0)
    np.testing.assert_allclose(two.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(two.decision_function(X), two.params_(X)[:, 0])
    np.testing.assert_allclose(np.exp(two.predict_log_proba(X)), two.predict_proba(X))


def test_the_loss_of_weights_is_that_of_repeated_rows() -> None:
    weights = np.arange(len(Y)) % 3
    model = Estimator(loss=absolute, max_iter=3).fit(X, Y, sample_weight=weights)
    rows = np.repeat(np.arange(len(Y)), weights)
    np.testing.assert_allclose(model.score(X, Y, weights), model.score(X[rows], Y[rows]))


def test_a_warning_says_that_training_is_not_done() -> None:
    with pytest.warns(ConvergenceWarning, match="the loss still improves after max_iter=2"):
        Regressor(max_iter=2).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Regressor(optimizer=optim.adam(0.1), tol=1e-3).fit(X, Y)


def wrong_shape(params: Any, X: Any) -> Any:
    return X[:, :3] + params["intercept"][0]


REFUSALS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: Regressor(loss=lambda p, X, y: (linear(p, X)[:, 0] - y) ** 2).fit(X, Y),
        errors.ShapeError,
        r"Regressor.fit: the loss has to return one number, and returned an array of shape"
        r" \(200,\). Return the mean",
    ),
    (
        lambda: Regressor(loss=lambda p, X, y: (1.0, 2.0)).fit(X, Y),
        errors.ShapeError,
        "returned 2 values",
    ),
    (
        lambda: Regressor(apply=wrong_shape).fit(X, Y),
        errors.ShapeError,
        r"Regressor.fit: apply\(params, X\) returned shape \(200, 3\) for X of shape \(200, 10\),"
        r" and \(200,\) is expected",
    ),
    (
        lambda: Classifier(apply=wrong_shape).fit(X, Y > 0),
        errors.ShapeError,
        r"\(200, 2\) is expected: a row for each row of X, with 2 values in it",
    ),
    (
        lambda: Estimator(np.zeros(4), by_distance).fit(FLOWERS, sample_weight=KINDS),
        errors.ArgumentError,
        "Estimator.fit: the loss does not take weights. Give it a parameter sample_weight",
    ),
    (
        lambda: Regressor().fit(X, Y, sample_weight=np.ones(3)),
        errors.ShapeError,
        r"sample_weight has shape \(3,\), expected \(442,\)",
    ),
    (
        lambda: Regressor(0.5).fit(X, Y),
        errors.FunctionError,
        r"Regressor.fit: init has to be a function .*, got 0.5",
    ),
    (lambda: Regressor(loss="squared").fit(X, Y), errors.FunctionError, "loss has to be a func"),  # type: ignore[arg-type]
    (
        lambda: Regressor(optimizer="adam").fit(X, Y),  # type: ignore[arg-type]
        errors.FunctionError,
        r"optimizer has to be one of funcgrad.optim, as optim.adam\(0.01\), got 'adam'",
    ),
    (
        lambda: Regressor(optimizer=optim.sgd(1e30)).fit(X, Y),
        errors.NonFiniteError,
        "the loss is (inf|nan) in epoch .* Scale the columns of X",
    ),
    (
        lambda: Regressor(batch_size=0).fit(X, Y),
        errors.ArgumentError,
        'batch_size has to be a positive integer or "auto", got 0',
    ),
    (lambda: Regressor(tol=-1.0).fit(X, Y), errors.ArgumentError, "tol has to be 0 or more"),
    (
        lambda: Regressor(early_stopping=True, validation_fraction=1.5).fit(X, Y),
        errors.ArgumentError,
        "validation_fraction has to be between 0 and 1, got 1.5",
    ),
    (
        lambda: Regressor(early_stopping=True).fit(X[:5], Y[:5]),
        errors.ArgumentError,
        "the validation set has 1 row",
    ),
    (
        lambda: Regressor(early_stopping=True).partial_fit(X, Y),
        AttributeError,
        "has no attribute 'partial_fit'",
    ),
    (lambda: Classifier().partial_fit(FLOWERS, KINDS), errors.ArgumentError, "on the first call"),
    (
        lambda: (
            Classifier()
            .partial_fit(FLOWERS, KINDS, classes=[0, 1, 2])
            .partial_fit(FLOWERS, KINDS, classes=[0, 1])
        ),
        errors.ArgumentError,
        "differ from the first call",
    ),
    (
        lambda: Classifier().partial_fit(FLOWERS, KINDS, classes=[0, 1]),
        errors.ArgumentError,
        r"y has the labels \[2\], which are not among the classes",
    ),
    (lambda: Estimator().fit(X), errors.ArgumentError, "requires y to be passed"),
    *[
        (call, errors.ArgumentError, words)
        for call, words in (
            (lambda: Estimator(loss=absolute).fit(X), r"y is None: .*'y'.*Estimator.fit\(X, y\)"),
            (lambda: Regressor(loss=absolute).fit(X, None), r"Regressor.fit: .* y is None"),
            (lambda: Estimator(loss=absolute).partial_fit(X), r"y is None"),
            (lambda: Estimator((0.0,), by_distance).fit(X, Y), r"y is given: too many .*\(X\)"),
            (lambda: Estimator(loss=absolute).fit(X, Y).score(X), r"Estimator.score: .* y is None"),
        )
    ],
]


test_refusals = refused(REFUSALS)


@pytest.mark.parametrize("make", [optim.adam, optim.adamw, optim.rmsprop, optim.lion])
def test_fit_leaves_the_optimizer_as_it_was(make: Any) -> None:
    optimizer = make(0.01)
    before = pickle.dumps(optimizer), joblib.hash(optimizer)
    Regressor(optimizer=optimizer, max_iter=2).fit(X, Y)
    assert (pickle.dumps(optimizer), joblib.hash(optimizer)) == before


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "funcgrad.interop.sklearn.estimators")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(errors.MissingPackageError, match=r"pip install scikit-learn"):
        interop.sklearn.__getattr__("Estimator")
    assert dir(interop.sklearn) == ["Classifier", "Estimator", "Regressor"]


def test_means_over_rows_are_weighted() -> None:
    values = np.array([[1.0, 3.0], [5.0, 7.0], [0.0, 2.0]])
    assert _mean(values, np.array([1.0, 2.0, 1.0])) == (2.0 + 2 * 6.0 + 1.0) / 4
    assert _mean(values, None) == 3.0


def test_two_classes_are_decided_by_the_difference_of_logits() -> None:
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    model = Classifier(random_state=0).fit(x, np.array([0, 0, 1, 1]))
    assert ((model.decision_function(x) > 0) == model.predict(x).astype(bool)).all()
