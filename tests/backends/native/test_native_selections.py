"""Parts of orders: selected in one pass, with the places of a stable sort."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.sort_planning import selects
from funcgrad._core.structure.structures import Ordering
from funcgrad._primitives.ranking import places_of_ranked, ranked
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.together import together

Array = np.ndarray[Any, Any]


def lines(kind: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """Lines along the last axis but one of a kind that selections find hard."""
    rng = np.random.default_rng(11)
    if kind == "special":
        if np.dtype(dtype).kind == "f":
            special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0], dtype)
        else:
            info = np.iinfo(dtype)
            special = np.array([info.min, info.max, 0, 1], dtype)
        return rng.choice(special, shape)
    x = rng.standard_normal(shape) * 50
    if kind == "equal":
        x = np.zeros(shape)
    if kind in ("rising", "falling"):
        x = np.sort(x, 0 if len(shape) == 1 else 1)
    if kind == "falling":
        x = -x
    if kind == "ties":
        x = np.copysign(rng.integers(0, 4, shape), rng.standard_normal(shape))
    return (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)


def part(x: Any, axis: int, descending: bool, count: int, last: bool) -> Any:
    order = fnp.moveaxis(fnp.argsort(x, axis=axis, descending=descending), axis, 0)
    return order[x.shape[axis] - count :] if last else order[:count]


@together("dtype", ["f4", "i4", "f8", "f2", "u8", "i2"], quick=2)
def test_places_are_the_stable_sort_s(dtype: str) -> None:
    shapes = [((333,), 0, 3), ((3, 130), 1, 20), ((2, 90, 3), 1, 5), ((5, 64, 1), 1, 1)]
    for number, (shape, axis, count) in enumerate(shapes):
        for k in range(4):
            if number and (k + number) % 2:
                continue
            options = (axis, k % 2 == 1, count, k >= 2)
            f = lambda x, options=options: part(x, *options)  # noqa: E731
            runs: dict[str, Any] = {name: fg.jit(f, backend=name) for name in ("native", "numpy")}
            for kind in ("plain", "special", "equal", "rising", "falling", "ties"):
                x = lines(kind, dtype, shape)
                for name, run in runs.items():
                    told = f"{kind} {name} {shape} {options}"
                    assert_array_equal(run(x), f(fg.tensor(x)), err_msg=told)


def test_lines_of_which_few_elements_are_wanted_are_selected() -> None:
    assert selects(Ordering(1, False, True, 10), (64, 1000))
    assert selects(Ordering(1, True, True, 10, True), (64, 1000, 1))
    assert not selects(Ordering(1, False, True, 10), (64, 50))
    assert selects(Ordering(1, False, True, 10), (1, 100))
    assert not selects(Ordering(1, False, True, 10), (64, 100))  # a network sorts many at once
    assert not selects(Ordering(0, False, True, 10), (1000, 64))
    assert not selects(Ordering(1, False, True), (64, 1000))


@pytest.mark.parametrize(
    "wanted",
    [
        lambda x: fnp.argsort(x)[:5],
        lambda x: fnp.argsort(x)[-5:],
        lambda x: fnp.argsort(x)[::-1][:5],
        lambda x: fnp.argsort(x)[-5:][::-1],
        lambda x: fnp.argsort(-x)[:5],
        lambda x: fnp.flip(fnp.argsort(x))[:1],
        lambda x: fnp.take_along_axis(x, fnp.argsort(x, descending=True)[:5], axis=0),
    ],
)
def test_users_ways_to_the_greatest_elements(wanted: Any) -> None:
    x = np.random.default_rng(3).standard_normal(500)
    run = fg.jit(wanted, backend="native")
    assert_array_equal(run(x), wanted(fg.tensor(x)))
    lowered = run.lower(x)
    assert "part_of_order" in str(lowered.optimized)
    assert lowered.source.splitlines()[0] == "; called back: nothing"


@pytest.mark.parametrize(
    "wanted",
    [
        lambda x: fnp.sort(x)[:5],
        lambda x: fnp.sort(x)[-5:],
        lambda x: fnp.sort(x)[::-1][:5],
        lambda x: fnp.sort(x)[7],
        lambda x: fnp.sort(x, descending=True)[3],
        lambda x: fg.grad(lambda x: fnp.sum(fnp.sort(x)[:5] ** 2))(x),
        lambda x: fg.grad(lambda x: fnp.sort(x)[-2] ** 2)(x),
        lambda x: fg.vmap(lambda x: fnp.sort(x)[:3])(fnp.reshape(x, (2, 250))),
    ],
)
def test_few_elements_in_order_are_selected(wanted: Any) -> None:
    x = np.random.default_rng(4).standard_normal(500)
    run = fg.jit(wanted, backend="native")
    assert_array_equal(run(x), wanted(fg.tensor(x)))
    lowered = run.lower(x)
    assert "part_of_order" in str(lowered.optimized)
    assert "order_of_sorted" not in str(lowered.optimized)
    assert lowered.source.splitlines()[0] == "; called back: nothing"


@pytest.mark.parametrize("size", [3, 70, 500])
@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (lambda x: fnp.partition(x, 2)[..., :3], slice(3)),
        (lambda x: fnp.partition(x, -2)[..., -2:], slice(-2, None)),
        (lambda x: fnp.take_along_axis(x, fnp.argpartition(x, 1)[..., :2], -1), slice(2)),
        (lambda x: fnp.partition(x, 2)[..., 2], 2),
    ],
)
def test_ends_of_partitions_are_machine_code(wanted: Any, places: Any, size: int) -> None:
    x = np.random.default_rng(5).standard_normal((2, size))
    run = fg.jit(wanted, backend="native")
    expected = np.sort(x)[:, places]
    assert_array_equal(np.sort(run(x)) if expected.ndim > 1 else run(x), expected)
    assert run.lower(x).source.splitlines()[0] == "; called back: nothing"


def test_selections_in_batches_loops_and_gradients() -> None:
    def top(x: Any) -> Any:
        return fnp.sum(fnp.take_along_axis(x, fnp.argsort(x)[-4:], axis=0) ** 2)

    x = np.random.default_rng(4).standard_normal((3, 200))
    for f, argument in (
        (fg.vmap(top), x),
        (fg.grad(top), x[0]),
        (fg.vmap(fg.grad(top)), x),
        (lambda x: fg.map(top, x), x),
    ):
        got, expected = fg.jit(f, backend="native")(argument), f(argument)
        np.testing.assert_allclose(got, expected, rtol=1e-14)


def at_ranks(x: Any, axis: int, kth: tuple[int, ...]) -> Any:
    """The elements with some ranks, and their places."""
    values = ranked(x, axis=axis, kth=kth)
    return values, places_of_ranked(x, values, axis=axis, kth=kth)


@together("kind", ["plain", "special", "equal", "rising", "falling", "ties"])
@together("dtype", ["f4", "u8", "i2", "?", "f8", "f2", "i4", "u1"], quick=4)
def test_elements_at_ranks_are_the_stable_sort_s(kind: str, dtype: str) -> None:
    many = dtype in ("f4", "f8") and kind in ("special", "ties")
    for shape, axis in (((700,), 0), ((3, 65), 1), ((2, 1500, 1), 1), ((70, 2), 0))[
        : 4 if many else 1
    ]:
        if dtype == "?":
            x = lines(kind if kind != "special" else "ties", "i2", shape) > 0
        else:
            x = lines(kind, dtype, shape)
        size = shape[axis]
        kth = (0, 1, size // 3, size // 2, size - 1)
        order = np.take(np.argsort(x, axis, kind="stable"), kth, axis)
        expected = np.take_along_axis(x, order, axis), order
        native: Any = fg.jit(lambda x, a=axis, kth=kth: at_ranks(x, a, kth), backend="native")
        for got in (at_ranks(x, axis, kth), native(x)):
            for one, other in zip(got, expected, strict=True):
                assert_array_equal(one, other, err_msg=f"{shape} {axis}")
        assert native.lower(x).source.splitlines()[0] == "; called back: nothing"


@pytest.mark.parametrize("machine", OTHERS, ids=str)
def test_ranks_on_other_processors(machine: Any) -> None:
    for dtype in ("f4", "f8"):
        x = lines("special", dtype, (1000,))
        out = machine_code_of(lambda x: ranked(x, axis=0, kth=(3, 500)), x, machine=machine)
        assert_array_equal(out[0], np.sort(x)[[3, 500]])


def test_bounds_that_do_not_narrow_a_line_down() -> None:
    """A sample that never holds what is wanted, and keys that lie side by side."""
    x = np.ones(64 * 40)
    x[1::40], x[2::40] = np.nextafter(1.0, 2.0), -np.inf
    kth = (0, 63, 64, 1280, 2496, 2559)
    run: Any = fg.jit(lambda x: ranked(x, axis=0, kth=kth), backend="native")
    assert_array_equal(run(x), np.sort(x)[[*kth]])
    wide = np.array([2.0**k * s for k in range(-640, 640) for s in (-1.0, 1.0)])
    assert_array_equal(run(wide), np.sort(wide)[[*kth]])


@pytest.mark.parametrize(
    "wanted",
    [
        fnp.median,
        lambda x: fnp.quantile(x, [0.1, 0.5, 0.9]),
        lambda x: fnp.percentile(x, 37, method="higher"),
        lambda x: fnp.median(fnp.reshape(x, (2, 1000)), axis=1),
        fg.grad(lambda x: fnp.quantile(x, 0.3) * fnp.median(x)),
        fg.vmap(fg.grad(fnp.median)),
        fg.grad(lambda x: fnp.sum(fnp.partition(x, 9)[:9] ** 2)),
    ],
)
def test_medians_of_long_lines_are_not_called_back(wanted: Any) -> None:
    x = np.random.default_rng(5).permutation(2000) / 7 - 90.0
    x = x.reshape(2, 1000) if "vmap" in str(wanted) else x
    run = fg.jit(wanted, backend="native")
    np.testing.assert_allclose(run(x), wanted(fg.tensor(x)), rtol=1e-14)
    lowered = run.lower(x)
    assert lowered.source.splitlines()[0] == "; called back: nothing"
    assert "sort x" not in str(lowered.optimized)
