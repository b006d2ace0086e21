from typing import Any, Literal

from numpy import float64, int64
from numpy.typing import NDArray

def load_digits(
    *, n_class: int = 10, return_X_y: Literal[True]
) -> tuple[NDArray[float64], NDArray[int64]]: ...
def __getattr__(name: str) -> Any: ...
