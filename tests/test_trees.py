"""Pytrees: containers and leaves, round trips, paths, errors, prefixes, deep trees."""

import dataclasses
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad._core.pytrees as tree
from funcgrad._core.pytrees import Structure, broadcast_prefix, flatten_like, pytree, static_field
from funcgrad.errors import LeafError, TreeError
from tests.together import together


class Point(NamedTuple):
    x: Any
    y: Any


class Vector(NamedTuple):
    x: Any
    y: Any


@pytree
class Layer:
    weight: Any
    bias: Any
    activation: Any = static_field(default="relu")


@dataclasses.dataclass
class Changing:
    x: Any


class Pair:
    """A class with the protocol; its aux is a name."""

    def __init__(self, first: Any, second: Any, name: Any = "pair") -> None:
        self.first, self.second, self.name = first, second, name

    def __repr__(self) -> str:  # an address would name the test anew in every process
        return "Pair(...)"

    def __tree_flatten__(self) -> tuple[Iterator[Any], Any]:
        return iter((self.first, self.second)), self.name

    @classmethod
    def __tree_unflatten__(cls, aux: Any, children: Any) -> "Pair":
        first, second = children
        return cls(first, second, aux)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return 0


class AnswersEverything:
    def __getattr__(self, name: str) -> Any:
        return lambda: None


KEYS = st.text("abc", max_size=2)
NODES = st.integers() | st.none()


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(KEYS, children, max_size=3)
        | st.dictionaries(KEYS, children, max_size=3).map(OrderedDict)
        | st.builds(Point, children, children)
        | st.builds(Layer, children, children, st.sampled_from(["relu", "tanh"]))
        | st.builds(Pair, children, children, st.sampled_from(["p", "q"]))
    )


TREES = st.recursive(NODES, containers, max_leaves=12)


# ----------------------------------------------------------------------------- containers, leaves

EXAMPLES: tuple[tuple[Any, list[Any], str], ...] = (
    (1, [1], "*"),
    (None, [], "None"),
    ((), [], "()"),
    ([], [], "[]"),
    ({}, [], "{}"),
    ((1,), [1], "(*,)"),
    ((1, [2, None]), [1, 2], "(*, [*, None])"),
    ({"b": 1, "a": 2}, [2, 1], "{'a': *, 'b': *}"),
    ({2: "two", 1: "one"}, ["one", "two"], "{1: *, 2: *}"),
    ({"b": 1, 0: 2}, [1, 2], "{'b': *, 0: *}"),
    (OrderedDict(b=1, a=2), [1, 2], "OrderedDict('b': *, 'a': *)"),
    (Point(1, 2), [1, 2], "Point(x=*, y=*)"),
    (Layer(1, (2,)), [1, 2], "Layer(weight=*, bias=(*,), activation='relu')"),
    (Pair(1, 2), [1, 2], "Pair(*, *)"),
)


@together(("example", "leaves", "text"), EXAMPLES, ids=lambda value: str(value))
def test_containers(example: Any, leaves: list[Any], text: str) -> None:
    found, structure = tree.flatten(example)
    assert found == leaves
    assert repr(structure) == f"Structure({text})"
    assert structure.num_leaves == len(leaves)
    assert tree.leaves(example) == leaves
    assert tree.structure(example) == structure
    rebuilt = tree.unflatten(structure, found)
    assert type(rebuilt) is type(example)
    assert rebuilt == example


class MyList(list[Any]):
    pass


class MyTuple(tuple[Any, ...]):
    __slots__ = ()


LEAVES = (
    np.ones(3),
    np.float64(1),
    1.5,
    "text",
    b"bytes",
    {1, 2},
    len,
    int,
    Layer,
    Pair,
    Point,
    Changing(1),
    MyList([1]),
    MyTuple((1,)),
    AnswersEverything(),
)


@together("leaf", LEAVES, ids=lambda leaf: repr(leaf)[:20])
def test_everything_else_is_a_leaf(leaf: Any) -> None:
    found, structure = tree.flatten((leaf, leaf))
    assert found[0] is leaf
    assert found[1] is leaf
    assert structure == tree.structure((1, 2))


