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
from tests.together import together

Function = Callable[..., Any]
Call = tuple[str, Function, tuple[Any, ...]]

OF_SCIPYS_OWN = {"wofz"}
"""SciPy's values for float32 are complex128, without any Python number."""
OF_AXES = {"bernoulli", "bessel_jn", "logsumexp", "multigammaln", "softmax", "log_softmax"}
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


def special_calls() -> Iterator[Call]:
    for name in sorted(set(special.__all__) - OF_SCIPYS_OWN - OF_AXES):
        function = getattr(special, name)
        if inspect.isfunction(function):
            count = required(function)
            calls = [ORDERS.get(name, values[:count]) for values in ARGUMENTS]
            yield name, function, next(c for c in calls if works(function, c))


def works(function: Function, values: tuple[Any, ...]) -> bool:
    try:
        function(*values)
    except FuncgradError:
        return False
    return True


ROW = np.arange(1, 9, dtype=np.float32)
X, KEY, SINGLE = ROW.reshape(1, 1, 8), fg.random.key(0), np.float32
KERNEL, OFFSETS = np.ones((1, 1, 2), SINGLE), np.ones(1, SINGLE)
CELL = nn.RNNCell.init(KEY, 8, 2, dtype=SINGLE)
NORM = nn.BatchNorm.init(1, dtype=SINGLE)
HEADS = nn.MultiHeadAttention.init(KEY, 8, 2, dtype=SINGLE)

