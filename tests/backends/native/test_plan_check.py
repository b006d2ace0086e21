"""Mistakes in plans are found before code is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native import sharing
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.plan_check import PlanError, check_memory, check_plan, lives_of
from funcgrad._backends.native.plan_steps import (
    Callback,
    Fill,
    Gathering,
    MatrixProduct,
    NativePlan,
    Nest,
    Scattering,
)
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.sharing import MemoryPlan, Sharing
from tests.together import together

X = np.linspace(0.0, 1.0, 12).reshape(3, 4)
LONG = np.linspace(0.0, 1.0, 1000)


def plan(f: Callable[..., Any], *args: Any) -> NativePlan:
    return plan_of(fg.program(f)(*args))


def steps_of(f: Callable[..., Any]) -> NativePlan:
    """A plan that is right, whose steps a test may change."""
    right = plan(f, X)
    check_plan(right)
    return right


def product(x: Any) -> Any:
    """A nest, a product, a nest."""
    y = x + 1.0
    return fnp.sum(y @ y.T, axis=0) * 2.0


def pieces(x: Any) -> Any:
    """Copies into windows of one buffer."""
    return fnp.concatenate([x[:, ::-1], x * 2.0]) @ x.T


def refuses(wrong: NativePlan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_plan(wrong)


def nests(given: NativePlan) -> list[Nest]:
    return [step for step in given.steps if isinstance(step, Nest)]


@pytest.mark.parametrize("step", [0, 1])
def test_a_step_that_is_missing_is_found(step: int) -> None:
    given = steps_of(product)
    remaining = [other for k, other in enumerate(given.steps) if k != step]
    refuses(replace(given, steps=remaining), "read before it is made")


def test_a_member_that_is_not_stored_is_found() -> None:
    given = steps_of(product)
    nests(given)[0].stores.clear()
    refuses(given, "read before it is made")


def test_a_window_that_nothing_is_written_to_is_found() -> None:
    given = steps_of(pieces)
    windows = [nest for nest in nests(given) if any(v.offset for v in nest.stores.values())]
    for variable, view in windows[0].stores.items():
        windows[0].stores[variable] = replace(view, offset=0)
    refuses(given, "read before it is made")


def test_a_view_beyond_its_buffer_is_found() -> None:
    given = steps_of(product)
    for variable, view in nests(given)[0].operands.items():
        nests(given)[0].operands[variable] = replace(view, offset=1)
    refuses(given, "goes beyond its buffer")


def test_bits_that_are_not_copied_are_found() -> None:
    """Copies move words: nothing else may read them, and what is stored as words has to be one."""
    given = steps_of(lambda x: x[:, ::-1])
    (copy,) = nests(given)
    (variable,), (member,) = copy.operands, copy.members
    copy.members[:] = [replace(member, formula=nests(plan(product, X))[0].members[0].formula)]
    refuses(given, "is computed from bits")
    copy.members[:] = [member]
    specs = [*given.specs]
    specs[variable] = replace(specs[variable], dtype=X.dtype)
    refuses(replace(given, specs=specs), "is stored as another dtype")


@together("strides", [(4, 4), (-4, 1), (8, 1)])
def test_strides_beyond_a_buffer_are_found(strides: tuple[int, int]) -> None:
    given = steps_of(product)
    wrong = [
        replace(step, left=replace(step.left, strides=strides))
        if isinstance(step, MatrixProduct)
        else step
        for step in given.steps
    ]
    refuses(replace(given, steps=wrong), "goes beyond its buffer")


def moved(given: NativePlan, **changes: Any) -> NativePlan:
    """The plan with other places for its gather or scatter."""
    wrong = [
        replace(step, places=step.places._replace(**changes))
        if isinstance(step, (Gathering, Scattering))
        else step
        for step in given.steps
    ]
    return replace(given, steps=wrong)


def test_places_beyond_an_array_are_found() -> None:
    numbers = np.array([0, 2])
    for f in (lambda x, k: x[k], lambda x, k: fnp.zeros((3, 4)).at[k].add(x[:2])):
        given = plan(f, X, numbers)
        check_plan(given)
        refuses(moved(given, start=1), "its places are 1 to 12")
        refuses(moved(given, start=-1), "its places are -1 to 10")
        (step,) = [s for s in given.steps if isinstance(s, (Gathering, Scattering))]
        (index,) = step.places.indices
        refuses(moved(given, indices=(index._replace(size=4),)), "its places are 0 to 15")
        refuses(moved(given, indices=(index._replace(strides=(2, 0)),)), "integers beyond")


def test_a_step_that_writes_an_argument_is_found() -> None:
    given = steps_of(product)
    first = nests(given)[0]
    for variable, view in first.stores.items():
        first.stores[variable] = replace(view, buffer=0)
    refuses(given, "an argument or a constant")


def test_a_value_that_was_read_is_not_written_again() -> None:
    given = steps_of(product)
    (made,) = nests(given)[0].stores
    refuses(replace(given, steps=[*given.steps[:-1], Fill(made), given.steps[-1]]), "been read")


def test_a_nest_that_reads_what_it_writes_elsewhere_is_found() -> None:
    given = steps_of(pieces)
    nest = nests(given)[0]
    (stored,) = nest.stores.values()
    nest.operands[next(iter(nest.operands))] = replace(stored, strides=stored.strides[::-1])
    refuses(given, "which it writes elsewhere|goes beyond its buffer|read before")


def test_an_operand_that_is_not_in_c_order_is_found() -> None:
    given = plan(lambda x: fnp.argpartition(x * 2.0, 0), X)
    check_plan(given)
    assert isinstance(given.steps[-1], Callback)
    (operand,) = given.steps[-1].equation.operands
    views = {**given.views, operand: replace(given.views[operand], strides=(1, 3))}
    refuses(replace(given, views=views), "not in C order")


def test_outputs_are_whole_and_apart() -> None:
    given = plan(lambda x: (x + 1.0, x * 2.0), X)
    check_plan(given)
    refuses(replace(given, outputs=[given.outputs[0]] * 2), "share a buffer")
    refuses(replace(given, outputs=[0, given.outputs[0]]), "an argument or a constant")


def test_a_life_that_ends_early_is_found() -> None:
    given = steps_of(product)
    (made,) = nests(given)[0].stores
    assert lives_of(given)[made] == given.lives[made] == (0, 1)
    refuses(replace(given, lives={**given.lives, made: (0, 0)}), "beyond its life")


# ------------------------------------------------------------------------------------------- memory


def chain(x: Any) -> Any:
    """Results that are alive by turns."""
    for _ in range(3):
        x = fnp.cumsum(x * 0.5) + x[::-1]
    return x


def test_buffers_that_are_alive_at_once_lie_apart() -> None:
    given = plan(chain, LONG)
    apart = {buffer: 8192 * k for k, buffer in enumerate(lives_of(given))}
    check_memory(given, Sharing({}, {}), apart)
    first, second = list(apart)[:2]
    with pytest.raises(PlanError, match="while it is needed"):
        check_memory(given, Sharing({}, {}), {**apart, second: apart[first] + 64})


def test_a_result_over_an_operand_that_is_read_in_another_order_is_found() -> None:
    given = plan(lambda x: fnp.cumsum(fnp.cumsum(x)[::-1] + x), LONG)
    lives = lives_of(given)
    (reader,) = nests(given)
    (operand,) = [view.buffer for view in reader.operands.values() if view.buffer in lives]
    (result,) = reader.stores
    with pytest.raises(PlanError, match="which is needed"):
        check_memory(given, Sharing({operand: result}, {}), {})


def test_a_memory_plan_that_forgets_is_found_when_code_is_written() -> None:
    def forgets(self: MemoryPlan, size: int, begin: int, end: int, lowest: int = 0) -> int:
        return self.arena

    program = NATIVE.prepare(fg.program(chain)(LONG), False)
    NATIVE.inspect(program)
    with patch.object(MemoryPlan, "place", forgets), pytest.raises(PlanError, match="needed"):
        NATIVE.inspect(program)


def test_sharing_that_reuses_early_is_found_when_code_is_written() -> None:
    def early(nest: Nest, given: NativePlan, position: int, candidates: Any) -> Any:
        operands = [v.buffer for v in nest.operands.values() if v.buffer in candidates]
        return [(operands[-1], next(iter(nest.stores.values())).buffer)] if operands else []

    program = NATIVE.prepare(fg.program(chain)(LONG), False)
    with (
        patch.object(sharing, "_overwritten", early),
        pytest.raises(PlanError, match="which is needed"),
    ):
        NATIVE.inspect(program)


def test_plans_are_checked_where_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(given: NativePlan) -> None:
        raise PlanError("wrong")

    program = NATIVE.prepare(fg.program(product)(X), False)
    with patch("funcgrad._backends.native.functions.check_plan", wrong):
        with pytest.raises(PlanError, match="wrong"):
            NATIVE.inspect(program)
        monkeypatch.delenv("FUNCGRAD_VERIFY")
        NATIVE.inspect(program)
