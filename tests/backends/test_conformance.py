"""``fg.testing.check_backend``: backends that are right pass, and each mistake is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._backends.interface import Compiled
from funcgrad._backends.numpy.backend import NUMPY
from funcgrad._core import pytrees
from funcgrad._core.structure.structures import (
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._programs.builder import rewrite
from funcgrad._programs.program import Program
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.extend import Choice, Loop
from funcgrad.testing.backend_programs import every_program
from tests.backends.lists_backend import LISTS, ListsBackend
from tests.together import together

Run = Callable[..., Any]


def test_the_numpy_backend_runs_every_kind_of_program() -> None:
    fg.testing.check_backend("numpy")


@pytest.mark.slow
def test_a_backend_over_lists_runs_every_kind_of_program() -> None:
    fg.testing.check_backend(LISTS)


def test_the_gradient_of_a_while_loop_is_run_by_what_it_says_of_its_form() -> None:
    names: list[str] = []

    class Watched(ListsBackend):
        def evaluated(self, equation: Any, operands: list[Any]) -> list[Any]:
            names.append(equation.name)
            return super().evaluated(equation, operands)

    def root(x: Any) -> Any:  # by Newton's method
        far = lambda y: abs(y * y - x) > 1e-12 * x  # noqa: E731
        return fg.while_loop(far, lambda y: (y + x / y) / 2.0, x)

    def few(x: Any) -> Any:
        return fg.while_loop(lambda y: y < 9.0, lambda y: y * x, x, checkpoints=2)

    xs = np.array([2.0, 3.0])
    for f, x in ((fg.grad(root), xs[0]), (fg.hessian(root), xs[0]), (fg.vmap(fg.grad(root)), xs)):
        listed, expected = fg.jit(f, backend=Watched())(x), fg.jit(f)(x)
        np.testing.assert_allclose(listed, expected, rtol=1e-12)
    assert not {"while_reverse", "while_loop", "stacking_while", "stacking_scan"} & {*names}
    fg.jit(fg.grad(few), backend=Watched())(2.0)  # which holds few states: so it has no form
    assert "while_reverse" in names


def test_programs_are_of_all_kinds() -> None:
    structures, forms = set[type[Any]](), set[type[Any]]()
    inputs_guarded = weak = False

    def look(program: Program) -> None:
        nonlocal inputs_guarded, weak
        inputs_guarded = inputs_guarded or -1 in program.index.guards
        weak = weak or any(program.specs()[variable].weak for variable in program.outputs)
        for equation in program.equations:
            structure, params = equation.operation.structure, dict(equation.params)
            structures.add(type(structure))
            if isinstance(structure, Control):
                forms.add(type(structure.form(**params)) if structure.form else type(None))
                for inner, _ in structure.runs(**params):
                    look(inner)

    for trial in every_program():
        look(fg.program(trial.function)(*trial.args))
    kinds = {Contraction, Control, Elementwise, Gather, Movement, Opaque, Random, Reduction, Scan}
    assert structures == {*kinds, Factored, Scatter}
    assert forms >= {Loop, Choice, type(None)}
    assert inputs_guarded
    assert weak


# ------------------------------------------------------------------------------------ mistakes


@dataclass(frozen=True)
class Mistaken:
    """NumPy's backend, with a mistake in its compiled functions or in how it prepares programs."""

    change: Callable[[Program, Run], Run] = lambda program, run: run
    prepares: Callable[[Program], Any] = lambda program: program
    warns: bool = True
    name: str = "mistaken"
    text: Any = ""
    refuses: bool = False

    def supports(self, program: Program) -> bool:
        return not self.refuses

    def prepare(self, program: Program, relaxed: bool) -> Any:
        return self.prepares(NUMPY.prepare(program, relaxed))

    def compile(self, program: Program) -> Compiled:
        return Compiled(self.change(program, NUMPY.compile(program).run), self.warns)

    def inspect(self, program: Program) -> Any:
        return self.text


def on_outputs(change: Callable[[Sequence[Any]], Any]) -> Mistaken:
    """A backend that changes the results of every program."""

    def changed(_: Program, run: Run) -> Run:
        def mistaken(*values: Any) -> Any:
            outs = run(*values)
            return None if outs is None else change(outs)

        return mistaken

    return Mistaken(changed)


def on_each(change: Callable[[Any], Any]) -> Mistaken:
    return on_outputs(lambda outs: tuple(map(change, outs)))


def is_weak(out: Any) -> bool:
    return type(out) in (bool, int, float, complex)


def writes(_: Program, run: Run) -> Run:
    def mistaken(*values: Any) -> Any:
        outs = run(*values)
        for value in values[:1]:
            if isinstance(value, np.ndarray) and value.flags.writeable and value.ndim:
                value[...] = value * 0.5
        return outs

    return mistaken


