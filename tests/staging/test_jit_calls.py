"""Calls of jitted functions, on every path through the code that reads their arguments."""

import gc
import pickle
import threading
import tracemalloc
import weakref
from collections import OrderedDict
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import MISS
from funcgrad.errors import ArgumentError, LeafError, ShapeError
from tests.in_threads import in_threads
from tests.together import together

X = np.linspace(-1.0, 2.0, 6)


class Pair(NamedTuple):
    first: object
    second: object


@fg.pytree
class Layer:
    weight: object
    bias: object
    kind: object = fg.static_field(default="linear")

    def __post_init__(self):
        assert not isinstance(self.weight, str)


@fg.pytree(slots=True)
class Slotted:
    value: object


class Custom:
    def __init__(self, value, note):
        self.value, self.note = value, note

    def __tree_flatten__(self):
        return (self.value,), self.note

    @classmethod
    def __tree_unflatten__(cls, aux, children):
        return cls(children[0], aux)

    def __eq__(self, other):
        return type(other) is Custom and self.note == other.note


def quick(f, *args, **kwargs):
    """The result of a call that an entry answers, as it answers later calls; fails if none does."""
    for _ in range(2):  # the first stages the function, the second writes the entry
        f(*args, **kwargs)
    for entry in f._entries:
        result = entry(args, kwargs)
        if result is not MISS:
            return result
    raise AssertionError("no entry fits")


# -------------------------------------------------------------------------------------------- trees


