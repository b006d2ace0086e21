"""Write nodes of an ONNX graph: values with shapes, constants, and graphs within graphs.

>>> import pytest
>>> _ = pytest.importorskip("onnx")
>>> writer = GraphWriter("f", 20)
>>> x = writer.input("x", Spec((2,), np.dtype(np.float32)))
>>> y = writer.node("Neg", [x], x.spec)
>>> y, [node.op_type for node in writer.nodes]
(Symbol(name='Neg_0', spec=Spec(shape=(2,), dtype=dtype('float32'), weak=False)), ['Neg'])
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad.errors import ProgramError
from funcgrad.interop.onnx.library import element_type, onnx_library

_INT64: Final = np.dtype(np.int64)


class UnwritableError(ProgramError):
    """ONNX has no operators for an operation, or for its dtypes or parameters.

    Attributes
    ----------
    placed : bool
        Whether the message names the operation and the user's line.
    """

    placed = False


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A value of a graph.

    Attributes
    ----------
    name : str
    spec : Spec
    """

    name: str
    spec: Spec

    @property
    def shape(self) -> Shape:
        """The shape."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.spec.dtype


class _Shared:
    """State that a graph and its subgraphs share: names, constants, the current line.

    Attributes
    ----------
    constants : list
        Nodes of constants, in front of all other nodes of the outermost graph.
    initializers : list
        Arrays that are stored beside the nodes.
    source : str
        The user's line of the current operation.
    """

    def __init__(self, opset: int) -> None:
        self.onnx = onnx_library("to_onnx")
        self.opset = opset
        self.constants: list[Any] = []
        self.initializers: list[Any] = []
        self.source = ""
        self.known: dict[tuple[Any, ...], Symbol] = {}
        self.numbers: dict[str, Iterator[int]] = {}
        self.names: set[str] = set()

    def fresh(self, stem: str) -> str:
        """A new name."""
        numbers = self.numbers.setdefault(stem, itertools.count())
        while (name := f"{stem}_{next(numbers)}") in self.names:
            pass
        self.names.add(name)
        return name


class GraphWriter:
    """A graph that is being written.

    Parameters
    ----------
    name : str
    opset : int
    shared : optional
        The state of the outer graph, whose values this graph may read.
    """

    spreads = False

    def __init__(self, name: str, opset: int, shared: _Shared | None = None) -> None:
        self.name = name
        self.shared = _Shared(opset) if shared is None else shared
        self.onnx = self.shared.onnx
        self.nodes: list[Any] = []
        self.inputs: list[Symbol] = []

    @property
    def opset(self) -> int:
        """The version of the operators."""
        return self.shared.opset

    def inside(self, name: str) -> GraphWriter:
        """Begin a graph within this one, such as the body of a loop."""
        return GraphWriter(self.shared.fresh(name), self.opset, self.shared)

    @contextmanager
    def at_line(self, source: str) -> Iterator[None]:
        """Write nodes for a line of the user's code."""
        before, self.shared.source = self.shared.source, source or self.shared.source
        yield
        self.shared.source = before

    def input(self, name: str, spec: Spec) -> Symbol:
        """Add an input; in subgraphs it gets a numbered name if the name is taken."""
        unique = name if name and name not in self.shared.names else self.shared.fresh(name or "x")
        self.shared.names.add(unique)
        symbol = Symbol(unique, spec)
        self.inputs.append(symbol)
        return symbol

    def node(
        self, operator: str, inputs: Sequence[Symbol | None], spec: Spec, **attributes: Any
    ) -> Symbol:
        """Add a node with one output."""
        return self.nodes_of(operator, inputs, [spec], **attributes)[0]

    def nodes_of(
        self,
        operator: str,
        inputs: Sequence[Symbol | None],
        specs: Sequence[Spec],
        **attributes: Any,
    ) -> list[Symbol]:
        """Add a node with several outputs; an input that is None is left out."""
        for spec in specs:
            element_type(spec.dtype)
        outputs = [Symbol(self.shared.fresh(operator), spec) for spec in specs]
        node = self.onnx.helper.make_node(
            operator,
            ["" if x is None else x.name for x in inputs],
            [out.name for out in outputs],
            name=outputs[0].name if outputs else operator,
            doc_string=self.shared.source or None,
            **attributes,
        )
        self.nodes.append(node)
        return outputs

    def constant(self, value: Any, dtype: np.dtype[Any] | None = None) -> Symbol:
        """A scalar or small array as a constant; equal constants are shared."""
        with np.errstate(all="ignore"):
            array = np.asarray(value, dtype)
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.shared.known:
            symbol = Symbol(self.shared.fresh("constant"), Spec(array.shape, array.dtype))
            tensor = self.onnx.numpy_helper.from_array(
                np.ascontiguousarray(array).reshape(array.shape)
            )
            element_type(array.dtype)
            node = self.onnx.helper.make_node("Constant", [], [symbol.name], value=tensor)
            self.shared.constants.append(node)
            self.shared.known[key] = symbol
        return self.shared.known[key]

    def integers(self, values: Sequence[int]) -> Symbol:
        """A vector of int64, such as a shape or axes."""
        return self.constant(np.array(values, _INT64).reshape(-1))

    def initializer(self, name: str, array: np.ndarray[Any, Any]) -> Symbol:
        """An array stored beside the nodes, under a visible name."""
        element_type(array.dtype)
        if name in self.shared.names:
            name = self.shared.fresh(name)
        self.shared.names.add(name)
        data = np.ascontiguousarray(array).reshape(array.shape)
        self.shared.initializers.append(self.onnx.numpy_helper.from_array(data, name))
        return Symbol(name, Spec(array.shape, array.dtype))

    def graph(self, outputs: Sequence[Symbol], names: Sequence[str] = (), **options: Any) -> Any:
        """The finished graph; outputs get the names, or new names."""
        named = [
            self.output(out, names[k] if names else self.shared.fresh("result"))
            for k, out in enumerate(outputs)
        ]
        return self.onnx.helper.make_graph(
            [*options.pop("constants", ()), *self.nodes],
            self.name,
            [self._info(x) for x in self.inputs],
            [self._info(x) for x in named],
            **options,
        )

    def output(self, value: Symbol, name: str) -> Symbol:
        """A value under a new name: an output must not be an input or another output."""
        named = Symbol(name, value.spec)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value.name], [name], name=name))
        return named

    def _info(self, x: Symbol) -> Any:
        shape = list(x.shape)
        return self.onnx.helper.make_tensor_value_info(x.name, element_type(x.dtype), shape)

    # Operators of one line each: how ``array_code`` speaks about arrays.

    def cast_to(self, x: Symbol, dtype: np.dtype[Any]) -> Symbol:
        """Convert a value to another dtype."""
        if x.dtype == dtype:
            return x
        return self.node("Cast", [x], Spec(x.shape, dtype), to=element_type(dtype))

    def reshaped(self, x: Symbol, shape: Shape) -> Symbol:
        """Give a value another shape, its elements in C order."""
        if x.shape == shape:
            return x
        options = {"allowzero": 1} if 0 in shape else {}
        return self.node("Reshape", [x, self.integers(shape)], Spec(shape, x.dtype), **options)

    def expanded(self, x: Symbol, shape: Shape) -> Symbol:
        """Broadcast a value to a shape."""
        if x.shape == shape:
            return x
        return self.node("Expand", [x, self.integers(shape)], Spec(shape, x.dtype))

    def sliced(self, x: Symbol, axis: int, start: int, count: int, step: int = 1) -> Symbol:
        """Take some elements along an axis."""
        if start == 0 and step == 1 and count == x.shape[axis]:
            return x
        stop = start + count * step
        stop = stop if stop >= 0 else -x.shape[axis] - 1  # in front of the first element
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        bounds = [self.integers([number]) for number in (start, stop, axis, step)]
        return self.node("Slice", [x, *bounds], Spec(shape, x.dtype))

    def permuted(self, x: Symbol, order: Sequence[int]) -> Symbol:
        """Put the axes into another order."""
        if [*order] == [*range(len(order))]:
            return x
        spec = Spec(tuple([x.shape[axis] for axis in order]), x.dtype)
        return self.node("Transpose", [x], spec, perm=[*order])

    def joined(self, parts: Sequence[Symbol], axis: int) -> Symbol:
        """Concatenate values along an axis."""
        if len(parts) == 1:
            return parts[0]
        size = sum([value.shape[axis] for value in parts])
        shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
        return self.node("Concat", parts, Spec(shape, parts[0].dtype), axis=axis)

    def padded(
        self, x: Symbol, before: Sequence[int], behind: Sequence[int], between: Sequence[int]
    ) -> Symbol:
        """Put zeros around a value, along each axis before and behind it."""
        assert not any(between)
        sizes = zip(before, x.shape, behind, strict=True)
        spec = Spec(tuple([sum(size) for size in sizes]), x.dtype)
        if spec.dtype.kind == "b" or (spec.dtype.itemsize < 4 and spec.dtype.kind in "iu"):
            wide = self.cast_to(x, np.dtype(np.int32))
            return self.cast_to(self.padded(wide, before, behind, between), spec.dtype)
        return self.node("Pad", [x, self.integers([*before, *behind])], spec)

    def added(self, x: Symbol, y: Symbol) -> Symbol:
        """Add values of one dtype, which broadcast."""
        spec = Spec(np.broadcast_shapes(x.shape, y.shape), x.dtype)
        if spec.dtype.kind in "iu" and spec.dtype.itemsize < 4:
            wide = [self.cast_to(value, np.dtype(np.int32)) for value in (x, y)]
            return self.cast_to(self.added(*wide), spec.dtype)
        return self.node("Or" if spec.dtype.kind == "b" else "Add", [x, y], spec)

    def taken(self, flat: Symbol, places: Symbol) -> Symbol:
        """Read the elements of a vector at places."""
        return self.node("Gather", [flat, places], Spec(places.shape, flat.dtype), axis=0)

    def put(self, flat: Symbol, places: Symbol, updates: Symbol, adds: bool) -> Symbol:
        """Replace the elements of a vector at places, which are a vector, or add to them."""
        options = {"reduction": "add"} if adds else {}
        return self.node("ScatterElements", [flat, places, updates], flat.spec, axis=0, **options)