IN_SINGLE_PRECISION: dict[str, Callable[[], Any]] = {
    "Activation": lambda: nn.Activation(nn.relu)(X),
    "BatchNorm": lambda: NORM.train(X, NORM.init_state()),
    "BatchStatistics": lambda: NORM(X, nn.BatchStatistics(NORM.bias, NORM.scale)),
    "Conv": lambda: nn.Conv.init(KEY, 1, 2, (2,), dtype=SINGLE)(X),
    "ConvTranspose": lambda: nn.ConvTranspose.init(KEY, 1, 2, (2,), dtype=SINGLE)(X),
    "Dropout": lambda: nn.Dropout(0.5)(X, key=KEY),
    "Embedding": lambda: nn.Embedding.init(KEY, 3, 2, dtype=SINGLE)([0, 2]),
    "GRUCell": lambda: nn.run(nn.GRUCell.init(KEY, 8, 2, dtype=SINGLE), X),
    "GroupNorm": lambda: nn.GroupNorm.init(1, 1, dtype=SINGLE)(X),
    "KVCache": lambda: HEADS(X, cache=HEADS.cache(3, (1,)))[0],
    "LSTMCell": lambda: nn.run(nn.LSTMCell.init(KEY, 8, 2, dtype=SINGLE), X),
    "LayerNorm": lambda: nn.LayerNorm.init(8, dtype=SINGLE)(X),
    "Linear": lambda: nn.Linear.init(KEY, 8, 2, dtype=SINGLE)(X),
    "MLP": lambda: nn.MLP.init(KEY, (8, 3, 2), dtype=SINGLE)(X),
    "MultiHeadAttention": lambda: HEADS(X, causal=True, window=2),
    "RMSNorm": lambda: nn.RMSNorm.init(8, dtype=SINGLE)(X),
    "PReLU": lambda: nn.PReLU.init(1, dtype=SINGLE)(X),
    "TransformerBlock": lambda: nn.TransformerBlock.init(KEY, 8, 2, dtype=SINGLE)(X),
    "spectral_norm": lambda: nn.spectral_norm(X, ROW),
    "standardize": lambda: nn.standardize(X),
    "weight_norm": lambda: nn.weight_norm(X, ROW),
    "RNNCell": lambda: nn.run(CELL, X),
    "Residual": lambda: nn.Residual(nn.relu)(X),
    "Sequential": lambda: nn.Sequential(nn.relu, nn.Dropout(0.5))(X, key=KEY),
    "adaptive_avg_pool": lambda: nn.adaptive_avg_pool(X, (2,)),
    "adaptive_max_pool": lambda: nn.adaptive_max_pool(X, (2,)),
    "attention": lambda: nn.attention(X, X, X, bias=[[0.5]], scale=0.5),
    "avg_pool": lambda: nn.avg_pool(X, (2,), padding=1, count_include_pad=False),
    "bidirectional": lambda: nn.bidirectional(CELL, CELL, X),
    "conv": lambda: nn.conv(X, KERNEL, OFFSETS),
    "cosine_distance": lambda: nn.cosine_distance(X, 2 * X),
    "cosine_similarity": lambda: nn.cosine_similarity(X, X + 1),
    "dice_loss": lambda: nn.dice_loss(X / 9, X > 4, smooth=0.5),
    "kl_divergence": lambda: nn.kl_divergence(X, X / 36),
    "triplet_margin_loss": lambda: nn.triplet_margin_loss(X, X, ROW[None, None], margin=0.5),
    "conv_transpose": lambda: nn.conv_transpose(X, KERNEL),
    "build": lambda: nn.build(nn.dense(2), KEY, X),
    "cross_entropy": lambda: (nn.cross_entropy(X, X / 36), nn.cross_entropy(ROW, 3)),
    "dense": lambda: nn.build(nn.dense(2), KEY, X),
    "dropout": lambda: nn.dropout(X, 0.5, KEY),
    "glu": lambda: nn.glu(X),
    "group_norm": lambda: nn.group_norm(X, 1, OFFSETS),
    "layer_norm": lambda: nn.layer_norm(X, ROW, 1.0),
    "log_softmax": lambda: nn.log_softmax(X),
    "logmeanexp": lambda: nn.logmeanexp(X),
    "logsumexp": lambda: nn.logsumexp(X),
    "max_pool": lambda: nn.max_pool(X, (2,), padding=1),
    "one_hot": lambda: nn.one_hot([1], 3, SINGLE),
    "ctc_loss": lambda: nn.ctc_loss(X.reshape(4, 2), [1]),
    "ntxent": lambda: nn.ntxent(X.reshape(4, 2), [0, 0, 1, 1]),
    "softmax_focal_loss": lambda: nn.softmax_focal_loss(ROW, 3, gamma=1.5),
    "ones": lambda: nn.ones(None, 2, SINGLE),
    "recipe": lambda: nn.build(nn.recipe(nn.LayerNorm), KEY, X),
    "rms_norm": lambda: nn.rms_norm(X, 2.0),
    "rotary": lambda: nn.rotary(X, [3.0]),
    "run": lambda: nn.run(CELL, X, reverse=True),
    "sequential": lambda: nn.build(nn.sequential(nn.tanh, nn.dense(2)), KEY, X)(X),
    "sinusoidal_positions": lambda: nn.sinusoidal_positions(3, 4, dtype=SINGLE),
    "softmax": lambda: nn.softmax(X),
    "sparsemax": lambda: nn.sparsemax(X),
    "summary": lambda: np.ones(2, nn.summary(CELL).rows[0].dtype),
    "zeros": lambda: nn.zeros(None, 2, SINGLE),
    **{
        name: partial(getattr(nn, name), X, [0])
        for name in """segment_max segment_mean segment_min segment_prod segment_softmax
        segment_sum""".split()
    },
    **{
        name: partial(getattr(nn, name), KEY, (2, 3), SINGLE)
        for name in """glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform
        orthogonal truncated_normal variance_scaling""".split()
    },
}
"""By name, calls in single precision of what takes no number for an array: layers among them."""


OF_EQUAL_SHAPES = frozenset(
    getattr(nn, name)
    for name in """hinge_loss huber_loss log_cosh sigmoid_binary_cross_entropy sigmoid_focal_loss
    squared_error""".split()
)


def network_calls() -> Iterator[Call]:
    of_trees = {"from_torch", "to_torch"}
    for name in sorted(set(nn.__all__) - set(IN_SINGLE_PRECISION) - of_trees):
        function = getattr(nn, name)
        every = [p for p in inspect.signature(function).parameters.values() if p.kind in (0, 1)]
        values = ARGUMENTS[0][: len([p for p in every if type(p.default) is not bool])]
        yield f"nn.{name}", function, values


