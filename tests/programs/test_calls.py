"""Calls in programs: custom derivatives and checkpoints keep their rules and print their bodies."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.inline import inlined
from funcgrad.errors import GuardError, ProgramError
from tests.subjects import SUBJECTS, assert_bits, wrong_cube, wrong_square
from tests.together import together
from tests.transforms.support import numbers

X = numbers(3)


def operations(program: fg.Program) -> list[str]:
    return [equation.name for equation in program.equations]


def bent(x: Any) -> Any:
    return fnp.sin(x) if x[0] > 0 else 2.0 * x


bent_call: Any = fg.custom_vjp(bent)
bent_call.defvjp(lambda x: (bent_call(x), None), lambda _, ct: (7.0 * ct,))


# -------------------------------------------------------------------------------- print, verify


def test_what_a_call_does_stands_below_it() -> None:
    staged = fg.program(lambda x: wrong_cube(x) + 1.0)(2.0)
    assert (
        staged.to_text(sources=False)
        == """\
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = custom_jvp wrong_cube x
    program custom_jvp wrong_cube(a: float64[]) -> float64[]
      b: float64[] = multiply a a
      c: float64[] = multiply b a
      return c
  c: float64[] = add b a
  return c"""
    )


def test_a_program_inside_that_does_not_fit_its_call_is_found() -> None:
    staged = fg.program(lambda x: wrong_square(x) + 1.0)(X)
    call, rest = staged.verify().equations
    params, body = dict(call.params), call.called
    other = fg.program(lambda x: x * x)(numbers(4))
    broken = replace(body, outputs=(5,))
    for inside, message in [
        (other, r"is not defined for float64\[3\]: the program inside, .*, takes float64\[4\]"),
        (broken, "5"),
    ]:
        wrong = replace(call, params=tuple({**params, "body": inside}.items()))
        with pytest.raises(ProgramError, match=message):
            replace(staged, equations=(wrong, rest)).verify()


def test_calls_are_equal_where_function_and_computation_are() -> None:
    def twin(x: Any) -> Any:
        return x * x

    first, second = fg.custom_vjp(twin), fg.custom_vjp(twin)
    for call, factor in ((first, 1.0), (second, 2.0)):
        call.defvjp(lambda x: (x * x, x), lambda x, ct, factor=factor: (factor * x * ct,))
    programs = [fg.program(lambda x, f=f: f(x))(X) for f in (first, first, second)]
    assert programs[0] == programs[1]
    assert hash(programs[0]) == hash(programs[1])
    assert programs[0] != programs[2]
    assert fg.program(wrong_cube)(X) == fg.program(wrong_cube)(X)  # whose rule calls it
    assert fg.program(bent_call)(X) != fg.program(bent_call)(-X)  # which goes another way


# -------------------------------------------------------------------------------- rules stay


@pytest.mark.parametrize("name", ["custom_jvp", "custom_vjp", "segment", "calls"])
def test_optimizing_keeps_calls_and_their_rules(name: str) -> None:
    subject = SUBJECTS[name]
    staged = subject.staged()
    optimized = optimize(staged)
    assert [n for n in operations(optimized) if n in operations(staged)]

    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: fnp.sum(f(*args))

    for f in (staged, optimized, fg.jit(subject.f)):
        assert_bits(fg.grad(total(f))(*subject.args), fg.grad(total(subject.f))(*subject.args))


@pytest.mark.parametrize("name", ["custom_jvp", "custom_vjp", "segment", "calls"])
def test_inlining_leaves_no_call_and_computes_the_same(name: str) -> None:
    subject = SUBJECTS[name]
    staged = subject.staged()
    plain = inlined(staged).verify()
    assert not {n for n in operations(plain) if n.startswith(("custom", "checkpoint"))}
    assert_bits(plain(*subject.args), staged(*subject.args))
    assert inlined(plain) is plain
    assert "custom" not in staged.to_numpy_source()


def test_what_is_compiled_is_fused_across_calls() -> None:
    lowered = fg.jit(lambda x: 2.0 * wrong_square(x) + wrong_square(x)).lower(X)
    assert operations(lowered.program).count("custom_vjp wrong_square") == 2
    assert operations(lowered.optimized) == ["multiply", "multiply", "add"]


def test_the_guards_of_a_call_hold_for_the_program_that_runs() -> None:
    staged = fg.program(lambda x: bent_call(x) + 1.0)(X)
    assert not staged.guards  # they are inside
    (guard,) = inlined(staged).guards
    assert guard.use == "bool"
    for program in (staged, inlined(staged)):
        assert_bits(program(X), bent(fg.tensor(X)) + 1.0)
        with pytest.raises(GuardError, match="would take another path"):
            program(-X)
    for f in (fg.jit(bent_call), fg.jit(lambda x: fg.checkpoint(bent)(x))):
        for x in (X, -X, X):
            assert_bits(f(x), bent(fg.tensor(x)))


def test_under_a_transformation_a_jitted_call_decides_anew() -> None:
    f = fg.jit(lambda x: fnp.sum(bent_call(x)))
    g = fg.jit(lambda x: fnp.sum(fg.checkpoint(bent)(x)))
    for x in (X, -X, X):
        assert_array_equal(fg.grad(f)(x), np.full(3, 7.0))
        assert_bits(fg.grad(g)(x), fg.grad(lambda y: fnp.sum(bent(y)))(x))
        pushed = fg.jvp(lambda y: fnp.sum(bent(y)), (x,), (x,))
        for result, expected in zip(fg.jvp(g, (x,), (x,)), pushed, strict=True):
            assert_allclose(result, expected, rtol=1e-15)  # machine code adds in another order


# ------------------------------------------------------------------------- rules that look


def looking(kind: str) -> Any:
    """Twice a number, with a rule that branches on the argument or on the cotangent."""
    f: Any = fg.custom_jvp(lambda x: 2.0 * x) if kind == "jvp" else fg.custom_vjp(lambda x: 2.0 * x)
    if kind == "jvp":
        f.defjvp(lambda p, t: (f(*p), (3.0 if p[0] > 0 else 5.0) * t[0]))
    elif kind == "vjp":
        f.defvjp(lambda x: (f(x), x), lambda x, ct: ((3.0 if x > 0 else 5.0) * ct,))
    else:
        f.defvjp(lambda x: (f(x), None), lambda _, ct: ((3.0 if ct > 0 else 5.0) * ct,))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_what_a_rule_looks_at_is_a_guard_of_derivatives(kind: str) -> None:
    staged = fg.program(looking(kind))(1.0)
    assert float(staged(-1.0)) == -2.0
    assert float(fg.grad(staged)(2.0)) == 3.0
    with pytest.raises(GuardError, match="would take another path"):
        fg.grad(staged)(-1.0)


@pytest.mark.slow
@together("made", [fg.jit, fg.checkpoint, lambda f: fg.jit(fg.checkpoint(f))])
@together("first", ["value", "gradient"])
@together("kind", ["jvp", "vjp", "cotangent"])
def test_rules_that_look_look_anew(kind: str, first: str, made: Any) -> None:
    f = looking(kind)
    g = made(lambda x: f(x) * x)
    if first == "value":
        g(1.0)
    for scale in (1.0, -1.0):
        for x in (1.0, -1.0, 2.0):
            expected = fg.grad(lambda x, c=scale: c * (f(x) * x))(x)
            assert_bits(fg.grad(lambda x, c=scale: c * g(x))(x), expected)
            assert_bits(fg.jit(fg.grad(lambda x, c=scale: c * g(x)))(x), expected)
            assert_bits(fg.vjp(g, x)[1](scale)[0], expected)


def test_a_rule_that_looks_at_a_cotangent_is_run_by_python_in_a_program() -> None:
    staged = fg.program(looking("cotangent"))(1.0)
    pull = fg.vjp(staged, -1.0)[1]
    assert (float(pull(1.0)[0]), float(pull(-1.0)[0])) == (3.0, -5.0)


# -------------------------------------------------------------------------- names bound anew


@together("kind", ["custom_jvp", "custom_vjp"])
@together(
    "of",
    [
        lambda p, x: p(x),
        lambda p, x: fg.grad(p)(x),
        lambda p, x: fg.grad(fg.grad(p))(x),
        lambda p, x: fg.jvp(p, (x,), (1.0,)),
        lambda p, x: fg.vmap(fg.grad(p))(np.array([x, -x])),
        lambda p, x: fg.grad(fg.jit(p))(x),
        lambda p, x: fg.jit(fg.grad(p))(x),
        lambda p, x: fg.grad(fg.program(p)(x))(x),
        lambda p, x: fg.grad(optimize(p))(x),
        lambda p, x: fg.grad(fg.checkpoint(p))(x),
    ],
)
def test_a_rule_may_close_over_a_name_that_is_bound_anew(kind: str, of: Any) -> None:
    def f(x: Any) -> Any:
        name: Any = fg.tensor(3.0)
        for _ in range(2):

            def g(y: Any) -> Any:
                return name * y  # noqa: B023

            custom: Any = getattr(fg, kind)(g)
            if kind == "custom_jvp":
                custom.defjvp(lambda p, t: fg.jvp(g, p, t))
            else:
                custom.defvjp(lambda y: (g(y), y), lambda y, ct: fg.vjp(g, y)[1](ct))
            name = custom(x)
        return name

    expected = fg.tree.map(np.asarray, of(fg.program(lambda x: 3.0 * x * x)(2.0), 2.0))
    found = fg.tree.map(np.asarray, of(fg.program(f)(2.0), 2.0))
    fg.tree.map(np.testing.assert_allclose, found, expected)


# -------------------------------------------------------------------------------- opaque ones


def test_a_call_of_another_library_runs_with_numbers_each_time() -> None:
    @fg.custom_vjp
    def inverse(x: Any) -> Any:
        return np.linalg.inv(np.asarray(x))

    def backward(found: Any, ct: Any) -> Any:
        return (-(found.T @ ct @ found.T),)

    inverse.defvjp(lambda x: (inverse(x), inverse(x)), backward)
    f = fg.jit(lambda x: fnp.sum(inverse(2.0 * x)))
    for seed in range(3):
        x = np.eye(3) * 4.0 + np.random.default_rng(seed).random((3, 3))
        np.testing.assert_allclose(f(x), np.linalg.inv(2.0 * x).sum(), rtol=1e-14)
        eager = fg.grad(lambda y: fnp.sum(inverse(2.0 * y)))(x)
        np.testing.assert_allclose(fg.grad(f)(x), eager, rtol=1e-13)
        np.testing.assert_allclose(fg.jit(fg.grad(f))(x), eager, rtol=1e-13)


def test_a_number_that_goes_through_another_library_is_no_constant() -> None:
    @fg.custom_jvp
    def rounded(x: Any) -> Any:
        return float(np.round(float(x), 1))

    rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0]))
    f = fg.jit(lambda x: 2.0 * rounded(x))
    with np.testing.assert_no_warnings():
        found = [float(f(0.01 * k)) for k in range(40)]
    assert found == [2.0 * float(np.round(0.01 * k, 1)) for k in range(40)]


def test_a_call_that_fails_fails_as_it_does_eagerly() -> None:
    @fg.custom_vjp
    def strict(x: Any) -> Any:
        raise ValueError("no such thing")

    strict.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(ValueError, match="no such thing"):
        fg.jit(strict)(X)


def test_an_error_of_a_function_that_nobody_looks_into_is_its_own() -> None:
    @fg.custom_vjp
    def strict(x: Any) -> Any:
        if np.any(np.asarray(x) < 0):
            raise ValueError("no such thing")
        return np.asarray(x) * 1.0

    strict.defvjp(lambda x: (strict(x), None), lambda _, ct: (ct,))
    staged = fg.program(strict)(X * X)
    for f in (staged, fg.jit(strict)):
        assert_bits(f(X * X), strict(X * X))
        with pytest.raises(ValueError, match=r"^no such thing$"):
            f(-X * X)


def test_what_a_function_keeps_is_not_written_to() -> None:
    kept: list[Any] = []

    @fg.custom_vjp
    def noted(x: Any) -> Any:
        kept.append(np.asarray(x))
        return float(np.sum(kept[-1]))

    noted.defvjp(lambda x: (noted(x), None), lambda _, ct: (ct,))

    def f(x: Any) -> Any:
        a = fnp.sin(x)
        b = fnp.cos(x * noted(a @ x))
        return fnp.sum(b @ x) + fnp.sum(fnp.sin(b @ a))

    x = np.random.default_rng(0).random((400, 400)) / 400
    run = compile_program(prepared(fg.program(f)(x)))
    del kept[:]
    for factor in (1.0, 0.5):
        run(x * factor)
    for found, factor in zip(kept, (1.0, 0.5), strict=True):
        assert_array_equal(found, np.sin(x * factor) @ (x * factor))


def test_a_custom_rule_in_a_checkpoint_may_close_over_what_is_staged() -> None:
    def f(x: Any) -> Any:
        @fg.custom_jvp
        def g(y: Any) -> Any:
            return x * y

        g.defjvp(lambda primals, tangents: (g(*primals), x * tangents[0]))
        return fnp.sum(fg.checkpoint(g)(x + 1.0))

    for of in (lambda f: f, fg.jit, lambda f: fg.program(f)(X)):
        np.testing.assert_allclose(fg.grad(of(f))(X), 2.0 * X + 1.0)


# -------------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_gets_what_it_closes_over_as_arguments() -> None:
    def f(w: Any, x: Any) -> Any:
        layer = fg.checkpoint(lambda y: fnp.tanh(w @ y))
        return fnp.sum(layer(layer(x)) + fg.checkpoint(lambda: w[0] * 2.0)())

    args = numbers(3, 3), X
    staged = fg.program(f)(*args).verify()
    assert operations(staged)[:2] == ["checkpoint", "checkpoint"]
    assert staged.equations[0].operands == (1, 0)
    assert_bits(staged(*args), f(*map(fg.tensor, args)))
    assert_bits(fg.grad(staged)(*args), fg.grad(f)(*args))
    assert_bits(fg.program(staged)(*args)(*args), staged(*args))


def chain(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ten layers of ten sines each."""

    def layer(x: Any) -> Any:
        for _ in range(10):
            x = fnp.sin(x)
        return x

    def f(x: Any) -> Any:
        for _ in range(10):
            x = wrap(layer)(x)
        return fnp.sum(x)

    return f


