"""Programs as values: print, equality, verification, calls."""

import copy
import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.specs import Spec
from funcgrad._primitives.elementwise import add, multiply
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._programs.equation import Constant, Equation, Guard, exact_key
from funcgrad.errors import DtypeError, GuardError, LeafError, ProgramError, ShapeError, TreeError
from tests.subjects import SUBJECTS, assert_bits
from tests.together import together
from tests.transforms.support import Layer, assert_same, numbers

F8 = np.dtype(np.float64)
NUMBER = Spec((), F8)


def small() -> fg.Program:
    """Inputs 0 and 1, the constant 2, the results 3 and 4, both of them strong numbers."""
    return fg.program(lambda x, y: x * y + 1.0)(np.float64(2.0), np.float64(3.0))


# -------------------------------------------------------------------------------- verification


def test_staged_programs_are_well_formed() -> None:
    assert small().verify() == small()
    assert [str(spec) for spec in small().specs()] == ["float64[]"] * 5


def broken(**changes: Any) -> fg.Program:
    return replace(small(), **changes)


PRODUCT, SUM = small().equations

MALFORMED = {
    "uses the variable 3, but 3 are defined": broken(
        equations=(replace(PRODUCT, operands=(0, 3)), SUM)
    ),
    "uses the variable -1": broken(equations=(replace(PRODUCT, operands=(0, -1)), SUM)),
    "uses the variable 9": broken(equations=(PRODUCT, replace(SUM, operands=(9, 9)))),
    "gives float64[], not float64[2]": broken(
        equations=(replace(PRODUCT, results=(Spec((2,), F8),)), SUM)
    ),
    "gives float64[], not float32[]": broken(
        equations=(PRODUCT, replace(SUM, results=(Spec((), np.dtype("f")),)))
    ),
    "gives float64[], not float64[] (a Python number)": broken(
        equations=(PRODUCT, replace(SUM, results=(Spec((), F8, weak=True),)))
    ),
    "gives float64[], not nothing": broken(equations=(replace(PRODUCT, results=()), SUM)),
    "gives float64[], not float64[], float64[]": broken(
        equations=(replace(PRODUCT, results=(NUMBER, NUMBER)), SUM)
    ),
    "equation 0 (multiply) is not defined for float64[]": broken(
        equations=(replace(PRODUCT, operands=(0,)), SUM)
    ),
    "equation 1 (sum) is not defined for float64[]": broken(
        equations=(PRODUCT, Equation(reduce_sum, (3,), (), (NUMBER,)))
    ),
    "a parameter that cannot be compared": broken(
        equations=(PRODUCT, replace(SUM, params=(("axis", [0]),)))
    ),
    "output or guard 5": broken(outputs=(5,)),
    "output or guard -1": broken(outputs=(-1,)),
    "output or guard 7": broken(guards=(Guard(7, "bool", True),)),
    "outputs do not fit": broken(outputs=(3, 4)),
    "inputs do not fit": broken(arguments=fg.tree.structure(((1.0,), {}))),
    "tree or names": broken(names=("x",)),
}


@together(("message", "program"), MALFORMED.items(), ids=MALFORMED)
def test_a_malformed_program_is_refused(message: str, program: fg.Program) -> None:
    with pytest.raises(ProgramError) as caught:
        program.verify()
    assert message in str(caught.value)
    assert str(caught.value).startswith("<lambda>: ")


# -------------------------------------------------------------------------------- print


def test_print() -> None:
    def f(params: Any, x: Any, *, scale: Any) -> Any:
        h = fnp.sum(params["w"] * x, axis=0)
        return h * scale if h > 0 else -h

    table = np.arange(2.0)
    staged = fg.program(f)({"w": table + 1}, table, scale=2.0)
    assert staged.to_text(sources=False).splitlines() == [
        "program f(a: float64[2], x: float64[2], scale: float64[]) -> float64[]",
        "  b = constant 0",
        "  c: float64[2] = multiply a x",
        "  d: float64[] = sum c axis=(0,) keepdims=False",
        "  e: bool[] = greater d b",
        "  guard bool(e) is True",
        "  f: float64[] = multiply d scale",
        "  return f",
    ]
    assert staged.names == ("params['w']", "x", "scale")
    assert str(staged) == staged.to_text() != staged.to_text(sources=False)


