"""Layers: values and gradients against plain loops; every mode, ensembles, pickles, misuse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._core.pytree_class import is_frozen_dataclass
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, LeafError, ShapeError
from tests.together import refused, together

KEY = fg.random.key(0)
RNG = np.random.default_rng(0)
X = fg.tensor(RNG.normal(size=(2, 4, 6)))

# A maker from a key, and a function of the model; the input is X.
MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "Linear": (lambda k: nn.Linear.init(k, 6, 3), lambda m, x: m(x)),
    "Embedding": (
        lambda k: nn.Embedding.init(k, 5, 6),
        lambda m, x: m.attend(x)[0] @ m([0, 4, 0, 1, 1]),
    ),
    "LayerNorm": (lambda _: nn.LayerNorm.init(6), lambda m, x: m(x)),
    "RMSNorm": (lambda _: nn.RMSNorm.init(6), lambda m, x: m(x)),
    "GroupNorm": (lambda _: nn.GroupNorm.init(4, 2), lambda m, x: m(x)),
    "BatchNorm": (lambda _: nn.BatchNorm.init(4), lambda m, x: m.train(x, m.init_state())[0]),
    "Dropout": (lambda _: nn.Dropout(0.5), lambda m, x: m(x, key=KEY)),
    "Activation": (lambda _: nn.Activation(nn.relu), lambda m, x: m(x)),
    "Conv": (lambda k: nn.Conv.init(k, 4, 3, (3,), padding=1), lambda m, x: m(x)),
    "ConvTranspose": (lambda k: nn.ConvTranspose.init(k, 4, 2, (3,), stride=2), lambda m, x: m(x)),
    "Sequential": (
        lambda k: nn.Sequential(nn.Linear.init(k, 6, 6), nn.relu, nn.Dropout(0.5)),
        lambda m, x: m(x, key=KEY),
    ),
    "MLP": (lambda k: nn.MLP.init(k, (6, 5, 3)), lambda m, x: m(x)),
    "Residual": (lambda k: nn.Residual(nn.Linear.init(k, 6, 6)), lambda m, x: m(x)),
    "RNNCell": (lambda k: nn.RNNCell.init(k, 6, 3), lambda m, x: nn.run(m, x)[1]),
    "LSTMCell": (lambda k: nn.LSTMCell.init(k, 6, 3), lambda m, x: nn.run(m, x)[1]),
    "GRUCell": (lambda k: nn.GRUCell.init(k, 6, 3), lambda m, x: nn.run(m, x, reverse=True)[1]),
    "PReLU": (lambda _: nn.PReLU.init(4), lambda m, x: m(x)),
    "TransformerBlock": (
        lambda k: nn.TransformerBlock.init(k, 6, 2, hidden=5),
        lambda m, x: m(x, causal=True),
    ),
    "MultiHeadAttention": (
        lambda k: nn.MultiHeadAttention.init(k, 6, 3, key_heads=1, rotary_base=100.0),
        lambda m, x: m(x, causal=True),
    ),
}
STATES = {"BatchStatistics", "KVCache"}


def test_every_layer_is_tried():
    classes = {name for name in nn.__all__ if is_frozen_dataclass(getattr(nn, name))}
    assert classes == set(MODELS) | STATES


@together(("make", "f"), MODELS.values(), ids=MODELS)
def test_every_layer_in_every_mode(make, f):
    model = make(KEY)
    fg.testing.check_layer(model, X, apply=lambda model, x: fnp.sin(f(model, x)))
    gradient = fg.grad(lambda model: fnp.sum(f(model, X)))(model)
    assert fg.tree.structure(gradient) == fg.tree.structure(model)
    assert all(leaf.dtype.kind == "f" for leaf in fg.tree.leaves(model))


@together(("make", "f"), MODELS.values(), ids=MODELS)
def test_ensembles(make, f):
    """A vmapped constructor makes several models at once, and vmap applies them."""
    keys = fg.random.split(KEY, 2)
    several = fg.vmap(lambda key: make(key))(keys) if fg.tree.leaves(make(KEY)) else make(KEY)
    out = fg.vmap(f, (0, None), axis_size=2)(several, X)
    for number, key in enumerate(keys):
        assert_allclose(out[number], f(make(key), X), rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------------------- by their definitions


def test_linear_and_embedding():
    layer = nn.Linear(fnp.ones((6, 2)), fg.tensor([0.0, 1.0]))
    assert_allclose(layer(X), np.asarray(X).sum(-1)[..., None] + [0, 1])
    assert nn.Linear.init(KEY, 3, 2, bias=False).bias is None
    assert nn.Linear.init(KEY, 3, 2, dtype="float32").weight.dtype == np.float32
    assert nn.Linear.init(KEY, 0, 2)(np.ones((3, 0))).shape == (3, 2)
    table = nn.Embedding.init(KEY, 5, 3)
    gradient = fg.grad(lambda m: m([1, 1, 4]).sum())(table).table
    assert_array_equal(gradient[:, 0], [0, 2, 0, 0, 1])


def loop_lstm(cell, xs):
    h = c = np.zeros(3)
    out = []
    for x in xs:
        i, f, g, o = np.split(x @ cell[0] + h @ cell[1] + cell[2], 4)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        out.append(h)
    return np.array(out)


def loop_gru(cell, xs):
    h, out = np.zeros(3), []
    for x in xs:
        a, b = np.split(x @ cell[0] + cell[2], 3), np.split(h @ cell[1] + cell[3], 3)
        r, z = expit(a[0] + b[0]), expit(a[1] + b[1])
        h = (1 - z) * np.tanh(a[2] + r * b[2]) + z * h
        out.append(h)
    return np.array(out)


def loop_rnn(cell, xs):
    h, out = np.zeros(3), []
    for x in xs:
        h = np.tanh(x @ cell[0] + h @ cell[1] + cell[2])
        out.append(h)
    return np.array(out)


@pytest.mark.parametrize(
    ("kind", "loop"), [(nn.LSTMCell, loop_lstm), (nn.GRUCell, loop_gru), (nn.RNNCell, loop_rnn)]
)
def test_recurrent_cells_by_their_definitions(kind, loop):
    cell = kind.init(KEY, 6, 3)
    cell = fg.tree.map(lambda w: w + 0.1 * RNG.normal(size=w.shape), cell)
    weights = [np.asarray(leaf) for leaf in fg.tree.leaves(cell)]
    expected = np.array([loop(weights, xs) for xs in np.asarray(X)])
    carry, ys = nn.run(cell, X)
    assert_allclose(ys, expected, rtol=1e-12)
    assert_allclose(fg.tree.leaves(carry)[0], expected[:, -1], rtol=1e-12)
    back = np.array([loop(weights, xs[::-1])[::-1] for xs in np.asarray(X)])
    (_, last), both = nn.bidirectional(cell, cell, X)
    assert_allclose(both, np.concatenate([expected, back], -1), rtol=1e-12)
    assert_allclose(fg.tree.leaves(last)[0], back[:, 0], rtol=1e-12)
    half, ys = nn.run(cell, X[:, :2])
    assert_allclose(nn.run(cell, X[:, 2:], half)[1], expected[:, 2:], rtol=1e-12)


def test_batch_norm():
    x = RNG.normal(size=(5, 3, 2)) * 3 + 1
    norm = nn.BatchNorm(fg.tensor([1.0, 2.0, 3.0]), fg.tensor([0.0, 1.0, 0.0]))
    y, stats = norm.train(x, norm.init_state())
    mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    scale, bias = np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [1.0], [0.0]])
    assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5) * scale + bias, rtol=1e-12)
    assert_allclose(stats.mean, 0.1 * mean.ravel(), rtol=1e-12)
    assert_allclose(stats.variance, 0.9 + 0.1 * var.ravel() * 10 / 9, rtol=1e-12)
    center, width = np.asarray(stats.mean)[:, None], np.asarray(stats.variance)[:, None]
    expected = (x - center) / np.sqrt(width + 1e-5) * scale + bias
    assert_allclose(norm(x, stats), expected, rtol=1e-12)
    slope = fg.grad(lambda x: norm.train(x, stats)[1].mean.sum())(fg.tensor(x))
    assert_array_equal(slope, np.zeros_like(x))
    with pytest.raises(ShapeError, match=r"expected 3 channels on axis 1"):
        norm(np.ones((2, 4)), stats)
    with pytest.raises(ShapeError, match="has no mean"):
        norm.train(x[:0], stats)


def test_sequential_carries_states_and_keys():
    model: Any = nn.Sequential(
        nn.Linear.init(KEY, 6, 4),
        nn.BatchNorm.init(4, axis=-1),
        nn.Residual(nn.Dropout(0.5)),
        nn.Dropout(0.5),
    )
    state = model.init_state()
    assert state[0] is state[2] is None
    y, after = model.train(X, state, key=KEY)
    hidden, stats = model.layers[1].train(model.layers[0](X), state[1])
    one = fg.random.fold_in(fg.random.fold_in(KEY, 2), 0)
    hidden = hidden + nn.dropout(hidden, 0.5, one)
    assert_array_equal(y, nn.dropout(hidden, 0.5, fg.random.fold_in(KEY, 3)))
    assert_array_equal(after[1].mean, stats.mean)
    used = model.layers[1](model.layers[0](X), after[1])
    assert_array_equal(model(X, after, key=None), used + used)
    with pytest.raises(ArgumentError, match=r"Dropout: key= is missing.* key=None to drop nothing"):
        model(X, after)
    loss = lambda m, s, k: (m.train(X, s, key=k)[0].sum(), m.train(X, s, key=k)[1])  # noqa: E731
    step = fg.jit(fg.grad(loss, has_aux=True), backend="numpy")
    assert fg.tree.structure(step(model, state, KEY)[1]) == fg.tree.structure(after)
    with pytest.raises(ArgumentError, match="training needs a key"):
        model.train(X, state)
    with pytest.raises(ArgumentError, match="is a tuple of 4, one for each layer"):
        model(X, state[:1])


@pytest.mark.parametrize("base", [None, 100.0])
def test_a_cache_gives_what_the_whole_sequence_gives(base):
    layer = nn.MultiHeadAttention.init(KEY, 6, 3, key_heads=1, rotary_base=base)
    whole = layer(X, causal=True)
    cache, parts = layer.cache(5, (2,)), []
    for part in (X[:, :2], X[:, 2:3], X[:, 3:]):
        y, cache = layer(part, cache=cache)
        parts.append(y)
    assert_allclose(fnp.concatenate(parts, axis=1), whole, rtol=1e-12, atol=1e-14)

    def step(cache, x):
        y, cache = layer(x[:, None], cache=cache)
        return cache, y[:, 0]

    ys = fg.jit(lambda x: fg.scan(step, layer.cache(4, (2,)), x)[1], backend="numpy")(
        fnp.moveaxis(X, 1, 0)
    )
    assert_allclose(fnp.moveaxis(ys, 0, 1), whole, rtol=1e-12, atol=1e-14)
    with pytest.raises(ShapeError, match="4 of 5 positions are filled"):
        layer(X[:, :2], cache=cache)
    with pytest.raises(ArgumentError, match="leave out context"):
        layer(X, X, cache=cache)


def test_attention_between_two_sequences():
    layer = nn.MultiHeadAttention.init(KEY, 6, 2)
    context = fg.tensor(RNG.normal(size=(2, 5, 6)))
    heads = lambda y: np.asarray(y).reshape(2, -1, 2, 3).swapaxes(1, 2)  # noqa: E731
    q, k, v = heads(layer.query(X)), heads(layer.key(context)), heads(layer.value(context))
    weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(3))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    expected = mixed.swapaxes(1, 2).reshape(2, 4, 6) @ np.asarray(layer.output.weight)
    assert_allclose(layer(X, context), expected, rtol=1e-12)


def test_weights_of_attention_are_dropped_by_a_key():
    layer = nn.MultiHeadAttention.init(KEY, 6, 2, context_features=3, dropout=0.3)
    context = fg.tensor(RNG.normal(size=(2, 5, 3)))
    plain = layer(X, context, key=None)
    assert_array_equal(plain, replace(layer, dropout=0.0)(X, context))
    with pytest.raises(ArgumentError, match="MultiHeadAttention: key= is missing"):
        layer(X, context)
    keys = fg.random.split(KEY, 2000)
    means = fg.vmap(lambda key: layer(X, context, key=key))(keys).mean(axis=0)
    assert 0 < abs(means - plain).max() < 0.1
    weights = fnp.full((1, 4, 5), 0.2)
    dropped = nn.dropout(weights, 0.3, KEY) @ fnp.ones((5, 2))
    ones, zeros = fnp.ones((1, 5, 2)), fnp.zeros((1, 4, 2))
    mixed = nn.attention(zeros, ones, ones, dropout_rate=0.3, dropout_key=KEY)
    assert_allclose(mixed, dropped, rtol=1e-14)
    model = nn.Sequential(nn.Residual(replace(layer, key=layer.query, value=layer.query)))
    y, state = model.train(X, key=KEY)
    assert state == (None,)
    assert_array_equal(y, model(X, key=KEY))
    with pytest.raises(ArgumentError, match="MultiHeadAttention: training needs a key"):
        model.train(X)


# ------------------------------------------------------------------------------ layers as values


def test_sequences_of_layers_are_sequences():
    model = nn.Sequential(nn.Linear.init(KEY, 6, 4), nn.relu, nn.Linear.init(KEY, 4, 2))
    assert len(model) == 3
    assert model[-1] is list(model)[2] is model.layers[2]
    assert_array_equal(model[2](model[:2](X)), model(X))
    assert isinstance(model[:0], nn.Sequential)


def test_static_options_are_numbers_and_tuples():
    """Whoever passes lists or arrays has a layer that can be jitted, all the same."""
    conv = nn.Conv.init(KEY, 4, 2, (2,), stride=[2], padding=np.int64(1))  # type: ignore[arg-type]
    assert (conv.stride, conv.padding) == ((2,), 1)
    layers: list[Any] = [
        conv,
        nn.Dropout(fg.tensor(0.0)),  # type: ignore[arg-type]
        nn.LayerNorm.init(6, epsilon=np.float64(1e-3)),
        nn.GroupNorm.init(4, np.int64(2), epsilon=fg.tensor(1e-3)),  # type: ignore[arg-type]
    ]
    for layer in layers:
        hash(fg.tree.structure(layer))
        assert_array_equal(fg.jit(lambda layer: layer(X), backend="numpy")(layer), layer(X))
    with pytest.raises(LeafError, match=r"Dropout: rate is static.* got Tensor"):
        nn.Dropout(fg.tensor([0.5]))  # type: ignore[arg-type]


def test_statistics_keep_their_dtype():
    """So a scan can carry them, whatever the data are."""
    norm = nn.BatchNorm.init(4, dtype=np.float32)
    step = lambda stats, x: norm.train(x, stats)[::-1]  # noqa: E731
    stats, ys = fg.scan(step, norm.init_state(), X[None])
    assert stats.mean.dtype == stats.variance.dtype == np.float32
    assert ys.dtype == np.float64


def test_errors_in_a_sequence_say_in_which_layer():
    inner = nn.Sequential(nn.relu, nn.Linear.init(KEY, 5, 2))
    with pytest.raises(ShapeError) as caught:
        nn.Sequential(nn.relu, nn.relu, inner)(X)
    assert caught.value.__notes__ == ["In layer 1, Linear.", "In layer 2, Sequential."]


# -------------------------------------------------------------------------------------- bad input


@fg.pytree
class Scaled:
    """A layer of a user's, who forgot to say what is static."""

    weight: Any
    function: Any

    def __call__(self, x):
        return self.function(self.weight * x)


