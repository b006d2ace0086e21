"""``Program.to_onnx``: a program as a model; each equation is written by its structure.

>>> import pytest
>>> onnx = pytest.importorskip("onnx")
>>> import funcgrad as fg
>>> model = model_of(fg.program(lambda x: {"y": x * x})(np.float32([1.0, 2.0])))
>>> print(onnx.printer.to_text(model.graph))
"<lambda>" (float[2] x) => (float[2] "result['y']") {
   [Mul_0] Mul_0 = Mul (x, x)
   ["result['y']"] "result['y']" = Identity (Mul_0)
}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.moved_boxes import moved
from funcgrad._backends.array_code.ufunc_algebra import Element, random_words
from funcgrad._backends.control_forms import written_out
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    EFFECT,
    Choice,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Loop,
    Movement,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._core.trace import NUMBERS, concrete
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.algebra import body_of
from funcgrad._programs.equation import Equation
from funcgrad._programs.extract import fetched
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program
from funcgrad.errors import ArgumentError, DtypeError, ProgramError
from funcgrad.interop.onnx.element_algebra import ElementAlgebra
from funcgrad.interop.onnx.fold_writer import multiplied, reduced, scanned
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol, UnwritableError
from funcgrad.interop.onnx.library import element_type, onnx_library
from funcgrad.interop.onnx.loop_writer import chosen, looped
from funcgrad.interop.onnx.operator_writer import OPERATORS
from funcgrad.interop.onnx.place_writer import gathered, scattered
from funcgrad.interop.onnx.replacements import REPLACEMENTS, from_factors
from funcgrad.numpy.options import integer, mapping
from funcgrad.tensor.tensor import wrap

OLDEST: Final = 18
"""The first opset with bitwise operations and scatters of extrema."""

USUAL: Final = 20
"""The default opset."""


def model_of(
    program: Program,
    path: str | os.PathLike[str] | None = None,
    *,
    opset: int = USUAL,
    initializers: Mapping[str, Any] | None = None,
) -> Any:
    """Write a program as a model; see ``Program.to_onnx``."""
    onnx = onnx_library("to_onnx")
    program = fetched(program)
    _check(program, opset, onnx.defs.onnx_opset_version())
    stored = _stored(program, mapping(initializers or {}, "to_onnx", "initializers"))
    writer = GraphWriter(program.name, opset)
    inputs = [
        writer.initializer(name, stored[name]) if name in stored else writer.input(name, spec)
        for name, spec in zip(program.names, program.inputs, strict=True)
    ]
    inputs = [Symbol(x.name, spec) for x, spec in zip(inputs, program.inputs, strict=True)]
    writer.shared.names |= {*_result_names(program)}
    outs = _write_program(writer, program, inputs)
    graph = writer.graph(
        outs,
        _result_names(program),
        constants=writer.shared.constants,
        initializer=writer.shared.initializers,
    )
    model = onnx.helper.make_model(
        graph,
        producer_name="funcgrad",
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]),
        doc_string=f"The program {program.name}, staged by funcgrad.",
    )
    onnx.helper.set_model_props(model, {"funcgrad.fingerprint": _fingerprint(program)})
    if path is not None:
        large = sum([array.nbytes for array in stored.values()]) > _MOST_BYTES
        onnx.save_model(model, os.fspath(path), save_as_external_data=large)
    return model


_MOST_BYTES: Final = 2**30
"""A file holds 2 GiB; larger arrays are stored beside it."""


def _fingerprint(program: Program) -> str:
    try:
        return program.fingerprint()
    except ProgramError:  # its operations cannot be named in a file
        return ""


def _check(program: Program, opset: int, newest: int) -> None:
    opset = integer(opset, "to_onnx", "opset")
    if not OLDEST <= opset <= newest:
        raise ArgumentError(
            f"to_onnx: opset must be from {OLDEST} to {newest}, which the installed onnx knows,"
            f" not {opset}."
        )
    if not program.is_raw:
        raise ProgramError(
            f"to_onnx: program {program.name} reads values of a transformation that runs around"
            " it. Stage the function outside of that transformation, or pass the values as"
            " arguments."
        )
    if program.guards:
        guard = program.guards[0]
        at = f" at {guard.source}" if guard.source else ""
        raise ProgramError(
            f"to_onnx: program {program.name} holds only where {guard.use} of a value"
            f"{at} is {guard.value!r}, and a graph cannot check that. Choose with fnp.where or"
            " fg.cond, which are exported."
        )


def _result_names(program: Program) -> list[str]:
    return [f"result{path}" for path in program.result.paths()]


def _stored(program: Program, initializers: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of inputs that become initializers, by the names of the inputs."""
    specs = dict(zip(program.names, program.inputs, strict=True))
    stored: dict[str, np.ndarray[Any, Any]] = {}
    for argument, tree in initializers.items():
        for path, leaf in pytrees.leaves_with_path(tree):
            name = argument + "".join(path)
            if name not in specs:
                raise ArgumentError(
                    f"to_onnx: initializers have a value for {name}, which is not an input of"
                    f" program {program.name}. Its inputs are {', '.join(specs) or 'none'}."
                )
            array = np.asarray(leaf)
            spec = Spec(array.shape, array.dtype)
            if (spec.shape, spec.dtype) != (specs[name].shape, specs[name].dtype):
                raise ArgumentError(
                    f"to_onnx: the initializer {name} is {spec}, and the program was staged with"
                    f" {specs[name]}. Pass the arrays that it was staged with."
                )
            stored[name] = array
    return stored


