"""Booleans, integers and narrower floats beside what is differentiated.

A derivative is computed in the precision of the operation's result: an argument of another dtype
counts as the same numbers in that precision, in every operation and by every path. The subjects
are discovered; see ``tests/conformance.py``.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.specs import spec_of
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad.tensor.tensor import apply, apply2
from tests.conformance import Case, direction, every_case, every_primitive, in_turn, representatives
from tests.together import together

PRIMITIVES = tuple(every_primitive())
BYTE = np.dtype(np.int8)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ------------------------------------------------------------------------------ two precisions


OTHER = {"e": "f", "f": "d", "d": "f", "F": "D", "D": "F"}


@together("primitive", [*PRIMITIVES, *every_primitive(several=True)])
def test_a_result_has_the_dtype_that_is_said_where_one_argument_has_another(primitive: Any) -> None:
    for case in islice(every_case([primitive]), 3):
        inexact = [k for k, x in enumerate(case.args) if getattr(x, "dtype", BYTE).kind in "fc"]
        for k in inexact if len(inexact) > 1 else ():
            args = list(case.args)
            args[k] = args[k].astype(OTHER[args[k].dtype.char])
            try:
                found = primitive.evaluate(*args, **case.sample.params)
            except (TypeError, ValueError):  # not defined for these dtypes
                continue
            told = primitive.result(*map(spec_of, args), **case.sample.params)
            dtypes = [
                [x.dtype for x in (each if isinstance(each, tuple) else (each,))]
                for each in (found, told)
            ]
            assert dtypes[0] == dtypes[1], (primitive, k, *dtypes)


# ---------------------------------------------------------------------------------- every dtype


def accepts(case: Case, k: int, other: Any) -> bool:
    """Whether an argument may be so, and the dtype of the result does not depend on it."""
    args = [other if j == k else x for j, x in enumerate(case.sample.args)]
    try:
        return bool(np.asarray(case.evaluate(*args)).dtype == case.value().dtype)
    except (KeyError, TypeError, ValueError):  # not defined for this dtype
        return False


def beside(case: Case) -> list[int]:
    """The arguments that may be of other dtypes while another one is differentiated."""
    return [
        k
        for k, x in enumerate(case.args)
        if np.asarray(x).dtype == np.float64
        and set(case.differentiable) - {k}
        and accepts(case, k, narrowed(x, BYTE))
    ]


def narrowed(x: Any, dtype: np.dtype[Any]) -> Any:
    """The numbers of an array as near as a dtype has them, its extremes among them."""
    array = np.array(x, np.float64)
    if dtype.kind in "iu":
        array = np.nan_to_num(array)
        bounds = np.iinfo(dtype)
        array = np.clip(np.rint(array), bounds.min, bounds.max)
        if array.size > 1:
            array.flat[0] = bounds.min if dtype.itemsize == 1 else 0
    return array.astype(dtype)[()]


def subjects() -> Iterator[tuple[Case, int]]:
    for case in representatives(every_case(PRIMITIVES)):
        args = case.sample.args
        if case.number > 1 and case.sample.smooth:
            continue  # other shapes of the same
        floats = all(np.asarray(x).dtype == np.float64 for x in case.point(case.differentiable))
        if floats and all(np.size(x) for x in args):
            for k in beside(case):
                yield case, k


SUBJECTS = list(subjects())
NAMES = [f"{case}-{k}" for case, k in SUBJECTS]


def quickly(primitive: Any, *args: Any, **params: Any) -> Any:
    """As NumPy's functions apply it: two arguments have a path of their own."""
    if len(args) == 2 and not params:
        return apply2(primitive, *args)
    return apply(primitive, *args, **params)