def test_print_names_the_users_lines() -> None:
    staged = fg.program(lambda x: fnp.sin(x))(2.0)
    line = test_print_names_the_users_lines.__code__.co_firstlineno + 1
    assert f"  # test_programs.py:{line}\n" in str(staged)


def test_print_shows_the_start_of_constants() -> None:
    staged = fg.program(lambda x: x + np.arange(5.0) + np.array([True]) * x)(2.0)
    text = staged.to_text(sources=False)
    assert "constant float64[5] 0.0 1.0 2.0 ...\n" in text
    assert "constant bool[1] True\n" in text


def test_print_of_a_program_without_inputs_and_outputs() -> None:
    assert fg.program(lambda: None)().to_text() == "program <lambda>() -> ()\n  return "


def test_names_do_not_collide() -> None:
    staged = fg.program(lambda b, a, pair: (b + a) * pair[0] * pair[1])(1.0, 2.0, (3.0, 4.0))
    names = staged.variable_names()
    assert names[:2] == ["b", "a"]
    assert len(set(names)) == len(names) == len(staged.specs())


def test_nothing_is_refused_of_an_array_without_elements() -> None:
    x = np.zeros((2, 0), int)
    staged = fg.program(lambda x: x**-1)(x).verify()
    assert_bits(staged(x), fg.tensor(x) ** -1)


# -------------------------------------------------------------------------------- equality


@together("subject", [s for n, s in SUBJECTS.items() if n != "calls"])
def test_the_same_function_staged_twice_gives_equal_programs(subject: Any) -> None:
    with np.errstate(all="ignore"):
        first, second = subject.staged(), subject.staged()
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1


def test_source_lines_and_names_of_arguments_play_no_part() -> None:
    first = fg.program(lambda x: x + 1.0)(2.0)
    second = fg.program(lambda renamed: renamed + 1.0)(3.0)
    assert first.equations[0].source != second.equations[0].source
    assert first == second
    assert hash(first) == hash(second)


@together(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1.0, 1),
        (1.0, np.float64(1.0)),
        (np.zeros(2), -np.zeros(2)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros(2), np.zeros((1, 2))),
        (np.arange(100.0), np.arange(100.0) + (np.arange(100) == 99)),
    ],
)
def test_constants_are_compared_by_bits(one: Any, other: Any) -> None:
    assert Constant(one) != Constant(other)
    assert Constant(one) == Constant(np.array(one) if np.ndim(one) else one)
    assert Constant(one) != one
    assert fg.program(lambda x: x * one)(2.0) != fg.program(lambda x: x * other)(2.0)


def test_constants_that_are_nan_are_equal() -> None:
    assert Constant(np.nan) == Constant(float("nan"))
    assert Constant(np.full(3, np.nan)) == Constant(np.full(6, np.nan)[::2])
    assert hash(Constant(np.full(3, np.nan))) == hash(Constant(np.full(6, np.nan)[::2]))
    assert repr(Constant(2.0)) == "Constant(2.0)"


@together(
    ("one", "other"),
    [(2, 2.0), (1, True), (0.0, -0.0), (1.0, 1 + 0j), (0j, -0j), ((1,), (1.0,)), ((), slice(None))],
)
def test_static_values_are_told_apart(one: Any, other: Any) -> None:
    assert exact_key(one) != exact_key(other)
    assert exact_key(one) == exact_key(one)
    params = (("exponent", one),), (("exponent", other),)
    first, second = (Equation(add, (0, 0), each, (NUMBER,)) for each in params)
    assert first != second
    assert Guard(0, "number", one) != Guard(0, "number", other)


def test_static_values_that_are_nan_are_equal() -> None:
    assert exact_key(float("nan")) == exact_key(-float("nan"))
    assert Guard(0, "number", float("nan")) == Guard(0, "number", float("nan"), source="elsewhere")
    assert hash(Guard(0, "number", np.nan)) == hash(Guard(0, "number", float("nan")))
    assert exact_key(np.float32(0.0)) != exact_key(np.float32(-0.0))


