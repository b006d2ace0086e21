"""Projections: laws of closest points, trees, derivatives, ends, dtypes, and what is refused."""

import json
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim
from funcgrad.errors import ArgumentError, DtypeError, LeafError, ShapeError, TreeError
from funcgrad.optim import projections as p
from tests.every_mode import assert_every_mode
from tests.optim.golden import PROJECTED, PROJECTIONS, TABLE
from tests.together import refused, together

BALLS = {"l1_ball": (p.l1_ball, 1), "l2_ball": (p.l2_ball, 2), "linf_ball": (p.linf_ball, inf)}
SETS: dict[str, Any] = {
    "non_negative": lambda x, s: p.non_negative(x),
    "box": lambda x, s: p.box(x, -0.5 * s, s),
    "hypercube": p.hypercube,
    "simplex": p.simplex,
    "l1_ball": p.l1_ball,
    "l2_ball": p.l2_ball,
    "linf_ball": p.linf_ball,
}
"""Convex sets, by a scale."""

SPHERES = {"l1_sphere": (p.l1_sphere, 1), "l2_sphere": (p.l2_sphere, 2)}
EVERY = {**SETS, **{name: sphere for name, (sphere, _) in SPHERES.items()}}
MEMBERS = {
    "non_negative": lambda y, s: (y >= 0).all(),
    "box": lambda y, s: ((y >= -0.5 * s) & (y <= s)).all(),
    "hypercube": lambda y, s: ((y >= 0) & (y <= s)).all(),
    "simplex": lambda y, s: (y >= 0).all() and abs(y.sum() - s) <= 1e-14 * y.size * s,
    "l1_ball": lambda y, s: abs(y).sum() <= s * (1 + 1e-14 * y.size),
    "l2_ball": lambda y, s: np.linalg.norm(y) <= s * (1 + 1e-15 * y.size),
    "linf_ball": lambda y, s: (abs(y) <= s).all(),
}
convex = pytest.mark.parametrize("name", SETS)
every = pytest.mark.parametrize("name", EVERY)
vectors = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(-4, 4), min_size=n, max_size=n).map(np.array)] * 3)
)
scales = st.sampled_from([1e-3, 0.5, 1.0, 3.0])
X = np.array([1.3, -0.2, 0.9, 2.1, -1.7, 0.05])


@convex
@settings(max_examples=30, deadline=None)
@given(vectors, scales)
def test_laws_of_closest_points(name, xs, scale):
    """In the set; idempotent; not expanding; at right angles to the set, as only the closest is."""
    project = SETS[name]
    x, y, _ = xs
    px, py, pz = [np.asarray(project(v, scale)) for v in xs]
    assert MEMBERS[name](px, scale)
    assert_allclose(project(px, scale), px, rtol=0, atol=1e-14)
    assert np.linalg.norm(px - py) <= np.linalg.norm(x - y) + 1e-13
    assert (x - px) @ (pz - px) <= 1e-12


@pytest.mark.parametrize("name", SPHERES)
@settings(max_examples=30, deadline=None)
@given(vectors, scales)
def test_spheres(name, xs, scale):
    project, order = SPHERES[name]
    x = np.where(abs(xs[0]) < 1e-3, 1e-3, xs[0])
    y = np.asarray(project(x, scale))
    assert_allclose(np.linalg.norm(y, order), scale, rtol=1e-13)
    assert_allclose(project(y, scale), y, rtol=1e-12, atol=1e-13)
    other = np.asarray(project(np.where(abs(xs[1]) < 1e-3, 1e-3, xs[1]), scale))
    assert np.linalg.norm(x - y) <= np.linalg.norm(x - other) + 1e-12


@pytest.mark.slow
@every
@pytest.mark.parametrize("scale", [0.83, 2.5, 20.0])
def test_every_mode(name, scale):
    project = EVERY[name]
    assert_every_mode(project, X, scale)
    xs, many = np.stack([X, 0.01 * X, -X]), np.array([scale, 1.0, 0.3])
    batched = fg.vmap(project)(xs, many)
    for k in range(3):
        assert_allclose(batched[k], project(xs[k], many[k]), rtol=1e-14, atol=1e-15)


