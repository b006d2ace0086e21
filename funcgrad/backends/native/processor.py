"""The processor that code is made for, and code in memory.

What flows in is the text of an LLVM module and the addresses of what it does not define; what flows
out is machine code, which lives as long as its ``Code``.

>>> text = "define i64 @five() { ret i64 5 }"
>>> compiled = compile_text(text, {}, host())
>>> import ctypes
>>> ctypes.CFUNCTYPE(ctypes.c_int64)(compiled.address("five"))()
5
"""

from __future__ import annotations

from collections.abc import Mapping

import llvmlite.binding as llvm

from funcgrad.errors import FuncgradError
from funcgrad.quick_dataclasses import dataclass


class NativeError(FuncgradError):
    """A program cannot be compiled to machine code."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor.

    Attributes
    ----------
    cpu : str
        Its name, as LLVM has it.
    features : str
        What it can do, such as ``+avx2,-avx512f``.
    bits : int
        The width of its vectors.
    """

    cpu: str
    features: str
    bits: int


def host() -> Processor:
    """The processor that this runs on."""
    _initialize()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512dq") and features.get("avx512bw"):
        bits = 512
    else:
        bits = 256 if features.get("avx2") else 128
    return Processor(llvm.get_host_cpu_name(), features.flatten(), bits)


def _initialize() -> None:
    llvm.initialize_native_target()  # these do nothing from the second time on
    llvm.initialize_native_asmprinter()


class Code:
    """A compiled module. Its functions can be called while this object is alive."""

    __slots__ = ("_engine",)

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        """The address of a function of the module."""
        return self._engine.get_function_address(name)


def compile_text(text: str, symbols: Mapping[str, int], machine: Processor, level: int = 2) -> Code:
    """Compile a module to machine code in memory.

    Parameters
    ----------
    text : str
        An LLVM module.
    symbols : mapping
        The addresses of the functions and data that it declares and does not define.
    machine : Processor
    level : int
        How much the code generator optimizes: 0 compiles in half of the time of 2.

    Raises
    ------
    NativeError
        LLVM refuses the text, or a symbol is not among ``symbols``: nothing has run then.
    """
    _initialize()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise NativeError(f"native code: LLVM refuses the module: {error}") from None
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, jit=True, codemodel="jitdefault"
    )
    engine = llvm.create_mcjit_compiler(module, target)
    for declared in (*module.functions, *module.global_variables):
        if declared.is_declaration and not declared.name.startswith("llvm."):
            address = symbols.get(declared.name)
            if address is None:
                raise NativeError(f"native code: nobody knows the symbol {declared.name!r}")
            engine.add_global_mapping(declared, address)
    engine.finalize_object()
    return Code(engine)
