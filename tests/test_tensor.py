"""Tensor: an immutable array value that behaves as NumPy's arrays do."""

import copy
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    FuncgradError,
    ImmutableError,
    IndexKindError,
    LeafError,
    RangeError,
    ScalarError,
    ShapeError,
)
from tests.together import together

DTYPES = "?bhilBHILefdFD"
pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")

BINARY = {
    name: getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge"
    ).split()
}
BINARY["divmod"] = divmod


def array(char: str) -> np.ndarray[Any, Any]:
    x = np.array([1, 0, 2, 3, 1])
    return (x + 1j * x[::-1]).astype(char) if char in "FD" else x.astype(char)


def outcome(f: Any, *args: Any) -> Any:
    """The result of a function, or the fact that it fails as for wrong types or values."""
    try:
        return f(*args)
    except (TypeError, ValueError, OverflowError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError


def assert_equal(actual: Any, expected: Any) -> None:
    """Check values, shape and dtype against NumPy's, or that both fail in the same way."""
    if isinstance(expected, type):
        assert actual is expected
        return
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        for own, other in zip(actual, expected, strict=True):
            assert_equal(own, other)
        return
    assert type(actual) is fg.Tensor
    assert (actual.dtype, actual.shape) == (np.asarray(expected).dtype, np.shape(expected))
    assert_array_equal(np.asarray(actual), expected)


# --------------------------------------------------------------------------------- making


@together("char", DTYPES)
def test_tensor_of_arrays_keeps_dtype_and_values(char: str) -> None:
    for x in (array(char), array(char)[0], array(char)[0][()], array(char)[::-2], array(char)[:0]):
        assert_equal(fg.tensor(x), x)
        assert_equal(fg.tensor(fg.tensor(x)), x)


def test_tensor_of_numbers_and_lists_has_numpy_s_default_dtype() -> None:
    examples: tuple[Any, ...] = (True, 2, 2.5, 1j, 2**63, [1, 2], [[1.0], [2]], (), [[]], [True])
    for x in examples:
        assert_equal(fg.tensor(x), np.array(x))


@together("source", DTYPES)
@together("target", DTYPES)
def test_dtype_converts(source: str, target: str) -> None:
    x = array(source)
    expected = (x.real if source in "FD" and target not in "FD?" else x).astype(target)
    assert_equal(fg.tensor(x, dtype=target), expected)
    assert_equal(fg.tensor(x).astype(target), expected)


def test_nested_lists_of_tensors() -> None:
    one = fg.tensor(1.0)
    assert_equal(fg.tensor([[one, 2], (3, one * 4)]), np.array([[1.0, 2], [3, 4]]))
    assert_equal(fg.tensor([one, 2], dtype="f"), np.array([1, 2], np.float32))
    grad = fg.grad(lambda x: fnp.sum(fg.tensor([[x, 1.0], [x * x, 2.0]])))(3.0)
    assert_equal(grad, np.float64(7.0))


@together(
    ("args", "kind", "reason"),
    [
        (("text",), LeafError, "tensor: expected an array or a number, got 'text'"),
        ((None,), LeafError, "tensor: expected an array or a number, got None"),
        ((["a"],), DtypeError, "tensor: the dtype <U1 is not supported"),
        ((2**70,), RangeError, "has more than 64 bits"),
        ((1.0, "no such"), DtypeError, "tensor: 'no such' is not a dtype"),
        ((1.0, object), DtypeError, "tensor: the dtype object is not supported"),
        (([1, [2]],), ShapeError, "tensor: [1, [2]] does not form an array"),
    ],
)
def test_what_makes_no_tensor_is_refused(args: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind) as caught:
        fg.tensor(*args)
    assert reason in str(caught.value)


def test_the_class_is_not_called() -> None:
    with pytest.raises(ImmutableError, match=r"made with fg\.tensor\(values\)"):
        fg.Tensor([1.0])


# --------------------------------------------------------------------------------- attributes


def test_attributes() -> None:
    x = np.arange(24, dtype="f").reshape(2, 3, 4)
    t = fg.tensor(x)
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(t, name) == getattr(x, name)
    assert t.device == "cpu"
    assert_equal(t.T, x.T)
    assert_equal(t.mT, np.swapaxes(x, -1, -2))
    assert_equal(t.real, x)
    assert_equal(fg.tensor([1 + 2j]).imag, np.array([2.0]))
    assert np.shares_memory(np.asarray(t.T), np.asarray(t))
    with pytest.raises(ShapeError, match=r"mT needs at least two axes; the shape is \(3,\)"):
        _ = fg.tensor(np.ones(3)).mT
    with pytest.raises(AttributeError):
        t.shape = (4,)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        t.anything = 1  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------- operators


@together("name", BINARY)
@together("other", [None, "text", object(), {1}, b"x", {}], ids=lambda other: type(other).__name__)
def test_unsupported_objects_are_a_type_error(name: str, other: Any) -> None:
    if name in ("eq", "ne"):
        assert BINARY[name](fg.tensor([1.0]), other) is (name == "ne")
        return
    for args in ((fg.tensor([1]), other), (other, fg.tensor([1]))):
        if name in ("mod", "mul") and any(isinstance(arg, (str, bytes)) for arg in args):
            continue  # text is formatted and repeated
        with pytest.raises(TypeError):
            BINARY[name](*args)


def test_other_classes_may_know_what_to_do() -> None:
    class Other:
        def __radd__(self, other):
            return "reflected"

        def __lt__(self, other):
            return "less"

    assert fg.tensor(1.0) + Other() == "reflected"
    assert (fg.tensor(1.0) > Other()) == "less"


def test_shapes_broadcast_or_are_refused_by_name() -> None:
    x, y = np.ones((2, 1, 3)), np.ones((4, 1))
    assert_equal(fg.tensor(x) + y, x + y)
    with pytest.raises(ShapeError, match=r"^add\(float64\[2\], float64\[3\]\): .*broadcast"):
        fg.tensor([1.0, 2.0]) + np.ones(3)
    with pytest.raises(ShapeError, match=r"^matmul\(float64\[2\], float64\[3\]\): .*equally long"):
        fg.tensor([1.0, 2.0]) @ np.ones(3)


def test_operations_without_meaning_for_a_dtype_are_refused_by_name() -> None:
    with pytest.raises(DtypeError, match=r"^bitwise_and\(float64\[2\], int64\[\]\): .*dtypes"):
        fg.tensor([1.0, 2.0]) & 1
    with pytest.raises(DtypeError, match=r"^negative\(bool\[1\]\)"):
        -fg.tensor([True])
    with pytest.raises(ArgumentError, match="Integers to negative integer powers"):
        fg.tensor([2]) ** fg.tensor([-1])


def test_augmented_assignment_binds_a_new_tensor() -> None:
    x = y = fg.tensor([1.0, 2.0])
    x += 1
    x *= 2
    assert_equal(x, np.array([4.0, 6.0]))
    assert_equal(y, np.array([1.0, 2.0]))


# --------------------------------------------------------------------------------- elements


def test_tensors_as_indices() -> None:
    x = np.arange(12.0).reshape(3, 4)
    assert_equal(fg.tensor(x)[fg.tensor([2, 0])], x[[2, 0]])
    assert_equal(fg.tensor(x)[fg.tensor(1), fg.tensor([0, 3])], x[1, [0, 3]])
    assert_equal(fg.tensor(x)[fg.tensor(x) > 5], x[x > 5])
    assert_array_equal(x[fg.tensor(1)], x[1])
    assert ["a", "b"][fg.tensor(1)] == "b"


@together(
    ("key", "kind", "reason"),
    [
        (3, IndexError, "The index 3 is out of bounds for axis 0, of size 3"),
        ((0, -5), IndexError, "The index -5 is out of bounds for axis 1, of size 4"),
        ([0, 9], IndexError, "The index 9 is out of bounds for axis 0, of size 3"),
        ((0, 0, 0), IndexError, "Too many indices: 3 for a tensor of the shape (3, 4)"),
        ("text", IndexKindError, "indexing: expected an array or a number, got 'text'"),
        (1.5, DtypeError, "Indices have to be integers or booleans, not float64"),
        (np.ones(5, bool), ShapeError, "A boolean mask of the shape (5,) does not fit"),
        (([0, 1], [0, 1, 2]), ShapeError, "with arrays of the shapes [(2,), (3,)]: shape mismatch"),
    ],
)
def test_bad_indices_are_refused(key: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind) as caught:
        fg.tensor(np.ones((3, 4)))[key]
    assert reason in str(caught.value)
    assert isinstance(caught.value, FuncgradError)


def test_iteration_length_and_membership() -> None:
    x = np.arange(6.0).reshape(3, 2)
    t = fg.tensor(x)
    assert len(t) == 3
    for own, other in zip(t, x, strict=True):
        assert_equal(own, other)
    assert_equal(tuple(reversed(t)), tuple(x[::-1]))
    assert [float(v) for v in t[0]] == [0.0, 1.0]
    assert 5.0 in t
    assert 7.0 not in t
    assert "text" not in t
    assert list(fg.tensor(np.ones((0, 2)))) == []


def test_0d_tensors_have_no_length_and_no_elements() -> None:
    t = fg.tensor(1.0)
    with pytest.raises(ShapeError, match=r"A tensor without axes .* has no len"):
        len(t)
    with pytest.raises(ShapeError, match="cannot be iterated over"):
        iter(t)
    with pytest.raises(IndexError):
        t[0]


# --------------------------------------------------------------------------------- writing


def test_nothing_writes() -> None:
    t = fg.tensor([1.0, 2.0])
    with pytest.raises(ImmutableError, match=r"t\.at\[i\]\.set\(v\)"):
        t[0] = 5.0  # type: ignore[index]
    with pytest.raises(ImmutableError, match="cannot be deleted"):
        del t[0]  # type: ignore[attr-defined]
    with pytest.raises(ImmutableError, match="writes into its argument"):
        np.add(np.ones(2), 1.0, out=t)  # type: ignore[call-overload]
    with pytest.raises(ImmutableError, match=r"np\.add\.at writes"):
        np.add.at(t, [0], 1.0)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(t)[0] = 5.0
    with pytest.raises(TypeError):
        memoryview(t)  # type: ignore[arg-type]
    assert_equal(t, np.array([1.0, 2.0]))


# --------------------------------------------------------------------------------- numbers


def test_functions_of_the_standard_library_take_tensors() -> None:
    assert math.sqrt(fg.tensor(4.0)) == 2.0
    assert operator.index(fg.tensor(3)) == 3
    assert list(range(fg.tensor(2))) == [0, 1]
    assert sum(fg.tensor([1.0, 2.0])) == 3.0
    assert max(fg.tensor([1.0, 2.0])) == 2.0
    assert sorted(fg.tensor([2.0, 1.0]))[0] == 1.0


def test_an_index_has_to_be_an_integer() -> None:
    with pytest.raises(DtypeError, match="Only integer tensors can be indices, not float64"):
        operator.index(fg.tensor(1.0))
    for axes in ([1, 2], [1], [[1]], []):
        with pytest.raises(ScalarError, match=r"one integer, .* has the shape \(.*Write t\[0\]"):
            operator.index(fg.tensor(np.array(axes, int)))


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 0)])
def test_more_or_less_than_one_element_is_no_number(shape: tuple[int, ...]) -> None:
    t = fg.tensor(np.ones(shape))
    with pytest.raises(ShapeError, match=r"truth value of a tensor of shape .* is ambiguous"):
        bool(t)
    for convert in (int, float, complex):
        with pytest.raises(ShapeError, match=r"needs one element"):
            convert(t)