_SMALL: Final = 16
"""Constants of at most this many elements are nodes; larger constants are initializers."""


def _write_program(
    writer: GraphWriter, program: Program, operands: Sequence[Symbol]
) -> list[Symbol]:
    """Write the equations of a program; return its outputs, in the dtypes of the program."""
    program = _prepared(program)
    known: list[Any] = [*operands, *[_constant(writer, c.value) for c in program.constants]]
    for equation in program.equations:
        with writer.at_line(equation.source):
            known += _results(writer, equation, [known[k] for k in equation.operands], program.name)
    specs = program.specs()
    return [_symbol(writer, known[k], specs[k]) for k in program.outputs]


def _prepared(program: Program) -> Program:
    """The program with calls inlined, and its loops in forms that ONNX has."""
    return written_out(inlined(optimize(inlined(program))), python_slices=True)


def _constant(writer: GraphWriter, value: Any) -> Any:
    """A constant; Python scalars stay as they are, for formulas."""
    if type(value) in NUMBERS:
        return value
    array = np.asarray(value)
    if array.size <= _SMALL:
        return writer.constant(array)
    return writer.initializer(writer.shared.fresh("array"), array)


def _symbol(writer: GraphWriter, value: Any, spec: Spec) -> Symbol:
    if isinstance(value, Symbol):
        return writer.cast_to(value, spec.dtype)
    return writer.constant(value, spec.dtype)


def _results(
    writer: GraphWriter, equation: Equation, operands: Sequence[Any], place: str
) -> list[Any]:
    try:
        outs = _written(writer, equation, operands)
    except (UnwritableError, DtypeError) as error:
        if getattr(error, "placed", False):
            raise
        raise _refused(equation, place, error) from error
    return [
        Symbol(out.name, spec) if isinstance(out, Symbol) else out
        for out, spec in zip(outs, equation.results, strict=True)
    ]


def _refused(equation: Equation, place: str, error: Exception) -> UnwritableError:
    at = f" at {equation.source}" if equation.source else ""
    reason = str(error).removesuffix(".")
    refused = UnwritableError(
        f"to_onnx: program {place}, {equation.name}{at}: {reason}. Compute it before or after the"
        " program that is exported, or write it in operations that ONNX has."
    )
    refused.placed = True
    return refused


def _written(writer: GraphWriter, equation: Equation, operands: Sequence[Any]) -> Sequence[Any]:
    operation, params = equation.operation, dict(equation.params)
    structure, spec = operation.structure, next(iter(equation.results), Spec((), np.dtype(float)))
    for result in equation.results:
        element_type(result.dtype)  # complex numbers are refused
    if EFFECT in operation.traits:
        return operands[:1]
    has_formula = isinstance(structure, Elementwise) and structure.formula is not None
    if has_formula and operation not in OPERATORS:
        return [_elements(writer, equation, operands)]
    symbols = [x if isinstance(x, Symbol) else writer.constant(x) for x in operands]
    if operation in OPERATORS:
        try:
            return [OPERATORS[operation](writer, spec, *symbols, **params)]
        except UnwritableError:
            if has_formula:
                return [_elements(writer, equation, operands)]
    if isinstance(structure, Control):
        return _controlled(writer, equation, symbols)
    out = _by_structure(writer, structure, params, symbols, spec)
    return [out] if out is not None else _in_others(writer, equation, symbols)


