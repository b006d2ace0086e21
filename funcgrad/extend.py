"""Declare operations and transformations of your own.

An operation is one frozen record of its rules, written with the functions of ``funcgrad.numpy``.
From this record follow derivatives in both modes and at every order, ``vmap``, ``jit``, costs,
printing and saving, without another line of code.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> gudermannian = elementwise(  # gd x = 2 arctan(tanh(x / 2)), whose derivative is cos(gd x)
...     "gudermannian",
...     formula=lambda m, x: 2 * m.arctan(m.tanh(x / 2)),
...     partials=(lambda y, _: fnp.cos(y),),
...     samples=reals(-3, 3),
... )
>>> def gd(x):
...     return apply(gudermannian, x)
>>> gd([0.0, 0.5]), fg.vmap(fg.grad(gd))(fg.tensor([0.0, 1.0]))
(Tensor([0.        , 0.48038108]), Tensor([1.        , 0.64805427]))

``fg.testing.check_primitive(gudermannian)`` checks all rules at all samples.

A transformation of your own is a ``Trace``, which interprets operations on its tracers; the page
``funcgrad/_transforms/README.md`` has an example.

A saved program names an operation by its module and variable, so define operations that are to be
saved at the top level of a module. A package offers its operations to others by entry points of
the group ``funcgrad.operations``, and a backend by the group ``funcgrad.backends``: see
``installed_operations``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import update_wrapper, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from funcgrad._core.primitive import (
    DISCRETE,
    OPPOSITE,
    SAME,
    Kinks,
    Linear,
    Linearized,
    Partials,
    Primitive,
    Sample,
    Selection,
)
from funcgrad._core.specs import Spec, check_axes
from funcgrad._core.structure import folds
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import IndexArray, Places, chosen_places
from funcgrad._core.structure.structures import (
    COMMUTATIVE,
    CONVERTS,
    JUMPS,
    OWNS,
    PRODUCT,
    ROUNDED_ONCE,
    TRANSCENDENTAL,
    UNEVEN,
    WRITES_INTO,
    AlongAxis,
    Choice,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Loop,
    Movement,
    Opaque,
    Ordering,
    Random,
    Reduction,
    RowProducts,
    Scan,
    Scatter,
    Structure,
    Trait,
    WindowProducts,
)
from funcgrad._core.trace import Raw, Trace, begin_level, bind
from funcgrad._core.users_values import ArrayLike
from funcgrad._external.foreign_function import ForeignFunction, foreign
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, reals
from funcgrad._primitives.elementwise_rules import batch_elementwise, elementwise_result
from funcgrad._primitives.movement import movement
from funcgrad._primitives.recurrence import batch_along_axis
from funcgrad._primitives.reduction import batch_reduction
from funcgrad._primitives.reduction import reduction as _reduction
from funcgrad._primitives.reduction_samples import numbers
from funcgrad._programs.origins import operations_line
from funcgrad._transforms.tracer import Tracer
from funcgrad.tensor.tensor import Tensor, apply, wrap

__all__ = [
    "COMMUTATIVE",
    "CONVERTS",
    "DISCRETE",
    "JUMPS",
    "OPPOSITE",
    "OWNS",
    "PRODUCT",
    "ROUNDED_ONCE",
    "SAME",
    "TRANSCENDENTAL",
    "UNEVEN",
    "WRITES_INTO",
    "AlongAxis",
    "Choice",
    "Contraction",
    "Control",
    "Elementwise",
    "Factored",
    "Factorization",
    "Factors",
    "Fold",
    "ForeignFunction",
    "FromFactors",
    "Gather",
    "IndexArray",
    "Kinks",
    "Linear",
    "Linearized",
    "Loop",
    "Movement",
    "Opaque",
    "Ordering",
    "Partials",
    "Places",
    "Primitive",
    "Random",
    "Reduction",
    "RowProducts",
    "Sample",
    "Scan",
    "Scatter",
    "Selection",
    "Spec",
    "Structure",
    "Trace",
    "Tracer",
    "Trait",
    "WindowProducts",
    "apply",
    "apply_several",
    "batch_along_axis",
    "batch_elementwise",
    "batch_reduction",
    "begin_level",
    "bind",
    "chosen_places",
    "combined",
    "complexes",
    "edges",
    "elementwise",
    "elementwise_result",
    "folds",
    "foreign",
    "installed_operations",
    "movement",
    "numbers",
    "operations_line",
    "reals",
    "reduction",
]


_Declaring = TypeVar("_Declaring", bound=Callable[..., Primitive])


def _checking_axes(declare: _Declaring) -> _Declaring:
    """Let reductions require axes that are a tuple of non-negative integers, as rules expect."""

    def declared(name: str, evaluate: Callable[..., Raw], **options: object) -> Primitive:
        @wraps(evaluate)
        def checked(x: Raw, axis: object, keepdims: bool, **params: Hashable) -> Raw:
            check_axes(name, axis, np.ndim(x))
            return evaluate(x, axis=axis, keepdims=keepdims, **params)

        return declare(name, checked, **options)

    checking: Any = update_wrapper(declared, declare)
    return checking


reduction = _checking_axes(_reduction)


def apply_several(primitive: Primitive, *args: ArrayLike, **params: Hashable) -> tuple[Tensor, ...]:
    """Apply an operation with several results to a user's arguments; ``apply`` is for one."""
    outs: Any = apply(primitive, *args, **params)  # several values; apply wraps one result
    return tuple([wrap(out) for out in outs])


def installed_operations() -> Mapping[str, Primitive]:
    """Find the operations that other installed packages offer.

    A package offers an operation by an entry point of the group ``funcgrad.operations`` in its
    ``pyproject.toml``: ``gudermannian = "angles:gudermannian"`` names a module and a variable. The
    module is imported when the operation is looked up.

    Returns
    -------
    mapping from str to Primitive
        The operations by name. ``fg.testing.check_primitive`` checks one.

    Raises
    ------
    ArgumentError
        By a look-up, if no package offers the name.
    MissingPackageError
        By a look-up, if the package that offers it cannot be imported.

    Examples
    --------
    >>> from funcgrad import extend
    >>> "an operation that no package has" in extend.installed_operations()
    False
    """
    from funcgrad._hints.entry_points import EntryPoints

    return EntryPoints("funcgrad.operations", "installed_operations")


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
