"""The constructor of elementwise primitives, and arithmetic.

The constructor ``elementwise`` takes a NumPy ufunc, or a formula in intrinsics, or both, and the
factor of the tangent for each argument. Transformations handle broadcasting, casts and conjugation.

>>> add(np.float64(1.0), 2.0)
np.float64(3.0)

Factors compute with values, which may be Python numbers: their division by zero raises an error,
and their powers may be complex. So factors call ``reciprocal``, ``divide`` and ``power`` where
NumPy's results are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import (
    DISCRETE,
    OPPOSITE,
    SAME,
    Factor,
    Kinks,
    Linearized,
    Partials,
    Primitive,
    Sample,
)
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import (
    COMMUTATIVE,
    OWNS,
    PRODUCT,
    ROUNDED_ONCE,
    TRANSCENDENTAL,
    Algebra,
    Elementwise,
    Trait,
)
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._core.users_values import checked_evaluation
from funcgrad._primitives.basic_formulas import basic_formula
from funcgrad._primitives.elementwise_rules import batch_elementwise, elementwise_result
from funcgrad._primitives.kinks import AT_ZERO, POSITIVE, distance_to_cut, is_complex
from funcgrad._primitives.precision import floating
from funcgrad._primitives.structural import cast


def elementwise(
    name: str,
    evaluate: Callable[..., Any] | None = None,
    *,
    formula: Callable[..., Any] | None = None,
    partials: tuple[Factor, ...] | None,
    selects: bool = False,
    samples: Callable[[], Iterable[Sample]] = tuple,
    operator: str = "",
    traits: Trait = Trait.NONE,
    ulps: int = 0,
    basic: bool = False,
    ufunc: str = "",
    body: Callable[..., Any] | None = None,
    remedy: str = "",
    kinks: Kinks | None = None,
) -> Primitive:
    """Declare an elementwise primitive.

    Parameters
    ----------
    name : str
    evaluate : callable, optional
        A ufunc, or a function of raw values that broadcasts like one. By default it is the formula
        on raw values. If it has an attribute ``around``, results are taken from this.
    formula : callable, optional
        ``(m, *operands, **params)`` to the element, in the intrinsics of an algebra ``m``, see
        ``funcgrad._core.intrinsics``. Intrinsics and Python's operators do not need one.
    partials : tuple of callables or None
        For each argument ``(output, *arguments) -> factor`` (or ``SAME``, ``OPPOSITE``, or None for
        an argument without derivative). Each is evaluated only if its argument is differentiated,
        so they are several functions rather than one. None for a discrete operation.
    selects : bool
        Whether the factors are masks, see ``Partials``.
    samples : callable
    operator, traits, body, remedy, kinks
        See ``Primitive``.
    ulps, basic, ufunc
        See ``Elementwise``.

    Returns
    -------
    Primitive

    Examples
    --------
    >>> tanh = elementwise("tanh", np.tanh, partials=(lambda y, x: 1 - y * y,))
    >>> tanh(0.0)
    np.float64(0.0)
    >>> cube = elementwise(
    ...     "cube", formula=lambda m, x: m.square(x) * x, partials=(lambda _, x: 3 * x * x,)
    ... )
    >>> cube(np.array([2.0, 3.0]))
    array([ 8., 27.])
    """
    if evaluate is None:
        evaluate = _evaluated(name, formula)
    elif formula is None:
        formula = basic_formula(getattr(evaluate, "around", evaluate), operator)
        basic = formula is not None
    return Primitive(
        name,
        checked_evaluation(evaluate, name, strong=not operator),
        elementwise_result(name, evaluate, operator),
        DISCRETE if partials is None else Partials(partials, selects),
        batch_elementwise,
        samples,
        operator=operator,
        structure=Elementwise(formula, ulps=ulps, basic=basic, ufunc=ufunc),
        traits=traits,
        body=body,
        remedy=remedy,
        kinks=kinks,
    )


def _evaluated(name: str, formula: Callable[..., Any] | None) -> Callable[..., Any]:
    """A formula on raw values."""
    if formula is None:
        raise TypeError(
            f"elementwise: {name} has neither a function nor a formula. Pass a ufunc of NumPy,"
            " or formula=lambda m, x: ... in intrinsics."
        )
    evaluate: Any = partial(formula, intrinsics)
    evaluate.__module__ = formula.__module__  # saved programs name this module
    return evaluate


# Samples.


def reals(low: float, high: float, arity: int = 1) -> Callable[[], Iterator[Sample]]:
    """Samples of real arguments between two bounds: scalars, 0-d, strided, broadcast, empty.

    ``arity`` is the number of arguments of the operation.

    Examples
    --------
    >>> [np.shape(sample.args[0]) for sample in reals(-1.0, 1.0)()]
    [(3,), (), (), (2, 2), (0, 2)]
    """

    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(11)

        def draw(*shape: int) -> np.ndarray[Any, Any]:
            return np.asarray(rng.uniform(low, high, shape))

        yield from _arranged(draw, arity)
        if arity == 2:
            yield Sample((low + 0.7 * (high - low), draw(3)))
            yield Sample((draw(3), low + 0.6 * (high - low)))

    return samples


def complexes(
    low: float = 0.4, high: float = 1.6, arity: int = 1
) -> Callable[[], Iterator[Sample]]:
    """Samples of complex arguments whose magnitudes lie between two bounds, off the axes.

    ``arity`` is the number of arguments of the operation.

    Examples
    --------
    >>> [np.shape(sample.args[0]) for sample in complexes(1.0, 2.0)()]
    [(3,), (), (), (2, 2), (0, 2)]
    """

    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(13)

        def draw(*shape: int) -> np.ndarray[Any, Any]:
            quadrant = rng.integers(4, size=shape)
            angle = (quadrant + rng.uniform(0.1, 0.9, shape)) * (np.pi / 2)
            return np.asarray(rng.uniform(low, high, shape) * np.exp(1j * angle))

        yield from _arranged(draw, arity)
        if arity == 2:
            yield Sample((draw(3), rng.uniform(low, high, 3)))
            yield Sample((rng.uniform(low, high, 3), draw(3)))

    return samples


def _arranged(draw: Callable[..., np.ndarray[Any, Any]], arity: int) -> Iterator[Sample]:
    yield Sample(tuple(draw(3) for _ in range(arity)))
    yield Sample(tuple(draw().item() for _ in range(arity)))
    yield Sample(tuple(draw() for _ in range(arity)))
    yield Sample(tuple(draw(4, 6)[::2, ::-3] for _ in range(arity)))
    yield Sample(tuple(draw(0, 2) for _ in range(arity)))
    if arity == 2:
        yield Sample((draw(2, 1, 3), draw(4, 1)))
        yield Sample((draw(), draw(3)))


def edges(*points: Raw, smooth: bool = False) -> Callable[[], Iterator[Sample]]:
    """A sample of given points: each is a number, or a tuple with a number for each argument.

    By default the points are not smooth, so finite differences do not apply: kinks, ties,
    infinities, NaN.

    Examples
    --------
    >>> [sample.args for sample in edges(0.0, np.inf)()]
    [(array([ 0., inf]),)]
    """

    def samples() -> Iterator[Sample]:
        tuples = [point if isinstance(point, tuple) else (point,) for point in points]
        yield Sample(tuple(np.array(column) for column in zip(*tuples, strict=True)), smooth=smooth)

    return samples


def combined(
    *makers: Callable[[], Iterable[Sample]], **params: Hashable
) -> Callable[[], Iterator[Sample]]:
    """The samples of several makers one after the other, all with the same static parameters.

    Examples
    --------
    >>> [sample.params for sample in combined(edges(0.0), edges(1.0), sharpness=2.0)()]
    [{'sharpness': 2.0}, {'sharpness': 2.0}]
    """

    def samples() -> Iterator[Sample]:
        for make in makers:
            for sample in make():
                yield Sample(sample.args, {**sample.params, **params}, sample.smooth)

    return samples


# Sums and products.

_INFINITE = (np.inf, -np.inf, np.nan, 0.0)
_LINE = combined(reals(-3, 3), complexes(), edges(*_INFINITE))
_PLANE = combined(reals(-3, 3, 2), complexes(arity=2), edges((0.0, np.inf), (np.nan, 1.0)))

add: Primitive = elementwise(
    "add",
    np.add,
    operator="+",
    partials=(SAME, SAME),
    samples=_PLANE,
    traits=ROUNDED_ONCE | COMMUTATIVE,
)
subtract: Primitive = elementwise(
    "subtract",
    np.subtract,
    operator="-",
    partials=(SAME, OPPOSITE),
    samples=_PLANE,
    traits=ROUNDED_ONCE,
)
negative: Primitive = elementwise(
    "negative", np.negative, operator="-", partials=(OPPOSITE,), samples=_LINE, traits=ROUNDED_ONCE
)
positive: Primitive = elementwise(
    "positive", np.positive, operator="+", partials=(SAME,), samples=_LINE, traits=ROUNDED_ONCE
)
multiply: Primitive = elementwise(
    "multiply",
    np.multiply,
    operator="*",
    partials=(lambda _, _x, y: y, lambda _, x, _y: x),
    samples=_PLANE,
    traits=ROUNDED_ONCE | COMMUTATIVE | PRODUCT,
)


def _inverse(y: Value) -> Value:
    if type(y) in (float, int) and y:
        return 1 / y  # Python's division is three times as fast, but fails at zero
    return bind2(divide, 1, y)


divide: Primitive = elementwise(
    "divide",
    np.true_divide,
    remedy="add a little to the denominator, or choose inside: x / where(y == 0, 1, y)",
    operator="/",
    partials=(lambda _, _x, y: _inverse(y), lambda out, _x, y: bind2(divide, -out, y)),
    samples=combined(
        reals(0.5, 3, 2),
        complexes(arity=2),
        edges((1.0, 0.0), (0.0, 0.0), (1.0, np.inf), (np.inf, 1.0)),
    ),
    traits=ROUNDED_ONCE,
    kinks=Kinks(lambda x, y: y),
)
reciprocal: Primitive = elementwise(
    "reciprocal",
    np.reciprocal,
    partials=(lambda y, _x: -y * y,),
    samples=combined(reals(0.5, 3), reals(-3, -0.5), complexes(), edges(*_INFINITE)),
    traits=ROUNDED_ONCE,
    kinks=AT_ZERO,
)


def _reciprocal_of_positive(m: Algebra, x: Value) -> Value:
    if dtype_of(x).kind == "c":
        return m.divide(1, x)
    return m.where(x < 0, np.nan, m.divide(1, x + 0.0))  # -0.0 counts as 0, which has one side only


def _quick_reciprocal_of_positive(x: Raw) -> Raw:
    if type(x) is np.ndarray and x.dtype.kind == "f" and not np.signbit(x).any():
        return np.reciprocal(x)
    return _reciprocal_of_positive(intrinsics, x)


# The derivative of the logarithm: NaN where the logarithm is NaN.
reciprocal_of_positive: Primitive = elementwise(
    "reciprocal_of_positive",
    _quick_reciprocal_of_positive,
    formula=_reciprocal_of_positive,
    partials=(lambda y, _x: -y * y,),
    samples=combined(reals(0.5, 3), complexes(), edges(0.0, -0.0, -1.0, np.inf, np.nan)),
    kinks=POSITIVE,
    traits=OWNS,
)

# here, below the other logarithms, since derivatives of powers use it
log: Primitive = elementwise(
    "log",
    np.log,
    remedy="clip the argument, or choose inside: log(where(x > 0, x, 1)); log1p(x) for log(1 + x)",
    partials=(lambda _, x: bind1(reciprocal_of_positive, x),),
    samples=combined(reals(0.1, 3), complexes(), edges(0.0, -1.0, np.inf, np.nan)),
    traits=TRANSCENDENTAL,
    kinks=POSITIVE,
)


def twice(_: Value, x: Value) -> Value:
    """The factor of a square. Reverse mode doubles the cotangent instead, which may be smaller."""
    return x + x  # faster than 2 * x on small arrays


square: Primitive = elementwise(
    "square",
    np.square,
    remedy="scale the arguments first; linalg.norm takes lengths of vectors without overflow",
    operator="**",
    partials=(twice,),
    samples=combined(_LINE, edges(0.0, smooth=True)),
    traits=ROUNDED_ONCE | PRODUCT,
)


# Signs.


def _sign(m: Algebra, x: Value) -> Value:
    kind = dtype_of(x).kind
    if kind == "c":
        return _sign_of_complex(m, m.real(x), m.imag(x))
    other = x + 0  # 0 for -0.0
    return m.where(x > 0, 1, other if kind == "u" else m.where(x < 0, -1, other))


def _sign_of_complex(m: Algebra, x: Value, y: Value) -> Value:
    """The point of the unit circle in the direction of x + iy. As in NumPy, it is on an axis if one
    part is infinite, and NaN if both are."""
    r = m.hypot(x, y)
    nowhere = m.isnan(r) | (m.isinf(x) & m.isinf(y))

    def along(component: Value, far: Value) -> Value:
        near = m.where(r == 0, 0, m.divide(component, r))
        return m.where(nowhere, np.nan, m.where(m.isinf(r), far, near))

    far_x = m.where(m.isinf(x), m.copysign(1, x), 0)
    far_y = m.where(m.isinf(x), 0, m.copysign(1, y))
    return m.join_parts(along(x, far_x), along(y, far_y))


sign: Primitive = elementwise(
    "sign",
    np.sign,
    formula=_sign,
    partials=None,
    samples=combined(reals(-3, 3), edges(*_INFINITE)),
    traits=ROUNDED_ONCE,
    kinks=AT_ZERO,
)


def _magnitude_factor(out: Value, x: Value) -> Value:
    """The sign, conjugated if complex: ``|z|`` changes by the real part of factor * dz."""
    if dtype_of(x).kind == "c":
        return out / (x + (x == 0))
    return bind1(sign, x)


absolute: Primitive = elementwise(
    "absolute",
    np.absolute,
    operator="abs",
    partials=(_magnitude_factor,),
    samples=combined(reals(-3, 3), complexes(), edges(*_INFINITE), edges(0j, 1j)),
    traits=ROUNDED_ONCE,
    kinks=AT_ZERO,
)
fabs: Primitive = elementwise(
    "fabs",
    np.fabs,
    formula=lambda m, x: m.absolute(floating(m, x)),
    partials=(_magnitude_factor,),
    samples=combined(reals(-3, 3), edges(*_INFINITE)),
    traits=ROUNDED_ONCE,
    kinks=AT_ZERO,
)


def _real_part(x: Value) -> Value:
    dtype = dtype_of(x)
    return cast(x, dtype=np.dtype(dtype.char.lower())) if dtype.kind == "c" else x


def _push_phase(tangents: tuple[Value, ...], out: Value, z: Value) -> Value:
    """Only the part of dz that rotates z matters: ``i * imag(dz / z) * out``."""
    turn = tangents[0] / (z + (z == 0))
    return out * (turn - _real_part(turn))


phase: Primitive = Primitive(  # the sign of a complex number, which is not locally constant
    "phase",
    np.sign,
    elementwise_result("phase", np.sign),
    Linearized(_push_phase),
    batch_elementwise,
    combined(complexes(), edges(0j, 2j, -1 + 0j)),
    structure=Elementwise(_sign),
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x: distance_to_cut(x) if is_complex(x) else x),
)
