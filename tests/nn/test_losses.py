"""Losses beside other libraries' numbers: masks, ends, kinks, dtypes, and what they refuse."""

from itertools import product
from math import cosh, exp, inf, log, log1p, nan
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.together import refused, together

RNG = np.random.default_rng(5)
X, Y, Z = RNG.normal(size=(3, 4, 5))
SHARES = np.exp(Y) / np.exp(Y).sum(-1, keepdims=True)
LABELS = np.array([1, 4, 0, 2])
ROWS = np.array([True, False, True, False])
CELLS = RNG.random((4, 5)) < 0.6

# By name: a loss of arrays, the arrays, and a mask of its results.
MASKED: dict[str, tuple[Any, tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]] = {
    "cross_entropy": (lambda x, **m: nn.cross_entropy(x, LABELS, **m), (X,), ROWS),
    "smoothed": (lambda x, **m: nn.cross_entropy(x, LABELS, smoothing=0.2, **m), (X,), ROWS),
    "of shares": (nn.cross_entropy, (X, SHARES), ROWS),
    "kl_divergence": (nn.kl_divergence, (X, SHARES), ROWS),
    "of logarithms": (lambda x, y, **m: nn.kl_divergence(x, y, log_target=True, **m), (X, Y), ROWS),
    "binary": (nn.sigmoid_binary_cross_entropy, (X, SHARES), CELLS),
    "focal": (lambda x, y, **m: nn.sigmoid_focal_loss(x, y, alpha=0.3, **m), (X, SHARES), CELLS),
    "softmax_focal": (lambda x, **m: nn.softmax_focal_loss(x, LABELS, **m), (X,), ROWS),
    "hinge": (nn.hinge_loss, (X, np.sign(Y)), CELLS),
    "squared_error": (nn.squared_error, (X, Y), CELLS),
    "huber": (nn.huber_loss, (X, Y), CELLS),
    "log_cosh": (nn.log_cosh, (X, Y), CELLS),
    "similarity": (nn.cosine_similarity, (X, Y), ROWS),
    "distance": (nn.cosine_distance, (X, Y), ROWS),
    "triplet": (nn.triplet_margin_loss, (X, Y, Z), ROWS),
    "ctc": (lambda x, **m: nn.ctc_loss(fnp.stack([x, -x], -1), [[1]] * 4, **m), (X,), ROWS),
}
cases = pytest.mark.parametrize(("loss", "arrays", "mask"), MASKED.values(), ids=MASKED)


def spoiled(x: Any, mask: Any, value: float) -> Any:
    """An array with a value where a mask of its examples, or elements, is false."""
    wide = mask if mask.ndim == x.ndim else mask[:, None]
    return np.where(wide, x, value)


@pytest.mark.slow
@cases
@together("value", [nan, inf, -inf])
def test_what_is_masked_contributes_nothing(loss, arrays, mask, value):
    """No value and no derivative of first or second order depends on what is masked."""
    plain = np.asarray(loss(*arrays))
    bad = [fg.tensor(spoiled(x, mask, value)) for x in arrays]
    assert_array_equal(loss(*bad, where=mask), np.where(mask, plain, 0))
    assert_allclose(loss(*bad, where=mask).mean(where=mask), plain[mask].mean(), rtol=1e-14)
    total = lambda *x: fnp.sum(loss(*x, where=mask) * fnp.cos(loss(*x, where=mask)))  # noqa: E731
    places = tuple(range(len(arrays)))
    for masked_rows in (total, fg.jit(total)):
        found = fg.grad(masked_rows, places)(*bad)
        expected = fg.grad(total, places)(*arrays)
        for slope, other in zip(found, expected, strict=True):
            assert_allclose(slope, other, rtol=1e-11, atol=1e-13)
            wide = mask if mask.ndim == slope.ndim else mask[:, None]
            assert_array_equal(np.where(wide, 0, slope), 0)
    tangents = [fg.tensor(spoiled(np.ones(x.shape), mask, value)) for x in arrays]
    ones = [fg.tensor(np.ones(x.shape)) for x in arrays]
    pushed = fg.jvp(total, tuple(bad), tuple(tangents))[1]
    assert_allclose(pushed, fg.jvp(total, arrays, tuple(ones))[1], rtol=1e-11)
    twice = fg.hvp(lambda x: total(x, *bad[1:]), (bad[0],), (ones[0],))
    again = fg.hvp(lambda x: total(x, *arrays[1:]), (fg.tensor(arrays[0]),), (ones[0],))
    assert_allclose(twice, again, rtol=1e-10, atol=1e-12)


