"""Functions of neural networks: laws, dtypes, and exactness for extreme arguments.

Their values and derivatives are compared with mpmath's in ``tests/tools/digits``, and with other
libraries' in ``test_loss_parity.py``.
"""

from math import exp, expm1, inf, log, log1p, nan, sqrt

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import funcgrad as fg
from funcgrad import nn
from funcgrad._core import intrinsics
from funcgrad._primitives import special as primitives
from funcgrad.errors import ArgumentError, AxisError, DtypeError, ShapeError
from tests.together import together


def derivative(f, order=1):
    """The derivative of a function of one number, by reverse mode."""
    for _ in range(order):
        f = fg.grad(f)
    return f


def forward_derivative(f, order=1):
    def once(f):
        return lambda x: fg.jvp(f, (x,), (1.0,))[1]

    for _ in range(order):
        f = once(f)
    return f


# ------------------------------------------------------------------------------ elementwise

FUNCTIONS = {
    "relu": nn.relu,
    "leaky_relu": nn.leaky_relu,
    "elu": nn.elu,
    "sigmoid": nn.sigmoid,
    "log_sigmoid": nn.log_sigmoid,
    "softplus": nn.softplus,
    "silu": nn.silu,
    "gelu exact": lambda x: nn.gelu(x, approximate=False),
    "gelu": nn.gelu,
    "tanh": nn.tanh,
}
every_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


@every_function
@together("dtype", ["float16", "float32", "float64"])
def test_dtypes_are_kept(f, dtype):
    x = np.linspace(-4, 4, 9, dtype=dtype).reshape(3, 3)
    out = f(x)
    assert out.dtype == dtype
    assert out.shape == (3, 3)
    assert_allclose(out, f(x.astype(np.float64)), rtol=20 * np.finfo(dtype).eps, atol=1e-3)
    assert fg.grad(lambda x: f(x).sum())(fg.tensor(x)).dtype == dtype


@every_function
def test_integers_and_lists(f):
    assert_allclose(f([1, 2]), f([1.0, 2.0]))
    assert_allclose(f(2), f(2.0))
    assert f(np.zeros((0, 3))).shape == (0, 3)


@every_function
def test_complex_numbers_are_refused(f):
    if f is not nn.tanh:
        with pytest.raises(DtypeError, match="complex"):
            f(1j)


@every_function
def test_nan_stays(f):
    assert np.isnan(f(nan).item())
    assert np.isnan(f(fg.tensor([nan, 1.0]))[0].item())


# ------------------------------------------------------------------------- elementwise, at the ends

# Value, first and second derivative at minus and plus infinity.
ENDS = {
    "relu": ((0, 0, 0), (inf, 1, 0)),
    "leaky_relu": ((-inf, 0.01, 0), (inf, 1, 0)),
    "elu": ((-1, 0, 0), (inf, 1, 0)),
    "sigmoid": ((0, 0, 0), (1, 0, 0)),
    "log_sigmoid": ((-inf, 1, 0), (0, 0, 0)),
    "softplus": ((0, 0, 0), (inf, 1, 0)),
    "silu": ((0, 0, 0), (inf, 1, 0)),
    "gelu exact": ((0, 0, 0), (inf, 1, 0)),
    "gelu": ((0, 0, 0), (inf, 1, 0)),
    "tanh": ((-1, 0, 0), (1, 0, 0)),
}


@together("name", ENDS)
@together("dtype", ["float16", "float32", "float64"])
@together("mode", [derivative, forward_derivative])
def test_limits_at_infinity(name, dtype, mode):
    f = FUNCTIONS[name]
    for x, limits in zip((-inf, inf), ENDS[name], strict=True):
        x = np.dtype(dtype).type(x)
        for order, limit in enumerate(limits):
            assert_array_equal(mode(f, order)(fg.tensor(x)), np.dtype(dtype).type(limit))


@together("name", ENDS)
@together("x", [1e3, 1e5, 1e154, 1e300])
def test_large_arguments_are_at_their_limits(name, x):
    f = FUNCTIONS[name]
    for sign, (value, first, second) in zip((-1.0, 1.0), ENDS[name], strict=True):
        finite = value if np.isfinite(value) else first * sign * x
        assert_array_equal(f(sign * x), finite)
        assert_array_equal(derivative(f)(sign * x), first)
        assert_array_equal(derivative(f, 2)(sign * x), second)
        assert_array_equal(forward_derivative(f, 2)(sign * x), second)