def derivatives(case: Case, k: int, beside: Any) -> dict[str, Callable[[], Any]]:
    """What computes, along each path, the derivatives in the arguments other than ``k``."""
    positions = [j for j in case.differentiable if j != k]
    args = list(case.sample.args)
    args[k] = beside
    point = tuple(np.asarray(args[j], np.float64) for j in positions)
    rng = np.random.default_rng(3)
    along = tuple(direction(rng, x) for x in point)
    ct = direction(rng, case.evaluate(*args))

    def of(*chosen: Any, beside: Any = beside, how: Any = quickly) -> Any:
        given = list(args)
        given[k] = beside
        for j, x in zip(positions, chosen, strict=True):
            given[j] = x
        return how(case.primitive, *given, **case.sample.params)

    def pulled(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *x: fg.vjp(f, *x)[1](ct)

    def staged(beside: Any, *x: Any) -> Any:
        return fg.vjp(lambda *x: of(*x, beside=beside), *x)[1](ct)

    return {
        "vjp": lambda: pulled(of)(*point),
        "vjp in general": lambda: pulled(lambda *x: of(*x, how=apply))(*point),
        "vjp of jit": lambda: pulled(fg.jit(of))(*point),
        "jit of vjp": lambda: fg.jit(staged)(beside, *point),
        "jvp": lambda: fg.jvp(of, point, along)[1],
        "linearize": lambda: fg.linearize(of, *point)[1](*along),
        "second order": lambda: fg.jvp(pulled(of), point, along)[1],
    }


def test_there_are_subjects() -> None:
    assert len({(case.primitive.name, k) for case, k in SUBJECTS}) > 40


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


@pytest.mark.slow
@together("number", range(len(SUBJECTS)), ids=NAMES, pieces=2)
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # SciPy is strict
def test_other_dtypes_count_as_their_numbers(number: int) -> None:
    """One of booleans, integers and floats, along a path; all take turns:
    what a rule does with a dtype it does on every path, and what a path does with a dtype it does
    to every rule."""
    case, k = SUBJECTS[number]
    tried = 0
    for turn, chars in enumerate(in_turn(("?", "bBl", "ef"), number, 2), start=number):
        kinds = map(np.dtype, in_turn(chars, number, len(chars)))
        others = [(dtype, narrowed(case.sample.args[k], dtype)) for dtype in kinds]
        for dtype, other in [each for each in others if accepts(case, k, each[1])][:1]:
            if tried:
                break
            tried += 1
            narrow = derivatives(case, k, other)
            wide = derivatives(case, k, np.asarray(other, np.float64)[()])
            for path in in_turn(list(narrow), turn, 1):
                eager = "vjp" if "jit" in path else path
                for own, meant in zip(listed(narrow[path]()), listed(wide[eager]()), strict=True):
                    assert_allclose(own, meant, rtol=1e-12, atol=1e-12, err_msg=f"{path}, {dtype}")
    assert tried


def of_two_numbers() -> Iterator[Case]:
    """The elementwise operations of two arguments, each at a sample."""
    for primitive in PRIMITIVES:
        if primitive.batch is batch_elementwise:
            cases = every_case([primitive])
            yield from islice((c for c in cases if len(c.differentiable) == 2 == len(c.args)), 1)


WAYS: dict[str, Callable[[Callable[..., Any], Any, Any], Any]] = {
    "jit of grad": lambda f, y, x: fg.jit(fg.grad(f, 1))(y, x),
    "jvp": lambda f, y, x: fg.jvp(lambda x: f(y, x), (x,), (1.0,))[1],
    "grad of jit": lambda f, y, x: fg.grad(fg.jit(f), 1)(y, x),
    "vmap": lambda f, y, x: fg.vmap(fg.grad(f, 1), in_axes=(None, 0))(y, np.full(2, x))[1],
}
BESIDE = [True, False, np.True_, np.uint8(1), np.int8(-128), np.array([True]), 3]


@pytest.mark.slow
@together("subject", [*enumerate(of_two_numbers())], ids=lambda subject: str(subject[1]))
def test_numbers_beside_a_scalar(subject: tuple[int, Case]) -> None:
    """The ways and the sides take turns over numbers and operations."""
    start, case = subject
    primitive = case.primitive
    for turn, number in enumerate(BESIDE, start):
        k = turn // len(WAYS) % 2
        sides = [lambda y, x: (x, y), lambda y, x: (y, x)]

        def of(y: Any, x: Any, k: int = k, sides: Any = sides) -> Any:
            return fnp.sum(quickly(primitive, *sides[k](y, x), **case.sample.params)).real

        expected = fg.grad(of, 1)(np.asarray(number, np.float64)[()], 1.5)
        assert_allclose(fg.grad(of, 1)(number, 1.5), expected, rtol=1e-13)
        (way,) = in_turn(list(WAYS), turn, 1)
        found, text = WAYS[way](of, number, 1.5), f"{way}, {number!r} on side {k}"
        assert_allclose(found, expected, rtol=1e-13, err_msg=text)


def test_examples() -> None:
    assert_allclose(fg.grad(lambda x: fnp.arctan2(np.uint8(1), x))(2.0), -0.2)
    image = np.array([3, 200], np.uint8)
    slope = fg.grad(lambda gamma: fnp.sum(image**gamma))(2.2)
    assert_allclose(slope, np.sum(image**2.2 * np.log(image.astype(float))), rtol=1e-14)
    assert_allclose(fg.grad(lambda x: x ** np.int8(-128))(1.0), -128.0)


def test_precision_of_the_result() -> None:
    x = np.float32(3.1)
    exact = fg.grad(lambda y: np.float64(x) ** y)(1.5)
    assert_allclose(fg.grad(lambda y: x**y)(np.float64(1.5)), exact, rtol=1e-15)
    assert_allclose(fg.grad(lambda y: y / x)(np.float64(1.5)), 1 / np.float64(x), rtol=1e-15)


@pytest.mark.parametrize("name", ["multiply", "divide", "power", "subtract"])
def test_narrow_complex_numbers_count_as_wide_ones(name: str) -> None:
    f, x = getattr(fnp, name), np.array([0.5 + 1j, -2.0 - 0.25j])
    narrow = np.array([1 - 2j, 0.5j], np.complex64)
    wide = narrow.astype(np.complex128)
    for of in (lambda other: lambda x: f(x, other), lambda other: lambda x: f(other, x)):
        expected = fg.jvp(of(wide), (x,), (x,))[1]
        found = {
            "jvp": fg.jvp(of(narrow), (x,), (x,))[1],
            "jvp in general": fg.jvp(fg.jit(of(narrow)), (x,), (x,))[1],
            "linearize": fg.linearize(of(narrow), x)[1](x),
        }
        for path, own in found.items():
            assert_allclose(own, expected, rtol=1e-14, err_msg=path)
        assert_allclose(fg.vjp(of(narrow), x)[1](x)[0], fg.vjp(of(wide), x)[1](x)[0], rtol=1e-14)


# ---------------------------------------------------------------------------------- booleans


def mapped(slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fg.vmap(slope)(fnp.stack([x, x]))[0]


PATHS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1],
    "linearize": lambda f: lambda x: fg.linearize(f, x)[1](1.0),
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "grad of program": lambda f: lambda x: fg.grad(fg.program(f)(1.0))(x),
    "grad of checkpoint": lambda f: fg.grad(fg.checkpoint(f)),
    "vmap of grad": lambda f: mapped(fg.grad(f)),
    "grad of vmap": lambda f: fg.grad(lambda x: fg.vmap(f)(fnp.stack([x, x]))[0]),
    "jacfwd": fg.jacfwd,
    "vjp": lambda f: lambda x: fg.vjp(f, x)[1](1.0)[0],
}

