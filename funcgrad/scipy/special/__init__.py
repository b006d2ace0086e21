"""SciPy's special functions, under SciPy's names.

They are differentiable with respect to every argument, to any order; docstrings name the
exceptions. SciPy evaluates most of them, and is loaded on their first use. NumPy evaluates sums of
exponentials, logistic functions, entropies, ``erf``, ``erfc``, ``ndtr``, ``ndtri``, ``exprel``.

>>> import funcgrad as fg
>>> from funcgrad.scipy import special
>>> fg.grad(special.gammainc)(2.0, 1.0)
Tensor(-0.27619604570283)
"""

# fmt: off
# isort: off
from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.numpy import cbrt, exp2, expm1, log1p, sinc
from funcgrad.scipy.special.airy import airy
from funcgrad.scipy.special.bessel import (
    bessel_jn, h1vp, h2vp, hankel1, hankel2, i0, i0e, i1, i1e, iv, ive, ivp, j0, j1, jn, jv, jvp,
    k0, k0e, k1, k1e, kn, kv, kve, kvp, spherical_in, spherical_jn, spherical_kn, spherical_yn, y0,
    y1, yn, yv, yvp,
)
from funcgrad.scipy.special.combinatorics import (
    bernoulli, binom, comb, factorial, multigammaln, perm,
)
from funcgrad.scipy.special.distribution_functions import (
    bdtr, bdtrc, bdtri, chdtr, chdtrc, chdtri, fdtr, fdtrc, fdtri, gdtr, gdtrc, gdtria, gdtrix,
    nbdtr, nbdtrc, nbdtri, pdtr, pdtrc, pdtri, stdtr, stdtrit,
)
from funcgrad.scipy.special.entropies import (
    entr, expit, huber, kl_div, log_expit, logit, pseudo_huber, rel_entr, softplus, xlog1py,
    xlogy,
)
from funcgrad.scipy.special.error_functions import (
    dawsn, erf, erfc, erfcinv, erfcx, erfi, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp, owens_t,
    voigt_profile, wofz,
)
from funcgrad.scipy.special.gammas import (
    beta, betaln, digamma, gamma, gammaln, gammasgn, loggamma, poch, polygamma, psi, rgamma,
    zeta, zetac,
)
from funcgrad.scipy.special.incomplete_functions import (
    betainc, betaincc, betainccinv, betaincinv, gammainc, gammaincc, gammainccinv, gammaincinv,
)
from funcgrad.scipy.special.integral_functions import (
    ellipe, ellipk, ellipkm1, exp1, expi, expn, exprel, fresnel, shichi, sici, spence,
)
from funcgrad.scipy.special.kelvin import bei, beip, ber, berp, kei, keip, kelvin, ker, kerp
from funcgrad.scipy.special.orthogonal_polynomials import (
    eval_chebyc, eval_chebys, eval_chebyt, eval_chebyu, eval_gegenbauer, eval_genlaguerre,
    eval_hermite, eval_hermitenorm, eval_jacobi, eval_laguerre, eval_legendre, eval_sh_chebyt,
    eval_sh_chebyu, eval_sh_legendre, hyp0f1, hyp1f1, hyp2f1, hyperu, sph_harm_y,
)
from funcgrad.scipy.special.power_transforms import (
    boxcox, boxcox1p, cosm1, exp10, inv_boxcox, inv_boxcox1p, lambertw, powm1, wrightomega,
)
from funcgrad.scipy.special.sums import log_softmax, logsumexp, softmax

__all__ = [
    "airy",
    "bdtr",
    "bdtrc",
    "bdtri",
    "bei",
    "beip",
    "ber",
    "bernoulli",
    "berp",
    "bessel_jn",
    "beta",
    "betainc",
    "betaincc",
    "betainccinv",
    "betaincinv",
    "betaln",
    "binom",
    "boxcox",
    "boxcox1p",
    "cbrt",
    "chdtr",
    "chdtrc",
    "chdtri",
    "comb",
    "cosm1",
    "dawsn",
    "digamma",
    "ellipe",
    "ellipk",
    "ellipkm1",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "eval_chebyc",
    "eval_chebys",
    "eval_chebyt",
    "eval_chebyu",
    "eval_gegenbauer",
    "eval_genlaguerre",
    "eval_hermite",
    "eval_hermitenorm",
    "eval_jacobi",
    "eval_laguerre",
    "eval_legendre",
    "eval_sh_chebyt",
    "eval_sh_chebyu",
    "eval_sh_legendre",
    "exp1",
    "exp2",
    "exp10",
    "expi",
    "expit",
    "expm1",
    "expn",
    "exprel",
    "factorial",
    "fdtr",
    "fdtrc",
    "fdtri",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "gammaln",
    "gammasgn",
    "gdtr",
    "gdtrc",
    "gdtria",
    "gdtrix",
    "h1vp",
    "h2vp",
    "hankel1",
    "hankel2",
    "huber",
    "hyp0f1",
    "hyp1f1",
    "hyp2f1",
    "hyperu",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "inv_boxcox1p",
    "iv",
    "ive",
    "ivp",
    "j0",
    "j1",
    "jn",
    "jv",
    "jvp",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kei",
    "keip",
    "kelvin",
    "ker",
    "kerp",
    "kl_div",
    "kn",
    "kv",
    "kve",
    "kvp",
    "lambertw",
    "log1p",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "nbdtr",
    "nbdtrc",
    "nbdtri",
    "ndtr",
    "ndtri",
    "ndtri_exp",
    "owens_t",
    "pdtr",
    "pdtrc",
    "pdtri",
    "perm",
    "poch",
    "polygamma",
    "powm1",
    "pseudo_huber",
    "psi",
    "rel_entr",
    "rgamma",
    "shichi",
    "sici",
    "sinc",
    "softmax",
    "softplus",
    "spence",
    "sph_harm_y",
    "spherical_in",
    "spherical_jn",
    "spherical_kn",
    "spherical_yn",
    "stdtr",
    "stdtrit",
    "voigt_profile",
    "wofz",
    "wrightomega",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "yn",
    "yv",
    "yvp",
    "zeta",
    "zetac",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
