"""Student's distribution: the methods of ``scipy.stats.t``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("t").__getattr__
