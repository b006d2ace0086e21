"""Reverse mode: ``grad``, ``value_and_grad``, ``vjp``.

>>> import funcgrad as fg
>>> fg.grad(lambda x: x**3)(2.0)
Tensor(12.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Concatenate, Literal, Never, ParamSpec, overload

from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, spec_of
from funcgrad._core.trace import begin_level, beside
from funcgrad._hints.lookup import answering, decorating
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import (
    check_argnums,
    check_complex,
    check_function,
    choose,
    pair,
    released,
    scalar,
    unwrap,
    values_of,
)
from funcgrad._transforms.callables import (
    Argnums,
    ArrayT,
    Auxiliary,
    Gradient,
    GradientAndAux,
    GradientAndAuxMaker,
    GradientMaker,
    Gradients,
    GradientsMaker,
    Primal,
    Pullback,
    Result,
    Second,
    SecondGradient,
    SecondGradientMaker,
    ValueAndGradient,
    ValueAndGradientMaker,
    ValueAndGradients,
    ValueAndGradientsMaker,
    ValueAndSecondGradient,
    ValueAndSecondGradientMaker,
    ValueGradientAndAux,
    ValueGradientAndAuxMaker,
)
from funcgrad._transforms.linear import pullback
from funcgrad._transforms.masked import fit_cotangent
from funcgrad._transforms.probe import check_names, collect_probes
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.transformed import Watched
from funcgrad.tensor.tensor import Tensor, wrap

P = ParamSpec("P")


@overload
def value_and_grad(
    f: Callable[Concatenate[Primal, P], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndGradient[Primal, P]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[Primal, P], tuple[Any, Auxiliary]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueGradientAndAux[Primal, P, Auxiliary]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[Primal, Second, P], Any],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndSecondGradient[Primal, Second, P]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[Primal, Second, P], Any],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndGradients[Primal, Second, P]: ...
@overload
def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[..., Any]: ...
@overload
def value_and_grad(
    *,
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndGradientMaker: ...
@overload
def value_and_grad(
    *,
    argnums: Literal[0] = 0,
    has_aux: Literal[True],
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueGradientAndAuxMaker: ...
@overload
def value_and_grad(
    *,
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndSecondGradientMaker: ...
@overload
def value_and_grad(
    *,
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> ValueAndGradientsMaker: ...
@overload
def value_and_grad(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@decorating
def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Transform a scalar function into one that returns its value and its gradient.

    One reverse pass computes both. Training loops use it to log the loss beside the gradient.

    Parameters
    ----------
    f : callable
        Returns a real scalar, or ``(scalar, aux)`` with ``has_aux``. Its arguments are pytrees.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to. All leaves of these
        arguments have a floating-point or complex dtype.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.
    probes : sequence of str
        Names of intermediate values that ``f`` marks by ``fg.probe``; their gradients are returned
        as well.
    holomorphic : bool
        If true, return the complex derivative f'(z) of a holomorphic function. ``f`` then takes and
        returns complex numbers.

    Returns
    -------
    callable
        A function with the signature of ``f``. It returns ``(value, gradient)``, or
        ``((value, aux), gradient)`` with ``has_aux``. The gradient has the tree, the shapes and the
        dtypes of the argument. If ``argnums`` is a tuple, it is a tuple of gradients. With probes
        the gradient is the pair ``(gradient, {name: gradient with respect to the marked value})``.

    Raises
    ------
    DifferentiationError
        ``f`` does not return a real scalar, or an argument has an integer or boolean dtype. With
        ``holomorphic``: an argument or the scalar is not complex.

    Notes
    -----
    The gradient with respect to a complex ``z = x + iy`` is dL/dx + i dL/dy, as in PyTorch: a step
    along minus the gradient descends. JAX returns the conjugate. With ``holomorphic`` both return
    f'(z). Whether ``f`` is holomorphic is not checked: the result is du/dx - i du/dy of its real
    part u, which equals f' by the Cauchy-Riemann equations.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
    (Tensor(6.0), (Tensor(3.0), Tensor(2.0)))
    >>> fg.value_and_grad(lambda z: z * z, holomorphic=True)(1.0 + 2.0j)
    (Tensor((-3+4j)), Tensor((2+4j)))
    """
    both = _gradient_function("value_and_grad", f, argnums, has_aux, probes, holomorphic)
    made = value_and_grad, (f, argnums, has_aux, probes, holomorphic)
    return Watched(both, "value_and_grad", made)


