"""Choices by one flag as branches: the same values, whichever side is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import chosen_sides
from funcgrad._backends.native.chosen_sides import with_branches
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_sides, "_LEAST", 1)
    monkeypatch.setattr(chosen_sides, "_STORED", 0)


def names(program: Program) -> Iterator[str]:
    """The operations of a program, outside of its branches."""
    return (equation.name for equation in program.equations)


def random_program(seed: int) -> Any:
    """A function of two flags and two arrays: choices of choices, read again by others."""

    def f(first: Any, second: Any, x: Any, y: Any) -> Any:
        rng = np.random.default_rng(seed)
        flags = [first, second, ~first, first & second, ~~second]
        values = [x, y, fnp.sum(x), x[:1] * 2.0]

        def value() -> Any:
            return values[rng.integers(max(0, len(values) - 4), len(values))]

        for _ in range(rng.integers(4, 14)):
            kind = rng.integers(6)
            if kind < 3:
                sides = value(), [value(), 0.0, 1, np.float32(2.0)][rng.integers(4)]
                flag = flags[rng.integers(len(flags))]
                values.append(fnp.where(flag, *sides[:: rng.choice([-1, 1])]))
            elif kind == 3:
                values.append(fnp.sin(value()) * 1.5)
            elif kind == 4:
                values.append(value() / value())
            else:
                values.append(fnp.sum(value() * x) + y)
        return values[-1], values[int(rng.integers(4, len(values)))]

    return f


def test_random_choices_keep_their_bits() -> None:
    changed, ran = 0, 0
    arrays = np.array([1.0, -np.inf, 0.0, np.nan]), np.array([0.0, 2.0, np.inf, -0.0])
    for seed in range(40):
        f = random_program(seed)
        program = fg.program(f)(np.True_, np.False_, *arrays)
        branched = with_branches(program)
        changed += branched is not program
        for flags in ((True, False), (False, True), (True, True)):
            args = (*map(np.bool_, flags), *arrays)
            with np.errstate(all="ignore"):
                expected = program(*args)
                out = branched.verify()(*args)
                assert [np.asarray(x).tobytes() for x in out] == [
                    np.asarray(x).tobytes() for x in expected
                ]
            if seed % 15 == 0 and branched is not program:
                out = fg.jit(f, backend="native")(*args)
                np.testing.assert_allclose(out[0], expected[0], rtol=1e-12)
                np.testing.assert_allclose(out[1], expected[1], rtol=1e-12)
                ran += 1
    assert changed > 15
    assert ran > 2


def long(x: Any) -> Any:
    return fnp.exp(fnp.sin(x) * fnp.cos(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda flag, x: fnp.where(flag, long(x), x),
        lambda flag, x: fnp.where(flag, 0.0, long(x)),
        lambda flag, x: fnp.where(~flag, long(x), fnp.where(flag, long(-x), 1)),
        lambda flag, x: (fnp.where(flag, long(x), x), fnp.where(flag, 0, long(2 * x))),
        lambda flag, x: fnp.where(flag, fg.fori_loop(0, 5, lambda _, c: long(c), x), x),
        lambda flag, x: fnp.where(flag, fnp.sum(long(x)), x),
        lambda flag, x: fnp.where(flag, fg.checkpoint(long)(x), x),
    ],
)
def test_one_side_is_computed(f: Any) -> None:
    x = np.linspace(-1.0, 1.0, 5)
    staged = with_branches(inlined(fg.program(f)(np.True_, x)))
    assert not {"sin", "exp", "where", "fori_loop"} & {*names(staged)}
    for flag in (np.True_, np.False_):
        for out, expected in zip(
            fg.tree.leaves(fg.jit(f, backend="native")(flag, x)),
            fg.tree.leaves(f(flag, x)),
            strict=True,
        ):
            np.testing.assert_allclose(out, expected, rtol=1e-14)
            assert out.dtype == expected.dtype


@pytest.mark.parametrize(
    "f",
    [
        lambda flag, x: fnp.where(flag, (y := long(x)), x) + y,  # read elsewhere
        lambda flag, x: (fnp.where(flag, (y := long(x)), x), y),  # a result
        lambda flag, x: fnp.where(flag, (y := long(x)), y + 1.0),  # by both sides
        lambda flag, x: fnp.where(x > 0, long(x), x),  # a flag for each element
        lambda flag, x: fnp.where(flag, fnp.linalg.solve(fnp.diag(x + 2.0), x), x),  # may raise
    ],
)
def test_what_others_need_stays(f: Any) -> None:
    x = np.linspace(-1.0, 1.0, 5)
    branched = with_branches(fg.program(f)(np.True_, x))
    needed = {"sin", "exp", "solve"} & {*names(fg.program(f)(np.True_, x))}
    assert needed <= {*names(branched)}
    assert all(branched.to_text().count(f"= {name} ") == 1 for name in needed)


def test_errors_do_not_depend_on_the_flag() -> None:
    jitted = fg.jit(
        lambda flag, x: fnp.where(flag, fnp.linalg.inv(fnp.exp(x)), x), backend="native"
    )
    for flag in (np.True_, np.False_):
        with pytest.raises(np.linalg.LinAlgError):
            jitted(flag, np.zeros((2, 2)))


def test_derivatives_and_batches_are_as_before() -> None:
    def f(x: Any) -> Any:
        return fnp.sum(fnp.where(fnp.sum(x) > 0.0, fnp.sqrt(long(x)), fnp.log(x)))

    def steps(x: Any) -> Any:
        return fg.scan(lambda c, _: (fnp.where(c[0] > 0.5, long(c), c + 0.3), c), x, None, 6)

    for x in (np.array([0.5, 0.0, 2.0]), np.array([-1.0, 0.0, 0.5])):
        for g in (fg.grad(f), fg.hessian(f), steps, fg.jacrev(lambda x: steps(x)[0])):
            for out, expected in zip(
                fg.tree.leaves(fg.jit(g, backend="native")(x)), fg.tree.leaves(g(x)), strict=True
            ):
                np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)
    batch = np.random.default_rng(2).standard_normal((40, 3))
    out, expected = fg.jit(fg.vmap(steps), backend="native")(batch), fg.vmap(steps)(batch)
    np.testing.assert_allclose(out[0], expected[0], rtol=1e-13)
