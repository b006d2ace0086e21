"""Operations declared outside of the package, in a file each, by the public ``funcgrad.extend``.

Their rules are tested by ``check_primitive`` in ``test_check_primitive.py``: derivatives, batches,
programs, files. This file tests the other effects of a declaration.
"""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._backends.numpy.rows_last import put_rows_last
from funcgrad._core import pytrees
from funcgrad._passes.costs import costs
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.equation import Constant
from funcgrad.errors import ArgumentError
from tests.conformance import Case, every_case, strangers
from tests.every_mode import assert_every_mode
from tests.strangers.eigenvalues import eigenvalues
from tests.strangers.energy import energy
from tests.strangers.gudermannian import gd, in_operators
from tests.strangers.iteration import iterate, iterated
from tests.strangers.keeping import kept_cosine
from tests.strangers.logarithm import logarithm
from tests.strangers.rotation import rotated, turn
from tests.together import together

X = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
Function = Callable[[Any], Any]
FUNCTIONS: dict[str, Function] = {
    "gudermannian": lambda x: gd(x * 2.0) + 1.0,
    "in_operators": lambda x: extend.apply(in_operators, x * 3.0),
    "sum_of_squares": lambda x: energy(fnp.sin(x)) * 3.0,
    "turn": lambda x: rotated(x * x),
    "keeping": lambda x: kept_cosine(fnp.sin(x)) * 2.0,
}
by_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def test_each_is_here() -> None:
    assert {primitive.name for primitive in strangers()} == set(FUNCTIONS)
    assert {primitive.name for primitive in strangers(several=True)} == {
        "eigh",
        "iterate",
        "sign_and_logarithm",
    }


def test_strangers_know_the_public_module_alone() -> None:
    files = sorted(Path(__file__).parent.joinpath("strangers").glob("*.py"))
    assert len(files) > len(FUNCTIONS)
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("funcgrad"):
                assert (node.module, [name.name for name in node.names]) == ("funcgrad", ["extend"])
            if isinstance(node, ast.Import):
                names = {name.name for name in node.names}
                assert names <= {"numpy", "funcgrad", "funcgrad.numpy"}


@by_function
def test_every_mode(f: Function) -> None:
    assert_every_mode(f, X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_printed_and_costed(name: str) -> None:
    f = FUNCTIONS[name]
    staged = fg.program(f)(X)
    assert f" {name} " in staged.to_text()
    assert "tests.strangers." in staged.to_json()
    (row,) = [row for row in costs(staged).operations if row.name == name]
    assert row.arithmetic == {"turn": 0}.get(name, X.size)
    assert row.transcendental == (X.size if name == "gudermannian" else 0)


@pytest.mark.parametrize(
    ("name", "text"), [("gudermannian", "arctan(a, a)"), ("sum_of_squares", "evaluate.apart(")]
)
def test_it_is_written_in_numpy_text(name: str, text: str) -> None:
    f = FUNCTIONS[name]
    x = np.linspace(-1.0, 1.0, 200_000)
    assert text in fg.program(lambda x: f(fnp.exp(x) * x))(x).to_numpy_source()
    assert_allclose(fg.jit(lambda x: f(fnp.exp(x) * x))(x), f(fnp.exp(x) * x), rtol=1e-12)


def turned(x: Any) -> Any:
    return fg.extend.apply(turn, x, turns=1, axes=(1, 2))


def test_a_movement_takes_rows_that_are_last() -> None:
    x = np.linspace(-1.0, 1.0, 240_000).reshape(-1, 3, 4)

    def f(x: Any) -> Any:
        return fnp.sum(fnp.exp(turned(fnp.sin(x) * x)) * 0.5)

    assert "evaluate.apart(" in optimize(fg.program(f)(x)).to_numpy_source()
    assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12)

    def within_rows(x: Any) -> Any:
        return fnp.sum(fnp.exp(turned(x - fnp.max(x, axis=2, keepdims=True))), axis=0)

    rows = x[:6000]
    equations = put_rows_last(fg.program(within_rows)(rows)).equations
    (found,) = [equation for equation in equations if equation.operation is turn]
    assert found.results[0].shape == (4, 3, 6000)
    assert_allclose(fg.jit(within_rows)(rows), within_rows(rows), rtol=1e-12)


