"""Fourier transforms in machine code: NumPy's loops over the lines along an axis."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.backends.native.test_native_nests import run_natively

TRANSFORMS = {
    "fft": lambda x, **options: fnp.fft.fft(x, **options),
    "ifft": lambda x, **options: fnp.fft.ifft(x, **options),
    "rfft": lambda x, **options: fnp.fft.rfft(x.real, **options),
    "irfft, odd": lambda x, **options: fnp.fft.irfft(x, 7, **options),
    "irfft, even": lambda x, **options: fnp.fft.irfft(x, 4, **options),
}


@pytest.mark.slow
@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_along_every_axis(name: str, char: str) -> None:
    f, draws = TRANSFORMS[name], np.random.default_rng(0)
    for shape in ((5,), (8,), (3, 4), (2, 5, 6), (1, 1)):
        x = draws.standard_normal(shape).astype(char)
        if char in "FD":
            x = x + np.array(1j, char) * draws.standard_normal(shape).astype(x.real.dtype)
        for axis, norm in product(range(len(shape)), ("backward", "ortho", "forward")):
            result = run_natively(lambda x, a=axis, n=norm: f(x, axis=a, norm=n), x)
            expected = np.asarray(f(fg.tensor(x), axis=axis, norm=norm))
            assert result.dtype == expected.dtype
            rtol = 1e-5 if char in "fF" else 1e-13
            np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


def test_transforms_of_views_and_of_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)) * (1 + 2j)
    for f in (
        lambda x: fnp.fft.fft(x.T, axis=0),
        lambda x: fnp.fft.fft(x[::-1, ::2]),
        lambda x: fnp.fft.ifft2(fnp.fft.fft2(x * 2.0) * x),
        lambda x: fnp.fft.fft(x[:0]),
    ):
        np.testing.assert_allclose(fg.jit(f, backend="native")(x), f(x), rtol=1e-13, atol=1e-13)


def test_gradients_in_a_loop() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6))

    def f(x: Any) -> Any:
        step = lambda c, _: (fnp.real(fnp.fft.ifft(fnp.fft.fft(c) ** 2)) / 9, None)  # noqa: E731
        return fnp.sum(fg.scan(step, x, None, length=3)[0] ** 2)

    np.testing.assert_allclose(run_natively(fg.grad(f), x), fg.grad(f)(x), rtol=1e-11)
