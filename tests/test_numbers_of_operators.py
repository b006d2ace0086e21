"""Operators on Python numbers alone have weakly typed results, wherever they are computed.

Their dtype gives way to that of an array, as for a Python number. So results have the same dtype
whether a function runs as plain Python, staged, batched, differentiated, or any of these inside
another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.users_values import is_weak
from tests.conformance import INTEGRATED, every_primitive
from tests.together import together

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet")]

Tree = tuple[Any, ...]

SINGLE = np.array([1.5, -2.0, 0.25], np.float32)
NUMBERS: dict[str, Any] = {"s": 0.3, "t": -1.7, "n": 3, "m": -2, "b": True, "c": False, "z": 0.5j}

UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "abs": abs,
    "~": lambda x: not x if type(x) is bool else ~x,  # Python's own ~True is -2
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "round": lambda x: round(x, 1),
    "**2": lambda x: x**2,
    "**3": lambda x: x**3,
    "**-1": lambda x: x**-1,
    "**1.5": lambda x: x**1.5,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "divmod": lambda x, y: divmod(x, y)[1],
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def evaluated(tree: Tree, names: dict[str, Any]) -> Any:
    """An expression: a name, a number, or an operator with its operands."""
    if len(tree) == 1:
        return names[tree[0]] if isinstance(tree[0], str) else tree[0]
    operands = [evaluated(each, names) for each in tree[1:]]
    return (UNARY if len(operands) == 1 else BINARY)[tree[0]](*operands)


def function_of(tree: Tree) -> Callable[..., Any]:
    """The expression as a function of the array x and the numbers, times the array."""

    def f(x: Any, numbers: dict[str, Any]) -> Any:
        return evaluated(tree, {"x": x, **numbers}) * x

    return f


def inexact(numbers: dict[str, Any], kinds: Any) -> dict[str, Any]:
    return {name: number for name, number in numbers.items() if isinstance(number, kinds)}


def _vjp(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, numbers: dict[str, Any]) -> Any:
        own = inexact(numbers, (float, complex, fg.Tensor))
        own = {k: v for k, v in own.items() if k in "stz"}
        return fg.vjp(lambda own: f(x, {**numbers, **own}), own)[0]

    return run


def _jvp(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, numbers: dict[str, Any]) -> Any:
        own = {k: v for k, v in numbers.items() if k in "stz"}
        return fg.jvp(lambda own: f(x, {**numbers, **own}), (own,), (own,))[0]

    return run


def _vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    return fg.vmap(f, in_axes=(0, None))


WAYS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": fg.jit,
    "program": lambda f: lambda *args: fg.program(f)(*args)(*args),
    "vmap": _vmap,
    "vjp": _vjp,
    "jvp": _jvp,
    "vmap of vjp": lambda f: _vmap(_vjp(f)),
    "jit of vjp": lambda f: fg.jit(_vjp(f)),
    "vjp of jit": lambda f: _vjp(fg.jit(f)),
    "jit of jvp": lambda f: fg.jit(_jvp(f)),
    "jit of vmap": lambda f: fg.jit(_vmap(f)),
    "vmap of jit": lambda f: _vmap(fg.jit(f)),
    "jvp of vjp": lambda f: _jvp(_vjp(f)),
    "checkpoint": lambda f: _vjp(fg.checkpoint(f)),
}


def check(tree: Tree, turn: int, turns: int) -> bool:
    """Compare one of so many modes with plain Python, from the turn on; False if that raises."""
    f = function_of(tree)
    try:
        expected = np.asarray(f(SINGLE, NUMBERS))
    except (TypeError, ValueError, ArithmeticError):
        return False
    if not np.isfinite(expected).all():
        return False
    for name, way in list(WAYS.items())[turn % turns :: turns]:
        found = np.asarray(way(f)(SINGLE, NUMBERS))
        assert found.dtype == expected.dtype, (name, tree, found.dtype, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6, err_msg=f"{name} {tree}")
    return True


@pytest.mark.parametrize("name", UNARY)
def test_operators_of_one_number(name: str) -> None:
    numbers = [number for number in NUMBERS if name != "**1.5" or number not in ("t", "m")]
    first = list(UNARY).index(name)
    tried = [check((name, (number,)), turn, 3) for turn, number in enumerate(numbers, first)]
    assert sum(tried) >= 2  # roots of minus are complex


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_numbers(name: str) -> None:
    tried = [
        check((name, (first,), (second,)), turn, len(WAYS))
        for turn, (first, second) in enumerate(
            product(["s", "t", "n", "b", "z", 2, 0.5], repeat=2), list(BINARY).index(name)
        )
        if not isinstance(first, (int, float)) or not isinstance(second, (int, float))
        # A root of a number below zero is complex in Python, and 3**-2 a float.
        if name != "**" or first in ("s", "z", 0.5, 2) or second in ("n", "b", 2)
    ]
    assert sum(tried) >= 4


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.sampled_from([(name,) for name in (*NUMBERS, 2, 0.5, True, "x")])
    one = st.sampled_from([name for name in UNARY if name not in ("**1.5", "**-1", "round")])
    two = st.sampled_from(
        [name for name in BINARY if name not in ("**", "<<", "//", "%", "divmod")]
    )
    return st.recursive(
        leaves, lambda inner: st.tuples(one, inner) | st.tuples(two, inner, inner), max_leaves=6
    )


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(0, 5))
def test_expressions(tree: Tree, turn: int) -> None:
    with np.errstate(all="ignore"):
        assume(check(tree, turn, 6))


def test_what_is_computed_from_numbers_alone_stays_one_outside() -> None:
    half = fg.jit(lambda s: 0.5 * s)(0.3)
    assert is_weak(half)
    assert (half * SINGLE).dtype == np.float32
    assert is_weak(fg.vjp(lambda s: s * s, 0.3)[0])
    assert not is_weak(fg.grad(lambda s: s * s)(0.3))  # a gradient is an array
    assert not is_weak(fg.tensor(0.3))
    assert not is_weak(fg.tensor(0.3) * 2)


@pytest.mark.parametrize("function", [np.add, np.multiply, fnp.add, fnp.multiply, fnp.power])
def test_functions_make_arrays_of_numbers(function: Any) -> None:
    def f(s: Any, x: Any) -> Any:
        return function(s, 2.0) * x

    expected = f(0.3, SINGLE).dtype
    assert expected == np.float64
    for way in (fg.jit, lambda f: lambda s, x: fg.vjp(lambda s: f(s, x), s)[0]):
        assert way(f)(0.3, SINGLE).dtype == expected


ELEMENTWISE = [
    primitive for primitive in every_primitive() if primitive.batch.__name__ == "batch_elementwise"
]


def sort_of(number: Any) -> tuple[Any, ...]:
    """The numbers that Python and NumPy may take for different ones: zero, one, huge, NaN."""
    ordinary = 1e-100 < abs(number) < 1e100 and abs(number) != 1
    return number.dtype.char, str(np.sign(number.real) if ordinary else number)


@together("primitive", ELEMENTWISE, ids=lambda primitive: primitive.name, pieces=4)
def test_rules_do_with_python_numbers_what_they_do_with_numpy_s(primitive: Primitive) -> None:
    """Python divides by no zero, and its numbers have no methods; rules must not mind."""
    seen: dict[Any, Any] = {}
    for sample in primitive.samples():
        arrays = np.broadcast_arrays(*sample.args)
        elements = list(zip(*[array.reshape(-1) for array in arrays], strict=True))[:8]
        for place, numbers in enumerate(elements):
            # Ordinary numbers behave alike: one element of a sample stands for them.
            telling = not place or not sample.smooth or any(x in (-1, 0, 1) for x in numbers)
            if telling and all(number.dtype.char in "?ldD" for number in numbers):
                key = (*map(sort_of, numbers), *sample.params.items())
                seen.setdefault(key, (numbers, sample.params))
    chosen = [*seen.values()][: 4 if primitive.name in INTEGRATED else None]
    for turn, (numbers, params) in enumerate(chosen):

        def f(*args: Any, params: Any = params) -> Any:
            return primitive(*args, **params)

        def second(f: Any, args: Any, mode: str = ("forward", "reverse")[turn % 2]) -> list[Any]:
            return second_derivatives(f, args, mode)

        plain = [number.item() for number in numbers]
        for derive in (lambda f, args: f(*args), first_derivatives, second):
            found, expected = derive(f, plain), derive(f, numbers)
            np.testing.assert_allclose(found, expected, 1e-14, err_msg=f"{numbers}")


def first_derivatives(f: Callable[..., Any], args: Any, mode: str = "both") -> list[Any]:
    places = [k for k, arg in enumerate(args) if isinstance(arg, (float, complex, np.inexact))]
    found: list[Any] = []
    for place in places:

        def along(x: Any, place: int = place) -> Any:
            return f(*args[:place], x, *args[place + 1 :])

        if mode != "reverse":
            found += fg.jvp(along, (args[place],), (type(args[place])(1),))
        if mode == "forward":
            continue
        value, pull = fg.vjp(along, args[place])
        found.append(value)
        if np.asarray(value).dtype.kind in "fc":
            found += pull(np.asarray(value).dtype.type(1))
    return [np.asarray(each) for each in found]


def second_derivatives(f: Callable[..., Any], args: Any, mode: str) -> list[Any]:
    """Derivatives along every argument of the slope along all of them."""

    def slope(*args: Any) -> Any:
        return fg.jvp(f, tuple(args), tuple([fnp.ones_like(arg) for arg in args]))[1]

    if not all(isinstance(arg, (float, complex, np.inexact)) for arg in args):
        return []
    return first_derivatives(slope, args, mode)


def test_there_are_operators() -> None:
    assert len([primitive for primitive in ELEMENTWISE if primitive.operator]) >= 20
    assert math.isinf(fg.grad(lambda x: 1.0 / x)(0.0))


FUNCTIONS_OF_OPERATORS = """
    negative positive abs absolute invert add subtract multiply divide floor_divide remainder power
    bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_not maximum equal less
""".split()


@together("name", FUNCTIONS_OF_OPERATORS)
@together("way", ["eager", "jit", "program", "vmap", "traced"])
def test_functions_take_truth_values_as_numpy_does(name: str, way: str) -> None:
    # By operators True + True is 2; as an array's function it is a disjunction.
    ours, theirs = getattr(fnp, name), getattr(np, name)

    def compared(s: Any) -> Any:
        return ours(*[s > k for k in range(theirs.nin)])

    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: ours(*[True] * theirs.nin),
        "jit": lambda: fg.jit(ours)(*[True] * theirs.nin),
        "program": lambda: fg.program(ours)(*[True] * theirs.nin)(*[True] * theirs.nin),
        "vmap": lambda: fg.vmap(lambda _: ours(*[True] * theirs.nin))(np.ones(2))[0],
        "traced": lambda: fg.jit(compared)(9.0),
    }
    try:
        expected = theirs(*[True] * theirs.nin)
    except TypeError:
        with pytest.raises(TypeError):
            ways[way]()
        return
    found = np.asarray(ways[way]())
    assert (found.dtype, found.item()) == (expected.dtype, expected.item())
