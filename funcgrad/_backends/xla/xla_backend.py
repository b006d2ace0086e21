"""The XLA backend on host values: a program becomes a function that ``jax.jit`` compiles.

>>> import pytest
>>> _ = pytest.importorskip("jax")
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> f = fg.jit(lambda x: fnp.sum(x * x + 1.0), backend="xla")
>>> f(np.arange(3.0))
Tensor(8.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends import control_forms
from funcgrad._backends.decompose import decomposed
from funcgrad._backends.interface import Compiled
from funcgrad._backends.xla.host_calls import HostCalls
from funcgrad._backends.xla.jax_library import jax_library, wide_dtypes
from funcgrad._backends.xla.translation import Translation, embedded
from funcgrad._backends.xla.xla_loops import grows
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise, Loop, Opaque, Reduction
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.inline import inlined, with_programs_inside
from funcgrad._programs.program import Program

_SMALL: Final = 1024
"""Constants of so many elements are in the compiled code; greater ones are arguments of it."""


class XlaCode:
    """A program as a compiled function of JAX.

    Attributes
    ----------
    run : callable
        ``(*raw inputs or JAX's arrays) -> list of JAX's arrays``: the outputs, the variables that
        guards check, and perhaps whether all went well.
    calls : HostCalls
    checked : bool
        Whether the last result says if all went well.
    """

    def __init__(self, program: Program, device: Any = None) -> None:
        jax = jax_library()
        self.calls = HostCalls()
        self.checked = False
        self.guards = sorted(program.index.guarded)
        first = len(program.inputs)
        large = [k for k, c in enumerate(program.constants) if _is_large(c.value)]

        def traced(number: Any, stored: Sequence[Any], *inputs: Any) -> list[Any]:
            known = [*inputs, *map(embedded, program.constants)]
            for k, array in zip(large, stored, strict=True):
                known[first + k] = array
            values, ok = Translation(self.calls, number).values(program, known)
            self.checked = ok is not None
            return [
                *[values[k] for k in (*program.outputs, *self.guards)],
                *([ok] if self.checked else []),
            ]

        specs = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in program.inputs]
        options: dict[str, Any] = {}
        if device is not None:
            options["in_shardings"] = options["out_shardings"] = jax.sharding.SingleDeviceSharding(
                device
            )
        with wide_dtypes():
            self._stored = [jax.device_put(embedded(program.constants[k]), device) for k in large]
            number = jax.ShapeDtypeStruct((), np.int64)
            lowered = jax.jit(traced, **options).lower(number, self._stored, *specs)
            self.text: Callable[[], str] = lowered.as_text
            self._compiled = lowered.compile()

    def run(self, *inputs: Any) -> list[Any]:
        """Run it on raw values or JAX's arrays."""
        calls = self.calls
        number = calls.number() if calls.equations else _NO_CALL
        with wide_dtypes():
            outs: list[Any] = self._compiled(number, self._stored, *inputs)
        if calls.equations:
            for out in outs:
                out.block_until_ready()
            if calls.has_effects:
                jax_library().effects_barrier()
            calls.raise_error(number)
        return outs


_NO_CALL: Final = np.int64(0)


def _is_large(value: Any) -> bool:
    size = np.size(value)
    return size > _SMALL and (np.asarray(value).dtype.kind in "fc" or size > 64 * _SMALL)


@dataclass(frozen=True, slots=True)
class XlaBackend:
    """Programs on host values, compiled by XLA for the first device of JAX's.

    Attributes
    ----------
    name : str
    flushes : bool
        Whether subnormal numbers are zero.
    """

    name: str = "xla"
    flushes: bool = True

    def supports(self, program: Program) -> bool:
        """Whether it can run a program: a failed guard must not follow an effect."""
        return program.is_raw and not (program.guards and program.index.effects)

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program; see ``prepared``."""
        return prepared(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to a function."""
        code = XlaCode(program)
        weak = [(k, spec.dtype.type) for k, spec in enumerate(program.inputs) if spec.weak]
        count, specs = len(program.outputs), program.output_specs
        are_weak = any(spec.weak for spec in specs)

        def run(*values: Any) -> tuple[Any, ...] | None:
            inputs = [*values]
            for k, convert in weak:
                inputs[k] = convert(inputs[k])
            outs = [*map(np.asarray, code.run(*inputs))]
            found = dict(zip(code.guards, outs[count:], strict=False))
            for guard in program.guards:
                if not guard.holds(guard.finds(found[guard.variable])):
                    return None
            if code.checked and not outs[-1]:
                return tuple(program.evaluate(values))  # it knows the result, or the error
            if are_weak:
                pairs = zip(outs, specs, strict=False)
                return tuple([out.item() if spec.weak else out for out, spec in pairs])
            return tuple(outs[:count])

        return Compiled(run, warns=code.checked)

    def inspect(self, program: Program) -> str:
        """The text of StableHLO, below the operations that are called back."""
        code = XlaCode(program)
        called = sorted({equation.name for equation in code.calls.equations}) or ["nothing"]
        return "\n".join([*[f"// called back: {name}" for name in called], code.text()])


def prepared(program: Program, relaxed: bool) -> Program:
    """The program without calls and with the bodies of operations that XLA lacks."""
    written = inlined(control_forms.in_blocks(inlined(program), _all))
    written = control_forms.written_out(written, leaves=_stays)
    written = with_programs_inside(written, lambda body: prepared(optimize(body, relaxed), relaxed))
    if written is not program:
        written = optimize(written, relaxed)
    return decomposed(written, _lacks)


def _all(loop: Loop) -> tuple[int, Loop]:
    """All examples of a batch run together."""
    return loop.length or 0, loop


def _stays(form: Program) -> bool:
    """Whether an operation is called back as a whole."""
    return grows(form, 0)


def _lacks(operation: Primitive) -> bool:
    structure = operation.structure
    if isinstance(structure, Reduction):
        return structure.fold is None
    if isinstance(structure, Elementwise):
        return structure.formula is None
    return isinstance(structure, Opaque)


XLA: Final = XlaBackend()
