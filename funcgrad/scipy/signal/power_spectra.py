"""Spectra of signals by Fourier transforms of windowed segments.

>>> frequencies, power = periodogram([1.0, 0.0, -1.0, 0.0])
>>> frequencies, power.round(12)
(Tensor([0.  , 0.25, 0.5 ]), Tensor([0., 2., 0.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.scipy.signal.signal_arguments import (
    extended,
    inexact,
    one_of,
    rate,
    whole_number,
    with_axis_last,
)
from funcgrad.scipy.signal.smoothing import detrend as without_trend
from funcgrad.scipy.signal.tapers import get_window
from funcgrad.tensor.tensor import ArrayLike, Tensor

Window = str | float | tuple[Any, ...] | ArrayLike
Detrend = str | bool | Callable[[Tensor], Tensor]


class _Segments(NamedTuple):
    """How a signal is divided: window, lengths, and the factor of a spectrum."""

    window: Tensor
    size: int
    step: int
    nfft: int


def periodogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window | None = "boxcar",
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """The power spectrum of a whole signal.

    Parameters
    ----------
    x : array_like
    fs : float
        Samples per unit of time.
    window, detrend, return_onesided, scaling
        See ``welch``.
    nfft : int, optional
        The length of the transform; by default the signal's.
    axis : int

    Returns
    -------
    tuple of Tensor
        Frequencies, and the power at them along the axis.

    Examples
    --------
    >>> periodogram([1.0, -1.0, 1.0, -1.0], scaling="spectrum")[1]
    Tensor([0., 0., 1.])
    """
    value = with_axis_last("periodogram", x, axis)
    count = value.shape[-1]
    if nfft is not None:
        nfft = whole_number("periodogram", "nfft", nfft, 1)
        value = value[..., :nfft]
        count = value.shape[-1]
    name: Window = "boxcar" if window is None else window
    options = fs, name, count or None, 0, nfft, detrend, return_onesided, scaling, -1, "mean"
    freqs, power = _cross_spectrum("periodogram", value, value, *options)
    return freqs, fnp.moveaxis(power.real, -1, axis)


def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The power spectrum of a signal as the average over overlapping segments.

    Parameters
    ----------
    x : array_like
    fs : float
        Samples per unit of time.
    window : str, float, tuple or array_like
        See ``get_window``; an array has the segments' length.
    nperseg : int, optional
        The length of a segment, 256 by default.
    noverlap : int, optional
        How many samples neighbours share, by default half of a segment.
    nfft : int, optional
        The length of the transforms, at least a segment's.
    detrend : str, callable or False
        The trend that is subtracted from each segment: ``"constant"``, ``"linear"``, or a function
        of the segments along the last axis.
    return_onesided : bool
        Whether a real signal has frequencies from 0 on only, with twice the power.
    scaling : str
        ``"density"``, per unit of frequency, or ``"spectrum"``.
    axis : int
    average : str
        ``"mean"`` or ``"median"`` over the segments.

    Returns
    -------
    tuple of Tensor
        Frequencies, and the power at them along the axis.

    Raises
    ------
    ArgumentError
        An unknown option, or lengths that do not fit.

    Notes
    -----
    P. Welch, The use of the fast Fourier transform for the estimation of power spectra, IEEE
    Transactions on Audio and Electroacoustics 15, 1967. The bias of the median: B. Allen and
    others, FINDCHIRP, Physical Review D 85, 2012, appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> frequencies, power = welch(np.sin(np.arange(64) * np.pi / 4), nperseg=16)
    >>> float(frequencies[np.argmax(power)])
    0.125
    """
    options = nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    freqs, power = _cross_spectrum("welch", x, x, fs, window, *options)
    return freqs, power.real