@cases
def test_masks_broadcast_and_are_batched(loss, arrays, mask):
    expected = loss(*arrays, where=mask)
    stacked = [np.stack([x, x]) for x in arrays]
    found = fg.vmap(lambda m, *x: loss(*x, where=m))(np.stack([mask, ~mask]), *stacked)
    assert_allclose(found[0], expected, rtol=1e-14)
    assert_allclose(found[1], loss(*arrays, where=~mask), rtol=1e-14)
    assert_array_equal(loss(*arrays, where=False), np.zeros(mask.shape))
    with pytest.raises(DtypeError, match="where has to be boolean, got float64"):
        loss(*arrays, where=mask * 1.0)
    with pytest.raises(ShapeError, match=r"where= of shape \(7,\) does not broadcast"):
        loss(*arrays, where=np.ones(7, bool))


@cases
def test_dtypes_and_empty_arrays(loss, arrays, mask):
    for dtype in ("float16", "float32"):
        low = [fg.tensor(x.astype(dtype)) for x in arrays]
        assert loss(*low).dtype == loss(*low, where=mask).dtype == dtype
        assert_allclose(loss(*low), loss(*arrays), rtol=0.02, atol=0.02)
        assert fg.grad(lambda x: fnp.sum(loss(x, *low[1:])))(low[0]).dtype == dtype  # noqa: B023
    with pytest.raises(DtypeError, match="takes real arguments, got complex128"):
        loss(arrays[0] * 1j, *arrays[1:])


def test_empty_arrays():
    none, row = np.zeros((0, 3)), np.zeros(0, int)
    for loss in (nn.squared_error, nn.huber_loss, nn.log_cosh, nn.hinge_loss):
        assert loss(none, none).shape == (0, 3)
    assert nn.sigmoid_focal_loss(none, none, alpha=0.5).shape == (0, 3)
    for many in (nn.kl_divergence, nn.cosine_distance, nn.dice_loss, nn.cross_entropy):
        assert many(none, none).shape == (0,)
    assert nn.softmax_focal_loss(none, row).shape == (0,)
    assert nn.triplet_margin_loss(none, none, none).shape == (0,)
    assert nn.ntxent(none, row).shape == (0,)
    assert nn.ctc_loss(np.zeros((0, 4, 3)), np.zeros((0, 2), int)).shape == (0,)
    assert_array_equal(nn.ctc_loss(np.zeros((2, 4, 2)), np.zeros((2, 0), int)), [4 * log(2)] * 2)
    assert_array_equal(nn.ctc_loss(np.zeros((0, 2)), [1]), inf)
    assert_array_equal(nn.ctc_loss(np.zeros((0, 2)), np.zeros(0, int)), 0)
    assert_array_equal(nn.cosine_similarity(np.zeros((2, 0)), np.zeros((2, 0))), [0, 0])
    assert_array_equal(nn.dice_loss([], [], smooth=0.0), 0)


# ---------------------------------------------------------------------------------- distributions


