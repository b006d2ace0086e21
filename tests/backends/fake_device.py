"""A device for tests: copies of arrays that NumPy cannot read, and counts of what is done to them.

A handle is a ``Chip``, whose array only this file reads. So a value that reaches the host without
``get`` is an error, and the counts show every transfer, allocation and launch.

>>> import funcgrad as fg
>>> device = FakeDevice("fake:doctest")
>>> x = fg.put([1.0, 2.0], device)[0]
>>> y = x * 3.0
>>> y, device.counts.launches, device.counts.gets, float(y), device.counts.gets
(Tensor(float64[] on fake:doctest), 1, 0, 3.0, 1)
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import Compiled
from funcgrad._backends.numpy.backend import NUMPY
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import NUMBERS, Raw
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_KEY: Final = object()


class Chip:
    """The handle of an array."""

    __slots__ = ("__weakref__", "_counts", "_sealed")

    def __init__(self, array: Raw, counts: Counts) -> None:
        self._counts = counts
        stored = np.array(array)
        stored.setflags(write=False)
        self._sealed = lambda key: stored if key is _KEY else None
        counts.allocations += 1


@dataclass
class Counts:
    """What a device was asked to do.

    Attributes
    ----------
    puts, gets : int
        Arrays that were copied to the device (other than numbers beside a launch), and to the host.
    looks : int
        Numbers that guards and weak results copied to the host.
    launches, compilations : int
        Programs that ran, and that were compiled.
    allocations : int
        Arrays that were made.
    """

    puts: int = 0
    gets: int = 0
    looks: int = 0
    launches: int = 0
    compilations: int = 0
    allocations: int = 0

    @property
    def alive(self) -> int:
        """The number of arrays that exist now. (With ``Chip.__del__``, a test that interrupts
        functions could meet it, where Python drops the interrupt.)"""
        return sum(type(x) is Chip and x._counts is self for x in gc.get_objects())


@dataclass(eq=False)
class FakeDevice:
    """A device that computes with NumPy on hidden copies.

    Attributes
    ----------
    name : str
    missing : frozenset of str
        Names of operations that the device lacks.
    calls_host : bool
    counts : Counts
    """

    name: str = "fake:0"
    missing: frozenset[str] = frozenset()
    calls_host: bool = False
    counts: Counts = field(default_factory=Counts)

    def supports(self, program: Program) -> bool:
        """Whether all constants are known."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """The program as NumPy's backend prepares it."""
        return NUMPY.prepare(program, relaxed)

    def inspect(self, program: Program) -> str:
        """The source that runs."""
        return NUMPY.inspect(program)

    def put(self, array: Raw) -> Chip:
        """A copy on the device."""
        assert type(array) not in NUMBERS, array
        self.counts.puts += 1
        return Chip(array, self.counts)

    def get(self, handle: Chip) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        self.counts.gets += 1
        return np.array(self._read(handle))

    def lacks(self, program: Program) -> Sequence[Equation]:
        """The equations of operations that are missing, or that are a user's functions."""
        lacking: list[Equation] = []
        for equation in program.equations:
            operation, structure = equation.operation, equation.operation.structure
            if operation.name in self.missing or operation.is_foreign:
                lacking.append(equation)
            if isinstance(structure, Control):
                for body, _ in structure.runs(**dict(equation.params)):
                    lacking += self.lacks(body)
        return lacking

    def compile(self, program: Program) -> Compiled:
        """Compile by NumPy, with results in new handles."""
        self.counts.compilations += 1
        run = NUMPY.compile(program).run
        weak = [spec.weak for spec in program.output_specs]
        specs = program.inputs

        def launched(*inputs: Any) -> tuple[Any, ...] | None:
            assert len(inputs) == len(specs), "as many inputs as the program has"
            values = []
            for value, spec in zip(inputs, specs, strict=True):
                assert (type(value) in NUMBERS) == spec.weak, f"{value!r} for {spec}"
                if type(value) is Chip:
                    raw = self._read(value)
                else:
                    raw = value
                    self.counts.puts += np.ndim(raw) > 0
                if not spec.weak:
                    assert (raw.shape, raw.dtype) == (spec.shape, spec.dtype), f"{raw!r}: {spec}"
                values.append(raw)
            self.counts.launches += 1
            with np.errstate(all="ignore"):
                outs = run(*values)
            self.counts.looks += len(program.guards) + sum(weak)
            if outs is None:
                return None
            return tuple(
                [
                    out if is_weak else Chip(out, self.counts)
                    for out, is_weak in zip(outs, weak, strict=True)
                ]
            )

        return Compiled(launched, warns=False, is_fresh=True)

    def _read(self, handle: Chip) -> Raw:
        assert handle._counts is self.counts, "the handle of another device"
        array: Any = handle._sealed(_KEY)
        return array if array.ndim else array[()]
