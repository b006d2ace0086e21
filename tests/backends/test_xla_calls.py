"""Errors in compiled loops, and the order of operations that programs call on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug, errors
from tests.backends.xla_calls import on_xla

pytest.importorskip("jax")


def test_an_error_ends_a_loop_that_would_go_on() -> None:
    def step(c: Any) -> Any:
        debug.check(c != 4, "four", c=c)
        return c + 1

    counted, found = on_xla(lambda x: fg.while_loop(lambda c: c < 9, step, x), 5)
    for _ in range(2):
        with pytest.raises(errors.ConditionError, match="c = 4, step 3 of while_loop"):
            counted(1)
        assert counted(6) == found == 9


def test_an_index_out_of_bounds_ends_a_loop() -> None:
    def found(x: Any) -> Any:
        return fg.while_loop(lambda k: x[k] > 0, lambda k: k + 1, 0)

    def added(x: Any) -> Any:
        return fg.while_loop(lambda c: c[1] > 0, lambda c: (c[0] + 1, x[c[0]]), (0, 1.0))[0]

    for f, steps in ((found, 2), (added, 3)):
        loop, count = on_xla(f, np.array([1.0, 2.0, -1.0]))
        assert count == steps
        with pytest.raises(IndexError, match="index 3 is out of bounds"):
            loop(np.array([1.0, 2.0, 3.0]))


def test_loops_that_print_are_called_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def step(c: Any, k: Any) -> Any:
        debug.print("step {}", k)
        return c + k, None

    def f(x: Any) -> Any:
        debug.print("start")
        y, _ = fg.scan(step, fnp.sin(x), np.arange(2))
        debug.print("end")
        return y

    on_xla(f, np.float64(0.5))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["start", "step 0", "step 1", "end"]


def checked(x: Any) -> Any:
    debug.check(x > 0, "a user's condition")
    return x * 2


@pytest.mark.filterwarnings("error")
def test_devices_do_not_check_labels() -> None:
    loss = fg.value_and_grad(lambda x, labels: fg.nn.cross_entropy(x, labels).sum())
    x, labels = np.array([[0.5, -1.0], [2.0, 0.25]]), np.array([0, 1])
    compiled, (value, _) = on_xla(loss, x, labels)
    with pytest.raises(errors.ConditionError, match="labels have to be from 0 to 1"):
        compiled(x, labels + 1)
    on_device, _ = fg.jit(loss)(*fg.put((x, labels), "xla"))
    np.testing.assert_allclose(on_device, value, rtol=1e-15)
    with pytest.warns(errors.DeviceWarning, match="a user's condition"):
        fg.jit(checked)(fg.put(np.ones(3), "xla"))
