"""Write programs as JSON, for files and other processes, and read them.

The text contains the whole program to the last bit, with a line for each equation. Operations are
written as their names below ``funcgrad._primitives``, where the reader looks them up. A call
contains its program.

>>> import funcgrad as fg
>>> print(program_text(fg.program(lambda x: x * x)(3.0)))  # doctest: +ELLIPSIS
{
  "format": "funcgrad program",
  "version": 1,
  "name": "<lambda>",
  "names": ["x"],
  "inputs": ["weak float64[]"],
  "constants": [],
  "equations": [
    {"operation": "elementwise.multiply", "operands": [0, 0], "results": [...], "source": "..."}
  ],
  "outputs": [1],
  "guards": [],
  "arguments": [{"tuple": 2}, {"tuple": 1}, "*", {"dict": []}],
  "result": ["*"]
}
"""

from __future__ import annotations

import hashlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._forms.json_trees import structure_of, tree_data
from funcgrad._forms.json_values import (
    DTYPE_NAMES,
    Data,
    array_of,
    bytes_of,
    from_base64,
    from_data,
    listed,
    named,
    optional,
    read,
    to_base64,
    to_data,
)
from funcgrad._programs.equation import Constant, Equation, Guard, Params
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

T = TypeVar("T")

_FORMAT: Final = "funcgrad program"
_VERSION: Final = 1
_HOME: Final = "funcgrad._primitives."
_SPEC: Final = re.compile(r"(weak )?(\w+)\[((?:[0-9]{1,18}(?:,[0-9]{1,18})*)?)\]")
_OPERATION: Final = re.compile(r"[a-zA-Z]\w*(\.[a-zA-Z]\w*)+")
_BY_LINE: Final = ("constants", "equations", "guards")
_NUMBERS: Final = (bool, int, float, complex)


# ------------------------------------------------------------------------------------ to JSON


def program_text(program: Program) -> str:
    """Write a program as JSON.

    Raises
    ------
    ProgramError
        The program contains an object that cannot be saved.
    """
    entries = [
        f"  {_json(name)}: {_lines(value) if name in _BY_LINE and value else _json(value)}"
        for name, value in _document(program).items()
    ]
    return "{\n" + ",\n".join(entries) + "\n}"


def program_fingerprint(program: Program) -> str:
    """The SHA-256 of a program's JSON, without names and the user's lines."""
    document = _document(program)
    for name in ("name", "names"):
        del document[name]
    _forget_lines(document)
    return hashlib.sha256(_json(document).encode()).hexdigest()


def _forget_lines(document: dict[str, Data]) -> None:
    for record in (*document["equations"], *document["guards"]):
        record.pop("source", None)
        for holder in (record, *record.get("params", {}).values()):
            if type(holder) is dict and "program" in holder:
                _forget_lines(holder["program"])


def _json(data: Data) -> str:
    return json.dumps(data, allow_nan=False)


def _lines(items: list[Data]) -> str:
    return "[\n" + ",\n".join([f"    {_json(item)}" for item in items]) + "\n  ]"


def _document(program: Program) -> dict[str, Data]:
    fields = _fields(program, _primitive_names(), f"program {program.name}")
    return {"format": _FORMAT, "version": _VERSION, **fields}


def _fields(program: Program, names: dict[int, str], place: str) -> dict[str, Data]:
    return {
        "name": program.name,
        "names": list(program.names),
        "inputs": [_spec_text(spec) for spec in program.inputs],
        "constants": [_constant_data(program, k) for k in range(len(program.constants))],
        "equations": [
            _equation_data(equation, names, f"{place}, {_described(program, number)}")
            for number, equation in enumerate(program.equations)
        ],
        "outputs": list(program.outputs),
        "guards": [_guard_data(guard, place) for guard in program.guards],
        "arguments": tree_data(program.arguments, f"{place}, arguments"),
        "result": tree_data(program.result, f"{place}, result"),
    }


def _described(program: Program, number: int) -> str:
    """Describe an equation in an error message: number, name and the user's line."""
    equation = program.equations[number]
    at = f" at {equation.source}" if equation.source else ""
    return f"equation {number} ({equation.name}){at}"


def _spec_text(spec: Spec) -> str:
    return f"weak {spec}" if spec.weak else str(spec)


