"""The operands at which functions are excused from the laws of edges, with the reasons.

>>> excused("fnp.mod", 1.0, 0.0), excused("fnp.mod", 1.0, 2.0)
(True, False)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import scipy.special


class Excuse(NamedTuple):
    """Operands at which the laws do not hold, and the reason."""

    where: Callable[..., bool]
    why: str


def _pole(x: float) -> bool:
    return x <= 0 and x == np.rint(x)


_BY_ZERO = Excuse(lambda x, y: y == 0, "the value is NaN; wherever it exists, the slope is 1")
_POLES = Excuse(_pole, "at a pole the slope is infinite, whatever the sign of the value")
_OF_NOTHING = Excuse(
    lambda x: 0 < x < 1e-100, "the density underflows, and its slope is a product of 0 and infinity"
)
_POWER = Excuse(
    lambda x, y: x < 0 or (x == 1 and np.isinf(y)),
    "a negative base has a value at integer exponents only, so no slope",
)
_SECOND_AT_ENDS = Excuse(
    lambda *x: bool({0.0, 1.0} & {x[-1]}),
    "the second derivative at an end of the domain is a product of 0 and infinity",
)
_ZETA = Excuse(lambda x: x == -1e200, "its zeros are closer together than floating-point numbers")
_OF_COMPLEX_NUMBERS = Excuse(
    lambda x: abs(x) == 1e-200, "the slope is a difference of values near 1e200"
)

_SECOND_OVERFLOWS = Excuse(lambda x: x == 1e-200, "the second derivative, 1e400, overflows")
_SQUARE_OVERFLOWS = Excuse(
    lambda x: abs(x) == 1e200,
    "the second derivative is a product of a density, 0, and of an infinite square",
)
_NEAR_ZERO = Excuse(
    lambda x: 0 <= x < 1e-100,
    "an infinite derivative at the end of the support is a product of 0 and infinity",
)
_AT_MODE = Excuse(
    lambda x: abs(x) in {0.0, 1e-200, 1e200}, "the second derivative is 0, to the rounding of a sum"
)
_SUBNORMAL = Excuse(lambda x: x == -1e200, "the second derivative is a subnormal number")

_NO_LABEL = Excuse(lambda _, y: abs(y) > 1, "a label is a probability, from 0 to 1")

EXCUSES: Final = MappingProxyType(
    {
        "nn.sigmoid_focal_loss": _NO_LABEL,
        "fnp.mod": _BY_ZERO,
        "fnp.fmod": _BY_ZERO,
        "fnp.divide": Excuse(
            lambda x, y: x == y == 0, "0 / 0 is NaN; the slope is 1 / y everywhere"
        ),
        "fnp.pow": _POWER,
        "fnp.float_power": _POWER,
        "special.digamma": _POLES,
        "special.psi": _POLES,
        "special.gammaln": _POLES,
        "special.rgamma": Excuse(np.isneginf, "it alternates between the infinities"),
        "special.xlogy": Excuse(lambda x, y: y < 0, "is 0 at x = 0, but NaN on both sides of it"),
        "special.xlog1py": Excuse(
            lambda x, y: y < -1, "is 0 at x = 0, but NaN on both sides of it"
        ),
        "stats.lognorm.ppf": Excuse(
            lambda x: x < 1e-100, "the infinite slope is a product of 0 and infinity"
        ),
        "stats.lognorm.isf": Excuse(
            lambda x: x == 1, "the infinite slope is a product of 0 and infinity"
        ),
        "special.zeta": _ZETA,
        "special.zetac": _ZETA,
        **dict.fromkeys(
            ["special." + name for name in "beip kei keip ker kerp".split()], _OF_COMPLEX_NUMBERS
        ),
        **dict.fromkeys(
            [
                "special." + name
                for name in "chdtri gammaincinv gammainccinv iv ive ivp jn jv jvp".split()
            ],
            _SECOND_AT_ENDS,
        ),
        **dict.fromkeys(
            ("stats.t.isf", "stats.t.ppf"),
            Excuse(lambda x: x == 1e-200, "SciPy's value has no correct digit"),
        ),
        "stats.chi2.logsf": Excuse(
            lambda x: x == 800, "the square of the probability 1e-173 underflows"
        ),
        **dict.fromkeys(
            """stats.gumbel_l.isf stats.gumbel_r.ppf stats.weibull_min.isf stats.rayleigh.isf
            stats.skewnorm.ppf stats.skewnorm.isf stats.gennorm.ppf stats.gennorm.isf""".split(),
            _SECOND_OVERFLOWS,
        ),
        **dict.fromkeys(
            """stats.rayleigh.pdf stats.skewnorm.pdf stats.skewnorm.logcdf
            stats.skewnorm.sf""".split(),
            _SQUARE_OVERFLOWS,
        ),
        **dict.fromkeys("stats.f.pdf stats.f.logcdf stats.f.sf stats.f.logsf".split(), _NEAR_ZERO),
        "stats.f.cdf": Excuse(
            lambda x: _NEAR_ZERO.where(x) or _SQUARE_OVERFLOWS.where(x), _NEAR_ZERO.why
        ),
        "stats.invgamma.isf": Excuse(
            lambda x: x == 1, "the slope at an end is a product of 0 and infinity"
        ),
        "stats.invgamma.ppf": Excuse(
            lambda x: 0 <= x < 1e-100, "the infinite slope at an end is a product of 0 and infinity"
        ),
        "stats.invgamma.logsf": Excuse(
            lambda x: 0 < x < 1e-100 or x == 1e200,
            "far out the density underflows, and its slope is a product of 0 and infinity",
        ),
        "stats.genextreme.ppf": Excuse(
            lambda x: x in {1.0, 1e-200}, "derivatives at an end are products of 0 and infinity"
        ),
        "stats.genextreme.isf": Excuse(
            lambda x: x in {0.0, 1e-200}, "derivatives at an end are products of 0 and infinity"
        ),
        **dict.fromkeys(("stats.genextreme.logpdf", "stats.genextreme.logcdf"), _SUBNORMAL),
        **dict.fromkeys(
            [f"stats.vonmises.{name}" for name in ("cdf", "sf", "logcdf", "logsf")], _AT_MODE
        ),
        **dict.fromkeys(
            """stats.beta.pdf stats.chi2.pdf stats.chi2.logcdf stats.gamma.pdf stats.lognorm.logpdf
            stats.lognorm.pdf stats.lognorm.cdf stats.lognorm.sf stats.lognorm.logsf
            stats.invgamma.pdf stats.invgamma.cdf stats.invgamma.sf""".split(),
            _OF_NOTHING,
        ),
    }
)


def _somewhere(*_: float) -> bool:
    return True


_SWINGS = Excuse(
    lambda v, x: v == -np.inf, "it oscillates between integer orders; large floats are integers"
)
AT_INFINITY: Final = MappingProxyType(
    {
        **dict.fromkeys(
            "fnp.sinc fnp.spacing fnp.mod fnp.fmod fnp.floor_divide".split(),
            Excuse(_somewhere, "NumPy's value is NaN, though the function has a limit"),
        ),
        "special.gammaln": Excuse(
            np.isneginf, "SciPy's value at -inf is -inf, though it is inf at -1e300"
        ),
        "special.iv": _SWINGS,
        "special.ivp": _SWINGS,
        "special.yn": Excuse(
            lambda n, x: n == np.inf, "`yv` is NaN, where SciPy takes an integer order"
        ),
        "fnp.nextafter": Excuse(_somewhere, "the neighbour of infinity is the greatest number"),
        "fnp.nan_to_num": Excuse(_somewhere, "infinities are replaced by constants"),
        **dict.fromkeys(
            ("stats.vonmises.cdf", "stats.vonmises.sf"),
            Excuse(_somewhere, "as in SciPy an angle counts its turns, but not infinitely many"),
        ),
        "stats.poisson.logpmf": Excuse(_somewhere, "no distribution has an infinite mean"),
    }
)
"""Where functions are not at infinity what they are far out, and why."""


def excused_at_infinity(name: str, *operands: float) -> bool:
    """Whether a function may differ at infinite operands from its limit at large ones.

    >>> excused_at_infinity("special.j0", np.inf), excused_at_infinity("special.k0", np.inf)
    (True, False)
    """
    excuse = AT_INFINITY.get(name)
    return _without_value(name, *operands) or (excuse is not None and excuse.where(*operands))


def _without_value(name: str, *operands: float) -> bool:
    """Whether SciPy's value of a special function is NaN, and therefore ours."""
    space, _, function = name.rpartition(".")
    if space != "special":
        return False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(np.isnan(getattr(scipy.special, function)(*operands)))


def excused(name: str, *operands: float) -> bool:
    """Whether the laws do not hold for a function at some operands."""
    excuse = EXCUSES.get(name)
    return excuse is not None and bool(excuse.where(*operands))
