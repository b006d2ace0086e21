"""``Program.to_onnx``: a program as a model of ONNX's.

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
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._programs.program import Program
from funcgrad.errors import ArgumentError, ProgramError
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol
from funcgrad.interop.onnx.library import onnx_library
from funcgrad.interop.onnx.program_writer import write_program
from funcgrad.numpy.options import integer, mapping

OLDEST: Final = 18
"""The first version of the operators with bitwise operations and scatters of extrema."""

USUAL: Final = 20
"""The version that is written where none is asked for."""


def model_of(
    program: Program,
    path: str | os.PathLike[str] | None = None,
    *,
    opset: int = USUAL,
    initializers: Mapping[str, Any] | None = None,
) -> Any:
    """Write a program as a model; see ``Program.to_onnx``."""
    onnx = onnx_library("to_onnx")
    _check(program, opset, onnx.defs.onnx_opset_version())
    stored = _stored(program, mapping(initializers or {}, "to_onnx", "initializers"))
    writer = GraphWriter(program.name, opset)
    inputs = [
        writer.initializer(name, stored[name]) if name in stored else writer.input(name, spec)
        for name, spec in zip(program.names, program.inputs, strict=True)
    ]
    inputs = [Symbol(x.name, spec) for x, spec in zip(inputs, program.inputs, strict=True)]
    writer.shared.names |= {*_result_names(program)}
    outs = write_program(writer, program, inputs)
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
"""A file holds 2 GiB; arrays of more are stored beside it."""


def _fingerprint(program: Program) -> str:
    try:
        return program.fingerprint()
    except ProgramError:  # it has operations that a file cannot name
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
    """The arrays for inputs that become initializers, by the inputs' names."""
    specs = dict(zip(program.names, program.inputs, strict=True))
    stored: dict[str, np.ndarray[Any, Any]] = {}
    for argument, tree in initializers.items():
        for path, leaf in pytrees.leaves_with_path(tree):
            name = argument + "".join(path)
            if name not in specs:
                raise ArgumentError(
                    f"to_onnx: initializers have a value for {name}, which is no input of program"
                    f" {program.name}. Its inputs are {', '.join(specs) or 'none'}."
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
