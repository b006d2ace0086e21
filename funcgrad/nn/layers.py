"""Layers: frozen dataclasses that are pytrees of arrays and can be called.

>>> import funcgrad as fg
>>> model = Sequential(Linear.init(fg.random.key(0), 3, 4), abs, Dropout(0.5))
>>> fg.tree.map(lambda leaf: leaf.shape, model).layers[0]
Linear(weight=(3, 4), bias=(4,))
>>> x, key = fg.tensor([1.0, 2.0, 3.0]), fg.random.key(1)
>>> fg.grad(lambda model: model(x, key=key).sum())(model).layers[0].bias.shape
(4,)
>>> model(x)
Traceback (most recent call last):
    ...
funcgrad.errors.ArgumentError: Dropout: key= is missing. Pass key=key in training, from ...

All axes of an input but the last are batch axes. Constructors take arrays; ``init`` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.specs import Shape, dtype_of, normalize_axis
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering, answering_as
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError
from funcgrad.nn.activations import leaky_relu, relu
from funcgrad.nn.dropout import UNSAID, Key, checked_rate, dropout, said_key, training_key
from funcgrad.nn.initializers import lecun_normal, ones, variance_scaling, zeros
from funcgrad.nn.layer_parts import (
    called,
    check_leaves,
    drawn,
    features_of,
    first_state,
    function_option,
    made_on,
    split_key,
)
from funcgrad.numpy.options import integer, natural, real_number, sequence
from funcgrad.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike

Initializer = Callable[..., Tensor]


@pytree
class Linear:
    """Linear (dense, fully connected) layer: ``x @ weight + bias``.

    Every output depends on every input.

    Parameters
    ----------
    weight : Tensor, shape (inputs, outputs)
        The transpose of ``torch.nn.Linear.weight``; see ``from_torch``.
    bias : Tensor, shape (outputs,), optional

    Examples
    --------
    >>> import funcgrad as fg
    >>> Linear(fg.tensor([[1.0], [2.0]]), fg.tensor([0.5]))(fg.tensor([1.0, 1.0]))
    Tensor([3.5])
    """

    weight: Tensor
    bias: Tensor | None = None

    sizes_by_axis = MappingProxyType({"inputs": -1})

    def __post_init__(self) -> None:
        check_leaves(self, weight="inputs outputs", bias="outputs")

    @classmethod
    @answering
    def init(
        cls,
        key: ArrayLike,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        initializer: Initializer = lecun_normal,
        dtype: DTypeLike = np.float64,
    ) -> Linear:
        """Draw the weight with an initializer, and start with a bias of 0."""
        sizes = natural(inputs, "Linear.init", "inputs"), natural(outputs, "Linear.init", "outputs")
        offsets = zeros(key, sizes[1], dtype) if bias else None
        return cls(drawn(initializer, key, sizes, dtype, "Linear.init"), offsets)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the layer to an array of shape ``(..., inputs)``."""
        y = features_of(x, self.weight.shape[-2], "Linear") @ self.weight
        return y if self.bias is None else y + self.bias


@pytree
class Embedding:
    """Embedding: look up the row of a table for each integer.

    It turns categories, such as the tokens of a text, into vectors that are learned.

    Parameters
    ----------
    table : Tensor, shape (count, features)
        The layout of ``torch.nn.Embedding.weight``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> words = Embedding(fg.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> words([1, 0])
    Tensor([[0., 2.],
            [1., 0.]])
    >>> words.attend(fg.tensor([3.0, 1.0]))
    Tensor([3., 2.])
    """

    table: Tensor

    def __post_init__(self) -> None:
        check_leaves(self, table="count features")

    @classmethod
    @answering
    def init(
        cls,
        key: ArrayLike,
        count: int,
        features: int,
        *,
        initializer: Initializer | None = None,
        dtype: DTypeLike = np.float64,
    ) -> Embedding:
        """Draw the rows; by default their mean squared norm is 1."""
        name = "Embedding.init"
        sizes = natural(count, name, "count"), natural(features, name, "features")
        draw = _unit_rows if initializer is None else initializer
        return cls(drawn(draw, key, sizes, dtype, name))

    def __call__(self, indices: ArrayLike) -> Tensor:
        """Look up an array of integers; the result has one more axis, the features."""
        places = operand(indices, "Embedding")
        if dtype_of(places).kind not in "iu":
            raise DtypeError(f"Embedding: indices have to be integers, got {dtype_of(places)}.")
        return self.table[wrap(places)]

    def attend(self, x: ArrayLike) -> Tensor:
        """Return ``x @ table.T``: the logits of a language model with tied weights."""
        return features_of(x, self.table.shape[-1], "Embedding.attend") @ self.table.mT


