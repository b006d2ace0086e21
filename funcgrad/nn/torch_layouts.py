"""Weights of PyTorch's modules as weights of funcgrad's layers, and back: names and layouts.

A ``state_dict`` is a flat dict of arrays. Its names are the paths of modules, such as
``encoder.0.weight``. Layers of funcgrad name some arrays otherwise, and store matrices for ``x @
weight``.

>>> import numpy as np
>>> from funcgrad import nn, random
>>> model = nn.Sequential(nn.Linear.init(random.key(0), 2, 2), nn.relu, nn.LayerNorm.init(2))
>>> module = {
...     "0.weight": np.array([[1.0, 2.0], [3.0, 4.0]]),
...     "0.bias": np.zeros(2),
...     "2.weight": np.ones(2),
...     "2.bias": np.zeros(2),
... }
>>> from_torch(module, model)[0].weight
Tensor([[1., 3.],
        [2., 4.]])
>>> list(to_torch(model)) == list(module)
True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.trace import NUMBERS, concrete
from funcgrad._core.users_values import ArrayLike, converted, freeze, operand
from funcgrad.errors import ArgumentError, TreeError
from funcgrad.nn.attention_layers import MultiHeadAttention
from funcgrad.nn.filters import Conv, ConvTranspose
from funcgrad.nn.layers import Embedding, Linear, Residual, Sequential
from funcgrad.nn.norm_layers import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from funcgrad.nn.recurrent import GRUCell, LSTMCell, RNNCell
from funcgrad.tensor.tensor import wrap
from funcgrad.tree.path_texts import path_text
from funcgrad.tree.pieces import Pytree

Array = np.ndarray[Any, np.dtype[Any]]
_SHOWN: Final = 30


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer, or an array outside of layers, with its three names.

    Attributes
    ----------
    layer : object
    ours : str
        The path of the layer in the tree.
    theirs : str
        The path of the module in PyTorch.
    state : str
        The path of the layer's state in the tree of states.
    """

    layer: Any
    ours: str
    theirs: str
    state: str


def _same(array: Array) -> tuple[Array, ...]:
    return (array,)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """Arrays of PyTorch, and the leaves that correspond to them.

    Attributes
    ----------
    theirs, ours : tuple of str
        Their names on both sides.
    read, write : callable
        Convert the arrays of PyTorch to leaves, and leaves to arrays of PyTorch.
    """

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    read: Callable[..., tuple[Array, ...]] = _same
    write: Callable[..., tuple[Array, ...]] = _same


def from_torch(
    state_dict: Mapping[str, Any], like: Pytree, state: Pytree = None, *, strict: bool = True
) -> Any:
    """Load the weights of a PyTorch module into a model with the same layers.

    Parameters
    ----------
    state_dict : mapping from str to array_like
        ``module.state_dict()``, or the contents of its file: ``fg.io.load(path)``.
    like : pytree
        A model with the layers, their shapes and dtypes. Its attributes, keys and positions have
        the names of the module. ``Sequential`` and ``Residual`` add no name of their own.
    state : pytree, optional
        ``model.init_state()``, for the running statistics of batch normalizations.
    strict : bool
        Whether any difference is an error. If not, a leaf keeps its value of ``like`` if the dict
        lacks the array or the shapes differ; other arrays are converted to the dtype of the leaf.

    Returns
    -------
    pytree
        The model, or the pair of the model and its state if ``state`` was passed.

    Raises
    ------
    TreeError
        The dict and the model differ. One message lists all names that are missing or unexpected,
        or whose shape or dtype differs, as PyTorch names them.
    ArgumentError
        The dict has running statistics, and ``state`` is missing.

    Notes
    -----
    Weights of ``Linear``, recurrent cells and attention are transposed. A cell reads ``weight_ih``,
    or the first layer of an ``nn.LSTM``; at position k of a list it reads ``weight_ih_lk``. In a
    list for both directions, the cells at odd positions are the reverse ones. The bias of a cell is
    the sum of both biases, except in a GRU. ``MultiHeadAttention`` cuts ``in_proj_weight`` in
    three.

    Examples
    --------
    >>> import numpy as np
    >>> from funcgrad import nn, random
    >>> layer = nn.Linear.init(random.key(0), 3, 2)
    >>> nn.from_torch({"weight": np.ones((2, 3)), "bias": np.zeros(2)}, like=layer).weight.shape
    (3, 2)
    """
    return loaded("from_torch", state_dict, like, state, strict)


