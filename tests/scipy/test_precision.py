"""Python numbers do not widen arrays of lower precision: ``funcgrad.scipy`` and ``funcgrad.nn``.

The functions are discovered: each is called with one array of low precision in each place, beside
Python numbers, and has to return the same as for arrays of that precision alone. Integers count as
float64, as in SciPy. Functions of matrices have the calls of the comparison with SciPy, in single
precision.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import DtypeError, FuncgradError
from funcgrad.scipy import linalg, optimize, special, stats
from tests.scipy import test_linalg_names
from tests.scipy.stats.test_stats import CONTINUOUS, DISCRETE, METHODS, MOMENTS, SHAPES

Function = Callable[..., Any]

OF_SCIPYS_OWN = {"wofz"}
"""SciPy's values for float32 are complex128, without any Python number."""
OF_AXES = {"logsumexp", "multigammaln", "softmax", "log_softmax"}
ORDERS = {"polygamma": (2, 0.45), "expn": (2, 0.45)}
ARGUMENTS = ((0.3, 0.45, 0.6, 0.7), (2, 0.45, 0.6, 0.7), (2, 1, 0.6, 0.7), (4, 2, 0.6, 0.7))
WIDER = {np.float16: {"d", "f", "D"}, np.float32: {"d", "D"}}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def required(function: Function) -> int:
    """The number of required arguments."""
    every = inspect.signature(function).parameters.values()
    return sum(p.kind in (0, 1) and p.default is p.empty for p in every)


def special_calls() -> Iterator[Any]:
    for name in sorted(set(special.__all__) - OF_SCIPYS_OWN - OF_AXES):
        function = getattr(special, name)
        if inspect.isfunction(function):
            count = required(function)
            calls = [ORDERS.get(name, values[:count]) for values in ARGUMENTS]
            yield pytest.param(function, next(c for c in calls if works(function, c)), id=name)


def works(function: Function, values: tuple[Any, ...]) -> bool:
    try:
        function(*values)
    except FuncgradError:
        return False
    return True


SHAPED = set(
    """adaptive_avg_pool adaptive_max_pool avg_pool conv conv_transpose cross_entropy glorot_normal
    glorot_uniform he_normal he_uniform log_softmax logsumexp max_pool one_hot ones softmax
    zeros
    Activation BatchNorm BatchStatistics Conv ConvTranspose Dropout Embedding GRUCell
    GroupNorm KVCache LSTMCell LayerNorm Linear MLP MultiHeadAttention RMSNorm RNNCell
    Residual Sequential
    attention bidirectional dropout glu group_norm layer_norm lecun_normal lecun_uniform
    orthogonal rms_norm rotary run sinusoidal_positions sparsemax truncated_normal
    variance_scaling""".split()
)
"""Functions of ``nn`` that take no number for an array: ``test_windows_and_losses_keep_single``."""


def network_calls() -> Iterator[Any]:
    for name in sorted(set(nn.__all__) - SHAPED):
        function = getattr(nn, name)
        every = [p for p in inspect.signature(function).parameters.values() if p.kind in (0, 1)]
        values = ARGUMENTS[0][: len([p for p in every if type(p.default) is not bool])]
        yield pytest.param(function, values, id=f"nn.{name}")


def distribution_calls() -> Iterator[Any]:
    for name in (*CONTINUOUS, *DISCRETE):
        distribution, shapes = getattr(stats, name), SHAPES.get(name, ((),))[0]
        place = (0.25, 1.5) if name in CONTINUOUS else (1,)
        methods = METHODS if name in CONTINUOUS else ("logpmf", "pmf", "cdf", "sf", "logsf")
        for method in methods:
            values = (0.5 if name in CONTINUOUS else 1, *shapes, *place)
            yield pytest.param(getattr(distribution, method), values, id=f"{name}.{method}")
            if method in dir(distribution(*shapes)):
                bound = partial(frozen, distribution, method)
                yield pytest.param(bound, values, id=f"{name}(...).{method}")
        for method in MOMENTS if name in CONTINUOUS else MOMENTS[:3]:
            values = (*shapes, *place)
            yield pytest.param(getattr(distribution, method), values, id=f"{name}.{method}")


