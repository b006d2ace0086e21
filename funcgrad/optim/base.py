"""The type of optimizers, ``apply_updates``, trees like the parameters, and arithmetic on leaves.

>>> from funcgrad.tensor.tensor import tensor
>>> apply_updates([tensor(1.0)], [tensor(-0.25)])
[Tensor(0.75)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import Structure, flatten, flatten_like, pytree, static_field, unflatten
from funcgrad._core.pytrees import structure as tree_structure
from funcgrad._core.trace import RAW, STRONG, concrete
from funcgrad._core.users_values import ArrayLike, leaf_remedy, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, LeafError, ShapeError
from funcgrad.tensor.tensor import Tensor, tensor, wrap

Pytree: TypeAlias = Any
"""A pytree of tensors."""

LearningRate: TypeAlias = ArrayLike | Callable[[Tensor], ArrayLike]
"""A number, or a schedule: a function of the number of earlier steps, which is 0 at first."""

State = TypeVar("State")
Parameters = TypeVar("Parameters", bound=Any)
Updates = TypeVar("Updates", bound=Any)

_NO_TREES: Final[Mapping[str, Pytree]] = MappingProxyType({})
_NO_LEAVES: Final = tree_structure(None).tokens


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
        A record whose method ``optimizer()`` makes this optimizer again. An optimizer pickles as
        its recipe, so that the two functions need not be pickled.
    call : str, optional
        The call that made the optimizer, as text. The optimizer prints so.
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
        stepper = getattr(update, "stepper", None)
        if stepper is not None and not named:  # a rule, which flattens the trees once
            return stepper(grads, state, params)
        updates, following = update(grads, state, params, **named)
        return apply_updates(params, updates), following

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle the recipe, if there is one."""
        if self.recipe is None:
            return Optimizer, (self.init, self.update, self.takes, None, self.call)
        return _made_by, (self.recipe, self.call)


class Recipe(Protocol[State]):
    """A record that makes an optimizer, and can be pickled."""

    def optimizer(self) -> Optimizer[State]: ...


def _made_by(recipe: Recipe[State], call: str = "") -> Optimizer[State]:
    return replace(recipe.optimizer(), call=call)


def apply_updates(params: Parameters, updates: Pytree) -> Parameters:
    """Add updates to parameters, in the parameters' dtypes.

    Parameters
    ----------
    params : pytree of tensors
    updates : pytree of tensors
        A pytree like ``params``.

    Raises
    ------
    TreeError, ShapeError
        The structures, or the shapes of an update and its parameter, differ.
    DtypeError
        A parameter has an integer dtype.

    Examples
    --------
    >>> apply_updates({"w": tensor([1.0, 2.0])}, {"w": tensor([0.5, 0.5])})
    {'w': Tensor([1.5, 2.5])}
    """
    structure, leaves, added = flattened("apply_updates", params, exact={"updates": updates})
    return unflatten(structure, moved(leaves, added))


