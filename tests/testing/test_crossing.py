"""`strategies.points` visits branches that fewer than one in a thousand plain draws lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import CheckError
from funcgrad.testing import holds, laws
from funcgrad.testing.strategies import Like, points, tensors


def nested(x):
    if fnp.sum(x) > 100:
        if x[0] > 2 * fnp.sum(x[1:]):
            return fnp.sqrt(x)
        return x * x
    return abs(x)


def which_nested(x):
    return (x.sum() > 100) * (1 + (x[0] > 2 * x[1:].sum()))


def band(x):
    return fg.cond((x > 50.0) & (x < 50.02), lambda: x * x, lambda: x)


def corner(x):
    return fnp.where(fnp.min(x) > 2.9, x * x, x)


def chosen(x):
    number = (x > 30.0) * 1 + (x > 300.0) * 1
    return fg.switch(number, [lambda: x, lambda: x * x, lambda: fnp.sin(x)])


def loop(x):
    halved = fg.while_loop(lambda c: c[0] > 40.0, lambda c: (c[0] * 0.5, c[1] + 1.0), (x, 0.0))
    return halved[0]


def clipped(x):
    return fnp.maximum(x, -100.0)


def far(x):
    return fg.vmap(lambda y: fnp.where(y > 1e4, y * y, y))(x)


@fg.custom_jvp
def ruled(x):
    return x * x


ruled.defjvp(
    lambda primals, tangents: (
        ruled(*primals),
        fnp.where(primals[0] > 77, 2.5, 2.0) * primals[0] * tangents[0],
    )
)

BRANCHES: dict[str, tuple[Callable[..., Any], Any, Callable[[Any], Any], int]] = {
    "Python's, one inside of another": (nested, Like((3,)), which_nested, 3),
    "Python's, jitted": (fg.jit(nested), Like((3,)), which_nested, 3),
    "a narrow band": (band, 1.0, lambda x: 0 if x < 50 else 1 if x < 50.02 else 2, 3),
    "a corner": (corner, Like((5,)), lambda x: x.min() > 2.9, 2),
    "of switch": (chosen, 1.0, lambda x: (x > 30) * 1 + (x > 300), 3),
    "of a loop": (loop, 1.0, lambda x: x > 40, 2),
    "of maximum": (clipped, 1.0, lambda x: x < -100, 2),
    "far away, in a batch": (far, Like((2,)), lambda x: x.max() > 1e4, 2),
    "of a rule": (ruled, 1.0, lambda x: x > 77, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_rare_branches_are_visited(name):
    f, spec, branch, count = BRANCHES[name]
    seen = set()

    @seed(0)
    @settings(max_examples=60, database=None, deadline=None, phases=[Phase.generate])
    @given(points(f, spec))
    def test(args):
        seen.add(int(branch(np.asarray(args[0]))))

    test()
    assert seen == set(range(count))


def test_a_mistake_in_a_rare_branch_of_a_rule_is_found():
    phases = [Phase.generate, Phase.shrink]
    few = settings(max_examples=50, database=None, deadline=None, phases=phases)
    test = seed(0)(holds(laws.grad_is_numerical, at=points(ruled, 1.0), settings=few)(ruled))
    with pytest.raises(CheckError):
        test(laws.grad_is_numerical)


@fg.custom_jvp
def logarithm(x):
    return fnp.log(x)


logarithm.defjvp(lambda primals, tangents: (logarithm(*primals), tangents[0] / (primals[0] + 1e-9)))


@pytest.mark.slow
def test_climbing_finds_mistakes_that_grow_towards_a_place():
    def found(*phases: Phase) -> int:
        count = 0
        for number in range(3):
            chosen = settings(max_examples=200, database=None, deadline=None, phases=phases)
            at = tensors(shape=2, elements=(0.05, 4.0))
            test = seed(number)(holds(laws.grad_is_numerical, at=at, settings=chosen)(logarithm))
            try:
                test(laws.grad_is_numerical)
            except CheckError:
                count += 1
        return count

    assert found(Phase.generate, Phase.target) > found(Phase.generate)
