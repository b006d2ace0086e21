"""`away_from_kinks` and `strategies.points`: points are smooth, and no draw is rejected."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.debug.kinks_met import kinks_met
from funcgrad.errors import ArgumentError, CheckError, LeafError
from funcgrad.testing import away_from_kinks, check_grads
from funcgrad.testing.strategies import Like, points
from tests.together import together

MARGIN = 1e-3


def least_distance(f, args):
    """How near the function's operations are to their kinks."""
    run = kinks_met(f, args)
    assert run.error is None
    zeros = [abs(np.asarray(x)) for met in run.met for x in met.zeros]
    ends = [np.asarray(x) for met in run.met for x in met.domain]
    return min([np.inf, *[x.min() for x in zeros + ends if x.size]])


def loop(x):
    return fg.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] + abs(x) + 1.0, c[1] * x), (x, x))[1]


def chosen(x):
    return fg.cond(x > 1.0, lambda: fnp.sqrt(x - 0.5), lambda: abs(x))


def python_branch(x):
    return fnp.log(x) if x > 2.0 else x * x


def running(x):
    return fg.scan(lambda c, k: (fnp.maximum(c, k), c), x, fnp.arange(3.0))[0]


def upper(x):
    return fnp.linalg.qr(x)[1]


def stairs(x):
    return fnp.floor(100 * x) + x


def logarithms(x):
    return fnp.log(fnp.log(fnp.log(x)))


def gated(x):
    return fg.nn.relu(x) * x


def rough(x):
    return fnp.sum(abs(x) * fnp.sqrt(x))


def interpolated(x):
    return fnp.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0])


def weighed(x):
    return fnp.histogram(x, [0.0, 0.5, 1.0], weights=x * x)[0]


FUNCTIONS = {
    "abs": (abs, (0.0,)),
    "a square root": (fnp.sqrt, (-1.0,)),
    "logarithms of logarithms": (logarithms, (0.5,)),
    "ties of max": (fnp.max, (np.ones((3, 2)),)),
    "sorted": (fnp.sort, (np.zeros(8),)),
    "median": (fnp.median, (np.ones(5),)),
    "a length": (fnp.linalg.norm, (np.zeros(3),)),
    "a complex length": (abs, (0j,)),
    "a complex logarithm": (fnp.log, (np.array([-1.0 + 0j, 0j]),)),
    "a jump": (stairs, (0.25,)),
    "remainders": (fnp.remainder, (4.0, 2.0)),
    "eigenvalues": (fnp.linalg.eigvalsh, (np.eye(3),)),
    "cholesky": (fnp.linalg.cholesky, (np.ones((3, 3)),)),
    "an inverse": (fnp.linalg.inv, (np.ones((2, 2)),)),
    "qr": (upper, (np.array([[0.0, 1.0], [1.0, 1.0]]),)),
    "a loop": (loop, (0.5,)),
    "a compiled loop": (fg.jit(loop), (0.0,)),
    "a branch": (chosen, (1.0,)),
    "a compiled branch": (fg.jit(chosen), (1.0,)),
    "a branch for each example": (fg.vmap(chosen), (np.array([0.0, 1.0, 3.0]),)),
    "a branch of Python's": (python_branch, (2.0,)),
    "a scan": (fg.jit(running), (1.0,)),
    "a gradient": (fg.grad(rough), (np.array([0.0, 1.0]),)),
    "interpolation": (interpolated, (np.array([0.0, 0.5, 1.0, 2.0]),)),
    "weights in bins": (weighed, (np.array([0.3, 0.5]),)),
    "a checkpoint": (fg.checkpoint(gated), (0.0,)),
}


@together("name", FUNCTIONS)
def test_points_are_smooth(name):
    f, args = FUNCTIONS[name]
    moved = away_from_kinks(f, *args)
    assert least_distance(f, moved) >= MARGIN
    assert away_from_kinks(f, *args)[0] == pytest.approx(moved[0], abs=0)
    check_grads(f, moved)


def test_points_that_are_smooth_stay():
    x = np.array([0.5, 1.25, 2.0])
    (same,) = away_from_kinks(lambda x: fnp.max(abs(x)), x)
    assert (same == x).all()


def test_a_wider_margin_is_kept():
    (x,) = away_from_kinks(abs, 0.0, margin=0.5)
    assert abs(x) >= 0.5


def test_steep_operations_are_further_away():
    (x,) = away_from_kinks(lambda x: abs(1e4 * x), 1e-6)
    assert abs(x) >= MARGIN  # and not only the operation's argument, 1e4 times as large


def test_numbers_that_a_function_takes_out_are_constants():
    (x,) = away_from_kinks(lambda x: abs(x) * (1.0 + float(x)), 0.0)
    assert abs(x) >= MARGIN


@dataclass(frozen=True)
class Model:
    weight: fg.Tensor
    count: int


def test_simple_numbers_are_where_the_function_is_finite():
    from funcgrad.scipy.special import voigt_profile  # infinite where 0.01499 is rounded to 0.01

    start = np.array([[-0.783], [3.458]]), -2.091009387663939, np.array([-0.962, 0.677, 1.427])
    point = away_from_kinks(lambda *args: voigt_profile(*args), *start)
    assert np.all(np.isfinite(voigt_profile(*point)))


