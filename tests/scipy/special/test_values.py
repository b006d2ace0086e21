"""Functions that are composed of others have SciPy's values, and derivatives in every mode.

The same holds for operations without a twin in ``test_digits.py``. Every public function is tested
in one of the two files.
"""

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from mpmath import mp
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DifferentiationError, DtypeError
from funcgrad.scipy import special
from tests.scipy.special.test_digits import DERIVATIVES, OF_INTEGERS, ONE, THREE, TWO
from tests.together import together

LINE, ABOVE = np.array([-2.3, -0.4, 0.7, 3.1]), np.array([0.3, 1.7, 6.0])
PLANE = np.array([0.5 + 0.4j, -1.5 - 0.3j, 3.0 + 2.0j, -2.0 - 8.0j, 9.0 + 0.5j])
SHAPE, SHARE = np.array([0.8, 2.3, 11.0]), np.array([0.12, 0.5, 0.83])
COUNT = np.array([0, 2, 3])

CALLS: dict[str, list[tuple[Any, ...]]] = {
    "airy": [(LINE,), (PLANE[:3],)],
    "bdtr": [(COUNT, np.array([4, 5, 9]), SHARE)],
    "bdtrc": [(COUNT, np.array([4, 5, 9]), SHARE)],
    "bdtri": [(COUNT, np.array([4, 5, 9]), SHARE)],
    "bei": [(LINE,)],
    "beip": [(LINE,)],
    "ber": [(LINE,)],
    "berp": [(LINE,)],
    "chdtr": [(SHAPE, ABOVE)],
    "chdtrc": [(SHAPE, ABOVE)],
    "chdtri": [(SHAPE, SHARE)],
    "cosm1": [(LINE,), (np.array([1e-9, -3e-5]),)],
    "eval_chebyc": [(COUNT, ABOVE / 4)],
    "eval_chebys": [(COUNT, ABOVE / 4)],
    "eval_laguerre": [(COUNT, ABOVE)],
    "eval_sh_chebyt": [(COUNT, SHARE)],
    "eval_sh_chebyu": [(COUNT, SHARE)],
    "eval_sh_legendre": [(COUNT, SHARE)],
    "exp10": [(LINE,)],
    "fdtr": [(SHAPE, SHAPE[::-1], ABOVE)],
    "fdtrc": [(SHAPE, SHAPE[::-1], ABOVE)],
    "fdtri": [(SHAPE, SHAPE[::-1], SHARE)],
    "fresnel": [(LINE,), (PLANE[:3],)],
    "gdtr": [(SHARE, SHAPE, ABOVE)],
    "gdtrc": [(SHARE, SHAPE, ABOVE)],
    "gdtria": [(SHARE, SHAPE, ABOVE)],
    "gdtrix": [(ABOVE, SHAPE, SHARE)],
    "h1vp": [(1.5, ABOVE, 2)],
    "h2vp": [(1.5, ABOVE, 1)],
    "hankel1": [(SHAPE, ABOVE), (1.5, PLANE[:4:2])],
    "hankel2": [(SHAPE, ABOVE), (1.5, PLANE[:4:2])],
    "huber": [(1.2, LINE), (np.array([0.5, 3.0]), np.array([0.2, -8.0]))],
    "ivp": [(1.5, ABOVE, 3)],
    "jn": [(2, ABOVE)],
    "jvp": [(1.5, ABOVE, 0), (2, ABOVE, 2)],
    "kei": [(ABOVE,)],
    "keip": [(ABOVE,)],
    "kelvin": [(ABOVE,)],
    "ker": [(ABOVE,)],
    "kerp": [(ABOVE,)],
    "kn": [(2, ABOVE)],
    "kvp": [(1.5, ABOVE, 2)],
    "nbdtr": [(COUNT, COUNT + 2, SHARE)],
    "nbdtrc": [(COUNT, COUNT + 2, SHARE)],
    "nbdtri": [(COUNT, COUNT + 2, SHARE)],
    "owens_t": [(LINE, LINE[::-1])],
    "pdtr": [(COUNT + 0.5, ABOVE)],
    "pdtrc": [(COUNT, ABOVE)],
    "pdtri": [(COUNT, SHARE)],
    "pseudo_huber": [(1.2, LINE), (np.array([0.5, 3.0]), np.array([0.2, -8.0]))],
    "shichi": [(ABOVE,), (PLANE[:3],)],
    "sici": [(ABOVE,), (PLANE[:3],)],
    "softplus": [(LINE,)],
    "stdtr": [(SHAPE, ABOVE)],
    "stdtrit": [(SHAPE, SHARE)],
    "voigt_profile": [(LINE[:3], ABOVE, SHARE), (30.0, 0.7, 0.2)],
    "wofz": [(LINE,), (PLANE,)],
    "yn": [(2, ABOVE)],
    "yvp": [(1.5, ABOVE, 1)],
}
EARLIER = frozenset(
    """bernoulli bessel_jn cbrt comb digamma erf erfc exp2 expit expm1 factorial gammasgn lambertw
    log1p log_softmax logsumexp multigammaln ndtr ndtri perm sinc softmax sph_harm_y zeta""".split()
)
"""With tests of their own, in this folder or as functions of NumPy's."""

