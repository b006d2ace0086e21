"""`fg.tree` on parts of trees: choosing leaves, changing one place, sums over all of them."""

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import funcgrad as fg
from funcgrad import tree
from funcgrad._core import pytrees as trees
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FunctionError,
    ImmutableError,
    LeafError,
    ShapeError,
    TreeError,
)
from funcgrad.tree.path_texts import path_text
from tests.together import together

Pair = namedtuple("Pair", "first second")


@fg.pytree
class Dense:
    weight: Any
    bias: Any
    activation: str = fg.static_field(default="relu")


def model() -> dict[Any, Any]:
    layers = [Dense(fg.tensor([1.0 * i, 2.0]), fg.tensor(float(i))) for i in range(4)]
    return {"layers": layers, "head": Pair(fg.tensor([3.0]), (4.0, None)), 7: 5.0}


def same(first: Any, second: Any) -> bool:
    """Whether two trees are equal, with the very same leaves."""
    pairs = zip(trees.leaves(first), trees.leaves(second), strict=True)
    return trees.structure(first) == trees.structure(second) and all(x is y for x, y in pairs)


# ---------------------------------------------------------------------------- partition and combine

keys = st.text("ab.0", max_size=3)
pytrees = st.recursive(
    st.none() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Dense, inner, inner)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(keys, inner, max_size=2).map(OrderedDict)
    ),
    max_leaves=8,
)


@given(pytrees, st.data())
def test_combine_is_the_inverse_of_partition(whole, data):
    def where(path, leaf):
        return data.draw(st.booleans())

    chosen, others = tree.partition(whole, where)
    assert same(tree.combine(chosen, others), whole)
    assert same(tree.combine(others, chosen), whole)
    sizes = [trees.structure(part).num_leaves for part in (chosen, others, whole)]
    assert sizes[0] + sizes[1] == sizes[2]


@together(
    ("where", "paths"),
    [
        ("layers.[0-2].weight", ["layers.0.weight", "layers.1.weight", "layers.2.weight"]),
        ("*.bias", [f"layers.{i}.bias" for i in range(4)]),
        ("head", ["head.first", "head.second.0"]),
        ("head.second.?", ["head.second.0"]),
        ("7", ["7"]),
        (lambda path, leaf: path.startswith("head") and np.ndim(leaf) == 1, ["head.first"]),
    ],
)
def test_leaves_are_chosen_by_path(where, paths):
    chosen, others = tree.partition(model(), where)
    assert sorted(path_text(path) for path, _ in trees.leaves_with_path(chosen)) == sorted(paths)
    assert not set(paths) & {path_text(path) for path, _ in trees.leaves_with_path(others)}


def test_leaves_are_chosen_by_a_prefix_of_booleans():
    chosen, _ = tree.partition({"a": [1.0, 2.0], "b": 3.0}, {"a": True, "b": False})
    assert chosen == {"a": [1.0, 2.0], "b": None}
    assert tree.partition((1.0, 2.0), True) == ((1.0, 2.0), (None, None))


def test_a_model_of_booleans_is_no_predicate():
    """Models can be called, as predicates can."""
    layers = fg.nn.Sequential(fg.nn.Linear(fg.tensor([[1.0]]), fg.tensor([2.0])), fg.nn.relu)
    chosen, others = tree.partition(layers, tree.map(lambda leaf: leaf.ndim == 1, layers))
    assert [tree.count(half.layers[0].weight) for half in (chosen, others)] == [0, 1]
    assert [tree.count(half.layers[0].bias) for half in (chosen, others)] == [1, 0]


def test_nothing_is_computed_for_what_is_left_out():
    keys = fg.random.split(fg.random.key(0), 3)
    layers = fg.nn.Sequential(*[fg.nn.Linear.init(key, 3, 3) for key in keys])
    head, body = tree.partition(layers, "layers.2")

    def products(function, *args):
        program = fg.program(function)(*args)
        return sum(equation.operation.name == "matmul" for equation in program.equations)

    def loss(model):
        return (model(fg.numpy.ones((4, 3))) ** 2).sum()

    def loss_of_parts(head, body):
        return loss(tree.combine(head, body))

    assert products(loss, layers) == 3
    assert products(fg.grad(loss_of_parts), head, body) == 3 + 1
    assert products(fg.grad(loss), layers) == 3 + 5


def test_what_is_left_out_is_not_differentiated_nor_trained():
    chosen, others = tree.partition(model()["layers"], "*.weight")

    @fg.jit
    def loss(chosen):
        layers = tree.combine(chosen, others)
        return sum((layer.weight * layer.bias).sum() for layer in layers)

    slopes = fg.grad(loss)(chosen)
    assert [layer.bias for layer in slopes] == [None] * 4
    assert slopes[3].weight.tolist() == [3.0, 3.0]
    state = fg.optim.adam(0.1).init(chosen)
    assert trees.structure(state.mu) == trees.structure(chosen)
    rows = fg.vmap(lambda chosen: tree.combine(chosen, others)[0].weight * 2)(
        tree.stack([chosen, chosen])
    )
    assert rows.tolist() == [[0.0, 4.0]] * 2


