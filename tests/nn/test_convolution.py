"""Convolutions and pooling agree with loops over places, in every mode."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import correlate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.every_mode import assert_every_mode
from tests.together import together


def slow_conv(x, kernel, stride, padding, dilation, groups):
    """The definition, number by number."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    filters, channels, *window = kernel.shape
    places = [
        max((size - d * (w - 1) - 1) // s + 1, 0)
        for size, w, s, d in zip(x.shape[2:], window, stride, dilation, strict=True)
    ]
    out = np.zeros((len(x), filters, *places), np.result_type(x, kernel))
    for n, o, *place in np.ndindex(out.shape):
        first = o // (filters // groups) * channels
        for c, *offset in np.ndindex(kernel.shape[1:]):
            at = [p * s + w * d for p, s, w, d in zip(place, stride, offset, dilation, strict=True)]
            out[(n, o, *place)] += x[(n, first + c, *at)] * kernel[(o, c, *offset)]
    return out


@st.composite
def convolutions(draw: st.DrawFn) -> Any:
    rank = draw(st.integers(1, 2))
    groups = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    window, stride, dilation = each(1, 3), each(1, 3), each(1, 2)
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank))
    sizes = tuple(
        (w - 1) * d + 1 + extra for w, d, extra in zip(window, dilation, each(0, 4), strict=True)
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    filters, channels = groups * draw(st.integers(1, 2)), draw(st.integers(1, 2))
    x = rng.standard_normal((draw(st.integers(0, 2)), channels * groups, *sizes))
    kernel = rng.standard_normal((filters, channels, *window))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return x, kernel, options


@given(convolutions())
def test_convolutions_are_what_loops_compute(case: Any) -> None:
    x, kernel, options = case
    found = nn.conv(x, kernel, **options)
    expected = slow_conv(x, kernel, *options.values())
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    bias = np.arange(1.0, 1.0 + len(kernel))
    shifted = nn.conv(x, kernel, bias, **options)
    np.testing.assert_allclose(
        shifted, expected + bias.reshape(-1, *(1,) * (x.ndim - 2)), rtol=1e-12, atol=1e-12
    )


@given(convolutions())
def test_transposed_convolutions_are_derivatives_of_convolutions(case: Any) -> None:
    x, kernel, options = case
    out, pullback = fg.vjp(lambda x: nn.conv(x, kernel, **options), x)
    reach = [(w - 1) * d for w, d in zip(kernel.shape[2:], options["dilation"], strict=True)]
    total = [size + a + b for size, (a, b) in zip(x.shape[2:], options["padding"], strict=True)]
    lost = [(n - r - 1) % s for n, r, s in zip(total, reach, options["stride"], strict=True)]
    found = nn.conv_transpose(out, kernel, output_padding=lost, **options)
    np.testing.assert_allclose(found, pullback(out)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@given(convolutions())
def test_every_mode_of_convolutions(case: Any) -> None:
    x, kernel, options = case
    if x.size:
        assert_every_mode(lambda x, kernel: fnp.sin(nn.conv(x, kernel, **options)), x, kernel)


@together(("size", "window", "stride"), [*product([4, 5, 7], [1, 2, 3], [1, 2, 3])])
def test_same_has_as_many_places_as_strides_fit(size: int, window: int, stride: int) -> None:
    x, kernel = np.arange(1.0, size + 1).reshape(1, 1, size), np.ones((1, 1, window))
    found = nn.conv(x, kernel, stride=stride, padding="same")
    assert found.shape == (1, 1, -(-size // stride))
    total = max((found.shape[2] - 1) * stride + window - size, 0)
    expected = slow_conv(x, kernel, (stride,), ((total // 2, total - total // 2),), (1,), 1)
    np.testing.assert_array_equal(found, expected)
    if window <= size:
        np.testing.assert_array_equal(
            nn.conv(x, kernel, padding="valid"), nn.conv(x, kernel, padding=0)
        )
    assert (
        nn.conv_transpose(x, kernel, stride=stride, padding="same").shape[2]
        == max(size * stride, 0)
        or window < stride
    )


def test_dtypes_and_single_examples() -> None:
    for dtype in ("e", "f", "d", "F", "D", "h"):
        x, kernel = np.ones((2, 3, 5), dtype), np.ones((4, 3, 2), dtype)
        found = nn.conv(x, kernel)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, np.full((2, 4, 4), 6, dtype))
        np.testing.assert_array_equal(nn.conv(x[0], kernel), found[0])
        np.testing.assert_array_equal(
            nn.conv_transpose(x[0], kernel[:3]), nn.conv_transpose(x, kernel[:3])[0]
        )
    z = nn.conv(1j * np.ones((1, 1, 3)), 1j * np.ones((1, 1, 2)))
    np.testing.assert_array_equal(z, np.full((1, 1, 2), -2.0))
    assert nn.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2), "f")).dtype == float


def test_integers_and_complex_numbers_are_scipys() -> None:
    x, kernel = np.arange(40).reshape(5, 8) % 7, np.arange(6).reshape(2, 3) - 2
    for a, b in ((x, kernel), (x + 1j, 1j * kernel - 2.0)):
        expected = correlate(a, b.conj(), "valid")  # which conjugates the second one itself
        np.testing.assert_allclose(nn.conv(a[None, None], b[None, None])[0, 0], expected)


def test_empty_arrays() -> None:
    for shape, kernel, expected in (
        ((0, 2, 5), (3, 2, 2), (0, 3, 4)),  # no examples
        ((2, 0, 5), (3, 0, 2), (2, 3, 4)),  # no channels
        ((2, 2, 5), (0, 2, 2), (2, 0, 4)),  # no filters
        ((2, 2, 0), (3, 2, 2), (2, 3, 0)),  # no numbers
        ((2, 2, 0, 5), (3, 2, 1, 9), (2, 3, 0, 0)),
    ):
        x, weights = np.ones(shape), np.ones(kernel)
        np.testing.assert_array_equal(nn.conv(x, weights), np.zeros(expected))
        slopes = fg.grad(lambda x, k: fnp.sum(nn.conv(x, k)), argnums=(0, 1))(x, weights)
        assert [each.shape for each in slopes] == [shape, kernel]
        assert not any(map(np.any, slopes))


# ----------------------------------------------------------------------------------------- pooling


def slow_pool(x, window, stride, padding, filler, f):
    rank = len(window)
    x = np.pad(x, ((0, 0),) * (x.ndim - rank) + padding, constant_values=filler)
    views = np.lib.stride_tricks.sliding_window_view(x, window, tuple(range(-rank, 0)))
    steps: Any = tuple(slice(None, None, s) for s in stride)
    whole: Any = (slice(None),) * rank
    return f(views[(..., *steps, *whole)], tuple(range(-rank, 0)))


@pytest.mark.slow
@given(st.integers(1, 2), st.data(), st.integers(0, 99))
def test_pooling_is_what_loops_compute(rank: int, data: st.DataObject, seed: int) -> None:
    window, stride = (tuple(data.draw(st.integers(1, 3)) for _ in range(rank)) for _ in range(2))
    padding = tuple((data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))) for _ in window)
    sizes = tuple(w + data.draw(st.integers(0, 3)) for w in window)
    x = np.random.default_rng(seed).integers(-3, 4, (2, 1, *sizes)).astype(float)
    options: Any = {"stride": stride, "padding": padding}
    np.testing.assert_array_equal(
        nn.max_pool(x, window, **options), slow_pool(x, window, stride, padding, -np.inf, np.max)
    )
    sums = slow_pool(x, window, stride, padding, 0.0, np.sum)
    counts = slow_pool(np.ones_like(x), window, stride, padding, 0.0, np.sum)
    np.testing.assert_allclose(nn.avg_pool(x, window, **options), sums / np.prod(window))
    if counts.all():
        np.testing.assert_allclose(
            nn.avg_pool(x, window, count_include_pad=False, **options), sums / counts
        )
    y = x + np.random.default_rng(seed).uniform(0, 0.1, x.shape)  # no ties
    for pool in (nn.max_pool, nn.avg_pool):
        f = lambda x, pool=pool: fnp.sum(fnp.sin(pool(x, window, **options)))  # noqa: E731
        if pool is nn.avg_pool or np.all(np.isfinite(pool(y, window, **options))):
            assert_every_mode(f, y)


def test_ties_of_a_window_share_equally() -> None:
    slopes = fg.grad(lambda x: fnp.sum(nn.max_pool(x, (2,))))(np.array([[[3.0, 3.0, 1.0, 2.0]]]))
    np.testing.assert_array_equal(slopes, [[[0.5, 0.5, 0.0, 1.0]]])
    square = fg.grad(lambda x: fnp.sum(nn.max_pool(x, (2, 2))))(np.zeros((1, 1, 2, 2)))
    np.testing.assert_array_equal(square, np.full((1, 1, 2, 2), 0.25))
    three = np.array([[[[1.0, 1.0], [1.0, 0.0]]]])
    shares = fg.grad(lambda x: fnp.sum(nn.adaptive_max_pool(x, 1)))(three)
    np.testing.assert_allclose(shares, three / 3)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_windows(special: float) -> None:
    x = np.arange(42.0).reshape(1, 1, 6, 7)
    x[0, 0, 2, 3] = special
    widths: Any = ((1, 0), (0, 2))
    for pool, filler, f in ((nn.max_pool, -np.inf, np.max), (nn.avg_pool, 0.0, np.mean)):
        found = pool(x, (3, 2), stride=(2, 1), padding=widths)
        expected = slow_pool(x, (3, 2), (2, 1), widths, filler, f)
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    for adaptive, f in ((nn.adaptive_max_pool, np.max), (nn.adaptive_avg_pool, np.mean)):
        found = adaptive(x, (4, 3))
        rows, columns = [(0, 2), (1, 3), (3, 5), (4, 6)], [(0, 3), (2, 5), (4, 7)]
        parts = [[f(x[0, 0, a:b, c:d]) for c, d in columns] for a, b in rows]
        np.testing.assert_allclose(found, [[parts]], rtol=1e-15)


def test_the_least_number_of_all_is_the_greatest_of_its_window() -> None:
    x = np.full((1, 1, 4), -np.inf)
    for pool in (
        lambda x: nn.max_pool(x, (2,), padding=1),
        lambda x: nn.adaptive_max_pool(x, (3,)),
    ):
        np.testing.assert_array_equal(pool(x), np.full((1, 1, 3), -np.inf))
        np.testing.assert_array_equal(pool(np.full((1, 1, 4), -128, np.int8)), [[[-128] * 3]])


def test_means_are_rounded_once() -> None:
    x = np.full((1, 1, 3, 3), 60000.0, np.float16)
    for found in (nn.avg_pool(x, 2), nn.adaptive_avg_pool(x, 2)):
        assert found.dtype == np.float16
        assert (np.asarray(found) == 60000.0).all()
    tiny = np.full((1, 1, 4, 4), 100, np.int8)
    for found in (nn.avg_pool(tiny, 2), nn.adaptive_avg_pool(tiny, 3)):
        assert found.dtype == float
        assert (np.asarray(found) == 100.0).all()


def test_pooling_of_complex_numbers_and_truth_values() -> None:
    z = np.array([[[1.0 + 2.0j, 3.0, 5.0j]]])
    np.testing.assert_array_equal(nn.avg_pool(z, (2,), stride=1), [[[2.0 + 1.0j, 1.5 + 2.5j]]])
    np.testing.assert_array_equal(nn.adaptive_avg_pool(z, (2,)), [[[2.0 + 1.0j, 1.5 + 2.5j]]])
    flags = np.array([[[True, False, False]]])
    np.testing.assert_array_equal(nn.max_pool(flags, (2,), stride=1), [[[True, False]]])
    np.testing.assert_array_equal(nn.adaptive_max_pool(flags, (2,)), [[[True, False]]])


def test_what_no_window_reaches_is_absent() -> None:
    x = np.array([[[1.0, 2.0, 0.0]]])
    for pool in (nn.max_pool, nn.avg_pool):
        slopes = fg.grad(lambda x, pool=pool: fnp.sum(pool(fnp.sqrt(x), (2,))))(x)
        assert slopes[0, 0, 2] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [*product([1, 4, 5, 7], [1, 2, 3, 4])])
