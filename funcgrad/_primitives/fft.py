"""Discrete Fourier transforms along one axis: complex, from real input, and to real output.

Each is linear, so it is its own differential. Its transpose is the transform in the other
direction, with the other scaling. A transform of real numbers keeps the first half of its symmetric
coefficients. So its transpose counts coefficients without a mirror image once: the first one, and
the last one for even lengths.

>>> fourier(np.array([1.0, 0.0, 0.0, 0.0]), axis=0, norm="backward", inverse=False)
array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS, AlongAxis, Opaque
from funcgrad._core.trace import Value
from funcgrad._primitives.recurrence import batch_along_axis

OTHER_SCALE: Final[Mapping[str, str]] = MappingProxyType(
    {"backward": "forward", "ortho": "ortho", "forward": "backward"}
)
"""The scale of the transpose: which of the two directions is divided by the length, or both by its
root."""


def _replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _weights(ct: Value, axis: int, n: int, paired: float) -> Value:
    """A cotangent times ``paired`` for the coefficients that stand for themselves and for their
    mirror image, of a real transform of length n."""
    shape = shape_of(ct)
    weights = np.full(shape[axis], paired, dtype_of(ct).char.lower())
    weights[0] = 1
    if n % 2 == 0:
        weights[n // 2] = 1
    return ct * weights.reshape(_replaced((1,) * len(shape), axis, -1))


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a transform; float16 has no complex numbers, and becomes complex64."""
    return np.result_type(dtype if dtype.kind in "fc" else np.float64, np.complex64)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "c":
        return np.dtype(dtype.char.lower())
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


_SHAPES: Final = (((5,), 0), ((2, 4), 1), ((4, 3), 0), ((1,), 0), ((2, 0, 3), 2))
_SCALES: Final = ("backward", "ortho", "forward")


def _arrays(is_complex: bool) -> Iterator[tuple[Any, int]]:
    rng = np.random.default_rng(17)
    for shape, axis in _SHAPES:
        x = rng.uniform(-2, 2, shape)
        yield x, axis
        if is_complex:
            yield x + 1j * rng.uniform(-2, 2, shape), axis
    yield rng.uniform(-2, 2, (4, 6))[::-2, ::3], 1
    yield np.arange(6, dtype=np.float32), 0
    yield np.arange(4, dtype=np.int8), 0
    yield np.array([True, False, True]), 0


def _samples() -> Iterator[Sample]:
    for inverse in (False, True):
        for number, (x, axis) in enumerate(_arrays(is_complex=True)):
            yield Sample((x,), {"axis": axis, "norm": _SCALES[number % 3], "inverse": inverse})
        for edge in (np.inf, np.nan, -0.0):
            x = np.array([1.0, edge, 2.0])
            yield Sample((x,), {"axis": 0, "norm": "backward", "inverse": inverse}, smooth=False)


def _loop(
    name: str, dtype: np.dtype[Any], axis: int, norm: str, n: int, inverse: bool = False
) -> AlongAxis | None:
    """NumPy's loop for transforms, which is private: there may be none."""
    ufunc = getattr(getattr(np.fft, "_pocketfft_umath", None), name, None)
    if not isinstance(ufunc, np.ufunc):
        return None
    scale = OTHER_SCALE[norm] if inverse else norm
    size = np.sqrt(n, dtype=_real(dtype)) if scale == "ortho" else _real(dtype).type(n)
    return AlongAxis(ufunc, axis, 1 / size if scale != "backward" else 1)


fourier: Primitive = Primitive(
    "fft",
    lambda x, axis, norm, inverse: (np.fft.ifft if inverse else np.fft.fft)(x, None, axis, norm),
    lambda x, axis, norm, inverse: Spec(x.shape, _complex(x.dtype)),
    Linear(
        (
            lambda ct, x, axis, norm, inverse: fourier(
                ct, axis=axis, norm=OTHER_SCALE[norm], inverse=not inverse
            ),
        )
    ),
    batch_along_axis,
    _samples,
    structure=Opaque(
        counted=0,
        along=lambda shape, dtype, axis, norm, inverse: _loop(
            "ifft" if inverse else "fft", dtype, axis, norm, shape[axis], inverse
        ),
    ),
    traits=OWNS,
)


def _half_samples() -> Iterator[Sample]:
    for number, (x, axis) in enumerate(_arrays(is_complex=False)):
        yield Sample((x,), {"axis": axis, "norm": _SCALES[number % 3]})


half_fourier: Primitive = Primitive(
    "rfft",
    lambda x, axis, norm: np.fft.rfft(x, None, axis, norm),
    lambda x, axis, norm: Spec(_replaced(x.shape, axis, x.shape[axis] // 2 + 1), _complex(x.dtype)),
    Linear(
        (
            lambda ct, x, axis, norm: real_inverse_fourier(
                _weights(ct, axis, shape_of(x)[axis], 0.5),
                axis=axis,
                norm=OTHER_SCALE[norm],
                n=shape_of(x)[axis],
            ),
        )
    ),
    batch_along_axis,
    _half_samples,
    structure=Opaque(
        counted=0,
        along=lambda shape, dtype, axis, norm: _loop(
            "rfft_n_odd" if shape[axis] % 2 else "rfft_n_even", dtype, axis, norm, shape[axis]
        ),
    ),
    traits=OWNS,
)
"""The first ``n // 2 + 1`` coefficients of real numbers."""


def _inverse_samples() -> Iterator[Sample]:
    for number, (x, axis) in enumerate(_arrays(is_complex=True)):
        half = x.shape[axis]
        for n in {max(2 * half - 2, 1), 2 * half - 1}:
            yield Sample((x,), {"axis": axis, "norm": _SCALES[(number + n) % 3], "n": n})


real_inverse_fourier: Primitive = Primitive(
    "irfft",
    lambda x, axis, norm, n: np.fft.irfft(x, n, axis, norm),
    lambda x, axis, norm, n: Spec(_replaced(x.shape, axis, n), _real(x.dtype)),
    Linear(
        (
            lambda ct, x, axis, norm, n: _weights(
                half_fourier(ct, axis=axis, norm=OTHER_SCALE[norm]), axis, n, 2
            ),
        )
    ),
    batch_along_axis,
    _inverse_samples,
    structure=Opaque(
        counted=0,
        along=lambda shape, dtype, axis, norm, n: _loop("irfft", dtype, axis, norm, n, True),
    ),
    traits=OWNS,
)
"""The n real numbers whose transform begins with the ``n // 2 + 1`` given coefficients."""
