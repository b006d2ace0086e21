"""``scipy.stats`` with funcgrad's derivatives: distributions, with SciPy's methods.

>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.scipy.stats import norm
>>> grad(norm.logpdf, 2)(1.0, 0.0, 2.0)
np.float64(-0.375)
"""

from __future__ import annotations

from typing import Any

from funcgrad.compat.autograd.scipy.stats import beta as beta
from funcgrad.compat.autograd.scipy.stats import chi2 as chi2
from funcgrad.compat.autograd.scipy.stats import dirichlet as dirichlet
from funcgrad.compat.autograd.scipy.stats import gamma as gamma
from funcgrad.compat.autograd.scipy.stats import multivariate_normal as multivariate_normal
from funcgrad.compat.autograd.scipy.stats import norm as norm
from funcgrad.compat.autograd.scipy.stats import poisson as poisson
from funcgrad.compat.autograd.scipy.stats import t as t
from funcgrad.compat.autograd.scipy.stats.methods import Methods


def __getattr__(name: str) -> Any:
    return Methods(name).itself()
