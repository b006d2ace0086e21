"""What loops and branches say of their form is what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from tests.conformance import strangers
from tests.subjects import assert_bits

V, XS = np.array([0.5, -1.25, 2.0]), np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def meaning(form: Loop | Choice | Program, values: Sequence[Any]) -> list[Any]:
    """What a form says that an operation makes of values."""
    if isinstance(form, Program):
        return ends(form, values)
    if isinstance(form, Choice):
        number = min(max(int(values[0]), 0), len(form.branches) - 1)
        return list(form.branches[number].evaluate(values[1:]))
    stop = form.shared + form.carried
    shared, state, arrays = values[: form.shared], values[form.shared : stop], values[stop:]
    rows: list[Any] = []
    length = form.length if form.length is not None or not arrays else len(arrays[0])
    while _goes_on(form, length, len(rows), [*shared, *state]):
        step = length - 1 - len(rows) if form.reverse and length else len(rows)
        slices = [
            array[step].item() if spec.weak else array[step]
            for array, spec in zip(arrays, form.body.inputs[stop:], strict=True)
        ]
        outs = form.body.evaluate([*shared, *state, *slices])
        state = outs[: form.carried]
        rows.append(outs[form.carried :])
    rows = rows[::-1] if form.reverse else rows
    specs = [form.body.specs()[variable] for variable in form.body.outputs[form.carried :]]
    stacks = [np.empty((len(rows), *spec.shape), spec.dtype) for spec in specs]
    for k, row in enumerate(rows):
        for stack, own in zip(stacks, row, strict=True):
            stack[k] = own
    return [*state, *stacks]


def _goes_on(form: Loop, length: int | None, step: int, values: Sequence[Any]) -> bool:
    if form.condition is not None:
        assert length is None
        return bool(form.condition.evaluate(values)[0])
    assert length is not None
    return step < length


def ends(program: Program, values: Sequence[Any]) -> list[Any]:
    """The results of a program, whose loops do what their forms say."""
    known = [*values, *[constant.value for constant in program.constants]]
    for equation in program.equations:
        operands, params = [known[k] for k in equation.operands], dict(equation.params)
        form = declared(equation.operation, params)
        outs = equation.operation.evaluate(*operands, **params) if form is None else None
        outs = meaning(form, operands) if form is not None else outs
        known += outs if isinstance(outs, list | tuple) else [outs]
    return [known[variable] for variable in program.outputs]


def declared(operation: Primitive, params: Any) -> Loop | Choice | Program | None:
    structure = operation.structure
    if not isinstance(structure, Control) or structure.form is None:
        return None
    return structure.form(**params)


def equations_of(program: Program, args: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The equations of a program that have a form, with their operands."""
    for equation in program.equations:
        if declared(equation.operation, dict(equation.params)) is not None:
            yield equation, extract(program, range(len(args)), equation.operands).evaluate(args)


def _scanned(v: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return fg.cond(c[0] > x[0], lambda c: c * x, fnp.sin, c), c * 2.0

    last, ys = fg.scan(step, v, xs, reverse=True)
    return fnp.sum(last) + fnp.sum(fg.fori_loop(0, 3, lambda i, y: y * v + i, ys))


def _chosen(v: Any, xs: Any) -> Any:
    branches = [lambda c: c * v, fnp.sin, lambda c: c - v]
    return sum(fnp.sum(fg.switch(fnp.sum(v > 0) - k, branches, x)) for k, x in enumerate(xs))


def _halved(v: Any, xs: Any) -> Any:
    found = fg.while_loop(lambda c: fnp.sum(c * c) > 1.0, lambda c: 0.5 * c + 0.1 * xs[0], v)
    return fnp.sum(found)


def test_forms_of_loops_and_branches() -> None:
    seen = set()
    for f in (_scanned, _chosen, _halved, lambda v, xs: _scanned(v, xs[:0])):
        for own in (f, fg.grad(f)):
            for equation, operands in equations_of(fg.program(own)(V, XS), [V, XS]):
                params = dict(equation.params)
                form = declared(equation.operation, params)
                assert form is not None
                expected = equation.operation.evaluate(*operands, **params)
                assert_bits(meaning(form, operands)[-len(expected) :], [*expected])
                seen.add(equation.name)
    assert seen == {"scan", "switch", "while_reverse", "while_loop"}


@pytest.mark.parametrize("operation", strangers(several=True), ids=lambda each: each.name)
def test_forms_of_strangers(operation: Primitive) -> None:
    for sample in operation.samples():
        form = declared(operation, sample.params)
        if form is not None:
            expected = operation.evaluate(*sample.args, **sample.params)
            assert_bits(meaning(form, sample.args), [*expected])


def test_a_wrong_form_is_seen() -> None:
    (operation,) = [each for each in strangers(several=True) if each.name == "iterate"]
    sample = next(each for each in operation.samples() if each.params["times"] == 3)
    form = declared(operation, sample.params)
    assert isinstance(form, Loop)
    expected = [*operation.evaluate(*sample.args, **sample.params)]
    wrong = meaning(form._replace(length=2), sample.args)
    with pytest.raises(AssertionError):
        assert_bits(wrong, expected)


UNCHANGED: dict[str, Any] = {
    "scan": lambda x: fg.scan(lambda c, _: (c, None), x, length=3)[0],
    "fori_loop": lambda x: fg.fori_loop(0, 3, lambda i, c: c, x),
    "while_loop": lambda x: fg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, x))[
        1
    ],
    "scan of a scan": lambda x: fg.scan(
        lambda c, _: (fg.scan(lambda d, _: (d, None), c, length=2)[0], None), x, length=3
    )[0],
    "cond": lambda x: fg.cond(x > 9.0, lambda x: 1.0 * x, lambda x: x, x),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_body_that_hands_on_what_it_gets_can_be_compiled(name: str) -> None:
    f = fg.jit(UNCHANGED[name])
    assert float(f(2.0)) == 2.0
    assert float(fg.linearize(f, 2.0)[1](3.0)) == 3.0
    assert float(fg.grad(f)(2.0)) == 1.0
    assert float(fg.jvp(f, (2.0,), (3.0,))[1]) == 3.0
    np.testing.assert_array_equal(fg.jit(fg.vmap(UNCHANGED[name]))(fnp.ones(2)), [1.0, 1.0])


def test_a_checkpointed_loop_without_results_may_stand_in_a_branch() -> None:
    def constants(x: Any) -> Any:
        """Chunks whose steps give nothing that depends on anything."""
        steps = fg.scan(lambda c, _: (c + 1.0, 3.0), x, length=4, checkpoint_every=2)
        return fnp.sum(steps[1]) + x

    def f(x: Any) -> Any:
        return fg.cond(x > 0.0, constants, lambda x: 2.0 * x, x)

    for way in (fg.jit(fg.grad(f)), fg.grad(fg.jit(f)), fg.jit(fg.jacfwd(f))):
        assert [float(way(x)) for x in (2.0, -2.0)] == [1.0, 2.0]
    np.testing.assert_array_equal(fg.jit(fg.vmap(fg.grad(f)))(fg.tensor([2.0, -2.0])), [1.0, 2.0])