@together("x", [-700.0, -100.0, -40.0, 40.0, 100.0, 700.0])
def test_tails_keep_their_digits(x):
    """Tails are exact where 1 - sigmoid(x) would have no correct digit."""
    tail = exp(-abs(x))
    assert_allclose(nn.sigmoid(-abs(x)), tail, rtol=1e-13)
    assert_allclose(derivative(nn.sigmoid)(x), tail, rtol=1e-13)
    assert_allclose(derivative(nn.sigmoid, 2)(x), -np.sign(x) * tail, rtol=1e-13)
    assert_allclose(nn.softplus(-abs(x)), tail, rtol=1e-13)
    assert_allclose(nn.log_sigmoid(abs(x)), -tail, rtol=1e-13)
    assert_allclose(derivative(nn.softplus, 2)(x), tail, rtol=1e-13)


def test_kinks_follow_the_convention():
    assert derivative(nn.relu)(0.0).item() == 0
    assert derivative(nn.leaky_relu)(0.0).item() == 0.01
    assert derivative(nn.elu)(0.0).item() == 1
    assert derivative(lambda x: nn.elu(x, 2.0))(0.0).item() == 2


def test_relu_selects():
    """``relu`` selects: an infinite derivative of an element that it drops does not become NaN."""

    def guarded(x):
        return nn.relu(x**0.5 - 1.0)

    assert_array_equal(fg.grad(guarded)(0.0), 0)
    assert_array_equal(nn.relu([-3, 2]), [0, 2])


def test_slopes_may_be_learned():
    assert_allclose(fg.grad(lambda slope: nn.leaky_relu(-3.0, slope))(0.1), -3)
    assert_allclose(fg.grad(lambda alpha: nn.elu(-3.0, alpha))(0.1), expm1(-3))


# ------------------------------------------------------------------------------------- softmax & co

logit_vectors = arrays(np.float64, st.integers(1, 6), elements=st.floats(-50, 50))


@given(logit_vectors, st.floats(-1e3, 1e3))
def test_softmax_laws(x, shift):
    assert_allclose(nn.softmax(x).sum(), 1, rtol=1e-14)
    assert_allclose(nn.softmax(x + shift), nn.softmax(x), rtol=1e-9)
    assert_allclose(np.exp(np.asarray(nn.log_softmax(x))), nn.softmax(x), rtol=1e-12)
    jacobian = np.asarray(fg.jacrev(nn.softmax)(fg.tensor(x)))
    p = np.asarray(nn.softmax(x))
    assert_allclose(jacobian, np.diag(p) - np.outer(p, p), atol=1e-14)
    assert_allclose(fg.jacfwd(nn.softmax)(fg.tensor(x)), jacobian, atol=1e-14)
    assert_allclose(fg.jacrev(nn.log_softmax)(fg.tensor(x)), np.eye(len(p)) - p, atol=1e-13)


@given(logit_vectors)
def test_second_derivative_of_logsumexp(x):
    p = np.asarray(nn.softmax(x))
    covariance = np.diag(p) - np.outer(p, p)
    loss = lambda x: -nn.log_softmax(x)[0]  # noqa: E731 - its Hessian is that of logsumexp
    assert_allclose(fg.hessian(loss)(fg.tensor(x)), covariance, atol=1e-13)
    assert_allclose(fg.jacrev(fg.jacfwd(loss))(fg.tensor(x)), covariance, atol=1e-13)


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax])
def test_axes_of_softmax(f):
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    ours = {nn.softmax: special.softmax, nn.log_softmax: special.log_softmax}[f]
    for axis in (0, 1, -1, (0, 2)):
        assert_allclose(f(x, axis), ours(x, axis), rtol=1e-12)
    assert_array_equal(fg.vmap(f)(x), f(x))
    assert f(np.zeros((0, 3))).shape == (0, 3)
    assert f(x.astype(np.float32)).dtype == np.float32
    assert_allclose(f([0, 0]), f([0.0, 0.0]))
    with pytest.raises(ShapeError, match=r"\(3, 0\) has no logits"):
        f(np.zeros((3, 0)))
    with pytest.raises(AxisError):
        f(x, 3)
    with pytest.raises(DtypeError, match="complex128"):
        f([1j])


EXTREME = {
    "masked": ([0.0, log(3.0), -inf], [0.25, 0.75, 0]),
    "large": ([1e300, 0.0, -1e300], [1, 0, 0]),
    "equal and large": ([1e300, 1e300], [0.5, 0.5]),
    "one infinite": ([inf, 0.0, -inf], [1, 0, 0]),
    "two infinite": ([inf, inf, 5.0], [0.5, 0.5, 0]),
    "all masked": ([-inf, -inf], [0.5, 0.5]),
    "far below": ([0.0, -1000.0], [1, 0]),
}