@overload
def grad(
    f: Callable[Concatenate[Primal, P], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> Gradient[Primal, P]: ...
@overload
def grad(
    f: Callable[Concatenate[Primal, P], tuple[Any, Auxiliary]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> GradientAndAux[Primal, P, Auxiliary]: ...
@overload
def grad(
    f: Callable[Concatenate[Primal, Second, P], Any],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> SecondGradient[Primal, Second, P]: ...
@overload
def grad(
    f: Callable[Concatenate[Primal, Second, P], Any],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> Gradients[Primal, Second, P]: ...
@overload
def grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[..., Any]: ...
@overload
def grad(
    *,
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> GradientMaker: ...
@overload
def grad(
    *,
    argnums: Literal[0] = 0,
    has_aux: Literal[True],
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> GradientAndAuxMaker: ...
@overload
def grad(
    *,
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> SecondGradientMaker: ...
@overload
def grad(
    *,
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    probes: tuple[()] = (),
    holomorphic: bool = False,
) -> GradientsMaker: ...
@overload
def grad(
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@decorating
def grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    probes: Sequence[str] = (),
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Transform a scalar function into one that returns its gradient.

    The gradient has the tree of the argument: the gradient with respect to a dict of parameters is
    a dict. ``f`` is ordinary Python; loops and ``if`` are followed as they run.

    Parameters
    ----------
    f : callable
        Returns a real scalar, or ``(scalar, aux)`` with ``has_aux``. Its arguments are pytrees.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to. All leaves of these
        arguments have a floating-point or complex dtype.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.
    probes : sequence of str
        Names of intermediate values that ``f`` marks by ``fg.probe``; their gradients are returned
        as well.
    holomorphic : bool
        If true, return the complex derivative f'(z) of a holomorphic function. ``f`` then takes and
        returns complex numbers.

    Returns
    -------
    callable
        A function with the signature of ``f``. It returns the gradient, with the tree, the shapes
        and the dtypes of the argument (a tuple of gradients if ``argnums`` is a tuple), or
        ``(gradient, aux)`` with ``has_aux``. With probes the gradient is the pair
        ``(gradient, {name: gradient with respect to the marked value})``.

    Raises
    ------
    DifferentiationError
        ``f`` does not return a real scalar, or an argument has an integer or boolean dtype. With
        ``holomorphic``: an argument or the scalar is not complex.

    See Also
    --------
    value_and_grad : also returns the value; its notes explain the convention for complex numbers.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda p: p["a"] * p["b"] ** 2)({"a": 2.0, "b": 3.0})
    {'a': Tensor(9.0), 'b': Tensor(12.0)}
    """
    both = _gradient_function("grad", f, argnums, has_aux, probes, holomorphic)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return Watched(gradient, "grad", (grad, (f, argnums, has_aux, probes, holomorphic)))


def _gradient_function(
    operation: str,
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    names: Sequence[str],
    holomorphic: bool,
) -> Callable[..., Any]:
    check_function(operation, f)
    check_argnums(operation, argnums, has_aux)
    check_names(operation, names)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        chosen = choose(operation, f, args, argnums)
        with begin_level() as level:
            recorder = Recorder(level)
            try:
                followed = [recorder.follow(leaf) for leaf in chosen.leaves]
                with collect_probes(recorder, names) if names else nullcontext() as probes:
                    out = f(*chosen.arguments(args, followed), **kwargs)
            finally:
                record = recorder.close()
            out, aux = pair(operation, out) if has_aux else (out, None)
            index = recorder.index_of(out)
            value = recorder.inner(unwrap(out, operation))
            scalar(operation, value, holomorphic)
            if holomorphic:
                check_complex(operation, [dtype_of(x) for x in (*chosen.leaves, value)])
            cts = record.pull_once(index, beside(dtype_of(value).type(1), value))
        grads = chosen.result(
            [
                wrap(fit_cotangent(ct, x))
                for ct, x in zip(cts, chosen.leaves, strict=False)  # the probes' come after them
            ]
        )
        if probes is not None:
            grads = grads, probes.gradients(cts)
        if holomorphic:  # df = conj(cotangent of 1) dz
            grads = pytrees.map(lambda gradient: gradient.conj(), grads)
        result = wrap(value)
        return ((result, released(recorder, aux)) if has_aux else result), grads

    return value_and_gradient


@overload
def vjp(  # of a function without types
    f: Callable[..., Never], *primals: object, has_aux: Literal[False] = False
) -> tuple[Any, Pullback[Any]]: ...
@overload
def vjp(  # type: ignore[overload-overlap]
    f: Callable[..., ArrayT], *primals: object, has_aux: Literal[False] = False
) -> tuple[Tensor, Pullback[ArrayT]]: ...
@overload
def vjp(
    f: Callable[..., Result], *primals: object, has_aux: Literal[False] = False
) -> tuple[Result, Pullback[Result]]: ...
@overload
def vjp(  # type: ignore[overload-overlap]
    f: Callable[..., tuple[ArrayT, Auxiliary]], *primals: object, has_aux: Literal[True]
) -> tuple[Tensor, Pullback[ArrayT], Auxiliary]: ...
@overload
def vjp(
    f: Callable[..., tuple[Result, Auxiliary]], *primals: object, has_aux: Literal[True]
) -> tuple[Result, Pullback[Result], Auxiliary]: ...
@overload
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool) -> tuple[Any, ...]: ...
@watched
@answering
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluate a function, and return its pullback as well.

    The pullback computes vector-Jacobian products: from a cotangent v of the result, v^T J for each
    argument. ``grad`` is the pullback of a scalar function applied to 1.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a pytree, or ``(pytree, aux)`` with ``has_aux``.
    *primals : pytrees
        Their leaves have a floating-point or complex dtype.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.

    Returns
    -------
    out : pytree
        ``f(*primals)``.
    pullback : callable
        Takes a cotangent with the tree, shapes and dtypes of ``out``, and returns a tuple with the
        cotangent of each primal. It may be called any number of times, under any transformation,
        from any thread. The recorded values are freed with the pullback. It is a pytree, whose
        leaves are the values that it reads: pass it through ``jit``, batch it by ``vmap``, save it.
    aux : object
        Only with ``has_aux``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> out, pullback = fg.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> out, pullback(1.0)
    (Tensor(6.0), (Tensor(3.0), Tensor(2.0)))
    """
    chosen = choose("vjp", f, primals, tuple(range(len(primals))))
    recorder, record, out = Recorder.run(lambda xs: f(*chosen.trees(xs)), chosen.leaves)
    out, aux = pair("vjp", out) if has_aux else (out, None)
    leaves, structure = pytrees.flatten(out)
    values = values_of("vjp", leaves, structure, lambda: "the function's result")
    indices = [recorder.index_of(value) for value in values]
    inner = [recorder.inner(value) for value in values]
    result = pytrees.unflatten(structure, [wrap(value) for value in inner])
    linear = pullback("pullback", record, indices, structure, [*map(spec_of, inner)], chosen)
    return (result, linear, released(recorder, aux)) if has_aux else (result, linear)
