"""``fg.testing.check_primitive``: correct operations pass; each planted mistake is named."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._primitives import cumulative
from funcgrad._primitives.structural import flip
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.testing import check_primitive
from funcgrad.testing.operations import PROPERTIES
from tests.conformance import strangers
from tests.scripts import printed
from tests.strangers.eigenvalues import eigh
from tests.strangers.energy import sum_of_squares
from tests.strangers.gudermannian import gudermannian
from tests.strangers.iteration import iterate
from tests.strangers.rotation import turn
from tests.together import together

OF_STRANGERS = (*strangers(), *strangers(several=True))


@pytest.mark.slow
@pytest.mark.parametrize("operation", OF_STRANGERS, ids=lambda each: each.name)
def test_operations_of_strangers_pass(operation: extend.Primitive) -> None:
    excused = ["evaluate leaves nothing"] if operation.name == "keeping" else []  # what it is for
    check_primitive(operation, without=excused)


def broken(operation: extend.Primitive, without: Collection[str] = ()) -> dict[str, str]:
    """The text of the report about each property that does not hold."""
    with pytest.raises(CheckError) as caught:
        check_primitive(operation, without=without)
    first, *paragraphs = str(caught.value).split("\n\n")
    assert first.startswith(f"check_primitive: {operation.name} breaks {len(paragraphs)} of ")
    return {
        tried.name: paragraph
        for paragraph in paragraphs
        for tried in PROPERTIES
        if paragraph.startswith(f"{tried.name}: {tried.promise}")
    }


# ------------------------------------------------------------------------------ planted mistakes


def rms(factor: Callable[..., Any], **options: Any) -> extend.Primitive:
    """The root of the mean square: a reduction."""
    samples = options.pop("samples", extend.numbers(imaginary=False, empty=False, ties=True))
    return extend.reduction(
        "rms",
        lambda x, axis, keepdims: np.sqrt(np.mean(np.square(x), axis, keepdims=keepdims)),
        factor=factor,
        samples=samples,
        **{"kinks": OF_RMS, **options},
    )


OF_RMS = extend.Kinks(lambda x, axis, keepdims: fnp.sqrt(fnp.mean(x * x, axis=axis)))


def count(x: Any, axis: tuple[int, ...]) -> int:
    return int(np.prod([np.shape(x)[a] for a in axis]))


def divided(y: Any, x: Any, axis: tuple[int, ...], **_: Any) -> Any:
    return x / (y * count(x, axis))


def guarded(y: Any, x: Any, axis: tuple[int, ...], **_: Any) -> Any:
    return fnp.where(y == 0, 0.0, x / (fnp.where(y == 0, 1.0, y) * count(x, axis)))


def with_axis_0() -> list[extend.Sample]:
    return [extend.Sample((np.ones((2, 3)) * [1, 2, 3],), {"axis": 0, "keepdims": False})]


def with_partials(factor: Callable[..., Any]) -> extend.Primitive:
    return replace(gudermannian, differential=extend.Partials((factor,)))


def with_formula(formula: Callable[..., Any]) -> extend.Primitive:
    return replace(gudermannian, structure=extend.Elementwise(formula))


def keeping(*args: Any) -> Any:
    HELD.append(args[0])
    return np.array(gudermannian.evaluate(*args))


HELD: list[Any] = []


def remembered(x: Any) -> Any:
    """The cached result for some numbers."""
    return REMEMBERED.setdefault(np.asarray(x).tobytes(), np.array(gudermannian.evaluate(x)))


REMEMBERED: dict[bytes, Any] = {}


def writing(x: Any) -> Any:
    return np.multiply(x, 2.0, out=x) if isinstance(x, np.ndarray) else x * 2.0


def counting(x: Any) -> Any:
    HELD.append(None)
    return x + len(HELD)


def unreadable() -> list[extend.Sample]:
    return [extend.Sample((np.ones(3),), {"table": {"a": 1}})]


def swapped(x: Any) -> tuple[extend.Spec, ...]:
    return (x, extend.Spec(x.shape[:-1], x.dtype))


def reversed_batch(primitive: Any, size: Any, args: Any, batched: Any, params: Any) -> Any:
    return primitive(args[0][::-1], **params)


def forgetful_push(tangents: Any, outs: Any, *values: Any, body: Any, times: int) -> Any:
    given = [fnp.zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    return tuple(fg.jvp(body, values, tuple(given))[1])


softsign = extend.elementwise(
    "softsign",
    lambda x: x / (1 + np.abs(x)) + np.abs(x),
    partials=(lambda y, x: (1 / (1 + abs(x))) ** 2 + fnp.sign(x),),
    samples=extend.reals(0.5, 3),
    kinks=extend.Kinks(lambda x: x),
)
LOCAL = extend.elementwise(
    "local", np.sinh, partials=(lambda y, x: fnp.cosh(x),), samples=extend.reals(-2, 2)
)

assert isinstance(turn.structure, extend.Movement)
OF_FLIP = flip.structure
WITH_ROWS = replace(turn.structure, rows_last=lambda x, turns, axes: {})

MISTAKES: dict[str, tuple[extend.Primitive, str, str]] = {
    "no samples": (replace(gudermannian, samples=tuple), "samples", "it is empty"),
    "a parameter that is no key": (
        replace(gudermannian, samples=unreadable),
        "samples",
        "cannot be a key",
    ),
    "a factor too many": (
        replace(gudermannian, differential=extend.Partials((lambda y, x, z: y, lambda y, x, z: y))),
        "arity",
        "there are 2 factors for 1 arguments",
    ),
    "a wrong factor": (with_partials(lambda y, _: fnp.cos(2 * y)), "forward mode", "is not"),
    "a wrong sign": (with_partials(lambda y, _: -fnp.cos(y)), "forward mode", "is not"),
    "a factor that reads what it does not name": (
        with_partials(lambda y, _x: 1 / fnp.cosh(_x)),
        "factors read only the values that they declare",
        "",
    ),
    "a factor that mixes elements": (
        with_partials(lambda y, x: fnp.cos(y) + 0 * fnp.cos(y)[..., ::-1] if y.ndim else y),
        "forward mode",
        "",
    ),
    "a factor that computes by itself": (
        with_partials(lambda y, _: np.cos(np.asarray(fg.stop_gradient(y)))),
        "second order",
        "",
    ),
    "a factor in another precision": (
        with_partials(lambda y, _: fnp.cos(y) * np.float64(1 + 1e-3)),
        "forward mode",
        "",
    ),
    "a factor that is NaN at zero rows": (rms(divided), "derivatives at zero", "NaN in"),
    "an axis that is no tuple": (
        rms(guarded, samples=with_axis_0),
        "reduction's parameters",
        r"axis is 0; it has to be a tuple of non-negative axes, such as (0,)",
    ),
    "a wrong ufunc": (rms(guarded, fold=extend.folds.SUM), "structure: ufunc", "two halves"),
    "a wrong fold": (rms(guarded, fold=extend.folds.LEAST), "structure: fold", "against the fold"),
    "a wrong body": (
        replace(sum_of_squares, body=lambda x, axis, keepdims: fnp.sum(x, axis=axis)),
        "body",
        "",
    ),
    "a wrong formula": (
        with_formula(lambda m, x: 2 * m.arctan(m.sinh(x / 2))),
        "formula: values",
        "the formula in float64",
    ),
    "a formula of NumPy's functions": (
        with_formula(lambda m, x: 2 * np.arctan(np.tanh(x / 2))),
        "formula: intrinsics",
        "",
    ),
    "a wrong dtype": (
        replace(gudermannian, result=lambda x: extend.Spec(x.shape, np.dtype("f"))),
        "results",
        "result says float32 (3,), evaluate returns float64 (3,)",
    ),
    "a wrong shape": (
        replace(sum_of_squares, result=lambda x, axis, keepdims: x),
        "results",
        "evaluate returns float64 ()",
    ),
    "results in another order": (replace(eigh, result=swapped), "results", "result says"),
    "a dtype of its own": (
        replace(gudermannian, evaluate=lambda x: np.float64(2) * np.arctan(np.tanh(x / 2))),
        "results in single precision",
        "float64",
    ),
    "its operand, returned": (
        extend.elementwise(
            "itself",
            np.asarray,
            partials=(extend.SAME,),
            samples=extend.reals(1, 2),
            traits=extend.OWNS,
        ),
        "structure: memory of its own",
        "the result lies in the memory of argument 0",
    ),
    "a result of its own, kept": (
        replace(
            gudermannian, evaluate=remembered, structure=extend.Elementwise(), traits=extend.OWNS
        ),
        "structure: memory of its own",
        "a second call returns the memory of the first",
    ),
    "an example of too few axes": (
        replace(eigh, structure=extend.Opaque(cores=(1,))),
        "structure: cores",
        "where only example",
    ),
    "an argument, held": (
        replace(gudermannian, evaluate=keeping),
        "evaluate leaves nothing",
        "still referenced",
    ),
    "an argument, written": (
        replace(gudermannian, evaluate=writing),
        "evaluate leaves nothing",
        "read-only",
    ),
    "a state": (replace(gudermannian, evaluate=counting), "evaluate repeats itself", "second call"),
    "a wrong batch rule": (replace(sum_of_squares, batch=reversed_batch), "batch", "1 examples"),
    "a batch rule of NumPy's": (
        replace(gudermannian, batch=lambda p, size, args, batched, params: np.stack(args)),
        "batch of batches",
        "",
    ),
    "a wrong index map": (replace(turn, structure=OF_FLIP), "structure: index map", ""),
    "rows that are not last": (replace(turn, structure=WITH_ROWS), "structure: rows last", ""),
    "a wrong transpose": (
        replace(
            turn,
            differential=extend.Linear(
                (lambda ct, x, turns, axes: turn(ct, turns=turns, axes=axes),)
            ),
        ),
        "reverse mode",
        "",
    ),
    "not linear": (
        replace(gudermannian, differential=extend.Linear((lambda ct, x: ct,))),
        "linear: superposition",
        "of a sum in argument 0",
    ),
    "a sawtooth without JUMPS": (
        extend.elementwise(
            "sawtooth",
            lambda x: np.asarray(x % 1.0),
            partials=(lambda _y, _x: 1.0,),
            samples=extend.reals(0.25, 0.5),
        ),
        "linear: superposition",
        "",
    ),
    "a slope that is said to be none": (
        replace(gudermannian, differential=extend.DISCRETE),
        "constant where discrete",
        "is not 0.0",
    ),
    "linear_in what is not linear": (
        replace(eigh, differential=replace(eigh.differential, linear_in=(0,))),  # type: ignore[type-var]
        "linear: linear_in",
        "",
    ),
    "a push that forgets steps": (
        replace(iterate, differential=extend.Linearized(forgetful_push)),
        "forward mode",
        "",
    ),
    "a trait that does not hold": (
        replace(gudermannian, traits=extend.ROUNDED_ONCE),
        "trait: ROUNDED_ONCE",
        "float64 rounded",
    ),
    "a conversion that is none": (
        replace(gudermannian, traits=extend.CONVERTS),
        "trait: CONVERTS",
        "",
    ),
    "a name that nobody can import": (
        replace(LOCAL, name="hidden"),
        "saved",
        "Define this one there",
    ),
    "a kink that is not declared": (
        replace(softsign, kinks=None),
        "no kink is missed",
        "has a kink that is not declared, at (0.0,)",
    ),
    "a kink of the samples that is not declared": (
        rms(guarded, kinks=None),
        "kinks of samples",
        "there is a kink that is not declared",
    ),
    "a kink where there is none": (
        replace(gudermannian, kinks=extend.Kinks(lambda x: x)),
        "kinks are there",
        "is smooth, where a kink is declared, at (0.0,)",
    ),
    "a domain that ends too early": (
        replace(gudermannian, kinks=extend.Kinks(domain=lambda x: x)),
        "distances of samples",
        "the sample is smooth, and distance [0] is not positive",
    ),
    "a scan that looks to both sides": (
        replace(cumulative.cumulative_sum, evaluate=lambda x, axis, **_: np.flip(x, axis) + x),
        "structure: scan",
        "",
    ),
}


@together("mistake", MISTAKES)
def test_a_planted_mistake_is_named(mistake: str) -> None:
    operation, name, text = MISTAKES[mistake]
    others = {tried.name for tried in PROPERTIES} - {name}
    report = broken(operation, without=others)  # one property, since there are many mistakes
    assert list(report) == [name]
    assert text in report[name]
    (tried,) = [tried for tried in PROPERTIES if tried.name == name]
    assert tried.promise in report[name]
    assert tried.remedy in report[name]


def test_it_is_right_without_the_mistake() -> None:
    check_primitive(rms(guarded), without=("saved",))
    check_primitive(LOCAL)


def test_all_samples_are_tried_and_those_that_fail_are_listed() -> None:
    whole = broken(with_partials(lambda y, _: 2 * fnp.cos(y)))
    assert {"forward mode", "saved"} <= {*whole}  # the module has another of the name
    assert "reverse mode" not in whole
    report = whole["forward mode"]
    assert "sample 0, gudermannian(float64 (3,)): " in report
    assert "  and at samples 3\n" in report
    assert "tangent along arguments (0,), against differences" in report


# ------------------------------------------------------------------------------ the function


def test_properties_have_names_of_their_own_and_say_what_they_are() -> None:
    names = [tried.name for tried in PROPERTIES]
    assert len(set(names)) == len(names) > 40
    assert all(tried.promise.endswith(".") and tried.remedy.endswith(".") for tried in PROPERTIES)


def test_a_property_may_be_left_out() -> None:
    check_primitive(replace(LOCAL, name="hidden"), without=["saved"])


@pytest.mark.parametrize("without", ["saved", ("safed",)])
def test_an_unknown_property_is_refused(without: Any) -> None:
    with pytest.raises(ArgumentError, match=r"check_primitive: without=.*sa[fv]ed"):
        check_primitive(gudermannian, without=without)


def test_a_function_is_no_operation() -> None:
    with pytest.raises(ArgumentError, match=r"check_primitive: .* is a function, not an operation"):
        check_primitive(fnp.sin)  # type: ignore[arg-type]


def test_neither_scipy_nor_hypothesis_nor_pytest_is_needed() -> None:
    script = (
        "import sys\n"
        "sys.modules['scipy'] = None\n"  # as if it were not installed
        "from tests.strangers.gudermannian import gudermannian\n"
        "import funcgrad as fg\n"
        "assert not [name for name in sys.modules if name.startswith('funcgrad.testing')]\n"
        "fg.testing.check_primitive(gudermannian)\n"
        "print([n for n in ('hypothesis', 'pytest', 'numpy.testing') if n in sys.modules])"
    )
    assert printed(script).strip() == "[]"
