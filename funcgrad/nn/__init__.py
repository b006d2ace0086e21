"""Neural networks: layers (frozen pytrees of arrays), and the functions they are made of.

A model is a value, so the gradient with respect to a model has the structure of the model:

>>> import funcgrad as fg
>>> from funcgrad import nn, random
>>> first, second = random.split(random.key(0))
>>> model = nn.Sequential(nn.Linear.init(first, 3, 8), nn.relu, nn.Linear.init(second, 8, 2))
>>> def loss(model, x, labels):
...     return nn.cross_entropy(model(x), labels).mean()
>>> gradient = fg.grad(loss)(model, fg.numpy.ones((4, 3)), [0, 1, 1, 0])
>>> gradient.layers[2].bias.shape
(2,)

Values and all derivatives are exact at large and at infinite arguments too, so a masked logit of
minus infinity has the probability 0 and the gradient 0.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
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
from funcgrad.nn.alignment_losses import ctc_loss
from funcgrad.nn.attention import attention
from funcgrad.nn.attention_layers import KVCache, MultiHeadAttention
from funcgrad.nn.classification_losses import (
    hinge_loss,
    sigmoid_binary_cross_entropy,
    sigmoid_focal_loss,
    softmax_focal_loss,
)
from funcgrad.nn.convolution import conv, conv_transpose
from funcgrad.nn.dropout import dropout
from funcgrad.nn.embedding_losses import (
    cosine_distance,
    cosine_similarity,
    ntxent,
    triplet_margin_loss,
)
from funcgrad.nn.filters import Conv, ConvTranspose
from funcgrad.nn.hard_activations import (
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    relu6,
    sparse_plus,
    sparse_sigmoid,
)
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
from funcgrad.nn.layers import (
    MLP,
    Activation,
    Dropout,
    Embedding,
    Linear,
    PReLU,
    Residual,
    Sequential,
)
from funcgrad.nn.log_domain import log1mexp, logmeanexp
from funcgrad.nn.losses import cross_entropy, kl_divergence, one_hot
from funcgrad.nn.norm_layers import BatchNorm, BatchStatistics, GroupNorm, LayerNorm, RMSNorm
from funcgrad.nn.normalization import group_norm, layer_norm, rms_norm, standardize
from funcgrad.nn.overlap_losses import dice_loss
from funcgrad.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from funcgrad.nn.positions import rotary, sinusoidal_positions
from funcgrad.nn.recipes import build, dense, recipe, sequential
from funcgrad.nn.recurrent import GRUCell, LSTMCell, RNNCell, bidirectional, run
from funcgrad.nn.regression_losses import huber_loss, log_cosh, squared_error
from funcgrad.nn.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_sum,
)
from funcgrad.nn.smooth_activations import celu, mish, selu, softsign, squareplus
from funcgrad.nn.summaries import summary
from funcgrad.nn.torch_layouts import from_torch, to_torch
from funcgrad.nn.transformer_blocks import TransformerBlock
from funcgrad.nn.weight_norms import spectral_norm, weight_norm
from funcgrad.numpy import logsumexp, tanh

__all__ = [
    "MLP",
    "Activation",
    "BatchNorm",
    "BatchStatistics",
    "Conv",
    "ConvTranspose",
    "Dropout",
    "Embedding",
    "GRUCell",
    "GroupNorm",
    "KVCache",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "MultiHeadAttention",
    "PReLU",
    "RMSNorm",
    "RNNCell",
    "Residual",
    "Sequential",
    "TransformerBlock",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "attention",
    "avg_pool",
    "bidirectional",
    "build",
    "celu",
    "conv",
    "conv_transpose",
    "cosine_distance",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dense",
    "dice_loss",
    "dropout",
    "elu",
    "from_torch",
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
    "hinge_loss",
    "huber_loss",
    "kl_divergence",
    "layer_norm",
    "leaky_relu",
    "lecun_normal",
    "lecun_uniform",
    "log1mexp",
    "log_cosh",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "max_pool",
    "mish",
    "ntxent",
    "one_hot",
    "ones",
    "orthogonal",
    "recipe",
    "relu",
    "relu6",
    "rms_norm",
    "rotary",
    "run",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_softmax",
    "segment_sum",
    "selu",
    "sequential",
    "sigmoid",
    "sigmoid_binary_cross_entropy",
    "sigmoid_focal_loss",
    "silu",
    "sinusoidal_positions",
    "softmax",
    "softmax_focal_loss",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "spectral_norm",
    "squared_error",
    "squareplus",
    "standardize",
    "summary",
    "swish",
    "tanh",
    "to_torch",
    "triplet_margin_loss",
    "truncated_normal",
    "variance_scaling",
    "weight_norm",
    "zeros",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
