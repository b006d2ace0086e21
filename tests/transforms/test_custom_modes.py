"""Functions with true rules: every transformation finds what it finds without the rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError
from tests.together import together
from tests.transforms.support import assert_same, numbers

Function = Callable[[Any], Any]

C = numbers(4, seed=3)
X, T = numbers(4), numbers(4, seed=1)


# Linear functions, whose textbook rule is to apply the function to the tangent. The first is of
# Python's arithmetic alone, the last calls another such function.
LINEAR: dict[str, Function] = {
    "scale": lambda x: 3.0 * x,
    "reverse": lambda x: x[::-1] * C,
    "matrix": lambda x: fnp.outer(C, C) @ x,
    "shift": lambda x: fnp.concatenate([x[1:], x[:1]]) - x,
    "sums": fnp.cumsum,
    "batch": lambda x: fg.vmap(lambda v: v * 2.0)(x),
    "where": lambda x: fnp.where(C > 0, x, 0.0),
    "derivative": lambda x: fg.jvp(fnp.sin, (C,), (x,))[1],
}

# Functions with kinks: what, and the factor that a rule selects with.
KINKED: dict[str, tuple[Function, Callable[[Any, Any], Any]]] = {
    "where": (lambda x: fnp.maximum(x, 0.0), lambda x, t: fnp.where(x > 0, t, 0.0)),
    "product": (lambda x: fnp.maximum(x, 0.0), lambda x, t: (x > 0) * t),
    "clip": (lambda x: fnp.clip(x, -0.5, 0.5), lambda x, t: fnp.where(abs(x) < 0.5, t, 0.0)),
    "set": (lambda x: x.at[1].set(0.0), lambda x, t: t.at[1].set(0.0)),
    "triangle": (
        lambda x: fnp.sum(fnp.tril(fnp.outer(C, x)), axis=0),
        lambda x, t: fnp.sum(fnp.tril(fnp.outer(C, t)), axis=0),
    ),
    "slice": (lambda x: x.at[:2].set(0.0), lambda x, t: fnp.concatenate([0.0 * t[:2], t[2:]])),
}


def self_applied(f: Function) -> Function:
    """A linear function with the rule that applies it to the tangent."""
    custom = fg.custom_jvp(f)
    custom.defjvp(lambda primals, tangents: (custom(*primals), custom(*tangents)))
    return custom


def twice_applied(f: Function) -> Function:
    """Two linear functions, each of which the other's rule calls."""
    first, second = fg.custom_jvp(f), fg.custom_jvp(f)
    first.defjvp(lambda primals, tangents: (second(*primals), second(*tangents)))
    second.defjvp(lambda primals, tangents: (first(*primals), first(*tangents)))
    return lambda x: first(x) + second(x) - f(x)


def with_transpose(f: Function) -> Function:
    """A linear function whose pullback calls its transpose, and that one's the function."""
    custom, transposed = fg.custom_vjp(f), fg.custom_vjp(lambda u: fg.linear_transpose(f, X)(u)[0])
    custom.defvjp(lambda x: (custom(x), None), lambda _, ct: (transposed(ct),))
    transposed.defvjp(lambda u: (transposed(u), None), lambda _, ct: (custom(ct),))
    return custom


