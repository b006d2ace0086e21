"""Operations with several results keep their word at every sample, as those with one do.

The subjects are discovered. All results are taken together, as one vector of the numbers that a
derivative flows through.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.extend import apply_several
from funcgrad.primitive import DISCRETE
from funcgrad.shape import dtype_of, is_inexact, spec_of
from tests.conformance import (
    Case,
    assert_near,
    batch_of,
    coarsest,
    differences,
    direction,
    directions,
    every_case,
    every_primitive,
    inner,
    inner_all,
)

CASES = tuple(every_case(every_primitive(several=True)))
SMOOTH = tuple(
    case
    for case in CASES
    if case.sample.smooth
    and case.primitive.differential is not DISCRETE
    and all(is_inexact(np.asarray(arg).dtype) for arg in case.args)
)
by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_smooth_case = pytest.mark.parametrize("case", SMOOTH, ids=str)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def outs(case: Case, *args: Any) -> tuple[Any, ...]:
    found = case.primitive.evaluate(*args, **case.sample.params)
    assert isinstance(found, tuple)
    return found


def joined(case: Case) -> Callable[..., Any]:
    """All results as one vector."""

    def f(*args: Any) -> Any:
        found = apply_several(case.primitive, *args, **case.sample.params)
        return fnp.concatenate([fnp.ravel(x) for x in found if is_inexact(x.dtype)])

    return f


def values(case: Case, *args: Any) -> Any:
    found = [np.asarray(x) for x in outs(case, *args)]
    return np.concatenate([x.ravel() for x in found if is_inexact(x.dtype)])


def test_there_are_subjects() -> None:
    assert len(SMOOTH) > 5


@by_case
def test_results_describe_evaluate(case: Case) -> None:
    for each in (case, case.in_single_precision()):
        said = each.primitive.results(*map(spec_of, each.args), **each.sample.params)
        found = outs(each, *each.args)
        assert [(x.shape, x.dtype) for x in said] == [(np.shape(x), dtype_of(x)) for x in found]


@by_smooth_case
def test_forward_equals_differences_and_reverse_is_its_adjoint(case: Case) -> None:
    along = directions(case.rng(), case.args)
    out, tangent = fg.jvp(joined(case), case.args, along)
    assert_array_equal(out, values(case, *case.args))
    (expected,), tolerance = differences(lambda *x: [values(case, *x)], case.args, along)
    assert_near(tangent, expected, tolerance, "differences")
    pullback = fg.vjp(joined(case), *case.args)[1]
    ct = direction(case.rng(), out)
    cts = pullback(ct)
    assert [(g.shape, g.dtype) for g in cts] == [(np.shape(x), dtype_of(x)) for x in case.args]
    assert_near(inner_all(cts, along), inner(ct, tangent), 1e-9, "reverse")


@by_smooth_case
def test_each_result_alone(case: Case) -> None:
    """What nothing depends on has no cotangent, and no part in the others'."""
    rng = case.rng()
    along = directions(rng, case.args)
    for position, x in enumerate(outs(case, *case.args)):
        if not is_inexact(dtype_of(x)):
            continue

        def f(*args: Any, position: int = position) -> Any:
            return apply_several(case.primitive, *args, **case.sample.params)[position]

        ct = direction(rng, x)
        tangent = fg.jvp(f, case.args, along)[1]
        cts = fg.vjp(f, *case.args)[1](ct)
        assert_near(inner_all(cts, along), inner(ct, tangent), 1e-9, f"result {position}")


@by_smooth_case
def test_second_order(case: Case) -> None:
    f, point, rng = joined(case), case.args, case.rng()
    v, w = directions(rng, point), directions(rng, point)
    u = direction(rng, values(case, *point))

    def gradient(*x: Any) -> Any:
        return fg.vjp(f, *x)[1](u)

    def tangent(*x: Any) -> Any:
        return fg.jvp(f, x, v)[1]

    expected, tolerance = differences(gradient, point, w)
    over_reverse = fg.jvp(gradient, point, w)[1]
    assert_near(over_reverse, expected, 10 * tolerance, "forward over reverse")
    rounding = 1e-8 if coarsest(point) == 8 else 1e-3
    twice = fg.vjp(gradient, *point)[1](v)
    assert_near(fg.vjp(tangent, *point)[1](u), twice, rounding, "reverse over forward")
    assert_near(inner_all(twice, w), inner_all(over_reverse, v), rounding, "reverse twice")
    forward_twice = fg.jvp(tangent, point, w)[1]
    assert_near(inner(u, forward_twice), inner_all(over_reverse, v), rounding, "forward twice")


@by_case
def test_batches_are_loops(case: Case) -> None:
    args = [batch_of(x, 3) for x in case.args]
    found = fg.vmap(partial(apply_several, case.primitive, **case.sample.params))(*args)
    rows = [outs(case, *[x[k] for x in args]) for k in range(3)]
    for own, other in zip(found, zip(*rows, strict=True), strict=True):
        assert_near(own, np.stack(other), 1e-12, "vmap")
        assert own.dtype == np.stack(other).dtype


@by_smooth_case
def test_batches_of_pullbacks_are_loops(case: Case) -> None:
    f = joined(case)
    args = [batch_of(x, 2) for x in case.args]
    u = direction(case.rng(), np.stack([values(case, *[x[k] for x in args]) for k in range(2)]))
    found = fg.vmap(lambda u, *x: fg.vjp(f, *x)[1](u))(u, *args)
    rows = [fg.vjp(f, *[x[k] for x in args])[1](u[k]) for k in range(2)]
    for own, other in zip(found, zip(*rows, strict=True), strict=True):
        assert_near(own, np.stack(other), 1e-10, "vmap of vjp")


@by_smooth_case
def test_staged_is_eager(case: Case) -> None:
    f, u = joined(case), direction(case.rng(), values(case, *case.args))
    assert_array_equal(fg.jit(f)(*case.args), f(*case.args))
    pulled = fg.vjp(f, *case.args)[1](u)
    staged = fg.jit(lambda u, *x: fg.vjp(f, *x)[1](u))(u, *case.args)
    again = fg.vjp(fg.jit(f), *case.args)[1](u)
    program = fg.vjp(fg.program(f)(*case.args), *case.args)[1](u)
    for found in (staged, again, program):
        assert_near(found, pulled, 1e-10, "staged")


@by_smooth_case
def test_a_push_is_transposed(case: Case) -> None:
    f, u = joined(case), direction(case.rng(), values(case, *case.args))
    expected = fg.vjp(f, *case.args)[1](u)
    found = fg.linear_transpose(lambda *v: fg.jvp(f, case.args, v)[1], *case.args)(u)
    assert_near(found, expected, 1e-9, "transposed")


@by_case
def test_half_precision_is_refused(case: Case) -> None:
    half = case.cast_to({np.dtype("d"): np.dtype("e"), np.dtype("f"): np.dtype("e")})
    if half.args[0].dtype == np.float16:
        with pytest.raises(fg.errors.DtypeError, match="float16"):
            apply_several(half.primitive, *half.args, **half.sample.params)