ALL = [(name, number) for name, calls in CALLS.items() for number in range(len(calls))]


def test_every_function_is_compared() -> None:
    twins = {*ONE, *TWO, *THREE, *OF_INTEGERS} - DERIVATIVES
    assert sorted(set(special.__all__) - twins - EARLIER - set(CALLS)) == []
    assert sorted(set(CALLS) - set(special.__all__)) == []


def _flat(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@together(("name", "number"), ALL)
def test_values_are_scipys(name: str, number: int) -> None:
    args = CALLS[name][number]
    found = _flat(getattr(special, name)(*args))
    expected = _flat(getattr(scipy.special, name)(*args))
    for own, peer in zip(found, expected, strict=True):
        # SciPy's own value of ker is the less exact one: see below.
        assert_allclose(own, peer, rtol=1e-11 if name[:2] == "ke" else 3e-13, atol=1e-15)
        assert own.dtype == np.asarray(peer).dtype


@pytest.mark.slow
@together(("name", "number"), ALL)
def test_derivatives_in_every_mode(name: str, number: int) -> None:
    args = [np.asarray(x) for x in CALLS[name][number]]
    places = [k for k, x in enumerate(args) if x.dtype.kind in "fc" and k >= (name == "pdtr")]

    def f(*given: Any) -> Any:
        whole = list(CALLS[name][number])
        for place, x in zip(places, given, strict=True):
            whole[place] = x
        return getattr(special, name)(*whole)

    values = tuple([args[k] for k in places])
    # Of complex numbers derivatives in orders are refused: see below.
    if name.startswith("hankel") and values[-1].dtype.kind == "c":
        places, values = places[1:], values[1:]
    fg.testing.check_grads(f, values, order=1 if values[-1].dtype.kind == "c" else 2)
    staged = _flat(fg.jit(f)(*values))
    for own, other in zip(_flat(f(*values)), staged, strict=True):
        assert_allclose(other, own, rtol=1e-13, atol=1e-16)


@together("order", [0, 1, 2])
@together("z", [*PLANE, 0.3, 25.0, 7.9 + 0.01j, 8.5 - 0.001j, 3.0 - 3.0j])
def test_faddeevas_function_keeps_its_digits(z: complex, order: int) -> None:
    def twin(z: Any) -> Any:
        return mp.exp(-z * z) * mp.erfc(-1j * z)

    f: Any = special.wofz
    for _ in range(order):
        f = _slope(f)
    with mp.workdps(60):
        expected = complex(mpmath.diff(twin, mpmath.mpmathify(z), order))
    assert_allclose(complex(f(z)), expected, rtol=(1e-13, 3e-12, 1e-9)[order])


def _slope(f: Any) -> Any:
    return lambda z: fg.jvp(f, (z,), (fnp.ones_like(z),))[1]


@pytest.mark.parametrize("point", [(0.3, 1.1, 0.4), (40.0, 1.1, 0.4), (2.0, 0.4, 3.0)])
def test_voigts_profile_keeps_its_digits(point: tuple[float, float, float]) -> None:
    def twin(x: Any, sigma: Any, gamma: Any) -> Any:
        z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
        return (mp.exp(-z * z) * mp.erfc(-1j * z)).real / (sigma * mp.sqrt(2 * mp.pi))

    found = fg.grad(special.voigt_profile, (0, 1, 2))(*point)
    with mp.workdps(80):
        exact = [mpmath.mpf(x) for x in point]
        for k, own in enumerate(found):
            orders = tuple(int(k == j) for j in range(3))
            assert_allclose(
                float(own), float(mpmath.diff(twin, exact, orders)), rtol=(2e-12, 1e-10, 2e-12)[k]
            )


def test_edges() -> None:
    with np.errstate(all="ignore"):
        for found, expected in (
            (fg.grad(special.boxcox, (0, 1))(0.0, 2.0), (0.0, 0.25)),
            (fg.grad(special.boxcox, (0, 1))(1.0, 0.0), (1.0, 0.0)),
            (fg.grad(special.boxcox1p, (0, 1))(-1.0, 2.0), (0.0, 0.25)),
            (fg.grad(special.inv_boxcox, (0, 1))(2.0, 0.0), (np.exp(2), -2 * np.exp(2))),
            (fg.grad(special.powm1, (0, 1))(0.0, 2.0), (0.0, 0.0)),
            ((fg.grad(special.spence)(1.0), fg.grad(special.spence)(0.0)), (-1.0, -np.inf)),
            ((fg.grad(fg.grad(special.spence))(1.0),), (0.5,)),
            ((fg.grad(lambda x: special.sici(x)[0])(0.0),), (1.0,)),
            ((fg.grad(fg.grad(lambda x: special.shichi(x)[0]))(0.0),), (0.0,)),
            (fg.grad(special.huber, (0, 1))(2.0, 2.0), (0.0, 2.0)),
            (fg.grad(special.pseudo_huber, (0, 1))(0.0, 0.0), (0.0, 0.0)),
            (fg.grad(special.spherical_jn, 1)(1, 0.0), 1 / 3),
            (fg.grad(special.eval_legendre, 1)(0, 0.5), 0.0),
            (special.fdtr(2.0, 3.0, np.inf), 1.0),
            (special.fdtr(2.0, 3.0, [1e-9, 1e7]), scipy.special.fdtr(2.0, 3.0, [1e-9, 1e7])),
            (special.fdtrc(2.0, 3.0, [1e-9, 1e7]), scipy.special.fdtrc(2.0, 3.0, [1e-9, 1e7])),
            (special.ker(-1.0), np.nan),
            (special.ker(6.0), float(mpmath.ker(0, 6))),
            (special.kei(6.0), float(mpmath.kei(0, 6))),
            (special.huber(-1.0, 2.0), np.inf),
            (special.spherical_jn(2, 0.7, derivative=True),
             scipy.special.spherical_jn(2, 0.7, derivative=True)),
        ):  # fmt: skip
            assert_allclose(np.array(found), np.array(expected), rtol=1e-13)


def test_what_is_refused_says_why() -> None:
    with pytest.raises(DifferentiationError, match="eval_jacobi: the derivative with respect to a"):
        fg.grad(special.eval_jacobi, 1)(2, 0.5, 0.5, 0.3)
    with pytest.raises(DifferentiationError, match="hyperu: the derivative with respect to b"):
        fg.grad(special.hyperu, 1)(1.0, 2.0, 0.5)
    with pytest.raises(DifferentiationError, match="hankel1: the derivative with respect to the"):
        fg.grad(lambda v: special.hankel1(v, 1 + 1j).real)(0.5)
    with pytest.raises(DtypeError, match="eval_legendre: degree and order have to be"):
        special.eval_legendre(0.5, 0.3)
    with pytest.raises(ArgumentError, match="jvp: the order of the derivative is not negative: -1"):
        special.jvp(1.0, 2.0, -1)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0, np.nan])
