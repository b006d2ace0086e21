"""The part of the runtime's text that makes results: arrays, numbers, tensors, and trees of them.

Six words for each result say what it is: a code, its dtype, its rank, its shape's address, how many
floats it consists of, and how many bits each of these has.
``$name`` stands for a number that ``builtin_entry.py`` puts there.
"""

from __future__ import annotations

from typing import Final

RESULTS: Final = """
; An array for each result that has axes, and room for the others; their data go to the program.
define internal i1 @allocate(ptr %state, i64 %count, ptr %outs) nounwind {
entry:
  %words_field = getelementptr %State, ptr %state, i64 0, i32 9
  %words = load ptr, ptr %words_field
  %arrays_field = getelementptr %State, ptr %state, i64 0, i32 7
  %arrays = load ptr, ptr %arrays_field
  %room_field = getelementptr %State, ptr %state, i64 0, i32 8
  %room = load ptr, ptr %room_field
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %stored]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %yes
item:
  %word = getelementptr [6 x i64], ptr %words, i64 %index
  %code = load i64, ptr %word
  %out_place = getelementptr ptr, ptr %outs, i64 %index
  %array_place = getelementptr ptr, ptr %arrays, i64 %index
  %is_array = icmp eq i64 %code, $array
  br i1 %is_array, label %array, label %number
number:
  %in_room = getelementptr [16 x i8], ptr %room, i64 %index
  store ptr null, ptr %array_place
  br label %stored
array:
  %descr_place = getelementptr i64, ptr %word, i64 1
  %descr = load ptr, ptr %descr_place
  %rank_place = getelementptr i64, ptr %word, i64 2
  %rank = load i64, ptr %rank_place
  %narrow_rank = trunc i64 %rank to i32
  %sizes_place = getelementptr i64, ptr %word, i64 3
  %sizes = load ptr, ptr %sizes_place
  call void @Py_IncRef(ptr %descr)
  %made = call ptr @PyArray_Empty(i32 %narrow_rank, ptr %sizes, ptr %descr, i32 0)
  store ptr %made, ptr %array_place
  %is_made = icmp ne ptr %made, null
  br i1 %is_made, label %there, label %refused
there:
  %data_place = getelementptr i8, ptr %made, i64 $head
  %data = load ptr, ptr %data_place
  br label %stored
stored:
  %out = phi ptr [%in_room, %number], [%data, %there]
  store ptr %out, ptr %out_place
  %following = add i64 %index, 1
  br label %next
yes:
  ret i1 true
refused:
  %after_place = getelementptr %State, ptr %state, i64 0, i32 6
  store i64 %index, ptr %after_place  ; so many arrays are there to be released
  ret i1 false
}

; The next result as a raw value.
define internal ptr @leaf(ptr %state) nounwind {
entry:
  %given_field = getelementptr %State, ptr %state, i64 0, i32 6
  %index = load i64, ptr %given_field
  %following = add i64 %index, 1
  store i64 %following, ptr %given_field
  %words_field = getelementptr %State, ptr %state, i64 0, i32 9
  %words = load ptr, ptr %words_field
  %word = getelementptr [6 x i64], ptr %words, i64 %index
  %room_field = getelementptr %State, ptr %state, i64 0, i32 8
  %rooms = load ptr, ptr %room_field
  %room = getelementptr [16 x i8], ptr %rooms, i64 %index
  %code = load i64, ptr %word
  switch i64 %code, label %number [
    i64 $array, label %array
    i64 $float, label %float
    i64 $integer, label %integer
    i64 $truth, label %truth
    i64 $complex, label %complex
  ]
array:
  %arrays_field = getelementptr %State, ptr %state, i64 0, i32 7
  %arrays = load ptr, ptr %arrays_field
  %array_place = getelementptr ptr, ptr %arrays, i64 %index
  %made = load ptr, ptr %array_place
  store ptr null, ptr %array_place  ; it belongs to the result from here on
  ret ptr %made
number:
  %descr_place = getelementptr i64, ptr %word, i64 1
  %descr = load ptr, ptr %descr_place
  %scalar = call ptr @PyArray_Scalar(ptr %room, ptr %descr, ptr null)
  ret ptr %scalar
float:
  %real_number = load double, ptr %room
  %python_float = call ptr @PyFloat_FromDouble(double %real_number)
  ret ptr %python_float
integer:
  %whole = load i64, ptr %room
  %python_int = call ptr @PyLong_FromLongLong(i64 %whole)
  ret ptr %python_int
truth:
  %byte = load i8, ptr %room
  %wide = zext i8 %byte to i64
  %python_bool = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %python_bool
complex:
  %real = load double, ptr %room
  %imag_place = getelementptr i8, ptr %room, i64 8
  %imag = load double, ptr %imag_place
  %python_complex = call ptr @PyComplex_FromDoubles(double %real, double %imag)
  ret ptr %python_complex
}

; The next word of the results' tree.
define internal i64 @next_mark(ptr %state) nounwind alwaysinline {
  %field = getelementptr %State, ptr %state, i64 0, i32 5
  %word = call i64 @next_word(ptr %field)
  ret i64 %word
}

; The result, or a part of it: containers, and tensors or raw values in them.
define internal ptr @make(ptr %state) nounwind {
entry:
  %code = call i64 @next_mark(ptr %state)
  switch i64 %code, label %raw [
    i64 $tensor, label %tensor
    i64 $none, label %none
    i64 $tuple, label %tuple
    i64 $list, label %list
    i64 $dict, label %dict
    i64 $record, label %record
  ]
raw:
  %plain = call ptr @leaf(ptr %state)
  ret ptr %plain
tensor:
  %value = call ptr @leaf(ptr %state)
  %value_there = icmp ne ptr %value, null
  br i1 %value_there, label %wrap, label %failed
wrap:
  %wrapped = call ptr @PyType_GenericAlloc(ptr @Tensor, i64 0)
  %wrapped_there = icmp ne ptr %wrapped, null
  br i1 %wrapped_there, label %fill, label %drop_value
fill:
  %value_place = getelementptr i8, ptr %wrapped, i64 $value
  store ptr %value, ptr %value_place
  ret ptr %wrapped
drop_value:
  call void @Py_DecRef(ptr %value)
  ret ptr null
none:
  call void @Py_IncRef(ptr @None)
  ret ptr @None

tuple:
  %tuple_kind = call i64 @next_mark(ptr %state)
  %tuple_type = inttoptr i64 %tuple_kind to ptr
  %tuple_size = call i64 @next_mark(ptr %state)
  %plain_tuple = icmp eq ptr %tuple_type, @tuple
  br i1 %plain_tuple, label %usual_tuple, label %named_tuple
usual_tuple:
  %new_tuple = call ptr @PyTuple_New(i64 %tuple_size)
  br label %tuple_made
named_tuple:
  %new_named = call ptr @PyType_GenericAlloc(ptr %tuple_type, i64 %tuple_size)
  br label %tuple_made
tuple_made:
  %a_tuple = phi ptr [%new_tuple, %usual_tuple], [%new_named, %named_tuple]
  %tuple_items = getelementptr i8, ptr %a_tuple, i64 $items
  %tuple_there = icmp ne ptr %a_tuple, null
  br i1 %tuple_there, label %items, label %failed
list:
  %list_size = call i64 @next_mark(ptr %state)
  %new_list = call ptr @PyList_New(i64 %list_size)
  %list_there = icmp ne ptr %new_list, null
  br i1 %list_there, label %list_made, label %failed
list_made:
  %list_field = getelementptr i8, ptr %new_list, i64 $list_items
  %list_items = load ptr, ptr %list_field
  br label %items
items:
  %sequence = phi ptr [%a_tuple, %tuple_made], [%new_list, %list_made]
  %places = phi ptr [%tuple_items, %tuple_made], [%list_items, %list_made]
  %size = phi i64 [%tuple_size, %tuple_made], [%list_size, %list_made]
  br label %item_next
item_next:
  %index = phi i64 [0, %items], [%following, %item_there]
  %more = icmp slt i64 %index, %size
  br i1 %more, label %item, label %items_done
item:
  %child = call ptr @make(ptr %state)
  %child_there = icmp ne ptr %child, null
  br i1 %child_there, label %item_there, label %drop_sequence
item_there:
  %item_place = getelementptr ptr, ptr %places, i64 %index
  store ptr %child, ptr %item_place
  %following = add i64 %index, 1
  br label %item_next
items_done:
  ret ptr %sequence
drop_sequence:
  call void @Py_DecRef(ptr %sequence)
  ret ptr null

dict:
  %dict_size = call i64 @next_mark(ptr %state)
  %new_dict = call ptr @PyDict_New()
  %dict_there = icmp ne ptr %new_dict, null
  br i1 %dict_there, label %fields, label %failed
record:
  %record_kind = call i64 @next_mark(ptr %state)
  %record_type = inttoptr i64 %record_kind to ptr
  %constants = call i64 @next_mark(ptr %state)
  %record_size = call i64 @next_mark(ptr %state)
  %new_record = call ptr @PyType_GenericAlloc(ptr %record_type, i64 0)
  %record_there = icmp ne ptr %new_record, null
  br i1 %record_there, label %constant_next, label %failed
constant_next:
  %constant_index = phi i64 [0, %record], [%constant_following, %constant_there]
  %constant_more = icmp slt i64 %constant_index, %constants
  br i1 %constant_more, label %constant_item, label %fields
constant_item:
  %constant_name = call i64 @next_mark(ptr %state)
  %constant_name_address = inttoptr i64 %constant_name to ptr
  %constant = call i64 @next_mark(ptr %state)
  %constant_address = inttoptr i64 %constant to ptr
  %constant_set = call i32 @PyObject_GenericSetAttr(
    ptr %new_record, ptr %constant_name_address, ptr %constant_address)
  %constant_is_set = icmp eq i32 %constant_set, 0
  br i1 %constant_is_set, label %constant_there, label %drop_record
constant_there:
  %constant_following = add i64 %constant_index, 1
  br label %constant_next
drop_record:
  call void @Py_DecRef(ptr %new_record)
  ret ptr null
fields:
  %container = phi ptr [%new_dict, %dict], [%new_record, %constant_next]
  %is_dict = phi i1 [true, %dict], [false, %constant_next]
  %field_count = phi i64 [%dict_size, %dict], [%record_size, %constant_next]
  br label %field_next
field_next:
  %field_index = phi i64 [0, %fields], [%field_following, %field_set]
  %field_more = icmp slt i64 %field_index, %field_count
  br i1 %field_more, label %field_item, label %fields_done
field_item:
  %name = call i64 @next_mark(ptr %state)
  %name_address = inttoptr i64 %name to ptr
  %part = call ptr @make(ptr %state)
  %part_there = icmp ne ptr %part, null
  br i1 %part_there, label %set_field, label %drop_container
set_field:
  br i1 %is_dict, label %set_item, label %set_attribute
set_item:
  %item_set = call i32 @PyDict_SetItem(ptr %container, ptr %name_address, ptr %part)
  br label %is_set
set_attribute:
  %attribute_set = call i32 @PyObject_GenericSetAttr(
    ptr %container, ptr %name_address, ptr %part)
  br label %is_set
is_set:
  %failure = phi i32 [%item_set, %set_item], [%attribute_set, %set_attribute]
  call void @Py_DecRef(ptr %part)
  %set_well = icmp eq i32 %failure, 0
  br i1 %set_well, label %field_set, label %drop_container
field_set:
  %field_following = add i64 %field_index, 1
  br label %field_next
fields_done:
  ret ptr %container
drop_container:
  call void @Py_DecRef(ptr %container)
  ret ptr null
failed:
  ret ptr null
}

"""
"""``allocate``, before the program runs, and ``make``, afterwards."""
