"""The type of optimizers, ``apply_updates``, and checks of arguments.

>>> from funcgrad.tensor import tensor
>>> apply_updates([tensor(1.0)], [tensor(-0.25)])
[Tensor(0.75)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from funcgrad.errors import ArgumentError, DtypeError, LeafError, ShapeError, TreeError
from funcgrad.primitives.structural import cast
from funcgrad.shape import is_inexact
from funcgrad.tensor import Tensor, tensor, wrap
from funcgrad.trees import Structure, flatten, flatten_like, pytree, static_field, unflatten
from funcgrad.users_values import ArrayLike, leaf_remedy, operand

Pytree: TypeAlias = Any
"""A pytree of tensors."""

LearningRate: TypeAlias = ArrayLike | Callable[[Tensor], ArrayLike]
"""A number, or a schedule: a function of the number of earlier steps, which is 0 at first."""

State = TypeVar("State")
Parameters = TypeVar("Parameters", bound=Any)
Updates = TypeVar("Updates", bound=Any)


class UpdateFunction(Protocol[State]):
    """The second function of an optimizer; its updates have the type of the gradients."""

    def __call__(self, grads: Updates, state: State, params: Pytree) -> tuple[Updates, State]: ...


@pytree(slots=True)
class Optimizer(Generic[State]):
    """A rule for stepping towards a minimum: a pair of pure functions.

    As a pytree it has no leaves, so it can be an argument of transformed functions.

    Attributes
    ----------
    init : callable
        ``(params) -> state``.
    update : callable
        ``(grads, state, params) -> (updates, state)``. ``grads`` and ``updates`` have the structure
        and shapes of ``params``. Add the updates to the parameters with ``apply_updates``.
    """

    init: Callable[[Pytree], State] = static_field()
    update: UpdateFunction[State] = static_field()


def apply_updates(params: Parameters, updates: Pytree) -> Parameters:
    """Add updates to parameters, in the parameters' dtypes.

    Parameters
    ----------
    params : pytree of tensors
    updates : pytree of tensors
        A pytree like ``params``.

    Returns
    -------
    pytree of tensors

    Raises
    ------
    TreeError
        The structures differ.
    ShapeError
        The shapes of an update and its parameter differ.
    DtypeError
        A parameter has an integer dtype.

    Examples
    --------
    >>> apply_updates({"w": tensor([1.0, 2.0])}, {"w": tensor([0.5, 0.5])})
    {'w': Tensor([1.5, 2.5])}
    """
    leaves, structure = flatten_params(params, "apply_updates")
    added = aligned(updates, "updates", leaves, structure, "apply_updates")
    pairs = zip(leaves, added, strict=True)
    moved: Parameters = unflatten(
        structure, [in_dtype(leaf + update, leaf.dtype) for leaf, update in pairs]
    )
    return moved


def flatten_params(params: Pytree, operation: str) -> tuple[list[Tensor], Structure]:
    """Flatten parameters to tensors and a structure.

    Raises
    ------
    DtypeError
        A leaf cannot have a gradient.
    """
    users_leaves, structure = flatten(params)
    leaves = _tensors(users_leaves, structure, "params", operation)
    for position, leaf in enumerate(leaves):
        if not is_inexact(leaf.dtype):
            raise DtypeError(
                f"{operation}: params{structure.paths()[position]} is of dtype {leaf.dtype}, which"
                " cannot be optimized. Use a floating dtype, or keep it out of the parameters, in a"
                " static field or in an argument of its own."
            )
    return leaves, structure


def aligned(
    tree: Pytree, name: str, leaves: list[Tensor], structure: Structure, operation: str
) -> list[Tensor]:
    """Check that a tree is like the parameters; return its leaves in the working dtypes.

    Raises
    ------
    TreeError
        The structure differs.
    ShapeError
        The shape of a leaf differs.
    DtypeError
        A leaf is complex, and the parameter is real.
    """
    tensors = _tensors(
        flatten_like(structure, tree, f"{operation}: {name}"), structure, name, operation
    )
    for position, (leaf, parameter) in enumerate(zip(tensors, leaves, strict=True)):
        if leaf.shape != parameter.shape:
            raise ShapeError(
                f"{operation}: {name}{structure.paths()[position]}: expected shape"
                f" {parameter.shape}, as the parameter has, got {leaf.shape}."
            )
        if leaf.dtype.kind == "c" and parameter.dtype.kind != "c":
            raise DtypeError(
                f"{operation}: {name}{structure.paths()[position]} is of dtype {leaf.dtype}, and"
                f" the parameter is of the real dtype {parameter.dtype}."
            )
    return [widened(leaf, parameter.dtype) for leaf, parameter in zip(tensors, leaves, strict=True)]


def _tensors(leaves: list[Any], structure: Structure, name: str, operation: str) -> list[Tensor]:
    if all(isinstance(leaf, Tensor) for leaf in leaves):
        return leaves
    paths = structure.paths()
    return [
        _tensor(leaf, f"{operation}: {name}{path}")
        for leaf, path in zip(leaves, paths, strict=True)
    ]


def _tensor(leaf: Any, place: str) -> Tensor:
    try:
        return tensor(operand(leaf, place))
    except LeafError as error:
        raise LeafError(f"{error} {leaf_remedy(leaf)}") from None


def in_dtype(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert a tensor to a dtype."""
    return x if x.dtype == dtype else wrap(cast(x, dtype=dtype))


def widened(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert a tensor to the working dtype of a parameter's dtype."""
    return in_dtype(x, working_dtype(dtype))


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of states and of all arithmetic for parameters of a dtype: float32 at least.

    float16 has no number between 0 and 6e-8 and none above 65504: squared gradients, and ``eps``,
    would underflow or overflow.

    >>> working_dtype(np.dtype("float16")), working_dtype(np.dtype("complex64"))
    (dtype('float32'), dtype('complex64'))
    """
    return np.promote_types(dtype, np.float32)


def zeros_like(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Zeros of the shape of a tensor."""
    zeros: Tensor = wrap(np.zeros(x.shape, dtype))
    return zeros


def rate_at(learning_rate: LearningRate, count: Tensor) -> ArrayLike:
    """The learning rate of a step."""
    return learning_rate(count) if callable(learning_rate) else learning_rate


def check_state(state: object, kind: type[Any], operation: str) -> None:
    """Check that a state belongs to this optimizer.

    Raises
    ------
    TreeError
        The state is another object.
    """
    if not isinstance(state, kind):
        raise TreeError(
            f"{operation}: expected the state of this optimizer, of type {kind.__name__}, got"
            f" {type(state).__name__}. The order is update(grads, state, params)."
        )


def check_rate(learning_rate: object, optimizer: str) -> None:
    """Check a learning rate that is not a schedule and not traced."""
    if not callable(learning_rate):
        check_number(optimizer, "learning_rate", learning_rate)


def check_number(optimizer: str, name: str, value: ArrayLike, below: float = float("inf")) -> None:
    """Check that an option is at least 0 and below a bound; tensors are not checked.

    Raises
    ------
    ArgumentError
        The number is out of bounds.
    DtypeError
        The option is not a number.
    """
    if isinstance(value, Tensor):
        return
    if np.ndim(operand(value, optimizer)) or not np.isrealobj(value):
        raise DtypeError(f"{optimizer}: {name} has to be a real number, got {value!r}.")
    if not 0 <= value < below:
        raise ArgumentError(
            f"{optimizer}: {name} has to be at least 0"
            + (f" and below {below:g}" if below < float("inf") else " and finite")
            + f", got {value!r}."
        )