def frozen(distribution: Any, method: str, x: Any, *parameters: Any) -> Any:
    return getattr(distribution(*parameters), method)(x)


CALLS = [*special_calls(), *network_calls(), *distribution_calls()]


def dtypes(result: Any) -> list[str]:
    return [np.asarray(leaf).dtype.char for leaf in fg.tree.leaves(result)]


def test_calls_are_found() -> None:
    assert len(CALLS) > 400


@pytest.mark.slow
@pytest.mark.parametrize("low", [np.float32, np.float16])
@pytest.mark.parametrize(("function", "values"), CALLS)
def test_python_numbers_do_not_widen(function: Function, values: Any, low: Any) -> None:
    expected = [function(*[low(x) if type(x) is float else x for x in values])]
    for k, value in enumerate(values):
        if type(value) is not float:
            continue  # a degree or a count; beside it the others are tried
        array = np.full(() if function is nn.squared_error else 3, value, low)
        found = function(*values[:k], array, *values[k + 1 :])
        assert not WIDER[low] & set(dtypes(found)), (k, dtypes(found))
        assert dtypes(found) == dtypes(expected), k


@pytest.mark.parametrize(("function", "values"), CALLS[::7])
def test_traced_python_numbers_do_not_widen_either(function: Function, values: Any) -> None:
    places = [k for k, x in enumerate(values) if type(x) is float]
    if len(places) < 2:
        return
    *_, j, k = places

    def total(x: Any, y: Any) -> Any:
        result = function(*[{j: x, k: y}.get(i, z) for i, z in enumerate(values)])
        assert set(dtypes_of(result)) <= {"f", "F"}
        return fnp.sum(fnp.real(result))

    array = np.full(() if function is nn.squared_error else 3, values[j], np.float32)
    try:
        slope, _ = fg.grad(total, (0, 1))(array, values[k])
    except fg.errors.DifferentiationError:
        return
    assert slope.dtype == np.float32
    batched, _ = fg.vmap(fg.grad(total, (0, 1)), in_axes=(0, None))(array, values[k])
    assert batched.dtype == np.float32


def dtypes_of(result: Any) -> list[str]:
    return [leaf.dtype.char for leaf in fg.tree.leaves(result)]


@pytest.mark.parametrize("name", CONTINUOUS + DISCRETE)
def test_integers_count_as_float64(name: str) -> None:
    distribution = getattr(stats, name)
    method = distribution.logpdf if name in CONTINUOUS else distribution.logpmf
    shapes = [1.0 for _ in distribution.shapes]
    for kind in (np.int8, np.int64, np.bool_):
        found = method(np.ones(2, kind), *shapes)
        assert found.dtype == np.float64
        assert np.array_equal(found, method(np.ones(2), *shapes))
        assert method(np.ones(2, np.float32), *[kind(1) for _ in shapes], loc=kind(0)).dtype == "d"


