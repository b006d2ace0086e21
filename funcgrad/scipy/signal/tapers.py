"""Windows by their names, with parameters that can be differentiated.

>>> get_window("hann", 4), get_window(("gaussian", 1.0), 3, fftbins=False).round(6)
(Tensor([0. , 0.5, 1. , 0.5]), Tensor([0.606531, 1.      , 0.606531]))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, MissingOptionError, ShapeError
from funcgrad.numpy.options import integer
from funcgrad.scipy.special import i0e
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor

Places = np.ndarray[Any, Any]
Taper = Callable[..., Tensor]
"""A function of the whole numbers from 0 on, the last of them, and parameters."""


def _cosines(coefficients: ArrayLike) -> Taper:
    """Sums of cosines of multiples of a turn."""

    def taper(n: Places, last: int) -> Tensor:
        return _general_cosine(n, last, coefficients)

    return taper


def _general_cosine(n: Places, last: int, coefficients: ArrayLike) -> Tensor:
    weights = tensor(coefficients)
    angle = (2 * math.pi / last) * n - math.pi
    return sum(
        (weights[k] * fnp.cos(k * angle) for k in range(1, len(weights))), weights[0] + 0 * angle
    )


def _general_hamming(n: Places, last: int, alpha: ArrayLike) -> Tensor:
    return alpha - (1 - tensor(alpha)) * fnp.cos((2 * math.pi / last) * n)


def _from_centre(n: Places, last: int) -> Places:
    return n - last / 2


def _triang(n: Places, last: int) -> Tensor:
    size = last + 1
    steps = fnp.minimum(n, last - n) + 1
    return 2 * steps / (size + 1) if size % 2 else (2 * steps - 1) / size


def _parzen(n: Places, last: int) -> Tensor:
    """Source: E. Parzen, Mathematical considerations in the estimation of spectra,
    Technometrics 3, 1961."""
    place = fnp.abs(_from_centre(n, last))
    share = place / ((last + 1) / 2)
    inner = 1 - 6 * share**2 * (1 - share)
    return fnp.where(place <= last / 4, inner, 2 * (1 - share) ** 3)


def _bohman(n: Places, last: int) -> Tensor:
    share = fnp.abs(_from_centre(n, last)) / (last / 2)
    value = (1 - share) * fnp.cos(math.pi * share) + fnp.sin(math.pi * share) / math.pi
    return fnp.where((n == 0) | (n == last), 0.0, value)


def _barthann(n: Places, last: int) -> Tensor:
    place = n / last - 0.5
    return 0.62 - 0.48 * fnp.abs(place) + 0.38 * fnp.cos(2 * math.pi * place)


def _tukey(n: Places, last: int, alpha: ArrayLike = 0.5) -> Tensor:
    """A rectangle whose ends, the share alpha of the window, are cosines."""
    share = tensor(alpha)
    near = fnp.minimum(n, last - n)
    narrow = share <= 0
    inner = 2 * near / (last * fnp.where(narrow, 1.0, fnp.minimum(share, 1.0)))
    edge = 0.5 * (1 - fnp.cos(math.pi * fnp.minimum(inner, 1.0)))
    return fnp.where(narrow, 1.0, edge)


def _kaiser(n: Places, last: int, beta: ArrayLike) -> Tensor:
    """By scaled Bessel functions, which do not overflow."""
    shape = tensor(beta)
    root = shape * np.sqrt(np.maximum(1 - (2 * n / last - 1) ** 2, 0.0))
    return fnp.exp(root - shape) * i0e(root) / i0e(shape)


def _gaussian(n: Places, last: int, std: ArrayLike) -> Tensor:
    return fnp.exp(-0.5 * (_from_centre(n, last) / tensor(std)) ** 2)


def _general_gaussian(n: Places, last: int, p: ArrayLike, sig: ArrayLike) -> Tensor:
    return fnp.exp(-0.5 * fnp.abs(_from_centre(n, last) / tensor(sig)) ** (2 * tensor(p)))


def _exponential(
    n: Places, last: int, center: ArrayLike | None = None, tau: ArrayLike = 1.0
) -> Tensor:
    middle = last / 2 if center is None else tensor(center)
    return fnp.exp(-fnp.abs(n - middle) / tensor(tau))


TAPERS: Final[Mapping[str, Taper]] = MappingProxyType(
    {
        "boxcar": lambda n, last: 1 + 0 * n,
        "triang": _triang,
        "parzen": _parzen,
        "bohman": _bohman,
        # The sums of cosines: F. J. Harris, On the use of windows for harmonic analysis with the
        # discrete Fourier transform, Proceedings of the IEEE 66, 1978; A. H. Nuttall, Some windows
        # with very good sidelobe behavior, IEEE Transactions on Acoustics 29, 1981; G. D'Antona and
        # A. Ferrero, Digital Signal Processing for Measurement Systems, 2006, table of flat tops.
        "blackman": _cosines([0.42, 0.50, 0.08]),
        "nuttall": _cosines([0.3635819, 0.4891775, 0.1365995, 0.0106411]),
        "blackmanharris": _cosines([0.35875, 0.48829, 0.14128, 0.01168]),
        "flattop": _cosines([0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368]),
        "hann": _cosines([0.5, 0.5]),
        "hamming": _cosines([0.54, 0.46]),
        "bartlett": lambda n, last: tensor(1 - np.abs(2 * n / last - 1)),
        "barthann": _barthann,
        "cosine": lambda n, last: fnp.sin(math.pi / (last + 1) * (n + 0.5)),
        "lanczos": lambda n, last: fnp.sinc(2 * n / last - 1),
        "tukey": _tukey,
        "kaiser": _kaiser,
        "gaussian": _gaussian,
        "general_gaussian": _general_gaussian,
        "general_cosine": _general_cosine,
        "general_hamming": _general_hamming,
        "exponential": _exponential,
    }
)
_ALIASES: Final = MappingProxyType(
    {
        "rectangular": "boxcar", "box": "boxcar", "ones": "boxcar", "rect": "boxcar",
        "triangle": "triang", "tri": "triang", "bart": "bartlett", "brt": "bartlett",
        "black": "blackman", "blk": "blackman", "hanning": "hann", "han": "hann",
        "hamm": "hamming", "ham": "hamming", "par": "parzen", "parz": "parzen", "bohmann": "bohman",
        "bman": "bohman", "bmn": "bohman", "nutl": "nuttall", "nut": "nuttall",
        "blackharr": "blackmanharris", "bkh": "blackmanharris", "flat": "flattop", "flt": "flattop",
        "brthan": "barthann", "bth": "barthann", "halfcosine": "cosine", "sinc": "lanczos",
        "tuk": "tukey", "ksr": "kaiser", "gauss": "gaussian", "gss": "gaussian",
        "general gaussian": "general_gaussian", "general_gauss": "general_gaussian",
        "ggs": "general_gaussian", "general cosine": "general_cosine", "poisson": "exponential",
        "general hamming": "general_hamming",
    }
)  # fmt: skip
_OF_SCIPY: Final = frozenset(
    {"chebwin", "cheb", "taylor", "taylorwin", "dpss", "kaiser_bessel_derived"}
)


@answering
def get_window(window: str | float | tuple[Any, ...], Nx: int, fftbins: bool = True) -> Tensor:
    """A window by its name, or its name and parameters.

    Parameters
    ----------
    window : str, float or tuple
        A name, a tuple of a name and the window's parameters, or the beta of a Kaiser window.
        Parameters may be traced.
    Nx : int
        The number of weights.
    fftbins : bool
        Whether the window is periodic: the next weight would be the first one again. Otherwise it
        is symmetric. A name that ends with ``_periodic`` or ``_symmetric`` decides that itself.

    Returns
    -------
    Tensor, shape (Nx,)

    Raises
    ------
    ArgumentError
        The name is unknown.
    MissingOptionError
        A window that is not here; SciPy's is a constant.

    Notes
    -----
    F. J. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform,
    Proceedings of the IEEE 66, 1978, describes most of the windows.

    Examples
    --------
    >>> import funcgrad as fg
    >>> get_window("hamming", 4)
    Tensor([0.08, 0.54, 1.  , 0.54])
    >>> fg.grad(lambda beta: get_window(("kaiser", beta), 5)[1])(2.0).round(6)
    Tensor(-0.15496)
    """
    name: str
    parameters: tuple[Any, ...] = ()
    if isinstance(window, str):
        name = window
    elif isinstance(window, tuple):
        if not window or not isinstance(window[0], str):
            raise ArgumentError(
                f"get_window: window is {window!r}; a tuple begins with a name, as in"
                " ('gaussian', 2.0)."
            )
        name, parameters = window[0], window[1:]
    else:
        name, parameters = "kaiser", (window,)
    for suffix in ("_periodic", "_symmetric"):
        if name.endswith(suffix):
            name, fftbins = name.removesuffix(suffix), suffix == "_periodic"
    name = _ALIASES.get(name, name)
    if name in _OF_SCIPY:
        raise MissingOptionError(
            f"get_window: {name!r} is not available. scipy.signal.get_window returns a constant"
            " array, which every function of signals takes as its window."
        )
    if name not in TAPERS:
        raise ArgumentError(
            f"get_window: {name!r} is unknown. There are {', '.join(sorted(TAPERS))}."
        )
    Nx = integer(Nx, "get_window", "Nx")
    if Nx < 1:
        raise ShapeError(f"get_window: Nx is {Nx}; it has to be positive.")
    if Nx == 1:
        return fnp.ones(1)
    size = Nx + bool(fftbins)
    values = TAPERS[name](np.arange(float(size)), size - 1, *parameters)
    return tensor(values)[:Nx]
