"""Check the arguments of transformations, flatten them, and put results together again.

Every error names the transformation, the argument and the path of the leaf within it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import Trace, TracedValue, Value, concrete
from funcgrad._core.users_values import described, leaf_remedy, operand
from funcgrad._primitives.structural import cast
from funcgrad.errors import (
    DifferentiationError,
    DtypeError,
    FuncgradError,
    FunctionError,
    LeafError,
    ShapeError,
)
from funcgrad.tensor.tensor import wrap


def check_function(operation: str, f: object) -> None:
    """Check that something can be called.

    Raises
    ------
    FunctionError
        It cannot.
    """
    if not callable(f):
        raise FunctionError(f"{operation}: expected a function, got {_brief(f)}.")


def is_whole(x: Any) -> bool:
    """Whether something is a whole number, as positions and axes are, and no array.

    >>> is_whole(np.int64(2)), is_whole(2.0), is_whole(np.array(2))
    (True, False, False)
    """
    if isinstance(x, TracedValue | np.ndarray):
        return False
    try:
        index(x)
    except TypeError:
        return False
    return True


def forgotten(operation: str, what: str, value: object) -> str:
    """The message for an option that looks like an argument of the function: ``vmap(f, x)``.

    >>> print(forgotten("vmap", "in_axes has to be an integer", 2.0))
    vmap: in_axes has to be an integer, got 2.0. vmap(f) returns a function; call it: fg.vmap(f)(x).
    """
    return (
        f"{operation}: {what}, got {_brief(value)}. {operation}(f) returns a function; call it:"
        f" fg.{operation}(f)(x)."
    )


def _brief(x: object) -> str:
    if isinstance(x, TracedValue | np.ndarray):
        return f"an array of shape {shape_of(x)}"
    text = described(x) if isinstance(x, (list, tuple)) else repr(x)
    return text if len(text) < 60 else text[:57] + "..."


def check_argnums(operation: str, argnums: object, has_aux: object) -> None:
    """Check that ``argnums`` and ``has_aux`` are none of the function's arguments.

    Raises
    ------
    DifferentiationError
        ``argnums`` is neither an integer nor a sequence of integers, or ``has_aux`` is not a
        boolean.
    """
    if type(argnums) is int and type(has_aux) is bool:
        return
    for number in argnums if isinstance(argnums, (tuple, list)) else (argnums,):
        if not is_whole(number):
            what = "argnums has to be an integer or a tuple of integers"
            raise DifferentiationError(forgotten(operation, what, number))
    if not isinstance(has_aux, (bool, np.bool_)):
        raise DifferentiationError(forgotten(operation, "has_aux has to be True or False", has_aux))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arguments that ``argnums`` chose, as one list of leaves.

    Attributes
    ----------
    leaves : list of values
    structures : tuple of Structure
        One for each chosen argument.
    positions : tuple of int
    single : bool
        Whether ``argnums`` was a number rather than a tuple.
    """

    leaves: list[Value]
    structures: tuple[Structure, ...]
    positions: tuple[int, ...]
    single: bool

    def trees(self, leaves: Sequence[Any]) -> list[Any]:
        """One tree for each chosen argument, with its leaves replaced."""
        if len(self.structures) == 1:
            return [pytrees.unflatten(self.structures[0], leaves)]
        built, start = [], 0
        for structure in self.structures:
            built.append(pytrees.unflatten(structure, leaves[start : start + structure.num_leaves]))
            start += structure.num_leaves
        return built

    @property
    def structure(self) -> Structure:
        """The structure of the tuple of the chosen arguments."""
        tokens = [token for structure in self.structures for token in structure.tokens]
        return Structure(((tuple, len(self.structures), None), *tokens))

    def result(self, leaves: Sequence[Any]) -> Any:
        """The trees of new leaves; only one tree if ``argnums`` was an integer."""
        built = self.trees(leaves)
        return built[0] if self.single else tuple(built)

    def arguments(self, args: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """All arguments, with new leaves in the chosen ones."""
        replaced = list(args)
        for position, tree in zip(self.positions, self.trees(leaves), strict=True):
            replaced[position] = tree
        return replaced


def choose(
    operation: str, f: Callable[..., Any], args: Sequence[Any], argnums: int | Sequence[int]
) -> Chosen:
    """The leaves of the chosen arguments, all with a floating-point or complex dtype.

    Raises
    ------
    DifferentiationError
        ``argnums`` is out of range or names an argument twice, or a leaf is an integer or a
        boolean.
    """
    check_function(operation, f)
    single = not isinstance(argnums, (tuple, list))
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    positions = tuple([_position(operation, f, number, len(args)) for number in numbers])
    if len(positions) > 1 and len(set(positions)) < len(positions):
        raise DifferentiationError(f"{operation}: argnums={argnums!r} names an argument twice.")
    leaves: list[Value] = []
    structures = []
    for position in positions:
        argument_leaves, structure = pytrees.flatten(args[position])
        leaves += differentiable(
            operation, argument_leaves, structure, partial(argument_name, f, position)
        )
        structures.append(structure)
    return Chosen(leaves, tuple(structures), positions, single)


def _position(operation: str, f: Callable[..., Any], number: Any, count: int) -> int:
    position = index(number)
    if not -count <= position < count:
        raise DifferentiationError(
            f"{operation}: argnums={number} is out of range:"
            f" {getattr(f, '__name__', 'the function')} was called with {count} positional"
            " argument(s). Arguments passed by keyword are not differentiated."
        )
    return position % count


def argument_name(f: Callable[..., Any], position: int) -> str:
    """The name of a positional parameter, for error messages."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return f"argument {position}"
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return named[position] if position < len(named) else f"argument {position}"


def values_of(
    operation: str, leaves: Sequence[Any], structure: Structure, name: Callable[[], str]
) -> list[Value]:
    """The values of leaves: concrete tensors unwrapped, arrays as they are now.

    Raises
    ------
    LeafError
        A leaf is not an array.
    """
    try:
        return [concrete(operand(leaf, operation)) for leaf in leaves]
    except FuncgradError:
        _refuse(operation, leaves, [name() + path for path in structure.paths()])
        raise


def call_values(
    operation: str, f: Callable[..., Any], leaves: Sequence[Any], structure: Structure
) -> list[Value]:
    """The values of the leaves of ``(args, kwargs)``; errors name the parameters of ``f``."""
    try:
        return [concrete(operand(leaf, operation)) for leaf in leaves]
    except FuncgradError:
        _refuse(operation, leaves, leaf_names(f, structure))
        raise


_MOST_STEPS: Final = 50
"""Leaves that lie deeper are named without the middle of their path."""


def leaf_names(f: Callable[..., Any], structure: Structure) -> tuple[str, ...]:
    """Name each leaf of ``(args, kwargs)`` by the argument that it is or is inside of."""
    argument_names: dict[str, str] = {}
    names = []
    for token, path in zip(structure.tokens, pytrees.walk(structure.tokens), strict=True):
        if token is not None:
            continue
        group, place = path[:2]
        if group == "[1]":
            argument_names[place] = place[2:-2]
        elif place not in argument_names:
            argument_names[place] = argument_name(f, int(place[1:-1]))
        if len(path) <= _MOST_STEPS:
            names.append(argument_names[place] + "".join(path[2:]))
        else:  # all names of a very deep tree would take memory with the square of its depth
            names.append(f"{argument_names[place]}{''.join(path[2:10])}...{''.join(path[-10:])}")
    return tuple(names)


def leaf_name(f: Callable[..., Any], structure: Structure, leaf: int) -> str:
    """Name one leaf of ``(args, kwargs)``, see ``leaf_names``; for error messages."""
    return leaf_names(f, structure)[leaf]


def _refuse(operation: str, leaves: Sequence[Any], places: Sequence[str]) -> None:
    """Raise an error for the first leaf that is not an array, with its path."""
    for leaf, place in zip(leaves, places, strict=True):
        try:
            operand(leaf, operation)
        except FuncgradError as error:
            raise type(error)(
                f"{operation}: {place}: {str(error).removeprefix(operation + ': ')}"
                + (f" {leaf_remedy(leaf)}" if isinstance(error, LeafError) else "")
            ) from None


def differentiable(
    operation: str, leaves: Sequence[Any], structure: Structure, name: Callable[[], str]
) -> list[Value]:
    """The values of leaves, after a check that each has a floating or complex dtype.

    Raises
    ------
    DifferentiationError
        A leaf is an integer or a boolean.
    """
    values = values_of(operation, leaves, structure, name)
    for position, value in enumerate(values):
        if not is_inexact(dtype_of(value)):
            raise DifferentiationError(
                f"{operation}: {name()}{structure.paths()[position]} is of dtype {dtype_of(value)}:"
                " only floating-point and complex values have derivatives. Write 2.0 rather than"
                " 2, or x.astype(float), or leave this argument out of argnums. In a class of your"
                " own, declare a size with fg.static_field()."
            )
    return values


def check_complex(operation: str, dtypes: Sequence[np.dtype[Any]]) -> None:
    """Check that arguments and results of a holomorphic function are complex."""
    if any(dtype.kind != "c" for dtype in dtypes):
        raise DifferentiationError(
            f"{operation}: with holomorphic=True arguments and results have to be complex, but"
            f" their dtypes are {', '.join(map(str, dtypes))}."
        )


def scalar(operation: str, value: Value, holomorphic: bool = False) -> None:
    """Check that a function's result is one real number, or one number where it is holomorphic."""
    shape, dtype = shape_of(value), dtype_of(value)
    if shape:
        raise DifferentiationError(
            f"{operation}: the function has to return one number, but returned an array of shape"
            f" {shape}, not a scalar. Reduce it, with fnp.sum or fnp.mean, or use fg.jacrev"
            " for all derivatives or fg.vjp for a chosen combination of them."
        )
    if dtype.kind == "c" and not holomorphic:
        raise DifferentiationError(
            f"{operation}: the function has to return a real number, but returned {dtype}. Take"
            " .real, .imag or abs() of it, or use fg.vjp; holomorphic=True is for f'(z)."
        )
    if dtype.kind not in "fc":
        raise DifferentiationError(
            f"{operation}: the function returned {dtype}, whose derivative is zero everywhere."
            " Return a floating-point number."
        )


def pair(operation: str, out: Any) -> tuple[Any, Any]:
    """Check that a function with ``has_aux`` returned a pair, and return it."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise DifferentiationError(
            f"{operation}: with has_aux=True the function has to return a pair (value, aux), but it"
            f" returned {described(out)}."
        )
    return out


def released(trace: Trace, tree: Any) -> Any:
    """A tree with a trace's tracers replaced by the values inside them."""

    def inner(leaf: Any) -> Any:
        is_followed = isinstance(leaf, TracedValue) and leaf._trace is trace
        return wrap(trace.inner(leaf)) if is_followed else leaf

    return pytrees.map(inner, tree)


def like(
    operation: str, name: str, tree: Any, structure: Structure, specs: Sequence[Spec]
) -> list[Value]:
    """The leaves of tangents or cotangents, checked against their primals.

    A leaf is None where its primal has no tangent, being an integer or a boolean. Python numbers,
    integers and booleans take the primal's dtype.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        The tree, a shape or a dtype differs from the primal's.
    """
    tangents = pytrees.flatten_like(structure, tree, f"{operation}: {name}")
    values = values_of(operation, tangents, structure, lambda: name)
    return [
        _checked(operation, name, structure, position, value, spec)
        for position, (value, spec) in enumerate(zip(values, specs, strict=True))
    ]


def _checked(
    operation: str, name: str, structure: Structure, position: int, value: Value, spec: Spec
) -> Value:
    if not is_inexact(spec.dtype):
        return None
    value_spec = spec_of(value)
    if value_spec.shape != spec.shape:
        raise ShapeError(
            f"{operation}: {name}{structure.paths()[position]}: expected shape {spec.shape}, got"
            f" {value_spec.shape}. It has to have the shape of the value that it belongs to."
        )
    if value_spec.weak and (value_spec.dtype.kind != "c" or spec.dtype.kind == "c"):
        return spec.dtype.type(value)
    if value_spec.dtype.kind in "biu":
        return cast(value, dtype=spec.dtype)  # directions are often written as [1, 0]
    if value_spec.dtype != spec.dtype:
        raise DtypeError(
            f"{operation}: {name}{structure.paths()[position]}: expected dtype {spec.dtype}, got"
            f" {value_spec.dtype}. Convert it with .astype({str(spec.dtype)!r})."
        )
    return value


def unwrap(out: Any, operation: str) -> Value:
    """The value of a result that has to be one number."""
    if not isinstance(out, (list, tuple)):
        try:
            return concrete(operand(out, operation))
        except LeafError:
            pass
    raise DifferentiationError(
        f"{operation}: the function has to return one number, but returned {described(out)}, which"
        " is not a scalar. To return further results, use has_aux=True."
    )
