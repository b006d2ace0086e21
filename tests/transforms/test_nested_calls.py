"""Functions with true rules, nested in transformations at random, are what they are without.

A case is a chain of layers around a function of numbers. Each layer closes over the values of all
layers around it: tracers of every transformation on the way. With the rules left out, each layer
is a plain call, so both sides compute the same function, and the same derivatives of it.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together
from tests.transforms.support import assert_same

Function = Callable[[Any], Any]
Wrapper = Callable[[Function], Function]


def formula(position: int, x: Any, around: tuple[Any, ...], idle: bool) -> Any:
    """What a layer computes of its argument and of what it closes over, or only of the former."""
    total = fnp.sin(x + 0.1 * position)
    for k, other in enumerate(around):
        if idle:
            _ = fnp.cos(other)
            continue
        total = total * (1.0 + 0.2 * fnp.cos(other * (k + 1.0))) + 0.1 * other * x
    return total


def with_jvp(f: Function) -> Function:
    custom = fg.custom_jvp(f)
    custom.defjvp(lambda p, t: (custom(*p), fg.jvp(f, p, t)[1]))
    return custom


def with_vjp(f: Function) -> Function:
    custom = fg.custom_vjp(f)
    custom.defvjp(lambda x: (custom(x), x), lambda x, ct: fg.vjp(f, x)[1](ct))
    return custom


RULES: dict[str, Wrapper] = {
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "checkpoint": fg.checkpoint,
    "jit": fg.jit,
    "program": lambda f: lambda x: fg.program(f)(x)(x),
}
"""What leaves a function what it is."""

TRANSFORMATIONS: dict[str, Wrapper] = {
    "grad": fg.grad,
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (0.5 * x,))[1],
    "linearize": lambda f: lambda x: fg.linearize(f, x)[1](0.7 + x),
    "vjp": lambda f: lambda x: fg.vjp(f, x)[1](x)[0],
    "hvp": lambda f: lambda x: fg.hvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: fnp.sum(fg.vmap(f)(fnp.stack([x, 2.0 * x]))),
}
"""What makes another function of it."""

NAMES = (*RULES, *TRANSFORMATIONS)
CALLS = ("custom_jvp", "custom_vjp", "checkpoint")


PLACES = ("argument", "argument of the outermost", "number")
"""What a function is put on by the one around it: of that one's, or of what it closes over."""


def nested(
    layers: tuple[str, ...],
    has_rules: bool,
    idle: bool = False,
    last: str | None = None,
    reach: int | None = None,
) -> Function:
    """The function that the layers make, the first the outermost.

    Parameters
    ----------
    layers : tuple of str
    has_rules : bool
    idle : bool
        Whether what is done with values around is for nothing.
    last : str, optional
        Of ``PLACES``, what the innermost is put on; else it depends on how deep it is.
    reach : int, optional
        How many of the values around the innermost closes over, from the outermost; else all.
    """

    def build(position: int, around: tuple[Any, ...]) -> Function:
        def own(x: Any) -> Any:
            is_last = position + 1 == len(layers)
            out = formula(position, x, around[:reach] if is_last else around, idle)
            if not is_last:
                inside = build(position + 1, (*around, x))
                places = (x, around[0] if around else 0.3, fg.tensor(0.8))
                chosen = position % 3
                if last is not None and position + 2 == len(layers):
                    chosen = PLACES.index(last)
                out = out + (1.0 + 0.3 * x) * inside(places[chosen])
            return out

        name = layers[position]
        if name in TRANSFORMATIONS:
            return TRANSFORMATIONS[name](own)
        return RULES[name](own) if has_rules and name in RULES else own

    return build(0, ())


