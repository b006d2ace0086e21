"""``quad`` outside of ``jit`` by a program of its own: the same bits, never stale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._staging import loop_programs
from funcgrad.errors import ConvergenceError
from funcgrad.integrate import own_loop, quad
from tests.together import together


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_loop, "_PROGRAMS", loop_programs.LoopPrograms())


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(tree)]


INTEGRALS: dict[str, Any] = {
    "finite": (lambda x, k: fnp.exp(-k * x) * x, 0.0, 3.0, (2.0,)),
    "infinite": (lambda x: fnp.exp(-x * x), -np.inf, np.inf, ()),
    "backwards": (lambda x: 1.0 / fnp.sqrt(x), 1, 0, ()),
    "vector": (lambda x, k: fnp.sin(k * x), 0.0, 1.0, (np.arange(3.0),)),
    "several": (lambda x: {"a": x, "b": (x * x,)}, 0.0, 1.0, ()),
    "one in a tuple": (lambda x: (x * x,), 0.0, 1.0, ()),
    "float32": (lambda x: fnp.cos(x), np.float32(0.0), np.float32(1.0), ()),
    "branch": (lambda x: x if x > 0.5 else -x, 0.0, 1.0, ()),
}


@together("name", INTEGRALS)
def test_values_keep_every_bit(name: str) -> None:
    f, a, b, args = INTEGRALS[name]
    results = [quad(f, a, b, args, full_output=True, failed="keep") for _ in range(3)]
    plain, *others = results
    assert [bits(other) for other in others] == [bits(plain)] * 2
    assert fg.tree.structure(others[0]) == fg.tree.structure(plain)


def test_limits_and_derivatives() -> None:
    def value(a: Any, b: Any, k: Any) -> Any:
        return quad(lambda x: fnp.exp(-k * x), a, b)[0]

    def moment(a: Any, b: Any, k: Any) -> Any:
        return quad(lambda x, k: fnp.exp(-k * x), a, b, (k,))[0]

    for _ in range(3):
        for f in (value, moment):
            slopes = fg.grad(f, (0, 1, 2))(0.0, 1.0, 2.0)
            by_k = -(1 - 3 * np.exp(-2.0)) / 4
            np.testing.assert_allclose(slopes, (-1.0, np.exp(-2.0), by_k), rtol=1e-12)
            assert float(fg.hvp(f, (0.0, 1.0, 2.0), (0.0, 1.0, 0.0))[1]) == pytest.approx(
                -2 * np.exp(-2.0)
            )
    for upper in (1.0, 2.0):  # another limit, the same program
        assert float(moment(0.0, upper, 2.0)) == pytest.approx((1 - np.exp(-2 * upper)) / 2)
    batch = fg.vmap(moment, (None, 0, None))(0.0, np.array([1.0, 2.0]), 2.0)
    np.testing.assert_allclose(batch, (1 - np.exp([-2.0, -4.0])) / 2, rtol=1e-14)


def test_values_that_change_are_noticed() -> None:
    scale = [2.0]

    def f(x: Any) -> Any:
        return scale[0] * x

    for number in (2.0, 2.0, 2.0, 3.0, 4.0, 4.0):
        scale[0] = number
        assert float(quad(f, 0.0, 1.0)[0]) == pytest.approx(number / 2)


def test_errors_come_at_every_call() -> None:
    def f(x: Any) -> Any:
        return 1.0 / fnp.abs(x - 0.3)

    told = set()
    for _ in range(3):
        with pytest.raises(ConvergenceError) as caught:
            quad(f, 0.0, 1.0, limit=5)
        told.add(str(caught.value).splitlines()[0])
    assert len(told) == 1
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            quad(lambda x: x / (1 // 0), 0.0, 1.0)
