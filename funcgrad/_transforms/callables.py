"""The types of transformed functions: how the type of ``grad(f)`` follows from the type of ``f``.

The gradient in an array is a tensor, whatever kind of array or number ``f`` is declared for; in any
other tree it is a tree of the same type. Each protocol says so by overloads of its call, the first
for arrays. They stand there, not at ``grad``, so that the body of a lambda is not checked as a
function of arrays only.

>>> import funcgrad as fg
>>> def loss(scale: float) -> float:
...     return scale**2
>>> gradient: Gradient[float, []] = fg.grad(loss)
>>> slope: fg.Tensor = gradient(3.0)
>>> slope
Tensor(6.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from funcgrad.tensor.tensor import Tensor

Argnums: TypeAlias = "int | Sequence[int]"

Axes: TypeAlias = "int | tuple[Any, ...] | list[Any] | dict[Any, Any] | None"
"""The axes to map over: one for all arguments, or one for each, which may be a tree of axes."""

Array: TypeAlias = "Tensor | np.ndarray[Any, Any] | complex"
"""The types of an argument that is one array."""

P = ParamSpec("P")
# Bound to Any, so that an untyped lambda's body is not checked as a function of ``object``.
Primal = TypeVar("Primal", bound=Any)
Second = TypeVar("Second", bound=Any)
Result = TypeVar("Result")
Auxiliary = TypeVar("Auxiliary")
ArrayT = TypeVar("ArrayT", bound="Tensor | np.ndarray[Any, Any] | np.generic[Any] | complex")
"""The types that a function may declare for one array."""

_SecondArray = TypeVar(
    "_SecondArray", bound="Tensor | np.ndarray[Any, Any] | np.generic[Any] | complex"
)
_Given = TypeVar("_Given", bound=Any, contravariant=True)
_SecondGiven = TypeVar("_SecondGiven", bound=Any, contravariant=True)
_OfArray = TypeVar("_OfArray", covariant=True)
_OfSecondArray = TypeVar("_OfSecondArray", covariant=True)
_OfArrays = TypeVar("_OfArrays", covariant=True)
_Out = TypeVar("_Out", covariant=True)


class FirstDerivative(Protocol[_Given, P, _OfArray, _Out]):
    """A function whose result is ``_OfArray`` if its first argument is an array, else ``_Out``."""

    @overload
    def __call__(
        self: FirstDerivative[ArrayT, P, Result, Any],
        x: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...
    @overload
    def __call__(self, x: _Given, /, *args: P.args, **kwargs: P.kwargs) -> _Out: ...


class SecondDerivative(Protocol[_Given, _SecondGiven, P, _OfArray, _Out]):
    """A function whose result is ``_OfArray`` if its second argument is an array, else ``_Out``."""

    @overload
    def __call__(
        self: SecondDerivative[Primal, ArrayT, P, Result, Any],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...
    @overload
    def __call__(
        self, x: _Given, y: _SecondGiven, /, *args: P.args, **kwargs: P.kwargs
    ) -> _Out: ...


class BothDerivatives(Protocol[_Given, _SecondGiven, P, _OfArrays, _OfArray, _OfSecondArray, _Out]):
    """A function with a result for each choice of arrays and trees as its first two arguments."""

    @overload
    def __call__(
        self: BothDerivatives[ArrayT, _SecondArray, P, Result, Any, Any, Any],
        x: Array,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...
    @overload
    def __call__(
        self: BothDerivatives[ArrayT, Second, P, Any, Result, Any, Any],
        x: Array,
        y: Second,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...
    @overload
    def __call__(
        self: BothDerivatives[Primal, _SecondArray, P, Any, Any, Result, Any],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...
    @overload
    def __call__(
        self, x: _Given, y: _SecondGiven, /, *args: P.args, **kwargs: P.kwargs
    ) -> _Out: ...


Gradient: TypeAlias = FirstDerivative[Primal, P, Tensor, Primal]
"""``grad(f)``."""

GradientAndAux: TypeAlias = FirstDerivative[
    Primal, P, tuple[Tensor, Auxiliary], tuple[Primal, Auxiliary]
]
"""``grad(f, has_aux=True)``."""

SecondGradient: TypeAlias = SecondDerivative[Primal, Second, P, Tensor, Second]
"""``grad(f, argnums=1)``."""

Gradients: TypeAlias = BothDerivatives[
    Primal,
    Second,
    P,
    tuple[Tensor, Tensor],
    tuple[Tensor, Second],
    tuple[Primal, Tensor],
    tuple[Primal, Second],
]
"""``grad(f, argnums=(0, 1))``."""

ValueAndGradient: TypeAlias = FirstDerivative[
    Primal, P, tuple[Tensor, Tensor], tuple[Tensor, Primal]
]
"""``value_and_grad(f)``."""

ValueGradientAndAux: TypeAlias = FirstDerivative[
    Primal, P, tuple[tuple[Tensor, Auxiliary], Tensor], tuple[tuple[Tensor, Auxiliary], Primal]
]
"""``value_and_grad(f, has_aux=True)``."""

ValueAndSecondGradient: TypeAlias = SecondDerivative[
    Primal, Second, P, tuple[Tensor, Tensor], tuple[Tensor, Second]
]
"""``value_and_grad(f, argnums=1)``."""

ValueAndGradients: TypeAlias = BothDerivatives[
    Primal,
    Second,
    P,
    tuple[Tensor, tuple[Tensor, Tensor]],
    tuple[Tensor, tuple[Tensor, Second]],
    tuple[Tensor, tuple[Primal, Tensor]],
    tuple[Tensor, tuple[Primal, Second]],
]
"""``value_and_grad(f, argnums=(0, 1))``."""


class GradientMaker(Protocol):
    """The decorator ``grad(holomorphic=…)``."""

    def __call__(self, f: Callable[Concatenate[Primal, P], Any], /) -> Gradient[Primal, P]: ...


class GradientAndAuxMaker(Protocol):
    """The decorator ``grad(has_aux=True)``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, P], tuple[Any, Auxiliary]], /
    ) -> GradientAndAux[Primal, P, Auxiliary]: ...