def test_is_leaf_stops_the_descent() -> None:
    def is_point(value: Any) -> bool:
        return isinstance(value, Point)

    example = [Point(1, 2), (3, Point(4, 5))]
    assert tree.leaves(example, is_leaf=is_point) == [Point(1, 2), 3, Point(4, 5)]
    assert tree.structure(example, is_leaf=is_point) == tree.structure([0, (0, 0)])
    assert tree.leaves(Point(1, 2), is_leaf=is_point) == [Point(1, 2)]
    assert tree.leaves((None, 1), is_leaf=lambda value: value is None) == [None, 1]
    swapped = tree.map(lambda p: p[::-1] if is_point(p) else p, example, is_leaf=is_point)
    assert swapped == [(2, 1), (3, (5, 4))]


def test_lists_are_not_shared() -> None:
    source = [1, [2]]
    copy = tree.map(lambda leaf: leaf, source)
    copy[1].append(3)
    assert source == [1, [2]]


# -------------------------------------------------------------------------------------- structures


def test_structure_is_an_immutable_value() -> None:
    structure = tree.structure({"a": (1, None)})
    assert structure == tree.structure({"a": (2, None)})
    assert hash(structure) == hash(tree.structure({"a": (2, None)}))
    with pytest.raises(dataclasses.FrozenInstanceError):
        structure.tokens = ()  # type: ignore[misc]


def test_structure_is_a_pytree_without_leaves() -> None:
    structure = tree.structure((1, 2))
    assert tree.leaves(structure) == []
    assert tree.map(str, (structure, 1)) == (structure, "1")


DIFFERENT: tuple[Any, ...] = (
    1,
    None,
    (),
    [],
    {},
    (1,),
    [1],
    (1, 2),
    (1, (2,)),
    ((1,), 2),
    (1, ()),
    ((), 1),
    {"a": 1},
    {"b": 1},
    OrderedDict(a=1),
    OrderedDict(a=1, b=2),
    OrderedDict(b=1, a=2),
    Point(1, 2),
    Vector(1, 2),
    Layer(1, 2),
    Layer(1, 2, "tanh"),
    Layer(1, 2, 1),
    Layer(1, 2, 1.0),
    Layer(1, 2, True),
    Pair(1, 2),
    Pair(1, 2, "other"),
)


def test_different_structures_differ() -> None:
    assert len({tree.structure(example) for example in DIFFERENT}) == len(DIFFERENT)


@given(st.dictionaries(KEYS | st.integers(), NODES), st.randoms())
def test_equal_dicts_have_equal_leaves_in_like(example: dict[Any, Any], random: Any) -> None:
    items = list(example.items())
    random.shuffle(items)
    shuffled = dict(items)
    assert flatten_like(tree.structure(example), shuffled) == tree.leaves(example)


@given(st.dictionaries(KEYS, TREES), st.randoms())
def test_equal_dicts_have_equal_structures(example: dict[str, Any], random: Any) -> None:
    items = list(example.items())
    random.shuffle(items)
    assert tree.flatten(dict(items)) == tree.flatten(example)


# -------------------------------------------------------------------------------------------- laws


@given(TREES)
def test_flatten_then_unflatten_is_identity(example: Any) -> None:
    leaves, structure = tree.flatten(example)
    assert tree.unflatten(structure, leaves) == example
    assert tree.flatten(tree.unflatten(structure, leaves)) == (leaves, structure)
    assert tree.unflatten(structure, iter(leaves)) == example
    assert flatten_like(structure, example) == leaves


@given(TREES)
def test_map_of_identity_is_identity(example: Any) -> None:
    assert tree.map(lambda leaf: leaf, example) == example


@given(TREES)
def test_map_of_composition_is_composition_of_maps(example: Any) -> None:
    def double(x: int) -> int:
        return 2 * x

    once = tree.map(lambda x: str(double(x)), example)
    assert tree.map(str, tree.map(double, example)) == once


@given(TREES)
def test_map_over_several_trees_meets_leaf_with_leaf(example: Any) -> None:
    doubled = tree.map(lambda x: 2 * x, example)
    assert tree.map(lambda x, y: y - x, example, doubled) == example


