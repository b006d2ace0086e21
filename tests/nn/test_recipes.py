"""Recipes: sizes follow from shapes, no array is computed for them; summaries of models."""

from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

import funcgrad as fg
from funcgrad import nn
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError, TracerError
from tests.together import refused, together

KEY = fg.random.key(0)
THREE: Any = 3
TREE: Any = [nn.relu]


def shapes(model: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in fg.tree.leaves(model)]


def test_sizes_follow_from_what_goes_in():
    recipe = nn.sequential(
        nn.recipe(nn.Conv, 8, (3, 3), stride=2),
        nn.recipe(nn.BatchNorm),
        nn.relu,
        lambda x: nn.max_pool(x, (2, 2)),
        lambda x: x.reshape(x.shape[0], -1),
        nn.sequential(nn.dense(5), nn.Dropout(0.5)),
        nn.recipe(lambda key, spec: nn.Residual(nn.Linear.init(key, *2 * spec.shape[-1:]))),
        nn.dense(2, bias=False),
    )
    model = nn.build(recipe, KEY, (4, 3, 13, 13))
    conv, norm, inner, square, last = [(8, 3, 3, 3), (8,)], [(8,)] * 2, [(72, 5), (5,)], 5, (5, 2)
    assert shapes(model) == [*conv, *norm, *inner, (square, square), (square,), last]
    x = np.ones((4, 3, 13, 13))
    assert model.train(x, model.init_state(), key=KEY)[0].shape == (4, 2)
    assert_array_equal(fg.tree.leaves(model)[0], fg.tree.leaves(nn.build(recipe, KEY, x))[0])


@together(
    ("recipe", "shape", "first"),
    [
        (nn.dense(7), (5, 3), (3, 7)),
        (nn.recipe(nn.LayerNorm), (5, 3), (3,)),
        (nn.recipe(nn.RMSNorm), (5, 3), (3,)),
        (nn.recipe(nn.GroupNorm, 2), (5, 4, 3), (4,)),
        (nn.recipe(nn.BatchNorm, axis=-1), (5, 4, 3), (3,)),
        (nn.recipe(nn.ConvTranspose, 6, (2,)), (5, 4, 3), (4, 6, 2)),
        (nn.recipe(nn.GRUCell, 4), (5, 3), (3, 12)),
        (nn.recipe(nn.MultiHeadAttention, 2), (5, 4), (4, 4)),
        (nn.recipe(nn.Embedding, 9, 2), (5,), (9, 2)),
    ],
)
def test_every_layer_says_which_sizes_follow(recipe, shape, first):
    assert shapes(nn.build(recipe, KEY, shape))[0] == first
    single = nn.build(recipe, KEY, np.ones(shape, np.float32))
    assert {leaf.dtype for leaf in fg.tree.leaves(single)} == {np.dtype(np.float32)}


def test_nothing_is_computed_between_layers():
    """The input has 2**40 numbers, and a function in between adds them all."""
    recipe = nn.sequential(lambda x: x + x.sum(), nn.dense(2))
    assert shapes(nn.build(recipe, KEY, (2**38, 4))) == [(4, 2), (2,)]
    assert nn.summary(nn.Linear.init(KEY, 4, 2), (2**38, 4)).operations == 2**38 * 18


def test_keys_of_layers_differ():
    first, second = nn.build(nn.sequential(nn.dense(3), nn.dense(3)), KEY, (2, 3)).layers
    assert not np.array_equal(first.weight, second.weight)
    many = fg.vmap(lambda key: nn.build(nn.dense(2), key, (5, 3)))(fg.random.split(KEY, 4))
    assert shapes(many) == [(4, 3, 2), (4, 2)]


def test_a_summary_counts():
    model = nn.Sequential(nn.Linear.init(KEY, 3, 2), nn.tanh, nn.Linear.init(KEY, 2, 1, bias=False))
    found = nn.summary(model, (5, 3))
    assert [(row.path, row.count, row.operations) for row in found.rows] == [
        ("layers[0].weight", 6, 60),
        ("layers[0].bias", 2, 10),
        ("layers[2].weight", 2, 20),
    ]
    assert found.count == 10
    assert found.operations == 60 + 10 + 10 + 20
    assert nn.summary(model).operations is None
    lines = str(nn.summary(model)).splitlines()
    assert lines[0] == "Sequential: 10 numbers in 3 arrays"
    assert lines[2].split() == ["path", "shape", "dtype", "count", "operations"]
    conv = nn.summary(nn.Conv.init(KEY, 1, 2, (3,)), (4, 1, 8))
    assert conv.rows[0].operations is None
    assert "at least" in str(conv)
    assert "?" in str(conv)


test_mistakes_in_recipes_are_told = refused(
    [
        (lambda: nn.build(nn.dense(3), KEY), ArgumentError, "pass it behind the key"),
        (lambda: nn.build(nn.dense(3), KEY, ()), ShapeError, "axis -1 of its input"),
        (lambda: nn.build(THREE, KEY, (3,)), FunctionError, "expected a recipe"),
        (lambda: nn.build(nn.dense(3), 0, (3,)), DtypeError, "key"),
        (lambda: nn.sequential(THREE), FunctionError, "a recipe or a function"),
        (lambda: nn.recipe(THREE), FunctionError, "a class of layers"),
        (lambda: nn.dense(3, inputs=2), ArgumentError, "'inputs'"),
        (lambda: nn.recipe(nn.Conv, 2, filters=3), ArgumentError, "'filters'"),
        (
            lambda: nn.build(nn.sequential(lambda x: (x, x), nn.dense(2)), KEY, (2, 3)),
            ArgumentError,
            "layer 0, function, gives 2 arrays",
        ),
        (
            lambda: nn.build(nn.sequential(lambda x: x * float(x[0]), nn.dense(2)), KEY, (2,)),
            TracerError,
            "layer 0, function",
        ),
        (lambda: nn.summary(THREE, (2,)), FunctionError, "applied to specs"),
        (lambda: nn.summary(TREE), fg.errors.LeafError, r"model\[0\]"),
    ]
)
