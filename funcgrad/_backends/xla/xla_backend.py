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

from typing import Any, Final

import numpy as np

from funcgrad._backends import control_forms
from funcgrad._backends.decompose import decomposed
from funcgrad._backends.improving_runs import ImprovingRun
from funcgrad._backends.interface import Compiled
from funcgrad._backends.numpy.prepare import prepared_exactly
from funcgrad._backends.xla.xla_code import XlaCode
from funcgrad._backends.xla.xla_loops import grows, stays_on_host
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise, Loop, Opaque, Reduction
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.inline import inlined, with_programs_inside
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class XlaBackend:
    """Programs on host values, compiled by XLA for the first device of JAX's."""

    name: str = "xla"

    def supports(self, program: Program) -> bool:
        """Whether it can run a program: a failed guard must not follow an effect."""
        return supports(program)

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program; see ``prepared``."""
        return prepared(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to a function."""
        code = XlaCode(program, checks=True, compile=on_host)
        code.compile()
        weak = [(k, spec.dtype.type) for k, spec in enumerate(program.inputs) if spec.weak]
        count, specs = len(program.outputs), program.output_specs
        are_weak = any(spec.weak for spec in specs)

        def run(*values: Any) -> tuple[Any, ...] | None:
            inputs = [*values]
            for k, convert in weak:
                inputs[k] = convert(inputs[k])
            outs = [np.asarray(out)[()] for out in code.run(*inputs)]  # 0-d arrays become numbers
            if not code.guards_hold(outs[count:]):
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
        return XlaCode(program, checks=True, compile=on_host).text()


def on_host(program: Program) -> ImprovingRun:
    """Compile a program for the host, with the bits of its evaluation."""
    return ImprovingRun(prepared_exactly(program))


def supports(program: Program) -> bool:
    """Whether XLA can run a program; guards are checked after all of it."""
    return program.is_raw and not (program.guards and program.index.effects)


def prepared(program: Program, relaxed: bool) -> Program:
    """The program without calls and with the bodies of operations that XLA lacks."""
    written = inlined(control_forms.in_blocks(inlined(program), _all))
    written = control_forms.written_out(written, leaves=_stays)
    written = with_programs_inside(
        written, lambda body: prepared(optimize(body, relaxed), relaxed), stays_on_host
    )
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
