"""The type of optimizers, ``apply_updates``, and checks of arguments.

>>> from funcgrad.tensor.tensor import tensor
>>> apply_updates([tensor(1.0)], [tensor(-0.25)])
[Tensor(0.75)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.record_text import call_text
from funcgrad._core.pytrees import Structure, flatten, flatten_like, pytree, static_field, unflatten
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, leaf_remedy, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.structural import cast
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FunctionError,
    LeafError,
    ShapeError,
    TreeError,
)
from funcgrad.tensor.tensor import Tensor, tensor, wrap

Pytree: TypeAlias = Any
"""A pytree of tensors."""

LearningRate: TypeAlias = ArrayLike | Callable[[Tensor], ArrayLike]
"""A number, or a schedule: a function of the number of earlier steps, which is 0 at first."""

Objective: TypeAlias = Callable[[Any], ArrayLike]
"""From parameters to a real number."""

State = TypeVar("State")
Make = TypeVar("Make", bound=Callable[..., object])
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
    takes : tuple of str
        The names of further arguments that ``update`` takes by name, such as ``value``.
    recipe : object, optional
        A record whose method ``optimizer()`` makes this optimizer again. It is what is pickled, so
        that the two functions need not be.
    call : str, optional
        The call that made it, as which it prints.
    """

    init: Callable[[Pytree], State] = static_field()
    update: UpdateFunction[State] = static_field()
    takes: tuple[str, ...] = static_field(default=())
    recipe: Recipe[State] | None = static_field(default=None)
    call: str = static_field(default="")

    def __repr__(self) -> str:
        return self.call or f"Optimizer({self.init!r}, {self.update!r})"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the call."""
        from funcgrad._base.html import text_block

        return text_block(repr(self))

    @answering
    def step(
        self, grads: Pytree, state: State, params: Parameters, **named: Pytree
    ) -> tuple[Parameters, State]:
        """Move the parameters by one step: ``update``, then ``apply_updates``.

        Parameters
        ----------
        grads, state, params
            See ``update``.
        **named
            The named arguments that the optimizer takes, such as ``value=``.

        Returns
        -------
        params, state
            The moved parameters, in their dtypes, and the next state.

        Examples
        --------
        >>> from funcgrad.optim.sgd import sgd
        >>> optimizer = sgd(0.5)
        >>> params = tensor(1.0)
        >>> params, state = optimizer.step(tensor(1.0), optimizer.init(params), params)
        >>> params, state.rate
        (Tensor(0.5), Tensor(0.5))
        """
        update: Callable[..., tuple[Pytree, State]] = self.update
        updates, following = update(grads, state, params, **named)
        return apply_updates(params, updates), following

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle what makes the optimizer again, where there is such a record."""
        if self.recipe is None:
            return Optimizer, (self.init, self.update, self.takes, None, self.call)
        return _made_by, (self.recipe, self.call)


class Recipe(Protocol[State]):
    """A record of options that makes an optimizer, and can be pickled."""

    def optimizer(self) -> Optimizer[State]: ...


def _made_by(recipe: Recipe[State], call: str = "") -> Optimizer[State]:
    return replace(recipe.optimizer(), call=call)


def making(function: Make) -> Make:
    """Wrap a function that makes an optimizer, so that this prints as the call that made it.

    Calls that Python refuses raise an error with advice, see ``answering``.
    """
    answered: Any = answering(function)
    name = function.__name__

    @wraps(function)
    def made(*args: object, **kwargs: object) -> Optimizer[Any]:
        optimizer: Optimizer[Any] = answered(*args, **kwargs)
        bound = signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        shown: list[tuple[str, object]] = []
        for parameter in bound.signature.parameters.values():
            value = bound.arguments[parameter.name]
            several = parameter.kind is parameter.VAR_POSITIONAL
            shown += [("", member) for member in value] if several else [(parameter.name, value)]
        return replace(optimizer, call=call_text(name, shown))

    return made  # type: ignore[return-value]  # it takes and returns what the function does


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
    return unflatten(structure, [in_dtype(leaf + update, leaf.dtype) for leaf, update in pairs])


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
    tree: Pytree,
    name: str,
    leaves: list[Tensor],
    structure: Structure,
    operation: str,
    *,
    widen: bool = True,
) -> list[Tensor]:
    """Check that a tree is like the parameters; return its leaves, in the working dtypes or not.

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
    if not widen:
        return tensors
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
    return in_dtype(x, _working_dtype(dtype))


def _working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of states and of all arithmetic for parameters of a dtype: float32 at least.

    float16 has no number between 0 and 6e-8 and none above 65504: squared gradients, and ``eps``,
    would underflow or overflow.

    >>> _working_dtype(np.dtype("float16")), _working_dtype(np.dtype("complex64"))
    (dtype('float32'), dtype('complex64'))
    """
    return np.promote_types(dtype, np.float32)


def _real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a number's real part.

    >>> _real_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def real_full(x: Tensor, number: ArrayLike) -> Tensor:
    """A real number everywhere, in the shape and the precision of a tensor."""
    return in_dtype(tensor(operand(number, "init")) + zeros(x, real=True), _real_dtype(x.dtype))


def zeros(x: Tensor, *, real: bool = False) -> Tensor:
    """Zeros of the shape and the dtype of a tensor, or of the dtype of its real part."""
    return wrap(np.zeros(x.shape, _real_dtype(x.dtype) if real else x.dtype))


