"""A program as compiled code: ``jax.jit``, ahead of time, with 64-bit dtypes.

>>> import pytest
>>> _ = pytest.importorskip("jax")
>>> import funcgrad as fg
>>> code = XlaCode(fg.program(lambda x: x * 3)(np.float64(0.0)))
>>> code.compile()
>>> code.run(np.float64(2.0))
(Array(6., dtype=float64),)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.xla.host_calls import HostCalls, HostCompile
from funcgrad._backends.xla.jax_library import jax_library, memory_errors
from funcgrad._backends.xla.translation import Translation, embedded
from funcgrad._programs.program import Program

_SMALL: Final = 1024
"""Constants of so many elements are in the compiled code; greater ones are arguments of it. Of
integers, which choose places, 64 times as many are."""


class XlaCode:
    """A program that JAX has traced.

    Attributes
    ----------
    calls : HostCalls
    checked : bool
        Whether the last result says if all went well: indices in bounds, matrices with factors.
    """

    def __init__(
        self,
        program: Program,
        device: Any = None,
        checks: bool = False,
        compile: HostCompile | None = None,
    ) -> None:
        jax = jax_library()
        self._scope = jax.enable_x64  # as by `wide_dtypes`, without looking for the module
        self.calls = HostCalls(compile)
        self.checked = False
        self._guards = program.guards
        self._guarded = sorted(program.index.guarded)
        count = len(program.inputs)
        large = [k for k, c in enumerate(program.constants) if _is_large(c.value)]

        def traced(*arrays: Any) -> tuple[Any, ...]:
            known = [*arrays[:count], *map(embedded, program.constants)]
            for k, array in zip(large, arrays[count:], strict=True):
                known[count + k] = array
            values, ok = Translation(self.calls, checks).values(program, known)
            self.checked = checks and ok is not None
            outs = [values[k] for k in (*program.outputs, *self._guarded)]
            return (*outs, ok) if self.checked else tuple(outs)

        specs = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in program.inputs]
        options: dict[str, Any] = {}
        if device is not None:
            place = jax.sharding.SingleDeviceSharding(device)
            options = {"in_shardings": place, "out_shardings": place}
        with self._scope(True):
            self._stored = [jax.device_put(embedded(program.constants[k]), device) for k in large]
            self._lowered: Any = jax.jit(traced, **options).lower(*specs, *self._stored)
        self._handles = {type(jax.device_put(np.int32(0)))}
        self._compiled: Any = None

    def compile(self) -> None:
        """Compile it, and drop its text, which takes more memory than the code."""
        lowered = self._lowered
        if lowered is not None:
            with self._scope(True):
                self._compiled = lowered.compile()
            self._lowered = None

    def text(self) -> str:
        """The text of StableHLO, before it is compiled, below the operations called back."""
        called = sorted({equation.name for equation in self.calls.equations}) or ["nothing"]
        lines = [f"// called back: {name}" for name in called]
        return "\n".join([*lines, self._lowered.as_text()])

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it on NumPy's or JAX's arrays.

        Returns
        -------
        tuple of jax.Array
            The outputs, the variables that guards check, and perhaps whether all went well.

        Raises
        ------
        MemoryError
            The memory of the device does not suffice.
        """
        if self._stored:
            inputs = (*inputs, *self._stored)
        outs: tuple[Any, ...]
        try:
            if self.calls.equations:
                outs = self.calls.run(lambda: self._scoped(inputs))
            elif self._handles.issuperset(map(type, inputs)):  # which have their dtypes
                outs = self._compiled(*inputs)
            else:
                outs = self._scoped(inputs)
        except RuntimeError:
            with memory_errors():
                raise
        return outs

    def _scoped(self, inputs: Sequence[Any]) -> Any:
        with self._scope(True):
            return self._compiled(*inputs)

    def guards_hold(self, outs: Sequence[Any]) -> bool:
        """Whether the program's control flow holds, from the results that follow the outputs."""
        if not self._guards:
            return True
        numbers = dict(zip(self._guarded, map(np.asarray, outs), strict=False))
        return all(guard.holds(guard.finds(numbers[guard.variable])) for guard in self._guards)


def _is_large(value: Any) -> bool:
    size = np.size(value)
    return size > _SMALL and (np.asarray(value).dtype.kind in "fc" or size > 64 * _SMALL)