def keeps(_: Program, run: Run) -> Run:
    held: list[Any] = []

    def mistaken(*values: Any) -> Any:
        held.append(values)
        return run(*values)

    return mistaken


def reuses(_: Program, run: Run) -> Run:
    """Results whose memory the next call writes again."""
    held: list[Any] = []

    def mistaken(*values: Any) -> Any:
        outs = run(*values)
        if outs is None or not all(isinstance(out, np.ndarray) for out in outs):
            return outs
        if not held:
            held.extend([np.array(out) for out in outs])
        for place, out in zip(held, outs, strict=True):
            place[...] = out
        return tuple(held)

    return mistaken


def meets(_: Program, run: Run) -> Run:
    """Arguments that share memory with those of another call."""
    shared: list[Any] = [()]

    def mistaken(*values: Any) -> Any:
        shared[0] = values
        time.sleep(1e-4)
        return run(*shared[0])

    return mistaken


def swallows(program: Program, run: Run) -> Run:
    def mistaken(*values: Any) -> Any:
        try:
            return run(*values)
        except Exception:
            specs = program.specs()
            return tuple([np.zeros(specs[k].shape, specs[k].dtype) for k in program.outputs])

    return mistaken


def fails_on_empty(_: Program, run: Run) -> Run:
    def mistaken(*values: Any) -> Any:
        if any(np.size(value) == 0 for value in values):
            raise ZeroDivisionError("no elements")
        return run(*values)

    return mistaken


def drifts(_: Program, run: Run) -> Run:
    """Results that differ from call to call in their last bits."""
    counted: list[int] = []

    def mistaken(*values: Any) -> Any:
        counted.append(1)
        tiny = 1.0 + 2.0**-52 * (len(counted) % 2)
        outs = run(*values)
        return outs and tuple(
            [o * tiny if isinstance(o, np.ndarray) and o.dtype == float else o for o in outs]
        )

    return mistaken


def without_last_output(program: Program) -> Program:
    if len(program.outputs) < 2:
        return program
    tree = pytrees.structure([0.0] * (len(program.outputs) - 1))
    return replace(program, outputs=program.outputs[:-1], result=tree)


class OneStepMore(ListsBackend):
    """A loop that asks its condition after the step."""

    def continues(self, loop: Loop, count: int, shared: Any, carry: Any) -> bool:
        if loop.condition is not None and not count:
            return True
        return super().continues(loop, count, shared, carry)


class Forwards(ListsBackend):
    """Loops that run forwards where they should be reversed."""

    def loop(self, loop: Loop, operands: Any) -> Any:
        return super().loop(loop._replace(reverse=False), operands)


class LastBranch(ListsBackend):
    """A choice that counts negative numbers from the end, as Python's lists do."""

    def choose(self, choice: Choice, operands: Any) -> Any:
        number = int(np.asarray(operands[0].elements[0]))
        return self.outputs(choice.branches[number % len(choice.branches)], operands[1:])


class Unstacked(ListsBackend):
    """A correct backend that inlines nothing: it evaluates calls and loops' backward passes."""

    def prepare(self, program: Program, relaxed: bool) -> Program:
        return program


@dataclass(frozen=True)
class Sharing(Mistaken):
    """It says that its results are new arrays, and they lie in the memory of the caller's."""

    def compile(self, program: Program) -> Compiled:
        return Compiled(NUMPY.compile(program).run, is_fresh=True)