@together(
    "tree",
    [
        2.0,
        3,
        True,
        2j,
        np.float32(2.0),
        np.bool_(True),
        X,
        fg.tensor(X),
        fg.tensor(2.0),
        np.array(2.0),
        np.zeros((0, 3)),
        (),
        [],
        {},
        None,
        (1.0,),
        [1.0, (X, None)],
        {"b": X, "a": fg.tensor(X), "it's": [1.0]},
        Pair(1.0, {"x": X}),
        Layer(X, (fg.tensor(1.0),)),
        Layer(X, None, kind=("conv", 3)),
        Slotted([Slotted(X)]),
        Custom(X, "note"),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_every_tree_comes_out_as_it_went_in(tree):
    plain = lambda x: x  # noqa: E731
    staged = fg.jit(plain)
    first, second = staged(tree), quick(staged, tree)
    leaves, structure = fg.tree.flatten(tree)
    for result in (first, second):
        found, form = fg.tree.flatten(result)
        assert form == structure
        for leaf, given in zip(found, leaves, strict=True):
            assert type(leaf) is fg.Tensor
            assert leaf.dtype == fg.tensor(given).dtype
            assert_array_equal(leaf, given)
    by_name = fg.jit(lambda *, x: x)
    assert fg.tree.structure(quick(by_name, x=tree)) == structure


@pytest.mark.parametrize("tree", [OrderedDict(b=1.0, a=2.0), {1: 1.0, "a": 2.0}, {1: X, 2: X}])
def test_rare_trees_go_the_general_way(tree):
    staged = fg.jit(lambda x: x)
    for _ in range(2):
        assert fg.tree.structure(staged(tree)) == fg.tree.structure(tree)
    assert staged._entries == ()


def test_what_differs_a_little_is_told_apart():
    staged = fg.jit(lambda x: x)
    calls = [
        1.0, 1, True, np.float64(1.0), np.bool_(True), fg.tensor(1.0), np.ones(1), np.ones((1, 1)),
        np.ones(1, np.float32), fg.tensor(np.ones(1)), [1.0], (1.0,), [1.0, 1.0], {"a": 1.0},
        {"b": 1.0}, {"a": 1.0, "b": 1.0}, None, Pair(1.0, 1.0), Layer(1.0, 1.0),
        Layer(1.0, 1.0, kind=1), Layer(1.0, 1.0, kind=True), Custom(1.0, "a"), Custom(1.0, "b"),
    ]  # fmt: skip
    for _ in range(2):
        for tree in calls:
            found, structure = fg.tree.flatten(staged(tree))
            leaves, expected = fg.tree.flatten(tree)
            assert structure == expected
            assert [x.dtype for x in found] == [fg.tensor(x).dtype for x in leaves]
            assert [x.shape for x in found] == [fg.tensor(x).shape for x in leaves]
    # A tensor is of one kind with what is inside of it; everything else is a kind of its own.
    assert len(staged._signatures) == len(calls) - 2


def test_a_python_bool_is_weaker_than_one_of_numpys():
    staged = fg.jit(lambda x, y: fnp.maximum(x, y))
    y = np.array([1, 2], np.int8)
    for x in (True, np.bool_(True), 1, np.int64(1)):
        assert staged(x, y).dtype == fnp.maximum(x, y).dtype


def test_arrays_whose_dtype_is_another_object_are_the_same():
    array = pickle.loads(pickle.dumps(X))
    staged = fg.jit(lambda x: x * 2)
    staged(X)
    assert len(staged._signatures) == 1
    assert_array_equal(quick(staged, array), X * 2)
    assert len(staged._signatures) == 1


def test_wrong_arguments_raise_after_right_ones_as_before():
    staged = fg.jit(lambda x, y: x + y)
    staged(X, X)
    with pytest.raises(ShapeError, match="add"):
        staged(X, X[:2])
    with pytest.raises(LeafError, match=r"jit: y: .*static_argnums"):
        staged(X, "text")
    with pytest.raises(TypeError, match="argument"):
        staged(X)  # type: ignore[call-arg]
    assert_array_equal(staged(X, X), X + X)


def test_errors_name_the_argument_also_beside_static_ones():
    staged = fg.jit(lambda mode, x, y: x, static_argnums=0)
    with pytest.raises(LeafError, match="jit: y: "):
        staged("a", 1.0, "text")
    assert staged.lower("a", 1.0, 2.0).program.names == ("x", "y")


# ------------------------------------------------------------------------------------- immutability

VIEWS = {
    "itself": lambda x: x,
    "two": lambda x: (x, x),
    "reversed": lambda x: x[::-1],
    "reshaped": lambda x: x.reshape(2, 3),
    "real": lambda x: fnp.real(x),
    "broadcast": lambda x: fnp.broadcast_to(x, (2, 6)),
    "element": lambda x: x[0],
    "computed": lambda x: x + 1,
}


@together("name", VIEWS)
def test_results_do_not_change_when_an_argument_is_written_to(name):
    staged = fg.jit(VIEWS[name])
    spans = [X, np.asfortranarray(X), np.repeat(X, 2)[::2], X[::-1], np.append(X, 0.0)[:-1]]
    for given in spans:
        for _ in range(3):
            array = given.copy() if given.base is None else given
            if not array.flags.writeable:
                continue
            before = array.copy()
            results = fg.tree.leaves(staged(array))
            expected = [np.array(result) for result in results]
            array[...] = -7.0
            for result, old in zip(results, expected, strict=True):
                assert_array_equal(result, old)
            array[...] = before


def test_a_view_that_was_written_through_its_base_does_not_show():
    base = np.arange(4.0)
    view = base.view()
    view.flags.writeable = False
    staged = fg.jit(lambda x: x)
    for _ in range(3):
        result = staged(view)
        base[0] += 1.0
        assert float(result[0]) == base[0] - 1.0


def test_tensors_are_shared_and_arrays_are_not():
    x, y = fg.tensor(X), X.copy()
    for backend in ("numpy", "native"):
        staged = fg.jit(lambda x, y: (x, y), backend=backend)
        for _ in range(3):
            a, b = staged(x, y)
            assert np.shares_memory(a, x) or backend == "native"  # which copies what it returns
            assert not np.shares_memory(b, y)


def test_a_function_with_rules_of_its_own_is_given_arrays_of_its_own():
    kept: SimpleQueue = SimpleQueue()  # which is not watched, so that the function stays staged

    @fg.custom_vjp
    def keep(x):
        numbers = np.asarray(x)  # which no program can hold, so that it is called each time
        kept.put(x)
        return numbers * 2

    keep.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct,))
    staged = fg.jit(lambda x: keep(x))
    for _ in range(4):
        x = np.ones(2)
        staged(x)
        x[:] = 5.0
    given = [kept.get() for _ in range(kept.qsize())]
    assert len(given) > 4
    for tensor in given:
        assert_array_equal(tensor, [1.0, 1.0])


