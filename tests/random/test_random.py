"""Random numbers: equal for equal keys, and with the right distributions.

The seeds are fixed, so statistical bounds are checked once and for all.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import funcgrad as fg
from funcgrad import random
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.together import together

KEY = random.key(20)
FLOATS = ("float16", "float32", "float64")
SAMPLE = 20_000


def array(x):
    return np.asarray(x)


def passes_ks(numbers, cdf):
    """The test of Kolmogorov and Smirnov, which one seed in ten thousand fails."""
    return stats.kstest(array(numbers).ravel(), cdf).pvalue > 1e-4


# ----------------------------------------------------------------------------------------- the keys


def test_bits_are_the_published_cipher():
    # Known answers of the Random123 library for philox4x64-10: key 0, counter 0.
    words = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert array(random.bits(random.key(0), 4)).tolist() == words


def test_key_words_are_the_seed():
    assert array(random.key(7)).tolist() == [7, 0]
    assert array(random.key(2**128 - 1)).tolist() == [2**64 - 1] * 2
    assert random.key(0).dtype == np.uint64
    assert isinstance(random.key(0), fg.Tensor)


@pytest.mark.parametrize("seed", [np.int64(7), np.uint8(7), fg.tensor(7), np.array(7)])
def test_seeds_of_every_integer_type(seed):
    assert_array_equal(random.key(seed), random.key(7))


@together("seed", [0.5, 1.0, "1", None, True, 1j, [1.0], fg.tensor(1.0)])
def test_seed_that_is_no_integer(seed):
    with pytest.raises(DtypeError, match=r"key: seed has to be an integer from 0 to 2\*\*128 - 1"):
        random.key(seed)


@pytest.mark.parametrize("seed", [-1, 2**128, fg.tensor(-5)])
def test_seed_out_of_range(seed):
    with pytest.raises(ArgumentError, match="seed has to be an integer from 0"):
        random.key(seed)


def test_array_of_seeds_names_vmap():
    with pytest.raises(ShapeError, match="vmap"):
        random.key([1, 2])
    assert_array_equal(fg.vmap(random.key)(np.arange(3)), [[0, 0], [1, 0], [2, 0]])


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (0, DtypeError, r"Make a key with fg.random.key\(seed\)"),
        (np.zeros(2), DtypeError, "uint64 tensor of shape"),
        ("key", DtypeError, "is not a key"),
        (np.zeros(3, np.uint64), ShapeError, r"shape \(2,\), got \(3,\)"),
        (np.zeros((5, 2), np.uint64), ShapeError, "fg.vmap"),
    ],
)
def test_bad_keys(key, error, text):
    for draw in (random.split, random.bits, random.uniform, random.normal):
        with pytest.raises(error, match=text):
            draw(key)
    with pytest.raises(error, match=text):
        random.fold_in(key, 1)
    with pytest.raises(error, match=text):
        random.choice(key, 3, 0)


def test_split_keys_are_a_prefix_of_more_keys():
    assert_array_equal(random.split(KEY), random.split(KEY, 5)[:2])
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    assert_array_equal(random.split(KEY, (2, 3)).reshape(6, 2), random.split(KEY, 6))
    assert random.split(KEY, 0).shape == (0, 2)


def test_split_and_fold_in_never_repeat_a_key():
    keys = [KEY, *random.split(KEY, 300)]
    keys += [random.fold_in(KEY, i) for i in range(300)]
    keys += list(random.split(keys[1], 300))
    keys += [random.fold_in(random.key(21), i) for i in range(300)]
    assert len({tuple(key.tolist()) for key in keys}) == len(keys)


def test_streams_of_related_keys_are_independent():
    first, second = random.split(KEY)
    related = [KEY, first, second, random.fold_in(KEY, 0), random.fold_in(KEY, 1), random.key(21)]
    streams = np.stack([array(random.normal(key, 4000)) for key in related])
    correlation = np.corrcoef(streams) - np.eye(len(related))
    assert np.abs(correlation).max() < 4 / np.sqrt(4000)


def test_split_keys_are_uniform_bits():
    keys = array(random.split(KEY, 5000))
    ones = np.unpackbits(keys.view(np.uint8)).reshape(-1, 128).mean(0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(5000)


def test_fold_in_takes_the_whole_range():
    ends = [random.fold_in(KEY, n) for n in (0, 1, 2**63, 2**64 - 1)]
    assert len({tuple(key.tolist()) for key in ends}) == 4
    assert_array_equal(random.fold_in(KEY, np.uint64(2**64 - 1)), ends[-1])
    with pytest.raises(ArgumentError, match=r"fold_in: data .* got -1"):
        random.fold_in(KEY, -1)
    with pytest.raises(ArgumentError):
        random.fold_in(KEY, 2**64)
    with pytest.raises(DtypeError):
        random.fold_in(KEY, 1.0)


# ---------------------------------------------------------------------------------- golden numbers


def test_golden_numbers():
    """These numbers must never change: other numbers would break everybody's experiments."""
    key = random.key(42)
    assert random.bits(key, 2).tolist() == GOLDEN_BITS
    assert random.split(key).tolist() == GOLDEN_SPLIT
    assert random.fold_in(key, 7).tolist() == GOLDEN_FOLD
    assert random.randint(key, 6, 0, 100).tolist() == GOLDEN_INTEGERS
    assert random.permutation(key, 8).tolist() == GOLDEN_PERMUTATION
    for draw, golden in (
        (random.uniform, GOLDEN_UNIFORM),
        (random.normal, GOLDEN_NORMAL),
        (random.exponential, GOLDEN_EXPONENTIAL),
        (random.gumbel, GOLDEN_GUMBEL),
    ):
        assert [number.hex() for number in draw(key, 3).tolist()] == golden


