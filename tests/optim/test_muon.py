"""Muon makes matrices orthogonal, whichever axes they have, and leaves the others to Adam."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TreeError
from funcgrad.optim import MuonDimensionNumbers
from funcgrad.optim.muon import PRECONDITIONINGS
from funcgrad.optim.muon import _orthogonalized as orthogonalized
from tests.together import together

RANDOM = np.random.default_rng(0)
EXACT = (15 / 8, -10 / 8, 3 / 8)
"""Coefficients with which the iteration converges."""


def updated(optimizer, params):
    return optimizer.update(params, optimizer.init(params), params)[0]


def polar(matrix):
    u, _, v = np.linalg.svd(matrix, full_matrices=False)
    return u @ v


@together("preconditioning", PRECONDITIONINGS)
@together("shape", [(3, 3), (5, 2), (2, 4), (2, 3, 4)])
@together("is_complex", [False, True])
def test_the_iteration_finds_the_polar_factor(preconditioning, shape, is_complex):
    matrix = RANDOM.normal(size=shape) + (1j * RANDOM.normal(size=shape) if is_complex else 0)
    found = orthogonalized(fg.tensor(matrix), (EXACT,) * 25, preconditioning)
    if preconditioning != "aol":
        assert_allclose(found, polar(matrix), atol=1e-8)
    small = found if shape[-2] <= shape[-1] else np.swapaxes(found, -1, -2)
    product = np.asarray(small) @ np.conj(np.swapaxes(small, -1, -2))
    assert_allclose(product, np.broadcast_to(np.eye(min(shape[-2:])), product.shape), atol=1e-8)


@together("preconditioning", PRECONDITIONINGS)
@together("shape", [(0, 3), (3, 0), (0, 2, 3), (2, 3)])
def test_empty_and_zero_matrices_stay(preconditioning, shape):
    zeros = fg.tensor(np.zeros(shape))
    numbers = MuonDimensionNumbers(-2, -1)
    optimizer = optim.muon(
        0.1, preconditioning=preconditioning, muon_weight_dimension_numbers=numbers
    )
    assert_array_equal(updated(optimizer, zeros), np.zeros(shape))


def test_a_stack_is_stepped_as_its_matrices_alone():
    stack = RANDOM.normal(size=(4, 3, 2))
    numbers = MuonDimensionNumbers(1, 2)
    together = updated(
        optim.muon(0.1, adaptive=True, muon_weight_dimension_numbers=numbers), fg.tensor(stack)
    )
    alone = [updated(optim.muon(0.1, adaptive=True), fg.tensor(matrix)) for matrix in stack]
    assert_allclose(together, alone, rtol=1e-12)


def test_a_kernel_is_a_matrix_of_filters():
    kernel = RANDOM.normal(size=(5, 2, 3, 3))
    numbers = {"conv": {"kernel": MuonDimensionNumbers((1, 2, 3), 0), "bias": None}}
    params = {"conv": {"kernel": fg.tensor(kernel), "bias": fg.tensor(np.ones(5))}}
    optimizer = optim.muon(0.1, nesterov=False, muon_weight_dimension_numbers=numbers)
    state = optimizer.init(params)
    assert state.nu["conv"]["kernel"] is None
    assert state.nu["conv"]["bias"].shape == (5,)
    updates, _ = optimizer.update(params, state, params)
    flat = updated(optim.muon(0.1, nesterov=False), fg.tensor(kernel.reshape(5, 18).T))
    assert_allclose(updates["conv"]["kernel"], np.asarray(flat).T.reshape(5, 2, 3, 3), rtol=1e-10)
    assert_allclose(updates["conv"]["bias"], -0.1, rtol=1e-6)


def test_axes_may_be_a_function_a_prefix_and_negative():
    params = {"a": fg.tensor(RANDOM.normal(size=(2, 3, 4))), "b": fg.tensor(np.ones((2, 2)))}

    def numbers(params):
        return pytrees.map(lambda x: MuonDimensionNumbers(-2, -1) if x.ndim > 2 else None, params)

    by_function = optim.muon(0.1, muon_weight_dimension_numbers=numbers)
    by_tree = optim.muon(
        0.1, muon_weight_dimension_numbers={"a": MuonDimensionNumbers(1, 2), "b": None}
    )
    found, expected = updated(by_function, params), updated(by_tree, params)
    assert_array_equal(found["a"], expected["a"])
    assert_array_equal(found["b"], updated(optim.nadam(0.1), params)["b"])
    prefix = optim.muon(0.1, muon_weight_dimension_numbers=MuonDimensionNumbers(-2, -1))
    assert updated(prefix, params)["b"].shape == (2, 2)
    assert pickle.loads(pickle.dumps(by_tree)).init(params).nu["a"] is None


def test_an_embedding_is_left_to_adam():
    params = {"embedding": fg.tensor(np.eye(3)), "w": fg.tensor(2.0 * np.eye(3))}
    optimizer = optim.partition({"embedding": optim.adamw(0.5), "*": optim.muon(0.1)})
    moved, state = optimizer.step(params, optimizer.init(params), params)
    assert_allclose(np.diag(moved["embedding"]), 0.5, atol=1e-4)
    assert np.linalg.norm(np.asarray(moved["w"]) - 2 * np.eye(3), 2) < 0.2
    assert state[1].rate.item() == 0.1


def test_both_rates_are_held():
    params = {"w": fg.tensor(np.eye(2)), "b": fg.tensor([1.0])}
    optimizer = optim.muon(0.1, adam_learning_rate=lambda count: 0.5 / (count + 1))
    state = optimizer.init(params)
    for _ in range(2):
        _, state = optimizer.update(params, state, params)
    assert (state.rate.item(), state.adam_rate.item()) == (0.1, 0.25)


def test_bad_muons():
    matrix = fg.tensor(np.eye(2))
    for options, text in (
        ({"ns_coeffs": "dino"}, "ns_coeffs is one of 'standard', 'dion', three numbers"),
        ({"ns_coeffs": (1.0, 2.0)}, "ns_coeffs is one of"),
        ({"ns_steps": 100}, "ns_steps has to be below 100"),
        ({"ns_steps": 0}, "ns_steps has to be an integer above 0"),
        ({"preconditioning": "norm"}, "preconditioning is one of 'frobenius', 'spectral'"),
        ({"beta": 1.0}, "beta has to be at least 0 and below 1"),
        ({"adam_learning_rate": -1.0}, "adam_learning_rate has to be at least 0 and finite"),
    ):
        with pytest.raises(ArgumentError, match=f"muon: {text}"):
            optim.muon(0.1, **options)
    numbers: Any
    for numbers, error, text in (
        (MuonDimensionNumbers(0, 2), ShapeError, r"at params\['w'\]: .* a parameter with 2 axes"),
        (MuonDimensionNumbers(0, -2), ShapeError, "none is on both"),
        (MuonDimensionNumbers((), 1), ShapeError, "each side has one"),
        (MuonDimensionNumbers(0.0, 1), DtypeError, r"at params\['w'\]: an axis is an integer"),  # type: ignore[arg-type]
        ({"w": 1}, DtypeError, r"at params\['w'\] has to be a MuonDimensionNumbers or None, got 1"),
        ({"v": None}, TreeError, "muon_weight_dimension_numbers: expected a dict with keys"),
    ):
        with pytest.raises(error, match=text):
            optim.muon(0.1, muon_weight_dimension_numbers=numbers).init({"w": matrix})
    params = {"w": matrix}
    other = optim.muon(0.1, muon_weight_dimension_numbers={"w": None}).init(params)
    with pytest.raises(TreeError, match=r"state\.nu\['w'\]: expected None, got a tensor.*options"):
        optim.muon(0.1).update(params, other, params)
