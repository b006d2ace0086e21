"""The part of the runtime's text that looks at results, where ``fg.debug`` asks for that.

It asks by the object that NumPy's error state is (``ErrorState.looking``). Results that are not
finite are thrown away, and Python calls the program again.
"""

from __future__ import annotations

from typing import Final

_LANES: Final = 32


def _all_finite(bits: int, exponent: int) -> str:
    """Write the function that tells whether floats of so many bits are finite.

    Of a number that is not, all bits of the exponent are set; one more carries into the sign.
    """
    lowest = 1 << (bits - 1 - exponent)
    mask = (1 << (bits - 1)) - lowest
    number, vector = f"i{bits}", f"<{_LANES} x i{bits}>"
    masks, ones = [f"<{', '.join([f'{number} {value}'] * _LANES)}>" for value in (mask, lowest)]
    return f"""
define internal i1 @all_finite_{bits}(ptr %data, i64 %count) nounwind {{
entry:
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %block]
  %carried = phi {vector} [zeroinitializer, %entry], [%joined, %block]
  %following = add i64 %index, {_LANES}
  %more = icmp sle i64 %following, %count
  br i1 %more, label %block, label %tail
block:
  %place = getelementptr {number}, ptr %data, i64 %index
  %words = load {vector}, ptr %place, align {bits // 8}
  %exponents = and {vector} %words, {masks}
  %sums = add {vector} %exponents, {ones}
  %joined = or {vector} %carried, %sums
  br label %next
tail:
  %begun = call {number} @llvm.vector.reduce.or.v{_LANES}i{bits}({vector} %carried)
  br label %last
last:
  %rest = phi i64 [%index, %tail], [%after, %single]
  %all = phi {number} [%begun, %tail], [%both, %single]
  %another = icmp slt i64 %rest, %count
  br i1 %another, label %single, label %done
single:
  %single_place = getelementptr {number}, ptr %data, i64 %rest
  %word = load {number}, ptr %single_place
  %single_exponent = and {number} %word, {mask}
  %single_sum = add {number} %single_exponent, {lowest}
  %both = or {number} %all, %single_sum
  %after = add i64 %rest, 1
  br label %last
done:
  %finite = icmp sge {number} %all, 0
  ret i1 %finite
}}
declare {number} @llvm.vector.reduce.or.v{_LANES}i{bits}({vector})
"""


LOOKING: Final = (
    "".join([_all_finite(bits, exponent) for bits, exponent in ((16, 5), (32, 8), (64, 11))])
    + """
; What NumPy's error state in this context asks for: 0 reports, 1 nothing, 2 finite results.
define internal i32 @attention() nounwind {
entry:
  %room = alloca ptr
  store ptr null, ptr %room
  %status = call i32 @PyContextVar_Get(ptr @error_state, ptr null, ptr %room)
  %state = load ptr, ptr %room
  %there = icmp ne ptr %state, null
  br i1 %there, label %compare, label %no
compare:
  call void @Py_DecRef(ptr %state)
  %usual = icmp eq ptr %state, @usual_state
  %silent = icmp eq ptr %state, @silent_state
  %either = or i1 %usual, %silent
  %looking = icmp eq ptr %state, @looking_state
  %looks = select i1 %looking, i32 2, i32 0
  %asked = select i1 %either, i32 1, i32 %looks
  ret i32 %asked
no:
  ret i32 0
}

; Whether all floats among the results are finite.
define internal i1 @are_finite(ptr %words, ptr %outs, i64 %count) nounwind {
entry:
  br label %next
next:
  %index = phi i64 [0, %entry], [%following, %well]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %item, label %yes
item:
  %word = getelementptr [6 x i64], ptr %words, i64 %index
  %out_place = getelementptr ptr, ptr %outs, i64 %index
  %data = load ptr, ptr %out_place
  %floats = call i64 @number_in(ptr %word, i64 4)
  %bits = call i64 @number_in(ptr %word, i64 5)
  switch i64 %bits, label %well [
    i64 16, label %half
    i64 32, label %single
    i64 64, label %double
  ]
half:
  %halves = call i1 @all_finite_16(ptr %data, i64 %floats)
  br label %judge
single:
  %singles = call i1 @all_finite_32(ptr %data, i64 %floats)
  br label %judge
double:
  %doubles = call i1 @all_finite_64(ptr %data, i64 %floats)
  br label %judge
judge:
  %finite = phi i1 [%halves, %half], [%singles, %single], [%doubles, %double]
  br i1 %finite, label %well, label %no
well:
  %following = add i64 %index, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}
"""
)
"""``attention``, before the program runs, and ``are_finite``, afterwards."""
