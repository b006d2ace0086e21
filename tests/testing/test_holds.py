"""``holds`` makes tests of laws: they pass, fail with a small example, and run law by law."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies
import numpy as np
import pytest
from hypothesis import Phase, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, CheckError, FunctionError
from funcgrad.testing import holds, laws
from funcgrad.testing import strategies as st
from tests.together import together

HOLDS: Any = holds  # to call with arguments of wrong types
shrinking = settings(
    max_examples=20, deadline=None, database=None, phases=[Phase.generate, Phase.shrink]
)
few = settings(shrinking, phases=[Phase.generate])


@holds(laws.modes_agree, laws.taylor, laws.homogeneous(2), at=st.tensors(shape=3), settings=few)
def test_quadratic_form(x):
    return fnp.sum(x * x[::-1]) + x[0] ** 2


@holds(laws.linear, laws.vmap_is_loop, at=(st.tensors(shape=2), st.tensors()), settings=few)
def test_of_two_arguments(x, y):
    return x * 2 + y


def cube(x):
    return x**3


wrong_cube = fg.custom_jvp(cube)
wrong_cube.defjvp(lambda primals, tangents: (cube(*primals), 2 * primals[0] ** 2 * tangents[0]))


def test_a_mistake_is_found_and_shrunk_to_a_smooth_point():
    test = holds(laws.grad_is_numerical, at=st.tensors(shape=2), settings=shrinking)(wrong_cube)
    with pytest.raises(CheckError, match="forward mode is wrong for cube") as caught:
        test(laws.grad_is_numerical)
    assert "laws.grad_is_numerical(cube, (fg.tensor([0.5, 1.25]),), seed=0)" in str(caught.value)


@pytest.mark.slow
def test_the_shrunk_example_is_a_true_one():
    """A mistake for large numbers alone: the example is where it begins, not at a kink at 0."""

    def slope(x):
        return fnp.where(x > 2, 2.5, 2.0) * x

    f = fg.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, slope(primals[0]) * tangents[0]))
    chosen = settings(max_examples=200, deadline=None, database=None)
    test = holds(laws.taylor, at=st.tensors(shape=2), settings=chosen)(f)
    with pytest.raises(CheckError, match="order 1") as caught:
        test(laws.taylor)
    found = re.search(r"fg\.tensor\((\[.*?\])", str(caught.value))
    assert found is not None
    point = fg.tensor(eval(found[1]))
    assert float(fnp.max(point)) > 2
    with pytest.raises(CheckError):
        laws.taylor(f, (point,))


def test_hypothesis_is_told_how_near_a_point_is_to_breaking_the_law(monkeypatch):
    told = []
    monkeypatch.setattr(hypothesis, "target", lambda amount, label: told.append((amount, label)))
    for off in (0.0, 1e-9, 1e-8):  # less than what breaks the law
        f = fg.custom_jvp(cube)
        f.defjvp(
            lambda primals, tangents, off=off: (
                cube(*primals),
                (3 + off) * primals[0] ** 2 * tangents[0],
            )
        )
        at = st.tensors(elements=hypothesis.strategies.just(1.5))
        holds(laws.grad_is_numerical, at=at, settings=few)(f)(laws.grad_is_numerical)
    assert len({label for _, label in told}) == 1
    assert told[0][0] < told[-1][0] < 0.0  # the right rule, and one that is off by 1e-8


SUITE = """
import funcgrad as fg
from hypothesis import Phase, settings
from funcgrad.testing import holds, laws, strategies as st

few = settings(max_examples=5, deadline=None, database=None, phases=[Phase.generate])

@holds(laws.modes_agree, laws.homogeneous(1), at=st.tensors(shape=2), settings=few)
def test_square(x):
    return x * x

def energy(x):
    return fg.numpy.sum(x**4)

test_energy = holds(laws.taylor, at=st.tensors(shape=2), settings=few)(energy)
"""


@pytest.mark.slow
def test_pytest_runs_each_law_by_itself(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"test_square\[modes_agree\] PASSED", done.stdout), done.stdout
    assert re.search(r"test_square\[homogeneous\(1\)\] FAILED", done.stdout)
    assert re.search(r"test_energy\[taylor\] PASSED", done.stdout)
    assert "is not homogeneous of degree 1" in done.stdout


@together(
    ("make", "text"),
    [
        (lambda: holds(at=st.tensors()), "name the laws"),
        (
            lambda: HOLDS("taylor", at=st.tensors()),
            r"'taylor' is not a law. The laws are laws\.chain",
        ),
        (lambda: HOLDS(laws.homogeneous, at=st.tensors()), r"made by a call, as laws\.homogeneous"),
        (lambda: holds(laws.taylor, at=np.ones(3)), "at has to be a strategy"),
        (lambda: holds(laws.taylor, at=()), "at has no strategy"),
        (lambda: holds(laws.taylor, at=(st.tensors(), 3)), r"at\[1\] has to be a strategy"),
    ],
)
def test_bad_calls_are_explained(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()
    with pytest.raises(FunctionError):
        holds(laws.taylor, at=st.tensors())(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [None, settings(deadline=None, database=None, max_examples=30)])
def test_a_failure_is_shrunk_and_not_explained(own: settings | None):
    calls = 0

    def is_small(f: Any, args: Any, *, seed: int = 0) -> None:
        nonlocal calls
        calls += 1
        assert np.max(f(*args)) < 0.3

    with pytest.raises(AssertionError):
        holds(is_small, at=st.tensors(shape=20), settings=own)(fnp.sin)(is_small)
    assert calls < 60  # explained, it would be more than a hundred


def softplus(x):
    return fnp.logaddexp(x, 0.0)


flat_softplus = fg.custom_jvp(softplus)
flat_softplus.defjvp(
    lambda primals, tangents: (
        softplus(*primals),
        fnp.where(primals[0] > 5, 1.0, fg.nn.sigmoid(primals[0])) * tangents[0],
    )
)
steadily = settings(max_examples=200, deadline=None, database=None, derandomize=True)


def test_a_mistake_of_another_scale_is_found():
    test = holds(laws.grad_is_numerical, at=st.tensors(shape=3), settings=steadily)(flat_softplus)
    with pytest.raises(CheckError, match="is wrong for softplus"):
        test(laws.grad_is_numerical)


@pytest.mark.slow
@pytest.mark.parametrize("law", [laws.grad_is_numerical, laws.pure, laws.subgradient])
def test_an_overflow_far_away_is_no_mistake(law: Any):
    def energy(x):
        return fnp.sum(fnp.exp(x))

    holds(law, at=st.tensors(shape=2), settings=settings(steadily, max_examples=60))(energy)(law)
    with pytest.raises(CheckError):
        laws.grad_is_numerical(energy, (fg.tensor([1e3, 1.0]),))


def test_laws_of_ones_own_can_be_held():
    def is_even(f: Any, args: Any, *, seed: int = 0) -> None:
        (x,) = args
        assert np.allclose(f(x), f(-x))

    holds(is_even, at=st.tensors(shape=2), settings=few)(fnp.cos)(is_even)
    with pytest.raises(AssertionError):
        holds(is_even, at=st.tensors(shape=2), settings=few)(fnp.sin)(is_even)