@every
def test_trees_are_one_vector(name):
    tree = {"w": X[:4].reshape(2, 2), "b": (X[4], [X[5]]), "none": np.zeros((0, 2))}
    project = EVERY[name]
    found = project(tree, 1.5)
    vector, unravel = fg.tree.ravel(tree)
    expected = unravel(fg.tensor(np.asarray(project(vector, 1.5))))
    assert fg.tree.structure(found) == fg.tree.structure(tree)
    for one, other in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
        assert_allclose(one, other, rtol=1e-14)
        assert one.shape == other.shape
    mixed = {"a": fg.tensor(X, "float16"), "b": fg.tensor(X, "float32")}
    kept = project(mixed, fg.tensor(1.0))
    assert [kept["a"].dtype, kept["b"].dtype] == ["float16", "float32"]
    total = lambda tree: sum(fnp.sum(leaf) for leaf in fg.tree.leaves(project(tree, 1.0)))  # noqa: E731
    slope = fg.grad(total)(mixed)
    assert [slope["a"].dtype, slope["b"].dtype] == ["float16", "float32"]


@every
def test_low_precision_is_that_of_the_result(name):
    project = EVERY[name]
    many = np.linspace(-1, 1, 3000)
    for dtype, tolerance in (("float16", 6e-4), ("float32", 3e-5)):
        found = project(fg.tensor(many, dtype), 2.0)
        assert found.dtype == dtype
        expected = np.asarray(project(many.astype(dtype).astype(float), 2.0))
        assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 1e-3)


@together("unit", [1e-300, 1e-200, 1e200, 1e300])
@every
def test_scale_is_no_edge(name, unit):
    project = EVERY[name]
    assert_allclose(np.asarray(project(unit * X, unit)) / unit, project(X, 1.0), rtol=1e-13)
    slopes = fg.jacrev(project, (0, 1))
    for one, other in zip(slopes(unit * X, unit), slopes(X, 1.0), strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    assert_array_equal(np.isfinite(project(1e200 * X, 1e-200)), True)


def test_numbers_that_are_infinite_or_none():
    for project in (p.simplex, p.l1_ball, p.l1_sphere, p.l2_ball, p.l2_sphere, p.linf_ball):
        assert_array_equal(project(fg.tensor([inf, 0.0])), [1, 0])
        assert_array_equal(fg.jacrev(project)(fg.tensor([inf, 0.0])) * 0, np.zeros((2, 2)))
        assert np.isnan(project(fg.tensor([nan, 1.0]))[0])
    root = np.sqrt(0.5)
    assert_allclose(p.l2_ball(fg.tensor([inf, 7.0, -inf])), [root, 0, -root])
    assert_allclose(p.simplex(fg.tensor([inf, 7.0, inf])), [0.5, 0, 0.5])
    for ball in (p.l1_ball, p.l2_ball, p.linf_ball):
        assert_array_equal(ball(X, inf), X)
        assert_array_equal(ball(X, 0.0), 0 * X)
    assert_array_equal(p.simplex(X, 0.0), 0 * X)


def test_kinks():
    assert_array_equal(fg.grad(p.non_negative)(0.0), 0)
    assert_array_equal(fg.grad(p.box, (0, 1))(0.0, 0.0, 1.0), [0.5, 0.5])
    on = fg.tensor([0.6, 0.8])
    for ball in (p.l2_ball, lambda x: p.l1_ball(x, 1.4)):
        assert_allclose(fg.jacrev(ball)(on), np.eye(2))  # from inside
    assert_allclose(fg.jacrev(p.simplex)(fg.tensor([1.0, 0.0])), np.zeros((2, 2)))
    for sphere in (p.l1_sphere, p.l2_sphere):
        assert_array_equal(sphere(fnp.zeros(2)), [0, 0])
        assert_array_equal(fg.jacrev(sphere)(fnp.zeros(2)), np.zeros((2, 2)))
        assert_array_equal(sphere(fg.tensor([3.0, 0.0])), [1, 0])
    assert_allclose(p.simplex(X), nn.sparsemax(X), rtol=1e-15)


def test_bounds_of_every_kind():
    tree: dict[str, Any] = {"w": fg.tensor(X), "b": 3.0}
    assert_allclose(p.box(tree, 0.0, {"w": 1.0, "b": 2.0})["w"], np.clip(X, 0, 1))
    assert p.box(tree, 0.0, {"w": 1.0, "b": 2.0})["b"] == 2.0
    low = np.linspace(-1, 1, 6)
    assert_allclose(p.box(X, low, inf), np.maximum(X, low))
    assert p.box(fg.tensor(X, "float32"), fg.tensor(0.0), 1.0).dtype == "float32"
    slope = fg.grad(lambda low: fnp.sum(p.box(X, low, inf)))(fg.tensor(low))
    assert_array_equal(slope, low > X)
    by_scale = fg.grad(lambda scale: fnp.sum(p.hypercube(X, {"w": scale}["w"])))(1.0)
    assert_array_equal(by_scale, (X > 1).sum())
    rows = fg.vmap(p.box, in_axes=(None, 0, None))(X, np.array([0.0, 0.5]), 1.0)
    assert_allclose(rows, [np.clip(X, 0, 1), np.clip(X, 0.5, 1)])


def test_complex_numbers_keep_their_direction():
    z = fg.tensor([3 + 4j, 0j, 12 + 0j])
    assert_allclose(p.l2_ball(z, 6.5), np.asarray(z) / 2)
    tree: dict[str, Any] = {"z": z, "x": 0.0}
    assert_allclose(p.l2_sphere(tree, 26.0)["z"], 2 * np.asarray(z))
    assert_allclose(p.l2_ball(fg.tensor([complex(inf, 1), 1j])), [1, 0])
    f = lambda z, s: fnp.sum(fnp.abs(p.l2_ball(z, s) - (1 + 1j)) ** 2)  # noqa: E731
    fg.testing.check_grads(f, (z, 6.5), order=2)
    for project in (p.simplex, p.l1_ball, p.l1_sphere, p.linf_ball, p.non_negative):
        with pytest.raises(DtypeError, match=r"tree\['z'\] is complex.*take l2_ball"):
            project({"z": z})


def test_empty_trees():
    trees: tuple[Any, ...] = (np.zeros((0, 3)), {}, [np.zeros(0), None])
    for tree in trees:
        for project in EVERY.values():
            if project is not p.simplex:
                leaves = fg.tree.leaves(project(tree, 1.0))
                assert [leaf.size for leaf in leaves] == [0] * len(leaves)
        with pytest.raises(ShapeError, match="the tree has no elements"):
            p.simplex(tree)


@together("case", PROJECTIONS)
def test_optax_has_these_numbers(case):
    name, options = PROJECTIONS[case]
    tree = [fg.tensor(x) for x in PROJECTED]
    project = lambda tree: getattr(p, name)(tree, **options)  # noqa: E731
    weight = [np.cos(np.arange(x.size)).reshape(x.shape) for x in PROJECTED]
    total = lambda tree: sum(  # noqa: E731
        fnp.sum(fnp.sin(x) * w) for x, w in zip(project(tree), weight, strict=True)
    )
    found = [*project(tree), *fg.grad(total)(tree)]
    expected = json.loads(TABLE.read_text("utf-8"))[f"projection {case} -"]
    assert_allclose(np.concatenate([np.ravel(x) for x in found]), expected, rtol=0, atol=1e-12)


def test_descent_with_constraints():
    """The weights of a portfolio: gradient steps on the simplex, staged as one loop."""
    target = np.array([0.9, 0.5, -0.3])
    optimizer = optim.sgd(0.2)

    @fg.jit
    def solved(target):
        def step(carry, _):
            w, state = optimizer.step(carry[0] - target, carry[1], carry[0])
            return (p.simplex(w), state), None

        start = fnp.ones(3) / 3
        return fg.scan(step, (start, optimizer.init(start)), length=60)[0][0]

    assert_allclose(solved(target), [0.7, 0.3, 0.0], atol=1e-6)
    slopes = fg.jacrev(solved)(fg.tensor(target))
    assert_allclose(slopes, np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]) / 2, atol=1e-5)


