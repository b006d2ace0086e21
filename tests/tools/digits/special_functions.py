"""Functions of ``funcgrad.scipy.special`` as subjects: each that has a twin in mpmath.

Operations have theirs in ``tests/scipy/special/test_digits.py``; here are those of the functions
that are made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from mpmath import mp

from funcgrad.scipy import special
from tests.scipy.special.test_digits import OF_INTEGERS, ONE, THREE, TWO
from tests.tools.digits.drawing import level, positive, real
from tests.tools.digits.subjects import Point, Subject
from tests.tools.digits.twins import CONTINUOUS, DISCRETE, quantile_twin_of

Twin = Callable[..., Any]
Draw = Callable[[np.random.Generator, bool], Point]

APART: Final = frozenset(
    """bernoulli bessel_jn h1vp h2vp hankel1 hankel2 sph_harm_y wofz gammasgn kelvin log_softmax
    logsumexp softmax""".split()
)
"""Constants, several orders, complex results, a sign, eight functions in one, and what
``funcgrad.nn`` has too."""


def _neighbours(kind: Twin, below: float, above: float) -> Twin:
    """The derivative in the argument (DLMF 10.6.1 and 10.29.1)."""
    return lambda v, x: (below * kind(v - 1, x) + above * kind(v + 1, x)) / 2


def _kelvin_slope(first: Twin, second: Twin, sign: int) -> Twin:
    """DLMF 10.63.1, of the order 0."""
    return lambda x: (first(1, x) + sign * second(1, x)) / mp.sqrt(2)


def _owens_t(h: Any, a: Any) -> Any:
    def integrand(x: Any) -> Any:
        return mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x)

    return mp.quad(integrand, [0, a]) / (2 * mp.pi)


def _voigt(x: Any, sigma: Any, gamma: Any) -> Any:
    z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
    return (mp.exp(-z * z) * mp.erfc(-1j * z)).real / (sigma * mp.sqrt(2 * mp.pi))


def _huber(delta: Any, r: Any) -> Any:
    return r * r / 2 if abs(r) <= delta else delta * (abs(r) - delta / 2)


def _chosen(n: Any, k: Any) -> Any:
    return mp.binomial(n, k) if k <= n else mp.nan


def _sequences(n: Any, k: Any) -> Any:
    return mp.gamma(n + 1) / mp.gamma(n - k + 1) if k <= n else mp.nan


def _share(dfn: Any, dfd: Any, x: Any) -> tuple[Any, Any, Any]:
    return dfn * x / (dfd + dfn * x), dfn / 2, dfd / 2


MORE_OF_ONE: Final[dict[str, Twin]] = {
    "bei": lambda x: mp.bei(0, x),
    "beip": _kelvin_slope(mp.bei, mp.ber, -1),
    "ber": lambda x: mp.ber(0, x),
    "berp": _kelvin_slope(mp.ber, mp.bei, 1),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "cosm1": lambda x: -2 * mp.sin(x / 2) ** 2,
    "digamma": lambda x: mp.psi(0, x),
    "erf": mp.erf,
    "erfc": mp.erfc,
    "exp10": lambda x: mp.mpf(10) ** x,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expit": lambda x: 1 / (1 + mp.exp(-x)),
    "expm1": mp.expm1,
    "factorial": lambda x: mp.gamma(x + 1) if x > 0 else mp.nan,
    "kei": lambda x: mp.kei(0, x),
    "keip": _kelvin_slope(mp.kei, mp.ker, -1),
    "ker": lambda x: mp.ker(0, x),
    "kerp": _kelvin_slope(mp.ker, mp.kei, 1),
    "lambertw": lambda x: mp.lambertw(x).real if x > -mp.exp(-1) else mp.nan,
    "log1p": mp.log1p,
    "ndtr": CONTINUOUS["norm"].below,
    "sinc": mp.sincpi,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
}
OF_RESULTS: Final[dict[str, tuple[Twin, ...]]] = {
    "airy": (
        mp.airyai,
        lambda x: mp.airyai(x, derivative=1),
        mp.airybi,
        lambda x: mp.airybi(x, derivative=1),
    ),
    "fresnel": (mp.fresnels, mp.fresnelc),
    "shichi": (mp.shi, mp.chi),
    "sici": (mp.si, mp.ci),
}
"""Functions of several results."""

MORE_OF_TWO: Final[dict[str, Twin]] = {
    "chdtr": lambda v, x: CONTINUOUS["chi2"].below(x, v),
    "chdtrc": lambda v, x: CONTINUOUS["chi2"].above(x, v),
    "comb": _chosen,
    "huber": _huber,
    "ivp": _neighbours(mp.besseli, 1, 1),
    "jn": mp.besselj,
    "jvp": _neighbours(mp.besselj, 1, -1),
    "kn": mp.besselk,
    "kvp": _neighbours(mp.besselk, -1, -1),
    "owens_t": _owens_t,
    "perm": _sequences,
    "stdtr": lambda df, t: CONTINUOUS["t"].below(t, df),
    "yn": mp.bessely,
    "yvp": _neighbours(mp.bessely, 1, -1),
}

LEVELS: Final[dict[str, Twin]] = {
    "chdtri": lambda v, p: quantile_twin_of("chi2", "isf")(p, v, mp.mpf(1)),
    "gdtrix": lambda a, b, p: quantile_twin_of("gamma", "ppf")(p, b, 1 / a),
    "ndtri": lambda p: quantile_twin_of("norm", "ppf")(p, mp.mpf(1)),
    "stdtrit": lambda df, p: quantile_twin_of("t", "ppf")(p, df, mp.mpf(1)),
    "fdtri": lambda dfn, dfd, p: _odds(dfn, dfd, p),
}
"""The last argument is a probability."""


def _odds(dfn: Any, dfd: Any, p: Any) -> Any:
    share = quantile_twin_of("beta", "ppf")(p, dfn / 2, dfd / 2, mp.mpf(1))
    return dfd * share / (dfn * (1 - share))


THREE_POSITIVE: Final[dict[str, Twin]] = {
    "fdtr": lambda dfn, dfd, x: CONTINUOUS["beta"].below(*_share(dfn, dfd, x)),
    "fdtrc": lambda dfn, dfd, x: CONTINUOUS["beta"].above(*_share(dfn, dfd, x)),
    "gdtr": lambda a, b, x: CONTINUOUS["gamma"].below(a * x, b),
    "gdtrc": lambda a, b, x: CONTINUOUS["gamma"].above(a * x, b),
    "voigt_profile": _voigt,
}
COUNTS: Final[dict[str, Twin]] = {
    "bdtr": DISCRETE["binom"].below,
    "bdtrc": DISCRETE["binom"].above,
    "nbdtr": DISCRETE["nbinom"].below,
    "nbdtrc": DISCRETE["nbinom"].above,
    "bdtri": lambda k, n, y: quantile_twin_of("beta", "isf")(y, k + mp.mpf(1), n - k, mp.mpf(1)),
    "nbdtri": lambda k, n, y: quantile_twin_of("beta", "ppf")(y, n, k + mp.mpf(1), mp.mpf(1)),
}
"""Of a whole number, a number above it, and a probability."""

COUNTS_AND_MEANS: Final[dict[str, Twin]] = {
    "pdtr": DISCRETE["poisson"].below,
    "pdtrc": DISCRETE["poisson"].above,
}
POLYNOMIALS: Final[dict[str, Twin]] = {
    "eval_chebyc": lambda n, x: 2 * mp.chebyt(n, x / 2),
    "eval_chebys": lambda n, x: mp.chebyu(n, x / 2),
    "eval_laguerre": lambda n, x: mp.laguerre(n, 0, x),
    "eval_sh_chebyt": lambda n, x: mp.chebyt(n, 2 * x - 1),
    "eval_sh_chebyu": lambda n, x: mp.chebyu(n, 2 * x - 1),
    "eval_sh_legendre": lambda n, x: mp.legendre(n, 2 * x - 1),
}


def _numbers(*kinds: str) -> Draw:
    """A point of reals, positive numbers and levels."""

    def draw(rng: np.random.Generator, wide: bool) -> Point:
        decades = 6.0 if wide else 1.5
        drawn = {
            "real": lambda: real(rng, decades),
            "any": lambda: level(rng, wide) if rng.random() < 0.3 else real(rng, decades),
            "positive": lambda: positive(rng, decades),
            "level": lambda: level(rng, wide),
        }
        return tuple([drawn[kind]() for kind in kinds])

    return draw


def _with_count(kind: str, above: bool) -> Draw:
    rest = _numbers(kind)

    def draw(rng: np.random.Generator, wide: bool) -> Point:
        k = float(rng.integers(0, 30))
        more = (k + positive(rng, 1.5),) if above else ()
        return k, *more, *rest(rng, wide)

    return draw


def _beside(integers: tuple[tuple[float, ...], ...]) -> Draw:
    def draw(rng: np.random.Generator, wide: bool) -> Point:
        return *integers[rng.integers(len(integers))], real(rng, 6.0 if wide else 1.5)

    return draw


def _operations() -> dict[str, Subject]:
    """Operations that users reach by their names."""
    found = {name: (twin, _numbers("any")) for name, twin in ONE.items()}
    for name, twin in TWO.items():
        last = "level" if name in ("gammaincinv", "gammainccinv") else "positive"
        found[name] = (twin, _numbers("positive", last))
    for name, twin in THREE.items():
        found[name] = (twin, _numbers("positive", "positive", "level"))
    public = {
        name: Subject(getattr(special, name), twin, draw)
        for name, (twin, draw) in found.items()
        if name in special.__all__
    }
    for name, (twin, integers) in OF_INTEGERS.items():
        count = len(integers[0])
        public[name] = Subject(getattr(special, name), twin, _beside(integers), count)
    return public


def special_functions() -> dict[str, Subject]:
    """Every function of real numbers."""
    found = _operations()

    def add(twins: dict[str, Twin], draw: Draw, fixed: int = 0) -> None:
        for name, twin in twins.items():
            found[name] = Subject(getattr(special, name), twin, draw, fixed)

    add(MORE_OF_ONE, _numbers("any"))
    add(MORE_OF_TWO, _numbers("positive", "positive"))
    add(THREE_POSITIVE, _numbers("positive", "positive", "positive"))
    add(COUNTS, _with_count("level", True), 1)
    add(COUNTS_AND_MEANS, _with_count("positive", False), 1)
    add({"pdtri": lambda k, y: LEVELS["chdtri"](2 * k + 2, y) / 2}, _with_count("level", False), 1)
    add(POLYNOMIALS, _beside(((0,), (1,), (5,))), 1)
    for name, twin in LEVELS.items():
        count = twin.__code__.co_argcount - 1
        found[name] = Subject(
            getattr(special, name), twin, _numbers(*["positive"] * count, "level")
        )
    found["gdtria"] = Subject(
        special.gdtria,
        lambda p, b, x: quantile_twin_of("gamma", "ppf")(p, b, 1 / x),
        _numbers("level", "positive", "positive"),
    )
    found["multigammaln"] = Subject(
        lambda a: special.multigammaln(a, 3),
        lambda a: (
            mp.fsum([mp.loggamma(a - mp.mpf(j) / 2) for j in range(3)]) + mp.log(mp.pi) * 3 / 2
        ),
        _numbers("positive"),
    )
    found["lambertw"] = found["lambertw"]._replace(function=lambda x: special.lambertw(x).real)
    for name, twins in OF_RESULTS.items():
        for k, twin in enumerate(twins):
            function = getattr(special, name)
            found[f"{name}[{k}]"] = Subject(
                lambda x, f=function, k=k: f(x)[k], twin, _numbers("real")
            )
    return {f"special.{name}": subject for name, subject in sorted(found.items())}
