"""Functions of one element or one row, called for all of them.

They call a user's function as NumPy does, once for each element or row, so the function may branch
on values. If it does not, ``fg.vmap`` is faster: it calls the function once for all.

>>> apply_along_axis(lambda row: row[0] + row[-1], 1, [[1.0, 2.0], [3.0, 4.0]])
Tensor([3., 7.])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import Shape, broadcast_shapes, normalize_axis
from funcgrad._core.users_values import checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, FunctionError, ShapeError
from funcgrad.numpy.creation import asarray, astype
from funcgrad.numpy.joining import stack
from funcgrad.numpy.manipulation import broadcast_to, expand_dims, moveaxis
from funcgrad.numpy.options import integers
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor


@answering
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: object, **kwargs: object
) -> Tensor:
    """Call a function for each row along an axis.

    Parameters
    ----------
    func1d : callable
        A function of a row, which is 1-d, and ``args`` and ``kwargs``. Its results have one shape,
        and are converted to the dtype of the first.
    axis : int
    arr : array_like
    *args, **kwargs : object
        Further arguments of ``func1d``.

    Returns
    -------
    Tensor
        The results, whose axes replace the axis.

    Raises
    ------
    ShapeError
        The array has no rows, or results differ in shape.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> apply_along_axis(fnp.sort, 0, [[3.0, 1.0], [2.0, 4.0]])
    Tensor([[2., 1.],
            [3., 4.]])
    """
    check_callable(func1d, "apply_along_axis")
    array = asarray(operand(arr, "apply_along_axis"))
    along = normalize_axis(axis, array.ndim, "apply_along_axis")
    rows = moveaxis(array, along, -1)
    lead = rows.shape[:-1]
    if 0 in lead:
        raise ShapeError(
            f"apply_along_axis: the shape {array.shape} has no row along axis {along} to call the"
            " function with."
        )
    results = [func1d(rows[place], *args, **kwargs) for place in np.ndindex(lead)]
    return moveaxis(
        _together(results, lead, "apply_along_axis"),
        list(range(len(lead)))[along:],
        [place - len(lead) for place in range(len(lead))[along:]],
    )


@answering
def apply_over_axes(
    func: Callable[[Tensor, int], ArrayLike], a: ArrayLike, axes: int | Sequence[int]
) -> Tensor:
    """Call a function of an array and an axis for one axis after the other.

    Parameters
    ----------
    func : callable
        It returns an array with the axis, or without it; then the axis is restored, with size 1.
    a : array_like
    axes : int or sequence of int

    Returns
    -------
    Tensor
        A tensor with as many axes as ``a``.

    Raises
    ------
    ShapeError
        The result of the function has neither as many axes as its argument nor one less.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> apply_over_axes(fnp.sum, [[1.0, 2.0], [3.0, 4.0]], (0, 1))
    Tensor([[10.]])
    """
    check_callable(func, "apply_over_axes")
    value = asarray(operand(a, "apply_over_axes"))
    rank = value.ndim
    for number in integers(axes, "apply_over_axes", "axes"):
        axis = normalize_axis(number, rank, "apply_over_axes")
        result = tensor(func(value, axis))
        value = expand_dims(result, axis) if result.ndim == rank - 1 else result
        if value.ndim != rank:
            raise ShapeError(
                f"apply_over_axes: the function returned the shape {result.shape} of an array of"
                f" {rank} axes; it may keep the axis or leave it out."
            )
    return value


_ARGUMENT: Final = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE: Final = re.compile(rf"(?:{_ARGUMENT}(?:,{_ARGUMENT})*)?->{_ARGUMENT}(?:,{_ARGUMENT})*")


class vectorize:  # noqa: N801 - NumPy's name
    """Make a function of elements a function of arrays, which broadcast.

    Parameters
    ----------
    pyfunc : callable
        A function of 0-d tensors, or, with a signature, of tensors with its core axes. It is called
        once for each place. Leave it out in ``@vectorize(signature=...)``.
    otypes : str or sequence of dtype, optional
        The dtypes of the results, by default taken from the first call.
    doc : str, optional
    excluded : set of int and str, optional
        Positions and names of arguments that are passed on unchanged.
    cache : bool
        Ignored: the function is never called twice for one place.
    signature : str, optional
        Core axes, as in ``"(m,n),(n)->(m)"``.

    Raises
    ------
    ShapeError
        The arguments are empty, and ``otypes`` and the signature do not determine the result; or
        core axes do not fit.

    Examples
    --------
    >>> import funcgrad as fg
    >>> larger = vectorize(lambda x, y: x if x > y else y * y)
    >>> larger([1.0, 5.0], 3.0)
    Tensor([9., 5.])
    >>> fg.jacrev(lambda x: larger(x, 3.0))(fg.tensor([1.0, 5.0]))
    Tensor([[0., 0.],
            [0., 1.]])
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any] | None = None,
        otypes: str | Iterable[Any] | None = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        if pyfunc is not None:
            check_callable(pyfunc, "vectorize")
        self.pyfunc = pyfunc
        self.otypes = None if otypes is None else [checked_dtype(t, "vectorize") for t in otypes]
        self.excluded = frozenset(() if excluded is None else excluded)
        self.signature = signature
        self._cores = None if signature is None else _parsed(signature)
        self._doc = doc
        self.__doc__ = getattr(pyfunc, "__doc__", None) if doc is None else doc
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> Any:
        """The results for all elements, or, as a decorator, the vectorized function."""
        if self.pyfunc is None:
            (function,) = args
            excluded, signature = self.excluded, self.signature
            return vectorize(function, self.otypes, self._doc, excluded, signature=signature)
        keys: list[int | str] = [*range(len(args)), *kwargs]
        arguments = dict(zip(keys, [*args, *kwargs.values()], strict=True))
        arrays = {k: tensor(arguments[k]) for k in keys if k not in self.excluded}
        cores = self._cores[0] if self._cores else [()] * len(arrays)
        if len(cores) != len(arrays):
            raise ArgumentError(
                f"vectorize: the signature {self.signature!r} is for {len(cores)} arguments, not"
                f" {len(arrays)}."
            )
        lead, sizes = _leading(list(arrays.values()), cores, self.signature)
        spread = {
            k: broadcast_to(x, (*lead, *x.shape[x.ndim - len(core) :]))
            for (k, x), core in zip(arrays.items(), cores, strict=True)
        }
        results = [
            self._one({k: spread[k][place] if k in spread else arguments[k] for k in keys})
            for place in np.ndindex(lead)
        ]
        if not results:
            return self._nothing(lead, sizes)
        outputs = tuple(
            _together(column, lead, "vectorize", None if self.otypes is None else self.otypes[n])
            for n, column in enumerate(zip(*results, strict=True))
        )
        return outputs[0] if len(outputs) == 1 else outputs

    def _one(self, arguments: dict[int | str, Any]) -> tuple[Any, ...]:
        """The results of one call."""
        assert self.pyfunc is not None
        positional = [value for key, value in arguments.items() if isinstance(key, int)]
        named = {key: value for key, value in arguments.items() if isinstance(key, str)}
        result = self.pyfunc(*positional, **named)
        return result if isinstance(result, tuple) else (result,)

    def _nothing(self, lead: Shape, sizes: dict[str, int]) -> Any:
        """The results for empty arguments."""
        outputs = self._cores[1] if self._cores else [()] * len(self.otypes or ())
        if self.otypes is None or any(name not in sizes for core in outputs for name in core):
            raise ShapeError(
                f"vectorize: the shape {lead} has no elements to call the function with;"
                " give otypes, and sizes of all core axes, to determine the result."
            )
        results = tuple(
            tensor(np.zeros((*lead, *[sizes[name] for name in core]), dtype))
            for core, dtype in zip(outputs, self.otypes, strict=True)
        )
        return results[0] if len(results) == 1 else results