def _constant_data(program: Program, number: int) -> Data:
    constant = program.constants[number]
    value = constant.value
    if not constant.is_raw and value._trace.is_remote:
        value = value._reveal("to_json", exact=True)
    elif not constant.is_raw:
        variable = len(program.inputs) + number
        readers = [
            k for k, equation in enumerate(program.equations) if variable in equation.operands
        ]
        reader = _described(program, readers[0]) if readers else "the result"
        raise ProgramError(
            f"program {program.name}: the constant {program.variable_names()[variable]}, which"
            f" {reader} reads, belongs to a transformation that runs around the program, so its"
            " value cannot be saved. Stage the function outside of that transformation, or pass"
            " the value as an argument."
        )
    if isinstance(value, np.ndarray):
        return {"array": to_base64(bytes_of(value)), "spec": _spec_text(constant.spec)}
    return {"number": to_data(value, f"program {program.name}, constant {number}")}


def _primitive_names() -> dict[int, str]:
    """The names of all public primitives that loaded modules declare, by ``id``."""
    modules = sys.modules.copy()
    return {
        id(primitive): f"{path.removeprefix(_HOME)}.{name}"
        for path in modules
        if path.startswith(_HOME)
        for name, primitive in declared_primitives(modules[path]).items()
    }


def declared_primitives(module: ModuleType) -> dict[str, Primitive]:
    """The public primitives of a module: a declaration has a type there, and an import has none."""
    names = getattr(module, "__annotations__", ())
    values = [(name, getattr(module, name, None)) for name in names if not name.startswith("_")]
    return {name: value for name, value in values if isinstance(value, Primitive)}


def _equation_data(equation: Equation, names: dict[int, str], place: str) -> Data:
    data = {**_operation_data(equation, names, place), "operands": list(equation.operands)}
    if "call" not in data and equation.params:
        data["params"] = {
            name: {"program": _fields(value, names, f"{place}, parameter {name}")}
            if isinstance(value, Program)
            else to_data(value, f"{place}, parameter {name}")
            for name, value in equation.params
        }
    data["results"] = [_spec_text(spec) for spec in equation.results]
    origin = {"epoch": equation.epoch, "source": equation.source}
    return {**data, **{name: value for name, value in origin.items() if value}}


def _operation_data(equation: Equation, names: dict[int, str], place: str) -> dict[str, Data]:
    operation, body = equation.operation, equation.called
    if body is not None:
        return {"call": equation.name, "program": _fields(body, names, f"{place}, inside")}
    if operation.is_foreign and not operation.has_effect:
        raise ProgramError(
            f"{place}: this call runs a Python function on raw values, so its operations are not"
            " known, and it cannot be saved. Stage and save the operations before and after it"
            " instead."
        )
    return {"operation": names.get(id(operation)) or _reference(operation, place)}


def _reference(primitive: Primitive, place: str) -> str:
    """The module and name of a primitive that is not declared in ``funcgrad._primitives``."""
    home = getattr(primitive.evaluate, "__module__", "")
    modules = sorted(sys.modules.copy().items(), key=lambda item: (item[0] != home, item[0]))
    for path, module in modules:
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is primitive:
                return f"{path}:{name}"
    raise ProgramError(
        f"{place}: a file can only name primitives that are defined at the top level of a module."
        " Define this one there."
    )


def _guard_data(guard: Guard, place: str) -> Data:
    value = to_data(guard.value, f"{place}, a guard")
    data = {"variable": guard.variable, "use": guard.use, "value": value}
    return {**data, "source": guard.source} if guard.source else data


# ---------------------------------------------------------------------------------- from JSON


MakeCall: TypeAlias = Callable[[str, Mapping[str, Any]], tuple[Primitive, Params]]
"""Maps a call's name and the fields of its program to an operation and its parameters."""


def program_parts(text: str, call: MakeCall) -> dict[str, Any]:
    """Read the fields of a program from a text; other texts raise ``ProgramError``.

    ``call`` makes the operation of a call (calls belong to a higher layer).
    """
    try:
        document = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ProgramError("The text is not a program: it is nested too deeply.") from None
    except ValueError as error:
        raise ProgramError(f"The text is not a program, or an incomplete one: {error}.") from None
    if type(document) is not dict or document.get("format") != _FORMAT:
        raise ProgramError(f"The text is not a program: it lacks 'format': {_FORMAT!r}.")
    place = "The program"
    version = read(document, "version", int, place)
    if version != _VERSION:
        raise ProgramError(
            f"The program is saved in version {version} of the format, and this funcgrad reads"
            f" version {_VERSION}. Save it again with this one."
        )
    try:
        return _program_fields(document, place, "", call)
    except RecursionError:
        raise ProgramError("The program: a value is nested too deeply.") from None