def test_arrays_of_several_precisions_are_taken_in_the_highest() -> None:
    x, scale = np.array([0.5, 1.5], np.float32), np.array([1.5, 0.3])
    exact = stats.norm.logpdf(x.astype(float), 0.0, scale)
    assert np.array_equal(stats.norm.logpdf(x, np.float32(0), scale), exact)
    assert stats.multivariate_normal.logpdf(x, None, np.eye(2, dtype=np.float32)).dtype == "f"
    assert stats.multivariate_normal.logpdf(x, None, 2.0).dtype == "f"
    assert stats.multivariate_normal(cov=2.0).logpdf(x).dtype == "f"
    assert stats.dirichlet.logpdf(np.array([0.5, 0.5], np.float32), [1.0, 2.0]).dtype == "d"
    assert special.logsumexp(x, b=2.0).dtype == "f"
    assert stats.norm.logpdf(0.5, 0, 2).dtype == "d"


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_complex_numbers_are_refused(name: str) -> None:
    distribution = getattr(stats, name)
    method = distribution.logpdf if name in CONTINUOUS else distribution.logpmf
    shapes = SHAPES.get(name, ((),))[0]
    for x in (1j, np.array([1j]), np.complex64(1j)):
        with pytest.raises(DtypeError, match=f"{name}.logp.f: takes real arguments, got complex"):
            method(x, *shapes)
        with pytest.raises(DtypeError, match="takes real arguments, got complex"):
            method(0.5, *shapes, loc=x)


IN_SINGLE = {"d": "f", "D": "F"}
OF_NUMBERS = {"dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"}
"""Functions that take no array: their matrices are those of float64."""


def single(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(single, x))
    return x.astype(IN_SINGLE.get(x.dtype.char, x.dtype)) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("name", sorted(set(linalg.__all__) - OF_NUMBERS))
def test_matrices_of_single_precision_keep_it(name: str) -> None:
    """Options that are Python numbers, such as tolerances and exponents, are among the calls."""
    for args, options in test_linalg_names.CALLS[name]:
        result = getattr(linalg, name)(*single(args), **options)
        assert not {"d", "D"} & set(dtypes(result)), (args, options)


def test_numbers_beside_matrices_do_not_widen() -> None:
    a, v = np.array([[4, 1], [1, 3]], np.float32), np.array([1, 2], np.float32)
    assert linalg.block_diag(1.0, a).dtype == linalg.block_diag(a, 2).dtype == np.float32
    for values in (*linalg.eigh(a), *linalg.eig(a), *linalg.eigh_tridiagonal(v, v[:1])):
        assert values.dtype.char in "fF"
    for basis in (linalg.orth(a, rcond=0.1), linalg.null_space(a, rcond=0.7), *linalg.svd(a)):
        assert basis.dtype == np.float32


@pytest.mark.parametrize("option", [{}, {"bounds": [(0.0, 2.5)] * 2}, {"args": (2.0,)}])
def test_minima_are_of_the_precision_of_the_start(option: dict[str, Any]) -> None:
    start = np.array([1, 2], np.float32)

    def loss(x: Any, centre: Any = 1.5) -> Any:
        return fnp.sum((x - centre) ** 2)

    found = optimize.minimize(loss, start, **option)
    assert found.x.dtype == np.float32
    if "args" not in option:
        assert optimize.least_squares(lambda x: x - 1.5, start).x.dtype == np.float32


def test_windows_and_losses_keep_single() -> None:
    x, key = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8), fg.random.key(0)
    kernel = np.ones((1, 1, 2), np.float32)
    results = [
        nn.adaptive_avg_pool(x, (2,)),
        nn.adaptive_max_pool(x, (2,)),
        nn.avg_pool(x, (2,), padding=1, count_include_pad=False),
        nn.conv(x, kernel, np.ones(1, np.float32)),
        nn.conv_transpose(x, kernel),
        nn.cross_entropy(x, x / 36),
        nn.cross_entropy(x[0, 0], 3),
        nn.log_softmax(x),
        nn.logsumexp(x),
        nn.max_pool(x, (2,), padding=1),
        nn.softmax(x),
        nn.one_hot([1], 3, np.float32),
        nn.glorot_normal(key, (2, 3), np.float32),
        nn.glorot_uniform(key, (2, 3), np.float32),
        nn.he_normal(key, (2, 3), np.float32),
        nn.he_uniform(key, (2, 3), np.float32),
        nn.ones(None, 2, np.float32),
        nn.zeros(None, 2, np.float32),
    ]
    assert [result.dtype for result in results] == [np.dtype(np.float32)] * len(results)