def modes() -> dict[str, Callable[[Function], Any]]:
    """What a user may do to a function of four numbers that returns four."""

    def loss(f: Function) -> Function:
        return lambda x: fnp.sum(f(fnp.sin(x)) ** 3 * C)

    xs = np.stack([X, T, X * T])
    return {
        "value": lambda f: f(fg.tensor(X)),
        "jit": lambda f: fg.jit(f)(X),
        "program": lambda f: fg.program(f)(X)(T),
        "grad": lambda f: fg.grad(loss(f))(X),
        "jit of grad": lambda f: fg.jit(fg.grad(loss(f)))(X),
        "grad of jit": lambda f: fg.grad(fg.jit(loss(f)))(X),
        "grad of program": lambda f: fg.grad(fg.program(loss(f))(X))(X),
        "jvp": lambda f: fg.jvp(loss(f), (X,), (T,)),
        "jvp of jit": lambda f: fg.jvp(fg.jit(loss(f)), (X,), (T,)),
        "linearize": lambda f: fg.linearize(f, X)[1](T),
        "linearize of jit": lambda f: fg.linearize(fg.jit(f), X)[1](T),
        "vjp": lambda f: fg.vjp(f, X)[1](T),
        "jacfwd": lambda f: fg.jacfwd(f)(X),
        "jacrev": lambda f: fg.jacrev(f)(X),
        "hessian": lambda f: fg.hessian(loss(f))(X),
        "hvp": lambda f: fg.hvp(loss(f), (X,), (T,)),
        "jit of hvp": lambda f: fg.jit(lambda x, t: fg.hvp(loss(f), (x,), (t,)))(X, T),
        "grad of grad": lambda f: fg.grad(lambda x: fnp.sum(fg.grad(loss(f))(x) * T))(X),
        "grad of jvp": lambda f: fg.grad(lambda x: fg.jvp(loss(f), (x,), (T,))[1])(X),
        "jvp of jvp": lambda f: fg.jvp(lambda x: fg.jvp(f, (x,), (T,))[1], (X,), (T,)),
        "vmap": lambda f: fg.vmap(f)(xs),
        "vmap of grad": lambda f: fg.vmap(fg.grad(loss(f)))(xs),
        "grad of vmap": lambda f: fg.grad(lambda xs: fnp.sum(fg.vmap(loss(f))(xs)))(xs),
        "jit of grad of vmap": lambda f: fg.jit(fg.grad(lambda xs: fnp.sum(fg.vmap(loss(f))(xs))))(
            xs
        ),
        "vmap of hessian": lambda f: fg.vmap(fg.hessian(loss(f)))(xs),
        "checkpoint": lambda f: fg.grad(fg.checkpoint(loss(f)))(X),
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", modes())
@together("with_rule", [self_applied, twice_applied, with_transpose])
@together("name", LINEAR)
def test_a_linear_function_may_be_its_own_derivative(
    name: str, with_rule: Callable[[Function], Function], mode: str
) -> None:
    of = modes()[mode]
    assert_same(of(with_rule(LINEAR[name])), fg.tree.map(np.asarray, of(LINEAR[name])))


@together("with_rule", [self_applied, twice_applied, with_transpose])
@together("name", LINEAR)
def test_a_linear_function_with_a_rule_is_transposed(
    name: str, with_rule: Callable[[Function], Function]
) -> None:
    f = LINEAR[name]
    expected = fg.tree.map(np.asarray, fg.linear_transpose(f, X)(T))
    assert_same(fg.linear_transpose(with_rule(f), X)(T), expected)


@pytest.mark.slow
@together("mode", modes())
@together("kind", ["custom_jvp", "custom_vjp"])
@together("name", KINKED)
def test_a_rule_may_select(name: str, kind: str, mode: str) -> None:
    f, scaled = KINKED[name]
    custom: Any = getattr(fg, kind)(f)
    if kind == "custom_jvp":
        custom.defjvp(lambda p, t: (custom(*p), scaled(*p, *t)))
    else:
        custom.defvjp(
            lambda x: (custom(x), x),
            lambda x, ct: fg.linear_transpose(lambda t: scaled(x, t), x)(ct),
        )
    of = modes()[mode]
    assert_same(of(custom), fg.tree.map(np.asarray, of(f)))


def test_a_function_is_solved_for_in_its_own_rule() -> None:
    """It closes over a traced value, so it is staged, on stand-ins: their matrix is singular."""
    matrices = np.array([[[4.0, 1.0], [0.3, 5.0]], [[9.0, 3.0], [1.6, 11.0]]])

    def solution(scale: Any, matrix: Any) -> Any:
        @fg.custom_jvp
        def solve(matrix: Any, b: Any) -> Any:
            return fnp.linalg.solve(matrix * scale, b)

        @solve.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            (matrix, b), (dm, db) = primals, tangents
            x = solve(matrix, b)
            return x, solve(matrix, db - dm @ x * scale)

        return fnp.sum(solve(matrix, np.ones(2)))

    def closed_form(scale: Any, matrix: Any) -> Any:
        return fnp.sum(fnp.linalg.solve(matrix * scale, np.ones(2)))

    def slopes(f: Any) -> Any:
        return fg.vmap(lambda matrix: fg.grad(f)(1.3, matrix))(matrices)

    def mixed(f: Any) -> Any:
        return fg.jacrev(lambda matrix: fg.jvp(lambda s: f(s, matrix), (1.3,), (1.0,))[1])(
            matrices[0]
        )

    for derive in (slopes, mixed):
        np.testing.assert_allclose(derive(solution), derive(closed_form), rtol=1e-12)


def test_a_nonlinear_function_of_a_tangent_is_refused() -> None:
    inner = self_applied(fnp.sin)  # which its rule takes for linear
    outer = fg.custom_jvp(fnp.cos)
    outer.defjvp(lambda p, t: (outer(*p), inner(*t)))
    reverse: list[Any] = [fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.vjp(f, 1.0)[1]]
    for of in reverse:
        for f in (inner, outer):
            with pytest.raises(DifferentiationError, match=r"linear in the tangents, but .*sin"):
                of(f)(1.0)
    with pytest.raises(DifferentiationError, match="sin is not linear"):
        fg.linear_transpose(inner, 1.0)


def test_what_a_rule_does_not_select_stays_absent() -> None:
    # The square root has no finite slope at 0, where the rule selects nothing.
    rectified = fg.custom_jvp(lambda x: fnp.maximum(x, 0.0))
    rectified.defjvp(lambda p, t: (rectified(*p), fnp.where(p[0] > 0, t[0], 0.0)))
    f = lambda x: rectified(fnp.sqrt(x))  # noqa: E731
    every: list[Any] = [fg.grad, fg.jacfwd, fg.jacrev, lambda f: fg.jit(fg.grad(f)), fg.hessian]
    for of in every:
        assert_same(of(f)(0.0), 0.0)
    assert_same(fg.vmap(fg.grad(f))(np.array([0.0, 4.0])), np.array([0.0, 0.25]))


def through(f: Function, bwd: Callable[[Any, Any], Any]) -> Function:
    """A function with a rule that reverse mode alone follows."""
    custom: Any = fg.custom_vjp(f, forward="through")
    custom.defvjp(lambda x: (custom(x), x), lambda x, ct: (bwd(x, ct),))
    return custom


MODES = tuple(modes())


@together("mode", [*MODES[::2], *MODES[1::2]], quick=len(MODES) // 2)
@together("name", KINKED)
def test_forward_mode_may_go_through_a_function_with_a_true_rule(name: str, mode: str) -> None:
    f, scaled = KINKED[name]
    custom = through(f, lambda x, ct: fg.linear_transpose(lambda t: scaled(x, t), x)(ct)[0])
    of = modes()[mode]
    assert_same(of(custom), fg.tree.map(np.asarray, of(f)))


def cubed(x: Any) -> Any:
    return x**3


NEGATED = through(cubed, lambda x, ct: -3.0 * x * x * ct)


@pytest.mark.parametrize("staged", [False, True])
def test_which_way_a_function_is_met_with_forward_through(staged: bool) -> None:
    """The rule has the wrong sign, which tells it from the function's own operations."""

    def of(f: Function) -> Function:
        return fg.jit(f) if staged else f

    rule, truth = -3.0 * X**2, 3.0 * X**2
    ones, sums = np.ones(4), lambda x: fnp.sum(NEGATED(x))
    assert_same(of(fg.grad(sums))(X), rule)
    assert_same(of(lambda x: fg.vjp(NEGATED, x)[1](ones)[0])(X), rule)
    assert_same(of(fg.jacrev(NEGATED))(X), np.diag(rule))
    assert_same(of(lambda x: fg.jvp(NEGATED, (x,), (T,))[1])(X), truth * T)
    assert_same(of(fg.jacfwd(NEGATED))(X), np.diag(truth))
    assert_same(of(lambda x: fg.linearize(NEGATED, x)[1](T))(X), truth * T)
    assert_same(of(fg.vmap(fg.grad(NEGATED)))(X), rule)
    assert_same(of(fg.vmap(lambda x: fg.jvp(NEGATED, (x,), (2.0,))[1]))(X), truth * 2.0)
    assert_same(of(fg.grad(lambda x: fnp.sum(fg.vmap(NEGATED)(x))))(X), rule)
    assert_same(of(lambda x: fg.jvp(fg.vmap(NEGATED), (x,), (T,))[1])(X), truth * T)
    # The rule's own operations are pushed through, and those of the function are recorded.
    assert_same(of(fg.hessian(sums))(X), np.diag(-6.0 * X))
    slope = fg.grad(lambda x: fnp.sum(fg.jvp(NEGATED, (x,), (T,))[1]))
    assert_same(of(slope)(X), 6.0 * X * T)
    assert_same(of(fg.grad(lambda x: fnp.sum(fg.grad(sums)(x) * T)))(X), -6.0 * X * T)


def test_forward_goes_through_a_function_in_loops_and_what_it_closes_over() -> None:
    def looped(x: Any) -> Any:
        return fg.scan(lambda c, _: (NEGATED(c), None), x, None, length=2)[0]

    for f in (looped, fg.jit(looped)):
        assert_same(fg.vjp(f, X)[1](np.ones(4))[0], 9.0 * X**8)  # two wrong signs
        assert_same(fg.jvp(f, (X,), (T,))[1], 9.0 * X**8 * T)
        assert_same(fg.vmap(fg.grad(f))(X), 9.0 * X**8)

    def once(w: Any) -> Any:
        scaled = through(lambda x: w * x, lambda x, ct: -w * ct)
        return fg.scan(lambda c, _: (scaled(c), None), X, None, length=1)[0]

    for g in (once, fg.jit(once)):
        assert_same(fg.jvp(g, (2.0,), (1.0,))[1], X)
        assert_same(fg.vjp(g, 2.0)[1](np.ones(4))[0], np.sum(X))  # no rule is for it


def test_the_tangent_of_a_python_number_in_a_checkpoint_may_be_one() -> None:
    sine: Any = fg.custom_vjp(fnp.sin)
    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * fnp.cos(x),))
    outer: Any = fg.custom_vjp(lambda x: sine(x))
    outer.defvjp(lambda x: (sine(x), x), lambda x, ct: fg.vjp(sine, x)[1](ct))

    def slope(x: Any) -> Any:
        return 0.7 * fg.jvp(fg.checkpoint(outer), (x,), (x * 0.5,))[1]

    assert_same(fg.grad(slope)(0.9), np.asarray(0.35 * (np.cos(0.9) - 0.9 * np.sin(0.9))))


