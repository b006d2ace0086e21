"""What funcgrad uses of Dask, whose functions are partly without types."""

from typing import Any

from dask import array as array
from dask import bag as bag
from dask import config as config

def compute(*args: Any, scheduler: str | None = ...) -> tuple[Any, ...]: ...
