"""The native backend: a program becomes machine code, which calls NumPy for other operations.

>>> import numpy as np
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> f = fg.jit(lambda x: fnp.sum(x * x + 1.0), backend=NATIVE)
>>> f(np.arange(3.0))
Tensor(8.0)
"""

from __future__ import annotations

from operator import methodcaller
from typing import Final

import numpy as np

from funcgrad._backends.control_forms import in_blocks, written_out
from funcgrad._backends.decompose import decomposed
from funcgrad._backends.interface import Compiled
from funcgrad._backends.native.block_sizes import block_of
from funcgrad._backends.native.chosen_sides import with_branches
from funcgrad._backends.native.cpython import checked, symbols
from funcgrad._backends.native.function_text import Arithmetic
from funcgrad._backends.native.native_code import SharedCode, native_code_of
from funcgrad._backends.native.native_module import Function, NativeModule
from funcgrad._backends.native.processor import Toolchain
from funcgrad._backends.native.runtime import CALLS, Runtime
from funcgrad._backends.native.runtime_text import runtime_text
from funcgrad._backends.native.small_axes import small_axes_apart
from funcgrad._backends.native.thread_pool import POOL, has_threads
from funcgrad._backends.step_sums import sum_after_loops
from funcgrad._base.locks import cached_property, uninterrupted
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import (
    Contraction,
    Elementwise,
    Movement,
    Opaque,
    Reduction,
)
from funcgrad._passes.in_place import change_in_place
from funcgrad._passes.pipeline import optimize
from funcgrad._passes.trials_of_passes import tried
from funcgrad._programs.inline import inlined, with_programs_inside
from funcgrad._programs.program import Program


class NativeBackend:
    """Machine code, made by LLVM.

    Attributes
    ----------
    name : str
    exact : bool
        Whether elementwise operations have NumPy's bits. Otherwise transcendental functions are
        polynomials in registers, within 2 units in the last place.
    threads : int or None
        How many threads share large pieces of work; None for as many as pay (``LIMITS``).
    """

    def __init__(self, exact: bool = False) -> None:
        self.exact: Final = exact
        self.name: Final = "native"
        self.threads: int | None = None
        self._by_threads: dict[int | None, NativeBackend] = {None: self}
        self._threads = np.zeros(1, np.int64)  # the same, for machine code
        self._tools = Toolchain()
        self._tools.wait_before_forks()
        self._made: Runtime | None = None

    def with_threads(self, threads: int | None) -> NativeBackend:
        """This backend with so many threads: the same one for the same number.

        Where the system has no threads of POSIX, there is one.
        """
        if not has_threads():
            return self
        if threads not in self._by_threads:
            self._runtime()  # which all of them have, and the functions that programs share
            assert self._shared is not None
            other = object.__new__(NativeBackend)
            vars(other).update(vars(self), threads=threads, _threads=np.array([threads], np.int64))
            self._by_threads.setdefault(threads, other)
        return self._by_threads[threads]

    def __reduce__(self) -> str | tuple[object, ...]:
        if self.threads is None:
            return "EXACT" if self.exact else "NATIVE"
        return methodcaller("with_threads", self.threads), (EXACT if self.exact else NATIVE,)

    def __repr__(self) -> str:
        return f"NativeBackend(exact={self.exact}, threads={self.threads})"

    def _runtime(self) -> Runtime:
        """The code between Python and programs, compiled once."""
        return self._made or self._tools.alone(self._make_runtime)

    def _make_runtime(self) -> Runtime:
        if self._made is None:
            self._made = Runtime(self._tools, self._tools.quick_code(runtime_text()))
        return self._made

    @cached_property
    def _shared(self) -> SharedCode:
        machine = self._tools.processor
        arithmetic = Arithmetic(machine.fuses, self.exact, machine.scales, machine.halves)
        return SharedCode(self._tools, arithmetic, symbols())

    def supports(self, program: Program) -> bool:
        """Whether it can run a program: unless that closes over a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """The program without calls, its operations by formulas that can be written."""
        branched = with_branches(inlined(in_blocks(inlined(program), block_of)))
        prepared = with_programs_inside(
            written_out(branched, python_slices=True),
            lambda body: self.prepare(optimize(body, relaxed), relaxed),
        )
        prepared = tried(sum_after_loops, prepared)
        if prepared is not program:
            prepared = optimize(prepared, relaxed)
        prepared = tried(_decomposed, prepared, is_exact=False)
        apart = tried(small_axes_apart, prepared, is_exact=False)
        if apart is not prepared:
            prepared = optimize(apart, relaxed)
        return tried(change_in_place, prepared)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to machine code."""
        return uninterrupted(lambda: self._compile(program))

    def _compile(self, program: Program) -> Compiled:
        runtime = self._runtime()
        calls = {name: runtime.code.addresses[name] for name in CALLS}
        threads = {"threads": self._threads.ctypes.data}
        code = native_code_of(
            self._shared,
            program,
            lambda: self._written(program),
            {**symbols(), **calls, **threads},
            lambda: POOL.functions(self._tools, calls),
        )
        code.referents.append(self._threads)
        run, direct = runtime.function(program, code), runtime.direct(program, code)
        return Compiled(run, code.calls_back, is_fresh=True, direct=direct)

    def inspect(self, program: Program) -> str:
        """The text of the LLVM module, below the operations that are called back, and why."""
        module, _ = self._written(program)
        called = sorted({*module.callbacks}) or ["nothing"]
        lines = [f"; called back: {line}" for line in called]
        lines += [f"; called back at times: {line}" for line in sorted({*module.recourses})]
        return "\n".join([*lines, module.text])

    def check_machine(self) -> None:
        """Check that machine code can run here.

        Raises
        ------
        NativeError
            The interpreter, NumPy or the processor is none that this backend knows.
        """
        if self._made is None:
            checked()
            self._runtime()

    def _written(self, program: Program) -> tuple[NativeModule, Function]:
        # A third of this package writes text, and programs whose code is on disk need none.
        from funcgrad._backends.native.functions import write_function, write_module

        bits, shared = self._tools.processor.bits, self._shared
        module = NativeModule(bits, shared.arithmetic, shared.definitions, write_function)
        return module, write_module(module, program)


def _decomposed(program: Program) -> Program:
    return decomposed(program, _lacks)


def _lacks(operation: Primitive) -> bool:
    """Whether an operation is replaced by its body."""
    structure = operation.structure
    if isinstance(structure, Elementwise):
        return not isinstance(operation.evaluate, np.ufunc)
    if isinstance(structure, Reduction):
        return structure.fold is None
    if isinstance(structure, Opaque) and (structure.orders is not None or structure.keeps_finite):
        return False
    return not isinstance(structure, (Movement, Contraction))


NATIVE: Final = NativeBackend()

EXACT: Final = NativeBackend(exact=True)
"""With NumPy's bits."""
