"""Generators as values, names in the place of numbers, and points that fill a cube evenly."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import qmc

import funcgrad as fg
from funcgrad import random
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.scripts import printed

KEY = random.key(3)


# ------------------------------------------------------------------------------------------- names


def test_names_make_the_same_keys_for_ever():
    golden = [7086700395455000281, 9156340244123960741]
    assert random.named(KEY, "dropout").tolist() == golden
    script = "from funcgrad import random; print(random.named(random.key(3), 'dropout').tolist())"
    # Another process hashes strings in another way.
    assert printed(script).strip() == str(golden)
    names = ["", "dropout", "Dropout", "größe", *map(str, range(20))]
    assert len({tuple(random.named(KEY, name).tolist()) for name in names}) == len(names)
    assert_array_equal(
        fg.vmap(lambda key: random.named(key, "x"))(random.split(KEY, 2)),
        [random.named(key, "x") for key in random.split(KEY, 2)],
    )


def test_name_that_is_no_string():
    with pytest.raises(
        ArgumentError, match=r"named: the name has to be a string, got 3\. .*fold_in"
    ):
        random.named(KEY, 3)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------- generators


def test_draws_have_keys_of_their_numbers():
    x, rng = random.generator(3).normal((3,))
    y, rng = rng.integers(5, 0, 100)
    z, rng = rng.gamma(2.0, (2,))
    assert_array_equal(x, random.normal(random.fold_in(KEY, 0), (3,)))
    assert_array_equal(y, random.randint(random.fold_in(KEY, 1), 5, 0, 100))
    assert_array_equal(z, random.gamma(random.fold_in(KEY, 2), 2.0, (2,)))
    assert rng.count.item() == 3
    assert_array_equal(random.generator(KEY).normal()[0], random.generator(3).normal()[0])


def test_a_generator_is_a_value():
    rng = random.generator(0)
    assert_array_equal(rng.normal(3)[0], rng.normal(3)[0])
    with pytest.raises(AttributeError):
        rng.count = 5  # type: ignore[misc, assignment]
    _, rng = rng.uniform()
    again = pickle.loads(pickle.dumps(rng))
    assert_array_equal(again.uniform(2)[0], rng.uniform(2)[0])
    keys, rng = rng.spawn(3)
    assert keys.shape == (3, 2)
    key, rng = rng.next_key()
    assert_array_equal(key, random.fold_in(random.key(0), 2))


def test_generators_in_loops_programs_and_batches():
    def walk(rng):
        def step(rng, _):
            x, rng = rng.normal()
            return rng, x

        return fg.scan(step, rng, None, length=4)

    rng, xs = walk(random.generator(3))
    staged, ys = fg.jit(walk)(random.generator(3))
    assert_array_equal(xs, [random.normal(random.fold_in(KEY, k)) for k in range(4)])
    assert_array_equal(ys, xs)
    assert rng.count.item() == staged.count.item() == 4
    many = fg.vmap(lambda key: random.generator(key).poisson(3.0, 2)[0])(random.split(KEY, 2))
    assert_array_equal(many[1], random.generator(random.split(KEY)[1]).poisson(3.0, 2)[0])


def test_methods_have_the_names_of_numpy():
    names = {name for name in dir(random.Generator) if name[0] != "_"}
    beyond = set("bernoulli categorical count gumbel key next_key truncated_normal".split())
    assert names - beyond - set(dir(np.random.Generator)) == set()
    for (
        name
    ) in "random standard_normal standard_exponential standard_cauchy laplace rayleigh".split():
        x, _ = getattr(random.generator(1), name)((2,))
        assert x.shape == (2,)
    with pytest.raises(TypeError, match="call it on a generator"):
        random.Generator.normal((3,))


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None])
def test_bad_seeds_of_generators(seed):
    with pytest.raises((ArgumentError, DtypeError)):
        random.generator(seed)
    with pytest.raises(ShapeError):
        random.generator(random.split(KEY, 3))


# ------------------------------------------------------------------------------------ even points

SEQUENCES = {"sobol": random.sobol, "halton": random.halton}
GOLDEN = {
    "sobol": [
        "0x1.8e250ac9962b6p-2",
        "0x1.3fe8f37c07a76p-2",
        "0x1.75ca4ee394070p-3",
        "0x1.c338abd66d9f3p-1",
    ],
    "halton": [
        "0x1.17d9538a5cac0p-7",
        "0x1.b7a0f162b7bd9p-1",
        "0x1.845f654e2972bp-1",
        "0x1.365e548c8becap-2",
    ],
}
each_sequence = pytest.mark.parametrize("name", SEQUENCES)


def test_sequences_themselves_are_scipys():
    assert_array_equal(random.sobol(None, 64, 128), qmc.Sobol(128, scramble=False).random(64))
    assert_allclose(
        random.halton(None, 64, 9), qmc.Halton(9, scramble=False).random(64), rtol=1e-15
    )


@each_sequence
def test_golden_points(name):
    """These numbers must never change: other numbers would break everybody's experiments."""
    points = SEQUENCES[name](random.key(42), 2, 2, start=5)
    assert [number.hex() for number in points.ravel().tolist()] == GOLDEN[name]


