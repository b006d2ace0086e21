"""Checks of devices on handles, for ``check_backend``."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._backends.devices.device import Device
from funcgrad._core.specs import DTYPES, spec_of
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.reverse import grad
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.testing.backend_results import Wrong, compare_numbers, compare_trees

_CALLS: Final = 4


def _check_copies(device: Device) -> bool:
    """Check that copies to a device and back keep every bit, and are copies."""
    for dtype in sorted(DTYPES, key=str):
        for array in _arrays_of(dtype):
            changing = np.array(array)
            value = device.place(changing)
            if changing.size and changing.ndim:
                changing[...] = 0
            back = np.asarray(value)
            if (back.shape, back.dtype) != (array.shape, array.dtype):
                raise Wrong(f"get() of a copy of {spec_of(array)} returns {spec_of(back)}")
            if back.tobytes() != array.tobytes():
                raise Wrong(f"get() returns other bits than put() was passed, for {dtype}")
    return True


def _arrays_of(dtype: np.dtype[Any]) -> list[np.ndarray[Any, Any]]:
    numbers = np.arange(6).reshape(2, 3).astype(dtype)
    if dtype.kind in "fc":
        numbers[0] = [-0.0, np.inf, np.nan]
    return [numbers, numbers.T, numbers[:, ::2], numbers[:0], np.asarray(numbers[1, 2])]


def _check_handles(device: Device) -> bool:
    """Check that programs take and return handles, and that results do not change later."""
    x = np.linspace(0.0, 1.0, 50)
    on_device = device.place(x)
    staged: Any = jit(lambda x, k: (fnp.sin(x) * k, fnp.sum(x), x))
    results = [staged(on_device, float(k)) for k in range(_CALLS)]
    for k, outs in enumerate(results):
        if any(out.device != device for out in outs):
            raise Wrong("a result of a jitted function of values on the device is elsewhere")
        again = staged(outs[0], 2.0)
        for number, (out, wanted) in enumerate(
            zip((*outs, *again), (*_sines(x, k), *_sines(np.sin(x) * k, 2.0)), strict=True)
        ):
            compare_numbers(f"on handles: result {number}", np.asarray(out), np.asarray(wanted))
    return True


def _sines(x: np.ndarray[Any, Any], k: float) -> tuple[Any, ...]:
    return np.sin(x) * k, np.sum(x), x


def _check_operations(device: Device) -> bool:
    """Check operations one by one, with a derivative, a batch, and a look at a number."""
    x = np.linspace(0.5, 1.0, 12).reshape(3, 4)
    on_device = device.place(x)

    def f(x: Tensor) -> Tensor:
        y = fnp.sin(x) @ x.T if x[0, 0] > 0 else x
        return fnp.sum(y * y)

    for name, derived in (("eagerly", f), ("grad", grad(f)), ("vmap", _of_two(f))):
        compare_trees(name, derived(on_device), derived(tensor(x)))
    return True


def _of_two(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: vmap(f)(fnp.stack([x, x * 0.5]))


def _check_release(device: Device) -> bool:
    """Check that nothing keeps the values of a device after the last reference."""
    gc.disable()
    try:
        value = fnp.sin(device.place(np.ones(50)))
        handle = value._value.handle
        try:
            reference = weakref.ref(handle)
        except TypeError:
            return True  # handles of that type have no weak references
        del value, handle
        if reference() is not None:
            raise Wrong("the handle of a result is kept after the last reference to the result")
    finally:
        gc.enable()
    return True


ON_DEVICES: Final[Sequence[tuple[str, Callable[[Device], bool]]]] = (
    ("copies to a device and back", _check_copies),
    ("handles", _check_handles),
    ("operations", _check_operations),
    ("release", _check_release),
)
