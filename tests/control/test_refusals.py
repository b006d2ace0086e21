"""What loops and branches refuse, and the words that they have for it; staged and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FunctionError,
    LeafError,
    ShapeError,
    TracerError,
    TreeError,
)
from tests.together import together

XS = fg.tensor([1.0, 2.0, 3.0])
ONE = fg.tensor(1.0)
HALF: Any = 1.5


def _half(c: Any, x: Any) -> Any:
    return c.astype("float32") if hasattr(c, "astype") else c, None


CASES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a scan's function returns no pair": (
        lambda x: fg.scan(lambda c, _: c, x, XS),
        FunctionError,
        r"scan: the function has to return a pair \(carry, y\), but it returned a tensor of shape"
        r" \(\)\. Return \(carry, None\).*At test_refusals.py:\d+",
    ),
    "the carry's tree": (
        lambda x: fg.scan(lambda c, _: ((c, c), None), {"a": x}, XS),
        TreeError,
        r"scan: the carry.*expected a dict.*a tuple.*has to return a carry like the one",
    ),
    "the carry's shape": (
        lambda x: fg.scan(lambda c, x: ({"a": fnp.stack([x, x])}, None), {"a": x}, XS),
        ShapeError,
        r"scan: the carry\['a'\] came in as float64\[\] and was returned as float64\[2\]",
    ),
    "the carry's dtype": (
        lambda x: fg.scan(_half, x, XS),
        DtypeError,
        r"scan: the carry came in as float64\[\] and was returned as float32\[\].*"
        r"\.astype\('float64'\)",
    ),
    "a Python number that becomes a narrower one": (
        lambda x: fg.scan(lambda c, _: (fnp.floor(x).astype(int), None), 0.5, XS),
        DtypeError,
        r"scan: the carry came in as a Python number \(float64\) and was returned as int64\[\]",
    ),
    "xs of different lengths": (
        lambda x: fg.scan(lambda c, x: (c, None), x, {"a": XS, "b": (XS[:2],)}),
        ShapeError,
        r"scan: the lengths differ: xs\['a'\] has 3, and xs\['b'\]\[0\] of shape \(2,\) has 2",
    ),
    "xs and length": (
        lambda x: fg.scan(lambda c, x: (c, None), x, XS, length=4),
        ShapeError,
        r"scan: the lengths differ: length has 4, and xs of shape \(3,\) has 3",
    ),
    "xs without an axis": (
        lambda x: fg.scan(lambda c, x: (c, None), x, (XS, ONE)),
        ShapeError,
        r"scan: xs\[1\] is a single number, and has no axis to loop over",
    ),
    "neither xs nor length": (
        lambda x: fg.scan(lambda c, x: (c, None), x),
        ArgumentError,
        "scan: there is nothing to loop over. Pass the number of steps as length=",
    ),
    "a negative length": (
        lambda x: fg.scan(lambda c, x: (c, None), x, length=-1),
        ArgumentError,
        "scan: length is -1; it cannot be negative",
    ),
    "a length that is no integer": (
        lambda x: fg.scan(lambda c, x: (c, None), x, length=HALF),
        ArgumentError,
        "scan: length has to be a whole number, got 1.5",
    ),
    "unroll": (
        lambda x: fg.scan(lambda c, x: (c, None), x, XS, unroll=0),
        ArgumentError,
        "scan: unroll has to be a positive integer, got 0",
    ),
    "checkpoint_every": (
        lambda x: fg.scan(lambda c, x: (c, None), x, XS, checkpoint_every="root"),
        ArgumentError,
        "scan: checkpoint_every has to be a positive integer or 'sqrt', got 'root'",
    ),
    "no function": (lambda x: fg.scan(x, x, XS), FunctionError, "scan: expected a function"),
    "no array": (
        lambda x: fg.scan(lambda c, x: (c, None), "x", XS),
        TreeError,
        "scan: init.*expected an array or a number",
    ),
    "a predicate of several": (
        lambda x: fg.cond(x < XS, fnp.sin, fnp.cos, x),
        ShapeError,
        r"cond: the predicate has to be one truth value, got an array of shape \(3,\).*fnp.where",
    ),
    "a predicate that is a number": (
        lambda x: fg.cond(x, fnp.sin, fnp.cos, x),
        DtypeError,
        "cond: the predicate has to be a truth value, got float64. Compare it, as in x != 0",
    ),
    "a predicate that is nothing": (
        lambda x: fg.cond(None, fnp.sin, fnp.cos, x),  # type: ignore[call-overload]
        LeafError,
        r"cond: the predicate: expected an array or a number, got None.*At test_refusals.py:\d+",
    ),
    "a condition that is nothing": (
        lambda x: fg.while_loop(lambda c: None, lambda c: c, x),  # type: ignore[arg-type]
        LeafError,
        r"while_loop: the result of cond_fun: expected an array.*At test_refusals.py:\d+",
    ),
    "a step that gives a text": (
        lambda x: fg.scan(lambda c, _: (c, "y"), x, XS),
        LeafError,
        r"scan: .*expected an array or a number, got 'y' of type str.*At test_refusals.py:\d+",
    ),
    "a branch that is no function": (
        lambda x: fg.switch(0, [fnp.sin, x], x),
        FunctionError,
        r"switch: branches\[1\]: expected a function",
    ),
    "a map over nothing": (
        lambda x: fg.map(fnp.sin, None),
        ArgumentError,
        "map: there is nothing to loop over. xs has no array",
    ),
    "no branch": (lambda x: fg.switch(0, [], x), ArgumentError, "switch: branches is empty"),
    "an index that is a truth value": (
        lambda x: fg.switch(x > 0, [fnp.sin, fnp.cos], x),
        DtypeError,
        "switch: the index has to be an integer, got bool. To choose by a truth value, use fg.cond",
    ),
    "an index of several": (
        lambda x: fg.switch(fnp.arange(2), [fnp.sin, fnp.cos], x),
        ShapeError,
        r"switch: the index has to be one integer, got an array of shape \(2,\)",
    ),
    "a condition of several": (
        lambda x: fg.while_loop(lambda c: c < XS, lambda c: c, x),
        ShapeError,
        r"while_loop: the result of cond_fun has to be one truth value, got an array",
    ),
    "a condition that is a number": (
        lambda x: fg.while_loop(lambda c: c, lambda c: c, x),
        DtypeError,
        "while_loop: the result of cond_fun has to be a truth value, got float64",
    ),
    "a loop's shape": (
        lambda x: fg.while_loop(lambda c: fnp.sum(c) < 3.0, lambda c: fnp.stack([c, c]), x),
        ShapeError,
        r"while_loop: the carry came in as float64\[\] and was returned as float64\[2\]",
    ),
    "checkpoints": (
        lambda x: fg.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, x, checkpoints=1),
        ArgumentError,
        "while_loop: checkpoints has to be an integer from 2 on, got 1",
    ),
    "a bound that is no integer": (
        lambda x: fg.fori_loop(0, 2.5, lambda i, c: c, x),  # type: ignore[call-overload]
        DtypeError,
        "fori_loop: upper has to be an integer, got float64",
    ),
    "a bound of several": (
        lambda x: fg.fori_loop(fnp.arange(2), 2, lambda i, c: c, x),
        ShapeError,
        r"fori_loop: lower has to be one integer, got an array of shape \(2,\)",
    ),
    "a counted loop's dtype": (
        lambda x: fg.fori_loop(0, 2, lambda i, c: c.astype("float32"), x),
        DtypeError,
        r"fori_loop: the carry.* came in as float64\[\] and was returned as float32\[\]",
    ),
    "batches of no element": (
        lambda x: fg.map(fnp.sin, XS * x, batch_size=0),
        ArgumentError,
        "map: batch_size has to be a positive integer, got 0",
    ),
    "nothing to map": (lambda x: fg.map(fnp.sin, x), ShapeError, "map: xs is a single number"),
    "associative lengths": (
        lambda x: fg.associative_scan(lambda a, b: a, {"a": XS, "b": XS[:2] * x}),
        ShapeError,
        r"associative_scan: the lengths differ: elems\['a'\] has 3 elements along axis 0, and"
        r" elems\['b'\] has 2",
    ),
    "associative results": (
        lambda x: fg.associative_scan(lambda a, b: fnp.sum(a * b), XS * x),
        ShapeError,
        r"associative_scan: fn got float64\[1\] and returned float64\[\] for elems",
    ),
    "associative trees": (
        lambda x: fg.associative_scan(lambda a, b: (a, b), XS * x),
        TreeError,
        "associative_scan: fn has to return a tree like elems, .* but returned",
    ),
    "associative nothing": (
        lambda x: fg.associative_scan(lambda a, b: a, ()),
        ArgumentError,
        "associative_scan: elems has no array",
    ),
}


@together("case", CASES)
def test_bad_input_has_an_error_that_says_what_to_do(case: str) -> None:
    f, kind, message = CASES[case]
    for run in (f, fg.jit(f)):
        with pytest.raises(kind, match=message):
            run(ONE)


STAGED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "branches of different trees": (
        lambda x: fg.cond(x > 0, lambda x: (x,), lambda x: [x], x),
        TreeError,
        "cond: the branches return different trees: false_fun returns .*, and true_fun returns",
    ),
    "branches of different shapes": (
        lambda x: fg.switch(
            fnp.floor(x).astype(int), [lambda x: {"a": x}, lambda x: {"a": fnp.stack([x])}], x
        ),
        ShapeError,
        r"switch: the branches disagree about the result\['a'\]: branch 0 returns float64\[\], and"
        r" branch 1 returns float64\[1\]",
    ),
    "branches of different dtypes": (
        lambda x: fg.cond(x > 0, lambda x: x, lambda x: x.astype("float32"), x),
        DtypeError,
        r"cond: the branches disagree about the result: false_fun returns float32\[\], and",
    ),
}


@pytest.mark.parametrize("case", STAGED)
def test_branches_that_disagree_are_refused_where_both_are_looked_at(case: str) -> None:
    f, kind, message = STAGED[case]
    with pytest.raises(kind, match=message):
        fg.jit(f)(ONE)
    with pytest.raises(kind, match=message):
        fg.vmap(f)(XS - 2.0)  # of examples that take both: a branch that none takes does not run


def test_a_look_at_a_number_inside_of_a_body_names_the_line_and_the_remedy() -> None:
    def body(c: Any, x: Any) -> Any:
        if x > 1.5:
            c = c + x
        return c, None

    total = fg.scan(body, 0.0, XS)[0]
    assert float(total) == 5.0  # where it runs as Python, it may look
    message = (
        r"fg.scan: a traced value is used in Python, as in if, while.*fg.cond or"
        r" fnp.where.*At test_refusals.py:\d+"
    )
    with pytest.raises(TracerError, match=message):
        fg.jit(lambda xs: fg.scan(body, 0.0, xs))(XS)
    with pytest.raises(TracerError, match=r"fg.while_loop: a traced value"):
        fg.jit(lambda x: fg.while_loop(lambda c: c < 3, lambda c: c + 1 if c else c, x))(ONE)
    with pytest.raises(TracerError, match=r"fg.cond: a traced value"):
        fg.jit(lambda x: fg.cond(x > 0, lambda x: x * float(x), fnp.sin, x))(ONE)


def test_a_probe_inside_of_a_body_that_is_staged_is_refused() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            return fg.probe(c * y, "inside"), None

        return fg.probe(fg.scan(step, x, XS[:1])[0], "outside")

    gradient, found = fg.grad(f, probes=("inside", "outside"))(2.0)
    assert {name: float(g) for name, g in found.items()} == {"inside": 1.0, "outside": 1.0}
    with pytest.raises(TracerError, match=r"fg.scan: probe inside: .*Name the result of the loop"):
        fg.jit(fg.grad(f, probes=("inside",)))(2.0)
    gradient, found = fg.jit(fg.grad(f, probes=("outside",)))(2.0)
    assert (float(gradient), float(found["outside"])) == (1.0, 1.0)


def test_what_does_not_depend_on_the_loop_may_be_looked_at() -> None:
    def f(x: Any) -> Any:
        return fg.scan(lambda c, y: (c + (y if x > 0 else -y), None), 0.0, XS)[0]

    staged = fg.jit(f)
    assert float(staged(ONE)) == 6.0
    assert float(staged(-ONE)) == -6.0


def test_what_steps_give_has_to_be_of_one_kind() -> None:
    state = {"n": 0}

    def odd(c: Any, x: Any) -> Any:
        state["n"] += 1
        return c, fnp.ones(state["n"])

    with pytest.raises(ShapeError, match=r"scan: the results of the steps have to have one shape"):
        fg.scan(odd, 0.0, XS)
    state["n"] = 0

    def other(c: Any, x: Any) -> Any:
        state["n"] += 1
        return c, (c, c) if state["n"] > 1 else c

    with pytest.raises(TreeError, match=r"scan: the result of a step.*All steps have to return"):
        fg.scan(other, 0.0, XS)


def test_the_step_at_which_a_carry_changes_is_named() -> None:
    def late(c: Any, x: Any) -> Any:
        return (c if x < 2.5 else c.astype("float32")), None

    with pytest.raises(DtypeError, match=r"was returned as float32\[\] at step 2\."):
        fg.scan(late, ONE, XS)


def test_programs_of_loops_are_verified() -> None:
    program = fg.program(lambda x: fg.scan(lambda c, y: (c * y, c), x, XS))(ONE)
    from dataclasses import replace

    (equation,) = program.equations
    params = dict(equation.params) | {"length": 4}
    odd = replace(program, equations=(replace(equation, params=tuple(sorted(params.items()))),))
    with pytest.raises(fg.errors.ProgramError, match="a loop of 4 steps over an array of shape"):
        odd.verify()
    assert np.all(np.asarray(program(ONE)[1]) == [1.0, 1.0, 2.0])
