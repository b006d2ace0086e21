"""Derivatives of special functions keep their digits over the whole range of their arguments.

Each operation has a twin in mpmath, whose derivatives are differences with many digits. Results may
have a relative error of 1e-12, plus the effect of a rounding error of the arguments. The operations
are discovered, and each needs a twin, except derivatives of other operations: the second
derivatives of these test them.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._primitives.special_functions.quadrature import EVEN, GRADED, integral
from funcgrad.tensor.tensor import apply
from tests.conformance import special_functions
from tests.together import together

pytestmark = pytest.mark.slow

Twin = Callable[..., Any]
Point = tuple[float, ...]

DIGITS, MANY = 90, 420
NEARLY_CONSTANT = frozenset(
    "erf_of_complex erfc_of_complex log_expit log_expit_slope log_ndtr zetac".split()
)
"""Functions with a limit, which they approach so closely that differences need many digits."""

STEP = mpmath.mpf(10) ** -25
TOLERANCE = 1e-12
ROUNDINGS = 32 * np.finfo(float).eps
SMALLEST, GREATEST = 1e-280, 1e280


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ---------------------------------------------------------------------------------- twins


def _gammainc(a: Any, x: Any) -> Any:
    return 1 - _gammaincc(a, x) if x > a else mp.gammainc(a, 0, x, regularized=True)


def _gammaincc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True) if x > a else 1 - _gammainc(a, x)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    if x > a / (a + b):
        return 1 - mp.betainc(b, a, 0, 1 - x, regularized=True)
    return mp.betainc(a, b, 0, x, regularized=True)


def _betaincc(a: Any, b: Any, x: Any) -> Any:
    return _betainc(b, a, 1 - x)


def _log_probability(p: Any) -> Any:
    """The logarithm; NaN if it is so near to 0 that differences have no digits."""
    return mp.log(p) if p < 1 - mp.mpf(10) ** -20 else mp.nan


def _solved(f: Callable[[Any], Any], start: float) -> Any:
    """The root near a number, by Newton's method with a difference for the slope."""
    x = mpmath.mpf(start)
    for _ in range(12):
        h = abs(x) * mpmath.mpf(10) ** -40
        step = f(x) * 2 * h / (f(x + h) - f(x - h))
        x -= step
        if abs(step) < abs(x) * mpmath.mpf(10) ** -70:
            break
    return x


def _inverse(name: str, twin: Twin) -> Twin:
    from scipy import special

    def inverse(*args: Any) -> Any:
        *shapes, level = args
        start = getattr(special, name)(*map(float, args))
        if len(shapes) == 2 and start > 0.99:
            raise ValueError("so near to 1 the result itself has lost what 1 - x was")
        return _solved(lambda x: twin(*shapes, x) - level, float(start))

    return inverse


def _log_ndtr(x: Any) -> Any:
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def _zeta(s: Any, q: Any) -> Any:
    return mp.zeta(s, q)


def _spence(z: Any) -> Any:
    """The dilogarithm of 1 - z, and beyond 2 its reflection: DLMF 25.12.4."""
    if z > 2:
        return -mp.polylog(2, 1 / (1 - z)) - mp.pi**2 / 6 - mp.log(z - 1) ** 2 / 2
    return mp.polylog(2, 1 - z)


def _boxcox(x: Any, exponent: Any) -> Any:
    return mp.expm1(exponent * mp.log(x)) / exponent


def _inv_boxcox(y: Any, exponent: Any) -> Any:
    return mp.exp(mp.log1p(exponent * y) / exponent)


def _spherical(kind: Callable[[Any, Any], Any]) -> Twin:
    return lambda n, z: mp.sqrt(mp.pi / (2 * z)) * kind(n + mp.mpf(1) / 2, z)