def test_an_array_is_added_up_as_it_is_eagerly_however_it_lies_in_memory():
    numbers = np.random.default_rng(0).standard_normal(20_001)
    for f in (lambda x: x @ x, lambda x: fnp.sum(x)):
        staged = fg.jit(f, backend="numpy")  # machine code adds up in an order of its own
        for x in (numbers[::2], numbers[::-2], numbers[:10_001]):
            for _ in range(2):
                assert_array_equal(staged(x), f(fg.tensor(x)))


# --------------------------------------------------------------------------------- NumPy's warnings


def test_numpys_warnings_are_off_unless_the_user_has_chosen():
    staged = fg.jit(lambda x: 1.0 / x)
    zero = np.zeros(2)
    for _ in range(3):
        assert_array_equal(staged(zero), [np.inf, np.inf])
    with np.errstate(divide="raise"):
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                staged(zero)
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        assert_array_equal(staged(zero), [np.inf, np.inf])
    before = np.geterr()
    staged(zero)
    assert np.geterr() == before


def test_the_modes_are_restored_after_an_error_and_a_guard():
    staged = fg.jit(lambda x: x if x > 0 else -x)
    before = np.geterr()
    for x in (1.0, -1.0, 1.0, -1.0):
        staged(x)
        assert np.geterr() == before


# --------------------------------------------------------------------------------- static arguments


def test_static_arguments_go_by_position_and_by_name():
    def f(x, mode, n=1):
        return x * n if mode == "times" else x + n

    for staged in (
        fg.jit(f, static_argnums=(1, 2)),
        fg.jit(f, static_argnames=("mode", "n")),
        fg.jit(f, static_argnums=1, static_argnames="n"),
    ):
        for _ in range(3):
            assert float(staged(3.0, "times", 2)) == 6.0
            assert float(staged(3.0, mode="times", n=2)) == 6.0
            assert float(staged(3.0, "plus", n=2)) == 5.0
            assert float(staged(3.0, "plus")) == 4.0
    assert float(quick(fg.jit(f, static_argnums=(-2, -1)), 3.0, "times", 2)) == 6.0


def test_static_arguments_that_are_equal_and_not_the_same_are_told_apart():
    staged = fg.jit(lambda x, n: x * n[0] if isinstance(n, tuple) else x * n, static_argnums=1)
    x = np.array([1, 2], np.int8)
    for _ in range(2):
        for n in (1, 1.0, True, (1,), (1.0,), 0.0, -0.0):
            expected = fnp.multiply(x, n[0] if isinstance(n, tuple) else n)
            assert staged(x, n).dtype == expected.dtype
    for n in (0.0, -0.0):
        assert np.signbit(np.asarray(staged(np.ones(1), n)))[0] == np.signbit(n)


def test_static_arguments_that_are_not_there_are_refused():
    with pytest.raises(ArgumentError, match="static_argnums=3, but f takes 2"):
        fg.jit(f_of_two, static_argnums=3)
    with pytest.raises(ArgumentError, match="no parameter 'z'"):
        fg.jit(f_of_two, static_argnames=("x", "z"))


def f_of_two(x, y):
    return x


f_of_two.__name__ = "f"


# ------------------------------------------------------------------------------------------ methods


class Model:
    def __init__(self, scale):
        self.scale = scale

    @partial(fg.jit, static_argnums=0)
    def apply(self, x):
        """Scale."""
        return x * self.scale

    @fg.jit
    def lost(self, x):
        return x

    @staticmethod
    @fg.jit
    def double(x):
        return x * 2


