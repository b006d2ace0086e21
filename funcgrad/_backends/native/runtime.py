"""The code between Python and machine code: calls of programs, and calls of Python in their midst.

It is LLVM text (``runtime_text.py``), the same for all programs, and compiled once per process. It
knows the memory layout of arrays, of Python's and NumPy's scalars, and of few other objects; for
everything else it calls functions of CPython's and NumPy's C interfaces.

``run_table(*arguments)`` runs a program as its table says (``call_tables.py``). It returns new
results; None if a guard failed; False if the arguments are not those that the table is for, such as
an array that is not in C order.

``call(*arguments)`` calls a jitted function: by the tables in its slot, one after the other, and by
Python if they do not take the call, as with trees and names. It is the method ``__call__`` of
jitted functions once a program has been compiled.

Programs run with and without the interpreter's lock, so functions that they call take it.
``look`` returns 1 with an exception, such as an interrupt, which a signal has brought, else 0, and
lets go of the lock for the rest of the program. ``look_between_calls`` is for programs that call
Python's functions, which need the lock again: it lets other threads have it for a while.
``refuse_memory`` raises a ``MemoryError``; ``has_raised`` returns whether there is an exception.
``share_alone`` does in one thread the work that the pool of threads shares (``thread_pool.py``).

``call_back(step, pointers, words)`` calls a function with arrays over native memory, which lies at
the pointers. The words are how many there are, and for each its dtype, its rank and its sizes. It
returns 0, or 1 with an exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import Direct, DirectlyCalled, evaluated
from funcgrad._backends.native.call_tables import Table, is_float, raw_table, tensor_table
from funcgrad._backends.native.cpython import symbols, takes_calls
from funcgrad._backends.native.native_code import NativeCode
from funcgrad._backends.native.processor import Code, Toolchain
from funcgrad._base.floating_errors import ERROR_STATE, notices_errors, quiet
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program

CALLS: Final = (
    "call_back",
    "has_raised",
    "look",
    "look_between_calls",
    "refuse_memory",
    "share_alone",
)
"""The functions of the runtime that programs call."""


class Runtime:
    """The runtime's code, and the maker of functions that run programs."""

    def __init__(self, tools: Toolchain, made: bytes) -> None:
        objects = {"ndarray": np.ndarray, "None": None, "False": False, "True": True}
        addresses = {name: id(value) for name, value in objects.items()}
        self._large_arena = ctypes.c_void_p()  # it goes with the process
        addresses["large_arena"] = ctypes.addressof(self._large_arena)
        functions = ("run_table", "call", *CALLS)
        self.code: Code = tools.linked([made], {**symbols(), **addresses}, functions)
        at = self.code.addresses
        fast, named = 0x0080, 0x0082  # METH_FASTCALL; with METH_KEYWORDS
        self._run = _BuiltinDefinition(b"run_table", at["run_table"], fast, None)
        self._call = _BuiltinDefinition(b"__call__", at["call"], named, _CALL_TEXT)

    def _builtin(self, table: Table) -> Callable[..., Any]:
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._run), table, None)

    def direct(self, program: Program, code: NativeCode) -> Direct | None:
        """How calls of jitted functions are taken; None if only Python knows this interpreter."""
        if not takes_calls():
            return None
        return Direct(partial(tensor_table, program, code), self._take_calls)

    def _take_calls(self, kind: type[DirectlyCalled]) -> None:
        if kind.taken_by is not None:
            return
        make = ctypes.pythonapi.PyDescr_NewMethod
        make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
        kind.taken_by = self  # its code stays
        kind.__call__ = make(kind, ctypes.addressof(self._call))  # type: ignore[method-assign]

    def function(self, program: Program, code: NativeCode) -> Callable[..., Any]:
        """The program as a function of raw values, see ``Compiled.run``.

        For a program ``x, n -> m``, where n and m are integers of Python's, it is::

            def run(v0, v1):
                if (state := read()) is not usual and state is not silent and someone_listens():
                    return evaluate(v0, v1)
                native = timed if time_left.nanoseconds else builtin
                outs = native(v0, int64(v1))
                if outs is False:
                    v0, v1, = in_order(inputs, (v0, v1,))
                    outs = native(v0, int64(v1))
                if outs is None:
                    return None
                o0, = outs
                return o0.item(),
        """
        specs = program.specs()
        outputs = [specs[variable] for variable in program.outputs]
        builtin, time_left = self._builtin(raw_table(program, code)), code.time_left
        improve = code.improve

        def timed(*values: Raw) -> Any:
            begin = perf_counter_ns()
            outs = builtin(*values)
            if time_left.ends(perf_counter_ns() - begin):
                improve()
            return outs

        names: dict[str, Any] = {
            "builtin": builtin,
            "timed": timed,
            "time_left": time_left,
            "held": self,
            "inputs": program.inputs,
            "in_order": _in_order,
            "evaluate": _evaluated(program),
            "someone_listens": _someone_listens,
            "int64": np.int64,
            "bool_": np.bool_,
        }
        state = "someone_listens()"  # machine code tells of nothing
        if ERROR_STATE is not None:
            state = f"(state := read()) is not usual and state is not silent and {state}"
            names |= {name: getattr(ERROR_STATE, name) for name in ("read", "usual", "silent")}
        inputs = "".join([f"v{k}, " for k in range(len(program.inputs))])
        values = [_value(f"v{k}", spec) for k, spec in enumerate(program.inputs)]
        call = f"outs = native({', '.join(values)})"
        lines = [f"def run({inputs}):", f" if {state}:", f"  return evaluate({inputs})"]
        lines += [" native = timed if time_left.nanoseconds else builtin", f" {call}"]
        lines += [" if outs is False:"]
        lines += [f"  {inputs or '_'} = in_order(inputs, ({inputs}))", f"  {call}"]
        items = ["" if is_float(spec) or not spec.weak else ".item()" for spec in outputs]
        if any(items):
            results = [f"o{k}" for k in range(len(outputs))]
            lines += [" if outs is None:", "  return None", f" {', '.join(results)}, = outs"]
            results = [f"{result}{item}, " for result, item in zip(results, items, strict=True)]
            lines.append(f" return {''.join(results)}")
        else:
            lines.append(" return outs")
        exec(compile("\n".join(lines), "funcgrad run", "exec"), names)
        function: Callable[..., Any] = names.pop("run")  # its globals do not hold it
        return function


