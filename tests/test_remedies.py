"""Messages about frequent mistakes say what to write, and what they say works."""

from __future__ import annotations

import re
import statistics
import sys
import tomllib
import traceback
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import (
    ArgumentError,
    AxisError,
    FuncgradError,
    FunctionError,
    ImmutableError,
    LeafError,
    ShapeError,
    TracerError,
)
from tests.together import together

T = fg.tensor([1.0, 2.0, 3.0])
UNCHECKED: Any = T
LOGITS, LABELS = np.zeros((4, 3)), np.array([0, 1, 2, 0])
odeint: Any = fg.odeint
minimize: Any = fg.scipy.optimize.minimize


def set_in_place() -> None:
    UNCHECKED.at[0] = 1.0


@fg.pytree
class Affine:
    weight: fg.Tensor

    def __init__(self, size: int) -> None:
        self.weight = fnp.ones(size)  # type: ignore[misc]


def assigned() -> None:
    nn.Linear.init(fg.random.key(0), 2, 2).weight = T  # type: ignore[misc]


@together(
    ("call", "error", "words"),
    [
        (set_in_place, ImmutableError, r"y = x.at\[key\].set\(value\)"),
        (lambda: UNCHECKED.at[0] + 1.0, ImmutableError, r"x\[key\] is"),
        (lambda: Affine(3), AttributeError, r"declare the field weight.*Affine\(weight=...\)"),
        (assigned, AttributeError, r"of Linear, which never changes.*fg.tree.at\(x\).weight.set"),
        (lambda: statistics.mean(UNCHECKED), TracerError, r"write fnp.mean\(x\)"),
        (lambda: fg.grad(statistics.variance)(T), TracerError, r"fnp.var\(x, ddof=1\)"),
        (lambda: {T: 1}, TracerError, "unhashable.* keys of a dict"),
        (lambda: fg.grad(lambda x: len({x, 1}) * x)(1.0), TracerError, "members of a set"),
        (lambda: UNCHECKED * Fraction(1, 2), LeafError, r"Fraction\(1, 2\).*write float\(x\)"),
        (lambda: Decimal(2) - UNCHECKED, LeafError, r"write float\(x\)"),
        (
            lambda: fg.jit(lambda x, mode: x)(1.0, "a"),
            LeafError,
            r"jit: mode: .* of type str. Name it: jit\(f, static_argnames='mode'\)",
        ),
        (
            lambda: fg.jit(lambda x, sizes: x, static_argnums=1)(1.0, [3]),
            ArgumentError,
            r"the static argument sizes \(a list\) of <lambda> cannot be hashed: pass a tuple",
        ),
        (lambda: nn.cross_entropy(LABELS, LOGITS), ShapeError, "Logits come first"),
        (lambda: nn.cross_entropy(LABELS.astype(float), LOGITS), ShapeError, "Logits come first"),
        (lambda: nn.cross_entropy(LOGITS, LABELS * 1.0), ShapeError, r"labels.astype\(int\)"),
        (lambda: minimize(fnp.sum, T, method="adam"), ArgumentError, r"SciPy's are .*optim\.adam"),
        (lambda: minimize(lambda x, y: x * y, (1.0, 2.0)), FunctionError, "'y'.* as one argument"),
    ],
)
def test_the_message_says_what_to_write(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert re.search(words, str(caught.value).replace("\n", " "))


def test_odeint_says_in_which_order_it_passes_arguments() -> None:
    with pytest.raises(AxisError) as caught:
        odeint(lambda t, y: [y[1], -y[0]], T[:2], [0.0, 1.0])
    assert "func(y, t, *args): y first" in caught.value.__notes__[0]
    with pytest.raises(ShapeError, match=r"func\(y, t, \*args\): y first"):
        fg.odeint(lambda t, y: fnp.sum(t) * y, T, [0.0, 1.0])


def test_traced_shifts_need_no_remedy_and_have_one() -> None:
    x, ks = fnp.arange(12.0).reshape(3, 4), fnp.array([-1, 0, 2])
    for f in (fnp.roll, fnp.tril, fnp.triu):
        each = np.array([f(x, int(k)) for k in ks])
        for branches in (False, True):
            batched = fg.vmap(lambda k, f=f: f(x, k), branches=branches)
            np.testing.assert_array_equal(batched(ks), each)
    columns = fnp.arange(4) - fnp.arange(3)[:, None]
    lower, upper, rolled = fg.vmap(
        lambda k: (
            fnp.where(columns <= k, x, 0),
            fnp.where(columns >= k, x, 0),
            fnp.take(x, (fnp.arange(4) - k) % 4, 1),
        )
    )(ks)
    for k in range(3):
        number = int(ks[k])
        np.testing.assert_array_equal(lower[k], fnp.tril(x, number))
        np.testing.assert_array_equal(upper[k], fnp.triu(x, number))
        np.testing.assert_array_equal(rolled[k], fnp.roll(x, number, 1))


@together(
    ("statement", "words"),
    [
        ("from funcgrad import lax", "its loops and branches are fg.scan"),
        ("from funcgrad import vmpa", "Did you mean 'vmap'?"),
        ("from funcgrad.numpy import arrange", "Did you mean 'arange'?"),
        ("from funcgrad.optim import Adam", "fg.optim.adam(learning_rate)"),
        ("from funcgrad.compat.autograd.core import JVPNode", "by funcgrad.compat.autograd.extend"),
        ("from funcgrad.compat.autograd.tracer import trace_stack", "autograd's internals"),
        ("from funcgrad.compat.autograd.util import toposort", "autograd's internals"),
        ("from funcgrad.compat.autograd.numpy.numpy_vjps import untake", "autograd's internals"),
        ("from funcgrad.compat.autograd.numpy.numpy_boxes import SparseArray", "internals"),
    ],
)
def test_statements_of_import_give_the_advice(statement: str, words: str) -> None:
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(statement, {})
    package, name = re.split(" from | import ", statement.removeprefix("from "))
    assert not hasattr(sys.modules[package], name)


def frames(call: Any) -> list[str]:
    """The functions in the traceback of an error, those of this library with a star."""
    with pytest.raises(FuncgradError) as caught:
        call()
    found = traceback.extract_tb(caught.value.__traceback__)[1:]
    home = str(Path(fg.__file__).parent)
    return ["*" * frame.filename.startswith(home) + frame.name for frame in found]


def test_tracebacks_leave_out_what_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def inner(x: Any) -> Any:
        return fnp.sum(x, axis=7)

    def outer(x: Any) -> Any:
        return inner(x * 2.0)

    calls = {
        "eager": lambda: outer(T),
        "grad": lambda: fg.grad(outer)(T),
        "jit": lambda: fg.jit(outer)(T),
        "vmap of grad": lambda: fg.vmap(fg.grad(outer))(fnp.ones((2, 3))),
        "grad of jit": lambda: fg.grad(fg.jit(outer))(T),
    }
    for mode, inside in (("short", False), ("full", True)):
        monkeypatch.setenv("FUNCGRAD_TRACEBACKS", mode)
        for name, call in calls.items():
            names = frames(call)
            assert [f for f in names if f in ("outer", "inner")] == ["outer", "inner"], name
            ours = [f for f in names if f.startswith("*")]
            assert names[-1].startswith("*")
            assert (len(ours) > 3) == inside, (name, names)


def test_what_cannot_be_installed_is_not_named() -> None:
    """The package is on no index yet, so remedies name what a function needs."""
    package = Path(fg.__file__).parent
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    assert not [path for path, text in texts.items() if "pip install funcgrad" in text]
    project = tomllib.loads((package.parent / "pyproject.toml").read_text("utf-8"))
    (native,) = project["project"]["optional-dependencies"]["native"]
    assert f'pip install "{native}"' in texts[package / "_backends/choice.py"]
