"""Every primitive keeps its word, at every one of its samples.

The subjects are discovered; see ``tests/conformance.py``.
"""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.primitive import DISCRETE, Linear, Primitive, Selection
from funcgrad.primitives.elementwise import batch_elementwise
from funcgrad.shape import Spec, dtype_of, is_inexact, spec_of
from tests.conformance import (
    LOWER,
    Case,
    assert_near,
    batch_of,
    coarsest,
    complex_step,
    differences,
    direction,
    directions,
    every_case,
    every_primitive,
    inner,
    inner_all,
    loop,
    representatives,
    strangers,
    subsets,
)

PRIMITIVES = (*every_primitive(), *strangers())
CASES = tuple(every_case(PRIMITIVES))
DIFFERENTIABLE = tuple(case for case in CASES if case.differentiable)
SMOOTH = tuple(case for case in DIFFERENTIABLE if case.sample.smooth)
MODERATE = tuple(case for case in SMOOTH if not case.is_extreme)
KINKS = tuple(case for case in DIFFERENTIABLE if not case.sample.smooth)
ELEMENTWISE = tuple(p for p in PRIMITIVES if p.batch is batch_elementwise)
LINEAR = tuple(case for case in DIFFERENTIABLE if isinstance(case.primitive.differential, Linear))

# Constant for derivatives on purpose, although their values are not.
HELD_CONSTANT = frozenset({"constant_max", "stop_gradient"})

# By the bytes of a real number: how far two ways to the same derivative may part.
ROUNDING = {2: 1e-2, 4: 1e-4, 8: 1e-9}

# Its job is to declare an argument constant, for which any sample would do.
WITHOUT_SAMPLES = frozenset({"stop_gradient"})


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def by_case(cases: Any) -> Any:
    return pytest.mark.parametrize("case", cases, ids=str)


def by_primitive(primitives: Any) -> Any:
    return pytest.mark.parametrize("primitive", primitives, ids=lambda p: p.name)


# ---------------------------------------------------------------------------------- declarations


def test_there_are_subjects() -> None:
    assert len(PRIMITIVES) > 100
    assert len(SMOOTH) > 500


def test_names_are_unique() -> None:
    counts = Counter(primitive.name for primitive in PRIMITIVES)
    assert [name for name, count in counts.items() if count > 1] == []


@by_primitive(PRIMITIVES)
def test_it_has_samples(primitive: Primitive) -> None:
    assert primitive.name in WITHOUT_SAMPLES or list(primitive.samples())


@by_primitive([p for p in PRIMITIVES if p.differential is not DISCRETE])
def test_some_samples_are_smooth(primitive: Primitive) -> None:
    assert any(case.differentiable and case.sample.smooth for case in every_case([primitive]))


@by_primitive([p for p in ELEMENTWISE if p.name not in WITHOUT_SAMPLES])
def test_samples_of_elementwise_operations(primitive: Primitive) -> None:
    shapes = [[np.shape(arg) for arg in sample.args] for sample in primitive.samples()]
    wanted = {
        "empty": any(0 in shape for sample in shapes for shape in sample),
        "0-d": any(all(shape == () for shape in sample) for sample in shapes),
        "broadcast": len(shapes[0]) == 1 or any(len(set(sample)) > 1 for sample in shapes),
    }
    assert [name for name, present in wanted.items() if not present] == []


# ---------------------------------------------------------------------------------- evaluation


def assert_spec(case: Case) -> None:
    specs = [spec_of(arg) for arg in case.args]
    (said,) = case.primitive.results(*specs, **case.sample.params)
    value = case.value()
    assert (said.shape, said.dtype) == (value.shape, value.dtype)


@by_case(representatives(CASES))
def test_result_describes_evaluate(case: Case) -> None:
    assert_spec(case)


@by_case(representatives(CASES))
def test_evaluate_keeps_none_of_its_arguments(case: Case) -> None:
    # That it writes to none is seen everywhere here: the arguments are read-only.
    args = list(case.args)
    arrays = [weakref.ref(arg) for arg in args if isinstance(arg, np.ndarray)]
    gc.disable()
    try:
        value = case.evaluate(*args)
        args.clear()
        del value
        assert all(array() is None for array in arrays)
    finally:
        gc.enable()