MISTAKES: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "order of outputs": (on_outputs(lambda outs: outs[::-1]), ("results",), r"result \d of \d is"),
    "one output too few": (
        on_outputs(lambda outs: outs[:-1]),
        ("results",),
        r"returned \d values instead of a tuple",
    ),
    "no tuple": (on_outputs(lambda outs: outs[0]), ("movement",), "instead of a tuple of"),
    "lists": (on_each(lambda o: np.asarray(o).tolist()), ("movement",), "type list, which is no"),
    "tensors": (on_each(fg.tensor), ("movement",), "type Tensor, which is not a raw value"),
    "a wrong dtype": (
        on_each(lambda o: o if is_weak(o) else np.asarray(o).astype(np.float64)),
        ("dtype",),
        r"is float64\[3\], evaluation's is float32\[3\]",
    ),
    "loses weakness": (
        on_each(lambda o: np.asarray(o)[()] if is_weak(o) else o),
        ("Python numbers",),
        "is float64; it has to be a Python number, since it is weak",
    ),
    "weak where it is not": (
        on_each(lambda o: o.item() if np.ndim(o) == 0 and not is_weak(o) else o),
        ("reduction",),
        r"is float; it has to be float64\[\] and not weak",
    ),
    "an axis too many": (
        on_each(lambda o: o if is_weak(o) else np.asarray(o)[None]),
        ("movement",),
        r"float64\[1,",
    ),
    "rounds": (
        on_each(lambda o: o * (1 + 1e-9) if np.asarray(o).dtype == float else o),
        ("contraction",),
        r"evaluation's is np\.float64",
    ),
    "no NaN": (
        on_each(lambda o: np.nan_to_num(o) if np.asarray(o).dtype == float else o),
        ("elementwise",),
        r"evaluation's is np\.float64\((nan|inf|-inf)\)",
    ),
    "forgets a guard": (
        Mistaken(prepares=lambda program: replace(program, guards=())),
        ("guards",),
        r"a guard does not hold for other arguments, and run\(\) did not return None",
    ),
    "finds no guard to hold": (
        Mistaken(lambda program, run: lambda *values: None if program.guards else run(*values)),
        ("guards",),
        r"run\(\) returned None, though all guards hold",
    ),
    "writes an argument": (Mistaken(writes), ("elementwise",), r"run\(\) writes to argument 0"),
    "uses the memory of a result again": (
        Mistaken(reuses),
        ("gather and scatter", "elementwise"),
        "a result changes at a later call",
    ),
    "is never the same": (Mistaken(drifts), ("contraction",), "different bits at the second call"),
    "fails on empty arrays": (
        Mistaken(fails_on_empty),
        ("shape",),
        "raised ZeroDivisionError: no elements",
    ),
    "one step more": (OneStepMore(), ("loop",), "a while_loop that does not begin"),
    "not reversed": (Forwards(), ("loop",), "scan reversed"),
    "branches from behind": (LastBranch(), ("choice",), "switch -1"),
    "shares memory": (Sharing(), ("movement",), "changes when the caller writes to an argument"),
    "prepares nothing": (
        Mistaken(prepares=lambda program: None),
        ("movement",),
        "returned NoneType, not a Program",
    ),
    "prepares fewer outputs": (
        Mistaken(prepares=without_last_output),
        ("results",),
        "changed the outputs from",
    ),
    "shows no text": (Mistaken(text=None), ("random",), r"inspect\(\) returned NoneType, not text"),
    "no name": (Mistaken(name=""), ("behaviour",), "its name is '', not a text"),
    "keeps arguments": (Mistaken(keeps), ("behaviour",), r"run\(\) keeps its argument"),
    "threads that meet": (Mistaken(meets), ("behaviour",), r"behaviour: threads"),
    "swallows errors": (
        Mistaken(swallows),
        ("behaviour",),
        "no error by jit, .*Error by evaluation",
    ),
    "warns": (Mistaken(warns=False), ("behaviour",), "warned RuntimeWarning: "),
    "supports nothing": (Mistaken(refuses=True), ("movement",), "supports none of the programs"),
}


@together(("backend", "kinds", "words"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_is_named(backend: Any, kinds: tuple[str, ...], words: str) -> None:
    with pytest.raises(CheckError, match=words):
        fg.testing.check_backend(backend, kinds)


def test_the_report_lists_all_that_is_wrong() -> None:
    with pytest.raises(CheckError) as caught:
        fg.testing.check_backend(Forwards(), ("loop", "loop backwards"))
    text = str(caught.value)
    assert text.startswith("check_backend: 'lists' is wrong in ")
    assert "  loop: scan reversed\n" in text
    assert "  loop backwards: scan\n" in text
    assert "print(backend.inspect(backend.prepare(" in text


def test_what_is_not_supported_is_left_out() -> None:
    class Small(ListsBackend):
        def supports(self, program: Program) -> bool:
            return len(program.equations) == 1

    fg.testing.check_backend(Small(), ("elementwise",))


def test_what_is_prepared_less_is_right_as_well() -> None:
    fg.testing.check_backend(Unstacked(), ("rules and calls", "loop"))


def test_a_program_that_is_not_well_formed_is_named() -> None:
    def backwards(program: Program) -> Program:
        turned = rewrite(program, lambda draft, equation: draft.append(equation))
        return replace(turned, equations=turned.equations[::-1])

    with pytest.raises(CheckError, match=r"raised ProgramError: .*are defined before it"):
        fg.testing.check_backend(Mistaken(prepares=backwards), ("derivative",))


def test_what_is_no_backend_and_no_kind_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"check_backend: no kind 'loops'\. Kinds: elementwise"):
        fg.testing.check_backend("numpy", ("loops",))
    with pytest.raises(ArgumentError, match="kinds names none, so nothing would be checked"):
        fg.testing.check_backend("numpy", ())
    with pytest.raises(ArgumentError, match="check_backend: there is no backend called 'none'"):
        fg.testing.check_backend("none")
    with pytest.raises(ArgumentError, match="has no name, supports"):
        fg.testing.check_backend(object())  # type: ignore[arg-type]
