"""NumPy's ``numpy.lib``, of which tensors have the windows of ``stride_tricks``."""

from funcgrad.numpy.lib import stride_tricks

__all__ = ["stride_tricks"]


def __dir__() -> list[str]:
    """The public names alone, for completion."""
    return list(__all__)
