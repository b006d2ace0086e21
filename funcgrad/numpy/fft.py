"""Discrete Fourier transforms, under the names and with the signatures of ``numpy.fft``.

A transform is linear: its derivative is the transform of the tangent. The gradient with respect to
complex numbers follows the convention of ``fnp.real``: dL/dx + i dL/dy.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> fg.grad(lambda x: fnp.sum(fnp.abs(rfft(x)) ** 2))(fg.tensor([1.0, 2.0, 3.0]))
Tensor([ 9., 12., 15.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from funcgrad._core.specs import dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.fft import OTHER_SCALE, fourier, half_fourier, real_inverse_fourier
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.structural import place, view
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.frequencies import fftfreq, fftshift, ifftshift, length, rfftfreq
from funcgrad.numpy.options import choice, integers, sized
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
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


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules


# ------------------------------------------------------------------------------ along one axis


@answering
def fft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The discrete Fourier transform: ``sum over j of a[j] exp(-2 pi i j k / n)``.

    Parameters
    ----------
    a : array_like
        Real or complex.
    n : int, optional
        The length of the transform: the axis is truncated, or padded with zeros.
    axis : int
    norm : {"backward", "ortho", "forward"}, optional
        The scaling: divide the inverse transform by n (the default), both transforms by sqrt(n), or
        this transform by n.

    Returns
    -------
    Tensor, complex
        Single and half precision give complex64, any other dtype complex128.

    Raises
    ------
    ShapeError
        The axis does not exist, or the length is less than 1.
    ArgumentError
        ``norm`` is not one of these words.

    Examples
    --------
    >>> fft([1.0, 2.0, 3.0, 4.0])
    Tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return wrap(_full(operand(a, "fft"), n, axis, norm, False, "fft"))


@answering
def ifft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The inverse of ``fft``; the parameters and errors are the same.

    Examples
    --------
    >>> ifft([10.0, -2 + 2j, -2.0, -2 - 2j])
    Tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return wrap(_full(operand(a, "ifft"), n, axis, norm, True, "ifft"))


@answering
def rfft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The discrete Fourier transform of real numbers: its first ``n // 2 + 1`` coefficients.

    The other coefficients are complex conjugates of these. Parameters are as for ``fft``.

    Raises
    ------
    DtypeError
        ``a`` is complex.

    Examples
    --------
    >>> rfft([1.0, 2.0, 3.0, 4.0])
    Tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return wrap(_half(operand(a, "rfft"), n, axis, norm, "rfft"))


@answering
def irfft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The inverse of ``rfft``: n real numbers.

    The imaginary part of the first coefficient has no influence, and its derivative is 0; the same
    holds for the last coefficient if n is even.

    Parameters
    ----------
    a : array_like
        The first ``n // 2 + 1`` coefficients; there may be more or fewer, see ``fft``.
    n : int, optional
        The length of the result. By default it is even: twice the length of the axis, less 2.
    axis : int
    norm : {"backward", "ortho", "forward"}, optional
        See ``fft``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> irfft([6.0, -1.5 + 0.8660254j], n=3)
    Tensor([1., 2., 3.])
    """
    return wrap(_back(operand(a, "irfft"), n, axis, norm, "irfft"))


@answering
def hfft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The transform of a Hermitian signal, given by its first half: n real numbers.

    Parameters are as for ``irfft``.

    Examples
    --------
    >>> hfft([1.0, 2.0, 3.0])
    Tensor([ 8., -2.,  0., -2.])
    """
    value = operand(a, "hfft")
    return wrap(_back(_conjugate(value), n, axis, OTHER_SCALE[_scale(norm, "hfft")], "hfft"))


@answering
def ihfft(
    a: ArrayLike, n: int | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor:
    """The inverse of ``hfft``: the first half of a Hermitian signal.

    Parameters are as for ``rfft``.

    Examples
    --------
    >>> ihfft([8.0, -2.0, 0.0, -2.0])
    Tensor([1.-0.j, 2.-0.j, 3.-0.j])
    """
    value = operand(a, "ihfft")
    return wrap(conj(_half(value, n, axis, OTHER_SCALE[_scale(norm, "ihfft")], "ihfft")))


# --------------------------------------------------------------------------- along several axes


@answering
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The discrete Fourier transform along several axes.

    Parameters
    ----------
    a : array_like
        Real or complex.
    s : sequence of int, optional
        The length along each of the axes, see ``fft``; -1 means the size of the axis.
    axes : sequence of int, optional
        By default all axes, or with ``s`` the last ones. An axis that is named twice is transformed
        twice.
    norm : {"backward", "ortho", "forward"}, optional
        See ``fft``.

    Returns
    -------
    Tensor, complex

    Raises
    ------
    ShapeError
        An axis does not exist, a length is less than 1, or lengths and axes differ in number.
    ArgumentError
        ``norm`` is not one of these words.

    Examples
    --------
    >>> fftn([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return wrap(_several(operand(a, "fftn"), s, axes, norm, False, "fftn"))


@answering
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The inverse of ``fftn``; the parameters and errors are the same.

    Examples
    --------
    >>> ifftn([[10.0, -2.0], [-4.0, 0.0]])
    Tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    return wrap(_several(operand(a, "ifftn"), s, axes, norm, True, "ifftn"))


@answering
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The transform of real numbers along several axes: ``rfft`` along the last, then ``fft``.

    Parameters are as for ``fftn``; at least one axis is needed.

    Examples
    --------
    >>> rfftn([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).shape
    (2, 2)
    """
    value = operand(a, "rfftn")
    sizes, places = _plan(value, s, axes, "rfftn")
    last = _last(places, "rfftn")
    value = _half(value, sizes[-1], last, norm, "rfftn")
    return wrap(_in_turn(value, sizes[:-1], places[:-1], norm, False, "rfftn"))


