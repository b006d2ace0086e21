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
    glu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    sparsemax,
    swish,
)
from funcgrad.nn.attending import attention
from funcgrad.nn.convolution import conv, conv_transpose
from funcgrad.nn.dropping import dropout
from funcgrad.nn.hard_activations import hard_sigmoid, hard_silu, hard_swish, hard_tanh, relu6
from funcgrad.nn.initializers import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
    ones,
    orthogonal,
    truncated_normal,
    variance_scaling,
    zeros,
)
from funcgrad.nn.losses import cross_entropy, one_hot, squared_error
from funcgrad.nn.normalization import group_norm, layer_norm, rms_norm
from funcgrad.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from funcgrad.nn.positions import rotary, sinusoidal_positions
from funcgrad.nn.smooth_activations import celu, mish, selu, softsign, squareplus
from funcgrad.numpy import logsumexp, tanh

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "attention",
    "avg_pool",
    "celu",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "dropout",
    "elu",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "glu",
    "group_norm",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "he_normal",
    "he_uniform",
    "layer_norm",
    "leaky_relu",
    "lecun_normal",
    "lecun_uniform",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "mish",
    "one_hot",
    "ones",
    "orthogonal",
    "relu",
    "relu6",
    "rms_norm",
    "rotary",
    "selu",
    "sigmoid",
    "silu",
    "sinusoidal_positions",
    "softmax",
    "softplus",
    "softsign",
    "sparsemax",
    "squared_error",
    "squareplus",
    "swish",
    "tanh",
    "truncated_normal",
    "variance_scaling",
    "zeros",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)


def __dir__() -> list[str]:
    """List the public names for completion, without the modules."""
    return list(__all__)
