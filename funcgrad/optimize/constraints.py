"""Constraints, and the augmented Lagrangian, which turns them into a term of the function.

A constraint is ``lower <= c(x) <= upper``. With its multipliers v and a weight w, the term is the
square of the distance of c + v / w from the interval; at a minimum the multipliers are corrected.
Sources: Rockafellar, "Augmented Lagrange multiplier functions and duality in nonconvex
programming", 1974; Nocedal and Wright, "Numerical optimization", 2006, chapter 17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError
from funcgrad.optimize.solver_arguments import chosen
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel


class Constraint(NamedTuple):
    """A function of the unknown, and the interval in which its values have to be."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    lower: Any
    upper: Any

    def at(self, x: Any) -> Limited:
        """The values and their limits, as vectors."""
        values = ravel(self.fun(x, *self.args))[0]
        lower, upper = (
            fnp.broadcast_to(fnp.asarray(end).astype(values.dtype), values.shape)
            for end in (self.lower, self.upper)
        )
        return Limited(values, lower, upper)


class Limited(NamedTuple):
    """Values of constraints with their limits, as vectors."""

    values: Tensor
    lower: Tensor
    upper: Tensor

    def outside(self, multipliers: Any, weight: Any) -> Tensor:
        """How far the values, shifted by multipliers, lie outside of their limits."""
        shifted = self.values + multipliers / weight
        return shifted - fnp.clip(shifted, self.lower, self.upper)

    def violation(self, multipliers: Any, weight: Any) -> Tensor:
        """The change of the multipliers that is left, in the units of the constraints.

        It is 0 where the values are within their limits, and the multipliers 0 but at a limit.
        """
        share = multipliers / weight
        shifted = self.values + share
        inside = fnp.where(shifted > self.upper, self.values - self.upper, -share)
        is_held = (shifted < self.lower) | (self.lower == self.upper)
        return fnp.where(is_held, self.values - self.lower, inside)


def joined_limits(all_limits: Sequence[Limited]) -> Limited:
    """The values of several constraints as one."""
    return Limited(*[fnp.concatenate(column) for column in zip(*all_limits, strict=True)])


def constraints_of(constraints: Any, name: str) -> tuple[Constraint, ...]:
    """Read SciPy's forms of constraints: dicts, and ``NonlinearConstraint``; one or several.

    Raises
    ------
    ArgumentError
        A constraint is of another form.
    """
    is_one = isinstance(constraints, Mapping) or not isinstance(constraints, Sequence)
    return tuple([_read(one, name) for one in ([constraints] if is_one else constraints)])


def _read(constraint: Any, name: str) -> Constraint:
    if isinstance(constraint, Mapping) and {"type", "fun"} <= set(constraint):
        kind = chosen(name, "the type of a constraint", constraint["type"], ("eq", "ineq"))
        fun, args = constraint["fun"], constraint.get("args", ())
        lower, upper = 0.0, (0.0 if kind == "eq" else np.inf)
    elif all(hasattr(constraint, word) for word in ("fun", "lb", "ub")):
        fun, lower, upper = attrgetter("fun", "lb", "ub")(constraint)
        args = ()
    else:
        raise placed(
            ArgumentError,
            f"{name}: a constraint is a dict {{'type': 'eq' or 'ineq', 'fun': function}} or a"
            f" scipy.optimize.NonlinearConstraint, not {constraint!r}. Write a linear constraint as"
            " a function.",
        )
    check_function(f"{name} with constraints", fun)
    return Constraint(fun, args if isinstance(args, tuple) else (args,), lower, upper)