class SecondGradientMaker(Protocol):
    """The decorator ``grad(argnums=1)``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, Second, P], Any], /
    ) -> SecondGradient[Primal, Second, P]: ...


class GradientsMaker(Protocol):
    """The decorator ``grad(argnums=(0, 1))``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, Second, P], Any], /
    ) -> Gradients[Primal, Second, P]: ...


class ValueAndGradientMaker(Protocol):
    """The decorator ``value_and_grad(holomorphic=…)``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, P], Any], /
    ) -> ValueAndGradient[Primal, P]: ...


class ValueGradientAndAuxMaker(Protocol):
    """The decorator ``value_and_grad(has_aux=True)``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, P], tuple[Any, Auxiliary]], /
    ) -> ValueGradientAndAux[Primal, P, Auxiliary]: ...


class ValueAndSecondGradientMaker(Protocol):
    """The decorator ``value_and_grad(argnums=1)``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, Second, P], Any], /
    ) -> ValueAndSecondGradient[Primal, Second, P]: ...


class ValueAndGradientsMaker(Protocol):
    """The decorator ``value_and_grad(argnums=(0, 1))``."""

    def __call__(
        self, f: Callable[Concatenate[Primal, Second, P], Any], /
    ) -> ValueAndGradients[Primal, Second, P]: ...


class Jacobian(Protocol[_Given, P, _Out]):
    """``jacfwd(f)``, ``jacrev(f)`` and ``hessian(f)``: a tensor between arrays."""

    @overload
    def __call__(
        self: Jacobian[ArrayT, P, _SecondArray], x: Array, /, *args: P.args, **kwargs: P.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(self, x: _Given, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class JacobianTransformation(Protocol):
    """``jacfwd``, ``jacrev`` and ``hessian``."""

    @overload
    def __call__(
        self,
        f: Callable[Concatenate[Primal, P], Result],
        argnums: Literal[0] = 0,
        has_aux: Literal[False] = False,
        holomorphic: bool = False,
        batch_size: int | None = None,
    ) -> Jacobian[Primal, P, Result]: ...
    @overload
    def __call__(
        self,
        f: Callable[P, tuple[Any, Auxiliary]],
        argnums: Argnums = 0,
        *,
        has_aux: Literal[True],
        holomorphic: bool = False,
        batch_size: int | None = None,
    ) -> Callable[P, tuple[Any, Auxiliary]]: ...
    @overload
    def __call__(
        self,
        f: Callable[..., Any],
        argnums: Argnums = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        batch_size: int | None = None,
    ) -> Callable[..., Any]: ...


class Pullback(Protocol[_Given]):
    """The second result of ``vjp``: from a cotangent like the function's result."""

    @overload
    def __call__(self: Pullback[ArrayT], cotangent: Array, /) -> tuple[Any, ...]: ...
    @overload
    def __call__(
        self, cotangent: _Given | tuple[Any, ...] | list[Any] | dict[Any, Any], /
    ) -> tuple[Any, ...]: ...
