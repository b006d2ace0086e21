"""L-BFGS finds minima in as few evaluations as SciPy's, whatever the kinds of the parameters."""

import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError, TreeError
from funcgrad.optim.lbfgs import PairMemory
from tests.together import together


def rosenbrock(x):
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def bowl(params):
    """A quadratic function of any tree, with its minimum where every number is its place."""
    pairs = zip(pytrees.leaves(params), (1.0, 2.0 - 1j, 3.0), strict=False)
    return sum((abs(leaf - place) ** 2).sum() * place.real for leaf, place in pairs)


def stepped(optimizer: Any, objective: Any, params: Any, state: Any = None) -> tuple[Any, Any]:
    state = optimizer.init(params) if state is None else state
    return optimizer.step(state.grads, state, params, value=state.value, objective=objective)


def minimized(objective, params, tolerance=1e-6, optimizer=None, most=500):
    optimizer = optimizer or optim.lbfgs()

    def is_steep(carry):
        return (fg.tree.norm(carry[1].grads) > tolerance) & (carry[1].count < most)

    def step(carry):
        return stepped(optimizer, objective, *carry)

    return fg.while_loop(is_steep, step, (params, optimizer.init(params)))


def test_rosenbrock_takes_no_more_evaluations_than_scipy():
    start = np.tile([-1.2, 1.0], 5)
    function = fg.jit(fg.value_and_grad(rosenbrock))
    theirs = scipy.optimize.minimize(
        function, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "ftol": 0.0}
    )
    x, state = fg.jit(lambda x: minimized(rosenbrock, x))(fg.tensor(start))
    assert_allclose(x, 1.0, atol=1e-6)
    assert state.evaluations.item() <= 1.2 * theirs.nfev


@pytest.mark.parametrize("backend", ["numpy", None])
def test_staged_steps_are_the_eager_ones(backend):
    optimizer = optim.lbfgs(3)
    step = fg.jit(lambda *carry: stepped(optimizer, rosenbrock, *carry), backend=backend)
    staged = carry = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0]))
    for _ in range(6):
        carry, staged = stepped(optimizer, rosenbrock, *carry), step(*staged)
    pairs = zip(pytrees.leaves(carry), pytrees.leaves(staged), strict=True)
    for first, second in pairs:
        assert first.dtype == second.dtype
        assert_allclose(second, first, rtol=1e-6, atol=1e-9)


def test_nothing_is_evaluated_twice():
    seen = []

    def counted(x):
        seen.append(np.array(fg.stop_gradient(x)))
        return rosenbrock(x)

    optimizer = optim.lbfgs()
    carry = stepped(optimizer, counted, fg.tensor([-1.2, 1.0]))
    for _ in range(4):
        carry = stepped(optimizer, counted, *carry)
    x, state = carry
    assert len(seen) == state.evaluations.item()
    assert len({tuple(place) for place in seen}) == len(seen)
    expected, slope = fg.value_and_grad(rosenbrock)(x)
    assert state.value.item() == expected.item()
    assert_array_equal(state.grads, slope)


def test_every_step_satisfies_wolfes_conditions():
    optimizer = optim.lbfgs()
    x, state = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0]))
    for _ in range(30):
        before, value, grads = x, state.value, state.grads
        x, state = stepped(optimizer, rosenbrock, x, state)
        assert state.value <= value + 1e-4 * (grads @ (x - before))
        assert abs(state.grads @ (x - before)) <= -0.9 * (grads @ (x - before))


@together(
    "dtypes",
    [
        ("float64", "complex64", "float32"),
        ("float16", "complex64", "float16"),
        ("float64", "complex128", "float64"),
        ("float32", "complex64", "float32"),
    ],
    quick=2,
)
def test_trees_of_every_dtype(dtypes):
    first, second, third = (np.dtype(name) for name in dtypes)
    params = {
        "a": [fg.tensor(np.zeros((2, 2), first)), fg.tensor([1j, 3.0, -2.0], second)],
        "b": fg.tensor(0.5, third),
    }
    optimizer = optim.lbfgs()
    step = fg.jit(lambda *carry: stepped(optimizer, bowl, *carry))
    carry = (params, optimizer.init(params))
    for _ in range(12):
        carry = step(*carry)
    found: Any = carry[0]
    state = carry[1]
    eps = max(float(np.finfo(dtype).eps) for dtype in (first, second, third))
    assert_allclose(found["a"][0], 1.0, rtol=4 * eps)
    assert_allclose(found["a"][1], 2.0 - 1j, rtol=max(4 * eps, 1e-6))
    assert_allclose(found["b"], 3.0, rtol=max(4 * eps, 1e-6))
    assert [leaf.dtype for leaf in pytrees.leaves(found)] == [
        leaf.dtype for leaf in pytrees.leaves(params)
    ]
    widest = np.result_type(
        np.float32, *(np.finfo(dtype).dtype for dtype in (first, second, third))
    )
    assert state.memory.steps.shape == (10, 11)
    assert {leaf.dtype for leaf in pytrees.leaves(state.memory)} == {widest}
    layouts = [
        [(x.shape, x.dtype) for x in pytrees.leaves(s)] for s in (state, optimizer.init(params))
    ]
    assert layouts[0] == layouts[1]


