"""Users cannot write to the memory of a tensor, and a tensor never shares writable memory."""

from __future__ import annotations

import copy
import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ImmutableError
from tests.together import together


def buffer_of(array: Any) -> memoryview:
    return memoryview(array)


def arrays_of(t: fg.Tensor) -> dict[str, np.ndarray]:
    """Every way to give NumPy access to a tensor's memory."""
    return {
        "asarray": np.asarray(t),
        "array without copy": np.array(t, copy=False),
        "array protocol": t.__array__(),
        "slice of the view": np.asarray(t)[:2],
        "view": np.asarray(t).view(),
        "other dtype": np.asarray(t).view(np.int64),
        "subclass": np.asarray(t).view(np.recarray),
        "reshaped": np.asarray(t).reshape(-1),
        "memoryview": np.asarray(buffer_of(np.asarray(t))),
        "frombuffer": np.frombuffer(np.asarray(t)),
        "ascontiguousarray": np.ascontiguousarray(t),
        "require": np.require(np.asarray(t), requirements="C"),
        "broadcast": np.broadcast_to(np.asarray(t), (2, t.size)),
        "strides": np.lib.stride_tricks.as_strided(np.asarray(t), (2,), (8,)),
        "of a view": np.asarray(t[:2]),
        "of a reshape": np.asarray(t.reshape(-1, 1)),
        "of the transpose": np.asarray(t.T),
        "of a reversal": np.asarray(t[::-1]),
        "of a broadcast": np.asarray(fnp.broadcast_to(t, (2, t.size))),
        "of the real part": np.asarray(t.real),
    }


WAYS = tuple(arrays_of(fg.tensor([1.0, 2.0, 3.0])))


@together("way", WAYS)
def test_no_view_can_be_made_writable(way: str) -> None:
    t = fg.tensor([1.0, 2.0, 3.0])
    array = arrays_of(t)[way]
    if array.flags.writeable:  # NumPy copied
        array[...] = 7
        assert_array_equal(t, [1.0, 2.0, 3.0])
        return
    seen: Any = array
    while isinstance(seen, np.ndarray):
        with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
            seen[...] = 7
        with pytest.raises(ValueError, match="WRITEABLE"):
            seen.setflags(write=True)
        with pytest.raises(ValueError, match="WRITEABLE"):
            seen.flags.writeable = True
        seen = seen.base
    if isinstance(seen, memoryview):
        assert seen.readonly
        with pytest.raises(TypeError):
            seen[0] = 7
        with pytest.raises(TypeError):
            ctypes.c_char.from_buffer(seen)
    assert_array_equal(t, [1.0, 2.0, 3.0])


POINTERS = frozenset({"ctypes"})
"""What leads out of Python: no flag is looked at there."""


def led_to(x: Any) -> list[Any]:
    """Objects that the public attributes of an array, or of an exporter of memory, lead to."""
    found = []
    for name in dir(x):
        if not name.startswith("_") and name not in POINTERS:
            try:
                found.append(getattr(x, name))
            except (AttributeError, ValueError, TypeError):  # not for this dtype or shape
                continue
    # NumPy's base may be a pair of what exports the memory and its capsule.
    found += [member for each in found if isinstance(each, tuple) for member in each]
    for ask in (memoryview, np.asarray, lambda x: x.view(), lambda x: x.view(np.recarray)):
        try:
            found.append(ask(x))
        except (AttributeError, ValueError, TypeError, NotImplementedError):
            continue
    return [each for each in found if not callable(each)]


