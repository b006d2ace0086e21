"""Functions of signals have SciPy's values and signatures, and derivatives in every mode.

The functions are discovered: the test of one without calls here fails.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, MissingOptionError, ShapeError
from funcgrad.scipy import signal
from tests.together import refused, together

RNG = np.random.default_rng(0)
UNTYPED: Any = signal
X, Y = RNG.standard_normal(9), RNG.standard_normal(4)
A, B = RNG.standard_normal((5, 6)), RNG.standard_normal((3, 2))
C, D = RNG.standard_normal((4, 5, 3)), RNG.standard_normal((2, 3, 2))
LONG = RNG.standard_normal((3, 30))
UP, DOWN = scipy.signal.butter(3, 0.3)
SOS = scipy.signal.butter(4, 0.3, output="sos")
STATE, STATES = RNG.standard_normal((3, 3)), RNG.standard_normal((2, 3, 2))
MODES = ("full", "same", "valid")

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _(*args: Any, **options: Any) -> Call:
    return args, options


PAIRS = [(X, Y), (Y, X), (A, B), (B, A), (C, D), (X + 1j * X[::-1], Y * 1j), (Y * 1j, X)]
OF_SEGMENTS = [
    _(LONG, 2.0, nperseg=8),
    _(LONG, 2.0, nperseg=9, noverlap=2, nfft=16, scaling="spectrum"),
    _(LONG, nperseg=8, detrend="linear", average="median"),
    _(LONG, nperseg=8, detrend=False, return_onesided=False),
    _(LONG.T, window=("kaiser", 3.0), nperseg=7, axis=0),
    _(LONG, window=np.linspace(1, 2, 10)),
    _(LONG + 1j * LONG[::-1], nperseg=8),
    _(LONG),
]
NAMES = """boxcar triang bartlett parzen bohman blackman nuttall blackmanharris flattop hann hamming
    cosine lanczos barthann exponential tukey"""
WINDOWS: list[Any] = [
    *NAMES.split(),
    *[("kaiser", 3.0), 3.5, ("gaussian", 2.0), ("general_gaussian", 1.5, 2.0), ("tukey", 0.3)],
    *[("exponential", None, 3.0), ("tukey", 1.0), ("tukey", 0.0), ("general_hamming", 0.6)],
    ("general_cosine", [0.5, 0.3, 0.2]),
]
CALLS: dict[str, list[Call]] = {
    "coherence": [_(LONG, LONG[::-1] ** 2, nperseg=8), _(LONG.T, LONG.T**2, nperseg=9, axis=0)],
    "convolve": [
        *[_(*pair, mode, way) for pair in PAIRS for mode in MODES for way in ("direct", "fft")],
        *[_(np.arange(5), np.arange(3)), _(np.arange(6).reshape(2, 3), np.arange(2)[None])],
    ],
    "convolve2d": [
        _(*pair, mode, boundary, 0.5)
        for pair in ((A, B), (A, A[::-1]), (B * 1j, A))
        for mode in MODES
        for boundary in ("fill", "wrap", "symm")
    ],
    "correlate": [_(*pair, mode) for pair in PAIRS for mode in MODES],
    "csd": [_(call[0][0], call[0][0][::-1] ** 2, *call[0][1:], **call[1]) for call in OF_SEGMENTS],
    "detrend": [
        *[_(LONG), _(LONG.T, 0, "constant"), _(LONG, -1, "linear", [10, 23]), _(LONG, bp=7)]
    ],
    "fftconvolve": [
        *[_(*pair, mode) for pair in PAIRS for mode in MODES],
        *[_(A, A[:, :3], mode, axes=1) for mode in MODES],
    ],
    "filtfilt": [
        *[_(UP, DOWN, LONG), _(UP, DOWN, LONG.T, 0, padtype="even", padlen=5)],
        *[_(UP, DOWN, LONG, padtype=None), _(UP, DOWN, LONG[0], padtype="constant")],
    ],
    "get_window": [
        _(name, N, bins) for name in WINDOWS for N in (1, 2, 5, 8) for bins in (True, False)
    ],
    "hilbert": [_(LONG), _(LONG.T, N=50, axis=0), _(LONG, N=21)],
    "istft": [],
    "lfilter": [
        *[_(UP, DOWN, LONG), _(UP, [2.0], LONG.T, 0), _([1.0, 0.5], DOWN, LONG), _(UP, [1.0], X)],
        *[_([2.0], [4.0], X), _(UP, 2 * DOWN, LONG, -1, STATE), _(UP, DOWN, LONG.T, 0, STATE.T)],
    ],
    "lfilter_zi": [_(UP, DOWN), _([1.0, 2.0, 3.0], [1.0, 0.3]), _(UP, [2.0, 0.1, 0.2, 0.3])],
    "periodogram": [
        *[_(LONG, 3.0), _(LONG.T, window="hann", nfft=64, axis=0), _(LONG, nfft=20)],
        *[_(LONG, scaling="spectrum", detrend="linear"), _(LONG, return_onesided=False)],
    ],
    "resample": [
        *[_(LONG, num, axis=1) for num in (20, 21, 30, 29, 60, 61)],
        *[_(LONG[0, :29] * 1j + 1, num) for num in (20, 21, 50)],
        *[_(LONG, 20, np.arange(30) * 0.5, axis=1), _(LONG, 20, axis=1, window="hann")],
        *[_(LONG, 20, axis=1, window=lambda f: np.cos(f)), _(X, 5, window=np.linspace(1, 2, 9))],
        _(np.fft.fft(LONG[0]), 40, domain="freq"),
    ],
    "savgol_coeffs": [
        *[_(5, 2), _(6, 3), _(7, 0), _(7, 3, 1, 0.4), _(7, 3, 2, 0.4, pos=1, use="dot")]
    ],
    "savgol_filter": [
        _(LONG, window, order, deriv, 0.5, mode=mode, cval=0.3)
        for window, order in ((5, 2), (7, 3), (4, 2), (1, 0))
        for deriv in (0, 1)
        for mode in ("interp", "mirror", "nearest", "wrap", "constant")
    ],
    "sosfilt": [_(SOS, LONG), _(SOS, LONG.T, 0), _(SOS, LONG, -1, STATES)],
    "sosfilt_zi": [_(SOS)],
    "sosfiltfilt": [_(SOS, LONG), _(SOS, LONG.T, 0, "even", 6)],
    "stft": [
        *[
            _(LONG, 2.0, nperseg=8),
            _(LONG, nperseg=9, noverlap=5, nfft=12),
            _(LONG.T, nperseg=8, axis=0),
        ],
        *[_(LONG, nperseg=8, boundary=None), _(LONG, nperseg=8, boundary="even", padded=False)],
        _(LONG, nperseg=8, boundary="odd", scaling="psd", detrend="constant"),
        _(LONG, nperseg=8, boundary="constant", return_onesided=False),
        *[_(LONG * 1j, nperseg=8), _(LONG[0], nperseg=10, window=("tukey", 0.3))],
    ],
    "welch": OF_SEGMENTS,
}
CALLS["oaconvolve"] = CALLS["fftconvolve"]
# SciPy conjugates the other operand where it exchanges them.
CALLS["correlate2d"] = [c for c in CALLS["convolve2d"] if not np.iscomplexobj(c[0][0])]


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def test_every_function_is_tried() -> None:
    assert sorted(CALLS) == sorted(signal.__all__)


@together("name", signal.__all__)
def test_parameters_are_scipys(name: str) -> None:
    ours = inspect.signature(getattr(signal, name)).parameters.values()
    theirs = list(inspect.signature(getattr(scipy.signal, name)).parameters.values())
    shared = [p for p in theirs if p.name not in ("xp", "device")]  # of SciPy's other array types
    assert [p.name for p in ours] == [p.name for p in shared]
    for own, peer in zip(ours, shared, strict=True):
        assert (
            own.default == peer.default
            or str(peer.default).removesuffix("_periodic") == own.default
        )


@together("name", sorted(CALLS))
def test_values_are_scipys(name: str) -> None:
    for args, options in CALLS[name]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _flat(getattr(scipy.signal, name)(*args, **options))
        for own, peer in zip(_flat(getattr(signal, name)(*args, **options)), expected, strict=True):
            assert_allclose(own, peer, rtol=1e-10, atol=1e-12, err_msg=f"{args[1:]}, {options}")
            assert np.asarray(own).dtype == np.asarray(peer).dtype


SHORT = RNG.standard_normal((2, 7))
DIFFERENTIATED: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "coherence": [(lambda x, y: signal.coherence(x, y, nperseg=3)[1][1:], (SHORT[0], SHORT[1]))],
    "convolve": [
        (lambda x, y, w=way: signal.convolve(x, y, "same", w), (SHORT, B[:2]))
        for way in ("direct", "fft")
    ],
    "convolve2d": [
        (lambda x, y, f: signal.convolve2d(x, y, "full", "fill", f), (SHORT, B, 0.5)),
        (lambda x, y: signal.convolve2d(x, y, "same", "symm"), (SHORT, B[:2])),
    ],
    "correlate": [(lambda x, y: signal.correlate(x, y, "valid"), (X, Y))],
    "correlate2d": [(signal.correlate2d, (SHORT, B))],
    "csd": [(lambda x, y: signal.csd(x, y, nperseg=4)[1].imag, (SHORT, SHORT[::-1] ** 2))],
    "detrend": [(signal.detrend, (SHORT,))],
    "fftconvolve": [(signal.fftconvolve, (SHORT, B))],
    "filtfilt": [(lambda b, a, x: signal.filtfilt(b, a, x, padlen=3), (UP, DOWN, SHORT))],
    "get_window": [
        (lambda p: signal.get_window(("kaiser", p), 5), (2.0,)),
        (lambda p: signal.get_window(("gaussian", p), 4), (2.0,)),
        (lambda p: signal.get_window(("tukey", p), 6), (0.73,)),
        (lambda p: signal.get_window(("general_cosine", p), 6), (Y,)),
        (lambda p, s: signal.get_window(("general_gaussian", p, s), 6), (1.3, 2.0)),
        (lambda c, t: signal.get_window(("exponential", c, t), 6, False), (1.3, 2.0)),
    ],
    "hilbert": [(lambda x: signal.hilbert(x).imag, (SHORT,))],
    "istft": [(lambda x: signal.istft(signal.stft(x, nperseg=4)[2] ** 2, nperseg=4)[1], (X,))],
    "lfilter": [
        (signal.lfilter, (UP, DOWN, SHORT)),
        (lambda b, a, x, z: signal.lfilter(b, a, x, zi=z), (UP, 2 * DOWN, SHORT, STATE[:2])),
    ],
    "lfilter_zi": [(signal.lfilter_zi, (UP, DOWN))],
    "oaconvolve": [(signal.oaconvolve, (SHORT, B))],
    "periodogram": [(lambda x: signal.periodogram(x)[1], (SHORT,))],
    "resample": [(lambda x: signal.resample(x, 10, axis=1), (SHORT,))],
    "savgol_coeffs": [],
    "savgol_filter": [(lambda x: signal.savgol_filter(x, 5, 2), (SHORT,))],
    "sosfilt": [(signal.sosfilt, (SOS, SHORT))],
    "sosfilt_zi": [(signal.sosfilt_zi, (SOS,))],
    "sosfiltfilt": [(lambda s, x: signal.sosfiltfilt(s, x, padlen=3), (SOS, SHORT))],
    "stft": [(lambda x: signal.stft(x, nperseg=4)[2].imag, (SHORT,))],
    "welch": [
        (lambda x, w: signal.welch(x, window=w)[1], (SHORT, Y)),
        (lambda x: signal.welch(x, nperseg=3, average="median", detrend="linear")[1], (SHORT,)),
    ],
}


@pytest.mark.slow
@together("name", sorted(CALLS))
def test_derivatives_in_every_mode(name: str) -> None:
    for function, args in DIFFERENTIATED[name]:
        fg.testing.check_grads(function, args, order=2)
        expected = _flat(function(*args))
        for own, staged in zip(expected, _flat(fg.jit(function)(*args)), strict=True):
            assert_allclose(staged, own, rtol=1e-11, atol=1e-13)
        if all(np.ndim(x) for x in args):
            batch = fg.vmap(function)(*[np.stack([x, x * 1.01]) for x in args])
            second = _flat(function(*[x * 1.01 for x in args]))
            for own, several in zip(second, _flat(batch), strict=True):
                assert_allclose(several[1], own, rtol=1e-11, atol=1e-13)


def test_filters_compile_as_one_loop() -> None:
    staged = fg.jit(fg.value_and_grad(lambda b, a, x: signal.lfilter(b, a, x)[-1] ** 2, (0, 1, 2)))
    args = UP, DOWN, RNG.standard_normal(500)
    value, slopes = staged(*args)
    last = scipy.signal.lfilter(*args)[-1]
    assert_allclose(value, last**2, rtol=1e-10)
    # A filter is linear in its input, whose slopes are its answer to a pulse.
    answer = scipy.signal.lfilter(UP, DOWN, np.eye(1, 500)[0])[::-1]
    assert_allclose(slopes[2], 2 * last * answer, rtol=1e-9, atol=1e-12)
    assert len(str(fg.program(lambda x: signal.lfilter(UP, DOWN, x))(args[2]))) < 6000


def test_transforms_are_inverse() -> None:
    options: Any
    for options in ({"nperseg": 8}, {"nperseg": 9, "noverlap": 5, "nfft": 12, "scaling": "psd"}):
        spectra = signal.stft(LONG, 2.0, **options)[2]
        times, back = signal.istft(spectra, 2.0, **options)
        assert_allclose(back[:, :30], LONG, rtol=0, atol=1e-12)
        peer = scipy.signal.istft(np.asarray(spectra), 2.0, **options)[1]
        assert_allclose(back, peer, rtol=1e-10, atol=1e-12)
        assert_allclose(times, np.arange(back.shape[-1]) / 2.0)
        moved = np.moveaxis(np.asarray(spectra), -1, 0)
        peer = scipy.signal.istft(moved, 2.0, time_axis=0, freq_axis=-1, **options)[1]
        own = signal.istft(moved, 2.0, time_axis=0, freq_axis=-1, **options)[1]
        assert_allclose(own, peer, rtol=1e-10, atol=1e-12)
    spectra = signal.stft(LONG, nperseg=8, return_onesided=False, boundary=None)[2]
    options = {"nperseg": 8, "input_onesided": False, "boundary": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the ends cannot be known
        peer = scipy.signal.istft(np.asarray(spectra), **options)[1]
    assert_allclose(signal.istft(spectra, **options)[1], peer, rtol=1e-10, atol=1e-12)


@together("name", ["lfilter", "convolve", "welch", "stft", "savgol_filter", "detrend", "hilbert"])
def test_single_precision_stays(name: str) -> None:
    x = LONG[0].astype(np.float32)
    small = np.array([0.5, 0.25], np.float32)
    arguments = {"lfilter": (small, small, x), "convolve": (x, small), "savgol_filter": (x, 5, 2)}
    result = _flat(getattr(signal, name)(*arguments.get(name, (x,))))[-1]
    assert result.dtype.char in "fF"
    assert _flat(signal.resample(x, 9, window="hann"))[-1].dtype == np.float32


test_refusals = refused(
    [
        (lambda: signal.convolve(X, A), ShapeError, "1 and 2 axes"),
        (lambda: signal.convolve(A, A.T, "valid"), ShapeError, "at least as long"),
        (lambda: signal.convolve(X, Y, "fill"), ArgumentError, "mode='fill' is unknown"),
        (lambda: signal.convolve2d(X, Y), ShapeError, "takes matrices"),
        (lambda: signal.lfilter(UP, [0.0, 1.0], X), ArgumentError, r"a\[0\] is 0"),
        (lambda: signal.oaconvolve(X, Y, "fill"), ArgumentError, "oaconvolve: mode"),
        (lambda: signal.lfilter(A, [1.0], X), ShapeError, "Pass vectors"),
        (lambda: signal.lfilter(UP, DOWN, X, zi=[1.0]), ShapeError, "3 values along axis -1"),
        (lambda: signal.lfilter(UP, DOWN, X, axis=1), ShapeError, "no axis 1"),
        (lambda: signal.sosfilt(SOS[0], X), ShapeError, r"\(n, 6\)"),
        (lambda: signal.sosfilt(SOS, X, zi=[[0.0]]), ShapeError, "2 sections"),
        (lambda: signal.filtfilt(UP, DOWN, X[:3]), ShapeError, "padlen is 12"),
        (lambda: signal.filtfilt(UP, DOWN, X, method="gust"), MissingOptionError, "'gust'"),
        (lambda: signal.get_window("chebwin", 5), MissingOptionError, "constant array"),
        (lambda: signal.get_window("han_", 5), ArgumentError, "'han_' is unknown"),
        (lambda: signal.get_window("hann", 0), ShapeError, "positive"),
        (lambda: signal.hilbert(X * 1j), DtypeError, "real signal"),
        (lambda: signal.hilbert(X, 0), ShapeError, "positive"),
        (lambda: signal.resample(X, 0), ShapeError, "positive"),
        (lambda: signal.resample(X, 5, window=Y), ShapeError, "one weight"),
        (lambda: signal.savgol_filter(X, 3, 3), ArgumentError, "degree"),
        (lambda: signal.savgol_filter(Y, 5, 3), ShapeError, "longer than the signal"),
        (lambda: signal.savgol_coeffs(5, 3, pos=5), ArgumentError, "pos is 5"),
        (lambda: signal.detrend(X, bp=20), ArgumentError, "breaks"),
        (lambda: signal.welch(X, nperseg=4, noverlap=4), ArgumentError, "noverlap is less"),
        (lambda: signal.welch(X[:0]), ShapeError, "has none along its axis"),
        (lambda: signal.stft(X[:0]), ShapeError, "has none along its axis"),
        (lambda: signal.welch(X, window=A), ShapeError, "a window of shape"),
        (lambda: signal.stft(X, nperseg=8, boundary="odd", axis=1), ShapeError, "no axis 1"),
        (lambda: UNTYPED.welch(X, nperseg=[4]), DtypeError, r"welch: nperseg .* not \[4\]"),
        (lambda: UNTYPED.coherence(X, X, noverlap="2"), DtypeError, "coherence: noverlap .* '2'"),
        (lambda: UNTYPED.csd(X, X, axis=1.5), DtypeError, "csd: axis .* not 1.5"),
        (lambda: signal.periodogram(X, nfft=0), ArgumentError, "periodogram: nfft is 0"),
        (lambda: signal.stft(X, fs=0.0, nperseg=4), ArgumentError, "stft: fs is 0.0"),
        (lambda: UNTYPED.istft(A, fs="1"), FuncgradError, "istft: "),
        (lambda: signal.periodogram(X[:0]), ShapeError, "periodogram: .* has none along its axis"),
        (lambda: signal.fftconvolve(X, Y, axes=[]), ArgumentError, "different axes"),
        (lambda: UNTYPED.fftconvolve(X, Y, mode=X), ArgumentError, "fftconvolve: mode"),
        (lambda: signal.get_window((), 5), ArgumentError, r"get_window: window is \(\)"),
        (lambda: signal.savgol_coeffs(5, 3, -1), ArgumentError, "savgol_coeffs: deriv is -1"),
        (lambda: UNTYPED.savgol_filter(X, 5, 3, delta=X), DtypeError, "savgol_filter: delta"),
    ]
)


@together(
    ("name", "match"),
    [
        ("find_peaks", r"scipy\.signal\.find_peaks\(np.asarray"),
        ("butter", "constant coefficients"),
        ("spectrogram", r"stft\(x"),
    ],
)
def test_absent_names_say_what_to_write(name: str, match: str) -> None:
    with pytest.raises(AttributeError, match=match):
        getattr(signal, name)


@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_numbers_are_convolved_too(method: str) -> None:
    assert float(signal.convolve(2.0, 3.0, method=method)) == 6.0
