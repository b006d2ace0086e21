"""Connectionist temporal classification (CTC): a loss for labels without known positions.

>>> ctc_loss([[0.0, 0.0], [0.0, 0.0]], [1])  # three of four paths mean "1"
Tensor(0.28768207)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._core.specs import Shape, dtype_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import log_probabilities, real_value
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.nn.loss_parts import check_classes, check_when_run, mask_of, masked, widened_mask
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def ctc_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    logit_lengths: ArrayLike | None = None,
    label_lengths: ArrayLike | None = None,
    blank_id: int = 0,
    where: ArrayLike | None = None,
) -> Tensor:
    """CTC loss: ``-log P(labels | logits)``, summed over all alignments.

    Use it to train a sequence model (speech, handwriting) when the order of the labels is known,
    but not their times.

    At each time the model emits one class or a blank. Equal classes in a row count once unless a
    blank stands between them; then blanks are removed. The loss sums the probabilities of all
    sequences that leave the labels.

    Parameters
    ----------
    logits : array_like, shape (..., times, classes)
        Scores of the classes at each time; the loss applies ``log_softmax`` to them. Logarithms of
        probabilities are logits too. Minus infinity is a probability of 0.
    labels : array_like of int, shape (..., labels)
    logit_lengths, label_lengths : array_like of int, optional
        The number of times and of labels of each example; by default all. They broadcast to
        ``(...)``. Values behind these lengths are padding, and may be anything. From paddings of 0
        and 1 compute ``fnp.sum(1 - paddings, axis=-1).astype(int)``.
    blank_id : int
        The class that stands for a blank.
    where : array_like of bool, optional
        Which examples count; it broadcasts to ``(...)``. The loss and the derivative of the others
        are 0.

    Returns
    -------
    Tensor, shape (...)
        The loss of each example. It is infinite, with the derivative 0, if the example has too few
        times for its labels or every alignment has the probability 0. ``fnp.where(loss < fnp.inf,
        loss, 0)`` leaves such examples out.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DtypeError
        Logits are complex, labels or lengths are not integers, or the mask is not boolean.
    ArgumentError
        A label is the blank or out of range, or a length is out of bounds.
    ConditionError
        The same, for labels inside ``jit`` or ``vmap``, which are checked when the program runs.

    Notes
    -----
    Graves, Fernandez, Gomez, Schmidhuber, "Connectionist temporal classification: labelling
    unsegmented sequence data with recurrent neural networks", ICML 2006. The forward recursion runs
    in logarithms, with one step of ``fg.scan`` for each time.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> logits = fnp.zeros((2, 4, 3))
    >>> ctc_loss(logits, [[1, 2], [1, 1]], label_lengths=[2, 1])
    Tensor([1.6863989, 2.0918641])
    >>> ctc_loss(logits[:, :2], [[1, 2], [1, 1]])  # two equal ones need a blank between them
    Tensor([2.1972246,       inf])
    """
    name = "ctc_loss"
    scores, numbers = wrap(real_value(logits, name)), _integers(labels, "labels")
    if scores.ndim < 2 or numbers.ndim < 1 or numbers.shape[:-1] != scores.shape[:-2]:
        raise ShapeError(
            f"{name}: logits of shape {scores.shape} and labels of shape {numbers.shape} do not"
            " fit: expected (..., times, classes) and (..., labels), with one batch in front."
        )
    batch, (times, classes) = scores.shape[:-2], scores.shape[-2:]
    blank = integer(blank_id, name, "blank_id")
    if not 0 <= blank < classes:
        raise ArgumentError(
            f"{name}: blank_id has to be from 0 to {classes - 1}, a class of the logits of shape"
            f" {scores.shape}, got {blank}."
        )
    counted = mask_of(name, where, batch)
    durations = _lengths("logit_lengths", logit_lengths, batch, times, counted)
    counts = _lengths("label_lengths", label_lengths, batch, numbers.shape[-1], counted)
    numbers = _known_labels(numbers, counts, counted, classes, blank)
    is_time = fnp.arange(times) < durations[..., None]
    if counted is not None:
        is_time = is_time & widened_mask(counted, -1)
    logs = log_probabilities(fnp.where(is_time[..., None], scores, 0), (len(batch) + 1,), name)
    loss = _spelled(wrap(logs), numbers, counts, is_time, blank)
    return masked(loss, counted)


def _integers(x: ArrayLike, argument: str) -> Tensor:
    value = operand(x, "ctc_loss")
    if dtype_of(value).kind not in "iu":
        raise DtypeError(f"ctc_loss: {argument} have to be integers, got {dtype_of(value)}.")
    return wrap(value)


def _lengths(
    argument: str, lengths: ArrayLike | None, batch: Shape, most: int, counted: Tensor | None
) -> Tensor:
    """Check the lengths of the examples, at most the size of the axis."""
    if lengths is None:
        return wrap(np.full(batch, most))
    numbers = _integers(lengths, argument)
    try:
        fits = np.broadcast_shapes(numbers.shape, batch) == batch
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"ctc_loss: {argument} of shape {numbers.shape} do not broadcast to the batch {batch}:"
            " there is one number for each example."
        )
    wide = masked(fnp.broadcast_to(numbers, batch), counted)
    raw = concrete(wide)
    bounds = f"ctc_loss: {argument} have to be from 0 to {most}, the size of the axis"
    if type(raw) not in RAW:
        is_length = (wide >= 0) & (wide <= most)
        check_when_run(is_length, bounds, length=wide)
        return masked(wide, is_length)
    if np.size(raw) and not 0 <= np.min(raw) <= np.max(raw) <= most:
        raise ArgumentError(f"{bounds}, got lengths from {np.min(raw)} to {np.max(raw)}.")
    return wide


def _known_labels(
    numbers: Tensor, counts: Tensor, counted: Tensor | None, classes: int, blank: int
) -> Tensor:
    """Check the labels; padding is replaced by some class."""
    is_label = fnp.arange(numbers.shape[-1]) < counts[..., None]
    if counted is not None:
        is_label = is_label & widened_mask(counted, -1)
    some_class = np.asarray(1 if blank == 0 and classes > 1 else 0, numbers.dtype)
    known: Tensor = fnp.where(is_label, numbers, some_class)
    known = check_classes("ctc_loss", known, classes, " Give label_lengths= if labels are padded.")
    raw, are_labels = concrete(known), concrete(is_label)
    blanks = f"ctc_loss: a label is {blank}, which means a blank"
    if not (type(raw) in RAW and type(are_labels) in RAW):
        check_when_run((known != blank) | ~is_label, blanks, label=known)
    elif np.any((raw == blank) & are_labels):
        raise ArgumentError(
            f"{blanks}. Give label_lengths= if labels are padded, or say by blank_id= which class"
            " is the blank."
        )
    return known


def _spelled(logs: Tensor, numbers: Tensor, counts: Tensor, is_time: Tensor, blank: int) -> Tensor:
    """Compute the loss by the forward recursion over times.

    The carry has, for each n, the logarithms of two probabilities: the first n labels are spelled
    and the last class was a blank, or was label n.
    """
    batch, size = numbers.shape[:-1], numbers.shape[-1]
    of_labels = fnp.take_along_axis(logs, numbers[..., None, :], axis=-1)
    xs = [fnp.moveaxis(x, len(batch), 0) for x in (logs[..., blank], of_labels, is_time)]
    never = np.full((*batch, 1), -np.inf, logs.dtype)
    changes = numbers[..., 1:] != numbers[..., :-1]  # neighbours that need no blank between them

    def step(carry: Any, x: Any) -> Any:
        blanks, ends = carry
        of_blank, of_label, is_now = x
        follows = fnp.where(changes, ends[..., :-1], -np.inf)
        before = fnp.concatenate([never, follows], axis=-1) if size else ends
        next_ends = _either(_either(ends, blanks[..., :-1]), before) + of_label
        pauses = _either(blanks, fnp.concatenate([never, ends], axis=-1)) + of_blank[..., None]
        is_now = is_now[..., None]
        return (fnp.where(is_now, pauses, blanks), fnp.where(is_now, next_ends, ends)), None

    start = np.full((*batch, size + 1), -np.inf, logs.dtype)
    start[..., 0] = 0
    (blanks, ends), _ = scan(step, (start, start[..., 1:]), xs)
    both = _either(blanks, fnp.concatenate([never, ends], axis=-1))
    total = fnp.take_along_axis(both, counts[..., None], axis=-1)[..., 0]
    return fnp.where(total == -np.inf, np.inf, -total)


def _either(x: Tensor, y: Tensor) -> Tensor:
    """Logarithm of the sum of two probabilities, from their logarithms."""
    return fnp.logaddexp(x, y)