def to_torch(
    model: Pytree, state: Pytree = None, *, like: Mapping[str, Any] | None = None
) -> dict[str, Array]:
    """Make the ``state_dict`` of a PyTorch module with the same layers.

    Parameters
    ----------
    model : pytree
    state : pytree, optional
        The state after training, with the running statistics of batch normalizations.
    like : mapping, optional
        ``module.state_dict()``. Its names tell a cell from ``nn.LSTM`` or ``nn.GRU``, and attention
        as one module from attention as four linear ones. The result is compared with it.

    Returns
    -------
    dict from str to numpy.ndarray
        New arrays. For PyTorch: ``{name: torch.from_numpy(x) for name, x in result.items()}``. For
        a file that PyTorch reads: ``fg.io.save(path, result, metadata={"format": "pt"})``.

    Raises
    ------
    TreeError
        The result differs from ``like``.

    Examples
    --------
    >>> from funcgrad import nn, random
    >>> cell = nn.GRUCell.init(random.key(0), 2, 3)
    >>> {name: array.shape for name, array in nn.to_torch(cell).items()}
    {'weight_ih': (9, 2), 'weight_hh': (9, 3), 'bias_ih': (9,), 'bias_hh': (9,)}
    """
    if like is not None and not isinstance(like, Mapping):
        raise ArgumentError(
            f"to_torch: like= is a dict of arrays, as a state_dict, not {like!r:.60}."
        )
    leaves = _leaves(model, state)
    arrays: dict[str, Array] = {}
    for parameter in _parameters("to_torch", model, state, None if like is None else like.keys()):
        written = parameter.write(*[np.asarray(leaves[name]) for name in parameter.ours])
        arrays |= zip(parameter.theirs, map(np.array, written), strict=True)
    arrays |= {name: np.array(0) for name in _counts(model)}
    if like is not None:
        dtypes = {name: array.dtype for name, array in arrays.items()}
        expected = {
            name: Spec(tuple(shape_of(x)), dtypes.get(name, np.dtype(np.float64)))
            for name, x in like.items()
        }
        _check("to_torch", {name: _spec(x) for name, x in arrays.items()}, expected, "the model")
    return arrays


def loaded(
    operation: str, state_dict: Mapping[str, Any], like: Pytree, state: Pytree, strict: bool
) -> Any:
    """Implement ``from_torch``; errors name the operation."""
    if not isinstance(state_dict, Mapping):
        raise ArgumentError(
            f"{operation}: expected a dict of arrays by their names, as module.state_dict() is, got"
            f" {type(state_dict).__name__}."
        )
    counts = frozenset(_counts(like))
    arrays: dict[str, Array] = {
        name: np.asarray(concrete(operand(x, f"{operation}: {name}")))
        for name, x in state_dict.items()
        if name not in counts
    }
    if state is None:
        _check_statistics(operation, like, arrays)
    leaves = {
        name: x if _is_spec(x) else operand(x, f"{operation}: like")
        for name, x in _leaves(like, state).items()
    }
    parameters = [*_parameters(operation, like, state, arrays)]
    expected: dict[str, Spec] = {}
    for parameter in parameters:
        blank = [np.broadcast_to(np.int8(0), shape_of(leaves[name])) for name in parameter.ours]
        for name, array in zip(parameter.theirs, parameter.write(*blank), strict=True):
            expected[name] = Spec(array.shape, dtype_of(leaves[parameter.ours[0]]))
    if strict:
        _check(operation, {name: _spec(x) for name, x in arrays.items()}, expected, "the dict")
    for parameter in parameters:
        if all(name in arrays and _fits(arrays[name], expected[name]) for name in parameter.theirs):
            read = parameter.read(*[arrays[name] for name in parameter.theirs])
            for name, array in zip(parameter.ours, read, strict=True):
                leaves[name] = _leaf(array, leaves[name], f"{operation}: {name.partition('.')[2]}")
    _, structure = pytrees.flatten((like, state), is_leaf=_is_spec)
    model, after = pytrees.unflatten(structure, list(leaves.values()))
    return model if state is None else (model, after)


