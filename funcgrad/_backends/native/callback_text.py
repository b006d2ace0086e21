"""The part of the runtime's text by which programs run, and call Python's functions.

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

from typing import Final

CALL_BACK: Final = """
; Run code, without the interpreter's lock if it takes long between two calls of Python's functions.
define internal i32 @run_code(ptr %program, ptr %ins, ptr %outs, ptr %arena) nounwind {
entry:
  %code = load ptr, ptr %program
  %is_long = call i64 @number_in(ptr %program, i64 3)
  switch i64 %is_long, label %unlocked [
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
  %descr = call ptr @address_in(ptr %words, i64 %word)
  %rank_word = add i64 %word, 1
  %rank = call i64 @number_in(ptr %words, i64 %rank_word)
  %narrow_rank = trunc i64 %rank to i32
  %sizes_word = add i64 %word, 2
  %sizes = getelementptr i64, ptr %words, i64 %sizes_word
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
  %word_following = add i64 %sizes_word, %rank
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

declare i32 @PyErr_CheckSignals()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

"""