def test_what_stands_in_no_module_is_not_saved() -> None:
    hidden = fg.extend.elementwise("hidden", np.sinh, partials=(lambda y, x: np.cosh(x),))
    staged = fg.program(lambda x: fg.extend.apply(hidden, x))(X)
    with pytest.raises(fg.errors.ProgramError, match="Define this one there"):
        staged.to_json()


def test_what_is_no_operation_any_more_is_named() -> None:
    text = fg.program(FUNCTIONS["turn"])(X).to_json()
    for other, message in (("rotated", "is not a primitive"), ("gone", "cannot be imported")):
        with pytest.raises(fg.errors.ProgramError, match=message):
            fg.Program.from_json(text.replace("rotation:turn", f"rotation:{other}"))


# ------------------------------------------------------------------------- several results

SEVERAL = [case for case in every_case(strangers(several=True)) if case.args[0].size]
by_case = pytest.mark.parametrize("case", SEVERAL, ids=str)


def flat(case: Case) -> Function:
    """All results as one vector, as a function of all arguments; eigenvectors are squared, since
    their signs are arbitrary."""

    def f(*args: Any) -> Any:
        outs = fg.extend.apply_several(case.primitive, *args, **case.sample.params)
        if case.primitive.name == "eigh":
            outs = outs[0], outs[1] * outs[1]
        return fnp.concatenate([fnp.ravel(out) for out in outs])

    return f


def weighted(case: Case) -> Function:
    f = flat(case)
    return lambda *args: fnp.sum(fnp.sin(f(*args)) * np.arange(1.0, f(*case.args).size + 1))


@by_case
def test_several_results_in_every_mode(case: Case) -> None:
    assert_every_mode(weighted(case), *case.args)


@by_case
def test_several_results_are_printed_and_costed(case: Case) -> None:
    staged = fg.program(flat(case))(*case.args)
    (line,) = [text for text in staged.to_text().splitlines() if f" {case.primitive.name} " in text]
    assert line.split("=")[0].count(":") == 2
    (row,) = [row for row in costs(staged).operations if row.name == case.primitive.name]
    if case.primitive.name == "iterate":
        body, times = case.sample.params["body"], case.sample.params["times"]
        assert row.arithmetic == times * costs(body).arithmetic
        assert row.transcendental == times * costs(body).transcendental
        assert f"    program {body.name}(" in staged.to_text()
    assert "graph" in staged.to_dot()


def test_a_function_is_iterated_as_by_a_loop() -> None:
    def f(x: Any, y: Any) -> Any:
        return x - 0.1 * y, y + 0.1 * fnp.sin(x)

    def by_hand(x: Any, y: Any) -> Any:
        for _ in range(5):
            x, y = f(x, y)
        return fnp.sum(x * y)

    def iterate(x: Any, y: Any) -> Any:
        x, y = iterated(f, 5, x, y)
        return fnp.sum(x * y)

    args = np.array([0.3, -1.0]), np.array([1.0, 2.0])
    for make in (fg.grad, fg.hessian, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))):
        assert_allclose(make(iterate)(*args), make(by_hand)(*args), rtol=1e-12)
    assert_allclose(fg.jit(iterate)(*args), by_hand(*args), rtol=1e-13)


def test_no_loop_runs_while_a_program_is_optimized() -> None:
    runs: list[int] = []

    def evaluate(*values: Any, **params: Any) -> Any:
        runs.append(1)
        return iterate.evaluate(*values, **params)

    staged = fg.program(lambda x: iterated(lambda x: (fnp.sin(x),), 3, x)[0])(X)
    (equation,) = staged.equations
    of_a_constant = replace(
        staged,
        inputs=(),
        names=(),
        constants=(Constant(X),),
        equations=(replace(equation, operation=replace(iterate, evaluate=evaluate)),),
        arguments=pytrees.structure(((), {})),
    ).verify()
    assert optimize(of_a_constant) == of_a_constant
    assert not runs
    assert_allclose(of_a_constant(), staged(X))
    assert runs


def test_a_fingerprint_forgets_the_lines_of_programs_inside() -> None:
    def one(x: Any) -> Any:
        return iterated(lambda x: (fnp.sin(x),), 3, x)[0]

    def other(x: Any) -> Any:
        return iterated(lambda x: (fnp.sin(x),), 3, x)[0]

    def third(x: Any) -> Any:
        return iterated(lambda x: (fnp.cos(x),), 3, x)[0]

    first, second, last = [fg.program(f)(X).fingerprint() for f in (one, other, third)]
    assert first == second != last


