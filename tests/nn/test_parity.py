"""Layers have PyTorch's values and gradients, with the same weights: ``parity.json``, to 1e-12."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from tests.nn.parity import SHAPES, TABLE, mask, numbers, padded, projected
from tests.together import together

RUNNING = nn.BatchStatistics(fg.tensor([0.5] * 3), fg.tensor([2.0] * 3))


def heads(x: Any, parts: dict[str, Any], **options: Any) -> Any:
    names = ("query", "key", "value", "output")
    linear = [nn.Linear(parts[f"{name}.weight"], parts[f"{name}.bias"]) for name in names]
    return nn.MultiHeadAttention(linear[0], linear[1], linear[2], linear[3], 2)(x, **options)


def both_ways(cell: Any, x: Any, weight: Any, state_weight: Any, bias: Any, **back: Any) -> Any:
    backward = cell(back["weight_back"], back["state_weight_back"], back["bias_back"])
    return nn.bidirectional(cell(weight, state_weight, bias), backward, x)[1]


LAYERS: dict[str, Callable[..., Any]] = {
    "linear": lambda x, weight, bias: nn.Linear(weight, bias)(x),
    "embedding": lambda weight: nn.Embedding(weight)([[1, 4], [1, 0]]),
    "conv": lambda x, weight, bias: nn.Conv(
        weight, bias, stride=2, padding=1, dilation=(1, 2), groups=2
    )(x),
    **{
        f"conv, {mode}": lambda x, weight, bias, mode=mode: nn.Conv(
            weight, bias, stride=(1, 2), padding=1, padding_mode=mode
        )(x)
        for mode in ("reflect", "replicate", "circular")
    },
    "conv, same": lambda x, weight, bias: nn.Conv(weight, bias, padding="same", dilation=2)(x),
    "conv, depthwise": lambda x, weight, bias: nn.Conv(weight, bias, padding=(0, 1, 1), groups=3)(
        x
    ),
    "conv_transpose": lambda x, weight, bias: nn.ConvTranspose(
        weight, bias, stride=3, padding=1, output_padding=2, groups=2
    )(x),
    "conv_transpose, dilated": lambda x, weight, bias: nn.ConvTranspose(
        weight, bias, stride=(1, 2), padding=(1, 0), dilation=(2, 3)
    )(x),
    "layer_norm": lambda x, scale, bias: nn.LayerNorm(scale, bias)(x),
    "rms_norm": lambda x, scale: nn.RMSNorm(scale)(x),
    "group_norm": lambda x, scale, bias: nn.GroupNorm(scale, bias, 3)(x),
    "instance_norm": lambda x: nn.GroupNorm(groups=3)(x),
    "batch_norm": lambda x, scale, bias: nn.BatchNorm(scale, bias).train(x, None)[0],
    "batch_norm, used": lambda x, scale, bias: nn.BatchNorm(scale, bias)(x, RUNNING),
    "rnn": lambda x, weight, state_weight, bias: nn.run(nn.RNNCell(weight, state_weight, bias), x)[
        1
    ],
    "lstm": lambda x, weight, state_weight, bias: nn.run(
        nn.LSTMCell(weight, state_weight, bias), x
    )[1],
    "gru": lambda x, weight, state_weight, bias, state_bias: nn.run(
        nn.GRUCell(weight, state_weight, bias, state_bias), x
    )[1],
    "rnn, both ways": lambda x, **arrays: both_ways(nn.RNNCell, x, **arrays),
    "lstm, both ways": lambda x, **arrays: both_ways(nn.LSTMCell, x, **arrays),
    "heads": lambda x, **parts: heads(x, parts),
    "heads, causal": lambda x, **parts: heads(x, parts, causal=True),
    "heads, masked": lambda x, **parts: heads(x, parts, mask=mask()[[0, 1, 2, 3, 0], :5]),
    "heads, biased": lambda x, **parts: heads(x, parts, bias=np.cos(np.arange(25.0)).reshape(5, 5)),
    "heads, across": lambda x, context, **parts: heads(
        x, parts, context=context, mask=padded()[:, None, None, :]
    ),
    "attention": nn.attention,
    "attention, grouped": lambda query, key, value: nn.attention(
        query, key, value, causal=True, scale=0.3
    ),
    "attention, windowed": lambda query, key, value: nn.attention(query, key, value, window=(1, 2)),
    "attention, masked": lambda query, key, value: nn.attention(query, key, value, mask=mask()),
    "attention, biased": lambda query, key, value, bias: nn.attention(query, key, value, bias=bias),
}


@together("case", SHAPES)
def test_layers_agree_with_pytorch(case: str) -> None:
    expected = json.loads(TABLE.read_text())[case]
    arrays = fg.tree.map(fg.tensor, numbers(case))
    layer = LAYERS[case]
    slopes = fg.grad(lambda arrays: fnp.sum(fnp.sin(layer(**arrays))))(arrays)
    found = {"value": layer(**arrays), **slopes}
    assert set(found) == set(expected)
    for name, array in found.items():
        size = float(np.abs(np.asarray(array)).sum())
        assert_allclose(projected(array), expected[name], rtol=0, atol=1e-12 * max(size, 1))


@together("case", ["layer_norm", "batch_norm", "gru", "heads, masked", "conv", "conv, circular"])
def test_layers_in_machine_code(case: str) -> None:
    """A value and all gradients in one program, where there is a compiler."""
    arrays, layer = fg.tree.map(fg.tensor, numbers(case)), LAYERS[case]
    step = fg.value_and_grad(lambda arrays: fnp.sum(fnp.sin(layer(**arrays))))
    found, expected = fg.jit(step)(arrays), step(arrays)
    for one, other in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-13)