GOLDEN_BITS = [12063030334536064454, 5501174070072956223]
GOLDEN_SPLIT = [
    [12115175272865716917, 8889983161625067480],
    [6530215108746645113, 11109035073600918846],
]
GOLDEN_FOLD = [8895230179516775655, 7106479750143753101]
GOLDEN_INTEGERS = [65, 91, 82, 86, 36, 19]
GOLDEN_PERMUTATION = [5, 1, 7, 0, 4, 6, 3, 2]
GOLDEN_UNIFORM = ["0x1.4ed0fc5a69913p-1", "0x1.316062ae59274p-2", "0x1.d415ba8461bbbp-1"]
GOLDEN_NORMAL = ["0x1.957a69ee805d1p-2", "-0x1.0f1e6efca98b6p-1", "0x1.5e04d4822776ep+0"]
GOLDEN_EXPONENTIAL = ["0x1.b2efaf5bb4855p-2", "0x1.35bdbba334180p+0", "0x1.6f4f092f9d049p-4"]
GOLDEN_GUMBEL = ["0x1.b669526658db6p-1", "-0x1.86440d433454bp-3", "0x1.34ae1c53cc093p+1"]


# --------------------------------------------------------------------------- shapes and precisions

DRAWS = {
    "uniform": random.uniform,
    "normal": random.normal,
    "exponential": random.exponential,
    "gumbel": random.gumbel,
    "truncated_normal": lambda key, shape, dtype: random.truncated_normal(key, -1, 2, shape, dtype),
}
each_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


@each_draw
@together("dtype", FLOATS)
@together("shape", [(), (3,), (2, 0), (2, 3)])
def test_shape_and_dtype(draw, dtype, shape):
    numbers = draw(KEY, shape, dtype)
    assert isinstance(numbers, fg.Tensor)
    assert numbers.shape == shape
    assert numbers.dtype == dtype


@each_draw
def test_numbers_do_not_depend_on_how_many_are_drawn(draw):
    flat = draw(KEY, 12, "float64")
    assert_array_equal(draw(KEY, (2, 3), "float64"), array(flat)[:6].reshape(2, 3))
    assert_array_equal(draw(KEY, (), "float64"), array(flat)[0])


@each_draw
def test_lower_precision_rounds_the_same_numbers(draw):
    exact = draw(KEY, 100, "float64")
    assert_allclose(draw(KEY, 100, "float32"), exact, rtol=1e-5, atol=1e-6)
    assert_allclose(draw(KEY, 100, "float16"), exact, rtol=1e-2, atol=1e-3)


@together("shape", [-1, (2, -3), 1.5, (2.0,), "3", None])
def test_bad_shapes(shape):
    with pytest.raises(ShapeError, match=r"uniform: (a shape is|the sizes of)"):
        random.uniform(KEY, shape)


@together("dtype", ["int64", "complex128", "bool", "longdouble", "U3", "nonsense"])
def test_bad_dtypes(dtype):
    with pytest.raises(DtypeError, match="uniform"):
        random.uniform(KEY, (), dtype)


# ----------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers(dtype):
    numbers = array(random.uniform(KEY, SAMPLE, dtype))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # A multiple of the spacing below 1 is one of float16's few numbers, and not continuous.
    blur = array(random.uniform(random.key(1), SAMPLE)) * np.finfo(dtype).eps / 2
    assert passes_ks(numbers + blur, "uniform")


