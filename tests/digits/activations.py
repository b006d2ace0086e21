"""Activations and losses of ``funcgrad.nn`` as subjects, and functions of three logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from mpmath import mp

import funcgrad.numpy as fnp
from funcgrad import nn
from tests.digits.drawing import positive, real
from tests.digits.subjects import Point, Subject

__all__ = ["APART", "activations"]

APART: Final = frozenset(
    """adaptive_avg_pool adaptive_max_pool avg_pool conv conv_transpose glorot_normal glorot_uniform
    he_normal he_uniform max_pool one_hot ones zeros""".split()
)
"""What adds, multiplies and selects, and what draws numbers: no digits are lost there."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _gelu(x: Any) -> Any:
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def _gelu_of_tanh(x: Any) -> Any:
    return x * _sigmoid(mp.sqrt(8 / mp.pi) * (x + mp.mpf(44715) / 10**6 * x**3))


OF_ONE: Final[dict[str, Callable[..., Any]]] = {
    "relu": lambda x: max(x, 0 * x),
    "gelu": _gelu_of_tanh,
    "log_sigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "swish": lambda x: x * _sigmoid(x),
    "tanh": mp.tanh,
}
OF_TWO: Final[dict[str, Callable[..., Any]]] = {
    "elu": lambda x, alpha: x if x > 0 else alpha * mp.expm1(x),
    "leaky_relu": lambda x, slope: x if x > 0 else slope * x,
    "squared_error": lambda x, y: (x - y) ** 2,
}


def _total(x: tuple[Any, ...]) -> Any:
    return mp.log(mp.fsum([mp.exp(each) for each in x]))


def _excess(x: tuple[Any, ...], k: int) -> Any:
    """The total over one of the logits, without what they have in common."""
    return mp.log1p(mp.fsum([mp.exp(other - x[k]) for j, other in enumerate(x) if j != k]))


def _cross_entropy(*x: Any) -> Any:
    return mp.fsum([share * _excess(x[:3], k) for k, share in enumerate(x[3:])])


OF_LOGITS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "logsumexp": (lambda *x: nn.logsumexp(fnp.stack(x)), lambda *x: _total(x)),
    "softmax": (lambda *x: nn.softmax(fnp.stack(x))[0], lambda *x: mp.exp(-_excess(x, 0))),
    "log_softmax": (lambda *x: nn.log_softmax(fnp.stack(x))[0], lambda *x: -_excess(x, 0)),
    "cross_entropy": (lambda *x: nn.cross_entropy(fnp.stack(x), 0), lambda *x: _excess(x, 0)),
}


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
            draw = _of_decades(count, 1.5, 200 if name != "squared_error" else 100)
            found[f"nn.{name}"] = Subject(getattr(nn, name), twin, draw)
    exact = Subject(lambda x: nn.gelu(x, approximate=False), _gelu, _of_decades(1, 1.5, 200))
    shares = Subject(
        lambda *x: nn.cross_entropy(fnp.stack(x[:3]), fnp.stack(x[3:])),
        _cross_entropy,
        _logits_and_shares,
    )
    for name, (function, twin) in OF_LOGITS.items():
        found[f"nn.{name}"] = Subject(function, twin, _of_decades(3, 1.5, 8))
    return {**found, "nn.gelu, exact": exact, "nn.cross_entropy, shares": shares}
