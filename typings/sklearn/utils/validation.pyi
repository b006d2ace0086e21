from typing import Any

def check_is_fitted(estimator: Any) -> None: ...
def validate_data(
    _estimator: Any,
    X: Any = ...,
    y: Any = ...,
    *,
    reset: bool = True,
    dtype: Any = ...,
    multi_output: bool = False,
    y_numeric: bool = False,
) -> Any: ...
