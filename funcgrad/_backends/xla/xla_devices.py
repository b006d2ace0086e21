"""JAX's devices as devices of funcgrad: arrays of JAX are the handles.

>>> import pytest
>>> _ = pytest.importorskip("jax")
>>> device = xla_devices()[-1]
>>> device.name.startswith("xla:cpu:"), device.get(device.put(np.arange(2.0)))
(True, array([0., 1.]))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import Compiled
from funcgrad._backends.xla.jax_library import jax_library, memory_errors, wide_dtypes
from funcgrad._backends.xla.xla_backend import on_host, prepared, supports
from funcgrad._backends.xla.xla_code import XlaCode
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import cached_property
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_PLATFORMS: Final = ("cuda", "rocm", "tpu", "cpu")


@dataclass(frozen=True, slots=True)
class XlaDevice:
    """A device of JAX's, which compiles programs and keeps arrays.

    An index out of bounds reads the nearest element, and writes nothing; a matrix without factors
    gives NaN or infinities: to raise an error, each call would wait for the device.

    Attributes
    ----------
    name : str
        Such as ``"xla:cuda:0"``.
    device : jax.Device
    calls_host : bool
        Compiled programs call operations on the host that XLA lacks.
    """

    name: str
    device: Any
    calls_host: bool = True

    def supports(self, program: Program) -> bool:
        """Whether it can run a program: a failed guard must not follow an effect."""
        return supports(program)

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program; see ``prepared``."""
        return prepared(program, relaxed)

    def lacks(self, program: Program) -> tuple[Equation, ...]:
        """The equations that are called back on the host."""
        return tuple(self._code(program).calls.equations)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to a function of arrays on the device."""
        code = self._code(program)
        with memory_errors():
            code.compile()
        ins = [(k, spec.dtype.type) for k, spec in enumerate(program.inputs) if spec.weak]
        ends = [k for k, spec in enumerate(program.output_specs) if spec.weak]
        count, guarded = len(program.outputs), bool(program.guards)
        if not (ins or ends or guarded):
            return Compiled(code.run, warns=False, is_fresh=True)

        def run(*inputs: Any) -> tuple[Any, ...] | None:
            values = [*inputs]
            for k, convert in ins:
                values[k] = convert(values[k])
            outs = code.run(*values)
            if guarded and not code.guards_hold(outs[count:]):
                return None
            results = [*outs[:count]]
            for k in ends:
                results[k] = np.asarray(results[k]).item()
            return tuple(results)

        return Compiled(run, warns=False, is_fresh=True)

    def inspect(self, program: Program) -> str:
        """The text of StableHLO, below the operations that are called back."""
        return XlaCode(program, self.device).text()

    def put(self, array: Any) -> Any:
        """Copy an array to the device."""
        with wide_dtypes(), memory_errors():
            return jax_library().device_put(array, self.device)

    def get(self, handle: Any) -> np.ndarray[Any, Any]:
        """Copy an array to the host, after the operations that compute it."""
        with memory_errors():
            return np.asarray(handle)

    def sent(self, handle: Any, other: object) -> Any:
        """Copy an array to another device of JAX's; None if the other device is none."""
        return other.put(handle) if isinstance(other, XlaDevice) else None

    def imported(self, array: Any) -> tuple[Any, tuple[int, ...], Any]:
        """Copy an array of another library's; return it with its shape and dtype."""
        jax = jax_library()
        with wide_dtypes(), memory_errors():
            # `copy=True` of from_dlpack shares memory on one device, where the owner might write
            read = jax.device_put(jax.dlpack.from_dlpack(array), self.device, may_alias=False)
            jax.block_until_ready(read)
        return read, read.shape, read.dtype

    def exported(self, handle: Any) -> Any:
        """Copy an array for others, who may write to the copy."""
        with wide_dtypes(), memory_errors():
            return handle.copy()

    def _code(self, program: Program) -> XlaCode:
        return program.derived(
            ("xla", self.name), lambda: XlaCode(program, self.device, compile=on_host)
        )


def xla_devices() -> tuple[XlaDevice, ...]:
    """The devices of this process, accelerators first."""
    return _DEVICES.devices


class _Devices:
    """The devices of JAX's, found out once."""

    @cached_property
    def devices(self) -> tuple[XlaDevice, ...]:
        """The devices, the same objects each time."""
        return tuple(_devices())


def _devices() -> Iterator[XlaDevice]:
    jax = jax_library()
    for platform in _PLATFORMS:
        try:
            devices = jax.local_devices(backend=platform)
        except RuntimeError:  # this JAX, or this machine, has no such devices
            continue
        for number, device in enumerate(devices):
            yield XlaDevice(f"xla:{platform}:{number}", device)


_DEVICES: Final = _Devices()
