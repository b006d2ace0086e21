"""All derivatives at once: ``jacfwd``, ``jacrev``, ``hessian``, ``hvp``.

>>> import funcgrad as fg
>>> fg.jacrev(lambda x: x**2)(fg.tensor([1.0, 2.0]))
Tensor([[2., 0.],
        [0., 4.]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import Shape, Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import Value, beside, concrete
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.structural import reshape
from funcgrad._transforms.arguments import (
    check_argnums,
    check_complex,
    check_function,
    choose,
    pair,
)
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batch import check_batch_size, vmap
from funcgrad._transforms.callables import Argnums, JacobianTransformation
from funcgrad._transforms.forward import check_pairs, jvp
from funcgrad._transforms.reverse import grad, vjp
from funcgrad._transforms.transformed import Watched
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.tensor import wrap


def _typed(transformation: Callable[..., Any]) -> JacobianTransformation:
    """Say by its type how the type of ``transformation(f)`` follows from the type of ``f``."""
    return transformation


def _basis(values: Sequence[Value], unit: complex = 1.0) -> list[Value]:
    """For each leaf, its part of all unit vectors of the whole space, stacked on axis 0.

    An imaginary unit vector is zero in real leaves.
    """
    specs = [*map(spec_of, values)]
    total, start = sum(prod(spec.shape) for spec in specs), 0
    parts = []
    for value, spec in zip(values, specs, strict=True):
        size = prod(spec.shape)
        block = np.zeros((total, size), spec.dtype)
        if spec.dtype.kind == "c" or unit == 1.0:
            block[np.arange(start, start + size), np.arange(size)] = unit
        parts.append(beside(block.reshape(total, *spec.shape), value))
        start += size
    return parts


def _over_basis(
    f: Callable[..., Any],
    values: Sequence[Value],
    unit: complex = 1.0,
    out_axes: int = 0,
    batch_size: int | None = None,
) -> Any:
    """Call a function of the leaves of a vector for each unit vector of the whole space."""
    if batch_size is None:
        return vmap(f, out_axes=out_axes)(*_basis(values, unit))
    specs = [*map(spec_of, values)]
    ends = np.cumsum([prod(spec.shape) for spec in specs])

    def at(place: Value) -> Any:  # so that memory never holds all unit vectors
        leaves = []
        for value, spec, end in zip(values, specs, ends, strict=True):
            places = beside(np.arange(end - prod(spec.shape), end).reshape(spec.shape), value)
            factor = unit if spec.dtype.kind == "c" or unit == 1.0 else 0.0
            leaves.append((wrap(places) == place).astype(spec.dtype) * spec.dtype.type(factor))
        return f(*leaves)

    return vmap(at, out_axes=out_axes, batch_size=batch_size)(
        beside(np.arange(ends[-1]), values[0])
    )


def _split(x: Value, shapes: Sequence[Shape], axis_last: bool) -> list[Any]:
    """Cut the axis of all unit vectors, the last or the first, into the leaves' own axes."""
    value, start = concrete(x), 0
    other_axes = shape_of(value)[:-1] if axis_last else shape_of(value)[1:]
    parts = []
    for shape in shapes:
        stop = start + prod(shape)
        block = wrap(value)[..., start:stop] if axis_last else wrap(value)[start:stop]
        full = (*other_axes, *shape) if axis_last else (*shape, *other_axes)
        parts.append(wrap(reshape(concrete(block), shape=full)))
        start = stop
    return parts


