"""Types of values that loops carry and branches return, from the types of the user's functions.

A start that is one array or number comes back as a tensor, whichever kind of array or number the
function is declared for. A container may hold Python numbers at the start although the function is
declared for tensors, so the result then has the type that the function returns.

The type of a function of one array is a union of callables, one for each kind of array that it may
be declared for: type checkers then let the argument of a lambda be anything.

>>> import funcgrad as fg
>>> def halved(x: float) -> float:
...     return x / 2
>>> end: fg.Tensor = fg.fori_loop(0, 3, lambda i, x: halved(x), 8.0)
>>> end
Tensor(1.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from funcgrad.tensor.tensor import Tensor

AnyNumber: TypeAlias = "Tensor | np.ndarray[Any, Any] | np.generic[Any] | complex"
"""One array or number."""

Truth: TypeAlias = "Tensor | np.ndarray[Any, Any] | np.bool[Any] | bool"
"""One truth value: a ``bool``, or an array of one."""

Bound: TypeAlias = "Tensor | np.ndarray[Any, Any] | SupportsIndex"
"""A bound of a range of integers."""

Containers: TypeAlias = "tuple[Any, ...] | list[Any] | dict[Any, Any]"
"""Pytrees that may hold Python numbers where a function is declared for tensors."""

# Bound to Any, so that an untyped lambda's body is not checked as a function of ``object``.
State = TypeVar("State", bound=Any)
Y = TypeVar("Y", bound=Any)
_Result = TypeVar("_Result", bound=Any)

_Array: TypeAlias = "Tensor | np.ndarray[Any, Any] | np.number[Any]"
_NumPys: TypeAlias = "np.ndarray[Any, Any]"

# A function that is declared for int, float or complex accepts a bool.
NumberCondition: TypeAlias = (
    Callable[[Tensor], Truth]
    | Callable[[_NumPys], Truth]
    | Callable[[np.float64], Truth]
    | Callable[[bool], Truth]
)
NumberStep: TypeAlias = (
    Callable[[Tensor], _Array]
    | Callable[[_NumPys], _Array]
    | Callable[[np.float64], AnyNumber]
    | Callable[[bool], AnyNumber]
)
NumberCountedStep: TypeAlias = (
    Callable[[Any, Tensor], _Array]
    | Callable[[Any, _NumPys], _Array]
    | Callable[[Any, np.float64], AnyNumber]
    | Callable[[Any, bool], AnyNumber]
)
NumberScanned: TypeAlias = (
    Callable[[Tensor, Any], tuple[_Array, Y]]
    | Callable[[_NumPys, Any], tuple[_Array, Y]]
    | Callable[[np.float64, Any], tuple[AnyNumber, Y]]
    | Callable[[bool, Any], tuple[AnyNumber, Y]]
)
NumberCombined: TypeAlias = (
    Callable[[Tensor, Tensor], _Array]
    | Callable[[_NumPys, _NumPys], _Array]
    | Callable[[np.float64, np.float64], AnyNumber]
    | Callable[[bool, bool], AnyNumber]
)

ParametricFunction: TypeAlias = (
    Callable[[State], _Result] | Callable[Concatenate[State, Any, ...], _Result]
)
"""A function of a state and parameters."""

ParametricSlope: TypeAlias = (
    Callable[[State, Any], _Result] | Callable[Concatenate[State, Any, Any, ...], _Result]
)
"""A function of a state, the time and parameters."""
