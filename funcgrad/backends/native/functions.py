"""A function of LLVM's for each program: its steps in order, and memory for what they make.

A function takes pointers to inputs, outputs and an *arena*: the memory of intermediate results, in
which those that are not alive at once share their place. It returns 0; or 1 where a step has raised
an exception of Python's, or 2 where a guard fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad.backends.native.callbacks import callback_of
from funcgrad.backends.native.cpython import inner_loop
from funcgrad.backends.native.function_text import FunctionText
from funcgrad.backends.native.lanes import Lanes, memory_type
from funcgrad.backends.native.nests import NestWriter, load
from funcgrad.backends.native.plan_steps import Callback, Fill, NativePlan, Nest, Run, Sweep
from funcgrad.backends.native.planner import plan_of
from funcgrad.programs.equation import Guard
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Choice, Loop

_ALIGNMENT: Final = 64

_UNINTERRUPTED: Final = 1 << 22
"""About how many operations on numbers a loop does between two looks for an interrupt."""


@dataclass(frozen=True, slots=True)
class Function:
    """A program as a function.

    Attributes
    ----------
    name : str
    program : Program
    size : int
        The bytes of its arena.
    work : int
        About how many operations on numbers a call takes.
    """

    name: str
    program: Program
    size: int
    work: int


class NativeModule:
    """The functions of one module, and what they refer to.

    Attributes
    ----------
    texts : list of str
    declarations : set of str
    symbols : dict
        The addresses of the module's constants, inner loops and steps, by name.
    referents : list
        The objects at these addresses.
    bits : int
        The width of a register.
    callbacks : list of str
        The names of the operations that NumPy evaluates.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.texts: list[str] = []
        self.declarations: set[str] = set()
        self.symbols: dict[str, int] = {}
        self.referents: list[Any] = []
        self.callbacks: list[str] = []
        self._functions: dict[int, Function] = {}

    def function(self, program: Program) -> Function:
        """The function of a program; the same one for the same program."""
        known = self._functions.get(id(program))
        if known is None:
            known = _FunctionWriter(self, program, f"f{len(self._functions)}").written()
            self._functions[id(program)] = known
        return known

    def symbol(self, word: str, address: int, referents: Any) -> str:
        """Name an address; what lies there is referents alive."""
        name = f"{word}{len(self.symbols)}"
        self.symbols[name] = address
        self.referents.append(referents)
        self.declarations.add(f"@{name} = external global i8")
        return f"@{name}"