@by_case([case for case in CASES if case.primitive.form == "discrete"])
def test_discrete_operations_are_locally_constant(case: Case) -> None:
    varied = [k for k, arg in enumerate(case.args) if is_inexact(dtype_of(arg))]
    if case.primitive.name in HELD_CONSTANT or not case.sample.smooth or not varied:
        return
    if case.value().dtype.kind not in "fc":
        return

    def f(*chosen: Any) -> list[Any]:
        args = list(case.args)
        for k, arg in zip(varied, chosen, strict=True):
            args[k] = arg
        return [np.asarray(case.evaluate(*args))]

    point = case.point(varied)
    found, tolerance = differences(f, point, directions(case.rng(), point))
    assert_near(found, [np.zeros(case.value().shape)], tolerance, "differences")


# ---------------------------------------------------------------------------------- first order


@by_case(SMOOTH)
def test_forward_equals_differences(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        along = directions(case.rng(), point)
        out, tangent = fg.jvp(case.function(positions), point, along)
        assert_array_equal(out, case.value())
        assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype)

        def values(*chosen: Any, positions: Any = positions) -> list[Any]:
            args = list(case.args)
            for k, arg in zip(positions, chosen, strict=True):
                args[k] = arg
            return [np.asarray(case.evaluate(*args))]

        (expected,), tolerance = differences(values, point, along)
        assert_near(tangent, expected, tolerance, f"differences, arguments {positions}")
        real = all(np.asarray(x).dtype == np.float64 for x in (*point, out))
        exact = complex_step(case, positions, along) if real else None
        # Where a function is not analytic the complex step is far off, not by a little.
        if exact is not None and np.allclose(exact, expected, 1e-4, 1e-4):
            assert_near(tangent, exact, 1e-10, f"complex step, arguments {positions}")