def test_smoothing_is_that_of_the_labels():
    smooth = 0.9 * np.eye(5)[LABELS] + 0.1 / 5
    assert_allclose(
        nn.cross_entropy(X, LABELS, smoothing=0.1), nn.cross_entropy(X, smooth), rtol=1e-14
    )
    assert_allclose(
        nn.cross_entropy(X.T, LABELS, axis=0, smoothing=fg.tensor(0.1)),
        nn.cross_entropy(X, smooth),
        rtol=1e-14,
    )
    fg.testing.check_grads(lambda s: nn.cross_entropy(X, LABELS, smoothing=s), (0.3,), order=2)
    masked = [0.0, -inf, 1.0]
    assert_array_equal(nn.cross_entropy(masked, 0, smoothing=0.1), inf)
    gradient = fg.grad(lambda x: nn.cross_entropy(x, 0, smoothing=0.3))(fg.tensor(masked))
    assert_allclose(gradient[1], -0.1, rtol=1e-14)
    assert_allclose(nn.cross_entropy(masked, 0, smoothing=0), log1p(exp(1.0)), rtol=1e-14)


def test_labels_of_masked_examples_may_be_anything():
    labels = np.array([1, -1, 0, 99])
    is_known = (labels >= 0) & (labels < 5)
    expected = nn.cross_entropy(X, np.where(is_known, labels, 0)) * is_known
    assert_array_equal(nn.cross_entropy(X, labels, where=is_known), expected)
    assert_array_equal(nn.softmax_focal_loss(X, labels, where=is_known, gamma=0.0) > 0, is_known)
    with pytest.raises(ArgumentError, match=r"from -1 to 99. .* write where=labels >= 0"):
        nn.cross_entropy(X, labels)


def test_kl_divergence_at_probabilities_of_0():
    q, p = fg.tensor([log(0.25), log(0.75), -inf]), fg.tensor([0.5, 0.0, 0.0])
    value, slopes = fg.value_and_grad(nn.kl_divergence, (0, 1))(q, p)
    assert_allclose(value, 0.5 * log(2), rtol=1e-15)
    assert_allclose(slopes[0], [-0.5, 0, 0])
    assert_allclose(slopes[1], [1 + log(2), 0, 0])
    logs = lambda q, t: nn.kl_divergence(q, t, log_target=True)  # noqa: E731
    value, slopes = fg.value_and_grad(logs, (0, 1))(q, fg.tensor([log(0.5), 0.0, -inf]))
    assert_allclose(value, 0.5 * log(2) - log(0.75), rtol=1e-15)
    assert_allclose(slopes[1], [0.5 * (1 + log(2)), 1 - log(0.75), 0])
    assert_array_equal(nn.kl_divergence(q, [0.5, 0.0, 0.5]), inf)
    assert_array_equal(fg.grad(nn.kl_divergence)(q, fg.tensor([0.5, 0.0, 0.5])), [-0.5, 0, -0.5])
    assert_allclose(
        nn.kl_divergence(X[None], SHARES[None], axis=(1, 2)),
        [nn.kl_divergence(X, SHARES).sum()],
        rtol=1e-13,
    )
    with np.errstate(invalid="ignore"):
        assert np.isnan(nn.kl_divergence([0.0], [-0.5]))


# ------------------------------------------------------------------------------------ two classes


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.7])
def test_certain_logits(gamma):
    """Right ones cost nothing, wrong ones infinity, with their limits as slopes."""
    losses = [nn.sigmoid_binary_cross_entropy] * (gamma == 0)
    for loss in (*losses, lambda x, y: nn.sigmoid_focal_loss(x, y, gamma=gamma)):
        for x, y in product((1e300, inf), (0.0, 1.0)):
            at = x if y else -x
            for mode in (fg.grad(loss), lambda x, y: fg.jvp(lambda x: loss(x, y), (x,), (1.0,))[1]):  # noqa: B023
                assert_array_equal([loss(at, y), mode(at, y), fg.grad(mode)(at, y)], [0, 0, 0])
                assert_array_equal(loss(-at, y), x)
                assert_array_equal(mode(-at, y), -1 if y else 1)
                assert_array_equal(fg.grad(mode)(-at, y), 0)
        low = np.float16(1e4)
        assert_array_equal(loss(low, np.float16(0)), low)
        assert_array_equal(fg.grad(loss)(low, np.float16(0)), 1)
        assert_array_equal(fg.grad(loss)(low, np.float16(1)), 0)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@together("x", [700.0, 740.0, 746.0, 790.0, 801.0, -700.0, -746.0, -801.0])