def turned_squares(model: Pytree) -> list[str]:
    """Name the square matrices of a model that are stored transposed in PyTorch."""
    leaves = _leaves(model, None)
    names = []
    for parameter in _parameters("load", model, None, ()):
        shapes = [shape_of(leaves[name]) for name in parameter.ours]
        if parameter.read is _transposed and shapes[0][-1:] == shapes[0][-2:-1]:
            names.append(parameter.ours[0].partition(".")[2] or "value")
    return names


def _leaves(model: Pytree, state: Pytree) -> dict[str, Any]:
    """Return the leaves of the model, below ``"0"``, and of its state, below ``"1"``."""
    leaves, structure = pytrees.flatten((model, state), is_leaf=_is_spec)
    return dict(zip(map(path_text, structure.key_paths()), leaves, strict=True))


def _is_spec(value: object) -> bool:
    return isinstance(value, Spec)


def _layers(tree: Pytree, ours: str = "0", theirs: str = "", state: str = "1") -> Iterator[_Layer]:
    """Yield the layers of a model, and its arrays outside of layers, with their names."""
    nodes, structure = pytrees.flatten(tree, is_leaf=lambda node: isinstance(node, _KINDS))
    for node, path in zip(nodes, structure.key_paths(), strict=True):
        o, t, s = [_joined(above, path_text(path)) for above in (ours, theirs, state)]
        if isinstance(node, Sequential):
            for k, layer in enumerate(node.layers):
                yield from _layers(layer, f"{o}.layers.{k}", _joined(t, str(k)), f"{s}.{k}")
        elif isinstance(node, Residual):  # its state is the state of its layer
            yield from _layers(node.layer, f"{o}.layer", _joined(t, "layer"), s)
        else:
            yield _Layer(node, o, t, s)


def _joined(above: str, name: str) -> str:
    return f"{above}.{name}" if above and name else above or name


def _parameters(
    operation: str, model: Pytree, state: Pytree, names: Collection[str] | None
) -> Iterator[_Parameter]:
    """Yield all parameters of a model; ``names`` are PyTorch's names, if they are known."""
    for layer in _layers(model):
        if isinstance(layer.layer, (RNNCell, LSTMCell, GRUCell)):
            yield from _of_cell(layer, names)
        elif isinstance(layer.layer, MultiHeadAttention):
            yield from _of_heads(layer, names)
        else:
            yield from _of_fields(layer)
        if state is not None and isinstance(layer.layer, BatchNorm):
            ours = f"{layer.state}.mean", f"{layer.state}.variance"
            if not set(ours) <= _leaves(None, state).keys():
                raise ArgumentError(
                    f"{operation}: state has no statistics of the batch normalization at"
                    f" {layer.theirs!r}: it has to be like model.init_state()."
                )
            for name, other in zip(("running_mean", "running_var"), ours, strict=True):
                yield _Parameter((_joined(layer.theirs, name),), (other,))


def _of_fields(layer: _Layer) -> Iterator[_Parameter]:
    """Yield the parameters of a layer whose fields correspond one to one to PyTorch's."""
    kind = next((kind for kind in _FIELDS if isinstance(layer.layer, kind)), None)
    if kind is None:
        yield _Parameter((layer.theirs or "value",), (layer.ours,))
        return
    for ours, theirs in _FIELDS[kind].items():
        if getattr(layer.layer, ours) is None:
            continue
        turn = _transposed if kind is Linear and ours == "weight" else _same
        names = (_joined(layer.theirs, theirs),), (f"{layer.ours}.{ours}",)
        yield _Parameter(*names, turn, turn)


