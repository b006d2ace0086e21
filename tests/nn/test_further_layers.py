"""Norms of weights, logarithms of means, parametric relu, GRU cells, transformer blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logsumexp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError, ShapeError

KEY = fg.random.key(0)
RNG = np.random.default_rng(0)
X = fg.tensor(RNG.normal(size=(2, 4, 6)))


def test_log1mexp_keeps_its_digits() -> None:
    x = np.array([1e-300, 1e-8, 0.5, 0.7, 1.0, 40.0, 800.0])
    with np.errstate(divide="ignore"):
        exact = np.where(x < 0.6, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))
    assert_allclose(nn.log1mexp(x), exact, rtol=1e-15)
    assert_allclose(fg.vmap(fg.grad(nn.log1mexp))(x[:-1]), 1 / np.expm1(x[:-1]), rtol=1e-14)
    with np.errstate(divide="ignore"):
        assert nn.log1mexp(0.0).item() == -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(nn.log1mexp(-1.0).item())
    fg.testing.check_grads(nn.log1mexp, (x[2:5],), order=2)


def test_logmeanexp() -> None:
    x = RNG.normal(size=(3, 4)) + 1000.0
    assert_allclose(nn.logmeanexp(x), logsumexp(x) - np.log(12), rtol=1e-15)
    rows = nn.logmeanexp(x, axis=-1, keepdims=True)
    assert_allclose(rows, logsumexp(x, axis=1, keepdims=True) - np.log(4), rtol=1e-15)
    chosen = x > 1000.0
    assert_allclose(nn.logmeanexp(x, where=chosen), np.log(np.exp(x[chosen] - 1e3).mean()) + 1e3)
    assert np.isnan(nn.logmeanexp(x, where=False).item())
    fg.testing.check_grads(lambda x: nn.logmeanexp(x, 0), (x,), order=2)


def test_standardize() -> None:
    x = RNG.normal(size=(3, 5)) * 3.0 + 1.0
    assert_allclose(nn.standardize(x, 0), nn.layer_norm(x, axis=0), rtol=1e-15)
    inside = x > 0
    mean = np.mean(x, -1, keepdims=True, where=inside)
    variance = np.mean((x - mean) ** 2, -1, keepdims=True, where=inside)
    assert_allclose(nn.standardize(x, where=inside), (x - mean) / np.sqrt(variance + 1e-5))
    assert_allclose(nn.standardize(x, mean=1.0, variance=4.0, epsilon=0.0), (x - 1) / 2)
    with pytest.raises(ArgumentError, match="standardize"):
        nn.standardize(x, epsilon=-1.0)


def test_weight_norm() -> None:
    v, lengths = RNG.normal(size=(3, 4, 5)), RNG.uniform(1, 2, 5)
    w = nn.weight_norm(v, lengths)
    assert_allclose(np.sqrt((np.asarray(w) ** 2).sum((0, 1))), lengths, rtol=1e-14)
    first = nn.weight_norm(v, 2.0, axis=0)
    assert_allclose(first, 2 * v / np.sqrt((v**2).sum((1, 2), keepdims=True)), rtol=1e-14)
    fg.testing.check_grads(nn.weight_norm, (v, lengths), order=2)
    with pytest.raises(ShapeError, match=r"length has to be one number or of shape \(5,\)"):
        nn.weight_norm(v, np.ones(3))


def test_spectral_norm() -> None:
    w, u = RNG.normal(size=(3, 4, 5)), RNG.normal(size=5)
    matrix, left, right = w.reshape(12, 5).T, u, np.zeros(12)
    for _ in range(2):  # PyTorch's order
        right = matrix.T @ left / np.linalg.norm(matrix.T @ left)
        left = matrix @ right / np.linalg.norm(matrix @ right)
    normed, after = nn.spectral_norm(w, u, steps=2)
    assert_allclose(after, left, rtol=1e-13)
    assert_allclose(normed, w / (left @ matrix @ right), rtol=1e-13)
    exact, _ = nn.spectral_norm(w, u, steps=200)
    assert_allclose(np.linalg.norm(np.reshape(exact, (12, 5)), 2), 1.0, rtol=1e-6)
    slope = fg.grad(lambda w: nn.spectral_norm(w, u, steps=200)[0][0, 0, 0])(w)
    norm = lambda w: fnp.linalg.norm(fnp.reshape(w, (12, 5)), 2)  # noqa: E731
    assert_allclose(slope, fg.grad(lambda w: w[0, 0, 0] / norm(w))(w), atol=1e-6)
    with pytest.raises(ShapeError, match=r"u has to be of shape \(5,\)"):
        nn.spectral_norm(w, np.ones(3))


def test_parametric_relu() -> None:
    layer = nn.PReLU(fg.tensor([0.1, 0.2, 0.3, 0.4]))
    slopes = np.array([0.1, 0.2, 0.3, 0.4])[:, None]
    assert_allclose(layer(X), np.where(X > 0, X, slopes * np.asarray(X)))
    assert_allclose(nn.PReLU.init(6, slope=0.5, axis=-1)(X), nn.leaky_relu(X, 0.5))
    assert nn.PReLU.init(dtype="float32").slope.dtype == np.float32
    with pytest.raises(ShapeError, match="4 slopes for 6 channels, along axis 2"):
        replace(layer, axis=-1)(X)


def gru(cell: nn.GRUCell, h: Any, x: Any, biases: tuple[Any, Any]) -> Any:
    """A step by the definition, from biases of the input and of the state."""
    units = h.shape[-1]
    w, u = np.asarray(cell.weight), np.asarray(cell.state_weight)
    a, b = np.split(x @ w + biases[0], 3, -1), np.split(h @ u + biases[1], 3, -1)
    r, z = expit(a[0] + b[0]), expit(a[1] + b[1])
    inner = r * b[2] if cell.reset_after else (r * h) @ u[:, 2 * units :] + biases[1][2 * units :]
    return (1 - z) * np.tanh(a[2] + inner) + z * h


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_gru_cells_of_one_to_two_biases(reset_after: bool, count: int) -> None:
    full = RNG.normal(size=6)
    state_bias = None if not count else fg.tensor(full[6 - 2 * count :])
    cell = nn.GRUCell.init(KEY, 6, 2)
    cell = replace(cell, bias=cell.bias + 0.3, state_bias=state_bias, reset_after=reset_after)
    h, x = RNG.normal(size=(4, 2)), np.asarray(X[0])
    padded = np.concatenate([np.zeros(6 - 2 * count), full[6 - 2 * count :]])
    expected = gru(cell, h, x, (np.asarray(cell.bias), padded))
    assert_allclose(cell(fg.tensor(h), x)[1], expected, rtol=1e-13)
    fg.testing.check_layer(cell, X, apply=lambda cell, x: nn.run(cell, x)[1])


def test_gru_cells_say_what_does_not_fit() -> None:
    cell = nn.GRUCell.init(KEY, 6, 2)
    with pytest.raises(ShapeError, match="state_bias"):
        replace(cell, state_bias=fnp.ones(4))
    with pytest.raises(ArgumentError, match="PyTorch's GRU has a state_bias"):
        nn.to_torch(replace(cell, state_bias=None))


@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_blocks_by_their_definition(norm_first: bool) -> None:
    block = nn.TransformerBlock.init(KEY, 6, 2, norm_first=norm_first)
    a, f, n1, n2 = block.attention, block.network, block.attention_norm, block.network_norm
    if norm_first:
        y = X + a(n1(X), causal=True)
        expected = y + f(n2(y))
    else:
        y = n1(X + a(X, causal=True))
        expected = n2(y + f(y))
    assert_array_equal(block(X, causal=True), expected)
    cache = block.cache(4, (2,))
    for k in range(4):
        y, cache = block(X[:, k : k + 1], cache=cache)
        assert_allclose(y, expected[:, k : k + 1], rtol=1e-12)


def test_transformer_blocks_drop_only_in_training() -> None:
    block = nn.TransformerBlock.init(KEY, 6, 2, dropout=0.5, norm=nn.RMSNorm, bias=False)
    with pytest.raises(ArgumentError, match="TransformerBlock: key= is missing"):
        block(X)
    with pytest.raises(ArgumentError, match="TransformerBlock: training needs a key"):
        block.train(X)
    plain = replace(block, dropout=0.0, attention=replace(block.attention, dropout=0.0))
    assert_array_equal(block(X, key=None), plain(X))
    dropped, _ = block.train(X, key=KEY)
    assert not np.allclose(dropped, plain(X))
    assert_array_equal(dropped, block(X, key=KEY))
    model = nn.Sequential(block, nn.relu, nn.Dropout(0.1))
    assert model.train(X, model.init_state(), key=KEY)[0].shape == X.shape
    with pytest.raises(ArgumentError, match="norm has to be LayerNorm or RMSNorm"):
        nn.TransformerBlock.init(KEY, 6, 2, norm=nn.BatchNorm)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="attention is a MultiHeadAttention"):
        replace(block, attention=nn.relu)  # type: ignore[arg-type]