def _unit_rows(key: ArrayLike, shape: Shape, dtype: DTypeLike) -> Tensor:
    return variance_scaling(key, shape, dtype, mode="fan_out", distribution="normal")


@pytree
class Dropout:
    """Set random elements to 0 in training; see ``dropout``.

    ``layer(x, key=None)`` is the identity, for a trained network; ``train`` needs a key.

    Parameters
    ----------
    rate : float
        Static, from 0 to 1.

    Examples
    --------
    >>> Dropout(0.5)([1.0, 2.0], key=None)
    Tensor([1., 2.])
    """

    rate: float = static_field(default=0.5)

    def __post_init__(self) -> None:
        check_leaves(self)
        checked_rate(self.rate, "Dropout")

    @answering_as("Dropout")
    def __call__(self, x: ArrayLike, *, key: Key = UNSAID) -> Tensor:
        """Drop elements with a key; drop nothing with ``key=None``.

        Raises
        ------
        ArgumentError
            ``key=`` is missing, and the rate is not 0.
        """
        return dropout(x, self.rate, said_key(key, self.rate, "Dropout"))

    def train(
        self, x: ArrayLike, state: None = None, *, key: ArrayLike | None = None
    ) -> tuple[Tensor, None]:
        """Drop elements as in training; return the result and the state, which is None.

        Raises
        ------
        ArgumentError
            The key is missing.
        """
        return dropout(x, self.rate, training_key(key, self.rate, "Dropout")), state


@pytree
class Activation:
    """A function without parameters as a layer; ``Sequential`` wraps functions in it.

    Examples
    --------
    >>> Activation(abs)(-3.0)
    3.0
    """

    function: Callable[[Any], Any] = static_field()

    def __post_init__(self) -> None:
        function_option(self.function, "Activation", "function")

    def __call__(self, x: Any) -> Any:
        """Call the function."""
        return self.function(x)


def _as_layer(layer: Any, owner: str) -> Any:
    """Return a layer; a plain function becomes an ``Activation``, so that it is not a leaf."""
    if not callable(layer):
        several = " Write Sequential(*layers)." if isinstance(layer, (list, tuple)) else ""
        raise FunctionError(f"{owner}: a layer is a function of x, got {layer!r:.200}.{several}")
    return layer if hasattr(layer, "__dataclass_fields__") else Activation(layer)