@together("way", WAYS)
def test_no_public_name_leads_to_memory_that_can_be_written_to(way: str) -> None:
    t = fg.tensor([1.0, 2.0, 3.0])
    array = arrays_of(t)[way]
    if array.flags.writeable:  # NumPy copied
        return
    seen: list[Any] = []
    front: list[Any] = [array]
    for _ in range(4):
        found = [each for x in front for each in led_to(x)]
        front = [each for each in found if hasattr(each, "__array_struct__")][:200]
        front += [each for each in found if isinstance(each, memoryview)][:50]
        seen += [each for each in front if np.shares_memory(np.asarray(each), array)]
    assert seen
    for x in seen:
        if isinstance(x, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                x.setflags(write=True)
        elif isinstance(x, memoryview):
            assert x.readonly


def test_the_walk_finds_what_a_memoryview_leads_to() -> None:
    """A read-only array over a memoryview of an array leads back to that array."""
    array = np.ones(3)
    view = np.asarray(buffer_of(array).toreadonly())
    assert any(each is array for each in led_to(view.base))


@together(
    "write",
    [
        lambda a: np.add(a, 1, out=a),
        lambda a: np.copyto(a, 7),
        lambda a: np.put(a, 0, 7),
        lambda a: np.place(a, [True] * 3, [7]),
        lambda a: np.putmask(a, [True] * 3, 7),
        lambda a: a.sort(),
        lambda a: a.fill(7),
        lambda a: a.byteswap(inplace=True),
        lambda a: a.partition(1),
        lambda a: a.__iadd__(1),
        lambda a: np.random.default_rng(0).shuffle(a),
        lambda a: np.nan_to_num(a, copy=False),
        lambda a: np.fill_diagonal(a.reshape(1, 3), 7),
        lambda a: a.flat.__setitem__(0, 7),
        lambda a: next(np.nditer(a, op_flags=[["readwrite"]])),
        lambda a: a.real.__setitem__(0, 7),
    ],
)
def test_no_function_writes_to_a_view(write: Callable[[np.ndarray], Any]) -> None:
    t = fg.tensor([3.0, 1.0, 2.0])
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        write(np.asarray(t))
    assert_array_equal(t, [3.0, 1.0, 2.0])


@together(
    "write",
    [
        lambda t: np.add(t, 1.0, out=t),
        lambda t: np.sin(t, out=t),
        lambda t: np.copyto(t, 7.0),
        lambda t: np.put(t, 0, 7.0),
        lambda t: np.add.at(t, [0], 7.0),
        lambda t: np.sum(t, out=t),
        lambda t: np.clip(t, 0.0, 1.0, out=t),
    ],
)
def test_no_numpy_function_writes_to_a_tensor(write: Callable[[fg.Tensor], Any]) -> None:
    t = fg.tensor([3.0, 1.0, 2.0])
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        write(t)
    assert_array_equal(t, [3.0, 1.0, 2.0])


# ---------------------------------------------------------------------------------- assignment


def test_elements_and_attributes_cannot_be_set() -> None:
    t = fg.tensor([1.0, 2.0])
    unchecked: Any = t
    with pytest.raises(ImmutableError, match=r"\.at\["):
        unchecked[0] = 5.0
    with pytest.raises(ImmutableError):
        del unchecked[0]
    for name in ("shape", "dtype", "T", "real", "imag", "new_attribute"):
        with pytest.raises(AttributeError):
            setattr(unchecked, name, 1)
    with pytest.raises(ImmutableError):
        fg.Tensor([1.0])
    assert_array_equal(t, [1.0, 2.0])


@together("operator", ["+=", "-=", "*=", "/=", "**=", "//=", "%=", "@="])
def test_augmented_assignment_makes_a_new_tensor(operator: str) -> None:
    original = fg.tensor([1.0, 2.0])
    names = {"t": original}
    exec(f"t {operator} t", names)
    assert names["t"] is not original
    assert_array_equal(original, [1.0, 2.0])


def test_updates_leave_the_original() -> None:
    t = fg.tensor([1.0, 2.0, 3.0])
    for updated in (t.at[0].set(9.0), t.at[0].add(9.0), t.at[0].multiply(9.0), t.at[0].max(9.0)):
        assert updated.tolist() != t.tolist()
    assert_array_equal(t, [1.0, 2.0, 3.0])


def test_a_tensor_cannot_be_hashed() -> None:
    with pytest.raises(TypeError, match="hash"):
        hash(fg.tensor(1.0))


# ---------------------------------------------------------------------------------- sources


SOURCES: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda a: a,
    "view": lambda a: a[:],
    "reversed": lambda a: a[::-1],
    "read-only view": lambda a: np.broadcast_to(a, a.shape),
    "read-only flag": lambda a: _locked(a),
    "matrix": lambda a: np.asmatrix(a),
    "memoryview": lambda a: np.asarray(buffer_of(a).toreadonly()),
    "masked": lambda a: a.view(np.ma.MaskedArray),
    "list": lambda a: [a, a],
    "array protocol": lambda a: _Exporter(a),
}


