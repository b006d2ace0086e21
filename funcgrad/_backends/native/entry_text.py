"""The text of the entry: how calls of jitted functions are taken, and made into results.

It reads objects of CPython's and NumPy's in memory, by the steps of a table (``call_tables.py``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TableStep(IntEnum):
    """The codes of a table's steps."""

    END, BEGIN, FOLLOW, EQUAL, SIZES, OPERAND, ITEM, ENTRY, STATE, HOLDS, COUNT = range(11)


ENTRY: Final = """
; How jitted functions are called. Their slot has a tuple of tables, and last a function in Python,
; which gets the calls that no table is for.
define ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %ways = load ptr, ptr %self + $head
  %is_made = icmp ne ptr %ways, null
  br i1 %is_made, label %begin, label %raised
raised:  ; a SystemError: no __init__ has run
  ret ptr null
begin:
  call void @Py_IncRef(ptr %ways)  ; another thread may change the slot
  %size = load i64, ptr %ways + $head
  %last = sub i64 %size, 1
  %has_names = icmp ne ptr %names, null
  %start = select i1 %has_names, i64 %last, i64 0
  br label %next
next:
  %index = phi i64 [%start, %begin], [%following, %missed]
  %place = getelementptr ptr, ptr %ways, i64 %index
  %way = load ptr, ptr %place + $items
  %is_last = icmp eq i64 %index, %last
  br i1 %is_last, label %count_names, label %try
try:
  %answer = call ptr @run_table(ptr %way, ptr %args, i64 %count)
  %is_none = icmp eq ptr %answer, @None
  %is_false = icmp eq ptr %answer, @False
  %is_missed = or i1 %is_none, %is_false
  br i1 %is_missed, label %missed, label %done
missed:
  call void @Py_DecRef(ptr %answer)
  %following = add i64 %index, 1
  br label %next
count_names:
  br i1 %has_names, label %named, label %by_python
named:
  %name_count = load i64, ptr %names + $head
  br label %by_python
by_python:
  %values = phi i64 [0, %count_names], [%name_count, %named]
  %all = add i64 %count, %values
  %with_self = add i64 %all, 1
  %stack = alloca ptr, i64 %with_self
  store ptr %self, ptr %stack
  %behind = getelementptr ptr, ptr %stack, i64 1
  %bytes = mul i64 %all, 8
  %copied = call ptr @memcpy(ptr %behind, ptr %args, i64 %bytes)
  %positional = add i64 %count, 1
  %told = call ptr @PyObject_Vectorcall(ptr %way, ptr %stack, i64 %positional, ptr %names)
  br label %done
done:
  %result = phi ptr [%answer, %try], [%told, %by_python]
  call void @Py_DecRef(ptr %ways)
  ret ptr %result
}

; A table is a tuple, whose first item is an array of words: 0 the words of its program; 1 how many
; arguments a call has; 2, 3 how many inputs and results the program has; 4 for each result its
; dtype, which is 0 for Python's float, its rank and its sizes; 5 the class that wraps them, or 0; 6
; the form of the whole: 0 one of them, 1 a tuple, else a function that joins them; from 7 on the
; steps that read the arguments.
;
; Returns a new object: None if a guard fails, False if the table is for other calls.
define ptr @run_table(ptr %table, ptr %args, i64 %given) nounwind {
entry:
  %array = load ptr, ptr %table + $items
  %words = load ptr, ptr %array + $head
  %program = load ptr, ptr %words + 0
  %count = load i64, ptr %words + 8
  %inputs = load i64, ptr %words + 16
  %outputs = load i64, ptr %words + 24
  %specs = load ptr, ptr %words + 32
  %kind = load ptr, ptr %words + 40
  %as_many = icmp eq i64 %given, %count
  br i1 %as_many, label %look, label %unfit
look:
  %ins = alloca ptr, i64 %inputs
  %values = alloca ptr, i64 %inputs  ; objects that stay until the program has run
  %bytes = mul i64 %inputs, 8
  %empty = call ptr @memset(ptr %values, i32 0, i64 %bytes)
  %outs = alloca ptr, i64 %outputs
  %scalars = alloca [16 x i8], i64 %outputs, align 16
  %objects = alloca ptr, i64 %outputs
  %steps = getelementptr i64, ptr %words, i64 7
  %misfit = call i32 @read_arguments(ptr %steps, ptr %args, ptr %ins, ptr %values)
  %fits = icmp eq i32 %misfit, 0
  br i1 %fits, label %make, label %refuse
refuse:
  call void @release(ptr %values, i64 %inputs)
  %is_other = icmp eq i32 %misfit, 1
  br i1 %is_other, label %unfit, label %raised
make:
  %room = call i1 @make_arrays(ptr %specs, i64 %outputs, ptr %outs, ptr %scalars, ptr %objects)
  br i1 %room, label %run, label %refuse
run:
  %status = call i32 @run_program(ptr %program, ptr %ins, ptr %outs)
  call void @release(ptr %values, i64 %inputs)
  switch i32 %status, label %failed [
    i32 0, label %wrap
    i32 2, label %guard
  ]
wrap:
  %kept = call i1 @wrap(ptr %specs, i64 %outputs, ptr %scalars, ptr %kind, ptr %objects)
  br i1 %kept, label %answer, label %drop
answer:
  %form = load i64, ptr %words + 48
  switch i64 %form, label %tree [
    i64 0, label %one
    i64 1, label %several
  ]
tree:
  %build = inttoptr i64 %form to ptr
  %built = call ptr @PyObject_Vectorcall(ptr %build, ptr %objects, i64 %outputs, ptr null)
  call void @release(ptr %objects, i64 %outputs)
  ret ptr %built
one:
  %single = load ptr, ptr %objects + 0
  ret ptr %single
several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %is_there = icmp ne ptr %tuple, null
  br i1 %is_there, label %next, label %drop
next:
  %index = phi i64 [0, %several], [%following, %item]
  %more = icmp slt i64 %index, %outputs
  br i1 %more, label %item, label %whole
item:
  %place = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %place
  %done = call i32 @PyTuple_SetItem(ptr %tuple, i64 %index, ptr %object)
  %following = add i64 %index, 1
  br label %next
whole:
  ret ptr %tuple
guard:
  call void @release(ptr %objects, i64 %outputs)
  call void @Py_IncRef(ptr @None)
  ret ptr @None
unfit:
  call void @Py_IncRef(ptr @False)
  ret ptr @False
failed:  ; 1: an operation; 4: a signal
  %by_operation = icmp eq i32 %status, 1
  %is_wrapped = icmp ne ptr %kind, null
  %is_told = and i1 %by_operation, %is_wrapped
  br i1 %is_told, label %tell, label %drop
tell:  ; Python's entry runs the program again, and says which operation it was
  call void @PyErr_Clear()
  br label %guard
drop:
  call void @release(ptr %objects, i64 %outputs)
  br label %raised
raised:
  ret ptr null
}

; Steps are of four words: a code, a number of bytes, and two values. Each looks at the object that
; the steps before have come to. Returns 0 if all hold, 1 if one does not, 2 with an exception.
define internal i32 @read_arguments(ptr %steps, ptr %args, ptr %ins,
    ptr %values) nounwind {
entry:
  %read = alloca ptr
  br label %next
next:
  %step = phi ptr [%steps, %entry], [%step_following, %on]
  %at = phi ptr [%args, %entry], [%at_following, %on]
  %code = load i64, ptr %step + 0
  %bytes = load i64, ptr %step + 8
  %first = load i64, ptr %step + 16
  %second = load i64, ptr %step + 24
  %key = inttoptr i64 %second to ptr
  %inside = getelementptr i8, ptr %at, i64 %bytes
  switch i64 %code, label %fits [
    i64 $begin, label %begin
    i64 $follow, label %follow
    i64 $equal, label %equal
    i64 $sizes, label %sizes
    i64 $operand, label %operand
    i64 $item, label %item
    i64 $entry, label %look_up
    i64 $state, label %state
    i64 $holds, label %holds
    i64 $count, label %count
  ]
begin:  ; from an object on, or from the arguments
  %is_object = icmp ne i64 %second, 0
  %start = select i1 %is_object, ptr %key, ptr %args
  br label %on
item:  ; of a dict
  %of_key = call ptr @PyDict_GetItem(ptr %at, ptr %key)
  br label %reached
follow:
  %within = load ptr, ptr %inside
  br label %reached
reached:
  %further = phi ptr [%of_key, %item], [%within, %follow]
  %is_further = icmp ne ptr %further, null
  br i1 %is_further, label %on, label %unfit
equal:  ; whether a word, with a mask, is this one
  %word = load i64, ptr %inside
  %masked = and i64 %word, %first
  %is_equal = icmp eq i64 %masked, %second
  br i1 %is_equal, label %on, label %unfit
sizes:
  %shape = load ptr, ptr %inside
  %difference = call i32 @memcmp(ptr %shape, ptr %key, i64 %first)
  %is_alike = icmp eq i32 %difference, 0
  br i1 %is_alike, label %on, label %unfit
operand:  ; an array or a scalar; the bytes say which of the program's inputs it is
  %type = load ptr, ptr %at + $type
  %value_place = getelementptr i8, ptr %at, i64 $head
  %is_array = icmp eq ptr %type, @ndarray
  br i1 %is_array, label %flags, label %given
flags:
  %all_flags = load i32, ptr %at + $flags
  %both = and i32 %all_flags, $dense
  %is_dense = icmp eq i32 %both, $dense
  %elements = load ptr, ptr %value_place
  br i1 %is_dense, label %given, label %unfit
given:
  %data = phi ptr [%value_place, %operand], [%elements, %flags]
  %in = getelementptr i8, ptr %ins, i64 %bytes
  store ptr %data, ptr %in
  %held = getelementptr i8, ptr %values, i64 %bytes
  store ptr %at, ptr %held
  call void @Py_IncRef(ptr %at)
  br label %on
look_up:  ; in a dict; 0 stands for no object
  %entry_found = call ptr @PyDict_GetItem(ptr %at, ptr %key)
  %found = ptrtoint ptr %entry_found to i64
  %is_same = icmp eq i64 %found, %first
  br i1 %is_same, label %on, label %unfit
state:  ; whether a context variable has one of two values
  %failure = call i32 @PyContextVar_Get(ptr %at, ptr null, ptr %read)
  %is_read = icmp eq i32 %failure, 0
  br i1 %is_read, label %compare, label %raised
compare:
  %value = load ptr, ptr %read
  call void @Py_DecRef(ptr %value)  ; the other references stay
  %number = ptrtoint ptr %value to i64
  %is_first = icmp eq i64 %number, %first
  %is_second = icmp eq i64 %number, %second
  %is_either = or i1 %is_first, %is_second
  br i1 %is_either, label %on, label %unfit
count:  ; calls that are left
  %left = load i64, ptr %key
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %key
  %is_left = icmp sgt i64 %left, 0
  br i1 %is_left, label %on, label %unfit
holds:  ; whether a function returns True
  %truth = call ptr @PyObject_CallNoArgs(ptr %at)
  %is_told = icmp ne ptr %truth, null
  br i1 %is_told, label %decide, label %raised
decide:
  call void @Py_DecRef(ptr %truth)
  %is_true = icmp eq ptr %truth, @True
  br i1 %is_true, label %on, label %unfit
on:
  %at_following = phi ptr [%start, %begin], [%further, %reached], [%at, %equal], [%at, %sizes],
    [%at, %given], [%at, %look_up], [%at, %compare], [%at, %count], [%at, %decide]
  %step_following = getelementptr i64, ptr %step, i64 4
  br label %next
fits:
  ret i32 0
unfit:
  ret i32 1
raised:
  ret i32 2
}

; Makes objects of the scalars among results, and wraps all.
define internal i1 @wrap(ptr %specs, i64 %count, ptr %scalars, ptr %kind, ptr %objects) nounwind {
entry:
  %is_raw = icmp eq ptr %kind, null
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %done]
  %spec = phi ptr [%specs, %entry], [%spec_following, %done]
  %following = add i64 %index, 1
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %whole
item:
  %descr = load ptr, ptr %spec + 0
  %rank = load i64, ptr %spec + 8
  %behind = add i64 %rank, 2
  %spec_following = getelementptr i64, ptr %spec, i64 %behind
  %place = getelementptr ptr, ptr %objects, i64 %index
  %array = load ptr, ptr %place
  %is_number = icmp eq ptr %array, null
  br i1 %is_number, label %make, label %there
make:
  %number = getelementptr [16 x i8], ptr %scalars, i64 %index
  %is_float = icmp eq ptr %descr, null
  br i1 %is_float, label %make_float, label %make_scalar
make_float:
  %double = load double, ptr %number
  %float = call ptr @PyFloat_FromDouble(double %double)
  br label %made
make_scalar:
  %scalar = call ptr @PyArray_Scalar(ptr %number, ptr %descr, ptr null)
  br label %made
made:
  %object = phi ptr [%float, %make_float], [%scalar, %make_scalar]
  store ptr %object, ptr %place
  br label %there
there:
  %value = phi ptr [%array, %item], [%object, %made]
  %is_made = icmp ne ptr %value, null
  br i1 %is_made, label %wrap, label %refused
wrap:
  br i1 %is_raw, label %done, label %allocate
allocate:
  %wrapped = call ptr @PyType_GenericAlloc(ptr %kind, i64 0)
  %is_wrapped = icmp ne ptr %wrapped, null
  br i1 %is_wrapped, label %keep, label %refused
keep:
  %slot = getelementptr i8, ptr %wrapped, i64 $head
  store ptr %value, ptr %slot
  store ptr %wrapped, ptr %place
  br label %done
done:
  br label %next
refused:
  ret i1 false
whole:
  ret i1 true
}
"""
