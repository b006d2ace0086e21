"""Steps that are left out, made noisy, taken from elsewhere, or reduced."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError

# ------------------------------------------------------------------------------------ finite steps


@pytest.mark.parametrize("staged", [False, True])
def test_steps_with_bad_gradients_are_left_out(staged):
    optimizer = optim.apply_if_finite(optim.adam(0.1), 2)
    step = fg.jit(optimizer.step) if staged else optimizer.step
    inner = optim.adam(0.1)
    params = {"w": fg.tensor([1.0, 2.0]), "z": fg.tensor(1.0 + 1.0j)}
    state, expected, before = optimizer.init(params), params, inner.init(params)
    counts = []
    bad = {2: np.nan, 3: -np.inf, 5: complex(0, np.nan)}
    for number in range(7):
        grads = {"w": params["w"], "z": fg.tensor(bad.get(number, 1.0) + 0j)}
        params, state = step(grads, state, params)
        if number not in bad:
            expected, before = inner.step({"w": expected["w"], "z": 1.0 + 0j}, before, expected)
        assert_allclose(params["w"], expected["w"], rtol=1e-12)
        assert state.last_finite.item() == (number not in bad)
        counts.append(state.notfinite_count.item())
    assert counts == [0, 0, 1, 2, 0, 1, 0]
    assert state.total_notfinite.item() == 3
    assert state.inner.count.item() == 4


def test_an_error_that_stays_is_seen():
    optimizer = optim.apply_if_finite(optim.sgd(0.1), 2)
    params = fg.tensor(1.0)
    state = optimizer.init(params)
    seen = []
    for _ in range(3):
        params, state = optimizer.step(fg.tensor(np.nan), state, params)
        seen.append(np.isnan(params.item()))
    assert seen == [False, False, True]


def test_each_of_a_batch_has_its_own_errors():
    optimizer = optim.apply_if_finite(optim.sgd(1.0), 5)

    def moved(gradient):
        params, state = optimizer.step(gradient, optimizer.init(1.0), 1.0)
        return params, state.total_notfinite

    params, errors = fg.vmap(moved)(fg.tensor([0.5, np.inf, 0.25]))
    assert_array_equal(params, [0.5, 1.0, 0.75])
    assert_array_equal(errors, [0, 1, 0])
    slope = fg.grad(lambda g: optimizer.step(g, optimizer.init(1.0), 1.0)[0])
    assert [slope(0.5).item(), slope(np.nan).item()] == [-1.0, 0.0]


# ------------------------------------------------------------------------------------------- noise


def test_noise_has_the_variance_of_its_step():
    change = optim.noise(eta=4.0, gamma=1.0, key=fg.random.key(0))
    params = {"x": fg.tensor(np.zeros(20_000)), "z": fg.tensor(np.zeros(20_000, complex))}
    state, draws = change.init(params), []
    for step in (1, 2):
        noisy, state = change.update(params, state, params)
        draws.append(noisy)
        assert_allclose(np.std(noisy["x"]), 2 / step**0.5, rtol=0.03)
        assert_allclose(np.std(noisy["z"]), 2 / step**0.5, rtol=0.03)
        assert_allclose(np.std(np.real(noisy["z"])), (2 / step) ** 0.5, rtol=0.03)
        assert state.scale.item() == pytest.approx(2 / step**0.5)
    pairs = [draws[0]["x"], draws[0]["z"].real, draws[0]["z"].imag, draws[1]["x"]]
    correlations = np.corrcoef(pairs) - np.eye(4)
    assert abs(correlations).max() < 0.04


def test_each_parameter_has_noise_of_its_own():
    params = [fg.tensor([0.0, 0.0]), fg.tensor([0.0, 0.0])]
    change = optim.noise(1.0, 0.5, fg.random.key(0))
    first, second = change.update(params, change.init(params), params)[0]
    assert (np.asarray(first) != np.asarray(second)).all()


def test_one_key_is_one_run():
    def trained(key):
        optimizer = optim.chain(optim.noise(0.1, 0.5, key), optim.sgd(0.1))
        params, state = fg.tensor([1.0, 2.0]), optimizer.init(fg.tensor([1.0, 2.0]))
        for _ in range(3):
            params, state = optimizer.step(params, state, params)
        return params

    keys = fg.random.split(fg.random.key(1), 2)
    assert_array_equal(trained(keys[0]), trained(keys[0]))
    assert (np.asarray(trained(keys[0])) != np.asarray(trained(keys[1]))).all()
    assert_allclose(fg.vmap(trained)(keys)[1], trained(keys[1]), rtol=1e-12)
    with fg.random.check_keys():
        trained(keys[0])
    with pytest.raises(DtypeError, match=r"noise: 7 is not a key.*fg\.random\.key|noise: the key"):
        optim.noise(0.1, 0.5, 7)


# --------------------------------------------------------------------------------------------- sam


def objective(params):
    return fnp.sum(params["w"] ** 4) + fnp.sum(params["v"] ** 2)


START: dict[str, Any] = {"w": fg.tensor([1.0, -0.5]), "v": fg.tensor(2.0, "float32")}


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_gradient_is_that_of_the_worst_place_nearby(adaptive):
    optimizer = optim.sam(optim.sgd(0.1), 0.3, adaptive=adaptive)
    grads = fg.grad(objective)(START)
    moved, state = optimizer.step(grads, optimizer.init(START), START, objective=objective)
    p = np.array([1.0, -0.5, 2.0])
    g = np.array([4.0, -0.5, 4.0])
    scale = abs(p) if adaptive else np.ones(3)
    place = p + 0.3 * scale**2 * g / np.linalg.norm(scale * g)
    slopes = np.array([*4 * place[:2] ** 3, 2 * place[2]])
    assert_allclose(np.append(moved["w"], moved["v"]), p - 0.1 * slopes, rtol=1e-6)
    assert moved["v"].dtype == np.float32
    assert state.rate.item() == 0.1


def test_complex_objectives_rise_on_the_way():
    def loss(z):
        return abs(z - 1.0) ** 4

    places = []
    optimizer = optim.sam(optim.sgd(0.1), 0.5)
    z = fg.tensor(1.0 + 2.0j)

    def recorded(z):
        places.append(fg.stop_gradient(z))
        return loss(z)

    optimizer.step(fg.grad(loss)(z), optimizer.init(z), z, objective=recorded)
    assert_allclose(places[0], 1.0 + 2.5j, rtol=1e-12)


def test_a_flat_place_leads_nowhere():
    optimizer = optim.sam(optim.sgd(0.1), 0.5)
    still = fg.tree.map(lambda leaf: 0.0 * leaf, START)
    moved, _ = optimizer.step(still, optimizer.init(still), still, objective=objective)
    assert_array_equal(moved["w"], 0.0)


def test_bad_gradients_of_either_place_are_left_out():
    optimizer = optim.sam(optim.apply_if_finite(optim.sgd(0.1), 5), 0.5)

    def steep(x):
        return fnp.exp(600.0 * x)  # infinite from 1.2 on

    x = fg.tensor(0.9)
    for gradient in (1.0, np.nan):
        with np.errstate(over="ignore"):
            moved, state = optimizer.step(gradient, optimizer.init(x), x, objective=steep)
        assert moved.item() == 0.9
        assert state.total_notfinite.item() == 1


def test_bad_sams():
    optimizer = optim.sam(optim.sgd(0.1))
    state = optimizer.init(START)
    with pytest.raises(ArgumentError, match=r"objective= is missing. Call step\(grads, state, par"):
        optimizer.step(START, state, START)
    with pytest.raises(FunctionError, match="objective has to be a function from parameters"):
        optimizer.step(START, state, START, objective=1.0)
    with pytest.raises(ArgumentError, match="rho has to be at least 0 and finite"):
        optim.sam(optim.sgd(0.1), -1.0)


# ---------------------------------------------------------------------------------------- plateaus


def scales(values, **options):
    change: Any = optim.reduce_on_plateau(**{"factor": 0.5, "patience": 2, **options})
    params = fg.tensor(1.0)
    state, found = change.init(params), []
    for value in values:
        update, state = change.update(params, state, params, value=value)
        assert update.item() == state.scale.item()
        found.append(state.scale.item())
    return found


def test_the_scale_falls_on_a_plateau():
    assert scales([3, 2, 2, 2, 2, 2]) == [1, 1, 1, 0.5, 0.5, 0.25]
    assert scales([3, 2, 2, 1.9, 2, 2]) == [1, 1, 1, 1, 1, 0.5]
    assert scales([2, 2, 2, 2, 2, 2, 2], cooldown=2) == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    assert scales([2.0] * 8, min_scale=0.4) == [1, 1, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4]
    assert scales([1, 3, 2, 2, 1, 3, 1, 3], accumulation_size=2, patience=1)[::2] == [
        1,
        1,
        0.5,
        0.25,
    ]
    assert scales([2, 1.95, 1.9, 1.85], rtol=0.1) == [1, 1, 0.5, 0.5]
    assert scales([2, 1.95, 1.9, 1.85], atol=0.2) == [1, 1, 0.5, 0.5]


def test_negative_values_improve_downwards():
    assert scales([-2, -1.99, -1.98], rtol=0.1) == [1, 1, 0.5]
    assert scales([-2, -2.3, -2.6, -2.9], rtol=0.1) == [1, 1, 1, 1]


def test_nan_is_no_improvement():
    assert scales([np.nan, np.nan, 1.0, 0.5]) == [1, 0.5, 0.5, 0.5]
    assert scales([1.0, np.inf, np.inf, -np.inf]) == [1, 1, 0.5, 0.5]


def test_bad_plateaus():
    for options, text in (
        ({"factor": 0.0}, "factor has to be above 0"),
        ({"factor": 1.0}, "factor has to be at least 0 and below 1"),
        ({"patience": 0}, "patience has to be above 0"),
        ({"rtol": 0.0}, "rtol or atol has to be above 0"),
        ({"rtol": 2.0}, "rtol has to be 1 at most"),
    ):
        with pytest.raises(ArgumentError, match=f"reduce_on_plateau: {text}"):
            optim.reduce_on_plateau(**options)
    change: Any = optim.reduce_on_plateau()
    state = change.init(1.0)
    with pytest.raises(
        ArgumentError, match=r"value= is missing. Call step\(grads, state, params, v"
    ):
        change.update(1.0, state, 1.0)
    with pytest.raises(ShapeError, match=r"value has to be one number, got shape \(1,\)"):
        change.update(1.0, state, 1.0, value=[1.0])
    with pytest.raises(DtypeError, match="value has to be a real number"):
        change.update(1.0, state, 1.0, value=1j)
