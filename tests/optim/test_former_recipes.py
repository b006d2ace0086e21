"""Optimizers that an earlier version pickled load, and make the steps that they made then.

``former_recipes.json`` holds pickles, in base64, and a digest of four steps of that version.
"""

import base64
import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad.optim import former_recipes
from tests.optim.subjects import named
from tests.together import together

STORED = json.loads(Path(__file__).with_name("former_recipes.json").read_text("utf-8"))
START = {"w": np.linspace(-2.0, 3.0, 6).reshape(3, 2), "v": np.array([1.5, -0.5]), "n": 2.0}


def objective(params):
    return sum((fnp.sum(abs(leaf - 0.7) ** 2) for leaf in pytrees.leaves(params)), 0.0)


def digest(optimizer):
    """The first digits of the parameters and the state after four steps."""
    params = fg.tree.map(fg.tensor, START)
    state = optimizer.init(params)
    for _ in range(4):
        grads = fg.grad(objective)(params)
        arguments = named(optimizer, objective, params)
        params, state = optimizer.step(grads, state, params, **arguments)
    leaves = [np.asarray(leaf) for leaf in pytrees.leaves((params, state))]
    text = " ".join(f"{x:.6e}" for leaf in leaves for x in leaf.ravel())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@together("name", STORED)
def test_an_optimizer_makes_the_same_steps(name):
    text, expected = STORED[name]
    optimizer = pickle.loads(base64.b64decode(text))
    assert digest(optimizer) == expected
    assert digest(pickle.loads(pickle.dumps(optimizer))) == expected


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match=r"no module of funcgrad\.optim has '_nothing'"):
        former_recipes.__getattr__("_nothing")
    with pytest.raises(ImportError, match="_nothing"):
        from funcgrad.optim.adam import _nothing  # type: ignore[attr-defined]  # noqa: F401
