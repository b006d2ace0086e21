"""What funcgrad and its tests use of Dask's scheduler, whose functions are without types."""

from collections.abc import Sequence
from typing import Any

Client: Any
LocalCluster: Any

def get_worker() -> Any: ...
def wait(fs: Sequence[Any], timeout: float | None = ...) -> Any: ...