def peak(f: Callable[[Any], Any], x: Any) -> float:
    """The greatest number of arrays like its argument that exist while a function runs."""
    gc.collect()
    tracemalloc.start()
    f(x)
    found = tracemalloc.get_traced_memory()[1] / np.asarray(x).nbytes
    tracemalloc.stop()
    return found


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: fg.grad(fg.program(f)(x)),
        lambda f, x: fg.grad(fg.program(fg.program(f)(x))(x)),
        lambda f, x: optimize(fg.program(fg.grad(fg.jit(f)))(x)),
    ],
)
def test_the_gradient_of_a_staged_function_saves_the_memory(transform: Any) -> None:
    x = fg.tensor(np.linspace(0.0, 1.0, 20_000))
    found = [peak(transform(chain(wrap), x), x) for wrap in (lambda f: f, fg.checkpoint)]
    assert found[1] < 0.35 * found[0]


def test_so_does_the_gradient_of_a_jitted_one() -> None:
    x = np.linspace(0.0, 1.0, 100)
    plain, saving = [
        fg.jit(fg.grad(fg.jit(chain(wrap)))).lower(x).costs.peak_bytes / x.nbytes
        for wrap in (lambda f: f, fg.checkpoint)
    ]
    assert saving < 0.35 * plain
    jitted = fg.jit(chain(fg.checkpoint), exact=True)
    assert_array_equal(fg.grad(jitted)(x), fg.grad(chain(fg.checkpoint))(x))


def test_a_call_that_is_jitted_reads_what_stands_outside_now() -> None:
    scale = [2.0]

    @fg.custom_vjp
    def scaled(x: Any) -> Any:
        return scale[0] * x

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, ct: (scale[0] * ct,))
    f, g = fg.jit(lambda x: scaled(x)), fg.jit(fg.checkpoint(lambda x: scale[0] * x))
    assert float(f(1.0)) == float(g(1.0)) == 2.0
    scale[0] = 3.0
    assert float(f(1.0)) == float(g(1.0)) == 3.0
    assert float(fg.grad(f)(1.0)) == float(fg.grad(g)(1.0)) == 3.0