X = 0.4
XS = np.array([0.4, -0.9, 1.3])
MODES: dict[str, Callable[[Function], Any]] = {
    "value": lambda f: f(fg.tensor(X)),
    "grad": lambda f: fg.grad(f)(X),
    "jvp": lambda f: fg.jvp(f, (X,), (1.0,)),
    "linearize": lambda f: fg.linearize(f, X)[1](1.0),
    "vmap of grad": lambda f: fg.vmap(fg.grad(f))(XS),
    "grad of vmap": lambda f: fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(XS),
    "jit of grad": lambda f: fg.jit(fg.grad(f))(X),
    "grad of jit": lambda f: fg.grad(fg.jit(f))(X),
    "grad of checkpoint": lambda f: fg.grad(fg.checkpoint(f))(X),
    "grad of program": lambda f: fg.grad(fg.program(f)(X))(X),
    "grad of grad": lambda f: fg.grad(fg.grad(f))(X),
    "hvp": lambda f: fg.hvp(f, (X,), (1.0,)),
    "grad of jvp": lambda f: fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1])(X),
    "hessian": lambda f: fg.hessian(f)(X),
    "vmap of hessian": lambda f: fg.vmap(fg.hessian(f))(XS),
    "jit of grad of grad": lambda f: fg.jit(fg.grad(fg.grad(f)))(X),
}


def check(
    choices: Sequence[Sequence[str]], mode: str, turn: int = 0, turns: int = 1, **options: Any
) -> None:
    """Compare chains of a choice for each layer, which are one function with the rules left out:
    all chains, or one of every so many turns."""
    of = MODES[mode]
    chains = [*product(*choices)][turn % turns :: turns]
    if not chains:
        return
    plain = tuple([names[0] for names in choices])
    expected = fg.tree.map(np.asarray, of(nested(plain, False, **options)))
    for layers in chains:
        try:
            found = of(nested(layers, True, **options))
            assert_same(found, expected, rtol=1e-8)
        except Exception as error:
            error.add_note(f"The layers are {layers}.")
            raise


KINDS = {"rule": tuple(RULES), **{name: (name,) for name in TRANSFORMATIONS}}


# Every two of an outer layer, an inner one and a mode meet, and every pair of rules two modes.
PAIRS = [pair for pair in product(KINDS, repeat=2) if "rule" in pair]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@together(("outer", "inner"), PAIRS)
def test_every_pair(outer: str, inner: str, mode: str) -> None:
    turn = [*MODES].index(mode) + PAIRS.index((outer, inner))
    check((KINDS[outer], KINDS[inner]), mode, turn, 4 if inner != outer else 7)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@together("reach", [1, 2])
@together("last", PLACES)
def test_every_pair_of_rules_within_a_function(last: str, reach: int, mode: str) -> None:
    """The inner one closes over the argument of the function around both, or of the outer too."""
    turn = [*MODES].index(mode) + PLACES.index(last) + reach
    check((("plain",), CALLS, CALLS), mode, turn, 5, last=last, reach=reach)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["grad of jit", "grad of program"])
@together("inner", RULES)
@pytest.mark.parametrize("outer", NAMES)
def test_what_is_staged_may_reach_values_around_for_nothing(
    outer: str, inner: str, mode: str
) -> None:
    """What is called later must not do again what only had a meaning then."""
    check(((outer,), (inner,)), mode, idle=True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    layers=st.lists(st.sampled_from(NAMES), min_size=3, max_size=4).map(tuple),
    mode=st.sampled_from(list(MODES)),
)
def test_any_chain(layers: tuple[str, ...], mode: str) -> None:
    check([(name,) for name in layers], mode)


@together("mode", ["grad of jit", "jit of grad", "vmap of grad"])
def test_residuals_of_a_batch_meet_those_that_all_examples_share(mode: str) -> None:
    check([("checkpoint",), ("vmap",), ("custom_vjp",)], mode)


def test_a_call_that_was_staged_within_others_may_run_within_fewer() -> None:
    """A rule pushes through a solution, whose rule solves again by a function with a rule."""
    sine: Any = fg.custom_jvp(fnp.sin)
    sine.defjvp(lambda p, t: (sine(*p), fnp.cos(p[0]) * t[0]))

    def quotient(x: Any) -> Any:
        return fg.custom_linear_solve(lambda v: v * (2.0 + sine(x)), x, lambda f, b: b / f(1.0))

    custom: Any = fg.custom_jvp(quotient)
    custom.defjvp(lambda p, t: fg.jvp(quotient, p, t))
    for f in (custom, fg.checkpoint(custom)):
        twice = fg.grad(fg.grad(f))
        expected = fg.grad(fg.grad(lambda x: x / (2.0 + fnp.sin(x))))(0.9)
        np.testing.assert_allclose([twice(0.9), fg.jit(twice)(0.9)], [expected, expected])
