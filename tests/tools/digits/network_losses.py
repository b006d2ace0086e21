"""Losses of ``funcgrad.nn`` as subjects: of numbers, of a logit beside a share, and of vectors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
from mpmath import mp

import funcgrad.numpy as fnp
from funcgrad import nn
from tests.tools.digits.drawing import level, positive, real
from tests.tools.digits.subjects import Point, Subject


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _binary(x: Any, y: Any) -> Any:
    return y * _softplus(-x) + (1 - y) * _softplus(x)


def _focal(x: Any, y: Any, gamma: Any = 2) -> Any:
    return (y * _sigmoid(-x) + (1 - y) * _sigmoid(x)) ** gamma * _binary(x, y)


def _softmax_focal(*x: Any) -> Any:
    others = mp.exp(x[1] - x[0]) + mp.exp(x[2] - x[0])
    return (others / (1 + others)) ** 2 * mp.log1p(others)


def _huber(x: Any, y: Any) -> Any:
    size = abs(x - y)
    return size**2 / 2 if size <= 1 else size - mp.mpf(1) / 2


def _cosine(x: Any, y: Any, a: Any, b: Any) -> Any:
    return (x * a + y * b) / mp.sqrt((x**2 + y**2) * (a**2 + b**2))


def _length(*x: Any) -> Any:
    return mp.sqrt(mp.fsum([each**2 for each in x]))


def _triplet(x: Any, y: Any, z: Any) -> Any:
    return max(_length(x - y, 1 - z) - _length(x - 3, y - z) + 1, 0 * x)


def _contrast(x: Any, y: Any, z: Any) -> Any:
    """The loss of (x, 1) beside (y, 1), told from (z, 1), at the temperature 1."""
    return _softplus(_cosine(x, 1, z, 1) - _cosine(x, 1, y, 1))


def _divergence(x: Any, y: Any, p: Any) -> Any:
    return p * (mp.log(p) - x) + (1 - p) * (mp.log(1 - p) - y)


def _dice(p: Any, q: Any, t: Any) -> Any:
    return 1 - (p * t + q + 1) / ((p + q + t + 1) / 2 + 1)


def _spelled(x: Any, y: Any, z: Any) -> Any:
    """The loss of the label 1 for three times, with logits of 0 for the blank."""
    total = mp.mpf(0)
    for path in product((0, 1), repeat=3):
        if path in {(1, 0, 1), (0, 0, 0)}:
            continue
        steps = zip((x, y, z), path, strict=True)
        total += mp.fprod([_sigmoid(logit if one else -logit) for logit, one in steps])
    return -mp.log(total)


def _draw(*kinds: str, decades: float = 1.5, far: float = 8) -> Callable[..., Point]:
    """Draw numbers of either sign, positive ones, and probabilities."""

    def draw(rng: np.random.Generator, wide: bool) -> Point:
        size = far if wide else decades
        one = {
            "real": lambda: real(rng, size),
            "positive": lambda: positive(rng, size),
            "share": lambda: level(rng, False),
        }
        return tuple([one[kind]() for kind in kinds])

    return draw


_TWO: Final = ("real", "real")
_THREE: Final = ("real", "real", "real")


def network_losses() -> dict[str, Subject]:
    """Losses by their names."""
    found = {
        "squared_error": Subject(
            nn.squared_error, lambda x, y: (x - y) ** 2, _draw(*_TWO, far=100)
        ),
        "huber_loss": Subject(nn.huber_loss, _huber, _draw(*_TWO, far=100)),
        "log_cosh": Subject(nn.log_cosh, lambda x, y: mp.log(mp.cosh(x - y)), _draw(*_TWO, far=3)),
        "hinge_loss": Subject(
            nn.hinge_loss, lambda x, y: max(1 - x * y, 0 * x), _draw(*_TWO, far=100)
        ),
        "sigmoid_binary_cross_entropy": Subject(
            nn.sigmoid_binary_cross_entropy, _binary, _draw("real", "share")
        ),
        "sigmoid_binary_cross_entropy, right": Subject(
            lambda x: nn.sigmoid_binary_cross_entropy(x, 1),
            lambda x: _softplus(-x),
            _draw("real", far=2.5),
        ),
        "sigmoid_focal_loss": Subject(nn.sigmoid_focal_loss, _focal, _draw("real", "share")),
        "sigmoid_focal_loss, right": Subject(
            lambda x: nn.sigmoid_focal_loss(x, 1, gamma=0.5),
            lambda x: _focal(x, 1, mp.mpf(1) / 2),
            _draw("real", far=2.5),
        ),
        "softmax_focal_loss": Subject(
            lambda *x: nn.softmax_focal_loss(fnp.stack(x), 0), _softmax_focal, _draw(*_THREE, far=2)
        ),
        "cosine_similarity": Subject(
            lambda x, y, a, b: nn.cosine_similarity(fnp.stack([x, y]), fnp.stack([a, b])),
            _cosine,
            _draw(*_TWO, *_TWO, decades=0.5, far=0.5),
        ),
        "cosine_distance": Subject(
            lambda x, y, a, b: nn.cosine_distance(fnp.stack([x, y]), fnp.stack([a, b])),
            lambda *x: 1 - _cosine(*x),
            _draw(*_TWO, *_TWO, decades=0.5, far=0.5),
        ),
        "triplet_margin_loss": Subject(
            lambda x, y, z: nn.triplet_margin_loss(
                fnp.stack([x, z]), fnp.stack([y, 1.0 + 0 * y]), fnp.stack([3.0 + 0 * y, y])
            ),
            _triplet,
            _draw(*_THREE, decades=0.5, far=0.5),
        ),
        "ntxent": Subject(
            lambda x, y, z: nn.ntxent(
                fnp.stack([fnp.stack([each, 1.0 + 0 * each]) for each in (x, y, z)]), [0, 0, 1], 1.0
            )[0],
            _contrast,
            _draw(*_THREE, decades=0.5, far=0.5),
        ),
        "kl_divergence": Subject(
            lambda x, y, p: nn.kl_divergence(fnp.stack([x, y]), fnp.stack([p, 1 - p])),
            _divergence,
            _draw("real", "real", "share", decades=0.5, far=4),
        ),
        "dice_loss": Subject(
            lambda p, q, t: nn.dice_loss(fnp.stack([p, q]), fnp.stack([t, 1.0 + 0 * t])),
            _dice,
            _draw("share", "share", "share"),
        ),
        "ctc_loss": Subject(
            lambda *x: nn.ctc_loss(fnp.stack([0 * fnp.stack(x), fnp.stack(x)], -1), [1]),
            _spelled,
            _draw(*_THREE, decades=0.5, far=2),
        ),
    }
    return {f"nn.{name}": subject for name, subject in found.items()}