@given(TREES, TREES)
def test_transpose_twice_is_identity(outer: Any, inner: Any) -> None:
    above, below = tree.structure(outer), tree.structure(inner)
    count = above.num_leaves * below.num_leaves
    numbers = iter(range(count))
    example = tree.map(lambda _: tree.map(lambda _: next(numbers), inner), outer)
    turned = tree.transpose(above, below, example)
    if count:
        assert tree.structure(turned) == tree.structure(tree.map(lambda _: outer, inner))
    assert tree.leaves(tree.transpose(inner, outer, turned)) == list(range(count))
    assert tree.transpose(below, above, turned) == example


@given(TREES)
def test_paths_lead_to_the_leaves(example: Any) -> None:
    def follow(value: Any, step: str) -> Any:
        if isinstance(value, Pair):  # paths number the children of classes with the protocol
            value = (value.first, value.second)
        return eval(f"value{step}", {"value": value})

    for path, leaf in tree.leaves_with_path(example):
        value = example
        for step in path:
            value = follow(value, step)
        assert value is leaf


# --------------------------------------------------------------------------------------- functions


def test_map_hands_over_subtrees_below_the_leaves_of_the_first() -> None:
    assert tree.map(lambda n, xs: [n, *xs], (1, 2), ((3, 4), [5])) == ([1, 3, 4], [2, 5])
    assert tree.map(lambda x, y: (x, y), [1], [None]) == [(1, None)]


def test_map_takes_the_keys_of_the_first_dict() -> None:
    first, second = {"b": 1, 0: 2}, {0: 20, "b": 10}  # keys that do not sort
    assert tree.map(lambda x, y: x + y, first, second) == {"b": 11, 0: 22}


def test_reduce() -> None:
    example = {"a": [1, 2], "b": 3}
    assert tree.reduce(lambda x, y: x * 10 + y, example) == 123
    assert tree.reduce(lambda x, y: x * 10 + y, example, 4) == 4123
    assert tree.reduce(lambda x, y: [*x, y], example, initializer=[]) == [1, 2, 3]
    assert tree.reduce(lambda x, y: x, None, initializer=None) is None
    with pytest.raises(TypeError, match="no initial value"):
        tree.reduce(lambda x, y: x, (None, []))


def test_all() -> None:
    assert tree.all({"a": True, "b": [1]})
    assert not tree.all({"a": True, "b": [0]})
    assert tree.all(None)


def test_transpose_takes_examples() -> None:
    example = {"a": (1, 2, 3), "b": (4, 5, 6)}
    assert tree.transpose({"a": 0, "b": 0}, (0, 0, 0), example) == (
        {"a": 1, "b": 4},
        {"a": 2, "b": 5},
        {"a": 3, "b": 6},
    )
    assert tree.transpose((), [0, 0], ()) == [(), ()]


def test_paths() -> None:
    example = {"layers": [Layer(1, Point(2, 3))], "pair": Pair(4, {5: 6})}
    assert tree.structure(example).paths() == (
        "['layers'][0].weight",
        "['layers'][0].bias.x",
        "['layers'][0].bias.y",
        "['pair'][0]",
        "['pair'][1][5]",
    )
    assert tree.structure(1).paths() == ("",)
    assert tree.structure((None, ((), [1]), {}, 2)).paths() == ("[1][1][0]", "[3]")
    assert tree.structure({"a": (1,)}).key_paths() == (("['a']", "[0]"),)
    assert tree.key_path_text(("['a']", "[0]"), "params") == "params['a'][0]"


def test_leaves_and_map_with_path() -> None:
    example = {"a": [1, Point(2, None)]}
    assert tree.leaves_with_path(example) == [(("['a']", "[0]"), 1), (("['a']", "[1]", ".x"), 2)]
    named = tree.map_with_path(lambda path, x, y: f"{tree.key_path_text(path)}={x}{y}", [1], ["b"])
    assert named == ["[0]=1b"]
    whole = tree.leaves_with_path(example, is_leaf=lambda value: isinstance(value, Point))
    assert whole[1] == (("['a']", "[1]"), Point(2, None))


