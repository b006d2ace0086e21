"""Fourier, cosine and sine transforms, under SciPy's names; SciPy itself is not needed.

``funcgrad.numpy.fft`` has the Fourier transforms. A cosine or sine transform is the real or
imaginary part of a Fourier transform, with phase factors before and after (Makhoul, "A fast cosine
transform in one and two dimensions", IEEE Transactions on Acoustics, Speech, and Signal Processing
28, 1980). All are linear.

>>> fnp.round(dct([1.0, 2.0, 3.0, 4.0], norm="ortho"), 4)
Tensor([ 5.    , -2.2304, -0.    , -0.1585])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike, normalize_axes, normalize_axis
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.fft import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from funcgrad.numpy.options import choice, integer, integers
from funcgrad.tensor.tensor import Tensor

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules


def dct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: SupportsIndex = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The discrete cosine transform.

    Type 2 is ``2 * sum over j of x[j] cos(pi k (2 j + 1) / (2 n))``; for the other types see
    ``scipy.fft.dct``.

    Parameters
    ----------
    x : array_like
        Real and imaginary parts of complex numbers are transformed separately.
    type : {1, 2, 3, 4}
    n : int, optional
        The length of the transform: the axis is truncated, or padded with zeros.
    axis : int
    norm : {"backward", "ortho", "forward"}, optional
        The scaling: the inverse transform is divided by the length ``2 n`` (``2 (n - 1)`` for type
        1; the default), both by its root, or this one by it.
    overwrite_x, workers
        Ignored: tensors never change, and one thread computes.
    orthogonalize : bool, optional
        Whether to scale the first and last elements so that the matrix of the transform is
        orthogonal up to a factor. By default only with "ortho".

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis does not exist, or has too few elements for a transform.
    ArgumentError
        ``type`` or ``norm`` has another value.

    Examples
    --------
    >>> dct([1.0, 2.0, 3.0], type=1)
    Tensor([ 8., -2.,  0.])
    """
    return _along(x, _COSINE, type, n, axis, norm, orthogonalize, False, "dct")


def idct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: SupportsIndex = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of ``dct`` of the same type; for parameters and errors see ``dct``.

    Examples
    --------
    >>> idct(dct([1.0, 2.0, 4.0]))
    Tensor([1., 2., 4.])
    """
    return _along(x, _COSINE, type, n, axis, norm, orthogonalize, True, "idct")


def dst(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: SupportsIndex = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The discrete sine transform.

    Type 2 is ``2 * sum over j of x[j] sin(pi (k + 1) (2 j + 1) / (2 n))``; for the other types see
    ``scipy.fft.dst``. For parameters and errors see ``dct``; the length of type 1 is ``2 (n + 1)``.

    Examples
    --------
    >>> dst([1.0, 2.0], type=1)
    Tensor([ 5.19615242, -1.73205081])
    """
    return _along(x, _SINE, type, n, axis, norm, orthogonalize, False, "dst")


