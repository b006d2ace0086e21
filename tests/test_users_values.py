"""Conversion of users' arguments to values: copying and sharing, and the texts of errors."""

import array
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.users_values import (
    checked_dtype,
    described,
    explained,
    first_tensor,
    freeze,
    is_frozen,
    is_weak,
    operand,
    read_only,
)
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, LeafError, ShapeError
from tests.together import together

# --------------------------------------------------------------------------------- operand


@together("x", [True, 2, 2.5, 1j, np.float32(1.5), np.int8(3), np.bool_(True)])
def test_numbers_are_values_as_they_are(x: Any) -> None:
    assert operand(x, "add") is x


def test_tensors_are_values_as_they_are() -> None:
    x = fg.tensor([1.0])
    assert operand(x, "add") is x


def test_an_array_that_can_be_written_to_is_copied() -> None:
    x = np.ones(3)
    value = operand(x, "add")
    x[0] = 5.0
    np.testing.assert_array_equal(value, np.ones(3))


def test_lists_and_objects_that_convert_become_arrays() -> None:
    class Converts:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    class MyFloat(float):
        pass

    np.testing.assert_array_equal(operand([[1, 2], (3, 4)], "add"), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(operand(Converts(), "add"), np.arange(3.0))
    assert operand(MyFloat(2.5), "add") == 2.5
    assert type(operand(np.ma.masked_array([1.0, 2.0]), "add")) is np.ndarray


def test_a_mask_is_not_lost() -> None:
    with pytest.raises(LeafError, match=r"mean: got a masked array, .*filled"):
        fnp.mean(np.ma.masked_array([1.0, 2.0], [True, False]))


@together(
    ("x", "kind", "reason"),
    [
        ("text", LeafError, "add: expected an array or a number, got 'text' of type str."),
        (b"bytes", LeafError, "add: expected an array or a number, got b'bytes' of type bytes."),
        (None, LeafError, "got None of type NoneType"),
        ({1, 2}, LeafError, "of type set"),
        ({"a": 1}, LeafError, "of type dict"),
        (Decimal(1), LeafError, "of type Decimal"),
        (Fraction(1, 2), LeafError, "of type Fraction"),
        ([fg.tensor(1.0), "a"], LeafError, "got 'a' of type str"),
        ([fg.tensor(1.0), [2.0, 3.0]], ShapeError, "stack"),
        ([1, [2, 3]], ShapeError, "add: [1, [2, 3]] does not form an array"),
        (["a"], DtypeError, "add: the dtype <U1 is not supported"),
        (np.array(["2020-01-01"], "M8[D]"), DtypeError, "add: the dtype datetime64[D]"),
        (np.array([object()]), DtypeError, "add: the dtype object"),
        (np.longdouble(1), DtypeError, "add: the dtype"),
        (np.zeros(2, [("x", float)]), DtypeError, "is not supported. Tensors are of bool"),
        ([2**70], DtypeError, "add: the dtype object"),
    ],
)
def test_what_is_no_array_is_refused(x: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind) as caught:
        operand(x, "add")
    assert reason in str(caught.value)


def test_long_reprs_are_cut() -> None:
    with pytest.raises(LeafError) as caught:
        operand("x" * 1000, "add")
    assert len(str(caught.value)) < 200


ONE = fg.tensor(1)


@together(
    ("x", "expected"),
    [([1, 2], None), ([2, ONE], ONE), (([1], [[ONE]]), ONE), (1, None), (ONE, ONE), ([[]], None)],
)
def test_first_tensor(x: Any, expected: Any) -> None:
    assert first_tensor(x) is expected


def test_lists_of_tensors_are_arrays_also_where_they_are_traced() -> None:
    def f(x: Any) -> Any:
        return fnp.sum([[x, 2.0], (x * x, 3.0)]) + fnp.mean([x, x])

    assert f(3.0) == f(fg.tensor(3.0)).item() == 20.0
    for g in (fg.grad(f), fg.jit(fg.grad(f)), fg.grad(fg.jit(f))):
        assert g(3.0).item() == 8.0
    np.testing.assert_array_equal(fg.vmap(fg.grad(f))(np.array([3.0, 1.0])), [8.0, 4.0])
    np.testing.assert_array_equal(fg.tensor([1.0, 2.0]) * [1.0, ONE], [1.0, 2.0])


# --------------------------------------------------------------------------------- frozen arrays


@together("char", "?bhilqBHILQefdFD")
@together("shape", [(), (0,), (3,), (2, 0), (2, 3)])
def test_a_read_only_view_cannot_be_made_writable(char: str, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, char)
    view = read_only(x)
    assert (view.dtype, view.shape) == (x.dtype, shape)
    np.testing.assert_array_equal(view, x)
    assert np.shares_memory(view, x) or not x.size
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    base: Any = view.base
    while base is not None:
        if isinstance(base, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                base.setflags(write=True)
        elif isinstance(base, memoryview):
            assert base.readonly
        base = getattr(base, "base", None)


@pytest.mark.parametrize(
    "view",
    [lambda x: x.T, lambda x: x[::-2, 1:], lambda x: np.broadcast_to(x, (2, 4, 6)), lambda x: x[0]],
)
def test_views_of_any_strides(view: Any) -> None:
    x = view(np.arange(24.0).reshape(4, 6))
    np.testing.assert_array_equal(read_only(x), x)
    assert is_frozen(read_only(x))


def test_what_counts_as_frozen() -> None:
    writable = np.ones(3)
    flagged = np.ones(3)
    flagged.flags.writeable = False
    over_flagged = flagged[:2]
    ours = np.asarray(fg.tensor([1.0, 2.0]))
    assert not is_frozen(writable)
    assert not is_frozen(flagged)  # the flag can be lifted again
    assert not is_frozen(over_flagged)
    assert not is_frozen(np.frombuffer(bytearray(8)))
    assert not is_frozen(np.frombuffer(memoryview(bytearray(8)).toreadonly()))
    assert is_frozen(ours)
    assert is_frozen(ours[::-1])
    assert is_frozen(np.asarray(memoryview(ours)))  # type: ignore[arg-type]
    assert is_frozen(np.frombuffer(memoryview(bytes(8))))
    assert is_frozen(np.frombuffer(bytes(8)))
    assert freeze(ours) is ours
    assert freeze(writable) is not writable


# --------------------------------------------------------------------------------- dtypes, words


@together("char", "?bhilqBHILQefdFD")
def test_dtypes_of_tensors(char: str) -> None:
    assert checked_dtype(char, "zeros") == np.dtype(char)


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("no such", "zeros: 'no such' is not a dtype"),
        (object, "zeros: the dtype object is not supported"),
        (str, "zeros: the dtype <U0 is not supported"),
        (np.longdouble, "is not supported"),
        (3, "zeros: 3 is not a dtype"),
    ],
)
def test_other_dtypes_are_refused(dtype: Any, reason: str) -> None:
    with pytest.raises(DtypeError) as caught:
        checked_dtype(dtype, "zeros")
    assert reason in str(caught.value)