@_typed
@answering
def jacfwd(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Transform a function into one that returns its Jacobian, by forward mode.

    Each entry of the arguments takes one forward pass, all in one batch. Use ``jacrev`` for
    functions with more inputs than outputs.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree, or ``(pytree, aux)`` with ``has_aux``.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.
    holomorphic : bool
        For complex arguments: if true, ``f`` is holomorphic and the result is f'(z). Otherwise the
        results of ``f`` have to be real, and the result is df/dx + i df/dy, as for ``grad``.
    batch_size : int, optional
        The number of passes that run at once, as for ``vmap``: it bounds the memory.

    Returns
    -------
    callable
        It returns the tree of the result, with each leaf replaced by the tree of the argument (a
        tuple of trees if ``argnums`` is a tuple). The leaves of that tree are arrays of shape
        ``result.shape + argument.shape``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jacfwd(lambda x: x**2)(fg.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]])
    """
    check_function("jacfwd", f)
    check_argnums("jacfwd", argnums, has_aux)
    check_batch_size("jacfwd", batch_size)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = choose("jacfwd", f, args, argnums)
        specs = [spec_of(leaf) for leaf in chosen.leaves]
        primals = [wrap(leaf) for leaf in chosen.leaves]

        def tangent_and_aux(*tangents: Any) -> tuple[Any, Any]:
            def run(*leaves: Value) -> Any:
                out = f(*chosen.arguments(args, leaves), **kwargs)
                return pair("jacfwd", out) if has_aux else (out, None)

            _, tangent, aux = jvp(run, primals, tangents, has_aux=True)
            return tangent, aux

        push = WithAux(tangent_and_aux)

        def push_basis(unit: complex) -> Any:
            return _over_basis(push, primals, unit, -1, batch_size) if specs else push()

        tangent = push_basis(1.0)
        _check("jacfwd", specs, tangent, holomorphic)
        both = not holomorphic and any(spec.dtype.kind == "c" for spec in specs)
        if both:
            tangent = pytrees.map(lambda x, y: x + 1j * y, tangent, push_basis(1j))

        def in_tree(leaf: Value) -> Any:
            parts = _split(leaf, [spec.shape for spec in specs], axis_last=True)
            if both:
                pairs = zip(parts, specs, strict=True)
                parts = [p if spec.dtype.kind == "c" else p.real for p, spec in pairs]
            return chosen.result(parts)

        result = pytrees.map(in_tree, tangent)
        if not has_aux or batch_size is None:
            return (result, push.aux) if has_aux else result
        out = f(*chosen.arguments(args, primals), **kwargs)
        return result, pair("jacfwd", out)[1]  # not from inside of the loop over blocks

    return Watched(jacobian, "jacfwd", (jacfwd, (f, argnums, has_aux, holomorphic, batch_size)))


@_typed
@answering
def jacrev(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Transform a function into one that returns its Jacobian, by reverse mode.

    Each entry of the result takes one reverse pass, all in one batch. Use ``jacfwd`` for functions
    with more outputs than inputs.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree, or ``(pytree, aux)`` with ``has_aux``.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.
    holomorphic : bool
        For complex arguments: if true, ``f`` is holomorphic and the result is f'(z). Otherwise the
        results of ``f`` have to be real, and the result is df/dx + i df/dy, as for ``grad``.
    batch_size : int, optional
        The number of passes that run at once, as for ``vmap``: it bounds the memory.

    Returns
    -------
    callable
        It returns a Jacobian with the trees and shapes that ``jacfwd`` returns.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jacrev(lambda p: p["a"] * p["b"])({"a": fg.tensor([1.0, 2.0]), "b": 3.0})
    {'a': Tensor([[3., 0.],
            [0., 3.]]), 'b': Tensor([1., 2.])}
    """
    check_function("jacrev", f)
    check_argnums("jacrev", argnums, has_aux)
    check_batch_size("jacrev", batch_size)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = choose("jacrev", f, args, argnums)
        primals = [wrap(leaf) for leaf in chosen.leaves]

        def run(*leaves: Value) -> Any:
            return f(*chosen.arguments(args, leaves), **kwargs)

        out, pullback, *aux = vjp(run, *primals, has_aux=has_aux)
        specs = [spec_of(leaf) for leaf in chosen.leaves]
        _check("jacrev", specs, out, holomorphic)
        leaves, structure = pytrees.flatten(out)
        outputs = [spec_of(leaf) for leaf in leaves]

        def pull(*cts: Any) -> Any:
            return pullback(pytrees.unflatten(structure, cts))

        # By argument leaf: the rows for all outputs, which are cut into the results' leaves.
        rows = _over_basis(pull, leaves, batch_size=batch_size) if outputs else ()
        both = not holomorphic and any(spec.dtype.kind == "c" for spec in outputs)
        if both:  # the arguments are real
            imaginary = _over_basis(pull, leaves, 1j, batch_size=batch_size)
            rows = pytrees.map(lambda x, y: x + 1j * y, rows, imaginary)
        elif holomorphic:
            rows = pytrees.map(lambda row: row.conj(), rows)
        columns = [_split(row, [out.shape for out in outputs], axis_last=False) for row in rows]

        def in_tree(position: int, spec: Spec) -> Any:
            parts = [column[position] for column in columns]
            return chosen.result([p.real if both and spec.dtype.kind != "c" else p for p in parts])

        per_output = [in_tree(position, spec) for position, spec in enumerate(outputs)]
        result = pytrees.unflatten(structure, per_output)
        return (result, aux[0]) if has_aux else result

    return Watched(jacobian, "jacrev", (jacrev, (f, argnums, has_aux, holomorphic, batch_size)))


