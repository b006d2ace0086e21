"""``fnp.polynomial``: NumPy's values in all six bases, derivatives in every mode, and errors."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial as NumpyPolynomial
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    DegenerateError,
    FuncgradError,
    MissingOptionError,
    ShapeError,
)
from tests.together import together

PREFIXES = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "hermite": "herm",
    "hermite_e": "herme",
    "laguerre": "lag",
}
CLASSES = ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"]
RNG = np.random.default_rng(3)
C, D = RNG.standard_normal(6), RNG.standard_normal(3)
PLANE, SPACE = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 4, 2))
X, Y, Z = RNG.uniform(0.1, 0.9, (3, 7))
WIDE = np.linspace(-1.5, 2.0, 7) + 0.1 * X
MANY = RNG.standard_normal((7, 2))
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "add": [(C, D), (D, C)],
    "sub": [(C, D), (D, C)],
    "mulx": [(C,), (D[:1],)],
    "mul": [(C, D), (D, C), (C, D[:1])],
    "div": [(C, D), (D, C), (C, D[:1])],
    "pow": [(D, 3), (D, 1), (D, 0)],
    "line": [(2.0, 3.0)],
    "val": [(X, C), (X, PLANE), (X[:3], PLANE, False), (0.5, C), (X, C[:1])],
    "val2d": [(X, Y, PLANE), (0.5, 0.25, PLANE)],
    "val3d": [(X, Y, Z, SPACE)],
    "grid2d": [(X, Y[:3], PLANE)],
    "grid3d": [(X[:2], Y[:3], Z[:4], SPACE)],
    "vander": [(X, 5), (X, 0)],
    "vander2d": [(X, Y, [2, 3])],
    "vander3d": [(X, Y, Z, [2, 1, 3])],
    "der": [(C,), (C, 2, 0.5), (PLANE, 1, 2.0, 1)],
    "int": [(C,), (C, 2, [0.5, 2.0], 0.25, 0.5), (PLANE, 1, [], 0.0, 1.0, 1)],
    "fromroots": [(C,), (D[:1],)],
    "companion": [(C,), (C[:2],)],
    "roots": [(C,), (C[:2],)],
    "fit": [(WIDE, Y, 3), (WIDE, MANY, 2), (WIDE, Y, [0, 2, 3]), (WIDE, Y, 2, None, False, Z)],
    "trim": [([1.0, 2.0, 1e-3, 0.0], 0.01), ([0.0, 0.0],)],
}
ONLY = {"chebinterpolate", "chebpts1", "chebpts2", "polyvalfromroots"}
NEW = {"valnd"}
OF_INTEGERS = {"gauss": [(3,)], "weight": [(X,)], "2poly": [(C,)]}
CONSTANTS = ("zero", "one", "x", "domain")


def functions(module: str) -> tuple[Any, Any]:
    return getattr(fnp.polynomial, module), getattr(np.polynomial, module)


def leaves(x: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in (x if isinstance(x, (tuple, list)) else [x])]


def close(ours: Any, peers: Any, share: float = 1e-13) -> None:
    for one, peer in zip(leaves(ours), leaves(peers), strict=True):
        assert one.shape == peer.shape
        size = np.max(np.abs(peer), initial=0)
        assert_allclose(one, peer, rtol=0, atol=share * (1 + size))


# ------------------------------------------------------------------------------------------ values


@together("module", PREFIXES)
def test_names_and_parameters_are_numpys(module: str) -> None:
    ours, theirs = functions(module)
    prefix = PREFIXES[module]
    assert {*ours.__all__} == {*theirs.__all__, f"{prefix}valnd"}  # which NumPy 2.5 has, too
    for name in ours.__all__:
        stem = name.removeprefix(prefix)
        if name in ONLY or stem in CALLS:
            own, peer = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
            assert list(own) == list(peer), name
        else:
            known = {*OF_INTEGERS, *CONSTANTS, *NEW} | {f"poly2{prefix}"}
            assert stem in known or name in known or name in CLASSES


@together(("module", "name"), [(m, name) for m in PREFIXES for name in CALLS])
def test_values_are_numpys(module: str, name: str) -> None:
    ours, theirs = functions(module)
    for args in CALLS[name]:
        full = PREFIXES[module] + name
        close(getattr(ours, full)(*args), getattr(theirs, full)(*args))


@together("module", PREFIXES)
def test_other_names(module: str) -> None:
    ours, theirs = functions(module)
    prefix = PREFIXES[module]
    for name in CONSTANTS:
        close(getattr(ours, prefix + name), getattr(theirs, prefix + name))
    if module == "polynomial":
        close(ours.polyvalfromroots(X, PLANE), theirs.polyvalfromroots(X, PLANE))
        close(
            ours.polyvalfromroots(X[:3], PLANE, False), theirs.polyvalfromroots(X[:3], PLANE, False)
        )
        return
    for name, calls in OF_INTEGERS.items():
        for given in calls:
            close(getattr(ours, prefix + name)(*given), getattr(theirs, prefix + name)(*given))
    close(getattr(ours, f"poly2{prefix}")(C), getattr(theirs, f"poly2{prefix}")(C))
    if module == "chebyshev":
        close(ours.chebpts1(5), theirs.chebpts1(5))
        close(ours.chebpts2(5), theirs.chebpts2(5))
        args: Any = (lambda x, a: x**3 + a, 4, (2.0,))
        close(ours.chebinterpolate(*args), theirs.chebinterpolate(*args))


@together("module", PREFIXES)
def test_high_degrees_and_single_precision(module: str) -> None:
    ours, theirs = functions(module)
    prefix = PREFIXES[module]
    c = RNG.standard_normal(25) / 2.0 ** np.arange(25)
    for name, args in {"val": (X, c), "der": (c,), "int": (c,), "mul": (c, c)}.items():
        close(getattr(ours, prefix + name)(*args), getattr(theirs, prefix + name)(*args), 1e-12)
    single = C.astype("f")
    for name in ("mulx", "der", "int", "mul", "pow", "companion", "roots", "fromroots"):
        args = (single, single) if name == "mul" else (single, 2) if name == "pow" else (single,)
        found = getattr(ours, prefix + name)(*args)
        assert np.finfo(found.dtype).eps == np.finfo(np.float32).eps, name
    assert getattr(ours, prefix + "val")(X.astype("f"), single).dtype == np.float32
    assert getattr(ours, prefix + "add")([1, 2], [3]).dtype == np.float64


@together("module", PREFIXES)
def test_values_of_any_number_of_variables(module: str) -> None:
    ours, theirs = functions(module)
    prefix = PREFIXES[module]
    valnd = getattr(ours, f"{prefix}valnd")
    close(valnd((X, Y, Z), SPACE), getattr(theirs, f"{prefix}val3d")(X, Y, Z, SPACE))
    close(valnd(np.stack([X, Y]), PLANE), getattr(theirs, f"{prefix}val2d")(X, Y, PLANE))
    close(valnd([X], C), getattr(theirs, f"{prefix}val")(X, C))
    if hasattr(theirs, f"{prefix}valnd"):
        close(valnd((X, Y), PLANE), getattr(theirs, f"{prefix}valnd")((X, Y), PLANE))
    for pts in ((), (X, Y[:2]), (X, Y, Z)):
        with pytest.raises(ShapeError, match=f"{prefix}valnd: "):
            valnd(pts, PLANE)


@together("module", PREFIXES)
def test_values_and_slopes_at_infinity_are_those_of_the_highest_degree(module: str) -> None:
    ours, theirs = functions(module)
    val = getattr(ours, f"{PREFIXES[module]}val")
    for degree in range(6):
        c = (-1.0) ** np.arange(degree + 1)
        slopes = getattr(theirs, f"{PREFIXES[module]}der")(c)
        for x in (np.inf, -np.inf):

            def far(coefficients: Any, x: float = x) -> Any:
                powers = getattr(theirs, f"{PREFIXES[module]}2poly", np.asarray)(coefficients)
                return powers[0] if len(powers) == 1 else powers[-1] * x ** (len(powers) - 1)

            assert float(val(x, c)) == far(c)
            assert fg.value_and_grad(val)(x, c) == (far(c), far(slopes))
            assert fg.jvp(lambda x, c=c: val(x, c), (x,), (1.0,)) == (far(c), far(slopes))
            assert np.all(np.asarray(val(np.array([x, 0.5]), c)) == [far(c), float(val(0.5, c))])
            basis = np.asarray(fg.grad(val, argnums=1)(x, c))
            assert np.array_equal(
                basis, [far(row[: k + 1]) for k, row in enumerate(np.eye(degree + 1))]
            )
    assert val(0.5, C[:1].astype("f")).dtype == val(0.5, C.astype("f")).dtype == np.float32
    assert np.isnan(float(val(np.nan, C[:1])))


@together("name", CLASSES)
def test_questions_of_numpys_classes(name: str) -> None:
    ours, theirs = (getattr(m, name) for m in (fnp.polynomial, np.polynomial))
    names = {word for word in dir(theirs) if not word.startswith("_")}
    assert names - {*dir(ours)} == {"domain", "window", "symbol"}  # each polynomial has them
    p, q = ours(C, domain=[0.0, 3.0]), ours([*C[:-1], 7.0], window=[-1.0, 2.0])
    assert (ours.basis_name, ours.maxpower) == (theirs.basis_name, theirs.maxpower)
    assert p.copy() is p
    for question in ("coef", "domain", "window"):
        ask = getattr(p, f"has_same{question}")
        assert ask(ours(C, domain=[0.0, 3.0]))
        assert not ask(q)
    assert p.has_sametype(q)
    assert not p.has_sametype(C)
    assert not p.has_samecoef(ours(C[:-1]))
    with pytest.raises(ArgumentError, match="maxpower=100"):
        p**101


def test_interpolation_over_a_domain() -> None:
    ours, theirs = fnp.polynomial.Chebyshev, np.polynomial.Chebyshev
    for args in (([0.0, 3.0], (2.0,)), (None, (1.0,))):
        p = ours.interpolate(lambda x, a: fnp.exp(-a * x), 4, *args)
        peer = theirs.interpolate(lambda x, a: np.exp(-a * x), 4, *args)
        close([p.coef, p.domain], [peer.coef, peer.domain])
    slope = fg.grad(lambda a: ours.interpolate(lambda x: x**2 * a, 2, [1.0, 2.0])(1.5))(3.0)
    assert float(slope) == pytest.approx(2.25)


@together("name", CLASSES)
def test_classes_are_numpys(name: str) -> None:
    ours, theirs = (getattr(m, name) for m in (fnp.polynomial, np.polynomial))
    for kind in ({}, {"domain": [0.0, 3.0], "window": [-1.0, 2.0]}):
        p, q, peer, other = ours(C, **kind), ours(D, **kind), theirs(C, **kind), theirs(D, **kind)
        for act in (
            lambda p, q: p + q,
            lambda p, q: p - q * 2.0,
            lambda p, q: 1.0 - p,
            lambda p, q: p * q / 2.0,
            lambda p, q: divmod(p, q)[0],
            lambda p, q: divmod(p, q)[1],
            lambda p, q: q**3,
            lambda p, q: -p,
            lambda p, q: p.deriv(2),
            lambda p, q: p.integ(2, [1.0, 2.0], 0.5),
            lambda p, q: p.integ(),
            lambda p, q: p.truncate(2),
            lambda p, q: p.cutdeg(2),
            lambda p, q: p.convert(domain=[1.0, 2.0]),
            lambda p, q: p.convert(kind=type(p), window=[0.0, 1.0]),
        ):
            one, two = act(p, q), act(peer, other)
            close([one.coef, one.domain, one.window], [two.coef, two.domain, two.window], 1e-12)
        close([p(X), p.roots(), *p.linspace(4)], [peer(X), peer.roots(), *peer.linspace(4)], 1e-12)
        close(p.mapparms(), peer.mapparms())
    for make in (
        lambda cls: cls.fit(X, Y, 3),
        lambda cls: cls.fit(X, Y, 3, domain=[], w=Z),
        lambda cls: cls.fromroots(D),
        lambda cls: cls.fromroots(D, None),
        lambda cls: cls.identity([0.0, 3.0]),
        lambda cls: cls.basis(3),
    ):
        one, two = make(ours), make(theirs)
        close([one.coef, one.domain, one.window], [two.coef, two.domain, two.window], 1e-12)
    close(ours.fit(X, Y, 2, full=True)[1][1:], theirs.fit(X, Y, 2, full=True)[1][1:])
    other = fnp.polynomial.Polynomial(C, domain=[0.0, 2.0]).convert(kind=ours)
    close(other(X), NumpyPolynomial(C, domain=[0.0, 2.0])(X), 1e-12)
    close(ours.cast(other).coef, other.coef)
    close(ours(D)(ours(C))(X), theirs(D)(theirs(C))(X), 1e-12)


# ------------------------------------------------------------------------------------- derivatives


@pytest.mark.slow
@together(("module", "name"), [(m, name) for m in PREFIXES for name in CALLS if name != "trim"])
def test_derivatives_in_every_mode(module: str, name: str) -> None:
    """Second derivatives of a function in two of the six bases, which take turns."""
    function = getattr(functions(module)[0], PREFIXES[module] + name)
    turn = ([*PREFIXES].index(module) + [*CALLS].index(name)) % 3 == 0
    for args in CALLS[name]:
        places = [k for k, x in enumerate(args) if isinstance(x, np.ndarray)]
        values = tuple(args[k] for k in places)

        def f(*traced: Any, args: Any = args, places: Any = places) -> Any:
            whole = list(args)
            for place, x in zip(places, traced, strict=True):
                whole[place] = x
            return function(*whole)

        if not places:
            continue
        fg.testing.check_grads(f, values, order=2 if turn else 1)
        close(fg.jit(f)(*values), f(*values))
        batch = fg.vmap(f)(*[np.stack([x, x * 1.01]) for x in values])
        for one, stack in zip(leaves(f(*[x * 1.01 for x in values])), leaves(batch), strict=True):
            assert_allclose(stack[1], one, rtol=1e-10, atol=1e-11)


@pytest.mark.slow
@together("name", CLASSES)
def test_classes_are_trees(name: str) -> None:
    """They go through transformations, and have derivatives in coefficients and domains."""
    make: Any = getattr(fnp.polynomial, name)

    def loss(p: Any, x: Any) -> Any:
        return fnp.sum((p * p - p.integ() + p.deriv() ** 2)(x) ** 2) + fnp.sum(p.convert().coef)

    p = make(D, [0.2, 2.0], [-1.0, 1.5])
    fg.testing.check_grads(loss, (p, X[:2]), order=2)
    assert_allclose(fg.jit(loss)(p, X), loss(p, X), rtol=1e-12)
    stack = make(np.stack([D, D + 1])[0]), make(D + 1)
    batch = fg.tree.stack(stack)
    found = fg.vmap(loss, (0, None))(batch, X)
    assert_allclose(found, [loss(q, X) for q in stack], rtol=1e-12)
    fg.testing.check_grads(lambda x, y: make.fit(x, y, 2)(0.3), (X, Y), order=2)
    with pytest.raises(AttributeError):
        p.coef = D


def test_a_coefficient_that_is_zero_has_a_derivative() -> None:
    """Here it stays, where NumPy leaves it out."""
    f = lambda c: fnp.sum(fnp.polynomial.polynomial.polymul(c, [1.0, 2.0]) ** 2)  # noqa: E731
    fg.testing.check_grads(f, (np.array([1.0, 0.0]),), order=2)
    assert fnp.polynomial.polynomial.polysub([1.0, 2.0], [0.0, 2.0]).shape == (2,)


@together("name", CLASSES)
def test_equality_and_operands_on_the_left(name: str) -> None:
    ours, theirs = (getattr(m, name) for m in (fnp.polynomial, np.polynomial))
    p, peer = ours(D, [0.0, 3.0]), theirs(D, [0.0, 3.0])
    for quotient, expected in ((list(C) // p, list(C) // peer), (list(C) % p, list(C) % peer)):
        close(quotient.coef, expected.coef)
        close(quotient.domain, expected.domain)
    assert p == ours(list(D), [0, 3])
    others = [ours(D), ours(C, [0.0, 3.0]), ours(2.0 * D, [0.0, 3.0]), 1.0, peer]
    assert all(p != other for other in [*others, ours(D, [0.0, 3.0], symbol="t")])
    assert fg.jit(lambda p, q: (p == q, p == p))(p, ours(2.0 * D, [0.0, 3.0])) == (False, True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(p)


@together("module", PREFIXES)
def test_values_that_do_not_matter_may_be_unknown(module: str) -> None:
    ours, theirs = functions(module)
    prefix = PREFIXES[module]
    for c in ([np.nan, 1.0, 2.0], [np.inf, 1.0, 2.0]):
        close(getattr(ours, f"{prefix}der")(c), getattr(theirs, f"{prefix}der")(c))
    if module in ("polynomial", "hermite", "hermite_e"):  # one term of a derivative from each
        c = [1.0, np.nan, 2.0]
        assert_allclose(getattr(ours, f"{prefix}der")(c), getattr(theirs, f"{prefix}der")(c))


@together("module", PREFIXES)
def test_complex_constants_and_single_precision_of_series(module: str) -> None:
    ours, theirs = functions(module)
    integral, peer = (getattr(m, f"{PREFIXES[module]}int") for m in (ours, theirs))
    for options in ({"k": 1j}, {"lbnd": 2.0 + 1j}, {"m": 2, "k": [1.0, 1j]}):
        close(integral(C, **options), peer(C + 0j, **options))
    series: Any = getattr(ours, CLASSES[list(PREFIXES).index(module)])(C.astype("f"), [0.0, 3.0])
    assert series.deriv().coef.dtype == series.integ(lbnd=1.0).coef.dtype == np.float32


# ------------------------------------------------------------------------------------------ errors

P = fnp.polynomial.polynomial
T = fnp.polynomial.Chebyshev


@together(
    ("call", "error", "message"),
    [
        (
            lambda: P.polyadd([1.0]),  # type: ignore[call-arg]
            MissingOptionError,
            "polyadd: missing .*; the arguments are c1, c2",
        ),
        (
            lambda: fnp.polynomial.legendre.leg2poly(),  # type: ignore[call-arg]
            MissingOptionError,
            "leg2poly: missing",
        ),
        (
            lambda: fnp.polynomial.laguerre.lagint(1.0, n=2),  # type: ignore[call-arg]
            MissingOptionError,
            "lagint has no",
        ),
        (lambda: P.polyadd([], C), ShapeError, r"polyadd: coefficients .* the shape is \(0,\)"),
        (lambda: P.polymul(PLANE, C), ShapeError, "polymul: coefficients have to be on one axis"),
        (lambda: P.polyval(1.0, np.zeros((0, 2))), ShapeError, "polyval: .* on the first axis"),
        (lambda: P.polyval2d(X, Y[:2], PLANE), ShapeError, "polyval2d: the points need one shape"),
        (lambda: P.polyval3d(X, Y, Z, PLANE), ShapeError, "polyval3d: .* each variable, 3"),
        (lambda: P.polyvander(X, -1), ShapeError, "polyvander: deg must not be negative"),
        (lambda: P.polyvander2d(X, Y, [1]), ShapeError, "polyvander2d: .* a degree for each of 2"),
        (lambda: P.polyint(C, 1, [1.0, 2.0]), ShapeError, "polyint: 2 constants are more than m=1"),
        (lambda: P.polycompanion([1.0]), ShapeError, "polycompanion: .* a degree of at least 1"),
        (lambda: P.polyfit(X, Y[:2], 1), ShapeError, "polyfit: x has to be 1-d and not empty"),
        (lambda: P.polyfit(X, Y, [-1, 2]), ShapeError, "polyfit: degrees must not be negative"),
        (lambda: P.polyfit(X, Y, 1, w=[1.0]), ShapeError, "polyfit: weights of the shape"),
        (
            lambda: P.polypow(C, 2**70),
            ArgumentError,
            "polypow: pow is at most 100,000, but is 1,18",
        ),
        (lambda: P.polypow(C, 3, 2), ArgumentError, "polypow: pow=3 is more than maxpower=2"),
        (lambda: P.polytrim(C, -1), ArgumentError, "polytrim: tol must not be negative"),
        (lambda: fnp.polynomial.legendre.leggauss(0), ShapeError, "leggauss: deg has to be at lea"),
        (
            lambda: fnp.polynomial.chebyshev.chebpts2(1),
            ShapeError,
            "chebpts2: npts has to be at le",
        ),
        (lambda: T(C, [1.0]), ShapeError, "Chebyshev: domain has to be a pair"),
        (lambda: T(C, symbol="2"), ArgumentError, "Chebyshev: symbol has to be a name"),
        (lambda: T(C) + fnp.polynomial.Legendre(C), ArgumentError, r"add: a Cheb.*convert\(kind="),
        (lambda: T(C) * T(C, [0.0, 1.0]), ArgumentError, "mul: the domains or windows differ"),
        (
            lambda: T(C) / T(C),
            ArgumentError,
            "truediv: a polynomial is divided by a scalar; use //",
        ),
        (lambda: T(C).truncate(0), ArgumentError, "truncate: size has to be at least 1"),
        (lambda: T.fromroots([], None), ShapeError, "needs at least one point"),
        (
            lambda: fg.jacrev(P.polyroots)(np.array([1.0, -2.0, 1.0])),
            DegenerateError,
            "eig: the matrix has no basis",
        ),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


ODD: list[Any] = [None, "text", object(), [], {}, True, 2**70, np.nan, [[1.0], [2.0, 3.0]], -1, 1.5]


@together(("module", "name"), [(m, name) for m in PREFIXES for name in CALLS])
def test_odd_arguments_have_clear_errors(module: str, name: str) -> None:
    function = getattr(functions(module)[0], PREFIXES[module] + name)
    args = CALLS[name][0]
    for place in range(len(inspect.signature(function).parameters)):
        for odd in ODD:
            whole = [*CALLS[name][-1][: max(place, len(args))]]
            if place > len(whole):
                continue
            whole[place : place + 1] = [odd]
            try:
                function(*whole)
            except FuncgradError:
                continue
            except Exception as error:
                raise AssertionError(f"argument {place} = {odd!r}") from error