def _of_cell(layer: _Layer, names: Collection[str] | None) -> Iterator[_Parameter]:
    """Yield the parameters of a cell: of a PyTorch cell, or of a layer of a recurrent network."""
    above, _, last = layer.theirs.rpartition(".")
    endings = [(layer.theirs, ""), (layer.theirs, "_l0")]
    if last.isdecimal():
        number, parity = divmod(int(last), 2)
        is_both = f"{_joined(above, 'weight_ih_l0_reverse')}" in (names or ())
        ending = f"_l{number}{'_reverse' * parity}" if is_both else f"_l{last}"
        endings.append((above, ending))
    known = [pair for pair in endings if _joined(pair[0], f"weight_ih{pair[1]}") in (names or ())]
    place, ending = (*known, endings[0])[0]

    def theirs(*parameters: str) -> tuple[str, ...]:
        return tuple([_joined(place, f"{name}{ending}") for name in parameters])

    yield _Parameter(theirs("weight_ih"), (f"{layer.ours}.weight",), _transposed, _transposed)
    yield _Parameter(theirs("weight_hh"), (f"{layer.ours}.state_weight",), _transposed, _transposed)
    if isinstance(layer.layer, GRUCell) and not _is_torch_cell(layer.layer):
        raise ArgumentError(
            f"the cell at {layer.theirs!r}: PyTorch's GRU has a state_bias of shape (3 * units,),"
            " and reset_after=True. Make the cell so, by GRUCell.init(key, inputs, units)."
        )
    has_no_bias = bool(known) and theirs("bias_ih")[0] not in (names or ())
    biases = {"bias_ih": "bias"}
    if isinstance(layer.layer, GRUCell):
        biases["bias_hh"] = "state_bias"
    for name, ours in biases.items():
        bias = getattr(layer.layer, ours)
        if has_no_bias:  # bias=False
            zeros = np.zeros(bias.shape, bias.dtype)
            yield _Parameter((), (f"{layer.ours}.{ours}",), lambda zeros=zeros: (zeros,), _nothing)
        elif len(biases) == 2:
            yield _Parameter(theirs(name), (f"{layer.ours}.{ours}",))
        else:
            yield _Parameter(theirs("bias_ih", "bias_hh"), (f"{layer.ours}.{ours}",), _sum, _first)


def _is_torch_cell(cell: GRUCell) -> bool:
    bias = cell.state_bias
    return cell.reset_after and bias is not None and bias.shape == cell.bias.shape


def _of_heads(layer: _Layer, names: Collection[str] | None) -> Iterator[_Parameter]:
    """Yield the parameters of attention: as one PyTorch module, or as four linear ones."""
    maps = {name: getattr(layer.layer, name) for name in ("query", "key", "value")}
    (*_, first), *others = [linear.weight.shape for linear in maps.values()]
    packed, apart = _joined(layer.theirs, "in_proj_weight"), _joined(layer.theirs, "q_proj_weight")
    is_even = all(shape[-1] == first for shape in others)
    if names is None:
        is_packed = is_even and len({linear.weight.shape for linear in maps.values()}) == 1
    else:
        is_packed, is_even = packed in names, apart in names
    biases = [linear.bias for linear in maps.values() if linear.bias is not None]
    if not (is_packed or is_even) or len(biases) not in (0, 3):
        for name in (*maps, "output"):
            linear = getattr(layer.layer, name)
            yield from _of_fields(
                _Layer(linear, f"{layer.ours}.{name}", _joined(layer.theirs, name), "")
            )
        return
    sizes = [linear.weight.shape[-1] for linear in maps.values()]
    cuts = [sizes[0], sizes[0] + sizes[1]]

    def read(joined: Array) -> tuple[Array, ...]:
        return tuple([np.swapaxes(x, -1, -2) for x in np.split(joined, cuts, axis=-2)])

    def write(*weights: Array) -> tuple[Array, ...]:
        return (np.concatenate([np.swapaxes(x, -1, -2) for x in weights], axis=-2),)

    ours = tuple([f"{layer.ours}.{name}.weight" for name in maps])
    if is_packed:
        yield _Parameter((packed,), ours, read, write)
    else:
        for name, other in zip(maps, ours, strict=True):
            theirs = (_joined(layer.theirs, f"{name[0]}_proj_weight"),)
            yield _Parameter(theirs, (other,), _transposed, _transposed)
    if biases:
        yield _Parameter(
            (_joined(layer.theirs, "in_proj_bias"),),
            tuple([f"{layer.ours}.{name}.bias" for name in maps]),
            lambda joined: tuple(np.split(joined, cuts, axis=-1)),
            lambda *shares: (np.concatenate(shares, axis=-1),),
        )
    out = _joined(layer.theirs, "out_proj")
    yield from _of_fields(_Layer(layer.layer.output, f"{layer.ours}.output", out, ""))


