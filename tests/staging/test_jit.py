"""Jitted functions return the function's results, never stale ones, in every mode of calling."""

import gc
import warnings
import weakref
from io import StringIO

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._staging.jit import JitWarning
from funcgrad.errors import ArgumentError, ShapeError
from tests.in_threads import in_threads

X = np.linspace(-1.0, 2.0, 6)


class Runs:
    """A counter of a function's runs, whose changes jit does not notice."""

    def __init__(self):
        self._marks = StringIO()

    def count(self):
        self._marks.write("|")

    @property
    def number(self):
        return len(self._marks.getvalue())


def counted(f):
    runs = Runs()

    def run(*args, **kwargs):
        runs.count()
        return f(*args, **kwargs)

    return run, runs


def loss(params, x):
    hidden = fnp.tanh(x[:, None] * params["w"] + params["b"])
    return fnp.mean(fnp.where(hidden > 0, hidden, 0.1 * hidden) ** 2)


PARAMS = {"w": np.array([0.5, -1.0, 2.0]), "b": np.zeros(3)}


def test_results_are_those_of_the_function_bit_for_bit():
    for f in (loss, fg.grad(loss), fg.value_and_grad(loss), fg.hessian(loss)):
        expected, found = f(PARAMS, X), fg.jit(f, backend="numpy")(PARAMS, X)
        assert fg.tree.structure(expected) == fg.tree.structure(found)
        for a, b in zip(fg.tree.leaves(expected), fg.tree.leaves(found), strict=True):
            assert a.dtype == b.dtype
            assert_array_equal(a, b)


def test_a_function_is_staged_once_for_each_kind_of_arguments():
    f, runs = counted(lambda x: x * 2)
    staged = fg.jit(f)
    for _ in range(3):
        staged(1.0)
        staged(X)
        staged(X.astype(np.float32))
        staged(X[:2])
    assert runs.number == 4


def test_transformations_compose_on_both_sides():
    f = fg.jit(lambda x: fnp.sin(x) * x**2)
    plain = lambda x: fnp.sin(x) * x**2  # noqa: E731
    assert_allclose(fg.grad(f)(0.7), fg.grad(plain)(0.7))
    assert_allclose(fg.vmap(f)(X), plain(X))
    assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(X), fg.vmap(fg.grad(plain))(X))
    assert_allclose(fg.jit(fg.jit(f))(0.7), plain(0.7))
    assert_allclose(fg.jvp(f, (0.7,), (1.0,))[1], fg.grad(plain)(0.7))
    total, plain_total = fg.jit(lambda x: fnp.sum(f(x))), lambda x: fnp.sum(plain(x))
    assert_allclose(fg.hessian(total)(X), fg.hessian(plain_total)(X))


def test_control_flow_takes_the_way_that_the_numbers_say():
    f, runs = counted(lambda x: -x if x < 0 else x)
    staged = fg.jit(f)
    for number in (3.0, -3.0, 5.0, -5.0, 0.0):
        assert float(staged(number)) == abs(number)
    assert runs.number == 2


def test_loops_may_depend_on_numbers():
    def power(x, n):
        result = 1.0
        for _ in range(int(n)):
            result = result * x
        return result

    staged = fg.jit(fg.grad(power))
    for n in (1, 3, 2, 3):
        assert_allclose(staged(2.0, n), n * 2.0 ** (n - 1))
    halve = fg.jit(lambda x: _halved_below_one(x))
    for number in (8.0, 3.0, 0.5):
        assert float(halve(number)) == _halved_below_one(number)


def _halved_below_one(x):
    while x > 1:
        x = x / 2
    return x


def test_too_many_ways_warn_once_and_still_give_the_result():
    staged = fg.jit(lambda x: x * float(x))
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", JitWarning)
        for number in range(30):
            assert float(staged(float(number))) == number * number
    (warning,) = given
    assert "different paths" in str(warning.message)


SCALE = 2.0


def test_a_global_that_is_bound_anew_is_noticed():
    global SCALE
    staged = fg.jit(lambda x: x * SCALE)
    try:
        assert float(staged(3.0)) == 6.0
        SCALE = 5.0
        assert float(staged(3.0)) == 15.0
    finally:
        SCALE = 2.0


