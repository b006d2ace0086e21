"""``interop.onnx.load``: an ONNX model as a function, with its arrays as parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import DTYPES
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError, MissingFileError
from funcgrad.interop.onnx.element_reader import ELEMENTS
from funcgrad.interop.onnx.library import OperatorNode, Read, UnreadableError, Value, onnx_library
from funcgrad.interop.onnx.loop_reader import LOOPS
from funcgrad.interop.onnx.reduction_reader import REDUCTIONS
from funcgrad.interop.onnx.shape_reader import SHAPES
from funcgrad.interop.onnx.window_reader import WINDOWS
from funcgrad.tensor.tensor import Tensor, tensor, wrap

OPERATORS: Final[Mapping[str, Read]] = MappingProxyType(
    {**ELEMENTS, **LOOPS, **REDUCTIONS, **SHAPES, **WINDOWS}
)
"""The supported operators of the standard ONNX domain."""

_STANDARD: Final = ("", "ai.onnx")
"""The names of the standard ONNX domain."""

_NUMBERS: Final = MappingProxyType({"Dropout": (1,), "Range": (0, 1, 2), "Resize": (1, 2)})
"""Positions of floating inputs that determine shapes: initializers there stay constants."""


def load(
    model: str | os.PathLike[str] | bytes | Any,
) -> tuple[Callable[..., Any], dict[str, Tensor]]:
    """Load an ONNX model as a function that can be differentiated, jitted and batched.

    Parameters
    ----------
    model : path-like, bytes or onnx.ModelProto
        A file, its contents, or a model in memory.

    Returns
    -------
    f : callable
        ``f(params, *inputs)`` runs the graph. The inputs are in the order of the graph, without
        inputs that have an initializer. The result is a tensor, or a tuple of tensors if the graph
        has several outputs.
    params : dict
        The floating initializers by their names, such as trained weights. Initializers that
        determine shapes, or have other dtypes, are constants of ``f``.

    Raises
    ------
    MissingPackageError
        The package ``onnx`` is not installed.
    MissingFileError
        The file does not exist.
    ProgramError
        The graph has unsupported operators or dtypes. When ``f`` is called: an operator has
        unsupported attributes, or a shape depends on values that are not known while ``f`` is
        staged.
    ArgumentError
        ``model`` is not a model.

    Notes
    -----
    Operators follow ONNX's reference for their version, from version 13 on. Operators that it
    defines in terms of others are expanded. Dropout passes its input on. Derivatives at kinks
    follow ``funcgrad.numpy`` and ``funcgrad.nn``.

    Examples
    --------
    >>> import pytest
    >>> onnx = pytest.importorskip("onnx")
    >>> import funcgrad as fg
    >>> staged = fg.program(lambda params, x: params["w"] * x)({"w": 2.0}, 3.0)
    >>> f, params = load(staged.to_onnx(initializers={"params": {"w": 2.0}}))
    >>> params, f(params, 3.0), fg.grad(f)(params, 3.0)
    ({"params['w']": Tensor(2.)}, Tensor(6.), {"params['w']": Tensor(3.)})
    """
    onnx = onnx_library("interop.onnx.load")
    graph_model = _model(onnx, model)
    versions = {entry.domain: entry.version for entry in graph_model.opset_import}
    functions = {(entry.domain, entry.name): entry for entry in graph_model.functions}
    reader = _Reader(onnx, versions, functions)
    graph = graph_model.graph
    arrays = {entry.name: reader.array(entry) for entry in graph.initializer}
    if len(graph.sparse_initializer):
        raise UnreadableError("interop.onnx.load: sparse initializers are not read.")
    fixed = _deciding(graph)
    params = {
        name: tensor(array)
        for name, array in arrays.items()
        if array.dtype.kind == "f" and name not in fixed
    }
    constants = {name: array for name, array in arrays.items() if name not in params}
    names = [entry.name for entry in graph.input if entry.name not in arrays]
    reader.check(graph)
    starts = tuple(params)

    def f(params: Mapping[str, Any], *inputs: Any) -> Any:
        if len(inputs) != len(names):
            raise ArgumentError(
                f"the ONNX model {graph.name} takes {len(names)} inputs, {', '.join(names)},"
                f" behind the parameters, not {len(inputs)}."
            )
        values: dict[str, Value] = {**constants, **_checked(graph.name, params, starts)}
        values.update(zip(names, [_handed(x) for x in inputs], strict=True))
        outs = [wrap(concrete(x)) for x in reader.run(graph, values)]
        return outs[0] if len(outs) == 1 else tuple(outs)

    f.__name__ = f.__qualname__ = graph.name or "model"
    f.__doc__ = graph_model.doc_string or f"Run the ONNX model {graph.name}."
    return f, params


def _checked(graph: str, params: Any, names: Sequence[str]) -> Mapping[str, Value]:
    """Check that no parameter is missing."""
    if not isinstance(params, Mapping):
        raise ArgumentError(
            f"the ONNX model {graph}: params is not a mapping from names to arrays but a"
            f" {type(params).__name__}. Pass what interop.onnx.load returned beside the function."
        )
    missing = sorted([name for name in names if name not in params])
    if missing:
        raise ArgumentError(
            f"the ONNX model {graph}: params has no value for the parameters {', '.join(missing)}."
            " Pass what interop.onnx.load returned, with changed values."
        )
    return {name: _handed(params[name]) for name in names}


def _handed(x: Any) -> Value:
    return x if x is None or isinstance(x, Tensor) else tensor(x)


def _model(onnx: Any, model: Any) -> Any:
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, bytes):
        try:
            return onnx.load_model_from_string(model)
        except Exception as error:  # protobuf's own class, which moves between versions
            raise ArgumentError(
                f"interop.onnx.load: the bytes are not an ONNX model: {error}"
            ) from error
    if not isinstance(model, str | os.PathLike):
        raise ArgumentError(
            "interop.onnx.load: expected a path, the bytes of a file or an onnx.ModelProto, got"
            f" {type(model).__name__}."
        )
    path = os.fspath(model)
    if not os.path.isfile(path):
        raise MissingFileError(f"interop.onnx.load: the file {path} does not exist.")
    try:
        return onnx.load_model(path)
    except Exception as error:  # protobuf's own class, which moves between versions
        raise ArgumentError(f"interop.onnx.load: {path} is not an ONNX model: {error}") from error


def _deciding(graph: Any) -> set[str]:
    """The names of values that determine shapes."""
    return {
        node.input[k]
        for node in graph.node
        for k in _NUMBERS.get(node.op_type, ())
        if k < len(node.input)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Runs graphs, node by node.

    Attributes
    ----------
    onnx : module
    versions : mapping
        The operator versions by domain.
    functions : mapping
        The functions of the model, by domain and name.
    """

    onnx: Any
    versions: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]

    def array(self, proto: Any) -> np.ndarray[Any, Any]:
        """The array of an ONNX tensor."""
        dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
        if dtype not in DTYPES:
            name = self.onnx.TensorProto.DataType.Name(proto.data_type)
            raise UnreadableError(
                f"interop.onnx.load: the array {proto.name or 'of a constant'} has the dtype"
                f" {name}, which tensors do not have. Convert it before."
            )
        return self.onnx.numpy_helper.to_array(proto)

    def version(self, domain: str) -> int:
        """The operator version of a domain."""
        return self.versions.get(domain, self.versions.get("ai.onnx", 1))

    def check(self, graph: Any) -> None:
        """Refuse a graph with unsupported operators, and name all of them."""
        missing = sorted(set(self._missing(graph.node)))
        if missing:
            raise UnreadableError(
                f"interop.onnx.load: the graph {graph.name} has operators that are not supported:"
                f" {', '.join(missing)}. Replace them in the model, or split it around them."
            )
        for entry in (*graph.input, *graph.output):
            if entry.type.WhichOneof("value") not in ("tensor_type", None):
                raise UnreadableError(
                    f"interop.onnx.load: {entry.name} of the graph {graph.name} is a sequence or an"
                    " optional value; only arrays are supported."
                )

    def _missing(self, nodes: Any) -> Iterator[str]:
        for node in nodes:
            for attribute in node.attribute:
                if attribute.type == self.onnx.AttributeProto.GRAPH:
                    yield from self._missing(attribute.g.node)
            local = self.functions.get((node.domain, node.op_type))
            if local is not None:
                yield from self._missing(local.node)
            elif node.domain not in _STANDARD:
                yield f"{node.domain}.{node.op_type}"
            elif node.op_type not in OPERATORS:
                yield from self._missing_of_standard(node)

    def _missing_of_standard(self, node: Any) -> Iterator[str]:
        """Name the unsupported operators in the standard's definition of an operator."""
        try:
            schema = self.onnx.defs.get_schema(node.op_type, self.version(""))
        except Exception:  # unknown operator
            schema = None
        if schema is not None and schema.has_function:
            yield from self._missing(schema.function_body.node)
        elif schema is None or not schema.has_context_dependent_function:
            yield node.op_type

    def run(self, graph: Any, values: dict[str, Value]) -> list[Value]:
        """Run a graph; ``values`` has its inputs, its initializers, and outer values."""
        for node in graph.node:
            self.step(node, values)
        return [values[entry.name] for entry in graph.output]

    def step(self, proto: Any, values: dict[str, Value]) -> None:
        """Run a node, and add its results to the values."""
        inputs = [values[name] if name else None for name in proto.input]
        outs = self.results(proto, inputs, values)
        for name, out in zip(proto.output, outs, strict=False):
            if name:
                values[name] = out

    def results(self, proto: Any, inputs: list[Value], values: dict[str, Value]) -> Sequence[Value]:
        """The results of a node."""
        local = self.functions.get((proto.domain, proto.op_type))
        attributes = {entry.name: self._attribute(entry) for entry in proto.attribute}
        if local is not None:
            return self._called(local, attributes, inputs)
        read = None if proto.domain not in _STANDARD else OPERATORS.get(proto.op_type)
        if read is None:
            return self._expanded(proto, attributes, inputs)
        node = OperatorNode(
            proto.op_type,
            attributes,
            self.version(""),
            tuple(proto.output),
            lambda graph, operands: self._inside(graph, operands, values),
        )
        out = read(node, *inputs)
        return out if isinstance(out, tuple | list) else (out,)

    def _inside(self, graph: Any, inputs: list[Value], values: dict[str, Value]) -> list[Value]:
        initial = {entry.name: self.array(entry) for entry in graph.initializer}
        names = [entry.name for entry in graph.input]
        return self.run(graph, {**values, **initial, **dict(zip(names, inputs, strict=False))})

    def _attribute(self, proto: Any) -> Any:
        if proto.type == self.onnx.AttributeProto.GRAPH:
            return proto.g
        if proto.type == self.onnx.AttributeProto.TENSOR:
            return self.array(proto.t)
        value = self.onnx.helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode()
        if proto.type == self.onnx.AttributeProto.STRINGS:
            return [text.decode() for text in value]
        return list(value) if proto.type >= self.onnx.AttributeProto.FLOATS else value

    # ------------------------------------------------------------------ functions of ONNX's

    def _called(
        self, function: Any, attributes: Mapping[str, Any], inputs: list[Value]
    ) -> list[Value]:
        """Run a function of the model: its nodes, with the attributes of the call."""
        values: dict[str, Value] = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        usual = {entry.name: self._attribute(entry) for entry in function.attribute_proto}
        chosen = {**usual, **attributes}
        versions = {entry.domain: entry.version for entry in function.opset_import}
        inside = _Reader(self.onnx, {**self.versions, **versions}, self.functions)
        for proto in function.node:
            inside.step(self._filled(proto, chosen), values)
        return [values.get(name) for name in function.output]  # some outputs are optional

    def _filled(self, proto: Any, attributes: Mapping[str, Any]) -> Any:
        if not any(entry.ref_attr_name for entry in proto.attribute):
            return proto
        filled = type(proto)()
        filled.CopyFrom(proto)
        del filled.attribute[:]
        for entry in proto.attribute:
            if not entry.ref_attr_name:
                filled.attribute.append(entry)
            elif entry.ref_attr_name in attributes:
                value = attributes[entry.ref_attr_name]
                if isinstance(value, np.ndarray):
                    value = self.onnx.numpy_helper.from_array(value)
                filled.attribute.append(self.onnx.helper.make_attribute(entry.name, value))
        return filled

    def _expanded(
        self, proto: Any, attributes: Mapping[str, Any], inputs: list[Value]
    ) -> list[Value]:
        """Run the function by which the ONNX standard defines an operator."""
        schema = self.onnx.defs.get_schema(proto.op_type, self.version(""))
        usual = {
            name: self._attribute(entry.default_value)
            for name, entry in schema.attributes.items()
            if entry.default_value.type
        }
        if schema.has_function:
            return self._called(schema.function_body, {**usual, **attributes}, inputs)
        body = schema.get_context_dependent_function(
            proto.SerializeToString(), [self._type(x) for x in inputs]
        )
        function = self.onnx.FunctionProto()
        function.ParseFromString(body)
        missing = sorted(set(self._missing(function.node)))
        if missing or not function.node:
            raise UnreadableError(
                f"{proto.op_type}: it is defined by operators that are not supported:"
                f" {', '.join(missing) or proto.op_type}. Replace it in the model."
            )
        return self._called(function, {**usual, **attributes}, inputs)

    def _type(self, x: Value) -> bytes:
        helper = self.onnx.helper
        if x is None:
            return bytes(self.onnx.TypeProto().SerializeToString())
        array = x if isinstance(x, np.ndarray) else wrap(concrete(x))
        code = helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))
        kind = helper.make_tensor_type_proto(code, list(array.shape))
        return bytes(kind.SerializeToString())
