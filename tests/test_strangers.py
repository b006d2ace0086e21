"""Operations declared outside of the package, in a file each, by the public ``funcgrad.extend``.

Their rules are proved with those of the package (``test_primitives.py``, ``test_structure.py``);
here is what else comes with a declaration.
"""

import ast
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.passes.costs import costs
from tests.conformance import strangers
from tests.strangers.energy import energy
from tests.strangers.gudermannian import gd
from tests.strangers.rotation import rotated

X = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
Function = Callable[[Any], Any]
FUNCTIONS: dict[str, Function] = {
    "gudermannian": lambda x: gd(x * 2.0) + 1.0,
    "sum_of_squares": lambda x: energy(fnp.sin(x)) * 3.0,
    "turn": lambda x: rotated(x * x),
}
by_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def total(f: Function) -> Function:
    return lambda x: fnp.sum(f(x) * fnp.cos(f(x)))


def test_each_is_here() -> None:
    assert {primitive.name for primitive in strangers()} == set(FUNCTIONS)


def test_strangers_know_the_public_module_alone() -> None:
    files = sorted(Path(__file__).parent.joinpath("strangers").glob("*.py"))
    assert len(files) > len(FUNCTIONS)
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("funcgrad"):
                assert (node.module, [name.name for name in node.names]) == ("funcgrad", ["extend"])
            if isinstance(node, ast.Import):
                names = {name.name for name in node.names}
                assert names <= {"numpy", "funcgrad", "funcgrad.numpy"}


@by_function
def test_staged_is_eager(f: Function) -> None:
    for g in (f, fg.grad(total(f)), lambda x: fg.hvp(total(f), (x,), (x * 0.5,))):
        assert_allclose(fg.jit(g)(X), g(X), rtol=1e-13)
        assert_allclose(fg.program(g)(X)(X), g(X), rtol=1e-13)


@by_function
def test_batched_is_a_loop(f: Function) -> None:
    batch = np.stack([X, X * 0.5, X - 1.0])
    for g in (f, fg.grad(total(f))):
        assert_allclose(fg.vmap(g)(batch), fnp.stack([g(x) for x in batch]), rtol=1e-13)
        assert_allclose(fg.vmap(fg.jit(g))(batch), fg.vmap(g)(batch), rtol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_printed_saved_and_costed(name: str) -> None:
    f = FUNCTIONS[name]
    staged = fg.program(f)(X)
    assert f" {name} " in staged.to_text()
    again = fg.Program.from_json(staged.to_json())
    assert again == staged
    assert again.fingerprint() == staged.fingerprint()
    assert_array_equal(again(X), f(X))
    assert_array_equal(pickle.loads(pickle.dumps(staged))(X), f(X))
    assert "tests.strangers." in staged.to_json()
    (row,) = [row for row in costs(staged).operations if row.name == name]
    assert row.arithmetic == {"turn": 0}.get(name, X.size)
    assert row.transcendental == (X.size if name == "gudermannian" else 0)


@pytest.mark.parametrize("f", [FUNCTIONS["gudermannian"], FUNCTIONS["sum_of_squares"]])
def test_it_joins_kernels(f: Function) -> None:
    x = np.linspace(-1.0, 1.0, 200_000)
    source = fg.program(lambda x: f(fnp.exp(x) * x))(x).to_numpy_source()
    loop = source[source.index("for block in range(") :]
    assert "evaluate(" in loop.split("a_shelf.keep")[0]
    assert_allclose(fg.jit(lambda x: f(fnp.exp(x) * x))(x), f(fnp.exp(x) * x), rtol=1e-12)


def test_what_stands_in_no_module_is_not_saved() -> None:
    hidden = fg.extend.elementwise("hidden", np.sinh, partials=(lambda y, x: np.cosh(x),))
    staged = fg.program(lambda x: fg.extend.apply(hidden, x))(X)
    with pytest.raises(fg.errors.ProgramError, match="stands in none"):
        staged.to_json()


def test_what_is_no_operation_any_more_is_named() -> None:
    text = fg.program(FUNCTIONS["turn"])(X).to_json()
    for other, message in (("rotated", "is no primitive"), ("gone", "cannot be had")):
        with pytest.raises(fg.errors.ProgramError, match=message):
            fg.Program.from_json(text.replace("rotation:turn", f"rotation:{other}"))