def test_trees_keep_their_kinds():
    def f(model, options):
        return fnp.sum(abs(model.weight)) * model.count + options["rate"] + abs(options["shift"][0])

    model = fg.pytree(Model)(fg.tensor([0.0, 1.0], np.float32), 3)
    options = {"rate": 0.5, "shift": (0.0, True), "z": np.zeros(2)}
    moved, others = away_from_kinks(f, model, options)
    assert isinstance(moved.weight, fg.Tensor)
    assert moved.weight.dtype == np.float32
    assert moved.count == 3
    assert type(others["shift"][0]) is float
    assert others["shift"][1] is True
    assert isinstance(others["z"], np.ndarray)
    assert abs(moved.weight[0]) >= MARGIN


def test_zeros_of_dead_units_are_no_obstacle():
    def f(x):
        return fnp.max(fg.nn.relu(x[:2])) + fnp.sum(x * x)

    (x,) = away_from_kinks(f, np.array([-1.0, -2.0, 0.5]))
    check_grads(f, (x,))


def test_a_kink_everywhere_is_refused_by_line():
    with pytest.raises(ArgumentError, match=r"f_at_kink was found .* absolute at test_points\.py:"):
        away_from_kinks(f_at_kink, 1.0)


def f_at_kink(x):
    return abs(x - x)


def test_contradictory_domains_are_refused():
    with pytest.raises(ArgumentError, match=r"sqrt at .* away from the end of its domain"):
        away_from_kinks(lambda x: fnp.sqrt(x) + fnp.sqrt(-x), 1.0)


def test_an_error_of_the_function_is_its_own():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        away_from_kinks(f, 1.0)


@pytest.mark.parametrize(
    ("args", "options", "error", "text"),
    [
        ((1,), {}, ArgumentError, "no argument is real or complex"),
        ((1.0,), {"margin": 0.0}, ArgumentError, "margin has to be positive and finite, got 0.0"),
        ((1.0,), {"seed": -1}, ArgumentError, "seed has to be a non-negative integer"),
        (("text",), {}, LeafError, "x"),
    ],
)
def test_bad_input_is_refused(args, options, error, text):
    with pytest.raises(error, match=text):
        away_from_kinks(lambda x: x, *args, **options)


# ----------------------------------------------------------------------------------- strategies


def deep(count):
    def f(x):
        for k in range(count):
            y = fnp.sin(x) + 0.3 * k % 2
            x = (
                abs(y),
                fnp.maximum(x, y * 0.5),
                fnp.sqrt(y * y + 1e-2) - 0.1,
                fnp.clip(x, -1.0, 2.0) * 0.9 + 0.05 * y,
                fg.nn.relu(x) + 0.1 * y,
            )[k % 5]
        return x

    return f


@pytest.mark.parametrize("count", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_draws_take_few_runs_and_none_is_rejected(count):
    f, runs, drawn = deep(count), [], []

    def counted(x):
        runs.append(x)
        return f(x)

    # With all health checks, but the one of seconds, which depend on what else the machine does.
    @settings(max_examples=10, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(points(counted, Like((3,))))
    def test(args):
        drawn.append(len(runs))
        runs.clear()
        check_grads(f, args, order=1)

    test()
    assert len(drawn) >= 10
    assert max(drawn) <= 20  # however long the function is


def branches(x):
    if fg.jit(lambda x: fnp.sum(x))(x) > 30:
        return fg.cond(x[0] > x[1], lambda: fnp.sqrt(x), lambda: x * x)
    return abs(x)


@pytest.mark.slow
def test_branches_are_visited():
    seen = set()

    @settings(max_examples=40, database=None)
    @given(points(branches, Like((3,))))
    def test(args):
        x = np.asarray(args[0])
        seen.add((x.sum() > 30, x.sum() > 30 and x[0] > x[1]))
        check_grads(branches, args, order=1)

    test()
    assert seen == {(False, False), (True, False), (True, True)}


@fg.custom_jvp
def wrong(x):
    return fg.nn.relu(x) * x


wrong.defjvp(lambda primals, tangents: (wrong(*primals), fg.nn.relu(primals[0]) * tangents[0]))


def is_caught(args):
    try:
        check_grads(lambda x: fnp.sum(wrong(x)), args, order=1)
    except CheckError:
        return True
    return False


@pytest.mark.slow
def test_a_shrunk_example_is_a_counterexample():
    (x,) = find(points(lambda x: fnp.sum(wrong(x)), Like((2,))), is_caught)
    assert x.tolist() == [0.5, 1.25]
    assert is_caught((x,))


@pytest.mark.slow
def test_examples_are_where_draws_shrink_to():
    args = find(points(lambda x, n: abs(x) * n, 3.0, 2), lambda args: True)
    assert args == (3.0, 2)


def test_arrays_are_drawn_from_a_seed():
    @settings(max_examples=5, database=None)
    @given(points(fnp.sort, Like((50,))))
    def test(args):
        assert np.diff(np.sort(args[0])).min() >= MARGIN

    test()


def test_specs_without_a_shape_are_refused():
    with pytest.raises(ArgumentError, match="neither an example of an argument"):
        points(lambda x: x, object())