def test_slopes_of_a_focal_loss_near_certainty_are_finite(gamma, x):
    loss = lambda x, y: nn.sigmoid_focal_loss(x, y, gamma=gamma)  # noqa: E731
    for y in (0.0, 0.3, 1.0):
        slopes = [fg.grad(loss)(x, y), fg.grad(fg.grad(loss))(x, y), fg.grad(loss, 1)(x, y)]
        assert np.isfinite(slopes).all(), (y, slopes)
    assert_allclose(loss(x, 0.3), abs(x) * (0.7 if x > 0 else 0.3) ** (1 + gamma), rtol=1e-13)


def test_a_softmax_focal_loss_keeps_its_digits():
    for margin in (-50.0, 0.3, 40.0, 300.0):
        p = 1 / (1 + 2 * exp(-margin))
        q = 2 * exp(-margin) / (1 + 2 * exp(-margin))
        expected = q**1.5 * (log1p(2 * exp(-margin)) if margin > 0 else -log(p))
        found = nn.softmax_focal_loss([0.0, margin, 0.0], 1, gamma=1.5)
        assert_allclose(found, expected, rtol=1e-13)
    two = fg.tensor([1.3, 0.0])
    assert_allclose(nn.softmax_focal_loss(two, 0), nn.sigmoid_focal_loss(1.3, 1.0), rtol=1e-14)
    certain = fg.tensor([0.0, inf, -inf])
    assert_array_equal(nn.softmax_focal_loss(certain, 1), 0)
    assert_array_equal(fg.grad(nn.softmax_focal_loss)(certain, 1), [0, 0, 0])
    assert_array_equal(nn.softmax_focal_loss(certain, 2), inf)
    assert_array_equal(nn.softmax_focal_loss([[3.0]], [0]), [0])


def test_hinges_begin_flat():
    assert_array_equal(fg.grad(lambda x: nn.hinge_loss(x, 1.0))(1.0), 0)
    assert_array_equal(nn.hinge_loss([inf, -inf], [1, 1]), [0, inf])
    assert_array_equal(fg.grad(lambda x: nn.hinge_loss(x, -1.0))(inf), 1)


# ---------------------------------------------------------------------------- numbers and vectors


def test_differences_at_every_scale():
    for x in (1e300, inf):
        assert_array_equal(nn.huber_loss(x, 0.0), x)
        assert_array_equal(nn.log_cosh(-x, 0.0), x)
        for loss in (nn.huber_loss, nn.log_cosh):
            assert_array_equal(fg.grad(loss)(-x, 0.0), -1)
            assert_array_equal(fg.grad(fg.grad(loss))(x, 0.0), 0)
    assert_allclose(nn.log_cosh(1e-150, 0.0), 5e-301, rtol=1e-15)
    assert_allclose(nn.log_cosh([1.0, -1.0, 1.1], 3 * [0.0]), np.log([cosh(1), cosh(1), cosh(1.1)]))
    assert_allclose([fg.grad(nn.log_cosh)(x, 0.0) for x in (1.0, 1.0001)], np.tanh([1.0, 1.0001]))
    assert_array_equal(nn.log_cosh(np.float16(1e4), np.float16(0)), np.float16(1e4))
    assert_array_equal(fg.grad(nn.huber_loss)(0.0, 0.0), 0)
    assert_allclose(nn.huber_loss(3.0, 0.0, delta=inf), 4.5)
    fg.testing.check_grads(lambda d: nn.huber_loss(X, Y, delta=d), (0.7,))


