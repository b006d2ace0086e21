"""Jitted functions inside other transformations: the same results, from programs made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from tests.passes.forms_of_matrices import PRODUCTS, SUMS
from tests.passes.generator import Pick
from tests.subjects import inputs, run_steps, steps
from tests.together import together
from tests.transforms.support import Point, assert_same, complex_numbers, numbers

Function = Callable[..., Any]


@fg.custom_vjp
def wrong_square(x):
    return x * x


wrong_square.defvjp(lambda x: (x * x, fnp.sin(x)), lambda kept, ct: (20.0 * kept * ct,))


@fg.custom_jvp
def wrong_cube(x):
    return x**3


@wrong_cube.defjvp
def _wrong_cube_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return wrong_cube(x), 30.0 * x * x * t


def mlp(layers, x, labels):
    for weight, bias in layers[:-1]:
        x = fg.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    logits = x @ weight + bias
    picked = fnp.take_along_axis(logits, labels[:, None], axis=1)
    return fnp.mean(fg.nn.logsumexp(logits, axis=1) - picked[:, 0]), logits


def safe(x):
    return fnp.where(x > 0, fnp.log(fnp.where(x > 0, x, 1.0)) + fnp.sqrt(x), x**2)


def unsafe(x):
    return fnp.where(x > 0, fnp.sqrt(x) * fnp.log(x), 0.0)


@fg.checkpoint
def checkpointed(x):
    return fnp.sin(x * x) * x


LAYERS = ((numbers(3, 4), numbers(4)), (numbers(4, 2, seed=1), numbers(2)))
CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "mlp": (mlp, (LAYERS, numbers(5, 3), np.arange(5) % 2)),
    "number": (lambda x: fnp.sin(x) * x, (0.7,)),
    "0-d": (lambda x: fnp.exp(x) * x + 1, (np.array(0.7),)),
    "where": (safe, (np.array([2.0, 0.0, -1.0, 0.5]),)),
    "infinite where": (unsafe, (np.array([2.0, 0.0, -1.0, 0.5]),)),
    "ties": (lambda x: (fnp.max(x), fnp.maximum(x, 1.0)), (np.array([1.0, 3.0, 3.0]),)),
    "slices": (lambda x: x[1:] * x[:-1] + x[::-1][1:], (numbers(5),)),
    "gather": (lambda x, i: x[i] * x[0], (numbers(5), np.array([0, 2, 2]))),
    "scatter": (lambda x, y: fnp.asarray(x).at[1:3].set(y) ** 2, (numbers(4), numbers(2, seed=1))),
    "running": (lambda x: (fnp.cumsum(x) * x, fnp.cumprod(x)), (numbers(4),)),
    "sort": (lambda x: fnp.sort(x) * fnp.arange(4.0), (numbers(4),)),
    "custom_vjp": (lambda x: wrong_square(x) * x, (numbers(3),)),
    "custom_jvp": (lambda x: wrong_cube(x * 2.0) + x, (numbers(3),)),
    "checkpoint": (checkpointed, (numbers(3),)),
    "trees": (
        lambda p: {"z": Point(p["b"] * p["a"][0], p["a"][1]), "n": None},
        ({"a": (numbers(2), numbers(2, seed=1)), "b": 3.0},),
    ),
    "integers": (lambda x, n, flag: (x * n, n + 1, x > 0, flag), (numbers(3), 3, np.array(True))),
    "constants": (lambda x: (fnp.ones(2), 3.0 * fnp.sum(x), fnp.arange(2.0)), (numbers(2),)),
    "inputs": (lambda x, y, z: (y, x, y), (1.5, numbers(2), numbers(3))),
    "stopped": (lambda x: (fg.stop_gradient(x) * x, fg.stop_gradient(x)), (numbers(2),)),
    "empty": (lambda x: (x * 2.0, fnp.sum(x * x)), (np.zeros((0, 3)),)),
    "complex": (
        lambda z, x: (z * z.conj() * x, fnp.abs(z), z.real),
        (complex_numbers(3), numbers(3)),
    ),
    "single": (lambda x, y: fnp.sum(x * y), (numbers(3).astype(np.float32), numbers(3))),
    "weak": (lambda x, scale: x * scale + 1, (numbers(3).astype(np.float32), 2.0)),
    "einsum": (lambda a, b: fnp.einsum("ij,jk->ik", a, b), (numbers(2, 3), numbers(3, 2))),
    "branches": (lambda x: x * 2.0 if x[0] > 0 else -x, (np.array([1.0, 2.0]),)),
}


def differentiable(args: tuple[Any, ...]) -> list[int]:
    """The positions of the arguments of floating or complex dtypes."""
    kinds = [{np.asarray(leaf).dtype.kind for leaf in pytrees.leaves(arg)} for arg in args]
    return [k for k, found in enumerate(kinds) if found <= {"f", "c"}]


def split(f: Function, args: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    """The function of the differentiable arguments alone, with differentiable results alone."""
    chosen = differentiable(args)

    def inexact(*own):
        given = list(args)
        for k, arg in zip(chosen, own, strict=True):
            given[k] = arg
        leaves = [fnp.asarray(leaf) for leaf in pytrees.leaves(f(*given))]
        return [leaf for leaf in leaves if leaf.dtype.kind in "fc"]

    return inexact, tuple([args[k] for k in chosen])


def total(f: Function) -> Function:
    """One number from all results, each with a weight of its own."""

    def summed(*args):
        outs = f(*args)
        terms = [fnp.sum(fnp.cos(k + fnp.abs(out)) + 2.0 * out.real) for k, out in enumerate(outs)]
        return sum(terms, start=fnp.sum(0.0 * fnp.abs(outs[0])))

    return summed


def ones(tree: Any) -> Any:
    return fg.tree.map(lambda leaf: np.ones(np.shape(leaf), np.asarray(leaf).dtype)[()], tree)


def stacked(tree: Any) -> Any:
    """Three examples, each slightly different from the argument."""
    return fg.tree.map(lambda leaf: np.stack([np.asarray(leaf) * k for k in (1, 1.1, 0.9)]), tree)


def value(f: Function, args: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args)


def gradient(f: Function, args: Any) -> Any:
    return fg.value_and_grad(total(f), argnums=tuple(range(len(args))))(*args)


def pushed(f: Function, args: Any) -> Any:
    return fg.jvp(f, args, ones(args))


def pulled_twice(f: Function, args: Any) -> Any:
    out, pullback = fg.vjp(f, *args)
    return out, pullback(ones(out)), pullback(fg.tree.map(lambda leaf: 2.0 * leaf, ones(out)))


def linearized(f: Function, args: Any) -> Any:
    out, push = fg.linearize(f, *args)
    return out, push(*ones(args)), push(*ones(args))


def mapped(f: Function, args: Any) -> Any:
    return fg.vmap(f)(*stacked(args))


def mapped_gradient(f: Function, args: Any) -> Any:
    return fg.vmap(fg.grad(total(f)))(*stacked(args))


def gradient_of_mapped(f: Function, args: Any) -> Any:
    return fg.grad(lambda *xs: fnp.sum(fg.vmap(total(f))(*xs)))(*stacked(args))


def jitted_gradient(f: Function, args: Any) -> Any:
    return fg.jit(fg.grad(total(f)))(*args)


def gradient_of_gradient(f: Function, args: Any) -> Any:
    slope = fg.grad(total(f))

    def length(*xs):
        leaves = fg.tree.leaves(slope(*xs))
        return sum([fnp.sum(fnp.abs(leaf) ** 2) for leaf in leaves], start=fnp.sum(0.0))

    return fg.grad(length)(*args)


def curvature(f: Function, args: Any) -> Any:
    return fg.hvp(total(f), args, ones(args))


def pushed_twice(f: Function, args: Any) -> Any:
    return fg.jvp(lambda *xs: fg.jvp(total(f), xs, ones(args))[1], args, ones(args))


WAYS = {
    way.__name__: way
    for way in (
        value,
        gradient,
        pushed,
        pulled_twice,
        linearized,
        mapped,
        mapped_gradient,
        gradient_of_mapped,
        jitted_gradient,
        gradient_of_gradient,
        curvature,
        pushed_twice,
    )
}
PAIRS = [
    (name, way)
    for name in CASES
    for way in WAYS
    if name != "branches" or "mapped" not in way  # a choice that differs between examples
]


@pytest.mark.slow
@together(("name", "way"), PAIRS, pieces=2)
def test_a_jitted_function_is_transformed_as_the_function_is(name: str, way: str) -> None:
    f, args = CASES[name]
    staged = fg.jit(f)
    plain, own = split(f, args)
    jitted, _ = split(staged, args)
    expected = WAYS[way](plain, own)
    for _ in range(2):  # once while programs are made, once from those
        # Sums are added up in another order where products are merged.
        single = any(np.asarray(leaf).dtype.char == "f" for leaf in fg.tree.leaves(own))
        assert_same(WAYS[way](jitted, own), expected, rtol=1e-6 if single else 1e-9)


def pulled_with_gaps(f: Function, args: Any) -> Any:
    """Cotangents of the arguments for the last result alone, without some of its elements."""

    def last(*xs):
        out = f(*xs)[-1]
        return fnp.where(fnp.abs(out) < 2, out, 0)

    out, pullback = fg.vjp(last, *args)
    return pullback(ones(out))


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10), inputs)
def test_random_functions_at_infinities_and_nans(chosen: list[Any], given_args: Any) -> None:
    a, b, i, c, w = given_args
    args = (a, b, np.complex128(c), np.float64(w))

    def f(a, b, c, w):
        outs = [fnp.asarray(out) for out in run_steps(chosen, a, b, i, c, w)]
        return [out for out in outs if out.dtype.kind in "fc"][-3:]

    with np.errstate(all="ignore"):
        if f(*args):
            jitted = fg.jit(f)
            for way in (pulled_twice, pulled_with_gaps, pushed, linearized):
                assert_same(way(jitted, args), way(f, args), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", [*PRODUCTS, *SUMS])
def test_products_of_a_function_are_not_merged_with_those_of_its_derivative(
    form: Any, seed: int
) -> None:
    # A result that was a part of such a product would depend on the cotangent.
    x = numbers(4, 4, seed=seed)

    def f(x):
        return fnp.sum(fnp.sin(form(None, x, x, Pick(seed))))

    def gradient_of_jit(y):
        return fg.jit(fg.grad(f))(y)

    for g in (gradient_of_jit, fg.grad(fg.jit(f))):

        def directional(y, g=g):
            return fg.jvp(lambda z: fnp.sum(g(z) * x), (y,), (y * 2,))[1]

        def expected(y):
            return fg.jvp(lambda z: fnp.sum(fg.grad(f)(z) * x), (y,), (y * 2,))[1]

        assert_same(fg.grad(directional)(x), fg.grad(expected)(x), rtol=1e-9)


AROUND: dict[str, Callable[[Function, Any], Any]] = {
    "branch": lambda f, x: fg.cond(fnp.sum(x) > 0.5, lambda p: f(x) * p, lambda p: p - f(x), x),
    "one of three": lambda f, x: fg.switch(
        1, [lambda p: p, lambda p: p * f(x), lambda p: f(f(x))], x
    ),
    "step": lambda f, x: fg.fori_loop(0, 2, lambda k, c: c * f(x), x),
    "step until": lambda f, x: fg.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + f(x)), (0, x)
    )[1],
    "branch of a branch": lambda f, x: fg.cond(
        True, lambda p: fg.cond(fnp.sum(p) < 9.0, lambda q: f(x) * p * q, lambda q: q, p), f, x
    ),
    "checkpoint": lambda f, x: fg.checkpoint(lambda p: p * f(x))(x),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", AROUND)
def test_a_jitted_function_may_be_called_on_what_is_closed_over(place: str) -> None:
    x = np.array([0.3, 0.5, 0.7])
    square = fg.grad(lambda q: fnp.sum(q * q * q))

    def total(f: Function) -> Function:
        return lambda x: fnp.sum(AROUND[place](f, x))

    jitted = fg.jit(square)
    modes: dict[str, Callable[[Function], Any]] = {
        "jit": lambda f: fg.jit(f)(x),
        "grad": lambda f: fg.grad(f)(x),
        "jit of grad": lambda f: fg.jit(fg.grad(f))(x),
        "program of grad": lambda f: fg.program(fg.grad(f))(x)(x * 1.1),
        "jit of jvp": lambda f: fg.jit(lambda x: fg.jvp(f, (x,), (x,)))(x),
        "jit of hessian": lambda f: fg.jit(fg.hessian(f))(x),
        "jit of grad of grad": lambda f: fg.jit(fg.grad(lambda x: fnp.sum(fg.grad(f)(x) ** 2)))(x),
        "jit of vmap of grad": lambda f: fg.jit(fg.vmap(fg.grad(f)))(np.stack([x, -x])),
        "vmap of jit of grad": lambda f: fg.vmap(fg.jit(fg.grad(f)))(np.stack([x, -x])),
        "jit of grad of vmap": lambda f: fg.jit(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs))))(
            np.stack([x, -x])
        ),
        "linearize of jit": lambda f: fg.linearize(fg.jit(f), x)[1](x),
    }
    wrong = []
    for mode, of in modes.items():
        try:
            assert_same(of(total(jitted)), of(total(square)), rtol=1e-12)
        except Exception as error:  # all are reported
            wrong.append(f"{mode}: {type(error).__name__}: {error}")
    assert wrong == []