def test_adaptive_pooling(size: int, count: int) -> None:
    x = np.random.default_rng(size).standard_normal((2, size, 3))
    edges = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    for pool, f in ((nn.adaptive_max_pool, np.max), (nn.adaptive_avg_pool, np.mean)):
        found = pool(x, (count, 2))
        for i, (a, b) in enumerate(edges):
            for j, (c, d) in enumerate([(0, 2), (1, 3)]):
                np.testing.assert_allclose(found[:, i, j], f(x[:, a:b, c:d], (1, 2)), rtol=1e-12)
        assert_every_mode(lambda x, p=pool: fnp.sin(p(x, (count, 2))), x)


def test_pooling_keeps_what_it_is_given() -> None:
    assert np.isnan(nn.max_pool(np.array([[[np.nan, 1.0, 2.0, 3.0]]]), (2,))[0, 0, 0])
    assert nn.max_pool(np.array([[[1, -5]]], np.int8), (1,), padding=1).tolist() == [
        [[-128, 1, -5, -128]]
    ]
    assert nn.avg_pool(np.array([[[1, 2]]]), (2,)).dtype == float
    assert nn.avg_pool(np.ones((1, 1, 4), "f"), (2,)).dtype == np.float32
    assert nn.adaptive_avg_pool(np.ones((1, 1, 4), "f"), (2,)).dtype == np.float32
    assert nn.max_pool(np.ones((0, 2, 4)), (2,)).shape == (0, 2, 2)