ONE: dict[str, Twin] = {
    "airy_ai": mp.airyai,
    "airy_ai_slope": lambda x: mp.airyai(x, derivative=1),
    "airy_bi": mp.airybi,
    "airy_bi_slope": lambda x: mp.airybi(x, derivative=1),
    "cosine_integral": mp.ci,
    "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
    "ellipe": lambda m: mp.ellipe(m),
    "ellipk": lambda m: mp.ellipk(m),
    "ellipkm1": lambda p: mp.ellipk(1 - p),
    "entr": lambda x: -x * mp.log(x),
    "erf_of_complex": mp.erf,
    "erfc_of_complex": mp.erfc,
    "erfcinv": lambda y: _inverse("erfcinv", mp.erfc)(y),
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "erfi": mp.erfi,
    "erfinv": lambda y: _inverse("erfinv", mp.erf)(y),
    "exp1": mp.e1,
    "expi": mp.ei,
    "exprel": lambda x: mp.expm1(x) / x,
    "fresnel_cosine": mp.fresnelc,
    "fresnel_sine": mp.fresnels,
    "gamma": mp.gamma,
    "gammaln": lambda x: mp.log(abs(mp.gamma(x))),
    "hyperbolic_cosine_integral": mp.chi,
    "hyperbolic_sine_integral": mp.shi,
    "i0": lambda x: mp.besseli(0, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1": lambda x: mp.besseli(1, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "j0": lambda x: mp.besselj(0, x),
    "j1": lambda x: mp.besselj(1, x),
    "k0": lambda x: mp.besselk(0, x),
    "k0e": lambda x: mp.exp(x) * mp.besselk(0, x),
    "k1": lambda x: mp.besselk(1, x),
    "k1e": lambda x: mp.exp(x) * mp.besselk(1, x),
    "log_expit": lambda x: -mp.log(1 + mp.exp(-x)),
    "log_expit_slope": lambda x: -mp.log(2 + mp.exp(x) + mp.exp(-x)),
    "log_ndtr": _log_ndtr,
    "loggamma": mp.loggamma,
    "odds_to_share": lambda x: x / (1 + x),
    "logit": lambda x: mp.log(x / (1 - x)),
    "ndtri_exp": lambda x: _inverse("ndtri_exp", _log_ndtr)(x),
    "psi": lambda x: mp.psi(0, x),
    "rgamma": mp.rgamma,
    "riemann_zeta": mp.zeta,
    "sine_integral": mp.si,
    "spence": _spence,
    "wrightomega": lambda x: mp.lambertw(mp.exp(x)),
    "y0": lambda x: mp.bessely(0, x),
    "y1": lambda x: mp.bessely(1, x),
    "zetac": lambda s: mp.zeta(s) - 1,
}
TWO: dict[str, Twin] = {
    "beta": lambda a, b: mp.beta(a, b) if min(a, b) > 0.1 else mp.nan,  # see EVEN_AT_ZERO
    "betaln": lambda a, b: mp.log(abs(mp.beta(a, b))),
    "binom": mp.binomial,
    "boxcox": _boxcox,
    "boxcox1p": lambda x, exponent: _boxcox(1 + x, exponent),
    "gammainc": _gammainc,
    "gammaincc": _gammaincc,
    "gammaincinv": lambda a, y: _inverse("gammaincinv", _gammainc)(a, y),
    "gammainccinv": lambda a, y: _inverse("gammainccinv", _gammaincc)(a, y),
    "inv_boxcox": _inv_boxcox,
    "inv_boxcox1p": lambda y, exponent: _inv_boxcox(y, exponent) - 1,
    "iv": mp.besseli,
    "ive": lambda v, x: mp.exp(-abs(x)) * mp.besseli(v, x),
    "jv": mp.besselj,
    "kl_div": lambda x, y: x * mp.log(x / y) - x + y,
    "kv": mp.besselk,
    "kve": lambda v, x: mp.exp(x) * mp.besselk(v, x),
    "log_gammainc": lambda a, x: _log_probability(_gammainc(a, x)),
    # Of a small shape the probability is nearly a product: the mixed derivative nearly vanishes.
    "log_gammaincc": lambda a, x: _log_probability(_gammaincc(a, x)) if a > 1e-4 else mp.nan,
    "log_ratio": lambda x, y: mp.log(x / y),
    "log_rising": lambda a, b: mp.loggamma(a + b) - mp.loggamma(a),
    "pseudo_huber": lambda delta, r: delta * (mp.sqrt(delta * delta + r * r) - delta),
    "poch": lambda z, m: mp.gamma(z + m) / mp.gamma(z),
    "powm1": lambda x, y: mp.expm1(y * mp.log(x)),
    "ratio_or_zero": lambda x, y: x / y,
    "rel_entr": lambda x, y: x * mp.log(x / y),
    "relative_excess": lambda x, y: 1 - x / y,
    "xlog1py": lambda x, y: x * mp.log(1 + y),
    "xlogy": lambda x, y: x * mp.log(y),
    "yv": mp.bessely,
    "zeta": _zeta,
}
THREE: dict[str, Twin] = {
    "betainc": _betainc,
    "betaincc": _betaincc,
    "log_betainc_factor": lambda a, b, x: (
        mp.log(_betainc(a, b, x)) - a * mp.log(x) if x < a / (a + b) else mp.nan
    ),
    "betaincinv": lambda a, b, y: _inverse("betaincinv", _betainc)(a, b, y),
    "betainccinv": lambda a, b, y: _inverse("betainccinv", _betaincc)(a, b, y),
}
OF_INTEGERS: dict[str, tuple[Twin, tuple[tuple[float, ...], ...]]] = {
    "expn": (mp.expint, ((0,), (1,), (4,))),
    "eval_chebyt": (mp.chebyt, ((0,), (1,), (5,))),
    "eval_chebyu": (mp.chebyu, ((0,), (1,), (5,))),
    "eval_gegenbauer": (mp.gegenbauer, ((1, 1.5), (4, 0.5))),
    "eval_genlaguerre": (mp.laguerre, ((1, 1.5), (4, 0.5))),
    "eval_hermite": (mp.hermite, ((0,), (1,), (5,))),
    "eval_hermitenorm": (
        lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n,
        ((0,), (1,), (5,)),
    ),
    "eval_jacobi": (mp.jacobi, ((1, 1.5, 0.5), (4, 0.5, 2.0))),
    "eval_legendre": (mp.legendre, ((0,), (1,), (5,))),
    "hyp0f1": (mp.hyp0f1, ((1,), (3,))),
    "hyp1f1": (mp.hyp1f1, ((1, 2), (3, 1), (2, 5))),
    "hyp2f1": (mp.hyp2f1, ((1, 2, 3), (2, 2, 5))),
    "hyperu": (mp.hyperu, ((1, 2), (2, 5))),
    "polygamma": (mp.psi, ((0,), (1,), (4,))),
    "spherical_in": (_spherical(mp.besseli), ((0,), (1,), (4,))),
    "spherical_jn": (_spherical(mp.besselj), ((0,), (1,), (4,))),
    "spherical_kn": (_spherical(mp.besselk), ((0,), (1,), (4,))),
    "spherical_yn": (_spherical(mp.bessely), ((0,), (1,), (4,))),
}
"""Functions of one real argument beside integers, and those."""

DERIVATIVES = frozenset(
    """beta_density beta_tail betainc_in_shapes dawsn_derivative ellipe_derivative ellipk_derivative
    ellipkm1_derivative erfcx_derivative exponential_moment gamma_density gamma_tail
    gammainc_in_shape iv_in_order ive_derivative jv_in_order kv_in_order kve_derivative
    polygamma_rise pseudo_huber_in_delta pseudo_huber_in_r riemann_zeta_derivative
    wofz_derivative yv_in_order zeta_derivative""".split()
)
ELSEWHERE = frozenset(
    {
        "hankel1",
        "hankel2",
        "lambertw",
        "owens_t",
        "sph_harm_y",
        "stdtr",
        "stdtrit",
        "voigt_profile",
        "wofz",
    }
)
"""Complex results, three arguments or an integral, for which see ``test_values.py``, and Student's
distribution, whose twin is in ``scipy.stats``."""


# ---------------------------------------------------------------------------------- points

MAGNITUDES = (1e-8, 1e-3, 0.11, 0.5, 0.93, 1.37, 2.9, 7.7, 19.3, 52.1, 160.7, 3e3, 1e6)
SHAPES = (1e-5, 0.03, 0.61, 2.3, 11.7, 64.1, 430.0)
LEVELS = (1e-9, 0.02, 0.31, 0.5, 0.88, 0.999)
EVEN_AT_ZERO = frozenset("binom iv ive jv kv kve yv".split())
"""Second derivatives of these subtract what is nearly equal where an argument is near 0."""
PLACES = (1e-6, 0.04, 0.31, 0.5, 0.77, 0.999)


def mixed(*choices: Sequence[float]) -> list[Point]:
    """Every other combination: of two choices each meets every other one of a third."""
    places = product(*[range(len(each)) for each in choices])
    return [
        tuple([each[k] for each, k in zip(choices, place, strict=True)])
        for place in places
        if sum(place) % 2 == 0
    ]


def points(name: str, arity: int) -> list[Point]:
    """Points: magnitudes of both signs, or combinations of parameters and arguments."""
    if arity == 1:
        # Of Airy's functions SciPy's values lose digits where they turn as the power 3/2 does.
        most = 1e4 if name.startswith("airy") else np.inf
        return [(sign * x,) for x in MAGNITUDES for sign in (1, -1) if x < most]
    if arity == 3 and name.endswith("inv"):
        return [*product((0.61, 2.3, 64.1), (0.7, 1.9), LEVELS[1:5])]
    if arity == 3:
        return mixed((0.03, 0.61, 2.3, 64.1), (0.05, 0.7, 1.9, 71.3), PLACES)
    if name.endswith("inv"):
        return [*product(SHAPES[2:], LEVELS)]
    close = ((1 + 1e-9, 1.0), (64.0, 64.1), (430.0, 431.5), (1e6, 1e-3), (1e-3, 1e6))
    if name in EVEN_AT_ZERO:
        return [*product(SHAPES[1:6], [1.0731 * x for x in SHAPES[1:]])]
    return [*close, *mixed(SHAPES, [1.0731 * x for x in SHAPES])]


def derivatives_of(twin: Twin, point: Point) -> list[Any]:
    """All first and second derivatives, by differences."""
    x = [mpmath.mpf(coordinate) for coordinate in point]
    h = [abs(coordinate) * STEP for coordinate in x]

    def at(steps: dict[int, int]) -> Any:
        return twin(*[a + steps.get(k, 0) * h[k] for k, a in enumerate(x)])

    here, count = at({}), len(x)
    ahead, behind = [at({k: 1}) for k in range(count)], [at({k: -1}) for k in range(count)]
    found = [(ahead[k] - behind[k]) / (2 * h[k]) for k in range(count)]
    for j in range(count):
        for k in range(j, count):
            if j == k:
                found.append((ahead[k] - 2 * here + behind[k]) / h[k] ** 2)
            else:
                corners = at({j: 1, k: 1}) - at({j: 1, k: -1}) - at({j: -1, k: 1})
                found.append((corners + at({j: -1, k: -1})) / (4 * h[j] * h[k]))
    return found


def within(found: list[Any]) -> list[Any] | None:
    """Numbers as real finite floats; None if one of them is not."""
    refused = any(isinstance(x, mpmath.mpc) or not mp.isfinite(x) for x in found)
    return None if refused else found


def expected(twin: Twin, point: Point) -> list[Any] | None:
    """The value and the derivatives; None outside of where the function is defined."""
    try:
        return within([twin(*map(mpmath.mpf, point)), *derivatives_of(twin, point)])
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence):
        return None