def moved(leaves: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """Add updates to parameters, in the parameters' dtypes."""
    pairs = zip(leaves, updates, strict=True)
    return [in_dtype_of(leaf + widened(update, leaf), leaf) for leaf, update in pairs]


def in_dtypes_of(leaves: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """Convert updates to the dtypes of the parameters."""
    return list(map(in_dtype_of, updates, leaves))


def flattened(
    operation: str,
    params: Pytree,
    trees: Mapping[str, Pytree] = _NO_TREES,
    exact: Mapping[str, Pytree] = _NO_TREES,
) -> tuple[Any, ...]:
    """Flatten parameters and trees like the parameters, all at once.

    Parameters
    ----------
    operation : str
        The user's call, for errors.
    params : pytree
    trees : dict, optional
        Trees by their names in errors. Leaves are widened to the parameters' working dtypes.
    exact : dict, optional
        Further trees. Leaves keep their dtypes; None instead of a tree gives None.

    Returns
    -------
    structure, leaves, *columns
        The structure and the leaves of the parameters, and a list of leaves for each tree.

    Raises
    ------
    TreeError, ShapeError
        The structure of a tree, or the shape of a leaf, differs.
    DtypeError
        A parameter cannot have a gradient, or a leaf is complex and the parameter is real.
    """
    present = {**trees}
    for name, tree in exact.items():  # a comprehension would be one more call in a step
        if tree is not None:
            present[name] = tree
    every = (params, *present.values())
    leaves, form = flatten(every)
    tokens, size = form.tokens[1:], len(leaves) // len(every)
    one = tokens[: len(tokens) // len(every)]
    columns: list[Any] = []
    if one * len(every) == tokens:
        structure = Structure(one)
        for place in range(len(every)):
            columns.append(leaves[place * size : (place + 1) * size])
    else:
        columns, structure = _flattened_in_turn(operation, params, present)
    _check_columns(operation, ("params", *present), columns, structure)
    for column in columns[1 : 1 + len(trees)]:
        column[:] = map(widened, column, columns[0])
    for place, tree in enumerate(exact.values(), 1 + len(trees)):
        if tree is None:
            columns.insert(place, None)
    return structure, *columns


def _flattened_in_turn(
    operation: str, params: Pytree, trees: Mapping[str, Pytree]
) -> tuple[list[list[Any]], Structure]:
    """Flatten one tree after another; an error says which one differs."""
    leaves, structure = flatten(params)
    _check_columns(operation, ("params",), [leaves], structure)
    places = [(f"{operation}: {name}", tree) for name, tree in trees.items()]
    return [leaves, *[flatten_like(structure, tree, place) for place, tree in places]], structure


def _check_columns(
    operation: str, names: Sequence[str], columns: list[list[Any]], structure: Structure
) -> None:
    """Make leaves tensors; check that they are like the parameters, which are the first column."""
    specs = []
    for name, column in zip(names, columns, strict=True):
        for position, leaf in enumerate(column):
            if not isinstance(leaf, Tensor):
                place = f"{operation}: {name}{structure.paths()[position]}"
                column[position] = leaf = _tensor(leaf, place)
            spec = leaf._value if type(leaf) is Tensor else leaf
            spec = spec if type(spec) in STRONG else leaf
            shape, dtype = spec.shape, spec.dtype
            if column is columns[0]:
                specs.append((shape, dtype.kind))
                fits = dtype.kind in "fc"
            else:
                expected, kind = specs[position]
                fits = shape == expected and (dtype.kind != "c" or kind == "c")
            if not fits:
                place = f"{operation}: {name}{structure.paths()[position]}"
                raise _misfit(place, leaf, columns[0][position])


def _misfit(place: str, leaf: Tensor, parameter: Tensor) -> Exception:
    """The error for a leaf that is not like its parameter, or a parameter without a gradient."""
    if leaf is parameter:
        return DtypeError(
            f"{place} is of dtype {leaf.dtype}, which cannot be optimized. Use a floating dtype, or"
            " keep it out of the parameters, in a static field or in an argument of its own."
        )
    if leaf.shape != parameter.shape:
        return ShapeError(
            f"{place}: expected shape {parameter.shape}, the shape of the parameter, got"
            f" {leaf.shape}."
        )
    return DtypeError(
        f"{place} is of dtype {leaf.dtype}, and the parameter is of the real dtype"
        f" {parameter.dtype}."
    )


def unflattened(
    structure: Structure, columns: Sequence[Sequence[Any] | None]
) -> tuple[Pytree, ...]:
    """Make a tree of each column of leaves; None of a column that is None."""
    tokens: list[Any] = [(tuple, len(columns), None)]
    leaves: list[Any] = []
    for column in columns:
        tokens += _NO_LEAVES if column is None else structure.tokens
        leaves += column or ()
    return unflatten(Structure(tuple(tokens)), leaves)


def _tensor(leaf: Any, place: str) -> Tensor:
    try:
        return tensor(operand(leaf, place))
    except LeafError as error:
        raise LeafError(f"{error} {leaf_remedy(leaf)}") from None


# A step asks often for dtypes, and a tensor's property is two calls: these functions look inside.


def _tensor_dtype(x: Tensor) -> np.dtype[Any]:
    """The dtype of a tensor."""
    raw = x._value if type(x) is Tensor else x
    return raw.dtype if type(raw) in STRONG else x.dtype


def in_dtype(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert a tensor to a dtype."""
    raw = x._value if type(x) is Tensor else x
    has_it = (raw.dtype if type(raw) in STRONG else x.dtype) == dtype
    return x if has_it else wrap(cast(x, dtype=dtype))


def in_dtype_of(x: Tensor, other: Tensor) -> Tensor:
    """Convert a tensor to the dtype of another."""
    raw = other._value if type(other) is Tensor else other
    dtype = raw.dtype if type(raw) in STRONG else other.dtype
    raw = x._value if type(x) is Tensor else x
    has_it = (raw.dtype if type(raw) in STRONG else x.dtype) == dtype
    return x if has_it else wrap(cast(x, dtype=dtype))


def widened(x: Tensor, parameter: Tensor | None = None) -> Tensor:
    """Convert a tensor to the dtype of all arithmetic: a parameter's or its own, at least float32.

    float16 has no number between 0 and 6e-8 and none above 65504: squared gradients, and ``eps``,
    would underflow or overflow.

    >>> widened(tensor(1.0, "float16")).dtype
    dtype('float32')
    """
    like = x if parameter is None else parameter
    raw = like._value if type(like) is Tensor else like
    dtype = np.promote_types(raw.dtype if type(raw) in STRONG else like.dtype, np.float32)
    raw = x._value if type(x) is Tensor else x
    has_it = (raw.dtype if type(raw) in STRONG else x.dtype) == dtype
    return x if has_it else wrap(cast(x, dtype=dtype))


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
    return fnp.zeros_like(x, _real_dtype(x.dtype) if real else x.dtype)


def square(g: Tensor) -> Tensor:
    """The squared absolute value, which is real."""
    return g.real * g.real + g.imag * g.imag if _tensor_dtype(g).kind == "c" else g * g


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
    return in_dtype_of(share * past + (1 - share) * value, past)


def scalar(number: ArrayLike, x: Tensor) -> ArrayLike:
    """A real number in the precision of a tensor, so that their product has it too."""
    if not isinstance(number, Tensor):
        return number
    raw = x._value if type(x) is Tensor else x
    dtype = raw.dtype if type(raw) in STRONG else x.dtype
    dtype = _real_dtype(dtype) if dtype.kind == "c" else dtype
    raw = number._value if type(number) is Tensor else number
    has_it = (raw.dtype if type(raw) in STRONG else number.dtype) == dtype
    return number if has_it else wrap(cast(number, dtype=dtype))


def rate_at(learning_rate: LearningRate, count: Tensor) -> ArrayLike:
    """The learning rate of a step.

    Raises
    ------
    ShapeError, ArgumentError
        A schedule returns an array, or a negative number.
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
            " negative rate climbs: to maximize f, minimize -f with a positive rate."
        )
    return rate


def recorded(rate: ArrayLike) -> Tensor:
    """A rate as a state holds it: in float64, whatever it is written in."""
    if type(rate) is float:  # the commonest, in fewer calls
        return wrap(np.float64(rate))
    return in_dtype(tensor(operand(rate, "learning_rate")), np.dtype(np.float64))