# ---------------------------------------------------------------------------------------- mismatch

MISMATCHES: tuple[tuple[Any, Any, str], ...] = (
    ((1, 2), (1, 2, 3), "x: expected a tuple of 2, got a tuple of 3"),
    ((1, [2]), (1, (2,)), "x[1]: expected a list of 1, got a tuple of 1"),
    ((1, [2]), (1, 2.0), "x[1]: expected a list of 1, got a leaf of type float"),
    ([None], [3], "x[0]: expected None, got a leaf of type int"),
    (
        {"layers": [1, {"w": 1, "b": 2}]},
        {"layers": [1, (1, 2)]},
        "x['layers'][1]: expected a dict with keys ['b', 'w'], got a tuple of 2",
    ),
    (
        {"a": 1, "b": 2},
        {"a": 1, "c": 2},
        "x: expected a dict with keys ['a', 'b'], got a dict with keys ['a', 'c']",
    ),
    (
        (OrderedDict(a=1, b=2),),
        (OrderedDict(b=2, a=1),),
        "x[0]: expected an OrderedDict with keys ['a', 'b'], "
        "got an OrderedDict with keys ['b', 'a']",
    ),
    (Point(1, (2,)), Point(1, []), "x.y: expected a tuple of 1, got a list of 0"),
    (Point(1, 2), (1, 2), "x: expected Point(x=*, y=*), got a tuple of 2"),
    (
        [Layer(1, 2)],
        [Layer(1, 2, "tanh")],
        "x[0]: expected Layer(weight=*, bias=*, activation='relu'), "
        "got Layer(weight=*, bias=*, activation='tanh')",
    ),
    (
        Pair(1, 2, "p"),
        Pair(1, 2, "q"),
        "x: expected a Pair of 2 with aux 'p', got a Pair of 2 with aux 'q'",
    ),
    (Pair(1, [2]), Pair(1, None), "x[1]: expected a list of 1, got None"),
)


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


@together(("expected", "got", "message"), MISMATCHES)
def test_mismatch_says_where_and_what(expected: Any, got: Any, message: str) -> None:
    with pytest.raises(TreeError, match=exactly(message)):
        flatten_like(tree.structure(expected), got, "x")
    with pytest.raises(TreeError, match=exactly("rest[1]" + message[1:])):
        tree.map(lambda *leaves: None, expected, expected, got)
    with pytest.raises(TreeError, match=exactly("rest[0]" + message[1:])):
        tree.map_with_path(lambda *leaves: None, expected, got)


def test_flatten_like_goes_no_deeper_than_the_structure() -> None:
    structure = tree.structure({"a": 1, "b": [2]})
    with pytest.raises(TreeError, match=r"^tree\['a'\]: expected a leaf, got a tuple of 2$"):
        flatten_like(structure, {"a": (1, 2), "b": [2]})
    with pytest.raises(TreeError, match=r"^tree\['b'\]\[0\]: expected a leaf, got None$"):
        flatten_like(structure, {"a": 1, "b": [None]})


def test_transpose_of_another_structure() -> None:
    with pytest.raises(TreeError, match=r"^tree\[1\]: expected a list of 2, got a list of 1$"):
        tree.transpose((0, 0), [0, 0], ([1, 2], [3]))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_unflatten_wants_the_right_number_of_leaves(count: int) -> None:
    with pytest.raises(TreeError, match=rf"^the structure has 2 leaves, got {count}$"):
        tree.unflatten(tree.structure((1, 2)), range(count))


# ---------------------------------------------------------------------------------------- prefixes

PREFIXES: tuple[tuple[Any, Any, list[Any]], ...] = (
    (0, (1, [2, {"a": 3}]), [0, 0, 0]),
    (None, (1, [2, 3]), [None, None, None]),
    ((0, None), (1, [2, 3]), [0, None, None]),
    ((0, [1, None]), (1, [2, (3, 4)]), [0, 1, None, None]),
    ({"a": 0, "b": None}, {"b": 1, "a": (2, 3)}, [0, 0, None]),
    (Layer(0, None), Layer(1, (2, 3)), [0, None, None]),
    (0, (), []),
    (None, None, []),
    ((0, None), ((), None), []),
    ((0, 1), (None, 5), [1]),
    ((), (), []),
)


