"""Distributions in mpmath: standard forms, of as many digits as are asked for.

>>> float(CONTINUOUS["expon"].above(mp.mpf(2)))
0.1353352832366127
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mpmath import mp

Formula = Callable[..., Any]
BEYOND: Final = 10**5
"""Exponentials of exponentials beyond this have no room for their exponents."""


class Standard(NamedTuple):
    """The logarithm of a density, and the probabilities of smaller and of greater values."""

    log_density: Formula
    below: Formula
    above: Formula


def _normal_below(z: Any) -> Any:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def _tame(z: Any) -> Any:
    if z < -mp.log(BEYOND):
        raise ValueError("no room for the exponent")
    return z


def _gamma_below(z: Any, a: Any) -> Any:
    if z > a:
        return 1 - _gamma_above(z, a)
    return mp.gammainc(a, 0, z, regularized=True)


def _gamma_above(z: Any, a: Any) -> Any:
    if z > BEYOND or a > BEYOND:
        raise ValueError("too long")
    if z > a:
        return mp.gammainc(a, z, mp.inf, regularized=True)
    return 1 - _gamma_below(z, a)


def _log_gamma_density(z: Any, a: Any) -> Any:
    return (a - 1) * mp.log(z) - z - mp.loggamma(a)


def _beta_below(z: Any, a: Any, b: Any) -> Any:
    if max(a, b) > 1000:
        raise ValueError("too long")
    if z > a / (a + b):
        return 1 - mp.betainc(b, a, 0, 1 - z, regularized=True)
    return mp.betainc(a, b, 0, z, regularized=True)


def _log_student(z: Any, df: Any) -> Any:
    start = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return start - (df + 1) / 2 * mp.log1p(z * z / df)


def _student_below(z: Any, df: Any) -> Any:
    if df > 1000:
        raise ValueError("too long")
    half = mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + z * z), regularized=True) / 2
    return half if z < 0 else 1 - half


def _skewed_below(z: Any, a: Any) -> Any:
    if z > 0:
        return 1 - _skewed_below(-z, -a)

    def relative(t: Any) -> Any:  # mpmath's tolerance is absolute
        return mp.exp((z - t) * (z + t) / 2) * mp.erfc(-a * t / mp.sqrt(2)) / start

    start = mp.erfc(-a * z / mp.sqrt(2))
    square = 1 + a * a if a > 0 else 1
    step = 3 / (abs(z) * square + mp.sqrt(square))
    return mp.exp(_log_skewed(z, a)) * mp.quad(relative, [z - k * step for k in range(60, -1, -1)])


def _log_skewed(z: Any, a: Any) -> Any:
    return -z * z / 2 + mp.log(mp.erfc(-a * z / mp.sqrt(2))) - mp.log(2 * mp.pi) / 2


def _normal_mass(a: Any, b: Any) -> Any:
    if b < -a:
        a, b = -b, -a
    root = mp.sqrt(2)
    return (mp.erfc(a / root) - mp.erfc(b / root)) / 2


def _log_angle(z: Any, kappa: Any) -> Any:
    return kappa * mp.cos(z) - mp.log(2 * mp.pi * mp.besseli(0, kappa))


def _angle_below(z: Any, kappa: Any) -> Any:
    if abs(z) > mp.pi:
        raise ValueError("another turn")
    if z > 0:
        return 1 - _angle_below(-z, kappa)
    steps = [z - k * (mp.pi + z) / 10 for k in range(10, -1, -1)]
    peak = mp.exp(_log_angle(z, kappa))
    return peak * mp.quad(lambda t: mp.exp(kappa * (mp.cos(t) - mp.cos(z))), steps)


def _wrapped_below(z: Any, c: Any) -> Any:
    return mp.atan2((1 + c) * mp.sin(z / 2), (1 - c) * mp.cos(z / 2)) / mp.pi


def _reduced(z: Any, c: Any) -> Any:
    return -mp.log1p(-c * z) / c if c else z


def _general_below(z: Any, beta: Any) -> Any:
    if z > 0:
        return 1 - _general_below(-z, beta)
    return _gamma_above((-z) ** beta, 1 / beta) / 2


def _f_below(z: Any, m: Any, n: Any) -> Any:
    return _beta_below(m * z / (n + m * z), m / 2, n / 2)


def _f_above(z: Any, m: Any, n: Any) -> Any:
    return _beta_below(n / (n + m * z), n / 2, m / 2)


def _mirrored(standard: Standard) -> Standard:
    return Standard(
        lambda z: standard.log_density(-z),
        lambda z: standard.above(-z),
        lambda z: standard.below(-z),
    )


def _laplace_below(z: Any) -> Any:
    return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2


_GUMBEL = Standard(
    lambda z: -z - mp.exp(-_tame(z)),
    lambda z: mp.exp(-mp.exp(-_tame(z))),
    lambda z: -mp.expm1(-mp.exp(-_tame(z))),
)

CONTINUOUS: Final[dict[str, Standard]] = {
    "norm": Standard(
        lambda z: -z * z / 2 - mp.log(2 * mp.pi) / 2, _normal_below, lambda z: _normal_below(-z)
    ),
    "expon": Standard(lambda z: -z, lambda z: -mp.expm1(-z), lambda z: mp.exp(-z)),
    "laplace": Standard(
        lambda z: -abs(z) - mp.log(2), _laplace_below, lambda z: _laplace_below(-z)
    ),
    "logistic": Standard(
        lambda z: -abs(z) - 2 * mp.log1p(mp.exp(-abs(z))),
        lambda z: 1 / (1 + mp.exp(-z)),
        lambda z: 1 / (1 + mp.exp(z)),
    ),
    "cauchy": Standard(
        lambda z: -mp.log(mp.pi * (1 + z * z)),
        lambda z: mp.atan2(1, -z) / mp.pi,
        lambda z: mp.atan2(1, z) / mp.pi,
    ),
    "uniform": Standard(lambda z: 0 * z, lambda z: z, lambda z: 1 - z),
    "lognorm": Standard(
        lambda z, s: -((mp.log(z) / s) ** 2) / 2 - mp.log(s * z) - mp.log(2 * mp.pi) / 2,
        lambda z, s: _normal_below(mp.log(z) / s),
        lambda z, s: _normal_below(-mp.log(z) / s),
    ),
    "gumbel_r": _GUMBEL,
    "gumbel_l": _mirrored(_GUMBEL),
    "halfnorm": Standard(
        lambda z: -z * z / 2 + mp.log(2 / mp.pi) / 2,
        lambda z: mp.erf(z / mp.sqrt(2)),
        lambda z: mp.erfc(z / mp.sqrt(2)),
    ),
    "pareto": Standard(
        lambda z, b: mp.log(b) - (b + 1) * mp.log(z),
        lambda z, b: -mp.expm1(-b * mp.log(z)),
        lambda z, b: mp.exp(-b * mp.log(z)),
    ),
    "weibull_min": Standard(
        lambda z, c: mp.log(c) + (c - 1) * mp.log(z) - z**c,
        lambda z, c: -mp.expm1(-(z**c)),
        lambda z, c: mp.exp(-(z**c)),
    ),
    "gamma": Standard(_log_gamma_density, _gamma_below, _gamma_above),
    "chi2": Standard(
        lambda z, df: _log_gamma_density(z / 2, df / 2) - mp.log(2),
        lambda z, df: _gamma_below(z / 2, df / 2),
        lambda z, df: _gamma_above(z / 2, df / 2),
    ),
    "beta": Standard(
        lambda z, a, b: (
            (a - 1) * mp.log(z)
            + (b - 1) * mp.log1p(-z)
            + mp.loggamma(a + b)
            - mp.loggamma(a)
            - mp.loggamma(b)
        ),
        _beta_below,
        lambda z, a, b: _beta_below(1 - z, b, a),
    ),
    "f": Standard(
        lambda z, m, n: (
            m / 2 * mp.log(m / n)
            + (m / 2 - 1) * mp.log(z)
            - (m + n) / 2 * mp.log1p(m * z / n)
            + mp.loggamma((m + n) / 2)
            - mp.loggamma(m / 2)
            - mp.loggamma(n / 2)
        ),
        _f_below,
        _f_above,
    ),
    "invgamma": Standard(
        lambda z, a: -(a + 1) * mp.log(z) - 1 / z - mp.loggamma(a),
        lambda z, a: _gamma_above(1 / z, a),
        lambda z, a: _gamma_below(1 / z, a),
    ),
    "genextreme": Standard(
        lambda z, c: _GUMBEL.log_density(_reduced(z, c)) + c * _reduced(z, c),
        lambda z, c: _GUMBEL.below(_reduced(z, c)),
        lambda z, c: _GUMBEL.above(_reduced(z, c)),
    ),
    "gennorm": Standard(
        lambda z, beta: mp.log(beta / 2) - mp.loggamma(1 / beta) - abs(z) ** beta,
        _general_below,
        lambda z, beta: _general_below(-z, beta),
    ),
    "rayleigh": Standard(
        lambda z: mp.log(z) - z * z / 2,
        lambda z: -mp.expm1(-z * z / 2),
        lambda z: mp.exp(-z * z / 2),
    ),
    "skewnorm": Standard(_log_skewed, _skewed_below, lambda z, a: _skewed_below(-z, -a)),
    "truncnorm": Standard(
        lambda z, a, b: -z * z / 2 - mp.log(2 * mp.pi) / 2 - mp.log(_normal_mass(a, b)),
        lambda z, a, b: _normal_mass(a, z) / _normal_mass(a, b),
        lambda z, a, b: _normal_mass(z, b) / _normal_mass(a, b),
    ),
    "vonmises": Standard(_log_angle, _angle_below, lambda z, kappa: _angle_below(-z, kappa)),
    "wrapcauchy": Standard(
        lambda z, c: mp.log((1 - c * c) / (2 * mp.pi * (1 + c * c - 2 * c * mp.cos(z)))),
        _wrapped_below,
        lambda z, c: 1 - _wrapped_below(z, c),
    ),
    "t": Standard(_log_student, _student_below, lambda z, df: _student_below(-z, df)),
}


def _log_choices(n: Any, k: Any) -> Any:
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def _log_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _log_beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    return _log_choices(n, k) + _log_beta(k + a, n - k + b) - _log_beta(a, b)


class Masses(NamedTuple):
    """The logarithm of a mass, and the probabilities of at most k and of more."""

    log_mass: Formula
    below: Formula
    above: Formula


DISCRETE: Final[dict[str, Masses]] = {
    "bernoulli": Masses(
        lambda k, p: mp.log(p) if k else mp.log1p(-p), lambda _, p: 1 - p, lambda _, p: p
    ),
    "betabinom": Masses(
        _log_beta_binomial,
        lambda k, *shapes: mp.fsum(
            mp.exp(_log_beta_binomial(mp.mpf(j), *shapes)) for j in range(int(k) + 1)
        ),
        lambda k, n, a, b: mp.fsum(
            mp.exp(_log_beta_binomial(mp.mpf(j), n, a, b))
            for j in range(int(k) + 1, int(mp.nint(n)) + 1)
        ),
    ),
    "binom": Masses(
        lambda k, n, p: _log_choices(n, k) + k * mp.log(p) + (n - k) * mp.log1p(-p),
        lambda k, n, p: _beta_below(1 - p, n - k, k + 1),
        lambda k, n, p: _beta_below(p, k + 1, n - k),
    ),
    "geom": Masses(
        lambda k, p: (k - 1) * mp.log1p(-p) + mp.log(p),
        lambda k, p: -mp.expm1(k * mp.log1p(-p)),
        lambda k, p: mp.exp(k * mp.log1p(-p)),
    ),
    "nbinom": Masses(
        lambda k, n, p: _log_choices(n + k - 1, k) + n * mp.log(p) + k * mp.log1p(-p),
        lambda k, n, p: _beta_below(p, n, k + 1),
        lambda k, n, p: _beta_below(1 - p, k + 1, n),
    ),
    "poisson": Masses(
        lambda k, mu: k * mp.log(mu) - mp.loggamma(k + 1) - mu,
        lambda k, mu: _gamma_above(mu, k + mp.mpf(1)),
        lambda k, mu: _gamma_below(mu, k + mp.mpf(1)),
    ),
}
"""Of whole k and real parameters."""


def twin_of(name: str, method: str) -> Formula:
    """A method as a function of a value, shapes and a scale; of masses, of k and shapes."""
    if name in DISCRETE:
        masses = DISCRETE[name]
        return _methods(masses.log_mass, masses.below, masses.above)[method]
    formula = _methods(*CONTINUOUS[name])[method]

    def twin(x: Any, *parameters: Any) -> Any:
        *shapes, scale = parameters
        value = formula(x / scale, *shapes)
        if method == "logpdf":
            return value - mp.log(scale)
        return value / scale if method == "pdf" else value

    return twin


def _methods(log_density: Formula, below: Formula, above: Formula) -> dict[str, Formula]:
    def density(*x: Any) -> Any:
        return mp.exp(log_density(*x))

    return {
        "logpdf": log_density,
        "logpmf": log_density,
        "pdf": density,
        "pmf": density,
        "cdf": below,
        "sf": above,
        "logcdf": lambda *x: _logarithm(below, above, x),
        "logsf": lambda *x: _logarithm(above, below, x),
    }


def _logarithm(probability: Formula, opposite: Formula, x: tuple[Any, ...]) -> Any:
    """By the opposite where that is small: all digits of it are to stay."""
    p = probability(*x)
    return mp.log(p) if p < 0.5 else mp.log1p(-opposite(*x))


QUANTILES: Final[dict[str, tuple[Formula, Formula]]] = {
    "expon": (lambda q: -mp.log1p(-q), lambda q: -mp.log(q)),
    "laplace": (
        lambda q: mp.log(2 * q) if q < 0.5 else -mp.log(2 * (1 - q)),
        lambda q: -mp.log(2 * q) if q < 0.5 else mp.log(2 * (1 - q)),
    ),
    "logistic": (lambda q: mp.log(q / (1 - q)), lambda q: mp.log((1 - q) / q)),
    "cauchy": (lambda q: -mp.cot(mp.pi * q), lambda q: mp.cot(mp.pi * q)),
    "uniform": (lambda q: q, lambda q: 1 - q),
    "gumbel_r": (lambda q: -mp.log(-mp.log(q)), lambda q: -mp.log(-mp.log1p(-q))),
    "gumbel_l": (lambda q: mp.log(-mp.log1p(-q)), lambda q: mp.log(-mp.log(q))),
    "pareto": (lambda q, b: mp.exp(-mp.log1p(-q) / b), lambda q, b: mp.exp(-mp.log(q) / b)),
    "weibull_min": (lambda q, c: (-mp.log1p(-q)) ** (1 / c), lambda q, c: (-mp.log(q)) ** (1 / c)),
}
"""The inverses of the probabilities below and above, where they have a formula."""


def quantile_twin_of(name: str, method: str) -> Formula:
    """A function of a level, shapes and a scale, by a formula or by Newton's method."""
    if name in QUANTILES:
        formula = QUANTILES[name][method == "isf"]
    elif name == "lognorm":
        normal = _solution("norm", method)
        formula = lambda q, s: mp.exp(s * normal(q))  # noqa: E731
    else:
        formula = _solution(name, method)

    def twin(q: Any, *parameters: Any) -> Any:
        *shapes, scale = parameters
        return scale * formula(q, *shapes)

    return twin


def _solution(name: str, method: str) -> Formula:
    """From SciPy's value on; the slope of a logarithm needs no more than the density."""
    import scipy.stats

    start = getattr(getattr(scipy.stats, name), method)
    standard, sign = CONTINUOUS[name], 1 if method == "ppf" else -1
    probability = standard.below if method == "ppf" else standard.above

    def solution(q: Any, *shapes: Any) -> Any:
        z = mp.mpf(float(start(float(q), *map(float, shapes))))
        if z == 0 and name not in ("norm", "t"):
            raise ValueError("SciPy knows no digit of it")
        for _ in range(60):
            p = probability(z, *shapes)
            step = sign * mp.log(p / q) * p / mp.exp(standard.log_density(z, *shapes))
            z -= step
            if abs(step) <= abs(z) * mp.mpf(10) ** (-mp.dps * 3 // 4):
                return z
        raise ValueError("no root")

    return solution
