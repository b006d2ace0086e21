"""Functions of Python's library and of others take tensors as arrays, numbers or sequences."""

from __future__ import annotations

import array
import bisect
import copy
import csv
import functools
import heapq
import importlib
import io
import itertools
import json
import math
import operator
import os
import pickle
import random
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.special
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mean_squared_error
from sklearn.preprocessing import StandardScaler

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._staging.jit import JitWarning
from funcgrad.errors import DtypeError, TracerError
from tests.together import together

ROWS = np.random.default_rng(3).normal(size=(12, 3))
V = np.array([3.0, 1.0, 2.0])
NUMBERS = [3.0, 1.0, 2.0]

# Each of a tensor as of a list of numbers.
SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "sum": sum,
    "sorted": sorted,
    "extremes": lambda v: (max(v), min(v), any(v), all(v)),
    "unpacking": lambda v: [*v, *reversed(v)],
    "map and filter": lambda v: [*map(float, v), *filter(None, v)],
    "zip": lambda v: list(zip(v, itertools.pairwise(v), strict=False)),
    "accumulate": lambda v: list(itertools.accumulate(v)),
    "reduce": lambda v: functools.reduce(operator.mul, v),
    "heapq": lambda v: heapq.nsmallest(2, v),
    "bisect": lambda v: bisect.bisect([1.0, 2.5, 4.0], v[0]),
    "math": lambda v: (math.fsum(v), math.prod(v), math.dist(v, v), math.hypot(*v)),
    "math of elements": lambda v: (math.sqrt(v[1]), math.isclose(v[0], 3), math.floor(v[2])),
    "round": lambda v: (round(v[0]), math.ceil(v[1]), math.trunc(v[2])),
    "statistics": lambda v: (statistics.fmean(v), statistics.median(v)),
    "random": lambda v: (random.Random(3).choice(v), random.Random(4).uniform(v[1], v[0])),
    "weights": lambda v: random.Random(5).choices("abc", weights=v, k=4),
    "format": lambda v: (f"{v[0]:.3f}", "{:.2f} {:g}".format(*v[:2]), format(v[0], "e")),
    "array": lambda v: array.array("d", v).tolist(),
    "struct": lambda v: struct.pack("3d", *v),
    "csv": lambda v: csv.writer(io.StringIO()).writerow(map(float, v)),
    "operator": lambda v: (operator.countOf(v, 1.0), operator.indexOf(v, 2.0), 2.0 in v),
    "float, int, complex": lambda v: (float(v[0]), int(v[1]), complex(v[2]), bool(v[0])),
    "mixed": lambda v: [divmod(n, 2) for n in v],
}


def _plain(result: Any) -> Any:
    """Without tensors."""
    if isinstance(result, fg.Tensor):
        return result.tolist()
    return [_plain(each) for each in result] if isinstance(result, list | tuple) else result


@together("name", SEQUENCES)
def test_a_tensor_is_a_sequence_of_numbers(name: str) -> None:
    assert _plain(SEQUENCES[name](fg.tensor(V))) == _plain(SEQUENCES[name](NUMBERS))


def test_what_takes_only_pythons_numbers_says_what_to_write() -> None:
    ours = r"not float64\. .* write float\(t\), or int\(t\)"
    for use in (range, "abc".__getitem__):
        with pytest.raises(DtypeError, match=ours):
            use(fg.tensor(0.0))
    # From 3.14 on `sleep` replaces the text of any TypeError.
    with pytest.raises(TypeError, match=f"{ours}|cannot be interpreted as an integer or float"):
        time.sleep(fg.tensor(0.0))


def test_functions_of_scipy_that_are_no_ufuncs_have_one_of_ours() -> None:
    assert fg.grad(lambda x: scipy.special.expit(x))(0.0) == 0.25
    with pytest.raises(TracerError, match=r"fg\.scipy\.special has functions of the same names"):
        fg.grad(lambda x: scipy.special.softmax(x)[0])(V)
    assert fg.grad(lambda x: fg.scipy.special.softmax(x)[0])(V)[0] > 0


def test_integers_are_indices() -> None:
    one, many = fg.tensor(1), fg.tensor([0, 2])
    assert ["a", "b", "c"][one] == "b"
    assert "abcd"[one : fg.tensor(3)] == "bc"
    assert [0] * one == [0]
    assert list(range(fg.tensor(3))) == [0, 1, 2]
    assert (hex(one), bin(one), chr(fg.tensor(65))) == ("0x1", "0b1", "A")
    assert V[one] == 1.0
    assert V[many].tolist() == [3.0, 2.0]
    assert V[fg.tensor([True, False, True])].tolist() == [3.0, 2.0]


