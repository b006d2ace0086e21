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
_Aux = TypeVar("_Aux", covariant=True)
_Out = TypeVar("_Out", covariant=True)
_Given = TypeVar("_Given", bound=Any, contravariant=True)


class Gradient(Protocol[Primal, P]):
    """``grad(f)``."""

    @overload
    def __call__(
        self: Gradient[ArrayT, P], x: Array, /, *args: P.args, **kwargs: P.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(self, x: Primal, /, *args: P.args, **kwargs: P.kwargs) -> Primal: ...


class GradientAndAux(Protocol[Primal, P, _Aux]):
    """``grad(f, has_aux=True)``."""

    @overload
    def __call__(
        self: GradientAndAux[ArrayT, P, Auxiliary], x: Array, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Tensor, Auxiliary]: ...
    @overload
    def __call__(self, x: Primal, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Primal, _Aux]: ...


class SecondGradient(Protocol[_Given, Second, P]):
    """``grad(f, argnums=1)``."""

    @overload
    def __call__(
        self: SecondGradient[Primal, ArrayT, P],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Tensor: ...
    @overload
    def __call__(self, x: _Given, y: Second, /, *args: P.args, **kwargs: P.kwargs) -> Second: ...


class Gradients(Protocol[Primal, Second, P]):
    """``grad(f, argnums=(0, 1))``."""

    @overload
    def __call__(
        self: Gradients[ArrayT, _SecondArray, P],
        x: Array,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self: Gradients[ArrayT, Second, P],
        x: Array,
        y: Second,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, Second]: ...
    @overload
    def __call__(
        self: Gradients[Primal, _SecondArray, P],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Primal, Tensor]: ...
    @overload
    def __call__(
        self, x: Primal, y: Second, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Primal, Second]: ...


class ValueAndGradient(Protocol[Primal, P]):
    """``value_and_grad(f)``."""

    @overload
    def __call__(
        self: ValueAndGradient[ArrayT, P], x: Array, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self, x: Primal, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Tensor, Primal]: ...


class ValueGradientAndAux(Protocol[Primal, P, _Aux]):
    """``value_and_grad(f, has_aux=True)``."""

    @overload
    def __call__(
        self: ValueGradientAndAux[ArrayT, P, Auxiliary],
        x: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[tuple[Tensor, Auxiliary], Tensor]: ...
    @overload
    def __call__(
        self, x: Primal, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[tuple[Tensor, _Aux], Primal]: ...


class ValueAndSecondGradient(Protocol[_Given, Second, P]):
    """``value_and_grad(f, argnums=1)``."""

    @overload
    def __call__(
        self: ValueAndSecondGradient[Primal, ArrayT, P],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self, x: _Given, y: Second, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Tensor, Second]: ...


class ValueAndGradients(Protocol[Primal, Second, P]):
    """``value_and_grad(f, argnums=(0, 1))``."""

    @overload
    def __call__(
        self: ValueAndGradients[ArrayT, _SecondArray, P],
        x: Array,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    @overload
    def __call__(
        self: ValueAndGradients[ArrayT, Second, P],
        x: Array,
        y: Second,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, tuple[Tensor, Second]]: ...
    @overload
    def __call__(
        self: ValueAndGradients[Primal, _SecondArray, P],
        x: Primal,
        y: Array,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[Tensor, tuple[Primal, Tensor]]: ...
    @overload
    def __call__(
        self, x: Primal, y: Second, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Tensor, tuple[Primal, Second]]: ...


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
    ) -> Jacobian[Primal, P, Result]: ...
    @overload
    def __call__(
        self,
        f: Callable[P, tuple[Any, Auxiliary]],
        argnums: Argnums = 0,
        *,
        has_aux: Literal[True],
        holomorphic: bool = False,
    ) -> Callable[P, tuple[Any, Auxiliary]]: ...
    @overload
    def __call__(
        self,
        f: Callable[..., Any],
        argnums: Argnums = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
    ) -> Callable[..., Any]: ...


class Pullback(Protocol[_Given]):
    """The second result of ``vjp``: from a cotangent like the function's result."""

    @overload
    def __call__(self: Pullback[ArrayT], cotangent: Array, /) -> tuple[Any, ...]: ...
    @overload
    def __call__(
        self, cotangent: _Given | tuple[Any, ...] | list[Any] | dict[Any, Any], /
    ) -> tuple[Any, ...]: ...