def test_programs_differ_in_whatever_matters() -> None:
    program = small()
    assert program != replace(program, outputs=(3,))
    assert program != replace(program, equations=(replace(PRODUCT, operation=add), SUM))
    assert program != replace(program, guards=(Guard(0, "bool", True),))
    others: list[object] = [program, PRODUCT, Guard(0, "bool", True), Constant(1.0), "text"]
    assert all(a != b for k, a in enumerate(others) for b in others[:k])


def test_copies_are_the_program_itself() -> None:
    program = small()
    assert copy.copy(program) is program
    assert copy.deepcopy({"key": program})["key"] is program


def test_nothing_in_a_program_can_be_changed() -> None:
    program = small()
    with pytest.raises(AttributeError):
        program.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        program.equations[0].operands = ()  # type: ignore[misc]


def test_a_program_is_a_tree_without_leaves() -> None:
    program = small()
    assert fg.tree.leaves({"f": program, "x": 1.0}) == [1.0]
    assert fg.tree.map(lambda x: x + 1, {"f": program, "x": 1.0})["f"] is program


# -------------------------------------------------------------------------------- calls


def test_calls_take_trees_and_keywords() -> None:
    def f(layer: Any, x: Any, *, scale: Any = 1.0) -> Any:
        return {"out": (layer.weight @ x + layer.bias) * scale, "none": None}

    layer = Layer(numbers(2, 3), numbers(2))
    staged = fg.program(f)(layer, numbers(3), scale=2.0)
    assert_same(staged(layer, numbers(3), scale=3.0), f(layer, numbers(3), scale=3.0))
    with pytest.raises(TreeError):
        staged(layer, numbers(3))
    with pytest.raises(TreeError):
        staged(layer, numbers(3), 3.0)
    for values in ([], [1.0, 2.0, 3.0]):
        with pytest.raises(ProgramError, match=f"evaluate got {len(values)} values, and .* has 2"):
            fg.program(lambda x, y: x + y)(1.0, 2.0).evaluate(values)
    with pytest.raises(ShapeError, match=r"program f: x: expected shape \(3,\), got \(4,\)"):
        staged(layer, numbers(4), scale=3.0)
    with pytest.raises(ShapeError, match=r"layer\.bias: expected shape"):
        staged(Layer(numbers(2, 3), numbers(3)), numbers(3), scale=3.0)
    with pytest.raises(DtypeError, match="scale: expected dtype float64, got complex128"):
        staged(layer, numbers(3), scale=1j)
    with pytest.raises(DtypeError, match="x: expected dtype float64, got float32"):
        staged(layer, np.ones(3, np.float32), scale=3.0)
    with pytest.raises(LeafError):
        staged(layer, "text", scale=3.0)


@together("x", [3.0, 3, True, np.float64(3.0), np.array(3.0), fg.tensor(3.0)])
def test_a_python_number_stays_weak_whatever_is_passed_for_it(x: Any) -> None:
    single = np.ones(2, np.float32)
    staged = fg.program(lambda x: x * single)(2.0)
    assert staged.inputs[0].weak
    assert_bits(staged(x), float(x) * single)


@pytest.mark.parametrize("x", [3.0, 3, np.float64(3.0)])
def test_a_strong_number_stays_strong_whatever_is_passed_for_it(x: Any) -> None:
    single = np.ones(2, np.float32)
    staged = fg.program(lambda x: x * single)(np.float64(2.0))
    assert_bits(staged(x), np.full(2, 3.0))
    assert_bits(fg.jvp(staged, (x * 1.0,), (1.0,)), (np.full(2, 3.0), np.ones(2)))
    assert_bits(fg.vmap(staged)(np.array([x * 1.0])), np.full((1, 2), 3.0))