def uncertain(twin: Twin, point: Point) -> list[Any] | None:
    """The effect of rounding the arguments, and the error of the differences; None outside."""
    if (here := expected(twin, point)) is None:
        return None
    change = [mpmath.mpf(0)] * (len(here) - 1)
    for k in range(len(point)):
        moved = [x * (1 + 1e-7 * (j == k)) for j, x in enumerate(point)]
        if (near := expected(twin, tuple(moved))) is None:
            return None
        both = zip(change, near[1:], here[1:], strict=True)
        change = [c + abs(a - b) * 1e7 for c, a, b in both]
    noise = abs(here[0]) * mpmath.mpf(10) ** (8 - mp.dps) / (min(map(abs, point)) * STEP) ** 2
    return [ROUNDINGS * c + noise for c in change]


def derivatives(f: Callable[..., Any], arity: int) -> list[Callable[..., Any]]:
    """The derivatives of an operation, elementwise, in the order of ``derivatives_of``."""

    def along(f: Callable[..., Any], k: int) -> Callable[..., Any]:
        return fg.grad(lambda *x: fnp.sum(f(*x)), k)

    first = [along(f, k) for k in range(arity)]
    return [*first, *[along(first[j], k) for j in range(arity) for k in range(j, arity)]]


def wrong(found: float, value: Any, allowed: Any) -> bool:
    if abs(value) > GREATEST:
        return bool(abs(found) < GREATEST / 10)
    allowed = TOLERANCE * abs(value) + max(allowed, 10 * SMALLEST)
    return not (np.isfinite(found) and abs(mpmath.mpf(found) - value) <= allowed)