def test_changes_are_noticed_through_transformations():
    factor, array = 2.0, np.ones(2)
    f = lambda x: fnp.sum(factor * x * array)  # noqa: E731
    staged = [fg.jit(fg.grad(f)), fg.jit(fg.vmap(fg.grad(f))), fg.jit(fg.checkpoint(fg.jit(f)))]
    expected = [fg.grad(f), fg.vmap(fg.grad(f)), f]
    for change in (None, "factor", "array"):
        if change == "factor":
            factor = 5.0
        elif change == "array":
            array[0] = 3.0
        for g, plain, shape in zip(staged, expected, ((2,), (3, 2), (2,)), strict=True):
            assert_array_equal(g(np.ones(shape)), plain(np.ones(shape)))


def test_closed_over_names_lists_dicts_attributes_and_arrays_are_noticed():
    class Settings:
        offset = 1.0

    settings, weights, table, array = Settings(), [1.0], {"a": 1.0}, np.ones(2)
    factor = 1.0

    def inner(x):
        return x * weights[0] * table["a"]

    staged = fg.jit(lambda x: factor * inner(x) + settings.offset + array)
    assert_array_equal(staged(1.0), [3.0, 3.0])
    factor = 2.0
    assert_array_equal(staged(1.0), [4.0, 4.0])
    weights[0] = 3.0
    assert_array_equal(staged(1.0), [8.0, 8.0])
    table["a"] = 2.0
    assert_array_equal(staged(1.0), [14.0, 14.0])
    settings.offset = 0.0
    assert_array_equal(staged(1.0), [13.0, 13.0])
    array[1] = np.nan
    assert_array_equal(staged(1.0), [13.0, np.nan])


def test_what_does_not_change_is_not_staged_again():
    array = np.array([np.nan, 1.0])
    f, runs = counted(lambda x: x * array)
    staged = fg.jit(f)
    for _ in range(3):
        staged(1.0)
    assert runs.number == 1


def test_static_arguments_are_part_of_the_key():
    def f(x, n, *, mode="times"):
        return x * n if mode == "times" else x + n

    staged = fg.jit(f, static_argnums=1, static_argnames="mode")
    assert float(staged(3.0, 2)) == 6.0
    assert float(staged(3.0, 4)) == 12.0
    assert float(staged(3.0, 4, mode="plus")) == 7.0
    assert float(fg.jit(lambda f, x: f(x), static_argnums=0)(fnp.exp, 0.0)) == 1.0
    with pytest.raises(ArgumentError, match="cannot be hashed"):
        staged(3.0, [1])
    with pytest.raises(ArgumentError, match="no parameter 'missing'"):
        fg.jit(f, static_argnames="missing")


def test_an_error_reads_as_it_does_eagerly_and_leaves_nothing_behind():
    staged = fg.jit(lambda x, y: x + y)
    with pytest.raises(ShapeError, match=r"add\(float64\[2\], float64\[3\]\)"):
        staged(np.ones(2), np.ones(3))
    assert_array_equal(staged(np.ones(2), np.ones(2)), [2.0, 2.0])


def test_custom_rules_stay():
    @fg.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, ct: (ct.clip(-1.0, 1.0),))
    assert float(fg.jit(fg.grad(lambda x: 5.0 * clipped(x)))(2.0)) == 1.0
    assert float(fg.grad(fg.jit(lambda x: 5.0 * clipped(x)))(2.0)) == 1.0


def test_random_numbers_depend_on_the_key_and_not_on_the_call():
    draw = fg.jit(lambda key: fg.random.normal(key, (3,)))
    for seed in (0, 1):
        key = fg.random.key(seed)
        assert_array_equal(draw(key), fg.random.normal(key, (3,)))


def test_many_threads_share_one_function():
    f = fg.jit(fg.value_and_grad(lambda x: fnp.sum(fnp.sin(x) ** 2) if x[0] > 0 else fnp.sum(x)))
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(100):
            x = rng.standard_normal(4)
            _, gradient = f(x)
            good = x[0] > 0
            expected = np.sin(2 * x) if good else np.ones(4)
            if not np.allclose(gradient, expected):
                failures.append(x)

    in_threads(work)
    assert failures == []


