"""Reads from outside of a jitted function's arguments, in all the ways that Python has."""

import abc
import array
import collections
import contextvars
import ctypes
import enum
import functools
import operator
import os
import statistics
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._staging import capture
from funcgrad._staging.jit import JitWarning
from tests.staging.changes import Bag, check, sets

pytestmark = pytest.mark.filterwarnings("error::funcgrad._staging.jit.JitWarning")


@pytest.fixture(autouse=True, params=["expected to run", "observed"])
def followed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow the functions that names lead to, or, as if those were too many, those that run."""
    if request.param == "observed":
        monkeypatch.setattr(capture, "_MOST_FUNCTIONS", -1)


@pytest.fixture
def config(monkeypatch):
    module = types.ModuleType("some_config")
    module.scale, module.offset = 2.0, 1.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_config", module)
    return module


# Modules.


def test_modules_that_are_handed_on_are_watched(config):
    def through(module, x):
        return module.scale * x

    bag = Bag(module=config)

    def f(x):
        return through(config, x) + bag.module.offset

    check(f, sets(config, "scale", 3.0), sets(config, "offset", 5.0))


def test_modules_imported_inside_the_function_are_watched(config):
    def whole(x):
        import some_config  # type: ignore[import-not-found]

        return x * some_config.scale

    def part(x):
        from some_config import scale

        return x * scale

    check(whole, sets(config, "scale", 3.0))
    check(part, sets(config, "scale", 4.0))


def test_a_module_that_the_function_is_the_first_to_import_is_watched(tmp_path, monkeypatch):
    (tmp_path / "first_config.py").write_text("scale = 2.0")
    monkeypatch.syspath_prepend(tmp_path)

    @fg.jit
    def f(x):
        import first_config  # type: ignore[import-not-found]

        return x * first_config.scale

    try:
        assert float(f(1.0)) == float(f(1.0)) == 2.0
        sys.modules["first_config"].scale = 3.0  # type: ignore[attr-defined]
        assert float(f(1.0)) == 3.0
    finally:
        sys.modules.pop("first_config", None)


@pytest.mark.parametrize(
    "read",
    [
        lambda module: getattr(module, "sc" + "ale"),
        lambda module: vars(module)["scale"],
        lambda module: module.__dict__["scale"],
        lambda module: operator.attrgetter("scale")(module),
        lambda module: sys.modules["some_config"].scale,
    ],
)
def test_attributes_whose_names_are_computed_are_watched(config, read):
    check(lambda x: x * read(config), sets(config, "scale", 3.0))
    bag = Bag(scale=2.0)
    check(lambda x: x * (read(bag) if read(bag) is not None else 0.0), sets(bag, "scale", 3.0))


def test_a_module_with_the_name_of_one_of_the_standard_library_is_watched(monkeypatch, tmp_path):
    module = types.ModuleType("code")
    module.__file__ = str(tmp_path / "code.py")
    module.scale = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "code", module)
    check(lambda x: x * module.scale, sets(module, "scale", 3.0))


# Code without a file, and names in strings.


def test_names_in_strings_are_watched():
    for text in ("lambda x: x * globals()['S']", "lambda x: eval('x * S')"):
        space = {"S": 2.0}
        check(eval(text, space), lambda space=space: space.update(S=3.0))


def test_classes_made_by_exec_are_watched():
    space = {"S": 2.0}
    text = "class A:\n  k = 1.0\n  def __call__(self, x):\n    return x * self.k * self.q * S\n"
    exec(text + "a = A()\na.q = 2.0\nf = lambda x: a(x)", space)
    a: object = space["a"]
    check(space["f"], lambda: space.update(S=3.0), sets(a, "q", 5.0), sets(space["A"], "k", 7.0))


def test_a_global_that_is_bound_for_the_first_time_is_noticed():
    space: dict = {}
    exec(
        "def f(x):\n    try:\n        return x * S\n    except NameError:\n        return x", space
    )
    check(space["f"], lambda: space.update(S=3.0), lambda: space.pop("S"))


# Objects and classes.


def test_objects_that_wrap_a_function_have_attributes_of_their_own():
    class Scaled:
        __wrapped__: Callable[..., Any]

        def __init__(self, f, scale):
            functools.update_wrapper(self, f)
            self.scale = scale

        def __call__(self, x):
            return self.__wrapped__(x) * self.scale

    scaled = Scaled(lambda x: x + 1, 2.0)
    check(
        lambda x: scaled(x),
        sets(scaled, "scale", 5.0),
        sets(scaled, "__wrapped__", lambda x: x - 3),
        sets(Scaled, "__call__", lambda self, x: x * 7),
    )


def test_attributes_of_a_jitted_function_are_watched():
    def f(x):
        return x * getattr(staged, "scale", 1.0)

    staged = fg.jit(f)
    check(f, sets(staged, "scale", 5.0), lambda: delattr(staged, "scale"), staged=staged)


def test_objects_that_answer_to_every_attribute_can_be_watched():
    class AttributeDict(dict):
        __getattr__ = dict.__getitem__

    class Delegating:
        def __init__(self):
            object.__setattr__(self, "inner", {"rate": 1.0})

        def __getattr__(self, name):
            return self.inner[name]

    settings: Any = AttributeDict(rate=1.0)
    delegating = Delegating()
    check(lambda x: x * settings.rate, lambda: settings.update(rate=3.0))
    check(lambda x: x * delegating.rate, lambda: delegating.inner.update(rate=3.0))


def test_metaclasses_are_watched():
    class Meta(type):
        scale = 2.0
        own: float

        @property
        def tripled(cls):
            return cls.own * 3

    class Made(metaclass=Meta):
        own = 1.0

    check(
        lambda x: x * Made.scale * Made.tripled,
        sets(Meta, "scale", 3.0),
        sets(Made, "own", 4.0),
        sets(Meta, "tripled", property(lambda cls: cls.own * 9)),
    )


def test_numbers_and_texts_of_classes_of_ones_own_are_watched():
    class Quantity(float):
        power = 1.0

    class Label(str):
        unit: float

    class Mode(enum.IntEnum):
        ONE = 1

        def apply(self, x):
            return x * self.value * factor[0]

    quantity, label, factor = Quantity(2.0), Label("a"), [1.0]
    label.unit = 1.0
    one = Mode.ONE
    check(
        lambda x: x * quantity * quantity.power * label.unit * one.apply(x),
        sets(Quantity, "power", 3.0),
        sets(label, "unit", 4.0),
        lambda: factor.__setitem__(0, 5.0),
    )


def test_abstract_classes_that_accept_another_are_noticed():
    class Base(abc.ABC):  # noqa: B024 - for register alone
        pass

    class Other:
        pass

    other = Other()
    check(lambda x: x * 2 if isinstance(other, Base) else x * 3, lambda: Base.register(Other))


def test_attributes_that_come_and_go_are_noticed():
    class Plain:
        usual = 2.0

    plain: Any = Plain()

    def f(x):
        try:
            return x * plain.late
        except AttributeError:
            return x * plain.usual

    check(
        f,
        sets(plain, "late", 3.0),
        lambda: delattr(plain, "late"),
        sets(plain, "usual", 4.0),
        sets(Plain, "late", 5.0),
    )


def test_what_makes_objects_inside_the_function_is_watched():
    factor = [2.0]

    class Layer:
        def __init__(self, weight):
            self.weight = weight * factor[0]

        @classmethod
        def make(cls):
            return cls(3.0)

    layer, makers = Layer(1.0), [Layer]
    for make in (
        lambda: Layer(3.0),
        lambda: makers[0](3.0),
        lambda: type(layer)(3.0),
        lambda: layer.__class__(3.0),
        layer.make,
    ):
        change = factor[0] + 1.0
        check(lambda x, make=make: x * make().weight, lambda c=change: factor.__setitem__(0, c))


def test_what_trees_and_aliases_of_functions_read_is_watched():
    @fg.pytree
    class Layer:
        weight: Any

    layer, bag, look = Layer(np.ones(2)), Bag(rate=1.0, count=1.0), getattr
    check(
        lambda x: fg.tree.map(lambda weight: weight * x, layer).weight,
        lambda: layer.weight.__setitem__(0, 5.0),
    )
    for name in ("rate", "count"):
        check(lambda x, name=name: x * look(bag, name), sets(bag, name, 3.0))


def test_patterns_read_attributes():
    class Point:
        x: float

    point = Point()
    point.x = 1.0

    def f(x):
        match point:
            case Point(x=1.0):
                return x
            case Point(x=2.0):
                return 5 * x
        return 7 * x

    check(f, sets(point, "x", 2.0), sets(point, "x", 3.0))


def test_methods_that_the_interpreter_calls_are_watched():
    class Sized:
        def __init__(self):
            self.items, self.scale = [1.0, 2.0], 2.0

        def __iter__(self):
            return iter(self.items)

        def __getitem__(self, key):
            return self.items[key] * self.scale

        def __array__(self, dtype=None, copy=None):
            return np.array(self.items) * self.scale

    sized = Sized()
    check(
        lambda x: x * sum(sized) + sized[0], sets(sized, "scale", 3.0), sets(sized, "items", [5.0])
    )
    check(lambda x: x * np.asarray(sized), sets(sized, "scale", 4.0))


# What libraries hold for users.


def test_holders_of_the_standard_library_are_watched():
    factor = [2.0]

    class Local:
        method = functools.partialmethod(lambda self, x, k: x * k * factor[0], k=3.0)

    listed, numbers = collections.UserList([1.0]), array.array("d", [1.0])
    number, raw, table = ctypes.c_double(2.0), bytearray(b"a"), {"a": 1.0}
    view, values, instance = memoryview(raw), table.values(), Local()
    named = operator.attrgetter("value")
    check(
        lambda x: (
            instance.method(x) * listed[0] * numbers[0] * named(number) * view[0] + sum(values)
        ),
        lambda: factor.__setitem__(0, 3.0),
        lambda: listed.__setitem__(0, 4.0),
        lambda: numbers.__setitem__(0, 5.0),
        sets(number, "value", 6.0),
        lambda: raw.__setitem__(0, 7),
        lambda: table.update(b=8.0),
    )


def test_context_variables_and_values_of_threads_are_watched():
    variable = contextvars.ContextVar("variable", default=2.0)
    values = threading.local()
    values.scale = 1.0
    f = lambda x: x * variable.get() * values.scale  # noqa: E731
    staged = fg.jit(f)
    check(f, lambda: variable.set(3.0), sets(values, "scale", 4.0), staged=staged)

    def elsewhere():
        values.scale = 5.0
        found.append(float(staged(1.0)))

    found: list[float] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [10.0]


def test_the_environment_is_watched(monkeypatch):
    monkeypatch.setenv("SOME_SCALE", "2")
    for read in (lambda: os.environ["SOME_SCALE"], lambda: os.getenv("SOME_SCALE", "1")):
        change = functools.partial(monkeypatch.setenv, "SOME_SCALE", "7")
        check(lambda x, read=read: x * float(read()), change)
        monkeypatch.setenv("SOME_SCALE", "2")


def test_weak_references_are_followed():
    bag = Bag(scale=2.0)
    reference: Any = weakref.ref(bag)
    proxy = weakref.proxy(bag)
    check(lambda x: x * reference().scale, sets(bag, "scale", 3.0))
    check(lambda x: x * proxy.scale, sets(bag, "scale", 4.0))


def test_masks_and_attributes_of_arrays_are_watched():
    class Named(np.ndarray):
        unit: float

    named = np.ones(2).view(Named)
    named.unit = 2.0
    masked: Any = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    check(
        lambda x: x * named.unit * float(masked.sum()),
        sets(named, "unit", 3.0),
        lambda: masked.__setitem__(0, 5.0),
        lambda: masked.mask.__setitem__(2, True),
    )


def _opened(h5py: Any, tmp_path: Any) -> Any:
    return h5py.File(tmp_path / "x.h5", "w").create_dataset("x", data=np.ones(2))


UNSEEN: dict[str, tuple[str, Callable[..., Any], Callable[[Any], Any]]] = {
    "DataFrame": ("pandas", lambda m, _: m.DataFrame({"a": np.ones(2)}), lambda t: t["a"].values),
    "Series": ("pandas", lambda m, _: m.Series(np.ones(2)), np.asarray),
    "Dataset": ("h5py", _opened, lambda t: t[:]),
    "Tensor": ("torch", lambda m, _: m.ones(2), np.asarray),
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_numbers_that_libraries_hold_are_read_once_with_a_warning(kind: str, tmp_path: Any) -> None:
    place, make, read = UNSEEN[kind]
    table = make(pytest.importorskip(place), tmp_path)
    bag = Bag(table=table)
    numbers = np.array(read(table))

    def of_bag(x: Any) -> Any:
        return read(bag.table) * x

    for f in (lambda x: read(table) * x, of_bag):
        with pytest.warns(JitWarning, match=rf"reads table, a {kind} of \w+, once"):
            fg.jit(f)(2.0)
    check(lambda x: x * fnp.sum(numbers), lambda: numbers.__setitem__(0, 5.0))  # which is watched


@pytest.mark.parametrize("kind", ["csr_array", "coo_array", "csc_matrix", "dia_array"])
def test_sparse_matrices_are_watched(kind: str) -> None:
    matrix = getattr(scipy.sparse, kind)(np.array([[1.0, 2.0], [0.0, 3.0]]))
    bag = Bag(matrix=matrix)
    change: Any = lambda: matrix.data.__setitem__(..., 7.0)  # noqa: E731
    for f in (lambda x: matrix.toarray() * x, lambda x: bag.matrix.toarray() * x):
        check(f, change, lambda: matrix.data.__imul__(2.0))


def test_a_program_keeps_rules_that_are_watched():
    factor = [1.0]
    rule = fg.custom_vjp(lambda x: x * 1.0)
    rule.defvjp(lambda x: (x, None), lambda _, ct: (ct * factor[0],))
    program = fg.program(rule)(1.0)
    check(fg.grad(lambda x: program(x)), lambda: factor.__setitem__(0, 5.0))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: statistics.NormalDist().samples(1)[0],  # from the generator of `random`
        lambda: scipy.stats.norm.rvs(),  # from that of `numpy.random`
        lambda: scipy.stats.uniform.rvs(size=1)[0],
    ],
)
def test_random_numbers_that_libraries_draw_are_noticed(
    draw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_all_threads", lambda: [None])  # libraries' threads draw nothing
    drawn = fg.jit(lambda x: x + draw())
    with pytest.warns(JitWarning, match="draws random numbers"):
        first = float(drawn(1.0))
    assert len({first, *[float(drawn(1.0)) for _ in range(3)]}) == 4
