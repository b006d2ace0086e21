"""Estimators for scikit-learn that train models of funcgrad.

>>> from sklearn.datasets import load_iris
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> import funcgrad as fg
>>> from funcgrad import nn
>>> net = nn.sequential(nn.dense(16), nn.relu, nn.dense(3))
>>> classifier = fg.interop.sklearn.Classifier(net, max_iter=1000, random_state=0)
>>> X, y = load_iris(return_X_y=True)
>>> bool(cross_val_score(make_pipeline(StandardScaler(), classifier), X, y, cv=3).mean() > 0.9)
True

The classes inherit from scikit-learn's, which is imported when one of them is first used.
"""

from typing import TYPE_CHECKING, Any

from funcgrad._hints.lazy_names import LateNames as _LateNames
from funcgrad.errors import MissingPackageError as _MissingPackageError

if TYPE_CHECKING:
    from funcgrad.interop.sklearn.estimators import Estimator
    from funcgrad.interop.sklearn.predictors import Classifier, Regressor

__all__ = ["Classifier", "Estimator", "Regressor"]

_LATE = _LateNames(__name__, {"estimators": "Estimator", "predictors": "Classifier Regressor"})


def _load(name: str) -> Any:
    try:
        return _LATE.load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise _MissingPackageError(
            "interop.sklearn: scikit-learn is not installed. Install it with `pip install"
            " scikit-learn`."
        ) from error


if not TYPE_CHECKING:  # type checkers see the names above, and report others
    __getattr__ = _load

__dir__ = __all__.copy  # completion shows the public names, without the modules
