"""Every pass keeps the results of a program, and has its effect.

Passes are found by their annotation in the modules of the package, so a new one is tested the
moment it exists.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends import control_forms
from funcgrad._backends.native.element_programs import by_elements
from funcgrad._backends.numpy.prepare import prepared, prepared_exactly, written_out
from funcgrad._backends.step_sums import sum_after_loops
from funcgrad._core import pytrees
from funcgrad._passes import relax
from funcgrad._passes.contractions import fold_into_contractions
from funcgrad._passes.dead_code import remove_dead_code
from funcgrad._passes.fold import fold_constants
from funcgrad._passes.pipeline import optimize, simplified
from funcgrad._passes.simplify import simplify
from funcgrad._passes.workbench import merge_common_subexpressions
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Constant
from funcgrad._programs.extract import fetched
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program
from tests.counts import MOST, added, calls_made
from tests.passes import expressions
from tests.subjects import (
    SUBJECTS,
    assert_bits,
    fixed,
    inputs,
    public_functions,
    run_steps,
    steps,
    wrong_cube,
)
from tests.together import together
from tests.transforms.support import numbers


def _is_pass(function: Any) -> bool:
    """Whether a function takes a program, with no other required argument, and returns one."""
    if not inspect.isfunction(function):
        return False
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or any(each.default is each.empty for each in parameters[1:]):
        return False
    hints = get_type_hints(function)
    return hints.get(parameters[0].name) is Program is hints.get("return")


def every_pass() -> dict[str, Callable[[Program], Program]]:
    homes = [import_module(f"funcgrad.{home}") for home in ("_passes", "_backends")]
    modules = [
        module for home in homes for module in walk_packages(home.__path__, f"{home.__name__}.")
    ]
    found = [vars(import_module(module.name)).items() for module in modules]
    return {
        name: value
        for names in found
        for name, value in names
        if not name.startswith("_")
        and _is_pass(value)
        and value not in (inlined, written_out, control_forms.written_out, by_elements, fetched)
    }


RELAXED = frozenset(function for _, function in public_functions(relax))
REORDERING = frozenset({fold_into_contractions, sum_after_loops})
WITHOUT_CALLS = (prepared, prepared_exactly)  # leave no calls, as their own tests say
OTHERS = RELAXED | REORDERING  # have tests of their own: they change the order of sums, or more
PASSES = {name: change for name, change in every_pass().items() if change not in OTHERS}
by_pass = pytest.mark.parametrize("change", PASSES.values(), ids=PASSES)
by_subject = together("subject", SUBJECTS.values(), ids=SUBJECTS)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def names_of(program: Program) -> list[str]:
    return [equation.name for equation in program.equations]


def test_passes_are_found() -> None:
    wanted = {remove_dead_code, merge_common_subexpressions, fold_constants, simplify, optimize}
    assert wanted <= set(PASSES.values())


# -------------------------------------------------------------------------------- every pass


def assert_kept(change: Callable[[Program], Program], staged: Program) -> Program:
    """Check the laws of a pass on a program, for any inputs."""
    changed = change(staged).verify()
    assert len(changed.equations) <= len(staged.equations)
    assert len(changed.constants) <= len(staged.constants) + len(staged.equations)
    assert (changed.inputs, changed.names) == (staged.inputs, staged.names)
    assert (changed.arguments, changed.result) == (staged.arguments, staged.result)
    assert {(g.use, repr(g.value), g.source) for g in changed.guards} == {
        (g.use, repr(g.value), g.source) for g in staged.guards
    }
    before, after = staged.specs(), changed.specs()
    assert [after[v] for v in changed.outputs] == [before[v] for v in staged.outputs]
    assert change(changed) == changed
    assert change(staged) == changed
    return changed


@by_pass
@by_subject
def test_results_keep_their_bits(change: Any, subject: Any) -> None:
    staged = subject.staged().verify()
    if change in WITHOUT_CALLS:
        staged = inlined(staged)
    changed = assert_kept(change, staged)
    assert_bits(changed(*subject.args), staged(*subject.args))
    assert_bits(changed(*subject.args), subject.f(*subject.args))


@by_pass
@settings(max_examples=15)
@given(chosen=st.lists(steps, min_size=1, max_size=12), arguments=inputs, free=st.integers(0, 5))
def test_random_programs_keep_their_bits(
    change: Any, chosen: Any, arguments: Any, free: int
) -> None:
    with np.errstate(all="ignore"):
        staged = fg.program(lambda *args: run_steps(chosen, *args))(*arguments)
        staged = fixed(staged, arguments, free)
        changed = assert_kept(change, staged)
        assert_bits(changed(*arguments[:free]), staged(*arguments[:free]))


@by_pass
def test_random_expressions_keep_their_bits(change: Any) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        chosen, args = expressions.steps(rng), expressions.inputs(rng)
        staged = fg.program(lambda *args, chosen=chosen: expressions.run(chosen, *args))(*args)
        assert_bits(assert_kept(change, staged)(*args), staged(*args))


@by_pass
@together("name", ["where", "custom_jvp", "custom_vjp", "specials", "matrix"])
def test_derivatives_keep(change: Any, name: str) -> None:
    subject = SUBJECTS[name]
    staged = subject.staged()
    if change in WITHOUT_CALLS:
        staged = inlined(staged)
    changed = change(staged)

    def push(f: Any) -> Any:
        return fg.jvp(f, subject.args, subject.args)

    def pull(f: Any) -> Any:
        return fg.vjp(f, *subject.args)[1](staged(*subject.args))

    for derivative in (push, pull):  # up to the sign of a zero, which the order of a sum decides
        pairs = zip(
            pytrees.leaves(derivative(changed)), pytrees.leaves(derivative(staged)), strict=True
        )
        for own, other in pairs:
            assert_array_equal(own, other)


@by_pass
def test_changed_programs_batch(change: Any) -> None:
    changed = change(fg.program(lambda x: fnp.where(True, x * 1.0, 0.0) + 1.0)(2.0))
    assert_bits(fg.vmap(changed)(np.arange(3.0)), np.arange(3.0) + 1)


@by_pass
def test_constants_may_be_tracers(change: Any) -> None:
    def f(w: Any) -> Any:
        staged = fg.program(lambda x: (x * w) * (w * 1.0) + (w + w))(2.0)
        return change(staged).verify()(2.0)

    assert_bits(fg.grad(f)(3.0), fg.tensor(14.0))
    assert_bits(fg.vmap(f)(np.arange(2.0)), np.array([0.0, 4.0]))


@by_pass
def test_nothing_is_known_of_a_tracers_numbers(change: Any) -> None:
    def f(w: Any) -> Any:
        changed = change(fixed(fg.program(lambda x: x * x + x)(w), (w,)))
        assert names_of(changed) == ["multiply", "add"]
        return changed()

    assert_bits(fg.grad(f)(3.0), fg.tensor(7.0))


@by_pass
def test_a_program_is_not_changed_in_place(change: Any) -> None:
    staged = SUBJECTS["constants"].staged()
    text, equations = staged.to_text(), staged.equations
    change(staged)
    assert staged.to_text() == text
    assert staged.equations is equations


# -------------------------------------------------------------------------------- dead code


def test_dead_equations_and_constants_go() -> None:
    staged = fg.program(lambda x: (fnp.exp(x * 3.0) + 7.0, x + 1.0)[1])(2.0)
    program = remove_dead_code(staged)
    assert names_of(program) == ["add"]
    assert program.constants == (Constant(1.0),)


def test_what_a_guard_reads_stays() -> None:
    staged = fg.program(lambda x: x if x * 2.0 > 1.0 else -x)(2.0)
    assert names_of(remove_dead_code(staged)) == ["multiply", "greater"]
    with pytest.raises(fg.errors.GuardError):
        remove_dead_code(staged)(0.0)


def test_an_equation_stays_while_one_of_its_results_is_read() -> None:
    @fg.custom_jvp
    def pair(x):
        return x + 1.0, x + 2.0

    pair.defjvp(lambda primals, tangents: (pair(*primals), (tangents[0], tangents[0])))
    staged = fg.program(lambda x: pair(x)[1] * 2.0)(1.0)
    assert names_of(remove_dead_code(staged)) == ["custom_jvp pair", "multiply"]
    assert_bits(remove_dead_code(staged)(1.0), fg.tensor(6.0))


# -------------------------------------------------------------------------------- common ones


def test_common_subexpressions_are_done_once() -> None:
    program = merge_common_subexpressions(
        fg.program(lambda x: fnp.sin(x) * fnp.sin(x) + fnp.sum(x) + fnp.sum(x))(numbers(3))
    )
    assert names_of(program) == ["sin", "multiply", "sum", "add", "add"]


def test_the_order_of_operands_matters() -> None:
    program = optimize(fg.program(lambda x, y: (x - y, y - x, x - y))(*numbers(2)))
    assert names_of(program) == ["subtract", "subtract"]
    assert_bits(program(1.0, 3.0), (fg.tensor(-2.0), fg.tensor(2.0), fg.tensor(-2.0)))


@pytest.mark.parametrize(("first", "second"), [(2, 2.0), (1, True), (0.0, -0.0)])
def test_parameters_that_only_look_equal_are_not_merged(first: Any, second: Any) -> None:
    def f(x: Any) -> Any:
        return (
            fnp.nan_to_num(x, nan=first),
            fnp.nan_to_num(x, nan=second),
            fnp.power(x.astype(int), first),
            fnp.power(x.astype(int), second),
        )

    with np.errstate(all="ignore"):
        staged = fg.program(f)(np.array([np.nan, 2.0]))
        merged = merge_common_subexpressions(staged)
        assert len(merged.equations) == len(staged.equations) - 1  # the cast
        assert_bits(merged(np.array([np.nan, 2.0])), f(fg.tensor([np.nan, 2.0])))


def test_calls_are_merged_where_they_follow_the_same_rules() -> None:
    staged = fg.program(lambda x: wrong_cube(x) + wrong_cube(x))(2.0)
    merged = merge_common_subexpressions(staged)
    assert names_of(merged) == ["custom_jvp wrong_cube", "add"]
    assert_bits(fg.grad(merged)(2.0), fg.grad(staged)(2.0))
    other_cube = fg.custom_jvp(lambda x: x * x * x)
    other_cube.defjvp(lambda primals, tangents: (other_cube(*primals), 7.0 * tangents[0]))
    staged = fg.program(lambda x: wrong_cube(x) + other_cube(x))(2.0)
    assert merge_common_subexpressions(staged) == staged


# -------------------------------------------------------------------------------- folding


def test_what_depends_on_constants_only_is_computed_once() -> None:
    def f(x: Any, table: Any) -> Any:
        return x * fnp.sum(fnp.exp(table) * 2.0)

    table = np.arange(3.0)
    program = optimize(fixed(fg.program(f)(2.0, table), (2.0, table), free=1))
    assert names_of(program) == ["multiply"]
    (constant,) = program.constants
    assert_bits(constant.value, np.sum(np.exp(table) * 2.0))


@pytest.mark.parametrize(("size", "folded"), [(10, True), (1024, True), (1025, False)])
def test_what_would_grow_is_not_folded(size: int, folded: bool) -> None:
    staged = fg.program(lambda x: fnp.broadcast_to(x, (size,)))(2.0)
    assert (names_of(fold_constants(fixed(staged, (2.0,)))) == []) == folded


def test_a_large_result_of_large_operands_is_folded() -> None:
    x = np.ones(5000)
    assert names_of(fold_constants(fixed(fg.program(fnp.sin)(x), (x,)))) == []


def test_warnings_come_when_they_came() -> None:
    x = np.zeros(2)
    program = fold_constants(fixed(fg.program(lambda x: fnp.log(x + 0.0))(x), (x,)))
    assert names_of(program) == ["log"]
    with np.errstate(divide="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        program()


@together(
    "f",
    [
        lambda x: fnp.reshape(x, (2, 3)),
        lambda x: x.astype(np.float64),
        lambda x: fnp.broadcast_to(x, (2, 3)),
        lambda x: x[...],
        lambda x: x[:],
        lambda x: x[:, :],
        lambda x: x[0:2, ..., :],
        lambda x: x[-5:9],
    ],
)
def test_what_changes_nothing_goes(f: Any) -> None:
    assert names_of(fold_constants(fg.program(f)(numbers(2, 3)))) == []


@together(
    "f",
    [
        lambda x: fnp.reshape(x, (3, 3)).T,
        lambda x: x[::-1],
        lambda x: x[None],
        lambda x: x[1:],
        lambda x: x[:, ::-1],
        lambda x: x[..., ::-1],
        lambda x: x[[0, 1, 2]],
        lambda x: fnp.flip(x, 0),
        lambda x: fnp.roll(x, 1, 1),
        lambda x: fg.stop_gradient(x),
    ],
)
def test_what_changes_something_stays(f: Any) -> None:
    assert len(fold_constants(fg.program(f)(numbers(3, 3))).equations) >= 1


# -------------------------------------------------------------------------------- algebra

EXACT: tuple[Callable[[Any], Any], ...] = (
    lambda x: x * 1.0,
    lambda x: 1 * x,
    lambda x: x * fnp.ones(3),
    lambda x: fnp.reshape(fnp.reshape(x, (1, 3)), (3,)),
)


@pytest.mark.parametrize("f", EXACT)
def test_exact_algebra(f: Any) -> None:
    program = optimize(fg.program(f)(numbers(3)))
    assert names_of(program) == []
    assert_bits(program(numbers(3)), numbers(3))


@together(
    "f",
    [
        lambda x: x + 0.0,
        lambda x: x + 0,
        lambda x: x - -0.0,
        lambda x: x * 0.0,
        lambda x: x * -1.0,
        lambda x: 0.0 - x,
        lambda x: 1.0 / x,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: fnp.where(np.array([True, False, True]), x, 0.0),
    ],
)
def test_what_is_not_exact_stays(f: Any) -> None:
    assert len(optimize(fg.program(f)(numbers(3))).equations) == 1


@together(
    ("f", "x"),
    [
        (lambda x: fnp.multiply(x, 1.0), 2.0),  # a function's result is not as weak as x
        (lambda x: x * 1.0, np.arange(3)),
        (lambda x: x * np.float64(1.0), np.ones(3, np.float32)),
        (lambda x: x * fnp.ones((2, 3)), np.ones(3)),
        (lambda x: x * 1, np.array([True, False])),
        (lambda x: x / 1, np.arange(3)),
        (lambda x: fnp.where(True, x, 0.0), np.arange(3)),
        (lambda x: fnp.where(True, x, np.zeros((2, 3))), np.ones(3)),
        (lambda x: x * 1.0, np.array([1j * np.inf, 1.0])),
        (lambda x: x / 1.0, np.array([1j * np.inf, 1.0])),
        (lambda x: x + -0.0, np.array([1j])),
    ],
)
def test_what_would_change_dtype_shape_or_numbers_stays(f: Any, x: Any) -> None:
    with np.errstate(all="ignore"):
        program = simplify(fg.program(f)(x))
        assert len(program.equations) >= 1
        assert_bits(program(x), f(fg.tensor(x) if np.ndim(x) else x))


@pytest.mark.parametrize(
    "f",
    [
        lambda a, k: fnp.add(a, -a) + fnp.negative(-k),
        lambda a, k: fnp.multiply(-a, -a) - fnp.negative(a * 3.0),
        lambda a, k: fnp.multiply(2.0, a * 3.0) + fnp.multiply(3.0 * a, 2.0),
        lambda a, k: fnp.divide(a, 4) + fnp.square(-a) + fnp.abs(-a),
        lambda a, k: fnp.power(a, 2) + fnp.add(a, a) + fnp.subtract(a, 0.0),
    ],
)
def test_results_of_numbers_of_python_stay_as_weak_as_they_were(f: Any) -> None:
    def beside(x: Any, a: Any, k: Any) -> Any:
        return f(a, k) * x, f(a, k), f(a, k) + 1

    args = np.ones(2, np.float32), 0.3, 2
    program = fg.program(beside)(*args)
    for change in (optimize, simplified, prepared):
        changed = change(program).verify()
        specs, before = changed.specs(), program.specs()
        assert [specs[v] for v in changed.outputs] == [before[v] for v in program.outputs]
        assert_bits(changed(*args), program(*args))


# -------------------------------------------------------------------------------- the pipeline


def test_passes_help_each_other() -> None:
    def f(x: Any, zero: Any) -> Any:
        one = fnp.exp(zero)
        return x * one + fnp.sin(x * one) - fnp.sin(x)

    args = np.float64(2.0), np.float64(0.0)
    program = optimize(fixed(fg.program(f)(*args), args, free=1))
    assert names_of(program) == ["sin", "add", "subtract"]


def test_new_constants_are_in_the_place_of_old_ones() -> None:
    parts = [np.array([k, 1.0, 10.0 * k]) for k in range(4)]

    def doubled(draft: Draft, equation: Any) -> list[int]:
        x, y = equation.operands
        constant = draft.constant_of(y)
        assert constant is not None
        y = draft.constant(Constant(2.0 * np.asarray(constant.value)))
        draft.constant(Constant(np.full(3, -7.0)))  # which nothing reads
        return draft.append(replace(equation, operands=(x, y)))

    staged = fg.program(lambda x: ((x + parts[0]) + parts[1]) + (parts[2] + parts[3]))(np.ones(3))
    program = rewrite(staged, doubled).verify()
    assert len(program.constants) == len(staged.constants) == 3
    assert_array_equal(program(np.ones(3)), 1.0 + 2 * sum(parts))


def test_what_calls_hid_is_simplified_once_they_are_inlined() -> None:
    def f(x: Any) -> Any:
        return x.reshape(3) + fg.checkpoint(lambda y: -y)(x.reshape(3))

    staged = fg.program(f)(np.ones(3))
    assert "negative" not in names_of(optimize(staged))
    assert names_of(prepared(staged).verify()) == ["subtract"]


def test_calls_grow_linearly() -> None:
    def amount(steps: int) -> int:
        def f(x: Any) -> Any:
            for number in range(steps):
                x = fnp.sin(x * 1.0) + number
            return x

        staged = fg.program(fg.grad(f))(np.float64(2.0))
        assert len(optimize(staged).verify().equations) < len(staged.equations)
        return calls_made(lambda: optimize(staged))

    assert added(amount) < MOST


def test_rewriting_without_a_change_gives_the_same_program() -> None:
    for subject in SUBJECTS.values():
        staged = remove_dead_code(subject.staged())
        assert rewrite(staged, Draft.append) == staged
