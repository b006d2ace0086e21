"""Changes of gradients: clipping at every extreme, decay and freezing by patterns."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TreeError
from tests.together import together

PARAMS: dict[str, Any] = {
    "w": fg.tensor([[3.0, 4.0], [0.0, 1.0]]),
    "layers": [fg.tensor(2.0), None],
}
CHANGES = {
    "clip": optim.clip(1.0),
    "clip_by_norm": optim.clip_by_norm(1.0),
    "clip_by_norm (leaf)": optim.clip_by_norm(1.0, per="leaf"),
    "clip_by_norm (unit)": optim.clip_by_norm(0.5, per="unit"),
    "scale": optim.scale(-0.5),
    "add_weight_decay": optim.add_weight_decay(0.1, mask="layers"),
    "centralize": optim.centralize(),
    "freeze": optim.freeze({"w": True, "layers": False}),
}
CLIPS = [name for name in CHANGES if "clip" in name]


def changed(change, grads, params=None):
    return change.update(grads, None, grads if params is None else params)[0]


@together("name", CHANGES)
def test_a_change_is_a_value(name):
    change = CHANGES[name]
    direct = changed(change, PARAMS)
    again = changed(pickle.loads(pickle.dumps(change)), PARAMS)
    staged = fg.jit(lambda grads: changed(change, grads))(PARAMS)
    rows = fg.vmap(lambda grads: changed(change, grads))(fg.tree.stack([PARAMS, PARAMS]))
    for tree in (again, staged, fg.tree.unstack(rows)[1]):
        for x, y in zip(pytrees.leaves(direct), pytrees.leaves(tree), strict=True):
            assert_allclose(x, y, rtol=1e-14, atol=1e-15)
    assert change.init(PARAMS) is None
    half = changed(change, fg.tree.cast(PARAMS, "float16"))
    assert {leaf.dtype.char for leaf in pytrees.leaves(half)} == {"f"}
    with pytest.raises(ShapeError, match=r"update: grads\['w'\]: expected shape"):
        change.update({**PARAMS, "w": fg.tensor([1.0])}, None, PARAMS)
    with pytest.raises(TreeError, match="the state is None, got dict"):
        change.update(PARAMS, PARAMS, PARAMS)  # type: ignore[arg-type]


@together("name", CLIPS)
@together("extreme", [0.0, 5e-324, 1e308, np.inf])
def test_clipping_makes_no_nan(name, extreme):
    grads = {
        "w": fg.tensor([[extreme, -extreme], [1.0, extreme]]),
        "layers": [fg.tensor(0.0), None],
    }
    with np.errstate(over="ignore"):
        clipped = changed(CHANGES[name], grads, PARAMS)
    values = np.concatenate([np.ravel(leaf) for leaf in pytrees.leaves(clipped)])
    assert np.isfinite(values).all()
    assert np.linalg.norm(values) < 3.0


def test_norms_are_shortened():
    grads = {"a": fg.tensor([3.0, 0.0]), "b": fg.tensor(4.0)}
    assert_allclose(changed(optim.clip_by_norm(1.0), grads)["a"], [0.6, 0.0])
    assert_allclose(changed(optim.clip_by_norm(1.0, per="leaf"), grads)["a"], [1.0, 0.0])
    assert_array_equal(changed(optim.clip_by_norm(9.0), grads)["a"], grads["a"])
    infinite = {"a": fg.tensor([-np.inf, 2.0]), "b": fg.tensor(np.inf)}
    assert_allclose(changed(optim.clip_by_norm(1.0), infinite)["a"], [-(0.5**0.5), 0.0])
    turned = changed(optim.clip(1.0), fg.tensor([3.0 + 4.0j, 0.1j]))
    assert_allclose(turned, [0.6 + 0.8j, 0.1j])
    slope = fg.grad(lambda g: changed(optim.clip_by_norm(1.0), g).sum())(fg.tensor([0.0, 0.0]))
    assert_array_equal(slope, [1.0, 1.0])


def test_masks_are_patterns_too():
    decayed = changed(optim.add_weight_decay(0.5, "layers.0"), PARAMS)
    assert_allclose(decayed["layers"][0], 3.0)
    assert_array_equal(decayed["w"], PARAMS["w"])
    optimizer = optim.adamw(0.1, weight_decay=0.5, mask="w")
    still = pytrees.map(lambda leaf: 0.0 * leaf, PARAMS)
    updates, _ = optimizer.update(still, optimizer.init(PARAMS), PARAMS)
    assert updates["layers"][0].item() == 0.0
    assert_allclose(updates["w"], -0.05 * PARAMS["w"])
    frozen = optim.chain(optim.adam(0.1), optim.freeze("layers"))
    moved, _ = frozen.step(PARAMS, frozen.init(PARAMS), PARAMS)
    assert moved["layers"][0].item() == 2.0
    assert (np.asarray(moved["w"]) != np.asarray(PARAMS["w"])).any()


def test_bad_changes():
    with pytest.raises(TreeError, match=r"'laers' matches nothing. Similar: layers\.0"):
        optim.freeze("laers").init(PARAMS)
    with pytest.raises(ArgumentError, match="per is 'tree', 'leaf' or 'unit', got 'row'"):
        optim.clip_by_norm(1.0, per="row")
    with pytest.raises(ArgumentError, match="max_delta has to be at least 0"):
        optim.clip(-1.0)
    with pytest.raises(ArgumentError, match="expected a pattern or a mask"):
        optim.freeze(None)
    with pytest.raises(DtypeError, match="has to be True or False"):
        optim.freeze({"w": 1.0, "layers": False}).init(PARAMS)