@together(("logits", "probabilities"), EXTREME.values(), ids=EXTREME)
@together("dtype", ["float32", "float64"])
def test_softmax_at_the_ends(logits, probabilities, dtype):
    logits = np.array(logits)
    with np.errstate(over="ignore"):
        x = fg.tensor(logits.astype(dtype))
    p = np.array(probabilities)
    close = 3 * np.finfo(dtype).eps
    assert_allclose(nn.softmax(x), p, rtol=close)
    assert_allclose(fg.jacrev(nn.softmax)(x), np.diag(p) - np.outer(p, p), atol=close)
    assert_allclose(fg.jacfwd(nn.softmax)(x), np.diag(p) - np.outer(p, p), atol=close)
    chosen = int(np.argmax(p))
    loss = lambda x: -nn.log_softmax(x)[chosen]  # noqa: E731
    assert_allclose(loss(x), -log(p[chosen]), atol=close)
    assert_allclose(fg.grad(loss)(x), p - np.eye(len(p))[chosen], atol=close)
    assert_allclose(fg.hessian(loss)(x), np.diag(p) - np.outer(p, p), atol=close)


def test_log_softmax_of_the_improbable():
    assert_array_equal(nn.log_softmax([0.0, -1e5, -inf]), [0, -1e5, -inf])
    # Large logits lose no digits to each other: -log(1 + e).
    assert_allclose(nn.log_softmax([1e8, 1e8 + 1])[0], -1 - log1p(exp(-1)), rtol=1e-14)


# ------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("labels", [0, [0.75, 0.25, 0.0]])
def test_masked_classes_cost_nothing(labels):
    x = fg.tensor([1.0, 2.0, -inf])
    short = labels if isinstance(labels, int) else labels[:2]
    loss = lambda x: nn.cross_entropy(x, labels)  # noqa: E731
    plain = lambda x: nn.cross_entropy(x, short)  # noqa: E731
    assert_allclose(loss(x), plain(x[:2]))
    assert_allclose(fg.grad(loss)(x), [*fg.grad(plain)(x[:2]).tolist(), 0])
    _, tangent = fg.jvp(loss, (x,), (fg.tensor([1.0, 0.0, 5.0]),))
    assert_allclose(tangent, fg.grad(plain)(x[:2])[0])
    hessian = np.zeros((3, 3))
    hessian[:2, :2] = fg.hessian(plain)(x[:2])
    assert_allclose(fg.hessian(loss)(x), hessian, atol=1e-15)


def test_the_right_class_masked_costs_infinity():
    assert_array_equal(nn.cross_entropy([0.0, -inf], 1), inf)
    assert_array_equal(fg.grad(lambda x: nn.cross_entropy(x, 1))(fg.tensor([0.0, -inf])), [1, -1])


def test_cross_entropy_in_vmap_is_the_loop():
    x = np.random.default_rng(2).normal(size=(5, 4))
    labels = np.array([0, 3, 1, 1, 2])
    assert_allclose(fg.vmap(nn.cross_entropy)(x, labels), nn.cross_entropy(x, labels), rtol=1e-14)
    hot = nn.one_hot(labels, 4)
    assert_allclose(fg.vmap(nn.cross_entropy)(x, hot), nn.cross_entropy(x, hot), rtol=1e-14)
    assert nn.cross_entropy(x.astype(np.float32), labels).dtype == np.float32
    assert nn.cross_entropy(x[:0], labels[:0]).shape == (0,)


@together(
    ("logits", "labels", "error", "text"),
    [
        ((2, 3), [0, 3], ArgumentError, "from 0 to 2, got labels from 0 to 3"),
        ((2, 3), [0, -1], ArgumentError, "got labels from -1 to 0"),
        (
            (2, 3),
            [0, 1, 2],
            ShapeError,
            r"labels of shape \(3,\) do not fit .* expected shape \(2,\)",
        ),
        (
            (2, 3),
            [[0, 1, 0], [1, 0, 0]],
            ShapeError,
            "One-hot labels have to be of a floating dtype",
        ),
        ((2, 3), [[0.5, 0.5]], ShapeError, r"probabilities of shape \(1, 2\)"),
        ((2, 3), [True, False], DtypeError, "labels have to be integers"),
        ((), 0, AxisError, "axis -1"),
        ((2, 0), [0, 0], ArgumentError, "from 0 to -1"),
    ],
)
def test_bad_labels(logits, labels, error, text):
    with pytest.raises(error, match=text):
        nn.cross_entropy(np.zeros(logits), labels)