def failures(
    f: Callable[..., Any], twin: Twin, places: Sequence[Point], least: int, digits: int = DIGITS
) -> list[Any]:
    """The points at which an error is too large, with the results and the expected values.

    A derivative has no more digits than the value that it is computed from, which is SciPy's. The
    effect of rounded arguments is computed only where this does not explain the error, since that
    takes longer than all the rest.
    """
    with mp.workdps(digits):
        exactly = [(point, found) for point in places if (found := expected(twin, point))]
        columns = [np.array(column) for column in zip(*[p for p, _ in exactly], strict=True)]
        values = np.asarray(f(*columns)).tolist()
        lost = [
            abs(own / value - 1) if np.isfinite(own) and own and value else 0.0
            for own, (_, (value, *_)) in zip(values, exactly, strict=True)
        ]
        assert np.isfinite(values).sum() >= least
        assert np.median([float(each) for each in lost]) < 1e-14
        slopes = [np.asarray(each(*columns)).tolist() for each in derivatives(f, len(columns))]
        found = []
        for k, (point, (_, *here)) in enumerate(exactly):
            own = [each[k] for each in slopes]
            allowed = [4 * lost[k] * abs(value) for value in here]
            if np.isfinite(values[k]) and any(map(wrong, own, here, allowed)):
                more = uncertain(twin, point)
                found += [
                    (point, order, own[order], mpmath.nstr(value, 17))
                    for order, value in enumerate(here)
                    if more and wrong(own[order], value, allowed[order] + more[order])
                ]
        return found


