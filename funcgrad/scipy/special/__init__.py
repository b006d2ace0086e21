"""SciPy's special functions, under SciPy's names: they are differentiable in all parameters.

>>> import funcgrad as fg
>>> from funcgrad.scipy import special
>>> fg.grad(special.expit)(0.0)
Tensor(0.25)
"""

# fmt: off
from funcgrad.scipy.special.entropies import entr, kl_div, rel_entr, xlog1py, xlogy
from funcgrad.scipy.special.logistic import expit, log_expit, logit
from funcgrad.scipy.special.sums import log_softmax, logsumexp, softmax

__all__ = [
    "entr", "expit", "kl_div", "log_expit", "log_softmax", "logit", "logsumexp", "rel_entr",
    "softmax", "xlog1py", "xlogy",
]


def __dir__() -> list[str]:
    """The public names alone, for completion; modules that hold parts are not among them."""
    return list(__all__)