def test_a_layer_of_a_users_is_refused_with_the_fix():
    model = Scaled(fnp.ones(6), nn.relu)
    for call, place in (
        (lambda: nn.Sequential(abs, model), r"Sequential: layers\[1\]\.function"),
        (lambda: nn.Residual(model), r"Residual: layer\.function"),
        (lambda: fg.grad(lambda m: m(X).sum())(model), r"grad: m\.function"),
        (lambda: fg.optim.adam(0.1).init(model), r"adam\.init: params\.function"),
        (lambda: fg.jit(lambda m: m(X))(model), r"jit: m\.function"),
    ):
        with pytest.raises(LeafError, match=rf"{place}.* fg\.static_field\(\)"):
            call()
    with pytest.raises(fg.errors.DifferentiationError, match=r"m\.function.* fg\.static_field\(\)"):
        fg.grad(lambda m: m.weight.sum())(Scaled(fnp.ones(6), 3))


def test_a_full_cache_is_refused_in_every_mode():
    full = nn.KVCache(fnp.zeros((1, 2, 3)), fnp.zeros((1, 2, 3)), fg.tensor(2))
    row = fnp.ones((1, 1, 3))
    append = lambda n: nn.KVCache(full.keys, full.values, n).append(row, row).keys  # noqa: E731
    for call in (
        lambda: append(fg.tensor(2)),
        lambda: fg.vmap(append)(fg.tensor([0, 2])),
        lambda: fg.scan(lambda n, _: (n + 1, append(n)), fg.tensor(0), None, length=3),
        fg.jit(lambda: fg.scan(lambda n, _: (n + 1, append(n)), fg.tensor(0), None, length=3)),
    ):
        with pytest.raises((ShapeError, fg.errors.AxisError)):
            call()
    with pytest.raises(ShapeError, match="3 positions are more than all 2"):
        fg.jit(lambda n: fg.fori_loop(0, n, lambda i, x: append_many(full, i, x), row))(1)
    with pytest.raises(LeafError, match="length has to be of integer dtype"):
        nn.KVCache(full.keys, full.values, fg.tensor(2.0))


