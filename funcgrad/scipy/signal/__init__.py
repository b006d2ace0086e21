"""Signals under SciPy's names: convolutions, spectra, filters, windows.

Functions take SciPy's arguments, return SciPy's values as tensors, and are differentiable in
signals, coefficients and the parameters of windows. NumPy computes all of them; recursive filters
are loops (``fg.scan``), which ``jit`` compiles.

>>> import funcgrad as fg
>>> from funcgrad.scipy import signal
>>> fg.grad(lambda a: signal.lfilter([1.0], [1.0, a], [1.0, 0.0, 0.0])[2])(-0.5)
Tensor(-1.)
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.scipy.signal.convolutions import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    oaconvolve,
)
from funcgrad.scipy.signal.fourier_methods import hilbert, resample
from funcgrad.scipy.signal.power_spectra import coherence, csd, istft, periodogram, stft, welch
from funcgrad.scipy.signal.recursive_filters import (
    filtfilt,
    lfilter,
    lfilter_zi,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from funcgrad.scipy.signal.smoothing import detrend, savgol_coeffs, savgol_filter
from funcgrad.scipy.signal.tapers import get_window

__all__ = [
    "coherence",
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "get_window",
    "hilbert",
    "istft",
    "lfilter",
    "lfilter_zi",
    "oaconvolve",
    "periodogram",
    "resample",
    "savgol_coeffs",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "stft",
    "welch",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
