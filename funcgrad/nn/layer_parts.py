"""Parts that layers share: checked array leaves, a key for each layer, uniform calls.

>>> import numpy as np
>>> split_key(np.zeros(2, np.uint64), 3, "sample").shape
(3, 2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.pytrees import key_path_text, leaves, leaves_with_path
from funcgrad._core.specs import Shape, dtype_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.random_bits import SPLIT
from funcgrad.errors import ArgumentError, FuncgradError, FunctionError, LeafError, ShapeError
from funcgrad.nn.dropout import UNSAID, Key
from funcgrad.numpy.options import checked_device, placed
from funcgrad.random.philox import folded_key, random_words
from funcgrad.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike

Function = TypeVar("Function", bound=Callable[..., Any])


def check_leaves(layer: object, *counts: str, **axes: str) -> None:
    """Check that the leaves of a new layer are floating-point arrays, and make them tensors.

    Static fields have to be hashable: 0-d arrays become Python numbers, and lists become tuples.

    Parameters
    ----------
    layer : frozen dataclass
    *counts : str
        The fields that hold integers.
    **axes : str
        For each field the names of the last axes of its array. Axes of one name have one size;
        ``"4*units"`` is four times as long as ``"units"``.

    Raises
    ------
    LeafError
        A field that is not static holds a function, a size, or an array of integers; or a static
        field holds an array.
    ShapeError
        An axis is missing, or its size differs from the size in an earlier field.
    """
    kind, sizes = type(layer).__name__, dict[str, int]()
    for field in fields(cast(Any, layer)):
        if field.metadata.get("static", False):
            option = _static_option(getattr(layer, field.name), f"{kind}: {field.name}")
            object.__setattr__(layer, field.name, option)
            continue
        value, whole = getattr(layer, field.name), field.name in counts
        if value is None and field.default is None:
            continue
        is_missing = value is None or (field.name in axes and not leaves(value))
        for path, leaf in [((), value)] if is_missing else leaves_with_path(value):
            _check_leaf(leaf, layer, field.name + key_path_text(path), "iu" if whole else "fc")
        if field.name in axes:
            array = wrap(operand(value, kind))
            _check_axes(array.shape, axes[field.name].split(), sizes, f"{kind}: {field.name}")
            object.__setattr__(layer, field.name, array)


def _static_option(value: object, name: str) -> object:
    if isinstance(value, (Tensor, np.ndarray, np.generic)) and not value.ndim:
        return value.item()
    option = tuple(value) if isinstance(value, list) else value
    try:
        hash(option)
    except TypeError:
        raise LeafError(
            f"{name} is static, a part of the structure: a number, a string, a function or a tuple"
            f" of these, got {value!r:.200}."
        ) from None
    return option


def _check_leaf(leaf: object, layer: object, name: str, kinds: str) -> None:
    kind = type(layer).__name__
    if not (isinstance(getattr(leaf, "dtype", None), np.dtype) and hasattr(leaf, "__array__")):
        makes = f" {kind}.init(key, ...) makes arrays from sizes." * hasattr(layer, "init")
        raise LeafError(
            f"{kind}: {name} has to be an array, got {leaf!r}.{makes} In a layer of your own,"
            " declare functions and sizes as fields with fg.static_field()."
        )
    if dtype_of(leaf).kind not in kinds:
        words = ("floating-point", ", as it is trained") if kinds == "fc" else ("integer", "")
        raise LeafError(
            f"{kind}: {name} has to be of {words[0]} dtype{words[1]}, got {dtype_of(leaf)}. Convert"
            " it with astype."
        )


def _check_axes(shape: Shape, names: list[str], sizes: dict[str, int], field: str) -> None:
    """Check the last sizes of a shape, and remember the sizes of new names."""
    known = " and ".join([f"{name} is {size}" for name, size in sorted(sizes.items())])
    matches = len(shape) >= len(names)
    for size, name in zip(reversed(shape), reversed(names), strict=False):
        factor, _, unit = name.rpartition("*")
        times = int(factor or 1)
        matches = matches and size == times * sizes.setdefault(unit, size // times)
    if not matches:
        raise ShapeError(
            f"{field} has to be of shape ({', '.join(names)}{',' * (len(names) == 1)}),"
            f"{known and f' where {known},'} got shape {shape}."
        )


def features_of(x: ArrayLike, features: int, layer: str, argument: str = "arrays") -> Tensor:
    """Convert an input to a tensor, and check its last axis.

    Raises
    ------
    ShapeError
        The last axis has another size, or the input has no axis.
    """
    value = wrap(operand(x, layer))
    if value.shape[-1:] != (features,):
        raise ShapeError(
            f"{layer}: takes {argument} of shape (..., {features}), got shape {value.shape}."
        )
    return value


def function_option(x: Function, operation: str, argument: str) -> Function:
    """Check that an option is a function.

    Raises
    ------
    FunctionError
        The option is not a function.
    """
    if not callable(x):
        raise FunctionError(f"{operation}: {argument} has to be a function, got {x!r}.")
    return x


def drawn(
    initializer: Callable[..., Tensor],
    key: ArrayLike,
    shape: Shape,
    dtype: DTypeLike,
    operation: str,
) -> Tensor:
    """Draw an array with an initializer, which may be a user's function.

    Raises
    ------
    FunctionError
        The initializer is not a function.
    ShapeError
        The initializer made an array of another shape.
    """
    function_option(initializer, operation, "initializer")
    array = wrap(operand(initializer(key, shape, dtype), f"{operation}: the initializer's result"))
    if array.shape != shape:
        raise ShapeError(
            f"{operation}: the initializer, called as initializer(key, {shape}, dtype), made an"
            f" array of shape {array.shape}."
        )
    return array


def made_on(device: DeviceLike | None, operation: str, *arrays: Tensor) -> list[Tensor]:
    """Copy new arrays to a device, if one is named.

    Raises
    ------
    DeviceError
        The device does not exist.
    """
    chosen = checked_device(device, operation)
    return [placed(array, chosen, operation) for array in arrays]


def split_key(key: ArrayLike, count: int, operation: str) -> Tensor:
    """Make several keys, as ``fg.random.split`` does."""
    return random_words(key, (count, 2), operation, SPLIT)


def called(
    layer: Callable[..., Any], x: Any, state: Any, key: Key, position: int, training: bool
) -> tuple[Any, Any]:
    """Call a layer with its state, and with the key of its position if it takes a key.

    In training, layers with a method ``train`` are called by it. Errors get a note that names the
    layer.
    """
    train = getattr(layer, "train", None)
    if state is not None and not (training and train) and not hasattr(layer, "init_state"):
        raise ArgumentError(
            f"{type(layer).__name__}, layer {position}, has no state, and got {state!r}. The first"
            " state is model.init_state()."
        )
    train = train if training else None
    options: dict[str, Any] = {}
    if key is not UNSAID and "key" in inspect.signature(train or layer).parameters:
        folded = None if key is None else folded_key(key, np.uint64(position), "Sequential")
        options["key"] = folded
    try:
        if train is not None:
            return train(x, state, **options)
        return layer(x, *(() if state is None else (state,)), **options), state
    except FuncgradError as error:
        error.add_note(f"In layer {position}, {type(layer).__name__}.")
        raise


def first_state(layer: Any) -> Any:
    """Return the state of a layer before training; None for a layer without a state."""
    make = getattr(layer, "init_state", None)
    return None if make is None else make()
