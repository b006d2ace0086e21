"""The part of the runtime's text that takes arguments apart: trees, tensors, arrays and numbers.

Words say what an object has to be: a code, then what belongs to it, then the words of its children.
``$name`` stands for a number that ``builtin_entry.py`` puts there.
"""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final = """
; Whether an object is what the words say; the data of its leaves are noted in the state.
define internal i1 @take(ptr %object, ptr %state) nounwind {
entry:
  %code = call i64 @next_word(ptr %state)
  switch i64 %code, label %leaf [
    i64 $none, label %none
    i64 $tuple, label %tuple
    i64 $list, label %list
    i64 $dict, label %dict
    i64 $record, label %record
  ]

none:
  %is_none = icmp eq ptr %object, @None
  ret i1 %is_none

tuple:
  %tuple_type = call ptr @next_address(ptr %state)
  %tuple_size = call i64 @next_word(ptr %state)
  %is_tuple = call i1 @is_a(ptr %object, ptr %tuple_type)
  br i1 %is_tuple, label %tuple_sized, label %no
tuple_sized:
  %tuple_fits = call i1 @has_size(ptr %object, i64 %tuple_size)
  br i1 %tuple_fits, label %tuple_next, label %no
tuple_next:
  %tuple_index = phi i64 [0, %tuple_sized], [%tuple_following, %tuple_taken]
  %tuple_more = icmp slt i64 %tuple_index, %tuple_size
  br i1 %tuple_more, label %tuple_item, label %yes
tuple_item:
  %tuple_items = getelementptr i8, ptr %object, i64 $items
  %tuple_place = getelementptr ptr, ptr %tuple_items, i64 %tuple_index
  %tuple_child = load ptr, ptr %tuple_place
  %tuple_took = call i1 @take(ptr %tuple_child, ptr %state)
  br i1 %tuple_took, label %tuple_taken, label %no
tuple_taken:
  %tuple_following = add i64 %tuple_index, 1
  br label %tuple_next

list:
  %list_size = call i64 @next_word(ptr %state)
  %is_list = call i1 @is_a(ptr %object, ptr @list)
  br i1 %is_list, label %list_next, label %no
list_next:
  %list_index = phi i64 [0, %list], [%list_following, %list_taken]
  %list_fits = call i1 @has_size(ptr %object, i64 %list_size)  ; taking a child may have changed it
  br i1 %list_fits, label %list_goes_on, label %no
list_goes_on:
  %list_more = icmp slt i64 %list_index, %list_size
  br i1 %list_more, label %list_item, label %yes
list_item:
  %list_field = getelementptr i8, ptr %object, i64 $list_items
  %list_items = load ptr, ptr %list_field
  %list_place = getelementptr ptr, ptr %list_items, i64 %list_index
  %list_child = load ptr, ptr %list_place
  %list_took = call i1 @take(ptr %list_child, ptr %state)
  br i1 %list_took, label %list_taken, label %no
list_taken:
  %list_following = add i64 %list_index, 1
  br label %list_next

dict:
  %dict_size = call i64 @next_word(ptr %state)
  %is_dict = call i1 @is_a(ptr %object, ptr @dict)
  br i1 %is_dict, label %dict_sized, label %no
dict_sized:
  %dict_actual = call i64 @PyDict_Size(ptr %object)
  %dict_fits = icmp eq i64 %dict_actual, %dict_size
  br i1 %dict_fits, label %dict_next, label %no
dict_next:
  %dict_index = phi i64 [0, %dict_sized], [%dict_following, %dict_taken]
  %dict_more = icmp slt i64 %dict_index, %dict_size
  br i1 %dict_more, label %dict_item, label %yes
dict_item:
  %key = call ptr @next_address(ptr %state)
  %dict_child = call ptr @PyDict_GetItemWithError(ptr %object, ptr %key)
  %dict_has = icmp ne ptr %dict_child, null
  br i1 %dict_has, label %dict_present, label %no
dict_present:
  %dict_took = call i1 @take(ptr %dict_child, ptr %state)
  br i1 %dict_took, label %dict_taken, label %no
dict_taken:
  %dict_following = add i64 %dict_index, 1
  br label %dict_next

record:
  %record_type = call ptr @next_address(ptr %state)
  %constants = call i64 @next_word(ptr %state)
  %record_size = call i64 @next_word(ptr %state)
  %is_record = call i1 @is_a(ptr %object, ptr %record_type)
  br i1 %is_record, label %constant_next, label %no
constant_next:
  %constant_index = phi i64 [0, %record], [%constant_following, %constant_same]
  %constant_more = icmp slt i64 %constant_index, %constants
  br i1 %constant_more, label %constant_item, label %field_next
constant_item:
  %constant_name = call ptr @next_address(ptr %state)
  %constant_wanted = call ptr @next_address(ptr %state)
  %constant = call ptr @PyObject_GetAttr(ptr %object, ptr %constant_name)
  %constant_there = icmp ne ptr %constant, null
  br i1 %constant_there, label %constant_known, label %no
constant_known:
  call void @Py_DecRef(ptr %constant)
  %constant_is = icmp eq ptr %constant, %constant_wanted
  br i1 %constant_is, label %constant_same, label %no
constant_same:
  %constant_following = add i64 %constant_index, 1
  br label %constant_next
field_next:
  %field_index = phi i64 [0, %constant_next], [%field_following, %field_taken]
  %field_more = icmp slt i64 %field_index, %record_size
  br i1 %field_more, label %field_item, label %yes
field_item:
  %field_name = call ptr @next_address(ptr %state)
  %field = call ptr @PyObject_GetAttr(ptr %object, ptr %field_name)
  %field_there = icmp ne ptr %field, null
  br i1 %field_there, label %field_present, label %no
field_present:
  %field_took = call i1 @take(ptr %field, ptr %state)
  call void @Py_DecRef(ptr %field)
  br i1 %field_took, label %field_taken, label %no
field_taken:
  %field_following = add i64 %field_index, 1
  br label %field_next

leaf:
  %is_tensor = call i1 @is_a(ptr %object, ptr @Tensor)
  br i1 %is_tensor, label %tensor, label %raw
tensor:
  %value_place = getelementptr i8, ptr %object, i64 $value
  %value = load ptr, ptr %value_place
  %value_there = icmp ne ptr %value, null
  br i1 %value_there, label %raw, label %no
raw:
  %plain = phi ptr [%object, %leaf], [%value, %tensor]
  %kind = call ptr @next_address(ptr %state)
  %leaf_fits = call i1 @is_a(ptr %plain, ptr %kind)
  br i1 %leaf_fits, label %fits, label %no
fits:
  %in_object = getelementptr i8, ptr %plain, i64 $head
  %taken_field = getelementptr %State, ptr %state, i64 0, i32 1
  %place = load i64, ptr %taken_field
  %integers_field = getelementptr %State, ptr %state, i64 0, i32 4
  %integers = load ptr, ptr %integers_field
  %integer_place = getelementptr i64, ptr %integers, i64 %place
  switch i64 %code, label %noted [
    i64 $array, label %array
    i64 $integer, label %integer
    i64 $truth, label %truth
  ]
truth:
  %is_true = icmp eq ptr %plain, @True
  %bit = zext i1 %is_true to i64
  store i64 %bit, ptr %integer_place
  br label %noted
integer:
  %number = call i64 @PyLong_AsLongLong(ptr %plain)
  store i64 %number, ptr %integer_place
  %odd = icmp eq i64 %number, -1
  br i1 %odd, label %perhaps_large, label %noted
perhaps_large:
  %error = call ptr @PyErr_Occurred()
  %small = icmp eq ptr %error, null
  br i1 %small, label %noted, label %no
array:
  %descr = call ptr @next_address(ptr %state)
  %rank = call i64 @next_word(ptr %state)
  %descr_place = getelementptr i8, ptr %plain, i64 $descr
  %actual_descr = load ptr, ptr %descr_place
  %descr_fits = icmp eq ptr %actual_descr, %descr
  %rank_place = getelementptr i8, ptr %plain, i64 $rank
  %actual_rank = load i32, ptr %rank_place
  %wide_rank = zext i32 %actual_rank to i64
  %rank_fits = icmp eq i64 %wide_rank, %rank
  %flags_place = getelementptr i8, ptr %plain, i64 $flags
  %flags = load i32, ptr %flags_place
  %dense = and i32 %flags, $dense
  %flags_fit = icmp eq i32 %dense, $dense
  %two_fit = and i1 %descr_fits, %rank_fits
  %all_fit = and i1 %two_fit, %flags_fit
  br i1 %all_fit, label %axes, label %no
axes:
  %sizes_place = getelementptr i8, ptr %plain, i64 $dimensions
  %sizes = load ptr, ptr %sizes_place
  br label %axis_next
axis_next:
  %axis = phi i64 [0, %axes], [%axis_following, %axis_same]
  %axis_more = icmp slt i64 %axis, %rank
  br i1 %axis_more, label %axis_item, label %array_noted
axis_item:
  %wanted_size = call i64 @next_word(ptr %state)
  %size_place = getelementptr i64, ptr %sizes, i64 %axis
  %size = load i64, ptr %size_place
  %size_fits = icmp eq i64 %size, %wanted_size
  br i1 %size_fits, label %axis_same, label %no
axis_same:
  %axis_following = add i64 %axis, 1
  br label %axis_next
array_noted:
  %array_data = load ptr, ptr %in_object
  br label %noted
noted:
  %data = phi ptr [%in_object, %fits], [%integer_place, %truth], [%integer_place, %integer],
    [%integer_place, %perhaps_large], [%array_data, %array_noted]
  %data_field = getelementptr %State, ptr %state, i64 0, i32 2
  %datas = load ptr, ptr %data_field
  %data_place = getelementptr ptr, ptr %datas, i64 %place
  store ptr %data, ptr %data_place
  %holders_field = getelementptr %State, ptr %state, i64 0, i32 3
  %holders = load ptr, ptr %holders_field
  %holder_place = getelementptr ptr, ptr %holders, i64 %place
  store ptr %plain, ptr %holder_place
  call void @Py_IncRef(ptr %plain)
  %taken = add i64 %place, 1
  store i64 %taken, ptr %taken_field
  ret i1 true
yes:
  ret i1 true
no:
  ret i1 false
}

; Take the arguments by position, then those by name, in the order of the table.
define internal i1 @take_all(ptr %table, ptr %args, i64 %count, ptr %names, ptr %state) nounwind {
entry:
  %wanted_names = call ptr @address_in(ptr %table, i64 $keys)
  %named = call i64 @number_in(ptr %table, i64 $named)
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %taken]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %name_next
item:
  %place = getelementptr ptr, ptr %args, i64 %index
  %object = load ptr, ptr %place
  %took = call i1 @take(ptr %object, ptr %state)
  br i1 %took, label %taken, label %no
taken:
  %following = add i64 %index, 1
  br label %next
name_next:
  %name_index = phi i64 [0, %next], [%name_following, %name_taken]
  %name_more = icmp slt i64 %name_index, %named
  br i1 %name_more, label %name_item, label %yes
name_item:
  %wanted_place = getelementptr ptr, ptr %wanted_names, i64 %name_index
  %wanted = load ptr, ptr %wanted_place
  br label %search
search:
  %other = phi i64 [0, %name_item], [%other_following, %differs]
  %other_more = icmp slt i64 %other, %named
  br i1 %other_more, label %compare, label %no
compare:
  %items = getelementptr i8, ptr %names, i64 $items
  %other_place = getelementptr ptr, ptr %items, i64 %other
  %other_name = load ptr, ptr %other_place
  %same = icmp eq ptr %other_name, %wanted  ; names in calls are interned
  br i1 %same, label %found, label %differs
differs:
  %other_following = add i64 %other, 1
  br label %search
found:
  %behind = add i64 %count, %other
  %named_place = getelementptr ptr, ptr %args, i64 %behind
  %named_object = load ptr, ptr %named_place
  %named_took = call i1 @take(ptr %named_object, ptr %state)
  br i1 %named_took, label %name_taken, label %no
name_taken:
  %name_following = add i64 %name_index, 1
  br label %name_next
yes:
  ret i1 true
no:
  ret i1 false
}

"""
"""``take``, for one object, and ``take_all``, for the arguments of a call."""
