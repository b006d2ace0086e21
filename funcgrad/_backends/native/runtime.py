"""The code between Python and machine code: calls of programs, and calls of Python in their midst.

It is LLVM text, the same for all programs, and compiled once per process. It knows the memory
layout of arrays and of Python's and NumPy's scalars; for everything else it calls functions of
CPython's and NumPy's C interfaces. The entries of ``jit``, in Python, unpack the arguments of a
call and make its results, so this code gets raw values.

The builtin ``run_program(*operands, *results)`` runs a program and fills the arrays ``results``. It
returns 0; 2 if a guard failed; 3 if an array is not in C order.

Programs run with and without the interpreter's lock, so what is called in their midst takes it.
``look`` returns 1 with an exception, such as an interrupt, which a signal has brought, else 0, and
lets go of the lock for the rest of the program. ``look_between_calls`` is for programs that call
Python's functions, which need the lock again: it lets other threads have it for a while.
``refuse_memory`` raises a ``MemoryError``; ``has_raised`` returns whether there is an exception.

``call_back(step, pointers, words)`` calls a function with arrays over native memory, which lies at
the pointers. The words are how many there are, and for each its dtype, its rank and its sizes. It
returns 0, or 1 with an exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from string import Template
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import evaluated
from funcgrad._backends.native.cpython import ARRAY_FLAGS, DENSE, HEAD, WRITABLE, symbols
from funcgrad._backends.native.native_code import NativeCode
from funcgrad._backends.native.processor import Code, Toolchain
from funcgrad._base.floating_errors import ERROR_STATE, notices_errors, quiet
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program

CALLS: Final = ("call_back", "has_raised", "look", "look_between_calls", "refuse_memory")
"""The functions of the runtime that programs call."""

_GUARD, _ORDER = 2, 3


class Runtime:
    """The runtime's code, and the maker of functions that run programs."""

    def __init__(self, tools: Toolchain, made: bytes) -> None:
        types = {"ndarray": id(np.ndarray)}
        self.code: Code = tools.linked([made], {**symbols(), **types}, ("run_program", *CALLS))
        flags = 0x0080  # METH_FASTCALL
        address = self.code.addresses["run_program"]
        self._definition = _BuiltinDefinition(b"run_program", address, flags, None)

    def _builtin(self, code: NativeCode) -> Callable[..., int]:
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        builtin: Callable[..., int] = make(ctypes.addressof(self._definition), code.words, None)
        return builtin

    def function(self, program: Program, code: NativeCode) -> Callable[..., Any]:
        """The program as a function of raw values, see ``Compiled.run``.

        For a program ``x, n -> y``, where n is an integer of Python's and y a number, it is::

            def run(v0, v1):
                if (state := read()) is not usual and state is not silent and someone_listens():
                    return evaluate(v0, v1)
                o0 = empty((), float64)
                native = timed if time_left.nanoseconds else builtin
                status = native(v0, int64(v1), o0)
                if status == 3:
                    v0, v1, = in_order(inputs, (v0, v1,))
                    status = native(v0, int64(v1), o0)
                return o0[()], if not status else None
        """
        specs = program.specs()
        outputs = [specs[variable] for variable in program.outputs]
        builtin, time_left, improve = self._builtin(code), code.time_left, code.improve

        def timed(*values: Raw) -> int:
            begin = perf_counter_ns()
            status = builtin(*values)
            if time_left.ends(perf_counter_ns() - begin):
                improve()
            return status

        names: dict[str, Any] = {
            "builtin": builtin,
            "timed": timed,
            "time_left": time_left,
            "empty": np.empty,
            "held": (self, code),
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
        results = [f"o{k}" for k in range(len(outputs))]
        call = f"status = native({', '.join([*values, *results])})"
        lines = [f"def run({inputs}):", f" if {state}:", f"  return evaluate({inputs})"]
        for k, spec in enumerate(outputs):
            names[f"dtype{k}"] = np.dtype(spec.dtype)
            lines.append(f" o{k} = empty({spec.shape}, dtype{k})")
        lines += [" native = timed if time_left.nanoseconds else builtin", f" {call}"]
        lines += [f" if status == {_ORDER}:"]
        lines += [f"  {inputs or '_'} = in_order(inputs, ({inputs}))", f"  {call}"]
        answers = "".join([f"{_result(f'o{k}', spec)}, " for k, spec in enumerate(outputs)])
        lines.append(f" return ({answers}) if not status else None")
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


def _result(name: str, spec: Spec) -> str:
    """An expression for a result that was made as an array."""
    if spec.shape:
        return name
    return f"{name}.item()" if spec.weak else f"{name}[()]"


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


def runtime_text() -> str:
    """The text of the runtime's module."""
    layout = {"head": HEAD, "type": HEAD - 8, "flags": ARRAY_FLAGS}
    return _TEXT.substitute(layout, dense=DENSE, writable=WRITABLE)


_TEXT: Final = Template("""
; Words of a program: 0 its code; 1 how it runs: 1 without the interpreter's lock, 2 so from its
; first look for signals on; 2 its operands, 3 the bytes of its arena.
define ptr @run_program(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %words_place = getelementptr i8, ptr %self, i64 $head  ; it is an array
  %words = load ptr, ptr %words_place
  %pointers = alloca ptr, i64 %count
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %there]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %arena
item:
  %place = getelementptr ptr, ptr %args, i64 %index
  %object = load ptr, ptr %place
  %inside = getelementptr i8, ptr %object, i64 $head
  %type_place = getelementptr i8, ptr %object, i64 $type
  %type = load ptr, ptr %type_place
  %is_array = icmp eq ptr %type, @ndarray
  br i1 %is_array, label %look_at_flags, label %there
look_at_flags:
  %flags_place = getelementptr i8, ptr %object, i64 $flags
  %flags = load i32, ptr %flags_place
  %both = and i32 %flags, $dense
  %is_dense = icmp eq i32 %both, $dense
  br i1 %is_dense, label %dense, label %unordered
dense:
  %elements = load ptr, ptr %inside
  br label %there
there:
  %data = phi ptr [%inside, %item], [%elements, %dense]
  %pointer = getelementptr ptr, ptr %pointers, i64 %index
  store ptr %data, ptr %pointer
  %following = add i64 %index, 1
  br label %next
unordered:
  %third = call ptr @PyLong_FromLongLong(i64 3)
  ret ptr %third

arena:
  %inputs_place = getelementptr i64, ptr %words, i64 2
  %inputs = load i64, ptr %inputs_place
  %outs = getelementptr ptr, ptr %pointers, i64 %inputs
  %bytes_place = getelementptr i64, ptr %words, i64 3
  %bytes = load i64, ptr %bytes_place
  %padded = add i64 %bytes, 64
  %is_small = icmp ule i64 %padded, 8192
  br i1 %is_small, label %on_stack, label %on_heap
on_stack:
  %stack = alloca i8, i64 %padded, align 64
  br label %run
on_heap:
  %heap = call ptr @malloc(i64 %padded)
  %heap_there = icmp ne ptr %heap, null
  br i1 %heap_there, label %run, label %no_memory
no_memory:
  %ignored = call ptr @PyErr_NoMemory()
  ret ptr null
run:
  %room = phi ptr [%stack, %on_stack], [%heap, %on_heap]
  %room_word = ptrtoint ptr %room to i64
  %above = add i64 %room_word, 63
  %aligned = and i64 %above, -64
  %memory = inttoptr i64 %aligned to ptr
  %status = call i32 @run_code(ptr %words, ptr %pointers, ptr %outs, ptr %memory)
  br i1 %is_small, label %done, label %free_heap
free_heap:
  call void @free(ptr %room)
  br label %done
done:
  switch i32 %status, label %raised [
    i32 0, label %answer
    i32 2, label %answer
  ]
answer:
  %wide = zext i32 %status to i64
  %number = call ptr @PyLong_FromLongLong(i64 %wide)
  ret ptr %number
raised:  ; 1: an operation; 4: a signal
  ret ptr null
}

define internal i32 @run_code(ptr %words, ptr %ins, ptr %outs, ptr %arena) nounwind {
entry:
  %code = load ptr, ptr %words
  %how_place = getelementptr i64, ptr %words, i64 1
  %how = load i64, ptr %how_place
  switch i64 %how, label %unlocked [
    i64 0, label %locked
    i64 2, label %locked_at_first
  ]
locked:
  %status = call i32 %code(ptr %ins, ptr %outs, ptr %arena)
  ret i32 %status
locked_at_first:
  %last_status = call i32 %code(ptr %ins, ptr %outs, ptr %arena)
  %lock = call i32 @PyGILState_Ensure()  ; whether this thread has it still or not
  call void @PyGILState_Release(i32 0)  ; the lock stays
  ret i32 %last_status
unlocked:
  %thread = call ptr @PyEval_SaveThread()
  %long_status = call i32 %code(ptr %ins, ptr %outs, ptr %arena)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %long_status
}

define i32 @look() nounwind {
  %lock = call i32 @PyGILState_Ensure()
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 1)  ; whoever had the lock has it no longer
  ret i32 %status
}

define i32 @look_between_calls() nounwind {
  %lock = call i32 @PyGILState_Ensure()
  %thread = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %thread)
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  ret i32 %status
}

define void @refuse_memory() nounwind {
  %lock = call i32 @PyGILState_Ensure()
  %nothing = call ptr @PyErr_NoMemory()
  call void @PyGILState_Release(i32 %lock)
  ret void
}

define i1 @has_raised() nounwind {
  %lock = call i32 @PyGILState_Ensure()
  %error = call ptr @PyErr_Occurred()
  call void @PyGILState_Release(i32 %lock)
  %is_there = icmp ne ptr %error, null
  ret i1 %is_there
}

define i32 @call_back(ptr %step, ptr %pointers, ptr %words) nounwind {
  %lock = call i32 @PyGILState_Ensure()
  %status = call i32 @call_locked(ptr %step, ptr %pointers, ptr %words)
  call void @PyGILState_Release(i32 %lock)
  ret i32 %status
}

define internal i32 @call_locked(ptr %step, ptr %pointers, ptr %words) nounwind {
entry:
  %count = load i64, ptr %words
  %arrays = alloca ptr, i64 %count
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %there]
  %word = phi i64 [1, %entry], [%word_following, %there]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %call
item:
  %descr_place = getelementptr i64, ptr %words, i64 %word
  %descr = load ptr, ptr %descr_place
  %rank_place = getelementptr i64, ptr %descr_place, i64 1
  %rank = load i64, ptr %rank_place
  %narrow_rank = trunc i64 %rank to i32
  %sizes = getelementptr i64, ptr %descr_place, i64 2
  %data_place = getelementptr ptr, ptr %pointers, i64 %index
  %data = load ptr, ptr %data_place
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_NewFromDescr(ptr @ndarray, ptr %descr, i32 %narrow_rank,
    ptr %sizes, ptr null, ptr %data, i32 $writable, ptr null)
  %array_place = getelementptr ptr, ptr %arrays, i64 %index
  store ptr %array, ptr %array_place
  %is_there = icmp ne ptr %array, null
  br i1 %is_there, label %there, label %refused
there:
  %following = add i64 %index, 1
  %behind_head = add i64 %word, 2
  %word_following = add i64 %behind_head, %rank
  br label %next
refused:
  call void @release(ptr %arrays, i64 %index)
  ret i32 1
call:
  %answer = call ptr @PyObject_Vectorcall(ptr %step, ptr %arrays, i64 %count, ptr null)
  call void @release(ptr %arrays, i64 %count)
  %went_well = icmp ne ptr %answer, null
  br i1 %went_well, label %drop, label %failed
drop:
  call void @Py_DecRef(ptr %answer)
  ret i32 0
failed:
  ret i32 1
}

define internal void @release(ptr %objects, i64 %count) nounwind {
entry:
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %item]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %done
item:
  %place = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %place
  call void @Py_DecRef(ptr %object)
  %following = add i64 %index, 1
  br label %next
done:
  ret void
}

@ndarray = external global i8
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @PyErr_CheckSignals()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
""")