@each_sequence
def test_points_do_not_depend_on_how_they_are_drawn(name):
    draw = SEQUENCES[name]
    points = draw(KEY, 32, 3)
    assert_array_equal(draw(KEY, 12, 3, start=20), points[20:])
    assert_array_equal(fg.jit(lambda s: draw(KEY, 3, 3, start=s))(7), points[7:10])
    assert_array_equal(fg.vmap(lambda s: draw(KEY, 1, 3, start=s)[0])(np.arange(4)), points[:4])
    keys = random.split(KEY)
    batched = fg.vmap(lambda key: draw(key, 3, 2))(keys)
    assert_array_equal(batched, [draw(key, 3, 2) for key in keys])
    assert_allclose(draw(KEY, 32, 3, dtype="float16"), points, atol=1e-3)
    assert draw(KEY, 0, 3).shape == (0, 3)
    far = draw(KEY, 4, 2, start=2**53 - 4)
    assert 0 <= float(far.min()) <= float(far.max()) < 1


@each_sequence
def test_scrambled_points_are_even_and_random(name):
    draw = SEQUENCES[name]
    points = np.asarray(draw(KEY, 512, 5))
    assert qmc.discrepancy(points) < 0.2 * qmc.discrepancy(
        np.asarray(random.uniform(KEY, (512, 5)))
    )
    keys = random.split(KEY, 200)
    firsts = np.asarray(fg.vmap(lambda key: draw(key, 1, 2))(keys))[:, 0]
    assert_allclose(firsts.mean(0), 0.5, atol=0.08)
    assert abs(np.corrcoef(firsts.T)[0, 1]) < 0.2


def test_every_part_of_a_sobol_cube_has_one_point():
    points = np.asarray(random.sobol(KEY, 64, 2))
    for rows in (1, 2, 4, 8, 16, 32, 64):
        cells = np.floor(points * [rows, 64 // rows])
        assert len(set(map(tuple, cells))) == 64


@each_sequence
def test_bad_sequences(name):
    draw = SEQUENCES[name]
    for make, error, text in (
        (lambda: draw(KEY, 2, 0), ArgumentError, "dimension d has to be from 1 to"),
        (lambda: draw(KEY, 2, 5000), ArgumentError, "dimension d has to be from 1 to"),
        (lambda: draw(KEY, -2, 2), ShapeError, "must not be negative"),
        (lambda: draw(KEY, 2, 2, start=-1), ArgumentError, "indices of points have to be below"),
        (lambda: draw(KEY, 2, 2, start=0.5), DtypeError, "start has to be an integer"),
        (lambda: draw(KEY, 2, 2, dtype=int), DtypeError, "dtype has to be"),
        (lambda: draw(0, 2, 2), DtypeError, "fg.random.key"),
    ):
        with pytest.raises(error, match=text):
            make()
