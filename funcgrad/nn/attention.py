"""Attention: each query gets a mean of the values, weighted by how well their keys match.

>>> attention([[1.0, 0.0]], [[50.0, 0.0], [0.0, 50.0]], [[1.0], [2.0]])
Tensor([[1.]])
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, broadcasts_to, dtype_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import masked_probabilities
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.nn.dropout import UNSAID, Key, checked_rate, dropout, said_key
from funcgrad.numpy.options import integer, is_integer, pair, real_number
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    causal: bool = False,
    window: int | tuple[int, int] | None = None,
    offset: ArrayLike | None = None,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Key = UNSAID,
) -> Tensor:
    """Scaled dot-product attention: ``softmax(query @ key.T * scale + bias) @ value``.

    Each query gets a mean of the values. The weight of a value grows with the product of its key
    and the query. Masks, causality and windows set weights to 0. The layer with the linear maps
    around it is ``MultiHeadAttention``.

    Parameters
    ----------
    query : array_like, shape (..., heads, queries, features)
        Real; ``heads`` and the axes before it may be absent.
    key : array_like, shape (..., key_heads, keys, features)
        ``key_heads`` divides ``heads``: consecutive heads share a key head (grouped queries).
    value : array_like, shape (..., key_heads, keys, outputs)
    mask : array_like of bool, optional
        Where it is true, the query may see the key. It broadcasts to ``(..., heads, queries,
        keys)``. A query that sees no key gets 0, with the derivative 0.
    bias : array_like, optional
        Added to the logit of each pair of query and key. It broadcasts like the mask and is
        differentiable; minus infinity masks a pair.
    causal : bool
        Whether a query sees only keys at its own position and before.
    window : int or pair of int, optional
        How many keys before and after its position a query sees; a single integer is for both
        sides.
    offset : int, optional
        The position of the first query, by default 0; keys are at 0, 1, 2 and so on. It may be
        traced.
    scale : float, optional
        Factor of the products; by default ``1 / sqrt(features)``.
    dropout_rate : float, optional
        The probability that a weight is set to 0 in training; see ``dropout``.
    dropout_key : key or None
        From ``fg.random``; with None nothing is dropped. Needed if the rate is not 0.

    Returns
    -------
    Tensor, shape (..., heads, queries, outputs)

    Raises
    ------
    ShapeError
        The shapes do not fit each other.
    DtypeError
        The mask is not boolean, or an array is complex.
    ArgumentError
        The rate of dropout is not from 0 to 1, or the key is missing.

    Notes
    -----
    Vaswani et al., "Attention is all you need", NeurIPS 2017; Ainslie et al., "GQA", EMNLP 2023.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> x = fnp.eye(3)
    >>> attention(x, x, fnp.arange(3.0)[:, None], causal=True, scale=0.0)
    Tensor([[0. ],
            [0.5],
            [1. ]])
    """
    queries, keys, values = real_numbers("attention", query, key, value)
    groups = _check_shapes(queries.shape, keys.shape, values.shape)
    features = queries.shape[-1]
    factor = (
        1 / math.sqrt(max(features, 1))
        if scale is None
        else real_number(scale, "attention", "scale")
    )
    logits = _merged(_split(queries * factor, groups) @ _shared(keys, groups).mT, groups)
    allowed = _allowed(logits.shape, mask, causal, window, offset)
    if bias is not None:
        logits = logits + _bias(bias, logits)
    rate = checked_rate(dropout_rate, "attention")
    dropped = said_key(dropout_key, rate, "attention", "dropout_key")
    weights = dropout(_weights(logits, allowed), rate, dropped)
    return _merged(_split(weights, groups) @ _shared(values, groups), groups)


def _check_shapes(query: Shape, key: Shape, value: Shape) -> int:
    """Check that shapes fit, and return how many heads share a key head."""
    shapes = (query, key, value)
    words = (
        f"attention: query, key and value of shapes {query}, {key} and {value} do not fit:"
        " expected (..., heads, queries, features), (..., key_heads, keys, features) and (...,"
        " key_heads, keys, outputs), where key_heads divides heads."
    )
    if min(map(len, shapes)) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
        raise ShapeError(words)
    heads, key_heads, value_heads = [(shape[-3] if len(shape) > 2 else 1) for shape in shapes]
    groups = heads // key_heads if key_heads else 1
    try:
        np.broadcast_shapes(*[shape[:-3] for shape in shapes])
    except ValueError:
        raise ShapeError(words) from None
    if key_heads != value_heads or heads != groups * key_heads:
        raise ShapeError(words)
    return groups


def _split(x: Tensor, groups: int) -> Tensor:
    """Split the axis of heads in two: key heads, and the heads that share one."""
    if groups == 1:
        return x
    return x.reshape(*x.shape[:-3], x.shape[-3] // groups, groups, *x.shape[-2:])


def _shared(x: Tensor, groups: int) -> Tensor:
    """Add an axis of size 1 for the heads that share a key head."""
    if groups == 1:
        return x
    return x[..., None, :, :] if x.ndim > 2 else x[None, None]


def _merged(x: Tensor, groups: int) -> Tensor:
    """Undo ``_split``."""
    if groups == 1:
        return x
    return x.reshape(*x.shape[:-4], x.shape[-4] * x.shape[-3], *x.shape[-2:])


def _bias(bias: ArrayLike, logits: Tensor) -> Tensor:
    numbers = wrap(operand(bias, "attention"))
    if dtype_of(numbers).kind not in "fiu":
        raise DtypeError(f"attention: the bias has to be real, got {dtype_of(numbers)}.")
    _check_pairs("bias", numbers.shape, logits.shape)
    return numbers.astype(logits.dtype)


def _check_pairs(name: str, shape: Shape, pairs: Shape) -> None:
    """Check that a mask or a bias broadcasts to the pairs of queries and keys."""
    if not broadcasts_to(shape, pairs):
        raise ShapeError(
            f"attention: the {name} of shape {shape} does not broadcast to (..., heads, queries,"
            f" keys), {pairs}."
        )


def _allowed(
    pairs: Shape,
    mask: ArrayLike | None,
    causal: bool,
    window: int | tuple[int, int] | None,
    offset: ArrayLike | None,
) -> Tensor | None:
    """Return which queries may see which keys; None if every query may see every key."""
    masks = []
    if mask is not None:
        chosen = wrap(operand(mask, "attention"))
        if dtype_of(chosen).kind != "b":
            raise DtypeError(
                f"attention: the mask has to be boolean, got {dtype_of(chosen)}. Write mask > 0, or"
                " pass an array that is added to the logits as bias=."
            )
        _check_pairs("mask", chosen.shape, pairs)
        masks.append(chosen)
    if causal or window is not None:
        first = 0 if offset is None else _whole(offset)
        ahead = fnp.arange(pairs[-1]) - (fnp.arange(pairs[-2]) + first)[:, None]
        if causal:
            masks.append(ahead <= 0)
        if window is not None:
            before, behind = _widths(window)
            masks.extend((ahead >= -before, ahead <= behind))
    return reduce(fnp.logical_and, masks) if masks else None


def _whole(offset: ArrayLike) -> Tensor:
    number = wrap(operand(offset, "attention"))
    if dtype_of(number).kind not in "iu" or number.shape:
        raise DtypeError(
            f"attention: the offset has to be one integer, got {dtype_of(number)} of shape"
            f" {number.shape}."
        )
    return number.astype(np.int64)


def _widths(window: int | tuple[int, int]) -> tuple[int, int]:
    both = (window, window) if is_integer(window) else pair(window, "attention", "window")
    before, behind = [integer(width, "attention", "window") for width in both]
    if before < 0 or behind < 0:
        raise ShapeError(f"attention: a window has sizes of at least 0, got {window!r}.")
    return before, behind


def _weights(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the probabilities of the keys: 0 for a query that sees none."""
    if logits.shape[-1] == 0:
        return logits
    chosen = logits if allowed is None else fnp.where(allowed, logits, -np.inf)
    return wrap(masked_probabilities(operand(chosen, "attention"), logits.ndim - 1))