def test_a_function_of_one_value_is_iterated_likewise() -> None:
    def f(x: Any) -> Any:
        (y,) = iterated(lambda x: (fnp.sin(x),), 3, x)
        return y * 2.0

    def by_hand(x: Any) -> Any:
        return fnp.sin(fnp.sin(fnp.sin(x))) * 2.0

    for make in (lambda f: f, fg.jit, fg.vmap, lambda f: fg.jit(fg.vmap(f))):
        assert_allclose(make(f)(X), by_hand(X), rtol=1e-13)
    for make in (fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))):
        found, expected = [make(lambda x, g=g: fnp.sum(g(x)))(X) for g in (f, by_hand)]
        assert_allclose(found, expected, rtol=1e-13)
    assert_allclose(fg.jit(lambda: f(np.ones(3)))(), by_hand(np.ones(3)), rtol=1e-13)


def test_the_logarithm_of_a_known_determinant() -> None:
    x = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert_allclose(logarithm(x), np.log(3.0))
    assert_allclose(fg.grad(logarithm)(x), np.linalg.inv(x).T)


def test_eigenvalues_of_a_known_matrix() -> None:
    x = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert_allclose(eigenvalues(x)[0], [1.0, 3.0])
    # The derivative of the greatest eigenvalue is v v' for its eigenvector.
    slope = fg.grad(lambda x: eigenvalues(x)[0][1])(x)
    assert_allclose(slope, [[0.5, 0.5], [0.5, 0.5]], rtol=1e-12)


def test_several_results_need_a_pushforward() -> None:
    parts = fg.extend.Primitive(
        "parts",
        lambda x: (x[:1], x[1:]),
        lambda x: (fg.extend.Spec((1,), x.dtype), fg.extend.Spec((x.shape[0] - 1,), x.dtype)),
        fg.extend.Linear((lambda ct, x: ct,)),
        lambda primitive, size, args, batched, params: primitive(*args),
    )
    with pytest.raises(fg.errors.DifferentiationError, match="parts: an operation with several"):
        fg.grad(lambda x: fnp.sum(fg.extend.apply_several(parts, x)[0]))(np.ones(3))


mean_of_squares = extend.reduction(
    "mean_of_squares",
    lambda x, axis, keepdims: np.mean(np.square(x), axis, keepdims=keepdims),
    factor=lambda _, x, axis, **options: 2.0 * x / np.prod([x.shape[a] for a in axis]),
)
WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f,
    "grad": lambda f: fg.grad(lambda x: fnp.sum(f(x))),
    "vmap": lambda f: lambda x: fg.vmap(f)(x[None]),
    "jit": fg.jit,
}


@together("axis", [0, (-1,), (2,), [0], None, "0"])
@together("way", WAYS.values(), ids=WAYS)
def test_a_reduction_refuses_axes_that_its_rules_could_not_read(way: Any, axis: Any) -> None:
    f = way(lambda x: extend.apply(mean_of_squares, x, axis=axis, keepdims=False))
    expected = "mean_of_squares: axis has to be a tuple of axes from 0 up to 2 exclusively, such as"
    with pytest.raises(ArgumentError, match=expected) as caught:
        f(X)
    assert repr(axis) in str(caught.value)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_reduction_takes_any_axes_of_its_operand(way: Any) -> None:
    for axis in ((), (0,), (1,), (0, 1)):
        f = way(lambda x, axis=axis: extend.apply(mean_of_squares, x, axis=axis, keepdims=False))
        g = way(lambda x, axis=axis: fnp.mean(fnp.square(x), axis=axis))
        assert_allclose(f(X), g(X))


def test_functions_without_a_module() -> None:
    # As `exec` makes them in an empty namespace: their __module__ is None.
    code = """
import funcgrad as fg
twice = fg.extend.elementwise("twice", lambda x: x + x, partials=(lambda y, x: 2.0,))
jitted = fg.jit(lambda x: fg.extend.apply(twice, x), backend="numpy")
value = jitted(1.0)
"""
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert namespace["value"] == 2.0
    assert not namespace["jitted"].failures
