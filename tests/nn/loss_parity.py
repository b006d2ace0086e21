"""Values and gradients of losses by PyTorch and by optax, as numbers in ``loss_parity.json``.

``python -m tests.nn.loss_parity``, in an environment with torch, jax and optax, computes them anew;
``test_loss_parity.py`` compares ours with them. Each array is stored as its product with cosines.
Where both libraries have a loss, they have to agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.nn.parity import projected

TABLE = Path(__file__).with_suffix(".json")
CLASSES = np.array([2, 0, 3])
TRUTHS = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [1, 1, 0, 0, 1]])
SIGNS = 2.0 * TRUTHS - 1.0
LABELS = np.array([[1, 2, 2], [3, 1, 0], [1, 1, 3]])
LABEL_LENGTHS = np.array([3, 2, 3])
LOGIT_LENGTHS = np.array([7, 5, 6])
GROUPS = np.array([0, 1, 0, 1, 2, 2])

LOGITS: dict[str, tuple[int, ...]] = {"x": (3, 4)}
TWO: dict[str, tuple[int, ...]] = {"x": (3, 5), "y": (3, 5)}
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "cross_entropy": LOGITS,
    "cross_entropy, smoothed": LOGITS,
    "cross_entropy, of shares": {"x": (3, 4), "y": (3, 4)},
    "cross_entropy, of shares, smoothed": {"x": (3, 4), "y": (3, 4)},
    "kl_divergence": {"x": (3, 4), "y": (3, 4)},
    "kl_divergence, of logarithms": {"x": (3, 4), "y": (3, 4)},
    "sigmoid_binary_cross_entropy": {"x": (3, 5)},
    "sigmoid_binary_cross_entropy, of shares": TWO,
    "sigmoid_focal_loss": {"x": (3, 5)},
    "sigmoid_focal_loss, of shares": TWO,
    "softmax_focal_loss": LOGITS,
    "hinge_loss": {"x": (3, 5)},
    "squared_error": TWO,
    "huber_loss": TWO,
    "log_cosh": TWO,
    "cosine_similarity": TWO,
    "cosine_distance": TWO,
    "triplet_margin_loss": {**TWO, "z": (3, 5)},
    "triplet_margin_loss, of order 3": {**TWO, "z": (3, 5)},
    "ntxent": {"x": (6, 3)},
    "dice_loss": {"x": (2, 4, 4, 3), "y": (2, 4, 4, 3)},
    "ctc_loss": {"x": (3, 7, 4)},
    "ctc_loss, of a last blank": {"x": (3, 7, 5)},
}
"""By case, the arrays that are differentiated in."""


def numbers(case: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a case; targets that are shares sum to 1, and are logarithms where it says."""
    rng = np.random.default_rng(list(case.encode()))
    arrays = {name: 2 * rng.normal(size=shape) for name, shape in SHAPES[case].items()}
    if "shares" in case or case.startswith(("kl", "dice")):
        weights = np.exp(arrays["y"])
        arrays["y"] = weights / weights.sum(-1, keepdims=True)
    if "logarithms" in case:
        arrays["y"] = np.log(arrays["y"])
    return arrays


def torch_losses() -> dict[str, Callable[..., Any]]:
    """PyTorch's losses, one number for each example."""
    import torch
    from torch.nn import functional as f

    classes, truths = torch.tensor(CLASSES), torch.tensor(TRUTHS).double()
    labels, signs = torch.tensor(LABELS), torch.tensor(SIGNS)
    counts, times = torch.tensor(LABEL_LENGTHS), torch.tensor(LOGIT_LENGTHS)
    options: Any = {"reduction": "none"}

    def kl(x: Any, y: Any, **further: Any) -> Any:
        return f.kl_div(torch.log_softmax(x, -1), y, **options, **further).sum(-1)

    def ctc(x: Any, blank: int) -> Any:
        logs = torch.log_softmax(x, -1).transpose(0, 1)
        known = labels if blank == 0 else labels % 4
        return f.ctc_loss(logs, known, times, counts, blank=blank, **options)

    def focal(x: Any, y: Any) -> Any:
        p = torch.sigmoid(x)
        wrong = y * (1 - p) + (1 - y) * p
        weight = 0.25 * y + 0.75 * (1 - y)
        return weight * wrong**1.5 * f.binary_cross_entropy_with_logits(x, y, **options)

    def softmax_focal(x: Any) -> Any:
        cost = f.cross_entropy(x, classes, **options)
        return (1 - torch.exp(-cost)) ** 2 * cost

    def triplet(x: Any, y: Any, z: Any, p: float = 2.0) -> Any:
        return f.triplet_margin_loss(x, y, z, margin=0.5, p=p, eps=0.0, **options)

    return {
        "cross_entropy": lambda x: f.cross_entropy(x, classes, **options),
        "cross_entropy, smoothed": lambda x: f.cross_entropy(
            x, classes, label_smoothing=0.1, **options
        ),
        "cross_entropy, of shares": lambda x, y: f.cross_entropy(x, y, **options),
        "cross_entropy, of shares, smoothed": lambda x, y: f.cross_entropy(
            x, y, label_smoothing=0.1, **options
        ),
        "kl_divergence": kl,
        "kl_divergence, of logarithms": lambda x, y: kl(x, y, log_target=True),
        "sigmoid_binary_cross_entropy": lambda x: f.binary_cross_entropy_with_logits(
            x, truths, **options
        ),
        "sigmoid_binary_cross_entropy, of shares": lambda x, y: f.binary_cross_entropy_with_logits(
            x, y, **options
        ),
        "sigmoid_focal_loss": lambda x: focal(x, truths),
        "sigmoid_focal_loss, of shares": focal,
        "softmax_focal_loss": softmax_focal,
        "hinge_loss": lambda x: torch.relu(1 - signs * x),
        "squared_error": lambda x, y: f.mse_loss(x, y, **options),
        "huber_loss": lambda x, y: f.huber_loss(x, y, delta=0.7, **options),
        "cosine_similarity": lambda x, y: f.cosine_similarity(x, y, dim=-1),
        "triplet_margin_loss": triplet,
        "triplet_margin_loss, of order 3": lambda x, y, z: triplet(x, y, z, 3.0),
        "ctc_loss": lambda x: ctc(x, 0),
        "ctc_loss, of a last blank": lambda x: ctc(x, 4),
    }


