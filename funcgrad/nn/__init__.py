"""Functions for neural networks: activations, convolutions, losses; there are no layer classes.

A layer is a matrix product and a function; its parameters are your own pytree, such as a dict or a
frozen dataclass:

>>> import funcgrad as fg
>>> from funcgrad import nn, random
>>> def initialize(key):
...     return {"weight": nn.glorot_uniform(key, (3, 2)), "bias": fg.tensor([0.0, 0.0])}
>>> def classify(params, x):
...     return nn.softmax(x @ params["weight"] + params["bias"])
>>> classify(initialize(random.key(0)), fg.tensor([[0.0, 0.0, 0.0]]))
Tensor([[0.5, 0.5]])

Values and all derivatives are exact at large and at infinite arguments too, so a masked logit of
minus infinity has the probability 0 and the gradient 0.
"""

from typing import TYPE_CHECKING

from funcgrad.foreign_names import missing_from as _missing_from
from funcgrad.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    swish,
)
from funcgrad.nn.convolution import conv, conv_transpose
from funcgrad.nn.initializers import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    ones,
    zeros,
)
from funcgrad.nn.losses import cross_entropy, one_hot, squared_error
from funcgrad.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from funcgrad.numpy import logsumexp, tanh

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "elu",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "one_hot",
    "ones",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "squared_error",
    "swish",
    "tanh",
    "zeros",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)


def __dir__() -> list[str]:
    """List the public names for completion, without the modules."""
    return list(__all__)
