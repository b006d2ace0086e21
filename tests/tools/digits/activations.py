"""Activations of ``funcgrad.nn`` as subjects, and functions of three logits, also a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from mpmath import mp

import funcgrad.numpy as fnp
from funcgrad import nn
from tests.tools.digits.drawing import positive, real
from tests.tools.digits.subjects import Point, Subject

APART: Final = frozenset(
    """adaptive_avg_pool adaptive_max_pool avg_pool conv conv_transpose glorot_normal glorot_uniform
    he_normal he_uniform max_pool one_hot ones zeros
    dropout lecun_normal lecun_uniform orthogonal sinusoidal_positions truncated_normal
    variance_scaling
    Activation BatchNorm BatchStatistics Conv ConvTranspose Dropout Embedding GRUCell GroupNorm
    from_torch to_torch
    KVCache LSTMCell LayerNorm Linear MLP MultiHeadAttention RMSNorm RNNCell Residual Sequential
    PReLU TransformerBlock spectral_norm weight_norm
    bidirectional build dense recipe run sequential summary
    segment_max segment_mean segment_min segment_prod segment_softmax segment_sum""".split()
)
"""What adds, multiplies and selects, and what draws numbers: no digits are lost there. Layers apply
functions that have twins."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _gelu(x: Any) -> Any:
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def _gelu_of_tanh(x: Any) -> Any:
    return x * _sigmoid(mp.sqrt(8 / mp.pi) * (x + mp.mpf(44715) / 10**6 * x**3))


def _elu(x: Any, alpha: Any = 1) -> Any:
    return x if x > 0 else alpha * mp.expm1(x)


def _between(x: Any, low: int, high: int) -> Any:
    return min(max(x, low + 0 * x), high + 0 * x)


def _squareplus(x: Any, width: Any = 4) -> Any:
    return (x + mp.sqrt(x**2 + width)) / 2