@together(
    ("call", "kind", "words"),
    [
        (lambda: nn.conv(np.ones((1, 2, 5)), np.ones((1, 3, 2))), ShapeError, "x has 2 channels"),
        (lambda: nn.conv(np.ones(5), np.ones((1, 3, 2))), ShapeError, "do not fit"),
        (lambda: nn.conv(np.ones((1, 1, 5)), np.ones(3)), ShapeError, "do not fit"),
        (
            lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 2, 2)), groups=2),
            ShapeError,
            "3 filters of the kernel cannot be divided into 2 groups",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), stride=(1, 2)),
            ShapeError,
            "stride has 2 integers",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), stride=0),
            ShapeError,
            "stride has to be at least 1",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), padding="full"),
            ArgumentError,
            "'valid', 'same', or integers",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), padding=[(1, 1), (1, 1)]),
            ShapeError,
            "2 pairs for 1 axis.",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), dilation="2"),  # type: ignore[arg-type]
            DtypeError,
            "dilation has to be an integer",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((2, 1, 2)), [1.0]),
            ShapeError,
            "the bias has the shape (1,)",
        ),
        (lambda: nn.conv(np.ones((1, 1, 5), bool), np.ones((1, 1, 2))), DtypeError, "booleans"),
        (
            lambda: nn.conv_transpose(np.ones((1, 2, 5)), np.ones((3, 1, 2))),
            ShapeError,
            "x has 2 channels, and the kernel takes 3",
        ),
        (
            lambda: nn.conv_transpose(np.ones((1, 1, 1)), np.ones((1, 1, 1)), padding=3),
            ShapeError,
            "negative size",
        ),
        (lambda: nn.max_pool(np.ones((1, 1, 2)), (3,)), ShapeError, "larger than the sizes"),
        (
            lambda: nn.conv(np.ones((1, 1, 9, 4)), np.ones((1, 1, 2, 3)), padding=1, dilation=3),
            ShapeError,
            "window of (2, 3) with the dilation (3, 3) is larger than the sizes (9, 4) with the",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 0))),
            ShapeError,
            "a window of (0,) is empty",
        ),
        (
            lambda: nn.conv(np.ones((1, 1, 5)), np.ones((1, 1, 2)), groups=0),
            ShapeError,
            "cannot be divided into 0 groups",
        ),
        (lambda: nn.max_pool(np.ones(4), 2), ShapeError, "does not fit an array of shape (4,)"),
        (lambda: nn.avg_pool(np.ones((1, 1, 4)), (2, 2, 2, 2)), ShapeError, "does not fit"),
        (lambda: nn.adaptive_avg_pool(np.ones((1, 1, 0)), (1,)), ShapeError, "leave nothing"),
        (lambda: nn.adaptive_max_pool(np.ones((1, 1, 4)), (0,)), ShapeError, "at least 1"),
    ],
)
def test_bad_input_is_explained(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


@together("pool", [nn.max_pool, nn.avg_pool, nn.adaptive_max_pool, nn.adaptive_avg_pool])
@together("size", [2, np.int64(2), fg.tensor(2)])
def test_a_single_number_for_three_axes_is_refused(pool: Any, size: Any) -> None:
    """An image and a batch of signals both have three axes, so one number is ambiguous."""
    image = np.arange(48.0).reshape(3, 4, 4)
    words = r"=2 is ambiguous for an array of shape \(3, 4, 4\).*Write \w+=\(2,\) .*=\(2, 2\) for"
    with pytest.raises(ShapeError, match=words):
        pool(image, size)
    with pytest.raises(ShapeError, match=words):  # an example of a batch is one image
        fg.vmap(lambda x: pool(x, size))(image[None])
    assert pool(image, (2, 2)).shape == (3, 2, 2)
    assert pool(image, (2,)).shape == (3, 4, 2)
    assert_array_equal = np.testing.assert_array_equal
    assert_array_equal(pool(image[None], 2), pool(image, (2, 2))[None])
    for several in (np.array([2, 2]), fg.tensor([2, 2]), [2, 2]):
        assert_array_equal(pool(image, several), pool(image, (2, 2)))


@pytest.mark.parametrize("kind", [np.array, fg.tensor, list])
def test_paddings_in_arrays(kind: Any) -> None:
    x, kernel = np.arange(16.0).reshape(1, 1, 4, 4), np.ones((1, 1, 2, 2))
    paddings: tuple[Any, ...] = ([1, 0], [[1, 0], [0, 1]])
    for padding in paddings:
        expected = nn.conv(x, kernel, padding=padding)
        np.testing.assert_array_equal(nn.conv(x, kernel, padding=kind(padding)), expected)


def test_windows_that_lie_side_by_side_are_not_written_over() -> None:
    x = np.arange(4.0).reshape(2, 1, 2)

    def curved(x: Any) -> Any:
        return fnp.sum(fnp.sin(fg.nn.max_pool(x, (2,))))

    def turned(x: Any, t: Any) -> Any:
        return fg.hvp(curved, (x,), (t,))

    np.testing.assert_allclose(fg.jit(turned)(x, x + 1), turned(x, x + 1), rtol=1e-12)


@pytest.mark.parametrize("padding", [(2, 0), (0, 2), (1, 2)])
def test_transposed_convolutions_cut_off_what_was_padding(padding: tuple[int, int]) -> None:
    x = np.arange(1.0, 5.0).reshape(1, 1, 4)
    kernel = np.array([[[1.0, -2.0]]])
    whole = np.asarray(nn.conv_transpose(x, kernel))
    found = nn.conv_transpose(x, kernel, padding=(padding,))
    np.testing.assert_array_equal(found, whole[..., padding[0] : whole.shape[-1] - padding[1]])


def test_sizes_that_no_array_has_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"conv: stride is .*, which is more than"):
        nn.conv(np.ones((1, 1, 4)), np.ones((1, 1, 2)), stride=2**62)
