"""The programs that passes are measured on have right results, whichever pass is left out."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._passes.pipeline import optimize
from tests.together import together
from tests.tools.benchmarks import native_worth
from tests.tools.benchmarks.programs import Case, every_program
from tests.tools.benchmarks.worth import SUBJECTS, inputs_of, left_out
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad

PROGRAMS = {name: case for name, case in every_program().items() if "e+06" not in name}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_jitted_programs_give_what_functions_do(name: str) -> None:
    f, arguments = PROGRAMS[name]
    assert_close(fg.jit(f)(*arguments), f(*arguments))


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_programs_are_right_with_anything_left_out(subject: Any) -> None:
    """The measured benefit would otherwise be that of a mistake."""
    for name in ("full mixture", "five bodies", "elementwise 1e+05"):
        f, arguments = PROGRAMS[name]
        with left_out(subject):
            program = prepared(optimize(fg.program(f)(*arguments)))
            found = compile_program(program)(*inputs_of(PROGRAMS[name]))
        assert_close([*found], fg.tree.leaves(f(*arguments)))


def test_what_is_left_out_is_missed() -> None:
    f, arguments = PROGRAMS["full mixture"]
    program = fg.program(f)(*arguments)
    everything = prepared(optimize(program))
    for name in ("simplify", "rows_last", "contractions"):
        with left_out(SUBJECTS[name]):
            assert prepared(optimize(program)) != everything


@together(
    ("words", "steps"),
    [
        ("Kalman 4x4, 200", ("eliminations and roots written out", "small products written out")),
        ("hidden Markov model", ("gathers", "scatters")),
        ("Gaussian process", ("long substitution", "products in registers")),
    ],
    quick=1,
)
def test_programs_are_right_without_steps_to_machine_code(
    words: str, steps: tuple[str, ...]
) -> None:
    pytest.importorskip("llvmlite")
    task = next(task for task in TASKS if task.name == words)
    f, arguments = task.function(funcgrad()), task.arguments(small=False)
    program, inputs = fg.program(f)(*arguments), inputs_of(Case(f, arguments))
    wanted, texts = fg.tree.leaves(f(*arguments)), set[str]()
    for name in ("", *steps):
        with native_worth.left_out(native_worth.STEPS.get(name, ())):
            backend, runs, text = native_worth.ready(program)
            texts.add(text)
            assert_close([*native_worth.compiled(backend, runs)(*inputs)], wanted)
    assert len(texts) > 1


def assert_close(found: Any, wanted: Any) -> None:
    pairs = zip(fg.tree.leaves(found), fg.tree.leaves(wanted), strict=True)
    for own, other in pairs:
        scale = np.max(np.abs(np.asarray(other)), initial=1.0)
        np.testing.assert_allclose(own, other, rtol=1e-7, atol=1e-9 * scale)
