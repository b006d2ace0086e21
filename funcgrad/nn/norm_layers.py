"""Normalization layers, with their scale and bias.

>>> import funcgrad as fg
>>> LayerNorm.init(3)(fg.tensor([1.0, 2.0, 3.0])).shape
(3,)

Nothing is drawn, so ``init`` takes no key; arrays are on the host unless it gets a ``device``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering, answering_as
from funcgrad._primitives.logits import real_value
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.nn.initializers import ones, zeros
from funcgrad.nn.layer_parts import check_leaves, features_of, made_on
from funcgrad.nn.normalization import (
    checked_epsilon,
    group_norm,
    layer_norm,
    rms_norm,
    scaled,
    standardized,
    widened,
)
from funcgrad.numpy.options import integer, natural, real_number
from funcgrad.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike


@pytree
class LayerNorm:
    """Layer normalization: mean 0 and variance 1 over the last axis; see ``layer_norm``.

    Each example is normalized by itself, so training and use are the same. The normalization of
    transformers and recurrent networks.

    Parameters
    ----------
    scale, bias : Tensor, shape (features,), optional
        Weight and bias of ``torch.nn.LayerNorm``.
    epsilon : float
        Static.
    """

    scale: Tensor | None = None
    bias: Tensor | None = None
    epsilon: float = static_field(default=1e-5)

    sizes_by_axis = MappingProxyType({"features": -1})

    def __post_init__(self) -> None:
        check_leaves(self, scale="features", bias="features")
        checked_epsilon(self.epsilon, "LayerNorm")

    @classmethod
    @answering
    def init(
        cls,
        features: int,
        *,
        epsilon: float = 1e-5,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> LayerNorm:
        """Start with a scale of 1 and a bias of 0."""
        size = _count(features, "LayerNorm", "features")
        return cls(*_scale_and_bias(size, dtype, device, "LayerNorm"), epsilon)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Normalize an array of shape ``(..., features)``."""
        value = _featured(x, self.bias if self.scale is None else self.scale, "LayerNorm")
        return layer_norm(value, self.scale, self.bias, epsilon=self.epsilon)


