"""Arguments of Fourier transforms, their frequencies and shifts."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, call

_NORMS: Final = (None, "backward", "ortho", "forward", "unknown")


def _norm(d: Draw) -> Any:
    return d.pick(*_NORMS[:-1]) if d.chance(0.95) else _NORMS[-1]


def _along_one(d: Draw, kinds: str = "biufc") -> Call:
    d.finite = True
    x = d.array(kinds, empty=False)  # NumPy reads memory beyond an empty array's
    options = {"n": lambda: d.count(0, 6), "axis": lambda: d.axis(x, False)}
    return call(x, **d.options(0.4, **options, norm=lambda: _norm(d)))


def _along_several(d: Draw, kinds: str = "biufc") -> Call:
    d.finite = True
    x = d.array(kinds, empty=False, low=1)
    axes = [int(k) for k in d.rng.permutation(len(x.shape))] if hasattr(x, "shape") else [0]
    axes = axes[: d.integer(1, len(axes))]
    options = d.options(0.4, norm=lambda: _norm(d))
    if d.chance(0.6):
        options["axes"] = d.pick(tuple(axes), axes)
        if d.chance(0.5):
            options["s"] = [int(d.pick(-1, *range(1, 6))) for _ in range(len(axes) + d.chance(0.1))]
    return call(x, **options)


def _along_two(d: Draw, kinds: str = "biufc") -> Call:
    d.finite = True
    x = d.array(kinds, empty=False, low=1 + d.chance(0.9))
    options = {"s": lambda: d.pick((2, 3), (4, 1), (-1, 5)), "axes": lambda: d.pick((0, 1), (1, 0))}
    return call(x, **d.options(0.3, **options, norm=lambda: _norm(d)))


def _frequencies(d: Draw) -> Call:
    return call(d.count(1, 6), **d.options(0.5, d=lambda: d.pick(0.5, 2, 0.1)))


def _shift(d: Draw) -> Call:
    x = d.array(low=1)
    return call(x, **d.options(0.6, axes=lambda: d.axes(x)))


FOURIER: Final[Family] = MappingProxyType(
    {
        **dict.fromkeys(("fft.fft", "fft.ifft", "fft.irfft", "fft.hfft"), _along_one),
        **dict.fromkeys(
            ("fft.rfft", "fft.ihfft"), lambda d: _along_one(d, d.pick("biuf", "f", "c"))
        ),
        **dict.fromkeys(("fft.fftn", "fft.ifftn", "fft.irfftn"), _along_several),
        "fft.rfftn": lambda d: _along_several(d, "biuf"),
        **dict.fromkeys(("fft.fft2", "fft.ifft2", "fft.irfft2"), _along_two),
        "fft.rfft2": lambda d: _along_two(d, "biuf"),
        **dict.fromkeys(("fft.fftfreq", "fft.rfftfreq"), _frequencies),
        **dict.fromkeys(("fft.fftshift", "fft.ifftshift"), _shift),
    }
)
