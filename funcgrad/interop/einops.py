"""einops' own functions on tensors; ``einops.array_api`` needs no registration.

>>> import pytest
>>> einops = pytest.importorskip("einops")
>>> import funcgrad as fg
>>> register()
>>> fg.grad(lambda x: einops.reduce(x, "row column -> row", "max")[0])(fg.tensor([[1.0, 2.0]]))
Tensor([[0., 1.]])
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad.errors import MissingPackageError
from funcgrad.tensor.tensor import Tensor

__all__ = ["register"]


def register() -> None:
    """Let einops' functions (``rearrange``, ``reduce``, ``repeat``, ...) take tensors.

    They then work under ``grad``, ``vmap`` and ``jit``, too. Call it once in a process.

    Raises
    ------
    MissingPackageError
        einops is not installed.

    Examples
    --------
    >>> import pytest
    >>> einops = pytest.importorskip("einops")
    >>> import funcgrad as fg
    >>> register()
    >>> einops.rearrange(fg.tensor([[1.0, 2.0], [3.0, 4.0]]), "a b -> (b a)")
    Tensor([1., 3., 2., 4.])
    """
    try:
        from einops import _backends as backends
    except ImportError as error:
        raise MissingPackageError(
            "interop.einops: einops is not installed. Install it with `pip install einops`."
        ) from error

    class FuncgradBackend(backends.NumpyBackend):
        framework_name = "funcgrad"

        def __init__(self) -> None:
            self.np = fnp

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

    # einops finds the class among the subclasses of its own, so a reference has to be kept.
    backends._loaded_backends.setdefault("funcgrad", FuncgradBackend())


__dir__ = __all__.copy  # completion shows the public names, without the modules