def test_arrays_are_written_with_tensors() -> None:
    x = np.zeros(4)
    x[0], x[1:3], x[fg.tensor([3])] = fg.tensor(1.0), fg.tensor([2.0, 3.0]), fg.tensor(4.0)
    x += fg.tensor(1.0)
    assert x.tolist() == [2.0, 3.0, 4.0, 5.0]


@together("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_the_same_tensor(protocol: int) -> None:
    for t in (fg.tensor(ROWS)[::2].T, fg.tensor(2, dtype="float32"), fg.tensor(np.zeros((0, 3)))):
        back = pickle.loads(pickle.dumps(t, protocol))
        assert type(back) is fg.Tensor
        assert back.dtype == t.dtype
        np.testing.assert_array_equal(back, t)
        assert copy.copy(t) is copy.deepcopy([t])[0] is t


def test_pickles_leave_their_memory_outside_where_asked() -> None:
    outside: list[Any] = []
    t = fg.tensor(np.arange(1000.0))
    pickled = pickle.dumps(t, 5, buffer_callback=outside.append)
    assert len(outside) == 1
    assert len(pickled) < 1000
    np.testing.assert_array_equal(pickle.loads(pickled, buffers=outside), t)


def test_json_takes_what_default_makes() -> None:
    tree = {"loss": fg.tensor(0.5), "weights": fg.tensor([1, 2])}
    written = json.dumps(tree, default=fg.Tensor.tolist)
    assert json.loads(written) == {"loss": 0.5, "weights": [1, 2]}
    assert json.dumps({"loss": float(tree["loss"])}) == '{"loss": 0.5}'
    with pytest.raises(TypeError, match="Tensor is not JSON serializable"):
        json.dumps(tree)


def test_joblib_keeps_tensors() -> None:
    t = fg.tensor(ROWS)
    assert joblib.hash(t) == joblib.hash(fg.tensor(ROWS)) != joblib.hash(t[:-1])
    file = io.BytesIO()
    joblib.dump({"x": t}, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file)["x"], t)
    slope = joblib.delayed(fg.grad(lambda x: (x * x).sum()))
    found = joblib.Parallel(2, prefer="threads")(slope(row) for row in t)
    np.testing.assert_array_equal(np.stack(found), 2 * ROWS)


def test_scikit_learn_fits_tensors() -> None:
    t, target = fg.tensor(ROWS), fg.tensor(ROWS @ [1.0, 2.0, 3.0])
    for estimator in (Ridge(), PCA(2), StandardScaler(), LogisticRegression()):
        labels = target > 0 if isinstance(estimator, LogisticRegression) else target
        ours = estimator.fit(t, labels).__dict__
        theirs = type(estimator)(**estimator.get_params())
        theirs.fit(ROWS, np.asarray(labels))
        numbers = [n for n, each in ours.items() if isinstance(each, np.ndarray | float)]
        assert numbers
        for name in numbers:
            np.testing.assert_array_equal(ours[name], getattr(theirs, name))
    assert mean_squared_error(target, target + 1.0) == pytest.approx(1.0)


FRAMES: dict[str, Callable[[Any, Any], Any]] = {
    "frame": lambda pd, v: pd.DataFrame({"a": v, "b": v * 2}),
    "frame of rows": lambda pd, v: pd.DataFrame(v.reshape(1, 3), columns=[*"abc"]),
    "series": lambda pd, v: pd.Series(v, index=[*"xyz"]).rolling(2).mean(),
    "column": lambda pd, v: pd.DataFrame({"a": NUMBERS}).assign(b=v, c=v > 1),
    "column times": lambda pd, v: pd.Series(NUMBERS) * v,
    "column times a number": lambda pd, v: pd.Series(NUMBERS) * v[0] > v[1],
    "chosen rows": lambda pd, v: pd.DataFrame({"a": NUMBERS}).iloc[v.astype(int) - 1],
    "chosen by a comparison": lambda pd, v: pd.Series(NUMBERS)[pd.Series(NUMBERS) > v[1]],
    "matrix product": lambda pd, v: pd.DataFrame(ROWS) @ v,
}


@together("name", FRAMES if find_spec("pandas") else ())
def test_pandas_takes_tensors_as_arrays(name: str) -> None:
    pd = importlib.import_module("pandas")
    found, expected = FRAMES[name](pd, fg.tensor(V)), FRAMES[name](pd, V)
    assert type(found) is type(expected)
    assert found.equals(expected)


