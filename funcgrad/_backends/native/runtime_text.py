"""The code between Python and programs, as LLVM's text: the same for all programs.

It is compiled once a process. What differs from program to program is in *tables*, arrays of
integers and addresses that ``builtin_entry.py`` makes and this code goes through: how arguments
come apart, what the program's code is, which results there are, and their tree.

The functions that others call:

- ``run(self, args, count, names)``, of the kind METH_FASTCALL | METH_KEYWORDS: calls a program by
  its table, which is in ``self``, a tuple. It answers ``MISS`` to arguments of other programs.
- ``dispatch(self, args, count, names)``, a ``vectorcallfunc``: calls the functions in the slot of
  ``self`` until one does not answer ``MISS``. They are builtins whose code is ``run``, but the last
  one, which is any function of Python's and is called with ``self``.
- ``call_back``, which ``callback_text.py`` has.
"""

from __future__ import annotations

from string import Template
from typing import Final

from funcgrad._backends.native.arguments_text import ARGUMENTS
from funcgrad._backends.native.callback_text import CALL_BACK
from funcgrad._backends.native.result_checks import LOOKING
from funcgrad._backends.native.results_text import RESULTS

_BASICS: Final = """
%State = type { ptr, i64, ptr, ptr, ptr, ptr, i64, ptr, ptr, ptr }
; 0 words of the tree, 1 arguments taken, 2 their data, 3 their holders, 4 their integers,
; 5 words of the results' tree, 6 results given, 7 their arrays, 8 room for numbers, 9 their words

; ------------------------------------------------------------------------------ the next word

define internal i64 @next_word(ptr %state) nounwind alwaysinline {
  %words = load ptr, ptr %state
  %word = load i64, ptr %words
  %after = getelementptr i64, ptr %words, i64 1
  store ptr %after, ptr %state
  ret i64 %word
}

define internal ptr @next_address(ptr %state) nounwind alwaysinline {
  %word = call i64 @next_word(ptr %state)
  %address = inttoptr i64 %word to ptr
  ret ptr %address
}

define internal i1 @is_a(ptr %object, ptr %type) nounwind alwaysinline {
  %place = getelementptr i8, ptr %object, i64 $type
  %actual = load ptr, ptr %place
  %same = icmp eq ptr %actual, %type
  ret i1 %same
}

define internal i1 @has_size(ptr %object, i64 %size) nounwind alwaysinline {
  %place = getelementptr i8, ptr %object, i64 $head
  %actual = load i64, ptr %place
  %same = icmp eq i64 %actual, %size
  ret i1 %same
}

define internal void @release(ptr %objects, i64 %count) nounwind {
entry:
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %released]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %done
item:
  %place = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %place
  %there = icmp ne ptr %object, null
  br i1 %there, label %drop, label %released
drop:
  call void @Py_DecRef(ptr %object)
  br label %released
released:
  %following = add i64 %index, 1
  br label %next
done:
  ret void
}

define internal i64 @number_in(ptr %table, i64 %place) nounwind alwaysinline {
  %address = getelementptr i64, ptr %table, i64 %place
  %number = load i64, ptr %address
  ret i64 %number
}

define internal ptr @address_in(ptr %table, i64 %place) nounwind alwaysinline {
  %address = getelementptr i64, ptr %table, i64 %place
  %target = load ptr, ptr %address
  ret ptr %target
}

; Whether fields of objects, items of dicts and context variables are what they were.
define internal i1 @are_as_before(ptr %words) nounwind {
entry:
  %room = alloca ptr
  %count = load i64, ptr %words
  %first = getelementptr i64, ptr %words, i64 1
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %same]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %yes
item:
  %word = getelementptr [4 x i64], ptr %first, i64 %index
  %code = load i64, ptr %word
  %owner = call ptr @address_in(ptr %word, i64 1)
  %key = call ptr @address_in(ptr %word, i64 2)
  %wanted = call ptr @address_in(ptr %word, i64 3)
  switch i64 %code, label %field [
    i64 $item, label %entry_of
    i64 $size, label %size_of
    i64 $variable, label %value_of
  ]
field:
  %offset = ptrtoint ptr %key to i64
  %place = getelementptr i8, ptr %owner, i64 %offset
  %now = load ptr, ptr %place
  br label %compare
entry_of:
  %there = call ptr @PyDict_GetItemWithError(ptr %owner, ptr %key)
  br label %compare
size_of:
  %size = call i64 @PyDict_Size(ptr %owner)
  %as_address = inttoptr i64 %size to ptr
  br label %compare_other
value_of:
  store ptr null, ptr %room
  %status = call i32 @PyContextVar_Get(ptr %owner, ptr null, ptr %room)
  %value = load ptr, ptr %room
  call void @Py_DecRef(ptr %value)
  br label %compare_other
compare_other:
  %other = phi ptr [%as_address, %size_of], [%value, %value_of]
  br label %compare
compare:
  %actual = phi ptr [%now, %field], [%there, %entry_of], [%other, %compare_other]
  %is_same = icmp eq ptr %actual, %wanted
  br i1 %is_same, label %same, label %no
same:
  %following = add i64 %index, 1
  br label %next
yes:
  ret i1 true
no:
  call void @PyErr_Clear()
  ret i1 false
}

"""

