"""Pullbacks and linear maps are trees of the values that they read."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DtypeError, ShapeError, TracerError, TreeError
from tests.together import together
from tests.transforms.support import assert_same, numbers

W = numbers(3, 3)
X = np.array([0.3, -0.2, 0.9])


def f(x: Any) -> Any:
    return fnp.tanh(W @ x) * x.sum()


@fg.custom_vjp
def halved(x: Any) -> Any:
    return fnp.sin(x)


halved.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (0.5 * fnp.cos(x) * ct,))


def with_name(x: Any) -> Any:
    return f(fg.probe(f(x), "h"))


FUNCTIONS: dict[str, Any] = {
    "plain": f,
    "indices": lambda x: x[fnp.argsort(x)] * x[np.array([2, 0, 0])],
    "chosen": lambda x: fnp.where(x > 0, fnp.sqrt(x), x),
    "loop": lambda x: fg.scan(lambda c, _: (f(c), c), x, length=3),
    "while": lambda x: fg.while_loop(lambda c: c.sum() < 9, lambda c: c * 2.0, x),
    "branch": lambda x: fg.cond(x[0] > 0, f, fnp.sin, x),
    "rule": lambda x: halved(x) * x,
    "checkpoint": fg.checkpoint(with_name, save=("h",)),
    "jit": fg.jit(f),
    "gradient": fg.grad(lambda x: fnp.sum(f(x))),
    "float32": lambda x: f(x.astype(np.float32)),
    "complex": lambda x: f(x) * (1.0 + 2.0j),
    "constant": lambda x: np.ones(2),
    "eigenvalues": lambda x: fnp.linalg.eigvalsh(W + W.T + fnp.diag(x)),
}


def linear_maps(function: Any, x: Any) -> list[tuple[Any, Any]]:
    """A pullback and a pushforward, each with an argument for it."""
    out, pullback = fg.vjp(function, x)
    ct = fg.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), out)
    return [(pullback, ct), (fg.linearize(function, x)[1], np.array([1.0, 2.0, 3.0]))]


def apply(linear: Any, argument: Any) -> Any:
    return linear(argument)


@together("name", FUNCTIONS)
def test_they_pass_through_trees_files_and_jitted_functions(name: str) -> None:
    function = FUNCTIONS[name]
    for linear, argument in linear_maps(function, X):
        expected = fg.tree.map(np.asarray, linear(argument))
        leaves, structure = fg.tree.flatten(linear)
        assert all(isinstance(leaf, fg.Tensor) for leaf in leaves)
        assert_same(fg.tree.unflatten(structure, leaves)(argument), expected)
        assert fg.tree.structure(fg.tree.unflatten(structure, leaves)) == structure
        assert_same(pickle.loads(pickle.dumps(linear))(argument), expected)
        assert_same(fg.jit(apply)(linear, argument), expected)
        many = fg.tree.map(lambda leaf: fnp.stack([leaf, leaf]), (linear, argument))
        for k in range(2):
            batch = fg.vmap(apply)(*many)
            assert_same(fg.tree.map(lambda leaf, k=k: leaf[k], batch), expected)


@together("name", FUNCTIONS)
def test_jitted_functions_return_them(name: str) -> None:
    function = FUNCTIONS[name]
    if name == "constant":
        return
    for place in range(2):
        made = fg.jit(lambda x, place=place: linear_maps(function, x)[place][0])(X)
        expected, argument = linear_maps(function, X)[place]
        assert_same(made(argument), fg.tree.map(np.asarray, expected(argument)))
        assert_same(fg.jit(apply)(made, argument), fg.tree.map(np.asarray, expected(argument)))


def test_batches_of_them_are_made_and_run_by_vmap() -> None:
    xs, cts = numbers(4, 3), numbers(4, 3)
    expected = np.stack([np.asarray(fg.vjp(f, x)[1](ct)[0]) for x, ct in zip(xs, cts, strict=True)])
    pullbacks = fg.vmap(lambda x: fg.vjp(f, x)[1])(xs)
    assert_same(fg.vmap(apply)(pullbacks, cts)[0], expected)
    stacked = fg.tree.stack([fg.vjp(f, x)[1] for x in xs])
    assert_same(fg.vmap(apply)(stacked, cts)[0], expected)
    assert_same(fg.jit(fg.vmap(apply))(stacked, cts)[0], expected)
    one = fg.tree.map(lambda leaf: leaf[2], pullbacks)
    assert_same(one(cts[2])[0], expected[2])


def test_equal_operations_are_one_structure_whatever_the_values() -> None:
    jitted = fg.jit(lambda linear, argument: linear(argument))
    make = fg.jit(lambda x: fg.vjp(f, x)[1])
    for x in (X, np.ones(3), np.zeros(3), np.full(3, 2.0)):  # one value in several residuals
        expected = np.asarray(fg.vjp(f, x)[1](X)[0])
        assert_same(jitted(fg.vjp(f, x)[1], X)[0], expected)
        assert_same(jitted(make(x), X)[0], expected)
    assert jitted.stagings == 1
    jitted(fg.vjp(fnp.sin, X)[1], X)
    assert jitted.stagings == 2
    assert fg.tree.structure(fg.vjp(f, X)[1]) != fg.tree.structure(fg.linearize(f, X)[1])


def test_loops_carry_them() -> None:
    def step(carry: Any, x: Any) -> Any:
        pullback, total = carry
        return (fg.vjp(f, x)[1], total + pullback(X)[0]), None

    xs, first = numbers(4, 3), fg.vjp(f, X)[1]
    expected = np.asarray(first(X)[0]) + sum(np.asarray(fg.vjp(f, x)[1](X)[0]) for x in xs[:3])
    for run in (lambda: fg.scan(step, (first, np.zeros(3)), xs), None):
        loop = run or fg.jit(lambda: fg.scan(step, (first, np.zeros(3)), xs))
        (last, total), _ = loop()
        assert_same(total, expected)
        assert_same(last(X)[0], np.asarray(fg.vjp(f, xs[3])[1](X)[0]))


def test_derivatives_with_respect_to_residuals() -> None:
    _, pullback = fg.vjp(lambda x: x * x * x, X)

    def loss(pullback: Any) -> Any:
        return fnp.sum(pullback(np.ones(3))[0])

    gradient = fg.grad(loss)(pullback)
    assert fg.tree.structure(gradient) == fg.tree.structure(pullback)

    def through(x: Any) -> Any:
        return loss(fg.tree.map(lambda leaf: leaf, fg.vjp(lambda x: x * x * x, x)[1]))

    assert_same(fg.grad(through)(X), 6 * X)
    assert_same(fg.jvp(through, (X,), (np.ones(3),))[1], np.sum(6 * X))
    assert_same(fg.grad(lambda x: loss(fg.jit(lambda y: fg.vjp(f, y)[1])(x)))(X), _curvature())


def _curvature() -> Any:
    return np.asarray(fg.grad(lambda x: fnp.sum(fg.vjp(f, x)[1](np.ones(3))[0]))(X))


def test_files_hold_the_residuals(tmp_path: Path) -> None:
    _, pullback = fg.vjp(f, X)
    fg.io.save(tmp_path / "pullback.npz", {"pull": pullback})
    _, like = fg.vjp(f, np.zeros(3))
    loaded = fg.io.load(tmp_path / "pullback.npz", like={"pull": like})["pull"]
    assert_same(loaded(np.ones(3))[0], np.asarray(pullback(np.ones(3))[0]))


def test_transposes_are_trees_too() -> None:
    transposed = fg.linear_transpose(lambda x: W @ x, X)
    assert_same(fg.tree.leaves(transposed), [W])
    doubled = fg.tree.map(lambda leaf: 2.0 * leaf, transposed)
    assert_same(doubled(X)[0], 2.0 * W.T @ X)


def test_numbers_of_python_belong_to_the_structure() -> None:
    assert fg.tree.leaves(fg.linearize(lambda x: 3.0 * x, X)[1]) == []
    assert_same(fg.tree.leaves(fg.linearize(lambda x: np.float64(3.0) * x, X)[1]), [3.0])


def test_wrong_arguments_are_told_as_before() -> None:
    _, pullback = fg.vjp(f, X)
    for linear in (pullback, fg.jit(lambda: fg.vjp(f, X)[1])(), fg.tree.map(fnp.asarray, pullback)):
        with pytest.raises(ShapeError, match=r"pullback: cotangent: expected shape \(3,\), got"):
            linear(np.ones(4))
        with pytest.raises(DtypeError, match="pullback: cotangent: expected dtype float64"):
            linear(np.ones(3, np.float32))
        with pytest.raises(TreeError, match="pullback"):
            linear((X, X))


def test_wrong_residuals_are_told() -> None:
    _, pullback = fg.vjp(f, X)
    many = fg.tree.map(lambda leaf: fnp.stack([leaf, leaf]), pullback)
    with pytest.raises(ShapeError, match=r"residual has the shape \(2,.*\), but .*fg\.vmap"):
        many(X)
    short = fg.tree.map(lambda leaf: leaf.astype(np.float32), pullback)
    with pytest.raises(DtypeError, match="a residual has dtype float32, but the map was made for"):
        short(X)


def test_a_rule_that_looks_at_a_cotangent_is_no_tree() -> None:
    @fg.custom_vjp
    def looking(x: Any) -> Any:
        return x * 1.0

    looking.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct if ct.sum() > 0 else -ct,))
    _, pullback = fg.vjp(looking, X)
    assert_same(pullback(X)[0], X)
    with pytest.raises(TracerError, match=r"pullback: .*used in Python"):
        fg.tree.leaves(pullback)


def test_beside_a_gradient_they_read_values_without_its_tracers() -> None:
    def both(x: Any) -> Any:
        return x**2, fg.vjp(lambda y: x * y, np.float64(2.0))[1]

    _, pullback = fg.grad(both, has_aux=True)(3.0)
    assert_same(pullback(1.0)[0], 3.0)


def test_pullbacks_as_residuals_of_rules_stay_whole() -> None:
    @fg.custom_vjp
    def looking(x: Any) -> Any:
        return fnp.sin(x)

    looking.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * fnp.cos(x) * (ct > 0),))
    outer = fg.custom_vjp(lambda x: looking(x) * 2.0)
    outer.defvjp(lambda x: fg.vjp(lambda y: looking(y) * 2.0, x), lambda pull, ct: pull(ct))
    expected = 2.0 * np.cos(X)
    assert_same(fg.grad(lambda x: fnp.sum(fg.vmap(outer)(x)))(X), expected)
    assert_same(fg.jit(fg.grad(lambda x: fnp.sum(fg.vmap(outer)(x))))(X), expected)
