"""Write a program as a Python file that needs NumPy alone.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: x * x + 1.0)(3.0)
>>> module = {"__name__": "squares"}
>>> exec(module_text(staged, (), {}), module)
>>> module["f"](4.0)
17.0
>>> module["self_test"]()
result: the same to the last bit
The self-test passed.
0
"""

from __future__ import annotations

import ast
import base64
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.carried import Carried, NotCarriedError
from funcgrad._backends.numpy.literals import array_text, plain_text, tuple_text
from funcgrad._backends.numpy.module_frame import CHECKS, NAMES, RECORDS, SELF_TEST, STORED
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._backends.numpy.source import Source
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Control
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

COMPARED: Final = 1000
"""The most elements of a result that the self-test compares: evenly spaced ones."""

_COLUMNS: Final = 88
_CONSTANT: Final = re.compile(r"constants\[(\d+)\]")
_PYTHON: Final = MappingProxyType({"b": "bool", "i": "int", "f": "float", "c": "complex"})


def module_text(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a program as the text of a module; see ``Program.to_module``.

    Parameters
    ----------
    program : Program
    args, kwargs : pytrees
        Arguments for the self-test; without any, fractions are taken.

    Raises
    ------
    ProgramError
        No text holds an operation, or the program cannot be run on the arguments.
    """
    if not program.is_raw:
        raise ProgramError(
            f"to_module: a value of a transformation that runs around the program {program.name} is"
            " among its constants. Write the program outside of that transformation."
        )
    for equation in _equations(program):
        if equation.operation.is_foreign:
            raise _refused(equation, "it calls a Python function that may use anything")
    ready = prepared(optimize(program))
    source = numpy_source(ready)
    head = _head(program, ready, source)
    module: dict[str, Any] = {"__name__": "builtins"}  # dataclasses look for a module that is there
    exec(head + SELF_TEST, module)
    if args or kwargs:
        values = module["_inputs"](tuple(args), dict(kwargs))
        example = f"[{', '.join(map(_value_text, values))}]"
    else:
        values = [module["_fractions"](k, *_spec(spec)) for k, spec in enumerate(program.inputs)]
        example = "[_fractions(k, shape, dtype) for k, (_, shape, dtype) in enumerate(INPUTS)]"
    try:
        with np.errstate(all="ignore"):
            outs = compile_program(ready)(*values)
        for actual, expected in zip(module["_results"](values), outs, strict=True):
            assert module["_same_bits"](np.asarray(actual), np.asarray(expected))
    except Exception as error:
        raise ProgramError(
            f"to_module: the program {program.name} cannot be run on the example of its self-test:"
            f" {error}. Give arguments on which it can: to_module(path, *args, **kwargs)."
        ) from error
    stored = []
    for out in outs:
        array = np.asarray(out).reshape(-1)
        step = -(-array.size // COMPARED) or 1
        stored.append(f"        ({step}, {_value_text(array[::step])}),\n")
    data = (
        f'\n\ndef example():\n    """The arguments of the self-test."""\n    return {example}\n\n\n'
        'def expected_results():\n    """For each result a step and every so many-th element."""\n'
        f"    return [\n{''.join(stored)}    ]\n"
    )
    return head + data + SELF_TEST


def write_module(
    program: Program, path: str | PathLike[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Write a program as a file; see ``Program.to_module``.

    Raises
    ------
    ProgramError
        No text holds an operation, or the program cannot be run on the arguments.
    """
    text = module_text(program, args, kwargs)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _equations(program: Program) -> Iterator[Equation]:
    """The equations of a program and of those inside."""
    for equation in program.equations:
        yield equation
        structure = equation.operation.structure
        if isinstance(structure, Control):
            for inner, _ in structure.runs(**dict(equation.params)):
                yield from _equations(inner)


def _refused(equation: Equation, reason: object) -> ProgramError:
    place = f" at {equation.source}" if equation.source else ""
    return ProgramError(
        f"to_module: no text holds the operation {equation.name}{place}: {reason}. Write it with"
        " funcgrad.numpy, or save the program by to_json, which funcgrad reads."
    )


def _spec(spec: Spec) -> tuple[tuple[int, ...] | None, str]:
    """The shape and dtype as the module has them; a Python number has the shape None."""
    return (None, _PYTHON[spec.dtype.kind]) if spec.weak else (spec.shape, spec.dtype.name)


def _head(program: Program, ready: Program, source: Source) -> str:
    """Everything but the example."""
    carried, constants = _carried(ready, source)
    name = f"{source.name}_" if source.name in NAMES else source.name
    computed = carried.fresh(f"{name}_of_leaves")
    function = source.function.replace(f"def {source.name}(", f"def {computed}(", 1)
    classes: list[str] = []
    tree_lines = [
        f"{word} = {_tree_text(pytrees.unflatten(form, range(form.num_leaves)), carried, classes)}"
        for word, form in (("ARGUMENTS", program.arguments), ("RESULT", program.result))
    ]
    inputs = [
        f"    ({name!r}, {', '.join(map(repr, _spec(spec)))}),"
        for name, spec in zip(program.names, program.inputs, strict=True)
    ]
    names = [f"result{path}" for path in program.result.paths()]
    plain = [line for line in source.imports.split("\n") if not line.startswith("from funcgrad")]
    imports = _sorted_imports(["import base64", *plain, *carried.imports])
    call, packed = _signature(program)
    once = _CONSTANT.sub(lambda match: constants[int(match[1])], source.globals)
    return "\n".join(
        [
            f'r"""{_title(program, name, carried.text, names)}"""\n',
            *imports,
            f"\n\n{function}\n\n",
            "# ------------------------------------------------------- what this function uses\n",
            STORED,
            carried.text,
            f"{once}\n",
            *classes,
            "# Trees with the numbers of leaves in the place of the leaves.",
            *tree_lines,
            "# The name, shape and dtype of each leaf; the shape None is a Python number's.",
            "INPUTS = [",
            *inputs,
            "]",
            f"RESULT_NAMES = {names!r}",
            f"COMPUTED = {computed}",
            CHECKS,
            f'\ndef {name}({call}):\n    """Compute the program; see the top of this file."""',
            f"    return _build(RESULT, _results(_inputs({packed})))\n",
        ]
    )


def _carried(ready: Program, source: Source) -> tuple[Carried, list[str]]:
    """Definitions of what the text uses of funcgrad, and expressions of its constants."""
    used: dict[str, Any] = {}
    names: dict[str, Any] = dict.fromkeys(NAMES, None)
    for node in ast.parse(f"{source.imports}\n{source.globals}").body:
        if isinstance(node, ast.ImportFrom):
            module = sys.modules[str(node.module)]
            for alias in node.names:
                word = alias.asname or alias.name
                is_ours = str(node.module).startswith("funcgrad")
                (used if is_ours else names)[word] = getattr(module, alias.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id: None for target in node.targets if isinstance(target, ast.Name)}
    carried = Carried({**names, source.name: None, "np": np})
    carried.reserve(used)
    word = ""
    try:
        for word, value in used.items():
            carried.define(word, value)
        constants = []
        for constant in source.constants:
            word = str(getattr(constant, "name", type(constant).__name__))
            is_array = isinstance(constant, np.ndarray)
            constants.append(_value_text(constant) if is_array else carried.expression(constant))
    except NotCarriedError as reason:
        raise _refused(_equation_of(ready, word), reason) from reason
    return carried, constants


def _equation_of(program: Program, word: str) -> Equation:
    """The equation whose operation has a name, or evaluates by a function of that name."""
    equations = list(_equations(program))
    for equation in equations:
        operation = equation.operation
        names = {operation.name, getattr(operation.evaluate, "__name__", "")}
        if word.rstrip("_") in names or word in names:
            return equation
    controls = [e for e in equations if isinstance(e.operation.structure, Control)]
    return (controls or equations)[0]


def _value_text(value: object) -> str:
    """An expression for an array or a number."""
    if not isinstance(value, np.ndarray | np.generic):
        return str(plain_text(value))
    text = array_text(value)
    if text is not None:
        return text
    array = np.asarray(value)
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    ordered = np.ascontiguousarray(array.transpose(axes))
    data = base64.b64encode(ordered.tobytes()).decode()
    lines = [f'    "{data[k : k + _COLUMNS]}"' for k in range(0, len(data), _COLUMNS)]
    moved = "" if axes == sorted(axes) else f", {axes}"
    text = "\n".join(lines)
    return f"_stored(\n{text},\n    {array.dtype.str!r}, {array.shape}{moved})"


def _tree_text(tree: Any, carried: Carried, classes: list[str]) -> str:
    """A tree of numbers as text. Classes of records become named tuples."""
    if tree is None or type(tree) is int:
        return repr(tree)
    if isinstance(tree, dict):
        for key in tree:
            if plain_text(key) is None:
                raise ProgramError(f"to_module: no text holds the key {key!r} of a dict.")
        entries = [f"{key!r}: {_tree_text(x, carried, classes)}" for key, x in tree.items()]
        return f"{{{', '.join(entries)}}}"
    if type(tree) in (tuple, list):
        texts = [_tree_text(entry, carried, classes) for entry in tree]
        return f"[{', '.join(texts)}]" if type(tree) is list else tuple_text(texts)
    token = pytrees.structure(tree).tokens[0]
    fields = getattr(token[2], "names", None) if token else None
    if fields is None:
        raise ProgramError(
            f"to_module: no text makes a {type(tree).__qualname__} of a tree. Let the function take"
            " and return tuples, lists, dicts, named tuples or dataclasses."
        )
    texts = [_tree_text(getattr(tree, field), carried, classes) for field in fields]
    is_private = any(field.startswith("_") for field in fields)
    if is_private and RECORDS not in classes:
        classes.insert(0, RECORDS)
    kind = "_record" if is_private else "namedtuple"
    made = f"{kind}({type(tree).__name__!r}, {' '.join(fields)!r})"
    name = next((line.partition(" ")[0] for line in classes if line.endswith(f" = {made}")), "")
    if not name:
        word = type(tree).__name__
        name = carried.fresh(f"{word}_" if word in NAMES else word)
        carried.reserve({name: None})
        carried.imports.append("from collections import namedtuple")
        classes.append(f"{name} = {made}")
    return f"{name}({', '.join(texts)})"


def _signature(program: Program) -> tuple[str, str]:
    """The parameters of the function, and the pair of arguments that they are."""
    args, kwargs = pytrees.unflatten(program.arguments, range(len(program.inputs)))
    words = list(dict.fromkeys([re.split(r"[\[.]", name)[0] for name in program.names]))
    whole = len(words) == len(args) and all(word.isidentifier() for word in words)
    if kwargs or not whole or not all(pytrees.leaves(arg) for arg in args):
        return "*args, **kwargs", "args, kwargs"
    return ", ".join(words), f"{tuple_text(words)}, {{}}"


def _sorted_imports(lines: Sequence[str]) -> list[str]:
    """Imports without repetition, one line a module."""
    plain = {line for line in lines if line.startswith("import")}
    by_module: dict[str, set[str]] = {}
    for line in lines:
        if line.startswith("from"):
            _, module, _, words = line.split(" ", 3)
            by_module.setdefault(module, set()).update(words.split(", "))
    return [
        *sorted(plain),
        *[f"from {name} import {', '.join(sorted(by_module[name]))}" for name in sorted(by_module)],
    ]


def _title(program: Program, name: str, text: str, results: Sequence[str]) -> str:
    """The docstring of the module."""
    try:
        fingerprint = f"Its fingerprint is {program.fingerprint()}."
    except ProgramError:
        fingerprint = "It has no fingerprint."
    scipy = " and SciPy" if "scipy" in text else ""
    takes = [f"    {n}: {spec}" for n, spec in zip(program.names, program.inputs, strict=True)]
    gives = [f"    {n}: {spec}" for n, spec in zip(results, program.output_specs, strict=True)]
    version = vars(sys.modules["funcgrad"]).get("__version__", "")
    lines = [
        f"The function {name}, of arrays of NumPy.\n",
        f"Written by funcgrad {version} with NumPy {np.__version__} from the program"
        f" {program.name}; needs NumPy{scipy}.",
        f"{fingerprint} Run this file to test it.",
        "",
        "Arguments:",
        *(takes or ["    none"]),
        "Results:",
        *(gives or ["    none"]),
        "",
    ]
    return "\n".join(lines).replace('"""', "'''")