@_typed
@answering
def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Transform a function into one that returns its Hessian, the matrix of second derivatives.

    It is ``jacfwd`` of ``jacrev``. For products of the Hessian with vectors, ``hvp`` is cheaper.

    Parameters
    ----------
    f : callable
        Takes pytrees of real arrays and returns a pytree of real arrays, usually one scalar, or
        ``(pytree, aux)`` with ``has_aux``. With ``holomorphic`` all arrays are complex.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.
    holomorphic : bool
        If true, ``f`` is holomorphic and the result is f''(z).
    batch_size : int, optional
        The number of rows that are computed at once, as for ``vmap``: it bounds the memory.

    Returns
    -------
    callable
        It returns an array of shape ``x.shape + x.shape`` if the argument is an array and the
        result a scalar; in general, the trees that ``jacfwd(jacrev(f))`` returns.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.hessian(lambda x: x[0] ** 2 * x[1])(fg.tensor([1.0, 2.0]))
    Tensor([[4., 2.],
            [2., 0.]])
    """
    check_function("hessian", f)
    check_argnums("hessian", argnums, has_aux)
    check_batch_size("hessian", batch_size)
    rows = jacrev(f, argnums, has_aux, holomorphic)
    both = jacfwd(rows, argnums, has_aux, holomorphic, batch_size)
    return Watched(both, "hessian", (hessian, (f, argnums, has_aux, holomorphic, batch_size)))


@watched
@answering
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Multiply the Hessian of a scalar function by a vector, without forming the Hessian.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a real scalar.
    primals : tuple or list of pytrees
    tangents : tuple or list of pytrees
        The vector, with the trees, shapes and dtypes of the primals.

    Returns
    -------
    pytree
        Like the primal if there is one, else a tuple with an entry for each primal.

    Notes
    -----
    Forward mode over reverse mode costs as much as a few gradients (Pearlmutter, "Fast exact
    multiplication by the Hessian", Neural Computation 6, 1994).

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.hvp(lambda x: x[0] ** 2 * x[1], (fg.tensor([1.0, 2.0]),), (fg.tensor([1.0, 0.0]),))
    Tensor([4., 2.])
    """
    check_function("hvp", f)
    check_pairs("hvp", primals, tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums), primals, tangents)[1]


def _check(operation: str, specs: Sequence[Spec], out: Any, holomorphic: bool) -> None:
    """Check that these results can be differentiated with respect to arguments of these specs."""
    is_complex = any(spec.dtype.kind == "c" for spec in specs)
    leaves, structure = pytrees.flatten(out)
    dtypes = [spec.dtype for spec in specs] + [dtype_of(leaf) for leaf in leaves]
    if holomorphic:
        check_complex(operation, dtypes)
    for leaf, path in zip(leaves, structure.paths(), strict=True):
        dtype = dtype_of(leaf)
        if not is_inexact(dtype):
            raise DifferentiationError(
                f"{operation}: the function's result{path} is of dtype {dtype}, whose derivative is"
                " zero everywhere."
            )
        if is_complex and dtype.kind == "c" and not holomorphic:
            raise DifferentiationError(
                f"{operation}: argument and result{path} are complex. Say holomorphic=True if the"
                " function is, for f'(z); otherwise differentiate real and imaginary parts."
            )


jacobian = jacrev
"""Another name of ``jacrev``, as in JAX and autograd."""