def _transposed(array: Array) -> tuple[Array, ...]:
    return (np.swapaxes(array, -1, -2),)


def _sum(first: Array, second: Array) -> tuple[Array, ...]:
    return (first + second,)


def _first(array: Array) -> tuple[Array, ...]:
    return array, np.zeros_like(array)


def _nothing(*arrays: Array) -> tuple[Array, ...]:
    return ()


_SCALED: Final[Mapping[str, str]] = MappingProxyType({"scale": "weight", "bias": "bias"})
_FILTERS: Final[Mapping[str, str]] = MappingProxyType({"kernel": "weight", "bias": "bias"})
_FIELDS: Final[Mapping[type[Any], Mapping[str, str]]] = MappingProxyType(
    {
        Linear: MappingProxyType({"weight": "weight", "bias": "bias"}),
        Embedding: MappingProxyType({"table": "weight"}),
        Conv: _FILTERS,
        ConvTranspose: _FILTERS,
        RMSNorm: MappingProxyType({"scale": "weight"}),
        **dict.fromkeys((LayerNorm, GroupNorm, BatchNorm), _SCALED),
    }
)
"""PyTorch's name of each parameter name of funcgrad."""

_KINDS: Final = (
    *_FIELDS,
    *(Sequential, Residual, RNNCell, LSTMCell, GRUCell, MultiHeadAttention, Spec),
)


def _counts(model: Pytree) -> list[str]:
    """Return the names of PyTorch's counts of batches, on which nothing depends here."""
    norms = [layer.theirs for layer in _layers(model) if isinstance(layer.layer, BatchNorm)]
    return [_joined(name, "num_batches_tracked") for name in norms]


def _check_statistics(operation: str, model: Pytree, names: Collection[str]) -> None:
    for layer in _layers(model):
        name = _joined(layer.theirs, "running_mean")
        if isinstance(layer.layer, BatchNorm) and name in names:
            state = "model.init_state()"
            if not hasattr(model, "init_state"):  # a class of the user
                state = f"model.{layer.theirs}.init_state()"
                for place in reversed(layer.theirs.split(".")):
                    state = f"{{{place!r}: {state}}}"
            raise ArgumentError(
                f"{operation}: {name!r} belongs to the state of the model. Write model, state ="
                f" nn.from_torch(state_dict, like=model, state={state}); of a file, state_dict ="
                " io.load(path)."
            )


def _spec(array: Array) -> Spec:
    return Spec(array.shape, array.dtype)


def _fits(array: Array, spec: Spec) -> bool:
    return array.shape == spec.shape and np.can_cast(array.dtype, spec.dtype, "same_kind")


def _leaf(array: Array, leaf: ArrayLike, name: str) -> Any:
    if type(leaf) in NUMBERS:
        return type(leaf)(array.item())
    return wrap(freeze(converted(array, dtype_of(leaf), name)))


def _check(
    operation: str, known: Mapping[str, Spec], expected: Mapping[str, Spec], where: str
) -> None:
    """Raise one error about all names and specs that differ."""
    missing, unexpected = [*(expected.keys() - known.keys())], [*(known.keys() - expected.keys())]
    different = [
        f"{name}: {known[name]}, expected {expected[name]}"
        for name in expected
        if name in known and known[name] != expected[name]
    ]
    if not (missing or unexpected or different):
        return
    near = {name: get_close_matches(name, unexpected, 1, 0.5) for name in sorted(missing)[:_SHOWN]}
    listed = [f"{name} (near it: {names[0]})" if names else name for name, names in near.items()]
    lines = [
        f"{title} ({count}): {'; '.join(names[:_SHOWN])}{'; ...' * (count > _SHOWN)}"
        for title, count, names in (
            (f"missing in {where}", len(missing), listed),
            (f"unexpected in {where}", len(unexpected), sorted(unexpected)),
            ("different", len(different), different),
        )
        if count
    ]
    raise TreeError(
        f"{operation}: the names and shapes of PyTorch's module do not fit like=.\n"
        + "\n".join(lines)
        + "\nCorrect like=, or rename keys of the dict; strict=False loads the arrays whose shapes"
        " fit, and converts their dtypes."
    )
