"""Users' transformations: a trace, declared by ``fg.extend`` alone, combines with all others."""

import doctest
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad.errors import TracerError
from funcgrad.extend import Trace, Tracer, begin_level, bind
from tests.strangers.nan_trace import birth_of_nan
from tests.together import together

Function = Callable[..., Any]
X = np.array([1.0, -2.0, 3.0])
README = Path(__file__).parents[1] / "funcgrad" / "_transforms" / "README.md"


def counter() -> Function:
    """The page's function ``operations``, which its code defines."""
    space: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(README.read_text()):
        exec(example.source, space)
    return space["operations"]


operations = counter()


def test_the_pages_counter_counts_in_every_transformation() -> None:
    def f(x: Any) -> Any:
        return fnp.sin(x) * x

    assert operations(f, X) == 2
    assert operations(fg.jit(f), X) == 2
    assert operations(fg.jit(fg.jit(f)), X) == 2
    assert operations(fg.vmap(f), X) == 2
    assert operations(fg.checkpoint(f), X) == 2
    assert operations(fg.program(f)(X), X) == 2
    total = lambda x: fnp.sum(f(x))  # noqa: E731 - a function for the lines below
    eager = operations(fg.grad(total), X)
    assert eager > 3
    for g in (fg.jit(fg.grad(total)), fg.grad(fg.jit(total)), fg.grad(fg.checkpoint(total))):
        assert operations(g, X) > 3
    assert operations(lambda x: fg.jvp(f, (x,), (x,)), X) > 2
    assert operations(lambda x: fg.hessian(total)(x), X) > eager
    for _ in range(3):
        staged = fg.jit(f)
        assert [operations(staged, X) for _ in range(3)] == [2, 2, 2]
        assert fnp.sum(staged(X)) == fnp.sum(f(X))


def test_the_pages_counter_follows_operations_with_several_results() -> None:
    def f(a: Any) -> Any:
        w, v = fnp.linalg.eigh(a)
        return w * 2.0, v + 1.0

    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert operations(f, a) == operations(fg.jit(f), a)
    assert operations(f, a) >= 3
    total = lambda a: fnp.sum(f(a)[0] ** 2) + fnp.sum(f(a)[1])  # noqa: E731 - as above
    assert operations(fg.vmap(f), np.stack([a, a])) >= 3
    for g in (fg.grad(total), fg.jit(fg.grad(total)), fg.grad(fg.jit(total))):
        assert operations(g, a) > 3


def test_control_flow_and_rules_run_under_a_trace() -> None:
    @fg.custom_vjp
    def bent(x: Any) -> Any:
        return fnp.sin(x) * 2.0

    bent.defvjp(lambda x: (bent(x), x), lambda x, ct: (ct * fnp.cos(x),))

    def looks(x: Any) -> Any:
        return bent(x) if x[0] > 0 else x

    def loops(x: Any) -> Any:
        y = fg.while_loop(lambda x: fnp.sum(x * x) > 0.1, lambda x: x * 0.5, x)
        return fg.cond(x[0] > 0, fnp.sin, fnp.cos, fg.fori_loop(0, 3, lambda k, c: c * 0.5, y))

    for f in (bent, looks, loops):
        for g in (
            f,
            fg.jit(f),
            fg.grad(lambda x, f=f: fnp.sum(f(x))),
            fg.vmap(f) if f is bent else f,
        ):
            assert operations(g, X) >= 1


class Doubled(Trace):
    """A trace that doubles the result of every multiplication, so that its effect is visible."""

    title = "doubling"
    has_numbers = True

    def process(
        self, primitive: extend.Primitive, args: tuple[Any, ...], params: Mapping[str, Any]
    ) -> Any:
        out = bind(primitive, tuple(map(self.inner, args)), params)
        return Tracer.around(self, out + out if primitive.name == "multiply" else out)


def doubled(f: Function) -> Function:
    def g(x: Any) -> Any:
        with begin_level() as level:
            trace = Doubled(level)
            out = f(Tracer.around(trace, x))
            return fg.tree.map(lambda leaf: fnp.asarray(trace.inner(leaf)), out)

    return g


