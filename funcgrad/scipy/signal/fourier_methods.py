"""Signals changed through their Fourier transforms.

>>> hilbert([1.0, 0.0, -1.0, 0.0]).imag.round(12)
Tensor([ 0.,  1.,  0., -1.])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.options import integer
from funcgrad.scipy.signal.signal_arguments import inexact, one_of, with_axis_last
from funcgrad.scipy.signal.tapers import get_window
from funcgrad.tensor.tensor import ArrayLike, Tensor


def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Tensor:
    """The analytic signal, whose imaginary part is the Hilbert transform.

    Parameters
    ----------
    x : array_like
        A real signal.
    N : int, optional
        The number of Fourier components; by default the length of the signal.
    axis : int

    Returns
    -------
    Tensor
        Complex, of length N along the axis.

    Raises
    ------
    DtypeError
        The signal is complex.
    ShapeError
        N is not positive.

    Examples
    --------
    >>> hilbert([1.0, 0.0, -1.0, 0.0]).round(12)
    Tensor([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
    """
    value = with_axis_last("hilbert", x, axis)
    if value.dtype.kind == "c":
        raise DtypeError("hilbert: takes a real signal, got a complex one. Pass its real part.")
    count = value.shape[-1] if N is None else integer(N, "hilbert", "N")
    if count < 1:
        raise ShapeError(f"hilbert: N is {count}; it has to be positive.")
    factors = np.zeros(count, value.dtype)
    factors[0] = 1
    factors[1 : (count + 1) // 2] = 2
    if count % 2 == 0:
        factors[count // 2] = 1
    return fnp.moveaxis(fnp.fft.ifft(fnp.fft.fft(value, count) * factors), -1, axis)


def resample(
    x: ArrayLike,
    num: int,
    t: ArrayLike | None = None,
    axis: int = 0,
    window: str | float | tuple[object, ...] | ArrayLike | Callable[..., ArrayLike] | None = None,
    domain: str = "time",
) -> Tensor | tuple[Tensor, Tensor]:
    """A periodic signal at other, equally spaced times, by its Fourier series.

    Parameters
    ----------
    x : array_like
    num : int
        The number of new values.
    t : array_like, optional
        The equally spaced times of the signal.
    axis : int
    window : optional
        A window in the frequency domain: see ``get_window``; or an array of the signal's length, or
        a function of the frequencies ``fftfreq(n)``.
    domain : str
        ``"freq"`` if ``x`` is the signal's Fourier transform.

    Returns
    -------
    Tensor or tuple of Tensor
        With ``t`` also the new times.

    Examples
    --------
    >>> resample([1.0, 0.0, -1.0, 0.0], 8).round(6)
    Tensor([ 1.      ,  0.707107,  0.      , -0.707107, -1.      , -0.707107,
             0.      ,  0.707107])
    """
    one_of("resample", "domain", domain, ("time", "freq"))
    value = with_axis_last("resample", x, axis)
    num = integer(num, "resample", "num")
    if num < 1:
        raise ShapeError(f"resample: num is {num}; it has to be positive.")
    count = value.shape[-1]
    real = domain == "time" and value.dtype.kind != "c"
    spectrum = fnp.fft.fft(value) if domain == "time" else value
    if window is not None:
        weights = _weights(window, count)
        is_complex = weights.dtype.kind == "c"
        spectrum = spectrum * weights.astype(spectrum.dtype if is_complex else value.real.dtype)
    low = min(num, count)
    half = low // 2 + 1
    parts = [spectrum[..., :half]]
    if low % 2 == 0:  # the highest frequency is one of two that cannot be told apart
        both = spectrum[..., low // 2 : low // 2 + 1]
        if num < count:
            both = both + spectrum[..., count - low // 2 : count - low // 2 + 1]
        elif num > count:
            both = both / 2
        parts = [spectrum[..., : half - 1], both]
    negative = spectrum[..., count - (low - half) :] if low > half else spectrum[..., :0]
    if low % 2 == 0 and num > count:
        negative = fnp.concatenate([parts[1], negative], axis=-1)
    missing = num - sum(piece.shape[-1] for piece in [*parts, negative])
    middle = fnp.zeros((*value.shape[:-1], missing), spectrum.dtype)
    whole = fnp.concatenate([*parts, middle, negative], axis=-1)
    result = fnp.fft.ifft(whole) * (num / count)
    result = fnp.moveaxis(result.real if real else result, -1, axis)
    if t is None:
        return result
    times = inexact(t)
    return result, fnp.arange(num) * ((times[1] - times[0]) * count / num) + times[0]


def _weights(
    window: str | float | tuple[object, ...] | ArrayLike | Callable[..., ArrayLike], count: int
) -> Tensor:
    if callable(window):
        return inexact(window(np.fft.fftfreq(count)))
    if isinstance(window, str | tuple | float):
        return fnp.fft.ifftshift(get_window(window, count))
    weights = inexact(window)
    if weights.shape != (count,):
        raise ShapeError(
            f"resample: a window of shape {weights.shape} for {count} frequencies. It needs one"
            " weight for each."
        )
    return weights
