"""Where a jitted function runs: on the device of its arguments, or on the one that it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad._backends.choice import LateChoice
from funcgrad._backends.devices.device import Device, described
from funcgrad._backends.devices.resident import Resident
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import RAW, Value
from funcgrad._programs.program import Program
from funcgrad._transforms.arguments import leaf_name
from funcgrad.errors import DeviceError
from funcgrad.tensor.tensor import Tensor


def is_placed(value: Value) -> bool:
    """Whether no transformation follows a value."""
    return type(value) in RAW or type(value) is Resident


def device_of_values(values: Sequence[Value]) -> Device | None:
    """The device of the first value that is on one."""
    return next((value._trace for value in values if type(value) is Resident), None)


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a jitted function may run.

    Attributes
    ----------
    function : callable
    choice : Backend or LateChoice
        The backend that it was told to use.
    device : Device, optional
        The device that it was told to use.
    """

    function: Callable[..., Any]
    choice: Any
    device: Device | None

    def of(self, values: Sequence[Value], structure: Structure) -> Device | None:
        """The device for a call with these arguments; None for the host.

        Raises
        ------
        DeviceError
            Some arguments are arrays on the host, others on a device; or the function was told to
            use a backend of the host, or ``exact=True``.
        """
        device = self.device or device_of_values(values)
        if device is not None:
            self._check(device, values, structure)
        return device

    def closed_over(
        self, program: Program, device: Device | None, leaves: Sequence[Any], structure: Structure
    ) -> Device | None:
        """The device of a program that closes over tensors: the device of its arguments, or else of
        these tensors. None if it closes over values that transformations follow."""
        closed = [constant.value for constant in program.constants]
        if not all(map(is_placed, closed)):
            return None
        if device is None and (device := device_of_values(closed)) is not None:
            values = [leaf._value if type(leaf) is Tensor else leaf for leaf in leaves]
            self._check(device, values, structure)
        return device

    def _check(self, device: Device, values: Sequence[Value], structure: Structure) -> None:
        choice = self.choice
        if not isinstance(choice, LateChoice) or choice.exact:
            told = "exact=True" if isinstance(choice, LateChoice) else f"backend={choice.name!r}"
            raise DeviceError(
                f"jit: {told} is for the host, and values that the function uses are on"
                f" {device.name}. Leave it out, or copy the values with fg.get."
            )
        if self.device is not None:
            return
        for leaf, value in enumerate(values):
            if type(value) is np.ndarray and value.ndim:
                raise DeviceError(
                    f"jit: {leaf_name(self.function, structure, leaf)} is an array of shape"
                    f" {value.shape} on the host{self._other(values)}. Arrays are not copied"
                    f" silently: write fg.put(x, {device.name!r}), or jit(f,"
                    f" device={device.name!r}), which copies at each call."
                )

    def _other(self, values: Sequence[Value]) -> str:
        on_device = [value._value for value in values if type(value) is Resident]
        return f", another argument of {described(on_device[0])}" if on_device else ""