@together(
    ("staged_with", "called_with"),
    [
        (np.int64(2), 2.5),
        (np.uint8(2), 300),
        (np.uint8(2), -1),
        (2, 2.5),
        (np.float64(2), 2j),
        (True, 1),
        (np.float32(2), np.float64(2)),
        (2.0, np.float32(2)),
        (2, np.int32(2)),
    ],
)
def test_numbers_that_do_not_fit_are_refused(staged_with: Any, called_with: Any) -> None:
    staged = fg.program(lambda x: x * 1)(staged_with)
    with pytest.raises(DtypeError, match="program <lambda>: x: expected dtype"):
        staged(called_with)


def test_results_may_be_inputs_and_constants() -> None:
    staged = fg.program(lambda x, y: (y, 3.0, x, np.arange(2.0)))(1.0, 2.0)
    assert_same(staged(4.0, 5.0), (5.0, 3.0, 4.0, np.arange(2.0)))
    out = staged(4.0, 5.0)[3]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(out)[0] = 7.0
    assert_same(staged(4.0, 5.0)[3], np.arange(2.0))


@together("name", SUBJECTS)
def test_a_call_gives_what_the_function_gives(name: str) -> None:
    subject = SUBJECTS[name]
    with np.errstate(all="ignore"):
        assert_bits(subject.staged()(*subject.args), subject.f(*subject.args))


def test_a_call_frees_variables_after_their_last_use() -> None:
    alive: list[Any] = []

    def watch(x: Any) -> Any:
        alive[:] = [ref for ref in alive if ref() is not None]
        out = np.array(x) + 1.0
        alive.append(weakref.ref(out))
        return out

    step = replace_evaluate(add, lambda x, y: watch(x))
    one = Spec((1000,), F8)
    program = fg.Program(
        "chain",
        ("x",),
        (one,),
        (),
        tuple([Equation(step, (k, k), (), (one,)) for k in range(20)]),
        (20,),
        arguments=fg.tree.structure(((0.0,), {})),
        result=fg.tree.structure(0.0),
    ).verify()
    gc.disable()
    try:
        assert_bits(program(np.zeros(1000)), np.full(1000, 20.0))
        assert len(alive) <= 2
    finally:
        gc.enable()


def replace_evaluate(primitive: Any, evaluate: Any) -> Any:
    return replace(primitive, evaluate=evaluate)


def test_a_long_program_needs_no_recursion() -> None:
    one = Spec((), F8)
    count = 50_000
    program = fg.Program(
        "chain",
        ("x",),
        (one,),
        (),
        tuple([Equation(multiply, (k, k), (), (one,)) for k in range(count)]),
        (count,),
        arguments=fg.tree.structure(((0.0,), {})),
        result=fg.tree.structure(0.0),
    )
    assert program(1.0) == 1.0
    assert len(program.to_text().splitlines()) == count + 2


def test_a_dropped_program_frees_its_constants() -> None:
    table = np.arange(1000.0)
    staged: Any = fg.program(lambda x: x * fg.tensor(table))(2.0)
    value = weakref.ref(staged.constants[0].value)
    gc.disable()
    try:
        assert value() is not None
        staged(3.0)
        del staged
        assert value() is None
    finally:
        gc.enable()


# -------------------------------------------------------------------------------- guards


def test_a_guard_error_says_what_was_found_and_where() -> None:
    staged = fg.program(lambda x: x if x > 0 else -x)(2.0)
    assert_same(staged(3.0), 3.0)
    with pytest.raises(GuardError) as caught:
        staged(-3.0)
    assert "bool of a value was True; for these arguments it is False" in str(caught.value)
    assert "test_programs.py:" in str(caught.value)


def test_a_program_works_after_a_guard_failed() -> None:
    staged = fg.program(lambda x: x if x > 0 else -x)(2.0)
    for _ in range(3):
        with pytest.raises(GuardError):
            staged(-3.0)
        assert_same(staged(3.0), 3.0)


def test_a_guard_stands_below_the_variable_that_it_looks_at() -> None:
    def chosen(x: Any) -> Any:
        y = fnp.sin(x) if x else -x
        return y if y > 0 else -y

    lines = fg.program(chosen)(2.0).to_text(sources=False).splitlines()
    assert lines[1] == "  guard bool(x) is True"
    assert [place for place, line in enumerate(lines) if "guard" in line] == [1, 5]