def test_bad_choices():
    with pytest.raises(TreeError, match=r"Similar: [a-z0-9.]*bias, [a-z0-9.]*bias"):
        tree.partition(model(), "*.bais")
    with pytest.raises(TreeError, match=r"'layers\.0\.wieght' matches nothing.*layers\.0\.weight"):
        tree.partition(model(), "layers.0.wieght")
    with pytest.raises(TreeError, match="the tree is one leaf or empty"):
        tree.partition({}, "w")
    with pytest.raises(TreeError, match=r"partition: where.*expected"):
        tree.partition({"a": 1.0}, {"b": True})
    with pytest.raises(DtypeError, match="for a it gives 1"):
        tree.partition({"a": 1.0}, lambda path, leaf: 1)  # type: ignore[return-value]
    with pytest.raises(TreeError, match=r"trees\[0\]\['a'\]\[0\] and trees\[2\]\['a'\]\[0\]"):
        tree.combine({"a": (1.0,)}, {"a": (None,)}, {"a": (2.0,)})
    with pytest.raises(TreeError, match=r"combine: trees\[1\]: expected a tuple of 1"):
        tree.combine((None,), (2.0, 3.0))
    with pytest.raises(ArgumentError, match="one tree or more"):
        tree.combine()


def test_select_lists_leaves_or_subtrees():
    assert list(tree.select(model(), "layers.[01].*")) == [
        *("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias")
    ]
    assert list(tree.select(model(), "layers.*", kind=Dense)) == [f"layers.{i}" for i in range(4)]
    assert list(tree.select(model(), "*", kind=Pair)) == ["head"]
    with pytest.raises(TreeError, match=r"Similar: layers\.0"):
        tree.select(model(), "layer.0", kind=Dense)
    with pytest.raises(TreeError, match=r"'layers\.\*' matches no Pair\. .* at head"):
        tree.select(model(), "layers.*", kind=Pair)
    with pytest.raises(TreeError, match=r"matches no OrderedDict\. The tree has none"):
        tree.select(model(), "layers.*", kind=OrderedDict)
    with pytest.raises(FunctionError, match="kind has to be a class"):
        tree.select(model(), "*", kind=3)  # type: ignore[arg-type]


def test_shared_tensors_are_found():
    x = fg.tensor([1.0])
    tree.check_shared({"a": x, "b": fg.tensor([1.0]), "c": 2.0, "d": 2.0})
    with pytest.raises(TreeError, match=r"a and b\.1 are the same tensor"):
        tree.check_shared({"a": x, "b": (0.0, x)})


# ------------------------------------------------------------------------------------------- places


@together(
    "place",
    [
        lambda root: root.layers[-1].weight,
        lambda root: root["layers"][3]["weight"],
        lambda root: root.head.first,
        lambda root: root.head[1][0],
        lambda root: root[7],
        lambda root: root.head,
    ],
)
def test_one_place_changes_and_all_else_is_the_same_object(place):
    whole = model()
    changed = place(tree.at(whole)).set("new")
    assert place(tree.at(changed)).get() == "new"
    assert same(place(tree.at(changed)).set(place(tree.at(whole)).get()), whole)
    assert same(whole, whole)
    assert type(changed) is dict
    assert changed["layers"][-1].activation == "relu"


def test_places_are_computed_with():
    whole = model()
    assert tree.at(whole).layers[2].bias.add(1.0)["layers"][2].bias.item() == 3.0
    doubled = tree.at(whole).layers.multiply(2.0)["layers"]
    assert [layer.bias.item() for layer in doubled] == [0.0, 2.0, 4.0, 6.0]
    tripled = tree.at(whole).layers[0].add(whole["layers"][1])["layers"][0]
    assert tripled.weight.tolist() == [1.0, 4.0]
    reversed_layers = tree.at(whole).layers.apply(lambda layers: layers[::-1])["layers"]
    assert reversed_layers[0] is whole["layers"][3]
    assert tree.at(1.0).set(2.0) == 2.0
    slope = fg.grad(lambda w: tree.at({"w": w}).w.multiply(3.0)["w"])(2.0)
    assert slope.item() == 3.0


@together(
    ("place", "words"),
    [
        (lambda root: root.layer, r"'layer' matches nothing. Similar: layers"),
        (lambda root: root.layers[4], r"'layers\.4' matches nothing.*layers\.3"),
        (lambda root: root.layers[-5], r"'layers\.-5' matches nothing"),
        (lambda root: root.layers[0].wieght, r"Similar: layers\.0\.weight"),
        (lambda root: root.layers[0].weight.x, r"'layers\.0\.weight\.x' matches nothing"),
        (lambda root: root[-1], "'-1' matches nothing"),
        (lambda root: root.layers[0:2], "matches nothing"),
        (lambda root: root.layers[0].activation, r"activation' is static.*dataclasses\.replace"),
    ],
)
def test_places_that_are_not_there(place, words):
    for use in (lambda there: there.get(), lambda there: there.set(0.0)):
        with pytest.raises(TreeError, match=words):
            use(place(tree.at(model())))
    with pytest.raises(FunctionError, match="apply expects a function"):
        tree.at(model()).layers.apply(3.0)  # type: ignore[arg-type]


