"""Losses have PyTorch's and optax's values and gradients: ``loss_parity.json``, to 1e-12."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from tests.every_mode import assert_every_mode
from tests.nn.loss_parity import (
    CLASSES,
    GROUPS,
    LABEL_LENGTHS,
    LABELS,
    LOGIT_LENGTHS,
    SHAPES,
    SIGNS,
    TABLE,
    TRUTHS,
    numbers,
)
from tests.nn.parity import projected
from tests.together import together

NUMBERS = json.loads(TABLE.read_text("utf-8"))
FOCAL: Any = {"alpha": 0.25, "gamma": 1.5}
TIMES: Any = {"logit_lengths": LOGIT_LENGTHS, "label_lengths": LABEL_LENGTHS}

LOSSES: dict[str, Callable[..., Any]] = {
    "cross_entropy": lambda x: nn.cross_entropy(x, CLASSES),
    "cross_entropy, smoothed": lambda x: nn.cross_entropy(x, CLASSES, smoothing=0.1),
    "cross_entropy, of shares": nn.cross_entropy,
    "cross_entropy, of shares, smoothed": lambda x, y: nn.cross_entropy(x, y, smoothing=0.1),
    "kl_divergence": lambda x, y: nn.kl_divergence(nn.log_softmax(x), y),
    "kl_divergence, of logarithms": lambda x, y: nn.kl_divergence(
        nn.log_softmax(x), y, log_target=True
    ),
    "sigmoid_binary_cross_entropy": lambda x: nn.sigmoid_binary_cross_entropy(x, TRUTHS),
    "sigmoid_binary_cross_entropy, of shares": nn.sigmoid_binary_cross_entropy,
    "sigmoid_focal_loss": lambda x: nn.sigmoid_focal_loss(x, TRUTHS == 1, **FOCAL),
    "sigmoid_focal_loss, of shares": lambda x, y: nn.sigmoid_focal_loss(x, y, **FOCAL),
    "softmax_focal_loss": lambda x: nn.softmax_focal_loss(x, CLASSES),
    "hinge_loss": lambda x: nn.hinge_loss(x, SIGNS.astype(int)),
    "squared_error": nn.squared_error,
    "huber_loss": lambda x, y: nn.huber_loss(x, y, delta=0.7),
    "log_cosh": nn.log_cosh,
    "cosine_similarity": nn.cosine_similarity,
    "cosine_distance": nn.cosine_distance,
    "triplet_margin_loss": lambda x, y, z: nn.triplet_margin_loss(x, y, z, margin=0.5),
    "triplet_margin_loss, of order 3": lambda x, y, z: nn.triplet_margin_loss(
        x, y, z, margin=0.5, norm_degree=3
    ),
    "ntxent": lambda x: nn.ntxent(x, GROUPS, 0.5).mean(),
    "dice_loss": lambda x, y: nn.dice_loss(
        nn.softmax(x), y, (1, 2), alpha=0.3, beta=0.8, smooth=0.5
    ).mean(-1),
    "ctc_loss": lambda x: nn.ctc_loss(x, LABELS, **TIMES),
    "ctc_loss, of a last blank": lambda x: nn.ctc_loss(x, LABELS % 4, **TIMES, blank_id=4),
}


def test_every_row_is_compared() -> None:
    assert set(NUMBERS) == set(SHAPES) == set(LOSSES)


@together("case", LOSSES)
def test_losses_agree_with_other_libraries(case: str) -> None:
    expected, loss = NUMBERS[case], LOSSES[case]
    arrays = fg.tree.map(fg.tensor, numbers(case))
    slopes = fg.grad(lambda arrays: fnp.sum(fnp.sin(loss(*arrays.values()))))(arrays)
    found = {"value": loss(*arrays.values()), **slopes}
    assert set(found) == set(expected)
    for name, array in found.items():
        size = float(np.abs(np.asarray(array)).sum())
        assert_allclose(projected(array), expected[name], rtol=0, atol=1e-12 * max(size, 1))


@together("case", LOSSES)
def test_every_mode(case: str) -> None:
    assert_every_mode(LOSSES[case], *map(fg.tensor, numbers(case).values()))
