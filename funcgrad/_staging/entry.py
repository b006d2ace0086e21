"""Generated code that unwraps a call's arguments to raw values, and wraps raw results.

Both are straight-line code for one tree structure. An *entry* unpacks the arguments of a call by
exact tests, and returns ``MISS`` where one fails; then the general path, which flattens the trees
in loops, finds out which kind of call it is. An *attempt* runs a program on the raw values, and
returns ``MISS`` where a guard fails or an outside value has changed.

For ``f(x) = x + 1`` on a tensor of ten elements they look about like this::

    def entry(args, kwargs):                        def attempt(v0, given):
        if len(args) != 1 or kwargs:                    if not unchanged():
            return MISS                                     return MISS
        try:                                            if read() is usual:
            a0, = args                                      try:
            if type(a0) is not Tensor:                          token = choose(silent)
                return MISS                                     outs = run(v0)
            v0 = a0._value                                   finally:
            if v0.shape != (10,) or v0.dtype ...:               restore(token)
                return MISS                             ...
        except Exception:                               if outs is None:
            return MISS                                     return MISS
        for attempt in signature.attempts:              o0, = outs
            result = attempt(v0, ())                    t0 = new(Tensor)
            if result is not MISS:                      t0._value = o0
                return result                           return t0
        return MISS
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from types import NoneType
from typing import Any, TypeAlias

import numpy as np

from funcgrad._backends.devices.resident import Resident
from funcgrad._backends.interface import MISS, Compiled
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ERROR_STATE, quiet
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import NUMBERS, RAW, Trace, Value
from funcgrad._core.users_values import GREATEST, LEAST, REFUSALS, freeze
from funcgrad._programs.program import Program
from funcgrad._staging.generated import Body
from funcgrad._staging.static_arguments import exact
from funcgrad.errors import GuardError
from funcgrad.tensor.tensor import Tensor

ArgumentType: TypeAlias = type[Any] | tuple[Any, ...]
"""The kind of a value: the type of a scalar, the shape and dtype of an array; of an array on a
device also the device."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the arguments that an entry is written for.

    Attributes
    ----------
    structure : Structure
        The structure of the arguments that are not static, ``(args, kwargs)``.
    parts : hashable
        The exact static parts of the structure.
    leaves : tuple of type
        The types of the leaves that the caller passed, tensors or raw values.
    kinds : tuple
        The kinds of the raw values.
    count : int
        The number of positional arguments, the static ones included.
    static : tuple of triples
        For each static argument its position or name, its ``exact`` key, and its value.
    """

    structure: Structure
    parts: Hashable
    leaves: tuple[type[Any], ...]
    kinds: tuple[ArgumentType, ...]
    count: int
    static: tuple[tuple[int | str, Hashable, Any], ...]


def argument_type(value: Value) -> ArgumentType:
    """The kind of a value: ``float``, or ``((3,), "d")`` for three float64 elements."""
    if type(value) is Resident:
        return value.shape, value.dtype.char, value._trace
    return (value.shape, value.dtype.char) if type(value) is np.ndarray else type(value)


def types_at(device: Trace | None, types: tuple[ArgumentType, ...]) -> tuple[ArgumentType, ...]:
    """The kinds of values that a device takes along: scalars of the host are as its own.

    So a count that begins on the host, and comes back from the device, needs one program.
    """
    if device is None:
        return types
    is_scalar = [isinstance(kind, type) and kind not in NUMBERS for kind in types]
    pairs = zip(types, is_scalar, strict=True)
    return tuple([((), np.dtype(kind).char, device) if there else kind for kind, there in pairs])


def write_entry(form: Form, signature: Any) -> Callable[[Any, Any], Any] | None:
    """Write the entry for calls of one form: ``(args, kwargs) -> result or MISS``.

    It tries the ``attempts`` of the signature in turn. Returns None if only the general path can
    handle such calls.
    """
    if not all(leaf is Tensor or leaf is Resident or leaf in RAW for leaf in form.leaves):
        return None
    arguments = _Arguments(form)
    if not arguments.complete:
        return None
    body = arguments.body
    miss = body.name(MISS)
    values = "".join([f"v{k}, " for k in range(len(form.leaves))])
    arrays = "".join([f"v{k}, " for k, leaf in enumerate(form.leaves) if leaf is np.ndarray])
    body.line("except Exception:")  # too few to unpack, or an error of a user's class
    body.line(f"return {miss}", 2)
    body.line(f"for attempt in {body.name(signature)}.attempts:")
    body.line(f"result = attempt({values}({arrays}))", 2)
    body.line(f"if result is not {miss}:", 2)
    body.line("return result", 3)
    body.line(f"return {miss}")
    return body.function("entry", "args, kwargs")


class _Arguments:
    """Writes lines that unpack the arguments of a call, as ``trees.flatten`` does."""

    def __init__(self, form: Form) -> None:
        self.body = Body()
        self.complete = True
        self.form = form
        self.nodes = self.leaves = self.parts = 0
        self.static = frozenset([place for place, _, _ in form.static])
        self.body.line(f"if len(args) != {form.count}:")
        self.body.line(f"return {self.body.name(MISS)}", 2)
        self.body.line("try:")
        arguments = self.unpacked("args", form.count)
        for place, key, value in form.static:
            text = arguments[place] if isinstance(place, int) else _item(place)
            other = f"{self.body.name(exact)}({text}) != {self.body.name(key)}"
            self.refuse(f"{text} is not {self.body.name(value)} and {other}")
        dynamic = [text for k, text in enumerate(arguments) if k not in self.static]
        waiting = ["kwargs", *reversed(dynamic)]
        for token in form.structure.tokens[2:]:  # after the tokens of (args, kwargs) and of args
            text = waiting.pop()
            if token is None:
                self.leaf(text)
            else:
                waiting += reversed(self.children(token, text))

    def refuse(self, condition: str) -> None:
        self.body.line(f"if {condition}:", 2)
        self.body.line(f"return {self.body.name(MISS)}", 3)

    def named(self, text: str) -> str:
        if text.isidentifier():
            return text
        self.nodes += 1
        self.body.line(f"n{self.nodes} = {text}", 2)
        return f"n{self.nodes}"

    def unpacked(self, text: str, size: int) -> list[str]:
        # Names are numbered: names built from their parents' would grow with the tree's depth.
        children = [f"c{self.parts + k}" for k in range(size)]
        self.parts += size
        if children:
            self.body.line(f"{', '.join(children)}, = {text}", 2)
        else:
            self.refuse(text)
        return children

    def leaf(self, text: str) -> None:
        body, value = self.body, f"v{self.leaves}"
        leaf_type, kind = self.form.leaves[self.leaves], self.form.kinds[self.leaves]
        self.leaves += 1
        if leaf_type is Resident and not isinstance(kind, type):
            self.resident(value, self.named(text), kind)
            return
        if leaf_type is Tensor:
            name = self.named(text)
            self.refuse(f"type({name}) is not {body.name(Tensor)}")
            text = f"{name}._value"
        body.line(f"{value} = {text}", 2)
        if isinstance(kind, type):
            self.refuse(f"type({value}) is not {body.name(kind)}")
            if kind is int:
                self.refuse(f"not {LEAST} <= {value} <= {GREATEST}")
            return
        shape, char = kind
        if not shape or leaf_type is not Tensor:  # else the shape tells it from a number
            self.refuse(f"type({value}) is not {body.name(np.ndarray)}")
        self.unlike(value, shape, char)
        if leaf_type is not Tensor:
            # A C-contiguous array is not copied: the attempt copies results that share its memory.
            # Any other is copied, since NumPy may add its elements in another order.
            body.line(f"if not {value}.flags.carray:", 2)
            body.line(f"{value} = {body.name(freeze)}({value})", 3)

    def unlike(self, value: str, shape: tuple[int, ...], char: str) -> None:
        dtype, differ = self.body.name(np.dtype(char)), self.body.name(_differ)
        other = f"{value}.dtype is not {dtype} and {differ}({value}.dtype, {dtype})"
        self.refuse(f"{value}.shape != {shape!r} or {other}")

    def resident(self, value: str, name: str, kind: tuple[Any, ...]) -> None:
        body, (shape, char, device) = self.body, kind
        other = f"{name}._trace is not {body.name(device)}"
        self.refuse(f"type({name}) is not {body.name(Resident)} or {other}")
        body.line(f"{value} = {name}._value", 2)
        self.unlike(value, shape, char)
        body.line(f"{value} = {value}.handle", 2)

    def children(self, node: Any, text: str) -> list[str]:
        """Write the lines that unpack a container; return the names of its children."""
        kind, size, aux = node
        if text == "kwargs":
            count = size + sum(isinstance(place, str) for place in self.static)
            self.refuse(f"len(kwargs) != {count}" if count else "kwargs")
            return [_item(key) for key in aux]
        name = self.named(text)
        if kind is NoneType:
            self.refuse(f"{name} is not None")
            return []
        self.refuse(f"type({name}) is not {self.body.name(kind)}")
        if kind is dict:
            if {*map(type, aux)} - {str}:  # other keys may not sort, or be equal as 1 and 1.0 are
                self.complete = False
            self.refuse(f"len({name}) != {size}")
            return [_item(key, name) for key in aux]
        if kind is OrderedDict:
            self.complete = False
        elif hasattr(kind, "__tree_flatten__"):
            self.body.line(f"{name}, aux = {name}.__tree_flatten__()", 2)
            other = f"{self.body.name(exact)}(aux) != {self.body.name(exact(aux))}"
            self.refuse(f"aux is not {self.body.name(aux)} and ({other})")
        elif hasattr(kind, "__dataclass_fields__"):
            for field, _, value in aux.static:
                attribute = self.named(f"{name}.{field}")
                other = f"{self.body.name(exact)}({attribute}) != {self.body.name(exact(value))}"
                self.refuse(f"{attribute} is not {self.body.name(value)} and {other}")
            return [f"{name}.{field}" for field in aux.names]
        return self.unpacked(name, size)


def _item(key: str, mapping: str = "kwargs") -> str:
    return f"{mapping}[{key!r}]"


def _differ(first: np.dtype[Any], second: np.dtype[Any]) -> bool:
    """Whether two dtypes differ; equal ones may be two objects, as after pickling."""
    return first != second or first.char != second.char


def write_attempt(
    program: Program, compiled: Compiled, check: Callable[[], bool] | None
) -> Callable[..., Any]:
    """Write the function that runs a program if its guards hold for the values passed to it.

    It is ``(*raw inputs, given) -> result or MISS``, where the inputs in ``given`` are arrays that
    the caller may write to. ``check`` returns whether everything that the program relies on,
    besides its inputs, is unchanged.
    """
    body = Body()
    miss, inputs = body.name(MISS), "".join([f"v{k}, " for k in range(len(program.inputs))])
    outputs = [f"o{k}" for k in range(len(program.outputs))]
    if check is not None:
        body.line(f"if not {body.name(check)}():")
        body.line(f"return {miss}", 2)
    reads_later = compiled.follow or any(e.operation.is_foreign for e in program.equations)
    if inputs and reads_later:
        body.line("if given:")  # a device, or a rule of the user's, may read its arguments later
        body.line(f"{inputs}= {body.name(_frozen)}(({inputs}), given)", 2)
    call = f"outs = {body.name(compiled.run)}({inputs})"
    told = f"{body.name(told_by_operation)}({body.name(program)}, ({inputs}), error)"
    told = "error" if compiled.follow else told
    _write_run(body, call, told, compiled.warns)
    body.line("if outs is None:")
    body.line(f"return {miss}", 2)
    if outputs:
        body.line(f"{', '.join(outputs)}, = outs")
    new = [True] * len(outputs) if compiled.is_fresh else _new_outputs(program)
    shared = [out for out, is_new in zip(outputs, new, strict=True) if not is_new]
    if shared:
        body.line("if given:")
    for out in shared:
        body.line(f"{out} = {body.name(_apart)}({out}, given)", 2)
    for number, out in enumerate(outputs):
        if compiled.follow is not None:
            follow = compiled.follow(program.output_specs[number])
            body.line(f"t{number} = {body.name(follow)}({out})")
            continue
        body.line(f"t{number} = {body.name(object.__new__)}({body.name(Tensor)})")
        body.line(f"t{number}._value = {out}")
    body.line(f"return {_written(body, program.result)}")
    return body.function("attempt", f"{inputs}given")


def joined(result: Structure) -> Callable[..., Any] | None:
    """The function that joins the tensors of a result to its tree; None if it is one tensor."""
    first, *others = result.tokens
    if first is None:
        return None
    if first[0] is tuple and not any(others):
        return tuple
    body = Body()
    body.line(f"return {_written(body, result)}")
    return body.function("joined", ", ".join([f"t{k}" for k in range(result.num_leaves)]))


def told_by_operation(program: Program, values: Sequence[Value], error: Exception) -> Exception:
    """The error that the failing operation itself raises, in place of a compiled program's.

    An error of compiled code does not name the operation. So the program is evaluated operation by
    operation, which fails too, with an error that names the operation and its arguments.
    """
    try:
        with quiet():
            program.evaluate(values)
    except Exception as told:
        return error if isinstance(told, GuardError) else told
    return error


def _new_outputs(program: Program) -> list[bool]:
    """For each output, whether it is certainly a new array, like the result of a ufunc."""
    new = [False] * len(program.inputs) + [True] * len(program.constants)
    for equation in program.equations:
        evaluate = equation.operation.evaluate
        new += [isinstance(evaluate, np.ufunc)] * len(equation.results)
    return [new[variable] for variable in program.outputs]


def _write_run(body: Body, statement: str, told: str, warns: bool) -> None:
    """Write a statement that runs a program, with NumPy's warnings off if it may warn.

    ``told`` is an expression for the exception to raise in place of an ``error``.
    """
    modes, depth = ERROR_STATE, 1
    if warns and modes is not None:
        body.line(f"if {body.name(modes.read)}() is {body.name(modes.usual)}:")
        choose = body.name(modes.choose)
        body.line("token = None", 2)
        body.line("try:", 2)
        body.line(f"token = {choose}({body.name(modes.silent)})", 3)
        body.line(statement, 3)
        body.line(f"except {body.name(GuardError)}:", 2)  # raised by a program inside an operation
        body.line(f"return {body.name(MISS)}", 3)
        body.line(f"except {body.name(REFUSALS)} as error:", 2)
        body.line(f"raise {told} from error", 3)
        body.line("finally:", 2)
        body.line("if token is None:", 3)  # an interrupt came right after the modes were chosen
        body.line(f"{choose}({body.name(modes.usual)})", 4)
        body.line("else:", 3)
        body.line(f"{body.name(modes.restore)}(token)", 4)
        body.line("else:")
        depth = 2
    body.line("try:", depth)
    if warns:
        body.line(f"with {body.name(quiet)}():", depth + 1)
    body.line(statement, depth + 1 + warns)
    body.line(f"except {body.name(GuardError)}:", depth)
    body.line(f"return {body.name(MISS)}", depth + 1)
    body.line(f"except {body.name(REFUSALS)} as error:", depth)
    body.line(f"raise {told} from error", depth + 1)


def _written(body: Body, structure: Structure) -> str:
    """Write lines that build a tree of the tensors t0, t1, ...; return the name of its root.

    Each container has its own line: one nested expression might be too deep for Python.
    """
    made: list[str] = []  # in reverse: a container's first child is the last one here
    leaves = [f"t{k}" for k in range(structure.num_leaves)]
    for number, token in enumerate(reversed(structure.tokens)):
        if token is None:
            made.append(leaves.pop())
        else:
            start = len(made) - token[1]
            children = made[start:]
            children.reverse()
            made[start:] = [f"r{number}"]
            _write_container(body, f"r{number}", token, children)
    return made[0]


def _write_container(body: Body, name: str, node: Any, children: list[str]) -> None:
    kind, _, aux = node
    inner = "".join([f"{child}, " for child in children])
    if kind is dict:
        pairs = zip(aux, children, strict=True)
        text = f"{{{', '.join([f'{body.literal(key)}: {child}' for key, child in pairs])}}}"
    elif kind is OrderedDict:
        text = f"{body.name(kind)}(zip({body.name(aux)}, ({inner})))"
    elif kind is tuple or kind is list:
        text = f"({inner})" if kind is tuple else f"[{inner}]"
    elif kind is NoneType:
        text = "None"
    elif hasattr(kind, "__tree_unflatten__"):
        text = f"{body.name(kind)}.__tree_unflatten__({body.name(aux)}, ({inner}))"
    elif issubclass(kind, tuple):
        text = f"{body.name(tuple.__new__)}({body.name(kind)}, ({inner}))"
    else:
        text = f"{body.name(object.__new__)}({body.name(kind)})"
    body.line(f"{name} = {text}")
    if not hasattr(kind, "__tree_unflatten__") and hasattr(kind, "__dataclass_fields__"):
        # Without __init__ and __post_init__, as in `trees.unflatten`.
        static = [(field, body.name(value)) for field, _, value in aux.static]
        for field, text in (*zip(aux.names, children, strict=True), *static):
            body.line(f"{body.name(object.__setattr__)}({name}, {field!r}, {text})")


def _frozen(values: tuple[Value, ...], writable: tuple[Any, ...]) -> list[Value]:
    """The values, with the caller's writable arrays copied."""
    return [
        freeze(value) if any(value is array for array in writable) else value for value in values
    ]


def _apart(out: Value, writable: tuple[Any, ...]) -> Value:
    """A result, copied if it may share memory with the caller's writable arrays."""
    if type(out) is np.ndarray:
        is_view = out.base is not None
        for array in writable:
            if out is array or (is_view and np.may_share_memory(out, array)):
                return out.copy("K")
    return out
