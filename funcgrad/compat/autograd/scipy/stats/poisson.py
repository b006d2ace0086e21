"""Poisson distribution: the methods of ``scipy.stats.poisson``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("poisson").__getattr__
