"""Beta distribution: the methods of ``scipy.stats.beta``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("beta").__getattr__
