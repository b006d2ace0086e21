"""What forward mode pushes is linear, and is known to be: it is transposed wherever users do that.

A tangent is pushed by operations that have to say of themselves that they are linear in what
depends on it, or neither ``linear_transpose`` nor rules that call ``jvp`` could be transposed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Linearized
from funcgrad._primitives.recurrence import recurrence
from funcgrad.tensor.tensor import apply
from tests.conformance import (
    Case,
    assert_near,
    at_all,
    by_primitive,
    direction,
    directions,
    every_case,
    every_primitive,
    in_turn,
    telling,
)

pytestmark = pytest.mark.slow

CASES = [case for case in every_case(every_primitive()) if case.differentiable]
SUBJECTS = telling(CASES)[::2]
PLACES = {name: place for place, name in enumerate(sorted({c.primitive.name for c in SUBJECTS}))}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def pushed(f: Callable[..., Any], point: Any) -> Callable[..., Any]:
    """The derivative at a point, as a function of tangents."""
    return lambda *tangents: fg.jvp(f, point, tangents)[1]


def transposed(f: Callable[..., Any], ct: Any, *point: Any) -> Any:
    """The pullback as the transpose of the push."""
    return fg.linear_transpose(pushed(f, point), *point)(ct)


def by_rule(f: Callable[..., Any], ct: Any, *point: Any) -> Any:
    """The pullback of the same function with its own derivative for a rule."""
    wrapped = fg.custom_jvp(lambda *args: f(*args))
    wrapped.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return fg.vjp(wrapped, *point)[1](ct)


def by_rule_of_a_rule(f: Callable[..., Any], ct: Any, *point: Any) -> Any:
    """The same with a function for which the push goes by a rule, too."""
    inner = fg.custom_jvp(lambda *args: f(*args))
    inner.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return by_rule(inner, ct, *point)


def staged(pullback: Callable[..., Any]) -> Callable[..., Any]:
    return lambda f, ct, *point: fg.jit(lambda ct, *point: pullback(f, ct, *point))(ct, *point)


def batched(pullback: Callable[..., Any]) -> Callable[..., Any]:
    def one_of_two(f: Any, ct: Any, *point: Any) -> Any:
        both = fg.vmap(lambda ct: pullback(f, ct, *point))(fnp.stack([ct * 2, ct]))
        return tuple([g[1] for g in both])

    return one_of_two


def of_a_program(f: Callable[..., Any], ct: Any, *point: Any) -> Any:
    return fg.linear_transpose(fg.program(pushed(f, point))(*point), *point)(ct)


PULLBACKS = [transposed, by_rule, by_rule_of_a_rule]
WAYS: dict[str, Callable[..., Any]] = {
    "program": of_a_program,
    **{pullback.__name__: pullback for pullback in PULLBACKS},
    **{f"staged {pullback.__name__}": staged(pullback) for pullback in PULLBACKS},
    **{f"batched {pullback.__name__}": batched(pullback) for pullback in PULLBACKS},
}


def for_case(case: Case, ways: Sequence[Any]) -> Sequence[Any]:
    """One way for each sample, in rotation over the samples and the operations.

    What depends on the way hardly depends on the rules too: they are the same on every way.
    """
    return in_turn(ways, case.number + PLACES[case.primitive.name], 1)


@by_primitive(SUBJECTS)
def test_a_push_is_transposed_and_differentiates(cases: list[Case]) -> None:
    at_all(cases, assert_transposed)
    at_all(filter(is_moderate, cases), assert_differentiated)


def is_moderate(case: Case) -> bool:
    return case.sample.smooth and not case.is_extreme


def assert_transposed(case: Case) -> None:
    positions = case.differentiable
    f, point = case.function(positions), tuple([fg.tensor(x) for x in case.point(positions)])
    out, pull = fg.vjp(f, *point)
    ct = fg.tensor(direction(case.rng(), out))
    expected = pull(ct)
    tolerance = 1e-10 if all(g.dtype.char in "dD" for g in expected) else 1e-6
    for way, pullback in for_case(case, list(WAYS.items())):
        assert_near(pullback(f, ct, *point), expected, tolerance, way)


def assert_differentiated(case: Case) -> None:
    """Check the derivative of the transposed push, in a mode in turn, against the pullback's."""
    positions = case.differentiable
    f, point = case.function(positions), tuple([fg.tensor(x) for x in case.point(positions)])
    ct = fg.tensor(direction(case.rng(), f(*point)))
    along = tuple([fg.tensor(v) for v in directions(case.rng(), point)])

    def pulled(*at: Any) -> Any:
        return fg.vjp(f, *at)[1](ct)

    def forward(f: Callable[..., Any]) -> Any:
        return fg.jvp(f, point, along)[1]

    def reverse(f: Callable[..., Any]) -> Any:
        return fg.vjp(f, *point)[1](along)

    turn = case.number + PLACES[case.primitive.name] // len(PULLBACKS)
    (derived,) = in_turn([forward, reverse], turn, 1)
    for pullback in for_case(case, PULLBACKS):

        def other(*at: Any, pullback: Callable[..., Any] = pullback) -> Any:
            return pullback(f, ct, *at)

        assert_near(derived(other), derived(pulled), 1e-9, pullback.__name__)


def test_some_linearized_operations_are_linear_in_an_argument() -> None:
    differentials = [case.primitive.differential for case in CASES]
    declared = [each for each in differentials if isinstance(each, Linearized)]
    assert any(differential.linear_in for differential in declared)
    assert any(not differential.linear_in for differential in declared)


def test_what_is_not_linear_is_refused() -> None:
    x = fg.tensor([1.0, 2.0, 3.0])

    def steps(a: Any, b: Any) -> Any:
        return apply(recurrence, a, b, axis=0, reverse=False)

    with pytest.raises(
        fg.errors.DifferentiationError, match=r"recurrence is not .* argument.s. 0,"
    ):
        fg.linear_transpose(lambda a: steps(a, x), x)
    with pytest.raises(fg.errors.DifferentiationError, match=r"recurrence .* argument.s. 0, 1,"):
        fg.linear_transpose(steps, x, x)
    with pytest.raises(fg.errors.DifferentiationError, match="cumprod is not linear"):
        fg.linear_transpose(fnp.cumprod, x)