@pytree
class RMSNorm:
    """Root mean square normalization over the last axis; see ``rms_norm``.

    Cheaper than ``LayerNorm``, since it subtracts no mean; common in language models.

    Parameters
    ----------
    scale : Tensor, shape (features,), optional
        Weight of ``torch.nn.RMSNorm``.
    epsilon : float
        Static.
    """

    scale: Tensor | None = None
    epsilon: float = static_field(default=1e-6)

    sizes_by_axis = MappingProxyType({"features": -1})

    def __post_init__(self) -> None:
        check_leaves(self, scale="features")
        checked_epsilon(self.epsilon, "RMSNorm")

    @classmethod
    @answering
    def init(
        cls,
        features: int,
        *,
        epsilon: float = 1e-6,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> RMSNorm:
        """Start with a scale of 1."""
        size = _count(features, "RMSNorm", "features")
        return cls(_scale_and_bias(size, dtype, device, "RMSNorm")[0], epsilon)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Normalize an array of shape ``(..., features)``."""
        value = _featured(x, self.scale, "RMSNorm")
        return rms_norm(value, self.scale, epsilon=self.epsilon)


@pytree
class GroupNorm:
    """Group normalization: mean 0 and variance 1 of groups of channels; see ``group_norm``.

    For convolutional networks with small batches, where ``BatchNorm`` is noisy.

    Parameters
    ----------
    scale, bias : Tensor, shape (channels,), optional
        Weight and bias of ``torch.nn.GroupNorm``.
    groups, epsilon, axis
        Static options of ``group_norm``.
    """

    scale: Tensor | None = None
    bias: Tensor | None = None
    groups: int = static_field(default=1)
    epsilon: float = static_field(default=1e-5)
    axis: int = static_field(default=1)

    sizes_by_axis = MappingProxyType({"channels": "axis"})

    def __post_init__(self) -> None:
        check_leaves(self, scale="channels", bias="channels")
        checked_epsilon(self.epsilon, "GroupNorm")
        integer(self.axis, "GroupNorm", "axis")
        parts, known = integer(self.groups, "GroupNorm", "groups"), self.bias
        known = known if self.scale is None else self.scale
        channels = 0 if known is None else known.shape[-1]
        if parts < 1 or channels % parts:
            raise ShapeError(f"GroupNorm: {channels} channels are not divided into {parts} groups.")

    @classmethod
    @answering
    def init(
        cls,
        channels: int,
        groups: int,
        *,
        epsilon: float = 1e-5,
        axis: int = 1,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> GroupNorm:
        """Start with a scale of 1 and a bias of 0."""
        size = _count(channels, "GroupNorm", "channels")
        parts = _scale_and_bias(size, dtype, device, "GroupNorm")
        return cls(*parts, groups, epsilon, axis)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Normalize an array of shape ``(batch, channels, *sizes)``."""
        return group_norm(
            x, self.groups, self.scale, self.bias, axis=self.axis, epsilon=self.epsilon
        )


@pytree
class BatchStatistics:
    """The running means and variances of a ``BatchNorm``, for each channel."""

    mean: Tensor
    variance: Tensor

    def __post_init__(self) -> None:
        check_leaves(self, mean="channels", variance="channels")


@pytree
class BatchNorm:
    """Batch normalization: mean 0 and variance 1 of each channel over the batch.

    After training the layer normalizes by running statistics of the training data. It speeds up the
    training of convolutional networks; with small batches use ``GroupNorm``.

    The running statistics are a value, not a hidden state: ``norm.init_state()`` makes the first,
    ``y, stats = norm.train(x, stats)`` returns the next, and ``y = norm(x, stats)`` uses them.

    Parameters
    ----------
    scale, bias : Tensor, shape (channels,)
        Weight and bias of ``torch.nn.BatchNorm2d``.
    momentum : float
        Static: the weight of the latest batch in the running statistics.
    epsilon : float
        Static.
    axis : int
        Static: the axis of the channels. Means are taken over all others.

    Notes
    -----
    Ioffe, Szegedy, "Batch normalization", ICML 2015. As in PyTorch, running variances are sample
    variances (denominator n - 1), and the running statistics have no derivatives.

    Examples
    --------
    >>> import funcgrad as fg
    >>> norm = BatchNorm.init(1, momentum=1.0)
    >>> y, stats = norm.train(fg.tensor([[1.0], [3.0]]), norm.init_state())
    >>> stats.mean, stats.variance
    (Tensor([2.]), Tensor([2.]))
    >>> stats
    BatchStatistics(mean=f64[1], variance=f64[1])
    """

    scale: Tensor
    bias: Tensor
    momentum: float = static_field(default=0.1)
    epsilon: float = static_field(default=1e-5)
    axis: int = static_field(default=1)

    sizes_by_axis = MappingProxyType({"channels": "axis"})

    def __post_init__(self) -> None:
        check_leaves(self, scale="channels", bias="channels")
        integer(self.axis, "BatchNorm", "axis")
        momentum = real_number(self.momentum, "BatchNorm", "momentum")
        if not 0 <= momentum <= 1:
            raise ArgumentError(f"BatchNorm: momentum is from 0 to 1, got {momentum}.")
        object.__setattr__(self, "momentum", momentum)  # a fraction becomes a Python float, too
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon, "BatchNorm"))

    @classmethod
    @answering
    def init(
        cls,
        channels: int,
        *,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
        axis: int = 1,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> BatchNorm:
        """Start with a scale of 1 and a bias of 0."""
        size = _count(channels, "BatchNorm", "channels")
        parts = _scale_and_bias(size, dtype, device, "BatchNorm")
        return cls(*parts, momentum, epsilon, axis)

    def init_state(self) -> BatchStatistics:
        """Return the statistics before training: means 0, variances 1; not in half precision."""
        wide = widened(self.scale)
        return BatchStatistics(fnp.zeros_like(wide), fnp.ones_like(wide))

    @answering_as("BatchNorm")
    def __call__(self, x: ArrayLike, stats: BatchStatistics | None = None) -> Tensor:
        """Normalize an array by the running statistics.

        Raises
        ------
        ArgumentError
            The statistics are missing.
        """
        value, shape = self._checked(x)
        known = self._statistics(stats)
        mean, variance = known.mean.reshape(shape), known.variance.reshape(shape)
        normal = (widened(value) - mean) / fnp.sqrt(variance + self.epsilon)
        return self._scaled(normal.astype(value.dtype), shape)

    def train(self, x: ArrayLike, stats: BatchStatistics | None) -> tuple[Tensor, BatchStatistics]:
        """Normalize a batch by its own statistics; return the result and the next running
        statistics.
        """
        value, shape = self._checked(x)
        old = self.init_state() if stats is None else self._statistics(stats)
        place = self.axis % value.ndim
        axes = tuple([axis for axis in range(value.ndim) if axis != place])
        count = value.size // max(self.scale.size, 1)
        if count == 0:
            raise ShapeError(f"BatchNorm: a batch of shape {value.shape} has no mean.")
        constant = widened(stop_gradient(value))
        mean = fnp.mean(constant, axis=axes)
        variance = fnp.var(constant, axis=axes) * (count / max(count - 1, 1))
        share = self.momentum
        after = BatchStatistics(
            ((1 - share) * old.mean + share * mean).astype(old.mean.dtype),
            ((1 - share) * old.variance + share * variance).astype(old.variance.dtype),
        )
        return self._scaled(standardized(value, axes, self.epsilon, "BatchNorm"), shape), after

    def _statistics(self, stats: BatchStatistics | None) -> BatchStatistics:
        expected = self.scale.shape
        if not isinstance(stats, BatchStatistics) or stats.mean.shape != expected:
            raise ArgumentError(
                f"BatchNorm: stats, the second argument, are BatchStatistics of {expected[-1]}"
                f" channels, not {stats!r:.200}. The first are norm.init_state(), and training"
                " makes the next: y, stats = norm.train(x, stats). Sequential passes a state"
                " along: model(x, state)."
            )
        return stats

    def _checked(self, x: ArrayLike) -> tuple[Tensor, tuple[int, ...]]:
        """Return the input, and the shape in which one value per channel broadcasts to it."""
        value, channels = wrap(real_value(x, "BatchNorm")), self.scale.shape[-1]
        inside = -value.ndim <= self.axis < value.ndim
        if not inside or value.shape[self.axis] != channels:
            raise ShapeError(
                f"BatchNorm: expected {channels} channels on axis {self.axis}, got an array of"
                f" shape {value.shape}."
            )
        shape = [1] * value.ndim
        shape[self.axis] = channels
        return value, tuple(shape)

    def _scaled(self, normal: Tensor, shape: tuple[int, ...]) -> Tensor:
        return scaled(normal, self.scale.reshape(shape), self.bias.reshape(shape), "BatchNorm")


def _scale_and_bias(
    size: int, dtype: DTypeLike, device: DeviceLike | None, layer: str
) -> tuple[Tensor, Tensor]:
    """A scale of 1 and a bias of 0, on a device if one is named."""
    arrays = ones(None, size, dtype), zeros(None, size, dtype)
    scale, bias = made_on(device, f"{layer}.init", *arrays)
    return scale, bias


def _count(size: int, layer: str, name: str) -> int:
    """Check a count of features or channels: layers normalize one axis."""
    if isinstance(size, (tuple, list)):
        raise DtypeError(
            f"{layer}.init: {name} is the size of one axis, got {size!r}. For several axes call"
            " nn.layer_norm(x, scale, bias, axis=(-2, -1))."
        )
    return natural(size, f"{layer}.init", name)


def _featured(x: ArrayLike, factor: Tensor | None, layer: str) -> ArrayLike:
    """Check that an input has one feature for each scale or bias."""
    return x if factor is None else features_of(x, factor.shape[-1], layer)
