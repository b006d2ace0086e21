"""Lookahead and schedule-free steps: parameters in, parameters out, and a state that is a value."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad.errors import ArgumentError
from funcgrad.optim import schedules


def ran(optimizer, start, steps):
    params, state, found = start, optimizer.init(start), []
    for _ in range(steps):
        params, state = optimizer.step(2.0 * params, state, params)
        found.append((params, state))
    return found


def test_lookahead_by_its_loops():
    found = ran(optim.lookahead(optim.adam(0.1), 3, 0.25), fg.tensor([1.0, -2.0]), 7)
    slow = np.array([1.0, -2.0])
    inner = optim.adam(0.1)
    fast, state = fg.tensor(slow), inner.init(fg.tensor(slow))
    for step, (params, outer) in enumerate(found, start=1):
        fast, state = inner.step(2.0 * fast, state, fast)
        if step % 3 == 0:
            slow = slow + 0.25 * (np.asarray(fast) - slow)
            fast = fg.tensor(slow)
        assert_allclose(params, fast, rtol=1e-12)
        assert_allclose(outer.slow, slow, rtol=1e-12)
        assert outer.count.item() == step % 3


def test_the_inside_may_start_anew():
    found = ran(optim.lookahead(optim.adam(0.1), 2, reset_state=True), fg.tensor(1.0), 3)
    assert [state.inner.count.item() for _, state in found] == [1, 0, 1]
    kept = ran(optim.lookahead(optim.adam(0.1), 2), fg.tensor(1.0), 3)
    assert [state.inner.count.item() for _, state in kept] == [1, 2, 3]


def test_schedule_free_by_its_formulas():
    rate = schedules.constant(0.3, warmup=2)
    found = ran(optim.schedule_free(optim.sgd(rate), b1=0.6), fg.tensor([1.0, -2.0]), 5)
    x = y = z = np.array([1.0, -2.0])
    total = 0.0
    for step, (params, state) in enumerate(found):
        z = z - 0.3 * min((step + 1) / 3, 1.0) * 2 * y
        weight = (0.3 * min((step + 1) / 3, 1.0)) ** 2
        total += weight
        x = x + weight / total * (z - x)
        y = 0.6 * x + 0.4 * z
        assert_allclose(params, y, rtol=1e-12)
        assert_allclose(optim.eval_params(state, params), x, rtol=1e-12)
        assert state.rate.item() == pytest.approx(0.3 * min((step + 1) / 3, 1.0))


def test_the_rate_is_that_of_the_inside():
    inner = optim.chain(optim.clip_by_norm(1.0), optim.adamw(schedules.constant(0.1, 3), b1=0.0))
    by_state = ran(optim.schedule_free(inner), fg.tensor([1.0, -2.0]), 5)
    by_rate = ran(optim.schedule_free(inner, schedules.constant(0.1, 3)), fg.tensor([1.0, -2.0]), 5)
    assert_array_equal(by_state[-1][0], by_rate[-1][0])
    for inside, number in ((optim.clip(1.0), 0), (optim.chain(optim.sgd(0.1), optim.sgd(0.1)), 2)):
        with pytest.raises(ArgumentError, match=rf"holds {number} learning rates.*learning_rate="):
            optim.schedule_free(inside).init(fg.tensor(1.0))
    assert optim.schedule_free(optim.scale(-0.1), 0.1).init(fg.tensor(1.0)).rate.item() == 0.0


def test_no_share_and_no_rate_are_no_division_by_zero():
    plain = ran(optim.schedule_free(optim.sgd(0.1), b1=0.0), fg.tensor(1.0), 3)
    assert_allclose(plain[-1][0], 0.8**3)
    still = ran(optim.schedule_free(optim.sgd(0.0)), fg.tensor(1.0), 3)
    assert still[-1][0].item() == 1.0
    assert optim.eval_params(still[-1][1], still[-1][0]).item() == 1.0


def test_half_precision_learns():
    """A mean that is found from rounded parameters stands still, or runs away."""
    for dtype in ("float16", "float32"):
        optimizer = optim.schedule_free(optim.sgd(0.05))
        params, state = ran(optimizer, fg.tensor([3.0, -4.0], dtype), 300)[-1]
        assert params.dtype == dtype
        assert abs(np.asarray(optim.eval_params(state, params))).max() < 0.02


def test_bad_wrappers():
    sgd = optim.sgd(0.1)
    with pytest.raises(ArgumentError, match="lookahead: sync_period has to be an integer above 0"):
        optim.lookahead(sgd, 0)
    with pytest.raises(ArgumentError, match="schedule_free: b1 has to be at least 0 and below 1"):
        optim.schedule_free(sgd, b1=1.0)
    with pytest.raises(ArgumentError, match="learning_rate has to be at least 0"):
        optim.schedule_free(sgd, -0.1)


def test_places_have_the_weight_of_the_greatest_rate_so_far():
    inner = optim.sgd(schedules.piecewise(0.2, {1: 0.1}))
    found = ran(optim.schedule_free(inner, weight_lr_power=1.0), fg.tensor(1.0), 2)
    assert found[-1][1].max_rate.item() == 0.2
    assert found[-1][1].weight_sum.item() == pytest.approx(0.4)
    assert found[-1][1].rate.item() == 0.1
