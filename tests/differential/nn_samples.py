"""Calls of every layer, with a use of it, and of the functions that layers consist of.

>>> layers()["fg.nn.Linear"].then(nn.Linear(fg.tensor([[1.0], [2.0]]))).shape
(3, 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad import nn
from tests.differential.working_sample import Sample

X = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])
IMAGES = np.ones((1, 2, 5))
SEQUENCE = np.ones((3, 2))
ACTIVATIONS = """celu glu hard_sigmoid hard_silu hard_swish hard_tanh layer_norm mish relu6 rms_norm
    rotary selu softsign sparsemax squareplus log1mexp logmeanexp sparse_plus sparse_sigmoid
    standardize weight_norm"""
SEGMENTS = "segment_max segment_mean segment_min segment_prod segment_softmax segment_sum"
INITIALIZERS = "lecun_normal lecun_uniform orthogonal truncated_normal variance_scaling"


def layers() -> dict[str, Sample]:
    """Layers, normalizations, attention and initializers."""
    key = fg.random.key(0)
    made = {
        **_simple_layers(key),
        **_sequences(key),
        **{name: Sample(getattr(nn, name), (X,)) for name in ACTIVATIONS.split()},
        **{name: Sample(getattr(nn, name), (key, (2, 3))) for name in INITIALIZERS.split()},
        "build": Sample(nn.build, (nn.dense(3), key, (3, 2)), then=_applied),
        "from_torch": Sample(
            nn.from_torch, ({"weight": np.ones((1, 2))}, nn.Linear(fg.tensor([[1.0], [2.0]])))
        ),
        "to_torch": Sample(nn.to_torch, (nn.Linear(fg.tensor([[1.0], [2.0]])),)),
        "dense": Sample(nn.dense, (3,), then=_built),
        "recipe": Sample(nn.recipe, (nn.Linear, 3), then=_built),
        "sequential": Sample(nn.sequential, (nn.dense(3), nn.relu, nn.dense(1)), then=_built),
        "summary": Sample(nn.summary, (nn.Linear(fg.tensor([[1.0], [2.0]])), (3, 2)), then=str),
        **_losses(),
        **{name: Sample(getattr(nn, name), (X, [1, 0, 1], 2)) for name in SEGMENTS.split()},
        "dropout": Sample(nn.dropout, (X, 0.5, key)),
        "group_norm": Sample(nn.group_norm, (X, 2)),
        "spectral_norm": Sample(nn.spectral_norm, (X, [1.0, 2.0])),
        "sinusoidal_positions": Sample(nn.sinusoidal_positions, (3, 4)),
    }
    return {f"fg.nn.{name}": sample for name, sample in made.items()}


def _losses() -> dict[str, Sample]:
    """Losses beside cross-entropy and squared error."""
    shares, labels, known = np.full((3, 2), 0.5), np.array([1, 0, 1]), np.array([True, False, True])
    pairs = "huber_loss log_cosh hinge_loss cosine_similarity cosine_distance"
    return {
        **{name: Sample(getattr(nn, name), (X, X[::-1])) for name in pairs.split()},
        "cross_entropy (smoothed)": Sample(
            nn.cross_entropy, (X, labels), {"smoothing": 0.1, "where": known}
        ),
        "ctc_loss": Sample(
            nn.ctc_loss,
            (np.zeros((2, 4, 3)), [[1, 2], [2, 0]]),
            {"logit_lengths": [4, 3], "label_lengths": [2, 1]},
        ),
        "dice_loss": Sample(nn.dice_loss, (shares, shares), {"smooth": 0.5}),
        "kl_divergence": Sample(nn.kl_divergence, (X, shares)),
        "ntxent": Sample(nn.ntxent, (X, labels, 0.5)),
        "sigmoid_binary_cross_entropy": Sample(nn.sigmoid_binary_cross_entropy, (X, shares)),
        "sigmoid_focal_loss": Sample(nn.sigmoid_focal_loss, (X, shares), {"alpha": 0.25}),
        "softmax_focal_loss": Sample(nn.softmax_focal_loss, (X, labels)),
        "triplet_margin_loss": Sample(nn.triplet_margin_loss, (X, X[::-1], 2 * X)),
    }


def _simple_layers(key: Any) -> dict[str, Sample]:
    """What takes an array at once."""
    ones, weight = fg.tensor([1.0, 1.0]), fg.tensor([[1.0, 0.0], [2.0, 1.0]])
    linear = nn.Linear(weight, ones)
    stats = (ones, ones)
    return {
        "Activation": _used(nn.Activation, nn.relu),
        "BatchNorm": Sample(nn.BatchNorm, (ones, ones), then=_trained),
        "BatchNorm.init": Sample(nn.BatchNorm.init, (2,), then=_trained),
        "BatchStatistics": Sample(
            nn.BatchStatistics, stats, then=lambda stats: nn.BatchNorm(ones, ones)(X, stats)
        ),
        "Conv": _used(nn.Conv, np.ones((3, 2, 2)), np.ones(3), x=IMAGES),
        "Conv.init": _used(nn.Conv.init, key, 2, 3, (2,), x=IMAGES),
        "ConvTranspose": _used(nn.ConvTranspose, np.ones((2, 3, 2)), np.ones(3), x=IMAGES),
        "ConvTranspose.init": _used(nn.ConvTranspose.init, key, 2, 3, (2,), x=IMAGES),
        "Dropout": _used(nn.Dropout, 0.5, key=key),
        "Embedding": _used(nn.Embedding, weight, x=[0, 1]),
        "Embedding.init": _used(nn.Embedding.init, key, 2, 3, x=[0, 1]),
        "Embedding.attend": Sample(nn.Embedding(weight).attend, (X,)),
        "GroupNorm": _used(nn.GroupNorm, ones, ones, 2),
        "GroupNorm.init": _used(nn.GroupNorm.init, 2, 2),
        "LayerNorm": _used(nn.LayerNorm, ones, ones),
        "LayerNorm.init": _used(nn.LayerNorm.init, 2),
        "Linear": _used(nn.Linear, weight, ones),
        "Linear(...)": Sample(linear.__call__, (X,)),
        "Linear.init": _used(nn.Linear.init, key, 2, 3),
        "MLP": _used(nn.MLP, (linear, linear)),
        "MLP.init": _used(nn.MLP.init, key, (2, 3, 1)),
        "RMSNorm": _used(nn.RMSNorm, ones),
        "RMSNorm.init": _used(nn.RMSNorm.init, 2),
        "PReLU": _used(nn.PReLU, ones[0]),
        "PReLU.init": _used(nn.PReLU.init, 2),
        "Residual": _used(nn.Residual, linear),
        "Sequential": _used(nn.Sequential, linear, nn.relu),
        "Sequential(...).train": Sample(
            nn.Sequential(linear, nn.Dropout()).train, (X, None), {"key": key}
        ),
    }


def _sequences(key: Any) -> dict[str, Sample]:
    """What takes positions in an order."""
    square = fg.tensor([[1.0, 0.0], [2.0, 1.0]])
    cell = nn.RNNCell(square, square, fg.tensor([1.0, 1.0]))
    linear = nn.Linear(square)
    cache = nn.KVCache.empty((1,), 4, 2)
    heads = nn.MultiHeadAttention.init(key, 2, 1)
    block = nn.TransformerBlock.init(key, 2, 1)
    made: dict[str, Sample] = {}
    for kind, gates in ((nn.RNNCell, 1), (nn.LSTMCell, 4), (nn.GRUCell, 3)):
        wide, bias = np.ones((2, gates * 2)), np.ones(gates * 2)
        biases = (bias, bias) if kind is nn.GRUCell else (bias,)
        made[kind.__name__] = Sample(kind, (wide, wide, *biases), then=_run)
        made[f"{kind.__name__}.init"] = Sample(kind.init, (key, 2, 3), then=_run)
    return {
        **made,
        "KVCache": Sample(nn.KVCache, (cache.keys, cache.values, cache.length), then=_appended),
        "KVCache.append": Sample(cache.append, (np.ones((1, 1, 2)), np.ones((1, 1, 2)))),
        "KVCache.empty": Sample(nn.KVCache.empty, ((1,), 4, 2), then=_appended),
        "MultiHeadAttention": _used(nn.MultiHeadAttention, *[linear] * 4, 1, x=SEQUENCE),
        "MultiHeadAttention(...)": Sample(heads.__call__, (SEQUENCE,)),
        "MultiHeadAttention.cache": Sample(heads.cache, (4,)),
        "MultiHeadAttention.init": _used(nn.MultiHeadAttention.init, key, 2, 1, x=SEQUENCE),
        "RNNCell.carry": Sample(cell.carry),
        "RNNCell(...)": Sample(cell.__call__, (np.ones(2), np.ones(2))),
        "TransformerBlock": _used(
            nn.TransformerBlock, heads, linear, nn.LayerNorm(), nn.LayerNorm(), x=SEQUENCE
        ),
        "TransformerBlock(...)": Sample(block.__call__, (SEQUENCE,)),
        "TransformerBlock.cache": Sample(block.cache, (4,)),
        "TransformerBlock.init": _used(nn.TransformerBlock.init, key, 2, 1, x=SEQUENCE),
        "attention": Sample(nn.attention, (X, X, X)),
        "bidirectional": Sample(nn.bidirectional, (cell, cell, SEQUENCE)),
        "run": Sample(nn.run, (cell, SEQUENCE)),
    }


def _used(make: Callable[..., Any], *args: Any, x: Any = X, **options: Any) -> Sample:
    """A sample of a layer, which is called."""
    return Sample(make, args, then=lambda layer: layer(x, **options))


def _applied(layer: Any) -> Any:
    return layer(X)


def _built(recipe: Any) -> Any:
    return nn.build(recipe, fg.random.key(0), X)


def _trained(norm: Any) -> Any:
    y, stats = norm.train(X, norm.init_state())
    return y, norm(X, stats)


def _run(cell: Any) -> Any:
    return nn.run(cell, SEQUENCE)


def _appended(cache: Any) -> Any:
    return cache.append(np.ones((1, 1, 2)), np.ones((1, 1, 2)))
