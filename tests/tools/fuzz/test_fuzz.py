"""A short search with fixed seeds, and the proof that it finds what is wrong.

For a long one: ``python -m tests.tools.fuzz --minutes 30``.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Linear
from funcgrad._passes import pipeline
from funcgrad._passes.workbench import joined
from funcgrad._primitives.elementwise import subtract
from funcgrad._primitives.scatter import scatter_add
from funcgrad._primitives.structural import roll
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.suspicious import warn_of_loops
from funcgrad._staging.jit import JitWarning
from funcgrad.errors import BatchError, CheckError, TracerError
from tests.strangers.rotation import turn
from tests.testing.test_validated import associated
from tests.tools.fuzz.analytic import assert_complex_step
from tests.tools.fuzz.checks import CHECKS, RULES, derived, is_refused, passed, valued
from tests.tools.fuzz.compare import DifferenceError, assert_agree
from tests.tools.fuzz.families import FAMILIES
from tests.tools.fuzz.generate import SCOPE, generate
from tests.tools.fuzz.noise import scatter
from tests.tools.fuzz.search import Finding, Report, Search, script
from tests.tools.fuzz.subject import Subject, quietly
from tests.tools.fuzz.syntax import Program, Step, every_statement, function_of, source

pytestmark = pytest.mark.slow

PROGRAMS = 10


@pytest.mark.parametrize("seed", [7])
def test_programs_mean_the_same_in_every_way(seed):
    report = Search(seed).run(programs=PROGRAMS)
    assert not report.findings, "\n\n".join(map(script, report.findings.values()))
    assert report.programs == PROGRAMS
    assert report.checks > 5 * PROGRAMS
    reached, _ = report.covered
    assert reached > 1000
    assert len(report.rules) > len(RULES) / 5
    assert report.analytic >= 1


def test_a_seed_makes_one_program():
    first, second = [source(generate(np.random.default_rng(3), lambda name: 1.0)) for _ in "ab"]
    assert first == second


def test_advice_about_a_long_program_is_no_failure_of_a_backend():
    def tell(text: str) -> None:
        warnings.warn(f"jit: f {text}", JitWarning, stacklevel=2)

    def long(x):
        for _ in range(10_001):
            x = x + 1.0
        return x

    with quietly():
        warn_of_loops(fg.program(long)(1.0), tell)
        with pytest.raises(JitWarning, match="cannot be compiled"):
            tell("cannot be compiled")


def test_a_program_is_its_text():
    program = generate(np.random.default_rng(0), lambda name: 1.0)
    outs = function_of(program, SCOPE)(*map(fnp.asarray, program.arguments))
    assert len(outs) == len(program.outputs)


# ------------------------------------------------------------------------- what is wrong is found


def swapped(program: fg.Program) -> fg.Program:
    """A wrong pass: the operands of a difference change places."""

    def step(draft: Draft, equation: Any) -> Any:
        operands = equation.operands
        if equation.operation is subtract:
            operands = operands[::-1]
        return draft.append(equation.on(operands))

    return rewrite(program, step)


def test_a_wrong_pass_is_found_and_made_small():
    report = until_found(Search(0, {"swapped": passed(swapped)}))
    assert report.findings
    sizes = [len(list(every_statement(each.program.statements))) for each in found(report)]
    assert min(sizes) <= 2


def test_a_wrong_rule_is_named_where_passes_are_tried(monkeypatch):
    steps = (Step("y", "{} * fnp.sin({}) - {}", ("x", "x", "z")),)
    inputs = (("x", np.array([0.5, 2.0])), ("z", np.array([1.5, -1.0])))
    subject = Subject(Program(inputs, {}, steps, ("y",)))
    CHECKS["validated"].run(subject)
    rules = joined(pipeline._ALL, {subtract: (associated,)})
    monkeypatch.setattr(pipeline, "_ALL", rules)
    with pytest.raises(CheckError, match=r"The rule: tests\.testing\.test_validated\.associated"):
        CHECKS["validated"].run(subject)


def test_a_millionth_is_found():
    def nudged(subject: Any) -> Any:
        return [out * (1 + 1e-6) if out.dtype == np.float64 else out for out in subject.value]

    report = Search(0, {"nudged": valued(nudged)}, seconds=0.0).run(programs=10)
    doubles = [each for each in found(report) if "float64" in each.error]
    assert report.failing > 3
    assert doubles


def test_a_lost_derivative_is_found():
    def stopped(subject: Any) -> Any:
        return fg.vjp(lambda *xs: subject.F(*map(fg.stop_gradient, xs)), *subject.xs)[1](
            subject.cotangents
        )

    report = Search(0, {"stopped": derived("pull", stopped)}, seconds=0.0).run(programs=6)
    assert report.failing > 3


def test_a_place_off_by_one_in_the_transpose_of_a_scatter_is_found():
    linear = scatter_add.differential
    assert isinstance(linear, Linear)
    own, *rest = linear.routes(4)
    transpose: Any = rest.pop(0)

    def shifted(ct: Any, *args: Any, axis: int, unique: bool) -> Any:
        return transpose(roll(ct, shift=(1,), axis=(axis,)), *args, axis=axis, unique=unique)

    wrong = replace(linear, transposes=lambda n: (own, shifted, *[None] * (n - 2)))
    assert rest == [None, None]
    checks = {name: CHECKS[name] for name in ("forward = reverse", "complex step")}
    search = Search(0, checks, operation="scatter_add")
    assert not search.run(programs=4).findings
    object.__setattr__(scatter_add, "differential", wrong)
    try:
        report = until_found(Search(0, checks, 0.0, "scatter_add"))
    finally:
        object.__setattr__(scatter_add, "differential", linear)
    assert report.findings
    assert all("scatter_add" in script(each) for each in found(report))


def test_totals_that_leave_out_an_element_are_found(monkeypatch):
    def shortened(fn: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
        totals = associative_scan(fn, elems, reverse, axis)
        if reverse or elems[0].shape[axis] < 3:
            return totals
        return fg.tree.map(lambda x: fnp.concatenate([x[:2], x[1:-1]]), totals)

    associative_scan: Any = fg.associative_scan
    operation = f"family {FAMILIES.index('composed(fnp.resize({0}, (6,)), {1})')}"
    checks = {"one by one": CHECKS["one by one"]}
    assert not Search(0, checks, operation=operation).run(programs=3).findings
    monkeypatch.setattr(fg, "associative_scan", shortened)
    report = until_found(Search(0, checks, 0.0, operation))
    assert any("composed(" in script(each) for each in found(report))


def test_what_no_batch_has_is_refused_and_nothing_else():
    matrix = np.array([[1.0, 2.0], [2.0, 4.0]])  # whose neighbours are not singular
    sine = Subject(Program((("x", matrix),), {}, (Step("y", "fnp.sin({})", ("x",)),), ("y",)))
    for text, kind in (
        ("fg.scipy.linalg.null_space({})", BatchError),
        ("fnp.nonzero({})[0]", TracerError),
    ):
        subject = Subject(Program((("x", matrix),), {}, (Step("y", text, ("x",)),), ("y",)))
        with pytest.raises(kind) as refused:
            CHECKS["vmap"].run(subject)
        assert is_refused(subject, refused.value)
        assert not is_refused(sine, refused.value)


def test_a_strangers_wrong_transpose_is_found():
    checks = {"forward = reverse": CHECKS["forward = reverse"]}
    assert not Search(0, checks, operation="turn").run(programs=4).findings
    linear: Any = turn.differential
    wrong = replace(linear, transposes=lambda n: (lambda ct, x, turns, axes: ct.reshape(x.shape),))
    object.__setattr__(turn, "differential", wrong)
    try:
        report = until_found(Search(0, checks, 0.0, "turn"))
    finally:
        object.__setattr__(turn, "differential", linear)
    assert any("run.turn" in script(each) for each in found(report))


def test_cofactors_of_a_number_that_is_no_determinant_have_no_derivative():
    cofactors = Step("y", "run.cofactors({}, fnp.sum({}))", ("x", "x"))
    matrix = np.array([[2.0, 1.0], [0.5, 3.0]])
    subject = Subject(Program((("x", matrix),), {}, (cofactors,), ("y",)))
    CHECKS["differences"].run(subject)
    CHECKS["forward = reverse"].run(subject)


def test_a_complex_step_sees_a_billionth():
    sine = Step("y", "fnp.sin({})", ("x",))
    program = Program((("x", np.array([0.3, -1.0, 2.0])),), {}, (sine,), ("y",))
    assert assert_complex_step(Subject(program))
    subject = Subject(program)
    subject.__dict__["F"] = lambda x: (fnp.sin(x) + 1e-9 * x,)  # what is differentiated
    with pytest.raises(DifferenceError, match="complex step"):
        assert_complex_step(subject)


def test_a_zero_may_be_what_rounds_of_the_largest_element():
    for zero, other in ((0.0, 4e-22), (4e-22, 0.0)):
        assert_agree([np.array([zero, 1e-3])], [np.array([other, 1e-3])], lambda: None)
    for wrong, expected in (
        ([1e-17, 1e-3], [0.0, 1e-3]),
        ([4e-22, 1e-9], [0.0, 1e-9]),
        ([1.1e-20, 1.0], [1e-20, 1.0]),
    ):
        with pytest.raises(DifferenceError, match="in the place of"):
            assert_agree([np.array(wrong)], [np.array(expected)], lambda: None)


def test_the_sign_of_a_zero_is_seen():
    zeros = [np.array([0.0, -0.0]), np.array([0.0, 0.0])]
    assert_agree(zeros[:1], zeros[1:], lambda: None)
    with pytest.raises(DifferenceError, match="other sign"):
        assert_agree(zeros[:1], zeros[1:], lambda: None, signs=True)


def until_found(search: Search) -> Report:
    """What some hundred programs find at most; most mistakes are in one of the first."""
    programs = 0
    while not search.report.findings and programs < 100:
        programs += 4
        search.run(programs=programs)
    return search.report


def found(report: Report) -> list[Finding]:
    return list(report.findings.values())


# ------------------------------------------------------------------------- rounding is told apart


def test_cancellation_scatters():
    stable = scatter(lambda x: x * 3.0, (np.float64(0.3),))
    cancelling = scatter(lambda x: (x + 1e8) - 1e8, (np.float64(0.3),))
    assert stable is not None
    assert cancelling is not None
    assert stable.spread[0] < 1e-14
    assert 1e-9 < cancelling.spread[0] < 1e-5


def test_what_is_exact_does_not_scatter():
    def exact(x: Any, y: Any) -> Any:
        third = x / 3.0
        return fnp.maximum(x, y) * 0.5 + 2.0, third - third, fnp.maximum(third, third[::-1] * 2.0)

    measured = scatter(exact, (np.array([0.5, 1.0]), np.array([0.5, -1.0])))
    assert measured is not None
    assert_allclose(measured.spread[:2], 0.0)


def test_every_step_of_a_loop_scatters():
    def steps(n: int, x: Any) -> Any:
        last, rows = fg.scan(lambda c, y: (c * y, c), x, fnp.full(n, x), reverse=True)
        more = fg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]
        return fg.cond(x > 0, lambda: last, lambda: x), rows, more

    x = np.float64(1 / 3 + 1)
    one, many = [scatter(lambda x, n=n: steps(n, x), (x,)) for n in (1, 50)]
    assert one is not None
    assert many is not None
    for out, expected in zip(many.center, steps(50, x), strict=True):
        assert_allclose(out, expected, rtol=1e-12)
    for k in (0, 2):
        assert many.spread[k] / many.center[k] > 3 * one.spread[k] / one.center[k] > 0.0


def test_sums_scatter_by_their_terms():
    measured = scatter(fnp.sum, (np.array([1 / 3, 1e8 / 3, -1e8 / 3]),))
    assert measured is not None
    assert measured.spread[0] > 1e-9


def test_cotangents_of_equal_operations_may_meet_in_their_dtype():
    casts = [Step(name, "{}.astype(np.float32)", ("x",)) for name in "yz"]
    program = Program((("x", np.array(1.0)),), {}, tuple(casts), ("y", "z"))
    CHECKS["vjp of jit"].run(Subject(program))
    CHECKS["hvp of jit"].run(Subject(program))
    with pytest.raises(DifferenceError, match="in the place of"):
        derived("pull", lambda s: fg.vjp(s.inexact_of(s.plain), *s.xs)[1](s.cotangents)).run(
            Subject(program)
        )


def test_a_zero_derivative_is_no_matter_of_the_step():
    cube = Step("y", "{} * {} * {}", ("x", "x", "x"))
    program = Program((("x", np.array([0.0, 1.0])),), {}, (cube,), ("y",))
    assert assert_complex_step(Subject(program))