@fg.custom_jvp
def _finite_multiple(way: Any, values: Any) -> Any:
    return fnp.where(fnp.isfinite(values), way * values, 0.0)


@_finite_multiple.defjvp
def _finite_multiple_further(primals: Any, tangents: Any) -> Any:
    way, values = primals
    moved = fnp.where(fnp.isfinite(values), way * tangents[1], 0.0)
    return _finite_multiple(way, values), values * tangents[0] + moved


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("transform", [fg.jit, lambda f: fg.jit(fg.vmap(f)), lambda f: f])
def test_elements_that_a_rule_leaves_out_stay_so_under_a_condition(transform: Any) -> None:
    x = np.array([0.0, 1.0, 4.0])  # the factor of the first is infinite

    def total(p: Any) -> Any:
        value = fnp.sum(_finite_multiple(0.5, p[..., None] * x**-0.5), -1)
        return fnp.sum(fnp.where(p < 3.0, value, 0.0))

    p = np.full((2, 2), 2.0)
    np.testing.assert_array_equal(transform(fg.grad(total))(p), np.full((2, 2), 0.75))


@pytest.mark.parametrize("wrong", [0, 1])
def test_results_of_a_rule_that_depend_on_tangents_are_refused(wrong: int) -> None:
    @fg.custom_jvp
    def both(x: Any) -> Any:
        return x * 2.0, x * 3.0

    @both.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        outs = list(both(*primals))
        outs[wrong] = tangents[0] * 2.0
        return tuple(outs), (tangents[0] * 2.0, tangents[0] * 3.0)

    with pytest.raises(DifferentiationError, match="that the rule returns depends on the tangents"):
        fg.grad(lambda x: sum(both(x)))(1.0)