class _FunctionWriter:
    """An unfinished function."""

    def __init__(self, module: NativeModule, program: Program, name: str) -> None:
        self._module, self._program, self._name = module, program, name
        module._functions[id(program)] = Function(name, program, 0, 0)  # while it is written
        self._plan: NativePlan = plan_of(program)
        self._lines = FunctionText()
        self._size = self._work = 0
        self._pointers: dict[int, str] = {}
        self._fails = self._misses = False

    def written(self) -> Function:
        inputs = [f"%i{k}" for k in range(len(self._program.inputs))]
        outputs = [f"%o{k}" for k in range(len(self._plan.outputs))]
        self._pointers.update(enumerate(inputs))
        self._pointers.update(zip(self._plan.outputs, outputs, strict=True))
        self._place_constants()
        self._place_intermediates()
        self._check(self._plan.guards.get(-1, ()))
        for position, step in enumerate(self._plan.steps):
            match step:
                case Nest():
                    self._nest(step)
                case Fill():
                    self._fill(step.buffer)
                case Sweep():
                    self._sweep(step)
                case Callback():
                    self._call_back(step)
                case Run():
                    self._run(step, position)
            self._check(self._plan.guards.get(position, ()))
        self._lines.emit("ret i32 0")
        for needed, label, status in ((self._fails, "failed", 1), (self._misses, "missed", 2)):
            if needed:
                self._lines.begin_block(label)
                self._lines.emit(f"ret i32 {status}")
        parameters = ", ".join([f"ptr {name}" for name in (*inputs, *outputs, "%arena")])
        text = self._lines.function(f"define internal i32 @{self._name}({parameters}) nounwind")
        self._module.texts.append(text)
        self._module.declarations |= self._lines.declarations
        return Function(self._name, self._program, self._size, self._work)

    # -------------------------------------------------------------------------------------- memory

    def _place_constants(self) -> None:
        first = len(self._program.inputs)
        for variable, constant in enumerate(self._program.constants, first):
            array = np.ascontiguousarray(np.asarray(constant.value, constant.spec.dtype))
            address = array.ctypes.data
            self._pointers[variable] = self._module.symbol("constant", address, array)

    def _place_intermediates(self) -> None:
        """Give each intermediate result a place in the arena that is free while it is alive."""
        lives = self._plan.lives
        placed: list[tuple[int, int, int, int]] = []  # begin and end in memory, and in time
        biggest = sorted(lives, key=lambda buffer: -self._bytes(buffer))
        for buffer in biggest:
            if buffer in self._pointers:
                continue
            size, (begin, end) = self._bytes(buffer), lives[buffer]
            place = 0
            for start, stop, born, died in sorted(placed):
                if died < begin or end < born:
                    continue
                if place + size <= start:
                    break
                place = max(place, stop)
            placed.append((place, place + size, begin, end))
            self._pointers[buffer] = self._in_arena(place, size)

    def _in_arena(self, place: int, size: int) -> str:
        self._size = max(self._size, place + size)
        return self._lines.address("%arena", place)

    def _scratch(self, size: int) -> str:
        """Memory in the arena for one step, behind all intermediate results."""
        place = _padded(self._size)
        return self._in_arena(place, _padded(size))

    def _bytes(self, buffer: int) -> int:
        spec = self._plan.specs[buffer]
        return _padded(prod(spec.shape) * spec.dtype.itemsize)

    def _pointer(self, buffer: int) -> str:
        return self._pointers[buffer]

    def _at(self, variable: int) -> str:
        """The address of a variable that lies in a buffer of its own."""
        return self._pointers[self._plan.views[variable].buffer]

    # --------------------------------------------------------------------------------------- steps

    def _nest(self, nest: Nest) -> None:
        plan = self._plan
        self._work += prod(nest.shape) * len(nest.members)
        NestWriter(
            self._lines, nest, plan.specs, self._pointer, plan.number, self._module.bits
        ).write()

    def _fill(self, buffer: int) -> None:
        spec = self._plan.specs[buffer]
        size = prod(spec.shape) * spec.dtype.itemsize
        if size:
            self._lines.call(
                "ptr", "memset", ("ptr", self._pointer(buffer)), ("i32", "0"), ("i64", str(size))
            )

    def _copy(self, target: str, source: str, spec: Spec) -> None:
        size = prod(spec.shape) * spec.dtype.itemsize
        if size:
            self._lines.call("ptr", "memcpy", ("ptr", target), ("ptr", source), ("i64", str(size)))

    def _sweep(self, step: Sweep) -> None:
        loop = inner_loop(step.ufunc, step.dtypes)
        assert loop is not None  # the plan has asked
        specs = [self._plan.specs[v] for v in (*step.operands, step.variable)]
        pointers = [*map(self._at, step.operands), self._pointer(step.variable)]
        strides = [spec.dtype.itemsize if spec.shape else 0 for spec in specs]
        count = prod(specs[-1].shape)
        name = self._module.symbol(f"{step.ufunc.__name__}_", loop[0], step.ufunc)
        data = "null"
        if loop[1]:
            data = self._module.symbol(f"{step.ufunc.__name__}_data_", loop[1], step.ufunc)
        arrays = self._array("ptr", pointers)
        counts, steps = self._array("i64", [count]), self._array("i64", strides)
        self._lines.emit(f"call void {name}(ptr {arrays}, ptr {counts}, ptr {steps}, ptr {data})")
        if step.dtypes[-1].kind != "f":  # such as a power of an integer, which may be refused
            error = self._lines.call("ptr", "PyErr_Occurred")
            self._continue_if(self._lines.op(f"icmp eq ptr {error}, null"))

    def _array(self, kind: str, items: Sequence[str | int]) -> str:
        """Values side by side on the stack."""
        room = self._lines.room(f"[{len(items)} x {kind}]")
        for place, item in enumerate(items):
            self._lines.emit(f"store {kind} {item}, ptr {self._lines.address(room, place, kind)}")
        return room

    def _call_back(self, step: Callback) -> None:
        plan, equation = self._plan, step.equation
        known = {
            place: self._program.constants[operand - len(self._program.inputs)].value
            for place, operand in enumerate(equation.operands)
            if operand in plan.constants
        }
        specs = [plan.specs[operand] for operand in equation.operands]
        function = callback_of(equation, specs, known)
        self._module.callbacks.append(equation.name)
        arrays = [
            (specs[place], self._at(operand))
            for place, operand in enumerate(equation.operands)
            if place not in known
        ]
        results = range(step.variable, step.variable + len(equation.results))
        arrays += [(plan.specs[result], self._pointer(result)) for result in results]
        made = [self._as_array(spec, pointer) for spec, pointer in arrays]
        target = self._module.symbol("step", id(function), function)
        pointers = self._array("ptr", made)
        outcome = self._lines.call(
            "ptr",
            "PyObject_Vectorcall",
            ("ptr", target),
            ("ptr", pointers),
            ("i64", str(len(made))),
            ("ptr", "null"),
        )
        for array in made:
            self._lines.call("void", "Py_DecRef", ("ptr", array))
        self._continue_if(self._lines.op(f"icmp ne ptr {outcome}, null"))
        self._lines.call("void", "Py_DecRef", ("ptr", outcome))

    def _as_array(self, spec: Spec, pointer: str) -> str:
        """An ndarray over native memory."""
        lines, dtype = self._lines, np.dtype(spec.dtype)
        descr = self._module.symbol("dtype", id(dtype), dtype)
        kind = self._module.symbol("ndarray", id(np.ndarray), np.ndarray)
        lines.call("void", "Py_IncRef", ("ptr", descr))
        dimensions = self._array("i64", spec.shape) if spec.shape else "null"
        array = lines.call(
            "ptr",
            "PyArray_NewFromDescr",
            ("ptr", kind),
            ("ptr", descr),
            ("i32", str(len(spec.shape))),
            ("ptr", dimensions),
            ("ptr", "null"),
            ("ptr", pointer),
            ("i32", "1281"),  # in C order, aligned, may be written to
            ("ptr", "null"),
        )
        self._continue_if(lines.op(f"icmp ne ptr {array}, null"))
        return array

    def _continue_if(self, condition: str, otherwise: str = "failed") -> None:
        after = self._lines.fresh_label("then")
        if otherwise == "failed":
            self._fails = True
        else:
            self._misses = True
        self._lines.branch(condition, after, otherwise)
        self._lines.begin_block(after)

    # -------------------------------------------------------------------------------------- guards

    def _check(self, guards: Sequence[Guard]) -> None:
        for guard in guards:
            self._continue_if(self._holds(guard), "missed")

    def _holds(self, guard: Guard) -> str:
        """A truth value: whether the function would go the same way."""
        view = self._plan.views[guard.variable]
        dtype = self._plan.specs[guard.variable].dtype
        lanes = Lanes(self._lines, 1)
        place = self._lines.address(self._pointer(view.buffer), view.offset, memory_type(dtype))
        x, value = load(lanes, place, dtype), guard.value
        if guard.use == "bool":
            truth = lanes.astype(x, np.dtype(np.bool_))
            return truth.text if value else self._lines.op(f"xor i1 {truth.text}, true")
        if guard.use in ("int", "index"):
            return lanes.equal(lanes.trunc(x) if dtype.kind == "f" else x, value).text
        if dtype.kind != {bool: "b", int: dtype.kind, float: "f"}.get(type(value)):
            return "false"
        if dtype.kind != "f":
            return lanes.equal(x, value).text
        if value != value:  # every NaN is one
            return lanes.isnan(x).text
        kind = f"i{8 * dtype.itemsize}"
        bits = self._lines.op(f"bitcast {x.kind} {x.text} to {kind}")
        return self._lines.op(f"icmp eq {kind} {bits}, {_bits(value, dtype)}")

    # --------------------------------------------------------------------------- programs that run

    def _called(self, function: Function, pointers: Sequence[str], arena: str) -> None:
        arguments = ", ".join([f"ptr {pointer}" for pointer in (*pointers, arena)])
        status = self._lines.op(f"call i32 @{function.name}({arguments})")
        self._continue_if(self._lines.op(f"icmp eq i32 {status}, 0"))

    def _run(self, step: Run, position: int) -> None:
        functions = [self._module.function(program) for program in step.programs]
        arena = self._scratch(max([function.size for function in functions]))
        operands = [self._at(operand) for operand in step.equation.operands]
        count = len(step.equation.results)
        results = [self._pointer(v) for v in range(step.variable, step.variable + count)]
        if isinstance(step.form, Choice):
            self._choose(step, functions, operands, results, arena)
        elif step.form.condition is None:
            self._repeat(step, step.form, functions[0], operands, results, arena)
        else:
            self._continue_while(step, step.form, functions, operands, results, arena)

    def _interruptible(self, index: str, work: int) -> None:
        """Look for signals, such as an interrupt from the keyboard, at some steps of a loop."""
        lines = self._lines
        steps = 1
        while steps * max(work, 1) < _UNINTERRUPTED:
            steps *= 2
        look, after = lines.fresh_label("look"), lines.fresh_label("goes_on")
        place = lines.op(f"and i64 {index}, {steps - 1}")
        lines.branch(lines.op(f"icmp eq i64 {place}, {steps - 1}"), look, after)
        lines.begin_block(look)
        status = lines.call("i32", "PyErr_CheckSignals")
        self._continue_if(lines.op(f"icmp eq i32 {status}, 0"))
        lines.jump(after)
        lines.begin_block(after)

    def _choose(
        self,
        step: Run,
        functions: Sequence[Function],
        operands: Sequence[str],
        results: Sequence[str],
        arena: str,
    ) -> None:
        lines, dtype = self._lines, self._plan.specs[step.equation.operands[0]].dtype
        lanes = Lanes(lines, 1)
        number = lanes.astype(load(lanes, operands[0], dtype), np.dtype(np.int64))
        chosen = lanes.where(number < 0, 0, number).text
        labels = [lines.fresh_label("branch") for _ in functions]
        after = lines.fresh_label("chosen")
        cases = " ".join([f"i64 {k}, label %{name}" for k, name in enumerate(labels[:-1])])
        lines.emit(f"switch i64 {chosen}, label %{labels[-1]} [ {cases} ]")
        for label, function in zip(labels, functions, strict=True):
            lines.begin_block(label)
            self._called(function, [*operands[1:], *results], arena)
            lines.jump(after)
        lines.begin_block(after)

    def _carries(self, step: Run, form: Loop) -> list[Spec]:
        return list(step.equation.results[: form.carried])

    def _spares(self, specs: Sequence[Spec]) -> list[str]:
        return [self._scratch(prod(spec.shape) * spec.dtype.itemsize) for spec in specs]

    def _repeat(
        self,
        step: Run,
        form: Loop,
        body: Function,
        operands: Sequence[str],
        results: Sequence[str],
        arena: str,
    ) -> None:
        """A loop whose length is known. Three places for each carry take turns: nothing is copied,
        and what the last step makes lies where the result belongs."""
        specs, lines = self._carries(step, form), self._lines
        shared, first = operands[: form.shared], operands[form.shared :][: form.carried]
        length = form.length
        if not length:
            for target, source, spec in zip(results, first, specs, strict=False):
                self._copy(target, source, spec)
            return
        arrays = operands[form.shared + form.carried :]
        slices = [self._plan.specs[v] for v in step.equation.operands[form.shared + form.carried :]]
        stacks = step.equation.results[form.carried :]
        last, spare = list(results[: form.carried]), self._spares(specs)
        into, other = (last, spare) if length % 2 else (spare, last)

        def one(index: str, turns: Sequence[str]) -> Sequence[str]:
            count = form.carried
            now, here, there = turns[:count], turns[count : 2 * count], turns[2 * count :]
            place = lines.op(f"sub i64 {length - 1}, {index}") if form.reverse else index
            rows = [self._row(p, s, place) for p, s in zip(arrays, slices, strict=True)]
            outs = [self._row(p, s, place) for p, s in zip(results[count:], stacks, strict=True)]
            self._called(body, [*shared, *now, *rows, *here, *outs], arena)
            self._interruptible(index, body.work)
            return [*here, *there, *here]

        self._work += length * body.work
        lines.counted(length, one, [("ptr", pointer) for pointer in (*first, *into, *other)])

    def _row(self, pointer: str, spec: Spec, place: str) -> str:
        """The address of a slice along axis 0."""
        size = prod(spec.shape[1:]) * spec.dtype.itemsize
        return self._lines.address(pointer, self._lines.op(f"mul i64 {place}, {size}"))

    def _continue_while(
        self,
        step: Run,
        form: Loop,
        functions: Sequence[Function],
        operands: Sequence[str],
        results: Sequence[str],
        arena: str,
    ) -> None:
        lines, specs = self._lines, self._carries(step, form)
        shared, first = operands[: form.shared], operands[form.shared :]
        body, condition = functions
        self._work += _UNINTERRUPTED  # nobody knows
        pairs = [self._spares(specs), self._spares(specs)]
        truth = self._scratch(1)
        before, head = lines.block, lines.fresh_label("while")
        again, after = lines.fresh_label("again"), lines.fresh_label("ended")
        lines.jump(head)
        lines.begin_block(head)
        now, here, there = [[lines.name() for _ in specs] for _ in range(3)]
        count, following = lines.name(), lines.name()
        place = lines.mark()
        self._called(condition, [*shared, *now, truth], arena)
        answer = lines.op(f"load i8, ptr {truth}")
        lines.branch(lines.op(f"icmp ne i8 {answer}, 0"), again, after)
        lines.begin_block(again)
        self._called(body, [*shared, *now, *here], arena)
        self._interruptible(count, body.work)
        lines.emit(f"{following} = add i64 {count}, 1")
        end = lines.block
        lines.jump(head)
        phis = [f"{count} = phi i64 [0, %{before}], [{following}, %{end}]"]
        for k in range(len(specs)):
            for name, start, following in (
                (now[k], first[k], here[k]),
                (here[k], pairs[0][k], there[k]),
                (there[k], pairs[1][k], here[k]),
            ):
                phis.append(f"{name} = phi ptr [{start}, %{before}], [{following}, %{end}]")
        lines.insert_phis(place, phis)
        lines.begin_block(after)
        for target, source, spec in zip(results, now, specs, strict=True):
            self._copy(target, source, spec)


def _padded(size: int) -> int:
    return -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT


def _bits(value: float, dtype: np.dtype[Any]) -> int:
    """The bits of a float as an integer."""
    return int(dtype.type(value).view(f"i{dtype.itemsize}"))
