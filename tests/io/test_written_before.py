"""Pickles load in later versions, though modules have other names there.

``written_before.json`` holds pickles, in base64, that an earlier version of funcgrad wrote.
"""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, random
from tests.scripts import printed

STORED: dict[str, str] = json.loads(
    Path(__file__).with_name("written_before.json").read_text("utf-8")
)
X = fg.tensor([0.5, -1.0, 2.0])


def f(x):
    return fnp.sum(fnp.sin(x) * fnp.where(x > 0, x, 0.0))


def loops(x):
    c, ys = fg.scan(lambda c, y: (fnp.tanh(c + y), c), 0.0, x)
    last = fg.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, c)
    return last + fnp.sum(ys) + fnp.linalg.det(fnp.outer(x, x) + fnp.eye(3))


def loaded(name: str) -> Any:
    return pickle.loads(base64.b64decode(STORED[name]))


CHAIN = optim.chain(optim.clip_by_norm(1.0), optim.adamw(0.1))


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "tensor": X,
        "weak": fg.tensor(12.0),
        "key": random.key(3),
        "layer": nn.Linear.init(random.key(3), 3, 2),
        "adam_state": optim.adam(1e-2).init({"w": X}),
        "structure": fg.tree.structure({"a": (1, [2, None])}),
    }.items(),
)
def test_values(name: str, expected: Any) -> None:
    value = loaded(name)
    assert fg.tree.structure(value) == fg.tree.structure(expected)
    for one, other in zip(fg.tree.leaves(value), fg.tree.leaves(expected), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "function"), {"program": f, "loops": loops, "gradient": fg.grad(f)}.items()
)
def test_programs(name: str, function: Any) -> None:
    assert fg.tree.all(fg.tree.map(np.array_equal, loaded(name)(X), function(X)))


def test_linear_functions() -> None:
    assert loaded("pullback")(2.0)[0].tolist() == (2 * fg.grad(f)(X)).tolist()
    assert loaded("linearized")(X).item() == fg.jvp(f, (X,), (X,))[1].item()


@pytest.mark.parametrize(("name", "expected"), {"adam": optim.adam(1e-2), "chain": CHAIN}.items())
def test_optimizers(name: str, expected: Any) -> None:
    params, ct = {"w": X}, {"w": X * 2}
    one = loaded(name).update(ct, expected.init(params), params)
    other = expected.update(ct, expected.init(params), params)
    assert fg.tree.all(fg.tree.map(np.array_equal, one, other))


def test_an_error_and_an_index() -> None:
    assert str(loaded("error")) == "bad shapes"
    assert loaded("indices").add(1.0).tolist() == [1.5, -1.0, 2.0]


def test_former_names_lead_to_the_same_modules_and_replace_no_function() -> None:
    script = """
import importlib, pickle, sys
import funcgrad as fg
former = "trees shape tensor programs.program transforms.reverse control.loop_operation"
for name in former.split():
    importlib.import_module(f"funcgrad.{name}")
program = importlib.import_module("funcgrad.programs.program")
print(program is sys.modules["funcgrad._programs.program"], program.__spec__.name)
print(fg.tensor(1.0), fg.program(lambda x: x + 1.0)(2.0)(3.0), fg.pytree.__name__)
try:
    importlib.import_module("funcgrad.nothing")
except ModuleNotFoundError as error:
    print(error)
"""
    assert printed(script).splitlines() == [
        "True funcgrad._programs.program",
        "1.0 4.0 pytree",
        "No module named 'funcgrad.nothing'",
    ]
