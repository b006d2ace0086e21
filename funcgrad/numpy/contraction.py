"""Products that sum: ``matmul`` and similar functions, with NumPy's names and signatures.

``vdot``, ``vecdot`` and ``vecmat`` conjugate their first argument, as in NumPy.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from funcgrad._core.specs import dtype_of, normalize_axis, shape_of
from funcgrad._core.structure.structures import LETTERS
from funcgrad._core.trace import Value, bind
from funcgrad._core.users_values import ArrayLike, explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import einsum as es
from funcgrad._primitives import elementwise as ew
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.contraction import contract
from funcgrad._primitives.contraction import matmul as matmul_primitive
from funcgrad._primitives.structural import flat, move_axis, reshape, roll
from funcgrad.errors import ShapeError
from funcgrad.numpy.options import integer, integers, is_integer, sequence, strong
from funcgrad.tensor.tensor import Tensor, apply2, wrap


def matmul(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Matrix product of the last two axes; the axes before them broadcast.

    Parameters
    ----------
    x1 : array_like, shape (..., n, k) or (k,)
    x2 : array_like, shape (..., k, m) or (k,)

    Returns
    -------
    Tensor
        An array of shape (..., n, m); for a vector the axis is missing.

    Raises
    ------
    ShapeError
        The inner sizes differ, or an argument is 0-d.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    Tensor([3., 7.])
    """
    return apply2(matmul_primitive, x1, x2)