def optax_losses() -> dict[str, Callable[..., Any]]:
    """The losses of optax, one number for each example but for ``ntxent``."""
    import jax
    import jax.numpy as jnp
    from optax import losses as o

    classes, truths = jnp.asarray(CLASSES), jnp.asarray(TRUTHS, float)
    hot = jax.nn.one_hot(classes, 4)

    def ctc(x: Any) -> Any:
        paddings = jnp.arange(7) >= LOGIT_LENGTHS[:, None]
        label_paddings = jnp.arange(3) >= LABEL_LENGTHS[:, None]
        options = {"log_epsilon": -1e30}
        return o.ctc_loss(x, paddings * 1.0, LABELS, label_paddings * 1.0, **options)

    focal = {"alpha": 0.25, "gamma": 1.5}
    return {
        "cross_entropy": lambda x: o.softmax_cross_entropy_with_integer_labels(x, classes),
        "cross_entropy, smoothed": lambda x: o.softmax_cross_entropy(x, o.smooth_labels(hot, 0.1)),
        "cross_entropy, of shares": o.softmax_cross_entropy,
        "kl_divergence": lambda x, y: o.kl_divergence(jax.nn.log_softmax(x), y),
        "kl_divergence, of logarithms": lambda x, y: o.kl_divergence_with_log_targets(
            jax.nn.log_softmax(x), y
        ),
        "sigmoid_binary_cross_entropy": lambda x: o.sigmoid_binary_cross_entropy(x, truths),
        "sigmoid_binary_cross_entropy, of shares": o.sigmoid_binary_cross_entropy,
        "sigmoid_focal_loss": lambda x: o.sigmoid_focal_loss(x, truths, **focal),
        "sigmoid_focal_loss, of shares": lambda x, y: o.sigmoid_focal_loss(x, y, **focal),
        "hinge_loss": lambda x: o.hinge_loss(x, jnp.asarray(SIGNS)),
        "squared_error": o.squared_error,
        "huber_loss": lambda x, y: o.huber_loss(x, y, delta=0.7),
        "log_cosh": o.log_cosh,
        "cosine_similarity": o.cosine_similarity,
        "cosine_distance": o.cosine_distance,
        "triplet_margin_loss": lambda x, y, z: o.triplet_margin_loss(x, y, z, margin=0.5, eps=0.0),
        "ntxent": lambda x: o.ntxent(x, jnp.asarray(GROUPS), 0.5),
        "dice_loss": lambda x, y: o.dice_loss(x, y, alpha=0.3, beta=0.8, smooth=0.5),
        "ctc_loss": ctc,
    }


def by_torch(case: str, loss: Callable[..., Any]) -> dict[str, float]:
    """The value, and the gradient of the sum of its sines in each array."""
    import torch

    arrays = {name: torch.tensor(x, requires_grad=True) for name, x in numbers(case).items()}
    y = loss(*arrays.values())
    slopes = torch.autograd.grad(torch.sin(y).sum(), list(arrays.values()))
    found = {name: projected(slope) for name, slope in zip(arrays, slopes, strict=True)}
    return {"value": projected(y.detach()), **found}


def by_optax(case: str, loss: Callable[..., Any]) -> dict[str, float]:
    """The same numbers by jax."""
    import jax

    arrays = {name: jax.numpy.asarray(x) for name, x in numbers(case).items()}
    slopes = jax.grad(lambda arrays: jax.numpy.sin(loss(*arrays.values())).sum())(arrays)
    found = {name: projected(slopes[name]) for name in arrays}
    return {"value": projected(loss(*arrays.values())), **found}


def main() -> None:
    """Write the table."""
    import jax

    jax.config.update("jax_enable_x64", True)
    table = {case: by_torch(case, loss) for case, loss in torch_losses().items()}
    for case, loss in optax_losses().items():
        found = by_optax(case, loss)
        for name, number in table.setdefault(case, found).items():
            assert abs(number - found[name]) <= 1e-11 * max(1, abs(number)), (case, name)
    lines = [f"{json.dumps(case)}: {json.dumps(row)}" for case, row in sorted(table.items())]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