@pytree(init=False)
class Sequential:
    """Layers in sequence: each gets the result of the previous layer.

    Parameters
    ----------
    *layers : callable
        Layers, or functions such as ``nn.relu``, which become ``Activation``.

    Notes
    -----
    The layer at position i gets the key ``fg.random.fold_in(key, i)``. The state is a tuple with
    the state of each layer: ``model.init_state()`` makes the first state, and ``model.train``
    returns the next. ``len(model)``, ``model[0]``, ``model[:2]`` and iteration work on the layers.

    Examples
    --------
    >>> import funcgrad as fg
    >>> model = Sequential(Linear(fg.tensor([[2.0]])), fg.nn.relu)
    >>> model(fg.tensor([[3.0], [-3.0]]))
    Tensor([[6.],
            [0.]])
    """

    layers: tuple[Any, ...]

    def __init__(self, *layers: Callable[..., Any]) -> None:
        chain = tuple([_as_layer(layer, "Sequential") for layer in layers])
        object.__setattr__(self, "layers", chain)
        check_leaves(self)

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    @overload
    def __getitem__(self, position: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, position: slice) -> Sequential: ...
    def __getitem__(self, position: SupportsIndex | slice) -> Any:
        """Return a layer, or a Sequential for a slice."""
        if isinstance(position, slice):
            return Sequential(*self.layers[position])
        return self.layers[position]

    def init_state(self) -> tuple[Any, ...]:
        """Return the states of all layers before training."""
        return tuple([first_state(layer) for layer in self.layers])

    @answering_as("Sequential")
    def __call__(self, x: Any, state: Any = None, *, key: Key = UNSAID) -> Any:
        """Apply the layers, with their states after training."""
        return self._through(x, state, key, training=False)[0]

    def train(
        self, x: Any, state: Any = None, *, key: ArrayLike | None = None
    ) -> tuple[Any, tuple[Any, ...]]:
        """Apply the layers as in training; return the result and the next state."""
        return self._through(x, state, key, training=True)

    def _through(self, x: Any, state: Any, key: Key, training: bool) -> tuple[Any, tuple[Any, ...]]:
        states = [None] * len(self.layers) if state is None else state
        if not isinstance(states, (tuple, list)) or len(states) != len(self.layers):
            raise ArgumentError(
                f"Sequential: the state, the second argument, is a tuple of {len(self.layers)}, one"
                f" for each layer, as of model.init_state() and model.train; got {state!r:.200}. A"
                " key is passed as key=."
            )
        after = []
        for position, (layer, before) in enumerate(zip(self.layers, states, strict=True)):
            x, changed = called(layer, x, before, key, position, training)
            after.append(changed)
        return x, tuple(after)


@pytree
class Residual:
    """Residual (skip) connection: ``x + layer(x)``.

    The gradient passes unchanged beside the layer, so that deep networks can be trained.

    Parameters
    ----------
    layer : callable
        A layer or function whose result has the shape of its argument.

    Examples
    --------
    >>> import funcgrad as fg
    >>> Residual(fg.nn.relu)(fg.tensor([-1.0, 2.0]))
    Tensor([-1.,  4.])
    """

    layer: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer", _as_layer(self.layer, "Residual"))
        check_leaves(self)

    def init_state(self) -> Any:
        """Return the state of the layer before training."""
        return first_state(self.layer)

    @answering_as("Residual")
    def __call__(self, x: Any, state: Any = None, *, key: Key = UNSAID) -> Any:
        """Apply the layer, and add the input.

        Raises
        ------
        ShapeError
            The shapes of the result and the input differ.
        """
        return self._sum(x, called(self.layer, x, state, key, 0, training=False)[0])

    def train(self, x: Any, state: Any = None, *, key: ArrayLike | None = None) -> tuple[Any, Any]:
        """Apply the layer as in training; return the result and the next state."""
        y, after = called(self.layer, x, state, key, 0, training=True)
        return self._sum(x, y), after

    def _sum(self, x: ArrayLike, y: ArrayLike) -> Tensor:
        before, after = [wrap(operand(array, "Residual")) for array in (x, y)]
        if before.shape != after.shape:
            raise ShapeError(
                f"Residual: {type(self.layer).__name__} makes an array of shape {after.shape} of"
                f" one of shape {before.shape}, and the two are added: they need one shape."
            )
        return before + after


