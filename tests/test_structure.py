"""What primitives say of their structure, and their traits, hold at every sample.

The subjects are discovered; see ``tests/conformance.py``. Each check is shown to see what is wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.structure as st
from funcgrad.primitive import DISCRETE, Primitive, Sample
from funcgrad.primitives import (
    contraction,
    cumulative,
    elementwise,
    logic,
    powers,
    reduction,
    structural,
)
from funcgrad.shape import spec_of
from funcgrad.structure import Trait
from funcgrad.tensor import apply
from tests.conformance import every_primitive, strangers

PRIMITIVES = (*every_primitive(), *strangers())  # those with one result
EXTREME = np.array([0.0, -0.0, 1.0, -1.5, 0.1, 3e38, -3e38, 1e-45, np.inf, -np.inf, np.nan])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def of(kind: type[Any]) -> list[Primitive]:
    return [each for each in PRIMITIVES if isinstance(each.structure, kind)]


def with_trait(trait: Trait) -> list[Primitive]:
    return [each for each in PRIMITIVES if trait in each.traits]


def by_primitive(primitives: list[Primitive]) -> Any:
    assert primitives
    return pytest.mark.parametrize("primitive", primitives, ids=lambda p: p.name)


def outcome(primitive: Primitive, sample: Sample) -> Any:
    return np.asarray(primitive.evaluate(*sample.args, **sample.params))


def bits(value: Any) -> Any:
    """Numbers by their bits, all NaN the same."""
    value = np.asarray(value)
    return value.dtype, value.shape, np.where(value != value, value * 0, value).tobytes()


# ------------------------------------------------------------------------------------ memory


def assert_owned(primitive: Primitive) -> None:
    for sample in primitive.samples():
        zeros = replace(sample, args=tuple([arg * 0 for arg in sample.args]))
        for each in (sample, zeros):
            try:
                found = outcome(primitive, each)
            except (ValueError, ArithmeticError, Warning):
                continue  # of zeros, for which it has no meaning
            for arg in each.args:
                shares = isinstance(arg, np.ndarray) and np.may_share_memory(found, arg)
                assert not shares, each


@by_primitive([each for each in PRIMITIVES if each.owns])
def test_results_have_memory_of_their_own_where_that_is_said(primitive: Primitive) -> None:
    assert_owned(primitive)


@by_primitive([each for each in PRIMITIVES if getattr(each.structure, "is_view", False)])
def test_views_share_memory(primitive: Primitive) -> None:
    assert not primitive.owns
    x = np.ones((2, 3)) + (1j if primitive.name == "imag" else 0)
    samples = list(primitive.samples()) or [Sample((x,))]
    shared = [
        np.may_share_memory(outcome(primitive, sample), sample.args[0])
        for sample in samples
        if isinstance(sample.args[0], np.ndarray) and sample.args[0].size
    ]
    assert any(shared)


# ------------------------------------------------------------------------------------ structures


def assert_elementwise(primitive: Primitive) -> None:
    for sample in primitive.samples():
        found = outcome(primitive, sample)
        shape = np.broadcast_shapes(*[np.shape(arg) for arg in sample.args])
        assert found.shape == shape
        args = [np.broadcast_to(arg, shape) for arg in sample.args]
        for place in list(np.ndindex(*shape))[:6]:
            alone = primitive.evaluate(*[arg[place] for arg in args], **sample.params)
            assert_allclose(alone, found[place], rtol=1e-2 if found.itemsize == 2 else 1e-5)


@by_primitive(of(st.Elementwise))
def test_each_element_comes_from_those_at_its_place(primitive: Primitive) -> None:
    assert_elementwise(primitive)


def assert_combined(primitive: Primitive) -> None:
    assert isinstance(primitive.structure, st.Reduction)
    combine = primitive.structure.combine
    for sample in primitive.samples():
        x, axis = sample.args[0], next(iter(sample.params["axis"]), None)
        if axis is None or x.shape[axis] < 2:
            continue
        parts = np.split(x, [1], axis)
        found = [primitive.evaluate(part, **sample.params) for part in parts]
        assert_allclose(combine(*found), outcome(primitive, sample), rtol=1e-6, atol=1e-12)


def combined() -> list[Primitive]:
    return [each for each in of(st.Reduction) if getattr(each.structure, "combine", None)]


@by_primitive(combined())
def test_reductions_of_parts_combine(primitive: Primitive) -> None:
    assert_combined(primitive)


def assert_put_together(primitive: Primitive) -> None:
    assert isinstance(primitive.structure, st.Reduction)
    for sample in primitive.samples():
        reduced = primitive.structure.ufunc.reduce(sample.args[0], **sample.params)
        found = outcome(primitive, sample)
        assert_allclose(found, reduced, rtol=1e-6, atol=1e-12)
        assert found.shape == np.shape(reduced)


@by_primitive([each for each in of(st.Reduction) if getattr(each.structure, "ufunc", None)])
def test_reductions_put_together_by_a_ufunc(primitive: Primitive) -> None:
    assert_put_together(primitive)


def assert_among(found: Any, numbers: Any) -> None:
    assert np.all(np.isin(found, numbers) | (found != found))


def moved(primitive: Primitive, args: tuple[Any, ...], params: Any) -> Any:
    """What the index map makes of arguments, element by element."""
    assert isinstance(primitive.structure, st.Movement)
    spec = primitive.results(*map(spec_of, args), **params)[0]
    pieces = primitive.structure.pieces(spec.shape, *map(np.shape, args), **params)
    assert pieces is not None
    out = np.zeros(int(np.prod(spec.shape)), spec.dtype)
    for piece in pieces:
        given = np.ravel(args[piece.operand])
        for index in np.ndindex(*piece.shape):
            start = piece.start + int(np.dot(index, piece.strides))
            to = piece.to + int(np.dot(index, piece.to_strides))
            assert 0 <= start < len(given)
            assert 0 <= to < len(out)
            if primitive.structure.adds and piece.operand:
                out[to] += given[start]
            else:
                out[to] = given[start]
    return out.reshape(spec.shape)


def assert_moved(primitive: Primitive) -> None:
    for sample in primitive.samples():
        for dtype in "?bHqefdFD":
            first, args = 1, []
            for arg in sample.args:
                numbers = np.arange(first, first + np.size(arg)).astype(dtype)
                args.append(numbers.reshape(np.shape(arg)))
                first += np.size(arg)
            found = moved(primitive, tuple(args), sample.params)
            assert bits(found) == bits(primitive.evaluate(*args, **sample.params))


@by_primitive(of(st.Movement))
def test_index_maps_move_elements_as_evaluate_does(primitive: Primitive) -> None:
    assert_moved(primitive)


def with_rows(primitive: Primitive) -> Iterator[tuple[Sample, Any]]:
    """The samples of a movement that are done with rows last, with the parameters for that."""
    assert isinstance(primitive.structure, st.Movement)
    if primitive.structure.rows_last is not None:
        for sample in primitive.samples():
            shapes = map(np.shape, sample.args)
            params = primitive.structure.rows_last(*shapes, **sample.params)
            if params is not None:
                yield sample, params


def assert_rows_last(primitive: Primitive) -> None:
    """Operands of fewer axes, and with the same for all rows, have one row."""
    for sample, params in with_rows(primitive):
        expected = outcome(primitive, sample)
        args = []
        for arg in sample.args:
            ones = expected.ndim - np.ndim(arg) if np.shape(arg)[:1] != expected.shape[:1] else 0
            args.append(np.moveaxis(np.reshape(arg, (1,) * ones + np.shape(arg)), 0, -1))
        found = np.asarray(primitive.evaluate(*args, **params))
        assert bits(found) == bits(np.moveaxis(expected, 0, -1))


@by_primitive(of(st.Movement))
def test_movements_within_rows_with_rows_last(primitive: Primitive) -> None:
    assert_rows_last(primitive)


def test_movements_within_rows_are_among_the_samples() -> None:
    found = {each.name for each in of(st.Movement) if [*with_rows(each)]}
    assert found >= {"reshape", "transpose", "flip", "roll", "view", "place", "assemble"}
    assert found >= {"broadcast_to", "concatenate", "stack"}


@by_primitive(of(st.Gather))
def test_gathers_take_numbers_of_the_first_operand(primitive: Primitive) -> None:
    for sample in primitive.samples():
        assert_among(outcome(primitive, sample), sample.args[0])


def assert_one_sided(primitive: Primitive) -> None:
    """Changing the last numbers leaves the first results as they are, or the other way round."""
    for sample in primitive.samples():
        axis = sample.params["axis"]
        shape = np.shape(sample.args[-1])
        if not shape or shape[axis] < 2:
            continue
        whole = outcome(primitive, sample)
        ends = []
        for end in (0, -1):
            changed = [np.array(arg) for arg in sample.args]
            for arg in changed:
                np.moveaxis(arg, axis, 0)[end] += 1.5
            after = outcome(primitive, Sample(tuple(changed), sample.params))
            other = np.moveaxis(after, axis, 0)[-1 - end], np.moveaxis(whole, axis, 0)[-1 - end]
            ends.append(bits(other[0]) == bits(other[1]))
        assert any(ends), sample


def assert_letters(primitive: Primitive) -> None:
    assert isinstance(primitive.structure, st.Contraction)
    for sample in primitive.samples():
        specs = [spec_of(np.asarray(arg)) for arg in sample.args]
        first, second, out = primitive.structure.letters(*specs, **sample.params)
        expected = np.einsum(f"{first},{second}->{out}", *sample.args)
        assert_allclose(outcome(primitive, sample), expected, rtol=1e-6, atol=1e-12)


@by_primitive(of(st.Contraction))
def test_letters_are_those_of_einsum(primitive: Primitive) -> None:
    assert_letters(primitive)


@by_primitive(of(st.Scan))
def test_scans_look_to_one_side(primitive: Primitive) -> None:
    assert_one_sided(primitive)


@by_primitive(of(st.Scatter))
def test_scatters_without_updates_leave_the_rest(primitive: Primitive) -> None:
    assert isinstance(primitive.structure, st.Scatter)
    updates = primitive.structure.updates
    for sample in primitive.samples():
        out = outcome(primitive, sample)
        base = np.zeros(out.shape) if updates == 0 else np.asarray(sample.args[0])
        assert (out != base).sum() <= sum(np.size(arg) for arg in sample.args[updates:])


# ------------------------------------------------------------------------------------ traits


def pairs() -> Iterator[tuple[Any, Any]]:
    for dtype in (np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_):
        numbers = EXTREME.astype(dtype)
        yield numbers[:, None], numbers
        yield np.repeat(numbers, 3), np.resize(numbers[::-1], 33)


def assert_commutative(primitive: Primitive) -> None:
    for x, y in pairs():
        if x.dtype.kind == "f" and "bitwise" in primitive.name:
            continue
        one, other = primitive.evaluate(x, y), primitive.evaluate(y, x)
        assert bits(one) == bits(other)


@by_primitive(with_trait(Trait.COMMUTATIVE))
def test_commutative(primitive: Primitive) -> None:
    assert_commutative(primitive)


def assert_idempotent(primitive: Primitive) -> None:
    for x, _ in pairs():
        if x.dtype.kind == "f" and "bitwise" in primitive.name:
            continue
        found = primitive.evaluate(x, x)
        assert found.dtype != x.dtype or bits(found) == bits(x)


@by_primitive(with_trait(Trait.IDEMPOTENT))
def test_idempotent(primitive: Primitive) -> None:
    assert_idempotent(primitive)


def assert_converting(primitive: Primitive) -> None:
    for sample in primitive.samples():
        for x, _ in pairs():
            found = primitive.evaluate(x, **sample.params)
            assert found.dtype != x.dtype or bits(found) == bits(x)


@by_primitive(with_trait(Trait.CONVERTS))
def test_converting(primitive: Primitive) -> None:
    assert_converting(primitive)


def assert_product(primitive: Primitive) -> None:
    for x, y in pairs():
        args = (x, y)[: len(next(iter(primitive.samples())).args)]
        if x.dtype == np.bool_ and len(args) == 1:
            continue
        assert bits(primitive.evaluate(*args)) == bits(np.multiply(args[0], args[-1]))


@by_primitive(with_trait(Trait.PRODUCT))
def test_product(primitive: Primitive) -> None:
    assert_product(primitive)


def assert_rounded_once(primitive: Primitive) -> None:
    """In float32 as in float64 and then rounded: 53 digits are enough to round only once."""
    rng = np.random.default_rng(2)
    x = np.concatenate([EXTREME, rng.standard_normal(500), 10.0 ** rng.uniform(-44, 38, 500)])
    x, y = x.astype(np.float32), np.roll(x, 7).astype(np.float32)
    arity = {"where": 3}.get(primitive.name) or len(next(iter(primitive.samples())).args)
    args: tuple[Any, ...] = (x, y) if arity < 3 else (x > 0, x, y)
    params = dict(next(iter(primitive.samples())).params)
    if "bitwise" in primitive.name:
        args = tuple(np.abs(arg).astype(np.int32) % 31 for arg in args)  # exact whatever it does
    found = np.asarray(primitive.evaluate(*args[:arity], **params))
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in args[:arity]]
    expected = np.asarray(primitive.evaluate(*wide, **params))
    assert bits(found) == bits(expected.astype(found.dtype))


@by_primitive(with_trait(Trait.ROUNDED_ONCE))
def test_rounded_once(primitive: Primitive) -> None:
    assert_rounded_once(primitive)


def assert_superposed(primitive: Primitive) -> None:
    """What ``linear_transpose`` accepts adds up, and is zero at zero."""
    rng = np.random.default_rng(8)
    for sample in primitive.samples():
        for k, arg in enumerate(sample.args):
            if np.asarray(arg).dtype != np.float64 or not np.size(arg):
                continue

            def f(x: Any, sample: Sample = sample, k: int = k) -> Any:
                args = (*sample.args[:k], x, *sample.args[k + 1 :])
                return apply(primitive, *args, **sample.params)

            x, y = 2 * rng.standard_normal((2, *np.shape(arg)))
            try:
                fg.linear_transpose(f, x)
            except fg.errors.FuncgradError:
                continue
            both, zero = np.asarray(f(x + y)), np.asarray(f(np.zeros_like(x)))
            apart = np.asarray(f(x)) + np.asarray(f(y))
            if np.all(np.isfinite(both + apart)):
                assert_allclose(both, apart, rtol=1e-6, atol=1e-9)
                assert_allclose(zero, 0.0)


LINEAR = [each for each in PRIMITIVES if each.differential is not DISCRETE]


@by_primitive(LINEAR)
def test_what_is_transposed_is_linear(primitive: Primitive) -> None:
    assert_superposed(primitive)


@by_primitive(with_trait(Trait.JUMPS))
def test_a_sawtooth_is_not_transposed(primitive: Primitive) -> None:
    with pytest.raises(AssertionError):
        assert_superposed(replace(primitive, traits=Trait.NONE))


@by_primitive(with_trait(Trait.WRITES_INTO))
def test_writes_into(primitive: Primitive) -> None:
    for sample in primitive.samples():
        whole = outcome(primitive, sample)
        if whole.ndim:
            place = np.full_like(whole, 7)
            found = primitive.evaluate(*sample.args, **sample.params, out=place)
            assert found is place
            assert_array_equal(place, whole)


# ------------------------------------------------------------------------------------ what is wrong


def rows(*arrays: Any, **params: Any) -> Callable[[], list[Sample]]:
    return lambda: [Sample(arrays, params)]


SWAPPED = st.Contraction(lambda x, y: ("JK"[-len(x.shape) :], "KI"[: len(y.shape)], "IJ"))
X = np.arange(1.0, 7.0).reshape(2, 3)
TURNED = Primitive("turned", np.transpose, lambda x: x, DISCRETE, lambda *_: None, rows(X))
WHOLE = Primitive("whole", lambda x: x - x.mean(), lambda x: x, DISCRETE, lambda *_: 0, rows(X))


SUMMED = st.Reduction(np.add, np.add)
EARLY = st.Movement(
    lambda result, x, axis: [(result, x)],
    rows_last=lambda x, axis: {"axis": axis} if x else None,
)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (assert_owned, TURNED),
        (assert_owned, structural.view),
        (assert_elementwise, WHOLE),
        (assert_combined, replace(reduction.reduce_max, structure=st.Reduction(np.add))),
        (assert_moved, replace(structural.flip, evaluate=lambda x, axis: x)),
        (assert_moved, replace(structural.transpose, evaluate=lambda x, axes: x.T)),
        (assert_moved, replace(structural.place, structure=structural.flip.structure)),
        (assert_rows_last, replace(structural.flip, structure=EARLY)),
        (
            assert_put_together,
            replace(reduction.count_nonzero, structure=st.Reduction(None, np.add)),
        ),
        (assert_product, elementwise.divide),
        (assert_converting, elementwise.negative),
        (assert_one_sided, replace(WHOLE, samples=rows(X, axis=1), evaluate=lambda x, axis: x.T)),
        (assert_one_sided, cumulative.pulled_products),
        (assert_letters, replace(contraction.matmul, structure=SWAPPED)),
        (assert_commutative, elementwise.subtract),
        (assert_commutative, logic.less),
        (assert_idempotent, elementwise.multiply),
        (assert_rounded_once, powers.power),
        (assert_rounded_once, elementwise.log),
    ],
)
def test_what_is_wrong_is_seen(check: Callable[[Primitive], None], wrong: Primitive) -> None:
    with pytest.raises((AssertionError, ValueError, TypeError)):
        check(wrong)
