"""Strategies draw what they say, shrink towards smooth points, and refuse impossible shapes."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as hst
import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis.extra.numpy import array_shapes

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.testing import laws
from funcgrad.testing import strategies as st
from funcgrad.testing.strategies import drawn_functions
from funcgrad.testing.strategies.drawn_functions import OPERATIONS
from tests.scripts import printed
from tests.together import refused, together

STRATEGIES: Any = st  # to call with arguments of wrong types
quickly = settings(max_examples=40, deadline=None)


def simplest(strategy: Any) -> Any:
    return find(strategy, lambda x: True)


@quickly
@given(st.tensors(st.dtypes("fc", min_bits=16), array_shapes(min_dims=0, max_dims=3), (-2, 3)))
def test_tensors_have_the_dtype_the_shape_and_the_range(x):
    assert isinstance(x, fg.Tensor)
    assert x.dtype.kind in "fc"
    parts = np.stack([np.real(x), np.imag(x)]) if x.dtype.kind == "c" else np.asarray(x)
    assert np.all((parts >= -2) & (parts <= 3))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64"])
def test_a_few_tensors_are_of_other_scales(dtype: str):
    sizes = []

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(st.tensors(dtype, 3))
    def draw(x):
        sizes.append(float(np.max(np.abs(np.asarray(x)))))

    draw()
    ends = [0, 1e-3, 4, 10, 30, 1e3, 1e6]
    slack = 1 + 0.5 * (dtype == "complex64")  # of real and imaginary part
    counts = np.histogram(sizes, slack * np.array(ends))[0]
    assert sum(counts) == 300
    assert counts[1] > 150
    assert np.all(counts[: 5 if dtype == "float16" else 6] > 1)


@quickly
@given(st.tensors("int32", (2, 3)), st.tensors(bool, 4), st.tensors("uint8", 2))
def test_tensors_of_integers_and_flags(x, flags, bytes_):
    assert (x.dtype, x.shape) == (np.int32, (2, 3))
    assert flags.dtype == bool
    assert bytes_.dtype == np.uint8
    assert np.all(abs(np.asarray(x)) <= 8)


def test_elements_may_be_a_strategy_of_hypothesis():
    strategy = st.tensors("float64", 3, elements=hst.floats(0, 1))
    assert simplest(strategy).tolist() == [0, 0, 0]


def test_large_arrays_come_of_one_seed():
    x = find(st.tensors(shape=(40, 50)), lambda x: float(fnp.max(x)) > 3.5)
    assert len(np.unique(x)) == 2000
    assert x.shape == (40, 50)


@pytest.mark.slow
@pytest.mark.parametrize("kink", [abs, fg.nn.relu, fnp.sqrt, fnp.max, fnp.linalg.norm, fnp.sort])
def test_the_simplest_point_is_smooth(kink):
    x = simplest(st.tensors(shape=3))
    assert x.tolist() == [0.5, 1.25, 1.75]
    laws.taylor(kink, (x,))


def test_shrinking_keeps_to_smooth_points():
    x = find(st.tensors(shape=4), lambda x: float(x[2]) > 2)
    assert x[:2].tolist() == [0.5, 1.25]
    assert len(np.unique(x)) == 4
    assert not np.any(np.asarray(x) == 0)


@quickly
@given(st.positive(shape=5), st.sorted(shape=(2, 5)), st.probabilities("float32", (4, 3)))
def test_positive_sorted_and_probabilities(x, y, p):
    assert np.all(np.asarray(x) > 0)
    assert np.all(np.diff(y, axis=-1) >= 0)
    assert np.allclose(np.sum(p, axis=-1), 1, rtol=1e-6)
    assert p.dtype == np.float32
    assert np.all(np.asarray(p) > 0)


@quickly
@given(
    st.spd(4, 1e4), st.orthogonal(4, complex), st.low_rank((5, 4), 2), st.clustered_spectrum(5, 2)
)
def test_matrices_have_their_property(a, q, low, clustered):
    values = np.linalg.eigvalsh(a)
    assert values[0] > 0
    assert values[-1] / values[0] <= 1.0001e4
    assert np.array_equal(a, a.T)
    assert np.allclose(np.conj(q).T @ np.asarray(q), np.eye(4))
    assert np.linalg.matrix_rank(low) == 2
    gaps = np.diff(np.linalg.eigvalsh(clustered))
    assert np.sum(gaps > 0.1) == 1
    assert np.sum(gaps < 1e-5) == 3


def test_drawn_values_are_not_only_the_simple_ones() -> None:
    assert np.all(np.asarray(found(st.tensors("int64", 3), lambda x: np.max(x) < 0)) < 0)
    assert found(st.spd(1), lambda x: True).shape == (1, 1)
    found(st.pytrees(max_leaves=1), lambda x: True)
    found(st.functions(2, 2, max_steps=1), lambda f: True)
    rotated = found(st.clustered_spectrum(3, 2), lambda x: abs(x[0, 1]) > 0.05)
    assert rotated[0, 1] == rotated[1, 0]


def found(strategy: Any, property: Any) -> Any:
    quick = settings(database=None, derandomize=True, phases=[Phase.generate])  # does not shrink
    return find(strategy, property, settings=quick)


@quickly
@given(st.keys(), st.pytrees(max_leaves=4))
def test_keys_and_trees(key, tree):
    assert key.shape == (2,)
    fg.random.normal(key)
    leaves = fg.tree.leaves(tree)
    assert all(isinstance(leaf, fg.Tensor) for leaf in leaves)


@fg.pytree
class Model:
    weight: fg.Tensor
    shift: fg.Tensor | None = None
    name: str = fg.static_field(default="model")


@quickly
@given(st.like(Model(fg.tensor([[1.0, 2.0]], "float32"))))
def test_directions_have_the_structure_of_a_tree(tangent):
    assert isinstance(tangent, Model)
    assert tangent.weight.shape == (1, 2)
    assert tangent.weight.dtype == np.float32
    assert tangent.name == "model"


# ------------------------------------------------------------------------------------- functions


def test_operations_are_discovered_with_their_domains():
    names = {operation.name for _, operation in OPERATIONS.texts if operation is not None}
    assert {"log", "arccosh", "sqrt", "tan", "tanh", "expm1"} <= names
    assert not names & {"absolute", "sign", "floor", "fabs"}
    assert len(names) >= 20


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.functions((3,)), st.tensors(shape=3))
def test_functions_are_smooth_and_right(f, x):
    for law in (laws.modes_agree, laws.grad_is_numerical, laws.taylor, laws.jit_is_eager):
        law(f, (x,))


@settings(max_examples=20, deadline=None)
@given(st.functions([(2, 3), ()], (4,)), st.tensors(shape=(2, 3)), st.tensors())
def test_functions_of_several_arguments_print_as_source(f, x, y):
    assert f(x, y).shape == (4,)
    names: dict[str, Any] = {}
    exec(repr(f), names)
    assert np.array_equal(names["f"](x, y), f(x, y))


TEXTS = [*drawn_functions._OF_NUMBERS, *drawn_functions._OF_VECTORS]


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_functions_have_loops_branches_complex_numbers_and_linear_algebra(text):
    step = text.format("x", n=3)
    f = find(st.functions((3,), max_steps=1), lambda f: step in f.source)
    x = np.array([-1.3, 0.2, 1.7])
    laws.grad_is_numerical(f, (x,))
    laws.modes_agree(f, (x,))


@together("text", drawn_functions._OF_NUMBERS)
def test_names_inside_of_steps_hide_no_values(text):
    def drawn(*steps):
        source = drawn_functions._source([(3,)], (3,), [(step, 0, 0) for step in steps])
        return drawn_functions.DrawnFunction(source)

    x = np.array([0.5, 1.25, 1.75])
    for count in range(22):
        moved = drawn(*count * ["0.5 * {0}"], text)(2.0**count * x)
        assert np.array_equal(moved, drawn(text)(x))


def test_functions_of_other_namespaces_import_them():
    f = find(st.functions(()), lambda f: "special.erf(" in f.source)
    assert "import funcgrad.scipy.special as special" in f.source
    assert np.isfinite(f(0.5))
    texts = [text for text, _ in OPERATIONS.texts]
    assert sum(text.startswith("special.") for text in texts) >= 20
    assert any(text.startswith("fg.nn.gelu") for text in texts)
    assert not any("relu(" in text or "abs(" in text for text in texts)  # they have kinks


@pytest.mark.slow
def test_every_operation_of_functions_is_smooth_and_right():
    for text, _ in OPERATIONS.texts:
        for shape in ((), (2, 3)):
            f = drawn_functions.DrawnFunction(drawn_functions._source([shape], (), [(text, 0, 0)]))
            x = np.linspace(-1.3, 1.7, 6).reshape(2, 3) if shape else np.float64(0.4)
            for law in (laws.modes_agree, laws.grad_is_numerical, laws.hessian_symmetric):
                law(f, (x,))


def test_functions_shrink_to_few_steps():
    f = find(st.functions((2,)), lambda f: "log" in f.source)
    assert len(f.source.splitlines()) == 6


# ------------------------------------------------------------------------------------- bad input


test_impossible_strategies_are_explained = refused(
    [
        (lambda: st.tensors("text"), DtypeError, "dtype has to be"),
        (lambda: st.tensors("U3"), DtypeError, "cannot have the dtype"),
        (lambda: st.tensors(shape=(-1,)), ShapeError, "tensors"),
        (lambda: st.tensors(elements=3), ArgumentError, "pair of numbers"),
        (lambda: st.tensors(elements=(1, 0)), ArgumentError, "finite range"),
        (lambda: st.tensors(elements=(0, np.inf)), ArgumentError, "finite range"),
        (lambda: st.dtypes("i"), ArgumentError, "no inexact dtype"),
        (lambda: st.dtypes("f", min_bits=128), ArgumentError, "with 128 bits"),
        (lambda: st.probabilities(shape=()), ArgumentError, "nothing can sum to 1"),
        (lambda: st.probabilities(shape=(3, 0)), ArgumentError, "nothing can sum to 1"),
        (lambda: st.spd(0), ArgumentError, "rows and columns"),
        (lambda: st.spd(3, 0.5), ArgumentError, "a finite number >= 1"),
        (lambda: st.orthogonal(-1), ArgumentError, "rows and columns"),
        (lambda: st.low_rank((2, 3), 3), ArgumentError, r"no matrix of shape \(2, 3\) has rank 3"),
        (lambda: st.clustered_spectrum(2, 3), ArgumentError, "cannot be in 3 clusters"),
        (lambda: st.clustered_spectrum(2, gap=-1), ArgumentError, "at least 0"),
        (lambda: STRATEGIES.pytrees(3), ArgumentError, "leaves has to be a strategy"),
        (lambda: st.pytrees(max_leaves=0), ArgumentError, "at least 1"),
        (lambda: st.functions([]), ArgumentError, "1 to 4 arguments"),
        (lambda: st.functions((0,)), ArgumentError, "need elements"),
        (lambda: st.functions((2,), max_steps=0), ArgumentError, "at least 1"),
    ]
)


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import funcgrad as fg
from funcgrad.testing import laws, strategies
laws.taylor(fg.numpy.sin, (0.5,))
for make in (strategies.tensors, strategies.keys, lambda: fg.testing.holds(laws.taylor, at=1)):
    try:
        make()
    except fg.errors.MissingPackageError as error:
        print(error)
"""


def test_laws_do_without_hypothesis_and_strategies_say_what_is_missing():
    first, second, third = printed(WITHOUT).splitlines()
    assert first.startswith("strategies.tensors: hypothesis is not installed.")
    assert second.startswith("strategies.keys: ")
    assert third.startswith("holds: ")
