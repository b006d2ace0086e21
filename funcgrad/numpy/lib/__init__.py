"""NumPy's ``numpy.lib``: windows of ``stride_tricks``, and ``scimath``, which is ``emath``."""

from funcgrad.numpy.lib import scimath, stride_tricks

__all__ = ["scimath", "stride_tricks"]


def __dir__() -> list[str]:
    """List the public names for completion."""
    return list(__all__)