@by_case(SMOOTH)
def test_reverse_is_the_adjoint_of_forward(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        rng = case.rng()
        along = directions(rng, point)
        f = case.function(positions)
        tangent = fg.jvp(f, point, along)[1]
        out, pullback = fg.vjp(f, *point)
        assert_array_equal(out, case.value())
        ct = direction(rng, out)
        cts = pullback(ct)
        assert [(g.shape, g.dtype) for g in cts] == [(np.shape(x), dtype_of(x)) for x in point]
        tolerance = ROUNDING[coarsest([*point, out])]
        assert_near(inner_all(cts, along), inner(ct, tangent), tolerance, f"{positions}")


@by_case(representatives(SMOOTH))
def test_linearize_equals_forward(case: Case) -> None:
    point = case.point(case.differentiable)
    along = directions(case.rng(), point)
    f = case.function(case.differentiable)
    out, push = fg.linearize(f, *point)
    expected, tangent = fg.jvp(f, point, along)
    assert_array_equal(out, expected)
    assert_near(push(*along), tangent, 1e-12, "linearize")


# Cotangents of a sum are smaller than what is summed, those of a choice have gaps.
FORMS: dict[str, Callable[..., Any]] = {
    "sum": lambda y, axis, mask: fnp.sum(y, axis=axis),
    "kept sum": lambda y, axis, mask: fnp.sum(y, axis=axis, keepdims=True),
    "several sums": lambda y, axis, mask: fnp.sum(y) + fnp.sum(y, axis=axis, keepdims=True) + y,
    "choice": lambda y, axis, mask: fnp.where(mask, y, 0),
    "choice of sums": lambda y, axis, mask: fnp.where(
        np.all(mask, axis=axis), fnp.sum(y, axis=axis), 0
    ),
    "sum and slice": lambda y, axis, mask: fnp.sum(y, axis=axis, keepdims=True) + y[:1],
}


@by_case(representatives(case for case in SMOOTH if case.value().ndim))
def test_cotangents_of_every_form(case: Case) -> None:
    f, point = case.function(case.differentiable), case.point(case.differentiable)
    value, rng = case.value(), case.rng()
    mask = rng.uniform(size=value.shape) < 0.6
    pullback = fg.vjp(f, *point)[1]
    tolerance = ROUNDING[coarsest([*point, value])]
    for axis in {0, value.ndim - 1}:
        for name, choose in FORMS.items():
            form = partial(choose, axis=axis, mask=mask)
            out, of_form = fg.vjp(form, value)
            u = direction(rng, out)
            found = fg.vjp(lambda *x, form=form: form(f(*x)), *point)[1](u)
            assert_near(found, pullback(of_form(u)[0]), tolerance, name)


@by_case(KINKS)
def test_forward_equals_reverse_at_kinks(case: Case) -> None:
    if case.primitive.batch is not batch_elementwise:
        assert_same_at_kink(case)
        return
    # One element at a time: a product of a zero tangent with an infinite factor of another element
    # would say nothing of either.
    columns = np.broadcast_arrays(*case.sample.args)
    for element in zip(*[column.ravel() for column in columns], strict=True):
        sample = type(case.sample)(element, case.sample.params, smooth=False)
        single = Case(case.primitive, case.number, sample)
        for k in single.differentiable:
            point = single.point((k,))
            f = single.function((k,))
            for unit in (1, 1j) if np.iscomplexobj(point[0]) else (1,):
                tangent = np.asarray(fg.jvp(f, point, (unit,))[1])
                pulled = [
                    inner(fg.vjp(f, *point)[1](ct)[0], unit)
                    for ct in ((1.0, 1j) if np.iscomplexobj(tangent) else (1.0,))
                ]
                parts = [tangent.real, tangent.imag] if len(pulled) == 2 else [tangent]
                assert_near(pulled, parts, 1e-12, f"argument {k} of {element}")


def assert_same_at_kink(case: Case) -> None:
    for positions in subsets(case.differentiable):
        point = case.point(positions)
        rng = case.rng()
        along = directions(rng, point)
        f = case.function(positions)
        tangent = fg.jvp(f, point, along)[1]
        ct = direction(rng, tangent)
        forward = inner(ct, tangent)
        reverse = inner_all(fg.vjp(f, *point)[1](ct), along)
        assert np.isfinite(forward) == np.isfinite(reverse)
        if np.isfinite(forward):
            tolerance = ROUNDING[coarsest([*point, tangent])]
            assert_near(reverse, forward, tolerance, f"{positions}")


# ---------------------------------------------------------------------------------- second order


@by_case(MODERATE)
def test_second_order(case: Case) -> None:
    positions = case.differentiable
    f = case.function(positions)
    point = case.point(positions)
    rng = case.rng()
    v, w = directions(rng, point), directions(rng, point)
    u = direction(rng, case.value())

    def gradient(*x: Any) -> Any:
        return fg.vjp(f, *x)[1](u)

    def tangent(*x: Any) -> Any:
        return fg.jvp(f, x, v)[1]

    expected, tolerance = differences(gradient, point, w)
    over_reverse = fg.jvp(gradient, point, w)[1]
    assert_near(over_reverse, expected, 10 * tolerance, "forward over reverse")
    rounding = 1e-8 if tolerance < 1e-5 else 1e-3
    twice = fg.vjp(gradient, *point)[1](v)
    over_forward = fg.vjp(tangent, *point)[1](u)
    assert_near(over_forward, twice, rounding, "reverse over forward, reverse over reverse")
    assert_near(inner_all(twice, w), inner_all(over_reverse, v), rounding, "reverse over reverse")
    forward_twice = fg.jvp(tangent, point, w)[1]
    assert_near(inner(u, forward_twice), inner_all(over_reverse, v), rounding, "forward twice")


# ---------------------------------------------------------------------------------- linear ones


@by_case(LINEAR)
def test_linear_operations_are_their_own_pushforward(case: Case) -> None:
    linear = case.primitive.differential
    assert isinstance(linear, Linear)
    for k in case.differentiable:
        (x,) = point = case.point((k,))
        t = direction(case.rng(), x)
        f = case.function((k,))
        tangent = fg.jvp(f, point, (t,))[1]
        args = list(case.args)
        if linear.jointly:
            for other in case.differentiable:
                args[other] = np.zeros_like(args[other])
        args[k] = t
        assert_near(tangent, case.evaluate(*args), 1e-12, f"argument {k}")


@by_case([case for case in LINEAR if not case.primitive.differential.jointly])  # type: ignore[union-attr]
def test_linear_transpose(case: Case) -> None:
    for k in case.differentiable:
        (x,) = point = case.point((k,))
        f = case.function((k,))
        ct = direction(case.rng(), case.value())
        transposed = fg.linear_transpose(f, x)
        assert_near(transposed(ct), fg.vjp(f, *point)[1](ct), 1e-12, f"argument {k}")


@by_case([case for case in LINEAR if case.primitive.differential.structural])  # type: ignore[union-attr]
def test_masks_travel_back_through_structural_operations(case: Case) -> None:
    linear = case.primitive.differential
    assert isinstance(linear, Linear)
    mask = case.rng().uniform(size=case.value().shape) < 0.5
    routes = linear.routes(len(case.args))
    for k in case.differentiable:
        route: Any = routes[k]
        found = np.asarray(route(mask, *case.args, **case.sample.params)) != 0
        expected = np.asarray(route(mask.astype(float), *case.args, **case.sample.params)) != 0
        assert_array_equal(found, expected)


class Unread:
    """What is left of a value that a factor does not read."""

    def __init__(self, value: Any) -> None:
        self.shape, self.dtype = np.shape(value), dtype_of(value)


@by_case([case for case in DIFFERENTIABLE if case.primitive.form in ("elementwise", "selecting")])
def test_factors_do_not_read_what_they_name_with_an_underscore(case: Case) -> None:
    values = case.value(), *case.args
    for k in case.differentiable:
        factor, reads = case.primitive.factors[k], case.primitive.reads[k]
        if callable(factor):
            left = [x if read else Unread(x) for x, read in zip(values, reads, strict=True)]
            expected, found = (factor(*given, **case.sample.params) for given in (values, left))
            if isinstance(expected, Selection):
                expected, found = expected.mask, found.mask
            assert_array_equal(found, expected)


@by_case([case for case in DIFFERENTIABLE if case.primitive.form == "elementwise"])
def test_factors_of_elementwise_operations_are_elementwise(case: Case) -> None:
    values = np.broadcast_arrays(case.value(), *case.args)
    for factor in [case.primitive.factors[k] for k in case.differentiable]:
        if callable(factor):
            whole = np.broadcast_to(factor(*values, **case.sample.params), values[0].shape)
            for element in np.ndindex(values[0].shape):
                part = tuple([slice(i, i + 1) for i in element])
                found = factor(*[value[part] for value in values], **case.sample.params)
                assert_allclose(np.ravel(found), np.ravel(whole[part]), rtol=1e-13)


@by_case([case for case in DIFFERENTIABLE if case.primitive.form == "selecting"])
def test_selections_select(case: Case) -> None:
    out = case.value()
    for factor in case.primitive.factors:
        if callable(factor):
            found = factor(out, *case.args, **case.sample.params)
            assert isinstance(found, Selection) or dtype_of(found) == np.bool_


# ---------------------------------------------------------------------------------- batches


def batchings(count: int) -> list[tuple[bool, ...]]:
    """Each argument alone, and all together."""
    alone = [tuple(k == j for j in range(count)) for k in range(count)] if count <= 4 else []
    return [*alone, (True,) * count] if count > 1 else [(True,) * count]


@by_case(representatives(case for case in CASES if case.args))
def test_vmap_is_a_loop(case: Case) -> None:
    f = case.function()
    for flags in batchings(len(case.args)):
        for size in (1, 3):
            args = [
                batch_of(x, size) if flag else x for x, flag in zip(case.args, flags, strict=True)
            ]
            axes = tuple(0 if flag else None for flag in flags)
            found = fg.vmap(f, in_axes=axes)(*args)
            expected = loop(case, args, flags, size)
            assert found.dtype == expected.dtype
            assert_near(found, expected, 1e-12, f"batched: {flags}")


@by_case(representatives(case for case in CASES if case.args))
def test_an_empty_batch(case: Case) -> None:
    args = [batch_of(x, 0) for x in case.args]
    found = fg.vmap(case.function())(*args)
    expected = np.asarray(loop(case, [batch_of(x, 1) for x in case.args], (True,) * len(args), 1))
    assert (found.shape, found.dtype) == ((0, *expected.shape[1:]), expected.dtype)


@by_case(representatives(case for case in CASES if case.args))
def test_vmap_of_vmap(case: Case) -> None:
    count = len(case.args)
    inner_flags = tuple(k % 2 == 0 for k in range(count))
    outer_flags = tuple(k % 2 == 1 or count == 1 for k in range(count))
    f = case.function()
    args = list(case.args)
    for flags in (inner_flags, outer_flags):
        args = [batch_of(x, 2) if flag else x for x, flag in zip(args, flags, strict=True)]
    inner_axes = tuple(0 if flag else None for flag in inner_flags)
    outer_axes = tuple(0 if flag else None for flag in outer_flags)
    nested = fg.vmap(fg.vmap(f, in_axes=inner_axes), in_axes=outer_axes, axis_size=2)(*args)
    for i in range(2):
        row = [a[i] if flag else a for a, flag in zip(args, outer_flags, strict=True)]
        expected = loop(case, row, inner_flags, 2)
        assert_near(np.asarray(nested)[i], expected, 1e-12, "nested")


@by_case(representatives(SMOOTH))
def test_vmap_and_reverse_mode(case: Case) -> None:
    f, positions = case.function(case.differentiable), case.differentiable
    for flags in batchings(len(positions)):
        assert_batched_derivatives(case, f, flags)


def assert_batched_derivatives(case: Case, f: Any, flags: tuple[bool, ...]) -> None:
    size, rng = 2, case.rng()
    point = case.point(case.differentiable)
    args = [batch_of(x, size) if flag else x for x, flag in zip(point, flags, strict=True)]
    axes = tuple(0 if flag else None for flag in flags)
    rows = [[a[i] if flag else a for a, flag in zip(args, flags, strict=True)] for i in range(size)]
    u = direction(rng, fg.vmap(f, in_axes=axes)(*args))
    v = directions(rng, args)
    pulled = [fg.vjp(f, *row)[1](u[i]) for i, row in enumerate(rows)]
    tolerance = 1e-10 if u.dtype.char in "dD" else 1e-4

    found = fg.vmap(lambda u, *x: fg.vjp(f, *x)[1](u), in_axes=(0, *axes))(u, *args)
    for k in range(len(args)):
        expected = np.stack([row[k] for row in pulled])
        assert_near(found[k], expected, tolerance, f"vmap of vjp, batched: {flags}")

    total = fg.vjp(fg.vmap(f, in_axes=axes), *args)[1](u)
    for k, flag in enumerate(flags):
        stacked = np.stack([row[k] for row in pulled])
        expected = stacked if flag else np.sum(stacked, 0)
        assert_near(total[k], expected, tolerance, f"vjp of vmap, batched: {flags}")

    tangents = fg.vmap(lambda x, v: fg.jvp(f, x, v)[1], in_axes=(axes, axes))(tuple(args), v)
    reference = [
        fg.jvp(f, row, [t[i] if flag else t for t, flag in zip(v, flags, strict=True)])[1]
        for i, row in enumerate(rows)
    ]
    assert_near(tangents, np.stack(reference), tolerance, f"vmap of jvp, batched: {flags}")


# ---------------------------------------------------------------------------------- precisions


@by_case(representatives(CASES))
def test_single_precision_results(case: Case) -> None:
    assert_spec(case.in_single_precision())


@by_case(MODERATE)
def test_single_precision_derivatives(case: Case) -> None:
    low = case.in_single_precision()
    positions = case.differentiable
    v, u = directions(case.rng(), case.point(positions)), direction(case.rng(), case.value())
    point = low.point(positions)
    lower = tuple(np.asarray(t).astype(dtype_of(x)) for t, x in zip(v, point, strict=True))
    out, pullback = fg.vjp(low.function(positions), *point)
    cts = pullback(u.astype(out.dtype))
    assert [(g.shape, g.dtype) for g in cts] == [(np.shape(x), dtype_of(x)) for x in point]
    tangent = fg.jvp(low.function(positions), point, lower)[1]
    assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype)
    f, exact = case.function(positions), case.point(positions)
    assert_near(tangent, fg.jvp(f, exact, v)[1], 2e-3, "forward")
    assert_near(cts, fg.vjp(f, *exact)[1](u), 2e-3, "reverse")


@by_case([case for case in SMOOTH if case.number == 0])
def test_half_precision(case: Case) -> None:
    half = {low: low for low in LOWER.values()} | {np.dtype("d"): np.dtype("e")}
    low = case.cast_to(half)
    if low.is_refused:
        with pytest.raises(fg.errors.DtypeError, match="float16"):
            low.function()(*low.args)
        return
    assert_spec(low)
    point = low.point(case.differentiable)
    out, pullback = fg.vjp(low.function(case.differentiable), *point)
    cts = pullback(np.ones(out.shape, out.dtype))
    assert [(g.shape, g.dtype) for g in cts] == [(np.shape(x), dtype_of(x)) for x in point]
    tangent = fg.jvp(low.function(case.differentiable), point, point)[1]
    assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype)


def test_python_numbers_give_way() -> None:
    spec = Spec((), np.dtype(float), weak=True)
    add = next(p for p in PRIMITIVES if p.name == "add")
    assert add.result(spec, Spec((2,), np.dtype("f"))) == Spec((2,), np.dtype("f"))
