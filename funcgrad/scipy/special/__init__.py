"""SciPy's special functions, under SciPy's names.

They are differentiable in every argument but those that their docstrings name, to any order. SciPy
evaluates most of them, and is loaded when the first of these is computed. NumPy evaluates sums of
exponentials, logistic functions, entropies, ``erf``, ``erfc``, ``ndtr``, ``ndtri``, ``exprel``.

>>> import funcgrad as fg
>>> from funcgrad.scipy import special
>>> fg.grad(special.gammainc)(2.0, 1.0)
Tensor(-0.27619604570283)
"""

# fmt: off
# isort: off
from funcgrad.scipy.special.bessel import (
    i0, i0e, i1, i1e, iv, ive, j0, j1, jv, k0, k0e, k1, k1e, kv, kve, y0, y1, yv,
)
from funcgrad.scipy.special.combinatorics import binom, comb, factorial, multigammaln, perm
from funcgrad.scipy.special.elliptic import ellipe, ellipk, ellipkm1
from funcgrad.scipy.special.entropies import entr, kl_div, rel_entr, xlog1py, xlogy
from funcgrad.scipy.special.error_functions import (
    dawsn, erf, erfc, erfcinv, erfcx, erfi, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp,
)
from funcgrad.scipy.special.exponentials import exp1, expi, expn, exprel
from funcgrad.scipy.special.gammas import (
    beta, betaln, digamma, gamma, gammaln, gammasgn, loggamma, poch, polygamma, psi, rgamma,
)
from funcgrad.scipy.special.harmonics import sph_harm_y
from funcgrad.scipy.special.hypergeometric import hyp0f1, hyp1f1, hyp2f1
from funcgrad.scipy.special.incomplete_betas import betainc, betaincc, betainccinv, betaincinv
from funcgrad.scipy.special.incomplete_gammas import gammainc, gammaincc, gammainccinv, gammaincinv
from funcgrad.scipy.special.lambert import lambertw, wrightomega
from funcgrad.scipy.special.logistic import expit, log_expit, logit
from funcgrad.scipy.special.sums import log_softmax, logsumexp, softmax
from funcgrad.scipy.special.zetas import zeta
from funcgrad.numpy import cbrt, exp2, expm1, log1p, sinc

__all__ = [
    "beta", "betainc", "betaincc", "betainccinv", "betaincinv", "betaln", "binom", "cbrt",
    "comb", "dawsn", "digamma", "ellipe", "ellipk", "ellipkm1", "entr", "erf", "erfc",
    "erfcinv", "erfcx", "erfi", "erfinv", "exp1", "exp2", "expi", "expit", "expm1", "expn",
    "exprel", "factorial", "gamma", "gammainc", "gammaincc", "gammainccinv", "gammaincinv",
    "gammaln", "gammasgn", "hyp0f1", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "iv", "ive",
    "j0", "j1", "jv", "k0", "k0e", "k1", "k1e", "kl_div", "kv", "kve", "lambertw", "log1p",
    "log_expit", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "ndtri_exp", "perm", "poch", "polygamma", "psi", "rel_entr", "rgamma",
    "sinc", "softmax", "sph_harm_y", "wrightomega", "xlog1py", "xlogy", "y0", "y1", "yv",
    "zeta",
]


def __dir__() -> list[str]:
    """The public names alone, for completion; modules that hold parts are not among them."""
    return list(__all__)
