"""A zero that is structural stays structural; a number that happens to be zero does not become one.

What ``where``, ``maximum``, ``clip`` or an index did not select has no cotangent at all, so that no
infinity further back can turn it into NaN: in both modes, at every order, under ``vmap``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Partials, Primitive, Sample, Selection
from tests.conformance import every_primitive
from tests.together import together

Function = Callable[[Any], Any]


def forward(f: Function) -> Function:
    return lambda x: fg.jvp(f, (x,), (np.ones(np.shape(x)),))[1]


def reverse(f: Function) -> Function:
    return lambda x: fg.grad(lambda x: fnp.sum(f(x)))(x)


def mapped(f: Function) -> Function:
    """The gradient, computed in a batch of one."""
    return lambda x: fg.vmap(reverse(f))(fnp.expand_dims(fnp.asarray(x), 0))[0]


MODES = {"f": forward, "r": reverse, "v": mapped}


def derivative(f: Function, modes: str) -> Function:
    """The nested derivative with one order for each letter, the first letter innermost."""
    for mode in modes:
        f = MODES[mode](f)
    return f


SEQUENCES = ["f", "r", "v", "ff", "fr", "rf", "rr", "vr", "rv", "fff", "rrr", "frf", "rfr", "rrf"]
every_sequence = together("modes", SEQUENCES)

# Functions with no derivative, or an infinite one, at 0: what a guard has to keep out.
SINGULAR: dict[str, Function] = {
    "sqrt": fnp.sqrt,
    "log": fnp.log,
    "reciprocal": lambda x: 1 / x,
    "division": lambda x: fnp.sin(x) / x,
    "power": lambda x: x**0.5,
    "general power": lambda x: fnp.power(x, x),
    "negative power": lambda x: x**-1.5,
    "arcsin": lambda x: fnp.arcsin(1 - x),
    "arccosh": lambda x: fnp.arccosh(1 + x),
    "arctanh": lambda x: fnp.arctanh(1 - x),
    "cbrt": fnp.cbrt,
    "nested": lambda x: fnp.log(fnp.sqrt(x)) * fnp.exp(1 / x),
    "norm": lambda x: fnp.sqrt(x * x + 0.0),
}
every_singular = together("singular", SINGULAR.values(), ids=SINGULAR)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ---------------------------------------------------------------------------------- guards


@every_sequence
@every_singular
def test_where_keeps_the_other_branch_out(singular: Function, modes: str) -> None:
    def f(x):
        return fnp.where(x > 0, singular(x), x**3 / 6)

    assert_allclose(derivative(f, modes)(0.0), float(len(modes) == 3))
    x = np.array([0.0, 0.5, 0.0])
    inside = derivative(singular, modes)(x[1:2])
    found = derivative(f, modes)(x)
    at_zero = float(len(modes) == 3)
    assert_allclose(found, [at_zero, float(inside[0]), at_zero], rtol=1e-9)


@every_sequence
@every_singular
def test_the_other_way_round(singular: Function, modes: str) -> None:
    def f(x):
        return fnp.where(x <= 0, 2.0, singular(x))

    assert_array_equal(derivative(f, modes)(np.zeros(3)), np.zeros(3))


@every_sequence
def test_the_condition_may_have_fewer_axes(modes: str) -> None:
    x = np.array([[0.0, 0.0], [1.0, 4.0]])

    def f(x):
        return fnp.where(x[:, :1] > 0, fnp.sqrt(x), 0.0)

    found = np.asarray(derivative(f, modes)(x))
    assert_array_equal(found[0], [0.0, 0.0])
    assert_allclose(found[1], derivative(fnp.sqrt, modes)(x[1]), rtol=1e-12)


@every_sequence
def test_the_condition_may_have_more_axes(modes: str) -> None:
    mask = np.array([[False, True], [False, False]])

    def f(x):
        return fnp.where(mask, fnp.sqrt(x), 0.0).sum(0)

    found = np.asarray(derivative(f, modes)(np.array([0.0, 4.0])))
    assert_allclose(found, [0.0, derivative(fnp.sqrt, modes)(4.0)], rtol=1e-12)


@every_sequence
def test_one_number_under_a_mask_that_selects_it_nowhere(modes: str) -> None:
    def f(x):
        return fnp.sum(fnp.where(np.zeros((2, 3), bool), fnp.sqrt(x), 1.0))

    assert_array_equal(derivative(f, modes)(0.0), 0.0)


@every_sequence
def test_one_number_under_a_mask_that_selects_it_somewhere(modes: str) -> None:
    mask = np.array([True, False, True])

    def f(x):
        return fnp.sum(fnp.where(mask, fnp.sqrt(x), 1.0))

    assert_allclose(derivative(f, modes)(4.0), 2 * derivative(fnp.sqrt, modes)(4.0), rtol=1e-12)


@every_sequence
def test_nested_choices(modes: str) -> None:
    def f(x):
        inner = fnp.where(x > 0, fnp.log(x), fnp.sqrt(-x))
        return fnp.where(x == 0, x, inner)

    x = np.array([-4.0, 0.0, 2.0])
    left, right = derivative(lambda x: fnp.sqrt(-x), modes), derivative(fnp.log, modes)
    expected = [float(left(-4.0)), float(len(modes) == 1), float(right(2.0))]
    assert_allclose(derivative(f, modes)(x), expected, rtol=1e-12)


@every_sequence
def test_a_choice_between_two_dangers(modes: str) -> None:
    def f(x):
        a = fnp.where(x > 0, fnp.sqrt(x), 0.0)
        b = fnp.where(x < 0, fnp.sqrt(-x), 0.0)
        return a * b + a + b

    assert_array_equal(derivative(f, modes)(0.0), 0.0)


@every_sequence
def test_guarded_work_behind_work(modes: str) -> None:
    def f(x):
        root = fnp.sqrt(x)  # a root of 0, whose slope is infinite
        hidden = fnp.exp(root) * fnp.cos(root) + root**3
        return fnp.where(x > 1, hidden, fnp.sin(x))

    expected = derivative(fnp.sin, modes)(0.0)
    assert_allclose(derivative(f, modes)(0.0), expected, atol=1e-15)


@every_sequence
def test_sums_of_what_is_absent_and_what_is_not(modes: str) -> None:
    def f(x):
        return fnp.where(x > 0, fnp.sqrt(x), 0.0) + fnp.sin(x) * fnp.where(x > 0, fnp.log(x), 1.0)

    expected = derivative(fnp.sin, modes)(0.0)
    assert_allclose(derivative(f, modes)(0.0), expected, atol=1e-15)


@every_sequence
def test_casts_keep_the_gap(modes: str) -> None:
    def f(x):
        y = fnp.sqrt(x).astype(np.float32).astype(np.float64)
        return fnp.where(x > 0, y, x)

    assert_array_equal(derivative(f, modes)(0.0), float(len(modes) == 1))


# ---------------------------------------------------------------------------------- other choices


CHOICES: dict[str, Function] = {
    "maximum": lambda x: fnp.maximum(fnp.sqrt(x), 1.0),
    "clip": lambda x: fnp.clip(fnp.sqrt(x), 0.5, 2.0),
    "select": lambda x: fnp.select([x > 1, x > 0], [fnp.log(x), fnp.sqrt(x)], 0.0),
    "nan_to_num": lambda x: fnp.nan_to_num(fnp.log(x), neginf=0.0),
    "max": lambda x: fnp.max(fnp.stack([fnp.sqrt(x), x * 0 + 1.0]), axis=0),
}


@together("modes", ["f", "r", "v", "ff", "fr", "rf", "rr"])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_by_value(name: str, modes: str) -> None:
    assert_array_equal(derivative(CHOICES[name], modes)(0.0), 0.0)
    assert_array_equal(derivative(CHOICES[name], modes)(np.zeros(2)), np.zeros(2))


PARTS: dict[str, Function] = {
    "slice": lambda y: y[1:],
    "element": lambda y: y[2],
    "gather": lambda y: y[np.array([1, 2, 2])],
    "mask": lambda y: y[np.array([False, True, True, False])],
    "reverse": lambda y: y[::-1][:-1],
    "reshape": lambda y: y.reshape(2, 2)[:, 1],
    "transpose": lambda y: y.reshape(2, 2).T[1],
    "matrix": lambda y: fnp.triu(y.reshape(2, 2)[::-1]),
    "diagonal": lambda y: fnp.diagonal(y[::-1].reshape(2, 2), 1),
    "flip": lambda y: fnp.flip(y)[:2],
    "roll": lambda y: fnp.roll(y, 1)[2:],
    "concatenate": lambda y: fnp.concatenate([y, y])[1:4],
    "stack": lambda y: fnp.stack([y, y])[:, 1:],
    "broadcast": lambda y: fnp.broadcast_to(y, (3, 4))[:, 1:],
    "pad": lambda y: fnp.pad(y, 1)[2:],
    "repeat": lambda y: fnp.repeat(y, 2)[2:],
    "set": lambda y: y.at[0].set(1.0),
    "cast": lambda y: y.astype(np.float32)[1:].astype(np.float64),
    "take": lambda y: fnp.take(y, np.array([3, 1])),
    "sum of a part": lambda y: fnp.sum(y[1:]),
    "mean of a part": lambda y: fnp.mean(y[1:], keepdims=True),
    "expand": lambda y: y[None, 1:, None],
    "split": lambda y: fnp.split(y, 2)[1],
    "sort": lambda y: fnp.sort(y)[1:],
    "max": lambda y: fnp.max(y),
}


@together("modes", ["f", "r", "v", "ff", "fr", "rf", "rr", "vr", "rrr"])
@together("part", PARTS.values(), ids=PARTS)
@together("singular", ["sqrt", "log", "reciprocal"])
def test_what_is_left_out_has_no_gradient(singular: str, part: Function, modes: str) -> None:
    def f(x):
        return fnp.sum(part(SINGULAR[singular](x)))

    by_value = part in (PARTS["max"], PARTS["sort"])
    if by_value and singular == "reciprocal":  # of which 1/0 is the greatest
        return
    x = np.array([0.0, 1.0, 2.0, 3.0])
    if modes[0] == "f":
        # A direction that moves all elements moves the singular one: hold that.
        rest = derivative(lambda r: f(fnp.concatenate([np.zeros(1), r])), modes)(x[1:])
        assert np.all(np.isfinite(np.asarray(rest)))
        return
    found = np.asarray(derivative(f, modes)(x))
    assert found[0] == 0.0
    assert np.all(np.isfinite(found))


# ---------------------------------------------------------------------------------- numeric zeros


def test_a_product_with_zero_has_second_derivatives() -> None:
    hessian = fg.hessian(lambda v: v[0] * v[1])(np.zeros(2))
    assert_array_equal(hessian, [[0.0, 1.0], [1.0, 0.0]])


@together("modes", ["ff", "fr", "rf", "rr", "rv", "vr"])
def test_a_cotangent_that_happens_to_be_zero_is_a_number(modes: str) -> None:
    assert_array_equal(derivative(lambda x: x * x, modes)(0.0), 2.0)
    assert_array_equal(derivative(lambda x: x * fnp.sin(x), modes)(0.0), 2.0)
    # The cotangent of sin(x) is x * x / 2, zero here, as is its derivative; the third is not.
    third = derivative(lambda x: x * x * fnp.sin(x) / 2, modes + "r")(0.0)
    assert_allclose(third, 3.0)


def test_the_pullback_of_zero_differentiates_in_its_cotangent() -> None:
    _, pullback = fg.vjp(lambda x: x**3, 2.0)
    assert_array_equal(fg.grad(lambda ct: pullback(ct)[0])(0.0), 12.0)


def test_a_selected_cotangent_that_is_zero_is_a_number() -> None:
    def f(x):
        return fnp.where(x >= 0, x * x, 0.0)

    for modes in ("ff", "fr", "rf", "rr"):
        assert_array_equal(derivative(f, modes)(0.0), 2.0)


def test_zero_times_infinity_that_was_asked_for_is_nan() -> None:
    # 0 * sqrt(x) has a cotangent for sqrt(x), of the value 0: nothing was masked here.
    assert np.isnan(float(fg.grad(lambda x: 0.0 * fnp.sqrt(x))(0.0)))


# ---------------------------------------------------------------------------------- conventions


KINKS: dict[str, tuple[Function, float]] = {
    "abs": (abs, 0.0),
    "relu": (fg.nn.relu, 0.0),
    "maximum with zero": (lambda x: fnp.maximum(x, 0.0), 0.5),
    "tie": (lambda x: fnp.maximum(x, 2 * x), 1.5),
    "min tie": (lambda x: fnp.minimum(x, -x), 0.0),
    "hypot": (lambda x: fnp.hypot(x, x), 0.0),
    "sign": (fnp.sign, 0.0),
}


@together("name", KINKS)
def test_subgradients_of_least_norm(name: str) -> None:
    f, expected = KINKS[name]
    for modes in ("f", "r", "v"):
        assert_allclose(derivative(f, modes)(0.0), expected)


def test_the_magnitude_of_nothing_has_gradient_zero() -> None:
    assert_array_equal(fg.grad(abs)(0j), 0j)
    assert_array_equal(fg.grad(lambda v: fnp.std(v))(np.ones(3)), np.zeros(3))


def test_ties_share_equally() -> None:
    assert_array_equal(fg.grad(fnp.max)(np.array([1.0, 2.0, 2.0, 2.0])), [0, *[1 / 3] * 3])
    found = fg.jvp(fnp.max, (np.ones(2),), (np.array([1.0, 3.0]),))[1]
    assert_array_equal(found, 2.0)


# ---------------------------------------------------------------------------------- together


def test_a_guarded_hessian() -> None:
    def f(v):
        r2 = fnp.sum(v * v)
        return fnp.where(r2 > 0, fnp.sqrt(r2) * fnp.log(r2), 0.0)

    for hessian in (fg.hessian(f), fg.jacrev(fg.jacrev(f)), fg.jacfwd(fg.jacfwd(f))):
        assert_array_equal(hessian(np.zeros(2)), np.zeros((2, 2)))
        assert np.all(np.isfinite(np.asarray(hessian(np.array([3.0, 4.0])))))


def test_batches_of_guarded_gradients() -> None:
    def f(x):
        return fnp.where(x > 0, fnp.sqrt(x), 0.0)

    x = np.array([0.0, 1.0, 4.0, -1.0])
    first = [0.0, 0.5, 0.25, 0.0]
    assert_allclose(fg.vmap(fg.grad(f))(x), first)
    assert_allclose(fg.grad(lambda x: fnp.sum(fg.vmap(f)(x)))(x), first)
    assert_allclose(fg.vmap(fg.vmap(fg.grad(f)))(x.reshape(2, 2)), np.reshape(first, (2, 2)))
    second = [0.0, -0.25, -1 / 32, 0.0]
    assert_allclose(fg.vmap(fg.grad(fg.grad(f)))(x), second)
    assert_allclose(fg.vmap(fg.hessian(f))(x), second)


def test_guards_inside_calls_with_rules() -> None:
    def f(x):
        return fnp.where(x > 0, fnp.sqrt(x), x)

    for modes in ("f", "r", "v", "rr", "fr"):
        expected = derivative(f, modes)(0.0)
        assert_array_equal(expected, float(len(modes) == 1))
        assert_array_equal(derivative(fg.checkpoint(f), modes)(0.0), expected)

    def outside(x):
        return fnp.where(x > 0, fg.checkpoint(fnp.sqrt)(x), x)

    for modes in ("f", "r", "v", "rr", "fr"):
        assert_array_equal(derivative(outside, modes)(0.0), float(len(modes) == 1))


def test_linearize_keeps_gaps_out() -> None:
    def f(x):
        return fnp.where(x > 0, fnp.sqrt(x), 0.0)

    _, push = fg.linearize(f, np.array([0.0, 4.0]))
    assert_array_equal(push(np.ones(2)), [0.0, 0.25])


MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


@pytest.mark.parametrize(
    "product",
    [
        lambda x: fnp.sum(MATRIX @ fnp.sqrt(x)),
        lambda x: fnp.sum(fnp.sqrt(x) @ MATRIX.T),
        lambda x: fnp.sum(fnp.outer(fnp.log(x), x)),
        lambda x: fnp.einsum("i,i->", fnp.log(x), x),
    ],
    ids=["matrix-vector", "vector-matrix", "outer", "einsum"],
)
def test_gaps_go_through_products(product) -> None:
    x = np.array([0.0, 1.0, 2.0])
    guarded = lambda x: fnp.where(False, product(x), fnp.sum(x))  # noqa: E731
    assert_array_equal(fg.grad(guarded)(x), np.ones(3))
    assert_array_equal(fg.hessian(guarded)(x), np.zeros((3, 3)))


def test_gaps_go_through_the_rows_of_a_product() -> None:
    x = np.array([[0.0, 1.0], [4.0, 1.0]])
    f = lambda x: fnp.sum(fnp.where([[False], [True]], fnp.sqrt(x) @ MATRIX[:, :2], 0.0))  # noqa: E731
    expected = np.array([[0.0, 0.0], [0.25 * 3.0, 0.5 * 9.0]])
    assert_allclose(fg.grad(f)(x), expected)


def test_a_custom_rule_that_was_not_selected_does_not_run() -> None:
    f = fg.custom_vjp(fnp.sqrt)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (0.5 * ct / fnp.sqrt(x),))
    assert float(fg.grad(lambda x: fnp.where(False, f(x), x))(0.0)) == 1.0


def test_a_rule_of_ones_own_that_no_example_reaches() -> None:
    @fg.custom_vjp
    def root(x: Any) -> Any:
        return fnp.sqrt(x)

    root.defvjp(lambda x: (root(x), x), lambda x, ct: (ct / (2 * fnp.sqrt(x)),))

    def safe(x: Any) -> Any:
        return fnp.where(x > 0, root(x), 0.0)

    slope = fg.grad(safe)
    for x in (0.0, 4.0):
        expected = slope(x)
        np.testing.assert_array_equal(fg.jit(slope)(x), expected)
        np.testing.assert_array_equal(fg.vmap(slope)(np.array([x, 4.0]))[0], expected)
        np.testing.assert_array_equal(fg.grad(fg.jit(safe))(x), expected)
    np.testing.assert_array_equal(fg.vmap(slope)(np.array([0.0, 4.0])), [0.0, 0.25])


# ---------------------------------------------------------------------------------- masks


SELECTING = [
    (primitive, sample)
    for primitive in every_primitive()
    if isinstance(primitive.differential, Partials) and primitive.differential.selects
    for sample in primitive.samples()
]


@together(("primitive", "sample"), SELECTING)
def test_masks_are_of_flags(primitive: Primitive, sample: Sample) -> None:
    """Sums of masks show where a term is present; as numbers, 1 and -1 would cancel."""
    assert isinstance(primitive.differential, Partials)
    values = [np.asarray(arg) for arg in sample.args]
    out = np.asarray(primitive.evaluate(*values, **sample.params))
    if primitive.differential.reduces:
        out = primitive.evaluate(*values, **{**sample.params, "keepdims": True})
    for factor in primitive.differential.factors:
        if callable(factor):
            made = factor(out, *values, **sample.params)
            mask = made.mask if isinstance(made, Selection) else made
            assert np.asarray(mask).dtype == np.bool_


CONDITIONS = (
    np.array([True, True, False]),
    np.array([1.0, -1.0, 0.0]),
    np.array([np.nan, -0.5, -0.0], np.float32),
    np.array([1, -1, 0]),
    np.array([1j, -1j, 0]),
)


@together("condition", CONDITIONS, ids=lambda each: each.dtype.name)
@together("way", [fg.jit, fg.checkpoint, lambda f: f])
def test_numbers_choose_as_flags_do(condition: Any, way: Any) -> None:
    def chosen(c: Any, x: Any, y: Any) -> Any:
        return fnp.where(
            fnp.logical_not(c), fnp.exp(x[:3]), fnp.where(True, x[1:], 0.0) + fnp.sin(y)
        )

    def gradients(c: Any) -> Any:
        made = way(chosen)

        def loss(x: Any, y: Any) -> Any:
            return fnp.sum(made(c, x, y) * x[:3]) + fnp.sum(x[::2])

        gradient = fg.grad(loss, argnums=(0, 1))
        return gradient, fg.jit(gradient), fg.vmap(gradient, in_axes=None, axis_size=2)

    x, y = np.array([0.5, -1.0, 2.0, 0.25]), 2.0
    wanted = gradients(condition != 0)[0](x, y)
    for gradient in gradients(condition):
        for own, other in zip(gradient(x, y), wanted, strict=True):
            assert_allclose(np.asarray(own), np.broadcast_to(other, np.shape(own)))


@together(
    ("subscripts", "first", "second"),
    [
        ("ij,jk->ik", (4, 3), (3, 5)),
        ("bij,jk->bik", (2, 4, 3), (3, 5)),
        ("bij,bjk->bik", (2, 4, 3), (2, 3, 5)),
        ("bij,bjk->bik", (1, 4, 3), (2, 3, 5)),
        ("abij,bjk->abik", (2, 1, 4, 3), (3, 3, 5)),
        ("bij,kbj->ikb", (2, 4, 3), (5, 2, 3)),
    ],
)
def test_products_ignore_what_no_chosen_element_needs(subscripts, first, second):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(first), rng.standard_normal(second)
    is_matmul = subscripts.endswith("ik")

    def product(x, y):
        return fnp.matmul(x, y) if is_matmul else fnp.einsum(subscripts, x, y)

    chosen = rng.random(product(x, y).shape) < 0.15
    weights = rng.standard_normal(chosen.shape)

    def loss(x, y):
        return fnp.sum(fnp.where(chosen, product(x, y) * weights, 0))

    def count(x, y):
        return fnp.sum(product(x, y) * chosen)

    needed = [np.asarray(n) > 0 for n in fg.grad(count, (0, 1))(np.ones(first), np.ones(second))]
    assert not all(n.all() for n in needed)
    holes = [np.where(n, z, np.nan) for n, z in zip(needed, (x, y), strict=True)]
    zeros = [np.where(n, z, 0.0) for n, z in zip(needed, (x, y), strict=True)]
    slope = fg.grad(loss, (0, 1))
    for transformed in (slope, fg.jit(slope)):
        for found, expected in zip(transformed(*holes), slope(*zeros), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-14)
