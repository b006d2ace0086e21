"""Records of jitted functions: the programs that run, and those that could not be compiled."""

from __future__ import annotations

from funcgrad._backends.choice import numpy_backend
from funcgrad._backends.devices.device import Device
from funcgrad._backends.interface import Backend
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._passes.costs import Costs, costs
from funcgrad._programs.program import Program
from funcgrad.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that a backend could not compile.

    Attributes
    ----------
    program : Program
        Include ``program.to_text()`` in a report.
    backend : str
        The backend's name.
    error : str
        The error that it raised.
    """

    program: Program
    backend: str
    error: str


@dataclass(frozen=True, slots=True)
class Lowered:
    """The program that runs for arguments of one kind; it prints with the backend's source.

    Attributes
    ----------
    program : Program
        The operations of the function, one by one.
    optimized : Program
        The program after all passes.
    backend : Backend
    """

    program: Program
    optimized: Program
    backend: Backend

    @property
    def source(self) -> str:
        """The backend's text of the optimized program."""
        return self.backend.inspect(self.optimized)

    @property
    def costs(self) -> Costs:
        """Operations, bytes and peak memory of the optimized program."""
        return costs(self.optimized)

    def __str__(self) -> str:
        return f"{self.optimized}\n\n{self.source}"

    def __repr__(self) -> str:
        return (
            f"Lowered({self.program.name}: {len(self.program.equations)} equation(s),"
            f" {len(self.optimized.equations)} optimized, backend {self.backend.name!r})"
        )


def lowered(
    name: str, staged: Program, optimized: Program, place: Backend | Device, relaxed: bool
) -> Lowered:
    """The record of a program of a function, for a device or a backend.

    Raises
    ------
    ArgumentError
        The function closes over a traced value.
    """
    if isinstance(place, Device):
        return Lowered(staged, place.prepared(optimized, relaxed), place.backend)
    if not optimized.is_raw:
        raise ArgumentError(
            f"jit: {name} closes over a value that is being traced, and runs without being staged."
        )
    backend = place if place.supports(optimized) else numpy_backend()
    return Lowered(staged, backend.prepare(optimized, relaxed), backend)