SINGULAR: dict[str, Callable[[Any], Any]] = {
    "log": fnp.log,
    "sqrt": fnp.sqrt,
    "1/x": lambda x: 1 / x,
}


def pairs() -> Iterator[Any]:
    for primitive in PRIMITIVES:
        if primitive.batch is not batch_elementwise:
            continue
        for case in every_case([primitive]):
            for k in case.differentiable:
                if len(case.args) == 2 and not case.sample.params:
                    yield primitive.name, k
    yield "where", 1
    yield "where", 2


BOOLEANS = sorted(set(pairs()))
TWICE = [path for path in PATHS if "grad" in path or path == "vjp"]
SITUATIONS = list(product(SINGULAR, (0.0, 1.0, np.inf)))


@pytest.mark.slow
@together("number", range(len(BOOLEANS)), ids=[f"{name}-{k}" for name, k in BOOLEANS], pieces=2)
def test_one_meaning_of_booleans_on_every_path(number: int) -> None:
    """Situations, paths and the two booleans take turns over the operations."""
    name, k = BOOLEANS[number]
    primitive = next(p for p in PRIMITIVES if p.name == name)
    for turn, (inner, x) in [*enumerate(SITUATIONS, start=number)][number % 3 :: 3]:
        condition = (turn + number // 2) % 2

        def f(x: Any, condition: int = condition, inner: Any = SINGULAR[inner]) -> Any:
            other = x > 0 if condition else x <= 0  # both are booleans of the traced value
            y = inner(x)
            if name == "where":
                return fnp.where(other, *((y, 0.0) if k == 1 else (0.0, y)))
            return apply2(primitive, *((y, other) if k == 0 else (other, y))).real

        try:
            expected = fg.grad(f)(x)
        except TypeError:  # not defined for booleans
            continue
        for path in in_turn(list(PATHS), turn, 1):
            assert_allclose(PATHS[path](f)(x), expected, rtol=1e-12, err_msg=f"{path} at {x}")
        expected = fg.grad(fg.grad(f))(x)
        for path in in_turn(TWICE, turn, 1):
            found, text = fg.grad(PATHS[path](f))(x), f"{path}, twice, {x}"
            assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=text)


def test_a_boolean_in_a_product_is_a_number() -> None:
    def product(x: Any) -> Any:
        return (x > 0) * fnp.log(x)  # of the value 0 * -inf at 0, which is NaN

    def choice(x: Any) -> Any:
        return fnp.where(x > 0, fnp.log(x), 0.0)

    paths: dict[str, Any] = {"grad": fg.grad, **PATHS}
    for path, of in paths.items():
        assert np.isnan(float(of(product)(0.0))), path
        assert_array_equal(of(choice)(0.0), 0.0)
        assert_array_equal(of(product)(2.0), 0.5)