def test_a_jitted_function_is_a_method():
    one, two = Model(1.0), Model(2.0)
    for _ in range(3):
        assert float(one.apply(3.0)) == 3.0
        assert float(two.apply(3.0)) == 6.0
        assert float(Model.apply(two, 3.0)) == 6.0
        assert float(Model.double(3.0)) == float(one.double(3.0)) == 6.0
    two.scale = 5.0
    assert float(two.apply(3.0)) == 15.0
    assert "multiply" in str(Model.apply.lower(two, 3.0).optimized)
    with pytest.raises(LeafError, match=r"jit: self: .*static_argnums"):
        one.lost(1.0)


def test_a_method_of_a_pytree_takes_it_as_an_argument():
    @fg.pytree
    class Dense:
        weight: object

        @fg.jit
        def __call__(self, x):
            return x * self.weight

    for weight in (2.0, 3.0):
        assert float(Dense(weight)(3.0)) == 3.0 * weight
    assert float(fg.grad(lambda model: model(3.0))(Dense(2.0)).weight) == 3.0


def test_metadata_is_the_functions():
    assert Model.apply.__name__ == "apply"
    assert Model.apply.__doc__ == "Scale."
    assert Model.apply.__wrapped__.__qualname__ == "Model.apply"


# ------------------------------------------------------------------------------- memory and threads


def test_calls_leave_nothing_behind():
    f = fg.jit(lambda p, x: {k: v * x for k, v in p.items()} if x[0] > 0 else p)
    p, x = {"a": fg.tensor(X), "b": X.copy()}, X.copy()

    def call(number):
        for k in range(number):
            x[0] = (-1.0) ** k
            f(p, x)

    def growth():
        before = tracemalloc.get_traced_memory()[0]
        call(10_000)
        return tracemalloc.get_traced_memory()[0] - before

    call(10_000)  # in which code may be compiled better
    gc.collect()
    tracemalloc.start()
    try:
        call(100)
        # Once, something that earlier tests left may be freed, or begin to be.
        assert min(growth() for _ in range(3)) < 5_000
    finally:
        tracemalloc.stop()


def scaled_by(thing):
    return fg.jit(lambda x: x * thing.scale if x[0] > 0 else x)


def test_a_dropped_function_takes_everything_along():
    class Thing:
        scale = 2.0

    gc.disable()
    try:
        thing = Thing()
        staged = scaled_by(thing)
        staged(X)
        staged(-X)
        staged(fg.tensor(X))
        lowered = staged.lower(X)
        witness = weakref.ref(thing)
        del thing, staged, lowered
        assert witness() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_what_is_kept_is_bounded():
    staged = fg.jit(lambda x, n: x + n, static_argnums=1)
    for n in range(600):
        assert float(staged(1.0, n)) == 1.0 + n
    assert len(staged._signatures) <= 256
    assert len(staged._forms) <= 256
    assert len(staged._entries) <= 8
    assert float(staged(1.0, 0)) == 1.0


def test_threads_meet_at_the_first_call_and_later():
    f = fg.jit(lambda x: x * 2 if fnp.sum(x) > 0 else x - 1)
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x = rng.standard_normal(int(rng.integers(1, 5)))
            given = fg.tensor(x) if rng.random() < 0.5 else x
            expected = x * 2 if np.sum(x) > 0 else x - 1
            if not np.array_equal(f(given), expected):
                failures.append(x)

    in_threads(work)
    assert failures == []
    assert all(len(each.attempts) <= 2 for each in f._signatures.values())


def test_a_change_is_noticed_by_all_threads():
    box, barrier, failures = [1.0], threading.Barrier(4), []
    f = fg.jit(lambda x: x * box[0])

    def work(_):
        for number in range(20):
            if barrier.wait() == 0:
                box[0] = float(number)
            barrier.wait()
            # Twice: a variant that is replaced before any thread has run it again is warned of.
            if {float(f(1.0)), float(f(1.0))} != {number}:
                failures.append(number)

    in_threads(work, 4)
    assert failures == []
