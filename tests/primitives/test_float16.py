"""Half precision: every operation that takes float16 keeps it, in every transformation.

Samples are those of the primitives, cast; what they are compared with is NumPy on the same numbers
in float16, and the same transformation of them in float32.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._core.specs import dtype_of, spec_of
from funcgrad._core.structure.folds import GREATEST, LEAST
from funcgrad._core.structure.structures import Elementwise, Gather, Movement, Reduction
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad._primitives.structural import cast_discrete, cast_inexact
from funcgrad.errors import DtypeError
from funcgrad.tensor.tensor import apply
from funcgrad.testing.operations.cases import cases_of
from tests.conformance import (
    Case,
    assert_near,
    at_all,
    batch_of,
    by_primitive,
    direction,
    directions,
    every_case,
    every_primitive,
    inner,
    inner_all,
    loop,
    representatives,
)
from tests.subjects import bits
from tests.together import together

HALF, SINGLE, DOUBLE = (np.dtype(char) for char in "efd")
TO_HALF = {DOUBLE: HALF, SINGLE: HALF}
TO_SINGLE = {HALF: SINGLE}
NAMES_ITS_DTYPE = (cast_inexact, cast_discrete)


def is_half(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype == HALF


def half_or_whole(dtype: np.dtype[Any]) -> bool:
    return dtype == HALF or dtype.kind not in "fc" or dtype == np.complex64


def in_half() -> list[Case]:
    """Every sample of real arrays, in float16, but those that promote to more beside integers."""
    cases = [case.cast_to(TO_HALF) for case in every_case(every_primitive())]
    return [
        case
        for case in cases
        if any(map(is_half, case.args))
        and np.result_type(*case.args) == HALF
        and case.primitive not in NAMES_ITS_DTYPE
        and not case.is_refused
        # Where NumPy makes arrays of all arguments, a Python number does not give way.
        and (float not in map(type, case.args) or case.primitive.batch is batch_elementwise)
    ]


def fits(case: Case) -> bool:
    """Whether the sample is one of half precision: no number that it squares to nothing or more."""
    sizes = np.concatenate([abs(np.ravel(arg)).astype(float) for arg in (*case.args, case.value())])
    sizes = sizes[sizes > 0]
    return bool(np.all((sizes > 1e-2) & (sizes < 1e2)))


with np.errstate(all="ignore"):  # some samples are infinite in half precision
    CASES = in_half()
    SMOOTH = [case for case in CASES if case.differentiable and case.sample.smooth and fits(case)]

REPRESENTATIVES = frozenset(representatives(CASES))
INEXACT = [case for case in CASES if case.primitive.differential is not DISCRETE]
MAPPED, STAGED = frozenset(INEXACT[::6]), frozenset(CASES[::5])
DERIVED, STAGED_DERIVED = frozenset(SMOOTH[::3]), frozenset(SMOOTH[1::6])


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def test_there_are_subjects() -> None:
    assert len(CASES) > 900
    assert len(SMOOTH) > 300
    assert sum(has_numpys_bits(case.primitive) for case in STAGED) > 100


def assert_half(case: Case) -> None:
    value = case.value()
    single = case.cast_to(TO_SINGLE).value()
    assert half_or_whole(value.dtype)
    assert (value.dtype.kind, value.shape) == (single.dtype.kind, single.shape)
    (said,) = case.primitive.results(*[spec_of(arg) for arg in case.args], **case.sample.params)
    assert (said.shape, said.dtype) == (value.shape, value.dtype)


def has_numpys_bits(primitive: Primitive) -> bool:
    """Whether ``exact=True`` promises NumPy's bits (NUMBERS.md): sums, products along axes and
    transforms may round in another order."""
    structure = primitive.structure
    is_extremum = isinstance(structure, Reduction) and structure.fold in (GREATEST, LEAST)
    is_local = isinstance(structure, (Elementwise, Gather, Movement))
    return is_extremum or is_local or primitive.differential is DISCRETE


def assert_staged(case: Case) -> None:
    staged = fg.jit(case.function(), exact=True)(*case.args)
    if has_numpys_bits(case.primitive):
        assert bits(staged) == bits(fg.tensor(case.value()))
    else:
        assert_near(staged, case.value(), 5e-3, "it is staged")


@pytest.mark.slow
@by_primitive([case for case in CASES if case in STAGED | DERIVED | STAGED_DERIVED])
def test_derivatives_are_of_half_precision_those_of_single_and_staged(cases: list[Case]) -> None:
    at_all(filter(STAGED.__contains__, cases), assert_staged)
    at_all(filter(DERIVED.__contains__, cases), assert_derivatives)
    at_all(filter(STAGED_DERIVED.__contains__, cases), assert_staged_derivatives)


def assert_derivatives(case: Case) -> None:
    positions = case.differentiable
    f, point, rng = case.function(positions), case.point(positions), case.rng()
    along, u = directions(rng, point), direction(rng, case.value())
    out, pullback = fg.vjp(f, *point)
    cts, tangent = pullback(u), fg.jvp(f, point, along)[1]
    assert bits(out) == bits(fg.tensor(case.value()))
    assert [(g.shape, g.dtype) for g in cts] == [(np.shape(x), dtype_of(x)) for x in point]
    assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype)
    assert_near(inner_all(cts, along), inner(u, tangent), 5e-2, "reverse is forward's adjoint")
    single = case.cast_to(TO_SINGLE)
    g, exact = single.function(positions), single.point(positions)
    assert_near(tangent, fg.jvp(g, exact, [widened(t) for t in along])[1], 3e-2, "forward")
    wide, back = fg.vjp(g, *exact)
    seed = widened(u).astype(wide.dtype)  # SciPy's ufuncs take a Python number for a double
    assert_near(cts, back(seed), 3e-2, "reverse")


def widened(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype(TO_SINGLE.get(x.dtype, x.dtype))


def assert_staged_derivatives(case: Case) -> None:
    positions = case.differentiable
    f, point = case.function(positions), case.point(positions)
    u = direction(case.rng(), case.value())

    def pulled(*xs: Any) -> Any:
        return fg.vjp(f, *xs)[1](u)

    for staged, plain in zip(fg.jit(pulled)(*point), pulled(*point), strict=True):
        assert staged.dtype == plain.dtype
        # A factor may be multiplied in another order.
        assert_near(staged, plain, 4e-3, "staged")


@by_primitive(CASES)
def test_results_are_of_half_precision_and_a_batch_is_a_loop(cases: list[Case]) -> None:
    at_all(filter(REPRESENTATIVES.__contains__, cases), assert_half)
    at_all(filter(MAPPED.__contains__, cases), assert_batched)


def assert_batched(case: Case) -> None:
    flags = [is_half(arg) for arg in case.args]
    args = [batch_of(arg, 2) if flag else arg for arg, flag in zip(case.args, flags, strict=True)]
    axes = tuple(0 if flag else None for flag in flags)
    found = fg.vmap(case.function(), in_axes=axes)(*args)
    expected = loop(case, args, flags, 2)
    assert found.dtype == expected.dtype
    assert_near(found, expected, 1e-2, "vmap")


# Sums.

LONG = np.full(5000, 0.1, np.float16)
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: np.sum(x),
    "sum over an axis": lambda np, x: np.sum(x.reshape(50, 100), axis=0),
    "sum over the last": lambda np, x: np.sum(x.reshape(50, 100), axis=1),
    "mean": lambda np, x: np.mean(x * np.float16(600)),
    "mean over an axis": lambda np, x: np.mean(x.reshape(50, 100) * np.float16(600), axis=0),
    "var": lambda np, x: np.var(x[:100]),
    "std": lambda np, x: np.std(x[:100]),
    "prod": lambda np, x: np.prod(x[:3]),
    "cumsum": lambda np, x: np.cumsum(x),
    "max": lambda np, x: np.max(x),
    "dot": lambda np, x: x @ x,
    "matmul": lambda np, x: x.reshape(50, 100) @ x.reshape(100, 50),
    "einsum": lambda np, x: np.einsum("i,i->", x, x),
    "sum in single": lambda np, x: np.sum(x, dtype=np.float32),
    "average": lambda np, x: np.average(x),
    "median": lambda np, x: np.median(x),
    "norm": lambda np, x: np.sqrt(np.sum(x * x)),
}


@together("name", REDUCTIONS)
def test_reductions_add_up_as_numpy_does(name: str) -> None:
    reduce = REDUCTIONS[name]
    expected = np.asarray(reduce(np, LONG))
    for found in (
        reduce(fnp, fg.tensor(LONG)),
        fg.jit(lambda x: reduce(fnp, x))(LONG),
        fg.vjp(lambda x: reduce(fnp, x), LONG)[0],
    ):
        assert found.dtype == expected.dtype
        # NumPy multiplies float16 without BLAS, element by element, in an order of its own.
        np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-3)


WIDE = ("sum in single", "cumsum")  # whose gradient counts to 5000, which float16 cannot


@together("name", [name for name in REDUCTIONS if name not in WIDE])
def test_gradients_through_reductions_are_of_half_precision(name: str) -> None:
    def total(x: Any) -> Any:
        return fnp.sum(REDUCTIONS[name](fnp, x))

    slope = fg.grad(total)(LONG)
    wide = fg.grad(total)(LONG.astype(np.float32))
    assert slope.dtype == HALF
    if np.isfinite(np.asarray(slope)).all():
        assert_near(slope, wide, 2e-2, name)
    np.testing.assert_array_equal(fg.jit(fg.grad(total))(LONG), slope)


def test_cotangents_of_many_uses_are_added_in_half_precision() -> None:
    slope = fg.grad(lambda x: fnp.sum(x * x + fnp.sin(x) + x[::-1] * 2))(LONG[:8])
    assert slope.dtype == HALF


# The namespace.

ELEMENTWISE = (
    "abs arccos arcsin arcsinh arctan arctanh ceil conj cos cosh cbrt exp exp2 expm1 floor log"
    " log10 log1p log2 negative positive reciprocal rint round sign sin sinc sinh sqrt square tan"
    " tanh trunc nan_to_num real angle deg2rad rad2deg i0 cumsum cumprod diff sort flip roll"
    " gradient sum prod max min mean std var median ptp trapezoid nansum nanmean"
).split()


@together("name", [name for name in ELEMENTWISE if hasattr(fnp, name)])
def test_functions_of_the_namespace_have_numpy_s_dtype(name: str) -> None:
    x = np.array([0.25, 0.5, 0.75], np.float16)
    more = (1,) if name == "roll" else ()
    expected = np.asarray(getattr(np, name)(x, *more))
    f = getattr(fnp, name)
    batched = fg.vmap(lambda x: f(x, *more))(x[None])[0]
    for found in (f(x, *more), fg.jit(lambda x: f(x, *more))(x), batched):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=5e-3, atol=1e-3)
    slope = fg.grad(lambda x: fnp.sum(f(x, *more)))(x)
    assert slope.dtype == HALF


# What is refused.

REFUSED = set(
    """banded_solve cholesky cholesky_pullback cofactors cofactors_along cut_off det eig eigh
    eigh_factors eigvals eigvalsh expm expm_along inv least_squares logm logm_along lu pinv
    polar_factor polynomial_zeros qr sampled_product schur slogdet solve sparse_product sparse_solve
    sqrtm stein svd svd_factors svdvals sylvester triangular_solve
    turned_eigh turned_svd value_slopes with_values""".split()
)


def test_what_has_no_meaning_in_half_precision_is_refused_by_name() -> None:
    primitives = (*every_primitive(), *every_primitive(several=True))
    first = [next(cases_of(primitive), None) for primitive in primitives]
    halves = [case.cast_to(TO_HALF) for case in first if case is not None]
    refused = [case for case in halves if case.is_refused]
    assert {case.primitive.name for case in refused} == REFUSED
    for case in refused:
        with pytest.raises(DtypeError, match="float16"):
            apply(case.primitive, *case.args, **case.sample.params)