def _elements(writer: GraphWriter, equation: Equation, operands: Sequence[Any]) -> Symbol:
    structure, spec = equation.operation.structure, equation.results[0]
    assert isinstance(structure, Elementwise)
    assert structure.formula is not None
    m = ElementAlgebra(writer)
    numbers = [m.element(x, x.spec.weak) if isinstance(x, Symbol) else x for x in operands]
    with np.errstate(all="ignore"):
        out = structure.formula(m, *numbers, **dict(equation.params))
    symbol = out.array if isinstance(out, Element) else writer.constant(out, spec.dtype)
    return writer.expanded(writer.cast_to(symbol, spec.dtype), spec.shape)


def _by_structure(
    writer: GraphWriter, structure: Any, params: dict[str, Any], operands: list[Symbol], spec: Spec
) -> Symbol | None:
    """The result, if the structure determines it, else None."""
    shapes = [x.shape for x in operands]
    match structure:
        case Movement():
            pieces = structure.pieces(spec.shape, *shapes, **params)
            return None if pieces is None else moved(writer, operands, pieces, spec, structure.adds)
        case Contraction():
            letters = structure.letters(*[x.spec for x in operands], **params)
            return multiplied(writer, operands, letters, spec)
        case Reduction() if structure.fold is not None:
            keepdims = params.get("keepdims", False)
            return reduced(writer, structure.fold, operands[0], spec, params["axis"], keepdims)
        case Scan():
            reverse = params.get("reverse", False)
            return scanned(writer, structure.fold, operands, spec, params["axis"], reverse)
        case Gather():
            return gathered(writer, structure.places(*shapes, **params), operands, spec)
        case Scatter():
            base = operands[0] if structure.updates else None
            updates = operands[structure.updates]
            places = structure.places(*shapes, **params)
            return scattered(writer, places, structure.fold, base, updates, operands, spec)
        case Random() if structure.block is not None:
            m = ElementAlgebra(writer)
            return random_words(m, structure.block, params, operands, spec, writer.joined)
    return None


def _in_others(writer: GraphWriter, equation: Equation, operands: Sequence[Symbol]) -> list[Symbol]:
    """Write the operation in other operations: by its body, or by a replacement."""
    operation, params = equation.operation, dict(equation.params)
    body = REPLACEMENTS.get(operation) or body_of(operation)
    if isinstance(operation.structure, Factored):
        body, params = partial(from_factors, operation.structure.factorization(**params)), {}
    if body is None:
        raise UnwritableError("ONNX has no such operator, nor others to write it in")
    for x in operands:
        if x.dtype.kind == "c":
            raise UnwritableError("ONNX's operators do not take complex numbers")

    def written(values: Sequence[Any]) -> Sequence[Any]:
        out = body(*map(wrap, values), **params)
        if out is NotImplemented:
            raise UnwritableError("ONNX has no such operator for these dtypes")
        return list(map(concrete, out)) if isinstance(out, tuple) else [concrete(out)]

    staged = flat_program(operation.name, written, [x.spec for x in operands])
    outs = _write_program(writer, staged, operands)
    return [
        writer.cast_to(out, spec.dtype) for out, spec in zip(outs, equation.results, strict=True)
    ]


def _controlled(
    writer: GraphWriter, equation: Equation, operands: Sequence[Symbol]
) -> list[Symbol]:
    structure = equation.operation.structure
    assert isinstance(structure, Control)
    form = None if structure.form is None else structure.form(**dict(equation.params))
    if isinstance(form, Choice):
        return chosen(writer, form, operands, equation.results, _write_program)
    if isinstance(form, Loop):
        return looped(writer, form, operands, equation.results, _write_program)
    raise UnwritableError("it runs a function of Python's, which a graph cannot hold")
