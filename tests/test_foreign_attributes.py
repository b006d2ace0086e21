"""Tensors have the attributes of arrays with NumPy's values, or errors that name a replacement.

No attribute writes to a tensor. The attributes of ``ndarray`` are discovered, and so are the
effects of its methods: NumPy itself shows which of the sample arguments a method takes, and whether
it changes the array.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from traceback import format_exception_only
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    FuncgradError,
    ImmutableAttributeError,
    ImmutableError,
    MissingAttributeError,
    MissingOptionError,
)
from funcgrad.tensor.array_attributes import AbsentAttributes
from tests.together import together

MATRIX = np.array([[3.5, 1.25, 2.0], [-6.0, 4.0, 5.0]])
CUBE = MATRIX.reshape(1, 2, 3)

ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (),
    (0,),
    (1,),
    (-1,),
    (None,),
    (0, 1),
    (1, 0),
    (2.0,),
    (0, 7.0),
    (0.5, 3.0),
    ([0, 1],),
    ([0, 1], 1),
    ([True, False], 0),
    ([1.0, 2.0, 3.0],),
    (np.float32,),
    (np.int64,),
    ("F",),
    ("cpu",),
    (3, 2),
    ((3, 2),),
    (6,),
    (True,),
    (np.ones((3, 2)),),
    (np.zeros((2, 3)), np.float64),
    (np.float32, 0),
)
NAMED: tuple[dict[str, Any], ...] = (
    {},
    {"axis": 1},
    {"axis": (0, 1)},
    {"keepdims": True},
    {"ddof": 1},
    {"dtype": np.float32},
    {"order": "F"},
    {"inplace": True},
    {"write": True},
    {"refcheck": False},
)


def changes(before: np.ndarray, after: np.ndarray) -> bool:
    return (before.shape, before.dtype) != (after.shape, after.dtype) or not np.array_equal(
        before, after
    )


def uses(name: str) -> Iterator[Callable[[Any], Any]]:
    """Ways to use an attribute."""
    if not callable(getattr(np.ndarray, name)):
        yield lambda x: getattr(x, name)
        return
    for args in ARGUMENTS:
        for named in NAMED:
            yield partial(method, name, args, named)


def method(name: str, args: Any, named: Any, x: Any) -> Any:
    return getattr(x, name)(*args, **named)


def outcome(use: Callable[[Any], Any], x: Any) -> Any:
    """The result of a use, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(use(x))
        except Exception as error:  # NumPy raises all kinds for what it does not take
            return error


def plain(x: Any) -> Any:
    """The numbers of a result."""
    if isinstance(x, (tuple, list)):
        return [plain(each) for each in x]
    return list(x) if isinstance(x, np.flatiter) else x


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        found = list(found)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)
    else:
        assert found == expected


# NumPy 2.0 names what it has no more; other versions have names for themselves, as ``_set_dtype``.
PUBLIC = {name for name in dir(MATRIX) if name[0] != "_" and hasattr(MATRIX, name)}


@together("name", sorted(PUBLIC))
def test_attributes_of_arrays_are_numpys_or_say_what_to_write(name: str) -> None:
    if not hasattr(fg.tensor(MATRIX), name):
        with pytest.raises(MissingAttributeError, match=rf"^Tensors have no {name}: "):
            getattr(fg.tensor(MATRIX), name)
        return
    compared = 0
    for x in (MATRIX, CUBE, MATRIX[0]):
        t = fg.tensor(x)
        for use in uses(name):
            array = x.copy()
            expected = outcome(use, array)
            found = outcome(use, t)
            if isinstance(expected, Exception):
                continue
            compared += 1
            if changes(x, array):
                assert isinstance(found, ImmutableError)
            elif isinstance(found, TypeError) and not isinstance(found, FuncgradError):
                assert "argument" in str(found)  # it lacks a parameter
            elif not isinstance(found, FuncgradError) and name != "flags":
                assert_same(found, expected)
        np.testing.assert_array_equal(t, x)
    assert compared


@together("transform", [fg.grad, fg.jit, fg.vmap])
@together("name", ["sort", "fill", "put", "partition", "resize", "setfield"])
def test_traced_values_are_not_written_to_either(name: str, transform: Any) -> None:
    def f(x: Any) -> Any:
        getattr(x, name)(1)
        return x.sum()

    with pytest.raises(ImmutableError, match=rf"^t\.{name}\(\) would write to t, .*never change: "):
        transform(f)(np.ones((2, 3)))


@together(
    ("name", "words"),
    [
        ("shape", "t = t.reshape(shape)"),
        ("dtype", "t = t.astype(dtype)"),
        ("T", "t = value.T"),
        ("mT", "t = value.mT"),
        ("real", "t = value + 1j * t.imag"),
        ("imag", "t = t.real + 1j * value"),
        ("flat", "t = fnp.broadcast_to(value, t.shape)"),
        ("strides", "Make another one"),
        ("size", "Make another one"),
        ("at", "Make another one"),
    ],
)
def test_assignment_says_what_to_write(name: str, words: str) -> None:
    def assign(x: Any) -> Any:
        with pytest.raises(ImmutableAttributeError) as caught:
            setattr(x, name, 1.0)
        assert f"t.{name} = ..." in str(caught.value)
        assert words in str(caught.value)
        return x

    t = fg.tensor(MATRIX)
    assign(t)
    fg.vjp(assign, t)
    fg.jvp(assign, (t,), (t,))
    fg.vmap(assign)(t)
    fg.program(assign)(t)
    np.testing.assert_array_equal(t, MATRIX)


