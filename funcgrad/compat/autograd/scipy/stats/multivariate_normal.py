"""Normal distribution of several variables: the methods of ``scipy.stats.multivariate_normal``."""

from funcgrad.compat.autograd.scipy.stats.methods import Methods

__getattr__ = Methods("multivariate_normal").__getattr__
