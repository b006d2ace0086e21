"""Layers and optimizers on a device: what a key draws there is there, and steps copy nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from tests.backends.fake_device import FakeDevice
from tests.optim.subjects import CHANGES, RULES, WRAPPED
from tests.together import together

LAYERS: dict[str, Callable[[Any], Any]] = {
    "BatchNorm": lambda key: nn.BatchNorm.init(3, device=key.device),
    "Conv": lambda key: nn.Conv.init(key, 2, 4, (3, 3)),
    "ConvTranspose": lambda key: nn.ConvTranspose.init(key, 2, 4, (3,)),
    "Embedding": lambda key: nn.Embedding.init(key, 5, 3),
    "GRUCell": lambda key: nn.GRUCell.init(key, 3, 2),
    "GroupNorm": lambda key: nn.GroupNorm.init(4, 2, device=key.device),
    "LSTMCell": lambda key: nn.LSTMCell.init(key, 3, 2),
    "LayerNorm": lambda key: nn.LayerNorm.init(3, device=key.device),
    "Linear": lambda key: nn.Linear.init(key, 3, 2),
    "MLP": lambda key: nn.MLP.init(key, (3, 4, 2)),
    "MultiHeadAttention": lambda key: nn.MultiHeadAttention.init(key, 4, 2),
    "PReLU": lambda key: nn.PReLU.init(3, device=key.device),
    "RMSNorm": lambda key: nn.RMSNorm.init(3, device=key.device),
    "RNNCell": lambda key: nn.RNNCell.init(key, 3, 2),
    "TransformerBlock": lambda key: nn.TransformerBlock.init(key, 4, 2),
    "zeros, ones": lambda key: (nn.zeros(key, 3), nn.ones(key, (2, 2), "float32")),
    "no scale": lambda key: nn.variance_scaling(key, (2, 3), scale=0.0),
    "recipes": lambda key: nn.build(
        nn.sequential(
            nn.dense(4), nn.recipe(nn.LayerNorm), nn.recipe(nn.PReLU), nn.recipe(nn.BatchNorm)
        ),
        key,
        (2, 3),
    ),
    "states": lambda key: (
        nn.BatchNorm.init(3, device=key.device).init_state(),
        nn.LSTMCell.init(fg.random.fold_in(key, 0), 3, 2).carry((2,)),
        nn.MultiHeadAttention.init(fg.random.fold_in(key, 1), 4, 2).cache(3).keys,
    ),
}


@together("make", LAYERS.values(), ids=LAYERS)
def test_layers_are_where_their_key_is(make: Callable[[Any], Any]) -> None:
    device, key = FakeDevice("fake:layers"), fg.random.key(3)

    def several(key: Any) -> Any:
        return fg.vmap(make)(fg.random.split(key))

    for initialize in (make, fg.jit(make), several):
        expected = fg.tree.leaves(initialize(key))
        leaves = fg.tree.leaves(initialize(fg.put(key, device, host="never")))
        for leaf, wanted in zip(leaves, expected, strict=True):
            assert (wanted.device, leaf.device) == ("cpu", device.name)
            assert leaf._trace.calls_host is False
            assert leaf.dtype == wanted.dtype
            np.testing.assert_array_equal(leaf, wanted)


def test_every_layer_is_in_the_table() -> None:
    layers = {name for name in nn.__all__ if hasattr(getattr(nn, name), "init")}
    assert layers <= LAYERS.keys()


OPTIMIZERS: dict[str, Any] = (
    {name: partial(rule, 0.1) for name, rule in RULES.items()}
    | {name: partial(wrap, fg.optim.adam(0.1)) for name, wrap in WRAPPED.items()}
    | dict(CHANGES)
)


@together("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_states_of_optimizers_are_where_the_parameters_are(make: Callable[[], Any]) -> None:
    device = FakeDevice("fake:states")
    params = fg.put({"w": np.ones((3, 2)), "b": np.zeros(2)}, device)
    leaves = fg.tree.leaves(make().init(params))
    arrays = [leaf for leaf in leaves if leaf.ndim and leaf.dtype != np.uint64]  # noise has a key
    assert all(leaf.device == device.name for leaf in arrays)


# ------------------------------------------------------------------------------------------- steps

_RNG = np.random.default_rng(0)
TOKENS, SEQUENCES, IMAGES = (
    _RNG.integers(0, 5, (2, 4)),
    _RNG.normal(size=(2, 4, 3)),
    _RNG.normal(size=(2, 1, 6, 6)),
)


def _transformer(key: Any) -> Any:
    first, second, third = fg.random.split(key, 3)
    block = nn.TransformerBlock.init(second, 8, 2, rotary_base=1e4, dropout=0.1)
    return nn.Embedding.init(first, 5, 8), block, nn.Linear.init(third, 8, 5)


def _next_token(model: Any, tokens: Any, key: Any) -> Any:
    embedding, block, last = model
    scores = last(block(embedding(tokens), causal=True, key=key))
    return fnp.mean(nn.cross_entropy(scores[:, :-1], tokens[:, 1:]))


def _recurrent(key: Any) -> Any:
    first, second = fg.random.split(key)
    return nn.LSTMCell.init(first, 3, 4), nn.Linear.init(second, 4, 1)


def _last_output(model: Any, sequences: Any, key: Any) -> Any:
    cell, last = model
    return fnp.mean(last(nn.run(cell, sequences)[1][:, -1]) ** 2)


def _convolutional(key: Any) -> Any:
    layers = (
        nn.recipe(nn.Conv, 4, (3, 3)),
        nn.recipe(nn.GroupNorm, 2),
        nn.relu,
        lambda x: nn.max_pool(x, (2, 2)).reshape(2, -1),
        nn.dense(2),
    )
    return nn.build(nn.sequential(*layers), key, IMAGES)


def _squares(model: Any, images: Any, key: Any) -> Any:
    return fnp.mean(model(images) ** 2)


MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "transformer": (_transformer, _next_token, TOKENS),
    "LSTM": (_recurrent, _last_output, SEQUENCES),
    "convolutions": (_convolutional, _squares, IMAGES),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_jitted_step_is_one_program_and_copies_nothing(name: str) -> None:
    make, loss, data = MODELS[name]
    rule = fg.optim.adam(0.01)

    @fg.jit
    def step(model: Any, state: Any, data: Any, key: Any) -> Any:
        value, gradient = fg.value_and_grad(loss)(model, data, key)
        model, state = rule.step(gradient, state, model)
        return model, state, fg.random.fold_in(key, 1), value

    device, values = FakeDevice(f"fake:{name}"), []
    for place in (device, "cpu"):
        key, there = fg.put((fg.random.key(1), data), place)
        model = make(key)
        state = rule.init(model)
        model, state, key, value = step(model, state, there, key)
        counts = device.counts
        before = counts.puts, counts.gets, counts.looks, counts.compilations, counts.launches
        for _ in range(3):
            model, state, key, value = step(model, state, there, key)
        after = counts.puts, counts.gets, counts.looks, counts.compilations, counts.launches
        assert after == (*before[:-1], before[-1] + 3 * (place is device))
        values.append(float(value))
    assert step.stagings == 2  # one on the device, one on the host
    np.testing.assert_allclose(values[0], values[1], 1e-12)