def test_numpy_s_complaints_are_explained() -> None:
    error = explained(ValueError("shapes do not fit"), "dot", np.ones((2, 3)), 1.0, axis=(0,))
    assert type(error) is ShapeError
    assert str(error) == (
        "dot(float64[2,3], float64[]; axis=(0,)): the arguments do not fit: shapes do not fit"
    )
    assert type(explained(TypeError("no"), "dot", True)) is DtypeError
    assert type(explained(ValueError("negative powers"), "power", 1)) is ArgumentError
    with pytest.raises(FuncgradError, match="ours"):  # an error must not cause itself
        explained(FuncgradError("ours"), "dot")


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x, y: np.add(x, y), "counted from the last axis, sizes have to be equal or 1."),
        (
            lambda x, y: np.broadcast_to(x, y.shape),
            "the shapes do not broadcast: counted from the last axis",
        ),
        (lambda x, y: np.matmul(x, y), "second-to-last (or only) axis of the second"),
        (lambda x, y: np.matmul(x, 1.0), "an argument has no axis to sum over."),
    ],
)
def test_numpy_s_words_for_shapes_are_replaced(f: Any, words: str) -> None:
    x, y = np.ones((97, 3)), np.ones((2, 4))
    with pytest.raises(ValueError, match=r".") as caught:
        f(x, y)
    text = str(explained(caught.value, "f", np.ones(3), y))
    assert text.startswith("f(float64[3], float64[2,4]): the arguments do not fit: ")
    assert words in text
    assert "97" not in text


# --------------------------------------------------------------------------------- kinds of values


def test_python_numbers_are_weak_and_so_are_their_tracers() -> None:
    assert all(is_weak(x) for x in (True, 2, 2.5, 1j))
    assert not any(is_weak(x) for x in (np.float64(2.5), np.array(2.5), fg.tensor(2.5)))
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(is_weak(x))
        return x

    for transform in (fg.grad, fg.program):
        transform(f)(2.5)
        transform(f)(np.float64(2.5))
    fg.vmap(f)(np.ones(2))
    assert seen == [True, False, True, False, False]


def test_objects_are_described_in_the_user_s_words() -> None:
    assert described(None) == "NoneType"
    assert described([1, 2]) == "a list of 2"
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(described(x))
        return fnp.sum(x)

    fg.vmap(fg.grad(f))(np.ones((2, 3)))
    assert seen == ["a tensor of shape (3,)"]


BUFFERS: dict[str, Callable[[], Any]] = {
    "array": lambda: array.array("d", [1.0, 2.0]),
    "array of integers": lambda: array.array("q", [1, 2**62]),
    "memoryview": lambda: memoryview(np.array([1.0, 2.0]).data),
    "memoryview of bytes": lambda: memoryview(b"ab"),
    "rows": lambda: memoryview(np.arange(6.0).reshape(2, 3).data),
    "range": lambda: range(1, 3),
}


@together("name", BUFFERS)
def test_what_numpy_reads_is_an_array(name: str) -> None:
    make = BUFFERS[name]
    expected = np.array(make())
    for read in (fg.tensor, fnp.asarray, fnp.array, lambda x: fg.jit(lambda y: y)(x)):
        found = read(make())
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(fnp.sum(make()), np.sum(expected))
    np.testing.assert_array_equal(fg.tensor(expected) + make(), expected + expected)


def test_numbers_in_a_buffer_are_those_of_the_call() -> None:
    numbers = array.array("d", [1.0, 2.0])
    found = fg.tensor(numbers), fg.tensor(memoryview(numbers))
    numbers[0] = 9.0
    assert [x.tolist() for x in found] == [[1.0, 2.0], [1.0, 2.0]]
    assert fg.tensor([5.0, 6.0, 7.0])[range(0, 3, 2)].tolist() == [5.0, 7.0]