def _evaluated(program: Program) -> Callable[..., tuple[Raw, ...] | None]:
    """A function that evaluates a program; like machine code's, its results are new arrays."""
    run = evaluated(program).run

    def evaluate(*values: Raw) -> tuple[Raw, ...] | None:
        with quiet():
            outs = run(*values)
        return outs and tuple([np.array(o) if type(o) is np.ndarray else o for o in outs])

    return evaluate


def _someone_listens() -> bool:
    """Whether the user has asked that NumPy tells of floating-point errors."""
    with quiet():
        return notices_errors()


def _value(name: str, spec: Spec) -> str:
    """An expression for an operand that has its number where the runtime looks for it."""
    kind = np.dtype(spec.dtype).kind
    number = {"i": "int64", "b": "bool_"}.get(kind) if spec.weak else None
    return f"{number}({name})" if number else name


def _in_order(specs: Sequence[Spec], values: Sequence[Raw]) -> list[Raw]:
    """Values as native code reads them: in C order, where the processor wants them."""
    return [
        np.require(value, spec.dtype, ["C", "A"]) if type(value) is np.ndarray else value
        for value, spec in zip(values, specs, strict=True)
    ]


class _BuiltinDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_CALL_TEXT: Final = b"__call__($self, /, *args, **kwargs)\n--\n\nCall the function, see ``fg.jit``."
