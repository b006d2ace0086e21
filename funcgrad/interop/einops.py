"""einops' own functions on tensors; those of ``einops.array_api`` need nothing.

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
    """Let einops' functions take tensors, also followed ones: ``einops.rearrange`` and its kin.

    Once in a process is enough.

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
            "interop.einops: einops is not installed. Install it by `pip install einops`."
        ) from error

    class FuncgradBackend(backends.NumpyBackend):
        framework_name = "funcgrad"

        def __init__(self) -> None:
            self.np = fnp

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

    # einops would find the class by itself, but has no reference to it before it meets a tensor.
    backends._loaded_backends.setdefault("funcgrad", FuncgradBackend())


__dir__ = __all__.copy  # completion shows the public names, without the modules
