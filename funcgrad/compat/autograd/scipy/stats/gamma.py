"""Gamma distribution: the methods of ``scipy.stats.gamma``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("gamma").__getattr__