def test_a_dropped_function_frees_its_programs_and_constants():
    gc.disable()
    try:
        big = np.ones(1000)
        staged = fg.jit(lambda x: fnp.sum(x * big))
        staged(2.0)
        staged(2.0)
        (signature,) = staged._signatures.values()
        witnesses = [weakref.ref(made) for made in (*signature.attempts, *staged._entries)]
        assert len(witnesses) == 2
        del signature, staged
        assert [witness() for witness in witnesses] == [None, None]
    finally:
        gc.enable()


def test_the_program_can_be_looked_at():
    lowered = fg.jit(fg.grad(lambda x: fnp.sum(x**2))).lower(X)
    assert "square" in str(lowered.program)
    assert len(lowered.optimized.equations) <= len(lowered.program.equations)


def test_a_function_may_close_over_a_value_that_is_being_traced():
    def outer(p):
        return fg.jit(lambda x: x * p)(2.0)

    assert float(fg.grad(outer)(3.0)) == 2.0
    assert_array_equal(fg.vmap(outer)(np.arange(3.0)), [0.0, 2.0, 4.0])


class Model:
    def __init__(self):
        self.weight = 2.0

    def apply(self, x):
        return x * self.weight


class Slotted:
    __slots__ = ("weight",)
    weight: float


def test_attributes_read_in_methods_are_noticed():
    model = Model()
    through, bound = fg.jit(lambda x: model.apply(x)), fg.jit(model.apply)
    assert float(through(1.0)) == float(bound(1.0)) == 2.0
    model.weight = 5.0
    assert float(through(1.0)) == float(bound(1.0)) == 5.0


def test_slots_sets_and_keys_are_noticed():
    slotted, table, numbers = Slotted(), {"a": 2.0}, {1.0}
    slotted.weight = 2.0
    staged = fg.jit(lambda x: x * slotted.weight + table.get("a", 7.0) + sum(numbers))
    assert float(staged(1.0)) == 5.0
    slotted.weight = 3.0
    assert float(staged(1.0)) == 6.0
    table["b"] = table.pop("a")
    assert float(staged(1.0)) == 11.0
    numbers.add(2.0)
    assert float(staged(1.0)) == 13.0


def test_a_method_that_is_replaced_is_noticed():
    class Local:
        def apply(self, x):
            return x

    instance = Local()
    staged = fg.jit(lambda x: instance.apply(x))
    assert float(staged(3.0)) == 3.0
    Local.apply = lambda self, x: -x  # type: ignore[method-assign]
    assert float(staged(3.0)) == -3.0


def test_what_the_rule_of_a_custom_derivative_reads_is_noticed():
    factor = [1.0]
    f = fg.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct * factor[0],))
    staged = fg.jit(fg.grad(lambda x: f(x)))
    assert float(staged(1.0)) == 1.0
    factor[0] = 4.0
    assert float(staged(1.0)) == 4.0


def test_more_than_can_be_watched_is_not_staged():
    many = [[float(k)] for k in range(20_000)]
    staged = fg.jit(lambda x: x * many[0][0])
    with pytest.warns(JitWarning, match="may read more"):
        assert float(staged(2.0)) == 0.0
    many[0][0] = 3.0
    assert float(staged(2.0)) == 6.0


def test_relaxed_programs_do_less() -> None:
    def f(x):
        return x * fnp.sin(x) + x * fnp.cos(x)

    x = np.arange(1.0, 5.0)
    exact, relaxed = fg.jit(f).lower(x), fg.jit(f, relaxed=True).lower(x)
    assert len(relaxed.optimized.equations) < len(exact.optimized.equations)
    np.testing.assert_allclose(fg.jit(f, relaxed=True)(x), f(x), rtol=1e-14)


def test_costs_of_what_runs_can_be_looked_at() -> None:
    found = fg.jit(lambda x: fnp.sum(fnp.exp(x) * x)).lower(np.ones(1000)).costs
    assert found.input_bytes == 8000
    assert "exp" in str(found)