def test_zero_vectors_are_flat():
    zero, one = fg.tensor([0.0, 0.0]), fg.tensor([3.0, 4.0])
    for loss, value in ((nn.cosine_similarity, 0), (nn.cosine_distance, 1)):
        for pair in ((zero, one), (one, zero), (zero, zero)):
            assert_array_equal(loss(*pair), value)
            assert_array_equal(fg.grad(loss, (0, 1))(*pair), np.zeros((2, 2)))
    slopes = fg.grad(nn.triplet_margin_loss, (0, 1, 2))(one, one, one)
    assert_array_equal(slopes, np.zeros((3, 2)))
    assert_allclose(nn.cosine_similarity(1e200 * X, 1e-200 * Y), nn.cosine_similarity(X, Y))
    columns = [np.array(x)[:, None] for x in ([0.0, 0.0], [2.0, 1.0], [1.0, 2.5])]
    found = nn.triplet_margin_loss(columns[0], columns[1], columns[2], 0, margin=0.5)
    assert_allclose(found, [np.hypot(2, 1) - np.hypot(1, 2.5) + 0.5])


def test_contrasts_by_their_definition():
    labels = np.array([0, 1, 0, 0, 2, 1])
    x = RNG.normal(size=(6, 3))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    weights = np.exp(unit @ unit.T / 0.2)
    expected: list[Any] = []
    for i, label in enumerate(labels):
        others = weights[i][labels != label].sum()
        alike = [j for j in range(6) if labels[j] == label and j != i]
        costs = [log((weights[i, j] + others) / weights[i, j]) for j in alike]
        expected.append(np.mean(costs) if alike else 0.0)
    assert_allclose(nn.ntxent(x, labels, 0.2), expected, rtol=1e-12)
    fg.testing.check_grads(lambda x, t: nn.ntxent(x, labels, t), (x, 0.4), order=2)
    pairs = fnp.stack([x, x[::-1]])
    batched = nn.ntxent(pairs, np.stack([labels, labels[::-1]]), 0.2)
    assert_allclose(batched, [expected, expected[::-1]], rtol=1e-12)


def test_masked_examples_are_compared_with_none():
    labels, mask = np.array([0, 1, 0, 0, 1]), np.array([True, True, False, True, True])
    x = RNG.normal(size=(5, 3))
    bad = fg.tensor(np.where(mask[:, None], x, nan))
    found, gradient = fg.value_and_grad(lambda x: nn.ntxent(x, labels, where=mask).sum())(bad)
    assert_allclose(found, nn.ntxent(x[mask], labels[mask]).sum(), rtol=1e-13)
    expected = fg.grad(lambda x: nn.ntxent(x, labels[mask]).sum())(fg.tensor(x[mask]))
    assert_allclose(gradient[mask], expected, rtol=1e-10)
    assert_array_equal(gradient[2], [0, 0, 0])


def test_dice_by_counts():
    p, t = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    expected = 1 - (2 + 0.5) / (2 + 0.2 * 1 + 0.9 * 1 + 0.5)
    assert_allclose(nn.dice_loss(p, t, smooth=0.5, alpha=0.2, beta=0.9), expected, rtol=1e-15)
    assert_allclose(nn.dice_loss(p, t == 1, smooth=0, alpha=1, beta=1), 1 - 2 / 4)
    mask = np.array([True, True, True, False, True])
    bad = fg.tensor(np.where(mask, p, nan))
    value, slope = fg.value_and_grad(lambda x: nn.dice_loss(x, t, where=mask))(bad)
    assert_allclose(value, nn.dice_loss(p[mask], t[mask]), rtol=1e-15)
    assert_array_equal(np.isnan(slope), False)
    assert slope[3].item() == 0
    assert_array_equal(fg.grad(lambda x: nn.dice_loss(x, x, smooth=0.0))(fg.tensor([0.0, 0.0])), 0)


# ------------------------------------------------------------------------------------- alignments


def spelled(path: Any, blank: int) -> list[int]:
    """The labels that a path of classes spells."""
    changes = [c for k, c in enumerate(path) if k == 0 or c != path[k - 1]]
    return [c for c in changes if c != blank]


def by_paths(logits: Any, labels: list[int], blank: int) -> float:
    """The loss by all paths, one by one."""
    times, classes = logits.shape
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    paths = product(range(classes), repeat=times)
    fit = [path for path in paths if spelled(path, blank) == labels]
    total = sum(np.prod([shares[t, c] for t, c in enumerate(path)]) for path in fit)
    return -log(total) if total else inf


