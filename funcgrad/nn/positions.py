"""Position encodings of sequences: features to add, or angles that rotate features.

>>> sinusoidal_positions(2, 2)
Tensor([[0.        , 1.        ],
        [0.84147098, 0.54030231]])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import broadcasts_to
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import natural, real_number
from funcgrad.random.philox import as_dtype, as_shape
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def sinusoidal_positions(
    length: int, features: int, *, base: float = 10000.0, dtype: DTypeLike = np.float64
) -> Tensor:
    """Sinusoidal position encoding: sines and cosines of the positions 0, 1, 2 and so on.

    Attention does not see the order of its inputs. Adding these features to the embeddings tells it
    the positions. The wavelengths go from ``2 pi`` to ``2 pi base``.

    Parameters
    ----------
    length : int
        The number of positions.
    features : int
        An even number: each wavelength has a sine and a cosine, side by side.
    base : float
        Positive.
    dtype : dtype
        A real floating-point dtype.

    Returns
    -------
    Tensor, shape (length, features)

    Raises
    ------
    ShapeError
        The number of features is odd.

    Notes
    -----
    Vaswani et al., "Attention is all you need", NeurIPS 2017, section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(3, 4).shape
    (3, 4)
    """
    name = "sinusoidal_positions"
    count, size = natural(length, name, "length"), natural(features, name, "features")
    kind = as_dtype(dtype, "f", name, np.zeros(2, np.uint64))
    as_shape((count, size), name)
    angles = _angles(fnp.arange(float(count)), size, base, name)
    pairs = fnp.stack([fnp.sin(angles), fnp.cos(angles)], axis=-1)
    return pairs.reshape(count, size).astype(kind)


@answering
def rotary(
    x: ArrayLike,
    positions: ArrayLike | None = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
) -> Tensor:
    """Rotary position embedding (RoPE): rotate pairs of features by angles that grow with position.

    Apply it to queries and keys: then their product depends on the difference of their positions
    only. ``MultiHeadAttention`` does so with ``rotary_base``.

    Parameters
    ----------
    x : array_like, shape (..., length, features)
        Queries or keys, real, with an even number of features.
    positions : array_like, optional
        They broadcast to ``(..., length)``; by default 0, 1, 2 and so on. After a cache of n keys
        they start with n.
    base : float
        Positive: the last pair rotates about ``base`` times slower than the first.
    interleaved : bool
        If true, neighbouring features form a pair (as in the paper); if false, feature i of the
        first half and feature i of the second half (as in Llama's weights for ``transformers``).

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ShapeError
        The number of features is odd, or the positions do not fit.

    Notes
    -----
    Su et al., "RoFormer: enhanced transformer with rotary position embedding", arXiv:2104.09864.

    Examples
    --------
    >>> rotary([[1.0, 0.0], [1.0, 0.0]])
    Tensor([[1.        , 0.        ],
            [0.54030231, 0.84147098]])
    """
    value = wrap(real_value(x, "rotary"))
    if value.ndim < 2:
        raise ShapeError(f"rotary: x is (..., length, features), got shape {value.shape}.")
    length, size = value.shape[-2:]
    places = fnp.arange(float(length)) if positions is None else real_value(positions, "rotary")
    angles = _angles(wrap(places), size, base, "rotary")
    if not broadcasts_to(angles.shape[:-1], value.shape[:-1]):
        raise ShapeError(
            f"rotary: positions of shape {angles.shape[:-1]} do not broadcast to (..., length) of"
            f" x, {value.shape[:-1]}."
        )
    cosine, sine = fnp.cos(angles).astype(value.dtype), fnp.sin(angles).astype(value.dtype)
    if interleaved:
        pairs = value.reshape(*value.shape[:-1], size // 2, 2)
        others = fnp.flip(pairs, axis=-1).reshape(value.shape)
        cosines, sines = [
            fnp.stack(parts, axis=-1).reshape(*angles.shape[:-1], size)
            for parts in ([cosine, cosine], [-sine, sine])
        ]
    else:
        others = fnp.roll(value, size // 2, axis=-1)
        cosines = fnp.concatenate([cosine, cosine], axis=-1)
        sines = fnp.concatenate([-sine, sine], axis=-1)
    return value * cosines + others * sines


def _angles(positions: Tensor, features: int, base: float, operation: str) -> Tensor:
    """Return positions times frequencies (1 down to nearly ``1 / base``) in double precision."""
    number = real_number(base, operation, "base")
    if not number > 0:
        raise ArgumentError(f"{operation}: base has to be positive, got {number}.")
    if features % 2:
        raise ShapeError(f"{operation}: the number of features has to be even, got {features}.")
    frequencies = number ** -(np.arange(0.0, features, 2) / max(features, 1))
    return positions.astype(np.float64)[..., None] * frequencies