def square(g: Tensor) -> Tensor:
    """The squared absolute value, which is real."""
    return g.real * g.real + g.imag * g.imag if g.dtype.kind == "c" else g * g


def root(mean_square: Tensor) -> Tensor:
    """The square root, whose slope at 0 counts as 0.

    There it is the length of a gradient that has always been 0, over which the gradient's own
    mean is divided: infinity times 0 is NaN.
    """
    if type(mean_square) is Tensor:  # nothing traces it
        return fnp.sqrt(mean_square)
    none = mean_square == 0
    return fnp.where(none, 0.0, fnp.sqrt(fnp.where(none, 1.0, mean_square)))


def mean(share: ArrayLike, past: Tensor, value: Tensor) -> Tensor:
    """A decaying mean with one more value, in the dtype that it had."""
    return in_dtype(share * past + (1 - share) * value, past.dtype)


def scalar(number: ArrayLike, x: Tensor) -> ArrayLike:
    """A real number in the precision of a tensor, so that their product has it too."""
    return in_dtype(number, _real_dtype(x.dtype)) if isinstance(number, Tensor) else number


def rate_at(learning_rate: LearningRate, count: Tensor) -> ArrayLike:
    """The learning rate of a step.

    Raises
    ------
    ShapeError
        A schedule returns an array.
    ArgumentError
        It returns a negative number, which is known.
    """
    if not callable(learning_rate):
        return learning_rate
    rate: ArrayLike = learning_rate(count)
    if np.shape(rate) != ():
        raise ShapeError(
            f"learning_rate: a schedule returns one number for a count, got shape {np.shape(rate)}."
        )
    number = concrete(operand(rate, "learning_rate"))
    if type(number) in RAW and number < 0:
        raise ArgumentError(
            f"learning_rate: a schedule returned {number} at the count {concrete(count)}. A"
            " negative rate climbs: minimize minus the function in its place."
        )
    return rate


def recorded(rate: ArrayLike) -> Tensor:
    """A rate as a state holds it: in float64, whatever it is written in."""
    return in_dtype(tensor(operand(rate, "learning_rate")), np.dtype(np.float64))


def in_dtypes(tree: Pytree, leaves: list[Tensor], structure: Structure, operation: str) -> Pytree:
    """Updates in the dtypes of the parameters."""
    tensors = aligned(tree, "updates", leaves, structure, operation)
    pairs = zip(tensors, leaves, strict=True)
    return unflatten(structure, [in_dtype(x, leaf.dtype) for x, leaf in pairs])


def check_optimizer(operation: str, candidate: object) -> None:
    """Check that an argument is an optimizer.

    Raises
    ------
    FunctionError
        It is none.
    """
    if not isinstance(candidate, Optimizer):
        raise FunctionError(
            f"{operation}: expected an optimizer, as optim.adam(0.1) is, got {candidate!r}."
        )


def check_whole(operation: str, name: str, number: object, least: int = 1) -> None:
    """Check that an option is an integer that is great enough.

    Raises
    ------
    ArgumentError
        It is not.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ArgumentError(
            f"{operation}: {name} has to be an integer above {least - 1}, got {number!r}."
        )


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


def one_value(value: ArrayLike | None, operation: str, call: str) -> Tensor:
    """The named argument ``value`` of an update, in float64; errors show how to call.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        It is missing, or not one real number.
    """
    if value is None:
        raise ArgumentError(f"{operation}: value= is missing. Call {call}.")
    number = tensor(operand(value, f"{operation}: value"))
    if number.shape:
        raise ShapeError(f"{operation}: value has to be one number, got shape {number.shape}.")
    if number.dtype.kind not in "fiu":
        raise DtypeError(f"{operation}: value has to be a real number, got dtype {number.dtype}.")
    return in_dtype(number, np.dtype(np.float64))


def one_objective(objective: Objective | None, operation: str, call: str) -> Objective:
    """The named argument ``objective`` of an update; errors show how to call.

    Raises
    ------
    ArgumentError, FunctionError
        It is missing, or no function.
    """
    if objective is None:
        raise ArgumentError(f"{operation}: objective= is missing. Call {call}.")
    if not callable(objective):
        raise FunctionError(
            f"{operation}: objective has to be a function from parameters to a number, got"
            f" {objective!r}."
        )
    return objective


def check_rate(learning_rate: object, optimizer: str) -> None:
    """Check a learning rate that is not a schedule and not traced."""
    if not callable(learning_rate):
        check_number(optimizer, "learning_rate", learning_rate)


def check_numbers(optimizer: str, below: float = float("inf"), **options: ArrayLike) -> None:
    """Check several options as ``check_number`` does."""
    for name, value in options.items():
        check_number(optimizer, name, value, below)


def check_number(optimizer: str, name: str, value: ArrayLike, below: float = float("inf")) -> None:
    """Check that an option is at least 0 and below a bound; of a tensor, that it is a real number.

    Raises
    ------
    ArgumentError
        The number is out of bounds.
    DtypeError
        The option is not a number.
    """
    if np.ndim(operand(value, optimizer)) or not np.isrealobj(value):
        remedy = " For a run with each of several, use fg.vmap." if np.ndim(value) else ""
        raise DtypeError(f"{optimizer}: {name} has to be a real number, got {value!r}.{remedy}")
    if isinstance(value, Tensor):
        return
    if not 0 <= value < below:
        raise ArgumentError(
            f"{optimizer}: {name} has to be at least 0"
            + (f" and below {below:g}" if below < float("inf") else " and finite")
            + f", got {value!r}."
        )