def distribution_calls() -> Iterator[Call]:
    for name in (*CONTINUOUS, *DISCRETE):
        distribution, shapes = getattr(stats, name), SHAPES.get(name, ((),))[0]
        place = (0.25, 1.5) if name in CONTINUOUS else (1,)
        methods = METHODS if name in CONTINUOUS else ("logpmf", "pmf", "cdf", "sf", "logsf")
        for method in methods:
            values = (0.5 if name in CONTINUOUS else 1, *shapes, *place)
            yield f"{name}.{method}", getattr(distribution, method), values
            if method in dir(distribution(*shapes)):
                bound = partial(frozen, distribution, method)
                yield f"{name}(...).{method}", bound, values
        for method in MOMENTS if name in CONTINUOUS else MOMENTS[:3]:
            values = (*shapes, *place)
            yield f"{name}.{method}", getattr(distribution, method), values


def frozen(distribution: Any, method: str, x: Any, *parameters: Any) -> Any:
    return getattr(distribution(*parameters), method)(x)


CALLS = [*special_calls(), *network_calls(), *distribution_calls()]


def dtypes(result: Any) -> list[str]:
    return [np.asarray(leaf).dtype.char for leaf in fg.tree.leaves(result)]


def test_calls_are_found() -> None:
    assert len(CALLS) > 400


@pytest.mark.slow
@pytest.mark.parametrize("low", [np.float32, np.float16])
@together(("name", "function", "values"), CALLS)
def test_python_numbers_do_not_widen(name: str, function: Function, values: Any, low: Any) -> None:
    expected = [function(*[low(x) if type(x) is float else x for x in values])]
    for k, value in enumerate(values):
        if type(value) is not float:
            continue  # a degree or a count; beside it the others are tried
        array = np.full(() if function in OF_EQUAL_SHAPES else 3, value, low)
        found = function(*values[:k], array, *values[k + 1 :])
        assert not WIDER[low] & set(dtypes(found)), (name, k, dtypes(found))
        assert dtypes(found) == dtypes(expected), (name, k)


@together(("name", "function", "values"), CALLS[::7])
def test_traced_python_numbers_do_not_widen_either(
    name: str, function: Function, values: Any
) -> None:
    places = [k for k, x in enumerate(values) if type(x) is float]
    if len(places) < 2:
        return
    *_, j, k = places

    def total(x: Any, y: Any) -> Any:
        result = function(*[{j: x, k: y}.get(i, z) for i, z in enumerate(values)])
        assert set(dtypes_of(result)) <= {"f", "F"}, name
        return fnp.sum(fnp.real(result))

    array = np.full(() if function in OF_EQUAL_SHAPES else 3, values[j], np.float32)
    try:
        slope, _ = fg.grad(total, (0, 1))(array, values[k])
    except fg.errors.DifferentiationError:
        return
    assert slope.dtype == np.float32
    batch = array if array.ndim else array[None]
    batched, _ = fg.vmap(fg.grad(total, (0, 1)), in_axes=(0, None))(batch, values[k])
    assert batched.dtype == np.float32


def dtypes_of(result: Any) -> list[str]:
    return [leaf.dtype.char for leaf in fg.tree.leaves(result)]


@together("name", CONTINUOUS + DISCRETE)
def test_integers_count_as_float64(name: str) -> None:
    distribution = getattr(stats, name)
    method = distribution.logpdf if name in CONTINUOUS else distribution.logpmf
    shapes = [1.0 for _ in distribution.shapes]
    for kind in (np.int8, np.int64, np.bool_):
        found = method(np.ones(2, kind), *shapes)
        assert found.dtype == np.float64
        assert np.array_equal(found, method(np.ones(2), *shapes), equal_nan=True)
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


@together("name", [*CONTINUOUS, *DISCRETE])
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


@together("name", sorted(set(linalg.__all__) - OF_NUMBERS))
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


@together("name", IN_SINGLE_PRECISION)
def test_layers_and_losses_keep_single(name: str) -> None:
    assert set(dtypes(IN_SINGLE_PRECISION[name]())) == {"f"}
