"""Weights with a chosen norm: the length of each column, or the largest singular value.

>>> weight_norm([[3.0], [4.0]], 10.0)
Tensor([[6.],
        [8.]])
"""

from __future__ import annotations

from typing import Final, SupportsIndex

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import natural, real_number
from funcgrad.tensor.tensor import Tensor, wrap

_MOST_STEPS: Final = 10_000
"""Steps of the power method, which ``jit`` writes out one by one."""


@answering
def weight_norm(
    direction: ArrayLike, length: ArrayLike = 1.0, *, axis: SupportsIndex = -1
) -> Tensor:
    """Weight normalization: ``length * direction / norm(direction)``, separately for each output.

    Train the direction and the length instead of the weight: then the size of a step does not
    depend on the size of the weights.

    Parameters
    ----------
    direction : array_like
        Real; the norm is over all axes but one.
    length : array_like
        A length for each output, or one for all.
    axis : int
        The axis of the outputs: -1 for ``Linear``, 0 for ``Conv`` and for PyTorch's weights.

    Returns
    -------
    Tensor
        The shape of ``direction``.

    Raises
    ------
    ShapeError
        There is not one length for each output.

    Notes
    -----
    Salimans, Kingma, "Weight normalization", NeurIPS 2016. In PyTorch ``direction`` is
    ``weight_v``, and ``length`` is ``weight_g`` without axes of size 1.

    Examples
    --------
    >>> weight_norm([[3.0, 0.0], [4.0, 2.0]], [1.0, 10.0])
    Tensor([[ 0.6,  0. ],
            [ 0.8, 10. ]])
    """
    value = wrap(real_value(direction, "weight_norm"))
    place = normalize_axis(axis, value.ndim, "weight_norm")
    others = tuple([k for k in range(value.ndim) if k != place])
    size = fnp.linalg.norm(_rows(value, place), axis=1)
    lengths = wrap(operand(length, "weight_norm"))
    if lengths.shape not in ((), size.shape):
        raise ShapeError(
            f"weight_norm: length has to be one number or of shape {size.shape}, for the outputs"
            f" along axis {place} of {value.shape}; got {lengths.shape}."
        )
    return value * fnp.expand_dims(lengths.astype(value.dtype) / size, others)


@answering
def spectral_norm(
    weight: ArrayLike,
    u: ArrayLike,
    *,
    steps: int = 1,
    axis: SupportsIndex = -1,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:
    """Spectral normalization: divide a weight by an estimate of its largest singular value.

    The linear map then stretches no vector, which keeps the critics of generative models smooth.
    The estimate improves from call to call: store ``u`` like the running statistics of a
    ``BatchNorm``. The exact norm is ``fnp.linalg.norm(weight, 2)``, which costs a decomposition.

    Parameters
    ----------
    weight : array_like
        Real; a matrix after all axes but ``axis`` are joined.
    u : array_like, shape (outputs,)
        The last estimate of the singular vector, at first a random vector.
    steps : int
        The number of steps of the power method, at most 10,000; 0 uses ``u`` as it is.
    axis : int
        The axis of the outputs: -1 for ``Linear``, 0 for ``Conv`` and for PyTorch's weights.
    epsilon : float
        The least norm by which a vector is divided.

    Returns
    -------
    weight : Tensor
        The normalized weight. Both singular vectors count as constant in its derivative.
    u : Tensor, shape (outputs,)
        The next estimate.

    Raises
    ------
    ArgumentError
        There are too many steps.
    ShapeError
        ``u`` has not one element for each output.

    Notes
    -----
    Miyato, Kataoka, Koyama, Yoshida, "Spectral normalization for generative adversarial networks",
    ICLR 2018; ``torch.nn.utils.spectral_norm`` with ``dim=axis``.

    Examples
    --------
    >>> weight, u = spectral_norm([[3.0, 0.0], [0.0, 1.0]], [1.0, 1.0], steps=20)
    >>> weight.round(6)
    Tensor([[1.      , 0.      ],
            [0.      , 0.333333]])
    """
    value = wrap(real_value(weight, "spectral_norm"))
    place = normalize_axis(axis, value.ndim, "spectral_norm")
    least = real_number(epsilon, "spectral_norm", "epsilon")
    matrix = _rows(value, place)
    constant = stop_gradient(matrix)
    left = stop_gradient(wrap(operand(u, "spectral_norm"))).astype(value.dtype)
    if left.shape != matrix.shape[:1]:
        raise ShapeError(
            f"spectral_norm: u has to be of shape {matrix.shape[:1]}, the outputs along axis"
            f" {place} of {value.shape}; got {left.shape}."
        )

    def unit(x: Tensor) -> Tensor:
        return x / fnp.maximum(fnp.linalg.norm(x), least)

    count = natural(steps, "spectral_norm", "steps")
    if count > _MOST_STEPS:
        raise ArgumentError(f"spectral_norm: steps is at most {_MOST_STEPS}, got {count}.")
    right = unit(left @ constant)
    for step in range(count):
        right = unit(left @ constant) if step else right
        left = unit(constant @ right)
    return value / (left @ matrix @ right), left


def _rows(value: Tensor, axis: int) -> Tensor:
    """Move an axis to the front, and join the others."""
    moved = fnp.moveaxis(value, axis, 0)
    return fnp.reshape(moved, (moved.shape[0], -1)) if moved.size else moved[:, None]
