"""The native backend: a program becomes machine code, with NumPy called for what has no words.

>>> import numpy as np
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> f = fg.jit(lambda x: fnp.sum(x * x + 1.0), backend=NATIVE)
>>> f(np.arange(3.0))
Tensor(8.0)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad.backends.control_forms import written_out
from funcgrad.backends.decompose import decomposed
from funcgrad.backends.interface import MISS, Compiled, evaluated
from funcgrad.backends.native.builtin_entry import builtin, write_entry
from funcgrad.backends.native.cpython import checked, symbols
from funcgrad.backends.native.functions import write_function
from funcgrad.backends.native.native_module import Function, NativeModule
from funcgrad.backends.native.processor import compile_text, host
from funcgrad.floating_errors import notices_errors
from funcgrad.passes.pipeline import optimize
from funcgrad.primitive import Primitive
from funcgrad.programs.inline import inlined, with_programs_inside
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Contraction, Elementwise, Movement, Reduction
from funcgrad.trace import Raw


@dataclass(frozen=True, slots=True)
class NativeBackend:
    """Processor code, by way of LLVM.

    Attributes
    ----------
    name : str
    """

    name: str = "native"

    def supports(self, program: Program) -> bool:
        """Whether it can run a program: unless that closes over a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """The program without calls, its operations by formulas that can be written."""
        prepared = with_programs_inside(
            written_out(inlined(program)),
            lambda body: self.prepare(optimize(body, relaxed), relaxed),
        )
        if prepared is not program:
            prepared = optimize(prepared, relaxed)
        return decomposed(prepared, _lacks)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to machine code."""
        module = _written(program)[0]
        referents = (program, *module.referents)
        code = compile_text(_text(module), {**symbols(), **module.symbols}, host())
        native, plain = builtin(code, referents), evaluated(program).run
        inputs = program.inputs

        def run(*values: Raw) -> tuple[Any, ...] | None:
            if notices_errors():  # which machine code does not report
                return plain(*values)
            outputs = native(*values)
            if outputs is MISS:
                outputs = native(*map(_in_order, values, inputs))
            return plain(*values) if outputs is MISS else outputs

        return Compiled(run)

    def inspect(self, program: Program) -> str:
        """The text of the LLVM module."""
        module, _ = _written(program)
        called = ", ".join(sorted({*module.callbacks})) or "nothing"
        return f"; called back: {called}\n{_text(module)}"


def check_machine() -> None:
    """Check that machine code can run here.

    Raises
    ------
    NativeError
        The interpreter, NumPy or the processor is none that this backend knows.
    """
    checked()
    host()


def _written(program: Program) -> tuple[NativeModule, Function]:
    module = NativeModule(host().bits, write_function)
    function = module.function(program)
    specs = program.specs()
    write_entry(module, function, [specs[variable] for variable in program.outputs])
    return module, function


def _text(module: NativeModule) -> str:
    return "\n".join([*sorted(module.declarations), *module.texts])


def _lacks(operation: Primitive) -> bool:
    """Whether a body is written in the place of an operation."""
    structure = operation.structure
    if isinstance(structure, Elementwise):
        return not isinstance(operation.evaluate, np.ufunc)
    if isinstance(structure, Reduction):
        return structure.fold is None
    return not isinstance(structure, (Movement, Contraction))


def _in_order(value: Raw, spec: Spec) -> Raw:
    """A value as native code reads it: in C order, of a dtype of NumPy's own."""
    if spec.weak or not spec.shape:
        return np.asarray(value)[()] if type(value) is np.ndarray else value
    return np.array(value, np.dtype(spec.dtype), order="C")


NATIVE: Final = NativeBackend()