def test_item_and_tolist() -> None:
    t = fg.tensor([[1.5, 2.5]])
    assert t.item(1) == t.item(0, 1) == 2.5
    assert fg.tensor(np.float32(2)).item() == 2.0
    assert type(fg.tensor(np.float32(2)).item()) is float
    assert t.tolist() == [[1.5, 2.5]]
    assert fg.tensor(3).tolist() == 3
    with pytest.raises(ValueError, match="size 1"):
        t.item()


# --------------------------------------------------------------------------------- pictures


@together(
    ("x", "text"),
    [
        (1.5, "Tensor(1.5)"),
        (True, "Tensor(True)"),
        (3, "Tensor(3)"),
        (1j, "Tensor(1j)"),
        (np.float32(1.5), "Tensor(1.5, dtype=float32)"),
        (np.uint8(3), "Tensor(3, dtype=uint8)"),
        ([1.0, 2.0], "Tensor([1., 2.])"),
        (np.array([1, 2], np.float32), "Tensor([1., 2.], dtype=float32)"),
        ([[1, 2], [3, 4]], "Tensor([[1, 2],\n        [3, 4]])"),
        ([], "Tensor([], dtype=float64)"),
    ],
    ids=str,
)
def test_repr_reads_like_numpy_s(x: Any, text: str) -> None:
    assert repr(fg.tensor(x)) == text