def test_all_of_a_count_is_certain_whatever_the_probability(p: float) -> None:
    for n in (1, 5):
        expected = [scipy.special.bdtr(float(n), n, p), scipy.special.bdtrc(float(n), n, p)]
        found = [float(special.bdtr(n, n, p)), float(special.bdtrc(n, n, p))]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 61, 258])
def test_bernoullis_numbers(n: int) -> None:
    assert_allclose(special.bernoulli(n), scipy.special.bernoulli(n), rtol=1e-11)
    if n > 1:
        exact = [float(mpmath.bernoulli(k)) for k in (n - n % 2, n - n % 2 - 2)]
        found = np.asarray(special.bernoulli(n))
        np.testing.assert_array_equal(found[[n - n % 2, n - n % 2 - 2]], exact)
    with pytest.raises(ArgumentError, match="n is -1"):
        special.bernoulli(-1)
    with pytest.raises(DtypeError, match="bernoulli"):
        special.bernoulli(0.5)  # type: ignore[arg-type]
    assert [*map(float, special.bernoulli(262)[[259, 260, 262]])] == [0.0, -np.inf, np.inf]


def test_bessel_functions_of_several_orders() -> None:
    z = np.array([0.0, 0.3, 9.0])
    found = special.bessel_jn(z, v=3)
    assert_allclose(found, scipy.special.jv(np.arange(4)[:, None], z), rtol=1e-13)
    assert special.bessel_jn(z.astype(np.float32), v=2).dtype == np.float32
    assert special.bessel_jn(2, v=0).shape == (1,)
    fg.testing.check_grads(lambda x: special.bessel_jn(x, v=2), (z[1:],), order=2)
    assert_allclose(special.bessel_jn(1j, v=1)[1], scipy.special.jv(1, 1j), rtol=1e-13)
    with pytest.raises(ArgumentError, match="v is -1"):
        special.bessel_jn(z, v=-1)
