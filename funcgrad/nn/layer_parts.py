"""Layers have in common: leaves that are arrays, keys for each, and being called with what fits.

>>> import numpy as np
>>> split_key(np.zeros(2, np.uint64), 3, "sample").shape
(3, 2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad.errors import LeafError, ShapeError
from funcgrad.philox import folded_key, random_words
from funcgrad.primitives.random_bits import SPLIT
from funcgrad.shape import dtype_of, shape_of
from funcgrad.tensor import Tensor
from funcgrad.trees import leaves
from funcgrad.users_values import ArrayLike


def check_leaves(layer: Any) -> None:
    """Check that a new layer consists of floating-point arrays.

    Raises
    ------
    LeafError
        A field that is not static holds a function, a size, or an array of integers.
    """
    for field in layer.__dataclass_fields__.values():
        if field.metadata.get("static", False):
            continue
        for leaf in leaves(getattr(layer, field.name)):
            kind = type(layer).__name__
            if not hasattr(leaf, "dtype"):
                raise LeafError(
                    f"{kind}: {field.name} has to be an array, got {leaf!r}. {kind}.init(key, ...)"
                    " makes arrays from sizes; in a layer of your own, functions and sizes are"
                    " fields declared by fg.static_field()."
                )
            if dtype_of(leaf).kind not in "fc":
                raise LeafError(
                    f"{kind}: {field.name} has to be of a floating-point dtype, as it is trained,"
                    f" got {dtype_of(leaf)}. Convert it with astype."
                )


def check_features(x: ArrayLike, features: int, layer: str) -> None:
    """Check the last axis of an input.

    Raises
    ------
    ShapeError
        It has another size, or there is none.
    """
    shape = shape_of(x) if hasattr(x, "shape") else np.shape(x)
    if shape[-1:] != (features,):
        raise ShapeError(
            f"{layer}: takes arrays of shape (..., {features}), got shape {tuple(shape)}."
        )


def split_key(key: ArrayLike, count: int, operation: str) -> Tensor:
    """Make several keys, those of ``fg.random.split``."""
    return random_words(key, (count, 2), operation, SPLIT)


def called(
    layer: Callable[..., Any],
    x: Any,
    state: Any,
    key: ArrayLike | None,
    position: int,
    training: bool,
) -> tuple[Any, Any]:
    """Call a layer with its state, and the key of its position if it takes one.

    In training a layer with a method ``train`` is trained; others have no state that changes.
    """
    train = getattr(layer, "train", None) if training else None
    options = {}
    if key is not None and "key" in inspect.signature(train or layer).parameters:
        options["key"] = folded_key(key, np.uint64(position), "Sequential")
    if train is not None:
        result: tuple[Any, Any] = train(x, state, **options)
        return result
    return layer(x, *(() if state is None else (state,)), **options), state


def first_state(layer: Any) -> Any:
    """The state of a layer before training; None for a layer without one."""
    make = getattr(layer, "init_state", None)
    return None if make is None else make()