@together(("prefix", "full", "expected"), PREFIXES)
def test_prefix_gives_one_value_for_each_leaf(prefix: Any, full: Any, expected: Any) -> None:
    assert broadcast_prefix(prefix, full, "in_axes") == expected
    assert broadcast_prefix(prefix, tree.structure(full), "in_axes") == expected


@given(TREES)
def test_a_tree_is_a_prefix_of_itself(example: Any) -> None:
    numbered = tree.map(lambda _: "leaf", example)
    assert broadcast_prefix(numbered, example, "p") == tree.leaves(numbered)


def test_prefix_with_is_leaf() -> None:
    def is_point(value: Any) -> bool:
        return isinstance(value, Point)

    axes = (Point(0, 1), None)
    assert broadcast_prefix(axes, ([1, 2], 3), "axes", is_leaf=is_point) == [axes[0], axes[0], None]


PREFIX_ERRORS: tuple[tuple[Any, Any, str], ...] = (
    ((0, 0), (1, 2, 3), "in_axes: expected a tuple of 3, got a tuple of 2"),
    ([0, 0], (1, 2), "in_axes: expected a tuple of 2, got a list of 2"),
    ((0, (1, 2)), (1, 2), "in_axes[1]: expected a leaf, got a tuple of 2"),
    (
        (0, {"a": 0}),
        (1, {"b": 0}),
        "in_axes[1]: expected a dict with keys ['b'], got a dict with keys ['a']",
    ),
    (((0,),), (None,), "in_axes[0]: expected None, got a tuple of 1"),
)


@pytest.mark.parametrize(("prefix", "full", "message"), PREFIX_ERRORS)
def test_prefix_that_does_not_fit(prefix: Any, full: Any, message: str) -> None:
    with pytest.raises(TreeError, match=exactly(message)):
        broadcast_prefix(prefix, full, "in_axes")


# ------------------------------------------------------------------------------------- dataclasses


def test_pytree_makes_frozen_dataclasses() -> None:
    layer: Any = Layer(1, 2)
    assert repr(layer) == "Layer(weight=1, bias=2, activation='relu')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.bias = 3


def test_pytree_takes_options() -> None:
    @pytree(slots=True, kw_only=True)
    class Slotted:
        x: Any
        size: int = static_field(default=3, metadata={"unit": "m"})

    value = Slotted(x=1)
    assert not hasattr(value, "__dict__")
    assert dataclasses.fields(Slotted)[1].metadata == {"unit": "m", "static": True}
    assert tree.map(lambda x: x + 1, value) == Slotted(x=2)


def test_pytree_leaves_frozen_dataclasses_alone() -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: int

    assert pytree(Frozen) is Frozen
    assert tree.leaves(Frozen(1)) == [1]


def test_pytree_refuses_dataclasses_that_can_change() -> None:
    message = "^dataclass Changing is not frozen: use @pytree, not @dataclass$"
    with pytest.raises(TreeError, match=message):
        pytree(Changing)


def test_fields_are_inherited() -> None:
    @pytree(slots=True)
    class Base:
        x: Any
        name: str = static_field(default="base")

    @pytree(slots=True)
    class Derived(Base):
        y: Any = 5

    class Undecorated(Derived):
        pass

    assert tree.leaves(Derived(1)) == [1, 5]
    for kind in (Derived, Undecorated):
        value = kind([1, 2], "other", (3,))
        mapped = tree.map(lambda x: 10 * x, value)
        assert type(mapped) is kind
        assert mapped == kind([10, 20], "other", (30,))
        assert mapped.name == "other"


def test_unflatten_runs_no_checks() -> None:
    @pytree
    class Checked:
        x: Any
        total: Any = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            if not isinstance(self.x, int):
                raise TypeError("x is no int")
            object.__setattr__(self, "total", 2 * self.x)

    mapped = tree.map(str, Checked(1))
    assert (mapped.x, mapped.total) == ("1", "2")