@answering
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The inverse of ``rfftn``: real numbers.

    Parameters are as for ``fftn``. By default the last length is even, see ``irfft``.

    Examples
    --------
    >>> irfftn(rfftn([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), s=(2, 3), axes=(0, 1))
    Tensor([[1., 2., 3.],
            [4., 5., 6.]])
    """
    value = operand(a, "irfftn")
    sizes, places = _plan(value, s, axes, "irfftn")
    last = _last(places, "irfftn")
    for size, axis in zip(sizes[:-1], places[:-1], strict=True):
        value = _full(value, size, axis, norm, True, "irfftn")
    return wrap(_back(value, None if s is None else sizes[-1], last, norm, "irfftn"))


@answering
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """The discrete Fourier transform along two axes; parameters are as for ``fftn``.

    Examples
    --------
    >>> fft2([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return fftn(a, s, axes, norm)


@answering
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """The inverse of ``fft2``; parameters are as for ``fftn``.

    Examples
    --------
    >>> ifft2([[10.0, -2.0], [-4.0, 0.0]])
    Tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    return ifftn(a, s, axes, norm)


@answering
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """The transform of real numbers along two axes; parameters are as for ``rfftn``.

    Examples
    --------
    >>> rfft2([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return rfftn(a, s, axes, norm)


@answering
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """The inverse of ``rfft2``; parameters are as for ``irfftn``.

    Examples
    --------
    >>> irfft2([[10.0, -2.0], [-4.0, 0.0]])
    Tensor([[1., 2.],
            [3., 4.]])
    """
    return irfftn(a, s, axes, norm)


# ------------------------------------------------------------------------------------ the parts


def _conjugate(value: Value) -> Value:
    return conj(value) if dtype_of(value).kind == "c" else value


def _scale(norm: str | None, operation: str) -> str:
    return "backward" if norm is None else choice(norm, tuple(OTHER_SCALE), operation, "norm")


def _resized(value: Value, axis: int, size: int, operation: str) -> Value:
    """Truncate an axis to a size, or pad it with zeros."""
    shape, size = shape_of(value), length(size, operation)
    if size == shape[axis]:
        return value
    key = Key((*(slice(None),) * axis, slice(None, min(size, shape[axis]))))
    if size < shape[axis]:
        return view(value, key=key)
    longer = (*shape[:axis], size, *shape[axis + 1 :])
    sized((*longer, dtype_of(value).itemsize), operation)
    return place(value, key=key, shape=longer)


def _full(
    value: Value, n: int | None, axis: SupportsIndex, norm: str | None, inverse: bool, name: str
) -> Value:
    place = normalize_axis(axis, len(shape_of(value)), name)
    value = _resized(value, place, shape_of(value)[place] if n is None else n, name)
    return fourier(value, axis=place, norm=_scale(norm, name), inverse=inverse)


def _half(value: Value, n: int | None, axis: SupportsIndex, norm: str | None, name: str) -> Value:
    place = normalize_axis(axis, len(shape_of(value)), name)
    value = _resized(value, place, shape_of(value)[place] if n is None else n, name)
    if dtype_of(value).kind == "c":
        raise DtypeError(
            f"{name}: takes real numbers, not {dtype_of(value)}. For complex numbers use"
            " fft, or take fnp.real(a)."
        )
    return half_fourier(value, axis=place, norm=_scale(norm, name))


def _back(value: Value, n: int | None, axis: SupportsIndex, norm: str | None, name: str) -> Value:
    place = normalize_axis(axis, len(shape_of(value)), name)
    count = length(2 * shape_of(value)[place] - 2 if n is None else n, name)
    value = _resized(value, place, count // 2 + 1, name)
    return real_inverse_fourier(value, axis=place, norm=_scale(norm, name), n=count)


def _plan(
    value: Value, s: Sequence[int] | None, axes: Sequence[int] | None, name: str
) -> tuple[list[int], list[int]]:
    """The axes to transform, and the length along each."""
    shape = shape_of(value)
    sizes = None if s is None else list(integers(s, name, "s"))
    if axes is not None:
        signed_axes = list(integers(axes, name, "axes"))
    elif sizes is None:
        signed_axes = list(range(len(shape)))
    else:
        signed_axes = list(range(-len(sizes), 0))
    places = [normalize_axis(axis, len(shape), name) for axis in signed_axes]
    if sizes is None:
        return [shape[place] for place in places], places
    if len(sizes) != len(places):
        raise ShapeError(
            f"{name}: s has {len(sizes)} lengths, {tuple(sizes)}, for {len(places)} axes,"
            f" {tuple(signed_axes)}. Give one for each; -1 leaves an axis as it is."
        )
    pairs = zip(sizes, places, strict=True)
    return [shape[place] if size == -1 else size for size, place in pairs], places


def _last(places: Sequence[int], name: str) -> int:
    if not places:
        raise ShapeError(f"{name}: axes is empty; at least one axis is needed.")
    return places[-1]


def _in_turn(
    value: Value,
    sizes: Sequence[int],
    places: Sequence[int],
    norm: str | None,
    inverse: bool,
    name: str,
) -> Value:
    for size, axis in reversed(list(zip(sizes, places, strict=True))):
        value = _full(value, size, axis, norm, inverse, name)
    return value


def _several(
    value: Value,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str | None,
    inverse: bool,
    name: str,
) -> Value:
    _scale(norm, name)
    sizes, places = _plan(value, s, axes, name)
    return _in_turn(value, sizes, places, norm, inverse, name)
