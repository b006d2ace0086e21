"""Multi-head attention as a layer, and its cache of keys and values for step-by-step generation.

>>> import funcgrad as fg
>>> layer = MultiHeadAttention.init(fg.random.key(0), 8, 2)
>>> layer(fg.numpy.ones((5, 3, 8)), causal=True).shape
(5, 3, 8)
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.specs import Shape
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering, answering_as
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.nn.attention import attention
from funcgrad.nn.dropout import UNSAID, Key, checked_rate, said_key, training_key
from funcgrad.nn.layer_parts import check_leaves, split_key
from funcgrad.nn.layers import Linear
from funcgrad.nn.positions import rotary
from funcgrad.numpy.options import integer, natural, real_number
from funcgrad.random.philox import as_shape
from funcgrad.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike


@pytree
class KVCache:
    """Keys and values of the earlier positions, in arrays with room for later ones.

    With it a model generates a sequence one position at a time, without computing the keys and
    values of earlier positions again. ``MultiHeadAttention.cache`` makes an empty one.

    Parameters
    ----------
    keys, values : Tensor, shape (..., heads, capacity, features)
    length : Tensor, int64
        The number of filled positions. It may be traced, so a loop can carry the cache.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> cache = KVCache.empty((2,), 4, 3)
    >>> cache.append(fnp.ones((2, 1, 3)), fnp.ones((2, 1, 3))).length
    Tensor(1)
    """

    keys: Tensor
    values: Tensor
    length: Tensor

    def __post_init__(self) -> None:
        check_leaves(
            self,
            "length",
            keys="heads capacity features",
            values="heads capacity features",
            length="",
        )
        if self.length.shape:
            raise ShapeError(f"KVCache: length is one integer, got shape {self.length.shape}.")

    @classmethod
    def empty(
        cls,
        heads: Shape,
        capacity: int,
        features: int,
        *,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> KVCache:
        """Make an empty cache for heads of the shape ``(..., heads)``."""
        sizes = as_shape(heads, "KVCache.empty")
        shape = as_shape((*sizes, capacity, features), "KVCache.empty")
        zeros = fnp.zeros(shape, dtype, device=device)
        return cls(zeros, zeros, wrap(np.int64(0)))

    def append(self, keys: ArrayLike, values: ArrayLike) -> KVCache:
        """Return a cache with the keys and values of more positions.

        Raises
        ------
        ShapeError
            The cache is full, or the shapes do not fit.
        AxisError
            The cache is full, and its length was not known before the program ran.
        """
        new, more = [wrap(operand(x, "KVCache.append")) for x in (keys, values)]
        *lead, capacity, features = self.keys.shape
        if new.shape != more.shape or new.shape != (*lead, *new.shape[-2:-1], features):
            raise ShapeError(
                "KVCache.append: keys and values have to be of shape"
                f" ({', '.join(map(str, lead))}, length, {features}), got {new.shape} and"
                f" {more.shape}."
            )
        count, length = new.shape[-2], concrete(self.length)
        filled = int(length) if type(length) in RAW else None
        if filled is None and count > capacity:
            raise ShapeError(f"KVCache.append: {count} positions are more than all {capacity}.")
        if filled is not None and not 0 <= filled <= capacity - count:
            raise ShapeError(
                f"KVCache.append: {filled} of {capacity} positions are filled, so {count} more do"
                " not fit. Make a cache with a greater capacity."
            )
        places = (..., self.length + fnp.arange(count), slice(None))
        return KVCache(
            self.keys.at[places].set(new), self.values.at[places].set(more), self.length + count
        )


@pytree
class MultiHeadAttention:
    """Multi-head attention: several attentions side by side, between linear maps.

    Queries, keys and values are linear functions of the input, cut into heads; ``output`` maps the
    joined results of the heads back. This is the mixing layer of transformers: self-attention with
    ``layer(x)``, cross-attention with ``layer(x, context)``.

    Parameters
    ----------
    query, key, value, output : Linear
        The first three make the features of all heads, one head after the other; ``key`` and
        ``value`` may make fewer heads, each shared by a group of heads (grouped queries). In
        PyTorch's ``MultiheadAttention`` their weights are the transposed thirds of
        ``in_proj_weight``, and the weight of ``output`` is the transpose of ``out_proj.weight``.
    heads : int
        Static.
    rotary_base : float, optional
        Static: if given, queries and keys are rotated by their positions; see ``rotary``.
    dropout : float
        Static: the probability that an attention weight is set to 0 in training.

    Examples
    --------
    >>> import funcgrad as fg
    >>> layer = MultiHeadAttention.init(fg.random.key(0), 8, 4, key_heads=2)
    >>> cache = layer.cache(6)
    >>> y, cache = layer(fg.numpy.ones((1, 8)), cache=cache)
    >>> y.shape, cache.length
    ((1, 8), Tensor(1))
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int = static_field()
    rotary_base: float | None = static_field(default=None)
    dropout: float = static_field(default=0.0)

    sizes_by_axis = MappingProxyType({"features": -1})

    def __post_init__(self) -> None:
        check_leaves(self)
        checked_rate(self.dropout, "MultiHeadAttention")
        linear = (self.query, self.key, self.value, self.output)
        if not all(isinstance(layer, Linear) for layer in linear):
            raise ArgumentError(
                "MultiHeadAttention: query, key, value and output are Linear layers, got"
                f" {', '.join([type(layer).__name__ for layer in linear])}."
                " MultiHeadAttention.init(key, features, heads) makes them."
            )
        heads = integer(self.heads, "MultiHeadAttention", "heads")
        widths = [layer.weight.shape[-1] for layer in linear[:3]]
        size = widths[0] // heads if heads > 0 else 0
        if not size or size * heads != widths[0] or widths[1] != widths[2] or widths[1] % size:
            raise ShapeError(
                f"MultiHeadAttention: query, key and value make {widths} features, which are not"
                f" {heads} heads, and key heads of the same size."
            )
        taken = [layer.weight.shape[-2] for layer in linear[1:]]
        if taken[0] != taken[1] or taken[2] != widths[0]:
            raise ShapeError(
                f"MultiHeadAttention: key, value and output take {taken} features: key and value"
                f" have to take equally many, and output {widths[0]}, the features of all heads."
            )
        if self.rotary_base is not None:
            base = real_number(self.rotary_base, "MultiHeadAttention", "rotary_base")
            if not base > 0 or size % 2:
                raise ShapeError(
                    "MultiHeadAttention: rotary_base is positive, and turns pairs of features: it"
                    f" is {base}, and a head has {size} features."
                )

    @classmethod
    @answering
    def init(
        cls,
        key: ArrayLike,
        features: int,
        heads: int,
        *,
        key_heads: int | None = None,
        head_features: int | None = None,
        context_features: int | None = None,
        bias: bool = True,
        rotary_base: float | None = None,
        dropout: float = 0.0,
        dtype: DTypeLike = np.float64,
    ) -> MultiHeadAttention:
        """Draw the weights of the linear maps.

        By default a head has ``features / heads`` features, and the context has as many features as
        ``x``.

        Raises
        ------
        ShapeError
            The features cannot be divided among the heads, or the heads among the key heads.
        """
        name = "MultiHeadAttention.init"
        shared = heads if key_heads is None else integer(key_heads, name, "key_heads")
        natural(features, name, "features")
        is_even = integer(heads, name, "heads") > 0 and (
            head_features is not None or features % heads == 0
        )
        if not is_even or shared < 1 or heads % shared:
            raise ShapeError(
                f"MultiHeadAttention.init: {features} features, {heads} heads and {shared} key"
                " heads do not fit: heads divides features, and key_heads divides heads."
            )
        size = features // heads if head_features is None else head_features
        if integer(size, name, "head_features") < 1:
            raise ShapeError(f"{name}: head_features has to be positive, got {size}.")
        seen = features if context_features is None else context_features
        keys = split_key(key, 4, name)

        def linear(number: int, inputs: int, outputs: int) -> Linear:
            return Linear.init(keys[number], inputs, outputs, bias=bias, dtype=dtype)

        return cls(
            linear(0, features, heads * size),
            linear(1, seen, shared * size),
            linear(2, seen, shared * size),
            linear(3, heads * size, features),
            heads,
            rotary_base,
            dropout,
        )

    def cache(self, capacity: int, batch: Shape = ()) -> KVCache:
        """Make an empty cache for a batch of the shape ``batch``."""
        size = self.query.weight.shape[-1] // self.heads
        heads = self.key.weight.shape[-1] // size
        sizes = as_shape(batch, "MultiHeadAttention.cache")
        weight = self.key.weight
        return KVCache.empty(
            (*sizes, heads), capacity, size, dtype=weight.dtype, device=weight.device
        )

    @answering_as("MultiHeadAttention")
    def __call__(
        self,
        x: ArrayLike,
        context: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        cache: KVCache | None = None,
        key: Key = UNSAID,
    ) -> Any:
        """Apply the layer.

        Parameters
        ----------
        x : array_like, shape (..., length, features)
        context : array_like, shape (..., keys, features), optional
            The array from which keys and values are computed; by default ``x``.
        mask, bias, causal, window
            Options of ``attention``.
        cache : KVCache, optional
            Keys and values of the positions before ``x``. With a cache the attention is causal, and
            the result is the pair of ``y`` and the next cache.
        key : key or None
            Random key for dropout; None drops nothing. A layer with ``dropout`` above 0 needs one
            of the two.

        Returns
        -------
        Tensor, shape (..., length, features); or a pair of it and a KVCache
        """
        if cache is not None and not isinstance(cache, KVCache):
            raise ArgumentError(
                f"MultiHeadAttention: cache is one of layer.cache(capacity), not {cache!r}."
            )
        if cache is not None and context is not None:
            raise ArgumentError("MultiHeadAttention: a cache is of x itself; leave out context.")
        source = x if context is None else context
        query = self._heads(self.query(x))
        keys, values = self._heads(self.key(source)), self._heads(self.value(source))
        first: Any = None if cache is None else cache.length
        if self.rotary_base is not None:
            query, keys = self._turned(query, first), self._turned(keys, first)
        if cache is not None:
            cache = cache.append(keys, values)
            keys, values, causal = cache.keys, cache.values, True
        mixed = attention(
            query,
            keys,
            values,
            mask=mask,
            bias=bias,
            causal=causal,
            window=window,
            offset=first,
            dropout_rate=self.dropout,
            dropout_key=said_key(key, self.dropout, "MultiHeadAttention"),
        )
        joined = fnp.swapaxes(mixed, -2, -3)
        y = self.output(joined.reshape(*joined.shape[:-2], joined.shape[-2] * joined.shape[-1]))
        return y if cache is None else (y, cache)

    def train(
        self, x: ArrayLike, state: None = None, *, key: ArrayLike | None = None, **options: Any
    ) -> tuple[Any, None]:
        """Apply the layer as in training; return the result and the state, which is None.

        Raises
        ------
        ArgumentError
            The layer drops weights, and no key was passed.
        """
        known = training_key(key, self.dropout, "MultiHeadAttention")
        return self(x, key=known, **options), state

    def _heads(self, features: Tensor) -> Tensor:
        """Move the heads to an axis of their own, before the axis of positions."""
        size = self.query.weight.shape[-1] // self.heads
        if features.ndim < 2:
            raise ShapeError(
                "MultiHeadAttention: takes arrays of shape (..., length, features), got one axis."
            )
        *lead, length, width = features.shape
        return fnp.swapaxes(features.reshape(*lead, length, width // size, size), -2, -3)

    def _turned(self, features: Tensor, first: Any) -> Tensor:
        base = 10000.0 if self.rotary_base is None else self.rotary_base
        positions = fnp.arange(features.shape[-2])
        return rotary(features, positions if first is None else first + positions, base=base)
