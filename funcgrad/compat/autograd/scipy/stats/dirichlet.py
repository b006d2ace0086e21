"""Dirichlet distribution: the methods of ``scipy.stats.dirichlet``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("dirichlet").__getattr__
