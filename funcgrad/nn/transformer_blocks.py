"""A block of a transformer: attention and a small network, with normalization and residual sums.

>>> import funcgrad as fg
>>> block = TransformerBlock.init(fg.random.key(0), 8, 2)
>>> block(fg.numpy.ones((5, 3, 8)), causal=True).shape
(5, 3, 8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.specs import Shape
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering, answering_as
from funcgrad.errors import ArgumentError
from funcgrad.nn.activations import gelu
from funcgrad.nn.attention_layers import KVCache, MultiHeadAttention
from funcgrad.nn.dropout import UNSAID, Key, checked_rate, dropout, said_key, training_key
from funcgrad.nn.layer_parts import check_leaves, features_of, function_option, split_key
from funcgrad.nn.layers import MLP
from funcgrad.nn.norm_layers import LayerNorm, RMSNorm
from funcgrad.numpy.options import natural
from funcgrad.tensor.tensor import Tensor, wrap


@pytree
class TransformerBlock:
    """A block of a transformer: self-attention, then a network for each position.

    ``y = x + attention(attention_norm(x))``, ``out = y + network(network_norm(y))``. A model is a
    stack of such blocks; with ``causal=True`` it reads a sequence from left to right.

    Parameters
    ----------
    attention : MultiHeadAttention
    network : MLP or another layer
        Applied to each position.
    attention_norm, network_norm : LayerNorm, RMSNorm or another layer
    norm_first : bool
        Static: whether to normalize before the attention and the network. If not, the sums are
        normalized: ``y = attention_norm(x + attention(x))``, as in the first publication and by
        default in PyTorch.
    dropout : float
        Static: the probability that an element of a summand is set to 0 in training. The attention
        has its own.

    Notes
    -----
    Vaswani and others, "Attention is all you need", NeurIPS 2017; normalization first: Xiong and
    others, "On layer normalization in the transformer architecture", ICML 2020. It is
    ``torch.nn.TransformerEncoderLayer``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> block = TransformerBlock.init(fg.random.key(0), 8, 2, rotary_base=1e4)
    >>> x = fg.random.normal(fg.random.key(1), (4, 8))
    >>> y, cache = block(x[:3], cache=block.cache(4))  # generate one position after another
    >>> last, cache = block(x[3:], cache=cache)
    >>> fg.numpy.allclose(last, block(x, causal=True)[3:])
    Tensor(True)
    """

    attention: MultiHeadAttention
    network: Any
    attention_norm: Any
    network_norm: Any
    norm_first: bool = static_field(default=True)
    dropout: float = static_field(default=0.0)

    def __post_init__(self) -> None:
        checked_rate(self.dropout, "TransformerBlock")
        if not isinstance(self.attention, MultiHeadAttention):
            raise ArgumentError(
                "TransformerBlock: attention is a MultiHeadAttention, got"
                f" {type(self.attention).__name__}. TransformerBlock.init(key, features, heads)"
                " makes one."
            )
        for name in ("network", "attention_norm", "network_norm"):
            function_option(getattr(self, name), "TransformerBlock", name)
        check_leaves(self)

    @classmethod
    @answering
    def init(
        cls,
        key: ArrayLike,
        features: int,
        heads: int,
        *,
        hidden: int | None = None,
        activation: Callable[[Any], Any] = gelu,
        norm: type[LayerNorm] | type[RMSNorm] = LayerNorm,
        norm_first: bool = True,
        key_heads: int | None = None,
        bias: bool = True,
        rotary_base: float | None = None,
        dropout: float = 0.0,
        dtype: DTypeLike = np.float64,
    ) -> TransformerBlock:
        """Draw the weights; by default the network has ``4 * features`` hidden units.

        The ``dropout`` also holds for attention weights.

        Raises
        ------
        ShapeError
            The features cannot be divided among the heads.
        ArgumentError
            ``norm`` is another class.
        """
        if not any(norm is kind for kind in (LayerNorm, RMSNorm)):
            raise ArgumentError(
                f"TransformerBlock.init: norm has to be LayerNorm or RMSNorm, got {norm!r:.100}."
            )
        first, second = split_key(key, 2, "TransformerBlock.init")
        attention = MultiHeadAttention.init(
            first, features, heads, key_heads=key_heads, bias=bias, rotary_base=rotary_base,
            dropout=dropout, dtype=dtype,
        )  # fmt: skip
        units = 4 * features if hidden is None else natural(hidden, "TransformerBlock", "hidden")
        sizes = (features, units, features)
        network = MLP.init(second, sizes, activation=activation, bias=bias, dtype=dtype)
        made: dict[str, Any] = {"dtype": dtype, "device": first.device}
        first_norm, second_norm = [norm.init(features, **made) for _ in range(2)]
        return cls(attention, network, first_norm, second_norm, norm_first, dropout)

    def cache(self, capacity: int, batch: Shape = ()) -> KVCache:
        """Make an empty cache for a batch of the shape ``batch``."""
        return self.attention.cache(capacity, batch)

    @answering_as("TransformerBlock")
    def __call__(
        self,
        x: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        cache: KVCache | None = None,
        key: Key = UNSAID,
    ) -> Any:
        """Apply the block.

        Parameters
        ----------
        x : array_like, shape (..., length, features)
        mask, bias, causal, window
            Options of ``attention``.
        cache : KVCache, optional
            Keys and values of the positions before ``x``; then the result is the pair of ``y`` and
            the next cache.
        key : key or None
            Random key for dropout; None drops nothing. A block with ``dropout`` above 0 needs one
            of the two.

        Returns
        -------
        Tensor, shape (..., length, features); or a pair of it and a KVCache
        """
        rate = max(self.dropout, self.attention.dropout)
        known = said_key(key, rate, "TransformerBlock")
        keys = [None] * 3 if known is None else split_key(known, 3, "TransformerBlock")
        value = wrap(operand(x, "TransformerBlock"))
        value = features_of(value, self.attention.query.weight.shape[-2], "TransformerBlock")
        seen = self.attention_norm(value) if self.norm_first else value
        mixed = self.attention(
            seen, mask=mask, bias=bias, causal=causal, window=window, cache=cache, key=keys[0]
        )
        mixed, after = mixed if cache is not None else (mixed, None)
        value = value + dropout(mixed, self.dropout, keys[1])
        value = value if self.norm_first else self.attention_norm(value)
        seen = self.network_norm(value) if self.norm_first else value
        value = value + dropout(self.network(seen), self.dropout, keys[2])
        value = value if self.norm_first else self.network_norm(value)
        return value if cache is None else (value, after)

    def train(
        self,
        x: ArrayLike,
        state: None = None,
        *,
        mask: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        key: ArrayLike | None = None,
    ) -> tuple[Tensor, None]:
        """Apply the block as in training; return the result and the state, which is None.

        Raises
        ------
        ArgumentError
            The block drops elements, and no key was passed.
        """
        rate = max(self.dropout, self.attention.dropout)
        known = training_key(key, rate, "TransformerBlock")
        y = self(x, mask=mask, bias=bias, causal=causal, window=window, key=known)
        return y, state
