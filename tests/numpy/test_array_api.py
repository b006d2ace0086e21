"""The array API: the information that a namespace and its arrays have to give, and devices."""

import inspect
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DeviceError
from tests.together import together

INFO = fnp.__array_namespace_info__()

# The standard's functions that make arrays, each with arguments that work.
CREATION: dict[str, tuple[Any, ...]] = {
    "arange": (3,),
    "asarray": ([1.0],),
    "empty": ((2,),),
    "empty_like": (np.ones(2),),
    "eye": (2,),
    "from_dlpack": (np.ones(2),),
    "full": ((2,), 1.0),
    "full_like": (np.ones(2), 1.0),
    "linspace": (0.0, 1.0, 3),
    "ones": ((2,),),
    "ones_like": (np.ones(2),),
    "zeros": ((2,),),
    "zeros_like": (np.ones(2),),
}


@together("name", CREATION)
def test_functions_that_make_arrays_take_a_device(name: str) -> None:
    function, args = getattr(fnp, name), CREATION[name]
    for device in ("cpu", None):
        assert function(*args, device=device).device == "cpu"
    with pytest.raises(DeviceError, match=f"{name.removesuffix('_like')}.*no device 'gpu'"):
        function(*args, device="gpu")
    assert inspect.signature(function).parameters["device"].kind is inspect.Parameter.KEYWORD_ONLY


def test_astype_takes_a_device() -> None:
    assert fnp.astype([1.0], "int64", device="cpu").dtype == np.int64
    with pytest.raises(DeviceError, match="astype: there is no device 'gpu'"):
        fnp.astype([1.0], "int64", device="gpu")


def test_default_dtypes_are_those_that_functions_make() -> None:
    dtypes = INFO.default_dtypes(device="cpu")
    assert fnp.zeros(2).dtype == dtypes["real floating"]
    assert fnp.asarray(1j).dtype == dtypes["complex floating"]
    assert fnp.arange(2).dtype == dtypes["integral"]
    assert fnp.argmax(fnp.ones(2)).dtype == dtypes["indexing"]


@pytest.mark.parametrize("kind", [None, "bool", "signed integer", "numeric", ("bool", "integral")])
def test_dtypes_are_numpys(kind: Any) -> None:
    if not hasattr(np, "__array_namespace_info__"):
        pytest.skip("NumPy 2.0 has no description of itself")
    info: Any = np.__array_namespace_info__()
    assert INFO.dtypes(kind=kind) == info.dtypes(kind=kind)
    assert all(getattr(fnp, name) == dtype for name, dtype in INFO.dtypes(kind=kind).items())


def test_devices_and_capabilities() -> None:
    assert INFO.devices()[0] == INFO.default_device() == "cpu"
    assert INFO.capabilities()["data-dependent shapes"] is True
    with pytest.raises(ArgumentError, match="dtypes"):
        INFO.dtypes(kind="no such kind")


def test_a_tensor_leads_to_the_namespace_in_versions_that_it_has() -> None:
    t = fg.tensor(1.0)
    for version in (None, "2022.12", fnp.__array_api_version__):
        assert t.__array_namespace__(api_version=version) is fnp
    with pytest.raises(ArgumentError, match=r"Version '2019\.01' of the array API"):
        t.__array_namespace__(api_version="2019.01")


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_take_a_dtype(name: str) -> None:
    function = getattr(fnp.fft, name)
    assert function(4).dtype == np.float64
    assert function(4, dtype="float32", device="cpu").dtype == np.float32
    with pytest.raises(TypeError, match=f"{name}: frequencies are real floating numbers"):
        function(4, dtype="int64")
