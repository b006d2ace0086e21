from typing import Any

from numpy.random import RandomState
from numpy.typing import NDArray

def check_array(
    array: Any, *, dtype: Any = ..., ensure_2d: bool = True, input_name: str = ""
) -> NDArray[Any]: ...
def check_random_state(seed: Any) -> RandomState: ...