_CALLS: Final = """
; Run the program; while it is not at its best, count the ticks of the clock that it has taken.
define internal i32 @run_program(ptr %program, ptr %ins, ptr %outs, ptr %arena) nounwind {
entry:
  %patience_place = getelementptr i64, ptr %program, i64 1
  %patience = load i64, ptr %patience_place
  %is_timed = icmp sgt i64 %patience, 0
  br i1 %is_timed, label %timed, label %plain
plain:
  %status = call i32 @run_code(ptr %program, ptr %ins, ptr %outs, ptr %arena)
  ret i32 %status
timed:
  %begin = call i64 @ticks()
  %timed_status = call i32 @run_code(ptr %program, ptr %ins, ptr %outs, ptr %arena)
  %end = call i64 @ticks()
  %ticks = sub i64 %end, %begin
  %before = load i64, ptr %patience_place
  %after = sub i64 %before, %ticks
  store i64 %after, ptr %patience_place
  %more = icmp sgt i64 %after, 0
  %went_well = icmp eq i32 %timed_status, 0
  %was_first = icmp sgt i64 %before, 0
  %over = xor i1 %more, true
  %all = and i1 %over, %was_first
  br i1 %all, label %improve, label %done
improve:
  %improver = call ptr @address_in(ptr %program, i64 2)
  br i1 %went_well, label %ask, label %later
later:
  store i64 1, ptr %patience_place
  br label %done
ask:
  %answer = call ptr @PyObject_CallNoArgs(ptr %improver)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %tell, label %drop
tell:
  %matches = call i32 @PyErr_ExceptionMatches(ptr @Exception)
  %is_usual = icmp ne i32 %matches, 0
  br i1 %is_usual, label %write, label %interrupted
write:
  call void @PyErr_WriteUnraisable(ptr %improver)
  br label %done
interrupted:  ; while Python began a thread: the call is, and the next one asks again
  store i64 1, ptr %patience_place
  ret i32 1
drop:
  call void @Py_DecRef(ptr %answer)
  br label %done
done:
  ret i32 %timed_status
}

define ptr @run(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %state = alloca %State
  %looks = alloca i1  ; whether somebody looks at the results
  store i1 false, ptr %looks
  %first = getelementptr i8, ptr %self, i64 $items
  %array = load ptr, ptr %first
  %table_place = getelementptr i8, ptr %array, i64 $head
  %table = load ptr, ptr %table_place
  %wanted = call i64 @number_in(ptr %table, i64 $positional)
  %count_fits = icmp eq i64 %count, %wanted
  br i1 %count_fits, label %counted, label %miss
counted:
  %named = call i64 @number_in(ptr %table, i64 $named)
  %no_names = icmp eq ptr %names, null
  br i1 %no_names, label %unnamed, label %with_names
unnamed:
  %none_wanted = icmp eq i64 %named, 0
  br i1 %none_wanted, label %checks, label %miss
with_names:
  %names_fit = call i1 @has_size(ptr %names, i64 %named)
  br i1 %names_fit, label %checks, label %miss
checks:
  %is_raw_word = call i64 @number_in(ptr %table, i64 $is_raw)
  %is_raw = icmp ne i64 %is_raw_word, 0
  br i1 %is_raw, label %fit, label %ask_state
ask_state:
  %attention = call i32 @attention()
  switch i32 %attention, label %miss [
    i32 1, label %ask_check
    i32 2, label %ask_calls
  ]
ask_calls:  ; at what Python's functions call inside nobody looks
  %asked_program = call ptr @address_in(ptr %table, i64 $program)
  %calls_back = call i64 @number_in(ptr %asked_program, i64 4)
  store i1 true, ptr %looks
  %stays = icmp eq i64 %calls_back, 0
  br i1 %stays, label %ask_check, label %miss
ask_check:
  %check = call ptr @address_in(ptr %table, i64 $check)
  %unchecked = icmp eq ptr %check, null
  br i1 %unchecked, label %fit, label %look
look:
  %places = call ptr @address_in(ptr %table, i64 $places)
  %as_before = call i1 @are_as_before(ptr %places)
  br i1 %as_before, label %look_at_others, label %ask
look_at_others:
  %others = call ptr @address_in(ptr %table, i64 $others)
  %no_others = icmp eq ptr %others, null
  br i1 %no_others, label %fit, label %ask
ask:
  %asked = phi ptr [%check, %look], [%others, %look_at_others]
  %answer = call ptr @PyObject_CallNoArgs(ptr %asked)
  %answered = icmp ne ptr %answer, null
  br i1 %answered, label %told, label %interrupted
told:
  %unchanged = icmp eq ptr %answer, @True
  call void @Py_DecRef(ptr %answer)
  br i1 %unchanged, label %fit, label %miss

fit:
  %bytes = call i64 @number_in(ptr %table, i64 $bytes)
  %is_small = icmp ule i64 %bytes, 8192
  br i1 %is_small, label %on_stack, label %on_heap
on_stack:
  %stack = alloca i8, i64 %bytes, align 64
  br label %room_there
on_heap:
  %heap = call ptr @malloc(i64 %bytes)
  %heap_there = icmp ne ptr %heap, null
  br i1 %heap_there, label %room_there, label %no_memory
no_memory:
  %ignored = call ptr @PyErr_NoMemory()
  ret ptr null
room_there:
  %room = phi ptr [%stack, %on_stack], [%heap, %on_heap]
  %inputs = call i64 @number_in(ptr %table, i64 $inputs)
  %outputs = call i64 @number_in(ptr %table, i64 $outputs)
  %holders = getelementptr ptr, ptr %room, i64 %inputs
  %integers = getelementptr ptr, ptr %holders, i64 %inputs
  %outs = getelementptr ptr, ptr %integers, i64 %inputs
  %arrays = getelementptr ptr, ptr %outs, i64 %outputs
  %numbers = getelementptr ptr, ptr %arrays, i64 %outputs
  %behind = getelementptr [16 x i8], ptr %numbers, i64 %outputs
  %behind_word = ptrtoint ptr %behind to i64
  %padded = add i64 %behind_word, 63
  %aligned = and i64 %padded, -64
  %arena = inttoptr i64 %aligned to ptr
  %tree = call ptr @address_in(ptr %table, i64 $tree)
  %result_tree = call ptr @address_in(ptr %table, i64 $result_tree)
  %results = call ptr @address_in(ptr %table, i64 $results)
  store ptr %tree, ptr %state
  %taken_field = getelementptr %State, ptr %state, i64 0, i32 1
  store i64 0, ptr %taken_field
  %data_field = getelementptr %State, ptr %state, i64 0, i32 2
  store ptr %room, ptr %data_field
  %holders_field = getelementptr %State, ptr %state, i64 0, i32 3
  store ptr %holders, ptr %holders_field
  %integers_field = getelementptr %State, ptr %state, i64 0, i32 4
  store ptr %integers, ptr %integers_field
  %tree_field = getelementptr %State, ptr %state, i64 0, i32 5
  store ptr %result_tree, ptr %tree_field
  %given_field = getelementptr %State, ptr %state, i64 0, i32 6
  store i64 0, ptr %given_field
  %arrays_field = getelementptr %State, ptr %state, i64 0, i32 7
  store ptr %arrays, ptr %arrays_field
  %numbers_field = getelementptr %State, ptr %state, i64 0, i32 8
  store ptr %numbers, ptr %numbers_field
  %results_field = getelementptr %State, ptr %state, i64 0, i32 9
  store ptr %results, ptr %results_field

  %took = call i1 @take_all(ptr %table, ptr %args, i64 %count, ptr %names, ptr %state)
  br i1 %took, label %taken, label %not_taken
not_taken:
  call void @PyErr_Clear()  ; such as an integer that is too large, or an attribute that is missing
  br label %release_inputs
taken:
  %allocated = call i1 @allocate(ptr %state, i64 %outputs, ptr %outs)
  br i1 %allocated, label %go, label %not_allocated
not_allocated:
  %some = load i64, ptr %given_field
  call void @release(ptr %arrays, i64 %some)
  br label %release_inputs
go:
  %program = call ptr @address_in(ptr %table, i64 $program)
  %status = call i32 @run_program(ptr %program, ptr %room, ptr %outs, ptr %arena)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %ask_looks, label %release_outputs
ask_looks:
  %looked = load i1, ptr %looks
  br i1 %looked, label %judge, label %build
judge:
  %finite = call i1 @are_finite(ptr %results, ptr %outs, i64 %outputs)
  br i1 %finite, label %build, label %release_outputs
build:
  %built = call ptr @make(ptr %state)
  %is_built = icmp ne ptr %built, null
  br i1 %is_built, label %release_inputs, label %release_outputs
release_outputs:
  %outcome = phi i32 [%status, %go], [3, %judge], [1, %build]
  call void @release(ptr %arrays, i64 %outputs)
  br label %release_inputs
release_inputs:
  ; 0: there is a result; 1: an exception; 2: a guard failed; 4: a signal;
  ; 3: other arguments, or a result that is not finite where somebody looks
  %end = phi i32 [3, %not_taken], [1, %not_allocated], [0, %build], [%outcome, %release_outputs]
  %result = phi ptr [null, %not_taken], [null, %not_allocated], [%built, %build],
    [null, %release_outputs]
  %held = load i64, ptr %taken_field
  call void @release(ptr %holders, i64 %held)
  br i1 %is_small, label %after, label %free_heap
free_heap:
  call void @free(ptr %room)
  br label %after
after:
  switch i32 %end, label %miss [
    i32 0, label %well
    i32 1, label %exception
    i32 2, label %guard
    i32 4, label %raised
  ]
well:
  ret ptr %result
guard:
  br i1 %is_raw, label %no_result, label %miss
no_result:
  call void @Py_IncRef(ptr @None)
  ret ptr @None
exception:
  br i1 %is_raw, label %raised, label %interrupted
interrupted:  ; whoever evaluates the program raises a better error, but an interrupt is one
  %matches = call i32 @PyErr_ExceptionMatches(ptr @Exception)
  %is_usual = icmp ne i32 %matches, 0
  br i1 %is_usual, label %forget, label %raised
forget:
  call void @PyErr_Clear()
  br label %miss
raised:
  ret ptr null
miss:
  call void @Py_IncRef(ptr @MISS)
  ret ptr @MISS
}

define ptr @dispatch(ptr %self, ptr %args, i64 %flagged, ptr %names) nounwind {
entry:
  %count = and i64 %flagged, 9223372036854775807  ; the highest bit is a flag
  %slot = getelementptr i8, ptr %self, i64 $head
  %functions = load ptr, ptr %slot
  call void @Py_IncRef(ptr %functions)  ; another thread may put others there
  %items = getelementptr i8, ptr %functions, i64 $items
  %size_place = getelementptr i8, ptr %functions, i64 $head
  %size = load i64, ptr %size_place
  %last = sub i64 %size, 1
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %missed]
  %more = icmp slt i64 %index, %last
  %place = getelementptr ptr, ptr %items, i64 %index
  %function = load ptr, ptr %place
  br i1 %more, label %try, label %general
try:
  %definition_place = getelementptr i8, ptr %function, i64 $head
  %definition = load ptr, ptr %definition_place
  %code_place = getelementptr i8, ptr %definition, i64 8
  %code = load ptr, ptr %code_place
  %self_place = getelementptr i8, ptr %function, i64 $bound
  %table = load ptr, ptr %self_place
  %result = call ptr %code(ptr %table, ptr %args, i64 %count, ptr %names)
  %is_miss = icmp eq ptr %result, @MISS
  br i1 %is_miss, label %missed, label %answered
missed:
  call void @Py_DecRef(ptr %result)
  %following = add i64 %index, 1
  br label %next
answered:
  call void @Py_DecRef(ptr %functions)
  ret ptr %result

general:
  %no_names = icmp eq ptr %names, null
  br i1 %no_names, label %copy, label %with_names
with_names:
  %named_place = getelementptr i8, ptr %names, i64 $head
  %names_count = load i64, ptr %named_place
  br label %copy
copy:
  %named = phi i64 [0, %general], [%names_count, %with_names]
  %total = add i64 %count, %named
  %with_self = add i64 %total, 1
  %room = alloca ptr, i64 %with_self
  store ptr %self, ptr %room
  %behind = getelementptr ptr, ptr %room, i64 1
  %bytes = mul i64 %total, 8
  %ignored = call ptr @memcpy(ptr %behind, ptr %args, i64 %bytes)
  %positional = add i64 %count, 1
  %general_result = call ptr @PyObject_Vectorcall(
    ptr %function, ptr %room, i64 %positional, ptr %names)
  call void @Py_DecRef(ptr %functions)
  ret ptr %general_result
}

; ------------------------------------------------------------------ what is defined elsewhere

@None = external global i8
@True = external global i8
@list = external global i8
@dict = external global i8
@tuple = external global i8
@ndarray = external global i8
@Exception = external global i8
@Tensor = external global i8
@MISS = external global i8
@error_state = external global i8
@usual_state = external global i8
@silent_state = external global i8
@looking_state = external global i8
declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @PyErr_NoMemory()
declare void @PyErr_WriteUnraisable(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyComplex_FromDoubles(double, double)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyList_New(i64)
declare ptr @PyTuple_New(i64)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyArray_Empty(i32, ptr, ptr, i32)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
"""

RUNTIME: Final = Template("".join([_BASICS, ARGUMENTS, RESULTS, LOOKING, CALL_BACK, _CALLS]))
"""The text, but for the numbers of the layout of objects, of words, and of places in tables."""