def test_places_are_not_used_as_what_they_name():
    place = tree.at(model()).layers[0]
    assert repr(place) == "at(dict).layers[0]"
    with pytest.raises(ImmutableError, match=r"\.bias\.set\(value\)"):
        place.bias = 3.0
    with pytest.raises(ImmutableError, match=r"\[0\]\.set\(value\)"):
        tree.at(model()).layers[0] = 3.0
    for use in (list, lambda place: 3.0 in place):
        with pytest.raises(TreeError, match="not a sequence"):
            use(place)
    assert tree.at({"_tree": 1.0, "_steps": 2.0})._tree.set(3.0)["_tree"] == 3.0
    with pytest.raises(LeafError, match=r"at: add: the value.*got 'x'"):
        place.add("x")
    with pytest.raises(LeafError, match=r"at: multiply: the place\['a'\].*got 'x'"):
        tree.at({"a": "x"}).multiply(2.0)
    with pytest.raises(TreeError, match="at: add: the value: expected"):
        place.add({"weight": 1.0})


# ------------------------------------------------------------------------------- numbers of a tree


def test_stack_and_unstack_are_inverses():
    layers = model()["layers"]
    stacked = tree.stack(layers)
    assert stacked.weight.shape == (4, 2)
    assert stacked.activation == "relu"
    for row, layer in zip(tree.unstack(stacked), layers, strict=True):
        assert_array_equal(row.weight, layer.weight)
    total, _ = fg.scan(lambda x, layer: (x + layer.weight.sum() * layer.bias, None), 0.0, stacked)
    assert total.item() == 0 + 3 + 8 + 15
    assert tree.unstack({}) == []
    with pytest.raises(ShapeError, match="unstack"):
        tree.unstack({"a": 1.0})
    with pytest.raises(TreeError, match=r"stack: trees\[1\].*expected"):
        tree.stack([{"a": 1.0}, {"b": 1.0}])
    with pytest.raises(
        ShapeError, match=r"trees\[0\]\['a'\] has shape \(\), and trees\[1\]\['a'\] \(2,\)"
    ):
        tree.stack([{"a": 1.0}, {"a": [1.0]} | {"a": np.ones(2)}])
    with pytest.raises(TreeError, match="a list of one tree or more"):
        tree.stack([])
    with pytest.raises(ShapeError, match="need one size"):
        tree.unstack({"a": np.ones(2), "b": 1.0})


def test_norm_and_vdot_are_those_of_the_vector():
    whole = {"a": fg.tensor([3.0, -1.0]), "b": (fg.tensor([[1.0 + 2.0j]]), 2)}
    vector = np.array([3.0, -1.0, 1.0 + 2.0j, 2])
    assert tree.norm(whole).item() == pytest.approx(np.linalg.norm(vector))
    assert tree.vdot(whole, whole).item() == pytest.approx(np.vdot(vector, vector))
    for dtype in ("float16", "float32", "float64", "complex64", "int64"):
        ones = {"a": np.ones(2, dtype), "b": np.ones((), dtype)}
        assert tree.vdot(ones, ones).dtype == dtype
        assert tree.vdot(ones, ones).item() == 3
    assert tree.vdot({}, {}).item() == 0.0
    assert tree.count(whole) == 4
    assert tree.norm({}).item() == 0.0
    zeros = {"a": fg.tensor([0.0, 0.0]), "b": fg.tensor(0.0)}
    assert [leaf.tolist() for leaf in trees.leaves(fg.grad(tree.norm)(zeros))] == [[0.0, 0.0], 0.0]
    assert tree.norm([fg.tensor([3e-200, 0.0]), 4e-200]).item() == pytest.approx(5e-200, rel=1e-14)
    with pytest.raises(ShapeError, match=r"vdot: x\[0\] has shape"):
        tree.vdot([np.ones(2)], [np.ones(3)])


def test_cast_changes_floating_leaves():
    whole = {"w": np.ones(2), "z": np.ones(1, "complex128"), "n": np.arange(2), "on": True}
    for wanted, dtypes in (("float32", "f F l ?"), ("float16", "e F l ?"), (float, "d D l ?")):
        half = tree.cast(whole, wanted)
        assert [half[name].dtype.char for name in ("w", "z", "n", "on")] == dtypes.split()
    for wrong in ("int64", "complex64", "nothing"):
        with pytest.raises(DtypeError, match=r"cast: .*dtype"):
            tree.cast(whole, wrong)
