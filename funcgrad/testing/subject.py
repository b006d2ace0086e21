"""The subject of a check: a function of a list of arrays, and the point of the check.

Users' functions take and return pytrees, which may contain integers and flags. A ``Subject`` is
such a function, in which all arguments but the inexact arrays are fixed. The derivative of a
subject, in either mode, is a subject again: this way higher orders are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.users_values import operand
from funcgrad._hooks.key_uses import repetition
from funcgrad._primitives.complexes import conj
from funcgrad._transforms.arguments import argument_name, check_function, values_of
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import DifferentiationError
from funcgrad.numpy.options import mapping
from funcgrad.tensor.tensor import Tensor, tensor, wrap

Array: TypeAlias = np.ndarray[Any, Any]

Pytree: TypeAlias = Any
"""A user's tree: an argument or a result of a function, parameters, a layer."""

MODE_NAMES: Final = (("fwd", "forward mode"), ("rev", "reverse mode"))
"""The names of the modes in arguments and in messages."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A function to be checked at a point.

    Attributes
    ----------
    title : str
        The name of the user's function.
    function : callable
        A function of tensors that returns a list of tensors, all of inexact dtypes.
    point : tuple of Tensor
    names : tuple of str
        The path of each tensor of the point, such as ``params['w']``.
    modes : tuple of str
        The modes in which the user's function was differentiated to get this one, in order.
    values : tuple of ndarray
        The function's results at the point.
    result_names : tuple of str
        The path of each result.
    """

    title: str
    function: Callable[..., list[Tensor]]
    point: tuple[Tensor, ...]
    names: tuple[str, ...]
    modes: tuple[str, ...]
    values: tuple[Array, ...]
    result_names: tuple[str, ...]

    def values_at(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the values of the function at another point."""
        with quiet():
            return [np.asarray(value) for value in self.function(*[wrap(x) for x in arrays])]

    def is_real(self) -> bool:
        """Whether all arguments and results are real."""
        everything = (*self.point, *self.values)
        return not any(dtype_of(x).kind == "c" for x in everything)


def subject_of(
    operation: str, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Subject:
    """Make the subject of a user's function at given arguments.

    Parameters
    ----------
    operation : str
        The check, for messages.
    f : callable
    args : tuple or list of pytrees
        The arguments; leaves of integer or boolean dtypes are constant.
    kwargs : mapping or None
        Keyword arguments, which are constant.

    Raises
    ------
    DifferentiationError
        The arguments or the results have no inexact leaf.
    ArgumentError
        ``kwargs`` is not a mapping.
    """
    check_function(operation, f)
    if not isinstance(args, (tuple, list)):
        raise DifferentiationError(
            f"{operation}: args has to be a tuple with one entry for each argument, got"
            f" {type(args).__name__}. Write {operation}(f, (x,))."
        )
    keywords = mapping(kwargs, operation, "kwargs")
    leaves, names, structure = _leaves(operation, f, args)
    followed = [k for k, leaf in enumerate(leaves) if is_inexact(dtype_of(leaf))]
    if not followed:
        raise DifferentiationError(
            f"{operation}: no argument is floating-point or complex, so there is nothing to"
            " differentiate. Pass 2.0 rather than 2."
        )

    def evaluate(*differentiated: Any) -> tuple[list[Tensor], list[str]]:
        replaced = list(leaves)
        for k, leaf in zip(followed, differentiated, strict=True):
            replaced[k] = leaf
        with repetition():
            return _results(operation, f(*pytrees.unflatten(structure, replaced), **keywords))

    point = tuple([tensor(leaves[k]) for k in followed])
    with quiet():
        values, result_names = evaluate(*point)
    title = getattr(f, "__name__", type(f).__name__)
    if not values:
        raise DifferentiationError(
            f"{operation}: {title} returned no floating-point array, so there is nothing to check."
        )
    return Subject(
        title="the function" if title == "<lambda>" else title,
        function=lambda *differentiated: evaluate(*differentiated)[0],
        point=point,
        names=tuple([names[k] for k in followed]),
        modes=(),
        values=tuple([np.asarray(value) for value in values]),
        result_names=tuple(result_names),
    )


def _leaves(
    operation: str, f: Callable[..., Any], args: Sequence[Any]
) -> tuple[list[Any], list[str], pytrees.Structure]:
    leaves: list[Any] = []
    names: list[str] = []
    for position, arg in enumerate(args):
        arg_leaves, structure = pytrees.flatten(arg)
        name = argument_name(f, position)
        values = values_of(operation, arg_leaves, structure, partial(str, name))
        # A Python integer stays one, because it takes the dtype of arrays.
        leaves += [value if type(value) in (int, bool) else tensor(value) for value in values]
        names += [name + path for path in structure.paths()]
    return leaves, names, pytrees.structure(tuple(args))


def _results(operation: str, out: Any) -> tuple[list[Tensor], list[str]]:
    leaves, structure = pytrees.flatten(out)
    values = [wrap(operand(leaf, f"{operation}: the function's result")) for leaf in leaves]
    inexact = [
        (value, f"result{path}")
        for value, path in zip(values, structure.paths(), strict=True)
        if is_inexact(value.dtype)
    ]
    return [value for value, _ in inexact], [name for _, name in inexact]


def derivative(subject: Subject, mode: str, tangents: Sequence[Array], cts: Sequence[Array]) -> Any:
    """Return the derivative of a subject in one mode, as a subject at the same point.

    Parameters
    ----------
    subject : Subject
    mode : str
        ``"fwd"``: along the tangents. ``"rev"``: the pullback of the cotangents.
    tangents, cts : sequences of ndarray

    Returns
    -------
    Subject
    """

    def forward(*point: Tensor) -> list[Tensor]:
        directions = [_in_dtype_of(t, x) for t, x in zip(tangents, point, strict=True)]
        return jvp(subject.function, point, directions)[1]

    def reverse(*point: Tensor) -> list[Tensor]:
        outs, pullback = vjp(subject.function, *point)
        cotangents = [_in_dtype_of(ct, out) for ct, out in zip(cts, outs, strict=True)]
        # A conjugated pullback is holomorphic if the function is, as a complex step requires.
        return [wrap(conj(g)) if g.dtype.kind == "c" else g for g in pullback(cotangents)]

    function = forward if mode == "fwd" else reverse
    names = subject.result_names if mode == "fwd" else subject.names
    return Subject(
        title=subject.title,
        function=function,
        point=subject.point,
        names=subject.names,
        modes=(*subject.modes, mode),
        values=tuple([np.asarray(value) for value in function(*subject.point)]),
        result_names=tuple(
            [f"derivative of {name}" if mode == "fwd" else f"gradient in {name}" for name in names]
        ),
    )


def _in_dtype_of(array: Array, x: Tensor) -> Tensor:
    """Convert a constant direction to the dtype of its primal in this run."""
    return wrap(array.astype(x.dtype))