def _locked(a: np.ndarray) -> np.ndarray:
    view = a.view()
    view.flags.writeable = False
    return view


class _Exporter:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@together("source", SOURCES.values(), ids=SOURCES)
def test_what_happens_to_the_source_later_is_not_seen(source: Callable[..., Any]) -> None:
    base = np.array([1.0, 2.0, 3.0])
    given = source(base)
    made = [fg.tensor(given), fnp.asarray(given), fnp.multiply(given, 1.0)]
    shared = [fnp.reshape(given, -1), fnp.flip(given), fnp.expand_dims(given, 0)]
    before = [np.array(t) for t in (*made, *shared)]
    base[...] = -7.0
    for t, expected in zip((*made, *shared), before, strict=True):
        assert_array_equal(t, expected)


def test_a_bytearray_is_copied_and_bytes_are_shared() -> None:
    changing = bytearray(np.array([1.0, 2.0]).tobytes())
    t = fg.tensor(np.frombuffer(changing))
    locked = fg.tensor(np.frombuffer(memoryview(changing).toreadonly()))
    changing[:8] = b"\xff" * 8
    assert_array_equal(t, [1.0, 2.0])
    assert_array_equal(locked, [1.0, 2.0])

    fixed = np.frombuffer(np.array([1.0, 2.0]).tobytes())
    assert np.shares_memory(np.asarray(fg.tensor(fixed)), fixed)
    assert np.shares_memory(np.asarray(fg.tensor(fixed[::-1])), fixed)


def test_views_of_tensors_are_shared() -> None:
    t = fg.tensor(np.arange(6.0))
    array = np.asarray(t)
    for other in (
        t,
        t[1:4],
        t[::-2],
        t.reshape(2, 3),
        t.reshape(2, 3).T,
        t[None, :, None],
        t.copy(),
        copy.copy(t),
        copy.deepcopy(t),
        fg.tensor(t),
        fg.tensor(array),
        fg.tensor(array[2:]),
        fnp.asarray(array),
    ):
        assert np.shares_memory(np.asarray(other), array)


def test_a_memory_map_that_others_may_write_is_copied(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    np.arange(3.0).tofile(path)
    t = fg.tensor(np.memmap(path, np.float64, mode="r"))
    np.memmap(path, np.float64, mode="r+")[...] = -1.0
    assert_array_equal(t, [0.0, 1.0, 2.0])


# ---------------------------------------------------------------------------------- derivatives


TAKES: dict[str, Callable[..., Any]] = {
    "operator": lambda x, a: x * a,
    "reflected": lambda x, a: a * x,
    "function": lambda x, a: fnp.multiply(x, a),
    "ufunc": lambda x, a: np.multiply(x, a),
    "matmul": lambda x, a: x @ a,
    "where": lambda x, a: fnp.where(a > 0, x * a, 0.0),
    "power": lambda x, a: x**a,
    "einsum": lambda x, a: fnp.einsum("i,i->", x, a),
    "tensor": lambda x, a: x * fg.tensor(a),
    "view": lambda x, a: x * a[::-1],
    "scatter": lambda x, a: fnp.zeros(3).at[a.astype(int) - 1].add(x * x),
    "gather": lambda x, a: x[a.astype(int) - 1] ** 2,
    "mask": lambda x, a: x[a > 1] ** 2,
}


@together("take", TAKES.values(), ids=TAKES)
def test_an_array_is_seen_as_it_was_when_the_operation_met_it(take: Callable[..., Any]) -> None:
    x = fg.tensor([1.0, 2.0, 3.0])
    constant = np.array([3.0, 1.0, 2.0])
    expected = fg.grad(lambda x: fnp.sum(take(x, constant.copy())))(x)

    changing = constant.copy()
    _, pullback = fg.vjp(lambda x: fnp.sum(take(x, changing)), x)
    _, push = fg.linearize(lambda x: fnp.sum(take(x, changing)), x)
    changing[...] = 1.0
    assert_array_equal(pullback(1.0)[0], expected)
    assert_array_equal(push(fnp.ones(3)), np.sum(np.asarray(expected)))

    def f(x):
        buffer = constant.copy()
        out = fnp.sum(take(x, buffer))
        buffer[...] = -1.0
        return out

    assert_array_equal(fg.grad(f)(x), expected)
    assert_array_equal(fg.jvp(f, (x,), (fnp.ones(3),))[1], np.sum(np.asarray(expected)))
    assert_array_equal(fg.vmap(fg.grad(f))(x[None])[0], expected)


def test_a_buffer_written_in_every_step_of_a_loop() -> None:
    buffer = np.zeros(2)

    def f(x):
        for k in range(3):
            buffer[:] = k + 1.0
            x = x * buffer
        return fnp.sum(x)

    assert_array_equal(fg.grad(f)(np.ones(2)), [6.0, 6.0])


def test_primals_that_change_after_vjp() -> None:
    x = np.array([1.0, 2.0])
    out, pullback = fg.vjp(lambda x: x * x, x)
    ct = np.array([1.0, 1.0])
    x[...] = 9.0
    (first,) = pullback(ct)
    ct[...] = 5.0
    assert_array_equal(out, [1.0, 4.0])
    assert_array_equal(first, [2.0, 4.0])
    assert_array_equal(pullback(np.ones(2))[0], [2.0, 4.0])


def test_results_do_not_alias_what_was_passed_in() -> None:
    x, ct = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pullback = fg.vjp(lambda x: x, x)
    (pulled,) = pullback(ct)
    out_f, tangent = fg.jvp(lambda x: x, (x,), (ct,))
    mapped = fg.vmap(lambda x: x)(x)
    x[...] = ct[...] = -1.0
    for t, expected in (
        (out, [1.0, 2.0]),
        (pulled, [3.0, 4.0]),
        (out_f, [1.0, 2.0]),
        (tangent, [3.0, 4.0]),
        (mapped, [1.0, 2.0]),
    ):
        assert_array_equal(t, expected)


def test_gradients_are_as_immutable_as_any_tensor() -> None:
    (pulled,) = fg.vjp(lambda x: x * 1.0, fg.tensor([1.0, 2.0]))[1](fg.tensor([1.0, 1.0]))
    array = np.asarray(pulled)
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)


