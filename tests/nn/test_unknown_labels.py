"""Labels of programs and batches: those that name no class raise as the program runs."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ConditionError

X = np.random.default_rng(5).normal(size=(4, 5))
LABELS = np.array([1, 4, 0, 2])
UNKNOWN = np.array([1, 4, -1, 2])

# By name: a loss of logits and labels, good labels, bad ones, and what the error says.
LOSSES: dict[str, tuple[Any, Any, Any, str]] = {
    "cross_entropy": (nn.cross_entropy, LABELS, UNKNOWN, "from 0 to 4; for a label .*label = -1"),
    "of PyTorch's": (nn.cross_entropy, LABELS, np.array([1, 4, -100, 2]), "label = -100"),
    "beyond": (nn.cross_entropy, LABELS, LABELS + 1, "label = 5"),
    "smoothed": (lambda x, y: nn.cross_entropy(x, y, smoothing=0.1), LABELS, UNKNOWN, "from 0"),
    "softmax_focal": (nn.softmax_focal_loss, LABELS, UNKNOWN, "from 0 to 4.*label = -1"),
    "binary": (
        lambda x, y: nn.sigmoid_binary_cross_entropy(x[:, 0], y),
        LABELS > 1,
        np.array([1, 1, -1, 0]),
        r"from 0 to 1; of labels -1 and 1 write \(labels \+ 1\) / 2",
    ),
    "hinge": (lambda x, y: nn.hinge_loss(x[:, 0], y), [1, -1, 1, 1], [1, 0, 1, 1], "target = 0"),
    "ctc": (lambda x, y: nn.ctc_loss(x, y), [1, 2], [1, 5], "from 0 to 4; give label_lengths="),
    "blanks": (lambda x, y: nn.ctc_loss(x, y), [1, 2], [1, 0], "a label is 0, which means a bla"),
    "lengths": (lambda x, y: nn.ctc_loss(x, [1, 2], label_lengths=y), 2, 3, "length = 3"),
}
cases = pytest.mark.parametrize(("loss", "good", "bad", "text"), LOSSES.values(), ids=LOSSES)


@cases
def test_bad_labels_of_a_program_raise(loss, good, bad, text):
    for transform in (fg.jit, lambda f: fg.jit(f, backend="numpy"), lambda f: fg.jit(fg.grad(f))):
        function = transform(lambda x, y: fnp.sum(loss(x, y)))
        function(fg.tensor(X), np.asarray(good))
        with pytest.raises(ConditionError, match=text):
            function(fg.tensor(X), np.asarray(bad))


def test_bad_labels_of_a_batch_raise_with_the_example():
    for transform in (lambda f: f, fg.jit):
        function = transform(fg.vmap(fg.grad(nn.cross_entropy)))
        function(fg.tensor(X), LABELS)
        with pytest.raises(ConditionError, match="label = -1, example 2"):
            function(fg.tensor(X), UNKNOWN)


def test_what_does_not_count_may_have_any_label():
    counted = fg.jit(lambda x, y: nn.cross_entropy(x, y, where=y >= 0))
    expected = nn.cross_entropy(X, UNKNOWN, where=UNKNOWN >= 0)
    np.testing.assert_allclose(counted(fg.tensor(X), UNKNOWN), expected)


def test_a_bad_label_in_a_loop_has_a_step():
    def total(x, labels):
        return fg.scan(lambda c, xy: (c + nn.cross_entropy(*xy), None), 0.0, (x, labels))[0]

    with pytest.raises(ConditionError, match="label = -1, step 2 of scan"):
        fg.jit(total)(fg.tensor(X), UNKNOWN)
