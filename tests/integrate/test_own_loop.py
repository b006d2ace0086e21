"""The solver's own program outside of ``jit``: the same bits, never stale, refused in silence."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends import improving_runs
from funcgrad._staging import loop_programs
from funcgrad.errors import ConvergenceError
from funcgrad.integrate import own_loop
from tests.in_threads import in_threads
from tests.together import together

TIMES = [0.0, 0.5, 2.0]


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether loops could be staged, one after the other; warnings are errors."""
    programs, make = list[bool](), loop_programs._made

    def noted(*args: Any) -> Any:
        program = make(*args)
        programs.append(program is not None)
        return program

    monkeypatch.setattr(loop_programs, "_made", noted)
    monkeypatch.setattr(own_loop, "_PROGRAMS", loop_programs.LoopPrograms())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield programs


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(tree)]


MATRIX = np.cos(np.arange(64.0)).reshape(8, 8)

SYSTEMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "number": (lambda y, t: y * (1.0 - y) + fnp.sin(t), 0.1),
    "vector": (lambda y, t: fnp.tanh(MATRIX @ y) - y, np.linspace(0.0, 1.0, 8)),
    "rows": (lambda y, t: fnp.tanh(y @ MATRIX) - y, np.linspace(0.0, 1.0, 40).reshape(5, 8)),
    "orbit": (
        lambda y, t: (y[1], -y[0] / fnp.sum(y[0] ** 2) ** 1.5),
        (np.array([1.0, 0.0, 0.1]), np.array([0.0, 1.0, 0.0])),
    ),
    "float32": (lambda y, t: fnp.cos(y) * fnp.sum(y * y) / 50, np.ones(50, np.float32)),
    "complex": (lambda y, t: {"z": 1j * y["z"]}, {"z": np.array([1.0, 1j])}),
    "empty": (lambda y, t: -y, np.zeros((0, 3))),
    "loop": (lambda y, t: fg.fori_loop(0, 3, lambda _, c: fnp.cos(c), y), 0.5),
}


@together("name", SYSTEMS)
def test_values_keep_every_bit(
    name: str, made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improving_runs, "_LONG", -1.0)  # machine code from the third call on
    f, y0 = SYSTEMS[name]
    made.clear()
    for ts in (TIMES, TIMES[::-1]):
        plain, *others = [bits(fg.odeint(f, y0, ts)) for _ in range(3)]
        assert others == [plain, plain]
    assert made == [True]