def test_the_same_cotangent_for_two_arguments_is_no_alias_that_matters() -> None:
    a, b = fg.vjp(lambda x, y: x + y, fg.tensor([1.0]), fg.tensor([2.0]))[1](fg.tensor([1.0]))
    a += 1.0
    assert_array_equal(b, [1.0])


def test_large_sums_of_cotangents_write_to_no_one_else_s_array() -> None:
    # From some size on cotangents are added in place: in the sweep's own buffer, nobody else's.
    x = fg.tensor(np.ones(5000))
    ct = fg.tensor(np.ones(5000))
    out, pullback = fg.vjp(lambda x: x + x + x + x[::-1], x)
    first, second = pullback(ct)[0], pullback(ct)[0]
    assert_array_equal(first, np.full(5000, 4.0))
    assert_array_equal(second, first)
    assert_array_equal(ct, np.ones(5000))
    assert_array_equal(out, np.full(5000, 4.0))

    _, pullback = fg.vjp(lambda x: (x + x, x + x, x), x)
    cts = (ct, ct, ct)
    assert_array_equal(pullback(cts)[0], np.full(5000, 5.0))
    assert_array_equal(ct, np.ones(5000))


# ---------------------------------------------------------------------------------- copies


@together(
    "t",
    [
        fg.tensor(1.5),
        fg.tensor([1, 2, 3]),
        fg.tensor(np.zeros((0, 2), np.float32)),
        fg.tensor(np.arange(12.0).reshape(3, 4)).T[::-1],
        fg.tensor([1j, 2.0]),
        fg.tensor([True, False]),
    ],
    ids=str,
)
def test_pickles_and_copies(t: fg.Tensor) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(t, protocol))
        assert type(made) is fg.Tensor
        assert (made.shape, made.dtype) == (t.shape, t.dtype)
        assert_array_equal(made, t)
        if made.ndim:
            with pytest.raises(ValueError, match="WRITEABLE"):
                np.asarray(made).setflags(write=True)
    assert copy.copy(t) is t
    assert copy.deepcopy([t])[0] is t


def test_np_array_is_a_copy_that_may_be_written() -> None:
    t = fg.tensor([1.0, 2.0])
    array = np.array(t)
    array[0] = 7.0
    assert_array_equal(t, [1.0, 2.0])
    other = np.asarray(t, np.float32)
    other[0] = 7.0
    assert_array_equal(t, [1.0, 2.0])
