"""DLPack: imported memory is shared if nobody can write to it; exported arrays are copies."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DeviceError, DlpackError, DtypeError, LeafError, TracerError
from tests.together import refused, together

READ: Any = np.from_dlpack  # NumPy's stubs know of capsules of one kind alone
NUMBERS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Old:
    """An exporter and importer without versions of the protocol, like NumPy 1."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@together("dtype", "?bhilBHILefdFD")
def test_numpy_reads_a_tensor(dtype: str) -> None:
    t = fg.tensor(NUMBERS.astype(dtype))
    array = READ(t)
    np.testing.assert_array_equal(array, NUMBERS.astype(dtype))
    assert array.dtype == t.dtype
    assert not np.shares_memory(array, np.asarray(t))


def test_views_keep_their_strides() -> None:
    t = fg.tensor(NUMBERS).T[::-1]
    np.testing.assert_array_equal(READ(t), NUMBERS.T[::-1])


class Careless:
    """An exporter whose consumer requests capsules as PyTorch does."""

    def __init__(self, t: fg.Tensor, **asked: Any) -> None:
        self.t = t
        self.asked = asked

    def __dlpack__(self, **_: Any) -> Any:
        return self.t.__dlpack__(**self.asked)

    def __dlpack_device__(self) -> Any:
        return self.t.__dlpack_device__()


CONSUMERS: dict[str, Any] = {
    "of no version": Old,
    "of version 0.8": lambda t: Careless(t, max_version=(0, 8)),
    "of version 1": lambda t: Careless(t, max_version=(1, 0)),
    "that names the device": lambda t: Careless(t, max_version=(1, 0), dl_device=(1, 0)),
    "that asks for a copy": lambda t: Careless(t, max_version=(1, 0), copy=True),
    "NumPy": lambda t: t,
}


@together("consumer", CONSUMERS)
@together("view", [lambda t: t, lambda t: t.T[::-1], lambda t: t[0, 0]])
def test_who_writes_to_what_dlpack_hands_out_writes_to_a_copy(consumer: str, view: Any) -> None:
    t = fg.tensor(NUMBERS)
    array = READ(CONSUMERS[consumer](view(t)))
    assert not np.shares_memory(array, np.asarray(t))
    np.testing.assert_array_equal(array, view(NUMBERS))
    if array.flags.writeable:  # NumPy takes what comes without a version for read-only
        array[...] = 7.0
    np.testing.assert_array_equal(t, NUMBERS)


def test_torch_gets_a_copy() -> None:
    torch = pytest.importorskip("torch")
    t = fg.tensor(NUMBERS)
    for read in (torch.from_dlpack, torch.as_tensor, torch.asarray, torch.tensor):
        foreign = read(t)
        foreign += 1.0
        np.testing.assert_array_equal(t, NUMBERS)


def test_memory_is_not_shared_on_demand() -> None:
    t = fg.tensor(NUMBERS)
    words = r"exports a copy .* np\.asarray\(t\), a read-only view"
    with pytest.raises(DlpackError, match=words):
        t.__dlpack__(copy=False)
    if not np.__version__.startswith("2.0."):  # whose from_dlpack has no options
        with pytest.raises(DlpackError, match=words):
            READ(t, copy=False)


def test_what_somebody_could_write_to_is_copied() -> None:
    source = NUMBERS.copy()
    locked = source.view()
    locked.setflags(write=False)
    for given in (source, locked, Old(source)):
        t = fnp.from_dlpack(given)
        assert isinstance(t, fg.Tensor)
        assert not np.shares_memory(source, np.asarray(t))
        np.testing.assert_array_equal(t, NUMBERS)


def test_what_nobody_can_write_to_is_shared() -> None:
    t = fg.tensor(NUMBERS)
    view = np.asarray(t)[1:]
    assert np.shares_memory(fnp.from_dlpack(view, copy=False), view)
    assert fnp.from_dlpack(t, copy=False) is t


def test_the_device_is_main_memory() -> None:
    assert fg.tensor(1.0).__dlpack_device__() == NUMBERS.__dlpack_device__()
    assert fnp.from_dlpack(NUMBERS, device="cpu").device == "cpu"


def test_a_traced_value_is_not_exported() -> None:
    with pytest.raises(TracerError, match="DLPack's export of t: the tensor is being different"):
        fg.grad(lambda x: READ(x).sum())(NUMBERS)
    assert fg.grad(lambda x: fnp.from_dlpack(x).sum())(NUMBERS).tolist() == [[1.0] * 3] * 2


test_words = refused(
    [
        (lambda: fnp.from_dlpack(3.0), LeafError, "float has no __dlpack__"),
        (lambda: fnp.from_dlpack(NUMBERS, copy=False), DlpackError, "the array may be written to"),
        (lambda: fnp.from_dlpack(NUMBERS, device="cuda"), DeviceError, "there is no device 'cuda'"),
        (lambda: fg.tensor(1.0).__dlpack__(dl_device=(2, 0)), DlpackError, "in main memory"),
        (lambda: fnp.from_dlpack(NUMBERS.astype(np.longdouble)), DtypeError, "not supported"),
    ]
)