@together("transform", [fg.grad, fg.jacfwd, lambda f: fg.vmap(f), fg.hessian], quick=3)
def test_derivatives_and_batches_agree_and_repeat(
    transform: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(rate: Any) -> Any:
        def slope(y: Any, t: Any) -> Any:
            return y[1], -rate * fnp.sin(y[0])

        return fg.odeint(slope, (0.5, 0.0), TIMES)[0][-1]

    x = np.linspace(1.0, 2.0, 3) if "lambda" in transform.__name__ else 1.5
    results = [transform(end)(x) for _ in range(3)]
    assert bits(results[0]) == bits(results[1]) == bits(results[2])
    monkeypatch.setattr(loop_programs.LoopPrograms, "results", lambda *_: None)
    np.testing.assert_allclose(results[0], transform(end)(x), rtol=1e-10)


def test_closures_with_other_tensors_share_a_program(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(rates: Any, n: int) -> Any:
        def inner(y: Any) -> Any:
            return rates["fast"] * y * n

        def slope(y: Any, t: Any, *, shift: Any = rates["slow"]) -> Any:
            return -inner(y) - shift

        return fg.odeint(slope, 1.0, TIMES)[-1]

    ends = {}
    for k in range(1, 5):
        rates = {"fast": fg.tensor(0.5 * k), "slow": fg.tensor(0.1 * k)}
        ends[k] = end(rates, 2)
        with monkeypatch.context() as patch:
            patch.setattr(own_loop._PROGRAMS, "results", lambda *_: None)
            assert bits(end(rates, 2)) == bits(ends[k])
    assert made == [True]
    end({"fast": fg.tensor(1.0), "slow": fg.tensor(0.1)}, 3)  # another number is another program
    end({"fast": fg.tensor(1.0), "slow": fg.tensor(0.1)}, 3)
    assert made == [True, True]
    slopes = [fg.grad(lambda r: end({"fast": r, "slow": r}, 2))(fg.tensor(x)) for x in (0.5, 0.7)]
    assert slopes[0] != slopes[1]
    assert len(made) == 2


def test_programs_are_used_after_somebody_has_looked(made: list[bool]) -> None:
    with fg.debug.raise_nans():
        ends = [fg.odeint(lambda y, t: -y * t, 1.0, TIMES)[-1] for _ in range(2)]
    ends += [fg.odeint(lambda y, t: -3 * y * t, 1.0, TIMES)[-1] for _ in range(2)]
    assert bits(ends[::2]) == bits(ends[1::2])
    assert made == [True, True]


RATE: Any = 1.0


def global_rate(y: Any, t: Any) -> Any:
    return -RATE * y


def test_outside_values_are_never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (1.0, 2.0, 2.0, np.float64(3.0), fg.tensor(4.0)):
        monkeypatch.setitem(globals(), "RATE", rate)
        for _ in range(2):
            end = float(fg.odeint(global_rate, 1.0, [0.0, 1.0])[-1])
            assert end == pytest.approx(np.exp(-float(rate)), rel=1e-6)
    held = np.array([1.0])
    for rate in (1.0, 2.0, 3.0):
        held[0] = rate
        for _ in range(3):
            end = float(fg.odeint(lambda y, t: -held[0] * y, 1.0, [0.0, 1.0])[-1])
            assert end == pytest.approx(np.exp(-rate), rel=1e-6)


def test_values_that_change_at_every_call_end_the_stagings(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(20):
        monkeypatch.setitem(globals(), "RATE", 1.0 + k)
        fg.odeint(global_rate, 1.0, [0.0, 0.1])
    for k in range(20):
        fg.grad(lambda y, k=k: fg.odeint(lambda y, t: -y * k, y, [0.0, 0.1])[-1])(1.0)
    assert len(made) < 12


def test_what_branches_or_acts_runs_as_before(made: list[bool], capsys: Any) -> None:
    seen, count = list[Any](), 0

    def branches(y: Any, t: Any) -> Any:
        return -y if y > 0.5 else -2 * y

    def collects(y: Any, t: Any) -> Any:
        seen.append(float(t))
        return -y

    def counts(y: Any, t: Any) -> Any:
        nonlocal count
        count += 1
        return -y

    def prints(y: Any, t: Any) -> Any:
        print(float(t))
        return -y

    for f in (branches, collects, counts, prints):
        results = [bits(fg.odeint(f, 1.0, [0.0, 1.0])) for _ in range(4)]
        assert results[1:] == results[:-1]
    assert len(seen) % 4 == 0
    assert seen[: len(seen) // 4] == seen[-len(seen) // 4 :]
    assert count == len(seen)
    assert len(capsys.readouterr().out.splitlines()) == count
    assert not any(made)


def test_failures_are_told_again() -> None:
    def explodes(y: Any, t: Any) -> Any:
        return y * y

    for _ in range(4):
        with pytest.raises(ConvergenceError, match=r"odeint: at t = 1, after \d+ steps"):
            fg.odeint(explodes, 1.0, [0.0, 2.0])
    for _ in range(4):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
            fg.odeint(lambda y, t: fnp.exp(1e3 * y), 1.0, [0.0, 2.0])


@pytest.mark.slow
def test_memory_is_freed(made: list[bool]) -> None:
    """Large arrays do not outlive the function that holds them."""

    def solve() -> Any:
        large = np.ones((200, 200))
        for _ in range(3):
            fg.odeint(lambda y, t: -fnp.mean(large) * y, 1.0, [0.0, 0.1])
        return weakref.ref(large)

    freed = solve()
    gc.collect()
    assert freed() is None
    for k in range(100):
        fg.odeint(lambda y, t, k=k: -y * k, 1.0, [0.0, 0.1])
        fg.odeint(lambda y, t, k=k: -y * k, 1.0, [0.0, 0.1])
    assert len(own_loop._PROGRAMS._programs) <= 33
    assert len(own_loop._PROGRAMS._seen) <= 33


def test_many_threads_may_solve() -> None:
    expected = bits(fg.odeint(global_rate, 1.0, TIMES))
    results: list[list[bytes]] = []

    def work() -> None:
        results.extend([bits(fg.odeint(global_rate, 1.0, TIMES)) for _ in range(5)])

    in_threads(lambda _: work(), 4)
    assert results == [expected] * 20
