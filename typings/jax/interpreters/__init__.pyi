# JAX as funcgrad.interop sees it: of any type.
from typing import Any

def __getattr__(name: str) -> Any: ...
