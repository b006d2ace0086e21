"""Signals without their trend, and smoothed by polynomials.

Both are products with constant matrices, made from integers.

>>> detrend([1.0, 2.0, 4.0]).round(6)
Tensor([ 0.166667, -0.333333,  0.166667])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integers, real_number
from funcgrad.scipy.signal.signal_arguments import one_of, whole_number, with_axis_last
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor


class _Fit(NamedTuple):
    """The polynomials of a sliding window: its length, their degree, the derivative, distances."""

    size: int
    order: int
    deriv: int
    delta: float

    @classmethod
    def of(
        cls, operation: str, window_length: object, polyorder: object, deriv: object, delta: object
    ) -> _Fit:
        """Check the options that users pass.

        Raises
        ------
        ArgumentError
            The degree is not below the window's length, or a number is negative.
        """
        size = whole_number(operation, "window_length", window_length, 1)
        order = whole_number(operation, "polyorder", polyorder, 0)
        if order >= size:
            raise ArgumentError(
                f"{operation}: polyorder is {order}, and window_length {size}; the degree has to"
                " be less."
            )
        distance = real_number(delta, operation, "delta")
        return cls(size, order, whole_number(operation, "deriv", deriv, 0), distance)


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: bool = False,
) -> Tensor:
    """Subtract the straight lines that fit a signal best, or its mean.

    Parameters
    ----------
    data : array_like
    axis : int
    type : str
        ``"linear"`` or ``"constant"``.
    bp : int or sequence of int
        Places at which a new line begins.
    overwrite_data : bool
        Ignored: tensors never change.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        An unknown type, or a break behind the end.

    Examples
    --------
    >>> detrend([1.0, 2.0, 6.0], type="constant")
    Tensor([-2., -1.,  3.])
    """
    one_of("detrend", "type", type, ("linear", "l", "constant", "c"))
    value = with_axis_last("detrend", data, axis)
    count = value.shape[-1]
    if type in ("constant", "c"):
        result = value - fnp.mean(value, axis=-1, keepdims=True)
        return fnp.moveaxis(result, -1, axis)
    breaks = sorted({0, count, *integers(bp, "detrend", "bp")})
    if breaks[-1] > count or breaks[0] < 0:
        raise ArgumentError(f"detrend: breaks {bp} for a signal of {count} samples.")
    pieces = []
    for start, stop in itertools.pairwise(breaks):
        piece, size = value[..., start:stop], stop - start
        columns = np.stack([np.ones(size), np.arange(1, size + 1) / size], axis=1)
        basis = np.linalg.svd(columns, full_matrices=False)[0][:, : min(size, 2)]
        basis = basis.astype(value.real.dtype)
        pieces.append(piece - (piece @ basis) @ basis.T)
    return fnp.moveaxis(fnp.concatenate(pieces, axis=-1) if pieces else value, -1, axis)


@answering
def savgol_coeffs(
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    pos: int | None = None,
    use: str = "conv",
) -> Tensor:
    """The coefficients with which a filter fits polynomials in a sliding window.

    Parameters
    ----------
    window_length, polyorder : int
        The number of samples in the window, and the polynomial's degree.
    deriv : int
        The derivative of the polynomial that is evaluated.
    delta : float
        The distance of the samples.
    pos : int, optional
        The place in the window; by default its centre.
    use : str
        ``"conv"`` for coefficients of a convolution, ``"dot"`` for a product with the window.

    Returns
    -------
    Tensor, shape (window_length,)

    Raises
    ------
    ArgumentError
        The degree is not below the window's length, or ``pos`` is outside of it.

    Notes
    -----
    A. Savitzky and M. J. E. Golay, Smoothing and differentiation of data by simplified least
    squares procedures, Analytical Chemistry 36, 1964.

    Examples
    --------
    >>> savgol_coeffs(5, 2).round(6)
    Tensor([-0.085714,  0.342857,  0.485714,  0.342857, -0.085714])
    """
    one_of("savgol_coeffs", "use", use, ("conv", "dot"))
    fit = _Fit.of("savgol_coeffs", window_length, polyorder, deriv, delta)
    window_length = fit.size
    half = window_length / 2 - 0.5 if window_length % 2 == 0 else window_length // 2
    place = half if pos is None else real_number(pos, "savgol_coeffs", "pos")
    if not 0 <= place < window_length:
        raise ArgumentError(f"savgol_coeffs: pos is {pos}; the window has {window_length} samples.")
    row = _fitted(np.arange(window_length) - place, np.zeros(1), fit)[0]
    return tensor(row[::-1].copy() if use == "conv" else row)


def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Smooth a signal by polynomials in a sliding window, or differentiate it.

    Parameters
    ----------
    x : array_like
    window_length, polyorder, deriv, delta
        See ``savgol_coeffs``.
    axis : int
    mode : str
        How the signal goes on: ``"interp"`` by the polynomials of the first and the last window;
        ``"mirror"``, ``"nearest"``, ``"wrap"``, or ``"constant"`` with ``cval``.
    cval : float

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        See ``savgol_coeffs``.
    ShapeError
        With ``mode="interp"`` the signal is shorter than the window.

    Examples
    --------
    >>> savgol_filter([1.0, 4.0, 9.0, 16.0, 25.0], 3, 2).round(12)
    Tensor([ 1.,  4.,  9., 16., 25.])
    """
    one_of("savgol_filter", "mode", mode, ("interp", "mirror", "nearest", "wrap", "constant"))
    fit = _Fit.of("savgol_filter", window_length, polyorder, deriv, delta)
    window_length = fit.size
    value = with_axis_last("savgol_filter", x, axis)
    weights = np.asarray(savgol_coeffs(*fit, use="dot"))
    weights = weights.astype(value.real.dtype)
    half, count = window_length // 2, value.shape[-1]
    left = (window_length - 1) // 2  # of an even window the later half is longer, as in SciPy
    if mode == "interp":
        if count < window_length:
            raise ShapeError(
                f"savgol_filter: the window of {window_length} samples is longer than the signal,"
                f" {count}. With another mode than 'interp' it may be."
            )
        inner = _sliding(value, weights)
        places = np.arange(window_length)
        ends = []
        for window, at in (
            (value[..., :window_length], places[:half]),
            (value[..., count - window_length :], places[window_length - half :]),
        ):
            rows = _fitted(places, at, fit).astype(value.real.dtype)
            ends.append(window @ rows.T)
        middle = inner[..., half - left : half - left + count - 2 * half]
        result = fnp.concatenate([ends[0], middle, ends[1]], axis=-1)
        return fnp.moveaxis(result, -1, axis)
    kinds = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}
    fill = {"constant_values": cval} if mode == "constant" else {}
    right = window_length - 1 - left
    widths = [(0, 0)] * (value.ndim - 1) + [(left, right)]
    padded = fnp.pad(value, widths, mode=kinds[mode], **fill)
    return fnp.moveaxis(_sliding(padded, weights), -1, axis)


def _fitted(places: np.ndarray, at: np.ndarray, fit_options: _Fit) -> np.ndarray:
    """Rows that take samples at places to a derivative of their polynomial at other places."""
    _, order, deriv, delta = fit_options
    middle, width = places.mean(), max(np.ptp(places) / 2, 1.0)
    fit = np.linalg.pinv(np.vander((places - middle) / width, order + 1, increasing=True))
    powers = np.zeros((len(at), order + 1))
    for k in range(deriv, order + 1):
        factor = math.factorial(k) / math.factorial(k - deriv)
        powers[:, k] = factor * ((at - middle) / width) ** (k - deriv)
    return powers @ fit / (width * delta) ** deriv


def _sliding(x: Tensor, weights: np.ndarray) -> Tensor:
    """The products of a row with all windows along the last axis."""
    windows = fnp.lib.stride_tricks.sliding_window_view(x, len(weights), axis=-1)
    return windows @ weights