@pytree
class PReLU:
    """Parametric rectified linear unit: ``leaky_relu`` with a slope that is trained.

    Parameters
    ----------
    slope : Tensor, shape () or (channels,)
        The slope of negative values: the weight of ``torch.nn.PReLU``.
    axis : int
        Static: the axis of the channels.

    Notes
    -----
    He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015.

    Examples
    --------
    >>> import funcgrad as fg
    >>> PReLU.init()(fg.tensor([-1.0, 2.0]))
    Tensor([-0.25,  2.  ])
    """

    slope: Tensor
    axis: int = static_field(default=1)

    def __post_init__(self) -> None:
        check_leaves(self, slope="channels" if getattr(self.slope, "shape", ()) else "")
        integer(self.axis, "PReLU", "axis")

    @classmethod
    @answering
    def init(
        cls,
        channels: int | None = None,
        *,
        slope: float = 0.25,
        axis: int = 1,
        dtype: DTypeLike = np.float64,
        device: DeviceLike | None = None,
    ) -> PReLU:
        """Start with one slope for all elements, or one for each channel."""
        shape = () if channels is None else (natural(channels, "PReLU.init", "channels"),)
        start = real_number(slope, "PReLU.init", "slope")
        (slopes,) = made_on(device, "PReLU.init", start * ones(None, shape, dtype))
        return cls(slopes, axis)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the layer to an array of any shape that has the channels.

        Raises
        ------
        ShapeError
            The channels are not as many as the slopes.
        """
        value = wrap(operand(x, "PReLU"))
        if not self.slope.shape:
            return leaky_relu(value, self.slope)
        place = normalize_axis(self.axis, value.ndim, "PReLU")
        if value.shape[place] != self.slope.size:
            raise ShapeError(
                f"PReLU: {self.slope.size} slopes for {value.shape[place]} channels, along axis"
                f" {place} of shape {value.shape}."
            )
        after = [1] * (value.ndim - place - 1)
        return leaky_relu(value, fnp.reshape(self.slope, (-1, *after)))


@pytree
class MLP:
    """Multi-layer perceptron: linear layers with an activation between them.

    The plain network for tables and vectors of features. ``MLP.init(key, (2, 16, 1))`` has 2
    inputs, 16 hidden units and 1 output.

    Parameters
    ----------
    layers : tuple of Linear
    activation : callable
        Static.

    Examples
    --------
    >>> import funcgrad as fg
    >>> MLP.init(fg.random.key(0), (3, 8, 8, 2))(fg.numpy.ones((5, 3))).shape
    (5, 2)
    """

    layers: tuple[Linear, ...]
    activation: Callable[[Any], Any] = static_field(default=relu)

    def __post_init__(self) -> None:
        chain = tuple([_as_layer(layer, "MLP") for layer in sequence(self.layers, "MLP", "layers")])
        if not chain:
            raise ArgumentError("MLP: layers is empty. MLP.init(key, sizes) makes layers.")
        object.__setattr__(self, "layers", chain)
        function_option(self.activation, "MLP", "activation")
        check_leaves(self)

    @classmethod
    @answering
    def init(
        cls,
        key: ArrayLike,
        sizes: Sequence[int],
        *,
        activation: Callable[[Any], Any] = relu,
        bias: bool = True,
        initializer: Initializer = lecun_normal,
        dtype: DTypeLike = np.float64,
    ) -> MLP:
        """Draw the layers; the sizes are (inputs, hidden units, ..., outputs)."""
        widths = sequence(sizes, "MLP.init", "sizes")
        if len(widths) < 2:
            raise ArgumentError(f"MLP.init: expected sizes (inputs, ..., outputs), got {sizes!r}.")
        keys = split_key(key, len(widths) - 1, "MLP.init")
        pairs = zip(keys, widths[:-1], widths[1:], strict=True)
        options: dict[str, Any] = {"bias": bias, "initializer": initializer, "dtype": dtype}
        layers = tuple([Linear.init(one, m, n, **options) for one, m, n in pairs])
        return cls(layers, activation)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the network to an array of shape ``(..., inputs)``."""
        y = wrap(operand(x, "MLP"))
        for layer in self.layers[:-1]:
            y = self.activation(layer(y))
        return self.layers[-1](y)
