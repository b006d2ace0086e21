"""Write a program as a Python file that needs only NumPy.

The text of the function comes from the NumPy backend; this adds copies of funcgrad's functions that
it calls, checks of arguments, and a self-test.

>>> import pathlib, tempfile
>>> import funcgrad as fg
>>> path = pathlib.Path(tempfile.mkdtemp(), "squares.py")
>>> fg.program(lambda x: x * x + 1.0)(3.0).to_module(path)
>>> module = {"__name__": "squares"}
>>> exec(path.read_text(), module)
>>> module["f"](4.0)
17.0
>>> module["self_test"]()
result: the same to the last bit
The self-test passed.
0
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Control
from funcgrad._forms.carried import Carried, NotCarriedError
from funcgrad._forms.module_frame import CHECKS, NAMES, SELF_TEST, STORED
from funcgrad._forms.source_text import Source, plain_text, tuple_text
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

COMPARED: Final = 1000
"""The most elements of a result that the self-test compares: evenly spaced ones."""

_IMPORTS: Final = (
    "from base64 import b64decode as _b64decode",
    "from collections import namedtuple as _namedtuple",
)
_CONSTANT: Final = re.compile(r"constants\[(\d+)\]")
_PYTHON: Final = MappingProxyType({"b": "bool", "i": "int", "f": "float", "c": "complex"})


def module_text(
    program: Program,
    ready: Program,
    source: Source,
    run: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Write a program as the text of a module; see ``Program.to_module``.

    Parameters
    ----------
    program : Program
    ready : Program
        The program in the form that NumPy runs best.
    source : Source
        The text of that form.
    run : callable
        The compiled text: ``(*raw inputs) -> raw outputs``.
    args, kwargs : pytrees
        Arguments for the self-test; without any, fractions are taken.

    Raises
    ------
    ProgramError
        No text holds an operation, or the program cannot be run on the arguments.
    """
    for equation in _equations(program):
        if equation.operation.is_foreign:
            raise _refused(equation, "it calls a Python function that may use anything")
    carried, head = _head(program, ready, source)
    module: dict[str, Any] = {"__name__": "builtins"}  # dataclasses look for a module that is there
    exec(head + SELF_TEST, module)
    if args or kwargs:
        values = module["_inputs"](tuple(args), dict(kwargs))
        example = f"[{', '.join([_value_text(value, carried) for value in values])}]"
    else:
        values = [module["_fractions"](k, *_spec(spec)) for k, spec in enumerate(program.inputs)]
        example = "[_fractions(k, shape, dtype) for k, (_, shape, dtype) in enumerate(INPUTS)]"
    try:
        with np.errstate(all="ignore"):
            outs = run(*values)
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
        stored.append(f"        ({step}, {carried.expression(array[::step])}),\n")
    data = (
        f'\n\ndef example():\n    """The arguments of the self-test."""\n    return {example}\n\n\n'
        'def expected_results():\n    """For each result a step and every so many-th element."""\n'
        f"    return [\n{''.join(stored)}    ]\n"
    )
    return head + data + SELF_TEST


def _value_text(value: Any, carried: Carried) -> str:
    return carried.expression(value) if isinstance(value, np.ndarray) else repr(value)


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


def _head(program: Program, ready: Program, source: Source) -> tuple[Carried, str]:
    """Everything except the example and the definitions of its arrays."""
    carried, constants = _carried(ready, source)
    name = f"{source.name}_" if source.name in NAMES else source.name
    computed = carried.fresh(f"{name}_of_leaves")
    function = source.function.replace(f"def {source.name}(", f"def {computed}(", 1)
    classes: dict[str, str] = {}
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
    imports = dict.fromkeys([*_IMPORTS, *plain, *carried.imports])
    once = _CONSTANT.sub(lambda match: constants[int(match[1])], source.globals)
    call, packed = _signature(program)
    head = "\n".join(
        [
            f'r"""{_title(program, name, carried, names)}"""\n',
            *imports,
            f"\n\n{function}\n\n",
            "# ------------------------------------------------------- definitions that it uses\n",
            STORED,
            *carried.definitions,
            f"{once}\n",
            *classes.values(),
            "# Trees with the number of each leaf instead of the leaf.",
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
    return carried, head


def _carried(ready: Program, source: Source) -> tuple[Carried, list[str]]:
    """Definitions from funcgrad that the text uses, and expressions of its constants."""
    ours: dict[str, Any] = {}
    names: dict[str, Any] = dict.fromkeys((*NAMES, source.name)) | {"np": np}
    for node in ast.parse(f"{source.imports}\n{source.globals}").body:
        if isinstance(node, ast.ImportFrom):
            module = sys.modules[str(node.module)]
            words = {word.asname or word.name: getattr(module, word.name) for word in node.names}
            if str(node.module).startswith("funcgrad"):
                ours |= words
            else:
                names |= words
        elif isinstance(node, ast.Assign):
            names |= {target.id: None for target in node.targets if isinstance(target, ast.Name)}
    carried = Carried(names | dict.fromkeys(ours))
    word = ""
    try:
        for word, value in ours.items():
            carried.define(word, value)
        constants = []
        for constant in source.constants:
            word = str(getattr(constant, "name", type(constant).__name__))
            constants.append(carried.expression(constant))
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


def _tree_text(tree: Any, carried: Carried, classes: dict[str, str]) -> str:
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
    made = f"_record({type(tree).__name__!r}, {' '.join(fields)!r})"
    if made not in classes:
        classes[made] = f"{carried.fresh(type(tree).__name__)} = {made}"
    return f"{classes[made].partition(' ')[0]}({', '.join(texts)})"


def _signature(program: Program) -> tuple[str, str]:
    """The parameters of the function, and the pair of arguments that they are."""
    args, kwargs = pytrees.unflatten(program.arguments, range(len(program.inputs)))
    words = list(dict.fromkeys([re.split(r"[\[.]", name)[0] for name in program.names]))
    whole = len(words) == len(args) and all(word.isidentifier() for word in words)
    if kwargs or not whole or not all(pytrees.leaves(arg) for arg in args):
        return "*args, **kwargs", "args, kwargs"
    return ", ".join(words), f"{tuple_text(words)}, {{}}"


def _title(program: Program, name: str, carried: Carried, results: Sequence[str]) -> str:
    """The docstring of the module."""
    try:
        fingerprint = f"Its fingerprint is {program.fingerprint()}."
    except ProgramError:
        fingerprint = "It has no fingerprint."
    scipy = " and SciPy" if "scipy" in "".join(carried.definitions) else ""
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