test_refusals = refused(
    [
        (lambda: p.simplex(X, -1.0), ArgumentError, r"projections\.simplex: scale has to be at le"),
        (lambda: p.simplex(X, inf), ArgumentError, "at least 0 and finite, got inf"),
        (lambda: p.l2_ball(X, nan), ArgumentError, "scale has to be at least 0, got nan"),
        (
            lambda: p.l1_ball(X, X),
            DtypeError,
            "one real number.*For a scale of each number take bo",
        ),
        (lambda: p.linf_ball(X, 1j), DtypeError, "scale has to be one real number"),
        (
            lambda: p.non_negative({"w": np.array([1, 2])}),
            DtypeError,
            r"tree\['w'\] is of dtype int64, and has no projection here. Use a floating dtype",
        ),
        (lambda: p.l2_ball({"w": "abc"}), LeafError, r"tree\['w'\]"),
        (
            lambda: p.box({"w": X}, 1.0, 0.0),
            ArgumentError,
            r"lower is greater than upper for tree\['w'\]",
        ),
        (lambda: p.hypercube(X, -1.0), ArgumentError, "0 is greater than the scale"),
        (lambda: p.box({"w": X}, {"v": 1.0}, 2.0), TreeError, r"projections\.box: lower"),
        (
            lambda: p.box([X], [np.zeros(5)], 2.0),
            ShapeError,
            r"lower, for tree\[0\], has the shape \(5,\), which does not broadcast to \(6,\)",
        ),
        (lambda: p.box(0.5, np.zeros(3), 1.0), ShapeError, "does not broadcast"),
        (lambda: p.box(X, 1j, 2.0), DtypeError, "has to be of real numbers, got complex128"),
    ]
)