def csd(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The cross spectrum of two signals, ``conj(X) * Y`` averaged over segments.

    Parameters
    ----------
    x, y : array_like
        The shorter one is continued by zeros.
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
        See ``welch``.

    Returns
    -------
    tuple of Tensor
        Frequencies, and the complex spectrum along the axis.

    Examples
    --------
    >>> csd([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0], window="boxcar", nperseg=4)[1].round(9)
    Tensor([0.+0.j, 0.+0.j, 4.+0.j])
    """
    options = nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    return _cross_spectrum("csd", x, y, fs, window, *options)


def _cross_spectrum(
    operation: str,
    x: ArrayLike,
    y: ArrayLike,
    fs: float,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Detrend,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[Tensor, Tensor]:
    """The cross spectrum for a function that its errors name; see ``csd``."""
    one_of(operation, "scaling", scaling, ("density", "spectrum"))
    one_of(operation, "average", average, ("mean", "median"))
    rate(operation, fs)
    first, second = (with_axis_last(operation, signal, axis) for signal in (x, y))
    length = max(first.shape[-1], second.shape[-1])
    first, second = (_to_length(signal, length) for signal in (first, second))
    dtype = np.result_type(first.real.dtype, second.real.dtype)
    plan = _plan(operation, length, window, nperseg, noverlap, nfft, dtype)
    real = first.dtype.kind != "c" and second.dtype.kind != "c"
    onesided = return_onesided and real
    spectra = [_transforms(s, plan, detrend, onesided) for s in (first, second)]
    weights = plan.window
    total = fs * fnp.sum(weights**2) if scaling == "density" else fnp.sum(weights) ** 2
    product = fnp.conj(spectra[0]) * spectra[1] / total
    if onesided:
        factors = np.full(product.shape[-1], 2.0)
        factors[0] = 1
        if plan.nfft % 2 == 0:
            factors[-1] = 1
        product = product * factors.astype(product.real.dtype)
    power = _median(product) if average == "median" else fnp.mean(product, axis=-2)
    return _frequencies(plan.nfft, fs, onesided), fnp.moveaxis(power, -1, axis)


def coherence(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """The squared correlation of two signals at each frequency, from 0 to 1.

    Parameters
    ----------
    x, y, fs, window, nperseg, noverlap, nfft, detrend, axis
        See ``csd``.

    Returns
    -------
    tuple of Tensor
        Frequencies, and the coherence at them.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).standard_normal(64)
    >>> coherence(noise, 2 * noise, nperseg=4)[1].round(9)
    Tensor([1., 1., 1.])
    """
    options = fs, window, nperseg, noverlap, nfft, detrend, True, "density", axis, "mean"
    freqs, first = _cross_spectrum("coherence", x, x, *options)
    second = _cross_spectrum("coherence", y, y, *options)[1]
    both = _cross_spectrum("coherence", x, y, *options)[1]
    return freqs, (both.real**2 + both.imag**2) / first.real / second.real


def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor, Tensor]:
    """The Fourier transforms of overlapping segments.

    Parameters
    ----------
    x : array_like
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided
        See ``welch``.
    boundary : str or None
        How the signal goes on for half a segment at both ends: ``"zeros"``, ``"even"``, ``"odd"``,
        ``"constant"``, or None.
    padded : bool
        Whether zeros at the end fill the last segment.
    axis : int
    scaling : str
        ``"spectrum"``, or ``"psd"`` for squares that are a power density.

    Returns
    -------
    tuple of Tensor
        Frequencies, times, and the transforms: frequencies in place of the axis, times last.

    Raises
    ------
    ArgumentError
        An unknown option, or lengths that do not fit.

    Examples
    --------
    >>> frequencies, times, transforms = stft([1.0, 2.0, 3.0, 4.0], nperseg=2)
    >>> transforms.shape
    (2, 5)
    """
    one_of("stft", "scaling", scaling, ("spectrum", "psd"))
    one_of("stft", "boundary", boundary, ("zeros", "even", "odd", "constant", None))
    rate("stft", fs)
    value = with_axis_last("stft", x, axis)
    plan = _plan("stft", value.shape[-1], window, nperseg, noverlap, nfft, value.real.dtype)
    if boundary is not None:
        value = extended("stft", value, plan.size // 2, boundary)
    if padded:
        missing = -(value.shape[-1] - plan.size) % plan.step % plan.size
        value = _to_length(value, value.shape[-1] + missing)
    onesided = return_onesided and value.dtype.kind != "c"
    weights = plan.window
    total = fnp.sum(weights) if scaling == "spectrum" else fnp.sqrt(fs * fnp.sum(weights**2))
    spectra = _transforms(value, plan, detrend, onesided) / total
    starts = np.arange(spectra.shape[-2]) * plan.step
    times = (starts + (0 if boundary is not None else plan.size / 2)) / fs
    spectra = fnp.moveaxis(spectra, -1, axis if axis >= 0 else axis - 1)
    return _frequencies(plan.nfft, fs, onesided), inexact(times), spectra


def istft(
    Zxx: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor]:
    """The signal whose segments have given Fourier transforms, by least squares.

    Parameters
    ----------
    Zxx : array_like
        Transforms, as from ``stft``.
    fs, window, nperseg, noverlap, nfft, scaling
        As they were in ``stft``.
    input_onesided : bool
        Whether the frequencies begin with 0, as for a real signal.
    boundary : bool
        Whether the signal was continued for half a segment, which is removed.
    time_axis, freq_axis : int

    Returns
    -------
    tuple of Tensor
        Times, and the signal, along the axis of the times.

    Raises
    ------
    ArgumentError
        Lengths that do not fit.

    Notes
    -----
    D. W. Griffin and J. S. Lim, Signal estimation from modified short-time Fourier transform, IEEE
    Transactions on Acoustics, Speech, and Signal Processing 32, 1984.

    Examples
    --------
    >>> istft(stft([1.0, 2.0, 3.0, 4.0], nperseg=2)[2], nperseg=2)[1].round(12)
    Tensor([1., 2., 3., 4.])
    """
    one_of("istft", "scaling", scaling, ("spectrum", "psd"))
    rate("istft", fs)
    spectra = fnp.moveaxis(inexact(Zxx), (freq_axis, time_axis), (-1, -2))
    bins, count = spectra.shape[-1], spectra.shape[-2]
    usual = 2 * (bins - 1) if input_onesided else bins
    size = usual if nperseg is None else whole_number("istft", "nperseg", nperseg, 1)
    length = size if size == usual + 1 else usual
    if nfft is not None:
        length = whole_number("istft", "nfft", nfft, 1)
    dtype = spectra.real.dtype
    plan = _plan("istft", size, window, size, noverlap, max(length, size), dtype, shrink=False)
    if length < size:
        raise ArgumentError(f"istft: nfft is {length}, less than a segment of {size} samples.")
    inverse = fnp.fft.irfft if input_onesided else fnp.fft.ifft
    weights = plan.window
    total = fnp.sum(weights) if scaling == "spectrum" else fnp.sqrt(fs * fnp.sum(weights**2))
    segments = inverse(spectra, length)[..., :size] * (weights * total)
    places = np.arange(count)[:, None] * plan.step + np.arange(size)
    whole = fnp.zeros((*spectra.shape[:-2], size + (count - 1) * plan.step), segments.dtype)
    whole = whole.at[..., places].add(segments)
    norm = fnp.zeros((whole.shape[-1],), weights.dtype)
    norm = norm.at[places].add(fnp.broadcast_to(weights**2, places.shape))
    if boundary:
        half = size // 2
        whole, norm = whole[..., half : whole.shape[-1] - half], norm[half : norm.shape[0] - half]
    seen = norm > 1e-10
    signal = whole / fnp.where(seen, norm, 1.0)
    times = inexact(np.arange(signal.shape[-1]) / fs)
    rank = signal.ndim + 1
    time, frequency = time_axis % rank, freq_axis % rank
    return times, fnp.moveaxis(signal, -1, time - (frequency < time))


def _plan(
    operation: str,
    length: int,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    dtype: np.dtype[Any],
    shrink: bool = True,
) -> _Segments:
    if nperseg is not None:
        nperseg = whole_number(operation, "nperseg", nperseg, 1)
    if isinstance(window, str | tuple | float | int):
        size = 256 if nperseg is None else nperseg
        size = min(size, length) if shrink else size
        if not size:
            raise ShapeError(
                f"{operation}: a spectrum needs samples; the signal has none along its axis."
            )
        weights = get_window(window, size)
    else:
        weights = inexact(window)
        size = weights.shape[0] if weights.ndim == 1 else 0
        if weights.ndim != 1 or size > length or nperseg not in (None, size):
            raise ShapeError(
                f"{operation}: a window of shape {weights.shape} for segments of"
                f" {nperseg} of {length} samples. Pass a vector of the segments' length."
            )
    shared = size // 2 if noverlap is None else whole_number(operation, "noverlap", noverlap, 0)
    bins = size if nfft is None else whole_number(operation, "nfft", nfft, 1)
    if size < 1 or not 0 <= shared < size or bins < size:
        raise ArgumentError(
            f"{operation}: segments of {size} samples, of which {shared} overlap, with"
            f" transforms of length {bins}: a segment has a sample at least, noverlap"
            " is less, and nfft not less."
        )
    return _Segments(weights.astype(dtype), size, size - shared, bins)


def _transforms(value: Tensor, plan: _Segments, detrend: Detrend, onesided: bool) -> Tensor:
    """The transforms of windowed segments, which are along the last axis but one."""
    places = np.arange(0, value.shape[-1] - plan.size + 1, plan.step)
    segments = value[..., places[:, None] + np.arange(plan.size)]
    if callable(detrend):
        segments = detrend(segments)
    elif isinstance(detrend, str):
        segments = without_trend(segments, type=detrend)
    transform = fnp.fft.rfft if onesided else fnp.fft.fft
    return transform(segments * plan.window, plan.nfft)


def _to_length(value: Tensor, length: int) -> Tensor:
    """A signal continued by zeros along its last axis."""
    missing = length - value.shape[-1]
    return fnp.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, missing)]) if missing else value


def _frequencies(count: int, fs: float, onesided: bool) -> Tensor:
    spaced = np.fft.rfftfreq if onesided else np.fft.fftfreq
    return inexact(spaced(count, 1 / fs))


def _median(product: Tensor) -> Tensor:
    """The median over segments, without its bias; of real and imaginary parts."""
    count = product.shape[-2]
    steps = 2.0 * np.arange(1, (count - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (steps + 1) - 1 / steps)
    middle = fnp.median(product.real, axis=-2)
    if product.dtype.kind == "c":
        middle = middle + 1j * fnp.median(product.imag, axis=-2)
    return middle / float(bias)
