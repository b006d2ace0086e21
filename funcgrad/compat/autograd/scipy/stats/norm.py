"""Normal distribution: the methods of ``scipy.stats.norm``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("norm").__getattr__
