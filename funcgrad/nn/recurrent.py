"""Recurrent cells: functions ``(carry, x) -> (carry, output)``, the steps of ``fg.scan``.

>>> import funcgrad as fg
>>> cell = GRUCell.init(fg.random.key(0), 3, 5)
>>> carry, ys = run(cell, fg.numpy.ones((2, 7, 3)))
>>> carry.shape, ys.shape
((2, 5), (2, 7, 5))

Weights are stored for ``x @ weight``: the transposes of PyTorch's weights, with the same order of
gates.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import FunctionError, ShapeError
from funcgrad.nn.activations import sigmoid
from funcgrad.nn.initializers import glorot_uniform, orthogonal, zeros
from funcgrad.nn.layer_parts import check_leaves, features_of, split_key
from funcgrad.numpy.options import natural, pair
from funcgrad.random.philox import as_shape
from funcgrad.tensor.tensor import Tensor, wrap

C = TypeVar("C", bound="_Cell")


@pytree
class _Cell:
    """The weights of a cell: for the input, for the state, and a bias."""

    weight: Tensor
    state_weight: Tensor
    bias: Tensor

    gates = 1

    sizes_by_axis = MappingProxyType({"inputs": -1})

    def __post_init__(self) -> None:
        wide = f"{self.gates}*units"
        weights = {"weight": f"inputs {wide}", "state_weight": f"units {wide}"}
        check_leaves(self, **weights, bias=wide, state_bias=wide)

    @classmethod
    @answering
    def init(
        cls: type[C], key: ArrayLike, inputs: int, units: int, *, dtype: DTypeLike = np.float64
    ) -> C:
        """Draw the weights: uniform for the input, orthogonal for the state."""
        name = f"{cls.__name__}.init"
        natural(inputs, name, "inputs")
        natural(units, name, "units")
        keys = split_key(key, 1 + cls.gates, name)
        turns = [orthogonal(one, (units, units), dtype) for one in keys[1:]]
        weight = glorot_uniform(keys[0], (inputs, cls.gates * units), dtype)
        return cls(weight, fnp.concatenate(turns, axis=-1), *cls._biases(key, units, dtype))

    @classmethod
    def _biases(cls, key: ArrayLike, units: int, dtype: DTypeLike) -> tuple[Tensor, ...]:
        return (zeros(key, cls.gates * units, dtype),)

    def carry(self, batch: tuple[int, ...] = ()) -> Any:
        """Return the carry before the first step: zeros, for a batch of the shape ``batch``."""
        shape = as_shape(batch, f"{type(self).__name__}.carry")
        return fnp.zeros_like(self.state_weight, shape=(*shape, self.state_weight.shape[-2]))

    def _input(self, x: ArrayLike) -> Tensor:
        """Return the part of the gates that depends on the input."""
        value = features_of(x, self.weight.shape[-2], type(self).__name__)
        return value @ self.weight + self.bias

    def _state(self, h: ArrayLike) -> Tensor:
        """Return the output of the step before, from the carry."""
        return features_of(h, self.state_weight.shape[-2], type(self).__name__, "a carry")


@pytree
class RNNCell(_Cell):
    """Elman recurrent cell: ``h = tanh(x @ weight + h @ state_weight + bias)``.

    The carry and the output are ``h``. It is the simplest cell; on long sequences its gradients
    vanish, so prefer ``LSTMCell`` or ``GRUCell`` there.

    Parameters
    ----------
    weight : Tensor, shape (inputs, units)
    state_weight : Tensor, shape (units, units)
    bias : Tensor, shape (units,)
        These are ``weight_ih.T``, ``weight_hh.T`` and ``bias_ih + bias_hh`` of
        ``torch.nn.RNNCell``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> cell = RNNCell.init(fg.random.key(0), 2, 3)
    >>> carry, y = cell(cell.carry(), fg.tensor([1.0, 2.0]))
    >>> y.shape
    (3,)
    """

    def __call__(self, carry: Tensor, x: ArrayLike) -> tuple[Tensor, Tensor]:
        """One step."""
        h = fnp.tanh(self._input(x) + self._state(carry) @ self.state_weight)
        return h, h


@pytree
class LSTMCell(_Cell):
    """Long short-term memory (LSTM) cell.

    Gates decide how much enters the memory ``c``, how much of it is forgotten, and how much is
    shown. The memory is a sum, so gradients survive many steps:

    ``i, f, g, o = split(x @ weight + h @ state_weight + bias)``, ``c = sigmoid(f) * c + sigmoid(i)
    * tanh(g)``, ``h = sigmoid(o) * tanh(c)``. The carry is ``(h, c)``, the output is ``h``.

    Parameters
    ----------
    weight : Tensor, shape (inputs, 4 * units)
    state_weight : Tensor, shape (units, 4 * units)
    bias : Tensor, shape (4 * units,)
        These are ``weight_ih.T``, ``weight_hh.T`` and ``bias_ih + bias_hh`` of
        ``torch.nn.LSTMCell``. ``init`` gives the forget gate the bias 1.

    Notes
    -----
    Hochreiter, Schmidhuber, "Long short-term memory", Neural Computation 9 (1997); the forget gate:
    Gers, Schmidhuber, Cummins (2000), its bias: Jozefowicz et al., ICML 2015.

    Examples
    --------
    >>> import funcgrad as fg
    >>> cell = LSTMCell.init(fg.random.key(0), 2, 3)
    >>> (h, c), y = cell(cell.carry(), fg.tensor([1.0, 2.0]))
    >>> c.shape
    (3,)
    """

    gates = 4

    @classmethod
    def _biases(cls, key: ArrayLike, units: int, dtype: DTypeLike) -> tuple[Tensor, ...]:
        forget = (np.arange(4 * units) // max(units, 1) == 1).astype(dtype)
        return (zeros(key, 4 * units, dtype) + forget,)

    def carry(self, batch: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
        """Return the carry before the first step: two arrays of zeros."""
        h: Tensor = super().carry(batch)
        return h, h

    def __call__(
        self, carry: tuple[Tensor, Tensor], x: ArrayLike
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """One step."""
        h, c = map(self._state, pair(carry, "LSTMCell", "carry"))
        units = c.shape[-1]
        first, g, o = fnp.split(self._input(x) + h @ self.state_weight, [2 * units, 3 * units], -1)
        i, f = fnp.split(sigmoid(first), 2, axis=-1)  # both at once takes fewer operations
        c = f * c + i * fnp.tanh(g)
        h = sigmoid(o) * fnp.tanh(c)
        return (h, c), h


@pytree
class GRUCell(_Cell):
    """Gated recurrent unit (GRU) cell.

    Like an LSTM with fewer weights: one gate resets the state, another one mixes the old state with
    the new. The carry and the output are ``h``:

    ``r = sigmoid(x_r + h_r)``, ``z = sigmoid(x_z + h_z)``, ``n = tanh(x_n + r * h_n)``, ``h = (1 -
    z) * n + z * h``, with ``x_r, x_z, x_n = split(x @ weight + bias)`` and ``h_r, h_z, h_n =
    split(h @ state_weight + state_bias)``.

    Parameters
    ----------
    weight : Tensor, shape (inputs, 3 * units)
    state_weight : Tensor, shape (units, 3 * units)
    bias : Tensor, shape (3 * units,)
    state_bias : Tensor, shape (3 * units,) or (units,), optional
        With ``bias`` these are ``weight_ih.T``, ``weight_hh.T``, ``bias_ih`` and ``bias_hh`` of
        ``torch.nn.GRUCell``. A bias of shape ``(units,)`` belongs to h_n: the other two would only
        add to ``bias`` (equinox and Flax have one and a half biases so).
    reset_after : bool
        Static: whether the state is multiplied by its weight before the gate r is applied, as in
        PyTorch, cuDNN, JAX and Keras. If not, ``h_n = (r * h) @ state_weight_n``, as in the first
        publication and in Keras with ``reset_after=False``, which has no ``state_bias``.

    Notes
    -----
    Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014. Keras
    orders the gates z, r, n.

    Examples
    --------
    >>> import funcgrad as fg
    >>> cell = GRUCell.init(fg.random.key(0), 2, 3)
    >>> cell(cell.carry((4,)), fg.numpy.ones((4, 2)))[1].shape
    (4, 3)
    """

    state_bias: Tensor | None = None
    reset_after: bool = static_field(default=True)

    gates = 3

    def __post_init__(self) -> None:
        wide, bias = f"{self.gates}*units", self.state_bias
        # Before the check a field may be anything.
        shapes = [getattr(x, "shape", None) for x in (self.state_weight, bias)]
        rows, last = [shape if isinstance(shape, tuple) else () for shape in shapes]
        is_half = len(rows) > 1 and last[-1:] == rows[-2:-1]
        check_leaves(
            self,
            weight=f"inputs {wide}",
            state_weight=f"units {wide}",
            bias=wide,
            state_bias="units" if is_half else wide,
        )

    @classmethod
    def _biases(cls, key: ArrayLike, units: int, dtype: DTypeLike) -> tuple[Tensor, ...]:
        return zeros(key, 3 * units, dtype), zeros(key, 3 * units, dtype)

    def __call__(self, carry: Tensor, x: ArrayLike) -> tuple[Tensor, Tensor]:
        """One step."""
        x_r, x_z, x_n = fnp.split(self._input(x), 3, axis=-1)
        before, bias = self._state(carry), self.state_bias
        units = before.shape[-1]
        turns, last = self.state_weight, fnp.zeros((), before.dtype)
        if bias is not None and bias.shape[-1] == units:
            last, bias = bias, None
        if self.reset_after:
            states = before @ turns if bias is None else before @ turns + bias
            h_r, h_z, h_n = fnp.split(states, 3, axis=-1)
            n = x_n + sigmoid(x_r + h_r) * (h_n if bias is not None else h_n + last)
        else:
            states = before @ turns[..., : 2 * units]
            if bias is not None:
                states, last = states + bias[..., : 2 * units], bias[..., 2 * units :]
            h_r, h_z = fnp.split(states, 2, axis=-1)
            n = x_n + (sigmoid(x_r + h_r) * before) @ turns[..., 2 * units :] + last
        z = sigmoid(x_z + h_z)
        h = (1 - z) * fnp.tanh(n) + z * before
        return h, h


def run(
    cell: Any, xs: ArrayLike, carry: Any = None, *, reverse: bool = False
) -> tuple[Any, Tensor]:
    """Apply a recurrent cell along a sequence: one ``fg.scan`` over the axis of length.

    Parameters
    ----------
    cell : callable
        ``(carry, x) -> (carry, output)``: one of the cells, or a function.
    xs : array_like, shape (..., length, features)
    carry : pytree, optional
        By default ``cell.carry(...)``: zeros.
    reverse : bool
        Whether to start with the last input. The outputs keep the order of the inputs.

    Returns
    -------
    carry : pytree
        The last carry.
    ys : Tensor, shape (..., length, outputs)

    Raises
    ------
    ShapeError
        The sequence lacks the axis of length.

    Examples
    --------
    >>> import funcgrad as fg
    >>> total = lambda carry, x: (carry + x, carry + x)
    >>> run(total, [[1.0], [2.0], [3.0]], fg.tensor([0.0]))[0]
    Tensor([6.])
    """
    sequence = wrap(operand(xs, "run"))
    if sequence.ndim < 2:
        raise ShapeError(f"run: xs is (..., length, features), got shape {sequence.shape}.")
    if not callable(cell):
        raise FunctionError(f"run: a cell is a function of carry and x, got {cell!r}.")
    if carry is None:
        first = getattr(cell, "carry", None)
        if first is None:
            raise FunctionError("run: the cell is a plain function; pass its first carry.")
        carry = first(sequence.shape[:-2])
    step: Any = cell
    end, ys = scan(step, carry, fnp.moveaxis(sequence, -2, 0), reverse=reverse)
    return end, fnp.moveaxis(ys, 0, -2)


def bidirectional(forward: Any, backward: Any, xs: ArrayLike) -> tuple[tuple[Any, Any], Tensor]:
    """Apply one cell forwards and another backwards along a sequence, and join their outputs.

    Each output then depends on the whole sequence. Use it where the whole sequence is known in
    advance, such as for tagging.

    Parameters
    ----------
    forward, backward : callable
        Cells.
    xs : array_like, shape (..., length, features)

    Returns
    -------
    carries : pair of pytrees
        The last carry of each cell.
    ys : Tensor, shape (..., length, outputs of both)

    Examples
    --------
    >>> import funcgrad as fg
    >>> cells = [RNNCell.init(key, 2, 3) for key in fg.random.split(fg.random.key(0))]
    >>> bidirectional(*cells, fg.numpy.ones((4, 2)))[1].shape
    (4, 6)
    """
    first, ahead = run(forward, xs)
    second, back = run(backward, xs, reverse=True)
    return (first, second), fnp.concatenate([ahead, back], axis=-1)
