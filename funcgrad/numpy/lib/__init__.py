"""NumPy's ``numpy.lib``: windows of ``stride_tricks``, and ``scimath``, which is ``emath``."""

from funcgrad.numpy.lib import scimath, stride_tricks

__all__ = ["scimath", "stride_tricks"]

__dir__ = __all__.copy  # completion shows the public names, without the modules