# ---------------------------------------------------------------------------------- subjects

SUBJECTS = {primitive.name: primitive for primitive in special_functions()}


def test_every_operation_has_a_twin() -> None:
    smooth = {name for name, each in SUBJECTS.items() if each.differential is not DISCRETE}
    tables = [*ONE, *TWO, *THREE, *OF_INTEGERS, *DERIVATIVES, *ELSEWHERE]
    assert sorted(smooth) == sorted(tables)


INVERSE = frozenset("gammaincinv gammainccinv betaincinv betainccinv".split())
"""Of quantiles, which hardly bend in the shapes, second derivatives are small differences."""


def _function(primitive: Primitive) -> Callable[..., Any]:
    return lambda *x: apply(primitive, *x)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument(name: str) -> None:
    digits = MANY if name in NEARLY_CONSTANT else DIGITS
    assert failures(_function(SUBJECTS[name]), ONE[name], points(name, 1), 4, digits) == []


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments(name: str) -> None:
    found = failures(_function(SUBJECTS[name]), TWO[name], points(name, 2), 16)
    assert [each for each in found if each[1] < 2 or name not in INVERSE] == []


@pytest.mark.parametrize("name", THREE)
def test_functions_of_three_arguments(name: str) -> None:
    found = failures(_function(SUBJECTS[name]), THREE[name], points(name, 3), 16)
    assert [each for each in found if each[1] < 3 or name not in INVERSE] == []


@together("name", OF_INTEGERS)
def test_functions_beside_integers(name: str) -> None:
    twin, integers = OF_INTEGERS[name]
    for each in integers:
        function = _function(SUBJECTS[name])
        found = failures(
            lambda x, f=function, n=each: f(*n, x),
            lambda x, n=each: twin(*n, x),
            [point for point in points(name, 1) if abs(point[0]) < 100],
            4,
        )
        assert found == []


def test_the_sweep_sees_lost_digits() -> None:
    psi, beta = SUBJECTS["psi"], SUBJECTS["beta"]

    def careless(a: Any, b: Any) -> Any:
        return fnp.log(apply(beta, a, b)) + 0.0 * apply(psi, a)

    @fg.custom_jvp
    def wrongly(a: Any, b: Any) -> Any:
        return careless(a, b)

    @wrongly.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        (a, b), (da, db) = primals, tangents
        whole = apply(psi, a + b)
        return wrongly(a, b), (apply(psi, a) - whole) * da + (apply(psi, b) - whole) * db

    assert failures(wrongly, TWO["betaln"], points("betaln", 2), 20)


@pytest.mark.parametrize("ends", [EVEN, GRADED])
def test_the_rule_of_integrals_is_exact_for_polynomials(ends: Any) -> None:
    length = np.array([0.5, 2.0])
    for power in range(80):

        def integrand(s: Any, power: int = power) -> Any:
            return (s / length) ** power

        found = integral(integrand, length, ends)
        np.testing.assert_allclose(found, length / (power + 1), 2e-14)
