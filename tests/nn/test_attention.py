"""Attention, positions, normalizations and dropout, against plain loops; masked rows; all modes."""

from itertools import product
from math import cos, exp, inf, sin, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.together import together

RNG = np.random.default_rng(0)
Q, K = RNG.normal(size=(2, 4, 3, 5)), RNG.normal(size=(2, 2, 6, 5))
V = RNG.normal(size=(2, 2, 6, 3))
MASK = RNG.random((2, 1, 3, 6)) < 0.6
MASK[0, 0, 1] = False  # one query sees nothing
BIAS = RNG.normal(size=(4, 3, 6))


def loop(q, k, v, sees, bias):
    """Attention by its definition, one query at a time."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, h, i in np.ndindex(q.shape[:-1]):
        head = h * k.shape[1] // q.shape[1]
        places = [j for j in range(k.shape[2]) if sees(b, h, i, j)]
        weights = [
            exp(q[b, h, i] @ k[b, head, j] / sqrt(q.shape[-1]) + bias[h, i, j]) for j in places
        ]
        for weight, j in zip(weights, places, strict=True):
            out[b, h, i] += weight / sum(weights) * v[b, head, j]
    return out


SIGHT: dict[str, tuple[Any, Any]] = {
    "all": ({}, lambda b, h, i, j: True),
    "mask": ({"mask": MASK}, lambda b, h, i, j: MASK[b, 0, i, j]),
    "causal": ({"causal": True}, lambda b, h, i, j: j <= i),
    "behind a cache": ({"causal": True, "offset": 3}, lambda b, h, i, j: j <= i + 3),
    "window": ({"window": 1}, lambda b, h, i, j: abs(i - j) <= 1),
    "sides": ({"window": (1, 0), "offset": 2}, lambda b, h, i, j: 0 <= i + 2 - j <= 1),
    "ahead": ({"window": (0, 1)}, lambda b, h, i, j: 0 <= j - i <= 1),
    "both": ({"mask": MASK, "causal": True}, lambda b, h, i, j: j <= i and MASK[b, 0, i, j]),
}


@together(("options", "sees"), SIGHT.values(), ids=SIGHT)
def test_attention_by_its_definition(options, sees):
    assert_allclose(nn.attention(Q, K, V, **options), loop(Q, K, V, sees, 0 * BIAS), atol=1e-13)
    f = lambda q, k, v, b: nn.attention(q, k, v, bias=b, **options)  # noqa: E731
    args = tuple(map(fg.tensor, (Q, K, V, BIAS)))
    assert_allclose(f(*args), loop(Q, K, V, sees, BIAS), atol=1e-13)
    fg.testing.check_grads(f, args, order=1)
    assert_allclose(fg.jit(f, backend="numpy")(*args), f(*args), rtol=1e-13, atol=1e-15)
    rows = fg.vmap(lambda q, k, v: nn.attention(q, k, v, causal=True))(*args[:3])
    assert_allclose(rows, nn.attention(Q, K, V, causal=True), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("how", ["mask", "bias"])
def test_queries_that_see_nothing(how):
    """They give 0 and derivatives of 0, second ones too, even where other numbers are huge."""
    q, k, v = (fg.tensor(x[0, 0]) for x in (Q, K, V))
    none: Any = {"mask": MASK[0, 0]} if how == "mask" else {"bias": np.where(MASK[0, 0], 0, -inf)}
    f = lambda q, k, v: nn.attention(q, k, v, **none)  # noqa: E731
    assert_array_equal(f(q, k, v)[1], np.zeros(3))
    slope = fg.grad(lambda *x: (f(*x) ** 2).sum(), (0, 1, 2))
    assert all(np.isfinite(part).all() for part in slope(q, k, v))
    assert_array_equal(slope(q, k, v)[0][1], np.zeros(5))
    second = fg.grad(lambda *x: sum(fnp.sin(part).sum() for part in slope(*x)), (0, 1, 2))
    assert all(np.isfinite(part).all() for part in second(q, k, v))
    _, tangents = fg.jvp(slope, (q, k, v), (q, k, v))
    assert all(np.isfinite(part).all() for part in tangents)
    assert_array_equal(fg.grad(lambda q: f(q, 1e300 * k, v).sum())(q)[1], np.zeros(5))


def test_attention_of_odd_shapes():
    assert_allclose(
        nn.attention(Q[0, 0], K[0, 0], V[0, 0]), nn.attention(Q[:1, :1], K[:1, :1], V[:1, :1])[0, 0]
    )
    assert_array_equal(nn.attention(Q, K[:, :, :0], V[:, :, :0]), np.zeros((2, 4, 3, 3)))
    assert nn.attention(Q[:0], K[:0], V[:0]).shape == (0, 4, 3, 3)
    assert nn.attention(Q[:, :, :0], K, V).shape == (2, 4, 0, 3)
    assert nn.attention(Q.astype("f2"), K.astype("f2"), V.astype("f2")).dtype == np.float16
    traced = fg.jit(lambda n: nn.attention(Q, K, V, causal=True, offset=n), backend="numpy")
    assert_allclose(traced(2), nn.attention(Q, K, V, causal=True, offset=2), rtol=1e-13)
    assert_allclose(nn.attention(Q, K, V, scale=0.0)[0, 0, 0], V[0, 0].mean(0))


@together(
    ("options", "error", "words"),
    [
        ({"mask": np.ones((3, 6))}, DtypeError, "mask > 0"),
        ({"mask": np.ones((3, 5), bool)}, ShapeError, r"mask of shape \(3, 5\)"),
        ({"bias": np.ones((3, 5))}, ShapeError, r"bias of shape \(3, 5\)"),
        ({"bias": np.ones((3, 6)) * 1j}, DtypeError, "bias has to be real"),
        ({"window": -1}, ShapeError, "window"),
        ({"offset": 0.5, "causal": True}, DtypeError, "offset"),
        ({"key": K[:, :, :, :4]}, ShapeError, "key_heads divides heads"),
        ({"key": K[:, [0, 0, 0]], "value": V[:, [0, 0, 0]]}, ShapeError, "key_heads divides"),
        ({"value": V[:, :, :4]}, ShapeError, "do not fit"),
        ({"key": K[[0, 0, 0]]}, ShapeError, "do not fit"),
    ],
)
def test_bad_arguments_of_attention(options, error, words):
    with pytest.raises(error, match=words):
        nn.attention(**{"query": Q, "key": K, "value": V, **options})


# -------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_by_its_definition(interleaved):
    x, expected = Q[0, 0, :, :4], np.zeros((3, 4))
    for p, pair in product(range(3), range(2)):
        a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 2)
        angle = (p + 7) * 10000 ** (-2 * pair / 4)
        expected[p, a] = x[p, a] * cos(angle) - x[p, b] * sin(angle)
        expected[p, b] = x[p, a] * sin(angle) + x[p, b] * cos(angle)
    f = lambda x: nn.rotary(x, [7, 8, 9], interleaved=interleaved)  # noqa: E731
    assert_allclose(f(x), expected, rtol=1e-13)
    fg.testing.check_grads(f, (fg.tensor(x),))
    near, far = [nn.rotary(x[:1], [p]) @ nn.rotary(x[1:2], [p + 2]).T for p in (0, 5)]
    assert_allclose(near, far, rtol=1e-13)
    assert nn.rotary(x.astype("float32")).dtype == np.float32
    with pytest.raises(ShapeError, match="even, got 5"):
        nn.rotary(Q)
    with pytest.raises(ShapeError, match="do not broadcast"):
        nn.rotary(x, [1, 2])


def test_sinusoidal_positions():
    table = np.asarray(nn.sinusoidal_positions(4, 6))
    for p, i in product(range(4), range(3)):
        angle = p / 10000 ** (2 * i / 6)
        assert_allclose(table[p, 2 * i : 2 * i + 2], [sin(angle), cos(angle)], rtol=1e-13)
    assert nn.sinusoidal_positions(0, 2, dtype="float32").shape == (0, 2)
    with pytest.raises(ShapeError, match="even"):
        nn.sinusoidal_positions(4, 3)


# --------------------------------------------------------------------------------- normalizations

X, S, B = RNG.normal(size=(2, 6, 3)), RNG.normal(size=6), RNG.normal(size=6)


def normal(x, epsilon=1e-5):
    return (x - x.mean()) / np.sqrt(x.var() + epsilon)


def test_norms_by_their_definitions():
    rows = np.array([[normal(row) for row in example] for example in X])
    assert_allclose(nn.layer_norm(X), rows, rtol=1e-12)
    both = np.array([normal(example) for example in X])
    scale, bias = S[:, None], B[:, None]
    assert_allclose(nn.layer_norm(X, scale, bias, axis=(1, 2)), both * scale + bias, rtol=1e-12)
    power = np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6)
    assert_allclose(nn.rms_norm(X, 2.0), 2 * X / power, rtol=1e-12)
    groups = np.array([[normal(x[i : i + 2]) for i in (0, 2, 4)] for x in X]).reshape(X.shape)
    assert_allclose(nn.group_norm(X, 3, S, B), groups * scale + bias, rtol=1e-12)
    last = nn.group_norm(X.swapaxes(1, 2), 3, S, B, axis=-1)
    each = [[normal(row.reshape(3, 2)[g]) for g in range(3)] for row in X.swapaxes(1, 2)[0]]
    assert_allclose(last[0], np.reshape(each, (3, 6)) * S + B, rtol=1e-12)
    fg.testing.check_grads(lambda *a: nn.group_norm(a[0], 2, *a[1:]), (X, S, B), order=2)
    fg.testing.check_grads(lambda x: nn.rms_norm(x), (X,), order=2)


@together("f", [nn.layer_norm, nn.rms_norm, lambda x, **o: nn.group_norm(x, 1, **o)])
@together("epsilon", [0.0, 1e-5])
def test_constant_rows(f, epsilon):
    x = fg.tensor(np.zeros((2, 3)) if f is nn.rms_norm else np.full((2, 3), 2.0))
    g = lambda x: f(x, epsilon=epsilon)  # noqa: E731
    assert_array_equal(g(x), np.zeros((2, 3)))
    jacobian = np.asarray(fg.jacrev(g)(x)).reshape(6, 6)
    mean = 0 if f is nn.rms_norm else 1 / 3
    size = 1 / sqrt(epsilon) if epsilon else 0
    assert_allclose(jacobian, np.kron(np.eye(2), np.eye(3) - mean) * size, atol=1e-9)
    assert np.isfinite(fg.jacfwd(fg.jacrev(g))(x)).all()
    assert f(x[:0], epsilon=epsilon).shape == (0, 3)
    assert f(np.full((1, 4), 300, "float16") * [1, 2, 3, 4], epsilon=epsilon).dtype == np.float64


def test_half_precision_does_not_overflow():
    x = fg.tensor(np.array([1000.0, 2000.0, 3000.0], np.float16))
    assert_allclose(nn.layer_norm(x), [-1.2247, 0, 1.2247], atol=1e-3)
    assert nn.rms_norm(x).dtype == np.float16
    assert np.isfinite(nn.rms_norm(x)).all()


def test_bad_arguments_of_norms():
    with pytest.raises(ShapeError, match=r"6 channels.*4 groups"):
        nn.group_norm(X, 4)
    with pytest.raises(ShapeError, match=r"shape \(6,\), got \(3,\)"):
        nn.group_norm(X, 3, np.ones(3))
    with pytest.raises(ShapeError, match="scale of shape"):
        nn.layer_norm(np.ones(3), np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="epsilon has to be at least 0"):
        nn.rms_norm(X, epsilon=-1.0)
    with pytest.raises(DtypeError, match="complex"):
        nn.layer_norm([1j])


@together("size", [1e-200, 1e-3, 1e5, 1e154, 1e200, 1e307])
@together("kind", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:overflow")  # of running variances
def test_normalizations_are_right_at_every_scale(size, kind):
    """Without epsilon nothing changes when all numbers are multiplied; slopes are divided."""
    size = min(size, 1e37) if kind is np.float32 else size
    size = max(size, 1e-34) if kind is np.float32 else size
    x = np.array([[1.0, 2.0, 4.0], [-3.0, 0.5, 0.0]], kind)
    for f in (
        lambda x: nn.rms_norm(x, epsilon=0.0),
        lambda x: nn.layer_norm(x, epsilon=0.0),
        lambda x: nn.group_norm(x, 1, epsilon=0.0),
        lambda x: nn.BatchNorm(fnp.ones(3, kind), fnp.ones(3, kind), epsilon=0.0).train(x, None)[0],
    ):
        tolerance = 50 * np.finfo(kind).eps
        assert_allclose(f(x * kind(size)), f(x), rtol=tolerance, atol=tolerance)
        for slope in (fg.jacfwd(f), fg.jacrev(f)):
            assert_allclose(slope(x * kind(size)) * kind(size), slope(x), tolerance, tolerance)
    large = nn.layer_norm(x * kind(1e30))
    assert_allclose(large, nn.layer_norm(x, epsilon=0.0), rtol=1e-6)


def test_batches_of_half_precision():
    """Variances of numbers in the hundreds are beyond the range of half precision."""
    x = np.array([[-400.0], [600.0]], np.float16)
    norm = nn.BatchNorm.init(1, momentum=1.0, dtype=np.float16)
    y, stats = norm.train(x, norm.init_state())
    assert_array_equal(stats.variance, [500000.0])
    assert y.dtype == norm(x, stats).dtype == np.float16
    assert_allclose(norm(x, stats), [[-(0.5**0.5)], [0.5**0.5]], rtol=1e-3)


# ---------------------------------------------------------------------------------------- dropout


def test_dropout():
    key, x = fg.random.key(1), fg.tensor(np.full((40, 50), 3.0))
    out = np.asarray(nn.dropout(x, 0.25, key))
    assert set(np.unique(out)) == {0.0, 4.0}
    assert abs((out == 0).mean() - 0.25) < 0.04
    assert_array_equal(fg.grad(lambda x: nn.dropout(x, 0.25, key).sum())(x), out / 3)
    assert_array_equal(nn.dropout(x, 0.25, key=None), x)
    assert_array_equal(nn.dropout(x, 0.0), x)
    with pytest.raises(ArgumentError, match="dropout: key= is missing"):
        nn.dropout(x, 0.25)
    with pytest.raises(ArgumentError, match="attention: dropout_key= is missing"):
        nn.attention(x, x, x, dropout_rate=0.25)
    assert_array_equal(nn.dropout(x, 0.0, key), x)
    assert_array_equal(nn.dropout(fnp.full(4, inf), 1.0, key), np.zeros(4))
    assert_array_equal(fg.jit(lambda x, k: nn.dropout(x, 0.25, k), backend="numpy")(x, key), out)
    keys = fg.random.split(key, 3)
    rows = fg.vmap(lambda k: nn.dropout(x, 0.25, k))(keys)
    assert_array_equal(rows[1], nn.dropout(x, 0.25, keys[1]))
    assert nn.dropout(fg.tensor([1j]), 0.5, key).dtype == np.complex128
    with pytest.raises(ArgumentError, match=r"from 0 to 1, got 1\.5"):
        nn.dropout(x, 1.5, key)
