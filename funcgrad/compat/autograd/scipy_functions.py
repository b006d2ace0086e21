"""autograd's ``scipy`` functions: ``odeint``, ``convolve``, the multivariate normal distribution.

>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.scipy.stats import multivariate_normal, norm
>>> grad(norm.logpdf, 2)(1.0, 0.0, 2.0)
np.float64(-0.375)
>>> float(grad(multivariate_normal.logpdf)(np.array([1.0, 0.0]), np.zeros(2), np.eye(2))[0])
-1.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.compat.autograd.lazy_modules import mirrored
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.integrate.initial_values import odeint as _odeint
from funcgrad.tensor.tensor import ArrayLike, Tensor

Axes = Sequence[Sequence[int]]


def odeint(
    func: Callable[..., Any],
    y0: ArrayLike,
    t: ArrayLike,
    args: Sequence[Any] = (),
    *,
    rtol: float = 1.49012e-8,
    atol: float = 1.49012e-8,
    tfirst: bool = False,
) -> Any:
    """Solve y' = func(y, t, *args), as ``scipy.integrate.odeint`` does, by ``fg.odeint``.

    The result is differentiable with respect to everything that the equation depends on.

    Parameters
    ----------
    func : callable
        Returns dy/dt; ``func(t, y, *args)`` with ``tfirst``.
    y0 : array of shape (n,)
    t : array of shape (m,)
        The times; ``y0`` is the state at the first one.
    args : sequence of pytrees
    rtol, atol : float
        Tolerances, with SciPy's defaults.
    tfirst : bool

    Returns
    -------
    array of shape (m, n)

    >>> from funcgrad.compat.autograd import grad
    >>> final = lambda k: odeint(lambda y, t: -k * y, np.ones(1), np.array([0.0, 1.0]))[-1, 0]
    >>> round(float(grad(final)(1.0)), 6)
    -0.367879
    """

    def derivative(y: Any, time: Any, *parameters: Any) -> Any:
        out = func(time, y, *parameters) if tfirst else func(y, time, *parameters)
        return fnp.asarray(out)

    start = y0 if hasattr(y0, "dtype") else np.asarray(y0, dtype=np.float64)
    return plain(_odeint(derivative, start, t, *args, rtol=rtol, atol=atol))


def convolve(
    A: ArrayLike,
    B: ArrayLike,
    axes: Axes | None = None,
    dot_axes: Axes = ((), ()),
    mode: str = "full",
) -> Any:
    """Convolve two arrays along some axes, and sum products along others.

    Parameters
    ----------
    A, B : array_like
    axes : pair of sequences of int, optional
        The axes of A and of B to convolve along, in pairs; by default all.
    dot_axes : pair of sequences of int
        The axes of A and of B to sum over, in pairs.
    mode : {"full", "valid", "same"}
        As in ``np.convolve``, except that "same" gives the shape of A.

    Returns
    -------
    array
        Its axes are the other axes of A, the other axes of B, and the convolved axes.

    Raises
    ------
    ArgumentError
        ``mode`` has another value.
    ShapeError
        With "valid", neither array is at least as long as the other along all axes.

    >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([1., 3., 2.])
    """
    if mode not in ("full", "valid", "same"):
        raise ArgumentError(f"convolve: mode has to be full, valid or same, got {mode!r}.")
    arrays = [fnp.asarray(A), fnp.asarray(B)]
    slid = axes or [range(arrays[0].ndim)] * 2
    sizes = [[array.shape[k] for k in ks] for array, ks in zip(arrays, slid, strict=True)]
    is_longer = all(a >= b for a, b in zip(*sizes, strict=True))
    if mode == "valid" and not is_longer and any(a > b for a, b in zip(*sizes, strict=True)):
        raise ShapeError(
            f"convolve: with mode='valid' one array has to be at least as long as the other along"
            f" all axes, got {sizes[0]} and {sizes[1]}."
        )
    others = []
    for k, array in enumerate(arrays):
        used = {axis % array.ndim for axis in (*slid[k], *dot_axes[k])}
        others.append([(k, axis) for axis in range(array.ndim) if axis not in used])
    long = 1 if mode == "valid" and not is_longer else 0
    short = 1 - long
    array, kernel = arrays[long], fnp.flip(arrays[short], slid[short])
    windows = fnp.lib.stride_tricks.sliding_window_view(
        _padded(array, slid[long], sizes[short], mode), sizes[short], slid[long]
    )
    summed = [*dot_axes[long], *range(array.ndim, windows.ndim)]
    out = fnp.tensordot(windows, kernel, (summed, [*dot_axes[short], *slid[short]]))
    convolved = [(long, axis % array.ndim) for axis in slid[long]]
    axes_of_out = sorted(others[long] + convolved) + others[short]
    order = [axes_of_out.index(axis) for axis in (*others[0], *others[1], *convolved)]
    return plain(fnp.transpose(out, order))


def _padded(array: Tensor, axes: Sequence[int], sizes: Sequence[int], mode: str) -> Tensor:
    """Pad an array with zeros so that the other can slide over it."""
    widths = [(0, 0)] * array.ndim
    for axis, size in zip(axes, sizes, strict=True):
        if mode == "full":
            widths[axis] = (size - 1, size - 1)
        elif mode == "same":
            widths[axis] = (size // 2, (size - 1) // 2)
    return fnp.pad(array, widths)


def normal_entropy(mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Any:
    """The entropy: half the log-determinant of 2 π e times the covariance.

    >>> round(float(normal_entropy(np.zeros(2), np.eye(2))), 6)
    2.837877
    """
    if not holds_tensor((mean, cov)):
        return mirrored(_NORMAL, "entropy")(mean, cov)
    matrix = fnp.atleast_2d(fnp.asarray(cov))
    return plain(0.5 * fnp.linalg.slogdet(2.0 * np.pi * np.e * matrix).logabsdet)


def _density(
    name: str,
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1.0,
    allow_singular: bool = False,
) -> Any:
    """The density of the multivariate normal distribution, or its logarithm."""
    method = mirrored(_NORMAL, name)
    if not holds_tensor((x, mean, cov)):
        return method(x, mean, cov, allow_singular)
    if allow_singular:
        raise ArgumentError(
            f"multivariate_normal.{name}: allow_singular is not available for traced values. Add a"
            " small multiple of the identity to the covariance, or use the density within the"
            " subspace."
        )
    return method(x, mean, cov)


_NORMAL: Final = "scipy.stats.multivariate_normal"
normal_logpdf = partial(_density, "logpdf")
normal_pdf = partial(_density, "pdf")