def test_uniform_bounds():
    numbers = array(random.uniform(KEY, (SAMPLE, 2), minval=[-1.0, 5.0], maxval=[2.0, 5.5]))
    assert passes_ks(numbers[:, 0], stats.uniform(-1, 3).cdf)
    assert passes_ks(numbers[:, 1], stats.uniform(5, 0.5).cdf)
    with pytest.raises(ArgumentError, match=r"uniform: .* minval <= maxval"):
        random.uniform(KEY, minval=1.0, maxval=0.0)
    with pytest.raises(
        ShapeError, match=r"minval of shape \(2,\) does not broadcast to shape=\(\)"
    ):
        random.uniform(KEY, minval=[0.0, 1.0])


@together(
    ("draw", "cdf"),
    [
        (random.normal, stats.norm.cdf),
        (random.exponential, stats.expon.cdf),
        (random.gumbel, stats.gumbel_r.cdf),
    ],
)
@together("dtype", ["float32", "float64"])
def test_continuous_distributions(draw, cdf, dtype):
    assert passes_ks(draw(KEY, SAMPLE, dtype), cdf)


def test_location_and_scale():
    assert_allclose(
        random.normal(KEY, (3, 2), loc=[1.0, 2.0], scale=3.0),
        np.array([1.0, 2.0]) + 3 * array(random.normal(KEY, (3, 2))),
    )
    assert_allclose(random.exponential(KEY, 3, scale=2.0), 2 * random.exponential(KEY, 3))
    assert_allclose(random.gumbel(KEY, 3, loc=1.0), 1 + random.gumbel(KEY, 3))
    assert random.normal(KEY, 3, "float32", loc=np.float64(1)).dtype == np.float32
    for draw in (random.normal, random.exponential, random.gumbel):
        with pytest.raises(ArgumentError, match="scale >= 0"):
            draw(KEY, scale=-1.0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normal_numbers(dtype):
    numbers = random.normal(KEY, SAMPLE, dtype)
    assert numbers.dtype == dtype
    parts = array(numbers).view(np.finfo(dtype).dtype) * np.sqrt(2)
    assert passes_ks(parts, stats.norm.cdf)
    assert abs(np.corrcoef(parts.reshape(-1, 2).T)[0, 1]) < 4 / np.sqrt(SAMPLE)
    assert_allclose(np.mean(np.abs(array(numbers)) ** 2), 1, rtol=0.03)


@together(
    ("lower", "upper"),
    [
        (-1, 2),
        (-np.inf, 0.5),
        (2, np.inf),
        (8, 9),
        (-30, -29.5),
        (-np.inf, np.inf),
        (30, np.inf),
        (37.1, np.inf),
        (40, 40.05),
        (-np.inf, -60),
        (-80.03, -80),
    ],
)
def test_truncated_normal_numbers(lower, upper):
    numbers = array(random.truncated_normal(KEY, lower, upper, SAMPLE))
    assert numbers.min() >= lower
    assert numbers.max() <= upper
    assert np.isfinite(numbers).all()
    assert passes_ks(numbers, stats.truncnorm(lower, upper).cdf)
    with pytest.raises(ArgumentError, match="lower < upper"):
        random.truncated_normal(KEY, upper, lower)


# --------------------------------------------------------------------------------- transformations

BATCHED = {
    "bits": lambda key: random.bits(key, 3),
    "split": lambda key: random.split(key, 3),
    "fold_in": lambda key: random.fold_in(key, 3),
    "uniform": lambda key: random.uniform(key, (3,)),
    "normal": lambda key: random.normal(key, (2, 3)),
    "complex normal": lambda key: random.normal(key, 2, "complex64"),
    "truncated_normal": lambda key: random.truncated_normal(key, 1.0, 2.0, 3),
    "randint": lambda key: random.randint(key, 3, 0, 10),
    "bernoulli": lambda key: random.bernoulli(key, 0.5, 5),
    "permutation": lambda key: random.permutation(key, 5),
    "independent": lambda key: random.permutation(key, np.eye(4), 1, independent=True),
    "choice": lambda key: random.choice(key, np.arange(6.0), 3, p=np.arange(6.0)),
    "subset": lambda key: random.choice(key, 6, 3, replace=False),
    "categorical": lambda key: random.categorical(key, np.arange(4.0), shape=3),
}


@together("draw", BATCHED.values(), ids=BATCHED)
def test_vmap_over_keys_is_the_loop(draw):
    keys = random.split(KEY, 4)
    looped = np.stack([draw(key) for key in keys])
    assert_array_equal(fg.vmap(draw)(keys), looped)
    nested = fg.vmap(fg.vmap(draw))(keys.reshape(2, 2, 2))
    assert_array_equal(nested, looped.reshape(2, 2, *looped.shape[1:]))


def test_vmap_over_numbers_to_fold_in():
    keys = random.split(KEY, 3)
    table = fg.vmap(lambda i: fg.vmap(lambda key: random.fold_in(key, i))(keys))(np.arange(4))
    assert_array_equal(table, [[random.fold_in(key, i) for key in keys] for i in range(4)])


def test_vmap_over_parameters():
    low, high = np.array([0, 10, 20]), np.array([5, 11, 40])
    drawn = fg.vmap(lambda a, b: random.randint(KEY, 3, a, b))(low, high)
    assert_array_equal(
        drawn, [random.randint(KEY, 3, a, b) for a, b in zip(low, high, strict=True)]
    )
    p = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0]])
    for replace in (True, False):
        choose = lambda p, replace=replace: random.choice(KEY, 3, 2, replace, p)  # noqa: E731
        assert_array_equal(fg.vmap(choose)(p), [choose(row) for row in p])