def idst(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: SupportsIndex = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of ``dst`` of the same type; for parameters and errors see ``dct``.

    Examples
    --------
    >>> idst(dst([1.0, 2.0, 4.0]))
    Tensor([1., 2., 4.])
    """
    return _along(x, _SINE, type, n, axis, norm, orthogonalize, True, "idst")


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisLike = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The cosine transform along several axes, one after the other.

    Parameters
    ----------
    x : array_like
    type : {1, 2, 3, 4}
    s : sequence of int, optional
        The length along each of the axes; -1 means the size of the axis.
    axes : int or sequence of int, optional
        By default all axes, or with ``s`` the last ones.
    norm, overwrite_x, workers, orthogonalize
        See ``dct``.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError, ArgumentError
        See ``dct``; or lengths and axes differ in number.

    Examples
    --------
    >>> fnp.round(dctn([[1.0, 2.0], [3.0, 4.0]]), 4)
    Tensor([[ 40.    ,  -5.6569],
            [-11.3137,  -0.    ]])
    """
    return _several(x, dct, type, s, axes, norm, orthogonalize, "dctn")


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisLike = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of ``dctn``; for parameters and errors see ``dctn``.

    Examples
    --------
    >>> idctn(dctn([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[1., 2.],
            [3., 4.]])
    """
    return _several(x, idct, type, s, axes, norm, orthogonalize, "idctn")


def dstn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisLike = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The sine transform along several axes; for parameters and errors see ``dctn``.

    Examples
    --------
    >>> dstn([[1.0, 2.0]], axes=1)
    Tensor([[ 4.24264069, -2.        ]])
    """
    return _several(x, dst, type, s, axes, norm, orthogonalize, "dstn")


def idstn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisLike = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of ``dstn``; for parameters and errors see ``dctn``.

    Examples
    --------
    >>> idstn(dstn([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[1., 2.],
            [3., 4.]])
    """
    return _several(x, idst, type, s, axes, norm, orthogonalize, "idstn")


# ------------------------------------------------------------------------------------ the kinds


class _Kind(NamedTuple):
    """A type of cosine or sine transform, as a part of a Fourier transform of x.

    Attributes
    ----------
    length : int
        The length of the Fourier transform is 2 (n + length).
    shift : tuple of float
        The offsets of j and k in the angles ``pi j k / (n + length)``.
    edges : tuple of float
        The weights of the first and the last element; the others have the weight 2.
    before, after : tuple of float
        The factors of the first and the last element, before and after, that make the transform
        orthogonal.
    """

    length: int
    shift: tuple[float, float]
    edges: tuple[float, float]
    before: tuple[float, float] = (1.0, 1.0)
    after: tuple[float, float] = (1.0, 1.0)


_ROOT: Final = sqrt(2.0)
_COSINE: Final[Mapping[int, _Kind]] = MappingProxyType(
    {
        1: _Kind(-1, (0.0, 0.0), (1.0, 1.0), (_ROOT, _ROOT), (1 / _ROOT, 1 / _ROOT)),
        2: _Kind(0, (0.5, 0.0), (2.0, 2.0), after=(1 / _ROOT, 1.0)),
        3: _Kind(0, (0.0, 0.5), (1.0, 2.0), before=(_ROOT, 1.0)),
        4: _Kind(0, (0.5, 0.5), (2.0, 2.0)),
    }
)
_SINE: Final[Mapping[int, _Kind]] = MappingProxyType(
    {
        1: _Kind(1, (1.0, 1.0), (2.0, 2.0)),
        2: _Kind(0, (0.5, 1.0), (2.0, 2.0), after=(1.0, 1 / _ROOT)),
        3: _Kind(0, (1.0, 0.5), (2.0, 1.0), before=(1.0, _ROOT)),
        4: _Kind(0, (0.5, 0.5), (2.0, 2.0)),
    }
)
_INVERSE: Final = MappingProxyType({1: 1, 2: 3, 3: 2, 4: 4})
_OTHER: Final = MappingProxyType({"backward": "forward", "forward": "backward", "ortho": "ortho"})


def _along(
    x: ArrayLike,
    family: Mapping[int, _Kind],
    type: int,
    n: int | None,
    axis: SupportsIndex,
    norm: str | None,
    orthogonalize: bool | None,
    inverse: bool,
    name: str,
) -> Tensor:
    number = integer(type, name, "type")
    if number not in family:
        raise ArgumentError(f"{name}: the type has to be 1, 2, 3 or 4, not {type!r}.")
    scale = "backward" if norm is None else choice(norm, tuple(_OTHER), name, "norm")
    kind = family[_INVERSE[number] if inverse else number]
    scale = _OTHER[scale] if inverse else scale
    value = fnp.asarray(x)
    place = normalize_axis(axis, value.ndim, name)
    value = fnp.moveaxis(value, place, -1)
    if value.dtype.kind not in "fc":
        value = value.astype(np.float64)
    value = _resized(value, value.shape[-1] if n is None else integer(n, name, "n"), kind, name)
    is_orthogonal = scale == "ortho" if orthogonalize is None else bool(orthogonalize)
    transformed = partial(
        _transformed, kind=kind, scale=scale, orthogonal=is_orthogonal, is_sine=family is _SINE
    )
    if value.dtype.kind == "c":
        coefficients = transformed(fnp.real(value)) + 1j * transformed(fnp.imag(value))
    else:
        coefficients = transformed(value)
    return fnp.moveaxis(coefficients, -1, place)


def _resized(value: Tensor, n: int, kind: _Kind, name: str) -> Tensor:
    """Truncate the last axis of a value, or pad it with zeros."""
    least = 2 if kind.length < 0 else 1
    if n < least:
        raise ShapeError(f"{name}: this transform takes at least {least} elements, not {n}.")
    size = value.shape[-1]
    if n <= size:
        return value[..., :n]
    return fnp.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, n - size)])


def _ends(n: int, first: float, last: float, others: float) -> np.ndarray[Any, Any]:
    weights = np.full(n, others)
    weights[0] *= first / others
    weights[-1] *= last / others
    return weights


def _transformed(x: Tensor, *, kind: _Kind, scale: str, orthogonal: bool, is_sine: bool) -> Tensor:
    """A part of the sum over j of ``x[j] exp(-i pi (j + a) (k + b) / m)``, real or imaginary.

    It is a Fourier transform of length 2 m, with phase factors of ``j b`` before and of
    ``a (k + b)`` after.
    """
    n = x.shape[-1]
    m = n + kind.length
    a, b = kind.shift
    steps = np.arange(n)
    weights = _ends(n, *kind.edges, 2.0)
    after = np.exp(-1j * np.pi * a * (steps + b) / m)
    if orthogonal:
        weights = weights * _ends(n, *kind.before, 1.0)
        after = after * _ends(n, *kind.after, 1.0)
    if scale != "backward":
        after = after * (1 / (2 * m) if scale == "forward" else 1 / sqrt(2 * m))
    real = np.result_type(x.dtype, np.float32)  # NumPy has no complex dtype of half precision
    turned = np.result_type(real, np.complex64)
    whole = b == int(b)
    if whole:
        start = int(b)
        spectrum = fnp.fft.rfft(x * weights.astype(real), 2 * m)[..., start : start + n]
    else:
        before = weights * np.exp(-1j * np.pi * b * steps / m)
        spectrum = fnp.fft.fft(x * before.astype(turned), 2 * m)[..., :n]
    spectrum = spectrum * after.astype(turned)
    result = -fnp.imag(spectrum) if is_sine else fnp.real(spectrum)
    return result.astype(x.dtype)


def _several(
    x: ArrayLike,
    transform: Callable[..., Tensor],
    type: int,
    s: Sequence[int] | None,
    axes: AxisLike,
    norm: str | None,
    orthogonalize: bool | None,
    name: str,
) -> Tensor:
    value = fnp.asarray(x)
    sizes = None if s is None else integers(s, name, "s")
    if axes is None:
        places = tuple(range(value.ndim if sizes is None else len(sizes)))
        places = tuple([place + value.ndim - len(places) for place in places])
    else:
        places = normalize_axes(axes, value.ndim, name)
    lengths = [-1] * len(places) if sizes is None else list(sizes)
    if len(lengths) != len(places):
        raise ShapeError(f"{name}: s has {len(lengths)} lengths for {len(places)} axes.")
    for place, length in zip(places, lengths, strict=True):
        value = transform(
            value, type, None if length == -1 else length, place, norm, orthogonalize=orthogonalize
        )
    return value