def append_many(cache, number, row):
    rows = fnp.ones((1, 3, 3))
    return nn.KVCache(cache.keys, cache.values, number).append(rows, rows).keys[:, :1] + row


test_mistakes_are_told = refused(
    [
        (lambda: nn.Linear(nn.relu), LeafError, r"Linear\.init\(key"),  # type: ignore[arg-type]
        (lambda: nn.Linear(3, 4), LeafError, "got 3"),  # type: ignore[arg-type]
        (lambda: nn.Linear(fnp.ones((2, 2), "int64")), LeafError, "floating-point dtype"),
        (lambda: nn.Linear.init(KEY, 3, 2)(np.ones((3, 2))), ShapeError, r"\(\.\.\., 3\), got"),
        (
            lambda: nn.Linear(fnp.ones((2, 3)), fnp.ones(2)),
            ShapeError,
            r"bias has to be of shape \(outputs,\), where inputs is 2 and outputs is 3, got",
        ),
        (lambda: nn.Linear(fnp.ones(3)), ShapeError, r"of shape \(inputs, outputs\)"),
        (lambda: nn.Linear(None), LeafError, "weight has to be an array, got None"),  # type: ignore[arg-type]
        (lambda: nn.Linear.init(KEY, 3, -1), ShapeError, "outputs must not be negative"),
        (
            lambda: nn.Linear.init(KEY, 3, 2, initializer=lambda *_: fnp.ones((2, 3))),
            ShapeError,
            r"initializer\(key, \(3, 2\), dtype\), made an array of shape \(2, 3\)",
        ),
        (
            lambda: nn.LSTMCell(fnp.ones((2, 12)), fnp.ones((4, 12)), fnp.ones(12)),
            ShapeError,
            r"state_weight has to be of shape \(units, 4\*units\), where .*units is 3",
        ),
        (
            lambda: nn.RNNCell.init(KEY, 3, 2)(fnp.ones(3), fnp.ones(3)),
            ShapeError,
            r"takes a carry of shape \(\.\.\., 2\)",
        ),
        (
            lambda: nn.Sequential(nn.Linear.init(KEY, 6, 2))(X, [1.0]),
            ArgumentError,
            "Linear, layer 0, has no state",
        ),
        (
            lambda: nn.BatchNorm.init(4)(X, (0.0, 1.0)),  # type: ignore[arg-type]
            ArgumentError,
            "of 4 channels",
        ),
        (
            lambda: nn.Sequential(nn.BatchNorm.init(4))(X),
            ArgumentError,
            r"not None\..*norm\.init_state\(\).*model\(x, state\)",
        ),
        (
            lambda: nn.Sequential(nn.Dropout(), nn.Dropout())(X, KEY),
            ArgumentError,
            "A key is passed as key=",
        ),
        (lambda: nn.Sequential(nn.Dropout())(X, [1.0]), ArgumentError, "Dropout.* has no state"),
        (lambda: nn.Sequential([nn.relu]), FunctionError, r"Sequential\(\*layers\)"),  # type: ignore[arg-type]
        (lambda: nn.Residual(nn.Linear.init(KEY, 6, 1))(X), ShapeError, r"Linear .*\(2, 4, 1\) of"),
        (lambda: nn.LayerNorm.init((4, 6)), DtypeError, r"axis=\(-2, -1\)"),  # type: ignore[arg-type]
        (lambda: nn.LayerNorm.init(1)(X), ShapeError, r"LayerNorm: .*\(\.\.\., 1\)"),
        (lambda: nn.LayerNorm.init(6, epsilon=-1.0), ArgumentError, "LayerNorm: epsilon"),
        (lambda: nn.RMSNorm.init(5)(X), ShapeError, r"RMSNorm: .*\(\.\.\., 5\)"),
        (lambda: nn.GroupNorm.init(6, 4), ShapeError, "6 channels are not divided into 4"),
        (lambda: nn.BatchNorm.init(6, momentum=2.0), ArgumentError, "momentum is from 0 to 1"),
        (
            lambda: nn.Conv.init(KEY, 3, 2, (5,), stride=0),
            ShapeError,
            "stride has to be at least 1",
        ),
        (lambda: nn.Conv.init(KEY, 3, 2, (5,), padding_mode="wrap"), ArgumentError, "circular"),
        (lambda: nn.Conv(fnp.ones((3, 2, 2)), fnp.ones(2)), ShapeError, "has 3 filters"),
        (
            lambda: nn.ConvTranspose(fnp.ones((3, 2, 2)), fnp.ones((1, 1, 1, 2))),
            ShapeError,
            r"has 0 filters, and the bias the shape \(1, 1, 1, 2\)",
        ),
        (
            lambda: replace(nn.MultiHeadAttention.init(KEY, 6, 2), rotary_base=1e4),
            ShapeError,
            "a head has 3 features",
        ),
        (
            lambda: replace(
                nn.MultiHeadAttention.init(KEY, 6, 2), output=nn.Linear.init(KEY, 3, 6)
            ),
            ShapeError,
            r"take \[6, 6, 3\] features",
        ),
        (
            lambda: replace(nn.MultiHeadAttention.init(KEY, 6, 3), heads=4),
            ShapeError,
            "not 4 heads",
        ),
        (
            lambda: nn.KVCache.empty((1,), 4, 2).append(fnp.ones((2, 1, 2)), fnp.ones((2, 1, 2))),
            ShapeError,
            r"shape \(1, length, 2\), got \(2, 1, 2\)",
        ),
        (lambda: nn.Embedding.init(KEY, 3, 2)([0.5]), DtypeError, "have to be integers"),
        (lambda: nn.Sequential(3), FunctionError, "a layer is a function"),  # type: ignore[arg-type]
        (lambda: nn.Residual(3), FunctionError, "a layer is a function"),
        (lambda: nn.Dropout(2.0), ArgumentError, "from 0 to 1"),
        (lambda: nn.MLP.init(KEY, (3,)), ArgumentError, "sizes"),
        (lambda: nn.Conv.init(KEY, 3, 2, 5), ShapeError, "window"),  # type: ignore[arg-type]
        (lambda: nn.Conv.init(KEY, 3, 2, (5,), groups=2), ShapeError, "2 groups"),
        (lambda: nn.MultiHeadAttention.init(KEY, 6, 4), ShapeError, "heads divides features"),
        (lambda: nn.run(nn.RNNCell.init(KEY, 3, 2), np.ones(3)), ShapeError, "length, features"),
        (lambda: nn.run(abs, X), FunctionError, "pass its first carry"),
        (lambda: nn.run(nn.RNNCell.init(KEY, 3, 2), X), ShapeError, r"RNNCell: takes .* 3\)"),
    ]
)