def _written_in_place(pd: Any, v: Any) -> Any:
    frame = pd.DataFrame({"a": NUMBERS})
    frame["b"], frame.loc[:, "c"], frame.iloc[0, 0] = v, v, v[1]
    return frame


def test_columns_are_set_to_tensors() -> None:
    if find_spec("pandas"):
        pd = importlib.import_module("pandas")
        found = _written_in_place(pd, fg.tensor(V))
        assert found.equals(_written_in_place(pd, V))
        assert {str(dtype) for dtype in found.dtypes} == {"float64"}


@pytest.mark.parametrize("side", [operator.mul, lambda a, w: w * a] if find_spec("pandas") else ())
def test_a_traced_factor_beside_a_column_is_differentiated(side: Callable[..., Any]) -> None:
    pd = importlib.import_module("pandas")
    column, frame = pd.Series(V), pd.DataFrame(ROWS)

    def loss(w: Any) -> Any:
        return fnp.sum((side(column, w) - 1.0) ** 2) + fnp.sum(side(frame, w) ** 2)

    expected = np.sum(2 * (2.0 * V - 1.0) * V) + np.sum(4.0 * ROWS**2)
    assert float(fg.grad(loss)(2.0)) == pytest.approx(expected)
    assert float(fg.vmap(fg.grad(loss))(fg.tensor([2.0]))[0]) == pytest.approx(expected)
    with pytest.warns(JitWarning, match="a (Series|DataFrame) of pandas, once"):
        assert float(fg.vjp(fg.jit(loss), 2.0)[1](1.0)[0]) == pytest.approx(expected)


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas is not installed")
@pytest.mark.filterwarnings("ignore::funcgrad._staging.jit.JitWarning")
@pytest.mark.parametrize("transform", [fg.grad, fg.jit, fg.jacfwd])
def test_a_product_of_a_frame_and_a_tracer_says_what_to_write(transform: Any) -> None:
    """pandas makes an array of the other factor, whatever that can do."""
    frame = importlib.import_module("pandas").DataFrame(ROWS)
    w = np.ones(ROWS.shape[1])
    with pytest.raises(TracerError, match=r"df\.to_numpy\(\) @ x"):
        transform(lambda w: fnp.sum(frame @ w))(w)
    np.testing.assert_allclose(frame @ fg.tensor(w), ROWS @ w)
    np.testing.assert_allclose(fg.grad(lambda w: fnp.sum(frame.to_numpy() @ w))(w), ROWS.sum(0))


ARRAY_MODE = """
import numpy as np
import scipy.fft, scipy.integrate, scipy.interpolate, scipy.signal, scipy.special, scipy.stats
import funcgrad as fg
import funcgrad.numpy as fnp

x = np.abs(np.random.default_rng(0).normal(size=(6, 3))) + 0.1
uses = [
    lambda x: scipy.special.gammaln(x),
    lambda x: scipy.special.betainc(x, x, x / 10),
    lambda x: scipy.special.softmax(x, axis=0),
    lambda x: scipy.fft.dct(x),
    lambda x: abs(scipy.fft.rfftn(x)),
    lambda x: scipy.stats.skew(x),
    lambda x: scipy.stats.kurtosis(x),
    lambda x: scipy.stats.gmean(x),
    lambda x: scipy.stats.ttest_ind(x, x**2).statistic,
    lambda x: scipy.stats.entropy(x),
    lambda x: scipy.signal.convolve(x[:, 0], x[:, 1]),
    lambda x: scipy.signal.detrend(x[:, 0]),
    lambda x: scipy.integrate.trapezoid(x, axis=0),
    lambda x: scipy.integrate.cumulative_trapezoid(x[:, 0]),
]
for i, use in enumerate(uses):
    found, expected = use(fg.tensor(x)), use(x)
    assert isinstance(found, fg.Tensor), i
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def total(x):
    return fnp.sum(scipy.stats.skew(x) * scipy.stats.gmean(x)) + fnp.sum(abs(scipy.fft.rfft(x)))


slope = fg.grad(total)(fg.tensor(x))
step = 1e-6 * np.cos(x)
difference = (total(x + step) - total(x - step)) / 2
np.testing.assert_allclose(np.sum(slope * step), difference, rtol=1e-6)
print("as expected")
"""


def test_scipy_computes_with_tensors_in_its_array_mode() -> None:
    """The test needs a process of its own: SciPy reads the variable when it is imported."""
    if np.lib.NumpyVersion(scipy.__version__) < "1.17.0":
        pytest.skip("fewer functions of SciPy 1.15 and 1.16 compute with others' arrays")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", ARRAY_MODE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "as expected\n", run.stderr