def test_a_transformation_of_ones_own_nests_with_all_others() -> None:
    f = doubled(lambda x: x * x)
    assert f(3.0) == 18.0
    assert fg.grad(f)(3.0) == 12.0
    assert fg.grad(fg.grad(f))(3.0) == 4.0
    assert fg.jit(f)(3.0) == 18.0
    assert fg.jit(fg.grad(f))(3.0) == 12.0
    np.testing.assert_array_equal(fg.vmap(f)(X), 2 * X * X)
    assert fg.jvp(f, (3.0,), (1.0,)) == (18.0, 12.0)
    assert doubled(f)(3.0) == 36.0
    assert doubled(fg.jit(lambda x: x * x))(3.0) == 18.0
    assert fg.grad(lambda x: fg.checkpoint(f)(x))(3.0) == 12.0
    assert fg.scan(lambda c, _: (f(c), None), 1.0, None, length=2)[0] == 8.0


def test_a_tracer_shows_its_number_where_that_is_the_functions() -> None:
    class Silent(Doubled):
        title = "silence"
        has_numbers = False

    with begin_level() as level:
        shown, hidden = Tracer.around(Doubled(level), 2.0), Tracer.around(Silent(level + 1), 2.0)
        assert repr(shown) == "Traced(2.0, in doubling)"
        assert float(shown) == 2.0
        assert shown.inside == 2.0
        assert repr(hidden) == "Traced(float64[], in silence)"
        assert isinstance(hidden, fg.Tensor)
        with pytest.raises(TracerError, match=r"silence, which knows no number .* class Silent"):
            bool(hidden)


def test_a_trace_without_a_meaning_of_operations_says_so() -> None:
    class Empty(Trace):
        pass

    with (
        begin_level() as level,
        pytest.raises(NotImplementedError, match="Empty has no method pro"),
    ):
        fnp.sin(Tracer.around(Empty(level), 2.0))


# ------------------------------------------------------------------------- where NaN is born


def logs(x: Any) -> Any:
    y = x * 2.0
    return fnp.sum(fnp.log(y) + y)  # the NaN


def line_of(function: Function, mark: str = "# the NaN") -> str:
    """The line of this file that has a mark, in a function."""
    lines = Path(__file__).read_text().splitlines()
    first: int = function.__code__.co_firstlineno
    number = next(k for k in range(first, len(lines)) if mark in lines[k])
    return f"{Path(__file__).name}:{number + 1}"


WAYS: dict[str, Function] = {
    "eagerly": lambda f: f,
    "jit": fg.jit,
    "jit of jit": lambda f: fg.jit(lambda x: fg.jit(f)(x) * 2.0),
    "grad": fg.grad,
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "vmap": lambda f: lambda x: fg.vmap(f)(x[None]),
    "jit of vmap": lambda f: fg.jit(lambda x: fg.vmap(f)(x[None])),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f)),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "program": lambda f: fg.program(f)(X),
}


@together("way", WAYS.values(), ids=WAYS)
def test_the_operation_and_the_line_where_a_nan_is_born_are_found(way: Function) -> None:
    assert birth_of_nan(way(logs), X) == ("log", line_of(logs))
    assert birth_of_nan(way(logs), np.abs(X)) is None


def test_what_a_program_does_not_compute_is_not_found() -> None:
    birth = birth_of_nan(fg.jit(fg.grad(logs)), X)  # it needs no logarithm
    assert birth is not None
    assert birth[0] == "reciprocal_of_positive"


def test_a_nan_that_is_born_in_a_rule_is_found() -> None:
    @fg.custom_vjp
    def rooted(x: Any) -> Any:
        return fnp.sum(x)

    def back(x: Any, ct: Any) -> Any:
        return (ct * fnp.sqrt(x),)  # the NaN

    rooted.defvjp(lambda x: (fnp.sum(x), x), back)
    assert birth_of_nan(rooted, X) is None
    for way in (fg.grad(rooted), fg.jit(fg.grad(rooted)), fg.grad(fg.jit(rooted))):
        assert birth_of_nan(way, X) == ("sqrt", line_of(back))


def test_a_nan_of_a_derivative_is_found_though_the_value_has_none() -> None:
    def f(x: Any) -> Any:
        return fnp.sum(fnp.sqrt(x) * fnp.sqrt(x))

    assert birth_of_nan(f, np.zeros(2)) is None
    birth = birth_of_nan(fg.grad(f), np.zeros(2))
    assert birth is not None
    assert birth[0] == "multiply"  # 0 times infinity