@together("blank", [0, 1, 2])
@together("times", [0, 1, 3, 4])
def test_ctc_by_all_paths(blank, times):
    logits = RNG.normal(size=(times, 3))
    for size in range(4):
        for letters in product([c for c in range(3) if c != blank], repeat=size):
            labels = np.array(letters, int)
            found = nn.ctc_loss(logits, labels, blank_id=blank)
            assert_allclose(found, by_paths(logits, list(letters), blank), rtol=1e-12)


def test_padding_of_sequences_may_be_anything():
    logits, labels = RNG.normal(size=(3, 6, 4)), np.array([[1, 2, -1], [3, 99, 0], [2, 2, 1]])
    times, counts = np.array([6, 2, 5]), np.array([2, 1, 3])
    expected = [
        nn.ctc_loss(x[:t], y[:n]) for x, t, y, n in zip(logits, times, labels, counts, strict=True)
    ]
    bad = fg.tensor(np.where(np.arange(6)[:, None] < times[:, None, None], logits, nan))
    loss = lambda x: nn.ctc_loss(x, labels, logit_lengths=times, label_lengths=counts)  # noqa: E731
    assert_allclose(loss(bad), expected, rtol=1e-13)
    gradient = fg.grad(lambda x: loss(x).sum())(bad)
    assert_array_equal(gradient[1, 2:], np.zeros((4, 4)))
    assert not np.isnan(gradient).any()
    assert_allclose(fg.jit(loss)(bad), expected, rtol=1e-13)
    batched = fg.vmap(lambda x, y, t, n: nn.ctc_loss(x, y, logit_lengths=t, label_lengths=n))
    assert_allclose(batched(bad, labels, times, counts), expected, rtol=1e-13)
    one_length = nn.ctc_loss(logits, labels[:1].repeat(3, 0), logit_lengths=4, label_lengths=2)
    assert_allclose(one_length[0], nn.ctc_loss(logits[0, :4], [1, 2]), rtol=1e-13)


def test_alignments_that_are_impossible_are_flat():
    x = fg.tensor(RNG.normal(size=(2, 3)))
    blocked = x.at[:, 1].set(-inf)
    for logits, labels in ((x, [1, 1]), (x, [1, 2, 1]), (blocked, [1])):
        loss = lambda x: nn.ctc_loss(x, labels)  # noqa: B023, E731
        assert_array_equal(loss(logits), inf)
        assert_array_equal(fg.grad(loss)(logits), np.zeros((2, 3)))
        assert_array_equal(fg.jvp(loss, (logits,), (fnp.ones((2, 3)),))[1], 0)
        assert_array_equal(fg.hessian(loss)(logits), np.zeros((2, 3, 2, 3)))
    half = fg.tensor([[0.0, -inf, 0.0], [0.0, 0.0, -inf]])  # one path of probability 1/4
    value, gradient = fg.value_and_grad(lambda x: nn.ctc_loss(x, [1]))(half)
    assert_allclose(value, log(4))
    assert_allclose(gradient, [[-0.5, 0, 0.5], [0.5, -0.5, 0]])
    assert_array_equal(np.isfinite(fg.hessian(lambda x: nn.ctc_loss(x, [1]))(half)), True)
    certain = fg.tensor([[0.0, inf], [1e300, 0.0]])
    assert_array_equal(nn.ctc_loss(certain, [1]), 0)
    assert_array_equal(fg.grad(lambda x: nn.ctc_loss(x, [1]))(certain), np.zeros((2, 2)))


# ---------------------------------------------------------------------------------------- refusals