OF_ONE: Final[dict[str, Callable[..., Any]]] = {
    "relu": lambda x: max(x, 0 * x),
    "celu": _elu,
    "hard_sigmoid": lambda x: _between(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * _between(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * _between(x + 3, 0, 6) / 6,
    "hard_tanh": lambda x: _between(x, -1, 1),
    "log1mexp": lambda x: mp.log(-mp.expm1(-x)) if x > 0 else mp.nan,
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "relu6": lambda x: _between(x, 0, 6),
    "selu": lambda x: mp.mpf(1.0507009873554805) * _elu(x, mp.mpf(1.6732632423543772)),
    "softsign": lambda x: x / (1 + abs(x)),
    "sparse_plus": lambda x: x if x > 1 else (_between(x, -1, 1) + 1) ** 2 / 4,
    "sparse_sigmoid": lambda x: (_between(x, -1, 1) + 1) / 2,
    "squareplus": _squareplus,
    "gelu": _gelu_of_tanh,
    "log_sigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "swish": lambda x: x * _sigmoid(x),
    "tanh": mp.tanh,
}
OF_TWO: Final[dict[str, Callable[..., Any]]] = {
    "elu": _elu,
    "leaky_relu": lambda x, slope: x if x > 0 else slope * x,
}


def _total(x: tuple[Any, ...]) -> Any:
    return mp.log(mp.fsum([mp.exp(each) for each in x]))


def _excess(x: tuple[Any, ...], k: int) -> Any:
    """The total over one of the logits, without what they have in common."""
    return mp.log1p(mp.fsum([mp.exp(other - x[k]) for j, other in enumerate(x) if j != k]))


def _cross_entropy(*x: Any) -> Any:
    return mp.fsum([share * _excess(x[:3], k) for k, share in enumerate(x[3:])])


def _sparse(*x: Any) -> Any:
    """The first of the shares: what is above the level at which their sum is 1."""
    ranked = sorted(x, reverse=True)
    levels = [(mp.fsum(ranked[:k]) - 1) / k for k in range(1, len(x) + 1)]
    return max(x[0] - max(levels), 0 * x[0])


def _standardized(*x: Any) -> Any:
    mean = mp.fsum(x) / len(x)
    return (x[0] - mean) / mp.sqrt(mp.fsum([(each - mean) ** 2 for each in x]) / len(x) + EPSILON)


def _mean_squared(*x: Any) -> Any:
    return x[0] / mp.sqrt(mp.fsum([each**2 for each in x]) / len(x) + mp.mpf(1e-6))


EPSILON: Final = mp.mpf(1e-5)
OF_LOGITS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "logsumexp": (lambda *x: nn.logsumexp(fnp.stack(x)), lambda *x: _total(x)),
    "logmeanexp": (lambda *x: nn.logmeanexp(fnp.stack(x)), lambda *x: _total(x) - mp.log(len(x))),
    "softmax": (lambda *x: nn.softmax(fnp.stack(x))[0], lambda *x: mp.exp(-_excess(x, 0))),
    "log_softmax": (lambda *x: nn.log_softmax(fnp.stack(x))[0], lambda *x: -_excess(x, 0)),
    "cross_entropy": (lambda *x: nn.cross_entropy(fnp.stack(x), 0), lambda *x: _excess(x, 0)),
    "sparsemax": (lambda *x: nn.sparsemax(fnp.stack(x))[0], _sparse),
    "glu": (lambda x, y, z: nn.glu(fnp.stack([x, y, y, z]))[0], lambda x, y, z: x * _sigmoid(y)),
    "rotary": (
        lambda x, y, z: nn.rotary(fnp.stack([[x, y]]), fnp.stack([z]))[0, 0],
        lambda x, y, z: x * mp.cos(z) - y * mp.sin(z),
    ),
}


OF_SIMILAR: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "standardize": (lambda *x: nn.standardize(fnp.stack(x))[0], _standardized),
    "layer_norm": (lambda *x: nn.layer_norm(fnp.stack(x))[0], _standardized),
    "group_norm": (lambda *x: nn.group_norm(fnp.stack(x)[None], 1)[0, 0], _standardized),
    "rms_norm": (lambda *x: nn.rms_norm(fnp.stack(x))[0], _mean_squared),
    "attention": (
        lambda q, k, v: nn.attention([[q]], fnp.stack([k, 0 * k])[:, None], [[v], [1.0]])[0, 0],
        lambda q, k, v: 1 + _sigmoid(q * k) * (v - 1),
    ),
}
"""Normalizations and means, whose derivatives in one argument beside much larger ones are small
differences of large numbers: their arguments are drawn from one decade."""


def _of_decades(count: int, moderate: float, far: float) -> Callable[..., Point]:
    def draw(rng: np.random.Generator, wide: bool) -> Point:
        return tuple([real(rng, far if wide else moderate) for _ in range(count)])

    return draw


def _logits_and_shares(rng: np.random.Generator, wide: bool) -> Point:
    return *_of_decades(3, 1.5, 8)(rng, wide), *[positive(rng, 2) for _ in range(3)]


def activations() -> dict[str, Subject]:
    """Functions of one, two and three numbers, and a loss of logits beside probabilities."""
    found = {}
    for names, count in ((OF_ONE, 1), (OF_TWO, 2)):
        for name, twin in names.items():
            found[f"nn.{name}"] = Subject(getattr(nn, name), twin, _of_decades(count, 1.5, 200))
    exact = Subject(lambda x: nn.gelu(x, approximate=False), _gelu, _of_decades(1, 1.5, 200))
    shares = Subject(
        lambda *x: nn.cross_entropy(fnp.stack(x[:3]), fnp.stack(x[3:])),
        _cross_entropy,
        _logits_and_shares,
    )
    for name, (function, twin) in OF_LOGITS.items():
        found[f"nn.{name}"] = Subject(function, twin, _of_decades(3, 1.5, 8))
    for name, (function, twin) in OF_SIMILAR.items():
        found[f"nn.{name}"] = Subject(function, twin, _of_decades(3, 0.5, 0.5))
    return {**found, "nn.gelu, exact": exact, "nn.cross_entropy, shares": shares}