def test_numbers_are_differentiable_in_their_parameters():
    u, z = random.uniform(KEY).item(), random.normal(KEY).item()
    low, high = fg.grad(lambda a, b: random.uniform(KEY, (), "float64", a, b), (0, 1))(1.0, 3.0)
    assert_allclose([low, high], [1 - u, u])
    loc, scale = fg.grad(lambda m, s: random.normal(KEY, loc=m, scale=s), (0, 1))(1.0, 3.0)
    assert_allclose([loc, scale], [1, z])


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 2.0), (1.0, 2.5), (-9.0, -8.0), (8.0, 9.0), (50.0, 50.03)]
)
def test_truncated_normal_is_differentiable_in_its_bounds(lower, upper):
    def draw(lower, upper):
        return random.truncated_normal(KEY, lower, upper)

    step = 1e-5
    gradient = fg.grad(draw, (0, 1))(lower, upper)
    differences = (
        (draw(lower + step, upper) - draw(lower - step, upper)) / (2 * step),
        (draw(lower, upper + step) - draw(lower, upper - step)) / (2 * step),
    )
    assert_allclose(gradient, differences, rtol=1e-5, atol=1e-9)


def test_truncated_normal_numbers_far_from_the_centre():
    # Solutions of erfc(z / sqrt(2)) = u erfc(lower / sqrt(2)), computed with 60 digits.
    exact = {
        37.5: [37.52842914814599488, 37.50267722553238941, 37.50050929830603664],
        1e3: [1000.00106725227717, 1000.000100470724681, 1000.000019112358823],
    }
    for lower, expected in exact.items():
        assert_allclose(random.truncated_normal(KEY, lower, np.inf, 3), expected, rtol=4e-16)
    for lower in (1e10, 1e300):
        assert_allclose(random.truncated_normal(KEY, lower, np.inf, 3), lower, rtol=1e-15)
        assert_allclose(random.truncated_normal(KEY, -np.inf, -lower, 3), -lower, rtol=1e-15)
    slopes = fg.vmap(fg.grad(lambda low: random.truncated_normal(KEY, low, np.inf)))
    assert_allclose(slopes(np.array([40.0, 1e10, 1e300])), 1.0, rtol=1e-2)
    staged = fg.jit(lambda low: random.truncated_normal(KEY, low, np.inf, 2))
    for low in (np.array([0.5, 50.0]), np.array([-1.0, 2.0])):
        eager = random.truncated_normal(KEY, low, np.inf, 2)
        assert array(staged(low)).tolist() == array(eager).tolist()


def test_chosen_elements_are_differentiable():
    x = np.arange(4.0)
    total = fg.grad(lambda x: random.choice(KEY, x, 6).sum())(x)
    assert_array_equal(total, np.bincount(array(random.choice(KEY, 4, 6)), minlength=4))
    assert_array_equal(fg.grad(lambda x: (random.permutation(KEY, x) * x).sum())(x).shape, (4,))


def test_drawing_leaves_no_trace():
    before = array(KEY).copy()
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002 - which must not be touched
    random.normal(KEY, 100)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002
    assert_array_equal(KEY, before)


def test_bounds_of_uniform_numbers_may_be_traced() -> None:
    lows = np.array([-1.0, 0.0, 0.5])
    drawn = fg.vmap(lambda low: random.uniform(random.key(0), (), minval=low, maxval=1.0))(lows)
    number = float(random.uniform(random.key(0)))
    assert_allclose(drawn, lows + number * (1.0 - lows), rtol=1e-15)