test_refusals = refused(
    [
        (
            lambda: nn.huber_loss(np.zeros((3, 1)), np.zeros(3)),
            ShapeError,
            r"huber_loss: the predictions' shape \(3, 1\) and the targets' shape \(3,\) differ",
        ),
        (
            lambda: nn.sigmoid_binary_cross_entropy(np.zeros((2, 2)), [1, 0]),
            ShapeError,
            r"the logits' shape \(2, 2\) and the labels' shape \(2,\) differ",
        ),
        (
            lambda: nn.huber_loss(X, Y, delta=0.0),
            ArgumentError,
            "delta has to be greater than 0, got 0",
        ),
        (
            lambda: nn.sigmoid_binary_cross_entropy(X, np.sign(Y).astype(int)),
            ArgumentError,
            r"from 0 to 1, got labels from -1.* to 1.* write \(labels \+ 1\) / 2",
        ),
        (
            lambda: nn.hinge_loss([0.5, 1.0], [1, 0]),
            ArgumentError,
            r"targets have to be 1 or -1, got 0\. Of classes 0 and 1 write 2 \* targets - 1",
        ),
        (lambda: nn.hinge_loss(0.5, False), ArgumentError, "targets have to be 1 or -1, got 0"),
        (lambda: nn.huber_loss(X, Y, delta=X), DtypeError, "delta has to be one real number"),
        (
            lambda: nn.sigmoid_focal_loss(X, Y, gamma=-1.0),
            ArgumentError,
            "gamma has to be at least",
        ),
        (
            lambda: nn.sigmoid_focal_loss(X, Y, alpha=2.0),
            ArgumentError,
            "alpha has to be at least 0 and at most 1, got 2.0",
        ),
        (lambda: nn.softmax_focal_loss(X, Y), DtypeError, "labels have to be integers.*astype"),
        (
            lambda: nn.softmax_focal_loss(X, [1, 2]),
            ShapeError,
            r"labels of shape \(2,\) do not fit logits of shape \(4, 5\).*expected shape \(4,\)",
        ),
        (lambda: nn.softmax_focal_loss(X, LABELS + 1), ArgumentError, "from 0 to 4, got .* 1 to 5"),
        (lambda: nn.cross_entropy(X, LABELS, smoothing=1.5), ArgumentError, "smoothing has to be"),
        (lambda: nn.cross_entropy(X, LABELS, smoothing=nan), ArgumentError, "smoothing has to be"),
        (lambda: nn.kl_divergence(X, Y[:2]), ShapeError, r"\(4, 5\) and the targets' shape \(2, 5"),
        (lambda: nn.triplet_margin_loss(X, Y, Z[0]), ShapeError, "the negatives' shape"),
        (lambda: nn.triplet_margin_loss(X, Y, Z, margin=-1), ArgumentError, "margin has to be"),
        (lambda: nn.ntxent(X, LABELS, 0.0), ArgumentError, "temperature has to be greater than 0"),
        (lambda: nn.ntxent(X, [1, 2]), ShapeError, r"expected \(\.\.\., examples, features\)"),
        (lambda: nn.dice_loss(X, Y, smooth=-1.0), ArgumentError, "smooth has to be at least 0"),
        (lambda: nn.ctc_loss(X, [0, 1]), ArgumentError, "a label is 0, which means a blank"),
        (lambda: nn.ctc_loss(X, [1, 5]), ArgumentError, "from 0 to 4, got .*Give label_lengths="),
        (lambda: nn.ctc_loss(X, [1.0]), DtypeError, "labels have to be integers, got float64"),
        (lambda: nn.ctc_loss(X, [[1]]), ShapeError, r"expected \(\.\.\., times, classes\)"),
        (lambda: nn.ctc_loss(X, [1], blank_id=5), ArgumentError, "blank_id has to be from 0 to 4"),
        (
            lambda: nn.ctc_loss(X, [1], logit_lengths=5),
            ArgumentError,
            "logit_lengths have to be from 0 to 4, the size of the axis, got lengths from 5 to 5",
        ),
        (lambda: nn.ctc_loss(X, [1], label_lengths=[1]), ShapeError, "do not broadcast to the ba"),
        (lambda: nn.ctc_loss(X, [1], logit_lengths=1.0), DtypeError, "logit_lengths have to be in"),
    ]
)
