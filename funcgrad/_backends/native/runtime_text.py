"""The text of the code between Python and machine code, without the entry: programs, calls back.

It is LLVM text, the same for all programs, and compiled once per process. See ``runtime.py`` for
its functions.
"""

from __future__ import annotations

import re
from typing import Final

from funcgrad._backends.native.cpython import ARRAY_FLAGS, DENSE, HEAD, TUPLE_ITEMS, WRITABLE
from funcgrad._backends.native.entry_text import ENTRY, TableStep
from funcgrad._base.allocator import LARGEST_OF_HEAP

MOST_KEPT: Final = 2**27
"""The greatest size in bytes of an arena that is kept."""


def runtime_text() -> str:
    """The text of the runtime's module."""
    layout = {"head": HEAD, "type": HEAD - 8, "flags": ARRAY_FLAGS, "items": TUPLE_ITEMS}
    steps = {step.name.lower(): step.value for step in TableStep}
    sizes = {"least_kept": LARGEST_OF_HEAP, "most_kept": MOST_KEPT}
    values = {**layout, "dense": DENSE, "writable": WRITABLE, **sizes, **steps}
    text = re.sub(r"\$(\w+)", lambda match: str(values[match[1]]), ENTRY + _TEXT)
    return _OFFSET.sub(
        r"\1\2.place = getelementptr i8, ptr \4, i64 \5\n\1\2 = load \3, ptr \2.place", text
    )


_OFFSET: Final = re.compile(r"^( +)(%\w+) = load (\w+), ptr (%\w+) \+ (\d+)$", re.MULTILINE)
"""A word some bytes behind an address: LLVM needs two lines for it."""

_TEXT: Final = """
; Arrays, for each its dtype, its rank and its sizes: new ones with room for scalars, which come
; without arrays, else over the memory at the pointers.
define internal i1 @make_arrays(ptr %specs, i64 %count, ptr %pointers, ptr %scalars,
    ptr %objects) nounwind {
entry:
  %is_new = icmp ne ptr %scalars, null
  %flags = select i1 %is_new, i32 0, i32 $writable
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %made]
  %spec = phi ptr [%specs, %entry], [%spec_following, %made]
  %following = add i64 %index, 1
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %whole
item:
  %descr = load ptr, ptr %spec + 0
  %rank = load i64, ptr %spec + 8
  %sizes = getelementptr i64, ptr %spec, i64 2
  %spec_following = getelementptr i64, ptr %sizes, i64 %rank
  %place = getelementptr ptr, ptr %pointers, i64 %index
  %object_place = getelementptr ptr, ptr %objects, i64 %index
  %number = getelementptr [16 x i8], ptr %scalars, i64 %index
  %has_no_axes = icmp eq i64 %rank, 0
  %is_number = and i1 %is_new, %has_no_axes
  br i1 %is_number, label %made, label %make
make:
  %there = load ptr, ptr %place
  %memory = select i1 %is_new, ptr null, ptr %there
  %narrow_rank = trunc i64 %rank to i32
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_NewFromDescr(ptr @ndarray, ptr %descr, i32 %narrow_rank,
    ptr %sizes, ptr null, ptr %memory, i32 %flags, ptr null)
  %is_made = icmp ne ptr %array, null
  br i1 %is_made, label %read, label %refused
read:
  %elements = load ptr, ptr %array + $head
  br label %made
made:
  %data = phi ptr [%number, %item], [%elements, %read]
  %object = phi ptr [null, %item], [%array, %read]
  store ptr %data, ptr %place
  store ptr %object, ptr %object_place
  br label %next
refused:
  call void @release(ptr %objects, i64 %index)
  ret i1 false
whole:
  ret i1 true
}

; A large arena is kept for the next run: the allocator would give it back to the system, which
; hands memory out again page by page. Its first word is its size.
;
; Words of a program: 0 its code; 1 how it runs: 1 without the interpreter's lock, 2 so from its
; first look for signals on; 2 the bytes of its arena.
define internal i32 @run_program(ptr %words, ptr %ins, ptr %outs) nounwind {
entry:
  %bytes = load i64, ptr %words + 16
  %padded = add i64 %bytes, 64
  %is_small = icmp ule i64 %padded, 8192
  br i1 %is_small, label %on_stack, label %on_heap
on_stack:
  %stack = alloca i8, i64 %padded, align 64
  br label %run
on_heap:
  %above_least = icmp ugt i64 %padded, $least_kept
  %below_most = icmp ule i64 %padded, $most_kept
  %is_kept = and i1 %above_least, %below_most
  br i1 %is_kept, label %look_for, label %anew
look_for:
  %large = atomicrmw xchg ptr @large_arena, ptr null acq_rel
  %large_there = icmp ne ptr %large, null
  br i1 %large_there, label %measure, label %anew
measure:
  %large_size = load i64, ptr %large
  %is_enough = icmp uge i64 %large_size, %padded
  br i1 %is_enough, label %run, label %too_small
too_small:
  call void @free(ptr %large)
  br label %anew
anew:
  %heap = call ptr @malloc(i64 %padded)
  %heap_there = icmp ne ptr %heap, null
  br i1 %heap_there, label %run, label %no_memory
no_memory:
  %ignored = call ptr @PyErr_NoMemory()
  ret i32 1
run:
  %room = phi ptr [%stack, %on_stack], [%heap, %anew], [%large, %measure]
  %size = phi i64 [%padded, %on_stack], [%padded, %anew], [%large_size, %measure]
  %room_word = ptrtoint ptr %room to i64
  %above = add i64 %room_word, 63
  %aligned = and i64 %above, -64
  %memory = inttoptr i64 %aligned to ptr
  %status = call i32 @run_code(ptr %words, ptr %ins, ptr %outs, ptr %memory)
  br i1 %is_small, label %done, label %let_go
let_go:
  %is_large = icmp ugt i64 %size, $least_kept
  %is_not_too_large = icmp ule i64 %size, $most_kept
  %keep = and i1 %is_large, %is_not_too_large
  br i1 %keep, label %keep_heap, label %free_heap
keep_heap:
  store i64 %size, ptr %room
  %before = atomicrmw xchg ptr @large_arena, ptr %room acq_rel
  call void @free(ptr %before)
  br label %done
free_heap:
  call void @free(ptr %room)
  br label %done
done:
  ret i32 %status
}

define internal i32 @run_code(ptr %words, ptr %ins, ptr %outs, ptr %arena) nounwind {
entry:
  %code = load ptr, ptr %words
  %how = load i64, ptr %words + 8
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

define i32 @share_alone(ptr %function, ptr %environment, i64 %count, i64 %ranges, ptr %memory,
    i64 %bytes, ptr %threads, i64 %patience) nounwind {
  %status = call i32 %function(i64 0, i64 %count, ptr %memory, ptr %environment)
  ret i32 %status
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
  %specs = getelementptr i64, ptr %words, i64 1
  %made = call i1 @make_arrays(ptr %specs, i64 %count, ptr %pointers, ptr null, ptr %arrays)
  br i1 %made, label %call, label %failed
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

@False = external global i8
@None = external global i8
@True = external global i8
@large_arena = external global ptr
@ndarray = external global i8
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare void @free(ptr)
declare ptr @malloc(i64)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
"""
