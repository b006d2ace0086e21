"""``OnHost``: a device as the backend of functions whose arguments and results are on the host."""

from __future__ import annotations

from typing import Any

from funcgrad._backends.devices.placement import device_of
from funcgrad._backends.interface import Compiled, DeviceBackend
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import NUMBERS, Raw
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class OnHost:
    """Compiles programs for a device, and copies their results to the host.

    Attributes
    ----------
    backend : DeviceBackend
    """

    backend: DeviceBackend

    @property
    def name(self) -> str:
        """The device's name."""
        return self.backend.name

    def supports(self, program: Program) -> bool:
        """Whether the device supports the program."""
        return self.backend.supports(program)

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program to the form that the device runs best."""
        return self.backend.prepare(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """Compile a program; its results are raw values."""
        device = device_of(self.backend, "jit")
        run = device.compiled(program).run

        def fetched(*values: Raw) -> tuple[Any, ...] | None:
            outs = run(*values)
            if outs is None:
                return None
            return tuple([out if type(out) in NUMBERS else device.fetched(out) for out in outs])

        return Compiled(fetched, warns=False, is_fresh=True)

    def inspect(self, program: Program) -> str:
        """The compiled form as text."""
        return self.backend.inspect(program)