def test_complex_parameters_are_pairs_of_real_ones():
    matrix = np.array([[2.0, 0.3 + 0.4j], [0.3 - 0.4j, 1.0]])

    def loss(z):
        off = z - fnp.asarray([1.0 + 1j, -2.0])
        return (off.conj() @ matrix @ off).real + 0.1 * abs(z[0]) ** 4

    def of_pairs(pairs):
        return loss(pairs[0] + 1j * pairs[1])

    start = np.array([0.5 - 1j, 2.0j])
    pairs = fg.tensor([start.real, start.imag])
    optimizer = optim.lbfgs()
    carry: tuple[Any, ...] = (fg.tensor(start),)
    real: tuple[Any, ...] = (pairs,)
    for _ in range(8):
        carry, real = stepped(optimizer, loss, *carry), stepped(optimizer, of_pairs, *real)
        assert_allclose(carry[0], real[0][0] + 1j * real[0][1], rtol=1e-6)
        assert carry[1].evaluations.item() == real[1].evaluations.item()


@pytest.mark.parametrize("wrap", [lambda f: f, fg.jit])
def test_vmap_over_starts_is_the_loop(wrap):
    starts = fg.tensor([[-1.2, 1.0], [1.0, 1.0], [0.5, -2.0]])
    optimizer = optim.lbfgs()

    def trained(x):
        def step(carry, _):
            return stepped(optimizer, rosenbrock, *carry), None

        return fg.scan(step, (x, optimizer.init(x)), length=8)[0]

    xs, states = wrap(fg.vmap(trained))(starts)
    for i in range(3):
        x, state = trained(starts[i])
        assert_allclose(xs[i], x, rtol=1e-6)
        assert states.evaluations[i].item() == state.evaluations.item()
    assert states.rate[1].item() == 0.0


def test_derivatives_of_a_run_are_those_of_its_minimum():
    def fitted(target):
        def loss(x):
            return fnp.sum(fnp.asarray([1.0, 3.0]) * (x - target) ** 2)

        optimizer = optim.lbfgs()
        carry = stepped(optimizer, loss, fg.tensor([0.0, 0.0]))
        for _ in range(5):
            carry = stepped(optimizer, loss, *carry)
        return carry[0] @ fnp.asarray([1.0, 10.0])

    target = fg.tensor([0.3, -0.7])
    assert_allclose(fg.grad(fitted)(target), [1.0, 10.0], rtol=1e-5)
    assert_allclose(fg.jvp(fitted, (target,), (fg.tensor([1.0, 0.0]),))[1], 1.0, rtol=1e-5)


@pytest.mark.parametrize("wall", [np.inf, np.nan])
def test_places_where_the_objective_is_not_finite_are_too_far(wall):
    def loss(x):
        return fnp.where(x > 0.0, x - fnp.log(fnp.where(x > 0.0, x, 1.0)), wall)

    x, state = minimized(loss, fg.tensor(20.0), optimizer=optim.lbfgs(curv_rtol=0.1))
    assert_allclose(x, 1.0, rtol=1e-6)
    assert np.isfinite(state.value.item())


@pytest.mark.parametrize("start", [3.0, 1e9])
def test_at_a_minimum_nothing_moves(start):
    def loss(x):
        return (x - start) ** 2 + 7.0

    optimizer, x = optim.lbfgs(), fg.tensor(start)
    moved, state = stepped(optimizer, loss, x)
    assert moved.item() == start
    assert (state.rate.item(), state.evaluations.item(), state.value.item()) == (0.0, 1, 7.0)