def test_repr_of_long_and_empty_arrays() -> None:
    assert "..." in repr(fg.tensor(np.zeros(10_000)))
    assert repr(fg.tensor(np.zeros((0, 2)))).startswith("Tensor([], shape=(0, 2)")


def test_str_and_format() -> None:
    assert str(fg.tensor([1.0, 2.0])) == "[1. 2.]"
    assert str(fg.tensor(1.5)) == "1.5"
    assert f"{fg.tensor(1.25):.1f} {fg.tensor([2]):3d} {fg.tensor([1.0, 2.0])}" == "1.2   2 [1. 2.]"
    assert f"{fg.tensor(0.5):.0%}" == "50%"
    with pytest.raises(ValueError, match="is for one number"):
        format(fg.tensor([1.0, 2.0]), ".1f")


def test_tracers_can_be_printed() -> None:
    texts: list[str] = []

    def f(x):
        texts.extend([repr(x), str(x), f"{x:.1f}"])
        return x

    fg.grad(fg.grad(lambda x: f(x) ** 2))(1.5)
    fg.jvp(f, (1.5,), (1.0,))
    assert texts == [
        "Traced(1.5, in reverse mode, in reverse mode)",
        "Traced(1.5, in reverse mode, in reverse mode)",
        "1.5",
        "Traced(1.5, in forward mode)",
        "Traced(1.5, in forward mode)",
        "1.5",
    ]


