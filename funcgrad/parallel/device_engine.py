"""The engine of devices: a thread for each device runs the chunks there.

A copy of the parameters is sent to each device at each step. The results of its chunks are combined
there; then neighbouring results of two devices meet on the device of the left one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

from funcgrad._backends.devices.device import Device
from funcgrad._backends.devices.placement import DeviceLike, device_of
from funcgrad._core.trace import Value
from funcgrad._staging.placed import device_of_values
from funcgrad.errors import ArgumentError, DeviceError
from funcgrad.parallel.chunks import HeldChunk
from funcgrad.parallel.engines import AnyExecutor, ExecutorEngine
from funcgrad.parallel.messages import Caller, Outcome, StepCode, Unstaged
from funcgrad.parallel.waiting import Deadline
from funcgrad.parallel.worker_store import ChunkStore
from funcgrad.parallel.worker_tasks import Combine, DeviceCopies, combiner

T = TypeVar("T")
Workers: TypeAlias = AnyExecutor | DeviceLike | Sequence[DeviceLike]


class DeviceEngine(ExecutorEngine):
    """Devices, each with a thread of its own."""

    takes_residents = True

    def __init__(
        self, operation: str, devices: Sequence[DeviceLike], allow_other_bits: bool
    ) -> None:
        self._operation = operation
        self._devices: dict[str, Device] = {}
        self._pools: dict[tuple[int, str], ThreadPoolExecutor] = {}
        self.shipped, self.store = False, ChunkStore()
        for place in devices:
            device = device_of(place, operation)
            if device.backend is None or device.name in self._devices:
                reason = "is twice in the list" if device.backend else "is the host"
                raise ArgumentError(
                    f"{operation}: the device {device.name} {reason}. Pass different devices of"
                    " fg.devices(), without the host, or an executor, which computes on the host."
                )
            self._devices[device.name] = device
        kinds = {name.rpartition(":")[0] for name in self._devices}
        if len(kinds) > 1 and not allow_other_bits:
            raise ArgumentError(
                f"{operation}: devices of the kinds {', '.join(sorted(kinds))} compute different"
                " last bits. Pass devices of one kind, or accept results that depend on the"
                " devices: allow_other_bits=True."
            )

    def carried(self, value: object, waiting: Deadline, losses: int) -> object:
        """Wrap a value, whose copies on the devices are made when they are first used."""
        return DeviceCopies(value)

    def content_of(self, chunk: HeldChunk) -> object:
        """Return a name for a chunk of tensors; arrays, which may change, are copied each time."""
        return tuple(map(id, chunk.leaves)) if chunk.constant else None

    def alike(self, values: Sequence[Value]) -> Sequence[Value]:
        """Copy values to the device of one of them, if there is one."""
        device = device_of_values(values)
        return values if device is None else [device.place_array(value) for value in values]

    def places(self, waiting: Deadline) -> Sequence[str | None]:
        """Return the names of the devices."""
        return [*self._devices]

    def group_size(self, chunks: Sequence[object], size: int) -> int:
        """Return 1 if chunks are on devices already, since neighbours may be on different ones."""
        return 1 if any(_device_of_chunk(chunk) for chunk in chunks) else size

    def place_of(self, chunk: object, index: int, place: str | None) -> str:
        """Return the device of a chunk, if it is on one, else the planned one.

        Raises
        ------
        DeviceError
            The chunk is on a device that was not passed.
        """
        device = _device_of_chunk(chunk)
        names = [*self._devices]
        if device is None:
            return place or names[index % len(names)]
        if self._devices.get(device.name) != device:
            raise DeviceError(
                f"{self._operation}: chunk {index} is on {device.name}, which is not among the"
                f" devices {', '.join(names)}. Pass this device, too, or copy the chunk with"
                " fg.get: it is then copied to one of them."
            )
        return device.name

    def submit(self, place: str | None, function: Callable[..., T], *args: object) -> Future[T]:
        """Submit a task to the thread of a device."""
        name = place or next(iter(self._devices))
        key = os.getpid(), name  # a forked process has none of the threads
        pool = self._pools.get(key) or self._pools.setdefault(key, ThreadPoolExecutor(1))
        return self._submitted(pool, partial(function, device=self._devices[name]), *args)

    def combiner(self, caller: Caller, code: StepCode, constants: Sequence[Value]) -> Combine:
        """Return the function that combines two results on the device of the left one."""
        copies = DeviceCopies([*constants])

        def combine(left: Outcome, right: Outcome) -> Outcome:
            device = None if isinstance(left, Unstaged) else device_of_values(left)
            device = device or next(iter(self._devices.values()))
            if not isinstance(right, Unstaged):
                right = tuple([device.place(value) for value in right])
            return combiner(caller, code, copies.on(device), device)(left, right)

        return combine

    def delivered(self, value: Value, inputs: Sequence[Value]) -> Value:
        """Copy a result to the device of the inputs, or to the host if they are there."""
        home = device_of_values(inputs) or device_of("cpu", self._operation)
        return home.place(value, self._operation)


def _device_of_chunk(chunk: object) -> Device | None:
    return device_of_values(chunk.leaves) if isinstance(chunk, HeldChunk) else None