def test_unflatten_calls_no_constructor() -> None:
    @pytree
    class Stubborn:
        x: Any

        def __new__(cls, *args: Any) -> "Stubborn":
            if args != (1,):
                raise AssertionError("called again")
            return super().__new__(cls)

        def __init__(self, x: Any) -> None:
            object.__setattr__(self, "x", x)

    assert tree.map(str, Stubborn(1)).x == "1"


def test_static_fields_are_structure() -> None:
    assert tree.leaves(Layer(1, 2)) == [1, 2]
    assert tree.structure(Layer(1, 2, "tanh")) != tree.structure(Layer(1, 2, "relu"))
    assert tree.map(str, Layer(1, 2, "tanh")) == Layer("1", "2", "tanh")


@pytest.mark.parametrize("kind", [Layer, Pair])
def test_static_parts_must_be_hashable(kind: Any) -> None:
    message = rf"^static parts of {kind.__name__} must be hashable: unhashable type: 'list'$"
    with pytest.raises(LeafError, match=message):
        tree.flatten(kind(1, 2, ["relu"]))


def test_namedtuple_keeps_its_class() -> None:
    class Positive(Point):
        __slots__ = ()

        def __new__(cls, x: Any, y: Any) -> "Positive":
            assert x > 0
            return super().__new__(cls, x, y)

    mapped = tree.map(lambda x: -x, Positive(1, 2))
    assert type(mapped) is Positive
    assert mapped == (-1, -2)


def test_protocol_wins_over_dataclass() -> None:
    @pytree
    class Wrapped:
        x: Any

        def __tree_flatten__(self) -> tuple[tuple[Any, ...], None]:
            return (self.x, self.x), None

    assert tree.leaves(Wrapped(1)) == [1, 1]


# ----------------------------------------------------------------------------------- deep, endless


def nested(depth: int) -> Any:
    value: Any = 1.0
    for level in range(depth):
        value = (value,) if level % 2 else [value]
    return value


def linked(length: int) -> Any:
    value: Any = None
    for number in range(length):
        value = (number, value)
    return value


@pytest.mark.parametrize("make", [nested, linked])
def test_deep_trees(make: Callable[[int], Any]) -> None:
    example = make(10_000)
    leaves, structure = tree.flatten(example)
    again = tree.map(lambda leaf, _: leaf, example, example)
    assert tree.flatten(again) == (leaves, structure)
    assert hash(structure) == hash(tree.structure(again))
    assert len(repr(structure)) > 20_000
    assert flatten_like(structure, again) == leaves
    assert broadcast_prefix(7, structure, "axes") == [7] * len(leaves)
    with pytest.raises(TreeError, match=r"^tree(\[\d\]){10000}: expected "):
        flatten_like(tree.structure(make(10_002)), example)


def test_path_in_a_deep_tree() -> None:
    (path,) = tree.structure(nested(10_000)).paths()
    assert path == "[0]" * 10_000


def test_a_container_inside_itself_is_refused() -> None:
    message = "^a container contains itself, but a pytree has to be finite$"
    endless: list[Any] = [1, 2]
    endless.append({"a": (3, endless)})
    with pytest.raises(TreeError, match=message):
        tree.flatten(endless)
    twice: list[Any] = []
    twice += [None, twice, twice]
    with pytest.raises(TreeError, match=message):
        tree.map(str, ({"deep": nested(3_000)}, twice))
    after_depth: list[Any] = [nested(1_500)]
    after_depth.append((after_depth,))
    with pytest.raises(TreeError, match=message):
        tree.leaves(after_depth)


def test_one_object_may_stand_in_many_places() -> None:
    shared = [1]
    example: Any = shared
    for _ in range(1_500):
        example = (shared, None, (), example)
    assert len(tree.leaves(example)) == 1_501


def test_structures_of_threads_are_equal() -> None:
    example = {"a": [Layer(1, 2)] * 10, "b": Pair(1, 2)}
    with ThreadPoolExecutor(4) as pool:
        found: list[tuple[list[Any], Structure]] = list(pool.map(tree.flatten, [example] * 50))
    assert found == [tree.flatten(example)] * 50
