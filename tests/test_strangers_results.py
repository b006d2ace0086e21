"""Users' operations may return values that tensors hold; others raise an error that names it."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad.errors import DtypeError, LeafError
from tests.together import together

Function = Callable[[Any], Any]
X = np.linspace(0.5, 2.0, 4)


def halved(x: float) -> float:
    return x / 2


def declared(evaluate: Function, name: str = "halved") -> extend.Primitive:
    return extend.elementwise(name, evaluate, partials=(lambda y, x: 0.5,))


REFUSED: dict[str, tuple[Function, type[Exception], str]] = {
    "objects": (lambda x: np.asarray(x).astype(object), DtypeError, "dtype object"),
    "by a part of frompyfunc": (
        lambda x: np.frompyfunc(halved, 1, 1)(np.asarray(x)),
        DtypeError,
        r"np\.vectorize\(function, otypes=\[np\.float64\]\)",
    ),
    "by a partial": (partial(np.frompyfunc(halved, 1, 1)), DtypeError, r"\.astype\(np\.float64\)"),
    "by vectorize": (np.vectorize(halved, otypes=[object]), DtypeError, "dtype object"),
    "texts": (lambda x: np.asarray(x).astype(str), DtypeError, "numbers that encode the texts"),
    "bytes": (lambda x: np.asarray(x).astype("S8"), DtypeError, "numbers that encode the texts"),
    "moments": (lambda x: np.asarray(x).astype("M8[s]"), DtypeError, r"astype\(np\.int64\)"),
    "times": (lambda x: np.asarray(x).astype("m8[s]"), DtypeError, r"astype\(np\.int64\)"),
    "fields": (lambda x: np.zeros(np.shape(x), [("a", float)]), DtypeError, "as several results"),
    "an object": (lambda x: Decimal(1), LeafError, r"Decimal\('1'\) of type Decimal"),
    "nothing": (lambda x: None, LeafError, "None of type NoneType"),
    "a list": (lambda x: [1.0, 2.0], LeafError, r"as from np\.asarray"),
    "a text": (lambda x: "1.0", LeafError, "of type str"),
    "masked": (lambda x: np.ma.masked_less(x, 1.0), LeafError, "of type MaskedArray"),
    "a scalar text": (lambda x: np.str_("x"), DtypeError, "texts"),
}
if np.dtype(np.longdouble).itemsize > 8:
    REFUSED["long"] = (
        lambda x: np.asarray(x).astype(np.longdouble),
        DtypeError,
        r"Append \.astype\(np\.float64\)",
    )
    REFUSED["long complex"] = (
        lambda x: np.asarray(x).astype(np.clongdouble),
        DtypeError,
        r"Append \.astype\(np\.complex128\)",
    )
    REFUSED["a long scalar"] = (lambda x: np.longdouble(1.0), DtypeError, r"np\.float64")

WAYS: dict[str, Callable[[Function], Function]] = {
    "eagerly": lambda f: f,
    "grad": lambda f: fg.grad(lambda x: fnp.sum(f(x))),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "vmap": fg.vmap,
    "jit": fg.jit,
    "jit of grad": lambda f: fg.jit(fg.grad(lambda x: fnp.sum(f(x)))),
    "hessian": lambda f: fg.hessian(lambda x: fnp.sum(f(x))),
    "scan": lambda f: lambda x: fg.scan(lambda c, row: (f(c), row), x, x),
    "while": lambda f: lambda x: fg.while_loop(lambda x: fnp.sum(x) > 0.1, f, x),
    "cond": lambda f: lambda x: fg.cond(x[0] > 0, f, f, x),
    "checkpoint": lambda f: fg.grad(lambda x: fnp.sum(fg.checkpoint(f)(x))),
    "program": lambda f: lambda x: fg.program(f)(x),
}


@together("way", WAYS.values(), ids=WAYS)
@together(("evaluate", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_what_no_tensor_holds_is_refused(
    evaluate: Function, kind: type[Exception], words: str, way: Callable[[Function], Function]
) -> None:
    operation = declared(evaluate)
    for x in (X, fg.tensor(X)):
        with pytest.raises(kind, match=rf"^(\w+: )?halved: .*{words}"):
            way(lambda x: extend.apply(operation, x))(x)


def test_a_ufunc_of_python_objects_is_refused_where_it_is_declared() -> None:
    with pytest.raises(DtypeError, match=r"halved: evaluate .* object.*np\.vectorize\(function, "):
        declared(np.frompyfunc(halved, 1, 1))
    pair = np.frompyfunc(lambda x: (x, x), 1, 2)
    with pytest.raises(DtypeError, match="dtype object"):
        declared(pair)
    with pytest.raises(DtypeError, match="dtype object"):
        replace(declared(halved), evaluate=pair)


@pytest.mark.parametrize(
    "evaluate",
    [
        np.vectorize(halved, otypes=[np.float64]),
        lambda x: np.frompyfunc(halved, 1, 1)(np.asarray(x, float)).astype(np.float64),
    ],
)
def test_the_remedies_that_the_error_names_are_some(evaluate: Function) -> None:
    operation = declared(lambda x: np.asarray(evaluate(x)))

    def f(x: Any) -> Any:
        return extend.apply(operation, x)

    for g in (f, fg.jit(f), fg.vmap(f), fg.jit(fg.vmap(f))):
        assert_array_equal(g(X), X / 2)
    for g in (fg.grad(lambda x: fnp.sum(f(x))), fg.jit(fg.grad(lambda x: fnp.sum(f(x))))):
        assert_array_equal(g(X), np.full(4, 0.5))


def test_a_result_of_several_is_named_likewise() -> None:
    operation = extend.Primitive(
        "parted",
        lambda x: (x, np.asarray(x).astype(object)),
        lambda x: (x, x),
        extend.DISCRETE,
        lambda primitive, size, args, batched, params: primitive(*args),
    )
    for f in (lambda g: g, fg.jit, fg.vmap):
        with pytest.raises(DtypeError, match="parted: evaluate returned an array of dtype object"):
            f(lambda x: extend.apply_several(operation, x))(X)


def test_a_dtype_that_the_rule_for_the_result_says_is_refused() -> None:
    operation = extend.Primitive(
        "timed",
        np.asarray,
        lambda x: extend.Spec(x.shape, np.dtype("M8[s]")),
        extend.DISCRETE,
        lambda primitive, size, args, batched, params: primitive(*args),
    )
    with pytest.raises(DtypeError, match=r"timed: the result is an array of dtype datetime64\[s\]"):
        fg.jit(lambda x: fg.scan(lambda c, _: (extend.apply(operation, c), None), x, x))(X)


def test_evaluate_may_be_written_with_tensors() -> None:
    operation = declared(lambda x: fnp.multiply(x, 0.5))

    def f(x: Any) -> Any:
        return extend.apply(operation, x)

    for g in (f, fg.jit(f), fg.vmap(f)):
        assert type(g(X)) is fg.Tensor
        assert_array_equal(g(X), X / 2)
    assert_allclose(fg.jit(fg.grad(lambda x: fnp.sum(f(x) * x)))(X), X)


def test_a_formula_is_still_written_out() -> None:
    operation = extend.elementwise(
        "gentle", formula=lambda m, x: m.tanh(x) * 2.0, partials=(lambda y, x: 2.0 - y * y / 2,)
    )
    source = fg.program(lambda x: extend.apply(operation, x))(X).to_numpy_source()
    assert "tanh(x)" in source
    assert "gentle" not in source