def _program_fields(document: Data, place: str, around: str, call: MakeCall) -> dict[str, Any]:
    name = read(document, "name", str, place)
    place = f"{around}program {name}"
    return {
        "name": name,
        "names": listed(document, "names", str, place),
        "inputs": _specs(document, "inputs", place),
        "constants": _records(document, "constant", _constant, place),
        "equations": _records(document, "equation", partial(_equation, call=call), place),
        "outputs": listed(document, "outputs", int, place),
        "guards": _records(document, "guard", _guard, place),
        "arguments": structure_of(document, "arguments", place),
        "result": structure_of(document, "result", place),
    }


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _records(
    document: Data, word: str, make: Callable[[Data, str], T], place: str
) -> tuple[T, ...]:
    """Read the list under the plural of a word in a document, an object from each record."""
    records = listed(document, f"{word}s", dict, place)
    return tuple(
        [make(record, f"{place}, {word} {number}") for number, record in enumerate(records)]
    )


def _specs(record: Data, name: str, place: str) -> tuple[Spec, ...]:
    return tuple([_spec(text, place) for text in listed(record, name, str, place)])


def _spec(text: str, place: str) -> Spec:
    matched = _SPEC.fullmatch(text)
    if matched is None or matched[2] not in DTYPE_NAMES:
        raise ProgramError(f"{place}: {text!r} is not a dtype and shape, such as 'float64[2,3]'.")
    shape = tuple([int(length) for length in matched[3].split(",") if length])
    return Spec(shape, np.dtype(matched[2]), matched[1] is not None)


def _constant(record: Data, place: str) -> Constant:
    if "array" in record:
        spec = _spec(read(record, "spec", str, place), place)
        stored = from_base64(read(record, "array", str, place), place)
        return Constant(array_of(stored, spec.shape, spec.dtype, place))
    if "number" not in record:
        raise ProgramError(f"{place}: it has neither an 'array' nor a 'number'.")
    value = from_data(record["number"], place)
    if not isinstance(value, (*_NUMBERS, np.generic)):
        raise ProgramError(f"{place}: {value!r} is not a number.")
    return Constant(value)


def _equation(record: Data, place: str, call: MakeCall) -> Equation:
    kind = "call" if "call" in record else "operation"
    operation = read(record, kind, str, place)
    place = f"{place} ({operation})"
    if kind == "call":
        primitive, params = call(operation, _inside(record, place, call))
    else:
        primitive = _primitive(operation, place)
        param_data: dict[str, Data] = optional(record, "params", {}, place)
        params = tuple(
            [
                (key, _param(value, f"{place}, parameter {key}", call))
                for key, value in param_data.items()
            ]
        )
    return Equation(
        primitive,
        listed(record, "operands", int, place),
        params,
        _specs(record, "results", place),
        optional(record, "source", "", place),
        optional(record, "epoch", 0, place),
    )


def _param(data: Data, place: str, call: MakeCall) -> Any:
    if type(data) is dict and "program" in data:
        return Program(**_inside(data, place, call)).verify()
    return from_data(data, place)


def _primitive(name: str, place: str) -> Primitive:
    if ":" in name:
        outside = named(name, place)
        if isinstance(outside, Primitive):
            return outside
        raise ProgramError(f"{place}: {name} is not a primitive.")
    module, _, attribute = name.rpartition(".")
    if _OPERATION.fullmatch(name):
        with suppress(AttributeError, ImportError):
            declared = declared_primitives(pkgutil.resolve_name(f"{_HOME}{module}"))
            if attribute in declared:
                return declared[attribute]
    raise ProgramError(
        f"{place}: {_HOME[:-1]} has no such primitive. Programs are read by the version of funcgrad"
        " that saved them, or a later one."
    )


def _inside(record: Data, place: str, call: MakeCall) -> dict[str, Any]:
    """The fields of a program inside another program."""
    return _program_fields(read(record, "program", dict, place), place, f"{place}, ", call)


def _guard(record: Data, place: str) -> Guard:
    if "value" not in record:
        raise ProgramError(f"{place}: 'value' is missing.")
    value = from_data(record["value"], place)
    if type(value) not in _NUMBERS:
        raise ProgramError(f"{place}: {value!r} is not a number.")
    return Guard(
        read(record, "variable", int, place),
        read(record, "use", str, place),
        value,
        optional(record, "source", "", place),
    )
