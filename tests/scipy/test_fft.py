"""Cosine and sine transforms have SciPy's values for every type and option, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.scipy import fft
from tests.every_mode import assert_every_mode
from tests.together import together

ALONG_ONE = ["dct", "idct", "dst", "idst"]
SEVERAL = ["dctn", "idctn", "dstn", "idstn"]


def assert_close(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    precision = 1e-13 if found.dtype.char in "dD" else 1e-5 if found.dtype.char in "fF" else 1e-2
    np.testing.assert_allclose(
        found, expected, rtol=precision, atol=precision * np.max(np.abs(expected), initial=0)
    )


@together("norm", [None, "backward", "ortho", "forward"])
@together("kind", [1, 2, 3, 4])
@together("name", ALONG_ONE)
def test_values_are_scipys(name: str, kind: int, norm: Any) -> None:
    rng = np.random.default_rng(kind)
    own, peer = getattr(fft, name), getattr(scipy.fft, name)
    for size in range(2 if kind == 1 and "c" in name else 1, 9):
        for orthogonalize in (None, True, False):
            x = rng.standard_normal((2, size, 3))
            options = {"norm": norm, "axis": 1, "orthogonalize": orthogonalize}
            assert_close(own(x, kind, **options), peer(x, kind, **options))
        y = rng.standard_normal((2, size, 3))
        for n in (2, size + 3):
            assert_close(own(y, kind, n, 1, norm), peer(y, kind, n, 1, norm))


@together("dtype", ["f", "d", "F", "D", "b", "l"])
@together("name", [*ALONG_ONE, *SEVERAL])
def test_dtypes_are_scipys(name: str, dtype: str) -> None:
    x = np.random.default_rng(3).uniform(-9, 9, (3, 5)).astype(dtype)
    assert_close(getattr(fft, name)(x), getattr(scipy.fft, name)(x))
    assert getattr(fft, name)(x.real.astype("e")).dtype == np.float16


@given(st.sampled_from(SEVERAL), st.integers(1, 4), st.data())
def test_transforms_of_several_axes(name: str, kind: int, data: st.DataObject) -> None:
    x = np.random.default_rng(kind).standard_normal((3, 4, 2))
    axes = data.draw(st.one_of(st.none(), st.permutations(range(-3, 0)).map(lambda p: p[:2])))
    s = data.draw(st.one_of(st.none(), st.tuples(st.integers(2, 5), st.integers(2, 5))))
    options: Any = {"type": kind, "axes": axes, "s": s}
    assert_close(getattr(fft, name)(x, **options), getattr(scipy.fft, name)(x, **options))


@together("kind", [1, 2, 3, 4])
@together("name", ALONG_ONE)
def test_every_mode(name: str, kind: int) -> None:
    transform = getattr(fft, name)
    x, v = np.random.default_rng(kind).standard_normal((2, 3, 5))

    def f(x: Any) -> Any:
        return transform(x, kind, axis=0, norm="ortho")

    np.testing.assert_allclose(fg.jvp(f, (x,), (v,))[1], f(v), rtol=1e-12)
    np.testing.assert_allclose(fg.vjp(f, x)[1](f(v))[0], v, rtol=1e-11, atol=1e-13)  # orthogonal
    assert_every_mode(lambda x: fnp.sin(f(x)), x)
    np.testing.assert_allclose(
        getattr(fft, name[1:] if name[0] == "i" else f"i{name}")(transform(x, kind), kind), x
    )


def test_fourier_transforms_are_numpys() -> None:
    for name in set(fft.__all__) - {*ALONG_ONE, *SEVERAL}:
        assert getattr(fft, name) is getattr(fnp.fft, name)


@together(
    ("call", "kind", "words"),
    [
        (lambda: fft.dct([1.0, 2.0], type=5), ArgumentError, "1, 2, 3 or 4"),
        (lambda: fft.dst([1.0], norm="both"), ArgumentError, "norm has to be one of"),
        (lambda: fft.dct([1.0], type=1), ShapeError, "at least 2 elements"),
        (lambda: fft.idst([]), ShapeError, "at least 1 elements"),
        (lambda: fft.dct([1.0], n=0), ShapeError, "at least 1 elements, not 0"),
        (lambda: fft.dct([1.0], n=1.5), DtypeError, "n has to be an integer"),  # type: ignore[arg-type]
        (lambda: fft.dct([1.0], axis=1), ShapeError, "axis"),
        (lambda: fft.dctn(np.ones((2, 2)), s=(2,), axes=(0, 1)), ShapeError, "1 lengths for 2"),
    ],
)
def test_bad_input_is_explained(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)