def test_no_decrease_empties_the_memory():
    optimizer = optim.lbfgs()
    x, state = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0]))
    assert state.memory.inverse[-1, -1] > 0.0
    wrong = -state.grads  # along which the objective rises
    moved, state = optimizer.step(wrong, state, x, value=rosenbrock(x), objective=rosenbrock)
    assert_array_equal(moved, x)
    assert (state.rate.item(), state.count.item()) == (0.0, 2)
    assert not np.any(state.memory.inverse)
    assert_array_equal(state.grads, wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_start_without_a_value_is_evaluated_and_stays_if_there_is_none(value):
    optimizer, x = optim.lbfgs(), fg.tensor([-1.2, 1.0])
    state, wrong = optimizer.init(x), fg.tensor([5.0, np.nan])
    moved, _ = optimizer.step(wrong, state, x, value=value, objective=rosenbrock)
    assert_array_equal(moved, stepped(optimizer, rosenbrock, x)[0])
    for _ in range(2):
        moved, state = stepped(optimizer, lambda x: fnp.sum(x) * 0.0 + value, x, state)
        assert_array_equal(moved, x)
        assert state.rate.item() == 0.0
    assert state.evaluations.item() == 2


@pytest.mark.parametrize("slope", [np.nan, np.inf])
def test_gradients_that_are_not_finite_move_nothing(slope):
    optimizer, x = optim.lbfgs(), fg.tensor([-1.2, 1.0])
    _, state = stepped(optimizer, rosenbrock, x)
    evaluations = state.evaluations.item()
    grads = fg.tensor([1.0, slope])
    with np.errstate(invalid="ignore"):
        moved, state = optimizer.step(grads, state, x, value=rosenbrock(x), objective=rosenbrock)
    assert_array_equal(moved, x)
    assert (state.rate.item(), state.evaluations.item()) == (0.0, evaluations)
    moved, state = optimizer.step(
        fg.grad(rosenbrock)(x), state, x, value=rosenbrock(x), objective=rosenbrock
    )
    assert state.value < rosenbrock(x)


def test_the_first_step_is_along_the_gradient_and_no_longer_than_1():
    optimizer = optim.lbfgs()
    for start, length in ((0.3, 0.15), (3.0, 1.0)):  # of a function with the slope x / 2
        x, state = stepped(optimizer, lambda x: x * x / 4.0, fg.tensor(start))
        assert_allclose(x, start - length, rtol=1e-12)
        assert state.rate.item() == 1.0


def test_values_of_any_size_and_near_each_other_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale, shift in ((1e150, 0.0), (1e-6, 0.0), (1.0, 1e8)):
            x, _ = minimized(
                lambda x, c=scale, d=shift: d + c * rosenbrock(x),
                fg.tensor([-1.2, 1.0]),
                tolerance=1e-5 * scale,
                most=80,
            )
            assert_allclose(x, 1.0, atol=1e-3)


def test_the_memory_holds_the_last_pairs():
    optimizer = optim.lbfgs(2)
    x, state = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0]))
    steps, changes = [], []
    for _ in range(4):
        before, grads = x, state.grads
        x, state = stepped(optimizer, rosenbrock, x, state)
        steps.append(x - before)
        changes.append(state.grads - grads)
    assert_allclose(state.memory.steps, steps[-2:], rtol=1e-9)
    assert_array_equal(state.memory.changes, changes[-2:])
    triangle = np.triu(np.asarray(steps[-2:]) @ np.asarray(changes[-2:]).T)
    assert_allclose(state.memory.inverse, np.linalg.inv(triangle), rtol=1e-9)
    assert state.count.item() == 5


def test_the_direction_is_that_of_the_dense_formula():
    """The update of BFGS, of the inverse Hessian as a matrix (Nocedal, Wright, 2006, 6.17)."""
    optimizer = optim.lbfgs(3)
    carry = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0, 0.5]))
    for _ in range(3):
        carry = stepped(optimizer, rosenbrock, *carry)
    x, state = carry
    s, y = np.asarray(state.memory.steps), np.asarray(state.memory.changes)
    rho, grads = 1.0 / np.sum(s * y, 1), state.grads
    inverse = np.eye(3) / (rho[-1] * (y[-1] @ y[-1]))
    for row in range(3):
        left = np.eye(3) - rho[row] * np.outer(s[row], y[row])
        inverse = left @ inverse @ left.T + rho[row] * np.outer(s[row], s[row])
    moved, state = stepped(optimizer, rosenbrock, *carry)
    assert_allclose(moved - x, -state.rate.item() * inverse @ grads, rtol=1e-9)


