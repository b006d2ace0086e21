"""The text of the pool of threads: see ``thread_pool.py`` for its functions."""

from __future__ import annotations

from typing import Final

POOL: Final = """
@words = external global [4 x i64]  ; of `ThreadLimits`
@lock = internal global [128 x i8] zeroinitializer, align 128
@work = internal global [128 x i8] zeroinitializer, align 128  ; a condition: there is work
@done = internal global [128 x i8] zeroinitializer, align 128  ; a condition: it is done
@key = internal global i64 0  ; by which a thread knows that it is the pool's
@generation = internal global i64 0  ; how many forks lie behind this process
@begun = internal global i64 0  ; how many threads have begun
@inside = internal global i64 0  ; how many threads of Python's are in `share`
@busy = internal global i64 0  ; whether work is shared
@tickets = internal global i64 0  ; how many more threads may join
@active = internal global i64 0  ; how many have
@total = internal global i64 0  ; how many threads may work in all
@function = internal global ptr null
@environment = internal global ptr null
@count = internal global i64 0  ; of places
@grain = internal global i64 0  ; of places in a range
@bytes = internal global i64 0  ; of memory that each thread needs
@status = internal global i32 0
@next = internal global [16 x i64] zeroinitializer, align 128  ; a place, in a cache line of its own

define void @begin() nounwind {
  %a = call i32 @pthread_key_create(ptr @key, ptr null)
  call void @renew()
  ret void
}

; Begin a new pool: of a process, or of a child, which has none of its parent's threads.
define void @renew() nounwind {
  %a = call ptr @memset(ptr @lock, i32 0, i64 128)
  %b = call ptr @memset(ptr @work, i32 0, i64 128)
  %c = call ptr @memset(ptr @done, i32 0, i64 128)
  %d = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %e = call i32 @pthread_cond_init(ptr @work, ptr null)
  %f = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @begun
  store i64 0, ptr @inside
  store i64 0, ptr @busy
  store i64 0, ptr @tickets
  store i64 0, ptr @active
  %before = load i64, ptr @generation
  %generation = add i64 %before, 1
  store i64 %generation, ptr @generation
  ret void
}

; Do the next range. Returns whether there was one.
define internal i1 @take_range(ptr %function, ptr %environment, i64 %count, i64 %grain, ptr %memory)
    nounwind {
entry:
  %begin = atomicrmw add ptr @next, i64 %grain monotonic
  %more = icmp slt i64 %begin, %count
  br i1 %more, label %range, label %over
range:
  %full = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %count)
  %status = call i32 %function(i64 %begin, i64 %end, ptr %memory, ptr %environment)
  %is_well = icmp eq i32 %status, 0
  br i1 %is_well, label %done, label %failed
failed:
  call void @end_early(i32 %status)
  br label %done
done:
  ret i1 true
over:
  ret i1 false
}

; Begin no more ranges.
define internal void @end_early(i32 %status) nounwind {
  %before = atomicrmw umax ptr @status, i32 %status monotonic
  store atomic i64 4611686018427387904, ptr @next monotonic, align 8
  ret void
}

; The endless loop of a thread of the pool. Signals are for Python's threads.
define internal ptr @help(ptr %unused) nounwind {
entry:
  %all = alloca [16 x i64]
  %first = call ptr @memset(ptr %all, i32 255, i64 128)
  %blocked = call i32 @pthread_sigmask(i32 SIG_BLOCK, ptr %all, ptr null)
  %key = load i64, ptr @key
  %noted = call i32 @pthread_setspecific(i64 %key, ptr @lock)
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
look:  ; it keeps its memory from one call to the next, unless that is much
  %room = phi ptr [null, %entry], [%room, %wait], [%room_left, %close], [%room_left, %tell]
  %size = phi i64 [0, %entry], [%size, %wait], [%size_left, %close], [%size_left, %tell]
  %tickets = load i64, ptr @tickets
  %may_join = icmp sgt i64 %tickets, 0
  br i1 %may_join, label %join, label %wait
wait:
  %b = call i32 @pthread_cond_wait(ptr @work, ptr @lock)
  br label %look
join:
  %fewer = sub i64 %tickets, 1
  store i64 %fewer, ptr @tickets
  %before = load i64, ptr @active
  %joined = add i64 %before, 1
  store atomic i64 %joined, ptr @active monotonic, align 8
  %joins_place = getelementptr i64, ptr @words, i64 3
  %joins = load i64, ptr %joins_place
  %joins_now = add i64 %joins, 1
  store i64 %joins_now, ptr %joins_place
  %function = load ptr, ptr @function
  %environment = load ptr, ptr @environment
  %count = load i64, ptr @count
  %grain = load i64, ptr @grain
  %total = load i64, ptr @total
  %bytes = load i64, ptr @bytes
  %c = call i32 @pthread_mutex_unlock(ptr @lock)
  %fits = icmp sle i64 %bytes, %size
  br i1 %fits, label %begin, label %grow
grow:
  call void @free(ptr %room)
  %padded = add i64 %bytes, 64
  %fresh = call ptr @malloc(i64 %padded)
  %there = icmp ne ptr %fresh, null
  br i1 %there, label %begin, label %close
begin:
  %room_now = phi ptr [%room, %join], [%fresh, %grow]
  %size_now = phi i64 [%size, %join], [%bytes, %grow]
  %word = ptrtoint ptr %room_now to i64
  %above = add i64 %word, 63
  %aligned = and i64 %above, -64
  %memory = inttoptr i64 %aligned to ptr
  br label %next
next:
  %others = load atomic i64, ptr @inside monotonic, align 8
  %helpers = load atomic i64, ptr @active monotonic, align 8
  %all_threads = add i64 %others, %helpers
  %too_many = icmp sgt i64 %all_threads, %total
  br i1 %too_many, label %over, label %range
range:
  %more = call i1 @take_range(ptr %function, ptr %environment, i64 %count, i64 %grain, ptr %memory)
  br i1 %more, label %next, label %over
over:
  %is_much = icmp sgt i64 %size_now, 4194304
  br i1 %is_much, label %drop, label %close
drop:
  call void @free(ptr %room_now)
  br label %close
close:
  %room_left = phi ptr [null, %grow], [%room_now, %over], [null, %drop]
  %size_left = phi i64 [0, %grow], [%size_now, %over], [0, %drop]
  %d = call i32 @pthread_mutex_lock(ptr @lock)
  %active = load i64, ptr @active
  %left = sub i64 %active, 1
  store atomic i64 %left, ptr @active release, align 8
  %is_last = icmp eq i64 %left, 0
  br i1 %is_last, label %tell, label %look
tell:
  %e = call i32 @pthread_cond_signal(ptr @done)
  br label %look
}

; Calls a function for ranges of some places.
;
; %ranges is how many there are for each thread; %memory is the caller's, of so many %bytes, and
; each other thread has as much; %threads has the number of threads that the caller asks for, or 0.
; If %patience is 0, others are woken at once, else after so many nanoseconds: nobody knows how long
; the work takes, and the caller looks for signals while it waits.
define i32 @share(ptr %function, ptr %environment, i64 %count, i64 %ranges, ptr %memory, i64 %bytes,
    ptr %threads, i64 %patience) nounwind {
entry:
  %thread = alloca ptr
  %generation = load i64, ptr @generation
  %inside = atomicrmw add ptr @inside, i64 1 monotonic
  %asked = load i64, ptr %threads
  %asks = icmp ne i64 %asked, 0
  %automatic = load i64, ptr @words
  %wished = select i1 %asks, i64 %asked, i64 %automatic
  %most_place = getelementptr i64, ptr @words, i64 1
  %most = load i64, ptr %most_place
  %total = call i64 @llvm.smin.i64(i64 %wished, i64 %most)
  %free_threads = sub i64 %total, %inside
  %several = icmp sgt i64 %free_threads, 1
  %many = icmp sgt i64 %count, 1
  %shares = and i1 %several, %many
  br i1 %shares, label %look_at_pool, label %by_itself
look_at_pool:
  %wanted = sub i64 %free_threads, 1
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  %busy = load i64, ptr @busy
  %is_busy = icmp ne i64 %busy, 0
  br i1 %is_busy, label %pool_is_busy, label %begin_threads
pool_is_busy:
  %b = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %by_itself
by_itself:
  %status_alone = call i32 %function(i64 0, i64 %count, ptr %memory, ptr %environment)
  br label %leave
begin_threads:
  %begun = load i64, ptr @begun
  %enough = icmp sge i64 %begun, %wanted
  br i1 %enough, label %post, label %begin_thread
begin_thread:
  %refused = call i32 @pthread_create(ptr %thread, ptr null, ptr @help, ptr null)
  %has_begun = icmp eq i32 %refused, 0
  br i1 %has_begun, label %one_more, label %post
one_more:
  %handle = load ptr, ptr %thread
  %c = call i32 @pthread_detach(ptr %handle)
  %one_more_begun = add i64 %begun, 1
  store i64 %one_more_begun, ptr @begun
  br label %begin_threads
post:
  %there = load i64, ptr @begun
  %others_there = call i64 @llvm.smin.i64(i64 %there, i64 %wanted)
  %all_ranges = mul i64 %ranges, %free_threads
  %share_of_places = sdiv i64 %count, %all_ranges
  %grain = call i64 @llvm.smax.i64(i64 %share_of_places, i64 1)
  %last_place = sub i64 %count, 1
  %ranges_of_others = sdiv i64 %last_place, %grain
  %others_wanted = call i64 @llvm.smin.i64(i64 %others_there, i64 %ranges_of_others)
  store i64 1, ptr @busy
  store ptr %function, ptr @function
  store ptr %environment, ptr @environment
  store i64 %count, ptr @count
  store i64 %grain, ptr @grain
  store i64 %bytes, ptr @bytes
  store i64 %total, ptr @total
  store i32 0, ptr @status
  store i64 0, ptr @next
  %e = call i32 @pthread_mutex_unlock(ptr @lock)
  %waits = icmp ne i64 %patience, 0
  br i1 %waits, label %read_clock, label %wake_at_once
read_clock:
  %begin = call i64 @now()
  %until = add i64 %begin, %patience
  br label %next
wake_at_once:
  call void @wake(i64 %others_wanted)
  br label %next
next:
  %still_waits = phi i1 [true, %read_clock], [false, %wake_at_once], [%still_waits, %another],
    [false, %wake_late]
  %end_of_patience = phi i64 [%until, %read_clock], [0, %wake_at_once],
    [%end_of_patience, %another], [0, %wake_late]
  %more = call i1 @take_range(ptr %function, ptr %environment, i64 %count, i64 %grain, ptr %memory)
  br i1 %more, label %another_range, label %linger
another_range:
  br i1 %still_waits, label %look_at_clock, label %another
look_at_clock:
  %clock = call i64 @now()
  %is_late = icmp sgt i64 %clock, %end_of_patience
  br i1 %is_late, label %wake_late, label %another
wake_late:
  call void @wake(i64 %others_wanted)
  br label %next
another:
  br label %next
linger:  ; some microseconds, since others do their last range
  %turn = phi i64 [0, %next], [%turn_after, %linger_on]
  %others = load atomic i64, ptr @active monotonic, align 8
  %no_others = icmp eq i64 %others, 0
  %long = icmp sge i64 %turn, 10000
  %lingered = or i1 %no_others, %long
  br i1 %lingered, label %close, label %linger_on
linger_on:
  %turn_after = add i64 %turn, 1
  br label %linger
close:
  %f = call i32 @pthread_mutex_lock(ptr @lock)
  store i64 0, ptr @tickets
  br label %look
look:
  %active = load i64, ptr @active
  %works = icmp sgt i64 %active, 0
  br i1 %works, label %wait, label %over
wait:
  br i1 %waits, label %wait_and_look, label %wait_for_all
wait_for_all:
  %g = call i32 @pthread_cond_wait(ptr @done, ptr @lock)
  br label %look
wait_and_look:
  call void @wait_a_while()
  %h = call i32 @pthread_mutex_unlock(ptr @lock)
  %signal = call i32 @look_between_calls()  ; which leaves the interpreter's lock as it is
  %is_signal = icmp ne i32 %signal, 0
  br i1 %is_signal, label %interrupted, label %wait_again
interrupted:
  call void @end_early(i32 4)
  br label %wait_again
wait_again:
  %i = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
over:
  store i64 0, ptr @busy
  %status_shared = load i32, ptr @status
  %j = call i32 @pthread_mutex_unlock(ptr @lock)
  %generation_after = load i64, ptr @generation
  %is_same = icmp eq i64 %generation, %generation_after
  br i1 %is_same, label %check_memory, label %by_itself  ; a handler has forked: others are gone
check_memory:
  %lacks_memory = icmp eq i32 %status_shared, 1
  br i1 %lacks_memory, label %refuse, label %leave
refuse:
  call void @refuse_memory()  ; a thread of the pool could not
  br label %leave
leave:
  %status = phi i32 [%status_alone, %by_itself], [%status_shared, %check_memory], [1, %refuse]
  %generation_now = load i64, ptr @generation
  %counts = icmp eq i64 %generation, %generation_now
  %one = zext i1 %counts to i64
  %k = atomicrmw sub ptr @inside, i64 %one monotonic
  ret i32 %status
}

; Let so many threads join.
define internal void @wake(i64 %others) nounwind {
entry:
  %some = icmp sgt i64 %others, 0
  br i1 %some, label %post, label %over
post:
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  store i64 %others, ptr @tickets
  %place = getelementptr i64, ptr @words, i64 2
  %before = load i64, ptr %place
  %after = add i64 %before, 1
  store i64 %after, ptr %place
  %b = call i32 @pthread_mutex_unlock(ptr @lock)  ; first, as those that wake up want the lock
  br label %next
next:
  %woken = phi i64 [0, %post], [%woken_after, %next]
  %c = call i32 @pthread_cond_signal(ptr @work)
  %woken_after = add i64 %woken, 1
  %more = icmp slt i64 %woken_after, %others
  br i1 %more, label %next, label %over
over:
  ret void
}

; Nanoseconds.
define internal i64 @now() nounwind {
  %time = alloca [2 x i64]
  %a = call i32 @clock_gettime(i32 MONOTONIC, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %result = add i64 %whole, %nanoseconds
  ret i64 %result
}

; Wait until others are done, a twentieth of a second at most, in possession of the lock.
define internal void @wait_a_while() nounwind {
  %time = alloca [2 x i64]
  %a = call i32 @clock_gettime(i32 REALTIME, ptr %time)
  %place = getelementptr i64, ptr %time, i64 1
  %now = load i64, ptr %place
  %later = add i64 %now, 50000000
  %beyond = icmp sge i64 %later, 1000000000
  %second = zext i1 %beyond to i64
  %seconds = load i64, ptr %time
  %seconds_later = add i64 %seconds, %second
  store i64 %seconds_later, ptr %time
  %less = sub i64 %later, 1000000000
  %nanoseconds = select i1 %beyond, i64 %less, i64 %later
  store i64 %nanoseconds, ptr %place
  %b = call i32 @pthread_cond_timedwait(ptr @done, ptr @lock, ptr %time)
  ret void
}

define internal i1 @is_of_pool() nounwind {
  %key = load i64, ptr @key
  %mark = call ptr @pthread_getspecific(i64 %key)
  %result = icmp ne ptr %mark, null
  ret i1 %result
}

define i32 @pool_look() nounwind {
entry:
  %is_of_pool = call i1 @is_of_pool()
  br i1 %is_of_pool, label %there, label %here
there:  ; another thread may have ended the work
  %status = load atomic i32, ptr @status monotonic, align 4
  ret i32 %status
here:
  %signal = call i32 @look()
  ret i32 %signal
}

define i32 @pool_look_between_calls() nounwind {
entry:
  %is_of_pool = call i1 @is_of_pool()
  br i1 %is_of_pool, label %there, label %here
there:
  %status = load atomic i32, ptr @status monotonic, align 4
  ret i32 %status
here:
  %signal = call i32 @look_between_calls()
  ret i32 %signal
}

define void @pool_refuse_memory() nounwind {
entry:
  %is_of_pool = call i1 @is_of_pool()
  br i1 %is_of_pool, label %there, label %here
there:
  ret void
here:
  call void @refuse_memory()
  ret void
}

declare i32 @look()
declare i32 @look_between_calls()
declare void @refuse_memory()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @clock_gettime(i32, ptr)
declare void @free(ptr)
declare ptr @malloc(i64)
declare ptr @memset(ptr, i32, i64)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
"""