def dot(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Product over the last axis of ``a`` and the second-to-last (or only) axis of ``b``.

    Parameters
    ----------
    a, b : array_like
        With a scalar it is the ordinary product.

    Returns
    -------
    Tensor
        The other axes of ``a``, then the other axes of ``b``: nothing broadcasts, unlike in
        ``matmul``.

    Raises
    ------
    ShapeError
        The sizes of the two axes differ.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.dot([1.0, 2.0], [3.0, 4.0])
    Tensor(11.0)
    """
    x, y = strong(operand(a, "dot")), strong(operand(b, "dot"))
    x_rank, y_rank = len(shape_of(x)), len(shape_of(y))
    if not x_rank or not y_rank:
        return apply2(ew.multiply, x, y)
    summed = max(y_rank - 2, 0)
    if (y_rank == 1 or max(x_rank, y_rank) == 2) and shape_of(x)[-1] == shape_of(y)[summed]:
        return apply2(matmul_primitive, x, y)
    return _contract("dot", x, y, (x_rank - 1,), (summed,))


def inner(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Product over the last axes of both.

    Parameters
    ----------
    a, b : array_like
        With last axes of equal size. With a scalar it is the ordinary product.

    Returns
    -------
    Tensor
        The other axes of ``a``, then the other axes of ``b``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.inner([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
    Tensor([21., 43.])
    """
    x, y = strong(operand(a, "inner")), strong(operand(b, "inner"))
    x_rank, y_rank = len(shape_of(x)), len(shape_of(y))
    if not x_rank or not y_rank:
        return apply2(ew.multiply, x, y)
    return _contract("inner", x, y, (x_rank - 1,), (y_rank - 1,))


@answering
def outer(a: ArrayLike, b: ArrayLike) -> Tensor:
    """All products of elements of ``a`` and ``b``, which are flattened first.

    Returns
    -------
    Tensor
        Shape (a.size, b.size).

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.outer([1.0, 2.0], [3.0, 4.0])
    Tensor([[3., 4.],
            [6., 8.]])
    """
    return _contract("outer", _flat(a, "outer"), _flat(b, "outer"), (), ())


def vdot(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The scalar product of all elements, with ``a`` conjugated.

    Parameters
    ----------
    a, b : array_like
        Arrays of equal size; they are flattened first.

    Returns
    -------
    Tensor
        0-d.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.vdot([1 + 2j, 3], [1j, 1])
    Tensor((5+1j))
    """
    x, y = _conjugated(_flat(a, "vdot")), _flat(b, "vdot")
    if shape_of(x) != shape_of(y):
        sizes = f"{shape_of(x)[0]} and {shape_of(y)[0]}"
        raise ShapeError(f"vdot: the arguments have different numbers of elements, {sizes}.")
    return apply2(matmul_primitive, wrap(x), wrap(y))


@answering
def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Tensor:
    """Product over several axes.

    Parameters
    ----------
    a, b : array_like
    axes : int or pair of (int or sequence of int)
        An integer N sums over the last N axes of ``a`` and the first N of ``b``. A pair names the
        axes of ``a`` and the corresponding axes of ``b``.

    Returns
    -------
    Tensor
        The other axes of ``a``, then the other axes of ``b``.

    Raises
    ------
    ShapeError
        Two axes to sum over differ in size.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.tensordot(fnp.matmul([[1.0], [2.0]], [[1.0, 3.0]]), [[1.0, 0.0], [0.0, 1.0]])
    Tensor(7.0)
    """
    x, y = operand(a, "tensordot"), operand(b, "tensordot")
    x_rank, y_rank = len(shape_of(x)), len(shape_of(y))
    if not is_integer(axes):
        pair = sequence(axes, "tensordot", "axes")
        if len(pair) != 2:
            raise ShapeError(f"tensordot: axes is an integer or a pair, not {axes!r}.")
        first, second = (integers(numbers, "tensordot", "axes") for numbers in pair)
    else:
        count = integer(axes, "tensordot", "axes")
        if not 0 <= count <= min(x_rank, y_rank):
            raise ShapeError(
                f"tensordot: axes={count} is not possible for arguments of the shapes {shape_of(x)}"
                f" and {shape_of(y)}; it has to be in 0 .. {min(x_rank, y_rank)}."
            )
        first, second = tuple(range(x_rank - count, x_rank)), tuple(range(count))
    if len(first) != len(second):
        raise ShapeError(f"tensordot: axes={axes!r} names {len(first)} and {len(second)} axes.")
    return _contract(
        "tensordot",
        x,
        y,
        tuple([normalize_axis(axis, x_rank, "tensordot") for axis in first]),
        tuple([normalize_axis(axis, y_rank, "tensordot") for axis in second]),
    )


@answering
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: SupportsIndex = -1) -> Tensor:
    """Scalar products along an axis; the other axes broadcast, and ``x1`` is conjugated.

    Parameters
    ----------
    x1, x2 : array_like
    axis : int
        The axis of the vectors, in both arguments.

    Returns
    -------
    Tensor
        The broadcast shape, without that axis.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
    Tensor([21., 43.])
    """
    x, y = (_last(operand(array, "vecdot"), axis, "vecdot") for array in (x1, x2))
    return _broadcast("vecdot", _conjugated(x), ".i", y, ".i", ".")


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Products of matrices with vectors; the other axes broadcast.

    Parameters
    ----------
    x1 : array_like, shape (..., n, k)
    x2 : array_like, shape (..., k)

    Returns
    -------
    Tensor
        Shape (..., n).

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.matvec([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]])
    Tensor([[1., 3.],
            [2., 4.]])
    """
    x, y = operand(x1, "matvec"), operand(x2, "matvec")
    if len(shape_of(y)) == 1 and shape_of(x)[1:][-1:] == shape_of(y):
        return apply2(matmul_primitive, wrap(x), wrap(y))
    return _broadcast("matvec", x, ".ij", y, ".j", ".i")


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Products of vectors, which are conjugated, with matrices; the other axes broadcast.

    Parameters
    ----------
    x1 : array_like, shape (..., k)
    x2 : array_like, shape (..., k, m)

    Returns
    -------
    Tensor
        Shape (..., m).

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.vecmat([1.0, 1j], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([1.-3.j, 2.-4.j])
    """
    x, y = _conjugated(operand(x1, "vecmat")), operand(x2, "vecmat")
    if len(shape_of(x)) == 1 and shape_of(y)[:-1][-1:] == shape_of(x):
        return apply2(matmul_primitive, wrap(x), wrap(y))
    return _broadcast("vecmat", x, ".i", y, ".ij", ".j")


def kron(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The Kronecker product: copies of ``b``, each multiplied by an element of ``a``.

    Parameters
    ----------
    a, b : array_like
        The array with fewer axes gets axes of size 1 in front.

    Returns
    -------
    Tensor
        Each size is the product of the two arrays' sizes.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.kron([1.0, 10.0], [1.0, 2.0])
    Tensor([ 1.,  2., 10., 20.])
    """
    x, y = operand(a, "kron"), operand(b, "kron")
    shapes = shape_of(x), shape_of(y)
    rank = max(map(len, shapes))
    first, second = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    blocks = reshape(x, shape=tuple([n for size in first for n in (size, 1)]))
    inside = reshape(y, shape=tuple([n for size in second for n in (1, size)]))
    products = ew.multiply(blocks, inside)
    return wrap(reshape(products, shape=tuple([n * m for n, m in zip(first, second, strict=True)])))


@answering
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: SupportsIndex = -1,
    axisb: SupportsIndex = -1,
    axisc: SupportsIndex = -1,
    axis: SupportsIndex | None = None,
) -> Tensor:
    """The vector product of vectors with three components; the other axes broadcast.

    Parameters
    ----------
    a, b : array_like
    axisa, axisb, axisc : int
        The components' axis in ``a``, in ``b`` and in the result.
    axis : int, optional
        The components' axis in all three.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axes do not have the size 3. (Vectors in the plane are not extended.)

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    Tensor([0., 0., 1.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x = _last(operand(a, "cross"), axisa, "cross")
    y = _last(operand(b, "cross"), axisb, "cross")
    if shape_of(x)[-1:] != (3,) or shape_of(y)[-1:] != (3,):
        raise ShapeError(
            "cross: the axes of the components have to be of size 3; the shapes, with that axis"
            f" last, are {shape_of(x)} and {shape_of(y)}."
        )
    # Component i+1 of the rolled difference is a[i+1] b[i+2] - a[i+2] b[i+1].
    ahead = ew.multiply(x, _rolled(y))
    behind = ew.multiply(_rolled(x), y)
    product = _rolled(apply2(ew.subtract, wrap(ahead), wrap(behind)))
    rank = len(shape_of(product))
    return wrap(move_axis(product, rank - 1, normalize_axis(axisc, rank, "cross")))


# Conversion of arguments for the primitives.


def _flat(x: ArrayLike, name: str) -> Value:
    value = operand(x, name)
    return value if len(shape_of(value)) == 1 else flat(value)


def _conjugated(x: Value) -> Value:
    return conj(x) if dtype_of(x).kind == "c" else x


def _last(x: Value, axis: SupportsIndex, name: str) -> Value:
    """Move an axis to the end."""
    rank = len(shape_of(x))
    return move_axis(x, normalize_axis(axis, rank, name), rank - 1)


def _rolled(x: Value) -> Value:
    return roll(x, shift=(-1,), axis=(len(shape_of(x)) - 1,))


def _contract(
    name: str, x: Value, y: Value, first: tuple[int, ...], second: tuple[int, ...]
) -> Tensor:
    """Sum over pairs of axes; the remaining axes do not broadcast."""
    for i, j in zip(first, second, strict=True):
        if shape_of(x)[i] != shape_of(y)[j]:
            raise ShapeError(
                f"{name}: axis {i} of the first argument, of shape {shape_of(x)}, and axis {j} of"
                f" the second, of shape {shape_of(y)}, differ in size."
            )
    x_rank, y_rank = len(shape_of(x)), len(shape_of(y))
    if x_rank + y_rank - len(first) > len(LETTERS):
        raise ShapeError(f"{name}: the arguments have more than 52 axes together.")
    letters = list(LETTERS[:x_rank])
    others = list(LETTERS[x_rank : x_rank + y_rank])
    for i, j in zip(first, second, strict=True):
        others[j] = letters[i]
    out = [letter for i, letter in enumerate(letters) if i not in first]
    out += [letter for j, letter in enumerate(others) if j not in second]
    subscripts = f"{''.join(letters)},{''.join(others)}->{''.join(out)}"
    return wrap(bind(contract, (x, y), {"subscripts": subscripts}))


def _broadcast(name: str, x: Value, first: str, y: Value, second: str, out: str) -> Tensor:
    """A product whose last axes are named by letters; the axes before them broadcast."""
    cores = []
    for value, term in ((x, first), (y, second)):
        shape, count = shape_of(value), len(term) - 1
        if len(shape) < count:
            raise ShapeError(
                f"{name}: an argument of shape {shape} has too few axes: it needs {count}."
            )
        cores.append(dict(zip(term[1:], shape[len(shape) - count :], strict=True)))
    shared = next(letter for letter in cores[0] if letter in cores[1])
    if cores[0][shared] != cores[1][shared]:
        raise ShapeError(
            f"{name}: the axes to sum over have the sizes {cores[0][shared]} and"
            f" {cores[1][shared]}; the shapes are {shape_of(x)} and {shape_of(y)}."
        )
    terms = [term.replace(".", "...") for term in (first, second, out)]
    subscripts = (f"{terms[0]},{terms[1]}->{terms[2]}",)
    try:
        inputs, output = es.parse(subscripts, (shape_of(x), shape_of(y)))
        return wrap(es.einsum((x, y), inputs, output))
    except ShapeError as error:
        reason = ValueError("The axes before the vectors and matrices do not broadcast.")
        raise explained(reason, name, x, y) from error
