"""Calls are operations of programs like others, with programs as parameters.

Whoever knows of no calls binds one as any primitive: what its declaration says of it has to do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import spec_of
from funcgrad._core.structure.structures import FOREIGN, Control
from funcgrad._core.trace import Trace, Value, begin_level, bind
from funcgrad._passes.costs import costs
from funcgrad._programs.equation import Equation
from funcgrad._staging.derived import COMPILED_CALL, ProgramCall
from funcgrad._transforms.call_values import CUSTOM_CALL, FOREIGN_CALL
from funcgrad._transforms.checkpoint import CHECKPOINT
from funcgrad.errors import DifferentiationError, ProgramError
from funcgrad.tensor.tensor import Tensor

X, Y = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, -0.2])


def both(x: Any, y: Any) -> Any:
    return fnp.sin(x) * y, fnp.sum(x * y)


by_jvp: Any = fg.custom_jvp(both)
by_jvp.defjvp(
    lambda p, t: (
        by_jvp(*p),
        (fnp.cos(p[0]) * p[1] * t[0] + fnp.sin(p[0]) * t[1], fnp.sum(t[0] * p[1] + p[0] * t[1])),
    )
)
by_vjp: Any = fg.custom_vjp(both)
by_vjp.defvjp(
    lambda x, y: (by_vjp(x, y), (x, y)),
    lambda kept, cts: (
        fnp.cos(kept[0]) * kept[1] * cts[0] + kept[1] * cts[1],
        fnp.sin(kept[0]) * cts[0] + kept[0] * cts[1],
    ),
)


def equation_of(f: Callable[..., Any], *args: Any) -> Equation:
    (equation,) = fg.program(f)(*args).verify().equations
    return equation


def compiled() -> Equation:
    program = fg.program(both)(X, Y)
    params = (("compiled", ProgramCall(program, lambda p: lambda *args: p.evaluate(args))),)
    return Equation(COMPILED_CALL, (0, 1), params, program.results(*program.inputs))


EQUATIONS: dict[str, Equation] = {
    "custom_jvp": equation_of(by_jvp, X, Y),
    "custom_vjp": equation_of(by_vjp, X, Y),
    "checkpoint": equation_of(fg.checkpoint(both), X, Y),
    "compiled": compiled(),
}
by_kind = pytest.mark.parametrize("kind", EQUATIONS)


def bound(kind: str) -> Callable[..., Any]:
    """The two results of a call that is bound as any primitive is."""
    equation = EQUATIONS[kind]

    def f(*args: Any) -> Any:
        return bind(equation.operation, args, dict(equation.params))

    return f


def weighted(f: Callable[..., Any]) -> Callable[..., Any]:
    def g(x: Any, y: Any) -> Any:
        first, second = f(x, y)
        return fnp.sum(fnp.sin(first) * np.arange(1.0, 4.0)) + fnp.sin(second)

    return g


def test_each_kind_of_call_is_a_primitive_of_its_own() -> None:
    kinds = [EQUATIONS[kind].operation for kind in EQUATIONS]
    assert kinds == [CUSTOM_CALL, CUSTOM_CALL, CHECKPOINT, COMPILED_CALL]
    assert all(isinstance(kind, Primitive) for kind in (*kinds, FOREIGN_CALL))


@by_kind
def test_what_runs_inside_is_said_by_the_structure(kind: str) -> None:
    equation = EQUATIONS[kind]
    structure, params = equation.operation.structure, dict(equation.params)
    assert isinstance(structure, Control)
    ((body, times),) = structure.runs(**params)
    assert (body, times) == (equation.called, 1)
    assert_array_equal(body(X, Y)[0], both(X, Y)[0])
    specs = equation.operation.results(spec_of(X), spec_of(Y), **params)
    assert specs == equation.results
    found = equation.operation.evaluate(X, Y, **params)
    assert [spec_of(each) for each in found] == list(specs)
    with pytest.raises(ProgramError, match=r"takes float64\[3\], float64\[3\], not float64\[2\]"):
        equation.operation.results(spec_of(X[:2]), **params)


@by_kind
def test_bound_as_a_primitive_it_is_differentiated_batched_and_staged(kind: str) -> None:
    f, plain = weighted(bound(kind)), weighted(both)
    fg.testing.check_grads(f, (X, Y), order=2)
    of: Callable[..., Any]
    for of in (
        lambda f: f,
        lambda f: fg.grad(f, argnums=(0, 1)),
        lambda f: fg.hessian(f),
        lambda f: lambda x, y: fg.jvp(f, (x, y), (y, x)),
        lambda f: fg.jit(fg.grad(f)),
        lambda f: fg.grad(fg.jit(f)),
        lambda f: fg.grad(fg.checkpoint(f)),
    ):
        for one, two in zip(
            fg.tree.leaves(of(f)(X, Y)), fg.tree.leaves(of(plain)(X, Y)), strict=True
        ):
            assert_allclose(one, two, rtol=1e-10, atol=1e-12)
    batch = np.stack([X, Y, X + Y]), np.stack([Y, X, X])
    for of in (lambda f: f, fg.grad, fg.jit):
        assert_allclose(fg.vmap(of(f))(*batch), fg.vmap(of(plain))(*batch), rtol=1e-10)
    assert_allclose(
        fg.vmap(f, in_axes=(0, None))(batch[0], Y), fg.vmap(plain, in_axes=(0, None))(batch[0], Y)
    )


@by_kind
def test_a_program_of_it_is_costed_as_what_it_does(kind: str) -> None:
    staged = fg.program(weighted(bound(kind)))(X, Y).verify()
    (equation,) = [each for each in staged.equations if each.called is not None]
    assert equation == EQUATIONS[kind].on((0, 1))
    found, plain = costs(staged), costs(fg.program(weighted(both))(X, Y))
    assert (found.arithmetic, found.transcendental) == (plain.arithmetic, plain.transcendental)


def test_a_call_of_python_is_foreign_and_keeps_its_rules() -> None:
    @fg.custom_vjp
    def cubed(x: Any) -> Any:
        return np.asarray(x) ** 3

    cubed.defvjp(lambda x: (cubed(x), x), lambda x, ct: (3 * x * x * ct,))
    equation = equation_of(cubed, X)
    assert equation.operation is FOREIGN_CALL
    assert FOREIGN in equation.operation.traits
    assert equation.called is None
    assert equation.name == "custom_vjp cubed"

    def f(x: Any) -> Any:
        (out,) = bind(equation.operation, (x,), dict(equation.params))
        return fnp.sum(out)

    assert_allclose(f(X), np.sum(X**3))
    assert_allclose(fg.jit(f)(X), np.sum(X**3))
    assert_allclose(fg.grad(f)(X), 3 * X**2)
    assert_allclose(fg.jvp(f, (X,), (Y,))[1], np.sum(3 * X**2 * Y))


def test_a_call_that_was_saved_without_its_rule_refuses_also_when_bound() -> None:
    again = fg.Program.from_json(fg.program(by_jvp)(X, Y).to_json())
    (equation,) = again.equations
    assert equation.operation is CUSTOM_CALL

    def f(x: Any) -> Any:
        return fnp.sum(bind(equation.operation, (x, Y), dict(equation.params))[0])

    assert_allclose(f(X), np.sum(np.sin(X) * Y))
    with pytest.raises(DifferentiationError, match="saved without its derivative rule"):
        fg.grad(f)(X)


# ------------------------------------------------------------------- traces that know no calls


class Named(Tensor):
    __slots__ = ("_trace",)


class Namer(Trace):
    """Notes the operations that it sees."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.names: list[str] = []

    def check(self) -> None:
        """It never ends."""

    def follow(self, value: Value) -> Named:
        tracer = object.__new__(Named)
        tracer._value, tracer._trace = value, self
        return tracer

    def process(self, primitive: Any, args: Any, params: Any) -> Any:
        self.names.append(primitive.name)
        inner = tuple([a._value if isinstance(a, Named) else a for a in args])
        return self.follow(bind(primitive, inner, params))


@pytest.mark.parametrize(
    "f", [by_jvp, by_vjp, fg.checkpoint(both), fg.jit(both), fg.program(both)(X, Y)]
)
def test_a_trace_that_knows_no_calls_sees_what_their_functions_do(f: Any) -> None:
    with begin_level() as level:
        namer = Namer(level)
        first, _ = f(namer.follow(X), Y)
    assert_array_equal(first._value, np.sin(X) * Y)
    assert namer.names[:2] == ["sin", "multiply"]
