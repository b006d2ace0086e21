"""Functions of another library as operations of funcgrad, whose derivatives are the library's.

>>> of_smooth, smooth, filled = _smooth_part(
...     lambda x, n: x * n, (np.ones(2), np.array(3)), lambda x: x.dtype.kind in "fc"
... )
>>> of_smooth(*smooth), filled([np.ones(2)])[0]
((array([3., 3.]),), array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad.extend import ForeignFunction, foreign

Array = np.ndarray[Any, Any]  # or another library's

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """How another library runs, differentiates and batches functions of its arrays.

    Attributes
    ----------
    on_arrays : callable
        Makes a function of the library's arrays one of NumPy's.
    result : callable
        From a function of the library's arrays to one from the specs of arguments to those of the
        result.
    jvp, vjp, vmap : callable
        The library's own: ``jvp(f, primals, tangents)``, ``vjp(f, *primals)`` and ``vmap(f)``.
    is_smooth : callable
        Whether an array has a dtype that can be differentiated.
    conj : callable
        Between the library's cotangents and ours.
    """

    on_arrays: Callable[[Function], Function]
    result: Callable[[Function], Function]
    jvp: Function
    vjp: Function
    vmap: Callable[[Function], Function]
    is_smooth: Callable[[Array], bool]
    conj: Callable[[Array], Array]


def lifted(library: ArrayLibrary, function: Function, name: str) -> ForeignFunction:
    """Make a function of another library an operation, with derivatives of every order."""

    def pushing(args: Any, tangents: Any) -> Any:
        of_smooth, smooth, _ = _smooth_part(function, args, library.is_smooth)
        moved = tuple(filter(library.is_smooth, pytrees.leaves(tangents)))
        _, pushed = library.jvp(of_smooth, tuple(smooth), moved)
        remaining = iter(pushed)
        return pytrees.map(
            lambda x: next(remaining) if library.is_smooth(x) else x * 0, function(*args)
        )

    def pulling(args: Any, ct: Any) -> Any:
        of_smooth, smooth, filled = _smooth_part(function, args, library.is_smooth)
        _, pull = library.vjp(of_smooth, *smooth)
        seeds = filter(library.is_smooth, pytrees.leaves(ct))
        return filled(map(library.conj, pull(tuple(map(library.conj, seeds)))))

    @cache
    def pushed() -> ForeignFunction:
        return lifted(library, pushing, f"jvp of {name}")

    @cache
    def pulled() -> ForeignFunction:
        return lifted(library, pulling, f"vjp of {name}")

    run = library.on_arrays(function)
    run.__name__ = name
    return foreign(
        run,
        library.result(function),
        jvp=lambda primals, out, tangents: pushed()(primals, tangents),
        vjp=lambda primals, out, ct: pulled()(primals, ct),
        batch=library.on_arrays(lambda *args: library.vmap(function)(*args)),
    )


def _smooth_part(
    function: Function, args: Iterable[Any], is_smooth: Callable[[Array], bool]
) -> tuple[Callable[..., tuple[Array, ...]], list[Array], Callable[[Iterable[Array]], Any]]:
    """A function of the arrays that can be differentiated.

    Returns
    -------
    of_smooth : callable
        From these arrays to the results that can be differentiated.
    smooth : list of arrays
        Those among the leaves of the arguments.
    filled : callable
        From such results to a tree like the arguments, with zeros at the other leaves.
    """
    leaves, form = pytrees.flatten(tuple(args))
    flags = [is_smooth(x) for x in leaves]

    def joined(values: Iterable[Array], others: Iterable[Array]) -> Any:
        remaining: Iterator[Array] = iter(values)
        pairs = zip(others, flags, strict=True)
        return pytrees.unflatten(form, [next(remaining) if flag else x for x, flag in pairs])

    def of_smooth(*moved: Array) -> tuple[Array, ...]:
        return tuple(filter(is_smooth, pytrees.leaves(function(*joined(moved, leaves)))))

    def filled(values: Iterable[Array]) -> Any:
        return joined(values, [x * 0 for x in leaves])

    return of_smooth, list(filter(is_smooth, leaves)), filled
