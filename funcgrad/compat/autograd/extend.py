"""Derivative rules for user functions: ``primitive``, ``defvjp``, ``defjvp`` and variants.

A primitive may be any Python function of arrays, such as a call of compiled code: it is called with
arrays, never with traced values. Rules are written in autograd's form and convention, with the
functions of ``funcgrad.compat.autograd.numpy``, so that they can be differentiated again.

>>> from funcgrad.compat.autograd import grad
>>> @primitive
... def cube(x):
...     return float(x) ** 3
>>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
>>> grad(cube)(2.0), grad(grad(cube))(2.0)
(np.float64(12.0), np.float64(12.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from itertools import count
from operator import index
from types import MethodType
from typing import TYPE_CHECKING, Any

from funcgrad._core import pytrees
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.custom import custom_jvp, custom_vjp
from funcgrad.compat.autograd.arrays import (
    conjugated,
    filled_like,
    getval,
    levels,
    like,
    plain,
    subval,
    subvals,
)
from funcgrad.compat.autograd.spaces import VSpace as VSpace
from funcgrad.compat.autograd.spaces import vspace as vspace
from funcgrad.errors import ArgumentError, DifferentiationError
from funcgrad.tensor.tensor import Tensor

Function = Callable[..., Any]
Box = Tensor


class MissingRuleError(DifferentiationError, NotImplementedError):
    """A primitive without the necessary rule was differentiated."""


class primitive:  # noqa: N801 - a decorator, under autograd's name
    """A function with derivatives from rules: ``defvjp``, ``defjvp``.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, scalars and containers of them. Other arguments, such as functions
        and strings, and keyword arguments are passed on unchanged.

    Notes
    -----
    One kind of rules is enough for both modes: the other mode follows by transposition, if the rule
    uses functions that have derivatives. With both kinds, each mode uses its rules. Under
    ``fg.vmap`` and ``fg.jit`` the function itself gets traced values, which compiled code refuses.
    """

    def __init__(self, f: Function) -> None:
        check_function("primitive", f)
        self.fun = f
        self._pull: Function | None = None
        self._push: Function | None = None
        update_wrapper(self, f, updated=())
        self.__name__: str = getattr(f, "__name__", type(f).__name__)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        followed = [k for k, arg in enumerate(args) if levels(arg)]
        if any(map(levels, kwargs.values())):
            raise DifferentiationError(
                f"primitive {self.__name__}: a rule knows arguments by their position, and a value"
                " that is differentiated came by keyword. Pass it by position."
            )
        if not followed:
            return self.fun(*plain(args), **plain(kwargs))
        return _Call(self, args, kwargs, followed).result()


class _Call:
    """One call of a primitive with arguments that transformations follow."""

    def __init__(
        self, operation: primitive, args: Sequence[Any], kwargs: dict[str, Any], followed: list[int]
    ) -> None:
        self._operation = operation
        self._args = args
        self._kwargs = plain(kwargs)
        self._followed = followed
        innermost = max(level for k in followed for level in levels(args[k]))
        self._wanted = [k for k in followed if innermost in levels(args[k])]

    def result(self) -> Any:
        """The value, with the rules attached."""
        operation, values = self._operation, [self._args[k] for k in self._followed]
        evaluate: Function = self._evaluate
        if operation._pull is None and operation._push is None:
            raise MissingRuleError(
                f"primitive {operation.__name__} has no rule: give it one with defvjp or defjvp."
            )
        if operation._push is not None:
            evaluate = custom_jvp(evaluate)
            evaluate.defjvp(self._pushed)
        if operation._pull is None:
            return evaluate(*values)
        forward = "transpose" if operation._push is None else "through"
        reverse = custom_vjp(evaluate, forward=forward)  # type: ignore[call-overload]
        reverse.defvjp(self._forward, self._backward)
        return reverse(*values)

    def _merged(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return plain(subvals(self._args, zip(self._followed, values, strict=True)))

    def _evaluate(self, *values: Any) -> Any:
        return self._operation.fun(*self._merged(values), **self._kwargs)

    def _again(self, values: Sequence[Any]) -> Any:
        """The value for outer transformations, which make their own calls."""
        return self._operation(*self._merged(values), **self._kwargs)

    def _forward(self, *values: Any) -> tuple[Any, Any]:
        out = self._again(values)
        return out, (out, values)

    def _backward(self, residuals: Any, cotangent: Any) -> tuple[Any, ...]:
        out, values = residuals
        args = self._merged(values)
        assert self._operation._pull is not None
        pull = self._operation._pull(tuple(self._wanted), plain(out), args, self._kwargs)
        pulled = dict(zip(self._wanted, pull(plain(conjugated(cotangent))), strict=True))
        name = f"primitive {self._operation.__name__}: cotangent"
        return tuple(
            conjugated(like(pulled[k], args[k], name)) if k in pulled else None
            for k in self._followed
        )

    def _pushed(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self._again(primals)
        chosen = [plain(tangents[self._followed.index(k)]) for k in self._wanted]
        assert self._operation._push is not None
        args = self._merged(primals)
        tangent = self._operation._push(tuple(self._wanted), chosen, plain(out), args, self._kwargs)
        return out, like(tangent, out, f"primitive {self._operation.__name__}: tangent")


# ----------------------------------------------------------------------------------------- rules


def defvjp_argnums(fun: primitive, vjpmaker: Function) -> None:
    """Set the rule ``vjpmaker(argnums, ans, args, kwargs)`` for several arguments at once.

    It returns a function from the cotangent of the result to the cotangents of these arguments.

    Examples
    --------
    >>> f = primitive(lambda x, y: x * y)
    >>> defvjp_argnums(f, lambda argnums, ans, xs, _: lambda g: [g * xs[1 - k] for k in argnums])
    >>> from funcgrad.compat.autograd import grad
    >>> grad(f, (0, 1))(2.0, 3.0)
    (np.float64(3.0), np.float64(2.0))
    """
    _checked("defvjp_argnums", fun, vjpmaker)._pull = vjpmaker


def defvjp_argnum(fun: primitive, vjpmaker: Function) -> None:
    """Set the rule ``vjpmaker(argnum, ans, args, kwargs)``, which returns a function of g.

    Examples
    --------
    >>> f = primitive(lambda x, y: x * y)
    >>> defvjp_argnum(f, lambda argnum, ans, args, kwargs: lambda g: g * args[1 - argnum])
    >>> from funcgrad.compat.autograd import grad
    >>> grad(f, 1)(2.0, 3.0)
    np.float64(2.0)
    """

    def pull(argnums: Sequence[int], *call: Any) -> Function:
        rules = [vjpmaker(argnum, *call) for argnum in argnums]
        return lambda g: [rule(g) for rule in rules]

    _checked("defvjp_argnum", fun, vjpmaker)._pull = pull


def defvjp(
    fun: primitive, *vjpmakers: Function | None, argnums: Iterable[int] | None = None
) -> None:
    """Set the rules of a primitive for reverse mode, one for each argument.

    Parameters
    ----------
    fun : primitive
    *vjpmakers : callable or None
        ``vjpmaker(ans, *args, **kwargs)`` returns a function from the cotangent of the result to
        the cotangent of the argument; None means that the derivative is zero.
    argnums : iterable of int, optional
        The arguments that the rules are for; by default the first ones.

    Raises
    ------
    ArgumentError
        ``fun`` is not a primitive.
    DifferentiationError
        When a derivative is taken: an argument has no rule.
    """
    rule_of = _numbered("defvjp", fun, vjpmakers, argnums)

    def made(argnum: int, ans: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
        maker = rule_of(argnum)
        if maker is None:
            return lambda g: filled_like(args[argnum], 0.0)
        return maker(ans, *args, **kwargs)

    defvjp_argnum(fun, made)


def defjvp_argnums(fun: primitive, jvpmaker: Function) -> None:
    """Set the rule ``jvpmaker(argnums, gs, ans, args, kwargs)`` for several arguments at once.

    It returns the tangent of the result, for the tangents of these arguments.

    Examples
    --------
    >>> f = primitive(lambda x: x * x)
    >>> defjvp_argnums(f, lambda argnums, gs, ans, args, kwargs: 2 * args[0] * gs[0])
    >>> from funcgrad.compat.autograd import deriv, grad
    >>> deriv(f)(3.0), grad(f)(3.0)
    (np.float64(6.0), np.float64(6.0))
    """
    _checked("defjvp_argnums", fun, jvpmaker)._push = jvpmaker


def defjvp_argnum(fun: primitive, jvpmaker: Function) -> None:
    """Set the rule ``jvpmaker(argnum, g, ans, args, kwargs)``, which returns a tangent.

    Examples
    --------
    >>> f = primitive(lambda x, y: x * y)
    >>> defjvp_argnum(f, lambda argnum, g, ans, args, kwargs: g * args[1 - argnum])
    >>> from funcgrad.compat.autograd import deriv
    >>> deriv(f, 1)(2.0, 3.0)
    np.float64(2.0)
    """

    def push(argnums: Sequence[int], gs: Sequence[Any], *call: Any) -> Any:
        tangents = [jvpmaker(argnum, g, *call) for argnum, g in zip(argnums, gs, strict=True)]
        total = tangents[0]
        for tangent in tangents[1:]:
            total = pytrees.map(lambda x, y: x + y, total, tangent)
        return total

    _checked("defjvp_argnum", fun, jvpmaker)._push = push


def defjvp(
    fun: primitive, *jvpfuns: Function | str | None, argnums: Iterable[int] | None = None
) -> None:
    """Set the rules of a primitive for forward mode, one for each argument.

    Parameters
    ----------
    fun : primitive
    *jvpfuns : callable, "same" or None
        ``jvpfun(g, ans, *args, **kwargs)`` returns the tangent of the result for the tangent g of
        the argument. "same" is for a function that is linear in the argument: its value at g. None
        means that the derivative is zero.
    argnums : iterable of int, optional
        The arguments that the rules are for; by default the first ones.
    """
    rule_of = _numbered("defjvp", fun, jvpfuns, argnums)

    def pushed(argnum: int, g: Any, ans: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        rule = rule_of(argnum)
        if rule is None:
            return filled_like(ans, 0.0)
        if rule == "same":
            return fun(*subval(args, argnum, g), **kwargs)
        return rule(g, ans, *args, **kwargs)

    defjvp_argnum(fun, pushed)


def def_linear(fun: primitive) -> None:
    """Declare that a primitive is linear in each argument, for forward mode.

    Examples
    --------
    >>> from funcgrad.compat.autograd import deriv
    >>> f = primitive(lambda x, y: x * y)
    >>> def_linear(f)
    >>> deriv(f)(2.0, 3.0)
    np.float64(3.0)
    """
    defjvp_argnum(fun, lambda argnum, g, ans, args, kwargs: fun(*subval(args, argnum, g), **kwargs))


def notrace_primitive(f: Function) -> Function:
    """Make a function that is called with the arrays behind traced values, without derivatives.

    Examples
    --------
    >>> from funcgrad.compat.autograd import grad
    >>> rounded = notrace_primitive(round)
    >>> grad(lambda x: x * rounded(x))(2.2)
    np.float64(2.0)
    """

    def untraced(*args: object, **kwargs: object) -> Any:
        return f(*pytrees.map(getval, args), **kwargs)

    return update_wrapper(untraced, f)


def _checked(operation: str, fun: primitive, rule: Function) -> primitive:
    if not isinstance(fun, primitive):
        raise ArgumentError(
            f"{operation}: expected a primitive, got {getattr(fun, '__name__', fun)!r}. Functions"
            " of NumPy and SciPy have their derivatives; a function of yours becomes a primitive"
            " by f = primitive(function)."
        )
    check_function(f"{operation} {fun.__name__}: rule", rule)
    return fun


def _numbered(
    operation: str,
    fun: primitive,
    rules: Sequence[Function | str | None],
    argnums: Iterable[int] | None,
) -> Callable[[int], Any]:
    """A function from the position of an argument to its rule."""
    for rule in rules:
        if not (rule is None or callable(rule) or (rule == "same" and operation == "defjvp")):
            raise ArgumentError(
                f"{operation}: a rule has to be a function or None"
                f"{', or the text same' if operation == 'defjvp' else ''}, got {rule!r}."
            )
    positions = count() if argnums is None else map(index, argnums)
    numbered = dict(zip(positions, rules, strict=False))

    def rule_of(argnum: int) -> Any:
        if argnum not in numbered:
            raise MissingRuleError(
                f"primitive {fun.__name__}: {operation[3:].upper()} with respect to argument"
                f" {argnum} is not defined. Give it with {operation}; None says that it is zero."
            )
        return numbered[argnum]

    return rule_of


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