def test_one_hot():
    assert_array_equal(nn.one_hot([2, 0, -1, 3], 3), [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert nn.one_hot([[1, 2]], 3, np.float32).dtype == np.float32
    assert nn.one_hot(np.zeros((2, 5), int), 3, axis=0).shape == (3, 2, 5)
    assert nn.one_hot(np.zeros((2, 5), int), 3, axis=-2).shape == (2, 3, 5)
    assert_array_equal(nn.one_hot([1, 0], 2, axis=0), [[0, 1], [1, 0]])
    assert_array_equal(nn.one_hot(1, 3, bool), [False, True, False])
    assert_array_equal(fg.vmap(lambda label: nn.one_hot(label, 3))(np.array([1, 2])), np.eye(3)[1:])
    with pytest.raises(DtypeError, match="integers"):
        nn.one_hot([1.0], 3)
    with pytest.raises(ArgumentError, match="at least 0"):
        nn.one_hot([1], -3)
    with pytest.raises(AxisError):
        nn.one_hot([1], 3, axis=2)


def test_squared_error():
    assert_allclose(nn.squared_error([1.0, 5.0], [3.0, 5.0]), [4, 0])
    assert_allclose(fg.grad(lambda x: nn.squared_error(x, 1.0))(3.0), 4)
    with pytest.raises(ShapeError, match=r"shape \(3, 1\) and the targets' shape \(3,\) differ"):
        nn.squared_error(np.zeros((3, 1)), np.zeros(3))


# ------------------------------------------------------------------------------------- initializers

KEY = fg.tensor([5, 0], "uint64")
VARIANCES = {
    nn.glorot_uniform: lambda inputs, outputs: 2 / (inputs + outputs),
    nn.glorot_normal: lambda inputs, outputs: 2 / (inputs + outputs),
    nn.he_uniform: lambda inputs, outputs: 2 / inputs,
    nn.he_normal: lambda inputs, outputs: 2 / inputs,
}
every_initializer = pytest.mark.parametrize("initialize", VARIANCES)


@every_initializer
@together(("shape", "inputs", "outputs"), [((200, 50), 200, 50), ((3, 3, 20, 40), 180, 360)])
def test_variances(initialize, shape, inputs, outputs):
    kernel = np.asarray(initialize(KEY, shape))
    variance = VARIANCES[initialize](inputs, outputs)
    assert kernel.shape == shape
    assert_allclose(kernel.var(), variance, rtol=0.06)
    assert abs(kernel.mean()) < 4 * sqrt(variance / kernel.size)
    if "uniform" in initialize.__name__:
        assert np.abs(kernel).max() <= sqrt(3 * variance)


@every_initializer
def test_initializers_are_functions_of_the_key(initialize):
    assert_array_equal(initialize(KEY, (3, 4)), initialize(KEY, (3, 4)))
    other = fg.tensor([6, 0], "uint64")
    assert (initialize(KEY, (3, 4)) != initialize(other, (3, 4))).all()
    keys = np.array([[5, 0], [6, 0]], np.uint64)
    stacked = fg.vmap(lambda key: initialize(key, (3, 4)))(keys)
    assert_array_equal(stacked[1], initialize(other, (3, 4)))
    for dtype in ("float16", "float32", "float64"):
        assert initialize(KEY, (3, 4), dtype).dtype == dtype
    assert initialize(KEY, (0, 0)).shape == (0, 0)


@every_initializer
def test_bad_initializers(initialize):
    name = initialize.__name__
    with pytest.raises(ShapeError, match=rf"{name}: .*For a bias take zeros"):
        initialize(KEY, (3,))
    with pytest.raises(DtypeError, match=name):
        initialize(KEY, (3, 4), "int64")
    with pytest.raises(DtypeError, match=f"{name}: .*fg.random.key"):
        initialize(0, (3, 4))
    with pytest.raises(ShapeError, match=f"{name}: the sizes of .* must not be negative"):
        initialize(KEY, (3, -4))


def test_zeros_and_ones():
    assert_array_equal(nn.zeros(KEY, (2, 3)), np.zeros((2, 3)))
    assert_array_equal(nn.ones(None, 3, "float32"), np.ones(3))
    assert nn.ones(None, 3, "float32").dtype == np.float32


# --------------------------------------------------------------------------- the primitives beneath


def test_inverse_normal_distribution_at_the_ends():
    with np.errstate(invalid="ignore"):
        found = primitives.ndtri(np.array([-1.0, 0.0, 1.0, 2.0, nan]))
    assert_array_equal(found, [nan, -inf, inf, nan, nan])


@given(st.floats(5e-324, 1.7e308))
def test_exact_log_is_the_logarithm(x):
    found = primitives.exact_log(intrinsics, np.array([x]))[0]
    assert abs(found - log(x)) <= 4 * np.spacing(abs(log(x)))
