"""Laws pass right functions in every dtype, find planted mistakes, and say where."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    CheckError,
    DifferentiationError,
    DtypeError,
    FuncgradError,
    FunctionError,
)
from funcgrad.testing import laws
from funcgrad.testing.laws.remainders import _draw
from funcgrad.testing.numerical import Estimate
from funcgrad.testing.report import Tolerance
from tests.together import together

X = fg.tensor([0.5, 1.25, 2.5])


def scaled_rule(f: Any, factor: float) -> Any:
    """A function with a derivative that is wrong by a factor."""
    wrong = fg.custom_jvp(f)
    wrong.defjvp(lambda primals, tangents: (f(*primals), factor * fg.jvp(f, primals, tangents)[1]))
    return wrong


def one_way() -> Any:
    """An operation whose two modes differ: the pull is half of the push."""
    return fg.extend.Primitive(
        "one_way",
        np.sin,
        lambda spec: spec,
        fg.extend.Linearized(
            lambda tangents, out, x: fnp.cos(x)._value * tangents[0],
            pull=lambda ct, out, x: (0.5 * ct * np.cos(x),),
        ),
        lambda primitive, size, args, batched, params: primitive(*args),
    )


DERIVATIVE_LAWS = (
    laws.modes_agree,
    laws.grad_is_numerical,
    laws.taylor,
    laws.hessian_symmetric,
    laws.subgradient,
    laws.vmap_is_loop,
    laws.jit_is_eager,
    laws.dtype_kept,
    laws.pure,
    laws.chain_rule(lambda out: fg.tree.map(lambda y: y * y, out)),
)


def name_of(law: Any) -> str:
    return law.__name__


@together("law", DERIVATIVE_LAWS, ids=name_of)
@together("dtype", ["float32", "float64", "complex64", "complex128"])
def test_right_functions_pass_in_every_dtype(law, dtype):
    z = np.array([0.5 + 0.25j, 1.25 - 1j]) if dtype[0] == "c" else np.array([0.5, 1.25])
    law(lambda z: z * z + z, (fg.tensor(z.astype(dtype)),))
    law(lambda z: {"u": abs(z) ** 2 + 1, "n": 3}, (fg.tensor(z.astype(dtype)),))


@together("law", DERIVATIVE_LAWS, ids=name_of)
def test_trees_several_arguments_and_empty_arrays(law):
    def f(params, scale, n):
        return fnp.sum(params["a"]) * scale, params["b"][0] * n

    law(f, ({"a": X, "b": (fg.tensor(2.0), True)}, 0.5, 3))
    law(lambda x: 2 * x, (fnp.zeros((0, 3)),))


def test_laws_of_values_pass():
    laws.linear(fnp.cumsum, (X,))
    laws.homogeneous(2)(lambda x, y: x * y, (X, 2.0))
    laws.homogeneous(-0.5)(lambda x: 1 / fnp.sqrt(x), (X,))
    laws.invariant(fnp.flip, lambda x: -x)(fnp.linalg.norm, (X,))
    laws.invariant(lambda x, y: (y, x))(fnp.hypot, (3.0, 4.0))
    laws.equivariant(fnp.flip)(fg.nn.softmax, (X,))
    laws.equivariant(lambda x: x + 1, lambda y: y)(lambda x: x - fnp.mean(x), (X,))
    laws.convex(fg.nn.logsumexp, (X,))
    laws.convex(abs, (fg.tensor([0.0, 1.0]),))
    laws.convex(lambda x: -fnp.log(x), (X,))
    laws.inverse(fnp.log)(fnp.exp, (X,))
    laws.inverse(lambda y: (y[0], y[1] - y[0]))(lambda x, z: (x, x + z), (2.0, 3.0))
    laws.idempotent(fnp.sort, (X,))
    laws.idempotent(fg.nn.relu, (X,))
    laws.jit_is_eager(lambda x: {"a": fnp.argmax(x), "b": x[0] if x[0] > 0 else -x}, (X,))


LAWS: Any = laws  # to call with arguments of wrong types
CALLS: list[Any] = []
TABLE = np.zeros(3)
TICKS = count(1)


def counted(x):
    CALLS.append(1)
    return x * len(CALLS)


def into_table(x):
    TABLE[0] += 1
    return x + 1


def into_argument(x):
    x[0] = 5.0
    return fnp.sum(x)


steep = fg.custom_jvp(abs)
steep.defjvp(lambda primals, tangents: (abs(primals[0]), 1.5 * tangents[0]))

MISTAKES: dict[str, tuple[Any, Any, tuple[Any, ...], str]] = {
    "factor": (laws.grad_is_numerical, scaled_rule(fnp.sin, 1.01), (X,), "forward mode is wrong"),
    "taylor": (laws.taylor, scaled_rule(fnp.sin, 1.001), (X,), r"order 1.*h\^1\.0"),
    "between": (laws.subgradient, scaled_rule(abs, 1.5), (fg.tensor([1.0, -2.0]),), "not between"),
    "at a kink": (laws.subgradient, steep, (0.0,), "not between"),
    "affine": (laws.linear, lambda x: x + 1, (X,), "is not linear"),
    "square": (laws.linear, lambda x: x * x, (X,), "is not linear"),
    "degree": (laws.homogeneous(1), lambda x: x * x, (X,), "not homogeneous of degree 1"),
    "first": (laws.invariant(fnp.flip), lambda x: x[0], (X,), "not invariant under flip"),
    "order": (laws.equivariant(fnp.flip), fnp.cumsum, (X,), "not equivariant under flip"),
    "concave": (laws.convex, fnp.log, (X,), "log is not convex"),
    "no gradient": (laws.convex, scaled_rule(lambda x: x * x, -1), (X,), "is not convex"),
    "no inverse": (laws.inverse(fnp.log), fnp.sinh, (X,), "log does not undo sinh"),
    "shapes": (laws.inverse(fnp.sum), fnp.sinh, (X,), "the shapes differ"),
    "its rule": (laws.inverse(scaled_rule(fnp.log, 2.0)), fnp.exp, (X,), "does not undo"),
    "twice": (laws.idempotent, fnp.sin, (X,), "sin is not idempotent"),
    "calls": (laws.pure, counted, (X,), "counted changes CALLS"),
    "table": (laws.pure, into_table, (X,), "into_table changes TABLE"),
    "argument": (laws.pure, into_argument, (np.ones(3),), "changes its arguments"),
    "noise": (laws.pure, lambda x: x * next(TICKS), (X,), "a second call"),
    "wide": (laws.dtype_kept, lambda x: x * np.ones(3), (X,), "does not keep float32"),
    "narrow": (laws.dtype_kept, lambda x: x.astype("float32"), (X,), "does not keep float64"),
    "staged": (laws.jit_is_eager, lambda x: x * (1 + (type(x) is fg.Tensor)), (X,), "jit"),
}


@together(("law", "f", "args", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_planted_mistake_is_found(law, f, args, text):
    with pytest.raises(CheckError, match=text) as caught:
        law(f, args)
    report = str(caught.value)
    assert report.startswith("laws.")
    assert "to repeat it:" in report
    assert "seed=0)" in report.splitlines()[-1]


def test_modes_that_differ_are_told_apart_by_argument():
    operation = one_way()

    def f(x, y):
        return fg.extend.apply(operation, x) + y

    with pytest.raises(CheckError, match="forward and reverse mode disagree for f") as caught:
        laws.modes_agree(f, (X, 1.0))
    lines = str(caught.value).splitlines()
    (x,) = [line for line in lines if line.startswith("    x  ")]
    (y,) = [line for line in lines if line.startswith("    y  ")]
    forward, reverse = [float(word.split()[1]) for word in x.strip()[3:].split(", ")]
    assert forward == pytest.approx(2 * reverse)
    forward, reverse = [float(word.split()[1]) for word in y.strip()[3:].split(", ")]
    assert forward == pytest.approx(reverse)


def test_a_jacobian_that_is_no_derivative_is_not_symmetric():
    bent = fg.custom_jvp(lambda x: x[0] * x[1] ** 2)
    bent.defjvp(
        lambda primals, tangents: (
            bent(*primals),
            primals[0][1] ** 2 * tangents[0][0] + primals[0][0] * primals[0][1] * tangents[0][1],
        )
    )
    with pytest.raises(CheckError, match="depends on the order of the directions"):
        laws.hessian_symmetric(bent, (fg.tensor([0.5, 1.25]),))


def test_a_function_that_changes_breaks_the_chain_rule():
    ticks = count()

    def f(x):
        return fnp.sin(x) * (1 if next(ticks) < 5 else 2)

    with pytest.raises(CheckError, match="something else when it is called again"):
        laws.chain_rule(fnp.sum)(f, (X,))


@together(
    ("f", "point"),
    [
        (abs, [0.0, 1.0]),
        (fg.nn.relu, [0.0, -1.0]),
        (fnp.max, [1.0, 1.0, 0.0]),
        (fnp.sort, [1.0, 1.0, 1.0]),
        (fnp.linalg.norm, [0.0, 0.0]),
        (fnp.median, [1.0, 1.0, 1.0]),
        (lambda x: fnp.clip(x, 0, 1), [0.0, 1.0, 0.5]),
        (lambda x: fnp.where(x > 0, x, 0.1 * x), [0.0, 1.0]),
        (fnp.sqrt, [0.25, 4.0]),
        (fnp.exp, [0.0, 10.0, -100.0]),
    ],
)
@together("seed", range(3))
def test_subgradients_at_kinks(f, point, seed):
    laws.subgradient(f, (fg.tensor(point),), seed=seed)


def test_cancellation_is_no_mistake():
    """Rounding is measured at the point: these lose nearly all digits."""
    for f in (
        lambda x: (fnp.exp(x) + 1e9) - fnp.exp(x),
        lambda x: fnp.sin(1e9 * x),
        lambda x: x**5 - 5 * x**4 + 10 * x**3 - 10 * x**2 + 5 * x - 1,
        lambda x: fnp.log(fnp.exp(30 + x) - fnp.exp(30.0)),
    ):
        for law in (laws.modes_agree, laws.vmap_is_loop, laws.jit_is_eager, laws.taylor):
            law(f, (fg.tensor([1.0 + 1e-7, 0.5]),))


def test_an_example_can_be_pasted():
    source = "def f(x):\n    return x + 1"
    names: dict[str, Any] = {}
    exec(source, names)
    names["f"].source = source
    args = ({"a": X, "b": (fg.tensor([1], "int32"), None)}, np.float32(0.5))
    with pytest.raises(CheckError) as caught:
        laws.linear(lambda p, y: p["a"] + y + 1, args)
    lines = str(caught.value).partition("to repeat it:\n")[2]
    assert "np.float32(0.5)" in lines
    with pytest.raises(CheckError) as caught:
        laws.linear(names["f"], (X,))
    code = str(caught.value).partition("to repeat it:\n")[2]
    with pytest.raises(CheckError, match="f is not linear"):
        exec("\n".join(line[4:] for line in code.splitlines()), {})


# ------------------------------------------------------------------------------------- bad input


@together("law", [*DERIVATIVE_LAWS, laws.linear, laws.convex], ids=name_of)
def test_bad_points_are_explained(law):
    with pytest.raises(DifferentiationError, match=r"args has to be a tuple.*Write laws\."):
        law(fnp.sin, 2.0)
    with pytest.raises(FunctionError):
        law(3, (2.0,))
    if law is not laws.pure:
        with pytest.raises(DifferentiationError, match=r"Pass 2\.0 rather than 2"):
            law(fnp.sin, (2,))
        with pytest.raises(DifferentiationError, match="nothing to check"):
            law(lambda x: 3, (2.0,))


def test_bad_options_are_explained():
    with pytest.raises(ArgumentError, match="seed has to be"):
        laws.modes_agree(fnp.sin, (2.0,), seed=-1)
    with pytest.raises(ArgumentError, match="order has to be 1 or 2, got 3"):
        laws.taylor(fnp.sin, (2.0,), order=3)
    with pytest.raises(DtypeError, match="degree"):
        LAWS.homogeneous("2")
    with pytest.raises(ArgumentError, match="pass the transformations"):
        laws.invariant()
    with pytest.raises(FuncgradError, match="inverse"):
        LAWS.inverse(3)
    with pytest.raises(DtypeError, match="complex, and have no order"):
        laws.convex(lambda x: 1j * x, (X,))


@pytest.mark.parametrize(
    ("f", "point", "text"),
    [
        (abs, [0.0], "at a kink"),
        (fg.nn.relu, [0.0], "at a kink"),
        (fnp.linalg.norm, [0.0, 0.0], "at a kink"),
        (lambda x: x * abs(x), [0.0], "at a kink"),
        (fnp.sqrt, [0.0], "is not finite at the point"),
    ],
)
def test_taylor_at_a_kink_says_so(f, point, text):
    for seed in range(4):
        with pytest.raises(CheckError, match=text):
            laws.taylor(f, (fg.tensor(point),), seed=seed)


def test_numbers_at_a_kink_say_so():
    with pytest.raises(CheckError, match="at a kink or a jump"):
        laws.grad_is_numerical(fg.nn.relu, (0.0,))
    symmetric: list[Any] = [
        (abs, 0.0),
        (fnp.linalg.norm, [0.0, 0.0]),
        (lambda x: abs(x) + x, [1.0, 0.0]),
    ]
    for f, point in symmetric:
        for dtype in (np.float64, np.float32):
            with pytest.raises(CheckError, match="the point is at a kink"):
                laws.grad_is_numerical(f, (fg.tensor(point, dtype),))


def test_a_smooth_bend_is_no_kink():
    for f in (fnp.square, lambda x: abs(x) ** 1.5, lambda x: fnp.sqrt(x * x + 1e-16)):
        for point in (0.0, 1e-8, 1.0):
            laws.grad_is_numerical(f, (point,))


def test_steps_have_eight_magnitudes_in_a_row() -> None:
    steps = np.abs(_draw(np.random.default_rng(0), np.zeros((2, 8))))
    assert all(sorted(row) == [k / 16 for k in range(8, 16)] for row in steps.tolist())


def test_a_complex_step_has_stricter_tolerances() -> None:
    parts = [
        Tolerance(None, None).parts(Estimate([], [], method, 2.0**-52))
        for method in ("complex step", "differences")
    ]
    assert [exact < rough for exact, rough in zip(*parts, strict=True)] == [True, True]


def test_a_function_that_changes_what_it_closes_over_is_named() -> None:
    calls: list[Any] = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return x

    with pytest.raises(CheckError, match="counted changes calls, which it reads from outside"):
        laws.pure(counted, (0.5,))