# --------------------------------------------------------------------------------- copies, identity


@together("char", DTYPES)
def test_pickle_and_copy(char: str) -> None:
    for x in (array(char), array(char)[0], array(char)[::-2], np.zeros((0, 3), char)):
        t = fg.tensor(x)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert_equal(pickle.loads(pickle.dumps(t, protocol)), x)
        assert copy.copy(t) is copy.deepcopy(t) is t.copy() is t
        assert copy.deepcopy({"a": [t]})["a"][0] is t


def test_tensors_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(fg.tensor(1.0))


# --------------------------------------------------------------------------------- NumPy


@together("char", DTYPES)
def test_asarray_is_a_view_and_array_a_copy(char: str) -> None:
    for x in (array(char), np.zeros((2, 0), char)):
        t = fg.tensor(x)
        view, copied = np.asarray(t), np.array(t)
        assert_array_equal(view, x)
        assert_array_equal(copied, x)
        assert view.dtype == copied.dtype == x.dtype
        assert not view.flags.writeable
        assert copied.flags.writeable
        assert (
            fg.tensor(view)._value is view
            or np.shares_memory(np.asarray(fg.tensor(view)), view)
            or not x.size
        )


def test_dtype_and_copy_arguments_of_numpy_s_conversions() -> None:
    t = fg.tensor([1.5, 2.5])
    assert np.asarray(t, dtype="f").dtype == np.float32
    assert np.array(t, dtype=int).tolist() == [1, 2]
    assert np.shares_memory(np.array(t, copy=False), np.asarray(t))
    assert np.array(t, copy=True).flags.writeable
    with pytest.raises(ValueError, match="without a copy"):
        np.array(t, dtype="f", copy=False)


def test_numpy_functions_return_tensors() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    t = fg.tensor(x)
    for f in (np.sin, np.sum, np.transpose, lambda a: np.concatenate([a, a])):
        assert_equal(f(t), f(x))
    assert_equal(np.add.reduce(t), x.sum(0))
    assert_equal(np.add.outer(t[0], t[1]), np.add.outer(x[0], x[1]))
    assert_equal(np.multiply.accumulate(t[0]), np.multiply.accumulate(x[0]))


@together("method", ["sum", "max", "mean", "argmax", "cumsum", "argsort", "squeeze"])
def test_axes_out_of_bounds_are_an_axis_error(method: str) -> None:
    with pytest.raises(AxisError, match=r"axis 5 is out of bounds for an array of 2 dimensions"):
        getattr(fg.tensor(np.ones((2, 3))), method)(axis=5)


def test_functional_updates() -> None:
    t = fg.tensor([1.0, 2.0, 3.0])
    assert_equal(t.at[0].set(9.0), np.array([9.0, 2, 3]))
    assert_equal(t.at[[0, 0]].add(1.0), np.array([3.0, 2, 3]))
    assert_equal(t.at[1:].get(), np.array([2.0, 3]))
    assert_equal(t, np.array([1.0, 2, 3]))


def test_isinstance_holds_inside_transformations() -> None:
    def f(x):
        assert isinstance(x, fg.Tensor)
        return x * x

    fg.grad(f)(1.0)
    fg.jvp(f, (1.0,), (1.0,))
    fg.vmap(f)(np.ones(2))


def test_fractions_are_no_indices_of_numpys() -> None:
    x, fractions = np.arange(4.0), fg.tensor([1.5, 2.0])
    for take in (lambda: np.take(x, fractions), lambda: x.take(fractions), lambda: x[fractions]):
        with pytest.raises((TypeError, IndexError)):
            take()
    assert_array_equal(np.take(x, fg.tensor([1, 2])), [1.0, 2.0])
    assert_array_equal(np.asarray(fractions, int), [1, 2])  # where a conversion is asked for
    assert_array_equal(np.array(fractions, dtype=np.int8), [1, 2])


@pytest.mark.parametrize(("device", "stream"), [("nowhere", None), ("cpu", 1)])
def test_a_device_that_there_is_not_is_refused(device: Any, stream: Any) -> None:
    t = fg.tensor([1.0])
    assert t.to_device("cpu") is t
    with pytest.raises(ArgumentError, match="to_device: "):
        t.to_device(device, stream=stream)