def _parsed(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The core axes of arguments and of results."""
    text = re.sub(r"\s", "", signature)
    if not _SIGNATURE.fullmatch(text):
        raise ArgumentError(
            f'vectorize: a signature is written as "(m,n),(n)->(m)", not {signature!r}.'
        )
    first, second = (
        [tuple(re.findall(r"\w+", core)) for core in re.findall(_ARGUMENT, side)]
        for side in text.split("->")
    )
    return first, second


def _leading(
    arrays: Sequence[Tensor], cores: Sequence[tuple[str, ...]], signature: str | None
) -> tuple[Shape, dict[str, int]]:
    """The shape that is looped over, and the sizes of core axes."""
    sizes: dict[str, int] = {}
    leads: list[Shape] = []
    for x, core in zip(arrays, cores, strict=True):
        cut = x.ndim - len(core)
        if cut < 0:
            raise ShapeError(f"vectorize: {x.shape} lacks the core axes {core} of {signature!r}.")
        leads.append(x.shape[:cut])
        for name, size in zip(core, x.shape[cut:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ShapeError(
                    f"vectorize: the core axis {name} of {signature!r} has the sizes {sizes[name]}"
                    f" and {size}."
                )
    return broadcast_shapes("vectorize", *leads), sizes


def _together(
    results: Sequence[Any], lead: Shape, operation: str, dtype: np.dtype[Any] | None = None
) -> Tensor:
    """Results in the shape that was looped over, in the dtype of the first one."""
    parts = [tensor(result) for result in results]
    shapes = {value.shape for value in parts}
    if len(shapes) > 1:
        raise ShapeError(
            f"{operation}: the function returned different shapes, {sorted(shapes)[:3]}."
        )
    kind = parts[0].dtype if dtype is None else dtype
    return stack([astype(value, kind) for value in parts]).reshape((*lead, *parts[0].shape))


def check_callable(function: object, operation: str) -> None:
    """Refuse an object that is not a function.

    Raises
    ------
    FunctionError
        The object cannot be called.
    """
    if not callable(function):
        raise FunctionError(f"{operation}: expected a function, got {type(function).__name__}.")
