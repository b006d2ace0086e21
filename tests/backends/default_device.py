"""Run the tests as if on a device: arrays that are passed to the library are put there first.

So most operations of the tests run on the device, on handles, and not on arrays. Arrays of the host
that meet them, such as new ones from ``fnp.zeros``, are copied; for users that is an error.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from funcgrad._backends.devices import device as device_module
from funcgrad._backends.devices.placement import device_of
from funcgrad._backends.devices.resident import Resident
from funcgrad._core import users_values
from funcgrad._core.specs import spec_of
from funcgrad._staging import entry, jit
from funcgrad._staging.placed import Whereabouts
from funcgrad.tensor.tensor import wrap
from tests.backends.fake_device import FakeDevice

_operand = FunctionType(users_values.operand.__code__, vars(users_values))


def _operand_there(x: Any, operation: str) -> Any:
    """``operand``, with arrays put on the device; it runs among the names of ``users_values``."""
    value = _operand(x, operation)
    if type(value) is np.ndarray and value.ndim:
        return _placed(_device, _device.backend.put(value), spec_of(value), "")  # type: ignore[name-defined]  # noqa: F821
    return value


def make_default(name: str) -> None:
    """Make a device the default, by its name; ``"fake"`` is ``FakeDevice``."""
    device = device_of(FakeDevice("fake:default") if name == "fake" else name, "pytest --device")
    # Modules have imported the function, which stays, with other code: as if in its own module, for
    # those who look at the users' functions.
    names: Any = vars(users_values)
    names.update(_device=device, _placed=Resident.of, _operand=_operand)
    code = _operand_there.__code__
    users_values.operand.__code__ = code.replace(co_filename=users_values.__file__)
    device_module.check_constant = lambda *_: None  # type: ignore[attr-defined]  # imported there
    Whereabouts._check = lambda *_: None  # type: ignore[method-assign]
    Resident.__repr__ = _shown  # type: ignore[method-assign]
    jit.write_entry = _written  # type: ignore[attr-defined]


def _shown(tensor: Resident) -> str:
    """The text of the tensor on the host, as examples show it."""
    return repr(wrap(tensor._reveal("repr", exact=True)))


def _written(form: entry.Form, signature: Any) -> Any:
    """``write_entry``, but not for arrays that became values on the device."""
    pairs = zip(form.leaves, form.kinds, strict=True)
    moved = any(
        leaf is not Resident and len(kind) == 3 for leaf, kind in pairs if type(kind) is tuple
    )
    return None if moved else entry.write_entry(form, signature)
