"""Recipes of models, without the sizes that follow from the shape of the input.

>>> import funcgrad as fg
>>> from funcgrad import nn
>>> recipe = sequential(dense(64), nn.relu, dense(10))
>>> model = build(recipe, fg.random.key(0), (32, 784))
>>> fg.tree.map(lambda leaf: leaf.shape, model).layers[2]
Linear(weight=(64, 10), bias=(10,))

A recipe is a value that says how to make layers from a key and the spec (shape and dtype) of their
input. Between layers only specs are passed on, so only the parameters are computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import leaves
from funcgrad._core.specs import Shape, ShapeLike, Spec
from funcgrad._core.users_values import ArrayLike, checked_dtype, operand
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program
from funcgrad.errors import ArgumentError, FunctionError, ShapeError
from funcgrad.nn.layer_parts import called, first_state
from funcgrad.nn.layers import Linear, Sequential
from funcgrad.random.philox import as_key, as_shape, folded_key
from funcgrad.tensor.tensor import Tensor, wrap


@dataclass(frozen=True, slots=True)
class LayerRecipe:
    """How to make a layer: a function of a key and the specs of its inputs.

    Attributes
    ----------
    name : str
        The name of the layer, for errors.
    make : callable
        It can be pickled if the functions among the layers can.
    """

    name: str
    make: Callable[..., Any]


def recipe(layer: Callable[..., Any], *sizes: object, **options: object) -> LayerRecipe:
    """Describe a layer without the sizes that follow from its input; ``build`` makes it.

    So you never write the number of input channels or features: change one layer, and the next one
    adapts.

    Parameters
    ----------
    layer : class or callable
        A class of layers, whose ``init`` is called; or a function ``(key, spec) -> layer``, where
        ``spec`` has the shape and the dtype of the input.
    *sizes, **options
        Arguments of ``init``, without the key and the sizes that follow from the shape. A class
        names these sizes in ``sizes_by_axis``, each with its axis of the input, or with the option
        that holds the axis. By default ``dtype`` is the dtype of the input.

    Returns
    -------
    LayerRecipe

    Raises
    ------
    FunctionError
        The layer is neither a class of layers nor a function.
    ArgumentError
        ``init`` does not take the arguments.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad import nn
    >>> conv = recipe(nn.Conv, 8, (3, 3), padding="same")
    >>> build(conv, fg.random.key(0), (32, 3, 28, 28)).kernel.shape
    (8, 3, 3, 3)
    """
    name = getattr(layer, "__name__", type(layer).__name__)
    if not callable(layer):
        raise FunctionError(
            f"recipe: expected a class of layers, or a function of a key and a spec, got {layer!r}."
        )
    init = getattr(layer, "init", None)
    if init is None:
        return LayerRecipe(name, partial(layer, *sizes, **options))
    axes = dict(getattr(layer, "sizes_by_axis", {}))
    parameters = inspect.signature(init).parameters
    free = [name for name in parameters if name not in ("key", *axes)]
    named = dict(zip(free, sizes, strict=False))
    wrong = [repr(option) for option in options if option in named or option not in free]
    if len(sizes) > len(free) or wrong:
        raise ArgumentError(
            f"recipe: {name}.init takes, besides the sizes that follow from the shape,"
            f" {', '.join(free)}; got {len(sizes)} in order and {', '.join(wrong) or 'no others'}."
        )
    return LayerRecipe(name, partial(_layer, name, init, axes, {**named, **options}))


def _layer(
    name: str,
    init: Callable[..., Any],
    axes: Mapping[str, int | str],
    options: Mapping[str, object],
    key: ArrayLike,
    spec: Spec,
) -> Any:
    """Make a layer of a class, with the sizes that follow from the spec of its input."""
    known, parameters = dict[str, Any](options), inspect.signature(init).parameters
    for size, axis in axes.items():
        place = known.get(axis, parameters[axis].default) if isinstance(axis, str) else axis
        known[size] = _size(spec.shape, place, name)
    if "dtype" in parameters and spec.dtype.kind in "fc":
        known.setdefault("dtype", spec.dtype)
    if "key" in parameters:
        return init(key, **known)
    if "device" in parameters:
        known.setdefault("device", wrap(operand(key, name)).device)
    return init(**known)


def dense(outputs: int, *, bias: bool = True, **options: object) -> LayerRecipe:
    """Describe a ``Linear`` layer by its number of outputs; see ``recipe``.

    Parameters
    ----------
    outputs : int
    bias : bool
    **options
        Further options of ``Linear.init``: ``initializer`` and ``dtype``.

    Returns
    -------
    LayerRecipe

    Examples
    --------
    >>> import funcgrad as fg
    >>> build(dense(2), fg.random.key(0), (5, 3)).weight.shape
    (3, 2)
    """
    return recipe(Linear, outputs, bias=bias, **options)


def sequential(*layers: LayerRecipe | Callable[..., Any]) -> LayerRecipe:
    """Describe layers in sequence: each gets the result of the previous layer.

    Parameters
    ----------
    *layers : LayerRecipe or callable
        Recipes, or layers and functions such as ``nn.relu``, which have no sizes.

    Returns
    -------
    LayerRecipe
        A recipe of a ``Sequential``.

    Raises
    ------
    FunctionError
        A layer is neither a recipe nor a function.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad import nn
    >>> norm = sequential(dense(4), recipe(nn.LayerNorm), nn.Dropout(0.1))
    >>> build(norm, fg.random.key(0), (5, 3)).layers[1].scale.shape
    (4,)
    """
    for layer in layers:
        if not isinstance(layer, LayerRecipe) and not callable(layer):
            raise FunctionError(f"sequential: a layer is a recipe or a function, got {layer!r}.")
    return LayerRecipe("sequential", partial(_sequence, layers))


def _sequence(layers: Sequence[Any], key: ArrayLike, spec: Spec) -> Sequential:
    """Make layers, passing the spec of each result on to the next layer."""
    made: list[Any] = []
    for position, layer in enumerate(layers):
        if made:
            spec = _passed_on(made[-1], spec, position - 1)
        if isinstance(layer, LayerRecipe):
            made.append(layer.make(folded_key(key, np.uint64(position), "build"), spec))
        else:
            made.append(layer)
    return Sequential(*made)


def build(recipe: LayerRecipe, key: ArrayLike, *specs: ArrayLike) -> Any:
    """Make the layers of a recipe, for inputs of the given shapes.

    Parameters
    ----------
    recipe : LayerRecipe
    key : key
        From ``fg.random``; a sequence folds the position of a layer into it.
    *specs : tuple of int, or array_like
        For each input its shape (then the dtype is float64), or an object with a shape and a dtype:
        an array, whose values do not matter, or ``fg.extend.Spec(shape, dtype)``.

    Returns
    -------
    layer

    Raises
    ------
    ShapeError
        An input lacks the axis from which a size follows.
    ArgumentError
        The specs are missing, or a layer returns several arrays and another layer follows.
    FunctionError
        The first argument is not a recipe.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> from funcgrad import nn
    >>> x = fnp.ones((5, 3), dtype="float32")
    >>> model = build(sequential(dense(4), nn.relu, dense(1)), fg.random.key(0), x)
    >>> model(x).dtype
    dtype('float32')
    """
    if not isinstance(recipe, LayerRecipe):
        raise FunctionError(
            f"build: expected a recipe, as of nn.dense(64) or nn.sequential(...), got {recipe!r}."
        )
    if not specs:
        raise ArgumentError(
            "build: sizes follow from the shape of the input: pass it behind the key, as"
            f" nn.build({recipe.name}, key, (batch, features)), or an array."
        )
    return recipe.make(wrap(as_key(key, "build")), *[spec_of_input(x, "build") for x in specs])


def spec_of_input(x: ArrayLike, operation: str) -> Spec:
    """Return the spec of an array, or of a shape in float64."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        shape: ShapeLike = x.shape
        return Spec(as_shape(shape, operation), checked_dtype(x.dtype, operation))
    return Spec(as_shape(x, operation), np.dtype(np.float64))


def applied_program(function: Callable[..., Any], specs: Sequence[Spec], name: str) -> Program:
    """Stage a function of arrays from specs, without values."""
    return flat_program(
        name,
        lambda values: [operand(leaf, name) for leaf in leaves(function(*map(wrap, values)))],
        specs,
    )


def call_layer(layer: Callable[..., Any], *inputs: Tensor) -> Any:
    """Call a layer as before training, with the first state and without dropout."""
    if len(inputs) != 1:
        takes_key = "key" in inspect.signature(layer).parameters
        return layer(*inputs, key=None) if takes_key else layer(*inputs)
    return called(layer, inputs[0], first_state(layer), None, 0, training=False)[0]


def _passed_on(layer: Callable[..., Any], spec: Spec, position: int) -> Spec:
    """Return the spec of the result of a layer."""
    name = f"build: layer {position}, {type(layer).__name__}"
    specs = applied_program(partial(call_layer, layer), (spec,), name).output_specs
    if len(specs) != 1:
        raise ArgumentError(f"{name}, gives {len(specs)} arrays, and the next layer takes one.")
    return specs[0]


def _size(shape: Shape, axis: int, name: str) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"build: {name} takes a size from axis {axis} of its input, whose shape is {shape}."
        )
    return shape[axis]
