"""Chi-squared distribution: the methods of ``scipy.stats.chi2``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("chi2").__getattr__