def test_the_median_by_sorting_a_copy_is_no_silent_mistake() -> None:
    def median(v: Any) -> Any:
        v = v.copy()
        v.sort()
        return v[len(v) // 2]

    with pytest.raises(ImmutableError, match=r"Write|t = fnp\.sort\(t, axis\)"):
        fg.grad(median)(np.array([3.0, 1.0, 2.0]))


# ------------------------------------------------------------------ habits of other libraries


@together(
    ("use", "words"),
    [
        (lambda t: t.backward(), "fg.value_and_grad(loss)(params)"),
        (lambda t: t.grad, "fg.grad(loss)(params)"),
        (lambda t: t.grad.zero_(), "nothing accumulates"),
        (lambda t: t.requires_grad, "fg.grad(f, argnums=...)"),
        (lambda t: t.requires_grad_(), "fg.grad(f, argnums=...)"),
        (lambda t: t.detach(), "fg.stop_gradient(t)"),
        (lambda t: t.numpy(), "np.asarray(t)"),
        (lambda t: t.cpu(), "main memory"),
        (lambda t: t.cuda(), "main memory"),
        (lambda t: t.to("cuda"), "main memory"),
        (lambda t: t.data, "np.asarray(t).data"),
        (lambda t: t.unsqueeze(0), "fnp.expand_dims(t, axis)"),
        (lambda t: t.permute(0, 1), "t.transpose(axes)"),
        (lambda t: t.view(-1), "t.reshape(shape)"),
        (lambda t: t.exp(), "fnp.exp(t)"),
        (lambda t: t.softmax(-1), "fg.nn.softmax(t)"),
        (lambda t: t.block_until_ready(), "leave it out"),
    ],
)
def test_what_other_libraries_have_says_what_to_write(use: Any, words: str) -> None:
    for transform in (lambda f: f, fg.grad, fg.jit):
        with pytest.raises(MissingAttributeError) as caught:
            transform(use)(fg.tensor(2.0))
        assert isinstance(caught.value, AttributeError)
        assert words in str(caught.value)
        (shown,) = format_exception_only(caught.value)  # without a guess of Python's
        assert shown.endswith(f"{caught.value}\n")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (
            {"requires_grad": True},
            r"requires_grad: the call selects the arguments to differentiate: fg\.grad\(f",
        ),
        ({"device": "cuda"}, "no option device: tensors are in main memory"),
        ({"copy": True}, "no option copy: .* leave it out"),
        ({"ndmin": 2}, r"no option ndmin: fnp\.array\(x, ndmin"),
        ({"dtpye": "float32"}, "no option dtpye: dtype= is one"),
    ],
)
def test_options_of_other_libraries_say_what_to_write(option: dict[str, Any], words: str) -> None:
    with pytest.raises(MissingOptionError, match=words) as caught:
        fg.tensor([1.0], **option)
    assert isinstance(caught.value, TypeError)


@together("name", "zero_ add_ sub_ mul_ div_ copy_ fill_".split())
def test_methods_that_write_elsewhere_refuse(name: str) -> None:
    with pytest.raises(ImmutableError, match=rf"^t\.{name}\(\) would write to t, .*: t = "):
        getattr(fg.tensor(MATRIX), name)(fg.tensor(1.0))


def test_what_is_not_there_is_not_listed() -> None:
    t = fg.tensor(MATRIX)
    for name in ("backward", "grad", "numpy", "sort", "zero_", "data"):
        assert name not in dir(t)
    for name in ("sum", "reshape", "at", "T", "shape"):
        assert name in dir(t)
    assert all(hasattr(t, name) for name in dir(t))


def test_advice_is_right() -> None:
    """Check that the names of ours that a text mentions exist."""
    places = {"fg": fg, "fnp": fnp, "np": np}
    found = set()
    for words in advice():
        for place, name in re.findall(r"\b(fg|fnp|np)\.(\w+)", words):
            found.add(name)
            assert hasattr(places[place], name), words
    assert len(found) > 20


def advice() -> Iterator[str]:
    t: Any = fg.tensor(MATRIX)
    for name in sorted(set(dir(type(t))) | set(vars(AbsentAttributes))):
        try:
            value = getattr(t, name)
        except MissingAttributeError as error:
            yield str(error)
        else:
            yield getattr(value, "__doc__", None) or ""


def test_what_has_no_axes_has_no_length_and_no_elements() -> None:
    t = fg.tensor(1.0)
    assert not np.iterable(t)
    for use in (len, iter, list):
        with pytest.raises(TypeError, match="without axes"):
            use(t)
        with pytest.raises(TypeError, match="without axes"):
            fg.grad(lambda x, use=use: use(x))(1.0)