def test_a_memory_that_gives_no_descent_is_left():
    optimizer = optim.lbfgs(3)
    x, state = stepped(optimizer, rosenbrock, fg.tensor([-1.2, 1.0]))
    upwards = replace(state, memory=replace(state.memory, scale=fg.tensor(-1.0)))
    direction, is_newton = upwards.memory.direction(fg.tensor([3.0, 4.0]))
    assert_allclose(direction, [-0.6, -0.8])
    assert not is_newton
    _, state = stepped(optimizer, rosenbrock, x, upwards)
    assert np.count_nonzero(state.memory.inverse) == 1


def test_pairs_without_curvature_are_not_remembered():
    empty = PairMemory.empty(2, fg.tensor([0.0, 0.0]))
    step, least = fg.tensor([1.0, 2.0]), fg.tensor(0.1)
    for change in ([-1.0, -2.0], [0.0, 0.0], [0.1, -0.01], [1e200, 1e200], [np.nan, 1.0]):
        with np.errstate(over="ignore"):
            memory = empty.with_pair(step, fg.tensor(change), least)
        assert not np.any(memory.inverse)
        assert not np.any(memory.steps)
    assert np.any(empty.with_pair(step, step, least).inverse)


def test_it_pickles_and_stands_last_in_a_chain():
    optimizer = optim.chain(
        clip=optim.clip_by_norm(1e9), lbfgs=pickle.loads(pickle.dumps(optim.lbfgs(4)))
    )
    x = fg.tensor([-1.2, 1.0])
    value, grads = fg.value_and_grad(rosenbrock)(x)
    moved, state = optimizer.step(grads, optimizer.init(x), x, value=value, objective=rosenbrock)
    alone, expected = stepped(optim.lbfgs(4), rosenbrock, x)
    assert_array_equal(moved, alone)
    assert state.lbfgs.value.item() == expected.value.item()
    again = pickle.loads(pickle.dumps(state))
    assert_array_equal(again.lbfgs.memory.steps, expected.memory.steps)


@pytest.mark.parametrize("params", [{}, {"a": np.zeros((0, 2))}])
def test_no_parameters_at_all(params):
    optimizer = optim.lbfgs()
    state = optimizer.init(params)
    moved, state = optimizer.step(params, state, params, value=1.0, objective=lambda p: 1.0)
    assert pytrees.structure(moved) == pytrees.structure(params)
    assert state.rate.item() == 0.0


def test_bad_input():
    lbfgs: Any = optim.lbfgs
    optimizer, x = optim.lbfgs(), fg.tensor([-1.2, 1.0])
    state = optimizer.init(x)
    value, grads = fg.value_and_grad(rosenbrock)(x)
    for name in ("memory_size", "max_linesearch_steps"):
        for number in (0, 2.5, True):
            with pytest.raises(ArgumentError, match=f"{name} has to be an integer above 0, got"):
                lbfgs(**{name: number})
    for name in ("slope_rtol", "curv_rtol"):
        with pytest.raises(ArgumentError, match=f"{name} has to be at least 0 and below 1"):
            lbfgs(**{name: 1.5})
    with pytest.raises(ArgumentError, match=r"value= is missing\. Call step\("):
        optimizer.step(grads, state, x, objective=rosenbrock)
    with pytest.raises(ArgumentError, match="objective= is missing"):
        optimizer.step(grads, state, x, value=value)
    with pytest.raises(FunctionError, match="objective has to be a function"):
        optimizer.step(grads, state, x, value=value, objective=value)
    with pytest.raises(ShapeError, match=r"value has to be one number, got shape \(2,\)"):
        optimizer.step(grads, state, x, value=x, objective=rosenbrock)
    with pytest.raises(DtypeError, match="value has to be a real number, got dtype complex128"):
        optimizer.step(grads, state, x, value=1j, objective=rosenbrock)
    with pytest.raises(TreeError, match=r"The order is update\(grads, state, params\)"):
        optimizer.step(state, grads, x, value=value, objective=rosenbrock)
    with pytest.raises(ShapeError, match=r"grads: expected shape \(2,\), .* got \(\)"):
        optimizer.step(value, state, x, value=value, objective=rosenbrock)
    with pytest.raises(
        ShapeError, match=r"state\.memory\.steps: expected shape \(10, 2\), .* \(3, 2\)"
    ):
        optimizer.step(grads, optim.lbfgs(3).init(x), x, value=value, objective=rosenbrock)
    with pytest.raises(DtypeError, match="init: params is of dtype int64"):
        optimizer.init(fg.tensor([1, 2]))
